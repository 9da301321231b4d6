#include "plugins/tpu_emulator/program/f64_pairs.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

bool IsF64(const Shape& s) { return s.IsArray() && ComplexPart(s.element_type()) == PrimitiveType::kF64; }

bool ContainsF64(const Shape& s) {
  if (!s.IsTuple()) return IsF64(s);
  return std::any_of(s.tuple_shapes().begin(), s.tuple_shapes().end(), ContainsF64);
}

// Whether the result is a pair if the operands are pairs. The operation then computes nothing, or returns an operand up
// to its sign.
bool PreservesPairs(const Instruction& i) {
  if (i.info().ReducesLocally() || i.info().Has(OpTrait::kForwardsOperand)) return true;
  switch (i.opcode()) {
    case Opcode::kAbs:
      return !IsComplex(i.operand(0)->shape().element_type());
    case Opcode::kSign:
      return !IsComplex(i.shape().element_type());
    case Opcode::kNegate:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kComplex:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
    case Opcode::kSelect:
    case Opcode::kBitcast:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kCopy:
    case Opcode::kPad:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGather:
    case Opcode::kSort:
    case Opcode::kTopK:
    // Their bodies are rewritten.
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll:
      return true;
    case Opcode::kParameter:
      return !i.parent()->IsEntry();
    case Opcode::kConvert: {
      const PrimitiveType from = ComplexPart(i.operand(0)->shape().element_type());
      return from == PrimitiveType::kF64 || BitWidth(from) <= 32;
    }
    default:
      return false;
  }
}

// Rounds the values of one computation.
class Rounder {
 public:
  explicit Rounder(Computation* c) : c_(c) {}

  absl::Status RoundComputation(absl::flat_hash_map<const Computation*, Computation*>& combiners, bool& changed) {
    for (Instruction* i : c_->Snapshot()) {
      if (i->info().ReducesLocally() && ContainsF64(i->shape())) {
        // The last computation is the combiner; the first one of a select-and-scatter compares.
        const int64_t last = static_cast<int64_t>(i->called().size()) - 1;
        ASSIGN_OR_RETURN(Computation * combiner, RoundCombiner(i->called(last), combiners));
        changed |= combiner != i->called(last);
        i->set_called(last, combiner);
      }
      if (i->Is(Opcode::kDot) && IsF64(i->shape())) {
        ASSIGN_OR_RETURN(Computation * sum, GetSumCombiner(i->shape().element_type(), combiners));
        ReplaceUses(i, ExpandDot(*i, sum));
        changed = true;
        continue;
      }
      if (!ContainsF64(i->shape()) || PreservesPairs(*i)) continue;
      if (i->Is(Opcode::kConstant)) {
        changed |= RoundConstant(i);
        continue;
      }
      RoundResult(i);
      changed = true;
    }
    if (changed) {
      c_->SortTopologically();
      c_->RemoveDead();
    }
    return absl::OkStatus();
  }

 private:
  // Replaces all uses of `from` by `to`, including its use as the root, except in the users listed in `except`.
  void ReplaceUses(Instruction* from, Instruction* to, absl::Span<Instruction* const> except = {}) {
    const std::vector<Instruction*> users(from->users().begin(), from->users().end());
    for (Instruction* user : users) {
      if (std::find(except.begin(), except.end(), user) != except.end()) continue;
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == from) user->ReplaceOperand(k, to);
      }
    }
    if (c_->root() == from) c_->set_root(to);
  }

  Instruction* Convert(Instruction* x, PrimitiveType type) {
    return Make(c_, x, Opcode::kConvert, x->shape().WithElementType(type), {x});
  }

  // Emits RoundToPair(x). Appends the new instructions that read x to `readers`.
  Instruction* RoundReal(Instruction* x, std::vector<Instruction*>& readers) {
    Instruction* leading = Convert(x, PrimitiveType::kF32);
    Instruction* high = Convert(leading, PrimitiveType::kF64);
    Instruction* error = Make(c_, x, Opcode::kSubtract, x->shape(), {high, x});
    readers.push_back(leading);
    readers.push_back(error);
    Instruction* low = Convert(Convert(error, PrimitiveType::kF32), PrimitiveType::kF64);
    Instruction* sum = Make(c_, x, Opcode::kSubtract, x->shape(), {high, low});
    Instruction* finite = Make(c_, x, Opcode::kIsFinite, x->shape().WithElementType(PrimitiveType::kPred), {high});
    return Make(c_, x, Opcode::kSelect, x->shape(), {finite, sum, high});
  }

  Instruction* RoundArray(Instruction* x, std::vector<Instruction*>& readers) {
    if (!IsComplex(x->shape().element_type())) return RoundReal(x, readers);
    const Shape part = x->shape().WithElementType(PrimitiveType::kF64);
    Instruction* real = Make(c_, x, Opcode::kReal, part, {x});
    Instruction* imaginary = Make(c_, x, Opcode::kImag, part, {x});
    readers.push_back(real);
    readers.push_back(imaginary);
    std::vector<Instruction*> unused;
    return Make(c_, x, Opcode::kComplex, x->shape(), {RoundReal(real, unused), RoundReal(imaginary, unused)});
  }

  // Emits the tuple with all f64 arrays rounded.
  Instruction* RoundTuple(Instruction* tuple, std::vector<Instruction*>& readers) {
    std::vector<Instruction*> elements;
    std::vector<Instruction*> unused;
    for (int64_t k = 0; k < tuple->shape().tuple_size(); ++k) {
      Instruction* element = MakeElement(c_, tuple, k);
      readers.push_back(element);
      if (element->shape().IsTuple() && ContainsF64(element->shape())) {
        element = RoundTuple(element, unused);
      } else if (IsF64(element->shape())) {
        element = RoundArray(element, unused);
      }
      elements.push_back(element);
    }
    return Make(c_, tuple, Opcode::kTuple, tuple->shape(), std::move(elements));
  }

  void RoundResult(Instruction* i) {
    std::vector<Instruction*> readers;
    if (!i->shape().IsTuple()) {
      Instruction* rounded = RoundArray(i, readers);
      ReplaceUses(i, rounded, readers);
      return;
    }
    Instruction* rounded = RoundTuple(i, readers);
    const std::vector<Instruction*> users(i->users().begin(), i->users().end());
    for (Instruction* user : users) {  // read the rounded element directly instead of from the new tuple
      if (!user->Is(Opcode::kGetTupleElement) || std::find(readers.begin(), readers.end(), user) != readers.end()) {
        continue;
      }
      ReplaceUses(user, rounded->operand(user->attrs().GetInt(AttrId::kTupleIndex, 0)));
    }
    ReplaceUses(i, rounded, readers);
  }

  bool RoundConstant(Instruction* i) {
    if (!i->shape().IsArray()) return false;
    Literal value = i->literal();
    bool changed = false;
    const auto round = [&](double& x) {
      const double pair = RoundToPair(x);
      changed |= pair != x && !std::isnan(x);
      x = pair;
    };
    if (IsComplex(i->shape().element_type())) {
      for (std::complex<double>& z : value.mutable_data<std::complex<double>>()) {
        double parts[2] = {z.real(), z.imag()};
        round(parts[0]);
        round(parts[1]);
        z = {parts[0], parts[1]};
      }
    } else {
      for (double& x : value.mutable_data<double>()) round(x);
    }
    if (changed) ReplaceUses(i, MakeConstant(c_, i, std::move(value)));
    return changed;
  }

  // Transposes an operand of a dot to batch, free, contracting dimensions, converts it to `type`, and broadcasts it to
  // the shape of all products.
  Instruction* BroadcastToProducts(Instruction* x, PrimitiveType type, const Ints& batch, const Ints& contracting,
                                   const Shape& products, int64_t first_free) {
    if (x->shape().element_type() != type) x = Convert(x, type);
    Ints order(batch.begin(), batch.end()), broadcast_dims;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      const auto contains = [&](const Ints& list) { return std::find(list.begin(), list.end(), d) != list.end(); };
      if (!contains(batch) && !contains(contracting)) order.push_back(d);
    }
    const int64_t free = static_cast<int64_t>(order.size() - batch.size());
    order.insert(order.end(), contracting.begin(), contracting.end());
    std::vector<int64_t> dims;
    for (int64_t d : order) dims.push_back(x->shape().dimensions(d));
    if (!std::is_sorted(order.begin(), order.end())) {
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, order);
      x = Make(c_, x, Opcode::kTranspose, Shape(type, dims), {x}, std::move(attrs));
    }
    const int64_t batches = static_cast<int64_t>(batch.size()), sums = static_cast<int64_t>(contracting.size());
    for (int64_t d = 0; d < batches; ++d) broadcast_dims.push_back(d);
    for (int64_t d = 0; d < free; ++d) broadcast_dims.push_back(first_free + d);
    for (int64_t d = 0; d < sums; ++d) broadcast_dims.push_back(products.rank() - sums + d);
    return MakeBroadcast(c_, x, x, products, broadcast_dims);
  }

  Instruction* ExpandDot(const Instruction& dot, Computation* sum) {
    const DotDimensions& d = dot.dot_dims();
    const PrimitiveType type = dot.shape().element_type();
    std::vector<int64_t> dims(dot.shape().dimensions().begin(), dot.shape().dimensions().end());
    Ints reduced;
    for (int64_t c : d.lhs_contracting) {
      reduced.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(dot.operand(0)->shape().dimensions(c));
    }
    const Shape products(type, dims);
    const int64_t batches = static_cast<int64_t>(d.lhs_batch.size());
    const int64_t lhs_free = dot.operand(0)->shape().rank() - batches - static_cast<int64_t>(d.lhs_contracting.size());
    Instruction* lhs = BroadcastToProducts(const_cast<Instruction*>(dot.operand(0)), type, d.lhs_batch,
                                           d.lhs_contracting, products, batches);
    Instruction* rhs = BroadcastToProducts(const_cast<Instruction*>(dot.operand(1)), type, d.rhs_batch,
                                           d.rhs_contracting, products, batches + lhs_free);
    std::vector<Instruction*> unused;
    Instruction* product = RoundArray(Make(c_, &dot, Opcode::kMultiply, products, {lhs, rhs}), unused);
    Instruction* zero = MakeConstant(c_, &dot, Literal(Shape(type, {})));
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, reduced);
    return Make(c_, &dot, Opcode::kReduce, dot.shape(), {product, zero}, std::move(attrs), {sum});
  }

  // Returns a copy of the computation that rounds, since others may use the original as it is. Returns the computation
  // itself if it has nothing to round.
  absl::StatusOr<Computation*> RoundCombiner(Computation* of,
                                             absl::flat_hash_map<const Computation*, Computation*>& rounded) {
    if (auto at = rounded.find(of); at != rounded.end()) return at->second;
    const bool computes = std::any_of(of->instructions().begin(), of->instructions().end(), [](const auto& i) {
      return ContainsF64(i->shape()) && (!PreservesPairs(*i) || i->info().ReducesLocally());
    });
    if (!computes) return rounded[of] = of;
    Computation* copy = c_->parent()->CloneComputation(of);
    copy->set_name(absl::StrCat(of->name(), "_pairs"));
    rounded[of] = copy;
    bool changed = false;
    RETURN_IF_ERROR(Rounder(copy).RoundComputation(rounded, changed));
    return copy;
  }

  // Returns a combiner that computes x + y and rounds the sum.
  absl::StatusOr<Computation*> GetSumCombiner(PrimitiveType type,
                                              absl::flat_hash_map<const Computation*, Computation*>& rounded) {
    Computation*& sum = sums_[type];
    if (sum != nullptr) return sum;
    Computation* plain = c_->parent()->AddComputation("sum_of_pairs");
    std::vector<Instruction*> parameters;
    for (int64_t k = 0; k < 2; ++k) {
      Attributes attrs;
      attrs.Set(AttrId::kParameterNumber, k);
      parameters.push_back(Make(plain, nullptr, Opcode::kParameter, Shape(type, {}), {}, std::move(attrs)));
    }
    plain->set_root(Make(plain, nullptr, Opcode::kAdd, Shape(type, {}), parameters));
    ASSIGN_OR_RETURN(sum, RoundCombiner(plain, rounded));
    return sum;
  }

  Computation* const c_;
  absl::flat_hash_map<PrimitiveType, Computation*> sums_;
};

}  // namespace

double RoundToPair(double x) {
  const double high = static_cast<double>(static_cast<float>(x));
  if (!std::isfinite(high)) return high;
  return high - static_cast<double>(static_cast<float>(high - x));
}

absl::StatusOr<bool> ComputeF64InPairs::Run(Module* module) {
  absl::flat_hash_map<const Computation*, Computation*> combiners;
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    RETURN_IF_ERROR(Rounder(c).RoundComputation(combiners, here));
    changed |= here;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane::tpu
