#include "plugins/tpu_emulator/machine/clock.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

// The rows of a table beside the tests; lines that start with # are comments.
std::vector<std::vector<std::string>> Table(const std::string& name) {
  std::ifstream file(absl::StrCat(BACKPLANE_SOURCE_DIR, "/plugins/tpu_emulator/machine/testdata/", name));
  EXPECT_TRUE(file.is_open()) << name;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(absl::StrSplit(line, '\t'));
  }
  return rows;
}

int64_t Integer(const std::string& text) {
  int64_t value = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << text;
  return value;
}

PrimitiveType Type(const std::string& name) {
  const std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
  EXPECT_TRUE(type.has_value()) << name;
  return type.value_or(PrimitiveType::kF32);
}

Space ReadSpace(const std::string& name) {
  EXPECT_TRUE(name == "hbm" || name == "vmem" || name == "cmem") << name;
  return name == "vmem" ? Space::kVmem : name == "cmem" ? Space::kCmem : Space::kHbm;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

// Recorded cycles, estimated cycles, and their agreement.
struct Comparison {
  std::vector<double> recorded, ours;

  void Add(double recorded_cycles, double our_cycles) {
    recorded.push_back(recorded_cycles);
    ours.push_back(our_cycles);
  }
  std::vector<double> Errors() const {
    std::vector<double> errors;
    for (size_t i = 0; i < ours.size(); ++i) errors.push_back(std::abs(ours[i] / recorded[i] - 1));
    return errors;
  }
  double MedianError() const { return Median(Errors()); }
  double PartWithin(double error) const {
    const std::vector<double> errors = Errors();
    const auto within = std::count_if(errors.begin(), errors.end(), [&](double e) { return e <= error; });
    return static_cast<double>(within) / static_cast<double>(errors.size());
  }
  double RankCorrelation() const {
    const std::vector<double> a = Ranks(recorded), b = Ranks(ours);
    const double mean = (static_cast<double>(a.size()) - 1) / 2;
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      ab += (a[i] - mean) * (b[i] - mean);
      aa += (a[i] - mean) * (a[i] - mean);
      bb += (b[i] - mean) * (b[i] - mean);
    }
    return ab / std::sqrt(aa * bb);
  }
  std::string Text() const {
    return absl::StrCat(ours.size(), " rows, median error ", MedianError(), ", within 35 % ", PartWithin(0.35),
                        ", rank correlation ", RankCorrelation());
  }
};

MatmulWork Product(int64_t m, int64_t n, int64_t k) { return {.m = m, .n = n, .k = k}; }

KernelTime TimeOf(const Machine& machine, const MatmulWork& matmul) {
  KernelWork work;
  work.matmul = matmul;
  return TimeKernel(machine, work);
}

struct RecordedMatmul {
  std::string machine, use;
  MatmulWork work;
  double cycles;
};

std::vector<RecordedMatmul> RecordedMatmuls() {
  std::vector<RecordedMatmul> rows;
  for (const std::vector<std::string>& c : Table("clock_matmuls.tsv")) {
    EXPECT_EQ(c.size(), 14u);
    if (c.size() != 14) return rows;
    RecordedMatmul row{c[0], c[12], {}, static_cast<double>(Integer(c[13]))};
    row.work = {.batch = Integer(c[1]),
                .m = Integer(c[2]),
                .n = Integer(c[3]),
                .k = Integer(c[4]),
                .lhs = Type(c[5]),
                .rhs = Type(c[6]),
                .result = Type(c[7]),
                .passes = static_cast<int>(Integer(c[8])),
                .lhs_space = ReadSpace(c[9]),
                .rhs_space = ReadSpace(c[10]),
                .result_space = ReadSpace(c[11])};
    rows.push_back(row);
  }
  return rows;
}

bool IsLarge(const MatmulWork& w) { return std::max({w.m, w.n, w.k}) >= 1024; }

// Compares products with a side of at least 1024 with the compiler's estimates: all rows, and the held-out rows.
TEST(Clock, LargeMatmulsAgreeWithTheCompiler) {
  std::map<std::string, Comparison> all, held, small;
  for (const RecordedMatmul& row : RecordedMatmuls()) {
    const KernelTime time = TimeOf(*FindMachine(row.machine), row.work);
    if (!IsLarge(row.work)) {
      small[row.machine].Add(row.cycles, time.cycles);
      continue;
    }
    all[row.machine].Add(row.cycles, time.cycles);
    if (row.use == "held") held[row.machine].Add(row.cycles, time.cycles);
  }
  ASSERT_EQ(all.size(), 5u);
  for (const Machine& machine : KnownMachines()) {
    const struct {
      const char* what;
      const Comparison& rows;
      size_t least;
    } parts[] = {{"all", all[machine.name], 55}, {"held out", held[machine.name], 15}};
    for (const auto& part : parts) {
      const std::string text = absl::StrCat(machine.name, ", ", part.what, ": ", part.rows.Text());
      RecordProperty(absl::StrCat(machine.name, " ", part.what), text);
      EXPECT_GE(part.rows.ours.size(), part.least) << text;
      EXPECT_LE(part.rows.MedianError(), 0.10) << text;
      EXPECT_GE(part.rows.PartWithin(0.35), 0.90) << text;
      EXPECT_GE(part.rows.RankCorrelation(), 0.95) << text;
    }
    EXPECT_LE(small[machine.name].MedianError(), 0.10) << machine.name << ", small: " << small[machine.name].Text();
  }
}

// Compares the prefetched operand and its memory space with the compiler's.
TEST(Clock, PrefetchesTheSameOperandAsTheCompiler) {
  int same = 0, all = 0;
  for (const RecordedMatmul& row : RecordedMatmuls()) {
    MatmulWork work = row.work;
    work.lhs_space = work.rhs_space = Space::kHbm;
    PrefetchLargerOperand(*FindMachine(row.machine), work);
    ++all;
    // If both operands have the same size, either may be prefetched.
    const bool swapped =
        work.lhs_space == row.work.rhs_space && work.rhs_space == row.work.lhs_space && row.work.m == row.work.n;
    if ((work.lhs_space == row.work.lhs_space && work.rhs_space == row.work.rhs_space) || swapped) ++same;
  }
  EXPECT_GE(same, 0.95 * all) << same << " of " << all;
}

// Wall clocks of a v5e, published: JAX's notebook on matrix products with Pallas, bf16, XLA's product and the
// notebook's best kernel. They include one dispatch.
TEST(Clock, AgreesWithPublishedTimes) {
  const Machine& v5e = *FindMachine("v5e");
  const struct {
    int64_t size;
    double microseconds;
  } published[] = {{4096, 827.3}, {4096, 889.1}, {8192, 6047}, {8192, 6099}};
  for (const auto& p : published) {
    MatmulWork work = Product(p.size, p.size, p.size);
    PrefetchLargerOperand(v5e, work);
    const double ours = TimeOf(v5e, work).seconds * 1e6 + v5e.dispatch_microseconds;
    EXPECT_NEAR(ours / p.microseconds, 1, 0.15) << p.size << ": ours " << ours << ", published " << p.microseconds;
  }
}

MatmulWork RandomProduct(std::mt19937& random, int64_t most) {
  const auto size = [&] {
    std::uniform_real_distribution<double> log(std::log(2.0), std::log(static_cast<double>(most)));
    return std::max<int64_t>(2, static_cast<int64_t>(std::exp(log(random))));
  };
  const PrimitiveType types[] = {PrimitiveType::kBF16, PrimitiveType::kF32, PrimitiveType::kS8, PrimitiveType::kS4,
                                 PrimitiveType::kF8E5M2};
  MatmulWork work = Product(size(), size(), size());
  work.batch = random() % 4 == 0 ? 1 + random() % 16 : 1;
  work.lhs = work.rhs = types[random() % 5];
  work.result = work.lhs == PrimitiveType::kS8 || work.lhs == PrimitiveType::kS4 ? PrimitiveType::kS32
                : random() % 2                                                   ? PrimitiveType::kF32
                                                                                 : PrimitiveType::kBF16;
  work.passes = work.lhs == PrimitiveType::kF32 ? (random() % 2 ? 1 : random() % 2 ? 3 : 6) : 1;
  work.lhs_space = random() % 3 == 0 ? Space::kVmem : Space::kHbm;
  work.rhs_space = random() % 3 == 0 ? Space::kVmem : Space::kHbm;
  return work;
}

std::string Text(const MatmulWork& w) {
  return absl::StrCat(w.batch, " x ", w.m, "x", w.n, "x", w.k, " ", Name(w.lhs), " passes ", w.passes);
}

TEST(Clock, NoProductIsFasterThanTheRoofline) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const Machine& machine = KnownMachines()[i % 5];
    const MatmulWork work = RandomProduct(random, 20000);
    const KernelTime time = TimeOf(machine, work);
    EXPECT_GE(time.seconds, time.roofline_seconds) << machine.name << " " << Text(work);
    EXPECT_GT(time.utilisation, 0);
    EXPECT_LE(time.utilisation, 1);
    // The roofline itself, from the machine's figures: multiply-adds of the type over the peak.
    const double macs = static_cast<double>(work.batch * work.m) * static_cast<double>(work.n * work.k) * work.passes;
    const double peak = machine.PeakBf16Flops() / 2 * machine.TypeSpeed(work.lhs);
    EXPECT_GE(time.roofline_seconds * 1.000001, macs / peak) << Text(work);
    ASSERT_TRUE(time.windows.has_value());
    EXPECT_LE(time.windows->vmem_bytes, machine.scoped_vmem_bytes) << machine.name << " " << Text(work);
    EXPECT_GE(time.windows->steps, 1);
  }
}

TEST(Clock, TimeDoesNotDecreaseWithSize) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const Machine& machine = KnownMachines()[i % 5];
    const MatmulWork work = RandomProduct(random, 9000);
    const double cycles = TimeOf(machine, work).cycles;
    for (const int dimension : {0, 1, 2, 3}) {
      MatmulWork larger = work;
      int64_t& size = dimension == 0 ? larger.m : dimension == 1 ? larger.n : dimension == 2 ? larger.k : larger.batch;
      size += 1 + static_cast<int64_t>(random() % (dimension == 3 ? 3 : i % 2 ? 40 : 1 + size));
      EXPECT_GE(TimeOf(machine, larger).cycles * (1 + 1e-9), cycles)
          << machine.name << " " << Text(work) << " against " << Text(larger);
    }
  }
}

// A change of a machine's parameter must change the times that depend on it, and no others.
TEST(Clock, ParametersAffectTheRightUnits) {
  const Machine& v5e = *FindMachine("v5e");
  const KernelTime square = TimeOf(v5e, Product(4096, 4096, 4096));
  EXPECT_EQ(square.bound, Unit::kMxu);
  EXPECT_GT(square.utilisation, 0.85);
  EXPECT_EQ(square.flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(square.hbm_bytes, 3.0 * 2 * 4096 * 4096);
  const KernelTime thin = TimeOf(v5e, Product(4096, 4096, 64));
  EXPECT_EQ(thin.bound, Unit::kHbm);
  EXPECT_EQ(TimeOf(v5e, Product(8, 8, 8)).bound, Unit::kFixed);

  // 8, 16 and 32 rows cost the same: loading the weights takes longer than streaming them. 64 rows cost more.
  MatmulWork few = Product(8, 4096, 4096);
  few.rhs_space = Space::kVmem;
  const double eight = TimeOf(v5e, few).mxu_cycles;
  few.m = 32;
  EXPECT_NEAR(TimeOf(v5e, few).mxu_cycles / eight, 1, 0.05);
  few.m = 64;
  EXPECT_GT(TimeOf(v5e, few).mxu_cycles, 1.5 * eight);

  // Passes multiply the array's time; 8-bit integers halve it if the array supports them.
  MatmulWork work = Product(2048, 2048, 2048);
  work.lhs = work.rhs = work.result = PrimitiveType::kF32;
  const double once = TimeOf(v5e, work).mxu_cycles;
  work.passes = 6;
  EXPECT_NEAR(TimeOf(v5e, work).mxu_cycles / once, 6, 0.1);
  work = Product(2048, 2048, 2048);
  work.lhs = work.rhs = PrimitiveType::kS8;
  work.result = PrimitiveType::kS32;
  EXPECT_NEAR(TimeOf(v5e, work).mxu_cycles / once, 0.5, 0.02);
  EXPECT_EQ(TimeOf(v5e, work).vpu_cycles, 0);
  EXPECT_GT(TimeOf(*FindMachine("tpu7x"), work).vpu_cycles, 0);  // converted first: no 8-bit integers there

  // Half the bandwidth doubles the time on HBM.
  Machine half = v5e;
  half.hbm_gb_per_s /= 2;
  EXPECT_GT(TimeOf(half, Product(4096, 4096, 64)).cycles, 1.8 * thin.cycles);
}

TEST(Clock, ProductsWithAVectorRunOnTheVectorUnit) {
  for (const Machine& machine : KnownMachines()) {
    const KernelTime time = TimeOf(machine, Product(1, 4096, 4096));
    EXPECT_EQ(time.mxu_cycles, 0);
    EXPECT_GT(time.vpu_cycles, 0);
    EXPECT_FALSE(time.windows.has_value());
    EXPECT_GE(time.seconds, time.roofline_seconds);
    EXPECT_EQ(time.bound, Unit::kHbm) << machine.name;
  }
}

TEST(Clock, VectorKernelsAreBoundByBandwidth) {
  for (const Machine& machine : KnownMachines()) {
    KernelWork work;
    work.vector = {{VectorOp::kSimple, int64_t{1} << 14}};
    work.hbm_read_bytes = int64_t{2} << 26;
    work.hbm_written_bytes = int64_t{1} << 26;
    const KernelTime time = TimeKernel(machine, work);
    EXPECT_EQ(time.bound, Unit::kHbm);
    EXPECT_NEAR(time.seconds / (3.0 * (1 << 26) / machine.HbmBytesPerSecond()), 1, 0.1) << machine.name;
    EXPECT_GE(time.seconds, time.roofline_seconds);
    // With all arrays in VMEM the vector unit is the bound, and a costly operation takes longer than a cheap one.
    work.hbm_read_bytes = work.hbm_written_bytes = 0;
    const double simple = TimeKernel(machine, work).vpu_cycles;
    EXPECT_EQ(simple, 16384 / (machine.vpu_issue * static_cast<double>(machine.cores_per_device)));
    double last = simple;
    for (const VectorOp op : {VectorOp::kConvert, VectorOp::kDivide, VectorOp::kTranscendental, VectorOp::kCrossLane}) {
      work.vector[0].op = op;
      const KernelTime dear = TimeKernel(machine, work);
      EXPECT_GT(dear.vpu_cycles, last);
      EXPECT_EQ(dear.bound, Unit::kVpu);
      last = dear.vpu_cycles;
    }
  }
}

TEST(Clock, CollectivesFollowTheRing) {
  const Machine& v5e = *FindMachine("v5e");
  const auto seconds = [&](CollectiveKind kind, int64_t bytes, int64_t group, int64_t axes = 1) {
    KernelWork work;
    work.collective = CollectiveWork{kind, bytes, group, axes};
    const KernelTime time = TimeKernel(v5e, work);
    EXPECT_GE(time.cycles, time.ici_cycles);
    return time.ici_cycles / v5e.CyclesPerSecond();
  };
  const int64_t bytes = int64_t{1} << 30;
  const double link = 45e9;
  // 3/4 of the result comes in over two links, the farthest part over two hops.
  EXPECT_NEAR(seconds(CollectiveKind::kAllGather, bytes, 4), 0.75 * bytes / (2 * link) + 2e-6, 1e-9);
  EXPECT_NEAR(seconds(CollectiveKind::kReduceScatter, bytes, 4), 0.75 * bytes / (2 * link) + 2e-6, 1e-9);
  EXPECT_NEAR(seconds(CollectiveKind::kAllReduce, bytes, 4), 2 * (0.75 * bytes / (2 * link) + 2e-6), 1e-9);
  // Of four parts one stays, two go one hop, one goes two: four part-hops over two links.
  EXPECT_NEAR(seconds(CollectiveKind::kAllToAll, bytes, 4), 0.25 * bytes * 4 / (2 * link) + 2e-6, 1e-9);
  EXPECT_NEAR(seconds(CollectiveKind::kPermute, bytes, 4), bytes / link + 1e-6, 1e-9);
  EXPECT_NEAR(seconds(CollectiveKind::kAllGather, 0, 16), 8e-6, 1e-12);
  // A second axis of the torus doubles the bandwidth; there is no third on a v5e.
  EXPECT_NEAR(seconds(CollectiveKind::kAllGather, bytes, 16) / seconds(CollectiveKind::kAllGather, bytes, 16, 2), 2,
              0.01);
  EXPECT_EQ(seconds(CollectiveKind::kAllGather, bytes, 16, 3), seconds(CollectiveKind::kAllGather, bytes, 16, 2));
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                    CollectiveKind::kAllGather, CollectiveKind::kAllToAll, CollectiveKind::kPermute}) {
    EXPECT_EQ(seconds(kind, bytes, 1), 0);
  }
}

// Convolutions agree less well with the compiler's estimates, but their order does.
TEST(Clock, RanksConvolutionsAsTheCompilerDoes) {
  std::map<std::string, Comparison> all;
  for (const std::vector<std::string>& c : Table("clock_convolutions.tsv")) {
    ASSERT_EQ(c.size(), 9u);
    const Machine& machine = *FindMachine(c[0]);
    const int64_t size = Integer(c[2]), window = Integer(c[5]), stride = Integer(c[6]),
                  out = (size + stride - 1) / stride;
    ConvolutionWork conv{.batch = Integer(c[1]),
                         .output_points = out * out,
                         .window_points = window * window,
                         .input_points = size * size,
                         .input_features = Integer(c[3]),
                         .output_features = Integer(c[4])};
    conv.input = conv.filter = conv.result = Type(c[7]);
    MatmulWork work = ConvertConvolutionToMatmul(machine, conv);
    PrefetchLargerOperand(machine, work);
    all[machine.name].Add(static_cast<double>(Integer(c[8])), TimeOf(machine, work).cycles);
  }
  ASSERT_EQ(all.size(), 5u);
  for (const auto& [name, comparison] : all) {
    RecordProperty(name, comparison.Text());
    EXPECT_GE(comparison.RankCorrelation(), 0.8) << name << ": " << comparison.Text();
  }
}

}  // namespace
}  // namespace backplane::tpu
