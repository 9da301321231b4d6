#include "core/passes/partition/propagation.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/partition/annotations.h"
#include "core/passes/partition/custom_partitioning.h"
#include "core/passes/partition/factors.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kNoNode = -1;
// Each round refines at least one dimension, so real programs need far fewer rounds.
constexpr int kMaxRounds = 1000;

// A set of values with one tiling: a single value, the states of a loop in all iterations, or the members of a sharding
// group.
struct Node {
  Shape shape;
  Tiling tiling;
  std::vector<bool> is_fixed;  // dimensions that propagation must not change
  int64_t changed = 0;         // value of `clock_` at the last change
};

// Tiles dimensions with the same factor number alike. Lists the operands first and the results last. A factor number
// kNoNode excludes the dimension.
struct Rule {
  std::vector<std::pair<int, Ints>> arrays;
  bool is_pass_through = false;
  int64_t applied_at = -1;
};

class Propagation {
 public:
  explicit Propagation(const PropagationInput& input) : input_(input) {}

  absl::Status BuildGraph(const Module& module) {
    const Computation* entry = module.entry();
    RETURN_IF_ERROR(AddComputation(entry, {}));
    for (const Instruction* p : entry->parameters()) {
      const size_t k = static_cast<size_t>(p->parameter_number());
      const std::vector<int>& leaves = nodes_of_.at(p);
      const Sharding* stated = p->sharding().get();
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
        if (leaves[leaf] == kNoNode) continue;
        if (stated == nullptr && k < input_.propagate_to_parameters.size() && input_.propagate_to_parameters[k])
          continue;
        const Sharding* sharding = stated;
        if (stated != nullptr && stated->type == Sharding::Type::kTuple)
          sharding = leaf < stated->tuple.size() ? &stated->tuple[leaf] : nullptr;
        RETURN_IF_ERROR(FixDims(p, leaves[leaf], sharding, {}));
      }
    }
    return absl::OkStatus();
  }

  void Propagate() {
    for (bool include_contractions : {false, true}) {
      for (int round = 0; round < kMaxRounds; ++round) {
        bool changed = false;
        // Alternates directions: most programs settle in one round.
        for (Rule& r : rules_) changed |= ApplyRule(r, include_contractions);
        for (auto r = rules_.rbegin(); r != rules_.rend(); ++r) changed |= ApplyRule(*r, include_contractions);
        if (!changed) break;
      }
    }
  }

  PropagatedTilings GetTilings() {
    PropagatedTilings out;
    for (const auto& [i, leaves] : nodes_of_) {
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
        if (leaves[leaf] == kNoNode) continue;
        const Node& n = nodes_[FindRoot(leaves[leaf])];
        if (!n.tiling.IsReplicated()) out.insert({{i->id(), static_cast<int64_t>(leaf)}, n.tiling});
      }
    }
    return out;
  }

 private:
  size_t FindRoot(int n) {
    while (parent_[static_cast<size_t>(n)] != n) {
      int& up = parent_[static_cast<size_t>(n)];
      up = parent_[static_cast<size_t>(up)];
      n = up;
    }
    return static_cast<size_t>(n);
  }

  bool IsManual(const Instruction* i) const { return input_.manual != nullptr && input_.manual->contains(i->id()); }

  int AddNode(const Shape& shape, const Ints& subgroups) {
    if (!shape.IsArray()) return kNoNode;
    Node n;
    n.shape = shape;
    n.tiling = Tiling::Replicated(shape.rank(), input_.partitions).WithManualSubgroups(subgroups);
    n.is_fixed.assign(static_cast<size_t>(shape.rank()), shape.HasDynamicDimensions());
    nodes_.push_back(std::move(n));
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }

  // Merges two nodes. Must run before the propagation starts.
  void MergeNodes(int a, int b) {
    if (a == kNoNode || b == kNoNode) return;
    const size_t x = FindRoot(a), y = FindRoot(b);
    if (x == y || nodes_[x].shape.dimensions() != nodes_[y].shape.dimensions()) return;
    if (nodes_[x].tiling.manual_subgroups() != nodes_[y].tiling.manual_subgroups()) return;
    Node &kept = nodes_[std::min(x, y)], &merged = nodes_[std::max(x, y)];
    for (size_t d = 0; d < kept.is_fixed.size(); ++d) kept.is_fixed[d] = kept.is_fixed[d] || merged.is_fixed[d];
    if (kept.tiling.IsReplicated()) kept.tiling = merged.tiling;
    parent_[std::max(x, y)] = static_cast<int>(std::min(x, y));
  }

  void MergeNodePairs(const std::vector<int>& a, const std::vector<int>& b) {
    for (size_t k = 0; k < a.size() && k < b.size(); ++k) MergeNodes(a[k], b[k]);
  }

  // Applies the sharding of an annotation or parameter: sets the tiling, and fixes the dimensions that are not
  // unspecified.
  absl::Status FixDims(const Instruction* i, int n, const Sharding* stated, const Ints& unspecified) {
    Node& node = nodes_[FindRoot(n)];
    if (stated != nullptr && !Tiling::IsUnreduced(*stated)) {
      absl::StatusOr<Tiling> tiling = Tiling::FromSharding(*stated, node.shape, input_.partitions);
      if (!tiling.ok())
        return absl::Status(tiling.status().code(), absl::StrCat(i->name(), ": ", tiling.status().message()));
      Tiling restricted = tiling->WithoutUnevenDims(node.shape).WithManualSubgroups(node.tiling.manual_subgroups());
      if (restricted.IsGrid()) node.tiling = std::move(restricted);
    }
    for (size_t d = 0; d < node.is_fixed.size(); ++d) {
      const bool is_unspecified =
          std::find(unspecified.begin(), unspecified.end(), static_cast<int64_t>(d)) != unspecified.end();
      node.is_fixed[d] = node.is_fixed[d] || !is_unspecified;
    }
    return absl::OkStatus();
  }

  // `parameter_subgroups` are the manual subgroups of the region that contains the call; empty outside of manual
  // regions.
  absl::Status AddComputation(const Computation* c, const Ints& parameter_subgroups) {
    for (const auto& owned : c->instructions()) {
      const Instruction* i = owned.get();
      if (i->Is(Opcode::kParameter)) {
        AddLeaves(i, parameter_subgroups);
        continue;
      }
      Ints subgroups = FindManualSubgroups(i);
      const bool boundary = IsManualBoundary(i);
      if (boundary && i->sharding() != nullptr && i->shape().IsArray() && IsManual(i))
        subgroups = ComputeManualSubgroups(*i->sharding(), i->shape().rank(), input_.partitions);
      if (IsManual(i) && subgroups.empty()) {  // manual over all axes: nothing to choose
        nodes_of_[i] =
            std::vector<int>(static_cast<size_t>(i->shape().IsTuple() ? i->shape().tuple_size() : 1), kNoNode);
        if (i->Is(Opcode::kTuple) && !i->operands().empty()) AliasOperands(i);
        continue;
      }
      switch (i->opcode()) {
        case Opcode::kTuple:
          AliasOperands(i);
          continue;
        case Opcode::kGetTupleElement: {
          const std::vector<int>& leaves = nodes_of_.at(i->operand(0));
          const size_t k = static_cast<size_t>(i->tuple_index());
          const bool flat = i->operand(0)->shape().IsTuple() && k < leaves.size() && i->shape().IsArray();
          if (flat && leaves[k] != kNoNode) {
            nodes_of_[i] = {leaves[k]};
          } else {
            AddLeaves(i, subgroups);
          }
          continue;
        }
        case Opcode::kWhile:
          AddLeaves(i, subgroups);
          MergeNodePairs(nodes_of_.at(i), nodes_of_.at(i->operand(0)));
          for (const Computation* called : i->called()) {
            RETURN_IF_ERROR(AddComputation(called, subgroups));
            MergeNodePairs(nodes_of_.at(i), nodes_of_.at(called->parameter(0)));
          }
          MergeNodePairs(nodes_of_.at(i), nodes_of_.at(i->called(1)->root()));
          continue;
        case Opcode::kConditional:
          AddLeaves(i, subgroups);
          for (size_t k = 0; k < i->called().size(); ++k) {
            const Computation* called = i->called()[k];
            RETURN_IF_ERROR(AddComputation(called, subgroups));
            if (!called->parameters().empty() && static_cast<int64_t>(k) + 1 < i->operand_count()) {
              MergeNodePairs(nodes_of_.at(i->operand(static_cast<int64_t>(k) + 1)), nodes_of_.at(called->parameter(0)));
            }
            MergeNodePairs(nodes_of_.at(i), nodes_of_.at(called->root()));
          }
          continue;
        case Opcode::kOptimizationBarrier:
          AddLeaves(i, subgroups);
          MergeNodePairs(nodes_of_.at(i), nodes_of_.at(i->operand(0)));
          continue;
        default:
          break;
      }
      AddLeaves(i, subgroups);
      if (i->Is(Opcode::kCustomCall)) {
        RETURN_IF_ERROR(AddCustomCall(i));
      } else if (std::optional<Factors> f = GetFactors(*i)) {
        Rule rule;
        rule.is_pass_through = f->is_pass_through;
        for (size_t k = 0; k < f->operands.size(); ++k) {
          const int n = GetArrayNode(i->operand(static_cast<int64_t>(k)));
          if (n != kNoNode && !f->operands[k].empty()) rule.arrays.emplace_back(n, std::move(f->operands[k]));
        }
        for (int n : nodes_of_.at(i)) {
          if (n != kNoNode) rule.arrays.emplace_back(n, f->result);
        }
        rules_.push_back(std::move(rule));
      }
    }
    return absl::OkStatus();
  }

  // Returns the node of an array, or kNoNode for tuples (a custom call may return an empty tuple).
  int GetArrayNode(const Instruction* i) const { return i->shape().IsArray() ? nodes_of_.at(i)[0] : kNoNode; }

  void AddLeaves(const Instruction* i, const Ints& subgroups) {
    std::vector<int> leaves;
    if (i->shape().IsTuple()) {
      for (const Shape& s : i->shape().tuple_shapes()) leaves.push_back(AddNode(s, subgroups));
    } else {
      leaves.push_back(AddNode(i->shape(), subgroups));
    }
    nodes_of_[i] = std::move(leaves);
  }

  void AliasOperands(const Instruction* tuple) {
    std::vector<int> leaves;
    for (const Instruction* o : tuple->operands()) leaves.push_back(GetArrayNode(o));
    nodes_of_[tuple] = std::move(leaves);
  }

  // Returns the manual subgroups of the region that the operands of `i` are in.
  Ints FindManualSubgroups(const Instruction* i) {
    if (!IsManual(i)) return {};
    for (const Instruction* o : i->operands()) {
      if (!IsManual(o)) continue;
      for (int n : nodes_of_.at(o)) {
        if (n != kNoNode && !nodes_[FindRoot(n)].tiling.manual_subgroups().empty())
          return nodes_[FindRoot(n)].tiling.manual_subgroups();
      }
    }
    return {};
  }

  // Adds the Shardy rule of a custom call that the host partitions.
  void AddShardingRule(const Instruction* i) {
    auto text = i->frontend_attributes().find("xla.sdy.sharding_rule");
    if (text == i->frontend_attributes().end()) return;
    std::optional<ShardingRule> parsed = ParseShardingRule(text->second);
    const std::vector<int>& results = nodes_of_.at(i);
    if (!parsed || parsed->operands.size() != i->operands().size() || parsed->results.size() != results.size()) return;
    Rule rule;
    rule.is_pass_through = true;
    auto add = [&](int n, Ints& dims) {
      if (n == kNoNode || nodes_[FindRoot(n)].shape.rank() != static_cast<int64_t>(dims.size())) return;
      rule.arrays.emplace_back(n, std::move(dims));
    };
    for (size_t k = 0; k < parsed->operands.size(); ++k)
      add(GetArrayNode(i->operand(static_cast<int64_t>(k))), parsed->operands[k]);
    for (size_t k = 0; k < results.size(); ++k) add(results[k], parsed->results[k]);
    rules_.push_back(std::move(rule));
  }

  absl::Status AddCustomCall(const Instruction* i) {
    if (FindCustomPartitioning(i->custom_call_target()) != nullptr) {
      AddShardingRule(i);
      return absl::OkStatus();
    }
    const int result = GetArrayNode(i);
    if (i->operand_count() != 1 || result == kNoNode) return absl::OkStatus();
    if (!IsShardingAnnotation(i) && !IsManualBoundary(i)) return absl::OkStatus();
    // The sharding at the exit of a manual region states the tiling along the manual axes.
    if (i->custom_call_target() == "SPMDShardToFullShape" && i->sharding() != nullptr)
      RETURN_IF_ERROR(FixDims(i, result, i->sharding().get(), GetUnspecifiedDims(i)));
    const int operand = GetArrayNode(i->operand(0));
    if (operand == kNoNode) return absl::OkStatus();
    const Shape &in = i->operand(0)->shape(), &out = i->shape();
    if (!in.IsArray() || in.rank() != out.rank()) return absl::OkStatus();
    if (i->custom_call_target() == "ShardingGroup") {
      MergeNodes(operand, result);
      const std::string& group = i->attrs().GetString(AttrId::kOpaque);
      auto [at, first] = groups_.emplace(group, result);
      if (!first) MergeNodes(at->second, result);
      return absl::OkStatus();
    }
    if (IsShardingAnnotation(i) && i->sharding() != nullptr) {
      const Ints unspecified = GetUnspecifiedDims(i);
      // FixDims treats an unreduced value as replicated.
      RETURN_IF_ERROR(FixDims(i, result, i->sharding().get(), unspecified));
    }
    Rule rule;
    rule.is_pass_through = true;
    Ints dims(static_cast<size_t>(in.rank()));
    std::iota(dims.begin(), dims.end(), 0);
    for (int64_t d = 0; d < in.rank(); ++d) {
      if (in.dimensions(d) != out.dimensions(d)) dims[static_cast<size_t>(d)] = kNoNode;  // split by the manual region
    }
    rule.arrays = {{operand, dims}, {result, dims}};
    rules_.push_back(std::move(rule));
    return absl::OkStatus();
  }

  // Tiles dimension `d` of `target` like dimension `k` of `source` if that refines its current tiling.
  bool RefineDim(Node& target, int64_t d, const Tiling& source, int64_t k) {
    const int64_t current = target.tiling.tiles(d), wanted = source.tiles(k);
    if (target.is_fixed[static_cast<size_t>(d)] || wanted <= current || wanted % current != 0) return false;
    if (target.shape.dimensions(d) % wanted != 0) return false;
    for (int64_t p = 0; current > 1 && p < input_.partitions; ++p) {
      if (source.tile_index(p, k) / (wanted / current) != target.tiling.tile_index(p, d)) return false;
    }
    Tiling refined = target.tiling.ReplicateDim(d);
    if (!refined.SplitLike(d, source, k)) return false;
    target.tiling = std::move(refined);
    target.changed = ++clock_;
    return true;
  }

  bool ApplyRule(Rule& rule, bool include_contractions) {
    if (!include_contractions && !rule.is_pass_through) return false;
    bool is_stale = rule.applied_at < 0;
    for (const auto& [n, dims] : rule.arrays) is_stale |= nodes_[FindRoot(n)].changed > rule.applied_at;
    if (!is_stale) return false;
    rule.applied_at = clock_;
    // Larger arrays take precedence. Among equal sizes the operands precede the results.
    std::vector<const std::pair<int, Ints>*> order;
    for (const auto& a : rule.arrays) order.push_back(&a);
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
      return nodes_[FindRoot(a->first)].shape.num_elements() > nodes_[FindRoot(b->first)].shape.num_elements();
    });
    bool changed = false;
    for (const auto* from : order) {
      const size_t s = FindRoot(from->first);
      if (nodes_[s].tiling.IsReplicated()) continue;
      for (size_t k = 0; k < from->second.size(); ++k) {
        if (from->second[k] == kNoNode || !nodes_[s].tiling.IsTiled(static_cast<int64_t>(k))) continue;
        for (const auto* to : order) {
          const size_t t = FindRoot(to->first);
          for (size_t d = 0; d < to->second.size(); ++d) {
            if (to->second[d] != from->second[k] || (s == t && d == k)) continue;
            const Tiling source = nodes_[s].tiling;
            changed |= RefineDim(nodes_[t], static_cast<int64_t>(d), source, static_cast<int64_t>(k));
          }
        }
      }
    }
    return changed;
  }

  const PropagationInput& input_;
  std::vector<Node> nodes_;
  std::vector<int> parent_;
  std::vector<Rule> rules_;
  absl::flat_hash_map<const Instruction*, std::vector<int>> nodes_of_;
  std::map<std::string, int> groups_;
  int64_t clock_ = 0;
};

}  // namespace

Ints ComputeManualSubgroups(const Sharding& sharding, int64_t rank, int64_t partitions) {
  auto manual = std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kManual);
  if (sharding.type != Sharding::Type::kOther || manual == sharding.last_tile_dims.end()) return {};
  const size_t dim = static_cast<size_t>(rank + (manual - sharding.last_tile_dims.begin()));
  const Ints devices = sharding.DeviceList();
  if (dim >= sharding.tile_dims.size() || static_cast<int64_t>(devices.size()) != partitions) return {};
  int64_t stride = 1;
  for (size_t d = dim + 1; d < sharding.tile_dims.size(); ++d) stride *= sharding.tile_dims[d];
  Ints subgroups(static_cast<size_t>(partitions), 0);
  for (size_t k = 0; k < devices.size(); ++k) {
    if (devices[k] < 0 || devices[k] >= partitions) return {};
    subgroups[static_cast<size_t>(devices[k])] = static_cast<int64_t>(k) / stride % sharding.tile_dims[dim];
  }
  return subgroups;
}

absl::StatusOr<PropagatedTilings> PropagateTilings(const Module& module, const PropagationInput& input) {
  Propagation p(input);
  RETURN_IF_ERROR(p.BuildGraph(module));
  p.Propagate();
  return p.GetTilings();
}

}  // namespace backplane
