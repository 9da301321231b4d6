#include "sdk/engine/codegen/kernel.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/module.h"
#include "core/types/status_macros.h"
#include "sdk/engine/codegen/body_names.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/plan.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine::codegen {
namespace {

std::string PhaseSymbol(absl::string_view symbol, size_t phase) {
  return phase == 0 ? std::string(symbol) : absl::StrCat(symbol, ".", phase);
}

bool Reaches(const Instruction* from, const Instruction* what) {
  absl::flat_hash_set<const Instruction*> seen;
  std::vector<const Instruction*> stack = {from};
  while (!stack.empty()) {
    const Instruction* x = stack.back();
    stack.pop_back();
    if (x == what) return true;
    if (!seen.insert(x).second) continue;
    for (const Instruction* o : x->operands()) stack.push_back(o);
  }
  return false;
}

// Every access of the parameters by the phases of a plan that was made without sharing.
struct PhaseAccesses {
  VarTable vars;
  PhaseLoops loops;
  std::vector<Access> accesses;
  std::vector<Affine> stores;  // by output
};

// Returns all values of the sum, or nothing if they are many or depend on more than loops.
std::vector<int64_t> ValuesOf(const VarTable& vars, const Affine& e) {
  std::vector<int64_t> values = {e.constant};
  for (const Term& t : e.terms) {
    if (vars.def(t.var).kind != VarKind::kLoop || vars.extent(t.var) * static_cast<int64_t>(values.size()) > 64)
      return {};
    std::vector<int64_t> next;
    for (int64_t v : values) {
      for (int64_t k = 0; k < vars.extent(t.var); ++k) next.push_back(v + k * t.coef);
    }
    values = std::move(next);
  }
  return values;
}

// Whether the elements at `address` are all among those that the loop writes in the same iteration, after it has read
// them.
bool IsInSameIteration(const PhaseAccesses& w, const LoopPhase& loop, const Affine& address, const Affine& store) {
  if (address == store) return true;
  if (loop.unrolled.empty()) return false;
  Affine own = store, written;
  for (int i : loop.unrolled) {
    const VarId v = w.loops.vars[static_cast<size_t>(i)];
    written.Add(Affine::Var(v), store.GetCoef(v));
    own.Add(Affine::Var(v), -store.GetCoef(v));
  }
  for (const Term& t : own.terms) {
    if (w.vars.def(t.var).kind != VarKind::kLoop) return false;
  }
  const std::vector<int64_t> of_iteration = ValuesOf(w.vars, written), read = ValuesOf(w.vars, address.Plus(own, -1));
  return !read.empty() && std::all_of(read.begin(), read.end(), [&](int64_t at) {
    return std::find(of_iteration.begin(), of_iteration.end(), at) != of_iteration.end();
  });
}

// Whether the phase computes all that it writes before it writes any of it.
bool WritesAtOnce(const Phase& phase) {
  const LoopNest* nest = phase.nest();
  if (nest == nullptr) return false;
  if (std::all_of(nest->extents.begin(), nest->extents.end(), [](int64_t n) { return n == 1; })) return true;
  const LoopPhase* loop = std::get_if<LoopPhase>(&phase.kind);
  return loop != nullptr && loop->item_groups == 0 && nest->ComputeExtent(0) <= loop->lanes;
}

// `plan` is one without sharing.
std::vector<InPlacePair> FindInPlacePairs(const FusionPlan* plan) {
  const Computation& computation = *plan->computation;
  std::vector<InPlacePair> result;
  std::vector<PhaseAccesses> walks(plan->phases.size());
  for (size_t k = 0; k < walks.size(); ++k) {
    const Phase& phase = plan->phases[k];
    PhaseAccesses& w = walks[k];
    AccessWalk::ArraySet arrays;
    for (const Materialized& m : phase.reads) arrays.insert(m.instruction);
    AccessWalk walk(w.vars, arrays);
    if (const LoopNest* nest = phase.nest()) {
      w.loops = MakeLoops(w.vars, *nest);
      for (const PhaseOutput& output : phase.outputs) {
        Index index = OutputIndex(w.vars, w.loops, output);
        walk.Visit(output.instruction, ValueIndex(output, index));
        w.stores.push_back(StoreAddress(w.vars, output, index));
      }
    }
    walk.Finish();
    w.accesses = walk.accesses();
  }
  std::set<int> used_inputs, used_outputs;
  std::vector<PhaseOutput> outputs = CollectOutputs(computation);
  auto add = [&](int input, int output, bool update) {
    result.push_back({input, output, update});
    used_inputs.insert(input);
    used_outputs.insert(output);
  };
  auto same_bytes = [](const Instruction* p, const Shape& s) {
    return p->shape().num_elements() == s.num_elements() &&
           ByteWidth(p->shape().element_type()) == ByteWidth(s.element_type());
  };
  auto operation_reaches = [](const Phase& phase, const Instruction* p) {
    if (phase.operation() == nullptr) return false;
    absl::Span<Instruction* const> operands = phase.operation()->operands();
    return std::any_of(operands.begin(), operands.end(), [&](const Instruction* o) { return Reaches(o, p); });
  };
  // Updates first.
  for (int j = 0; j < plan->outputs; ++j) {
    const Instruction* op = outputs[j].instruction;
    int buffer = plan->inputs + j;
    if (op->Is(Opcode::kDynamicUpdateSlice) && op->operand(0)->Is(Opcode::kParameter)) {
      const Instruction* p = op->operand(0);
      int input = static_cast<int>(p->parameter_number());
      if (used_inputs.contains(input) || !same_bytes(p, op->shape())) continue;
      const size_t writer =
          static_cast<size_t>(std::find_if(plan->phases.begin(), plan->phases.end(),
                                           [&](const Phase& phase) {
                                             return phase.outputs.size() == 1 && phase.outputs[0].container == op;
                                           }) -
                              plan->phases.begin());
      bool ok = true;
      for (size_t k = 0; k < walks.size() && ok; ++k) {
        const Phase& phase = plan->phases[k];
        bool copy =
            phase.outputs.size() == 1 && phase.outputs[0].buffer == buffer && phase.outputs[0].container == nullptr;
        ok = ok && !operation_reaches(phase, p);
        if (phase.operation() != nullptr || copy) continue;
        for (const Access& a : walks[k].accesses) {
          if (a.array != p) continue;
          // Earlier phases have read what they need before the update.
          const bool reads_own = k == writer && a.reduce_depth == 0 && a.address == walks[k].stores[0];
          ok = ok && (reads_own || (k == writer && WritesAtOnce(phase)) || (k < writer && writer < walks.size()));
        }
      }
      if (ok) add(input, j, true);
    }
    if (op->Is(Opcode::kScatter)) {
      const Instruction* p = op->operand(outputs[j].element);
      if (!p->Is(Opcode::kParameter)) continue;
      int input = static_cast<int>(p->parameter_number());
      if (used_inputs.contains(input)) continue;
      bool ok = true;
      // The value of a single element is computed before the element is written.
      const bool is_single = op->operand(op->operand_count() - 1)->shape().num_elements() == 1;
      for (int64_t i = 0; i < op->operand_count() && !is_single; ++i) {
        if (i != outputs[j].element) ok = ok && !Reaches(op->operand(i), p);
      }
      for (int other = 0; other < plan->outputs; ++other) {
        if (outputs[other].instruction != op) ok = ok && !Reaches(outputs[other].instruction, p);
      }
      if (ok) add(input, j, true);
    }
  }
  for (int j = 0; j < plan->outputs; ++j) {
    if (used_outputs.contains(j)) continue;
    int buffer = plan->inputs + j;
    // The one phase that writes the output. Segments of a loop count as one if each reads only what it writes.
    int writer = -1, first_writer = -1, position = -1;
    bool segments = true;
    for (size_t k = 0; k < walks.size(); ++k) {
      for (size_t t = 0; t < plan->phases[k].outputs.size(); ++t) {
        if (plan->phases[k].outputs[t].buffer != buffer) continue;
        const LoopNest* nest = plan->phases[k].nest();
        segments = segments && nest != nullptr && nest->whole_extent > 0;
        if (writer < 0) first_writer = static_cast<int>(k);
        writer = static_cast<int>(k);
        position = static_cast<int>(t);
      }
    }
    if (writer < 0 || (first_writer != writer && !segments)) continue;
    const Phase& phase = plan->phases[writer];
    const LoopPhase* loop = std::get_if<LoopPhase>(&phase.kind);
    const RowPhase* rows = std::get_if<RowPhase>(&phase.kind);
    const PhaseOutput& written = phase.outputs[position];
    if ((loop == nullptr && rows == nullptr) || written.per_row || written.container != nullptr) continue;
    const Affine& store = walks[writer].stores[position];
    std::set<VarId> item_vars;
    for (int g = 0; g < (loop ? loop->item_groups : rows->item_groups); ++g) {
      for (VarId v : walks[writer].loops.groups[g]) item_vars.insert(v);
    }
    const Shape& shape = outputs[j].instruction->shape().IsTuple()
                             ? outputs[j].instruction->shape().tuple_shapes(outputs[j].element)
                             : outputs[j].instruction->shape();
    for (int input = 0; input < plan->inputs; ++input) {
      const Instruction* p = computation.parameter(input);
      if (used_inputs.contains(input) || !same_bytes(p, shape)) continue;
      if (std::any_of(plan->phases.begin(), plan->phases.end(),
                      [&](const Phase& other) { return operation_reaches(other, p); }))
        continue;
      bool any = false, ok = true;
      for (size_t k = 0; k < walks.size() && ok; ++k) {
        for (const Access& a : walks[k].accesses) {
          if (a.array != p) continue;
          any = true;
          if (static_cast<int>(k) != writer) {
            // Read before it is overwritten, or by another segment, which has the same outputs.
            const auto at = static_cast<size_t>(position);
            const std::vector<PhaseOutput>& others = plan->phases[k].outputs;
            const bool reads_own = a.reduce_depth == 0 && at < others.size() && others[at].buffer == buffer &&
                                   a.address == walks[k].stores[at];
            ok = ok && (static_cast<int>(k) < first_writer || reads_own);
            continue;
          }
          if (a.reduce_depth == 0 || loop != nullptr) {
            ok = ok && (loop != nullptr ? IsInSameIteration(walks[k], *loop, a.address, store) : a.address == store);
            continue;
          }
          // A pass over a row reads elements of the same row, before the row is written.
          Affine fixed, moving, own;
          for (const Term& t : a.address.terms)
            (item_vars.contains(t.var) ? fixed : moving).Add(Affine::Var(t.var), t.coef);
          for (const Term& t : store.terms) {
            if (item_vars.contains(t.var)) own.Add(Affine::Var(t.var), t.coef);
          }
          moving.constant = a.address.constant;
          bool same_row = rows != nullptr && fixed == own;
          for (const Term& t : moving.terms) {
            const auto& vars = walks[k].loops.vars;
            same_row = same_row && walks[k].vars.def(t.var).kind == VarKind::kLoop &&
                       std::find(vars.begin(), vars.end(), t.var) == vars.end();
          }
          auto [lo, hi] = walks[k].vars.Range(moving);
          ok = ok && same_row && lo >= 0 && hi < rows->row_length;
        }
      }
      if (any && ok) {
        add(input, j, false);
        break;
      }
    }
  }
  return result;
}

// Of loops over whole outputs in storage order.
int64_t ElementsPerItem(const Phase& phase) {
  const LoopPhase* loop = std::get_if<LoopPhase>(&phase.kind);
  if (loop == nullptr || phase.work_items <= 0 || phase.outputs.empty() || !loop->unrolled.empty() ||
      loop->inner_block > 0 || loop->nest.whole_extent > 0 || !loop->multi_output.empty() || !loop->partials.empty())
    return 0;
  const int64_t elements = GetShape(phase.outputs[0]).num_elements();
  if (loop->item_groups == 0 && loop->lanes > 0 && elements % loop->lanes != 0) return 0;  // the last vector overlaps
  for (const PhaseOutput& output : phase.outputs) {
    if (output.container != nullptr || output.per_row || GetShape(output).num_elements() != elements) return 0;
  }
  return elements % phase.work_items == 0 ? elements / phase.work_items : 0;
}

KernelPlan DescribeKernel(FusionPlan fusion, absl::string_view symbol) {
  KernelPlan plan;
  plan.temp_bytes = fusion.temp_bytes;
  std::vector<std::string> notes;
  for (size_t k = 0; k < fusion.phases.size(); ++k) {
    const Phase& phase = fusion.phases[k];
    KernelPhase p;
    p.work_items = phase.work_items;
    p.elements_per_item = ElementsPerItem(phase);
    constexpr double kCyclesPerMicrosecond = 3500;
    p.estimated_us = phase.cycles / kCyclesPerMicrosecond;
    double item_us = p.work_items > 0 ? p.estimated_us / static_cast<double>(p.work_items) : 0;
    p.min_items_per_chunk = item_us > 0
                                ? std::max<int64_t>(1, static_cast<int64_t>(std::ceil(std::min(2.0 / item_us, 1e15))))
                                : std::max<int64_t>(1, p.work_items);
    plan.scratch_bytes = std::max(plan.scratch_bytes, phase.scratch_bytes);
    notes.push_back(phase.note);
    plan.phases.push_back(std::move(p));
  }
  plan.note = absl::StrJoin(notes, "; ");
  plan.fusion = std::make_shared<const FusionPlan>(std::move(fusion));
  plan.SetSymbol(symbol);
  return plan;
}

}  // namespace

void KernelPlan::SetSymbol(absl::string_view symbol) {
  for (size_t k = 0; k < phases.size(); ++k) phases[k].symbol = PhaseSymbol(symbol, k);
}

absl::Status CanPlanKernel(const Computation& computation) { return BuildFusionPlan(computation, {}).status(); }

absl::StatusOr<KernelPlan> PlanKernel(const Computation& computation, absl::string_view symbol,
                                      const jit::HostInfo* host) {
  ASSIGN_OR_RETURN(FusionPlan fusion, BuildFusionPlan(computation, {{}, host}));
  KernelPlan plan = DescribeKernel(std::move(fusion), symbol);
  plan.in_place = FindInPlacePairs(plan.fusion.get());
  return plan;
}

absl::StatusOr<KernelPlan> ShareMemory(const KernelPlan& plan, const std::vector<InPlacePair>& shared,
                                       absl::string_view symbol) {
  const Computation& computation = *plan.fusion->computation;
  for (const InPlacePair& p : shared) {
    if (std::none_of(plan.in_place.begin(), plan.in_place.end(),
                     [&](const InPlacePair& a) { return a.input == p.input && a.output == p.output; })) {
      return absl::InvalidArgumentError(
          absl::StrCat(computation.name(), ": input ", p.input, " cannot share the memory of output ", p.output));
    }
  }
  // Copies before updates fall away, and the ends of loops must not compute elements twice: these are other loops.
  ASSIGN_OR_RETURN(FusionPlan fusion, BuildFusionPlan(computation, {shared, plan.fusion->host}));
  return DescribeKernel(std::move(fusion), symbol);
}

std::string KernelKey(const Computation& computation, const jit::HostInfo* host) {
  Module copy("key");
  copy.set_entry(copy.CloneComputation(&computation));
  return absl::StrCat(copy.Fingerprint(), "/", (host != nullptr ? *host : jit::Host()).target.vector_bytes);
}

std::string KernelKey(absl::string_view key_without_sharing, absl::Span<const InPlacePair> shared) {
  std::string key(key_without_sharing);
  for (const InPlacePair& p : shared) absl::StrAppend(&key, "/", p.input, "=", p.output);
  return key;
}

absl::Status EmitKernels(absl::Span<const KernelRequest> requests, llvm::Module& module) {
  if (requests.empty()) return absl::OkStatus();
  const jit::HostInfo& host = *requests[0].fusion->host;
  ElementEmitter elements(&module, &host.target);
  for (const KernelRequest& r : requests) {
    const FusionPlan& plan = *r.fusion;
    for (size_t k = 0; k < plan.phases.size(); ++k) {
      RETURN_IF_ERROR(EmitPhase(elements, plan, plan.phases[k], host, PhaseSymbol(r.symbol, k)));
    }
  }
  return absl::OkStatus();
}

absl::Status EmitScalarFunctions(absl::Span<const ScalarRequest> functions, absl::Span<const ScalarRequest> comparators,
                                 llvm::Module& module) {
  if (functions.empty() && comparators.empty()) return absl::OkStatus();
  const jit::HostInfo& host = jit::Host();
  ElementEmitter elements(&module, &host.target);
  llvm::IRBuilder<>& b = elements.b();
  llvm::Type* pointer = llvm::PointerType::get(module.getContext(), 0);
  auto start = [&](const std::string& symbol, llvm::Type* result) {
    auto* type = llvm::FunctionType::get(result, {pointer, pointer}, false);
    auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, &module);
    backplane::codegen::SetKernelAttributes(*f, host.target);
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", f));
    return f;
  };
  auto element = [&](llvm::Value* list, int i) {
    return b.CreateAlignedLoad(pointer, b.CreateConstGEP1_64(pointer, list, i), llvm::Align(8));
  };
  for (bool comparator : {false, true}) {
    for (const ScalarRequest& r : comparator ? comparators : functions) {
      RETURN_IF_ERROR(CanCall(*r.computation));
      VarTable vars;
      LoopScopes scopes(b, vars);
      IndexEvaluator indices(elements, scopes);
      MemoryAccess memory(elements, scopes, indices);
      ComputationCaller caller(elements, scopes, indices);
      llvm::Function* f = start(r.symbol, comparator ? b.getInt1Ty() : b.getVoidTy());
      if (comparator) f->addRetAttr(llvm::Attribute::ZExt);
      Vals arguments;
      int n = static_cast<int>(r.computation->parameters().size());
      if (comparator && (n % 2 != 0 || r.computation->root()->shape().element_type() != PrimitiveType::kPred)) {
        return absl::InvalidArgumentError(absl::StrCat(r.computation->name(), ": no comparator"));
      }
      for (int i = 0; i < n; ++i) {
        llvm::Value* p = comparator ? element(f->getArg(i % 2), i / 2) : element(f->getArg(0), i);
        arguments.push_back(
            memory.Load({p, r.computation->parameter(i)->shape().element_type()}, Affine::Const(0), {}));
      }
      Vals results = caller.Call(*r.computation, arguments);
      if (comparator) {
        b.CreateRet(results[0].v);
      } else {
        const Shape& s = r.computation->root()->shape();
        for (size_t i = 0; i < results.size(); ++i) {
          PrimitiveType t = (s.IsTuple() ? s.tuple_shapes(static_cast<int64_t>(i)) : s).element_type();
          memory.Store({element(f->getArg(1), static_cast<int>(i)), t}, Affine::Const(0), results[i], {});
        }
        b.CreateRetVoid();
      }
      RETURN_IF_ERROR(elements.status());
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::engine::codegen
