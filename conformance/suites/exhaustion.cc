// Memory exhaustion: the failing call returns RESOURCE_EXHAUSTED with a message and leaks nothing, existing buffers
// keep their values, and the next call works.
//
// Every plugin is asked for sizes that no machine has. Memory is filled only on a device that reports a small limit
// (bytes_limit in its statistics); the profiles of our plugins set such a limit by a create option.
#include <functional>
#include <optional>

#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

constexpr int64_t kAbsurdElements = int64_t{1} << 44;  // f32: 64 TiB
constexpr int64_t kSmallLimit = int64_t{2} << 30;
constexpr int kPieces = 8;  // that nearly fill the memory; small buffers still fit

// Returns the bytes in use on the device, or nullopt if it does not report them.
std::optional<int64_t> InUse(Kit& k) {
  if (!k.Has(&PJRT_Api::PJRT_Device_MemoryStats)) return std::nullopt;
  KIT_ARGS(k, a, PJRT_Device_MemoryStats);
  a.device = k.device();
  if (!KIT_TRY(k, PJRT_Device_MemoryStats, a).ok()) return std::nullopt;
  return a.bytes_in_use;
}

// Returns the number of f32 elements of a piece, if filling the memory does not burden the machine.
int64_t PieceElements(Kit& k) {
  if (!k.Has(&PJRT_Api::PJRT_Device_MemoryStats)) k.Skip("the device tells no limit of its memory");
  KIT_ARGS(k, a, PJRT_Device_MemoryStats);
  a.device = k.device();
  if (!KIT_TRY(k, PJRT_Device_MemoryStats, a).ok() || !a.bytes_limit_is_set) {
    k.Skip("the device tells no limit of its memory");
  }
  if (a.bytes_limit > kSmallLimit) k.Skip("its memory is too large to be filled here");
  return a.bytes_limit / 4 * 31 / 32 / kPieces;
}

void IsExhausted(Kit& k, const Err& e, absl::string_view what) {
  k.Require(!e.ok(), what, " succeeds");
  k.Require(e.code == PJRT_Error_Code_RESOURCE_EXHAUSTED, what, " gives ", FormatError(e),
            ", expected RESOURCE_EXHAUSTED");
  k.Require(!e.message.empty(), what, ": no message");
}

void Works(Kit& k, PJRT_LoadedExecutable* add) {
  k.Require(RunF32(k, add, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
            "after the memory had run out a program gives wrong results");
}

void ExpectMemoryReleased(Kit& k, const std::optional<int64_t>& before) {
  if (!before.has_value()) return;
  k.Require(WaitFor(5, [&] { return *InUse(k) <= *before; }), "bytes_in_use stays at ", *InUse(k),
            " after the memory had run out, it was ", *before);
}

// Creates a buffer of this many elements, all broadcast from one number on the host.
Err TryPut(Kit& k, int64_t elements, PJRT_Buffer** buffer) {
  static const float number = 3;
  const Dims dims = {elements}, strides = {0};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, &number);
  a.byte_strides = strides.data();
  a.num_byte_strides = 1;
  Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  if (!e.ok()) return e;
  Outcome(k, a.done_with_host_buffer);
  e = Outcome(k, ReadyEvent(k, a.buffer));
  if (e.ok()) {
    *buffer = a.buffer;
  } else {
    Destroy(k, a.buffer);
  }
  return e;
}

void AbsurdBuffer(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  Works(k, add);
  const std::optional<int64_t> before = InUse(k);
  for (int i = 0; i < 5; ++i) {
    PJRT_Buffer* none = nullptr;
    IsExhausted(k, TryPut(k, kAbsurdElements, &none), "a buffer of 64 TiB");
    Works(k, add);
  }
  ExpectMemoryReleased(k, before);
}

void AbsurdTransfer(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  Works(k, add);
  const std::optional<int64_t> before = InUse(k);
  const Dims small = {4}, large = {kAbsurdElements};
  for (int i = 0; i < 5; ++i) {
    PJRT_ShapeSpec specs[2] = {};
    specs[0] = {PJRT_ShapeSpec_STRUCT_SIZE, nullptr, small.data(), 1, PJRT_Buffer_Type_F32};
    specs[1] = {PJRT_ShapeSpec_STRUCT_SIZE, nullptr, large.data(), 1, PJRT_Buffer_Type_F32};
    KIT_ARGS(k, a, PJRT_Client_CreateBuffersForAsyncHostToDevice);
    a.client = k.client();
    a.shape_specs = specs;
    a.num_shape_specs = 2;
    a.memory = DefaultMemory(k, k.device());
    IsExhausted(k, KIT_TRY(k, PJRT_Client_CreateBuffersForAsyncHostToDevice, a), "a transfer of 64 TiB");
    Works(k, add);
  }
  ExpectMemoryReleased(k, before);
}

std::string Iota(int64_t elements) {
  return absl::StrReplaceAll(R"(module @m {
  func.func public @main(%x: tensor<f32>) -> tensor<DIMSxf32> {
    %0 = stablehlo.iota dim = 0 : tensor<DIMSxf32>
    %1 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<DIMSxf32>
    %2 = stablehlo.add %0, %1 : tensor<DIMSxf32>
    return %2 : tensor<DIMSxf32>
  }
})",
                             {{"DIMS", absl::StrCat(elements)}});
}

// Returns the result, if there is one.
Err TryRun(Kit& k, PJRT_LoadedExecutable* loaded, PJRT_Buffer* argument, PJRT_Buffer** result) {
  Launch launch;
  launch.executable = loaded;
  launch.arguments = {{argument}};
  Err e = TryExecute(k, &launch);
  if (!e.ok()) return e;
  e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  if (e.ok()) {
    *result = launch.outputs[0][0];
  } else {
    Destroy(k, launch.outputs[0][0]);
  }
  return e;
}

void AbsurdResult(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer* x = Put<float>(k, {}, {1});
  Works(k, add);
  const std::optional<int64_t> before = InUse(k);
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err compiled = TryCompile(k, Iota(kAbsurdElements), "mlir", PlainOptions(k).Serialize(), &loaded);
  for (int i = 0; i < 5; ++i) {
    PJRT_Buffer* none = nullptr;
    IsExhausted(k, compiled.ok() ? TryRun(k, loaded, x, &none) : compiled, "a result of 64 TiB");
    Works(k, add);
    k.Require(GetAs<float>(k, x) == std::vector<float>({1}), "the argument of a program without room has changed");
  }
  if (loaded != nullptr) Destroy(k, loaded);
  ExpectMemoryReleased(k, before);
}

// Calls `make` until memory is exhausted, then tests the requirements.
void Fill(Kit& k, const std::function<Err(PJRT_Buffer**)>& make, const std::function<float(PJRT_Buffer*)>& second) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  Works(k, add);
  const std::optional<int64_t> before = InUse(k);
  for (int round = 0; round < 3; ++round) {
    std::vector<PJRT_Buffer*> all;
    Err e;
    while (e.ok() && all.size() < 4 * kPieces) {
      PJRT_Buffer* one = nullptr;
      e = make(&one);
      if (e.ok()) all.push_back(one);
    }
    IsExhausted(k, e, absl::StrCat(all.size() + 1, " times an eighth of the memory"));
    k.Require(all.size() >= kPieces / 2, "after ", all.size(),
              " times an eighth of the memory it is full: ", FormatError(e));
    for (PJRT_Buffer* b : all)
      k.Require(second(b) == second(all[0]), "what was there before the memory ran out has changed");
    Destroy(k, all.back());
    all.pop_back();
    Works(k, add);
    PJRT_Buffer* again = nullptr;
    e = make(&again);
    k.Require(e.ok(), "what has been given back cannot be had again: ", FormatError(e));
    all.push_back(again);
    for (PJRT_Buffer* b : all) Destroy(k, b);
    Works(k, add);
    ExpectMemoryReleased(k, before);
  }
}

// Reads one element only, because the array is large.
float Second(Kit& k, PJRT_Buffer* buffer) {
  if (!k.Has(&PJRT_Api::PJRT_Buffer_CopyRawToHost)) return 0;
  float value = 0;
  KIT_ARGS(k, a, PJRT_Buffer_CopyRawToHost);
  a.buffer = buffer;
  a.dst = &value;
  a.offset = sizeof value;
  a.transfer_size = sizeof value;
  if (!KIT_TRY(k, PJRT_Buffer_CopyRawToHost, a).ok()) return 0;
  Await(k, a.event, "a copy of four bytes");
  return value;
}

void FilledByBuffers(Kit& k) {
  const int64_t elements = PieceElements(k);
  Fill(
      k, [&](PJRT_Buffer** one) { return TryPut(k, elements, one); }, [&](PJRT_Buffer* b) { return Second(k, b); });
}

void FilledByResults(Kit& k) {
  PJRT_LoadedExecutable* iota = Compile(k, Iota(PieceElements(k)));
  PJRT_Buffer* x = Put<float>(k, {}, {1});
  Fill(
      k, [&](PJRT_Buffer** one) { return TryRun(k, iota, x, one); }, [&](PJRT_Buffer* b) { return Second(k, b); });
}

constexpr Check kChecks[] = {
    {"exhaustion.absurd_buffer", "PJRT_Client_BufferFromHostBuffer",
     "a buffer of 64 TiB gives RESOURCE_EXHAUSTED and takes nothing", AbsurdBuffer, 60},
    {"exhaustion.absurd_transfer", "PJRT_Client_CreateBuffersForAsyncHostToDevice",
     "a transfer of 64 TiB gives RESOURCE_EXHAUSTED and takes nothing", AbsurdTransfer, 60},
    {"exhaustion.absurd_result", "", "a result of 64 TiB gives RESOURCE_EXHAUSTED and takes nothing", AbsurdResult, 60},
    {"exhaustion.filled_by_buffers", "PJRT_Device_MemoryStats",
     "buffers until the memory is full: an error, no loss, and all of it can be had again", FilledByBuffers, 120},
    {"exhaustion.filled_by_results", "PJRT_Device_MemoryStats",
     "results until the memory is full: an error, no loss, and all of it can be had again", FilledByResults, 120},
};

}  // namespace

absl::Span<const Check> ExhaustionSuite() { return kChecks; }

}  // namespace backplane::conformance
