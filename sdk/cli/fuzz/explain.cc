#include "sdk/cli/fuzz/explain.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/campaign.h"
#include "sdk/cli/fuzz/compare.h"

namespace backplane::cli::fuzz {
namespace {

std::complex<double> Number(const Literal& l, int64_t i) {
  return IsComplex(l.shape().element_type()) ? l.GetAsComplex(i) : std::complex<double>(l.GetAsDouble(i), 0);
}

// Returns the smallest normal number of the type in which the processor computes.
double LeastNormal(PrimitiveType type) {
  const PrimitiveType part = ComplexPart(type);
  // f16 and narrower types are computed in f32, in which all their values are normal.
  const PrimitiveType computed = part == PrimitiveType::kF64 ? PrimitiveType::kF64 : PrimitiveType::kF32;
  return ComputeUnitInLastPlace(computed, 0) / GetEpsilon(computed);
}

void Flush(BoundedValue& j) {
  if (j.is_tuple) {
    for (BoundedValue& e : j.elements) Flush(e);
    return;
  }
  const Shape& shape = j.value.shape();
  if (!shape.IsArray() || !IsFloat(ComplexPart(shape.element_type()))) return;
  const double least = LeastNormal(shape.element_type());
  auto part = [&](double v) { return std::abs(v) < least ? std::copysign(0.0, v) : v; };
  for (int64_t i = 0; i < j.value.num_elements(); ++i) {
    if (!IsComplex(shape.element_type())) {
      const double v = j.value.GetAsDouble(i);
      if (v == 0 || !(std::abs(v) < least)) continue;
      j.value.SetFromDouble(i, part(v));
      // Whatever the number is within its bound, it becomes zero.
      for (Literal* bound : {&j.seen, &j.used}) {
        if (bound->valid() && std::abs(v) + BoundAt(*bound, i) < least)
          bound->mutable_data<double>()[static_cast<size_t>(i)] = 0;
      }
      continue;
    }
    const std::complex<double> v = j.value.GetAsComplex(i);
    const std::complex<double> flushed(part(v.real()), part(v.imag()));
    if (shape.element_type() == PrimitiveType::kC64) {
      j.value.mutable_data<std::complex<float>>()[static_cast<size_t>(i)] = std::complex<float>(flushed);
    } else {
      j.value.mutable_data<std::complex<double>>()[static_cast<size_t>(i)] = flushed;
    }
  }
}

// The operations that add up products or elements. Their code may flush each product and each partial sum.
bool AddsUp(const Instruction& i) {
  return i.info().ReducesLocally() || i.Is(Opcode::kDot) || i.Is(Opcode::kRaggedDot) || i.Is(Opcode::kConvolution);
}

// Widens the bounds of the results of such an operation by what flushing can change: for each term twice the smallest
// normal number at most, once for the product and once for the sum.
void WidenForFlushedTerms(const Instruction& i, BoundedValue& j) {
  if (j.is_tuple) {
    for (BoundedValue& e : j.elements) WidenForFlushedTerms(i, e);
    return;
  }
  const Shape& shape = j.value.shape();
  if (!shape.IsArray() || !IsFloat(ComplexPart(shape.element_type()))) return;
  double terms = 0;
  for (const Instruction* operand : i.operands()) terms += static_cast<double>(operand->shape().num_elements());
  const double change = 2 * terms * LeastNormal(shape.element_type());
  for (Literal* bound : {&j.seen, &j.used}) {
    if (!bound->valid()) *bound = Zeros(j.value.shape());
    for (double& value : bound->mutable_data<double>()) value += change;
  }
}

// Which operands' subnormal numbers are read as zero: those of none, of all, or of one (a function of several operands
// may compare one of them and compute with the other).
enum class Reading { kNone, kAll, kFirst, kSecond };
// Which results are written as zero if they are subnormal: none, those of the instructions, or also the terms of sums.
enum class Writing { kNone, kResults, kTerms };

absl::StatusOr<BoundedValue> MeaningWith(const FuzzProgram& program, Reading reading, Writing writing) {
  BoundingHooks change;
  change.read = [reading](const Instruction&, std::vector<BoundedValue>& read) {
    for (size_t k = 0; k < read.size(); ++k) {
      if (reading == Reading::kAll || (reading == Reading::kFirst && k == 0) ||
          (reading == Reading::kSecond && k == 1)) {
        Flush(read[k]);
      }
    }
    return absl::OkStatus();
  };
  change.given = [writing](const Instruction& i, BoundedValue& j) {
    if (writing == Writing::kTerms && AddsUp(i)) return WidenForFlushedTerms(i, j);
    if (writing != Writing::kNone && !i.Is(Opcode::kConstant)) Flush(j);
  };
  if (!program.schedule.empty()) return BoundSchedule(program, *program.module, {}, change);
  return BoundEntry(*program.module, program.arguments, nullptr, change);
}

}  // namespace

bool ReordersEmptyResult(const FuzzProgram& program) {
  bool any = false;
  ForEachLeaf(program.module->config().result_layout, [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (!leaf.IsArray() || leaf.num_elements() != 0 || !leaf.has_layout()) return;
    const auto& order = leaf.layout().minor_to_major;
    for (size_t k = 0; k + 1 < order.size(); ++k) any = any || order[k] < order[k + 1];
  });
  return any;
}

bool ChainsNarrowFloats(const FuzzProgram& program) {
  constexpr int kLong = 3;
  for (const Computation* c : program.module->PostOrder()) {
    absl::flat_hash_map<const Instruction*, int> length;
    for (const auto& i : c->instructions()) {
      if (!i->info().Has(kElementwise) || !i->shape().IsArray()) continue;
      const PrimitiveType type = i->shape().element_type();
      if (!IsFloat(type) || BitWidth(type) != 8) continue;
      int before = 0;
      for (const Instruction* o : i->operands()) {
        const auto it = length.find(o);
        if (it != length.end()) before = std::max(before, it->second);
      }
      if (before + 1 >= kLong) return true;
      length[i.get()] = before + 1;
    }
  }
  return false;
}

bool Explains(const BoundedValue& meant, const BoundedValue& other, const std::vector<Literal>& found) {
  const std::vector<const BoundedValue*> is = Leaves(meant), would_be = Leaves(other);
  if (is.size() != found.size() || would_be.size() != found.size()) return false;
  bool differs = false;
  for (size_t r = 0; r < found.size(); ++r) {
    if (!(is[r]->value.shape() == found[r].shape()) || !(would_be[r]->value.shape() == found[r].shape())) return false;
    for (int64_t i = 0; i < found[r].num_elements(); ++i) {
      if (IsWithin(is[r]->value, found[r], i, BoundAt(is[r]->seen, i))) continue;
      differs = true;
      const double bound = BoundAt(would_be[r]->seen, i);
      if (std::isinf(bound) || !IsWithin(would_be[r]->value, found[r], i, bound)) return false;
    }
  }
  return differs;
}

bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found) {
  std::vector<BoundedValue> ways;
  for (const auto& [reading, writing] : {std::pair(Reading::kNone, Writing::kNone),
                                         {Reading::kAll, Writing::kResults},
                                         {Reading::kAll, Writing::kNone},
                                         {Reading::kNone, Writing::kResults},
                                         {Reading::kNone, Writing::kTerms},
                                         {Reading::kFirst, Writing::kNone},
                                         {Reading::kSecond, Writing::kNone}}) {
    absl::StatusOr<BoundedValue> way = MeaningWith(program, reading, writing);
    if (!way.ok()) return false;
    ways.push_back(*std::move(way));
  }
  std::vector<std::vector<const BoundedValue*>> leaves;
  for (const BoundedValue& way : ways) leaves.push_back(Leaves(way));
  if (leaves[0].size() != found.size()) return false;
  bool differs = false;
  for (size_t r = 0; r < found.size(); ++r) {
    if (!(leaves[0][r]->value.shape() == found[r].shape())) return false;
    for (int64_t i = 0; i < found[r].num_elements(); ++i) {
      if (IsWithin(leaves[0][r]->value, found[r], i, BoundAt(leaves[0][r]->seen, i))) continue;
      differs = true;
      bool fits = false;
      for (size_t way = 1; way < ways.size(); ++way) {
        // The sign of a zero that was a number is unspecified, so equal numbers match too.
        const double bound = BoundAt(leaves[way][r]->seen, i);
        fits = fits || (!std::isinf(bound) && (IsWithin(leaves[way][r]->value, found[r], i, bound) ||
                                               Number(leaves[way][r]->value, i) == Number(found[r], i)));
      }
      if (!fits) return false;
    }
  }
  return differs;
}

}  // namespace backplane::cli::fuzz
