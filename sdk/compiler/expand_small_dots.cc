#include "sdk/compiler/expand_small_dots.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/passes/make_reducer.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"

namespace backplane::compiler {
namespace {

constexpr int64_t kMaxContracted = 64;
constexpr double kMaxProducts = 2048;  // of one matrix product of a batch, or of one row of many

// The type in which the products are computed and summed; nullopt if an operand does not fit it exactly.
std::optional<PrimitiveType> ChooseComputedType(const Instruction& dot) {
  const PrimitiveType result = dot.shape().element_type(), lhs = dot.operand(0)->shape().element_type(),
                      rhs = dot.operand(1)->shape().element_type();
  if (lhs != rhs || IsComplex(result) || IsComplex(lhs) || lhs == PrimitiveType::kPred ||
      IsFloat(lhs) != IsFloat(result))
    return std::nullopt;
  if (BitWidth(lhs) < (IsFloat(lhs) ? 16 : 8) || BitWidth(result) < BitWidth(lhs)) return std::nullopt;
  if (!IsFloat(lhs)) return IsSigned(lhs) == IsSigned(result) ? std::optional(result) : std::nullopt;
  if (result != lhs && BitWidth(result) == BitWidth(lhs)) return std::nullopt;
  return BitWidth(result) == 16 ? PrimitiveType::kF32 : result;
}

using Sizes = ExpandSmallDots::Sizes;

Sizes MeasureDot(const Instruction& dot) {
  const DotDimensions& d = dot.dot_dims();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  Sizes s;
  for (int64_t b : d.lhs_batch) s.batch *= static_cast<double>(lhs.dimensions(b));
  for (int64_t k : d.lhs_contracting) s.k *= static_cast<double>(lhs.dimensions(k));
  s.m = static_cast<double>(lhs.num_elements()) / std::max(1.0, s.batch * s.k);
  s.n = static_cast<double>(rhs.num_elements()) / std::max(1.0, s.batch * s.k);
  s.bytes = std::max(4, ByteWidth(dot.shape().element_type()));
  return s;
}

// Nanoseconds on one thread, fitted to measurements (docs/notes/speed.md): of the library, which starts anew for each
// product of the batch, and of a fused loop, which computes one product at a time.
bool IsSmallDotFasterFused(const Sizes& s) {
  const double rows = std::max(s.m, s.n), columns = std::min(s.m, s.n);
  if (s.k > kMaxContracted || columns * s.k > kMaxProducts) return false;
  const double row = columns == 1 ? 10 + s.k / 4 : 4 + columns * s.k / 16;
  const double library = s.batch * (40 + rows * row);
  const double fused = 0.3 * (s.bytes / 4) * s.batch * rows * columns * s.k;
  return fused < library;
}

// The dimensions of the products: those of the result and the contracted ones, in an order in which the operands have
// theirs, too.
struct ProductSpace {
  std::vector<int64_t> dims;
  Ints lhs, rhs, contracted;  // where each dimension of an operand is, and the contracted ones
  Ints sum;                   // the result's dimensions, in the order of the sums
};

// `in_order`: the result has its dimensions in that order as well.
std::optional<ProductSpace> MakeSpace(const Instruction& dot, bool in_order) {
  const DotDimensions& d = dot.dot_dims();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  // Names: the result's dimensions, then the contracted ones. By preference batch, rows, contracted, columns: then the
  // innermost loop walks along rows of the right operand.
  const int64_t batch = static_cast<int64_t>(d.lhs_batch.size()),
                contracted = static_cast<int64_t>(d.lhs_contracting.size()), rank = dot.shape().rank(),
                rows = lhs.rank() - batch - contracted;
  Ints of_lhs(static_cast<size_t>(lhs.rank()), -1), of_rhs(static_cast<size_t>(rhs.rank()), -1);
  for (int64_t b = 0; b < batch; ++b) {
    of_lhs[static_cast<size_t>(d.lhs_batch[static_cast<size_t>(b)])] = b;
    of_rhs[static_cast<size_t>(d.rhs_batch[static_cast<size_t>(b)])] = b;
  }
  for (int64_t k = 0; k < contracted; ++k) {
    of_lhs[static_cast<size_t>(d.lhs_contracting[static_cast<size_t>(k)])] = rank + k;
    of_rhs[static_cast<size_t>(d.rhs_contracting[static_cast<size_t>(k)])] = rank + k;
  }
  int64_t next = batch;
  for (Ints* names : {&of_lhs, &of_rhs}) {
    for (int64_t& name : *names) {
      if (name < 0) name = next++;
    }
  }
  std::vector<int64_t> preference;
  for (int64_t r = 0; r < batch + rows; ++r) preference.push_back(r);
  for (int64_t k = 0; k < contracted; ++k) preference.push_back(rank + k);
  for (int64_t r = batch + rows; r < rank; ++r) preference.push_back(r);
  // Merges the three orders.
  const size_t count = static_cast<size_t>(rank + contracted);
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  auto chain = [&](const Ints& names) {
    for (size_t i = 0; i + 1 < names.size(); ++i)
      before[static_cast<size_t>(names[i])][static_cast<size_t>(names[i + 1])] = true;
  };
  Ints of_result;
  for (int64_t r = 0; r < rank; ++r) of_result.push_back(r);
  chain(of_lhs);
  chain(of_rhs);
  if (in_order) chain(of_result);
  std::vector<int64_t> place(count, -1);
  ProductSpace space;
  while (space.dims.size() < count) {
    const auto free = std::find_if(preference.begin(), preference.end(), [&](int64_t name) {
      if (place[static_cast<size_t>(name)] >= 0) return false;
      for (size_t other = 0; other < count; ++other) {
        if (place[other] < 0 && before[other][static_cast<size_t>(name)]) return false;
      }
      return true;
    });
    if (free == preference.end()) return std::nullopt;
    place[static_cast<size_t>(*free)] = static_cast<int64_t>(space.dims.size());
    if (*free < rank) space.sum.push_back(*free);
    space.dims.push_back(*free < rank ? dot.shape().dimensions(*free)
                                      : lhs.dimensions(d.lhs_contracting[static_cast<size_t>(*free - rank)]));
  }
  for (int64_t name : of_lhs) space.lhs.push_back(place[static_cast<size_t>(name)]);
  for (int64_t name : of_rhs) space.rhs.push_back(place[static_cast<size_t>(name)]);
  for (int64_t k = 0; k < contracted; ++k) space.contracted.push_back(place[static_cast<size_t>(rank + k)]);
  absl::c_sort(space.contracted);
  return space;
}

Instruction* ConvertTo(Computation* c, Instruction* x, PrimitiveType to) {
  if (x->shape().element_type() == to) return x;
  return Make(c, x, Opcode::kConvert, x->shape().WithElementType(to), {x});
}

Instruction* Expand(Computation* c, Instruction* dot, const std::function<bool(const Sizes&)>& is_faster) {
  if (dot->attrs().Has(AttrId::kDotAlgorithm) || dot->result_accuracy() || dot->shape().num_elements() == 0)
    return nullptr;
  const std::optional<PrimitiveType> type = ChooseComputedType(*dot);
  if (!type || !is_faster(MeasureDot(*dot))) return nullptr;
  std::optional<ProductSpace> space = MakeSpace(*dot, true);
  if (!space) space = MakeSpace(*dot, false);
  if (!space || space->contracted.empty()) return nullptr;
  const Shape products(*type, space->dims);
  Instruction* lhs = MakeBroadcast(c, dot, ConvertTo(c, dot->operand(0), *type), products, space->lhs);
  Instruction* rhs = MakeBroadcast(c, dot, ConvertTo(c, dot->operand(1), *type), products, space->rhs);
  Instruction* product = Make(c, dot, Opcode::kMultiply, products, {lhs, rhs});
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, space->contracted);
  Instruction* zero = MakeConstant(c, dot, Literal(Shape::Scalar(*type)));
  std::vector<int64_t> dims;
  for (int64_t name : space->sum) dims.push_back(dot->shape().dimensions(name));
  Instruction* sum = Make(c, dot, Opcode::kReduce, Shape(*type, dims), {product, zero}, std::move(attrs),
                          {MakeReducer(c->parent(), "sum", Opcode::kAdd, *type)});
  sum = ConvertTo(c, sum, dot->shape().element_type());
  if (absl::c_is_sorted(space->sum)) return sum;
  Attributes order;
  Ints permutation(space->sum.size());
  for (size_t k = 0; k < space->sum.size(); ++k)
    permutation[static_cast<size_t>(space->sum[k])] = static_cast<int64_t>(k);
  order.Set(AttrId::kDimensions, std::move(permutation));
  return Make(c, dot, Opcode::kTranspose, dot->shape(), {sum}, std::move(order));
}

}  // namespace

absl::StatusOr<bool> ExpandSmallDots::Run(Module* module) {
  return RewriteEach(module, [this](Computation* c, Instruction* i) -> absl::StatusOr<bool> {
    if (!i->Is(Opcode::kDot) || (i->users().empty() && i != c->root())) return false;
    if (is_claimed_ && is_claimed_(*i)) return false;
    Instruction* sum = Expand(c, i, is_faster_ ? is_faster_ : IsSmallDotFasterFused);
    if (sum == nullptr) return false;
    Replace(i, sum);
    return true;
  });
}

}  // namespace backplane::compiler
