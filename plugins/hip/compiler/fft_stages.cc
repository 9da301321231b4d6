#include "plugins/hip/compiler/fft_stages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/families/fft_passes.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "sdk/codegen/body/can_evaluate.h"

namespace backplane::hip {
namespace {

constexpr int64_t kLargestPrime = 61;        // a larger one costs more than Bluestein's algorithm
constexpr int64_t kMaxFftBytes = 36 * 1024;  // of shared memory: two copies of the lines, with their empty slots
constexpr int64_t kTile = 1024;              // numbers that a block transforms at a time, if lines are short
constexpr int64_t kColumns = 16;             // lines side by side whose elements are read together
constexpr uint32_t kFftThreads = 128;

int64_t PartBytes(PrimitiveType type) { return IsComplex(type) ? ByteWidth(type) / 2 : ByteWidth(type); }

int64_t LineBytes(const FftStage& stage, int64_t part_bytes) {
  return 2 * CountLineSlots(stage) * part_bytes * (stage.kind == FftStage::Kind::kComplex ? 2 : 1);
}

// The longest complex line of a block.
int64_t LongestLine(int64_t part_bytes) { return 2048 * 4 / part_bytes; }

// Divides a length into the lengths of stages: as few as there can be, about equally long.
std::vector<int64_t> DivideLength(int64_t n, int64_t part_bytes) {
  const int64_t longest = LongestLine(part_bytes);
  if (n <= longest) return {n};
  std::vector<int64_t> factors = fft::Factors(n, false);
  std::sort(factors.rbegin(), factors.rend());
  for (size_t count = 2;; ++count) {
    std::vector<int64_t> lengths(count, 1);
    for (const int64_t f : factors) *std::min_element(lengths.begin(), lengths.end()) *= f;
    // Half of the longest leaves room for lines side by side; for odd factors that is not always possible.
    const int64_t most = *std::max_element(lengths.begin(), lengths.end());
    if (most <= longest / 4 || (count > 3 && most <= longest)) return lengths;
  }
}

void ChooseTile(FftStage& stage, int64_t part_bytes) {
  const int64_t fits = std::max<int64_t>(1, kMaxFftBytes / LineBytes(stage, part_bytes));
  const bool rows = stage.reads_rows() && stage.writes_rows();
  const int64_t wanted = std::max(kTile / std::max<int64_t>(stage.length, 1), rows ? 1 : kColumns);
  stage.lines_of_block = std::min({fits, wanted, stage.lines});
}

}  // namespace

bool HasSmallFactors(int64_t length) { return fft::FindLargestPrime(length) <= kLargestPrime; }

bool FitsAsRealLine(int64_t length, PrimitiveType type) { return length <= 4096 * 4 / PartBytes(type); }

std::vector<FftPass> ListPasses(const FftStage& stage) {
  std::vector<FftPass> passes;
  if (stage.length == 1) return passes;
  int64_t l1 = 1;
  for (const int64_t radix : fft::Factors(stage.length, stage.kind == FftStage::Kind::kComplex)) {
    passes.push_back({radix, stage.length / (l1 * radix), l1});
    l1 *= radix;
  }
  return passes;
}

int64_t PadSlot(const FftStage& stage, int64_t position) {
  return position + position / (stage.kind == FftStage::Kind::kComplex ? 16 : 32);
}

int64_t CountLineSlots(const FftStage& stage) { return (PadSlot(stage, stage.length - 1) + 1) | 1; }

absl::StatusOr<FftStages> DivideIntoStages(const Instruction& fft) {
  using Kind = FftStage::Kind;
  using Buffer = FftStage::Buffer;
  const FftType type = fft.attrs().GetEnum<FftType>(AttrId::kFftType);
  const Ints& lengths = fft.attrs().GetInts(AttrId::kFftLength);
  const bool to_real = type == FftType::kIrfft, from_real = type == FftType::kRfft;
  const bool forward = type == FftType::kFft || from_real;
  const Shape& complex = to_real ? fft.operand(0)->shape() : fft.shape();
  const int64_t rank = complex.rank(), part_bytes = PartBytes(complex.element_type());
  auto unsupported = [&] {
    return absl::UnimplementedError(
        absl::StrCat(fft.name(), ": a transform of lengths ", absl::StrJoin(lengths, ", ")));
  };
  if (lengths.empty() || fft.shape().num_elements() == 0) return unsupported();
  long double total = 1;
  for (const int64_t n : lengths) {
    if (!HasSmallFactors(n)) return unsupported();
    total *= static_cast<long double>(n);
  }
  const double scale =
      static_cast<double>(part_bytes == 4 ? static_cast<float>(1 / total) : static_cast<double>(1 / total));

  FftStages divided;
  FftStage real;
  real.kind = to_real ? Kind::kRealBackward : Kind::kRealForward;
  real.forward = forward;
  real.length = lengths.back();
  real.lines = complex.num_elements() / complex.dimensions(rank - 1);
  if (to_real) real.scale = scale;
  if ((to_real || from_real) && !FitsAsRealLine(real.length, complex.element_type())) return unsupported();
  if (from_real) divided.stages.push_back(real);
  double pending = type == FftType::kIfft ? scale : 1;
  for (int64_t d = rank - static_cast<int64_t>(lengths.size()); d < (to_real || from_real ? rank - 1 : rank); ++d) {
    const int64_t n = complex.dimensions(d);
    if (n == 1) continue;
    FftStage stage;
    stage.forward = forward;
    for (int64_t e = d + 1; e < rank; ++e) stage.stride *= complex.dimensions(e);
    stage.after = n;
    for (const int64_t r : DivideLength(n, part_bytes)) {
      stage.length = r;
      stage.after /= r;
      stage.lines = complex.num_elements() / r;
      stage.scale = stage.after == 1 ? std::exchange(pending, 1.0) : 1;
      divided.stages.push_back(stage);
      stage.before *= r;
    }
  }
  if (to_real) divided.stages.push_back(real);
  if (divided.stages.empty()) return unsupported();

  // From the last stage to the first: a stage works in place, unless it changes the type or the order of the elements.
  const Buffer home = to_real ? Buffer::kScratch : Buffer::kResult;
  const Buffer other = to_real ? Buffer::kSecondScratch : Buffer::kScratch;
  Buffer to = Buffer::kResult;
  for (size_t k = divided.stages.size(); k-- > 0;) {
    FftStage& stage = divided.stages[k];
    stage.to = to;
    const bool in_place = stage.kind == Kind::kComplex && stage.before == 1;
    if (!in_place) to = stage.kind == Kind::kComplex && to == home ? other : home;
    stage.from = k == 0 ? Buffer::kOperand : to;
    for (const Buffer b : {stage.from, stage.to}) {
      if (b == Buffer::kScratch) divided.scratch_arrays = std::max<int64_t>(divided.scratch_arrays, 1);
      if (b == Buffer::kSecondScratch) divided.scratch_arrays = 2;
    }
    ChooseTile(stage, part_bytes);
  }
  return divided;
}

absl::StatusOr<KernelPlan> PlanFft(const Instruction& fft) {
  RETURN_IF_ERROR(codegen::CheckArrays(fft));
  ASSIGN_OR_RETURN(FftStages divided, DivideIntoStages(fft));
  KernelPlan plan;
  plan.threads = kFftThreads;
  std::vector<std::string> lengths;
  for (size_t k = 0; k < divided.stages.size(); ++k) {
    const FftStage& stage = divided.stages[k];
    const uint32_t blocks = CountBlocks(stage.lines, stage.lines_of_block);
    if (k == 0) {
      plan.blocks = blocks;
    } else {
      plan.further.push_back(blocks);
    }
    plan.launches.push_back({static_cast<int>(k), {}, false});
    lengths.push_back(absl::StrCat(stage.lines, " of ", stage.length));
  }
  plan.scratch_bytes = divided.scratch_arrays * std::max(fft.shape().byte_size(), fft.operand(0)->shape().byte_size());
  plan.note = absl::StrCat("fft: ", absl::StrJoin(lengths, ", "));
  plan.kind = FftPlan{std::move(divided.stages)};
  return plan;
}

}  // namespace backplane::hip
