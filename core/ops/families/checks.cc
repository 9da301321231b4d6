#include "core/ops/families/checks.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace backplane {

std::string DimsText(absl::Span<const int64_t> dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

std::string Label(const OpContext& op, absl::string_view rule) {
  return absl::StrCat(absl::StrReplaceAll(OpName(op.opcode), {{"-", "_"}}), "_", rule);
}

bool IsUnique(absl::Span<const int64_t> values) {
  std::vector<int64_t> v(values.begin(), values.end());
  std::sort(v.begin(), v.end());
  return std::adjacent_find(v.begin(), v.end()) == v.end();
}

bool IsStrictlyIncreasing(absl::Span<const int64_t> values) {
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] >= values[i]) return false;
  }
  return true;
}

bool AllInRange(absl::Span<const int64_t> values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= low && v < high; });
}

bool Contains(absl::Span<const int64_t> values, int64_t v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

bool IsPermutation(absl::Span<const int64_t> values, int64_t n) {
  return static_cast<int64_t>(values.size()) == n && AllInRange(values, 0, n) && IsUnique(values);
}

bool SameTypeAndDims(const Shape& a, const Shape& b) {
  if (a.element_type() != b.element_type() || a.dimensions() != b.dimensions()) return false;
  if (a.tuple_size() != b.tuple_size()) return false;
  for (int64_t i = 0; i < a.tuple_size(); ++i) {
    if (!SameTypeAndDims(a.tuple_shapes(i), b.tuple_shapes(i))) return false;
  }
  return true;
}

absl::Status WantArray(const OpContext& op, int i) {
  if (op.operand(i).IsArray()) return absl::OkStatus();
  return Fail(op, Label(op, "operand"), "operand ", i, " must be an array, found ", op.operand(i).ToString());
}

absl::Status WantArrays(const OpContext& op) {
  for (size_t i = 0; i < op.operands.size(); ++i) RETURN_IF_ERROR(WantArray(op, static_cast<int>(i)));
  return absl::OkStatus();
}

absl::Status WantCalled(const OpContext& op, int n) {
  if (static_cast<int>(op.called.size()) == n) return absl::OkStatus();
  return Fail(op, Label(op, "called"), "calls ", op.called.size(), " computations, expected ", n);
}

absl::StatusOr<Shape> WantDeclared(const OpContext& op) {
  if (op.declared == nullptr) return Fail(op, Label(op, "declared"), "the result shape must be given");
  return *op.declared;
}

absl::StatusOr<Shape> WantDeclaredArray(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape s, WantDeclared(op));
  if (!s.IsArray()) return Fail(op, Label(op, "declared"), "the result must be an array, found ", s.ToString());
  return s;
}

absl::Status WantSignature(const OpContext& op, int i, absl::Span<const Shape> parameters, const Shape& result,
                           absl::string_view label) {
  const ProgramShape& p = op.called[i];
  bool same = p.parameters.size() == parameters.size() && SameTypeAndDims(p.result, result);
  for (size_t k = 0; same && k < parameters.size(); ++k) same = SameTypeAndDims(p.parameters[k], parameters[k]);
  if (same) return absl::OkStatus();
  ProgramShape want;
  want.parameters.assign(parameters.begin(), parameters.end());
  want.result = result;
  return Fail(op, label, "called computation ", i, " has signature ", p.ToString(), ", expected ", want.ToString());
}

bool IsPromotable(PrimitiveType from, PrimitiveType to) {
  if (from == to) return true;
  bool same_class = (IsSigned(from) && IsSigned(to)) || (IsUnsigned(from) && IsUnsigned(to)) ||
                    (IsFloat(from) && IsFloat(to)) || (IsComplex(from) && IsComplex(to));
  return same_class && BitWidth(from) <= BitWidth(to);
}

absl::StatusOr<std::vector<PrimitiveType>> WantCombiner(const OpContext& op, int i, absl::Span<const PrimitiveType> inputs,
                                                        absl::string_view label) {
  const ProgramShape& p = op.called[i];
  const size_t n = inputs.size();
  std::vector<PrimitiveType> types;
  auto scalar = [&](const Shape& s) { return s.IsScalar(); };
  bool good = p.parameters.size() == 2 * n && std::all_of(p.parameters.begin(), p.parameters.end(), scalar);
  if (good && n == 1) {
    good = p.result.IsScalar();
    types = {p.result.element_type()};
  } else if (good) {
    good = p.result.IsTuple() && p.result.tuple_size() == static_cast<int64_t>(n) &&
           std::all_of(p.result.tuple_shapes().begin(), p.result.tuple_shapes().end(), scalar);
    for (const Shape& s : p.result.tuple_shapes()) types.push_back(s.element_type());
  }
  for (size_t k = 0; good && k < n; ++k) {
    good = IsPromotable(inputs[k], types[k]) && p.parameters[k].element_type() == types[k] &&
           p.parameters[n + k].element_type() == types[k];
  }
  if (good) return types;
  std::string want;
  for (PrimitiveType t : inputs) absl::StrAppend(&want, want.empty() ? "" : ", ", Name(t), "[]");
  return Fail(op, label, "called computation ", i, " has signature ", p.ToString(), ", expected two times (", want,
              ") to the same");
}

void CopyDynamic(const Shape& from, Shape& to) {
  if (from.rank() != to.rank()) return;
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (from.is_dynamic(i)) to.set_dynamic(i, true);
  }
}

int64_t DilatedSize(int64_t size, int64_t dilation) { return size == 0 ? 0 : (size - 1) * dilation + 1; }

int64_t WindowedSize(int64_t size, const WindowDimension& w) {
  using Wide = __int128;
  constexpr Wide kMax = Wide{1} << 62;
  Wide dilated = size == 0 ? 0 : static_cast<Wide>(size - 1) * w.base_dilation + 1;
  Wide padded = dilated + w.padding_low + w.padding_high;
  Wide window = w.size == 0 ? 0 : static_cast<Wide>(w.size - 1) * w.window_dilation + 1;
  if (dilated > kMax || padded > kMax || window > kMax || padded < 0) return -1;
  if (padded == 0 || window > padded) return 0;
  return static_cast<int64_t>((padded - window) / w.stride + 1);
}

double ShapeBytes(const Shape& shape) {
  double bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) bytes += static_cast<double>(leaf.byte_size());
  });
  return bytes;
}

double ElementCount(const Shape& shape) {
  double n = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) n += static_cast<double>(leaf.num_elements());
  });
  return n;
}

Cost ElementCost(const OpContext& op, const Shape& result, double flops_per_element) {
  Cost cost;
  cost.flops = flops_per_element * ElementCount(result);
  cost.bytes_accessed = ShapeBytes(result);
  for (const Shape* s : op.operands) cost.bytes_accessed += ShapeBytes(*s);
  return cost;
}

int64_t GroupSize(const OpContext& op) {
  const ReplicaGroups& g = op.attrs->Get<ReplicaGroups>(AttrId::kReplicaGroups);
  if (g.iota) return g.iota->dims.size() == 2 ? g.iota->dims[1] : 0;
  return g.groups.empty() ? 0 : static_cast<int64_t>(g.groups[0].size());
}

}  // namespace backplane
