// Programs compiled for the host and run without any runtime, compared with the evaluator on the module as it was.
#include "plugins/hip/program/program.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "core/types/status_macros.h"
#include "gtest/gtest.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/lowering/host_image.h"

namespace backplane::hip {
namespace {

// Runs the kernels of a host image, one block after another.
class HostQueue : public Queue {
 public:
  HostQueue(const std::string& image, const std::vector<std::string>& names) {
    if (names.empty()) return;
    const int file = memfd_create("kernels", 0);
    EXPECT_EQ(write(file, image.data(), image.size()), static_cast<ssize_t>(image.size()));
    library_ = dlopen(absl::StrCat("/proc/self/fd/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(file);
    if (library_ == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    const auto* table = static_cast<const HostKernel*>(dlsym(library_, kHostKernelTable));
    for (const std::string& name : names) {
      const HostKernel* k = table;
      while (k->name != nullptr && name != k->name) ++k;
      EXPECT_NE(k->name, nullptr) << name;
      kernels_.push_back(k);
    }
  }
  ~HostQueue() override {
    if (library_ != nullptr) dlclose(library_);
  }

  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override {
    const HostKernel& k = *kernels_[static_cast<size_t>(function)];
    EXPECT_EQ(k.threads, threads);
    EXPECT_EQ(k.kernarg_bytes, arguments.size() * sizeof(void*));
    std::vector<std::max_align_t> shared(k.shared_bytes / sizeof(std::max_align_t) + 8);
    std::vector<std::max_align_t> frames(k.frame_bytes / sizeof(std::max_align_t) + 8);
    auto align = [](void* p) { return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(p) + 63) / 64 * 64); };
    for (uint32_t b = 0; b < blocks; ++b) {
      // What other blocks left in shared memory must not matter.
      std::memset(shared.data(), 0xAB, shared.size() * sizeof(std::max_align_t));
      if (k.run(arguments.data(), b, blocks, align(shared.data()), align(frames.data())) != 0)
        return absl::InternalError("the threads of a block disagree about a barrier");
    }
    return absl::OkStatus();
  }
  absl::Status CopyWithin(const void* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyIn(const void* host, void* address, size_t bytes) override { return CopyWithin(host, address, bytes); }
  absl::Status CopyOut(const void* address, void* host, size_t bytes) override {
    return CopyWithin(address, host, bytes);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  void* library_ = nullptr;
  std::vector<const HostKernel*> kernels_;
};

Literal RandomLiteral(const Shape& shape, std::mt19937& random) {
  Literal value(shape.WithoutLayout());
  std::uniform_real_distribution<double> numbers(-3, 3);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const double x = numbers(random);
    value.SetFromDouble(i, IsFloat(shape.element_type()) || IsComplex(shape.element_type()) ? x
                           : shape.element_type() == PrimitiveType::kPred                   ? x > 0
                                                                                            : std::floor(std::abs(x)));
  }
  return value;
}

void ExpectClose(const Literal& got, const Literal& want, double tolerance) {
  if (want.shape().IsTuple()) {
    for (size_t k = 0; k < want.elements().size(); ++k) ExpectClose(got.elements()[k], want.elements()[k], tolerance);
    return;
  }
  int wrong = 0;
  for (int64_t i = 0; i < want.num_elements() && wrong < 5; ++i) {
    const double w = want.GetAsDouble(i), g = got.GetAsDouble(i);
    if (std::isnan(w) && std::isnan(g)) continue;
    if (w == g || std::abs(w - g) <= tolerance * std::max(1.0, std::abs(w))) continue;
    ++wrong;
    ADD_FAILURE() << "element " << i << " of " << want.shape().ToString() << ": " << g << ", expected " << w;
  }
}

// The kernels of the program come out for GPUs too, whole: in registers, and with the barriers where they were.
void CompilesForGpus(const Module& original) {
  for (const char* name : {"gfx942", "gfx1100", "sm_90"}) {
    std::unique_ptr<Module> module = original.Clone();
    NamedValues cost;
    ASSERT_TRUE(RunGpuPipeline(module.get(), {}, &cost, nullptr).ok());
    const absl::StatusOr<GpuTarget> target = FindGpuTarget(name);
    ASSERT_TRUE(target.ok()) << target.status();
    const auto built = GpuProgram::Build(std::move(module), *target, nullptr, nullptr);
    ASSERT_TRUE(built.ok()) << name << ": " << built.status();
    for (const KernelResources& k : (*built)->image().kernels) {
      EXPECT_LE(k.spilled_registers, 0) << name << " " << k.name;
      EXPECT_LE(k.shared_bytes, target->shared_bytes) << name << " " << k.name;
    }
  }
}

struct Compiled {
  std::unique_ptr<GpuProgram> program;
  std::vector<std::string> log;
};

// Compiles and runs the program on random arguments, and compares the results with the evaluator's. `kernels`: how many
// there must be; `on_host`: how many instructions the host may evaluate.
Compiled Check(const std::string& hlo, size_t kernels, int on_host = 0, double tolerance = 1e-5) {
  Compiled compiled;
  auto original = ParseHloModule(hlo);
  EXPECT_TRUE(original.ok()) << original.status();
  if (!original.ok()) return compiled;
  std::unique_ptr<Module> module = (*original)->Clone();
  NamedValues cost;
  absl::Status status = RunGpuPipeline(module.get(), {}, &cost, &compiled.log);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return compiled;
  const absl::StatusOr<GpuTarget> target = FindGpuTarget("host");
  auto built = GpuProgram::Build(std::move(module), *target, nullptr, &compiled.log);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return compiled;
  compiled.program = *std::move(built);
  CompilesForGpus(**original);
  const GpuProgram& program = *compiled.program;
  EXPECT_EQ(program.kernels().size(), kernels) << absl::StrCat("log:\n", absl::StrJoin(compiled.log, "\n"));
  int host = 0;
  for (const std::string& line : compiled.log) host += line.rfind("on the host:", 0) == 0;
  EXPECT_EQ(host, on_host) << absl::StrJoin(compiled.log, "\n");

  std::mt19937 random(7);
  std::vector<Literal> arguments;
  std::vector<std::vector<char>> memory;
  std::vector<void*> argument_addresses, output_addresses, constants;
  auto room = [&](int64_t bytes) {
    memory.emplace_back(static_cast<size_t>(bytes) + 128, '\x77');
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.back().data()) + 63) / 64 * 64);
  };
  for (const Instruction* p : (*original)->entry()->parameters()) {
    arguments.push_back(RandomLiteral(p->shape(), random));
    argument_addresses.push_back(room(arguments.back().byte_size()));
    std::memcpy(argument_addresses.back(), arguments.back().bytes(), static_cast<size_t>(arguments.back().byte_size()));
  }
  const Shape& shape = (*original)->entry()->root()->shape();
  std::vector<Literal> results;
  ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
    results.emplace_back(s.WithoutLayout());
    output_addresses.push_back(room(results.back().byte_size()));
  });
  for (const Instruction* c : program.assignment().constants) {
    constants.push_back(room(c->literal().byte_size()));
    std::memcpy(constants.back(), c->literal().bytes(), static_cast<size_t>(c->literal().byte_size()));
  }
  HostQueue queue(program.image().bytes, program.kernels());
  status = program.Run(queue, argument_addresses, output_addresses, constants,
                       room(program.assignment().temporary_bytes + compiler::kTailPadding), {});
  EXPECT_TRUE(status.ok()) << status;
  for (size_t k = 0; k < results.size(); ++k)
    std::memcpy(results[k].mutable_bytes(), output_addresses[k], static_cast<size_t>(results[k].byte_size()));
  absl::StatusOr<Literal> want = Evaluate(**original, arguments);
  EXPECT_TRUE(want.ok()) << want.status();
  if (want.ok()) ExpectClose(shape.IsTuple() ? Literal::Tuple(std::move(results)) : results[0], *want, tolerance);
  return compiled;
}

TEST(GpuProgram, FusesElementwiseOperations) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  a = f32[1000] add(x, y)
  b = f32[1000] tanh(a)
  ROOT r = f32[1000] multiply(b, x)
})", 1);
}

TEST(GpuProgram, ComputesMoreElementsThanThreads) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[5000003] parameter(0)
  ROOT r = f32[5000003] negate(x)
})", 1);
}

TEST(GpuProgram, MovesElements) {
  Check(R"(HloModule m
ENTRY e {
  x = bf16[12,20] parameter(0)
  at = s32[] parameter(1)
  rows = s32[12,1] parameter(2)
  zero = bf16[] constant(0)
  padded = bf16[16,20] pad(x, zero), padding=4_0x0_0
  part = bf16[12,20] dynamic-slice(padded, at, at), dynamic_slice_sizes={12,20}
  taken = bf16[12,20] gather(part, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
  both = bf16[24,20] concatenate(x, taken), dimensions={0}
  t = bf16[20,24] transpose(both), dimensions={1,0}
  ROOT u = bf16[160,3] reshape(t)
})", 1);
}

TEST(GpuProgram, SoftmaxIsOneKernel) {
  const Compiled compiled = Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[64,100] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[64,100] broadcast(m), dimensions={0}
  d = f32[64,100] subtract(x, mb)
  p = f32[64,100] exponential(d)
  s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add
  sb = f32[64,100] broadcast(s), dimensions={0}
  ROOT r = f32[64,100] divide(p, sb)
})", 1);
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("rows: 64 of 100, 2 reductions"), std::string::npos);
}

TEST(GpuProgram, ReducesEverything) {
  Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[300,50] parameter(0)
  start = f32[] parameter(1)
  y = f32[300,50] multiply(x, x)
  s = f32[] reduce(y, start), dimensions={0,1}, to_apply=add
  ROOT r = f32[] sqrt(s)
})", 1);
}

TEST(GpuProgram, ReducesColumnsAndManyValues) {
  Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
pick {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  larger = pred[] compare(a, b), direction=GT
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  c = pred[] or(larger, tie)
  v = f32[] select(c, a, b)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[33,77] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  columns = f32[77] reduce(x, zero), dimensions={0}, to_apply=add
  n = s32[33,77] iota(), iota_dimension=1
  both = (f32[33], s32[33]) reduce(x, n, low, none), dimensions={1}, to_apply=pick
  v = f32[33] get-tuple-element(both), index=0
  k = s32[33] get-tuple-element(both), index=1
  ROOT r = (f32[77], f32[33], s32[33]) tuple(columns, v, k)
})", 2);
}

TEST(GpuProgram, MultipliesMatricesOfAllTypes) {
  for (const char* type : {"f32", "f64", "bf16", "f16", "s32", "u8", "c64"}) {
    Check(absl::StrReplaceAll(R"(HloModule m
ENTRY e {
  x = @[3,70,45] parameter(0)
  y = @[3,45,65] parameter(1)
  ROOT r = @[3,70,65] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})", {{"@", type}}), 1, 0, 0.02);
  }
}

TEST(GpuProgram, MultipliesTransposedMatrices) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[45,70] parameter(0)
  y = f32[130,45] parameter(1)
  d = f32[70,130] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT t = f32[130,70] transpose(d), dimensions={1,0}
})", 1, 0, 1e-4);
}

TEST(GpuProgram, Convolves) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[2,9,11,6] parameter(0)
  k = f32[3,2,3,8] parameter(1)
  ROOT r = f32[2,5,12,8] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=2
})", 1, 0, 1e-4);
}

TEST(GpuProgram, RunsLoopsAndBranches) {
  Check(R"(HloModule m
more { s = (s32[], f32[100]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(7) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[100] sine(x)
  ROOT t = (s32[], f32[100]) tuple(j, y)
}
yes { x = f32[100] parameter(0) ROOT r = f32[100] negate(x) }
no { x = f32[100] parameter(0) ROOT r = f32[100] exponential(x) }
ENTRY e {
  i = s32[] parameter(0)
  x = f32[100] parameter(1)
  c = pred[] parameter(2)
  s = (s32[], f32[100]) tuple(i, x)
  w = (s32[], f32[100]) while(s), condition=more, body=step
  y = f32[100] get-tuple-element(w), index=1
  ROOT r = f32[100] conditional(c, y, y), true_computation=yes, false_computation=no
})", 5);
}

TEST(GpuProgram, UpdatesInPlace) {
  const Compiled compiled = Check(R"(HloModule m
more { s = (s32[], f32[10,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[10,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[10,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  u = f32[2,3] broadcast(f), dimensions={}
  y = f32[10,8] dynamic-update-slice(x, u, i, one)
  ROOT t = (s32[], f32[10,8]) tuple(j, y)
}
ENTRY e {
  x = f32[10,8] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[10,8]) tuple(i, x)
  w = (s32[], f32[10,8]) while(s), condition=more, body=step
  ROOT r = f32[10,8] get-tuple-element(w), index=1
})", 3);
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("update: 6 elements"), std::string::npos);
}

TEST(GpuProgram, Scatters) {
  for (const char* combine : {"add(a, b)", "multiply(a, b)", "maximum(a, b)", "add(b, b)"}) {
    for (const char* type : {"f32", "s32", "bf16", "u8"}) {
      Check(absl::StrReplaceAll(R"(HloModule m
combine { a = @[] parameter(0) b = @[] parameter(1) ROOT r = @[] OP }
ENTRY e {
  x = @[4,6] parameter(0)
  i = s32[9,1] parameter(1)
  u = @[9,6] parameter(2)
  ROOT r = @[4,6] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
})", {{"@", type}, {"OP", combine}}), 1, 0, 0.02);
    }
  }
}

TEST(GpuProgram, EvaluatesTheRestOnTheHost) {
  Check(R"(HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[50] parameter(0)
  y = f32[50] sort(x), dimensions={0}, to_apply=less
  ROOT r = f32[50] negate(y)
})", 1, 1);
}

}  // namespace
}  // namespace backplane::hip
