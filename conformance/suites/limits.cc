// Limits: unreasonable sizes and large numbers of objects.
#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

// Compiles, runs and reads. Some step must fail with a message, and the process must survive.
void Impossible(Kit& k, const std::string& program, absl::string_view what) {
  PJRT_LoadedExecutable* loaded = nullptr;
  Err e = TryCompile(k, program, "mlir", PlainOptions(k).Serialize(), &loaded);
  if (e.ok()) {
    Launch launch;
    launch.executable = loaded;
    launch.arguments = {{}};
    e = TryExecute(k, &launch);
    if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  }
  k.Require(!e.ok(), what, " are made");
  k.Require(!e.message.empty(), what, ": ", CodeName(e.code), " without a message");
  k.Require(RunF32(k, Compile(k, kAdd), {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}), "after ",
            what, " nothing works any more");
  k.Note(FormatError(e));
}

std::string Iota(const std::string& dims) {
  return absl::StrReplaceAll(R"(module @m {
  func.func public @main() -> tensor<DIMSxf32> {
    %0 = stablehlo.iota dim = 0 : tensor<DIMSxf32>
    return %0 : tensor<DIMSxf32>
  }
})",
                             {{"DIMS", dims}});
}

void TooLargeResult(Kit& k) { Impossible(k, Iota("1099511627776"), "2^40 elements"); }
void OverflowingResult(Kit& k) { Impossible(k, Iota("4611686018427387904"), "2^62 elements"); }
void OverflowingProduct(Kit& k) { Impossible(k, Iota("4294967296x4294967296x4"), "2^66 elements"); }

void TooLargeBuffer(Kit& k) {
  float nothing[4] = {};
  const Dims dims = {int64_t{1} << 62};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, nothing);
  const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  k.Require(!e.ok(), "a buffer of 2^62 elements is made");
  k.Require(!e.message.empty(), "no message");
}

void NegativeDim(Kit& k) {
  float nothing[4] = {};
  const Dims dims = {-4};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, nothing);
  const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  k.Require(!e.ok(), "a buffer of -4 elements is made");
}

void LargeBuffer(Kit& k) {
  const int64_t n = int64_t{64} << 20;
  std::vector<uint8_t> data(static_cast<size_t>(n));
  for (size_t i = 0; i < data.size(); i += 4093) data[i] = static_cast<uint8_t>(i);
  PJRT_Buffer* b = Put<uint8_t>(k, {n}, data);
  const std::string back = Get(k, b);
  k.Require(back.size() == data.size() && std::memcmp(back.data(), data.data(), data.size()) == 0,
            "64 MiB come back different");
}

void ManyBuffers(Kit& k) {
  std::vector<PJRT_Buffer*> all;
  for (int32_t i = 0; i < 5000; ++i) all.push_back(Put<int32_t>(k, {2}, {i, -i}));
  for (int32_t i = 0; i < 5000; i += 499)
    k.Require(GetAs<int32_t>(k, all[static_cast<size_t>(i)]) == std::vector<int32_t>({i, -i}),
              "one of 5000 buffers has the contents of another");
  for (PJRT_Buffer* b : all) Destroy(k, b);
}

void DeepNesting(Kit& k) {  // nested regions: an error or a program, but no stack overflow
  const int depth = 20000;
  std::string text = "module @m {\n func.func public @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {\n";
  for (int i = 0; i < depth; ++i) absl::StrAppend(&text, "%r", i, " = \"stablehlo.if\"(%p) ({\n");
  text += "stablehlo.return %x : tensor<f32>\n";
  for (int i = depth - 1; i >= 0; --i) {
    absl::StrAppend(&text, "}, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>\n");
    if (i > 0) absl::StrAppend(&text, "stablehlo.return %r", i, " : tensor<f32>\n");
  }
  text += "return %r0 : tensor<f32>\n}\n}\n";
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err e = TryCompile(k, text, "mlir", PlainOptions(k).Serialize(), &loaded);
  k.Require(e.ok() || !e.message.empty(), "no message");
  k.Note(e.ok() ? "compiles" : FormatError(e));
}

void DeepParentheses(Kit& k) {
  const std::string text =
      absl::StrCat("module @m attributes {a = ", std::string(200000, '['), std::string(200000, ']'), "} {}");
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err e = TryCompile(k, text, "mlir", PlainOptions(k).Serialize(), &loaded);
  k.Require(!e.ok(), "a program without main compiles");
  k.Require(!e.message.empty(), "no message");
}

void LongLine(Kit& k) {
  std::string name(1 << 20, 'n');
  const std::string text = absl::StrReplaceAll(kAdd, {{"@add", "@" + name}});
  PJRT_LoadedExecutable* loaded = nullptr;
  const Err e = TryCompile(k, text, "mlir", PlainOptions(k).Serialize(), &loaded);
  k.Require(e.ok() || !e.message.empty(), "no message");
  if (e.ok())
    k.Require(RunF32(k, loaded, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
              "a program with a long name gives wrong results");
}

void ManyClients(Kit& k) {
  for (int i = 0; i < 12; ++i) k.NewClient();
  k.Require(RunF32(k, Compile(k, kAdd), {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
            "the thirteenth client gives wrong results");
}

constexpr Check kChecks[] = {
    {"limits.huge_result", "", "a result that no memory holds gives an error", TooLargeResult},
    {"limits.overflowing_result", "", "a result whose size in bytes overflows gives an error", OverflowingResult},
    {"limits.overflowing_product", "", "dims whose product overflows give an error", OverflowingProduct},
    {"limits.huge_buffer", "PJRT_Client_BufferFromHostBuffer", "a buffer whose size overflows gives an error",
     TooLargeBuffer, 0, true},
    {"limits.negative_dim", "PJRT_Client_BufferFromHostBuffer", "a negative dim gives an error", NegativeDim, 0, true},
    {"limits.large_buffer", "", "a buffer of 64 MiB", LargeBuffer, 60},
    {"limits.many_buffers", "", "5000 buffers at once", ManyBuffers, 60},
    {"limits.deep_nesting", "", "20000 regions in one another do not end the process", DeepNesting, 60, true},
    {"limits.deep_brackets", "", "200000 brackets in one another do not end the process", DeepParentheses, 0, true},
    {"limits.long_name", "", "a name of a million letters", LongLine},
    {"limits.many_clients", "", "a dozen clients at once", ManyClients, 60},
};

}  // namespace

absl::Span<const Check> LimitsSuite() { return kChecks; }

}  // namespace backplane::conformance
