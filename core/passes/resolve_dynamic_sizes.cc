// Replaces dimensions of dynamic size by full ones, with the size in a separate value. Elements past the size are
// unspecified, and are masked where an operation would combine them with others.
//
// Returns Unimplemented for operations that move elements across such a dimension, and for programs whose parameters or
// results have dynamic sizes.
#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/isolate_dynamic_sizes.h"
#include "core/passes/loop_builder.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

Shape Full(const Shape& shape) { return Shape(shape.element_type(), shape.dimensions()); }

using Sizes = std::vector<Instruction*>;  // s32[] for each dimension, or null if it is static

// Returns a value of type t that is neutral for the reduction with initial value `init`, or null if none is known.
absl::StatusOr<Value> MakeNeutral(Builder& b, const Computation& body, Value init, PrimitiveType t) {
  const Instruction* root = body.root();
  if (body.parameters().size() != 2 || root->operand_count() != 2) return nullptr;
  const Instruction *a = root->operand(0), *c = root->operand(1);
  if (!(a == body.parameter(0) && c == body.parameter(1)) && !(a == body.parameter(1) && c == body.parameter(0)))
    return nullptr;
  switch (root->opcode()) {
    case Opcode::kAdd:
    case Opcode::kXor:
      return b.Constant(Literal(Shape::Scalar(t)));
    case Opcode::kMultiply:
      return b.Constant(Literal::Scalar(t, 1));
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
      return init->shape().element_type() == t ? init
                                               : nullptr;  // the initial value may be combined any number of times
    default:
      return nullptr;
  }
}

class Resolver {
 public:
  explicit Resolver(Computation* c) : c_(c) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Instruction* i : c_->Snapshot()) {
      bool met = HasDynamic(i->shape()) || i->Is(Opcode::kGetDimensionSize) || i->Is(Opcode::kDynamicReshape);
      for (const Instruction* o : i->operands()) met = met || sizes_.contains(o);
      if (!met) continue;
      ASSIGN_OR_RETURN(Instruction * now, Resolve(i));
      now_[i] = now;
      if (!HasDynamic(i->shape())) Replace(i, now);
      changed = true;
    }
    if (HasDynamic(c_->root()->shape()))
      return absl::UnimplementedError(absl::StrCat(c_->root()->name(), ": a result of dynamic size"));
    if (changed) {
      c_->RemoveDead();
      c_->SortTopologically();
    }
    return changed;
  }

 private:
  absl::Status RefuseError(const Instruction* i, absl::string_view why) {
    return absl::UnimplementedError(absl::StrCat(i->name(), ": ", OpName(i->opcode()), " ", why));
  }

  Instruction* Replacement(Instruction* i) const {
    auto at = now_.find(i);
    return at == now_.end() ? i : at->second;
  }
  Sizes SizesOf(const Instruction* i) const {
    auto at = sizes_.find(i);
    return at == sizes_.end() ? Sizes(static_cast<size_t>(i->shape().IsArray() ? i->shape().rank() : 0), nullptr)
                              : at->second;
  }
  static bool Any(const Sizes& sizes) {
    return std::any_of(sizes.begin(), sizes.end(), [](const Instruction* s) { return s != nullptr; });
  }

  Instruction* Rebuild(Instruction* i, std::vector<Instruction*> operands) {
    return Make(c_, i, i->opcode(), Full(i->shape()), std::move(operands), i->attrs(),
                {i->called().begin(), i->called().end()});
  }
  std::vector<Instruction*> Operands(const Instruction* i) const {
    std::vector<Instruction*> now;
    for (Instruction* o : i->operands()) now.push_back(Replacement(o));
    return now;
  }

  // Returns x with elements past the sizes replaced by the neutral value of the reduction, or null if none is known.
  absl::StatusOr<Instruction*> MaskPastSizes(Instruction* x, Instruction* init, const Computation& body,
                                             const Sizes& sizes, absl::Span<const int64_t> dims) {
    for (int64_t d : dims) {
      if (sizes[static_cast<size_t>(d)] == nullptr) continue;
      Builder b(c_->parent(), "masked");
      ASSIGN_OR_RETURN(Value p, b.Parameter(0, x->shape()));
      ASSIGN_OR_RETURN(Value n, b.Parameter(1, Shape::Scalar(PrimitiveType::kS32)));
      ASSIGN_OR_RETURN(Value start, b.Parameter(2, init->shape()));
      ASSIGN_OR_RETURN(Value at, b.Iota(Shape(PrimitiveType::kS32, x->shape().dimensions()), d));
      ASSIGN_OR_RETURN(n, b.BroadcastInDim(n, x->shape().dimensions(), {}));
      ASSIGN_OR_RETURN(Value used, b.Compare(at, n, ComparisonDirection::kLt));
      ASSIGN_OR_RETURN(Value nothing, MakeNeutral(b, body, start, x->shape().element_type()));
      if (nothing == nullptr) return nullptr;
      ASSIGN_OR_RETURN(nothing, b.BroadcastInDim(nothing, x->shape().dimensions(), {}));
      ASSIGN_OR_RETURN(Value r, b.Select(used, p, nothing));
      ASSIGN_OR_RETURN(const Computation* masked, b.Build(r));
      Instruction* const arguments[] = {x, sizes[static_cast<size_t>(d)], init};
      x = Inline(c_, masked, arguments);
    }
    return x;
  }

  absl::StatusOr<Instruction*> Resolve(Instruction* i) {
    std::vector<Instruction*> x = Operands(i);
    Sizes sizes(static_cast<size_t>(i->shape().IsArray() ? i->shape().rank() : 0), nullptr);
    Instruction* r = nullptr;
    switch (i->opcode()) {
      case Opcode::kSetDimensionSize: {
        sizes = SizesOf(i->operand(0));
        const size_t d = static_cast<size_t>(i->dimensions()[0]);
        const int64_t whole = i->shape().dimensions(static_cast<int64_t>(d));
        if (whole > std::numeric_limits<int32_t>::max())
          return RefuseError(i, "of a size that does not fit in 32 bits");
        const Literal* n = FindUniformConstant(x[1]);
        sizes[d] = n != nullptr && n->GetAsInt(0) == whole ? nullptr : x[1];
        r = x[0];
        if (!Any(sizes)) {  // users need a static size
          r = Make(c_, i, Opcode::kCopy, Full(i->shape()), {r});
        }
        break;
      }
      case Opcode::kGetDimensionSize: {
        const int64_t d = i->dimensions()[0];
        r = SizesOf(i->operand(0))[static_cast<size_t>(d)];
        if (i->operand(0)->shape().dimensions(d) > std::numeric_limits<int32_t>::max())
          return RefuseError(i, "of a size that does not fit in 32 bits");
        if (r == nullptr)
          r = MakeConstant(c_, i, Literal::ScalarInt(PrimitiveType::kS32, i->operand(0)->shape().dimensions(d)));
        return r;
      }
      case Opcode::kDynamicReshape:
        for (const Instruction* o : i->operands()) {
          if (Any(SizesOf(o))) return RefuseError(i, "of a dynamic size");
        }
        if (HasDynamic(i->shape())) return RefuseError(i, "to a dynamic size");
        return Make(c_, i, Opcode::kReshape, i->shape(), {x[0]});
      case Opcode::kBroadcast: {
        const Sizes from = SizesOf(i->operand(0));
        for (size_t k = 0; k < from.size(); ++k) sizes[static_cast<size_t>(i->dimensions()[k])] = from[k];
        r = Rebuild(i, x);
        break;
      }
      case Opcode::kTranspose: {
        const Sizes from = SizesOf(i->operand(0));
        for (size_t k = 0; k < sizes.size(); ++k) sizes[k] = from[static_cast<size_t>(i->dimensions()[k])];
        r = Rebuild(i, x);
        break;
      }
      case Opcode::kReduce: {
        if (i->operand_count() != 2) return RefuseError(i, "of several values over a dynamic size");
        const Sizes from = SizesOf(i->operand(0));
        Ints masked;
        size_t kept = 0;
        for (size_t d = 0; d < from.size(); ++d) {
          const bool reduced = std::find(i->dimensions().begin(), i->dimensions().end(), static_cast<int64_t>(d)) !=
                               i->dimensions().end();
          if (!reduced)
            sizes[kept++] = from[d];
          else if (from[d] != nullptr)
            masked.push_back(static_cast<int64_t>(d));
        }
        if (!masked.empty()) {
          ASSIGN_OR_RETURN(x[0], MaskPastSizes(x[0], x[1], *i->called(0), from, masked));
          if (x[0] == nullptr) return RefuseError(i, "by this computation over a dynamic size");
        }
        r = Rebuild(i, x);
        break;
      }
      case Opcode::kDot: {
        const DotDimensions& d = i->dot_dims();
        size_t at = 0;
        for (int64_t b : d.lhs_batch) sizes[at++] = SizesOf(i->operand(0))[static_cast<size_t>(b)];
        for (int side = 0; side < 2; ++side) {
          const Ints& batch = side == 0 ? d.lhs_batch : d.rhs_batch;
          const Ints& contracting = side == 0 ? d.lhs_contracting : d.rhs_contracting;
          const Sizes from = SizesOf(i->operand(side));
          for (size_t k = 0; k < from.size(); ++k) {
            const auto is = [&](const Ints& v) {
              return std::find(v.begin(), v.end(), static_cast<int64_t>(k)) != v.end();
            };
            if (!is(batch) && !is(contracting)) sizes[at++] = from[k];
          }
        }
        for (size_t k = 0; k < d.lhs_contracting.size(); ++k) {
          if (SizesOf(i->operand(0))[static_cast<size_t>(d.lhs_contracting[k])] != nullptr ||
              SizesOf(i->operand(1))[static_cast<size_t>(d.rhs_contracting[k])] != nullptr) {
            return RefuseError(i, "over a dynamic size");
          }
        }
        r = Rebuild(i, x);
        break;
      }
      default: {
        if (!i->info().Has(kElementwise) || !i->shape().IsArray()) return RefuseError(i, "of a dynamic size");
        for (const Instruction* o : i->operands()) {
          if (o->shape().rank() != i->shape().rank()) continue;  // a scalar operand of an operation on arrays
          const Sizes from = SizesOf(o);
          for (size_t d = 0; d < from.size(); ++d) {
            if (sizes[d] == nullptr) sizes[d] = from[d];
          }
        }
        r = Rebuild(i, x);
      }
    }
    if (Any(sizes)) sizes_[i] = std::move(sizes);
    return r;
  }

  Computation* c_;
  absl::flat_hash_map<const Instruction*, Instruction*> now_;
  absl::flat_hash_map<const Instruction*, Sizes> sizes_;
};

}  // namespace

bool HasDynamicSizes(const Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (HasDynamic(i->shape()) || i->Is(Opcode::kDynamicReshape)) return true;
    }
  }
  return false;
}

absl::StatusOr<bool> ResolveDynamicSizes::Run(Module* module) {
  if (!HasDynamicSizes(*module)) return false;
  for (const auto& c : module->computations()) {
    if (c.get() == module->entry()) continue;
    for (const auto& i : c->instructions()) {
      if (HasDynamic(i->shape()))
        return absl::UnimplementedError(absl::StrCat(i->name(), ": dynamic sizes in a called computation"));
    }
  }
  for (const Instruction* p : module->entry()->parameters()) {
    if (HasDynamic(p->shape()))
      return absl::UnimplementedError(absl::StrCat(p->name(), ": a parameter of dynamic size"));
  }
  return Resolver(module->entry()).Run();
}

}  // namespace backplane
