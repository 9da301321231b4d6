#include "sdk/compiler/split_reductions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"

namespace backplane::compiler {
namespace {

constexpr int64_t kShort = 48;       // elements: up to three vectors
constexpr int64_t kLongRow = 64;     // kept and innermost elements, from which columns fill vectors
constexpr int64_t kManyRows = 64;    // rows of them for each result
constexpr int64_t kLarge = 1 << 15;  // elements in all

// Whether the result is the same if partial results, which begin with the initial value as well, are combined.
bool AllowsPartialResults(const Instruction& reduce) {
  const PrimitiveType type = reduce.shape().element_type();
  if (BitWidth(type) < 32 && IsFloat(type)) return false;  // a partial result would be rounded
  const Instruction& root = *reduce.called(0)->root();
  if (root.operand_count() != 2 || !root.operand(0)->Is(Opcode::kParameter) ||
      !root.operand(1)->Is(Opcode::kParameter) || root.operand(0) == root.operand(1))
    return false;
  switch (root.opcode()) {
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
      return true;
    case Opcode::kAdd: {
      const Literal* start = FindUniformConstant(reduce.operand(1));
      return start != nullptr && start->IsAll(0);
    }
    default:
      return false;
  }
}

// Returns the first dimension of the innermost part if the reduction is worth splitting before it.
std::optional<int64_t> FindSplit(const Instruction& reduce) {
  const Shape& from = reduce.operand(0)->shape();
  if (from.num_elements() < kLarge || from.HasDynamicDimensions()) return std::nullopt;
  const Ints& dims = reduce.dimensions();
  auto is_reduced = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
  int64_t d = from.rank() - 1;
  int64_t inner = 1, kept = 1, outer = 1;
  for (; d >= 0 && (is_reduced(d) || from.dimensions(d) == 1); --d) inner *= from.dimensions(d);
  const int64_t split = d + 1;
  for (; d >= 0 && !is_reduced(d); --d) kept *= from.dimensions(d);
  for (; d >= 0; --d) outer *= is_reduced(d) ? from.dimensions(d) : 1;
  if (inner == 1 || inner > kShort || kept == 1 || kept * inner < kLongRow || outer < kManyRows) return std::nullopt;
  return split;
}

absl::StatusOr<bool> Split(Computation* c, Instruction* reduce) {
  if (!reduce->Is(Opcode::kReduce) || reduce->operand_count() != 2 || !AllowsPartialResults(*reduce)) return false;
  const std::optional<int64_t> split = FindSplit(*reduce);
  if (!split) return false;
  Instruction* x = reduce->operand(0);
  // A dimension of size 1 in the innermost part may be kept.
  Ints first, second;
  std::vector<int64_t> remaining;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    const Ints& dims = reduce->dimensions();
    const bool is_reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (is_reduced && d < *split) {
      first.push_back(d);
      continue;
    }
    if (is_reduced) second.push_back(static_cast<int64_t>(remaining.size()));
    remaining.push_back(x->shape().dimensions(d));
  }
  auto make = [&](Instruction* from, const Shape& shape, Ints dims) {
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, std::move(dims));
    return Make(c, reduce, Opcode::kReduce, shape, {from, reduce->operand(1)}, std::move(attrs), {reduce->called(0)});
  };
  Instruction* rows = make(x, Shape(reduce->shape().element_type(), remaining), std::move(first));
  Replace(reduce, make(rows, reduce->shape(), std::move(second)));
  return true;
}

}  // namespace

absl::StatusOr<bool> SplitReductions::Run(Module* module) { return RewriteEach(module, Split); }

}  // namespace backplane::compiler
