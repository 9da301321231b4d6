// Shape rules and cost of collectives.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::Status CheckGroups(const OpContext& op) {
  const ReplicaGroups& g = op.attrs->Get<ReplicaGroups>(AttrId::kReplicaGroups);
  if (op.attrs->GetBool(AttrId::kUseGlobalDeviceIds) && op.attrs->GetInt(AttrId::kChannelId) <= 0) {
    return Fail(op, Label(op, "c5"), "use_global_device_ids needs a channel id above 0");
  }
  if (g.iota) return absl::OkStatus();
  Ints all;
  for (const Ints& group : g.groups) all.insert(all.end(), group.begin(), group.end());
  if (!IsUnique(all)) return Fail(op, Label(op, "c2"), "an id stands twice in the replica groups");
  if (!AllInRange(all, 0, INT64_MAX)) return Fail(op, Label(op, "c4"), "a replica group has a negative id");
  return absl::OkStatus();
}

// Group size as far as the instruction alone tells it: 0 when each group also covers all partitions, or all replicas.
int64_t KnownGroupSize(const OpContext& op) {
  const bool channel = op.attrs->GetInt(AttrId::kChannelId) > 0;
  return channel && !op.attrs->GetBool(AttrId::kUseGlobalDeviceIds) ? 0 : GroupSize(op);
}

absl::StatusOr<std::vector<Shape>> DeclaredResults(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape declared, WantDeclared(op));
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

absl::StatusOr<int64_t> OneDimension(const OpContext& op, const Shape& x, absl::string_view rule) {
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= x.rank()) {
    return Fail(op, Label(op, rule), "dimension ", DimsText(dims), " is not one of ", x.ToString());
  }
  return dims[0];
}

// all-gather multiplies, reduce-scatter divides one dimension by the size of the group.
absl::StatusOr<Shape> InferResized(const OpContext& op, bool gather) {
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  ASSIGN_OR_RETURN(std::vector<Shape> results, DeclaredResults(op));
  const int64_t group = KnownGroupSize(op);
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape &x = op.operand(static_cast<int>(i)), &y = results[i];
    ASSIGN_OR_RETURN(int64_t d, OneDimension(op, x, gather ? "c1" : "c2"));
    const int64_t small = gather ? x.dimensions(d) : y.dimensions(d), large = gather ? y.dimensions(d) : x.dimensions(d);
    bool good = small == 0 ? large == 0 : large % small == 0 && (group == 0 || large / small == group);
    for (int64_t k = 0; k < x.rank(); ++k) good = good && (k == d || x.dimensions(k) == y.dimensions(k));
    if (!good) {
      return Fail(op, Label(op, gather ? "c6" : "c8"), "operand ", x.ToString(), " does not become ", y.ToString(),
                  " along dim ", d);
    }
  }
  return *op.declared;
}

absl::StatusOr<Shape> InferAllToAll(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape declared, WantDeclared(op));
  if (op.operands.empty()) return Fail(op, "all_to_all_arity", "needs an operand");
  const int64_t group = GroupSize(op);
  if (declared.IsArray()) {
    if (op.operands.size() != 1) return Fail(op, "all_to_all_arity", "an array result needs one operand");
    const Shape& x = op.operand(0);
    ASSIGN_OR_RETURN(int64_t d, OneDimension(op, x, "c1"));
    if (group > 0 && x.dimensions(d) % group != 0) {
      return Fail(op, "all_to_all_c2", "dim ", d, " of ", x.ToString(), " is not divisible by group size ", group);
    }
    if (!SameTypeAndDims(x, declared)) return Fail(op, "all_to_all_c9", "operand is ", x.ToString(), ", declared ", declared.ToString());
    return declared;
  }
  if (declared.tuple_size() != static_cast<int64_t>(op.operands.size()) ||
      (group > 0 && group != static_cast<int64_t>(op.operands.size()))) {
    return Fail(op, "all_to_all_c8", "has ", op.operands.size(), " operands, group size ", group, ", declared ", declared.ToString());
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!SameTypeAndDims(op.operand(static_cast<int>(i)), op.operand(0)) ||
        !SameTypeAndDims(declared.tuple_shapes(static_cast<int64_t>(i)), op.operand(0))) {
      return Fail(op, "all_to_all_c9", "operands and results must all be ", op.operand(0).ToString());
    }
  }
  return declared;
}

Shape OperandsAsResult(const OpContext& op) {
  if (op.operands.size() == 1) return op.operand(0).WithoutLayout();
  std::vector<Shape> shapes;
  for (const Shape* s : op.operands) shapes.push_back(s->WithoutLayout());
  return Shape::Tuple(std::move(shapes));
}

absl::Status CheckReducer(const OpContext& op, absl::string_view rule) {
  RETURN_IF_ERROR(WantCalled(op, 1));
  // XLA lets one computation of scalars serve operands of several types; it takes the type of the first.
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  const Shape& first = op.operand(0);
  ASSIGN_OR_RETURN(auto types, WantCombiner(op, 0, {first.IsTuple() && first.tuple_size() > 0 ? first.tuple_shapes(0).element_type()
                                                                                                : first.element_type()},
                                            Label(op, rule)));
  return absl::OkStatus();
}

absl::Status CheckPairs(const OpContext& op) {
  Ints sources, targets;
  for (const auto& [source, target] : op.attrs->Get<Pairs>(AttrId::kSourceTargetPairs)) {
    sources.push_back(source);
    targets.push_back(target);
  }
  if (!IsUnique(sources)) return Fail(op, "collective_permute_c2", "a source stands twice: ", DimsText(sources));
  if (!IsUnique(targets)) return Fail(op, "collective_permute_c3", "a target stands twice: ", DimsText(targets));
  if (!AllInRange(sources, 0, INT64_MAX) || !AllInRange(targets, 0, INT64_MAX)) {
    return Fail(op, "collective_permute_c4", "an id is negative");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Shape> InferCollective(const OpContext& op) {
  if (op.opcode == Opcode::kPartitionId || op.opcode == Opcode::kReplicaId) {
    const Shape result = Shape::Scalar(PrimitiveType::kU32);
    if (op.declared != nullptr && !SameTypeAndDims(*op.declared, result)) {
      return Fail(op, Label(op, "result"), "the id is u32[], declared ", op.declared->ToString());
    }
    return result;
  }
  RETURN_IF_ERROR(CheckGroups(op));
  switch (op.opcode) {
    case Opcode::kAllGather:
      RETURN_IF_ERROR(WantArrays(op));
      return InferResized(op, true);
    case Opcode::kReduceScatter:
      RETURN_IF_ERROR(WantArrays(op));
      RETURN_IF_ERROR(CheckReducer(op, "c7"));
      return InferResized(op, false);
    case Opcode::kAllToAll:
      RETURN_IF_ERROR(WantArrays(op));
      return InferAllToAll(op);
    case Opcode::kAllReduce:
      RETURN_IF_ERROR(CheckReducer(op, "c5"));
      return OperandsAsResult(op);
    case Opcode::kCollectivePermute:
      RETURN_IF_ERROR(CheckPairs(op));
      break;
    case Opcode::kRaggedAllToAll: {
      const Shape &input = op.operand(0), &output = op.operand(1);
      RETURN_IF_ERROR(WantArrays(op));
      if (input.element_type() != output.element_type() || input.rank() != output.rank() || input.rank() < 1) {
        return Fail(op, "ragged_all_to_all_c1", "input ", input.ToString(), " does not fit output ", output.ToString());
      }
      for (int i = 2; i < 6; ++i) {
        const Shape& s = op.operand(i);
        if (!IsIntegral(s.element_type()) || !SameDims(s, op.operand(2)) || s.rank() < 1 || s.rank() > 2) {
          return Fail(op, "ragged_all_to_all_c2", "operand ", i, " must be integers of one common shape, found ", s.ToString());
        }
      }
      return output.WithoutLayout();
    }
    default: break;
  }
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  return OperandsAsResult(op);
}

Cost CostCollective(const OpContext& op, const Shape& result) {
  return ElementCost(op, result, op.opcode == Opcode::kAllReduce || op.opcode == Opcode::kReduceScatter ? 1 : 0);
}

}  // namespace backplane
