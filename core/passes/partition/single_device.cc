// Operations that run on one device only. The other partitions receive the results by a collective-broadcast.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/passes/order_effects.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Builds a value of `shape` from `leaves`, beginning at index `next`.
Instruction* BuildTuple(Computation* c, const Instruction* like, const Shape& shape,
                        const std::vector<Instruction*>& leaves, size_t& next) {
  if (!shape.IsTuple()) return leaves[next++];
  std::vector<Instruction*> elements;
  for (const Shape& s : shape.tuple_shapes()) elements.push_back(BuildTuple(c, like, s, leaves, next));
  return Make(c, like, Opcode::kTuple, shape, std::move(elements));
}

// Appends the leaves of `x` to `out`.
void CollectLeaves(Computation* c, Instruction* x, std::vector<Instruction*>& out) {
  if (!x->shape().IsTuple()) return out.push_back(x);
  for (int64_t i = 0; i < x->shape().tuple_size(); ++i) CollectLeaves(c, MakeElement(c, x, i), out);
}

}  // namespace

// Wraps a custom call or a host transfer in a conditional on the partition id and broadcasts its results. Of a host
// transfer `i` is the done half. Removes `i`, and the start half of a transfer.
absl::Status Partitioner::RunOnOneDevice(Instruction* i, int64_t device) {
  if (device < 0 || device >= partitions_) {
    return absl::InvalidArgumentError(absl::StrCat(i->name(), ": is to run on device ", device, " of ", partitions_));
  }
  Module* module = context_.module;
  Instruction* const start = i->Is(Opcode::kSendDone) || i->Is(Opcode::kRecvDone) ? i->operand(0) : i;
  if (start != i && start->users().size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(start->name(), ": has more users than ", i->name()));
  }
  std::vector<Instruction*> operands(start->operands().begin(), start->operands().end());
  std::vector<Shape> shapes;
  for (const Instruction* o : operands) shapes.push_back(o->shape().WithoutLayout());
  Instruction* packed = AddOp(i, Opcode::kTuple, Shape::Tuple(shapes), operands);
  auto make_branch = [&](absl::string_view name, std::vector<Instruction*>& arguments) {
    Computation* c = module->AddComputation(std::string(name));
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = packed->shape();
    spec.attrs.Set(AttrId::kParameterNumber, int64_t{0});
    Instruction* parameter = c->Add(std::move(spec));
    for (int64_t k = 0; k < packed->shape().tuple_size(); ++k) arguments.push_back(MakeElement(c, parameter, k));
    return c;
  };
  std::vector<Instruction*> run_arguments, skip_arguments;
  Computation* run = make_branch("here", run_arguments);
  Instruction* call = run->AddClone(start, start->shape(), run_arguments);
  call->set_sharding(nullptr);
  if (start != i) call = run->AddClone(i, i->shape(), {call});
  run->set_root(call);
  Computation* skip = make_branch("elsewhere", skip_arguments);
  std::vector<Instruction*> zeros;
  ForEachLeaf(i->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    if (s.IsArray()) {
      Instruction* zero = MakeConstant(skip, i, Literal(Shape::Scalar(s.element_type())));
      zeros.push_back(s.IsScalar() ? zero : MakeBroadcast(skip, i, zero, s.WithoutLayout(), {}));
    } else {
      zeros.push_back(Make(skip, i, Opcode::kAfterAll, Shape::Token(), {}));
    }
  });
  size_t next = 0;
  skip->set_root(BuildTuple(skip, i, i->shape().WithoutLayout(), zeros, next));

  Attributes equal;
  equal.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
  Instruction* number = MakeConstant(c_, i, Literal::ScalarInt(PrimitiveType::kU32, device));
  Instruction* is_selected = AddOp(i, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred),
                                   {GetPartitionId(PrimitiveType::kU32), number}, std::move(equal));
  Instruction* conditional =
      AddOp(i, Opcode::kConditional, i->shape().WithoutLayout(), {is_selected, packed, packed}, {}, {run, skip});
  Ints group = {device};
  for (int64_t p = 0; p < partitions_; ++p) {
    if (p != device) group.push_back(p);
  }
  std::vector<Instruction*> results;
  CollectLeaves(c_, conditional, results);
  for (Instruction*& r : results) {
    if (r->shape().IsArray())
      r = AddCollective(i, Opcode::kCollectiveBroadcast, r->shape().WithoutLayout(), {r}, {group});
  }
  next = 0;
  i->ReplaceAllUsesWith(BuildTuple(c_, i, i->shape().WithoutLayout(), results, next));
  MoveControlDependencies(start, conditional);
  if (start != i) MoveControlDependencies(i, conditional);
  if (c_->root() == i || !i->users().empty()) return absl::InternalError(absl::StrCat(i->name(), ": is still used"));
  RETURN_IF_ERROR(c_->Remove(i));
  return start == i ? absl::OkStatus() : c_->Remove(start);
}

// Makes all partitions use the random numbers that the first one draws.
absl::Status Partitioner::BroadcastRandomValue(Instruction* i) {
  if (!i->shape().IsArray()) return absl::OkStatus();
  const std::vector<Instruction*> users(i->users().begin(), i->users().end());
  Ints group(static_cast<size_t>(partitions_));
  std::iota(group.begin(), group.end(), 0);
  Instruction* broadcast = AddCollective(i, Opcode::kCollectiveBroadcast, i->shape().WithoutLayout(), {i}, {group});
  ReplaceUses(i, broadcast, users);
  return absl::OkStatus();
}

}  // namespace backplane
