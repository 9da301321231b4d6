// Thousands of calls that no sane host makes: each must return an error or success, and none may end the process.
//
// Randomizes what a plugin can validate: struct sizes, null fields, numbers, program bytes. Pointers are valid or null,
// because no plugin can detect an invalid one. BACKPLANE_CONFORM_ROUNDS multiplies the number of calls.
#include <cstdlib>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "conformance/kit/programs_binary.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Bits() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t Below(size_t n) { return static_cast<size_t>(Bits() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[Below(values.size())];
  }
  // Returns a number near a limit, a small one, or any.
  int64_t Number() {
    static const std::vector<int64_t> kEdges = {0,
                                                1,
                                                -1,
                                                2,
                                                7,
                                                8,
                                                int64_t{1} << 31,
                                                -(int64_t{1} << 31),
                                                int64_t{1} << 32,
                                                int64_t{1} << 40,
                                                int64_t{1} << 61,
                                                int64_t{1} << 62,
                                                std::numeric_limits<int64_t>::max(),
                                                std::numeric_limits<int64_t>::min(),
                                                std::numeric_limits<int64_t>::max() - 7};
    switch (Below(4)) {
      case 0:
        return static_cast<int64_t>(static_cast<uint64_t>(Of(kEdges)) + Below(3));  // may wrap around
      case 1:
        return static_cast<int64_t>(Bits());
      default:
        return static_cast<int64_t>(Below(20)) - 2;
    }
  }

 private:
  uint64_t state_;
};

int Rounds(int once) {
  int factor = 1;
  const char* set = std::getenv("BACKPLANE_CONFORM_ROUNDS");
  if (set == nullptr || !absl::SimpleAtoi(set, &factor) || factor < 1 || factor > 100000) factor = 1;
  return once * factor;
}

using Function = PJRT_Error* (*)(void*);

// Functions that return nothing, that destroy objects used by other calls, or that may wait for ever.
bool LeftOut(absl::string_view name) {
  return name == "PJRT_Error_Destroy" || name == "PJRT_Error_Message" || name == "PJRT_Plugin_Initialize" ||
         name == "PJRT_Event_Await" || name == "PJRT_Client_Create" || name == "PJRT_Client_Destroy" ||
         name == "PJRT_Error_GetCode" || name == "PJRT_Error_ForEachPayload";
}

// Calls functions by name and position in the table, with guard bytes behind the arguments.
struct Block {
  static constexpr size_t kArgs = 512, kGuard = 256;
  alignas(16) unsigned char bytes[kArgs + kGuard] = {};

  void Set(size_t at, const void* value, size_t size) { std::memcpy(bytes + at, value, size); }
  void SetSize(size_t size) { Set(0, &size, sizeof(size)); }
};

// Requires a message if the outcome is an error. Leaks created objects, because the process ends soon.
Err Call(Kit& k, const host::Slot& slot, Block* block) {
  void* function = *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(&k.api()) + slot.offset);
  if (function == nullptr) return {};
  std::memset(block->bytes + Block::kArgs, 0xC5, Block::kGuard);
  if (k.setup().last_call != nullptr) k.setup().last_call->Enter(slot.name);
  PJRT_Error* error = reinterpret_cast<Function>(function)(block->bytes);
  if (k.setup().last_call != nullptr) k.setup().last_call->Leave();
  for (size_t i = 0; i < Block::kGuard; ++i)
    k.Require(block->bytes[Block::kArgs + i] == 0xC5, slot.name, ": wrote past the end of its arguments");
  const Err e = k.Take(error);
  k.Require(e.ok() || !e.message.empty(), slot.name, ": ", CodeName(e.code), " without a message");
  return e;
}

// The plugin must still work.
void StillWorks(Kit& k, absl::string_view after) {
  k.Require(RunF32(k, Compile(k, kAdd), {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}), "after ",
            after, " nothing works any more");
}

// Calls every function with every size of its struct up to one larger than any, with all fields null.
void StructSizes(Kit& k) {
  k.client();
  int calls = 0, refused = 0;
  for (const host::Slot& slot : host::AllSlots()) {
    if (slot.offset + sizeof(void*) > k.api().struct_size || LeftOut(slot.name)) continue;
    for (size_t size = 0; size <= 256; size += size < 24 ? 1 : 8) {
      Block block;
      block.SetSize(size);
      refused += !Call(k, slot, &block).ok();
      ++calls;
    }
    for (size_t size : {size_t{512}, size_t{1} << 20, std::numeric_limits<size_t>::max()}) {
      // The struct of a newer host may have any size; the plugin reads only the part that it knows.
      Block block;
      block.SetSize(size);
      refused += !Call(k, slot, &block).ok();
      ++calls;
    }
  }
  StillWorks(k, "structs of all sizes");
  k.Note(absl::StrCat(calls, " calls, ", refused, " refused"));
}

// Calls every function of an object on that object, with all other fields null or zero.
void NullFields(Kit& k) {
  PJRT_Client* client = k.client();
  PJRT_Device* device = k.device();
  PJRT_Buffer* buffer = Put<float>(k, {4}, {1, 2, 3, 4});
  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  const std::vector<std::pair<std::string, const void*>> objects = {
      {"PJRT_Client_", client},           {"PJRT_DeviceDescription_", GetDescription(k, device)},
      {"PJRT_Device_", device},           {"PJRT_Memory_", DefaultMemory(k, device)},
      {"PJRT_Buffer_", buffer},           {"PJRT_Event_", ReadyEvent(k, buffer)},
      {"PJRT_LoadedExecutable_", loaded}, {"PJRT_Executable_", GetExecutable(k, loaded)}};
  int calls = 0;
  for (const host::Slot& slot : host::AllSlots()) {
    const absl::string_view name = slot.name;
    if (slot.offset + sizeof(void*) > k.api().struct_size || LeftOut(name) || absl::EndsWith(name, "_Destroy") ||
        absl::EndsWith(name, "_Delete") || absl::StrContains(name, "Donate"))
      continue;
    for (const auto& [prefix, object] : objects) {
      if (!absl::StartsWith(name, prefix)) continue;
      Block block;
      block.SetSize(256);
      block.Set(16, &object, sizeof(object));
      Call(k, slot, &block);
      ++calls;
    }
  }
  StillWorks(k, "calls with null fields");
  k.Note(absl::StrCat(calls, " calls"));
}

std::vector<int64_t> RandomDims(Random& random) {
  std::vector<int64_t> dims(random.Below(random.OneIn(20) ? 40 : 5));
  for (int64_t& d : dims) d = random.Number();
  return dims;
}

// Returns the bytes of an array of these dims with 16 bytes per element, or -1 if the dims are invalid and the plugin
// must not read the host's memory.
int64_t BytesAtMost(const std::vector<int64_t>& dims) {
  __int128 bytes = 16;
  for (int64_t d : dims) {
    if (d < 0) return -1;
    bytes *= d;
    if (bytes > (int64_t{1} << 50)) bytes = int64_t{1} << 50;
  }
  return static_cast<int64_t>(bytes);
}

// Buffers of random types, dims, strides, semantics and layouts. The host memory is as large as the dims require,
// unless no memory could be.
void RandomBuffers(Kit& k) {
  Random random(1);
  constexpr int64_t kRoom = 1 << 16;
  // Aligned for use in place.
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<Line> lines(3 * kRoom / sizeof(Line), Line{});
  const absl::Span<unsigned char> memory(lines[0].bytes, 3 * kRoom);
  std::fill(memory.begin(), memory.end(), 1);
  std::vector<PJRT_Buffer*> kept;
  int made = 0, refused = 0;
  for (int i = 0; i < Rounds(2000); ++i) {
    const std::vector<int64_t> dims = RandomDims(random);
    const int64_t bytes = BytesAtMost(dims);
    if (bytes > kRoom && bytes < (int64_t{1} << 50)) continue;  // a plugin might have so much memory
    std::vector<int64_t> strides, order(dims.size());
    PJRT_Client_BufferFromHostBuffer_Args a =
        PutArgs(k, static_cast<PJRT_Buffer_Type>(random.OneIn(4) ? random.Number() : 1 + random.Below(13)), dims,
                random.OneIn(20) ? nullptr : memory.data() + kRoom);
    if (random.OneIn(20)) a.dims = nullptr;
    // Strides that stay within the memory, or that are detectably invalid.
    if (random.OneIn(3)) {
      int64_t span = kRoom / 2;
      for (int64_t d : dims) {
        strides.push_back((static_cast<int64_t>(random.Below(3)) - 1) * span / std::max<int64_t>(1, d));
        span /= 4;
      }
      if (random.OneIn(4)) strides.push_back(0);
      a.byte_strides = strides.data();
      a.num_byte_strides = strides.size();
    }
    if (random.OneIn(3)) a.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(random.Below(6));
    if (random.OneIn(10)) a.device = nullptr;
    for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
    if (!order.empty() && random.OneIn(3)) order[random.Below(order.size())] = random.Number();
    PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
    if (random.OneIn(4)) a.device_layout = &layout;
    const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
    k.Require(e.ok() || !e.message.empty(), "an error without words: ", CodeName(e.code));
    refused += !e.ok();
    if (!e.ok()) continue;
    k.Require(bytes >= 0 && bytes <= kRoom, "a buffer of ", absl::StrJoin(dims, "x"), " elements is made");
    ++made;
    if (a.done_with_host_buffer != nullptr) {
      // A buffer that uses the host's memory in place is done with it when it is destroyed, and not before.
      const bool in_place = a.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                            a.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
      in_place ? Destroy(k, a.done_with_host_buffer) : static_cast<void>(Outcome(k, a.done_with_host_buffer));
    }
    kept.push_back(a.buffer);
    if (kept.size() < 8) continue;
    // Reads some of them back, with a destination of any size.
    PJRT_Buffer* b = random.Of(kept);
    KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
    h.src = b;
    h.dst = memory.data();
    h.dst_size = random.OneIn(2) ? memory.size() : random.Below(64);
    if (KIT_TRY(k, PJRT_Buffer_ToHostBuffer, h).ok() && h.event != nullptr) Outcome(k, h.event);
    KIT_ARGS(k, r, PJRT_Buffer_CopyRawToHost);
    r.buffer = b;
    r.dst = memory.data();
    r.offset = random.Number();
    r.transfer_size = random.Number();
    // A size beyond the array must be rejected without reading further.
    if (k.Has(&PJRT_Api::PJRT_Buffer_CopyRawToHost) &&
        (r.transfer_size <= static_cast<int64_t>(memory.size()) || r.transfer_size > (int64_t{1} << 32))) {
      if (KIT_TRY(k, PJRT_Buffer_CopyRawToHost, r).ok() && r.event != nullptr) Outcome(k, r.event);
    }
    for (PJRT_Buffer* old : kept) Destroy(k, old);
    kept.clear();
  }
  StillWorks(k, "random buffers");
  k.Note(absl::StrCat(made, " made, ", refused, " refused"));
}

// Executions with random counts, devices, options and arguments.
void RandomExecutions(Kit& k) {
  Random random(2);
  const std::vector<PJRT_LoadedExecutable*> programs = {Compile(k, kAdd), Compile(k, kTwoOutputs),
                                                        Compile(k, kConstant), Compile(k, kDonate)};
  const std::vector<size_t> parameters = {2, 2, 0, 2};
  int done = 0, refused = 0;
  for (int i = 0; i < Rounds(1000); ++i) {
    const size_t which = random.Below(programs.size());
    std::vector<PJRT_Buffer*> arguments;
    for (size_t a = 0; a < parameters[which]; ++a) {
      PJRT_Buffer* b = random.OneIn(3) ? Put<int32_t>(k, {2}, {1, 2}) : Put<float>(k, {4}, {1, 2, 3, 4});
      if (random.OneIn(8)) Delete(k, b);
      arguments.push_back(random.OneIn(16) ? nullptr : b);
    }
    if (arguments.size() == 2 && random.OneIn(8)) arguments[1] = arguments[0];
    std::vector<PJRT_Buffer*> outputs(8, nullptr);
    PJRT_Buffer* const* argument_lists[] = {arguments.data()};
    PJRT_Buffer** output_lists[] = {outputs.data()};
    PJRT_Event* events[] = {nullptr};
    std::vector<int64_t> kept;
    while (random.OneIn(2) && kept.size() < 5) kept.push_back(random.Number());
    PJRT_ExecuteOptions options{};
    options.struct_size = random.OneIn(8) ? random.Below(PJRT_ExecuteOptions_STRUCT_SIZE + 32)
                                          : host::StructSizeAt(k.minor(), &options, PJRT_ExecuteOptions_STRUCT_SIZE);
    options.launch_id = static_cast<int>(random.Number());
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    KIT_ARGS(k, a, PJRT_LoadedExecutable_Execute);
    a.executable = programs[which];
    a.options = random.OneIn(16) ? nullptr : &options;
    a.argument_lists = random.OneIn(32) ? nullptr : argument_lists;
    a.output_lists = random.OneIn(32) ? nullptr : output_lists;
    // Only one list exists: for one device, or for an invalid number that must be detected before reading the lists.
    a.num_devices = random.OneIn(8) ? (random.OneIn(2) ? 0 : 1000 + random.Below(1000)) : 1;
    a.num_args = random.OneIn(8) ? random.Below(1000) + 3 : arguments.size();
    if (random.OneIn(2)) a.device_complete_events = events;
    if (random.OneIn(4)) a.execute_device = k.device();
    const Err e = KIT_TRY(k, PJRT_LoadedExecutable_Execute, a);
    k.Require(e.ok() || !e.message.empty(), "an error without words: ", CodeName(e.code));
    (e.ok() ? done : refused) += 1;
    if (e.ok()) {
      if (events[0] != nullptr) Outcome(k, events[0]);
      for (PJRT_Buffer* o : outputs) {
        if (o == nullptr) continue;
        Outcome(k, ReadyEvent(k, o));
        Destroy(k, o);
      }
    }
    if (arguments.size() == 2 && arguments[1] == arguments[0]) arguments.pop_back();
    for (PJRT_Buffer* b : arguments) {
      if (b != nullptr) Destroy(k, b);
    }
  }
  StillWorks(k, "random executions");
  k.Note(absl::StrCat(done, " done, ", refused, " refused"));
}

// Corrupts the binary forms of a program, compile options and a serialized executable.
void DamagedBytes(Kit& k) {
  Random random(3);
  const std::string artifact(reinterpret_cast<const char*>(kAddArtifact), sizeof(kAddArtifact));
  const std::string proto(reinterpret_cast<const char*>(kAddHloProto), sizeof(kAddHloProto));
  const std::string options = PlainOptions(k).Serialize();
  const auto damage = [&](std::string bytes) {
    for (size_t n = 1 + random.Below(4); n > 0 && !bytes.empty(); --n) {
      const size_t at = random.Below(bytes.size()), length = std::min(bytes.size() - at, 1 + random.Below(16));
      switch (random.Below(6)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(random.Bits());
          break;
        case 2:
          bytes.erase(at, length);
          break;
        case 3:
          bytes.insert(at, bytes.substr(at, length));
          break;
        case 4:
          bytes.resize(at);
          break;
        default:
          bytes[at] = static_cast<char>(random.OneIn(2) ? 0xff : 0x7f);
          break;
      }
    }
    return bytes;
  };
  int refused = 0, compiled = 0;
  for (int i = 0; i < Rounds(600); ++i) {
    const size_t kind = random.Below(5);
    const bool binary = kind < 3;
    const std::string code = binary ? damage(artifact) : kind == 3 ? damage(proto) : artifact;
    PJRT_LoadedExecutable* loaded = nullptr;
    const Err e = TryCompile(k, code, kind == 3 ? "hlo" : "mlir", kind == 4 ? damage(options) : options, &loaded);
    k.Require(e.ok() || !e.message.empty(), "an error without words: ", CodeName(e.code));
    if (e.ok()) Destroy(k, loaded);
    (e.ok() ? compiled : refused) += 1;
  }
  StillWorks(k, "damaged bytes");
  k.Note(absl::StrCat(refused, " refused, ", compiled, " compiled all the same"));
}

constexpr Check kChecks[] = {
    {"robust.struct_sizes", "", "no struct_size ends the process, all fields null", StructSizes, 60, true},
    {"robust.null_fields", "", "no null field beside a good object ends the process", NullFields, 60, true},
    {"robust.buffers", "PJRT_Client_BufferFromHostBuffer", "buffers of random types, dims, strides, layouts",
     RandomBuffers, 120, true},
    {"robust.executions", "", "executions with random counts, options and arguments", RandomExecutions, 120, true},
    {"robust.damaged_bytes", "", "no damaged binary program or options end the process", DamagedBytes, 120, true},
};

}  // namespace

absl::Span<const Check> RobustSuite() { return kChecks; }

}  // namespace backplane::conformance
