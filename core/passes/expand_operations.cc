#include <numeric>

#include "core/ir/builder.h"
#include "core/passes/expand_factorizations.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

class Expander {
 public:
  explicit Expander(Computation* c) : c_(c) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Instruction* i : c_->Snapshot()) {
      if (i->users().empty() && i != c_->root()) continue;
      like_ = i;
      Instruction* r = nullptr;
      switch (i->opcode()) {
        case Opcode::kBatchNormInference: {
          ASSIGN_OR_RETURN(r, Inference(i));
          break;
        }
        case Opcode::kBatchNormTraining: {
          ASSIGN_OR_RETURN(r, Training(i));
          break;
        }
        case Opcode::kBatchNormGrad: {
          ASSIGN_OR_RETURN(r, Grad(i));
          break;
        }
        case Opcode::kCustomCall: {
          ASSIGN_OR_RETURN(r, ExpandFactorization(c_, i));
          break;
        }
        case Opcode::kMap:
          r = Map(i);
          break;
        default:
          break;
      }
      if (r == nullptr) continue;
      Replace(i, r);
      changed = true;
    }
    if (changed) {
      c_->RemoveDead();
      c_->SortTopologically();
    }
    return changed;
  }

 private:
  Instruction* Op(Opcode o, std::vector<Instruction*> x) {
    Shape s = x[0]->shape();
    return Make(c_, like_, o, s, std::move(x));
  }
  Instruction* BroadcastTo(Instruction* x, const Shape& to, int64_t d) {
    return MakeBroadcast(c_, like_, x, to.WithElementType(x->shape().element_type()), {d});
  }
  Instruction* Fill(const Shape& s, double v) {
    Instruction* k = MakeConstant(c_, like_, Literal::Scalar(s.element_type(), v));
    return s.IsScalar() ? k : MakeBroadcast(c_, like_, k, s, {});
  }

  absl::StatusOr<Instruction*> Sum(Instruction* x, int64_t keep) {
    ASSIGN_OR_RETURN(Computation * add,
                     MakeScalarBinaryComputation(c_->parent(), Opcode::kAdd, x->shape().element_type()));
    Ints dims;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (d != keep) dims.push_back(d);
    }
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, std::move(dims));
    Instruction* zero = MakeConstant(c_, like_, Literal::Scalar(x->shape().element_type(), 0));
    return Make(c_, like_, Opcode::kReduce, Shape(x->shape().element_type(), {x->shape().dimensions(keep)}), {x, zero},
                std::move(attrs), {add});
  }

  Instruction* Mean(Instruction* sum, const Shape& x, int64_t feature) {
    const double n =
        static_cast<double>(x.num_elements()) / static_cast<double>(std::max<int64_t>(1, x.dimensions(feature)));
    return Op(Opcode::kDivide, {sum, Fill(sum->shape(), n)});
  }

  Instruction* InverseDeviation(Instruction* variance, double epsilon) {
    return Op(Opcode::kRsqrt, {Op(Opcode::kAdd, {variance, Fill(variance->shape(), epsilon)})});
  }

  absl::StatusOr<Instruction*> Inference(Instruction* i) {
    const Shape& s = i->operand(0)->shape();
    const int64_t f = i->attrs().GetInt(AttrId::kFeatureIndex);
    Instruction* scale =
        Op(Opcode::kMultiply, {i->operand(1), InverseDeviation(i->operand(4), i->attrs().GetDouble(AttrId::kEpsilon))});
    Instruction* centered = Op(Opcode::kSubtract, {i->operand(0), BroadcastTo(i->operand(3), s, f)});
    return Op(Opcode::kAdd,
              {Op(Opcode::kMultiply, {centered, BroadcastTo(scale, s, f)}), BroadcastTo(i->operand(2), s, f)});
  }

  absl::StatusOr<Instruction*> Training(Instruction* i) {
    Instruction* x = i->operand(0);
    const int64_t f = i->attrs().GetInt(AttrId::kFeatureIndex);
    ASSIGN_OR_RETURN(Instruction * sum, Sum(x, f));
    Instruction* mean = Mean(sum, x->shape(), f);
    Instruction* centered = Op(Opcode::kSubtract, {x, BroadcastTo(mean, x->shape(), f)});
    ASSIGN_OR_RETURN(Instruction * squares, Sum(Op(Opcode::kMultiply, {centered, centered}), f));
    Instruction* variance = Mean(squares, x->shape(), f);
    Instruction* scale =
        Op(Opcode::kMultiply, {i->operand(1), InverseDeviation(variance, i->attrs().GetDouble(AttrId::kEpsilon))});
    Instruction* y = Op(Opcode::kAdd, {Op(Opcode::kMultiply, {centered, BroadcastTo(scale, x->shape(), f)}),
                                       BroadcastTo(i->operand(2), x->shape(), f)});
    return Make(c_, i, Opcode::kTuple, i->shape(), {y, mean, variance});
  }

  absl::StatusOr<Instruction*> Grad(Instruction* i) {
    Instruction *x = i->operand(0), *scale = i->operand(1), *mean = i->operand(2), *variance = i->operand(3),
                *dy = i->operand(4);
    const int64_t f = i->attrs().GetInt(AttrId::kFeatureIndex);
    const Shape& s = x->shape();
    Instruction* inverse = InverseDeviation(variance, i->attrs().GetDouble(AttrId::kEpsilon));
    Instruction* centered = Op(Opcode::kSubtract, {x, BroadcastTo(mean, s, f)});
    ASSIGN_OR_RETURN(Instruction * dbeta, Sum(dy, f));
    ASSIGN_OR_RETURN(Instruction * dot, Sum(Op(Opcode::kMultiply, {dy, centered}), f));
    Instruction* dgamma = Op(Opcode::kMultiply, {dot, inverse});
    Instruction* slope = Mean(Op(Opcode::kMultiply, {Op(Opcode::kMultiply, {dot, inverse}), inverse}), s, f);
    Instruction* inner = Op(Opcode::kSubtract, {Op(Opcode::kSubtract, {dy, BroadcastTo(Mean(dbeta, s, f), s, f)}),
                                                Op(Opcode::kMultiply, {centered, BroadcastTo(slope, s, f)})});
    Instruction* dx = Op(Opcode::kMultiply, {inner, BroadcastTo(Op(Opcode::kMultiply, {scale, inverse}), s, f)});
    return Make(c_, i, Opcode::kTuple, i->shape(), {dx, dgamma, dbeta});
  }

  // Applies an elementwise scalar computation to arrays.
  Instruction* Map(Instruction* i) {
    const Computation* body = i->called(0);
    for (const auto& b : body->instructions()) {
      if (!b->Is(Opcode::kParameter) && !b->Is(Opcode::kConstant) && !b->info().Has(kElementwise)) return nullptr;
    }
    absl::flat_hash_map<const Instruction*, Instruction*> lifted;
    for (const auto& owned : body->instructions()) {
      const Instruction* b = owned.get();
      const Shape shape = i->shape().WithElementType(b->shape().element_type());
      if (b->Is(Opcode::kParameter)) {
        lifted[b] = i->operand(b->parameter_number());
      } else if (b->Is(Opcode::kConstant)) {
        Instruction* k = MakeConstant(c_, i, b->literal());
        lifted[b] = shape.IsScalar() ? k : MakeBroadcast(c_, i, k, shape, {});
      } else {
        std::vector<Instruction*> operands;
        for (const Instruction* o : b->operands()) operands.push_back(lifted.at(o));
        lifted[b] = c_->AddClone(b, shape, operands);
      }
    }
    return lifted.at(body->root());
  }

  Computation* c_;
  const Instruction* like_ = nullptr;
};

}  // namespace

absl::StatusOr<bool> ExpandOperations::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    ASSIGN_OR_RETURN(bool here, Expander(c).Run());
    changed |= here;
  }
  return changed;
}

}  // namespace backplane
