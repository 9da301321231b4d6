#include "sdk/engine/codegen/phase_frame.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/phase_emitter.h"

namespace backplane::engine::codegen {

using llvm::Value;

absl::Status EmitPhase(ElementEmitter& elements, const FusionPlan& plan, const Phase& phase, const jit::HostInfo& host,
                       const std::string& symbol) {
  llvm::IRBuilder<>& b = elements.b();
  llvm::LLVMContext& context = elements.context();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, b.getInt64Ty(), b.getInt64Ty(), pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, elements.module());
  backplane::codegen::SetKernelAttributes(*function, host.target);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  const int count = plan.inputs + plan.outputs + static_cast<int>(plan.temp_bytes.size());
  std::vector<Value*> buffers;
  for (int i = 0; i < count; ++i) {
    Value* slot = b.CreateConstGEP1_64(pointer, function->getArg(0), static_cast<uint64_t>(i));
    buffers.push_back(b.CreateAlignedLoad(pointer, slot, llvm::Align(8)));
  }
  PhaseFrame frame(elements, plan, phase, host, std::move(buffers), function->getArg(1), function->getArg(2),
                   function->getArg(3));
  std::visit([&](const auto& kind) { EmitPhaseBody(frame, kind); }, phase.kind);
  b.CreateRetVoid();
  return elements.status();
}

void EmitPhaseInline(ElementEmitter& elements, const FusionPlan& plan, const Phase& phase, const jit::HostInfo& host,
                     std::vector<Value*> buffers, Value* scratch) {
  llvm::IRBuilder<>& b = elements.b();
  PhaseFrame frame(elements, plan, phase, host, std::move(buffers), b.getInt64(0),
                   b.getInt64(static_cast<uint64_t>(phase.work_items)), scratch);
  frame.UnrollShortLoops();
  std::visit([&](const auto& kind) { EmitPhaseBody(frame, kind); }, phase.kind);
}

PhaseFrame::PhaseFrame(ElementEmitter& elements, const FusionPlan& plan, const Phase& the_phase,
                       const jit::HostInfo& the_host, std::vector<Value*> the_buffers, Value* begin, Value* end,
                       Value* scratch)
    : phase(the_phase),
      host(the_host),
      e(elements),
      b(elements.b()),
      scopes(b, vars),
      indices(elements, scopes),
      memory(elements, scopes, indices),
      hooks(scopes, memory, host),
      body(elements, scopes, indices, memory, &hooks),
      buffers(std::move(the_buffers)),
      begin_(begin),
      end_(end),
      scratch_(scratch),
      computation_(*plan.computation) {
  for (int i = 0; i < plan.inputs; ++i) {
    const Instruction* p = plan.computation->parameter(i);
    body.SetArray(p, 0, {buffers[static_cast<size_t>(i)], p->shape().element_type()});
  }
  for (const Materialized& m : phase.reads) {
    const PhaseOutput written{m.instruction, m.element, m.buffer};
    body.SetArray(m.instruction, m.element, GetBuffer(written));
    materialized.insert(m.instruction);
  }
}

void PhaseFrame::ForEachItem(const std::function<void(Value*)>& fn) { scopes.Loop(begin_, end_, 1, fn); }

Value* PhaseFrame::Take(Value*& number, int64_t extent) {
  Value* r = b.CreateURem(number, Number(extent));
  number = b.CreateUDiv(number, Number(extent));
  return r;
}

void PhaseFrame::BindGroups(const PhaseLoops& loops, Value* number, int count) {
  for (int g = count - 1; g >= 0; --g) {
    const std::vector<VarId>& group = loops.groups[static_cast<size_t>(g)];
    Value* value = g == 0 ? number : Take(number, ComputeExtent(group));
    scopes.Bind(group, value);
  }
}

void PhaseFrame::LaneLoop(absl::Span<const VarId> group, int64_t lanes, Tail how, Value* begin, Value* end,
                          const std::function<void(const Guards&)>& fn) {
  const int64_t n = ComputeExtent(group);
  const int width = static_cast<int>(lanes);
  if (n == 1 || n <= lanes) {  // one vector or one element
    return scopes.Block([&] {
      scopes.Bind(group, Number(0), width);
      Guards tail;
      if (n < lanes) tail.push_back(scopes.TailGuard(group));
      fn(tail);
    });
  }
  if (lanes == 0) {
    return scopes.Loop(begin, end, 1, [&](Value* iv) {
      scopes.Bind(group, iv);
      fn({});
    });
  }
  if (how == Tail::kSeparate && n % lanes != 0) return LaneLoopAndTail(group, lanes, begin, end, fn);
  scopes.Loop(begin, end, lanes, [&](Value* iv) {
    Guards tail;
    Value* start = iv;
    if (n % lanes != 0) {
      // The last vector starts early enough to be full, or has a mask where elements must not be computed twice.
      if (how == Tail::kMask) {
        tail.push_back(scopes.TailGuard(group));
      } else {
        start = Min(iv, Number(n - lanes));
      }
    }
    scopes.Bind(group, start, width);
    fn(tail);
  });
}

void PhaseFrame::LaneLoopAndTail(absl::Span<const VarId> group, int64_t lanes, Value* begin, Value* end,
                                 const std::function<void(const Guards&)>& fn) {
  const int64_t n = ComputeExtent(group), full = n / lanes * lanes;
  const int width = static_cast<int>(lanes);
  scopes.If(b.CreateICmpSLT(begin, Number(full)), [&] {
    scopes.Loop(begin, Min(end, Number(full)), lanes, [&](Value* iv) {
      scopes.Bind(group, iv, width);
      fn({});
    });
  });
  scopes.If(b.CreateICmpSGT(end, Number(full)), [&] {
    scopes.Bind(group, Number(full), width);
    fn({scopes.TailGuard(group)});
  });
}

void PhaseFrame::LoopNestOver(const PhaseLoops& loops, size_t first, int64_t lanes, Tail tail, Value* begin, Value* end,
                              const std::function<void(const Guards&)>& fn) {
  const std::vector<VarId>& group = loops.groups[first];
  if (first + 1 == loops.groups.size()) return LaneLoop(group, lanes, tail, begin, end, fn);
  scopes.Loop(Number(0), Number(ComputeExtent(group)), 1, [&](Value* iv) {
    scopes.Bind(group, iv);
    LoopNestOver(loops, first + 1, lanes, tail, begin, end, fn);
  });
}

void PhaseFrame::EvalAndStore(const PhaseLoops& loops, const Guards& guards, bool per_row) {
  struct Element {
    ArrayRef array;
    Affine address;
    Val value;
  };
  std::vector<Element> elements;
  for (const PhaseOutput& output : phase.outputs) {
    if (output.per_row != per_row) continue;
    const Index index = OutputIndex(vars, loops, output);
    const Affine address = StoreAddress(vars, output, index);
    const Val value = body.Eval(output.instruction, ValueIndex(output, index), guards, output.element);
    elements.push_back({GetBuffer(output), address, value});
  }
  for (const Element& x : elements) memory.Store(x.array, x.address, x.value, guards);
}

void PhaseFrame::EvalAndStore(absl::Span<const Affine> positions, const Guards& guards) {
  struct Element {
    std::vector<Affine> addresses;
    std::vector<Val> values;
  };
  std::vector<Element> elements;
  for (const PhaseOutput& output : phase.outputs) {
    Element& x = elements.emplace_back();
    for (const Affine& position : positions) {
      PhaseLoops at;
      at.position = position;
      const Index index = OutputIndex(vars, at, output);
      x.addresses.push_back(StoreAddress(vars, output, index));
      x.values.push_back(body.Eval(output.instruction, ValueIndex(output, index), guards, output.element));
    }
  }
  for (size_t i = 0; i < elements.size(); ++i)
    memory.StoreSeveral(GetBuffer(phase.outputs[i]), elements[i].addresses, elements[i].values, guards);
}

Value* PhaseFrame::AllocateScratch(int64_t bytes) {
  Value* r = b.CreateConstGEP1_64(b.getInt8Ty(), scratch_, static_cast<uint64_t>(scratch_used_));
  scratch_used_ += bytes;
  return r;
}

ArrayRef PhaseFrame::GetBuffer(const PhaseOutput& output) const {
  return {buffers[static_cast<size_t>(output.buffer)], GetShape(output).element_type()};
}

int64_t PhaseFrame::ComputeExtent(absl::Span<const VarId> group) const {
  int64_t n = 1;
  for (VarId v : group) n *= vars.extent(v);
  return n;
}

AccessWalk PhaseFrame::WalkOutputs(const PhaseLoops& loops) {
  AccessWalk walk(vars, materialized);
  for (const PhaseOutput& output : phase.outputs) walk.Visit(output.instruction, OutputIndex(vars, loops, output));
  return walk;
}

Index PhaseFrame::ComputeReductionIndex(const PhaseLoops& loops, const Instruction* reduce) {
  const AccessWalk walk = WalkOutputs(loops);
  for (const ReduceUse& u : walk.reduces()) {
    if (u.reduce == reduce) return u.index;
  }
  e.Fail(absl::InternalError(absl::StrCat(reduce->name(), ": not reached from the kernel's outputs")));
  return {};
}

}  // namespace backplane::engine::codegen
