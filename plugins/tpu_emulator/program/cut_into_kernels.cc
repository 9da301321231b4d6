#include "plugins/tpu_emulator/program/cut_into_kernels.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

constexpr size_t kMaxMembers = 1000;   // of one kernel
constexpr int64_t kMaxReads = 256;     // operands of a kernel's members from outside it, each as often as it is read
constexpr double kCheap = 6;           // operations an element that may be computed more than once
constexpr double kCheapPrologue = 10;  // of all operations that make a contraction's operands
constexpr size_t kMaxCopies = 6;       // kernels that one value is computed in
constexpr int kMaxSearch = 400;        // kernels that a search for a cycle looks at

enum class Role : uint8_t {
  kNone,         // in no kernel of ours
  kElementwise,  // one element from the same element of each operand
  kMovement,     // slice, pad, concatenate, reverse, dynamic-slice, reshapes within tiles
  kTranspose,    // of the dimensions in tiles; only into contractions
  kUpdate,       // dynamic-update-slice, in place
  kReduce,
  kWindow,  // reduce-window, select-and-scatter; alone
  kContraction,
};

// Dimensions without those of size 1.
DimVector Stripped(const Shape& s) {
  DimVector d;
  for (int64_t x : s.dimensions()) {
    if (x != 1) d.push_back(x);
  }
  return d;
}

bool SameDimensions(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

// Only dimensions of size 1 change their places.
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

// Part of each kernel that reads it.
bool IsFreeSource(const Instruction& i) {
  if (i.Is(Opcode::kConstant)) return i.shape().IsScalar();
  if (i.Is(Opcode::kBroadcast))
    return !i.shape().HasDynamicDimensions() && !i.operand(0)->shape().HasDynamicDimensions();
  return i.Is(Opcode::kIota);
}

class Cutter {
 public:
  Cutter(Computation* computation, bool widen) : computation_(computation), widen_(widen) {}

  absl::StatusOr<bool> Run() {
    Number();
    for (int n = static_cast<int>(nodes_.size()) - 1; n >= 0; --n) Visit(n);
    return Outline();
  }

 private:
  struct Use {
    int node;
    bool spread;  // through a broadcast: more elements than there are
  };
  struct Node {
    Instruction* i;
    Role role = Role::kNone;
    bool copied = false;    // into each kernel that reads it; in no group
    bool escapes = false;   // the root, or read outside every kernel
    bool prologue = false;  // makes an operand of its kernel's contraction
    bool epilogue = false;  // works on a contraction's result: better there than before the next one
    bool spread = false;    // stands behind a broadcast in its kernel
    int group = -1;
    double cost = 0;   // operations an element
    double chain = 0;  // with what follows it where elements are computed more than once: copies, prologues, broadcasts
    std::vector<Use> uses;  // those that read it, through what is copied
  };
  struct Group {
    std::vector<int> members;
    bool contracts = false, reduces = false, updates = false;
    int64_t reads = 0;
    double prologue = 0;  // operations that make its contraction's operands
    Shape space;          // of the elements it goes over
  };

  void Number() {
    absl::flat_hash_map<const Instruction*, int> number;
    nodes_.reserve(static_cast<size_t>(computation_->instruction_count()));
    for (const auto& owned : computation_->instructions()) {
      Instruction* i = owned.get();
      const int n = static_cast<int>(nodes_.size());
      number[i] = n;
      Node node;
      node.i = i;
      node.copied = IsFreeSource(*i);
      if (!node.copied) node.role = RoleOf(*i);
      node.cost = node.role == Role::kElementwise ? VectorCost(i->opcode()) : 1;
      node.escapes = i->IsRoot();
      if (node.role != Role::kNone) {
        node.group = static_cast<int>(groups_.size());
        Group g;
        g.members = {n};
        g.contracts = node.role == Role::kContraction;
        g.reduces = node.role == Role::kReduce;
        g.updates = node.role == Role::kUpdate;
        g.reads = i->operand_count();
        g.space = g.reduces ? i->operand(0)->shape() : g.updates ? i->operand(1)->shape() : i->shape();
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
                              SameDimensions(o->shape(), nodes_[n].i->shape()) &&
                              (operand.role == Role::kContraction || operand.epilogue);
      }
    }
  }

  // Readers before what they read: n's group holds n alone when it is visited. Finds n a kernel, then tells its
  // operands who reads them.
  void Visit(int n) {
    Node& node = nodes_[n];
    if (node.group >= 0 && !node.uses.empty()) FindKernel(n);
    for (int p : operands_[n]) {
      Node& operand = nodes_[p];
      if (node.copied) {
        const bool spreads =
            node.i->Is(Opcode::kBroadcast) && node.i->shape().num_elements() > operand.i->shape().num_elements();
        for (const Use& use : node.uses) AddUse(operand, {use.node, use.spread || spreads});
        operand.chain = std::max(operand.chain, node.chain);
        operand.escapes |= node.escapes;
      } else {
        AddUse(operand, {n, false});
        operand.escapes |= node.role == Role::kNone;
      }
    }
  }

  static void AddUse(Node& operand, Use use) {
    for (Use& known : operand.uses) {
      if (known.node != use.node) continue;
      known.spread |= use.spread;
      return;
    }
    operand.uses.push_back(use);
  }

  void FindKernel(int n) {
    Node& node = nodes_[n];
    std::vector<int> targets;
    for (const Use& use : node.uses) {
      const int t = nodes_[use.node].group;
      if (t >= 0 && std::find(targets.begin(), targets.end(), t) == targets.end()) targets.push_back(t);
    }
    if (targets.size() == 1 && !node.escapes) {
      if (CanJoin(n, targets[0])) Join(n, targets[0]);
      return;
    }
    if (ComputeAgain(n, targets)) return;
    std::sort(targets.begin(), targets.end());
    for (int t : targets) {
      if (!SameElements(n, t) || !CanJoin(n, t) || ReachesAround(n, t)) continue;
      return Join(n, t);
    }
  }

  // What computing n's elements in t costs where that happens more than once.
  double ChainIn(int n, int t) const {
    double chain = nodes_[n].chain;
    for (const Use& use : nodes_[n].uses) {
      const Node& user = nodes_[use.node];
      if (user.group == t && (user.prologue || user.spread)) chain = std::max(chain, user.chain);
    }
    return chain + nodes_[n].cost;
  }

  bool CanJoin(int n, int t) const {
    const Node& node = nodes_[n];
    const Group& g = groups_[t];
    if (node.role == Role::kUpdate || node.role == Role::kWindow || g.members.size() >= kMaxMembers ||
        g.reads + node.i->operand_count() > kMaxReads)
      return false;
    bool spread = false, makes_operand = false, other = false, elementwise = true, element_for_element = true;
    double moved = 0;  // elements that slices and the like read of it
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      if (user.role == Role::kWindow) return false;
      const bool operand = user.role == Role::kContraction || user.prologue;
      makes_operand |= operand;
      other |= !operand;
      spread |= use.spread || user.spread;
      elementwise &= !use.spread && (user.role == Role::kElementwise || user.i->Is(Opcode::kReshape)) &&
                     user.i->shape().num_elements() == node.i->shape().num_elements();
      element_for_element &= !use.spread && (user.role == Role::kElementwise || user.role == Role::kReduce) &&
                             (user.role == Role::kReduce ? SameDimensions(user.i->operand(0)->shape(), node.i->shape())
                                                         : SameDimensions(user.i->shape(), node.i->shape()));
      // The array that is updated stays in memory: the kernel works in it.
      if (user.role == Role::kUpdate && user.i->operand(0) == node.i) return false;
      if (user.role == Role::kMovement) {
        moved += static_cast<double>(std::min(user.i->shape().num_elements(), node.i->shape().num_elements()));
      }
    }
    const bool heavy = node.role == Role::kContraction || node.role == Role::kReduce;
    if (makes_operand) {
      return !other && !spread && !heavy && !node.epilogue && ChainIn(n, t) <= kCheap &&
             g.prologue + node.cost <= kCheapPrologue;
    }
    if (node.role == Role::kTranspose) return false;
    if (spread || moved > 1.01 * static_cast<double>(node.i->shape().num_elements())) {
      return !heavy && ChainIn(n, t) <= kCheap;
    }
    if (!heavy) return true;
    // Its consumers must go over its results, element by element. A reduction of a product's results is one, too.
    if (g.updates || g.contracts) return false;
    if (node.role == Role::kContraction && g.reduces)
      return element_for_element && SameDimensions(node.i->shape(), g.space);
    if (!elementwise) return false;
    if (node.role == Role::kReduce && g.reduces) return SameDimensions(node.i->operand(0)->shape(), g.space);
    return !g.reduces && node.i->shape().num_elements() == g.space.num_elements();
  }

  void Join(int n, int t) {
    Node& node = nodes_[n];
    Group& g = groups_[t];
    const double chain = ChainIn(n, t);
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      node.prologue |= user.role == Role::kContraction || user.prologue;
      node.spread |= use.spread || user.spread;
      --g.reads;
    }
    if (node.prologue || node.spread) node.chain = chain;
    if (node.prologue) g.prologue += node.cost;
    g.reads += node.i->operand_count();
    g.contracts |= node.role == Role::kContraction;
    if (node.role == Role::kReduce) {
      g.reduces = true;
      g.space = node.i->operand(0)->shape();
    }
    groups_[node.group].members.clear();
    node.group = t;
    g.members.push_back(n);
  }

  // Whether n can be a further result of t, which goes over the same elements anyhow.
  bool SameElements(int n, int t) const {
    const Node& node = nodes_[n];
    const Group& g = groups_[t];
    if (node.role != Role::kElementwise && node.role != Role::kContraction) return false;
    if (g.contracts || g.updates || !SameDimensions(node.i->shape(), g.space)) return false;
    for (const Use& use : node.uses) {
      const Node& user = nodes_[use.node];
      if (user.group != t) continue;
      if (use.spread || user.spread || (user.role != Role::kElementwise && user.role != Role::kReduce)) return false;
    }
    return true;
  }

  // Makes n part of each of its readers' kernels, where that moves fewer bytes than storing it.
  bool ComputeAgain(int n, const std::vector<int>& targets) {
    Node& node = nodes_[n];
    if (node.escapes || node.epilogue || targets.size() > kMaxCopies || node.i->shape().IsScalar()) return false;
    if (node.role != Role::kElementwise && node.role != Role::kMovement) return false;
    double again = node.cost + node.chain, reads = 0;  // arrays of n's size
    if (again > kCheap) return false;
    const double own = static_cast<double>(node.i->shape().num_elements());
    for (int p : operands_[n]) {
      if (!nodes_[p].copied) reads += std::min(1.0, static_cast<double>(nodes_[p].i->shape().num_elements()) / own);
    }
    const double kernels = static_cast<double>(targets.size());
    if (kernels * reads >= reads + 1 + kernels) return false;
    for (int t : targets) {
      if (!CanJoin(n, t)) return false;
    }
    groups_[node.group].members.clear();
    node.group = -1;
    node.copied = true;
    node.chain = again;
    return true;
  }

  // Whether something outside t lies between n and t: then n, as a part of t, would be waiting for itself. Says yes
  // when the search gets long.
  bool ReachesAround(int n, int t) const {
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

  // ---- from groups to fusions

  // A fusion's computation while it is made.
  struct Body {
    Computation* computation;
    absl::flat_hash_map<const Instruction*, Instruction*> inside;
    std::vector<Instruction*> inputs;
  };

  Instruction* Inside(Body& body, Instruction* i, int group) {
    if (auto at = body.inside.find(i); at != body.inside.end()) return at->second;
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = i->shape();
    spec.name = absl::StrCat("param_", body.inputs.size());
    Instruction* p = body.computation->Add(std::move(spec));
    body.inputs.push_back(i);
    return body.inside[i] = p;
  }

  // What is copied, before those that read it; without recursion over long chains.
  void CopyInside(Body& body, int n) {
    std::vector<std::pair<int, size_t>> stack = {{n, 0}};
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      const Node& node = nodes_[at];
      if (next < operands_[at].size()) {
        const int p = operands_[at][next++];
        if (nodes_[p].copied && !body.inside.contains(nodes_[p].i)) stack.emplace_back(p, 0);
        continue;
      }
      EmitInside(body, node);
      stack.pop_back();
    }
  }

  void EmitInside(Body& body, const Node& node) {
    if (body.inside.contains(node.i)) return;
    std::vector<Instruction*> operands;
    for (Instruction* o : node.i->operands()) operands.push_back(Inside(body, o, node.group));
    body.inside[node.i] = body.computation->AddClone(node.i, node.i->shape(), operands);
  }

  // Alone, it is shown as what it is.
  bool StaysBare(const Group& g) const {
    if (g.members.size() > 1 || g.contracts) return false;
    const Node& only = nodes_[g.members[0]];
    const bool window = only.role == Role::kWindow;
    if (widen_ && (g.reduces || window) && IsNarrowFloat(only.i->shape().element_type())) return false;
    if (window) return true;
    return std::none_of(operands_[g.members[0]].begin(), operands_[g.members[0]].end(),
                        [&](int p) { return nodes_[p].copied && !nodes_[p].i->shape().IsScalar(); });
  }

  absl::StatusOr<bool> Outline() {
    bool changed = false, sort = false;
    for (Group& g : groups_) {
      if (g.members.empty()) continue;
      std::sort(g.members.begin(), g.members.end());
      if (StaysBare(g)) continue;
      changed = true;
      sort |= OutlineGroup(g);
    }
    if (!changed) return false;
    computation_->RemoveDead();
    if (sort) computation_->SortTopologically();
    return true;
  }

  // True when its results come later than one of them may be needed.
  bool OutlineGroup(const Group& g) {
    const int group = nodes_[g.members[0]].group;
    std::vector<int> outputs;
    for (int m : g.members) {
      const bool read_outside = std::any_of(nodes_[m].uses.begin(), nodes_[m].uses.end(),
                                            [&](const Use& use) { return nodes_[use.node].group != group; });
      if (nodes_[m].escapes || read_outside) outputs.push_back(m);
    }
    // Nobody reads it, and no side effect keeps it: it stays where dead code is removed.
    if (outputs.empty()) outputs.push_back(g.members.back());
    const std::string name = NameOf(g);
    Body body{computation_->parent()->AddComputation(absl::StrCat("fused_", name)), {}, {}};
    body.computation->set_is_fusion(true);
    for (int m : g.members) CopyInside(body, m);
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
    for (Instruction* i : body.inputs) spec.operands.push_back(Now(i));
    spec.called = {body.computation};
    spec.attrs.SetEnum(AttrId::kFusionKind, g.contracts ? FusionKind::kOutput
                                            : g.reduces ? FusionKind::kInput
                                                        : FusionKind::kLoop);
    spec.metadata = nodes_[MostTelling(g)].i->metadata();
    spec.name = absl::StrCat(name, "_fusion");
    Instruction* position = nodes_[g.members.back()].i;
    Instruction* fusion = computation_->AddBefore(position, std::move(spec));
    for (size_t k = 0; k < outputs.size(); ++k) {
      Instruction* old = nodes_[outputs[k]].i;
      Instruction* now = fusion;
      if (outputs.size() > 1) {
        InstructionSpec gte;
        gte.opcode = Opcode::kGetTupleElement;
        gte.shape = old->shape();
        gte.operands = {fusion};
        gte.attrs.Set(AttrId::kTupleIndex, static_cast<int64_t>(k));
        now = computation_->AddBefore(position, std::move(gte));
      }
      old->ReplaceAllUsesWith(now);
      now_[old] = now;
    }
    return outputs.size() > 1;
  }

  // An instruction that an earlier fusion took over, as it is now.
  Instruction* Now(Instruction* i) const {
    auto at = now_.find(i);
    return at == now_.end() ? i : at->second;
  }

  // The one whose line of the program the kernel is shown under: its contraction, reduction, dearest operation.
  int MostTelling(const Group& g) const {
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
  absl::flat_hash_map<const Instruction*, Instruction*> now_;
};

}  // namespace

double VectorCost(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return 4;
    case Opcode::kConvert:
      return 2;
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kTanh:
    case Opcode::kTan:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kCosh:
    case Opcode::kErf:
    case Opcode::kCbrt:
    case Opcode::kPower:
    case Opcode::kAtan2:
      return 8;
    default:
      return 1;
  }
}

bool IsScalarUnitOp(const Instruction& i) {
  const auto is_one = [](const Shape& s) {
    return s.IsScalar() && (IsIntegral(s.element_type()) || s.element_type() == PrimitiveType::kPred);
  };
  if (!i.info().Has(OpTrait::kElementwise) && !i.Is(Opcode::kReshape) && !i.Is(Opcode::kBitcast)) return false;
  if (!i.shape().IsArray() || !is_one(i.shape())) return false;
  return std::all_of(i.operands().begin(), i.operands().end(),
                     [&](const Instruction* o) { return o->shape().IsArray() && is_one(o->shape()); });
}

bool IsNarrowFloat(PrimitiveType type) { return IsFloat(type) && BitWidth(type) < 32; }

bool KeepsTiles(const Shape& from, const Shape& to) {
  const DimVector a = Stripped(from), b = Stripped(to);
  if (a == b) return true;
  // From the minor end: dimensions that stay, then whole tiles.
  constexpr int64_t kRows = 8;
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  if (same >= 2) return true;
  return same == 1 && a.size() > 1 && b.size() > 1 && a[a.size() - 2] % kRows == 0 && b[b.size() - 2] % kRows == 0;
}

absl::StatusOr<bool> CutIntoKernels::Run(Module* module) {
  bool changed = false;
  for (Computation* c : RunningComputations(module)) {
    ASSIGN_OR_RETURN(const bool one, Cutter(c, widen_).Run());
    changed |= one;
  }
  return changed;
}

absl::StatusOr<bool> InlineFusions(Module* module) {
  bool changed = false;
  for (Computation* c : RunningComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kFusion)) continue;
      here = true;
      Instruction* root = Inline(c, i->called(0), i->operands());
      if (!root->Is(Opcode::kTuple)) {
        i->ReplaceAllUsesWith(root);
        continue;
      }
      const std::vector<Instruction*> users(i->users().begin(), i->users().end());
      for (Instruction* user : users) {
        if (user->Is(Opcode::kGetTupleElement)) user->ReplaceAllUsesWith(root->operand(user->tuple_index()));
      }
      if (i->IsRoot() || !i->users().empty()) i->ReplaceAllUsesWith(root);
    }
    if (!here) continue;
    c->SortTopologically();
    c->RemoveDead();
    changed = true;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane::tpu
