#include "core/ops/families/checks.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace backplane {

std::string FormatDims(absl::Span<const int64_t> dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

std::string Label(const OpContext& op, absl::string_view rule) {
  return absl::StrCat(absl::StrReplaceAll(OpName(op.opcode), {{"-", "_"}}), "_", rule);
}

bool IsUnique(absl::Span<const int64_t> values) {
  if (values.empty()) return true;
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  if (*min >= 0 && *max < 2 * static_cast<int64_t>(values.size())) {  // as the devices of a program
    std::vector<bool> seen(static_cast<size_t>(*max) + 1);
    for (int64_t value : values) {
      if (seen[static_cast<size_t>(value)]) return false;
      seen[static_cast<size_t>(value)] = true;
    }
    return true;
  }
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

absl::Status CheckOperandIsArray(const OpContext& op, int i) {
  if (op.operand(i).IsArray()) return absl::OkStatus();
  return Fail(op, Label(op, "operand"), "operand ", i, " must be an array, found ", op.operand(i).ToString());
}

absl::Status CheckOperandsAreArrays(const OpContext& op) {
  for (size_t i = 0; i < op.operands.size(); ++i) RETURN_IF_ERROR(CheckOperandIsArray(op, static_cast<int>(i)));
  return absl::OkStatus();
}

absl::Status CheckCalledCount(const OpContext& op, int n) {
  if (static_cast<int>(op.called.size()) == n) return absl::OkStatus();
  return Fail(op, Label(op, "called"), "calls ", op.called.size(), " computations, expected ", n);
}

absl::StatusOr<Shape> GetDeclaredShape(const OpContext& op) {
  if (op.declared == nullptr) return Fail(op, Label(op, "declared"), "the result shape must be given");
  return *op.declared;
}

absl::StatusOr<Shape> GetDeclaredArrayShape(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape s, GetDeclaredShape(op));
  if (!s.IsArray()) return Fail(op, Label(op, "declared"), "the result must be an array, found ", s.ToString());
  return s;
}

absl::Status CheckSignature(const OpContext& op, int i, absl::Span<const Shape> parameters, const Shape& result,
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

absl::StatusOr<std::vector<PrimitiveType>> CheckCombiner(const OpContext& op, int i,
                                                         absl::Span<const PrimitiveType> inputs,
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

int64_t ComputeWindowedSize(int64_t size, const WindowDimension& w) {
  using Wide = __int128;
  constexpr Wide kMax = Wide{1} << 62;
  Wide dilated = size == 0 ? 0 : static_cast<Wide>(size - 1) * w.base_dilation + 1;
  Wide padded = dilated + w.padding_low + w.padding_high;
  Wide window = w.size == 0 ? 0 : static_cast<Wide>(w.size - 1) * w.window_dilation + 1;
  if (dilated > kMax || padded > kMax || window > kMax || padded < 0) return -1;
  if (padded == 0 || window > padded) return 0;
  return static_cast<int64_t>((padded - window) / w.stride + 1);
}

double CountShapeBytes(const Shape& shape) {
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
  cost.bytes_accessed = CountShapeBytes(result);
  for (const Shape* s : op.operands) cost.bytes_accessed += CountShapeBytes(*s);
  return cost;
}

absl::Status CheckPairs(const OpContext& op, absl::string_view sources, absl::string_view targets,
                        absl::string_view range) {
  Ints from, to;
  for (const auto& [source, target] : op.attrs->Get<Pairs>(AttrId::kSourceTargetPairs)) {
    from.push_back(source);
    to.push_back(target);
  }
  if (!IsUnique(from)) return Fail(op, sources, "a source stands twice: ", FormatDims(from));
  if (!IsUnique(to)) return Fail(op, targets, "a target stands twice: ", FormatDims(to));
  if (!AllInRange(from, 0, INT64_MAX) || !AllInRange(to, 0, INT64_MAX)) return Fail(op, range, "an id is negative");
  return absl::OkStatus();
}

namespace {

const Shape* Subshape(const Shape& shape, absl::Span<const int64_t> index) {
  const Shape* s = &shape;
  for (int64_t i : index) {
    if (!s->IsTuple() || i < 0 || i >= s->tuple_size()) return nullptr;
    s = &s->tuple_shapes(i);
  }
  return s;
}

// StableHLO numbers the same rules differently for each collective. `sizes`: groups must be of one size.
struct GroupLabels {
  Opcode opcode;
  absl::string_view unique, range, global, sizes;
};
constexpr GroupLabels kGroupLabels[] = {
    {Opcode::kAllGather, "all_gather_c2", "all_gather_c4", "all_gather_c5", "all_gather_groups"},
    {Opcode::kAllGatherStart, "all_gather_start_c2", "all_gather_start_c4", "all_gather_start_c5",
     "all_gather_start_groups"},
    {Opcode::kAllReduce, "all_reduce_c1", "all_reduce_c3", "all_reduce_c4", ""},
    {Opcode::kAllReduceStart, "all_reduce_start_c1", "all_reduce_start_c3", "all_reduce_start_c4", ""},
    {Opcode::kAllToAll, "all_to_all_c5", "all_to_all_c7", "", "all_to_all_c8"},
    {Opcode::kRaggedAllToAll, "ragged_all_to_all_c3", "ragged_all_to_all_c4", "", "ragged_all_to_all_groups"},
    {Opcode::kCollectiveBroadcast, "collective_broadcast_c1", "collective_broadcast_c2", "", ""},
    {Opcode::kReduceScatter, "reduce_scatter_c3", "reduce_scatter_c5", "reduce_scatter_c6", "reduce_scatter_groups"},
};

}  // namespace

absl::Status CheckGroups(const OpContext& op) {
  const GroupLabels* labels = std::find_if(std::begin(kGroupLabels), std::end(kGroupLabels),
                                           [&](const GroupLabels& l) { return l.opcode == op.opcode; });
  if (labels == std::end(kGroupLabels)) return absl::OkStatus();
  if (op.attrs->GetBool(AttrId::kUseGlobalDeviceIds) && op.attrs->GetInt(AttrId::kChannelId) <= 0) {
    return Fail(op, labels->global, "use_global_device_ids needs a channel id above 0");
  }
  const ReplicaGroups& g = op.attrs->Get<ReplicaGroups>(AttrId::kReplicaGroups);
  if (g.iota) {
    if (g.iota->dims.size() == 2 && g.iota->Valid()) return absl::OkStatus();
    return Fail(op, labels->unique, "the replica groups name no list of devices");
  }
  Ints all;
  size_t count = 0;
  for (const Ints& group : g.groups) count += group.size();
  all.reserve(count);
  for (const Ints& group : g.groups) all.insert(all.end(), group.begin(), group.end());
  if (!IsUnique(all)) return Fail(op, labels->unique, "an id stands twice in the replica groups");
  if (!AllInRange(all, 0, INT64_MAX)) return Fail(op, labels->range, "a replica group has a negative id");
  for (const Ints& group : g.groups) {
    if (!labels->sizes.empty() && group.size() != g.groups[0].size()) {
      return Fail(op, labels->sizes, "the replica groups differ in size: ", g.groups[0].size(), " and ", group.size());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputAliases(const OpContext& op, const Shape& result, absl::string_view label) {
  for (const OutputOperandAlias& a : op.attrs->Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
    const Shape* out = Subshape(result, a.output_index);
    const Shape* in = a.operand >= 0 && a.operand < static_cast<int64_t>(op.operands.size())
                          ? Subshape(*op.operands[a.operand], a.operand_index)
                          : nullptr;
    if (out == nullptr || in == nullptr || !SameTypeAndDims(*out, *in)) {
      return Fail(op, label, "an output is aliased with operand ", a.operand, " of another type or none");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReducer(const OpContext& op, absl::string_view label) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  // XLA lets one computation of scalars serve operands of several types; it takes the type of the first.
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  const Shape& first = op.operand(0);
  ASSIGN_OR_RETURN(auto types,
                   CheckCombiner(op, 0,
                                 {first.IsTuple() && first.tuple_size() > 0 ? first.tuple_shapes(0).element_type()
                                                                            : first.element_type()},
                                 label));
  return absl::OkStatus();
}

int64_t KnownGroupSize(const OpContext& op) {
  const bool channel = op.attrs->GetInt(AttrId::kChannelId) > 0;
  return channel && !op.attrs->GetBool(AttrId::kUseGlobalDeviceIds) ? 0 : GroupSize(op);
}

absl::StatusOr<std::vector<Shape>> InferResultOfEach(const OpContext& op, const Shape& declared) {
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  std::vector<Shape> results = declared.IsTuple() ? declared.tuple_shapes() : std::vector<Shape>{declared};
  if (results.size() != op.operands.size()) {
    return Fail(op, Label(op, "result"), "has ", op.operands.size(), " operands, declared ", declared.ToString());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape& x = op.operand(static_cast<int>(i));
    if (!results[i].IsArray() || results[i].rank() != x.rank() || results[i].element_type() != x.element_type()) {
      return Fail(op, Label(op, "result"), "operand ", i, " is ", x.ToString(), ", declared ", results[i].ToString());
    }
  }
  return results;
}

bool IsScaledAlongDim(const Shape& small, const Shape& large, int64_t d, int64_t factor) {
  const int64_t a = small.dimensions(d), b = large.dimensions(d);
  bool good = a == 0 ? b == 0 : b % a == 0 && (factor == 0 || b / a == factor);
  for (int64_t k = 0; k < small.rank(); ++k) good = good && (k == d || small.dimensions(k) == large.dimensions(k));
  return good;
}

absl::Status CheckGathered(const OpContext& op, const Shape& result, absl::string_view dimension,
                           absl::string_view size) {
  ASSIGN_OR_RETURN(std::vector<Shape> results, InferResultOfEach(op, result));
  const int64_t group = KnownGroupSize(op);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape &x = op.operand(static_cast<int>(i)), &y = results[i];
    if (dims.size() != 1 || dims[0] < 0 || dims[0] >= x.rank()) {
      return Fail(op, dimension, "dimension ", FormatDims(dims), " is not one of ", x.ToString());
    }
    if (!IsScaledAlongDim(x, y, dims[0], group)) {
      return Fail(op, size, "operand ", x.ToString(), " does not become ", y.ToString(), " along dim ", dims[0]);
    }
  }
  return absl::OkStatus();
}

int64_t GroupSize(const OpContext& op) {
  const ReplicaGroups& g = op.attrs->Get<ReplicaGroups>(AttrId::kReplicaGroups);
  if (g.iota) return g.iota->dims.size() == 2 ? g.iota->dims[1] : 0;
  return g.groups.empty() ? 0 : static_cast<int64_t>(g.groups[0].size());
}

}  // namespace backplane
