// Kernels that store into an array that is there: dynamic-update-slice and scatter.
#include "absl/strings/str_cat.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {

using codegen::Index;
using codegen::VarId;
using compiler::Affine;
using compiler::Guards;
using llvm::Value;

namespace {

std::vector<VarId> MakeUpdateLoops(KernelFrame& frame, const Shape& shape, Index* index) {
  std::vector<VarId> loops;
  for (const int64_t n : shape.dimensions()) {
    loops.push_back(frame.vars.Loop(n));
    index->push_back(Affine::Var(loops.back()));
  }
  return loops;
}

llvm::AtomicRMWInst::BinOp AtomicOperation(Opcode op, PrimitiveType type) {
  const bool is_signed = IsSigned(type);
  switch (op) {
    case Opcode::kAdd:
      return IsFloat(type) ? llvm::AtomicRMWInst::FAdd : llvm::AtomicRMWInst::Add;
    case Opcode::kMaximum:
      return is_signed ? llvm::AtomicRMWInst::Max : llvm::AtomicRMWInst::UMax;
    case Opcode::kMinimum:
      return is_signed ? llvm::AtomicRMWInst::Min : llvm::AtomicRMWInst::UMin;
    case Opcode::kAnd:
      return llvm::AtomicRMWInst::And;
    case Opcode::kOr:
      return llvm::AtomicRMWInst::Or;
    default:
      return llvm::AtomicRMWInst::Xor;
  }
}

class ScatterEmitter {
 public:
  ScatterEmitter(KernelFrame& frame, const Instruction& op, bool parallel)
      : f_(frame), op_(op), parallel_(parallel), arrays_((op.operand_count() - 1) / 2) {
    for (int64_t k = 0; k < op.operand_count(); ++k)
      f_.body.SetArray(op.operand(k), 0, {f_.array(static_cast<size_t>(k)), op.operand(k)->shape().element_type()});
    loops_ = MakeUpdateLoops(f_, op.operand(arrays_ + 1)->shape(), &update_index_);
    address_ = Linearize(ScatterTarget(op, update_index_, f_.vars, guards_), op.operand(0)->shape().dimensions());
  }

  void Emit() {
    const int64_t count = op_.operand(arrays_ + 1)->shape().num_elements();
    if (count == 0) return;
    if (parallel_) return f_.ForEachInGrid(count, 0, [&](Value* at) { EmitUpdateAt(at); });
    // One thread takes the updates in their order.
    f_.scopes.If(f_.b.CreateICmpEQ(f_.thread(), f_.b.getInt32(0)), [&] {
      llvm::IntegerType* type = f_.indices.CounterType(count);
      f_.scopes.Loop(llvm::ConstantInt::get(type, 0), llvm::ConstantInt::get(type, static_cast<uint64_t>(count)), 1,
                     [&](Value* at) { EmitUpdateAt(at); });
    });
  }

 private:
  void EmitUpdateAt(Value* at) {
    if (!loops_.empty()) f_.scopes.Bind(loops_, at);
    if (guards_.empty()) return Combine();
    f_.scopes.If(f_.indices.Mask(guards_), [&] { Combine(); });
  }

  ArrayRef Result(int64_t k) {
    return {f_.array(static_cast<size_t>(op_.operand_count() + k)), op_.operand(k)->shape().element_type()};
  }

  void Combine() {
    Vals updates;
    for (int64_t k = 0; k < arrays_; ++k)
      updates.push_back(f_.body.Eval(op_.operand(arrays_ + 1 + k), update_index_, {}));
    const Computation& combiner = *op_.called(0);
    const bool unique = op_.attrs().GetBool(AttrId::kUniqueIndices);
    if (parallel_ && !unique) {
      const PrimitiveType type = op_.operand(0)->shape().element_type();
      Value* pointer = f_.b.CreateGEP(f_.elements.StorageType(type), Result(0).base, f_.indices.Uniform(address_));
      f_.b.CreateAtomicRMW(AtomicOperation(*codegen::AnalyzeCombiner(combiner).op, type), pointer,
                           f_.elements.ToStorage(type, updates[0]), llvm::MaybeAlign(), llvm::AtomicOrdering::Monotonic,
                           f_.elements.context().getOrInsertSyncScopeID(kDeviceScope));
      return;
    }
    Vals arguments;
    for (int64_t k = 0; k < arrays_; ++k) arguments.push_back(f_.memory.Load(Result(k), address_, {}));
    arguments.insert(arguments.end(), updates.begin(), updates.end());
    const Vals results = f_.body.caller().Call(combiner, arguments);
    for (int64_t k = 0; k < arrays_; ++k) f_.memory.Store(Result(k), address_, results[static_cast<size_t>(k)], {});
  }

  KernelFrame& f_;
  const Instruction& op_;
  const bool parallel_;
  const int64_t arrays_;  // that are updated together
  std::vector<VarId> loops_;
  Index update_index_;
  Affine address_;
  Guards guards_;
};

}  // namespace

void EmitBody(KernelFrame& frame, const Instruction& fusion, const UpdatePlan&) {
  const Computation& body = *fusion.called(0);
  const Instruction& update = *body.root();
  for (const Instruction* p : body.parameters()) {
    frame.body.SetArray(p, 0, {frame.array(static_cast<size_t>(p->parameter_number())), p->shape().element_type()});
  }
  const ArrayRef result{frame.array(static_cast<size_t>(fusion.operand_count())), update.shape().element_type()};
  const Shape& shape = update.operand(1)->shape();
  if (shape.num_elements() == 0) return;
  Index index;
  const std::vector<VarId> loops = MakeUpdateLoops(frame, shape, &index);
  Index target = index;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const bool one_operand = update.operand(2)->shape().rank() == 1;
    const Instruction* start = update.operand(one_operand ? 2 : 2 + d);
    target[static_cast<size_t>(d)].Add(frame.vars.Runtime(start, one_operand ? Index{Affine::Const(d)} : Index{}, 0,
                                                          update.shape().dimensions(d) - shape.dimensions(d)));
  }
  frame.ForEachInGrid(shape.num_elements(), 0, [&](Value* at) {
    if (!loops.empty()) frame.scopes.Bind(loops, at);
    frame.memory.Store(result, Linearize(target, update.shape().dimensions()),
                       frame.body.Eval(update.operand(1), index, {}), {});
  });
}

void EmitBody(KernelFrame& frame, const Instruction& scatter, const ScatterPlan& plan) {
  ScatterEmitter(frame, scatter, plan.parallel).Emit();
}

}  // namespace backplane::hip
