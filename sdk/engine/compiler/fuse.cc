#include "sdk/engine/compiler/fuse.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/engine/codegen/kernel.h"

namespace backplane::engine {
namespace {

using codegen::FusionRole;

constexpr int kMaxInstructions =
    320;  // of one kernel: code size grows with it; constants and their broadcasts are free
constexpr int kMaxParameters = 48;
constexpr double kMaxIndices = 6;     // at which a kernel's code computes one instruction
constexpr double kCheapCycles = 1.5;  // what may be computed more than once
constexpr double kAgainCycles = 2.5;  // what may be computed again in each kernel that needs it
constexpr size_t kMaxCopies = 6;
constexpr size_t kMaxTries = 6;       // at merging one kernel with others
constexpr size_t kMaxSiblings = 512;  // readers of one value that a kernel may be merged with, the nearest ones
constexpr size_t kMaxTargets = 64;    // kernels tried for a value that several read
// Steps that searches for ways between kernels may take in a computation: so many, and so many more for each
// instruction. Once they are spent, a search that takes more than kShortSearch counts as one that found a way.
constexpr int64_t kSearchSteps = 1000000, kSearchStepsEach = 500, kShortSearch = 256;
constexpr int64_t kLargeTranspose = 4096;  // elements from which a transpose is better a kernel of its own

struct Group {
  std::vector<int> members;  // instruction numbers, ascending
  std::vector<int> inputs;   // numbers of what members read from outside, ascending
  int weight = 0;            // members that become code
  bool alone = false;
  bool has_reduction = false, has_row_consumer = false;
  std::vector<int64_t> space;  // dims of the outputs (or of the rows, when reductions are broadcast back)
};

// For each node the last member of any kernel that has begun by it and has not ended before it.
class RunningKernels {
 public:
  explicit RunningKernels(int nodes) {
    while (leaves_ < nodes) leaves_ *= 2;
    last_.assign(static_cast<size_t>(2 * leaves_), -1);
  }
  void Add(int first, int last) {  // a kernel's; both included
    for (int begin = first + leaves_, end = last + leaves_ + 1; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) Raise(begin++, last);
      if (end % 2 == 1) Raise(--end, last);
    }
  }
  int LastOf(int node) const {
    int last = node;
    for (int k = node + leaves_; k > 0; k /= 2) last = std::max(last, last_[static_cast<size_t>(k)]);
    return last;
  }

 private:
  void Raise(int k, int last) { last_[static_cast<size_t>(k)] = std::max(last_[static_cast<size_t>(k)], last); }
  int leaves_ = 1;  // behind as many inner nodes: what holds for one holds for all leaves below it
  std::vector<int> last_;
};

bool SameDims(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }
bool SameDims(const Shape& a, const std::vector<int64_t>& dims) {
  return std::equal(a.dimensions().begin(), a.dimensions().end(), dims.begin(), dims.end());
}

// Copied to each user before grouping: costs no memory traffic worth naming.
bool IsFreeSource(const Instruction* i) {
  if (i->Is(Opcode::kConstant)) return i->shape().IsScalar();
  return i->Is(Opcode::kIota) || i->Is(Opcode::kBroadcast);
}

bool MovesMinorDimension(const Instruction* transpose) {
  const Ints& perm = transpose->dimensions();
  // Dims of size one do not count.
  int64_t last = -1;
  for (size_t d = 0; d < perm.size(); ++d) {
    if (transpose->shape().dimensions(static_cast<int64_t>(d)) != 1) last = perm[d];
  }
  if (last < 0) return false;
  for (int64_t d = last + 1; d < transpose->operand(0)->shape().rank(); ++d) {
    if (transpose->operand(0)->shape().dimensions(d) != 1) return true;
  }
  return false;
}

// Alike but for operands and metadata.
bool SameInstruction(const Instruction& a, const Instruction& b) {
  return a.opcode() == b.opcode() && a.shape() == b.shape() && a.attrs() == b.attrs() && a.called() == b.called() &&
         (!a.Is(Opcode::kConstant) || a.literal() == b.literal());
}

class ComputationFuser {
 public:
  ComputationFuser(Computation* computation, const CustomLowering* lowering)
      : computation_(computation), lowering_(lowering) {}

  absl::StatusOr<bool> Run() {
    DuplicateCheap();
    Number();
    for (int n = static_cast<int>(nodes_.size()) - 1; n >= 0; --n) {
      if (group_of_[n] >= 0) JoinConsumer(n);
    }
    MergeSiblings();
    MergeScalars();
    return Outline();
  }

 private:
  struct Node {
    Instruction* instruction;
    FusionRole role;
    std::vector<int> operands, users;
    bool escapes = false;  // root, or used by something outside every kernel
    double cost = 0;
  };

  codegen::Verdict VerdictOf(const Instruction& i) const {
    if (IsClaimedBy(lowering_, i)) return {FusionRole::kNotFusible, ""};
    return codegen::Classify(i);
  }

  // Cycles per element to compute an instruction again from what stays in memory, or a large number when it reads more
  // than one array to do so: then a copy of it would cost traffic instead of saving some.
  double AgainCost(const Instruction* i, int depth) const {
    constexpr double kNever = 1e9;
    if (IsFreeSource(i)) return 0;
    if (i->Is(Opcode::kParameter) || i->Is(Opcode::kConstant) || i->Is(Opcode::kTuple) ||
        i->Is(Opcode::kGetTupleElement))
      return kNever;
    if (depth == 0 || VerdictOf(*i).role != FusionRole::kElementwise || !i->shape().IsArray()) return kNever;
    const Instruction* large = nullptr;
    for (const Instruction* o : i->operands()) {
      if (IsFreeSource(o) || o->shape().IsScalar() || o == large) continue;
      if (large != nullptr) return kNever;
      large = o;
    }
    const double own = codegen::CostPerElement(*i);
    if (large == nullptr || large->users().size() < 2) return own;
    const double below = AgainCost(large, depth - 1);
    return own + (below >= kNever || own + below > kAgainCycles ? 0 : below);
  }

  // Gives each user its own copy of what is cheaper to compute again than to store: sources and broadcasts, and
  // arithmetic on one array (a residual of a backward pass is then read from what it was made of).
  void DuplicateCheap() {
    std::vector<Instruction*> all = computation_->Snapshot();
    // Users first: a copied broadcast is a further user of its constant.
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      Instruction* i = *it;
      if (i->users().size() < 2 || i == computation_->root()) continue;
      const bool free = IsFreeSource(i);
      if (!free && (i->users().size() > kMaxCopies || i->shape().IsScalar() || AgainCost(i, 6) > kAgainCycles))
        continue;
      std::vector<Instruction*> users(i->users().begin(), i->users().end());
      if (!free && std::any_of(users.begin(), users.end(), [this](const Instruction* u) {
            const FusionRole r = VerdictOf(*u).role;
            return !u->shape().IsArray() || (r != FusionRole::kElementwise && r != FusionRole::kReduction);
          })) {
        continue;
      }
      for (size_t u = 1; u < users.size(); ++u) {
        if (VerdictOf(*users[u]).role == FusionRole::kNotFusible) continue;
        InstructionSpec spec;
        spec.opcode = i->opcode();
        spec.shape = i->shape();
        spec.operands.assign(i->operands().begin(), i->operands().end());
        spec.attrs = i->attrs();
        if (i->Is(Opcode::kConstant)) spec.literal = std::make_shared<const Literal>(i->literal());
        spec.metadata = i->metadata();
        Instruction* copy = computation_->AddBefore(users[u], std::move(spec));
        for (int64_t k = 0; k < users[u]->operand_count(); ++k) {
          if (users[u]->operand(k) == i) users[u]->ReplaceOperand(k, copy);
        }
      }
    }
  }

  void Number() {
    absl::flat_hash_map<const Instruction*, int> number;
    for (const auto& owned : computation_->instructions()) {
      Instruction* i = owned.get();
      codegen::Verdict v = VerdictOf(*i);
      Node node{i, v.role, {}, {}};
      if (i->Is(Opcode::kParameter) || i->Is(Opcode::kTuple) || i->Is(Opcode::kGetTupleElement) ||
          (i->Is(Opcode::kConstant) && !i->shape().IsScalar()) || !i->shape().IsArray()) {
        if (!(v.role == FusionRole::kReduction && i->shape().IsTuple()) && v.role != FusionRole::kWindow &&
            v.role != FusionRole::kUpdate && v.role != FusionRole::kAlone) {
          node.role = FusionRole::kNotFusible;
        } else if (i->Is(Opcode::kTuple) || i->Is(Opcode::kGetTupleElement) || i->Is(Opcode::kParameter) ||
                   i->Is(Opcode::kConstant)) {
          node.role = FusionRole::kNotFusible;
        }
      }
      node.cost = node.role == FusionRole::kNotFusible ? 0 : codegen::CostPerElement(*i);
      const int n = static_cast<int>(nodes_.size());
      number[i] = n;
      nodes_.push_back(std::move(node));
    }
    group_of_.assign(nodes_.size(), -1);
    runs_until_ = RunningKernels(static_cast<int>(nodes_.size()));
    seen_nodes_.assign(nodes_.size(), 0);
    search_steps_ = kSearchSteps + kSearchStepsEach * static_cast<int64_t>(nodes_.size());
    std::vector<int> latest_reader(nodes_.size(), -1);
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      Node& node = nodes_[n];
      for (Instruction* o : node.instruction->operands()) {
        const int p = number.at(o);
        if (latest_reader[p] == n) continue;
        latest_reader[p] = n;
        node.operands.push_back(p);
        nodes_[p].users.push_back(n);
      }
      if (node.role == FusionRole::kNotFusible) continue;
      group_of_[n] = static_cast<int>(groups_.size());
      Group g;
      g.members = {n};
      g.inputs = node.operands;
      std::sort(g.inputs.begin(), g.inputs.end());
      g.weight = IsFreeSource(node.instruction) ? 0 : 1;
      g.alone = node.role == FusionRole::kAlone;
      g.has_reduction = node.role == FusionRole::kReduction;
      if (node.instruction->shape().IsArray()) {
        g.space.assign(node.instruction->shape().dimensions().begin(), node.instruction->shape().dimensions().end());
      } else if (node.instruction->shape().tuple_size() > 0) {
        const Shape& s = node.instruction->shape().tuple_shapes(0);
        g.space.assign(s.dimensions().begin(), s.dimensions().end());
      }
      groups_.push_back(std::move(g));
    }
    seen_groups_.assign(groups_.size(), 0);
    for (Node& node : nodes_) {
      node.escapes = node.instruction->IsRoot();
      for (int u : node.users) node.escapes |= group_of_[u] < 0;
    }
  }

  // ---- joining a consumer's kernel

  void JoinConsumer(int n) {
    Node& p = nodes_[n];
    if (p.users.empty() || !p.instruction->shape().IsArray()) return;
    // A reduce with several results is followed by get-tuple-elements, which stay outside.
    if (p.role == FusionRole::kUpdate || p.role == FusionRole::kWindow || p.role == FusionRole::kAlone) return;
    std::set<int> targets;
    for (int u : p.users) {
      if (group_of_[u] >= 0) targets.insert(group_of_[u]);
    }
    if (targets.empty()) return;
    if (targets.size() == 1 && !p.escapes) {
      if (CanJoin(n, *targets.begin())) Absorb(group_of_[n], *targets.begin());
      return;
    }
    // Several users: one kernel with one output more, where everything is over the same elements, or per row of them.
    size_t tried = 0;
    for (int t : targets) {
      const Group& g = groups_[t];
      if (g.alone) continue;
      if (++tried > kMaxTargets) break;
      if (g.has_reduction || p.role == FusionRole::kReduction) {
        const bool rows =
            FeedsRowsOf(n, t) || (p.role == FusionRole::kElementwise && SameDims(p.instruction->shape(), g.space) &&
                                  !RowSpace(g).empty() && g.has_row_consumer);
        if (!rows || !CanJoin(n, t) || ReachesAround(group_of_[n], t) || !Plans(n, t)) continue;
      } else {
        if (p.role != FusionRole::kElementwise || !SameDims(p.instruction->shape(), g.space)) continue;
        if (!AllUsersElementwise(n, t) || !CanJoin(n, t) || ReachesAround(group_of_[n], t)) continue;
      }
      Absorb(group_of_[n], t);
      return;
    }
  }

  // n is a value of each row of the target's elements: a row reduction of them, or arithmetic on such.
  bool FeedsRowsOf(int n, int target) const {
    std::vector<int64_t> space = RowSpace(groups_[target]);
    if (space.empty()) space = groups_[target].space;
    return LeadsToRowReduction(n, space, 12);
  }

  bool LeadsToRowReduction(int n, const std::vector<int64_t>& space, int depth) const {
    const Node& p = nodes_[n];
    if (p.role == FusionRole::kReduction) {
      return p.instruction->shape().IsArray() && codegen::IsRowReduction(*p.instruction) &&
             SameDims(p.instruction->operand(0)->shape(), space);
    }
    if (p.role != FusionRole::kElementwise || depth == 0 ||
        static_cast<size_t>(p.instruction->shape().rank()) >= space.size())
      return false;
    for (int o : p.operands) {
      if (SameDims(nodes_[o].instruction->shape(), p.instruction->shape()) && LeadsToRowReduction(o, space, depth - 1))
        return true;
    }
    return false;
  }

  bool AllUsersElementwise(int n, int group) const {
    for (int u : nodes_[n].users) {
      if (group_of_[u] == group && (nodes_[u].role != FusionRole::kElementwise ||
                                    !SameDims(nodes_[u].instruction->shape(), nodes_[n].instruction->shape()))) {
        return false;
      }
    }
    for (int m : groups_[group].members) {
      if (nodes_[m].role != FusionRole::kElementwise && nodes_[m].role != FusionRole::kIndexing) return false;
    }
    return true;
  }

  bool CanJoin(int n, int target) const {
    const Node& p = nodes_[n];
    const Group& own = groups_[group_of_[n]];
    const Group& g = groups_[target];
    if (g.alone || own.alone) return false;
    if (own.weight + g.weight > kMaxInstructions) return false;
    if (ParameterCount(group_of_[n], target) > kMaxParameters) return false;
    if (p.instruction->Is(Opcode::kTranspose) && p.instruction->shape().num_elements() >= kLargeTranspose &&
        MovesMinorDimension(p.instruction)) {
      return false;
    }
    if (p.role == FusionRole::kReduction || own.has_reduction) return ReductionCanJoin(n, target);

    // How often each element of p is computed in the kernel.
    double times = 0;
    int distinct = 0;
    for (int u : p.users) {
      if (group_of_[u] != target) continue;
      const Node& c = nodes_[u];
      if (c.instruction->Is(Opcode::kTranspose) && c.instruction->shape().num_elements() >= kLargeTranspose &&
          MovesMinorDimension(c.instruction)) {
        return false;
      }
      double t = 1;
      const double out = static_cast<double>(std::max<int64_t>(1, ElementsOf(c)));
      const double in = static_cast<double>(std::max<int64_t>(1, p.instruction->shape().num_elements()));
      switch (c.role) {
        case FusionRole::kElementwise:
        case FusionRole::kReduction:
          break;
        case FusionRole::kWindow:
          return p.cost <= kCheapCycles && own.members.size() <= 2;
        case FusionRole::kUpdate:
          // The updated operand must stay a buffer: the kernel works in place on it.
          if (c.instruction->operand(0) == p.instruction) return false;
          break;
        default:
          t = std::max(1.0, out / in);
          ++distinct;
      }
      times = std::max(times, t);
    }
    if (distinct > 0 && !g.has_reduction && !IsCodeSmall(n, target)) return false;
    times = std::max(times, 1.0) * std::max(1, distinct);
    if (times > 1 && !FeedsRowsOf(n, target)) {
      double cost = 0;
      for (int m : own.members) cost += nodes_[m].cost;
      if (cost > kCheapCycles) return false;
    }
    return true;
  }

  // At how many indices the code of a kernel computes instruction n, given that for its users: users that only move
  // elements ask for other ones than the rest.
  double IndicesOf(int n, int group, const absl::flat_hash_map<int, double>& known) const {
    double same = 0, moved = 0;
    for (int u : nodes_[n].users) {
      if (group_of_[u] != group) continue;
      const double times = known.at(u);
      if (nodes_[u].role == FusionRole::kIndexing) {
        moved += times;
      } else {
        same = std::max(same, times);
      }
    }
    return std::max(1.0, same + moved);
  }

  // Whether the code stays small when n's group joins: each level of slices and pads of one value, as a scan by halves
  // has them, doubles what lies below.
  bool IsCodeSmall(int n, int target) const {
    const std::vector<int>& members = groups_[target].members;
    absl::flat_hash_map<int, double> indices;
    double total = 0;
    for (auto m = members.rbegin(); m != members.rend(); ++m) total += indices[*m] = IndicesOf(*m, target, indices);
    const double here = IndicesOf(n, target, indices);
    total += here * static_cast<double>(groups_[group_of_[n]].members.size());
    return here <= kMaxIndices && total <= 2 * kMaxInstructions;
  }

  bool ReductionCanJoin(int n, int target) const {
    const Node& p = nodes_[n];
    const Group& g = groups_[target];
    if (!p.instruction->shape().IsArray()) return false;
    // Users at the reduced shape: the epilogue of the reduction.
    bool at_reduced = true, on_rows = codegen::IsRowReduction(*ReductionOf(n));
    for (int u : p.users) {
      if (group_of_[u] != target) continue;
      const Node& c = nodes_[u];
      if (c.role != FusionRole::kElementwise || !SameDims(c.instruction->shape(), p.instruction->shape()))
        at_reduced = false;
    }
    const Instruction* reduce = ReductionOf(n);
    const Shape& input = reduce->operand(0)->shape();
    if (at_reduced && SameDims(p.instruction->shape(), g.space) && !g.has_row_consumer) {
      for (int m : g.members) {
        if (nodes_[m].role == FusionRole::kIndexing && !nodes_[m].instruction->Is(Opcode::kBroadcast)) return false;
        if (nodes_[m].role == FusionRole::kUpdate || nodes_[m].role == FusionRole::kWindow) return false;
      }
      return Plans(n, target);
    }
    if (on_rows) {
      // The kernel's space must be the rows that the reduction read, or have reductions of the same rows.
      const bool same_rows = SameDims(input, g.space) ||
                             RowSpace(g) == std::vector<int64_t>(input.dimensions().begin(), input.dimensions().end());
      if (same_rows) return Plans(n, target);
    }
    return false;
  }

  // The reduction inside n's group (n itself, or the one its epilogue follows).
  const Instruction* ReductionOf(int n) const {
    if (nodes_[n].role == FusionRole::kReduction) return nodes_[n].instruction;
    for (int m : groups_[group_of_[n]].members) {
      if (nodes_[m].role == FusionRole::kReduction) return nodes_[m].instruction;
    }
    return nodes_[n].instruction;
  }

  std::vector<int64_t> RowSpace(const Group& g) const {
    for (int m : g.members) {
      if (nodes_[m].role == FusionRole::kReduction && codegen::IsRowReduction(*nodes_[m].instruction)) {
        const Shape& s = nodes_[m].instruction->operand(0)->shape();
        return {s.dimensions().begin(), s.dimensions().end()};
      }
    }
    return {};
  }

  static int64_t ElementsOf(const Node& n) {
    const Shape& s = n.instruction->shape();
    return s.IsArray() ? s.num_elements() : s.tuple_size() > 0 ? s.tuple_shapes(0).num_elements() : 1;
  }

  // How many values the two would read as one kernel.
  int ParameterCount(int a, int b) const {
    const std::vector<int>&x = groups_[a].inputs, &y = groups_[b].inputs;
    int count = 0;
    for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
      const int input = j == y.size() || (i < x.size() && x[i] <= y[j]) ? x[i] : y[j];
      if (i < x.size() && x[i] == input) ++i;
      if (j < y.size() && y[j] == input) ++j;
      if (group_of_[input] != a && group_of_[input] != b) ++count;
    }
    return count;
  }

  void Absorb(int from, int into) {
    if (from == into) return;
    Group& a = groups_[into];
    Group& b = groups_[from];
    if (b.has_reduction) {
      const std::vector<int64_t> rows = RowSpace(b);
      if (!rows.empty() && rows == a.space) a.has_row_consumer = true;
    }
    for (int m : b.members) group_of_[m] = into;
    auto add = [](std::vector<int>& to, const std::vector<int>& more) {
      const auto middle = to.insert(to.end(), more.begin(), more.end());
      std::inplace_merge(to.begin(), middle, to.end());
    };
    add(a.members, b.members);
    add(a.inputs, b.inputs);
    a.inputs.erase(std::unique(a.inputs.begin(), a.inputs.end()), a.inputs.end());
    std::erase_if(a.inputs, [&](int i) { return group_of_[i] == into; });
    a.weight += b.weight;
    a.has_reduction |= b.has_reduction;
    a.has_row_consumer |= b.has_row_consumer;
    b = Group{};
    runs_until_.Add(a.members.front(), a.members.back());
  }

  // Nothing after the returned node can be needed by anything up to it, kernels running as a whole.
  int LastThatReaches(int group) const {
    int limit = groups_[group].members.back();
    for (int until = limit; (until = runs_until_.LastOf(limit)) > limit;) limit = until;
    return limit;
  }

  // Begins a search: nothing is seen yet.
  void StartSearch() const {
    ++search_;
    searched_ = 0;
  }
  bool SeeNode(int n) const {
    if (seen_nodes_[n] == search_) return false;
    seen_nodes_[n] = search_;
    ++searched_;
    --search_steps_;
    return true;
  }
  bool SeeGroup(int g) const {
    if (seen_groups_[g] == search_) return false;
    seen_groups_[g] = search_;
    return true;
  }
  bool SearchIsTooLong() const { return searched_ > kShortSearch && search_steps_ < 0; }

  // A path from group `a` to group `b` that leaves both: joining them would make a cycle.
  bool ReachesAround(int a, int b) const {
    const int limit = LastThatReaches(b);
    StartSearch();
    std::vector<int> stack;
    auto push_users = [&](int m, bool direct) {
      for (int u : nodes_[m].users) {
        if (u > limit) continue;
        if (group_of_[u] == a) continue;
        if (group_of_[u] == b) {
          if (!direct) return true;
          continue;
        }
        if (SeeNode(u)) stack.push_back(u);
      }
      return false;
    };
    for (int m : groups_[a].members) push_users(m, true);
    while (!stack.empty()) {
      if (SearchIsTooLong()) return true;
      const int m = stack.back();
      stack.pop_back();
      if (push_users(m, false)) return true;
      // The rest of a kernel runs with it: what its members reach is reached.
      if (group_of_[m] >= 0 && SeeGroup(group_of_[m])) {
        for (int o : groups_[group_of_[m]].members) {
          if (SeeNode(o)) stack.push_back(o);
        }
      }
    }
    return false;
  }

  // Kernels of the same space that read the same large operand become one with several outputs.
  void MergeSiblings() {
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      const Shape& s = nodes_[n].instruction->shape();
      if (!s.IsArray() || s.num_elements() < 1024 || nodes_[n].users.size() < 2) continue;
      std::vector<int> users;
      StartSearch();
      for (int u : nodes_[n].users) {
        const int g = group_of_[u];
        if (g < 0 || g == group_of_[n] || !SeeGroup(g) || !MayBeSibling(groups_[g], s)) continue;
        users.push_back(g);
      }
      for (size_t i = 0; i + 1 < users.size(); ++i) {
        const size_t end = std::min(users.size(), i + 1 + kMaxSiblings);
        for (size_t j = i + 1; j < end; ++j) {
          if (groups_[users[i]].members.empty() || groups_[users[j]].members.empty() || users[i] == users[j]) continue;
          if (SiblingsFit(users[i], users[j])) Absorb(users[j], users[i]);
        }
      }
    }
  }

  bool MayBeSibling(const Group& g, const Shape& shared) const {
    if (g.alone || g.has_reduction || !SameDims(shared, g.space)) return false;
    return std::all_of(g.members.begin(), g.members.end(), [this](int m) {
      return nodes_[m].role == FusionRole::kElementwise || nodes_[m].instruction->Is(Opcode::kBroadcast) ||
             nodes_[m].instruction->Is(Opcode::kIota);
    });
  }

  // Of two that may be siblings.
  bool SiblingsFit(int a, int b) const {
    if (groups_[a].weight + groups_[b].weight > kMaxInstructions || ParameterCount(a, b) > kMaxParameters / 2)
      return false;
    if (DirectlyDepends(a, b) || DirectlyDepends(b, a)) return false;  // needs the intermediate: leave
    return !Reaches(a, b) && !Reaches(b, a);
  }

  // Arithmetic on single elements: a kernel costs more to call than such a one to run.
  void MergeScalars() {
    std::vector<int> kernels;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      if (!IsScalarKernel(groups_[g])) continue;
      bool merged = false;
      for (size_t k = kernels.size(); k-- > 0 && kernels.size() - k <= kMaxTries && !merged;) {
        const int other = kernels[k];
        if (groups_[g].weight + groups_[other].weight > kMaxInstructions) continue;
        if (ParameterCount(g, other) > kMaxParameters / 2) continue;
        if (ReachesAround(g, other) || ReachesAround(other, g)) continue;
        Absorb(g, other);
        merged = true;
      }
      if (!merged) kernels.push_back(g);
    }
  }

  bool IsScalarKernel(const Group& g) const {
    if (g.members.empty() || g.alone || g.has_reduction || g.weight == 0) return false;
    for (int m : g.members) {
      const Instruction* i = nodes_[m].instruction;
      if (!i->shape().IsArray() || i->shape().num_elements() != 1) return false;
      if (nodes_[m].role != FusionRole::kElementwise && !IsFreeSource(i)) return false;
    }
    return true;
  }

  bool DirectlyDepends(int a, int b) const {
    for (int m : groups_[a].members) {
      for (int o : nodes_[m].operands) {
        if (group_of_[o] == b) return true;
      }
    }
    return false;
  }

  bool Reaches(int a, int b) const {
    const int limit = LastThatReaches(b);
    StartSearch();
    std::vector<int> stack = groups_[a].members;
    for (int m : stack) SeeNode(m);
    while (!stack.empty()) {
      if (SearchIsTooLong()) return true;
      const int m = stack.back();
      stack.pop_back();
      for (int u : nodes_[m].users) {
        if (group_of_[u] == b) return true;
        if (u > limit) continue;
        if (SeeNode(u)) stack.push_back(u);
        if (group_of_[u] >= 0 && SeeGroup(group_of_[u])) {
          for (int o : groups_[group_of_[u]].members) {
            if (SeeNode(o)) stack.push_back(o);
          }
        }
      }
    }
    return false;
  }

  // ---- trying and making the kernel's computation

  // Whether one kernel can hold n's group together with the target's.
  bool Plans(int n, int target) const {
    std::vector<int> members = groups_[group_of_[n]].members;
    members.insert(members.end(), groups_[target].members.begin(), groups_[target].members.end());
    std::sort(members.begin(), members.end());
    Module scratch("plan");
    std::vector<int> inputs, outputs;
    absl::StatusOr<Computation*> c = MakeComputation(&scratch, members, &inputs, &outputs);
    if (!c.ok()) return false;
    return codegen::PlanKernel(**c, {}, "plan").ok();
  }

  absl::StatusOr<Computation*> MakeComputation(Module* module, const std::vector<int>& members,
                                               std::vector<int>* inputs, std::vector<int>* outputs) const {
    absl::flat_hash_set<int> inside(members.begin(), members.end());
    Computation* c = module->AddComputation("fused_computation");
    c->set_is_fusion(true);
    absl::flat_hash_map<int, Instruction*> made;
    for (int m : members) {
      for (int o : nodes_[m].operands) {
        if (inside.contains(o) || made.contains(o)) continue;
        InstructionSpec spec;
        spec.opcode = Opcode::kParameter;
        spec.shape = nodes_[o].instruction->shape();
        spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(inputs->size()));
        spec.name = absl::StrCat("param_", inputs->size());
        made[o] = c->Add(std::move(spec));
        inputs->push_back(o);
      }
    }
    absl::flat_hash_map<const Instruction*, int> number;
    for (int m : members) {
      for (int o : nodes_[m].operands) number[nodes_[o].instruction] = o;
    }
    absl::flat_hash_map<uint64_t, std::vector<int>> distinct;  // members with an instruction of their own, by a hash
    for (int m : members) {
      const Instruction* i = nodes_[m].instruction;
      std::vector<Instruction*> operands;
      for (Instruction* o : i->operands()) operands.push_back(made.at(number.at(o)));
      // Copies made for two users that ended up in one kernel are one again.
      Instruction* twin = nullptr;
      uint64_t hash = i->HashWithoutOperands();
      for (const Instruction* o : operands) hash = (hash ^ static_cast<uint64_t>(o->id())) * 0x9e3779b97f4a7c15u;
      std::vector<int>& alike = distinct[hash];
      for (int d : alike) {
        if (SameInstruction(*nodes_[d].instruction, *i) && made.at(d)->operands() == absl::MakeConstSpan(operands))
          twin = made.at(d);
      }
      if (twin != nullptr) {
        made[m] = twin;
        continue;
      }
      alike.push_back(m);
      InstructionSpec spec;
      spec.opcode = i->opcode();
      spec.shape = i->shape();
      spec.operands = std::move(operands);
      spec.attrs = i->attrs();
      spec.metadata = i->metadata();
      if (i->Is(Opcode::kConstant)) spec.literal = std::make_shared<const Literal>(i->literal());
      for (Computation* called : i->called()) {
        spec.called.push_back(module == computation_->parent() ? called : module->CloneComputation(called));
      }
      made[m] = c->Add(std::move(spec));
    }
    for (int m : members) {
      bool needed = nodes_[m].instruction->IsRoot() || nodes_[m].escapes;
      for (int u : nodes_[m].users) needed |= !inside.contains(u);
      if (needed) outputs->push_back(m);
    }
    if (outputs->empty()) outputs->push_back(members.back());
    if (outputs->size() == 1) {
      c->set_root(made.at(outputs->front()));
    } else {
      InstructionSpec tuple;
      tuple.opcode = Opcode::kTuple;
      std::vector<Shape> shapes;
      for (int m : *outputs) {
        if (!nodes_[m].instruction->shape().IsArray()) {
          return absl::InternalError(
              absl::StrCat(nodes_[m].instruction->name(), ": a tuple is not one of several kernel outputs"));
        }
        tuple.operands.push_back(made.at(m));
        shapes.push_back(nodes_[m].instruction->shape());
      }
      tuple.shape = Shape::Tuple(std::move(shapes));
      c->set_root(c->Add(std::move(tuple)));
    }
    return c;
  }

  absl::StatusOr<bool> Outline() {
    bool changed = false;
    Module* module = computation_->parent();
    for (Group& g : groups_) {
      if (g.members.empty()) continue;
      if (g.members.size() == 1) {
        const Instruction* only = nodes_[g.members[0]].instruction;
        // Aliases and scalar constants need no kernel.
        if (only->Is(Opcode::kReshape) || only->Is(Opcode::kBitcast) || only->Is(Opcode::kConstant)) continue;
      }
      std::vector<int> inputs, outputs;
      ASSIGN_OR_RETURN(Computation * c, MakeComputation(module, g.members, &inputs, &outputs));
      InstructionSpec spec;
      spec.opcode = Opcode::kFusion;
      spec.shape = c->root()->shape();
      for (int i : inputs) spec.operands.push_back(nodes_[i].instruction);
      spec.called = {c};
      spec.attrs.SetEnum(AttrId::kFusionKind, FusionKind::kLoop);
      spec.metadata = nodes_[outputs.back()].instruction->metadata();
      spec.name = absl::StrCat(FusionName(g), "_fusion");
      Instruction* fusion = computation_->Add(std::move(spec));
      for (size_t k = 0; k < outputs.size(); ++k) {
        Instruction* old = nodes_[outputs[k]].instruction;
        Instruction* now = fusion;
        if (outputs.size() > 1) {
          InstructionSpec gte;
          gte.opcode = Opcode::kGetTupleElement;
          gte.shape = old->shape();
          gte.operands = {fusion};
          gte.attrs.Set(AttrId::kTupleIndex, static_cast<int64_t>(k));
          now = computation_->Add(std::move(gte));
        }
        old->ReplaceAllUsesWith(now);
        nodes_[outputs[k]].instruction = now;  // later groups read the new value
      }
      changed = true;
    }
    computation_->RemoveDead();
    computation_->SortTopologically();
    absl::flat_hash_set<const Instruction*> done;
    for (const auto& i : computation_->instructions()) {
      for (const Instruction* o : i->operands()) {
        if (!done.contains(o))
          return absl::InternalError(absl::StrCat(i->name(), ": fused into a cycle through ", o->name()));
      }
      done.insert(i.get());
    }
    return changed;
  }

  std::string FusionName(const Group& g) const {
    std::string name;
    int shown = 0;
    for (auto m = g.members.rbegin(); m != g.members.rend() && shown < 3; ++m) {
      const Instruction* i = nodes_[*m].instruction;
      if (i->Is(Opcode::kConstant) || i->Is(Opcode::kBroadcast)) continue;
      name = absl::StrCat(OpName(i->opcode()), shown ? "_" : "", name);
      ++shown;
    }
    return name.empty() ? "broadcast" : name;
  }

  Computation* computation_;
  const CustomLowering* lowering_;
  std::vector<Node> nodes_;
  std::vector<int> group_of_;
  std::vector<Group> groups_;
  RunningKernels runs_until_{0};
  // Of the latest search: what it has seen carries its number.
  mutable int64_t search_ = 0, searched_ = 0, search_steps_ = 0;
  mutable std::vector<int64_t> seen_nodes_, seen_groups_;
};

void CollectRunning(Computation* c, absl::flat_hash_set<Computation*>& seen, std::vector<Computation*>& order) {
  if (!seen.insert(c).second) return;
  for (const auto& i : c->instructions()) {
    if (!i->Is(Opcode::kWhile) && !i->Is(Opcode::kConditional) && !i->Is(Opcode::kCall)) continue;
    for (Computation* called : i->called()) CollectRunning(called, seen, order);
  }
  order.push_back(c);
}

}  // namespace

absl::StatusOr<bool> Fuse::Run(Module* module) {
  absl::flat_hash_set<Computation*> seen;
  std::vector<Computation*> running;
  CollectRunning(module->entry(), seen, running);
  bool changed = false;
  for (Computation* c : running) {
    ASSIGN_OR_RETURN(bool one, ComputationFuser(c, lowering_).Run());
    changed |= one;
  }
  return changed;
}

}  // namespace backplane::engine
