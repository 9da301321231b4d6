#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

bool IsUniform(const Instruction* i, double value) {
  const Literal* l = UniformConstant(i);
  if (l == nullptr || IsComplex(l->shape().element_type())) return false;
  const double v = l->GetAsDouble(0);
  return v == value && !(value == 0 && std::signbit(v));
}

bool IsIdentity(absl::Span<const int64_t> permutation) {
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (permutation[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

class Simplifier {
 public:
  Simplifier(Computation* c, bool transposes_into_dots) : c_(c), transposes_into_dots_(transposes_into_dots) {}

  bool Run() {
    bool changed = false;
    for (Instruction* i : c_->Snapshot()) {
      if ((i->users().empty() && i != c_->root()) || !i->shape().IsArray() || i->shape().HasDynamicDimensions())
        continue;
      if (Instruction* r = Visit(i); r != nullptr && r != i) {
        Replace(i, r);
        changed = true;
      }
    }
    if (changed) {
      c_->RemoveDead();
      c_->SortTopologically();
    }
    return changed;
  }

 private:
  // What the instruction can be replaced by, or null.
  Instruction* Visit(Instruction* i) {
    const PrimitiveType type = i->shape().element_type();
    Instruction* x = i->operand_count() > 0 ? i->operand(0) : nullptr;
    Instruction* y = i->operand_count() > 1 ? i->operand(1) : nullptr;
    switch (i->opcode()) {
      case Opcode::kAdd:
        // x + 0 is not x for x = -0; with -0 it is.
        if (!IsFloat(type) && !IsComplex(type)) return IsUniform(y, 0) ? x : IsUniform(x, 0) ? y : nullptr;
        return nullptr;
      case Opcode::kSubtract:
        return !IsComplex(type) && IsUniform(y, 0) ? x : nullptr;
      case Opcode::kMultiply:
        if (IsUniform(y, 1)) return x;
        if (IsUniform(x, 1)) return y;
        if (IsIntegral(type) && IsUniform(y, 0)) return y;
        if (IsIntegral(type) && IsUniform(x, 0)) return x;
        return nullptr;
      case Opcode::kDivide:
        return IsUniform(y, 1) ? x : Reciprocal(i);
      case Opcode::kPower:
        return Power(i);
      case Opcode::kAnd:
      case Opcode::kOr:
        return Logic(i);
      case Opcode::kMaximum:
      case Opcode::kMinimum:
        return x == y ? x : nullptr;
      case Opcode::kNegate:
      case Opcode::kNot:
        return x->opcode() == i->opcode() ? x->operand(0) : nullptr;
      case Opcode::kAbs:
        return x->Is(Opcode::kAbs) && x->shape() == i->shape() ? x : nullptr;
      case Opcode::kSelect:
        return Select(i);
      case Opcode::kConvert:
        return x->shape().element_type() == type ? x : nullptr;
      case Opcode::kCopy:
        return x;
      case Opcode::kReshape:
        if (x->shape() == i->shape()) return x;
        if (x->Is(Opcode::kReshape)) return Make(c_, i, Opcode::kReshape, i->shape(), {x->operand(0)});
        if (x->Is(Opcode::kBroadcast) && x->operand(0)->shape().IsScalar())
          return MakeBroadcast(c_, i, x->operand(0), i->shape(), {});
        if (x->Is(Opcode::kConstant)) return ReshapedConstant(i);
        return nullptr;
      case Opcode::kTranspose:
        return Transpose(i);
      case Opcode::kBroadcast:
        return Broadcast(i);
      case Opcode::kSlice:
        return x->shape() == i->shape() ? x : nullptr;
      case Opcode::kReverse:
        return Reverse(i);
      case Opcode::kConcatenate:
        return Concatenate(i);
      case Opcode::kPad:
        return std::all_of(i->padding().begin(), i->padding().end(),
                           [](const PaddingDimension& p) { return p == PaddingDimension{}; })
                   ? x
                   : nullptr;
      case Opcode::kDynamicSlice:
        return x->shape() == i->shape() ? x : nullptr;
      case Opcode::kDynamicUpdateSlice:
        return y->shape() == i->shape() ? y : nullptr;
      case Opcode::kReduce:
        return Reduce(i);
      case Opcode::kDot:
        return transposes_into_dots_ ? Dot(i) : nullptr;
      case Opcode::kGetDimensionSize:
        return x->shape().HasDynamicDimensions() ? nullptr : Size(i);
      default:
        return nullptr;
    }
  }

  // The size of a dimension as an s32, which a dimension may be too large for.
  Instruction* Size(Instruction* i) {
    const int64_t size = i->operand(0)->shape().dimensions(i->dimensions().empty() ? 0 : i->dimensions()[0]);
    if (size > std::numeric_limits<int32_t>::max()) return nullptr;
    return MakeConstant(c_, i, Literal::ScalarInt(PrimitiveType::kS32, size));
  }

  // Division by a power of two is multiplication by its reciprocal, exactly.
  Instruction* Reciprocal(Instruction* i) {
    const PrimitiveType type = i->shape().element_type();
    const Literal* l = UniformConstant(i->operand(1));
    if (l == nullptr || !(type == PrimitiveType::kF32 || type == PrimitiveType::kF64 || type == PrimitiveType::kBF16))
      return nullptr;
    const double v = l->GetAsDouble(0);
    int exponent = 0;
    if (!std::isfinite(v) || v == 0 || std::abs(std::frexp(v, &exponent)) != 0.5 || std::abs(exponent) > 100)
      return nullptr;
    Instruction* scalar = MakeConstant(c_, i, Literal::Scalar(type, 1 / v));
    Instruction* factor = i->shape().IsScalar() ? scalar : MakeBroadcast(c_, i, scalar, i->shape(), {});
    return Make(c_, i, Opcode::kMultiply, i->shape(), {i->operand(0), factor});
  }

  Instruction* Power(Instruction* i) {
    if (!IsFloat(i->shape().element_type())) return nullptr;
    Instruction* x = i->operand(0);
    if (IsUniform(i->operand(1), 1)) return x;
    if (IsUniform(i->operand(1), 2)) return Make(c_, i, Opcode::kMultiply, i->shape(), {x, x});
    if (IsUniform(i->operand(1), 3)) {
      return Make(c_, i, Opcode::kMultiply, i->shape(), {Make(c_, i, Opcode::kMultiply, i->shape(), {x, x}), x});
    }
    if (IsUniform(i->operand(1), -1)) {
      Instruction* one = MakeConstant(c_, i, Literal::Scalar(i->shape().element_type(), 1));
      if (!i->shape().IsScalar()) one = MakeBroadcast(c_, i, one, i->shape(), {});
      return Make(c_, i, Opcode::kDivide, i->shape(), {one, x});
    }
    return nullptr;
  }

  Instruction* Logic(Instruction* i) {
    Instruction* x = i->operand(0);
    Instruction* y = i->operand(1);
    if (x == y) return x;
    if (i->shape().element_type() != PrimitiveType::kPred) return nullptr;
    const bool is_and = i->Is(Opcode::kAnd);
    for (auto [a, b] : {std::pair(x, y), std::pair(y, x)}) {
      if (IsUniform(b, 1)) return is_and ? a : b;
      if (IsUniform(b, 0)) return is_and ? b : a;
    }
    return nullptr;
  }

  Instruction* Select(Instruction* i) {
    if (i->operand(1) == i->operand(2)) return i->operand(1);
    if (IsUniform(i->operand(0), 1)) return i->operand(1);
    if (IsUniform(i->operand(0), 0)) return i->operand(2);
    return nullptr;
  }

  Instruction* ReshapedConstant(Instruction* i) {
    absl::StatusOr<Literal> l = i->operand(0)->literal().Reshape(i->shape().dimensions());
    return l.ok() ? MakeConstant(c_, i, *std::move(l)) : nullptr;
  }

  Instruction* Transpose(Instruction* i) {
    Instruction* x = i->operand(0);
    const Ints& p = i->dimensions();
    if (IsIdentity(p)) return x;
    if (x->Is(Opcode::kTranspose)) {
      Ints both;
      for (int64_t d : p) both.push_back(x->dimensions()[static_cast<size_t>(d)]);
      if (IsIdentity(both)) return x->operand(0);
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, std::move(both));
      return Make(c_, i, Opcode::kTranspose, i->shape(), {x->operand(0)}, std::move(attrs));
    }
    if (x->Is(Opcode::kBroadcast)) {
      // A transposed broadcast is a broadcast along other dims, when the small operand keeps its order.
      std::vector<int64_t> inverse(p.size());
      for (size_t d = 0; d < p.size(); ++d) inverse[static_cast<size_t>(p[d])] = static_cast<int64_t>(d);
      Ints dims;
      for (int64_t d : x->dimensions()) dims.push_back(inverse[static_cast<size_t>(d)]);
      if (std::is_sorted(dims.begin(), dims.end()))
        return MakeBroadcast(c_, i, x->operand(0), i->shape(), std::move(dims));
    }
    // Only dims of size one move: the bytes stay where they are.
    Ints moving;
    for (int64_t d : p) {
      if (x->shape().dimensions(d) != 1) moving.push_back(d);
    }
    if (std::is_sorted(moving.begin(), moving.end())) return Make(c_, i, Opcode::kReshape, i->shape(), {x});
    return nullptr;
  }

  Instruction* Broadcast(Instruction* i) {
    Instruction* x = i->operand(0);
    if (x->shape() == i->shape() && IsIdentity(i->dimensions())) return x;
    if (x->Is(Opcode::kBroadcast)) {
      Ints dims;
      for (int64_t d : x->dimensions()) dims.push_back(i->dimensions()[static_cast<size_t>(d)]);
      return MakeBroadcast(c_, i, x->operand(0), i->shape(), std::move(dims));
    }
    if (x->Is(Opcode::kConstant) && !x->shape().IsScalar() && x->shape().num_elements() > 0 &&
        x->literal().IsAllEqual()) {
      return MakeBroadcast(c_, i, ScalarOf(x), i->shape(), {});
    }
    if (x->shape().num_elements() == i->shape().num_elements() &&
        std::is_sorted(i->dimensions().begin(), i->dimensions().end())) {
      return Make(c_, i, Opcode::kReshape, i->shape(), {x});
    }
    // Dims of size one of the operand say nothing: without them a reshape may become a bare broadcast.
    if (x->Is(Opcode::kReshape) && x->operand(0)->shape().IsScalar())
      return MakeBroadcast(c_, i, x->operand(0), i->shape(), {});
    return nullptr;
  }

  Instruction* ScalarOf(Instruction* constant) {
    const size_t width = static_cast<size_t>(ByteWidth(constant->shape().element_type()));
    absl::StatusOr<Literal> l =
        Literal::FromBytes(Shape::Scalar(constant->shape().element_type()), {constant->literal().bytes(), width});
    return MakeConstant(c_, constant, *std::move(l));
  }

  Instruction* Reverse(Instruction* i) {
    for (int64_t d : i->dimensions()) {
      if (i->shape().dimensions(d) != 1) return nullptr;
    }
    return i->operand(0);
  }

  Instruction* Concatenate(Instruction* i) {
    if (i->operand_count() == 1) return i->operand(0);
    const int64_t d = i->dimensions()[0];
    std::vector<Instruction*> parts;
    for (Instruction* o : i->operands()) {
      if (o->shape().dimensions(d) != 0) parts.push_back(o);
    }
    if (parts.empty() || static_cast<int64_t>(parts.size()) == i->operand_count()) return nullptr;
    if (parts.size() == 1) return parts[0];
    return Make(c_, i, Opcode::kConcatenate, i->shape(), std::move(parts), i->attrs());
  }

  Instruction* Reduce(Instruction* i) {
    if (i->operand_count() != 2) return nullptr;
    Instruction* x = i->operand(0);
    if (i->dimensions().empty() && x->shape() == i->shape()) {
      // Nothing is reduced, but the initial value still enters once.
      return nullptr;
    }
    // reduce(reshape that only adds or drops dims of size one) stays; reduce over an empty product is the init value.
    if (x->shape().num_elements() == 0 && i->shape().num_elements() > 0)
      return MakeBroadcast(c_, i, i->operand(1), i->shape(), {});
    return nullptr;
  }

  // A transposed operand of a dot is a dot with other dimension numbers.
  Instruction* Dot(Instruction* i) {
    DotDimensions d = i->dot_dims();
    Instruction* lhs = i->operand(0);
    Instruction* rhs = i->operand(1);
    bool changed = false;
    auto absorb = [&](Instruction*& operand, Ints& batch, Ints& contracting) {
      if (!operand->Is(Opcode::kTranspose)) return;
      const Ints& p = operand->dimensions();
      // The free dims must stay in order: they make the result's.
      Ints free;
      for (int64_t k = 0; k < static_cast<int64_t>(p.size()); ++k) {
        if (std::find(batch.begin(), batch.end(), k) == batch.end() &&
            std::find(contracting.begin(), contracting.end(), k) == contracting.end()) {
          free.push_back(p[static_cast<size_t>(k)]);
        }
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
    return Make(c_, i, Opcode::kDot, i->shape(), {lhs, rhs}, std::move(attrs));
  }

  Computation* c_;
  bool transposes_into_dots_;
};

}  // namespace

absl::StatusOr<bool> SimplifyAlgebra::Run(Module* module) {
  bool changed = false;
  for (Computation* c : RunningComputations(module)) {
    while (Simplifier(c, transposes_into_dots_).Run()) changed = true;
  }
  return changed;
}

}  // namespace backplane
