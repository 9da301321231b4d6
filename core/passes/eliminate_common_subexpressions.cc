#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// Hashes everything that Equal compares.
size_t Hash(const Instruction* i) {
  size_t h =
      absl::HashOf(i->HashWithoutOperands(), i->shape().dimensions(), static_cast<int>(i->shape().element_type()));
  for (const Instruction* o : i->operands()) h = absl::HashOf(h, o->id());
  for (const Computation* c : i->called()) h = absl::HashOf(h, c->name());
  return h;
}

bool Equal(const Instruction* a, const Instruction* b) {
  if (a->opcode() != b->opcode() || !a->shape().Identical(b->shape()) || a->operand_count() != b->operand_count() ||
      !(a->attrs() == b->attrs()) || a->called() != b->called() || a->backend_config() != b->backend_config() ||
      a->result_accuracy() != b->result_accuracy()) {
    return false;
  }
  for (int64_t k = 0; k < a->operand_count(); ++k) {
    if (a->operand(k) != b->operand(k)) return false;
  }
  return !a->Is(Opcode::kConstant) || a->literal() == b->literal();
}

}  // namespace

absl::StatusOr<bool> EliminateCommonSubexpressions::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    absl::flat_hash_map<size_t, std::vector<Instruction*>> seen;
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (i->Is(Opcode::kParameter) || i->HasSideEffect() || i->info().Has(kCollective)) continue;
      std::vector<Instruction*>& bucket = seen[Hash(i)];
      Instruction* twin = nullptr;
      for (Instruction* other : bucket) {
        if (Equal(other, i)) twin = other;
      }
      if (twin == nullptr) {
        bucket.push_back(i);
      } else if (!i->users().empty() || i == c->root()) {
        Replace(i, twin);
        here = true;
      }
    }
    if (here) c->RemoveDead();
    changed |= here;
  }
  return changed;
}

}  // namespace backplane
