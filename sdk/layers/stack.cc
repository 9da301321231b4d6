#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/layers/error.h"
#include "sdk/layers/frame.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/trampolines.h"

namespace backplane::layers {
namespace {

constexpr size_t kMaxLayers = 16;
constexpr size_t kMaxTable = size_t{1} << 20;  // in bytes; the newest known table has 1144
constexpr size_t kMaxExtensions = 256;         // the limit of sdk/host
constexpr size_t kMaxExtensionSize = size_t{1} << 16;
constexpr size_t kMaxArgs = 4096;  // in bytes; the largest known args have less than 400

}  // namespace

// The layers of one stack and the data that it needs for each call.
struct Stack::Impl {
  int index = -1;
  std::vector<std::unique_ptr<Layer>> layers;
  // The data that a call of a function needs, together: between two steps of a host all of it leaves the caches.
  struct alignas(32) Function {
    AnyFunction real = nullptr;
    Invocation invoke = nullptr;
    uint16_t mask = 0;   // bit i: layer i wants the function
    uint16_t timed = 0;  // bit i: layer i reads the times
    bool other = false;  // the function returns something other than a PJRT_Error*
    bool of_errors = false;
  };
  Function functions[kNumFunctions];
  PJRT_Api* table = nullptr;
  std::vector<std::unique_ptr<char[]>> memory;  // owns the table and the copies of extensions
};

namespace {

Mutex g_stacks_mutex;
// Read by every call without a lock. A stack is entered here before its table is returned.
Stack* g_stacks[Stack::kMaxStacks] = {};
// The tables of destroyed stacks. They are never freed, so that code that identifies tables by address (as sdk/host
// does) never gets another table at the same address.
std::vector<std::unique_ptr<char[]>>& OldTables() {
  static auto* old = new std::vector<std::unique_ptr<char[]>>;
  return *old;
}

// The target of functions on errors, some of which layers created.
void* CallAboutError(Stack::Impl& s, Fn fn, void* args) {
  bool done = false;
  PJRT_Error* result = nullptr;
  switch (fn) {
    case Fn::PJRT_Error_Destroy:
      done = LayerErrorDestroy(static_cast<PJRT_Error_Destroy_Args*>(args));
      break;
    case Fn::PJRT_Error_Message:
      done = LayerErrorMessage(static_cast<PJRT_Error_Message_Args*>(args));
      break;
    case Fn::PJRT_Error_GetCode:
      done = LayerErrorGetCode(static_cast<PJRT_Error_GetCode_Args*>(args), &result);
      break;
    case Fn::PJRT_Error_ForEachPayload:
      done = LayerErrorForEachPayload(static_cast<PJRT_Error_ForEachPayload_Args*>(args), &result);
      break;
    default:
      break;
  }
  const Stack::Impl::Function& f = s.functions[Index(fn)];
  return done ? result : f.invoke(f.real, args);
}

// Copies what the target wrote to a copy of args back to the original struct; the rest of the struct does not change. A
// field with a pattern is copied as a whole, because some of its new bytes may equal the old ones.
void CopyBack(Frame& frame) {
  for (auto it = frame.copies.rbegin(); it != frame.copies.rend(); ++it) {
    char* copy = it->bytes;
    char* before = copy + it->size;
    for (ArgsCopy::Field& f : it->fields) {
      f.written = memcmp(copy + f.offset, before + f.offset, f.size) != 0;
      // Inner layers read the copy afterwards; they must not see the pattern either.
      memcpy(f.written ? it->host + f.offset : copy + f.offset, f.written ? copy + f.offset : it->host + f.offset,
             f.size);
      memcpy(before + f.offset, copy + f.offset, f.size);
    }
    for (size_t i = 0; i < it->size; ++i) {
      if (copy[i] != before[i]) it->host[i] = copy[i];
    }
  }
}

}  // namespace

void* Dispatch(int stack, Fn fn, void* args) {
  Stack& owner = *g_stacks[stack];
  Stack::Impl& s = *owner.impl();
  const Stack::Impl::Function& f = s.functions[Index(fn)];
  // If a host passes null as args, the target handles it.
  if (args == nullptr) return f.invoke(f.real, args);
  struct Seen {
    void* args;
    uint64_t memo[2];
  };
  Seen seen[kMaxLayers];
  Frame frame;
  frame.caller = __builtin_return_address(0);
  frame.cfa = __builtin_dwarf_cfa();
  Call call(fn, args, *static_cast<const size_t*>(args), &owner, &frame);
  const uint16_t mask = f.mask;
  const std::unique_ptr<Layer>* const layers = s.layers.data();
  const size_t num_layers = s.layers.size();
  size_t ran = 0;  // layers whose Before has run, or would have
  for (; ran < num_layers && !call.answered; ++ran) {
    if (!(mask & (1u << ran))) continue;
    seen[ran].args = call.args;
    call.memo[0] = call.memo[1] = 0;
    const size_t copies = frame.copies.size();
    layers[ran]->Before(call);
    for (size_t i = copies; i < frame.copies.size(); ++i) {
      ArgsCopy& c = frame.copies[i];
      memcpy(c.bytes + c.size, c.bytes, c.size);
    }
    seen[ran].memo[0] = call.memo[0];
    seen[ran].memo[1] = call.memo[1];
  }
  call.reached_target = !call.answered;
  if (f.timed != 0) call.start = ReadTicks();
  if (!call.answered) {
    void* result = f.of_errors ? CallAboutError(s, fn, call.args) : f.invoke(f.real, call.args);
    if (f.other) {
      call.other = result;
    } else {
      call.result = static_cast<PJRT_Error*>(result);
    }
  }
  if (!frame.copies.empty()) CopyBack(frame);
  if (f.timed != 0) call.end = ReadTicks();
  for (const Frame::AtEnd& end : frame.at_end) end.run(end.arg, call.reached_target && call.result == nullptr);
  for (size_t i = ran; i-- > 0;) {
    if (!(mask & (1u << i))) continue;
    call.args = seen[i].args;
    call.memo[0] = seen[i].memo[0];
    call.memo[1] = seen[i].memo[1];
    layers[i]->After(call);
  }
  return f.other ? call.other : call.result;
}

void* CopyArgs(Call& call) {
  const size_t known = call.info().args_size;
  if (call.args_size < sizeof(size_t) || call.args_size > std::max(kMaxArgs, 2 * known)) return nullptr;
  // The size that the caller states. Layers and target read no more than this.
  const size_t size = call.args_size;
  auto& frame = *static_cast<Frame*>(call.frame);
  ArgsCopy& c = frame.copies.emplace_back();
  c.host = static_cast<char*>(call.args);
  c.size = size;
  const size_t need = (2 * size + 15) / 16 * 16;
  if (need <= Frame::kBufferSize - frame.buffer_used) {
    c.bytes = frame.buffer + frame.buffer_used;
    frame.buffer_used += need;
  } else {
    c.heap.reset(new char[2 * size]);
    c.bytes = c.heap.get();
  }
  memcpy(c.bytes, call.args, size);
  call.args = c.bytes;
  return call.args;
}

Stack::Stack() : impl_(std::make_unique<Impl>()) {}

absl::StatusOr<std::unique_ptr<Stack>> Stack::Create(const PJRT_Api* target, absl::string_view name,
                                                     std::vector<std::unique_ptr<Layer>> layers) {
  auto refuse = [&](const auto&... why) { return absl::FailedPreconditionError(absl::StrCat(name, ": ", why...)); };
  if (target == nullptr) return refuse("no table");
  if (target->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy) || target->struct_size > kMaxTable) {
    return refuse("the table says a size of ", target->struct_size, " bytes");
  }
  if (target->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    return refuse("speaks PJRT C API ", target->pjrt_api_version.major_version, ".",
                  target->pjrt_api_version.minor_version, ", expected major version ", PJRT_API_MAJOR);
  }
  // As in sdk/host: one version has a table in another order, and old chains have elements without a size.
  constexpr int kDisorderedMinor = 56, kFirstMinorWithSizedChain = 45;
  const int minor = target->pjrt_api_version.minor_version;
  if (minor == kDisorderedMinor) {
    return refuse("speaks PJRT C API 0.", minor, ", whose table has an order that no other has");
  }
  if (layers.size() > kMaxLayers) return absl::InvalidArgumentError(absl::StrCat(layers.size(), " layers, at most 16"));

  StartClock();
  std::unique_ptr<Stack> stack(new Stack);
  Impl& s = *stack->impl_;
  stack->target_ = target;
  stack->name_ = std::string(name);
  s.layers = std::move(layers);
  {
    MutexLock lock(g_stacks_mutex);
    for (int i = 0; i < kMaxStacks && s.index < 0; ++i) {
      if (g_stacks[i] == nullptr) s.index = i;
    }
    if (s.index < 0)
      return absl::ResourceExhaustedError(absl::StrCat(name, ": ", kMaxStacks, " stacks are there already"));
    g_stacks[s.index] = stack.get();
  }
  for (const auto& layer : s.layers) layer->Attach(*stack);
  // The input and output of InterposeTable.
  AnyFunction real[kNumFunctions] = {};
  bool wanted[kNumFunctions] = {};
  for (size_t i = 0; i < kNumFunctions; ++i) {
    Impl::Function& f = s.functions[i];
    f.invoke = GetInvocation(static_cast<Fn>(i));
    f.other = GetInfo(static_cast<Fn>(i)).returns == Returns::kOther;
    for (size_t l = 0; l < s.layers.size(); ++l) {
      if (!s.layers[l]->Wants(static_cast<Fn>(i))) continue;
      f.mask |= 1u << l;
      if (s.layers[l]->WantsTimes()) f.timed |= 1u << l;
    }
    wanted[i] = f.mask != 0;
  }
  // The layers must see functions on errors, because the host reads and frees errors that layers created.
  for (Fn fn :
       {Fn::PJRT_Error_Destroy, Fn::PJRT_Error_Message, Fn::PJRT_Error_GetCode, Fn::PJRT_Error_ForEachPayload}) {
    s.functions[Index(fn)].of_errors = true;
    wanted[Index(fn)] |= !s.layers.empty();
  }
  const Interposed to{real, wanted};
  // A host that reads beyond the end of an older table gets zeros, not other memory.
  s.memory.push_back(std::make_unique<char[]>(std::max(target->struct_size, sizeof(PJRT_Api))));
  s.table = reinterpret_cast<PJRT_Api*>(s.memory.back().get());
  memcpy(static_cast<void*>(s.table), target, target->struct_size);
  InterposeTable(s.index, s.table, to);

  // The chain, element by element, in the same order and with the same sizes. A chain that cannot be read stays the
  // target's.
  PJRT_Extension_Base* unread = nullptr;
  PJRT_Extension_Base** end = minor < kFirstMinorWithSizedChain ? &unread : &s.table->extension_start;
  bool done[64] = {};
  std::vector<const PJRT_Extension_Base*> met;
  for (const PJRT_Extension_Base* e = minor < kFirstMinorWithSizedChain ? nullptr : target->extension_start;
       e != nullptr && met.size() < kMaxExtensions; e = e->next) {
    if (std::find(met.begin(), met.end(), e) != met.end()) break;
    met.push_back(e);
    const size_t size = std::clamp(e->struct_size, sizeof(PJRT_Extension_Base), kMaxExtensionSize);
    s.memory.push_back(std::make_unique<char[]>(size));
    auto* clone = reinterpret_cast<PJRT_Extension_Base*>(s.memory.back().get());
    memcpy(static_cast<void*>(clone), e, size);
    clone->next = nullptr;
    *end = clone;
    end = &clone->next;
    // A second element of the same type would replace the first one behind the trampolines, so it is not interposed.
    const auto type =
        static_cast<size_t>(e->type) < std::size(done) ? static_cast<size_t>(e->type) : std::size(done) - 1;
    if (done[type] || e->struct_size > kMaxExtensionSize) continue;
    done[type] = InterposeExtension(s.index, clone, to);
    auto* profiler = reinterpret_cast<PJRT_Profiler_Extension*>(clone);
    if (e->type == PJRT_Extension_Type_Profiler &&
        e->struct_size >= offsetof(PJRT_Profiler_Extension, profiler_api) + sizeof(void*) &&
        profiler->profiler_api != nullptr) {
      const PLUGIN_Profiler_Api* api = profiler->profiler_api;
      const size_t bytes = std::clamp(api->struct_size, sizeof(size_t), kMaxExtensionSize);
      s.memory.push_back(std::make_unique<char[]>(std::max(bytes, sizeof(PLUGIN_Profiler_Api))));
      auto* copy = reinterpret_cast<PLUGIN_Profiler_Api*>(s.memory.back().get());
      memcpy(static_cast<void*>(copy), api, bytes);
      InterposeProfiler(s.index, copy, to);
      profiler->profiler_api = copy;
    }
  }
  *end = nullptr;
  for (size_t i = 0; i < kNumFunctions; ++i) s.functions[i].real = real[i];
  return stack;
}

Stack::~Stack() {
  if (impl_->index < 0) return;
  End();
  MutexLock lock(g_stacks_mutex);
  g_stacks[impl_->index] = nullptr;
  for (auto& block : impl_->memory) OldTables().push_back(std::move(block));
}

const PJRT_Api* Stack::api() const { return impl_->table; }

void Stack::End() {
  for (const auto& layer : impl_->layers) layer->End();
}

void Stack::Flush() {
  for (const auto& layer : impl_->layers) layer->Flush();
}

}  // namespace backplane::layers
