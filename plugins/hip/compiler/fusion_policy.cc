#include "plugins/hip/compiler/fusion_policy.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "plugins/hip/compiler/scan_kernel.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/compiler/index_map.h"

namespace backplane::hip {

using compiler::FusionGraph;
using compiler::FusionRole;
using compiler::MergeDecision;

namespace {

constexpr size_t kMaxMembers = 96;         // of a kernel: registers and code size grow with them
constexpr size_t kMaxSimpleMembers = 512;  // of a kernel that computes each element by itself, such as random bits
constexpr int kMaxInputs = 32;             // arrays that a kernel reads
constexpr size_t kMaxMovingReads = 4;      // the places at which a kernel computes one value again

bool IsCheap(const Instruction& i) {
  return !i.info().Has(OpTrait::kTranscendental) && !i.Is(Opcode::kDivide) && !i.Is(Opcode::kRemainder) &&
         !i.Is(Opcode::kPower) && i.called().empty();
}

// Whether the instruction computes an element from those at the same position, or from none.
bool ComputesInPlace(const Instruction& i, FusionRole role) {
  if (i.Is(Opcode::kIota) || i.Is(Opcode::kConstant)) return true;
  if (i.Is(Opcode::kBroadcast)) return i.operand(0)->shape().IsScalar();
  if (i.Is(Opcode::kBitcastConvert)) return i.operand(0)->shape().rank() == i.shape().rank();
  return role == FusionRole::kElementwise && i.called().empty();
}

// Returns how many arrays a merged group of `a` and `b` would read. Constants and broadcasts of constants do not count,
// because the kernel contains them.
int CountArrays(const FusionGraph& graph, int a, int b) {
  std::vector<int> inputs = graph.group(a).inputs;
  inputs.insert(inputs.end(), graph.group(b).inputs.begin(), graph.group(b).inputs.end());
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return static_cast<int>(std::count_if(inputs.begin(), inputs.end(), [&](int n) {
    const Instruction* i = &graph.instruction(n);
    if (i->Is(Opcode::kBroadcast)) i = i->operand(0);
    return graph.group_of(n) != a && graph.group_of(n) != b && !i->Is(Opcode::kConstant) && !i->Is(Opcode::kIota);
  }));
}

}  // namespace

compiler::FusionOptions GpuFusionPolicy::options() const {
  compiler::FusionOptions options;
  options.cycle_search = {.max_visits = 0, .total = 1000000, .total_per_instruction = 500, .short_search = 256};
  options.max_targets = 8;
  options.merge_equal_members = true;
  options.keep_annotations = false;
  options.keep_positions = false;
  return options;
}

FusionRole GpuFusionPolicy::GetRole(const Instruction& i) const {
  if (i.Is(Opcode::kParameter) || i.Is(Opcode::kTuple) || i.Is(Opcode::kGetTupleElement) || i.Is(Opcode::kWhile) ||
      i.Is(Opcode::kConditional) || i.Is(Opcode::kFusion))
    return FusionRole::kNotFusible;
  if (i.Is(Opcode::kConstant) && !i.shape().IsScalar()) return FusionRole::kNotFusible;
  if (FindScan(i)) return FusionRole::kNotFusible;
  if (!codegen::CanEvaluate(i).ok()) return FusionRole::kNotFusible;
  if (i.Is(Opcode::kReduce)) return FusionRole::kReduction;
  if (i.info().Has(OpTrait::kReducesWindows)) return FusionRole::kWindow;
  if (!i.shape().IsArray()) return FusionRole::kNotFusible;
  if (i.Is(Opcode::kDynamicUpdateSlice)) return FusionRole::kUpdate;
  if (i.Is(Opcode::kIota) || compiler::MovesElements(i)) return FusionRole::kIndexing;
  return FusionRole::kElementwise;
}

bool GpuFusionPolicy::IsCopiedIntoReaders(const Instruction& i) const {
  if (i.Is(Opcode::kConstant)) return i.shape().IsScalar();
  if ((!i.Is(Opcode::kBroadcast) && !i.Is(Opcode::kIota)) || i.IsRoot()) return false;
  // An instruction outside of all kernels, such as a sort or a loop, reads an array.
  const Users users = i.users();
  return std::all_of(users.begin(), users.end(),
                     [&](const Instruction* user) { return GetRole(*user) != FusionRole::kNotFusible; });
}

void GpuFusionPolicy::Start(const FusionGraph& graph) {
  facts_.assign(static_cast<size_t>(graph.group_count()), {});
  for (int n = 0; n < graph.node_count(); ++n) {
    if (graph.group_of(n) < 0) continue;
    Facts& facts = facts_[static_cast<size_t>(graph.group_of(n))];
    facts.is_simple &= ComputesInPlace(graph.instruction(n), graph.node(n).role);
    if (graph.node(n).role != FusionRole::kReduction) continue;
    facts.has_reduction = true;
    facts.has_shared_reduction = IsSharedByBlock(graph.instruction(n));
  }
}

void GpuFusionPolicy::BeforeMerge(const FusionGraph& graph, int from, int into) {
  facts_[static_cast<size_t>(into)].has_reduction |= facts_[static_cast<size_t>(from)].has_reduction;
  facts_[static_cast<size_t>(into)].has_shared_reduction |= facts_[static_cast<size_t>(from)].has_shared_reduction;
  facts_[static_cast<size_t>(into)].is_simple &= facts_[static_cast<size_t>(from)].is_simple;
}

bool GpuFusionPolicy::IsReadElementwise(const FusionGraph& graph, int producer, int target) const {
  const FusionGraph::Node& p = graph.node(producer);
  return std::all_of(p.uses.begin(), p.uses.end(), [&](const FusionGraph::Use& use) {
    if (graph.group_of(use.node) != target) return true;
    const FusionGraph::Node& reader = graph.node(use.node);
    return !use.repeats && (reader.role == FusionRole::kElementwise || reader.role == FusionRole::kReduction);
  });
}

MergeDecision GpuFusionPolicy::DecideMerge(const FusionGraph& graph, int producer, int target,
                                           bool further_result) const {
  const FusionGraph::Node& p = graph.node(producer);
  const Instruction& instruction = *p.instruction;
  const Facts& own = facts_[static_cast<size_t>(p.group)];
  const Facts& facts = facts_[static_cast<size_t>(target)];
  if (!instruction.shape().IsArray() || further_result) return MergeDecision::kRefuse;
  if (p.role == FusionRole::kUpdate || p.role == FusionRole::kWindow) return MergeDecision::kRefuse;
  const size_t most = own.is_simple && facts.is_simple ? kMaxSimpleMembers : kMaxMembers;
  if (graph.group(p.group).members.size() + graph.group(target).members.size() > most ||
      CountArrays(graph, p.group, target) > kMaxInputs)
    return MergeDecision::kRefuse;
  if (own.has_reduction) {
    // A reduction that a thread computes alone is computed again for each element that reads it.
    if (!own.has_shared_reduction)
      return IsReadElementwise(graph, producer, target) && !facts.has_reduction ? MergeDecision::kIfPlannable
                                                                                : MergeDecision::kRefuse;
    return MergeDecision::kIfPlannable;
  }
  size_t moving = 0;
  for (const FusionGraph::Use& use : p.uses) {
    if (graph.group_of(use.node) != target) continue;
    const FusionGraph::Node& reader = graph.node(use.node);
    if (reader.role == FusionRole::kWindow && (!IsCheap(instruction) || graph.group(p.group).members.size() > 3))
      return MergeDecision::kRefuse;
    // The updated array must stay an array, because the kernel updates it in place.
    if (reader.role == FusionRole::kUpdate && reader.instruction->operand(0) == &instruction)
      return MergeDecision::kRefuse;
    if (reader.role == FusionRole::kIndexing || use.repeats) {
      ++moving;
      const int64_t read = reader.instruction->shape().IsArray() ? reader.instruction->shape().num_elements() : 0;
      if ((use.repeats || read > instruction.shape().num_elements()) && !IsCheap(instruction) &&
          !facts.has_shared_reduction)
        return MergeDecision::kRefuse;
    }
  }
  if (moving > kMaxMovingReads) return MergeDecision::kRefuse;
  return facts.has_shared_reduction ? MergeDecision::kIfPlannable : MergeDecision::kAccept;
}

bool GpuFusionPolicy::CanPlan(const Computation& kernel) const {
  const absl::StatusOr<KernelPlan> plan = PlanFusion(kernel);
  if (!plan.ok()) return false;
  // A reduction that a block should share must not become one that each thread computes by itself.
  const bool shares = std::any_of(kernel.instructions().begin(), kernel.instructions().end(),
                                  [](const auto& i) { return IsSharedByBlock(*i); });
  return !shares || plan->Is<RowsPlan>();
}

bool GpuFusionPolicy::NeedsFusion(const FusionGraph& graph, int group) const {
  // An alias of an array needs no kernel.
  const std::vector<int>& members = graph.group(group).members;
  return std::any_of(members.begin(), members.end(), [&](int m) {
    return !graph.instruction(m).Is(Opcode::kReshape) && !graph.instruction(m).Is(Opcode::kBitcast);
  });
}

compiler::FusionLabel GpuFusionPolicy::Describe(const FusionGraph& graph, int group,
                                                absl::Span<const int> results) const {
  std::string name;
  int shown = 0;
  const std::vector<int>& members = graph.group(group).members;
  for (auto m = members.rbegin(); m != members.rend() && shown < 3; ++m, ++shown)
    name = absl::StrCat(OpName(graph.instruction(*m).opcode()), shown > 0 ? "_" : "", name);
  return {absl::StrCat(name, "_fusion"), "fused_computation", FusionKind::kLoop, &graph.instruction(results.back())};
}

absl::StatusOr<bool> FuseForGpu::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    GpuFusionPolicy policy;
    ASSIGN_OR_RETURN(const bool fused, FusionGraph(c, &policy).Fuse());
    changed |= fused;
  }
  return changed;
}

}  // namespace backplane::hip
