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

// All but the channel, which only tells the meetings of a program apart.
Attributes Kind(const Instruction* i) {
  Attributes attrs = i->attrs();
  if (attrs.Has(AttrId::kChannelId)) attrs.Set(AttrId::kChannelId, int64_t{1});
  return attrs;
}

bool SameKind(const Instruction* a, const Instruction* b) {
  return a->operand(0)->shape().element_type() == b->operand(0)->shape().element_type() &&
         AsBinaryOp(*a->called(0)) == AsBinaryOp(*b->called(0)) && Kind(a) == Kind(b);
}

bool OfOneType(const Instruction* i) {
  for (const Instruction* o : i->operands()) {
    if (o->shape().element_type() != i->operand(0)->shape().element_type()) return false;
  }
  return true;
}

int64_t Bytes(const Instruction* i) {
  int64_t bytes = 0;
  for (const Instruction* o : i->operands()) bytes += o->shape().byte_size();
  return bytes;
}

// How far apart, in instructions, the members of one sum may be: a search ends behind so many without a new one.
constexpr size_t kMaxDistance = 4096;

// From `first` on, those that can be done together with it. The computation is in order of its operands.
std::vector<Instruction*> TogetherWith(Instruction* first, const std::vector<Instruction*>& order, size_t at,
                                       int64_t max_bytes) {
  std::vector<Instruction*> members = {first};
  absl::flat_hash_set<const Instruction*> behind = {first};  // members, and what waits for one
  int64_t bytes = Bytes(first);
  size_t latest = at;
  for (size_t k = at + 1; k < order.size() && k - latest <= kMaxDistance; ++k) {
    Instruction* i = order[k];
    bool waits = false;
    for (const Instruction* o : i->operands()) waits |= behind.contains(o);
    for (const Instruction* p : i->control_predecessors()) waits |= behind.contains(p);
    if (waits) {
      behind.insert(i);
      continue;
    }
    if (!MayCombine(i) || !OfOneType(i) || !SameKind(first, i) || bytes + Bytes(i) > max_bytes) continue;
    bytes += Bytes(i);
    latest = k;
    members.push_back(i);
    behind.insert(i);
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
  for (Computation* c : ControlFlowComputations(module)) {
    // Each merging is seen by the search for the next: two pairs that wait for each other crosswise are not both made.
    std::vector<Instruction*> order = c->Snapshot();
    for (size_t at = 0; at < order.size(); ++at) {
      Instruction* first = order[at];
      if (!MayCombine(first) || !OfOneType(first)) continue;
      const std::vector<Instruction*> members = TogetherWith(first, order, at, max_bytes_);
      if (members.size() < 2) continue;
      Combine(c, members);
      order = c->Snapshot();
      changed = true;
    }
  }
  return changed;
}

}  // namespace backplane
