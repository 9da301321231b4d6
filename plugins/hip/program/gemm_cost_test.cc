// What large products cost on gfx942, counted by the interpreter: the instructions of the inner loop, the width of its
// accesses, bank conflicts, registers. Single blocks run, and their results are compared with sums of doubles.
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

struct Problem {
  int64_t m = 0, n = 0, k = 0;
  PrimitiveType type = PrimitiveType::kF16, result = PrimitiveType::kF16;
  bool lhs_along_k = true, rhs_along_k = true;
};

struct Counts {
  isa::Statistics statistics;
  KernelResources resources;
  int64_t stored = 0;  // elements of the result
};

// Runs blocks of the program's only kernel, the first and the last one.
class FewBlocks : public Queue {
 public:
  FewBlocks(const std::string& image, const std::string& kernel, isa::Statistics* statistics)
      : kernel_(kernel), statistics_(statistics) {
    absl::StatusOr<std::unique_ptr<isa::CodeObject>> code = isa::LoadCodeObject(image);
    EXPECT_TRUE(code.ok()) << code.status();
    if (code.ok()) code_ = *std::move(code);
  }
  absl::Status CopyWithin(const void*, void*, size_t) override { return absl::InternalError("a copy"); }
  absl::Status CopyFrom(int, const void*, void*, size_t) override { return absl::InternalError("a copy"); }
  absl::Status FillZeros(void*, size_t) override { return absl::InternalError("a copy"); }
  absl::Status CopyIn(const void*, void*, size_t) override { return absl::InternalError("a copy"); }
  absl::Status CopyOut(const void*, void*, size_t) override { return absl::InternalError("a copy"); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Launch(int, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override {
    isa::Launch launch;
    launch.kernel = kernel_;
    launch.blocks.x = blocks;
    launch.threads.x = threads;
    launch.kernarg =
        absl::MakeSpan(reinterpret_cast<const uint8_t*>(arguments.data()), arguments.size() * sizeof(void*));
    launch.block_count = 1;
    for (const uint32_t block : {uint32_t{0}, blocks - 1}) {
      launch.first_block = block;
      absl::StatusOr<isa::Statistics> done = isa::Execute(*code_, launch);
      if (!done.ok()) return done.status();
      statistics_->Add(*done);
    }
    return absl::OkStatus();
  }

 private:
  const std::string kernel_;
  isa::Statistics* const statistics_;
  std::unique_ptr<isa::CodeObject> code_;
};

Literal RandomMatrix(PrimitiveType type, int64_t rows, int64_t columns, std::mt19937& random) {
  Literal value(Shape(type, {rows, columns}));
  std::uniform_int_distribution<int> numbers(-8, 8);  // sums of products are exact
  for (int64_t i = 0; i < value.num_elements(); ++i) value.SetFromDouble(i, numbers(random));
  return value;
}

// Compiles the program and runs two blocks of its only kernel. `result` has values that are no sums, which blocks
// replace.
void RunTwoBlocks(const std::string& hlo, const Literal& x, const Literal& y, Literal& result, Counts* counts) {
  auto module = ParseHloModule(hlo);
  EXPECT_TRUE(module.ok()) << module.status();
  NamedValues cost;
  std::vector<std::string> log;
  EXPECT_TRUE(RunGpuPipeline(module->get(), {}, &cost, &log).ok());
  auto program = GpuProgram::Build(*std::move(module), *FindGpuTarget("gfx942"), nullptr, &log);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return;
  EXPECT_EQ((*program)->kernels().size(), 1u) << absl::StrJoin(log, "\n");
  counts->resources = (*program)->image().kernels[0];
  FewBlocks queue((*program)->image().bytes, (*program)->kernels()[0], &counts->statistics);
  void* const arguments[] = {const_cast<void*>(static_cast<const void*>(x.bytes())),
                             const_cast<void*>(static_cast<const void*>(y.bytes()))};
  void* const outputs[] = {result.mutable_bytes()};
  const absl::Status status = (*program)->Run(queue, arguments, outputs, {}, nullptr, {}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(counts->resources.spilled_registers, 0);
  EXPECT_GE(counts->resources.occupancy, 2);
  EXPECT_LE(counts->resources.vgprs, 256);
  EXPECT_EQ(counts->statistics.lds_bank_conflicts, 0);
}

// Compiles the product, runs two blocks, and compares what they stored.
Counts RunBlocks(const Problem& p) {
  Counts counts;
  auto text = [](PrimitiveType type, int64_t a, int64_t b) { return absl::StrCat(Name(type), "[", a, ",", b, "]"); };
  const std::string hlo =
      absl::StrCat("HloModule m\nENTRY e {\n  x = ", p.lhs_along_k ? text(p.type, p.m, p.k) : text(p.type, p.k, p.m),
                   " parameter(0)\n  y = ", p.rhs_along_k ? text(p.type, p.n, p.k) : text(p.type, p.k, p.n),
                   " parameter(1)\n  ROOT r = ", text(p.result, p.m, p.n), " dot(x, y), lhs_contracting_dims={",
                   p.lhs_along_k ? 1 : 0, "}, rhs_contracting_dims={", p.rhs_along_k ? 1 : 0, "}\n}\n");
  SCOPED_TRACE(hlo);
  std::mt19937 random(11);
  const Literal x = p.lhs_along_k ? RandomMatrix(p.type, p.m, p.k, random) : RandomMatrix(p.type, p.k, p.m, random);
  const Literal y = p.rhs_along_k ? RandomMatrix(p.type, p.n, p.k, random) : RandomMatrix(p.type, p.k, p.n, random);
  // What no block stores: a number that is no sum.
  const double none = p.result == PrimitiveType::kS32 ? -2000000000.0 : std::numeric_limits<double>::quiet_NaN();
  Literal r(Shape(p.result, {p.m, p.n}));
  for (int64_t i = 0; i < r.num_elements(); ++i) r.SetFromDouble(i, none);
  RunTwoBlocks(hlo, x, y, r, &counts);
  std::vector<double> left(static_cast<size_t>(p.m * p.k)), right(static_cast<size_t>(p.n * p.k));
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t k = 0; k < p.k; ++k)
      left[static_cast<size_t>(i * p.k + k)] = x.GetAsDouble(p.lhs_along_k ? i * p.k + k : k * p.m + i);
  }
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t k = 0; k < p.k; ++k)
      right[static_cast<size_t>(j * p.k + k)] = y.GetAsDouble(p.rhs_along_k ? j * p.k + k : k * p.n + j);
  }
  int wrong = 0;
  for (int64_t i = 0; i < p.m * p.n && wrong < 5; ++i) {
    const double got = r.GetAsDouble(i);
    if (std::isnan(none) ? std::isnan(got) : got == none) continue;
    ++counts.stored;
    double want = 0;
    for (int64_t k = 0; k < p.k; ++k)
      want += left[static_cast<size_t>(i / p.n * p.k + k)] * right[static_cast<size_t>(i % p.n * p.k + k)];
    // The result's rounding: 8 bits at least.
    if (std::abs(got - want) > std::abs(want) / 256) {
      ++wrong;
      ADD_FAILURE() << "row " << i / p.n << ", column " << i % p.n << ": " << got << ", expected " << want;
    }
  }
  return counts;
}

// A convolution of 3 x 3 elements with as many features before as after it, with zeros around the image.
Counts RunConvolution(PrimitiveType type, int64_t batch, int64_t size, int64_t features, int64_t columns) {
  Counts counts;
  const std::string name(Name(type));
  auto dims = [](std::initializer_list<int64_t> d) { return absl::StrCat("[", absl::StrJoin(d, ","), "]"); };
  const std::string hlo = absl::StrCat(
      "HloModule m\nENTRY e {\n  x = ", name, dims({batch, size, size, features}), " parameter(0)\n  w = ", name,
      dims({3, 3, features, columns}), " parameter(1)\n  ROOT r = ", name, dims({batch, size, size, columns}),
      " convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n");
  SCOPED_TRACE(hlo);
  std::mt19937 random(11);
  const Literal x = RandomMatrix(type, batch * size * size, features, random);
  const Literal y = RandomMatrix(type, 9 * features, columns, random);
  Literal r(Shape(type, {batch * size * size, columns}));
  for (int64_t i = 0; i < r.num_elements(); ++i) r.SetFromDouble(i, std::numeric_limits<double>::quiet_NaN());
  RunTwoBlocks(hlo, x, y, r, &counts);
  std::vector<double> input(static_cast<size_t>(x.num_elements())), kernel(static_cast<size_t>(y.num_elements()));
  for (int64_t i = 0; i < x.num_elements(); ++i) input[static_cast<size_t>(i)] = x.GetAsDouble(i);
  for (int64_t i = 0; i < y.num_elements(); ++i) kernel[static_cast<size_t>(i)] = y.GetAsDouble(i);
  int wrong = 0;
  for (int64_t i = 0; i < r.num_elements() && wrong < 5; ++i) {
    const double got = r.GetAsDouble(i);
    if (std::isnan(got)) continue;
    ++counts.stored;
    const int64_t row = i / columns, image = row / size / size, h = row / size % size, w = row % size;
    double want = 0;
    for (int64_t at = 0; at < 9; ++at) {
      const int64_t y_at = h + at / 3 - 1, x_at = w + at % 3 - 1;
      if (y_at < 0 || y_at >= size || x_at < 0 || x_at >= size) continue;
      for (int64_t f = 0; f < features; ++f) {
        want += input[static_cast<size_t>(((image * size + y_at) * size + x_at) * features + f)] *
                kernel[static_cast<size_t>((at * features + f) * columns + i % columns)];
      }
    }
    if (std::abs(got - want) > std::abs(want) / 256) {
      ++wrong;
      ADD_FAILURE() << "row " << row << ", column " << i % columns << ": " << got << ", expected " << want;
    }
  }
  EXPECT_GT(counts.stored, 0);
  return counts;
}

// Instructions that a wave executes in one iteration of the inner loop, on average: the difference between two lengths
// of the loop. An issue slot is four cycles, in which a wave issues one instruction. A matrix instruction keeps the
// matrix unit for several (AMD's "CDNA3 Instruction Set Architecture": four for 16x16x16 of 16 bits and for 16x16x32 of
// bytes, eight for 16x16x4 of f32).
struct Loop {
  std::map<std::string, double> instructions;
  double slots = 0, matrix_slots = 0;
  std::string text;  // the counts, for people
  double ratio() const { return slots / matrix_slots; }
};

// `iterations`: that the second run has more than the first.
Loop CompareRuns(const Counts (&runs)[2], int64_t iterations, const std::string& property) {
  const double waves = 2 * runs[0].resources.threads / 64;  // two blocks
  Loop loop;
  for (const auto& [name, count] : runs[1].statistics.by_mnemonic) {
    const auto before = runs[0].statistics.by_mnemonic.find(name);
    const auto fewer = before == runs[0].statistics.by_mnemonic.end() ? 0 : before->second;
    const double times = static_cast<double>(count - fewer) / (static_cast<double>(iterations) * waves);
    if (times == 0) continue;
    loop.instructions[name] = times;
    absl::StrAppend(&loop.text, " ", name, " ", times);
    const bool is_matrix = absl::StrContains(name, "mfma");
    const double each = !is_matrix ? 1 : absl::StrContains(name, "16x16x4_f32") ? 8 : 4;
    loop.slots += each * times;
    if (is_matrix) loop.matrix_slots += each * times;
    // 16 bytes at a time, and no register in memory or on its way to another file.
    if (absl::StartsWith(name, "global_") || absl::StartsWith(name, "flat_")) {
      EXPECT_EQ(name, "global_load_dwordx4");
    }
    if (absl::StartsWith(name, "ds_")) {
      EXPECT_TRUE(name == "ds_read_b128" || name == "ds_write_b128") << name;
    }
    EXPECT_FALSE(absl::StartsWith(name, "scratch_") || absl::StrContains(name, "accvgpr")) << name;
  }
  absl::StrAppend(&loop.text, "; registers ", runs[0].resources.vgprs, ", of them AGPRs ", runs[0].resources.agprs);
  testing::Test::RecordProperty(property, absl::StrCat(loop.ratio(), ":", loop.text));
  return loop;
}

Loop CountLoop(Problem p, int64_t slice) {
  constexpr int64_t kIterations = 6;  // more: loops of few are not loops any more
  Counts runs[2];
  for (int run = 0; run < 2; ++run) {
    p.k = slice * (1 + run) * kIterations;
    runs[run] = RunBlocks(p);
  }
  return CompareRuns(runs, kIterations,
                     absl::StrCat(Name(p.type), p.lhs_along_k ? "_k" : "_rows", p.rhs_along_k ? "_k" : "_rows"));
}

TEST(GemmCost, OfRowsAlongTheTerms) {
  for (const PrimitiveType type : {PrimitiveType::kF16, PrimitiveType::kBF16}) {
    const Loop loop = CountLoop({2048, 1920, 0, type, type, true, true}, 64);
    EXPECT_EQ(loop.matrix_slots, 64 * 4);
    EXPECT_LE(loop.ratio(), 1.25) << loop.text;
  }
}

// The order of a layer: the left operand along k, the right one along its columns.
TEST(GemmCost, OfALayer) {
  for (const PrimitiveType type : {PrimitiveType::kF16, PrimitiveType::kBF16}) {
    const Loop loop = CountLoop({4096, 2048, 0, type, type, true, false}, 64);
    EXPECT_EQ(loop.matrix_slots, 64 * 4);
    EXPECT_LE(loop.ratio(), 1.25) << loop.text;
  }
}

// The order of a layer's gradient: both operands are transposed on the way.
TEST(GemmCost, OfColumns) {
  const Loop loop = CountLoop({4096, 2048, 0, PrimitiveType::kBF16, PrimitiveType::kF32, false, false}, 64);
  EXPECT_LE(loop.ratio(), 1.36) << loop.text;
}

TEST(GemmCost, OfOtherTypes) {
  for (const Loop& loop : {CountLoop({2048, 1920, 0, PrimitiveType::kF32, PrimitiveType::kF32, true, true}, 32),
                           CountLoop({4096, 2048, 0, PrimitiveType::kF32, PrimitiveType::kF32, false, false}, 32),
                           CountLoop({2048, 1920, 0, PrimitiveType::kS8, PrimitiveType::kS32, true, true}, 128)}) {
    EXPECT_LE(loop.ratio(), 1.25) << loop.text;
  }
}

// The windows of a convolution where they are: one position of the window and 64 of its features in each slice.
TEST(GemmCost, OfAConvolution) {
  const Counts runs[2] = {RunConvolution(PrimitiveType::kF16, 32, 56, 64, 128),
                          RunConvolution(PrimitiveType::kF16, 32, 56, 128, 128)};
  const Loop loop = CompareRuns(runs, 9, "convolution");
  EXPECT_LE(loop.ratio(), 1.44) << loop.text;
}

// Tiles that do not divide the matrices, and an end of k that is no slice.
TEST(GemmCost, StoresAllElementsOfTilesAtTheEdges) {
  for (const bool lhs : {true, false}) {
    for (const bool rhs : {true, false}) {
      const Counts counts = RunBlocks({2051, 1933, 203, PrimitiveType::kF16, PrimitiveType::kF16, lhs, rhs});
      const int64_t tile = lhs && rhs ? 128 * 128 : counts.resources.threads == 512 ? 256 * 128 : 128 * 128;
      EXPECT_EQ(counts.stored, 2 * tile);
    }
  }
}

}  // namespace
}  // namespace backplane::hip
