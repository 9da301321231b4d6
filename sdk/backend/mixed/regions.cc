// Groups adjacent instructions into fusions. A region has one result: an instruction joins the region of its users only
// if all of them are in the same region. So nothing is computed twice, and no cycle arises.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/backend/mixed/claims.h"

namespace backplane::mixed {
namespace {

bool MayJoin(const Region& region, const Instruction& i) {
  if (i.HasSideEffect() || !i.control_predecessors().empty() || !i.shape().IsArray() || !i.called().empty())
    return false;
  return !i.Is(Opcode::kParameter) && region.joins(i);
}

// Moves the members, which are in topological order and end with the result, into a new computation.
absl::Status Outline(Computation* c, absl::Span<Instruction* const> members) {
  Module* module = c->parent();
  Instruction* result = members.back();
  Computation* fused = module->AddComputation(absl::StrCat("region_", result->info().text));
  absl::flat_hash_map<const Instruction*, Instruction*> inside;
  const absl::flat_hash_set<const Instruction*> own(members.begin(), members.end());
  std::vector<Instruction*> operands;
  for (const Instruction* member : members) {
    for (Instruction* operand : member->operands()) {
      if (own.contains(operand) || inside.contains(operand)) continue;
      Attributes attrs;
      attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(operands.size()));
      inside[operand] = Make(fused, nullptr, Opcode::kParameter, operand->shape(), {}, std::move(attrs));
      operands.push_back(operand);
    }
  }
  for (const Instruction* member : members) {
    std::vector<Instruction*> mapped;
    for (const Instruction* operand : member->operands()) mapped.push_back(inside.at(operand));
    inside[member] = fused->AddClone(member, member->shape(), mapped);
  }
  fused->set_root(inside.at(result));
  fused->set_is_fusion(true);
  InstructionSpec spec;
  spec.opcode = Opcode::kFusion;
  spec.shape = result->shape();
  spec.operands = std::move(operands);
  spec.attrs.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  spec.called = {fused};
  spec.name = absl::StrCat(result->info().text, "_region");
  spec.metadata = result->metadata();
  // The fusion goes to the position of the result: all its operands are before it and all its users after it.
  result->ReplaceAllUsesWith(c->AddBefore(result, std::move(spec)));
  for (size_t m = members.size(); m-- > 0;) RETURN_IF_ERROR(c->Remove(members[m]));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FormRegion(Computation* c, const Region& region) {
  constexpr int kNone = -1;
  const std::vector<Instruction*> order = c->Snapshot();
  absl::flat_hash_map<const Instruction*, int> group_of;
  std::vector<std::vector<Instruction*>> groups;  // members, the last in topological order first
  for (size_t n = order.size(); n-- > 0;) {
    Instruction* i = order[n];
    if (!MayJoin(region, *i)) continue;
    int group = kNone;
    if (!i->IsRoot() && !i->users().empty()) {
      auto at = group_of.find(i->users()[0]);
      group = at == group_of.end() ? kNone : at->second;
      for (const Instruction* user : i->users()) {
        auto other = group_of.find(user);
        if (other == group_of.end() || other->second != group) group = kNone;
      }
    }
    if (group == kNone) {
      group = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    group_of[i] = group;
    groups[static_cast<size_t>(group)].push_back(i);
  }
  int64_t made = 0;
  for (std::vector<Instruction*>& members : groups) {
    if (members.size() < 2) continue;
    const std::vector<Instruction*> forward(members.rbegin(), members.rend());
    RETURN_IF_ERROR(Outline(c, forward));
    ++made;
  }
  return made;
}

}  // namespace

absl::StatusOr<int64_t> FormRegions(Module* module, const std::vector<Region>& regions) {
  int64_t made = 0;
  for (const Region& region : regions) {
    for (Computation* c : CollectControlFlowComputations(module)) {
      if (c->is_fusion()) continue;
      ASSIGN_OR_RETURN(int64_t here, FormRegion(c, region));
      made += here;
    }
  }
  return made;
}

}  // namespace backplane::mixed
