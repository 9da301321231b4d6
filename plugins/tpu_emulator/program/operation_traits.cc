#include "plugins/tpu_emulator/program/operation_traits.h"

#include <algorithm>

namespace backplane::tpu {
namespace {

// Returns the dimensions other than 1.
DimVector NonUnitDimensions(const Shape& s) {
  DimVector d;
  for (int64_t x : s.dimensions()) {
    if (x != 1) d.push_back(x);
  }
  return d;
}

}  // namespace

double ComputeVectorCost(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return 4;
    case Opcode::kConvert:
      return 2;
    default:
      return Info(opcode).Has(OpTrait::kTranscendental) ? 8 : 1;
  }
}

bool IsScalarUnitOp(const Instruction& i) {
  const auto is_one = [](const Shape& s) {
    return s.IsScalar() && (IsIntegral(s.element_type()) || s.element_type() == PrimitiveType::kPred);
  };
  if (!i.info().Has(OpTrait::kElementwise) && !i.Is(Opcode::kReshape) && !i.Is(Opcode::kBitcast)) return false;
  if (!i.shape().IsArray() || !is_one(i.shape())) return false;
  return std::all_of(i.operands().begin(), i.operands().end(),
                     [&](const Instruction* o) { return o->shape().IsArray() && is_one(o->shape()); });
}

bool IsContraction(const Instruction& i) { return i.Is(Opcode::kDot) || i.Is(Opcode::kConvolution); }

bool IsReduction(const Instruction& i) { return i.info().ReducesLocally() && !i.Is(Opcode::kScatter); }

bool IsNarrowFloat(PrimitiveType type) { return IsFloat(type) && BitWidth(type) < 32; }

bool KeepsTiles(const Shape& from, const Shape& to) {
  const DimVector a = NonUnitDimensions(from), b = NonUnitDimensions(to);
  if (a == b) return true;
  // Compare from the minor end. Either two dimensions stay, or one stays and the next is a multiple of the tile's rows.
  constexpr int64_t kRows = 8;
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  if (same >= 2) return true;
  return same == 1 && a.size() > 1 && b.size() > 1 && a[a.size() - 2] % kRows == 0 && b[b.size() - 2] % kRows == 0;
}

}  // namespace backplane::tpu
