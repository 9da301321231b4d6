#include "plugins/tpu_emulator/program/fuse_into_kernels.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/program/operation_traits.h"

namespace backplane::tpu {
namespace {

constexpr size_t kMaxMembers = 1000;  // instructions per kernel
constexpr int64_t kMaxReads = 256;    // operands that a kernel's instructions read from outside, counted once per read
constexpr double kMaxRecomputeCost = 6;  // operations per element that may be computed more than once
constexpr double kMaxPrologueCost = 10;  // operations per element, over all that produce a contraction's operands
constexpr size_t kMaxDuplicates = 6;     // kernels that one value is duplicated into
constexpr int kMaxSearch = 400;          // kernels that a search for a cycle visits

enum class Role : uint8_t {
  kNone,         // never fused
  kElementwise,  // computes each element from the same element of each operand
  kMovement,     // slice, pad, concatenate, reverse, dynamic-slice, reshapes within tiles
  kTranspose,    // moves elements between tiles; fused into contractions only
  kUpdate,       // dynamic-update-slice in place
  kReduce,
  kWindow,  // reduce-window, select-and-scatter; never fused with others
  kContraction,
};

bool HaveSameDimensions(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

// Whether the transpose moves only dimensions of size 1.
bool KeepsOrder(const Instruction& transpose) {
  int64_t last = -1;
  for (size_t d = 0; d < transpose.dimensions().size(); ++d) {
    if (transpose.shape().dimensions(static_cast<int64_t>(d)) == 1) continue;
    if (transpose.dimensions()[d] < last) return false;
    last = transpose.dimensions()[d];
  }
  return true;
}

Role RoleOf(const Instruction& i) {
  if (!i.shape().IsArray() || i.HasSideEffect() || !i.control_predecessors().empty()) return Role::kNone;
  if (i.shape().HasDynamicDimensions() || i.shape().num_elements() == 0) return Role::kNone;
  for (const Instruction* o : i.operands()) {
    if (!o->shape().IsArray() || o->shape().HasDynamicDimensions() || o->shape().num_elements() == 0)
      return Role::kNone;
  }
  if (IsScalarUnitOp(i)) return Role::kNone;
  switch (i.opcode()) {
    case Opcode::kCopy:
      return Role::kNone;
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
      return Role::kMovement;
    case Opcode::kReshape:
      return KeepsTiles(i.operand(0)->shape(), i.shape()) ? Role::kMovement : Role::kNone;
    case Opcode::kTranspose:
      return KeepsOrder(i) ? Role::kMovement : Role::kTranspose;
    case Opcode::kDynamicUpdateSlice:
      return Role::kUpdate;
    case Opcode::kReduce:
      return Role::kReduce;
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter:
      return Role::kWindow;
    case Opcode::kDot:
    case Opcode::kConvolution:
      return Role::kContraction;
    default:
      return i.info().Has(OpTrait::kElementwise) ? Role::kElementwise : Role::kNone;
  }
}

// Whether the operation is duplicated into each kernel that reads it, because it reads no array from memory.
bool IsDuplicatedSource(const Instruction& i) {
  if (i.Is(Opcode::kConstant)) return i.shape().IsScalar();
  if (i.Is(Opcode::kBroadcast))
    return !i.shape().HasDynamicDimensions() && !i.operand(0)->shape().HasDynamicDimensions();
  return i.Is(Opcode::kIota);
}

class KernelFuser {
 public:
  KernelFuser(Computation* computation, bool widen) : computation_(computation), widen_(widen) {}

  absl::StatusOr<bool> Run() {
    BuildNodes();
    for (int n = static_cast<int>(nodes_.size()) - 1; n >= 0; --n) AssignGroup(n);
    return Outline();
  }

 private:
  struct Use {
    int node;
    bool broadcast;  // whether the use is through a broadcast, which reads elements more than once
  };
  struct Node {
    Instruction* i;
    Role role = Role::kNone;
    bool duplicated = false;    // into each kernel that reads it; it belongs to no group
    bool used_outside = false;  // the root, or read by an instruction outside of all kernels
    bool prologue = false;      // produces an operand of its kernel's contraction
    bool epilogue = false;  // works on the result of a contraction; better fused there than before the next contraction
    bool broadcast = false;  // read through a broadcast within its kernel
    int group = -1;
    double cost = 0;  // operations per element
    double chain =
        0;  // cost of this and the later operations that are recomputed with it (duplicates, prologues, broadcasts)
    std::vector<Use> uses;  // the users, looking through duplicated operations
  };
  struct Group {
    std::vector<int> members;
    bool contracts = false, reduces = false, updates = false;
    int64_t reads = 0;
    double prologue = 0;    // operations per element that produce its contraction's operands
    Shape iteration_space;  // the shape that the kernel iterates over
  };

  void BuildNodes() {
    absl::flat_hash_map<const Instruction*, int> number;
    nodes_.reserve(static_cast<size_t>(computation_->instruction_count()));
    for (const auto& owned : computation_->instructions()) {
      Instruction* i = owned.get();
      const int n = static_cast<int>(nodes_.size());
      number[i] = n;
      Node node;
      node.i = i;
      node.duplicated = IsDuplicatedSource(*i);
      if (!node.duplicated) node.role = RoleOf(*i);
      node.cost = node.role == Role::kElementwise ? VectorCost(i->opcode()) : 1;
      node.used_outside = i->IsRoot();
      if (node.role != Role::kNone) {
        node.group = static_cast<int>(groups_.size());
        Group g;
        g.members = {n};
        g.contracts = node.role == Role::kContraction;
        g.reduces = node.role == Role::kReduce;
        g.updates = node.role == Role::kUpdate;
        g.reads = i->operand_count();
        g.iteration_space = g.reduces ? i->operand(0)->shape() : g.updates ? i->operand(1)->shape() : i->shape();
        groups_.push_back(std::move(g));
      }
      nodes_.push_back(std::move(node));
    }
    operands_.resize(nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const Instruction* o : nodes_[n].i->operands()) {
        const int p = number.at(o);
        if (std::find(operands_[n].begin(), operands_[n].end(), p) == operands_[n].end()) operands_[n].push_back(p);
        const Node& operand = nodes_[p];
        nodes_[n].epilogue |= nodes_[n].role == Role::kElementwise && o->users().size() == 1 &&
                              HaveSameDimensions(o->shape(), nodes_[n].i->shape()) &&
                              (operand.role == Role::kContraction || operand.epilogue);
      }
    }
  }

  // Visits users before their operands. The group of n holds only n at that time. Assigns n to a group, then adds n to
  // the uses of its operands.
  void AssignGroup(int n) {
    Node& node = nodes_[n];
    if (node.group >= 0 && !node.uses.empty()) FindGroup(n);
    for (int p : operands_[n]) {
      Node& operand = nodes_[p];
      if (node.duplicated) {
        const bool enlarges =
            node.i->Is(Opcode::kBroadcast) && node.i->shape().num_elements() > operand.i->shape().num_elements();
        for (const Use& use : node.uses) AddUse(operand, {use.node, use.broadcast || enlarges});
        operand.chain = std::max(operand.chain, node.chain);
        operand.used_outside |= node.used_outside;
      } else {
        AddUse(operand, {n, false});
        operand.used_outside |= node.role == Role::kNone;
      }
    }
  }

  static void AddUse(Node& operand, Use use) {
    for (Use& known : operand.uses) {
      if (known.node != use.node) continue;
      known.broadcast |= use.broadcast;
      return;
    }
    operand.uses.push_back(use);
  }

  void FindGroup(int n) {
    Node& node = nodes_[n];
    std::vector<int> targets;
    for (const Use& use : node.uses) {
      const int t = nodes_[use.node].group;
      if (t >= 0 && std::find(targets.begin(), targets.end(), t) == targets.end()) targets.push_back(t);
    }
    if (targets.size() == 1 && !node.used_outside) {
      if (CanJoin(n, targets[0])) Join(n, targets[0]);
      return;
    }
    if (Duplicate(n, targets)) return;
    std::sort(targets.begin(), targets.end());
    for (int t : targets) {
      if (!CanBeExtraResult(n, t) || !CanJoin(n, t) || WouldFormCycle(n, t)) continue;
      return Join(n, t);
    }
  }

  // Returns the cost of n together with the operations in t that are recomputed whenever n is.
  double RecomputeCost(int n, int t) const {
    double chain = nodes_[n].chain;
    for (const Use& use : nodes_[n].uses) {
      const Node& user = nodes_[use.node];
      if (user.group == t && (user.prologue || user.broadcast)) chain = std::max(chain, user.chain);
    }
    return chain + nodes_[n].cost;
  }

  bool CanJoin(int n, int t) const {
    const Node& node = nodes_[n];
    const Group& g = groups_[t];
    if (node.role == Role::kUpdate || node.role == Role::kWindow || g.members.size() >= kMaxMembers ||
        g.reads + node.i->operand_count() > kMaxReads)
      return false;
    bool broadcast = false, makes_operand = false, other = false, elementwise = true, element_for_element = true;
    double moved = 0;  // elements of n that slices and similar operations read
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      if (user.role == Role::kWindow) return false;
      const bool operand = user.role == Role::kContraction || user.prologue;
      makes_operand |= operand;
      other |= !operand;
      broadcast |= use.broadcast || user.broadcast;
      elementwise &= !use.broadcast && (user.role == Role::kElementwise || user.i->Is(Opcode::kReshape)) &&
                     user.i->shape().num_elements() == node.i->shape().num_elements();
      element_for_element &=
          !use.broadcast && (user.role == Role::kElementwise || user.role == Role::kReduce) &&
          (user.role == Role::kReduce ? HaveSameDimensions(user.i->operand(0)->shape(), node.i->shape())
                                      : HaveSameDimensions(user.i->shape(), node.i->shape()));
      // The updated array must stay in memory because the kernel updates it in place.
      if (user.role == Role::kUpdate && user.i->operand(0) == node.i) return false;
      if (user.role == Role::kMovement) {
        moved += static_cast<double>(std::min(user.i->shape().num_elements(), node.i->shape().num_elements()));
      }
    }
    const bool heavy = node.role == Role::kContraction || node.role == Role::kReduce;
    if (makes_operand) {
      return !other && !broadcast && !heavy && !node.epilogue && RecomputeCost(n, t) <= kMaxRecomputeCost &&
             g.prologue + node.cost <= kMaxPrologueCost;
    }
    if (node.role == Role::kTranspose) return false;
    if (broadcast || moved > 1.01 * static_cast<double>(node.i->shape().num_elements())) {
      return !heavy && RecomputeCost(n, t) <= kMaxRecomputeCost;
    }
    if (!heavy) return true;
    // The users must iterate over the elements of the result. A reduction of a contraction's result does.
    if (g.updates || g.contracts) return false;
    if (node.role == Role::kContraction && g.reduces)
      return element_for_element && HaveSameDimensions(node.i->shape(), g.iteration_space);
    if (!elementwise) return false;
    if (node.role == Role::kReduce && g.reduces)
      return HaveSameDimensions(node.i->operand(0)->shape(), g.iteration_space);
    return !g.reduces && node.i->shape().num_elements() == g.iteration_space.num_elements();
  }

  void Join(int n, int t) {
    Node& node = nodes_[n];
    Group& g = groups_[t];
    const double chain = RecomputeCost(n, t);
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      node.prologue |= user.role == Role::kContraction || user.prologue;
      node.broadcast |= use.broadcast || user.broadcast;
      --g.reads;
    }
    if (node.prologue || node.broadcast) node.chain = chain;
    if (node.prologue) g.prologue += node.cost;
    g.reads += node.i->operand_count();
    g.contracts |= node.role == Role::kContraction;
    if (node.role == Role::kReduce) {
      g.reduces = true;
      g.iteration_space = node.i->operand(0)->shape();
    }
    groups_[node.group].members.clear();
    node.group = t;
    g.members.push_back(n);
  }

  // Whether n can be an additional result of t, which iterates over the same elements.
  bool CanBeExtraResult(int n, int t) const {
    const Node& node = nodes_[n];
    const Group& g = groups_[t];
    if (node.role != Role::kElementwise && node.role != Role::kContraction) return false;
    if (g.contracts || g.updates || !HaveSameDimensions(node.i->shape(), g.iteration_space)) return false;
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      if (use.broadcast || user.broadcast || (user.role != Role::kElementwise && user.role != Role::kReduce))
        return false;
    }
    return true;
  }

  // Duplicates n into the kernels of all of its users if that moves fewer bytes than storing it.
  bool Duplicate(int n, const std::vector<int>& targets) {
    Node& node = nodes_[n];
    if (node.used_outside || node.epilogue || targets.size() > kMaxDuplicates || node.i->shape().IsScalar())
      return false;
    if (node.role != Role::kElementwise && node.role != Role::kMovement) return false;
    double recompute = node.cost + node.chain, reads = 0;  // in arrays of the size of n
    if (recompute > kMaxRecomputeCost) return false;
    const double own = static_cast<double>(node.i->shape().num_elements());
    for (int p : operands_[n]) {
      if (!nodes_[p].duplicated) reads += std::min(1.0, static_cast<double>(nodes_[p].i->shape().num_elements()) / own);
    }
    const double kernels = static_cast<double>(targets.size());
    if (kernels * reads >= reads + 1 + kernels) return false;
    for (int t : targets) {
      if (!CanJoin(n, t)) return false;
    }
    groups_[node.group].members.clear();
    node.group = -1;
    node.duplicated = true;
    node.chain = recompute;
    return true;
  }

  // Whether a path from n to t leads through another kernel. Fusing n into t would then create a cycle. Also returns
  // true if the search exceeds its limit.
  bool WouldFormCycle(int n, int t) const {
    std::vector<int> work;
    absl::flat_hash_set<int> seen;
    for (const Use& use : nodes_[n].uses) {
      if (nodes_[use.node].group != t) work.push_back(use.node);
    }
    while (!work.empty()) {
      const int u = work.back();
      work.pop_back();
      const int group = nodes_[u].group;
      if (!seen.insert(group >= 0 ? group : -1 - u).second) continue;
      if (seen.size() > kMaxSearch) return true;
      const int alone[] = {u};
      const absl::Span<const int> members =
          group >= 0 ? absl::MakeConstSpan(groups_[group].members) : absl::MakeConstSpan(alone);
      for (int m : members) {
        for (const Use& use : nodes_[m].uses) {
          if (nodes_[use.node].group == t) return true;
          work.push_back(use.node);
        }
      }
    }
    return false;
  }

  // ---- Emitting fusions.

  // The computation of a fusion under construction.
  struct Body {
    Computation* computation;
    absl::flat_hash_map<const Instruction*, Instruction*> inside;
    std::vector<Instruction*> inputs;
  };

  Instruction* GetInside(Body& body, Instruction* i, int group) {
    if (auto at = body.inside.find(i); at != body.inside.end()) return at->second;
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = i->shape();
    spec.name = absl::StrCat("param_", body.inputs.size());
    Instruction* p = body.computation->Add(std::move(spec));
    body.inputs.push_back(i);
    return body.inside[i] = p;
  }

  // Clones n after the duplicated operations that it reads. Iterative, because chains may be long.
  void CloneSources(Body& body, int n) {
    std::vector<std::pair<int, size_t>> stack = {{n, 0}};
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      const Node& node = nodes_[at];
      if (next < operands_[at].size()) {
        const int p = operands_[at][next++];
        if (nodes_[p].duplicated && !body.inside.contains(nodes_[p].i)) stack.emplace_back(p, 0);
        continue;
      }
      CloneInto(body, node);
      stack.pop_back();
    }
  }

  void CloneInto(Body& body, const Node& node) {
    if (body.inside.contains(node.i)) return;
    std::vector<Instruction*> operands;
    for (Instruction* o : node.i->operands()) operands.push_back(GetInside(body, o, node.group));
    body.inside[node.i] = body.computation->AddClone(node.i, node.i->shape(), operands);
  }

  // Whether a group is left as the single instruction that it is, without a fusion around it.
  bool StaysUnfused(const Group& g) const {
    if (g.members.size() > 1 || g.contracts) return false;
    const Node& only = nodes_[g.members[0]];
    const bool window = only.role == Role::kWindow;
    if (widen_ && (g.reduces || window) && IsNarrowFloat(only.i->shape().element_type())) return false;
    if (window) return true;
    return std::none_of(operands_[g.members[0]].begin(), operands_[g.members[0]].end(),
                        [&](int p) { return nodes_[p].duplicated && !nodes_[p].i->shape().IsScalar(); });
  }

  absl::StatusOr<bool> Outline() {
    bool changed = false, sort = false;
    for (Group& g : groups_) {
      if (g.members.empty()) continue;
      std::sort(g.members.begin(), g.members.end());
      if (StaysUnfused(g)) continue;
      changed = true;
      sort |= OutlineGroup(g);
    }
    if (!changed) return false;
    computation_->RemoveDead();
    if (sort) computation_->SortTopologically();
    return true;
  }

  // Returns true if the fusion is placed after an instruction that may need one of its results.
  bool OutlineGroup(const Group& g) {
    const int group = nodes_[g.members[0]].group;
    std::vector<int> outputs;
    for (int m : g.members) {
      const bool read_outside = std::any_of(nodes_[m].uses.begin(), nodes_[m].uses.end(),
                                            [&](const Use& use) { return nodes_[use.node].group != group; });
      if (nodes_[m].used_outside || read_outside) outputs.push_back(m);
    }
    // Dead code. Keep it; other passes remove it.
    if (outputs.empty()) outputs.push_back(g.members.back());
    const std::string name = NameOf(g);
    Body body{computation_->parent()->AddComputation(absl::StrCat("fused_", name)), {}, {}};
    body.computation->set_is_fusion(true);
    for (int m : g.members) CloneSources(body, m);
    Instruction* root = body.inside.at(nodes_[outputs[0]].i);
    if (outputs.size() > 1) {
      InstructionSpec tuple;
      tuple.opcode = Opcode::kTuple;
      std::vector<Shape> shapes;
      for (int m : outputs) {
        tuple.operands.push_back(body.inside.at(nodes_[m].i));
        shapes.push_back(nodes_[m].i->shape());
      }
      tuple.shape = Shape::Tuple(std::move(shapes));
      root = body.computation->Add(std::move(tuple));
    }
    body.computation->set_root(root);

    InstructionSpec spec;
    spec.opcode = Opcode::kFusion;
    spec.shape = root->shape();
    for (Instruction* i : body.inputs) spec.operands.push_back(GetReplacement(i));
    spec.called = {body.computation};
    spec.attrs.SetEnum(AttrId::kFusionKind, g.contracts ? FusionKind::kOutput
                                            : g.reduces ? FusionKind::kInput
                                                        : FusionKind::kLoop);
    spec.metadata = nodes_[FindRepresentative(g)].i->metadata();
    spec.name = absl::StrCat(name, "_fusion");
    Instruction* position = nodes_[g.members.back()].i;
    Instruction* fusion = computation_->AddBefore(position, std::move(spec));
    for (size_t k = 0; k < outputs.size(); ++k) {
      Instruction* old = nodes_[outputs[k]].i;
      Instruction* replacement = fusion;
      if (outputs.size() > 1) {
        InstructionSpec gte;
        gte.opcode = Opcode::kGetTupleElement;
        gte.shape = old->shape();
        gte.operands = {fusion};
        gte.attrs.Set(AttrId::kTupleIndex, static_cast<int64_t>(k));
        replacement = computation_->AddBefore(position, std::move(gte));
      }
      old->ReplaceAllUsesWith(replacement);
      replacements_[old] = replacement;
    }
    return outputs.size() > 1;
  }

  // Returns the instruction that replaced `i` if `i` was moved into an earlier fusion.
  Instruction* GetReplacement(Instruction* i) const {
    auto at = replacements_.find(i);
    return at == replacements_.end() ? i : at->second;
  }

  // Returns the instruction whose metadata the fusion gets: its contraction, its reduction, or its costliest operation.
  int FindRepresentative(const Group& g) const {
    int best = g.members.back();
    double most = -1;
    for (int m : g.members) {
      const Node& node = nodes_[m];
      if (node.i->metadata().empty()) continue;
      const double weight = node.role == Role::kContraction ? 1000
                            : node.role == Role::kReduce    ? 100
                            : node.role == Role::kUpdate    ? 50
                                                            : node.cost;
      if (weight >= most) {
        most = weight;
        best = m;
      }
    }
    return best;
  }

  std::string NameOf(const Group& g) const {
    std::string name;
    int shown = 0;
    for (auto m = g.members.rbegin(); m != g.members.rend() && shown < 3; ++m) {
      const Instruction* i = nodes_[*m].i;
      if (i->Is(Opcode::kReshape) && g.members.size() > 1) continue;
      name = absl::StrCat(OpName(i->opcode()), shown > 0 ? "_" : "", name);
      ++shown;
    }
    return name;
  }

  Computation* const computation_;
  const bool widen_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> operands_;
  std::vector<Group> groups_;
  absl::flat_hash_map<const Instruction*, Instruction*> replacements_;
};

}  // namespace

absl::StatusOr<bool> FuseIntoKernels::Run(Module* module) {
  bool changed = false;
  for (Computation* c : ControlFlowComputations(module)) {
    ASSIGN_OR_RETURN(const bool one, KernelFuser(c, widen_).Run());
    changed |= one;
  }
  return changed;
}

}  // namespace backplane::tpu
