#include <algorithm>

#include "sdk/engine/compiler/fusion_policy.h"

namespace backplane::engine {
namespace {

constexpr double kMaxRecomputeCycles = 2.5;  // what may be computed again in each kernel that needs it
constexpr size_t kMaxCopies = 6;
constexpr int kMaxChain = 6;  // instructions that one copy makes computed again

codegen::FusionRole RoleOf(const Instruction& i, const CustomLowering* lowering) {
  return IsClaimedBy(lowering, i) ? codegen::FusionRole::kNotFusible : codegen::Classify(i).role;
}

// Cycles for one element to compute an instruction again from what stays in memory, or a large number when it reads
// more than one array to do so: then a copy of it would cost traffic instead of saving some.
double RecomputeCost(const Instruction& i, const CustomLowering* lowering, int depth) {
  constexpr double kNever = 1e9;
  if (IsFreeSource(i)) return 0;
  if (i.info().Has(kNoOp)) return kNever;
  if (depth == 0 || RoleOf(i, lowering) != codegen::FusionRole::kElementwise || !i.shape().IsArray()) return kNever;
  const Instruction* large = nullptr;
  for (const Instruction* o : i.operands()) {
    if (IsFreeSource(*o) || o->shape().IsScalar() || o == large) continue;
    if (large != nullptr) return kNever;
    large = o;
  }
  const double cost = codegen::CostPerElement(i);
  if (large == nullptr || large->users().size() < 2) return cost;
  const double below = RecomputeCost(*large, lowering, depth - 1);
  return cost + (below >= kNever || cost + below > kMaxRecomputeCycles ? 0 : below);
}

// Whether each reader of the instruction computes it again.
bool IsDuplicated(const Instruction& i, const CustomLowering* lowering) {
  if (IsFreeSource(i)) return true;
  if (i.users().size() > kMaxCopies || i.shape().IsScalar() ||
      RecomputeCost(i, lowering, kMaxChain) > kMaxRecomputeCycles)
    return false;
  return std::all_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
    const codegen::FusionRole role = RoleOf(*user, lowering);
    return user->shape().IsArray() &&
           (role == codegen::FusionRole::kElementwise || role == codegen::FusionRole::kReduction);
  });
}

void DuplicateForUser(Instruction* user, const Instruction* i) {
  InstructionSpec spec;
  spec.opcode = i->opcode();
  spec.shape = i->shape();
  spec.operands.assign(i->operands().begin(), i->operands().end());
  spec.attrs = i->attrs();
  if (i->Is(Opcode::kConstant)) spec.literal = std::make_shared<const Literal>(i->literal());
  spec.metadata = i->metadata();
  Instruction* copy = user->parent()->AddBefore(user, std::move(spec));
  for (int64_t k = 0; k < user->operand_count(); ++k) {
    if (user->operand(k) == i) user->ReplaceOperand(k, copy);
  }
}

}  // namespace

bool IsFreeSource(const Instruction& i) {
  if (i.Is(Opcode::kConstant)) return i.shape().IsScalar();
  return i.Is(Opcode::kIota) || (i.Is(Opcode::kBroadcast) && !IsShortBroadcast(i));
}

void DuplicateCheapProducers(Computation* computation, const CustomLowering* lowering) {
  std::vector<Instruction*> all = computation->Snapshot();
  // Users first: a copied broadcast is a further user of its constant.
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    Instruction* i = *it;
    if (i->users().size() < 2 || i == computation->root() || !IsDuplicated(*i, lowering)) continue;
    const std::vector<Instruction*> users(i->users().begin(), i->users().end());
    for (size_t u = 1; u < users.size(); ++u) {
      if (RoleOf(*users[u], lowering) != codegen::FusionRole::kNotFusible) DuplicateForUser(users[u], i);
    }
  }
}

}  // namespace backplane::engine
