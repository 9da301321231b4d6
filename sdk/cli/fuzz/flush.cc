#include "sdk/cli/fuzz/flush.h"

#include <cmath>
#include <complex>

#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/compare.h"

namespace backplane::cli::fuzz {
namespace {

// The smallest normal number of the type that the processor computes in.
double LeastNormal(PrimitiveType type) {
  const PrimitiveType part = ComplexPart(type);
  // Halves and narrower ones are computed in f32, whose normal numbers hold all of theirs.
  const PrimitiveType computed = part == PrimitiveType::kF64 ? PrimitiveType::kF64 : PrimitiveType::kF32;
  return UnitInLastPlace(computed, 0) / UnitOf(computed);
}

void Flush(Judged& j) {
  if (j.is_tuple) {
    for (Judged& e : j.elements) Flush(e);
    return;
  }
  const Shape& shape = j.value.shape();
  if (!shape.IsArray() || !IsFloat(ComplexPart(shape.element_type()))) return;
  const double least = LeastNormal(shape.element_type());
  auto part = [&](double v) { return std::abs(v) < least ? std::copysign(0.0, v) : v; };
  for (int64_t i = 0; i < j.value.num_elements(); ++i) {
    if (!IsComplex(shape.element_type())) {
      const double v = j.value.GetAsDouble(i);
      if (v != 0 && std::abs(v) < least) j.value.SetFromDouble(i, part(v));
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

absl::StatusOr<Judged> MeaningWith(const FuzzProgram& program, bool operands, bool results) {
  absl::flat_hash_map<const Instruction*, Judged> all;
  const Computation& entry = *program.module->entry();
  for (const auto& i : entry.instructions()) {
    if (i->Is(Opcode::kParameter)) {
      all[i.get()] = Judged::Exact(program.arguments[static_cast<size_t>(i->parameter_number())]);
      continue;
    }
    std::vector<Judged> read;
    for (const Instruction* o : i->operands()) read.push_back(all.at(o));
    std::vector<const Judged*> pointers;
    for (Judged& j : read) {
      if (operands) Flush(j);
      pointers.push_back(&j);
    }
    ASSIGN_OR_RETURN(Judged j, JudgeInstruction(*i, pointers));
    if (results && !i->Is(Opcode::kConstant)) Flush(j);
    all[i.get()] = std::move(j);
  }
  return all.at(entry.root());
}

}  // namespace

bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found) {
  std::vector<Judged> ways;
  for (const auto& [operands, results] : {std::pair(false, false), {true, true}, {true, false}, {false, true}}) {
    absl::StatusOr<Judged> way = MeaningWith(program, operands, results);
    if (!way.ok()) return false;
    ways.push_back(*std::move(way));
  }
  std::vector<std::vector<const Judged*>> leaves;
  for (const Judged& way : ways) leaves.push_back(Leaves(way));
  if (leaves[0].size() != found.size()) return false;
  bool differs = false;
  for (size_t r = 0; r < found.size(); ++r) {
    const PrimitiveType type = found[r].shape().element_type();
    if (!(leaves[0][r]->value.shape() == found[r].shape())) return false;
    for (int64_t i = 0; i < found[r].num_elements(); ++i) {
      if (Within(leaves[0][r]->value, found[r], i, BoundAt(leaves[0][r]->seen, i))) continue;
      differs = true;
      bool fits = false;
      for (size_t way = 1; way < ways.size(); ++way) {
        // The sign of a zero that was a number is nobody's promise.
        const double bound = std::max(BoundAt(leaves[way][r]->seen, i), UnitInLastPlace(type, 0));
        fits = fits || (!std::isinf(bound) && Within(leaves[way][r]->value, found[r], i, bound));
      }
      if (!fits) return false;
    }
  }
  return differs;
}

}  // namespace backplane::cli::fuzz
