#include "core/passes/isolate_dynamic_sizes.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

using Members = absl::flat_hash_set<const Instruction*>;

bool UsesDynamicSize(const Instruction* i) {
  return HasDynamic(i->shape()) || i->Is(Opcode::kDynamicReshape) || i->Is(Opcode::kSetDimensionSize) ||
         std::any_of(i->operands().begin(), i->operands().end(),
                     [](const Instruction* o) { return HasDynamic(o->shape()); });
}

bool HasExternalEffect(const Instruction* i) {
  if (i->HasSideEffect() || i->info().Has(kCollective) || i->Is(Opcode::kCustomCall) || i->Is(Opcode::kPartitionId) ||
      i->Is(Opcode::kReplicaId)) {
    return true;
  }
  return std::any_of(i->called().begin(), i->called().end(), [](const Computation* c) {
    return std::any_of(c->instructions().begin(), c->instructions().end(),
                       [](const auto& inner) { return HasExternalEffect(inner.get()); });
  });
}

// The instructions that handle dynamic sizes, and those on paths between them. Instructions are in topological order.
Members CollectMembers(const Computation& c) {
  const auto& all = c.instructions();
  Members seeds, below, above, members;  // `below` depends on a seed; a seed depends on `above`
  for (const auto& i : all) {
    if (UsesDynamicSize(i.get())) seeds.insert(i.get());
  }
  for (const auto& i : all) {
    if (seeds.contains(i.get()) || std::any_of(i->operands().begin(), i->operands().end(),
                                               [&](const Instruction* o) { return below.contains(o); }))
      below.insert(i.get());
  }
  for (auto i = all.rbegin(); i != all.rend(); ++i) {
    if (seeds.contains(i->get()) || above.contains(i->get())) {
      above.insert(i->get());
      for (const Instruction* o : (*i)->operands()) above.insert(o);
    }
  }
  for (const auto& i : all) {
    if (below.contains(i.get()) && above.contains(i.get())) members.insert(i.get());
  }
  return members;
}

absl::StatusOr<bool> IsolateIn(Computation* c) {
  const Members members = CollectMembers(*c);
  if (members.empty()) return false;
  Computation* body = c->parent()->AddComputation("dynamic_sizes");
  body->set_is_fusion(true);
  absl::flat_hash_map<const Instruction*, Instruction*> copy;
  std::vector<Instruction*> operands, results;
  const std::vector<Instruction*> all = c->Snapshot();
  for (Instruction* i : all) {
    if (!members.contains(i)) continue;
    if (HasExternalEffect(i)) return absl::UnimplementedError(absl::StrCat(i->name(), ": among dynamic sizes"));
    std::vector<Instruction*> inside;
    for (Instruction* o : i->operands()) {
      auto [at, fresh] = copy.try_emplace(o, nullptr);
      if (fresh) {
        Attributes number;
        number.Set(AttrId::kParameterNumber, static_cast<int64_t>(operands.size()));
        at->second = Make(body, o, Opcode::kParameter, o->shape(), {}, std::move(number));
        operands.push_back(o);
      }
      inside.push_back(at->second);
    }
    copy[i] = body->AddClone(i, i->shape(), inside);
    const bool leaves = i->IsRoot() || std::any_of(i->users().begin(), i->users().end(),
                                                   [&](const Instruction* u) { return !members.contains(u); });
    if (leaves) results.push_back(i);
  }
  if (results.empty()) return false;  // no users
  std::vector<Instruction*> made;
  std::vector<Shape> shapes;
  for (const Instruction* r : results) {
    made.push_back(copy.at(r));
    shapes.push_back(r->shape().WithoutLayout());
  }
  body->set_root(made.size() == 1 ? made[0]
                                  : Make(body, nullptr, Opcode::kTuple, Shape::Tuple(shapes), std::move(made)));
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  Instruction* fusion =
      Make(c, results.back(), Opcode::kFusion, body->root()->shape(), std::move(operands), std::move(attrs), {body});
  for (size_t k = 0; k < results.size(); ++k) {
    Replace(results[k], results.size() == 1 ? fusion : MakeElement(c, fusion, static_cast<int64_t>(k)));
  }
  c->RemoveDead();
  c->SortTopologically();
  return true;
}

}  // namespace

bool HasDynamic(const Shape& shape) {
  bool dynamic = false;
  ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
    dynamic = dynamic || (s.IsArray() && s.HasDynamicDimensions());
  });
  return dynamic;
}

absl::StatusOr<bool> IsolateDynamicSizes::Run(Module* module) {
  const Computation* entry = module->entry();
  for (const Instruction* p : entry->parameters()) {
    if (HasDynamic(p->shape()))
      return absl::UnimplementedError(absl::StrCat(p->name(), ": a parameter of dynamic size"));
  }
  if (HasDynamic(entry->root()->shape()))
    return absl::UnimplementedError(absl::StrCat(entry->root()->name(), ": a result of dynamic size"));
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    // The parameters and results of a called computation are isolated in its caller.
    const bool passed =
        HasDynamic(c->root()->shape()) || std::any_of(c->parameters().begin(), c->parameters().end(),
                                                      [](const Instruction* p) { return HasDynamic(p->shape()); });
    if (passed) continue;
    ASSIGN_OR_RETURN(bool here, IsolateIn(c));
    changed |= here;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane
