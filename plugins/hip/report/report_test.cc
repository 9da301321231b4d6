// Tests what a program's report says: bytes, arithmetic and executions against closed formulas, resources against those
// of the compilation, estimates against the peaks; and the code as text.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/Support/JSON.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/program/program.h"
#include "plugins/hip/report/code_text.h"
#include "plugins/hip/report/gpu_peaks.h"
#include "plugins/hip/report/launches.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kChain[] = R"(HloModule chain
ENTRY e {
  x = f32[1024,256] parameter(0)
  y = f32[1024,256] parameter(1)
  a = f32[1024,256] add(x, y), metadata={op_name="jit(f)/add" source_file="f.py" source_line=3}
  b = f32[1024,256] tanh(a)
  ROOT r = f32[1024,256] multiply(b, x)
})";

constexpr char kProduct[] = R"(HloModule product
ENTRY e {
  x = f16[64,128] parameter(0)
  y = f16[128,32] parameter(1)
  ROOT r = f32[64,32] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

// The body multiplies matrices, so the loop is decided outside of the kernels.
constexpr char kLoop[] = R"(HloModule loop
body {
  p = (s32[], f32[32,32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[32,32] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[32,32] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[32,32]) tuple(j, d)
}
condition {
  p = (s32[], f32[32,32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[32,32] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[32,32]) tuple(zero, x)
  w = (s32[], f32[32,32]) while(t), condition=condition, body=body
  ROOT r = f32[32,32] get-tuple-element(w), index=1
})";

struct Built {
  GpuTarget target;
  std::unique_ptr<GpuProgram> program;

  const Module& module() const { return program->module(); }
  std::string Text(absl::string_view form) const {
    absl::StatusOr<std::string> text = MakeCodeText(module(), target, program->image(), form);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }
  std::vector<ProgramLaunch> Launches() const {
    ProgramKernels kernels(target);
    absl::StatusOr<std::vector<ProgramLaunch>> launches = FindLaunches(module(), kernels);
    EXPECT_TRUE(launches.ok()) << launches.status();
    return launches.value_or(std::vector<ProgramLaunch>());
  }
  llvm::json::Value Report() const {
    llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(Text("report"));
    if (!parsed) {
      ADD_FAILURE() << llvm::toString(parsed.takeError());
      return nullptr;
    }
    return *std::move(parsed);
  }
};

Built Build(const std::string& hlo, const std::string& target) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(hlo);
  EXPECT_TRUE(module.ok()) << module.status();
  Built built;
  built.target = *FindGpuTarget(target);
  NamedValues cost;
  std::vector<std::string> log;
  const absl::Status status = RunGpuPipeline(module->get(), {}, &cost, &log);
  EXPECT_TRUE(status.ok()) << status;
  absl::StatusOr<std::unique_ptr<GpuProgram>> program =
      GpuProgram::Build(*std::move(module), built.target, nullptr, &log);
  EXPECT_TRUE(program.ok()) << program.status();
  built.program = *std::move(program);
  return built;
}

// Of PTX: the lines without what follows "//", and without those that are then empty.
std::string WithoutComments(absl::string_view ptx) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(ptx, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line.substr(0, line.find("//")));
    if (!line.empty()) absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::vector<ProgramLaunch> KernelsOf(const std::vector<ProgramLaunch>& launches) {
  std::vector<ProgramLaunch> kernels;
  for (const ProgramLaunch& l : launches) {
    if (l.kind == ProgramLaunch::Kind::kKernel) kernels.push_back(l);
  }
  return kernels;
}

TEST(Launches, CountBytesAndArithmeticOfAFusion) {
  const std::vector<ProgramLaunch> launches = Build(kChain, "gfx942").Launches();
  ASSERT_EQ(launches.size(), 1u);
  constexpr int64_t kElements = 1024 * 256;
  EXPECT_EQ(launches[0].kind, ProgramLaunch::Kind::kKernel);
  EXPECT_EQ(launches[0].read_bytes, 2 * 4 * kElements);
  EXPECT_EQ(launches[0].written_bytes, 4 * kElements);
  EXPECT_EQ(launches[0].flops, 2.0 * kElements);
  EXPECT_EQ(launches[0].transcendentals, 1.0 * kElements);
  EXPECT_EQ(launches[0].executions, 1);
}

TEST(Launches, CountBytesAndArithmeticOfAProduct) {
  const std::vector<ProgramLaunch> launches = KernelsOf(Build(kProduct, "gfx942").Launches());
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].read_bytes, 2 * (64 * 128 + 128 * 32));
  EXPECT_EQ(launches[0].written_bytes, 4 * 64 * 32);
  EXPECT_EQ(launches[0].flops, 2.0 * 64 * 128 * 32);
  EXPECT_EQ(launches[0].type, PrimitiveType::kF16);
}

TEST(Launches, CountTheIterationsOfLoops) {
  const std::vector<ProgramLaunch> launches = KernelsOf(Build(kLoop, "gfx942").Launches());
  int64_t products = 0;
  for (const ProgramLaunch& l : launches) {
    EXPECT_TRUE(l.executions_known);
    if (l.flops >= 2.0 * 32 * 32 * 32) products += l.executions;
  }
  EXPECT_EQ(products, 5);
}

TEST(Launches, ALoopOfUnknownTripCountCountsOnce) {
  std::string hlo = kLoop;
  const std::string bound = "n = s32[] constant(5)";
  hlo.replace(hlo.find(bound), bound.size(), "n = s32[] negate(i)");
  int64_t products = 0;
  for (const ProgramLaunch& l : KernelsOf(Build(hlo, "gfx942").Launches())) {
    if (l.flops < 2.0 * 32 * 32 * 32) continue;
    EXPECT_FALSE(l.executions_known);
    products += l.executions;
  }
  EXPECT_EQ(products, 1);
}

// Of a large array, a kernel that slices it reads the slice alone.
TEST(Launches, SlicesCountWhatTheyTake) {
  const std::vector<ProgramLaunch> launches = Build(R"(HloModule m
ENTRY e {
  x = f32[1000,64] parameter(0)
  at = s32[] parameter(1)
  zero = s32[] constant(0)
  s = f32[10,64] dynamic-slice(x, at, zero), dynamic_slice_sizes={10,64}
  ROOT r = f32[10,64] negate(s)
})",
                                                    "gfx942")
                                                  .Launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].read_bytes, 10 * 64 * 4 + 4) << "the slice and its start";
  EXPECT_EQ(launches[0].written_bytes, 10 * 64 * 4);
}

// An update in place writes the update alone.
TEST(Launches, UpdatesCountWhatTheyWrite) {
  const std::vector<ProgramLaunch> launches = Build(R"(HloModule m, input_output_alias={ {}: (0, {}) }
ENTRY e {
  x = f32[1000,64] parameter(0)
  u = f32[10,64] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  n = f32[10,64] negate(u)
  ROOT r = f32[1000,64] dynamic-update-slice(x, n, at, zero)
})",
                                                    "gfx942")
                                                  .Launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].read_bytes, 10 * 64 * 4 + 4) << "the update and its start";
  EXPECT_EQ(launches[0].written_bytes, 10 * 64 * 4);
}

TEST(Launches, WorkOfTheHostIsNamed) {
  const std::vector<ProgramLaunch> launches = Build(R"(HloModule m
ENTRY e {
  x = c64[16] parameter(0)
  ROOT r = c64[16] custom-call(x), custom_call_target="theirs"
})",
                                                    "gfx942")
                                                  .Launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].kind, ProgramLaunch::Kind::kHost);
  EXPECT_EQ(launches[0].note, "no kernel");
  EXPECT_EQ(launches[0].read_bytes, 128);
}

TEST(CodeText, ResourcesAreThoseOfTheCompilation) {
  for (const char* target : {"gfx942", "gfx1100"}) {
    const Built built = Build(kProduct, target);
    const std::string table = built.Text("resources");
    const llvm::json::Value report = built.Report();
    const llvm::json::Array& kernels = *report.getAsObject()->getArray("kernels");
    const std::vector<KernelResources>& compiled = built.program->image().kernels;
    ASSERT_EQ(kernels.size(), compiled.size());
    ASSERT_FALSE(compiled.empty());
    for (size_t k = 0; k < compiled.size(); ++k) {
      const llvm::json::Object& kernel = *kernels[k].getAsObject();
      EXPECT_THAT(table, HasSubstr(compiled[k].name));
      EXPECT_EQ(kernel.getString("name")->str(), compiled[k].name);
      EXPECT_EQ(kernel.getInteger("vgprs"), compiled[k].vgprs);
      EXPECT_EQ(kernel.getInteger("agprs"), compiled[k].agprs);
      EXPECT_EQ(kernel.getInteger("sgprs"), compiled[k].sgprs);
      EXPECT_EQ(kernel.getInteger("shared_bytes"), compiled[k].shared_bytes);
      EXPECT_EQ(kernel.getInteger("occupancy"), compiled[k].occupancy);
      EXPECT_EQ(kernel.getInteger("code_bytes"), compiled[k].code_bytes);
      EXPECT_EQ(kernel.getInteger("spilled_registers"), 0);
      EXPECT_GT(compiled[k].vgprs, 0);
    }
  }
}

// The image of a stored executable comes without a description; the code object has it.
TEST(CodeText, ResourcesAreReadFromTheImage) {
  const Built built = Build(kChain, "gfx90a");
  const Image stored{built.program->image().bytes, {}};
  const absl::StatusOr<std::string> table = MakeCodeText(built.module(), built.target, stored, "resources");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(*table, built.Text("resources"));
}

TEST(CodeText, IsaAndIrAreThoseOfTheTarget) {
  const Built amd = Build(kProduct, "gfx942");
  EXPECT_THAT(amd.Text("isa"), HasSubstr("v_mfma_f32_16x16x16_f16"));
  EXPECT_THAT(amd.Text("isa"), HasSubstr("s_endpgm"));
  EXPECT_THAT(amd.Text("ir"), HasSubstr("target triple = \"amdgcn-amd-amdhsa\""));
  EXPECT_THAT(amd.Text("ir"), HasSubstr("llvm.amdgcn.mfma"));
  for (const KernelResources& k : amd.program->image().kernels) {
    EXPECT_THAT(amd.Text("isa"), HasSubstr(k.name + ":"));
    EXPECT_THAT(amd.Text("ir"), HasSubstr("@" + k.name));
  }
  EXPECT_THAT(Build(kProduct, "gfx1100").Text("isa"), HasSubstr("v_wmma_f32_16x16x16_f16"));
  const Built nvidia = Build(kChain, "sm_90");
  EXPECT_THAT(nvidia.Text("isa"), HasSubstr(".target sm_90"));
  EXPECT_EQ(WithoutComments(nvidia.Text("isa")), WithoutComments(nvidia.program->image().bytes)) << "what is loaded";
  EXPECT_THAT(nvidia.Text("resources"), HasSubstr(" -  ")) << "PTX says nothing of registers";
}

TEST(CodeText, OtherFormsAreRefusedByName) {
  const Built built = Build(kChain, "gfx942");
  const absl::Status status = MakeCodeText(built.module(), built.target, built.program->image(), "sass").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ir, isa, resources, report"));
}

TEST(CodeText, AProgramWithoutKernelsHasEmptyForms) {
  const Built built = Build("HloModule m\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}", "gfx942");
  EXPECT_THAT(built.Text("resources"), HasSubstr("0 kernels"));
  EXPECT_THAT(built.Text("isa"), Not(HasSubstr("s_endpgm")));
  EXPECT_TRUE(built.Report().getAsObject()->getArray("kernels")->empty());
}

TEST(Report, EstimatesFollowFromThePeaks) {
  const GpuPeaks& peaks = *FindGpuPeaks("gfx942");
  const llvm::json::Value chain = Build(kChain, "gfx942").Report();
  const llvm::json::Object& launch = *(*chain.getAsObject()->getArray("launches"))[0].getAsObject();
  constexpr double kElements = 1024 * 256;
  EXPECT_DOUBLE_EQ(*launch.getNumber("memory_seconds"), 12 * kElements / 5.3e12);
  EXPECT_DOUBLE_EQ(*launch.getNumber("compute_seconds"), 2 * kElements / 163.4e12);
  EXPECT_EQ(*launch.getString("bound"), "memory");
  EXPECT_EQ(*launch.getString("unit"), "vector");
  const llvm::json::Object& totals = *chain.getAsObject()->getObject("totals");
  EXPECT_DOUBLE_EQ(*totals.getNumber("seconds"), *launch.getNumber("memory_seconds"));
  EXPECT_EQ(totals.getInteger("launches"), 1);
  EXPECT_EQ(chain.getAsObject()->getObject("machine")->getString("source")->str(), peaks.source);

  // 4096^3: 1.4e11 operations on 1e8 bytes.
  const llvm::json::Value product = Build(R"(HloModule m
ENTRY e {
  x = f16[4096,4096] parameter(0)
  y = f16[4096,4096] parameter(1)
  ROOT r = f32[4096,4096] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                          "gfx942")
                                        .Report();
  bool found = false;
  for (const llvm::json::Value& value : *product.getAsObject()->getArray("launches")) {
    const llvm::json::Object& dot = *value.getAsObject();
    if (dot.getString("unit") != llvm::StringRef("matrix")) continue;
    found = true;
    EXPECT_EQ(*dot.getString("bound"), "compute");
    EXPECT_DOUBLE_EQ(*dot.getNumber("compute_seconds"), 2.0 * 4096 * 4096 * 4096 / 1307.4e12);
  }
  EXPECT_TRUE(found);
}

TEST(Report, TotalsCountExecutions) {
  const llvm::json::Value report = Build(kLoop, "gfx942").Report();
  double read = 0, flops = 0;
  for (const llvm::json::Value& value : *report.getAsObject()->getArray("launches")) {
    const llvm::json::Object& launch = *value.getAsObject();
    read += *launch.getNumber("executions") * *launch.getNumber("read_bytes");
    flops += *launch.getNumber("executions") * *launch.getNumber("flops");
  }
  const llvm::json::Object& totals = *report.getAsObject()->getObject("totals");
  EXPECT_DOUBLE_EQ(*totals.getNumber("read_bytes"), read);
  EXPECT_DOUBLE_EQ(*totals.getNumber("flops"), flops);
  EXPECT_GE(flops, 5 * 2.0 * 32 * 32 * 32);
}

TEST(Report, InstructionsHaveTheirSource) {
  const std::string text = Build(kChain, "gfx942").Text("report");
  EXPECT_THAT(text, HasSubstr(R"("op_name":"jit(f)/add","source_file":"f.py","source_line":3)"));
}

TEST(Report, WithoutPeaksThereIsNoEstimate) {
  const llvm::json::Value report = Build(kChain, "gfx11-generic").Report();
  EXPECT_EQ(report.getAsObject()->getObject("totals")->get("seconds"), nullptr);
  EXPECT_EQ((*report.getAsObject()->getArray("launches"))[0].getAsObject()->get("bound"), nullptr);
}

TEST(GpuPeaks, AreOfTargetsThatWeCompileFor) {
  std::vector<std::string> targets;
  for (const GpuPeaks& peaks : AllGpuPeaks()) {
    EXPECT_TRUE(FindGpuTarget(peaks.target).ok()) << peaks.target;
    targets.push_back(peaks.target);
    EXPECT_GT(peaks.vector_f32, peaks.memory_bytes) << peaks.target;
    EXPECT_LE(peaks.vector_f64, peaks.vector_f32) << peaks.target;
    if (peaks.matrix_f16 > 0) {
      EXPECT_GT(peaks.matrix_f16, peaks.vector_f32) << peaks.target;
    }
    EXPECT_THAT(std::string(peaks.source), HasSubstr(absl::StartsWith(peaks.target, "gfx") ? "AMD" : "NVIDIA"));
  }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(std::adjacent_find(targets.begin(), targets.end()), targets.end());
  EXPECT_EQ(FindGpuPeaks("host"), nullptr);
  EXPECT_EQ(FindGpuPeaks("gfx1103"), nullptr);
}

}  // namespace
}  // namespace backplane::hip
