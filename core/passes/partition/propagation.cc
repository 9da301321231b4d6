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

constexpr int kNone = -1;
// Every round splits something further; this many are only ever needed by
// programs made to need them.
constexpr int kMaxRounds = 1000;

// A value, or several that are one: the states of a loop from turn to turn,
// members of a group.
struct Node {
  Shape shape;
  Tiling tiling;
  std::vector<bool> closed;  // dimensions that stay as the program says
  int64_t changed = 0;       // the clock's time
};

// Dimensions of several nodes with the same number are split alike. Operands first, results last.
struct Rule {
  std::vector<std::pair<int, Ints>> arrays;
  bool passes_on = false;
  int64_t seen = -1;
};

class Propagation {
 public:
  explicit Propagation(const PropagationInput& input) : input_(input) {}

  absl::Status Build(const Module& module) {
    const Computation* entry = module.entry();
    RETURN_IF_ERROR(Build(entry, {}));
    for (const Instruction* p : entry->parameters()) {
      const size_t k = static_cast<size_t>(p->parameter_number());
      const std::vector<int>& leaves = nodes_of_.at(p);
      const Sharding* says = p->sharding().get();
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
        if (leaves[leaf] == kNone) continue;
        if (says == nullptr && k < input_.open_parameters.size() && input_.open_parameters[k]) continue;
        const Sharding* one = says;
        if (says != nullptr && says->type == Sharding::Type::kTuple)
          one = leaf < says->tuple.size() ? &says->tuple[leaf] : nullptr;
        RETURN_IF_ERROR(Fix(p, leaves[leaf], one, {}));
      }
    }
    return absl::OkStatus();
  }

  void Run() {
    for (bool all : {false, true}) {
      for (int round = 0; round < kMaxRounds; ++round) {
        bool changed = false;
        // There and back: most programs are settled by one round.
        for (Rule& r : rules_) changed |= Apply(r, all);
        for (auto r = rules_.rbegin(); r != rules_.rend(); ++r) changed |= Apply(*r, all);
        if (!changed) break;
      }
    }
  }

  ProposedTilings Result() {
    ProposedTilings out;
    for (const auto& [i, leaves] : nodes_of_) {
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
        if (leaves[leaf] == kNone) continue;
        const Node& n = nodes_[Find(leaves[leaf])];
        if (!n.tiling.IsWhole()) out.insert({{i->id(), static_cast<int64_t>(leaf)}, n.tiling});
      }
    }
    return out;
  }

 private:
  size_t Find(int n) {
    while (parent_[static_cast<size_t>(n)] != n) {
      int& up = parent_[static_cast<size_t>(n)];
      up = parent_[static_cast<size_t>(up)];
      n = up;
    }
    return static_cast<size_t>(n);
  }

  bool IsManual(const Instruction* i) const { return input_.manual != nullptr && input_.manual->contains(i->id()); }

  int Add(const Shape& shape, const Ints& families) {
    if (!shape.IsArray()) return kNone;
    Node n;
    n.shape = shape;
    n.tiling = Tiling::Whole(shape.rank(), input_.partitions).WithFamilies(families);
    n.closed.assign(static_cast<size_t>(shape.rank()), shape.HasDynamicDimensions());
    nodes_.push_back(std::move(n));
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }

  // The two lie alike from here on. Done before anything is propagated.
  void Unite(int a, int b) {
    if (a == kNone || b == kNone) return;
    const size_t x = Find(a), y = Find(b);
    if (x == y || nodes_[x].shape.dimensions() != nodes_[y].shape.dimensions()) return;
    if (nodes_[x].tiling.families() != nodes_[y].tiling.families()) return;
    Node &keep = nodes_[std::min(x, y)], &gone = nodes_[std::max(x, y)];
    for (size_t d = 0; d < keep.closed.size(); ++d) keep.closed[d] = keep.closed[d] || gone.closed[d];
    if (keep.tiling.IsWhole()) keep.tiling = gone.tiling;
    parent_[std::max(x, y)] = static_cast<int>(std::min(x, y));
  }

  void UniteAll(const std::vector<int>& a, const std::vector<int>& b) {
    for (size_t k = 0; k < a.size() && k < b.size(); ++k) Unite(a[k], b[k]);
  }

  // What an annotation or a parameter says: dimensions that it splits, and
  // those it does not leave open.
  absl::Status Fix(const Instruction* i, int n, const Sharding* says, const Ints& open) {
    Node& node = nodes_[Find(n)];
    if (says != nullptr && !Tiling::HasParts(*says)) {
      absl::StatusOr<Tiling> tiling = Tiling::Of(*says, node.shape, input_.partitions);
      if (!tiling.ok())
        return absl::Status(tiling.status().code(), absl::StrCat(i->name(), ": ", tiling.status().message()));
      Tiling here = tiling->EvenPart(node.shape).WithFamilies(node.tiling.families());
      if (here.IsGrid()) node.tiling = std::move(here);
    }
    for (size_t d = 0; d < node.closed.size(); ++d) {
      const bool is_open = std::find(open.begin(), open.end(), static_cast<int64_t>(d)) != open.end();
      node.closed[d] = node.closed[d] || !is_open;
    }
    return absl::OkStatus();
  }

  // `families`: of the manual region that the computation's parameters are in;
  // empty outside.
  absl::Status Build(const Computation* c, const Ints& parameter_families) {
    for (const auto& owned : c->instructions()) {
      const Instruction* i = owned.get();
      if (i->Is(Opcode::kParameter)) {
        AddLeaves(i, parameter_families);
        continue;
      }
      Ints families = FamiliesOf(i);
      const bool boundary = IsBoundary(i);
      if (boundary && i->sharding() != nullptr && i->shape().IsArray() && IsManual(i))
        families = ManualFamilies(*i->sharding(), i->shape().rank(), input_.partitions);
      if (IsManual(i) && families.empty()) {  // manual over all axes: nothing to choose
        nodes_of_[i] = std::vector<int>(static_cast<size_t>(i->shape().IsTuple() ? i->shape().tuple_size() : 1), kNone);
        if (i->Is(Opcode::kTuple) && !i->operands().empty()) TakeOperands(i);
        continue;
      }
      switch (i->opcode()) {
        case Opcode::kTuple:
          TakeOperands(i);
          continue;
        case Opcode::kGetTupleElement: {
          const std::vector<int>& of = nodes_of_.at(i->operand(0));
          const size_t k = static_cast<size_t>(i->tuple_index());
          const bool flat = i->operand(0)->shape().IsTuple() && k < of.size() && i->shape().IsArray();
          if (flat && of[k] != kNone) {
            nodes_of_[i] = {of[k]};
          } else {
            AddLeaves(i, families);
          }
          continue;
        }
        case Opcode::kWhile:
          AddLeaves(i, families);
          UniteAll(nodes_of_.at(i), nodes_of_.at(i->operand(0)));
          for (const Computation* called : i->called()) {
            RETURN_IF_ERROR(Build(called, families));
            UniteAll(nodes_of_.at(i), nodes_of_.at(called->parameter(0)));
          }
          UniteAll(nodes_of_.at(i), nodes_of_.at(i->called(1)->root()));
          continue;
        case Opcode::kConditional:
          AddLeaves(i, families);
          for (size_t k = 0; k < i->called().size(); ++k) {
            const Computation* called = i->called()[k];
            RETURN_IF_ERROR(Build(called, families));
            if (!called->parameters().empty() && static_cast<int64_t>(k) + 1 < i->operand_count()) {
              UniteAll(nodes_of_.at(i->operand(static_cast<int64_t>(k) + 1)), nodes_of_.at(called->parameter(0)));
            }
            UniteAll(nodes_of_.at(i), nodes_of_.at(called->root()));
          }
          continue;
        case Opcode::kOptimizationBarrier:
          AddLeaves(i, families);
          UniteAll(nodes_of_.at(i), nodes_of_.at(i->operand(0)));
          continue;
        default:
          break;
      }
      AddLeaves(i, families);
      if (i->Is(Opcode::kCustomCall)) {
        RETURN_IF_ERROR(CustomCall(i));
      } else if (std::optional<Factors> f = FactorsOf(*i)) {
        Rule rule;
        rule.passes_on = f->passes_on;
        for (size_t k = 0; k < f->operands.size(); ++k) {
          const int n = ArrayOf(i->operand(static_cast<int64_t>(k)));
          if (n != kNone && !f->operands[k].empty()) rule.arrays.emplace_back(n, std::move(f->operands[k]));
        }
        for (int n : nodes_of_.at(i)) {
          if (n != kNone) rule.arrays.emplace_back(n, f->result);
        }
        rules_.push_back(std::move(rule));
      }
    }
    return absl::OkStatus();
  }

  // Of an array; calls may give tuples of nothing.
  int ArrayOf(const Instruction* i) const { return i->shape().IsArray() ? nodes_of_.at(i)[0] : kNone; }

  void AddLeaves(const Instruction* i, const Ints& families) {
    std::vector<int> leaves;
    if (i->shape().IsTuple()) {
      for (const Shape& s : i->shape().tuple_shapes()) leaves.push_back(Add(s, families));
    } else {
      leaves.push_back(Add(i->shape(), families));
    }
    nodes_of_[i] = std::move(leaves);
  }

  void TakeOperands(const Instruction* tuple) {
    std::vector<int> leaves;
    for (const Instruction* o : tuple->operands()) leaves.push_back(ArrayOf(o));
    nodes_of_[tuple] = std::move(leaves);
  }

  // Of the region that an operand is in.
  Ints FamiliesOf(const Instruction* i) {
    if (!IsManual(i)) return {};
    for (const Instruction* o : i->operands()) {
      if (!IsManual(o)) continue;
      for (int n : nodes_of_.at(o)) {
        if (n != kNone && !nodes_[Find(n)].tiling.families().empty()) return nodes_[Find(n)].tiling.families();
      }
    }
    return {};
  }

  // A call that the host splits, by the rule that it came with.
  void Ruled(const Instruction* i) {
    auto text = i->frontend_attributes().find("xla.sdy.sharding_rule");
    if (text == i->frontend_attributes().end()) return;
    std::optional<ShardingRule> says = ParseShardingRule(text->second);
    const std::vector<int>& results = nodes_of_.at(i);
    if (!says || says->operands.size() != i->operands().size() || says->results.size() != results.size()) return;
    Rule rule;
    rule.passes_on = true;
    auto add = [&](int n, Ints& dims) {
      if (n == kNone || nodes_[Find(n)].shape.rank() != static_cast<int64_t>(dims.size())) return;
      rule.arrays.emplace_back(n, std::move(dims));
    };
    for (size_t k = 0; k < says->operands.size(); ++k)
      add(ArrayOf(i->operand(static_cast<int64_t>(k))), says->operands[k]);
    for (size_t k = 0; k < results.size(); ++k) add(results[k], says->results[k]);
    rules_.push_back(std::move(rule));
  }

  absl::Status CustomCall(const Instruction* i) {
    if (FindCustomPartitioning(i->custom_call_target()) != nullptr) {
      Ruled(i);
      return absl::OkStatus();
    }
    const int result = ArrayOf(i);
    if (i->operand_count() != 1 || result == kNone) return absl::OkStatus();
    if (!IsAnnotation(i) && !IsBoundary(i)) return absl::OkStatus();
    // A value that leaves a manual region is split as it was by hand.
    if (i->custom_call_target() == "SPMDShardToFullShape" && i->sharding() != nullptr)
      RETURN_IF_ERROR(Fix(i, result, i->sharding().get(), OpenDimensions(i)));
    const int operand = ArrayOf(i->operand(0));
    if (operand == kNone) return absl::OkStatus();
    const Shape &in = i->operand(0)->shape(), &out = i->shape();
    if (!in.IsArray() || in.rank() != out.rank()) return absl::OkStatus();
    if (i->custom_call_target() == "ShardingGroup") {
      Unite(operand, result);
      const std::string& group = i->attrs().GetString(AttrId::kOpaque);
      auto [at, first] = groups_.emplace(group, result);
      if (!first) Unite(at->second, result);
      return absl::OkStatus();
    }
    if (IsAnnotation(i) && i->sharding() != nullptr) {
      const Ints open = OpenDimensions(i);
      // Partial sums are of whole values here.
      RETURN_IF_ERROR(Fix(i, result, i->sharding().get(), open));
    }
    Rule rule;
    rule.passes_on = true;
    Ints dims(static_cast<size_t>(in.rank()));
    std::iota(dims.begin(), dims.end(), 0);
    for (int64_t d = 0; d < in.rank(); ++d) {
      if (in.dimensions(d) != out.dimensions(d)) dims[static_cast<size_t>(d)] = kNone;  // split by hand
    }
    rule.arrays = {{operand, dims}, {result, dims}};
    rules_.push_back(std::move(rule));
    return absl::OkStatus();
  }

  // `d` of `target` split as `k` of `source`, where that is more than it is
  // now.
  bool Refine(Node& target, int64_t d, const Tiling& source, int64_t k) {
    const int64_t has = target.tiling.tiles(d), wants = source.tiles(k);
    if (target.closed[static_cast<size_t>(d)] || wants <= has || wants % has != 0) return false;
    if (target.shape.dimensions(d) % wants != 0) return false;
    for (int64_t p = 0; has > 1 && p < input_.partitions; ++p) {
      if (source.at(p, k) / (wants / has) != target.tiling.at(p, d)) return false;
    }
    Tiling wider = target.tiling.Without(d);
    if (!wider.SplitLike(d, source, k)) return false;
    target.tiling = std::move(wider);
    target.changed = ++clock_;
    return true;
  }

  bool Apply(Rule& rule, bool all) {
    if (!all && !rule.passes_on) return false;
    bool fresh = rule.seen < 0;
    for (const auto& [n, dims] : rule.arrays) fresh |= nodes_[Find(n)].changed > rule.seen;
    if (!fresh) return false;
    rule.seen = clock_;
    // The larger first, which the others then follow; of equal ones the result
    // last.
    std::vector<const std::pair<int, Ints>*> order;
    for (const auto& a : rule.arrays) order.push_back(&a);
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
      return nodes_[Find(a->first)].shape.num_elements() > nodes_[Find(b->first)].shape.num_elements();
    });
    bool changed = false;
    for (const auto* from : order) {
      const size_t s = Find(from->first);
      if (nodes_[s].tiling.IsWhole()) continue;
      for (size_t k = 0; k < from->second.size(); ++k) {
        if (from->second[k] == kNone || !nodes_[s].tiling.IsTiled(static_cast<int64_t>(k))) continue;
        for (const auto* to : order) {
          const size_t t = Find(to->first);
          for (size_t d = 0; d < to->second.size(); ++d) {
            if (to->second[d] != from->second[k] || (s == t && d == k)) continue;
            const Tiling source = nodes_[s].tiling;
            changed |= Refine(nodes_[t], static_cast<int64_t>(d), source, static_cast<int64_t>(k));
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

Ints ManualFamilies(const Sharding& sharding, int64_t rank, int64_t partitions) {
  auto manual = std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kManual);
  if (sharding.type != Sharding::Type::kOther || manual == sharding.last_tile_dims.end()) return {};
  const size_t dim = static_cast<size_t>(rank + (manual - sharding.last_tile_dims.begin()));
  const Ints devices = sharding.DeviceList();
  if (dim >= sharding.tile_dims.size() || static_cast<int64_t>(devices.size()) != partitions) return {};
  int64_t after = 1;
  for (size_t d = dim + 1; d < sharding.tile_dims.size(); ++d) after *= sharding.tile_dims[d];
  Ints families(static_cast<size_t>(partitions), 0);
  for (size_t k = 0; k < devices.size(); ++k) {
    if (devices[k] < 0 || devices[k] >= partitions) return {};
    families[static_cast<size_t>(devices[k])] = static_cast<int64_t>(k) / after % sharding.tile_dims[dim];
  }
  return families;
}

absl::StatusOr<ProposedTilings> PropagateTilings(const Module& module, const PropagationInput& input) {
  Propagation p(input);
  RETURN_IF_ERROR(p.Build(module));
  p.Run();
  return p.Result();
}

}  // namespace backplane
