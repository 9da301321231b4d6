#include "plugins/cpu/codegen/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "plugins/cpu/codegen/classify.h"
#include "plugins/cpu/codegen/element_emitter.h"
#include "plugins/cpu/codegen/planner.h"

namespace backplane::cpu::codegen {
namespace {

constexpr int64_t kMinParallelUnits = 16;
constexpr int64_t kMaxPartials = 64;
constexpr int64_t kWorthSplitting = 32768;  // reduced elements for one result

int64_t Product(absl::Span<const int64_t> v) {
  int64_t p = 1;
  for (int64_t n : v) p *= n;
  return p;
}

const Shape& ShapeOf(const Target& t) {
  const Shape& s = t.instruction->shape();
  return s.IsTuple() ? s.tuple_shapes(t.element) : s;
}

std::vector<int64_t> ExtentsOf(const Shape& s) {
  std::vector<int64_t> r;
  for (int64_t n : s.dimensions()) {
    if (n != 1) r.push_back(n);
  }
  return r;
}

class Planner {
 public:
  Planner(const Computation& c, const KernelOptions& options)
      : computation_(c), options_(options), host_(options.host ? *options.host : jit::Host()) {
    plan_.computation = &c;
    plan_.inputs = static_cast<int>(c.parameters().size());
  }

  absl::StatusOr<FusionPlan> Run() {
    for (const auto& op : computation_.instructions()) {
      RETURN_IF_ERROR(CanEmit(*op));
      if (op->Is(Opcode::kParameter) && !op->shape().IsArray()) {
        return absl::UnimplementedError(absl::StrCat(op->name(), ": a kernel takes arrays, not ", op->shape().ToString()));
      }
    }
    std::vector<Target> outputs = OutputsOf(computation_);
    plan_.outputs = static_cast<int>(outputs.size());
    std::vector<Target> plain;
    for (const Target& t : outputs) {
      if (ShapeOf(t).num_elements() == 0) continue;
      ASSIGN_OR_RETURN(bool done, PlanSpecial(t, outputs));
      if (!done) plain.push_back(t);
    }
    RETURN_IF_ERROR(PlanTargets(std::move(plain)));
    return std::move(plan_);
  }

 private:
  int NewTemp(int64_t bytes) {
    plan_.temp_bytes.push_back(RoundUp(bytes, 64) + 64);
    return plan_.inputs + plan_.outputs + static_cast<int>(plan_.temp_bytes.size()) - 1;
  }

  void Push(Phase phase) {
    for (const Materialized& m : stored_) {
      if (materialized_.contains(m.instruction)) phase.reads.push_back(m);
    }
    plan_.phases.push_back(std::move(phase));
  }

  bool IsShared(int output_buffer) const {
    for (const InPlacePair& p : options_.shared) {
      if (p.output + plan_.inputs == output_buffer) return true;
    }
    return false;
  }

  // Outputs whose operation has loops of its own.
  absl::StatusOr<bool> PlanSpecial(const Target& t, const std::vector<Target>& outputs) {
    const Instruction* op = t.instruction;
    if (op->Is(Opcode::kGetTupleElement) && (op->operand(0)->Is(Opcode::kScatter))) {
      return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
    }
    switch (op->opcode()) {
      case Opcode::kDynamicUpdateSlice: {
        if (!IsShared(t.buffer)) {
          RETURN_IF_ERROR(PlanTargets({{op->operand(0), 0, t.buffer}}));
        }
        if (op->operand(1)->shape().num_elements() == 0) return true;
        Target update{op->operand(1), 0, t.buffer};
        update.window = op;
        RETURN_IF_ERROR(PlanTargets({update}));
        return true;
      }
      case Opcode::kConcatenate: {
        // Part by part, when the parts are long enough for loops of their own.
        int64_t d = op->dimensions()[0], inner = 1;
        for (int64_t i = d + 1; i < op->shape().rank(); ++i) inner *= op->shape().dimensions(i);
        int64_t smallest = std::numeric_limits<int64_t>::max();
        for (const Instruction* x : op->operands()) smallest = std::min(smallest, x->shape().dimensions(d) * inner);
        if (op->operand_count() > 64 || smallest < 32) return false;
        for (int64_t i = 0; i < op->operand_count(); ++i) {
          Target part{op->operand(i), 0, t.buffer};
          part.window = op;
          part.part = static_cast<int>(i);
          RETURN_IF_ERROR(PlanTargets({part}));
        }
        return true;
      }
      case Opcode::kScatter: {
        // All results of one scatter are made together, with the first of them.
        if (t.element != 0) return true;
        Phase phase;
        phase.kind = PhaseKind::kScatter;
        phase.special = op;
        int64_t n = (op->operand_count() - 1) / 2;
        for (int64_t i = 0; i < n; ++i) {
          const Target* out = nullptr;
          for (const Target& o : outputs) {
            if (o.instruction == op && o.element == i) out = &o;
          }
          if (out == nullptr) return absl::UnimplementedError(absl::StrCat(op->name(), ": part of a scatter's results"));
          if (!IsShared(out->buffer)) RETURN_IF_ERROR(PlanTargets({{op->operand(i), 0, out->buffer}}));
          phase.targets.push_back(*out);
        }
        return PlanScatter(std::move(phase));
      }
      case Opcode::kSelectAndScatter:
        return PlanSelectAndScatter(t);
      case Opcode::kReduceWindow: {
        int64_t d;
        bool reverse;
        if (t.element == 0 && !op->shape().IsTuple() && IsCumulative(*op, &d, &reverse) && op->operand(0)->shape().dimensions(d) > 4) {
          return PlanScan(t, d);
        }
        return false;
      }
      default:
        return false;
    }
  }

  bool PlanScatter(Phase phase) {
    const Instruction* op = phase.special;
    int64_t n = (op->operand_count() - 1) / 2;
    const Shape& updates = op->operand(n + 1)->shape();
    const ScatterDimensions& s = op->scatter_dims();
    if (updates.num_elements() == 0) return true;
    // Lanes along the last dimension when it is a window dimension that is contiguous in the output.
    int64_t last = updates.rank() - 1;
    bool window_last = last >= 0 && !s.update_window_dims.empty() && s.update_window_dims.back() == last;
    int64_t rank = op->operand(0)->shape().rank();
    auto in = [](const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); };
    window_last = window_last && !in(s.inserted_window_dims, rank - 1) && !in(s.input_batching_dims, rank - 1);
    int64_t extent = window_last ? updates.dimensions(last) : 1;
    int width = 1;
    for (int64_t i = 0; i < n; ++i) {
      PrimitiveType t = op->operand(i)->shape().element_type();
      width = std::max(width, RowBytes(IsComplex(t) ? ComplexPart(t) : t));
    }
    int64_t lanes = LanesFor(host_, width);
    if (extent < lanes) lanes = extent >= 4 ? std::bit_ceil(static_cast<uint64_t>(extent)) : 0;
    phase.lanes = lanes;
    phase.masked_tail = true;
    phase.work_units = 1;
    if (lanes > 0) {
      phase.inner_block = RoundUp(std::max<int64_t>(lanes, CeilDiv(extent, 8)), lanes);
      phase.work_units = CeilDiv(extent, phase.inner_block);
    }
    phase.cycles = static_cast<double>(updates.num_elements()) * (lanes > 0 ? 1.0 : 8.0);
    phase.note = absl::StrCat("scatter of ", updates.ToString(), lanes > 0 ? ", vectors" : ", scalars");
    Push(std::move(phase));
    return true;
  }

  absl::StatusOr<bool> PlanSelectAndScatter(const Target& t) {
    const Instruction* op = t.instruction;
    Phase fill;
    fill.kind = PhaseKind::kLoop;
    Target init{op->operand(2), 0, t.buffer};
    init.window = op;  // the scalar fills the whole
    fill.targets = {init};
    fill.extents = {op->shape().num_elements()};
    FinishFlat(fill, RowBytes(op->shape().element_type()));
    fill.note = "fill";
    Push(std::move(fill));

    Phase phase;
    phase.kind = PhaseKind::kSelectAndScatter;
    phase.special = op;
    phase.targets = {t};
    const Shape& source = op->operand(1)->shape();
    if (source.num_elements() == 0) return true;
    auto plain = [&](int64_t d) {
      const WindowDimension& w = op->window().dimensions[d];
      return w.size == 1 && w.stride == 1 && w.padding_low == 0 && w.padding_high == 0;
    };
    int64_t rank = source.rank();
    phase.work_units = 1;
    for (int64_t d = 0; d < rank && plain(d); ++d) {
      if (d == rank - 1) break;
      phase.work_units *= source.dimensions(d);
      phase.unit_groups = static_cast<int>(d) + 1;
    }
    if (rank > 0 && plain(rank - 1)) {
      PrimitiveType type = op->shape().element_type();
      int64_t lanes = LanesFor(host_, std::max(RowBytes(IsComplex(type) ? ComplexPart(type) : type), 8));
      int64_t extent = source.dimensions(rank - 1);
      if (extent < lanes) lanes = extent >= 4 ? std::bit_ceil(static_cast<uint64_t>(extent)) : 0;
      phase.lanes = lanes;
    }
    phase.masked_tail = true;
    phase.cycles = CostPerElement(*op) * static_cast<double>(source.num_elements()) * (phase.lanes > 0 ? 2 : 8);
    phase.note = absl::StrCat("select-and-scatter, ", phase.work_units, " units");
    Push(std::move(phase));
    return true;
  }

  absl::StatusOr<bool> PlanScan(const Target& t, int64_t d) {
    const Instruction* op = t.instruction;
    const Shape& s = op->shape();
    Phase phase;
    phase.kind = PhaseKind::kScan;
    phase.special = op;
    phase.targets = {t};
    PrimitiveType type = s.element_type();
    int width = RowBytes(IsComplex(type) ? ComplexPart(type) : type);
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < d; ++i) outer *= s.dimensions(i);
    for (int64_t i = d + 1; i < s.rank(); ++i) inner *= s.dimensions(i);
    Combiner c = AnalyzeCombiner(*op->called(0));
    int64_t lanes = LanesFor(host_, width);
    if (inner == 1) {
      lanes = c.op && !IsComplex(type) && !IsSmallFloat(type) ? lanes / 2 : 0;
      phase.work_units = outer;
    } else {
      if (inner < lanes) lanes = inner >= 4 ? std::bit_ceil(static_cast<uint64_t>(inner)) : 0;
      phase.work_units = outer * (lanes > 0 ? CeilDiv(inner, lanes) : inner);
    }
    phase.lanes = lanes;
    phase.cycles = static_cast<double>(s.num_elements()) * (lanes > 0 ? 0.6 * width / 4 : 5);
    phase.note = absl::StrCat("cumulative along ", s.dimensions(d), lanes > 0 ? ", vectors" : ", scalars");
    Push(std::move(phase));
    return true;
  }

  // Splits targets into groups that share loops.
  absl::Status PlanTargets(std::vector<Target> targets) {
    std::stable_sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) {
      return ShapeOf(a).num_elements() > ShapeOf(b).num_elements();
    });
    std::vector<Target> rest;
    std::vector<Target> group;
    for (const Target& t : targets) {
      if (group.empty()) {
        group.push_back(t);
      } else if (group[0].window == nullptr && t.window == nullptr &&
                 ExtentsOf(ShapeOf(t)) == ExtentsOf(ShapeOf(group[0]))) {
        group.push_back(t);
      } else {
        rest.push_back(t);
      }
    }
    if (group.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(PlanGroup(std::move(group), rest));
    return PlanTargets(std::move(rest));
  }

  // Walks all targets of the phase, cutting its extents until reshapes inside fall on loop boundaries.
  GroupWalk Walk(Phase& phase) {
    for (int attempt = 0;; ++attempt) {
      GroupWalk w;
      phase.groups.clear();
      w.loops = MakeLoops(w.vars, phase);
      AccessWalk walk(w.vars, materialized_);
      std::vector<Affine> stores;
      for (const Target& t : phase.targets) {
        Index index = TargetIndex(w.vars, phase, w.loops, t);
        walk.Visit(t.instruction, ValueIndex(t, index));
        stores.push_back(StoreAddress(w.vars, t, index));
      }
      walk.Finish();
      w.accesses = walk.accesses();
      w.reduces = walk.reduces();
      w.observed = walk.observed();
      for (size_t i = 0; i < stores.size(); ++i) {
        if (!phase.targets[i].row) w.observed.push_back(stores[i]);
      }
      w.visited = walk.visited();
      w.too_complex = walk.too_complex();
      if (attempt == 12 || !ApplySplits(w.vars.splits(), w.loops.vars, phase.extents)) return w;
    }
  }

  static Index ValueIndex(const Target& t, const Index& index) {
    // A scalar that fills an array has no index.
    return t.instruction->shape().IsArray() && t.instruction->shape().rank() == 0 ? Index{} : index;
  }

  static std::set<VarId> LoopVarsOf(const VarTable& vars, const Index& index) {
    std::set<VarId> r;
    for (const Affine& e : index) vars.ForEachLoopVar(e, [&](VarId v) { r.insert(v); });
    return r;
  }

  absl::Status PlanGroup(std::vector<Target> group, std::vector<Target>& rest) {
    Phase phase;
    phase.targets = std::move(group);
    phase.extents = ExtentsOf(ShapeOf(phase.targets[0]));
    for (int round = 0; round < 64; ++round) {
      GroupWalk w = Walk(phase);
      if (w.too_complex) {
        return absl::UnimplementedError(absl::StrCat(phase.targets[0].instruction->name(), ": the fusion reads too many different elements"));
      }
      std::set<VarId> root(w.loops.vars.begin(), w.loops.vars.end());
      int64_t elements = Product(phase.extents);
      // Reductions worth a loop structure of their own.
      std::vector<const ReduceUse*> uses;
      std::vector<const Instruction*> cut;
      std::set<VarId> unit_vars;
      for (const ReduceUse& u : w.reduces) {
        int64_t reduced = 1;
        for (int64_t d : SortedDims(*u.reduce)) reduced *= u.reduce->operand(0)->shape().dimensions(d);
        std::set<VarId> deps = LoopVarsOf(w.vars, u.index);
        bool foreign = false;
        int64_t evaluations = 1;
        for (VarId v : deps) {
          foreign = foreign || !root.contains(v);
          evaluations *= w.vars.extent(v);
        }
        if (reduced <= 16 && evaluations <= 2 * FirstShape(*u.reduce).num_elements()) continue;
        if (foreign) {
          cut.push_back(u.reduce);
          continue;
        }
        uses.push_back(&u);
        unit_vars.insert(deps.begin(), deps.end());
      }
      bool all = unit_vars.size() == root.size();
      if (!uses.empty() && cut.empty()) {
        int64_t units = 1;
        for (VarId v : unit_vars) units *= w.vars.extent(v);
        // A row kernel wants its units first and something left to sweep over.
        bool prefix = true;
        for (size_t i = 0; i < unit_vars.size(); ++i) prefix = prefix && unit_vars.contains(w.loops.vars[i]);
        bool few = !all && units < kMinParallelUnits && elements / std::max<int64_t>(units, 1) >= kWorthSplitting;
        for (const ReduceUse* u : uses) {
          if ((!all && (!prefix || few)) || units > 1.5 * static_cast<double>(FirstShape(*u->reduce).num_elements())) {
            cut.push_back(u->reduce);
          }
        }
      }
      if (!cut.empty()) {
        RETURN_IF_ERROR(Materialize(cut));
        continue;
      }
      if (uses.empty()) return FinishLoop(std::move(phase), w, 0, false);
      if (!all) {
        // Outputs with one element for each row are written by the same units.
        int64_t units = 1;
        for (VarId v : unit_vars) units *= w.vars.extent(v);
        bool added = false;
        for (auto it = rest.begin(); it != rest.end();) {
          if (ShapeOf(*it).num_elements() == units && it->window == nullptr && phase.targets[0].window == nullptr && FitsRows(phase, *it, unit_vars.size())) {
            Target t = *it;
            t.row = true;
            phase.targets.push_back(t);
            it = rest.erase(it);
            added = true;
          } else {
            ++it;
          }
        }
        if (added) continue;
        return FinishLoop(std::move(phase), w, unit_vars.size(), true);
      }
      return FinishReduction(std::move(phase), w, uses);
    }
    return absl::InternalError("the fusion cannot be cut into phases");
  }

  // Whether adding the row output keeps all reductions at the rows.
  bool FitsRows(const Phase& phase, const Target& t, size_t unit_vars) {
    Phase trial = phase;
    Target row = t;
    row.row = true;
    trial.targets.push_back(row);
    size_t before = trial.extents.size();
    GroupWalk w = Walk(trial);
    if (trial.extents.size() != before) return false;
    std::set<VarId> allowed(w.loops.vars.begin(), w.loops.vars.begin() + unit_vars);
    for (const ReduceUse& u : w.reduces) {
      for (VarId v : LoopVarsOf(w.vars, u.index)) {
        if (!allowed.contains(v)) return false;
      }
    }
    return true;
  }

  // Computes reductions ahead, into temporaries.
  absl::Status Materialize(const std::vector<const Instruction*>& cut) {
    std::vector<Target> targets;
    std::vector<const Instruction*> sorted = cut;
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::vector<const Instruction*> done;
    for (const Instruction* r : sorted) {
      if (materialized_.contains(r)) continue;
      // An output that is this very reduction is written here as well, and read from there.
      int64_t n = r->operand_count() / 2;
      for (int64_t i = 0; i < n; ++i) {
        const Shape& s = r->shape().IsTuple() ? r->shape().tuple_shapes(i) : r->shape();
        int buffer = NewTemp(s.byte_size());
        targets.push_back({r, static_cast<int>(i), buffer});
        stored_.push_back({r, static_cast<int>(i), buffer});
      }
      done.push_back(r);
    }
    if (targets.empty()) return absl::InternalError("a reduction cannot be computed ahead");
    RETURN_IF_ERROR(PlanTargets(targets));
    for (const Instruction* r : done) materialized_.insert(r);
    return absl::OkStatus();
  }

  int WidthOf(const AccessWalk::ArraySet& visited, const Phase& phase) {
    int width = 1;
    auto see = [&](PrimitiveType t) { width = std::max(width, RowBytes(IsComplex(t) ? ComplexPart(t) : t)); };
    for (const Instruction* x : visited) {
      if (x->shape().IsArray() && x->shape().rank() > 0) see(x->shape().element_type());
    }
    for (const Target& t : phase.targets) see(ShapeOf(t).element_type());
    return width;
  }

  double CyclesOf(const AccessWalk::ArraySet& visited) {
    std::vector<double> costs;
    double cycles = 0;
    for (const Instruction* x : visited) {
      if (materialized_.contains(x)) continue;
      double n = x->Is(Opcode::kReduce) ? static_cast<double>(x->operand(0)->shape().num_elements())
                                        : static_cast<double>(FirstShape(*x).num_elements());
      costs.push_back(CostPerElement(*x) * n);
    }
    std::sort(costs.begin(), costs.end());  // the set has no order, a sum of doubles does
    for (double c : costs) cycles += c;
    return cycles;
  }

  bool AnyShared(const Phase& phase) const {
    for (const Target& t : phase.targets) {
      if (IsShared(t.buffer)) return true;
    }
    return false;
  }

  void FinishFlat(Phase& phase, int width) {
    phase.groups = {{}};
    for (size_t i = 0; i < phase.extents.size(); ++i) phase.groups[0].push_back(static_cast<int>(i));
    int64_t n = Product(phase.extents);
    phase.lanes = LanesFor(host_, width);
    if (n < phase.lanes) phase.lanes = n >= 4 ? std::bit_ceil(static_cast<uint64_t>(n)) : 0;
    phase.work_units = phase.lanes > 0 ? CeilDiv(n, phase.lanes) : n;
    phase.unit_groups = 0;
    phase.masked_tail = phase.lanes > 0 && (n < phase.lanes || (n % phase.lanes != 0 && AnyShared(phase)));
    phase.cycles += 0.25 * static_cast<double>(n);
  }

  // A phase with lanes along its last loop. `rows`: its first `unit_vars` variables are the units, the rest is the row.
  absl::Status FinishLoop(Phase phase, const GroupWalk& w, size_t unit_vars, bool rows, bool allow_transpose = true) {
    phase.kind = PhaseKind::kLoop;
    phase.rows = rows;
    int width = WidthOf(w.visited, phase);
    phase.cycles = CyclesOf(w.visited);
    int64_t elements = Product(phase.extents);
    // Joined loops; the units of a row kernel stay apart from its rows.
    std::vector<VarId> first(w.loops.vars.begin(), w.loops.vars.begin() + unit_vars);
    std::vector<VarId> second(w.loops.vars.begin() + unit_vars, w.loops.vars.end());
    auto positions = [&](const std::vector<VarId>& g) {
      std::vector<int> r;
      for (VarId v : g) r.push_back(static_cast<int>(std::find(w.loops.vars.begin(), w.loops.vars.end(), v) - w.loops.vars.begin()));
      return r;
    };
    std::vector<std::vector<VarId>> groups = MergeVars(w.vars, first, w.observed);
    size_t unit_groups = groups.size();
    for (auto& g : MergeVars(w.vars, second, w.observed)) groups.push_back(std::move(g));
    if (groups.empty()) {
      FinishFlat(phase, width);
      phase.note = "one element";
      Push(std::move(phase));
      return absl::OkStatus();
    }
    auto extent = [&](const std::vector<VarId>& g) {
      int64_t n = 1;
      for (VarId v : g) n *= w.vars.extent(v);
      return n;
    };
    if (!rows) {
      if (allow_transpose && !AnyShared(phase) && PlanTranspose(phase, w, groups, host_)) {
        for (const auto& g : groups) phase.groups.push_back(positions(g));
        phase.cycles += static_cast<double>(elements);
        phase.note = absl::StrCat("transpose: tiles of ", phase.tile_rows, " x ", phase.tile_columns);
        Push(std::move(phase));
        return absl::OkStatus();
      }
      // Short last loops join the next outer ones; their indices then differ from lane to lane.
      int64_t wanted = LanesFor(host_, width);
      while (groups.size() > 1 && extent(groups.back()) < wanted / 2) {
        std::vector<VarId> inner = std::move(groups.back());
        groups.pop_back();
        groups.back().insert(groups.back().end(), inner.begin(), inner.end());
      }
      unit_groups = groups.size() - 1;
    }
    phase.groups.clear();
    for (const auto& g : groups) phase.groups.push_back(positions(g));
    int64_t inner = extent(groups.back());
    phase.lanes = LanesFor(host_, width);
    if (inner < phase.lanes) phase.lanes = inner >= 4 ? std::bit_ceil(static_cast<uint64_t>(inner)) : 0;
    phase.masked_tail = phase.lanes > 0 && (inner < phase.lanes || (inner % phase.lanes != 0 && AnyShared(phase)));
    if (groups.size() == 1 && !rows) {
      FinishFlat(phase, width);
      phase.note = absl::StrCat("flat: ", elements, " elements, ", phase.lanes, " lanes");
      Push(std::move(phase));
      return absl::OkStatus();
    }
    phase.unit_groups = static_cast<int>(unit_groups);
    phase.work_units = 1;
    for (size_t g = 0; g < unit_groups; ++g) phase.work_units *= extent(groups[g]);
    if (rows) {
      PlanRows(phase, w, elements / phase.work_units);
      phase.note = absl::StrCat("rows: ", phase.work_units, " of ", elements / phase.work_units, ", ", phase.lanes, " lanes, ",
                                phase.kept.size(), " kept");
    } else {
      if (phase.work_units < kMinParallelUnits && inner >= 8192 && phase.lanes > 0) {
        phase.inner_block = RoundUp(std::max<int64_t>(4096, CeilDiv(inner, 64)), phase.lanes);
        phase.work_units *= CeilDiv(inner, phase.inner_block);
      }
      phase.note = absl::StrCat("loops: ", phase.work_units, " units of ", elements / phase.work_units, ", ", phase.lanes, " lanes");
    }
    phase.cycles += 0.25 * static_cast<double>(elements) + 20.0 * static_cast<double>(phase.work_units);
    Push(std::move(phase));
    return absl::OkStatus();
  }

  // Which reductions are swept together, and which values are worth keeping from one sweep to the next.
  void PlanRows(Phase& phase, const GroupWalk& w, int64_t row) {
    std::vector<const Instruction*> reduces;
    for (const ReduceUse& u : w.reduces) {
      if (std::find(reduces.begin(), reduces.end(), u.reduce) == reduces.end()) reduces.push_back(u.reduce);
    }
    std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
    FindJoint(phase, w, reduces);
    // Sweeps: one for each set of joined reductions, one for the outputs. What each computes, down to reductions.
    std::vector<std::vector<const Instruction*>> sweeps;
    absl::flat_hash_set<const Instruction*> seen;
    for (const Instruction* r : reduces) {
      if (seen.contains(r)) continue;
      std::vector<const Instruction*> together = {r};
      for (const auto& j : phase.joint) {
        if (std::find(j.begin(), j.end(), r) != j.end()) together = j;
      }
      std::vector<const Instruction*> starts;
      for (const Instruction* x : together) {
        seen.insert(x);
        for (int64_t i = 0; i < x->operand_count() / 2; ++i) starts.push_back(x->operand(i));
      }
      sweeps.push_back(std::move(starts));
    }
    std::vector<const Instruction*> outputs;
    for (const Target& t : phase.targets) {
      if (!t.row) outputs.push_back(t.instruction);
    }
    sweeps.push_back(outputs);
    absl::flat_hash_map<const Instruction*, int> count;
    for (const auto& starts : sweeps) {
      absl::flat_hash_set<const Instruction*> reached;
      std::vector<const Instruction*> stack = starts;
      while (!stack.empty()) {
        const Instruction* x = stack.back();
        stack.pop_back();
        if (!reached.insert(x).second) continue;
        ++count[x];
        if (x->Is(Opcode::kReduce) || materialized_.contains(x)) continue;
        for (const Instruction* o : x->operands()) stack.push_back(o);
      }
    }
    auto is_row = [&](const Instruction* x) {
      return x->shape().IsArray() && x->shape().num_elements() == phase.work_units * row && !x->Is(Opcode::kParameter) &&
             !materialized_.contains(x);
    };
    auto cost = [&](const Instruction* x) {
      absl::flat_hash_set<const Instruction*> reached;
      std::vector<const Instruction*> stack = {x};
      double c = 0;
      while (!stack.empty()) {
        const Instruction* y = stack.back();
        stack.pop_back();
        if (!reached.insert(y).second || y->Is(Opcode::kReduce)) continue;
        if (y->shape().IsArray() && y->shape().num_elements() * 2 > phase.work_units * row && !y->Is(Opcode::kParameter)) {
          c += CostPerElement(*y);
          if (IsNarrowFloat(y->shape().element_type())) c += 0.15;
        }
        for (const Instruction* o : y->operands()) stack.push_back(o);
      }
      return c;
    };
    std::vector<const Instruction*> candidates;
    for (const auto& [x, n] : count) {
      if (n >= 2 && is_row(x)) candidates.push_back(x);
    }
    std::sort(candidates.begin(), candidates.end(), [](auto* a, auto* b) { return a->id() > b->id(); });
    int64_t bytes = 0;
    absl::flat_hash_set<const Instruction*> covered;
    for (const Instruction* x : candidates) {
      if (covered.contains(x) || cost(x) < 0.6 || row * RowBytes(x->shape().element_type()) + bytes > 512 * 1024) continue;
      // Only what every user wants whole: a value below a kept one is not needed again unless something else uses it.
      phase.kept.push_back(x);
      bytes += RoundUp(row * RowBytes(x->shape().element_type()) + 256, 64);
      std::vector<const Instruction*> stack(x->operands().begin(), x->operands().end());
      while (!stack.empty()) {
        const Instruction* y = stack.back();
        stack.pop_back();
        if (y->Is(Opcode::kReduce)) continue;
        bool outside = false;
        for (const Instruction* u : y->users()) outside = outside || (u != x && !covered.contains(u) && count.contains(u));
        if (outside || !covered.insert(y).second) continue;
        for (const Instruction* o : y->operands()) stack.push_back(o);
      }
    }
    phase.kept_length = row;
    phase.scratch_bytes = bytes;
  }

  void FindJoint(Phase& phase, const GroupWalk& w, const std::vector<const Instruction*>& reduces) {
    auto depends = [](const Instruction* a, const Instruction* b) {  // a on b
      absl::flat_hash_set<const Instruction*> seen;
      std::vector<const Instruction*> stack(a->operands().begin(), a->operands().end());
      while (!stack.empty()) {
        const Instruction* x = stack.back();
        stack.pop_back();
        if (x == b) return true;
        if (!seen.insert(x).second) continue;
        for (const Instruction* o : x->operands()) stack.push_back(o);
      }
      return false;
    };
    auto index_of = [&](const Instruction* r) {
      const ReduceUse* found = nullptr;
      for (const ReduceUse& u : w.reduces) {
        if (u.reduce != r) continue;
        if (found != nullptr) return static_cast<const ReduceUse*>(nullptr);  // used at several places
        found = &u;
      }
      return found;
    };
    std::vector<bool> used(reduces.size(), false);
    for (size_t i = 0; i < reduces.size(); ++i) {
      if (used[i] || materialized_.contains(reduces[i])) continue;
      std::vector<const Instruction*> together = {reduces[i]};
      const ReduceUse* at = index_of(reduces[i]);
      for (size_t j = i + 1; at != nullptr && j < reduces.size(); ++j) {
        const Instruction* r = reduces[j];
        const ReduceUse* there = index_of(r);
        if (used[j] || there == nullptr || !(there->index == at->index) || materialized_.contains(r)) continue;
        if (SortedDims(*r) != SortedDims(*reduces[i])) continue;
        if (r->operand(0)->shape().dimensions() != reduces[i]->operand(0)->shape().dimensions()) continue;
        bool independent = true;
        for (const Instruction* x : together) independent = independent && !depends(r, x) && !depends(x, r);
        if (!independent) continue;
        used[j] = true;
        together.push_back(r);
      }
      if (together.size() > 1) phase.joint.push_back(together);
    }
  }

  absl::Status FinishReduction(Phase phase, GroupWalk& w, const std::vector<const ReduceUse*>& uses) {
    std::vector<const Instruction*> reduces;
    for (const ReduceUse* u : uses) {
      if (std::find(reduces.begin(), reduces.end(), u->reduce) == reduces.end()) reduces.push_back(u->reduce);
    }
    std::sort(reduces.begin(), reduces.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
    FindJoint(phase, w, reduces);
    bool together = uses.size() == 1 || (phase.joint.size() == 1 && phase.joint[0].size() == reduces.size() && uses.size() == reduces.size());
    Index index = uses[0]->index;
    int width = WidthOf(w.visited, phase);
    double cycles = CyclesOf(w.visited);
    ReductionChoice choice = ChooseReduction(w, materialized_, reduces, together ? &index : nullptr, width, host_);
    int64_t elements = Product(phase.extents);
    auto set_groups = [&](Phase& p) {
      p.groups.clear();
      for (const auto& g : choice.groups) {
        std::vector<int> r;
        for (VarId v : g) r.push_back(static_cast<int>(std::find(w.loops.vars.begin(), w.loops.vars.end(), v) - w.loops.vars.begin()));
        p.groups.push_back(std::move(r));
      }
    };
    if (choice.form == ReductionChoice::kLoop) return FinishLoop(std::move(phase), w, 0, false, false);

    Phase first = phase;
    set_groups(first);
    first.cycles = cycles;
    first.reduces = reduces;
    if (choice.form == ReductionChoice::kColumns) {
      first.kind = choice.split ? PhaseKind::kPartialColumns : PhaseKind::kColumns;
      first.lanes = choice.lanes;
      first.column_block = choice.column_block;
      first.unroll = choice.unroll;
      first.unit_groups = static_cast<int>(first.groups.size()) - 1;
      first.work_units = choice.outer * CeilDiv(choice.columns, choice.column_block);
      for (const Instruction* r : reduces) {
        for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
          first.scratch_bytes += RoundUp(choice.column_block * RowBytes(r->operand(i)->shape().element_type()) + 64, 64);
        }
      }
      first.note = absl::StrCat("columns: ", choice.columns, " in blocks of ", choice.column_block, ", ", first.unroll, " rows at a time");
    } else {
      first.kind = choice.split ? PhaseKind::kPartials : PhaseKind::kScalars;
      first.unit_groups = static_cast<int>(first.groups.size());
      first.work_units = elements;
      first.note = absl::StrCat("reductions: ", elements);
    }
    if (!choice.split) {
      Push(std::move(first));
      return absl::OkStatus();
    }
    first.blocks = choice.blocks;
    first.block_size = choice.block_size;
    first.block_extent = choice.block_extent;
    first.work_units *= choice.blocks;
    absl::StrAppend(&first.note, ", cut into ", choice.blocks, " blocks");
    Phase last = phase;
    last.joint.clear();
    for (const Instruction* r : reduces) {
      std::vector<int> buffers;
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
        buffers.push_back(NewTemp(choice.blocks * elements * RowBytes(r->operand(i)->shape().element_type())));
      }
      first.partial_buffers.push_back(buffers);
      last.partials.push_back({r, buffers, choice.blocks, elements});
    }
    Push(std::move(first));
    RETURN_IF_ERROR(FinishLoop(std::move(last), w, 0, false, false));
    plan_.phases.back().cycles = static_cast<double>(elements * choice.blocks) * 2;
    return absl::OkStatus();
  }

  const Computation& computation_;
  const KernelOptions& options_;
  const jit::HostInfo& host_;
  FusionPlan plan_;
  AccessWalk::ArraySet materialized_;
  std::vector<Materialized> stored_;  // where materialized instructions lie; complete once they are in materialized_
};

}  // namespace

absl::StatusOr<FusionPlan> BuildFusionPlan(const Computation& computation, const KernelOptions& options) {
  return Planner(computation, options).Run();
}

std::vector<Target> OutputsOf(const Computation& computation) {
  const Instruction* root = computation.root();
  int first = static_cast<int>(computation.parameters().size());
  std::vector<Target> r;
  auto add = [&](const Instruction* op, int element) {
    if (op->Is(Opcode::kGetTupleElement)) {
      element = static_cast<int>(op->tuple_index());
      op = op->operand(0);
    }
    r.push_back({op, element, first + static_cast<int>(r.size())});
  };
  if (root->Is(Opcode::kTuple)) {
    for (const Instruction* op : root->operands()) add(op, 0);
  } else if (root->shape().IsTuple()) {
    for (int64_t i = 0; i < root->shape().tuple_size(); ++i) add(root, static_cast<int>(i));
  } else {
    add(root, 0);
  }
  return r;
}

PhaseLoops MakeLoops(VarTable& vars, const Phase& phase) {
  PhaseLoops loops;
  for (int64_t n : phase.extents) loops.vars.push_back(vars.Loop(n));
  int64_t stride = 1;
  for (size_t i = phase.extents.size(); i-- > 0;) {
    loops.position.Add(Affine::Var(loops.vars[i]), stride);
    stride *= phase.extents[i];
  }
  for (const auto& g : phase.groups) {
    std::vector<VarId> group;
    for (int i : g) group.push_back(loops.vars[i]);
    loops.groups.push_back(std::move(group));
  }
  return loops;
}

Index TargetIndex(VarTable& vars, const Phase& phase, const PhaseLoops& loops, const Target& t) {
  const Shape& shape = t.window && t.window->Is(Opcode::kSelectAndScatter) ? t.window->shape() : ShapeOf(t);
  Affine position = loops.position;
  if (t.row) {
    int64_t n = shape.num_elements(), seen = 1;
    size_t units = 0;
    while (units < phase.extents.size() && seen < n) seen *= phase.extents[units++];
    position = {};
    int64_t stride = 1;
    for (size_t i = units; i-- > 0;) {
      position.Add(Affine::Var(loops.vars[i]), stride);
      stride *= phase.extents[i];
    }
  }
  return Delinearize(vars, position, shape.dimensions());
}

Affine StoreAddress(VarTable& vars, const Target& t, const Index& index) {
  if (t.window == nullptr) return Linearize(index, ShapeOf(t).dimensions());
  const DimVector& dims = t.window->shape().dimensions();
  Index at = index;
  if (t.window->Is(Opcode::kDynamicUpdateSlice)) {
    // The element of the result that comes from this element of the update.
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      int64_t hi = dims[d] - t.instruction->shape().dimensions(d);
      const Instruction* s = t.window->operand(2);
      Index start;
      if (s->shape().rank() == 1) {
        start.push_back(Affine::Const(d));
      } else {
        s = t.window->operand(2 + d);
      }
      at[d].Add(vars.Runtime(s, start, 0, hi));
    }
  } else if (t.window->Is(Opcode::kConcatenate)) {
    int64_t d = t.window->dimensions()[0];
    for (int i = 0; i < t.part; ++i) at[d].constant += t.window->operand(i)->shape().dimensions(d);
  }
  return Linearize(at, dims);
}

}  // namespace backplane::cpu::codegen
