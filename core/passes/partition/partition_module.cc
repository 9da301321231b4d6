#include "core/passes/partition/partition_module.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
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

std::string FormatTupleSharding(const std::vector<Sharding>& shardings) {
  Sharding tuple;
  tuple.type = Sharding::Type::kTuple;
  tuple.tuple = shardings;
  return tuple.ToString();
}

// Returns the sharding of one leaf of a value with this sharding, or null if it states none.
const Sharding* GetLeafSharding(const Sharding* sharding, size_t leaf) {
  if (sharding == nullptr || sharding->type != Sharding::Type::kTuple) return sharding;
  return leaf < sharding->tuple.size() ? &sharding->tuple[leaf] : nullptr;
}

absl::Status ShardParameters(Computation* entry, Partitioner& partitioner, std::vector<Sharding>* shardings) {
  for (Instruction* p : entry->parameters()) {
    const std::shared_ptr<const Sharding> sharding = p->sharding();
    const Shape full_shape = p->shape();
    std::vector<Sharding> leaves;
    ForEachLeaf(full_shape, [&](const Shape& s, const std::vector<int64_t>&) {
      const Sharding* leaf = s.IsArray() ? GetLeafSharding(sharding.get(), leaves.size()) : nullptr;
      leaves.push_back(leaf != nullptr && leaf->type == Sharding::Type::kOther ? *leaf : Sharding());
    });
    const bool any_sharded =
        std::any_of(leaves.begin(), leaves.end(), [](const Sharding& s) { return s != Sharding(); });
    if (any_sharded && !full_shape.IsArray()) {
      return absl::UnimplementedError(
          absl::StrCat(p->name(), ": a tuple parameter with split elements is not partitioned"));
    }
    if (any_sharded) {
      ASSIGN_OR_RETURN(const bool is_sharded, partitioner.ShardParameter(p, leaves[0]));
      if (!is_sharded) leaves[0] = Sharding();  // turned out to be replicated
    }
    shardings->insert(shardings->end(), leaves.begin(), leaves.end());
    p->set_sharding(nullptr);
  }
  return absl::OkStatus();
}

bool IsAllowed(const std::vector<bool>& list, size_t k) {
  return list.size() == 1 ? list[0] : k < list.size() && list[k];
}

// What is known about the sharding of a program result.
struct ResultRequest {
  std::optional<Sharding> requested;
  bool is_binding = false;  // the host relies on `requested`
  std::optional<Tiling> propagated;
  std::optional<Tiling> of_operand;  // see OperandTiling
};

// Some operations, such as a cumulative sum along a split dimension, compute their result on every partition although
// their operand is split. This finds the tiling of such an operand, in the dimensions of the result: a program result
// that each partition cuts to its own tile needs less memory.
class OperandTiling {
 public:
  explicit OperandTiling(const PartitionContext& context) : context_(context) {}

  std::optional<Tiling> Find(const Instruction* value) {
    std::optional<Tiling> tiling = Search(value);
    return tiling && tiling->Divides(value->shape()) ? std::move(tiling) : std::nullopt;
  }

 private:
  static constexpr size_t kMaxSearched = 100;

  std::optional<Tiling> Search(const Instruction* i) {
    if (seen_.size() >= kMaxSearched || !i->shape().IsArray() || i->shape().HasDynamicDimensions() ||
        context_.IsManual(i) || !seen_.insert(i).second)
      return std::nullopt;
    if (const Tiling* tiling = context_.FindPropagated(i)) return *tiling;
    if (i->Is(Opcode::kTranspose)) {
      const std::optional<Tiling> tiling = Search(i->operand(0));
      return tiling ? std::optional<Tiling>(tiling->SelectDims(i->dimensions())) : std::nullopt;
    }
    for (const Instruction* operand : OperandsWithDimensionsOf(i)) {
      if (!operand->shape().IsArray() || operand->shape().rank() != i->shape().rank()) continue;
      if (std::optional<Tiling> tiling = Search(operand)) return tiling;
    }
    return std::nullopt;
  }

  // The operands of which each dimension means the same as that of the result. Those of a dot do not, even if they have
  // the same sizes.
  static absl::Span<Instruction* const> OperandsWithDimensionsOf(const Instruction* i) {
    switch (i->opcode()) {
      case Opcode::kConcatenate:
        return i->operands();
      case Opcode::kCholesky:
      case Opcode::kDynamicSlice:
      case Opcode::kDynamicUpdateSlice:
      case Opcode::kFft:
      case Opcode::kPad:
      case Opcode::kReduceWindow:
      case Opcode::kReverse:
      case Opcode::kScatter:
      case Opcode::kSlice:
      case Opcode::kSort:
        return i->operands().subspan(0, 1);
      case Opcode::kTriangularSolve:
        return i->operands().subspan(1, 1);
      default:
        return i->info().Has(kElementwise) ? i->operands() : absl::Span<Instruction* const>();
    }
  }

  const PartitionContext& context_;
  absl::flat_hash_set<const Instruction*> seen_;
};

// Collects the requests before the rewrite, because it replaces values by others that may carry annotations of their
// own.
std::vector<ResultRequest> CollectResultRequests(const Computation* entry, const PartitionContext& context) {
  const Instruction* root = entry->root();
  const bool tuple = root->Is(Opcode::kTuple);
  std::vector<ResultRequest> requests(tuple ? static_cast<size_t>(root->operand_count()) : 1);
  size_t leaf = 0;  // the first of `value`, which may be a tuple itself
  for (size_t k = 0; k < requests.size(); ++k) {
    const Instruction* value = tuple ? root->operand(static_cast<int64_t>(k)) : root;
    const Sharding* requested = IsShardingAnnotation(value) ? value->sharding().get() : nullptr;
    const bool applies_to_result = tuple || !(root->Is(Opcode::kCustomCall) || root->Is(Opcode::kParameter));
    const Sharding* root_sharding = applies_to_result ? GetLeafSharding(root->sharding().get(), leaf) : nullptr;
    leaf += static_cast<size_t>(CountLeaves(value->shape()));
    if (root_sharding != nullptr) requested = root_sharding;
    if (requested != nullptr) requests[k].requested = *requested;
    requests[k].is_binding = IsResultAnnotation(value) || root_sharding != nullptr;
    const Tiling* propagated = value->shape().IsArray() ? context.FindPropagated(value) : nullptr;
    if (propagated != nullptr) requests[k].propagated = *propagated;
    if (requested == nullptr && propagated == nullptr) requests[k].of_operand = OperandTiling(context).Find(value);
  }
  return requests;
}

absl::Status ShardResults(Computation* entry, int64_t partitions, const std::vector<bool>& propagate,
                          const std::vector<ResultRequest>& requests, Partitioner& partitioner,
                          std::vector<Sharding>* shardings) {
  Instruction* root = entry->root();
  const bool tuple = root->Is(Opcode::kTuple);
  std::vector<Instruction*> values = tuple ? std::vector<Instruction*>(root->operands().begin(), root->operands().end())
                                           : std::vector<Instruction*>{root};
  std::vector<Shape> shapes;
  for (size_t k = 0; k < values.size(); ++k) {
    Instruction* value = values[k];
    const Sharding* requested = requests[k].requested ? &*requests[k].requested : nullptr;
    const std::optional<Tiling>& propagated = requests[k].propagated;
    const size_t leaf = shardings->size();
    const bool may_propagate = propagate.empty() || IsAllowed(propagate, std::min(leaf, propagate.size() - 1));
    std::optional<Tiling> requested_tiling;
    if (requested != nullptr && value->shape().IsArray() && !Tiling::IsUnreduced(*requested)) {
      absl::StatusOr<Tiling> tiling = Tiling::FromSharding(*requested, value->shape(), partitions);
      if (tiling.ok()) requested_tiling = *std::move(tiling);
    }
    const Partitioner::Shards* shards = partitioner.FindShards(value);
    const Partitioner::Shards* partial = partitioner.FindPartial(value);
    if (partial != nullptr && requested != nullptr && Tiling::IsUnreduced(*requested)) {
      shardings->push_back(*requested);
      values[k] = partial->value;
    } else if (requested_tiling && requests[k].is_binding) {
      const bool even = requested_tiling->Divides(value->shape());
      shardings->push_back(requested_tiling->IsReplicated() ? Sharding() : *requested);
      ASSIGN_OR_RETURN(values[k], even ? partitioner.ReshardTo(value, *requested_tiling)
                                       : partitioner.ReshardPadded(value, *requested_tiling));
    } else if (requested == nullptr && may_propagate && propagated) {
      shardings->push_back(propagated->ToSharding());
      ASSIGN_OR_RETURN(values[k], partitioner.ReshardTo(value, *propagated));
    } else if (shards != nullptr && (may_propagate || requested != nullptr)) {
      const Tiling tiling = shards->tiling;
      // Keeps the requested spelling if the tiling is equal.
      shardings->push_back(requested_tiling && *requested_tiling == tiling ? *requested : tiling.ToSharding());
      ASSIGN_OR_RETURN(values[k], partitioner.ReshardTo(value, tiling));
    } else if (requests[k].of_operand && may_propagate) {
      shardings->push_back(requests[k].of_operand->ToSharding());
      ASSIGN_OR_RETURN(values[k], partitioner.ReshardTo(value, *requests[k].of_operand));
    } else {
      ForEachLeaf(value->shape(), [&](const Shape&, const std::vector<int64_t>&) { shardings->emplace_back(); });
    }
    shapes.push_back(values[k]->shape().WithoutLayout());
  }
  if (tuple) {
    Instruction* new_root = Make(entry, root, Opcode::kTuple, Shape::Tuple(shapes), values);
    entry->set_root(new_root);
  } else {
    entry->set_root(values[0]);
  }
  return absl::OkStatus();
}

// Adjusts the layouts and aliases in the module config to the shard shapes. An alias between arrays that no longer have
// the same shape becomes a buffer donor.
void AdjustConfig(Module* module) {
  ModuleConfig& config = module->config();
  const Computation* entry = module->entry();
  auto adjust = [](Shape& requested, const Shape& new_shape) {
    if (!requested.IsArray() || !new_shape.IsArray() || requested.rank() != new_shape.rank()) return;
    Shape shape = new_shape.WithoutLayout();
    if (requested.has_layout()) shape.set_layout(requested.layout());
    requested = std::move(shape);
  };
  for (size_t i = 0; i < config.parameter_layouts.size() && i < entry->parameters().size(); ++i) {
    adjust(config.parameter_layouts[i], entry->parameters()[i]->shape());
  }
  const Shape& result = entry->root()->shape();
  if (config.result_layout.IsTuple() && result.IsTuple() && config.result_layout.tuple_size() == result.tuple_size()) {
    for (int64_t i = 0; i < result.tuple_size(); ++i) {
      adjust(config.result_layout.mutable_tuple_shapes()[static_cast<size_t>(i)], result.tuple_shapes(i));
    }
  } else {
    adjust(config.result_layout, result);
  }
  auto get_subshape = [](const Shape& shape, const Ints& index) {
    const Shape* s = &shape;
    for (int64_t k : index) {
      if (!s->IsTuple() || k < 0 || k >= s->tuple_size()) return Shape::Token();
      s = &s->tuple_shapes(k);
    }
    return s->WithoutLayout();
  };
  std::vector<InputOutputAlias> compatible;
  for (const InputOutputAlias& a : config.input_output_aliases) {
    if (a.parameter < 0 || a.parameter >= static_cast<int64_t>(entry->parameters().size())) continue;
    if (get_subshape(entry->parameter(a.parameter)->shape(), a.parameter_index) ==
        get_subshape(result, a.output_index)) {
      compatible.push_back(a);
    } else {
      config.buffer_donors.push_back({a.parameter, a.parameter_index});
    }
  }
  config.input_output_aliases = std::move(compatible);
}

void LogCollectives(const Module& module, std::vector<std::string>* log) {
  for (const Computation* c : CollectControlFlowComputations(&module)) {
    for (const auto& owned : c->instructions()) {
      const Instruction* i = owned.get();
      if (!absl::StartsWith(i->name(), kCollectiveNamePrefix) || !i->info().Has(kCollective)) continue;
      const ReplicaGroups& groups = i->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups);
      std::string line = absl::StrCat(i->name(), ": ", OpName(i->opcode()), " of ", i->operand(0)->shape().ToString(),
                                      " of ", i->operand(0)->name(), " to ", i->shape().ToString(), " in groups of ",
                                      groups.FindOtherSize(0).value_or(0));
      if (!i->metadata().op_name.empty()) absl::StrAppend(&line, ", for ", i->metadata().op_name);
      log->push_back(std::move(line));
    }
  }
}

int64_t FindFreeChannel(const Module& module) {
  int64_t channel = 1;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) channel = std::max(channel, i->attrs().GetInt(AttrId::kChannelId) + 1);
  }
  return channel;
}

bool HasAnnotations(const Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (IsShardingAnnotation(i.get()) ||
          (i->Is(Opcode::kCustomCall) && absl::StartsWith(i->custom_call_target(), "SPMD"))) {
        return true;
      }
    }
  }
  return false;
}

// Whether the module has loops or sharding groups. Their tilings depend on later instructions, so a trial run collects
// them first.
bool NeedsTrialRun(const Module& module) {
  for (const auto& i : module.entry()->instructions()) {
    if (i->Is(Opcode::kWhile)) return true;
  }
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (IsShardingAnnotation(i.get()) && i->custom_call_target() == "ShardingGroup") return true;
    }
  }
  return false;
}

// Replaces a root that is the tuple of a loop or call by a tuple of its elements, so that each result gets its own
// sharding.
void ExpandRootTuple(Computation* entry) {
  Instruction* root = entry->root();
  if (!root->shape().IsTuple() || root->Is(Opcode::kTuple)) return;
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < root->shape().tuple_size(); ++k) elements.push_back(MakeElement(entry, root, k));
  Instruction* tuple = Make(entry, root, Opcode::kTuple, root->shape(), std::move(elements));
  // The sharding of a custom call or parameter describes that instruction and does not request a result sharding.
  const bool applies_to_result = !root->Is(Opcode::kCustomCall) && !root->Is(Opcode::kParameter);
  tuple->set_sharding(applies_to_result ? root->sharding() : nullptr);
  entry->set_root(tuple);
}

// Runs propagation and the rewrite of the entry. Leaves annotations and dead code behind.
absl::Status Partition(Module* module, PartitionContext& context, const PartitionOptions& options,
                       std::vector<Sharding>* parameters, std::vector<Sharding>* results) {
  Computation* entry = module->entry();
  context.module = module;
  ExpandRootTuple(entry);
  context.MarkManual(entry, false);
  if (context.partitions > 1) {
    PropagationInput input{context.partitions, &context.manual, {}};
    for (size_t k = 0; k < entry->parameters().size(); ++k)
      input.propagate_to_parameters.push_back(IsAllowed(options.propagate_to_parameters, k));
    ASSIGN_OR_RETURN(context.propagated, PropagateTilings(*module, input));
    for (Instruction* p : entry->parameters()) {
      const Tiling* tiling = p->shape().IsArray() ? context.FindPropagated(p) : nullptr;
      if (tiling != nullptr && p->sharding() == nullptr &&
          input.propagate_to_parameters[static_cast<size_t>(p->parameter_number())])
        p->set_sharding(std::make_shared<const Sharding>(tiling->ToSharding()));
    }
  }
  const std::vector<ResultRequest> requests = CollectResultRequests(entry, context);
  Partitioner partitioner(entry, &context);
  RETURN_IF_ERROR(ShardParameters(entry, partitioner, parameters));
  RETURN_IF_ERROR(partitioner.Rewrite().status());
  RETURN_IF_ERROR(
      ShardResults(entry, context.partitions, options.propagate_to_results, requests, partitioner, results));
  entry->RemoveDead();
  return partitioner.RemoveReplaced();
}

}  // namespace

absl::StatusOr<bool> PartitionModule::Run(Module* module) {
  constexpr int64_t kMaxPartitions = int64_t{1} << 16;  // the tile of each is a number in each tiling
  ModuleConfig& config = module->config();
  if (config.frontend_attributes.count(kResultShardingsAttribute) != 0) return false;  // partitioned already
  const int64_t partitions = config.num_partitions;
  if (partitions < 2 && !HasAnnotations(*module)) return false;
  if (partitions > kMaxPartitions) {
    return absl::ResourceExhaustedError(absl::StrCat("a program of ", partitions, " partitions, at most ",
                                                     kMaxPartitions, " are supported [partition_count]"));
  }
  RETURN_IF_ERROR(InlineAllCalls(module).status());
  RETURN_IF_ERROR(RunPass(UnshareComputations(), module).status());
  RETURN_IF_ERROR(RunPass(SimplifyTuples(), module).status());
  PartitionContext context;
  context.replicas = config.num_replicas;
  context.partitions = partitions;
  context.next_channel = FindFreeChannel(*module);
  std::vector<Sharding> parameters, results;
  if (partitions > 1 && NeedsTrialRun(*module)) {
    // The trial run uses a copy, because it rewrites the module.
    std::unique_ptr<Module> copy = module->Clone();
    PartitionContext trial = context;
    trial.is_trial = true;
    RETURN_IF_ERROR(Partition(copy.get(), trial, options_, &parameters, &results));
    context.sharding_groups = std::move(trial.sharding_groups);
    context.requested_loop_tilings = std::move(trial.requested_loop_tilings);
    parameters.clear();
    results.clear();
  }
  RETURN_IF_ERROR(Partition(module, context, options_, &parameters, &results));
  module->RemoveUnreachableComputations();
  // Removes annotations from all computations, including reduction bodies.
  for (Computation* c : module->PostOrder()) {
    for (Instruction* i : c->Snapshot()) {
      if (IsShardingAnnotation(i)) i->ReplaceAllUsesWith(i->operand(0));
    }
    c->RemoveDead();
    c->SortTopologically();
  }
  module->RemoveUnreachableComputations();
  AdjustConfig(module);
  if (partitions > 1) {
    config.frontend_attributes[kParameterShardingsAttribute] = FormatTupleSharding(parameters);
    config.frontend_attributes[kResultShardingsAttribute] = FormatTupleSharding(results);
    if (options_.log != nullptr) LogCollectives(*module, options_.log);
  }
  return true;
}

}  // namespace backplane
