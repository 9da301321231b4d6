#include "core/passes/combine_collectives.h"

#include "absl/container/flat_hash_set.h"
#include "core/eval/scalar_compiler.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

bool MayCombine(const Instruction* i) {
  return i->Is(Opcode::kAllReduce) && i->operand_count() > 0 && i->control_predecessors().empty() &&
         i->frontend_attributes().empty() && i->sharding() == nullptr && AsBinaryOp(*i->called(0)).has_value();
}

// Compares all attributes except the channel id, which only identifies the rendezvous.
Attributes AttributesToCompare(const Instruction* i) {
  Attributes attrs = i->attrs();
  if (attrs.Has(AttrId::kChannelId)) attrs.Set(AttrId::kChannelId, int64_t{1});
  return attrs;
}

bool HaveSameAttributes(const Instruction* a, const Instruction* b) {
  return a->operand(0)->shape().element_type() == b->operand(0)->shape().element_type() &&
         AsBinaryOp(*a->called(0)) == AsBinaryOp(*b->called(0)) && AttributesToCompare(a) == AttributesToCompare(b);
}

bool HasOneElementType(const Instruction* i) {
  for (const Instruction* o : i->operands()) {
    if (o->shape().element_type() != i->operand(0)->shape().element_type()) return false;
  }
  return true;
}

int64_t CountOperandBytes(const Instruction* i) {
  int64_t bytes = 0;
  for (const Instruction* o : i->operands()) bytes += o->shape().byte_size();
  return bytes;
}

// Maximum distance, in instructions, between members. A search stops after this many instructions without a new member.
constexpr size_t kMaxDistance = 4096;

// Collects the all-reduces from `first` on that can be combined with it. Instructions are in topological order.
std::vector<Instruction*> CollectCombinable(Instruction* first, const std::vector<Instruction*>& order, size_t at,
                                            int64_t max_bytes) {
  std::vector<Instruction*> members = {first};
  absl::flat_hash_set<const Instruction*> dependents = {first};  // the members, and instructions that depend on one
  int64_t bytes = CountOperandBytes(first);
  size_t latest = at;
  for (size_t k = at + 1; k < order.size() && k - latest <= kMaxDistance; ++k) {
    Instruction* i = order[k];
    bool waits = false;
    for (const Instruction* o : i->operands()) waits |= dependents.contains(o);
    for (const Instruction* p : i->control_predecessors()) waits |= dependents.contains(p);
    if (waits) {
      dependents.insert(i);
      continue;
    }
    if (!MayCombine(i) || !HasOneElementType(i) || !HaveSameAttributes(first, i) ||
        bytes + CountOperandBytes(i) > max_bytes)
      continue;
    bytes += CountOperandBytes(i);
    latest = k;
    members.push_back(i);
    dependents.insert(i);
  }
  return members;
}

void Combine(Computation* c, const std::vector<Instruction*>& members) {
  std::vector<Instruction*> operands;
  std::vector<Shape> shapes;
  for (const Instruction* m : members) {
    for (Instruction* o : m->operands()) {
      operands.push_back(o);
      shapes.push_back(o->shape().WithoutLayout());
    }
  }
  Instruction* all = c->AddClone(members[0], Shape::Tuple(shapes), operands);
  int64_t next = 0;
  for (Instruction* m : members) {
    std::vector<Instruction*> elements;
    for (int64_t k = 0; k < m->operand_count(); ++k) elements.push_back(MakeElement(c, all, next++));
    Replace(m, m->shape().IsTuple() ? Make(c, m, Opcode::kTuple, m->shape(), elements) : elements[0]);
  }
  c->RemoveDead();
  c->SortTopologically();
}

}  // namespace

absl::StatusOr<bool> CombineAllReduces::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    // Combines one group at a time, so that the next search sees its dependencies: combining two groups that depend on
    // each other crosswise would create a cycle.
    std::vector<Instruction*> order = c->Snapshot();
    for (size_t at = 0; at < order.size(); ++at) {
      Instruction* first = order[at];
      if (!MayCombine(first) || !HasOneElementType(first)) continue;
      const std::vector<Instruction*> members = CollectCombinable(first, order, at, max_bytes_);
      if (members.size() < 2) continue;
      Combine(c, members);
      order = c->Snapshot();
      changed = true;
    }
  }
  return changed;
}

}  // namespace backplane
