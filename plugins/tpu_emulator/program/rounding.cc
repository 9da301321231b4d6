#include "plugins/tpu_emulator/program/rounding.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/program/operation_traits.h"

namespace backplane::tpu {
namespace {

// Whether the value is computed in f32 and rounded once: bf16 and f16. Floats of 8 bits and fewer differ from f32 in
// range, and most have no infinity, so a value that is not rounded would leave their range where a rounded one becomes
// NaN.
bool IsNarrow(const Instruction* i) {
  return i->shape().IsArray() && IsFloat(i->shape().element_type()) && BitWidth(i->shape().element_type()) == 16;
}

// Whether the operation moves elements without computing anything.
bool MovesElementsOnly(const Instruction& i) {
  switch (i.opcode()) {
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
    case Opcode::kSelect:
      return true;
    default:
      return false;
  }
}

// Whether the type of an iota represents each of its elements.
bool IsExactIota(const Instruction& i) {
  const int64_t extent = i.shape().dimensions(i.attrs().GetInt(AttrId::kIotaDimension));
  // A float type with an inexact integer in a range that starts at 0 rounds or overflows one of the last two.
  const std::array<int64_t, 3> probes = {0, std::max<int64_t>(extent - 1, 0), std::max<int64_t>(extent - 2, 0)};
  return extent == 0 || std::all_of(probes.begin(), probes.end(), [&](int64_t v) {
           return Literal::ScalarInt(i.shape().element_type(), v).GetAsDouble(0) == static_cast<double>(v);
         });
}

// Whether the operation is computed in f32 if it has narrow floats. Others read or write the bits of the narrow type.
bool IsComputedInF32(const Instruction& i) {
  if (IsReduction(i)) return i.shape().IsArray();
  if (i.Is(Opcode::kReducePrecision)) return false;  // it operates on the bits of the narrow type
  return (i.info().Has(OpTrait::kElementwise) && !i.Is(Opcode::kConvert)) || MovesElementsOnly(i) ||
         (i.Is(Opcode::kIota) && IsExactIota(i));
}

Shape WithF32(const Shape& s) { return s.WithElementType(PrimitiveType::kF32); }

// Copies a computation into an empty one, with narrow floats computed in f32.
class Widener {
 public:
  explicit Widener(Computation* into) : into_(into) {}

  absl::Status Copy(const Computation& from, absl::flat_hash_map<const Computation*, Computation*>& combiners) {
    for (const auto& owned : from.instructions()) RETURN_IF_ERROR(Copy(*owned, combiners));
    into_->set_root(GetNarrow(from.root()));
    return absl::OkStatus();
  }

  // Copies a combiner. Its parameters and result are widened, too.
  absl::Status CopyCombiner(const Computation& from) {
    for (const auto& owned : from.instructions()) {
      const Instruction& i = *owned;
      std::vector<Instruction*> operands;
      for (const Instruction* o : i.operands()) operands.push_back(IsNarrow(o) ? wide_.at(o) : narrow_.at(o));
      if (!IsNarrow(&i)) {
        narrow_[&i] = into_->AddClone(&i, i.shape(), operands);
      } else if (i.Is(Opcode::kConstant)) {
        ASSIGN_OR_RETURN(wide_[&i], MakeWideConstant(i));
      } else {
        wide_[&i] = into_->AddClone(&i, WithF32(i.shape()), operands);
      }
    }
    into_->set_root(IsNarrow(from.root()) ? wide_.at(from.root()) : narrow_.at(from.root()));
    return absl::OkStatus();
  }

  // Whether CopyCombiner supports the computation: only arithmetic on arrays, and no conversions to named types.
  static bool CanWidenCombiner(const Computation& c) {
    return std::all_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
      if (i->Is(Opcode::kConvert) || i->Is(Opcode::kReducePrecision)) return false;
      return i->Is(Opcode::kParameter) || i->Is(Opcode::kConstant) || i->info().Has(OpTrait::kElementwise) ||
             MovesElementsOnly(*i);
    });
  }

 private:
  absl::StatusOr<Instruction*> MakeWideConstant(const Instruction& i) {
    ASSIGN_OR_RETURN(Literal value, i.literal().Convert(PrimitiveType::kF32));
    return MakeConstant(into_, &i, std::move(value));
  }

  Instruction* Convert(Instruction* x, const Instruction* like, PrimitiveType type) {
    InstructionSpec spec;
    spec.opcode = Opcode::kConvert;
    spec.shape = x->shape().WithElementType(type);
    spec.operands = {x};
    spec.metadata = like->metadata();
    return into_->Add(std::move(spec));
  }

  // Returns the value in its own type.
  Instruction* GetNarrow(const Instruction* i) {
    if (auto at = narrow_.find(i); at != narrow_.end()) return at->second;
    return narrow_[i] = Convert(wide_.at(i), i, i->shape().element_type());
  }

  Instruction* GetWide(const Instruction* i) {
    if (auto at = wide_.find(i); at != wide_.end()) return at->second;
    return wide_[i] = Convert(narrow_.at(i), i, PrimitiveType::kF32);
  }

  absl::Status Copy(const Instruction& i, absl::flat_hash_map<const Computation*, Computation*>& combiners) {
    const bool reads_narrow = std::any_of(i.operands().begin(), i.operands().end(), IsNarrow);
    if (i.Is(Opcode::kConstant) && IsNarrow(&i)) {
      // Scalar constants are widened at compile time. Arrays stay narrow to save memory.
      if (!i.shape().IsScalar()) {
        narrow_[&i] = into_->AddClone(&i, i.shape(), {});
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(wide_[&i], MakeWideConstant(i));
      return absl::OkStatus();
    }
    if (i.Is(Opcode::kConvert) && reads_narrow) {
      // A convert to f32 is already done. Any other convert starts from the unrounded value.
      Instruction* x = GetWide(i.operand(0));
      narrow_[&i] = i.shape().element_type() == PrimitiveType::kF32 ? x : into_->AddClone(&i, i.shape(), {x});
      return absl::OkStatus();
    }
    const bool computes = IsComputedInF32(i) && (reads_narrow || IsNarrow(&i)) && CanWidenCombiners(i);
    // Values that are only moved stay narrow until something computes with them. So does an array that is updated in
    // place: only the update is new.
    bool wide = computes;
    if (computes && MovesElementsOnly(i)) {
      const auto is_wide = [&](const Instruction* o) {
        return IsNarrow(o) && !narrow_.contains(o) && !o->Is(Opcode::kConstant);
      };
      wide = i.Is(Opcode::kDynamicUpdateSlice) ? is_wide(i.operand(0))
                                               : std::any_of(i.operands().begin(), i.operands().end(), is_wide);
    }
    std::vector<Instruction*> operands;
    for (const Instruction* o : i.operands()) operands.push_back(wide && IsNarrow(o) ? GetWide(o) : GetNarrow(o));
    const bool result_wide = wide && IsNarrow(&i);
    Instruction* made = into_->AddClone(&i, result_wide ? WithF32(i.shape()) : i.shape(), operands);
    for (int64_t k = 0; wide && k < static_cast<int64_t>(i.called().size()); ++k) {
      ASSIGN_OR_RETURN(Computation * combiner, GetWideCombiner(i.called(k), combiners));
      made->set_called(k, combiner);
    }
    (result_wide ? wide_ : narrow_)[&i] = made;
    return absl::OkStatus();
  }

  static bool CanWidenCombiners(const Instruction& i) {
    return std::all_of(i.called().begin(), i.called().end(), [](const Computation* c) { return CanWidenCombiner(*c); });
  }

  absl::StatusOr<Computation*> GetWideCombiner(Computation* of,
                                               absl::flat_hash_map<const Computation*, Computation*>& combiners) {
    if (auto at = combiners.find(of); at != combiners.end()) return at->second;
    Computation* made = into_->parent()->AddComputation(absl::StrCat(of->name(), "_f32"));
    RETURN_IF_ERROR(Widener(made).CopyCombiner(*of));
    combiners[of] = made;
    return made;
  }

  Computation* const into_;
  absl::flat_hash_map<const Instruction*, Instruction*> narrow_, wide_;  // the value in its own type, and in f32
};

// Whether the computation computes with narrow floats or rounds to them.
bool NeedsWidening(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    if (i->Is(Opcode::kConvert)) return IsNarrow(i.get()) || IsNarrow(i->operand(0));
    if (!IsComputedInF32(*i) || MovesElementsOnly(*i)) return false;
    return IsNarrow(i.get()) || std::any_of(i->operands().begin(), i->operands().end(), IsNarrow);
  });
}

}  // namespace

absl::StatusOr<bool> RoundOncePerFusion::Run(Module* module) {
  absl::flat_hash_map<const Computation*, Computation*> combiners;
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    for (const auto& i : c->instructions()) {
      if (!i->Is(Opcode::kFusion) || !NeedsWidening(*i->called(0))) continue;
      Computation* old = i->called(0);
      Computation* made = module->AddComputation(old->name());
      made->set_is_fusion(true);
      RETURN_IF_ERROR(Widener(made).Copy(*old, combiners));
      i->set_called(0, made);
      changed = true;
    }
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane::tpu
