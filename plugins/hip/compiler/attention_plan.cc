#include "plugins/hip/compiler/attention_plan.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"

namespace backplane::hip {
namespace {

using compiler::Attention;
using compiler::AttentionView;
using compiler::ScoreOperation;

constexpr size_t kMostDigits = 6;
constexpr int64_t kMostElements = 256;  // of a query, a key or a value
constexpr int64_t kFewestQueries = 16;  // below, most of a tile would be empty
constexpr int64_t kManyBlocks = 128;    // about the multiprocessors of a large GPU
constexpr int64_t kLongKeys = 4096;     // of which a block should not have all alone
constexpr int64_t kFewestBlocksOfLongKeys = 24;
// Finding out whether the values are finite takes about ten microseconds on a GPU, and no launch on the host.
constexpr int64_t kWorkWorthSkipping = int64_t{1} << 31;

// Whether the numbers are `base` plus what the item's digits above `period` give, and the same within each period.
bool RepeatsWith(absl::Span<const int64_t> offsets, size_t period) {
  for (size_t i = period; i < offsets.size(); ++i) {
    if (offsets[i] - offsets[i / period * period] != offsets[i % period] - offsets[0]) return false;
  }
  return true;
}

bool IsNarrow(PrimitiveType type) { return type == PrimitiveType::kF16 || type == PrimitiveType::kBF16; }

// The matrix instruction for both products: all operands have one narrow type.
const MatrixStep* FindStep(const Attention& a, const GpuTarget& target) {
  const PrimitiveType type = a.query.base->shape().element_type();
  if (!IsNarrow(type) || a.key.base->shape().element_type() != type || a.value.base->shape().element_type() != type)
    return nullptr;
  for (const Instruction* dot : {a.scores, a.product}) {
    for (int64_t k = 0; k < 2; ++k) {
      if (dot->operand(k)->shape().element_type() != type) return nullptr;
    }
  }
  return FindMatrixStep(target, type, PrimitiveType::kF32, false);
}

}  // namespace

std::optional<ItemOffsets> FindItemOffsets(absl::Span<const int64_t> offsets) {
  ItemOffsets found;
  found.first = offsets[0];
  std::vector<int64_t> rest(offsets.begin(), offsets.end());
  int64_t divisor = 1;
  while (rest.size() > 1) {
    const int64_t stride = rest[1] - rest[0];
    size_t run = 2;
    while (run < rest.size() && rest[run] - rest[run - 1] == stride) ++run;
    while (run > 1 && (rest.size() % run != 0 || !RepeatsWith(rest, run))) --run;
    if (run == 1 || found.digits.size() == kMostDigits) return std::nullopt;
    if (stride != 0) found.digits.push_back({divisor, static_cast<int64_t>(run), stride});
    divisor *= static_cast<int64_t>(run);
    std::vector<int64_t> firsts;
    for (size_t i = 0; i < rest.size(); i += run) firsts.push_back(rest[i]);
    rest = std::move(firsts);
  }
  return found;
}

int64_t PadAttentionRow(int64_t elements, const MatrixStep* step) {
  return RoundUp(elements, step != nullptr ? int64_t{64} : int64_t{16});
}

bool HasAlignedRows(const AttentionView& view, int64_t row_stride, int64_t elements) {
  const int64_t chunk = 16 / ByteWidth(view.base->shape().element_type());
  if (view.inner_stride != 1 || elements % chunk != 0 || row_stride % chunk != 0) return false;
  return std::all_of(view.offsets.begin(), view.offsets.end(), [&](int64_t o) { return o % chunk == 0; });
}

absl::StatusOr<KernelPlan> PlanAttention(const Attention& a, const GpuTarget& target) {
  auto refuse = [](absl::string_view why) { return absl::UnimplementedError(absl::StrCat("attention: ", why)); };
  if (a.queries < 1 || a.keys < 1 || a.depth < 1 || a.width < 1 || a.items < 1) return refuse("an operand is empty");
  if (a.depth > kMostElements || a.width > kMostElements) return refuse("a head is too large");
  std::vector<const AttentionView*> views = {&a.query, &a.key, &a.value, &a.out};
  for (const ScoreOperation& o : a.operations) {
    if (o.array.base != nullptr) views.push_back(&o.array);
  }
  for (const AttentionView* v : views) {
    if (!FindItemOffsets(v->offsets)) return refuse("the heads lie irregularly in memory");
  }
  KernelPlan plan;
  AttentionPlan& kind = plan.kind.emplace<AttentionPlan>();
  kind.matrix = FindStep(a, target);
  MatrixTile& tile = kind.tile;
  const int64_t largest = std::max(a.depth, a.width);
  tile.waves_across = 1;
  if (kind.matrix != nullptr) {
    const bool is_mma = kind.matrix->family == MatrixFamily::kMma;
    // What is left of the registers, and on AMD's GPUs of 64 KiB of shared memory.
    tile.columns = largest <= 128 ? 64 : is_mma && largest <= 192 ? 32 : 16;
    tile.waves_down = 4;
    // A wave with two strips of 16 queries reads keys and values from shared memory half as often. With larger heads,
    // or arrays of terms, it has no registers for them, and on AMD's GPUs fewer waves would run at a time.
    const bool reads_arrays = std::any_of(a.operations.begin(), a.operations.end(),
                                          [](const ScoreOperation& o) { return o.array.base != nullptr; });
    tile.rows = is_mma && largest <= 64 && !reads_arrays && a.items * CeilDiv(a.queries, int64_t{128}) >= kManyBlocks
                    ? 128
                    : 64;
    plan.threads = static_cast<uint32_t>(tile.waves_down * kind.matrix->wave_size());
    if (is_mma && HasAlignedRows(a.key, a.key.key_stride, a.depth) &&
        HasAlignedRows(a.value, a.value.key_stride, a.width))
      tile.stages = 2;
  } else {
    tile.rows = largest > 128 ? 16 : largest > 64 ? 32 : 64;
    tile.columns = largest > 128 ? 16 : 32;
    plan.threads = 256;
  }
  const int64_t blocks = a.items * CeilDiv(a.queries, tile.rows);
  plan.blocks = CountBlocks(blocks, 1);
  plan.note = absl::StrCat("attention: ", a.items, " x ", a.queries, " queries, ", a.keys, " keys, ", a.depth,
                           a.width == a.depth ? "" : absl::StrCat(" and ", a.width), ", ", blocks, " tiles of ",
                           tile.rows, " x ", tile.columns, kind.matrix != nullptr ? ", matrix steps" : "",
                           tile.stages > 0 ? ", copied asynchronously" : "");
  return plan;
}

bool MaySkipKeys(const Attention& a, const GpuTarget& target) {
  if (a.operations.empty() || a.operations.back().kind != ScoreOperation::Kind::kBand) return false;
  return target.kind == ImageKind::kHost || a.items * a.queries * a.keys * (a.depth + a.width) >= kWorkWorthSkipping;
}

// One kernel saves writing the scores and reading them twice or more. A block has all keys of its queries, so with few
// queries and many keys most of the GPU would be idle, while separate products divide the keys among blocks and need
// little memory for the scores.
bool IsFasterAsOneKernel(const Attention& a, const GpuTarget& target) {
  if (a.queries < kFewestQueries) return false;
  const absl::StatusOr<KernelPlan> plan = PlanAttention(a, target);
  if (!plan.ok()) return false;
  // Separate products would be computed by matrix instructions.
  if (target.tf32_products && a.query.base->shape().element_type() == PrimitiveType::kF32) return false;
  return a.keys < kLongKeys || plan->blocks >= kFewestBlocksOfLongKeys;
}

}  // namespace backplane::hip
