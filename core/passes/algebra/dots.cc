#include <algorithm>

#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

// A dot of a transposed operand is a dot of the operand with permuted dimension numbers.
Instruction* DotOfTranspose(Instruction* i, Rewriter& to) {
  DotDimensions d = i->dot_dims();
  Instruction *lhs = i->operand(0), *rhs = i->operand(1);
  bool changed = false;
  auto absorb = [&](Instruction*& operand, Ints& batch, Ints& contracting) {
    if (!operand->Is(Opcode::kTranspose)) return;
    const Ints& p = operand->dimensions();
    // The free dimensions determine the order of the result's dimensions, so they must stay in order.
    Ints free;
    for (int64_t k = 0; k < static_cast<int64_t>(p.size()); ++k) {
      if (!absl::c_linear_search(batch, k) && !absl::c_linear_search(contracting, k))
        free.push_back(p[static_cast<size_t>(k)]);
    }
    if (!std::is_sorted(free.begin(), free.end())) return;
    for (int64_t& b : batch) b = p[static_cast<size_t>(b)];
    for (int64_t& k : contracting) k = p[static_cast<size_t>(k)];
    operand = operand->operand(0);
    changed = true;
  };
  absorb(lhs, d.lhs_batch, d.lhs_contracting);
  absorb(rhs, d.rhs_batch, d.rhs_contracting);
  if (!changed) return nullptr;
  Attributes attrs = i->attrs();
  attrs.Set(AttrId::kDotDims, std::move(d));
  return to.Make(Opcode::kDot, i->shape(), {lhs, rhs}, std::move(attrs));
}

// Returns the operand with the result's dimensions: batch dimensions first, then the free ones from `first_free`.
Instruction* BroadcastOperand(Instruction* x, const Ints& batch, const Ints& contracting, int64_t first_free,
                              const Shape& result, Rewriter& to) {
  Ints order = batch, dimensions;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (!absl::c_linear_search(batch, d) && !absl::c_linear_search(contracting, d)) order.push_back(d);
  }
  for (int64_t d = 0; d < static_cast<int64_t>(order.size()); ++d) {
    const int64_t batches = static_cast<int64_t>(batch.size());
    dimensions.push_back(d < batches ? d : first_free + d - batches);
  }
  x = to.Reshape(x, RemoveDimensions(x->shape(), contracting));
  for (int64_t& d : order) d -= absl::c_count_if(contracting, [&](int64_t k) { return k < d; });
  return to.Broadcast(to.Transpose(x, std::move(order)), result, std::move(dimensions));
}

// A dot with one product per element. The sum starts at zero, so a product of -0 becomes +0.
Instruction* DotOfOneProduct(Instruction* i, Rewriter& to) {
  const DotDimensions& d = i->dot_dims();
  const Instruction *lhs = i->operand(0), *rhs = i->operand(1);
  const PrimitiveType type = i->shape().element_type();
  if (lhs->shape().element_type() != type || rhs->shape().element_type() != type) return nullptr;
  if (IsComplex(type) || BitWidth(type) < 8 || type == PrimitiveType::kPred) return nullptr;
  if (IsFloat(type) && BitWidth(type) < 16) return nullptr;
  if (i->attrs().Has(AttrId::kDotAlgorithm) || i->result_accuracy()) return nullptr;
  for (int64_t k : d.lhs_contracting) {
    if (lhs->shape().dimensions(k) != 1) return nullptr;
  }
  const int64_t batches = static_cast<int64_t>(d.lhs_batch.size()),
                contracted = static_cast<int64_t>(d.lhs_contracting.size());
  Instruction* a = BroadcastOperand(i->operand(0), d.lhs_batch, d.lhs_contracting, batches, i->shape(), to);
  Instruction* b =
      BroadcastOperand(i->operand(1), d.rhs_batch, d.rhs_contracting, lhs->shape().rank() - contracted, i->shape(), to);
  Instruction* product = to.Make(Opcode::kMultiply, i->shape(), {a, b});
  if (!IsFloat(type)) return product;
  return to.Make(Opcode::kAdd, i->shape(), {product, to.Fill(Literal(Shape::Scalar(type)), i->shape())});
}

}  // namespace

void AddDotRules(RuleSet* r) {
  r->Add({{Opcode::kDot},
          "dot-of-transpose",
          "a dot takes a transposed operand by other dimension numbers",
          &DotOfTranspose});
  r->Add({{Opcode::kDot}, "dot-of-one-product", "a dot over dimensions of size 1 is a product", &DotOfOneProduct});
}

}  // namespace backplane::algebra
