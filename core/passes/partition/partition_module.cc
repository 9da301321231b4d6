#include "core/passes/partition/partition_module.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/calls.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

std::string TupleText(const std::vector<Sharding>& shardings) {
  Sharding tuple;
  tuple.type = Sharding::Type::kTuple;
  tuple.tuple = shardings;
  return tuple.ToString();
}

// The sharding of one leaf of a value, given that of the value; null where it says nothing.
const Sharding* LeafSharding(const Sharding* of, size_t leaf) {
  if (of == nullptr || of->type != Sharding::Type::kTuple) return of;
  return leaf < of->tuple.size() ? &of->tuple[leaf] : nullptr;
}

absl::Status ShardParameters(Computation* entry, Partitioner& partitioner, std::vector<Sharding>* shardings) {
  for (Instruction* p : entry->parameters()) {
    const std::shared_ptr<const Sharding> of = p->sharding();
    const Shape whole = p->shape();
    std::vector<Sharding> leaves;
    ForEachLeaf(whole, [&](const Shape& s, const std::vector<int64_t>&) {
      const Sharding* sharding = s.IsArray() ? LeafSharding(of.get(), leaves.size()) : nullptr;
      leaves.push_back(sharding != nullptr && sharding->type == Sharding::Type::kOther ? *sharding : Sharding());
    });
    const bool split = std::any_of(leaves.begin(), leaves.end(), [](const Sharding& s) { return s != Sharding(); });
    if (split && !whole.IsArray()) {
      return absl::UnimplementedError(
          absl::StrCat(p->name(), ": a tuple parameter with split elements is not partitioned"));
    }
    if (split) {
      ASSIGN_OR_RETURN(const bool parts, partitioner.ShardParameter(p, leaves[0]));
      if (!parts) leaves[0] = Sharding();  // one tile after all
    }
    shardings->insert(shardings->end(), leaves.begin(), leaves.end());
    p->set_sharding(nullptr);
  }
  return absl::OkStatus();
}

bool Allows(const std::vector<bool>& list, size_t k) { return list.size() == 1 ? list[0] : k < list.size() && list[k]; }

// A value that the entry returns: what the program says of it, and otherwise how it is to lie.
struct Wish {
  std::optional<Sharding> asked;
  bool held = false;  // the host holds the program to it
  std::optional<Tiling> proposed;
};

// Asked of the program as it was written: what stands for a value later may be one that was annotated for another end.
std::vector<Wish> WishesOf(const Computation* entry, const PartitionContext& context) {
  const Instruction* root = entry->root();
  const bool tuple = root->Is(Opcode::kTuple);
  std::vector<Wish> wishes(tuple ? static_cast<size_t>(root->operand_count()) : 1);
  for (size_t k = 0; k < wishes.size(); ++k) {
    const Instruction* value = tuple ? root->operand(static_cast<int64_t>(k)) : root;
    const Sharding* asked = IsAnnotation(value) ? value->sharding().get() : nullptr;
    const bool of_result = tuple || !(root->Is(Opcode::kCustomCall) || root->Is(Opcode::kParameter));
    const Sharding* root_says = of_result ? LeafSharding(root->sharding().get(), k) : nullptr;
    if (root_says != nullptr) asked = root_says;
    if (asked != nullptr) wishes[k].asked = *asked;
    wishes[k].held = IsOfResult(value) || root_says != nullptr;
    const Tiling* proposed = value->shape().IsArray() ? context.Proposed(value) : nullptr;
    if (proposed != nullptr) wishes[k].proposed = *proposed;
  }
  return wishes;
}

absl::Status ShardResults(Computation* entry, int64_t partitions, const std::vector<bool>& propagate,
                          const std::vector<Wish>& wishes, Partitioner& partitioner, std::vector<Sharding>* shardings) {
  Instruction* root = entry->root();
  const bool tuple = root->Is(Opcode::kTuple);
  std::vector<Instruction*> values = tuple ? std::vector<Instruction*>(root->operands().begin(), root->operands().end())
                                           : std::vector<Instruction*>{root};
  std::vector<Shape> shapes;
  for (size_t k = 0; k < values.size(); ++k) {
    Instruction* value = values[k];
    const Sharding* asked = wishes[k].asked ? &*wishes[k].asked : nullptr;
    const std::optional<Tiling>& proposed = wishes[k].proposed;
    const bool may_stay = propagate.empty() || Allows(propagate, std::min(k, propagate.size() - 1));
    std::optional<Tiling> written;
    if (asked != nullptr && value->shape().IsArray() && !Tiling::HasParts(*asked)) {
      absl::StatusOr<Tiling> of = Tiling::Of(*asked, value->shape(), partitions);
      if (of.ok()) written = *std::move(of);
    }
    const Partitioner::Shards* shards = partitioner.FindShards(value);
    const Partitioner::Shards* partial = partitioner.FindPartial(value);
    if (partial != nullptr && asked != nullptr && Tiling::HasParts(*asked)) {
      shardings->push_back(*asked);
      values[k] = partial->value;
    } else if (written && wishes[k].held) {
      const bool even = written->Divides(value->shape());
      shardings->push_back(written->IsWhole() ? Sharding() : *asked);
      ASSIGN_OR_RETURN(values[k],
                       even ? partitioner.SliceTo(value, *written) : partitioner.WithFilling(value, *written));
    } else if (asked == nullptr && may_stay && proposed) {
      shardings->push_back(proposed->ToSharding());
      ASSIGN_OR_RETURN(values[k], partitioner.SliceTo(value, *proposed));
    } else if (shards != nullptr && (may_stay || asked != nullptr)) {
      const Tiling tiling = shards->tiling;
      // As it was written where that is what became of it.
      shardings->push_back(written && *written == tiling ? *asked : tiling.ToSharding());
      ASSIGN_OR_RETURN(values[k], partitioner.SliceTo(value, tiling));
    } else {
      ForEachLeaf(value->shape(), [&](const Shape&, const std::vector<int64_t>&) { shardings->emplace_back(); });
    }
    shapes.push_back(values[k]->shape().WithoutLayout());
  }
  if (tuple) {
    Instruction* made = Make(entry, root, Opcode::kTuple, Shape::Tuple(shapes), values);
    entry->set_root(made);
  } else {
    entry->set_root(values[0]);
  }
  return absl::OkStatus();
}

// Layouts and aliases were said of whole arrays.
void AdjustConfig(Module* module) {
  ModuleConfig& config = module->config();
  const Computation* entry = module->entry();
  auto fit = [](Shape& asked, const Shape& now) {
    if (!asked.IsArray() || !now.IsArray() || asked.rank() != now.rank()) return;
    Shape shape = now.WithoutLayout();
    if (asked.has_layout()) shape.set_layout(asked.layout());
    asked = std::move(shape);
  };
  for (size_t i = 0; i < config.parameter_layouts.size() && i < entry->parameters().size(); ++i) {
    fit(config.parameter_layouts[i], entry->parameters()[i]->shape());
  }
  const Shape& result = entry->root()->shape();
  if (config.result_layout.IsTuple() && result.IsTuple() && config.result_layout.tuple_size() == result.tuple_size()) {
    for (int64_t i = 0; i < result.tuple_size(); ++i) {
      fit(config.result_layout.mutable_tuple_shapes()[static_cast<size_t>(i)], result.tuple_shapes(i));
    }
  } else {
    fit(config.result_layout, result);
  }
  auto at = [](const Shape& shape, const Ints& index) {
    const Shape* s = &shape;
    for (int64_t k : index) {
      if (!s->IsTuple() || k < 0 || k >= s->tuple_size()) return Shape::Token();
      s = &s->tuple_shapes(k);
    }
    return s->WithoutLayout();
  };
  std::vector<InputOutputAlias> kept;
  for (const InputOutputAlias& a : config.input_output_aliases) {
    if (a.parameter < 0 || a.parameter >= static_cast<int64_t>(entry->parameters().size())) continue;
    if (at(entry->parameter(a.parameter)->shape(), a.parameter_index) == at(result, a.output_index)) {
      kept.push_back(a);
    } else {
      config.buffer_donors.push_back({a.parameter, a.parameter_index});
    }
  }
  config.input_output_aliases = std::move(kept);
}

void Log(const Module& module, std::vector<std::string>* log) {
  for (const Computation* c : RunningComputations(&module)) {
    for (const auto& owned : c->instructions()) {
      const Instruction* i = owned.get();
      if (!absl::StartsWith(i->name(), kExchangeName) || !i->info().Has(kCollective)) continue;
      const std::vector<Ints> groups = i->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
      std::string line = absl::StrCat(i->name(), ": ", OpName(i->opcode()), " of ", i->operand(0)->shape().ToString(),
                                      " of ", i->operand(0)->name(), " to ", i->shape().ToString(), " in groups of ",
                                      groups.empty() ? 0 : groups[0].size());
      if (!i->metadata().op_name.empty()) absl::StrAppend(&line, ", for ", i->metadata().op_name);
      log->push_back(std::move(line));
    }
  }
}

int64_t FirstFreeChannel(const Module& module) {
  int64_t channel = 1;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) channel = std::max(channel, i->attrs().GetInt(AttrId::kChannelId) + 1);
  }
  return channel;
}

bool HasAnnotations(const Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (IsAnnotation(i.get()) || (i->Is(Opcode::kCustomCall) && absl::StartsWith(i->custom_call_target(), "SPMD"))) {
        return true;
      }
    }
  }
  return false;
}

// Groups of values that lie alike, and loops, whose results may be wanted split.
bool LooksAhead(const Module& module) {
  for (const auto& i : module.entry()->instructions()) {
    if (i->Is(Opcode::kWhile)) return true;
  }
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (IsAnnotation(i.get()) && i->custom_call_target() == "ShardingGroup") return true;
    }
  }
  return false;
}

// A root that is a loop's or a call's tuple becomes a tuple of its elements, so that each result lies as it should.
void SpellOutResults(Computation* entry) {
  Instruction* root = entry->root();
  if (!root->shape().IsTuple() || root->Is(Opcode::kTuple)) return;
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < root->shape().tuple_size(); ++k) elements.push_back(MakeElement(entry, root, k));
  Instruction* tuple = Make(entry, root, Opcode::kTuple, root->shape(), std::move(elements));
  // What is written on a custom call or a parameter is how that lies, not what is asked of the result.
  const bool of_result = !root->Is(Opcode::kCustomCall) && !root->Is(Opcode::kParameter);
  tuple->set_sharding(of_result ? root->sharding() : nullptr);
  entry->set_root(tuple);
}

// Everything from parameters to results. Leaves annotations and dead code behind.
absl::Status Partition(Module* module, PartitionContext& context, const PartitionOptions& options,
                       std::vector<Sharding>* parameters, std::vector<Sharding>* results) {
  Computation* entry = module->entry();
  context.module = module;
  SpellOutResults(entry);
  context.MarkManual(entry, false);
  if (context.partitions > 1) {
    PropagationInput input{context.partitions, &context.manual, {}};
    for (size_t k = 0; k < entry->parameters().size(); ++k)
      input.open_parameters.push_back(Allows(options.propagate_to_parameters, k));
    ASSIGN_OR_RETURN(context.proposed, PropagateTilings(*module, input));
    for (Instruction* p : entry->parameters()) {
      const Tiling* tiling = p->shape().IsArray() ? context.Proposed(p) : nullptr;
      if (tiling != nullptr && p->sharding() == nullptr &&
          input.open_parameters[static_cast<size_t>(p->parameter_number())])
        p->set_sharding(std::make_shared<const Sharding>(tiling->ToSharding()));
    }
  }
  const std::vector<Wish> wishes = WishesOf(entry, context);
  Partitioner partitioner(entry, &context);
  RETURN_IF_ERROR(ShardParameters(entry, partitioner, parameters));
  RETURN_IF_ERROR(partitioner.Rewrite().status());
  RETURN_IF_ERROR(ShardResults(entry, context.partitions, options.propagate_to_results, wishes, partitioner, results));
  entry->RemoveDead();
  return partitioner.RemoveReplaced();
}

}  // namespace

absl::StatusOr<bool> PartitionModule::Run(Module* module) {
  ModuleConfig& config = module->config();
  if (config.frontend_attributes.count(kResultShardingsAttribute) != 0) return false;  // has been done
  const int64_t partitions = config.num_partitions;
  if (partitions < 2 && !HasAnnotations(*module)) return false;
  RETURN_IF_ERROR(InlineAllCalls(module).status());
  RETURN_IF_ERROR(RunPass(UnshareComputations(), module).status());
  RETURN_IF_ERROR(RunPass(SimplifyTuples(), module).status());
  PartitionContext context;
  context.replicas = config.num_replicas;
  context.partitions = partitions;
  context.next_channel = FirstFreeChannel(*module);
  std::vector<Sharding> parameters, results;
  if (partitions > 1 && LooksAhead(*module)) {
    // Known only when all has been seen: once on a copy.
    std::unique_ptr<Module> copy = module->Clone();
    PartitionContext first = context;
    first.learning = true;
    RETURN_IF_ERROR(Partition(copy.get(), first, options_, &parameters, &results));
    context.groups = std::move(first.groups);
    context.wanted = std::move(first.wanted);
    parameters.clear();
    results.clear();
  }
  RETURN_IF_ERROR(Partition(module, context, options_, &parameters, &results));
  module->RemoveUnreachableComputations();
  // Annotations go from everywhere, reduction bodies too.
  for (Computation* c : module->PostOrder()) {
    for (Instruction* i : c->Snapshot()) {
      if (IsAnnotation(i)) i->ReplaceAllUsesWith(i->operand(0));
    }
    c->RemoveDead();
    c->SortTopologically();
  }
  module->RemoveUnreachableComputations();
  AdjustConfig(module);
  if (partitions > 1) {
    config.frontend_attributes[kParameterShardingsAttribute] = TupleText(parameters);
    config.frontend_attributes[kResultShardingsAttribute] = TupleText(results);
    if (options_.log != nullptr) Log(*module, options_.log);
  }
  return true;
}

}  // namespace backplane
