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

// Which subnormal numbers are read as zero: of no operand, of all, or of one only (a function of several operands may
// compare one where it computes with the other).
enum class Reading { kNone, kAll, kFirst, kSecond };

absl::StatusOr<Judged> MeaningWith(const FuzzProgram& program, Reading reading, bool results) {
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
    for (size_t k = 0; k < read.size(); ++k) {
      if (reading == Reading::kAll || (reading == Reading::kFirst && k == 0) ||
          (reading == Reading::kSecond && k == 1)) {
        Flush(read[k]);
      }
      pointers.push_back(&read[k]);
    }
    ASSIGN_OR_RETURN(Judged j, JudgeInstruction(*i, pointers));
    if (results && !i->Is(Opcode::kConstant)) Flush(j);
    all[i.get()] = std::move(j);
  }
  return all.at(entry.root());
}

// The indices of a scatter with every vector whose window lies partly outside moved outside altogether.
Judged WithoutPartialWindows(const Instruction& scatter, const Judged& operand, const Judged& indices,
                             const Judged& updates) {
  const ScatterDimensions& d = scatter.attrs().Get<ScatterDimensions>(AttrId::kScatterDims);
  const Shape &shape = operand.value.shape(), &places = indices.value.shape();
  std::vector<int64_t> window;  // sizes along the operand's dimensions
  size_t next = 0;
  for (int64_t k = 0; k < shape.rank(); ++k) {
    auto has = [&](const Ints& list) { return std::find(list.begin(), list.end(), k) != list.end(); };
    const bool single = has(d.inserted_window_dims) || has(d.input_batching_dims);
    window.push_back(single ? 1 : updates.value.shape().dimensions(d.update_window_dims[next++]));
  }
  const bool own_dimension = d.index_vector_dim < places.rank();
  const int64_t components = own_dimension ? places.dimensions(d.index_vector_dim) : 1;
  int64_t inner = 1;  // places between two components of a vector
  for (int64_t k = d.index_vector_dim + 1; k < places.rank(); ++k) inner *= places.dimensions(k);
  Judged moved = indices;
  for (int64_t i = 0; components > 0 && i < indices.value.num_elements(); ++i) {
    if (i / inner % components != 0) continue;  // not the first component of a vector
    bool outside = false;
    for (int64_t c = 0; c < components; ++c) {
      const int64_t at = indices.value.GetAsInt(i + c * inner);
      const size_t dim = static_cast<size_t>(d.scatter_dims_to_operand_dims[static_cast<size_t>(c)]);
      outside = outside || at < 0 || at + window[dim] > shape.dimensions(static_cast<int64_t>(dim));
    }
    if (outside) moved.value.SetFromInt(i, -1000000);
  }
  return moved;
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

bool Explains(const Judged& meant, const Judged& other, const std::vector<Literal>& found) {
  const std::vector<const Judged*> is = Leaves(meant), would_be = Leaves(other);
  if (is.size() != found.size() || would_be.size() != found.size()) return false;
  bool differs = false;
  for (size_t r = 0; r < found.size(); ++r) {
    if (!(is[r]->value.shape() == found[r].shape()) || !(would_be[r]->value.shape() == found[r].shape())) return false;
    for (int64_t i = 0; i < found[r].num_elements(); ++i) {
      if (Within(is[r]->value, found[r], i, BoundAt(is[r]->seen, i))) continue;
      differs = true;
      const double bound = BoundAt(would_be[r]->seen, i);
      if (std::isinf(bound) || !Within(would_be[r]->value, found[r], i, bound)) return false;
    }
  }
  return differs;
}

bool DropsWholeWindows(const FuzzProgram& program, const std::vector<Literal>& found) {
  absl::flat_hash_map<const Instruction*, Judged> all;
  const Computation& entry = *program.module->entry();
  bool any = false;
  for (const auto& i : entry.instructions()) {
    if (i->Is(Opcode::kParameter)) {
      all[i.get()] = Judged::Exact(program.arguments[static_cast<size_t>(i->parameter_number())]);
      continue;
    }
    std::vector<Judged> read;
    for (const Instruction* o : i->operands()) read.push_back(all.at(o));
    if (i->Is(Opcode::kScatter)) {
      any = true;
      const size_t arrays = read.size() / 2;
      const PrimitiveType type = read[arrays].value.shape().element_type();
      // Moved far outside, which the type of the indices must be able to say.
      if (!IsSigned(type) || BitWidth(type) < 32) return false;
      read[arrays] = WithoutPartialWindows(*i, read[0], read[arrays], read[arrays + 1]);
    }
    std::vector<const Judged*> pointers;
    for (const Judged& j : read) pointers.push_back(&j);
    absl::StatusOr<Judged> j = JudgeInstruction(*i, pointers);
    if (!j.ok()) return false;
    all[i.get()] = *std::move(j);
  }
  if (!any) return false;
  const absl::StatusOr<Judged> meant = Meaning(program);
  return meant.ok() && Explains(*meant, all.at(entry.root()), found);
}

bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found) {
  std::vector<Judged> ways;
  for (const auto& [reading, results] : {std::pair(Reading::kNone, false),
                                         {Reading::kAll, true},
                                         {Reading::kAll, false},
                                         {Reading::kNone, true},
                                         {Reading::kFirst, false},
                                         {Reading::kSecond, false}}) {
    absl::StatusOr<Judged> way = MeaningWith(program, reading, results);
    if (!way.ok()) return false;
    ways.push_back(*std::move(way));
  }
  std::vector<std::vector<const Judged*>> leaves;
  for (const Judged& way : ways) leaves.push_back(Leaves(way));
  if (leaves[0].size() != found.size()) return false;
  bool differs = false;
  for (size_t r = 0; r < found.size(); ++r) {
    if (!(leaves[0][r]->value.shape() == found[r].shape())) return false;
    for (int64_t i = 0; i < found[r].num_elements(); ++i) {
      if (Within(leaves[0][r]->value, found[r], i, BoundAt(leaves[0][r]->seen, i))) continue;
      differs = true;
      bool fits = false;
      for (size_t way = 1; way < ways.size(); ++way) {
        // The sign of a zero that was a number is nobody's promise: equal numbers fit too.
        const double bound = BoundAt(leaves[way][r]->seen, i);
        fits = fits || (!std::isinf(bound) && (Within(leaves[way][r]->value, found[r], i, bound) ||
                                               Number(leaves[way][r]->value, i) == Number(found[r], i)));
      }
      if (!fits) return false;
    }
  }
  return differs;
}

}  // namespace backplane::cli::fuzz
