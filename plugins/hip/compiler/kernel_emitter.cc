#include "plugins/hip/compiler/kernel_emitter.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::Index;
using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using llvm::Value;

namespace {

struct ResultRef : KernelResult {
  ArrayRef array;
};

// Declares the arrays of a fusion's parameters and returns its results.
std::vector<ResultRef> BindArrays(KernelFrame& frame, const Computation& body) {
  size_t next = 0;
  for (const Instruction* p : body.parameters())
    frame.body.SetArray(p, 0, {frame.array(next++), p->shape().element_type()});
  std::vector<ResultRef> results;
  for (KernelResult& r : ResultsOf(body)) {
    const PrimitiveType type = r.shape.element_type();
    results.push_back({std::move(r), {frame.array(next++), type}});
  }
  return results;
}

std::vector<VarId> MakeLoops(KernelFrame& frame, const Shape& shape) {
  std::vector<VarId> loops;
  for (const int64_t n : shape.dimensions()) loops.push_back(frame.vars.Loop(n));
  return loops;
}

Index IndexOf(absl::Span<const VarId> loops) {
  Index index;
  for (const VarId v : loops) index.push_back(Affine::Var(v));
  return index;
}

void StoreResult(KernelFrame& frame, const ResultRef& result, const Index& index) {
  frame.memory.Store(result.array, Linearize(index, result.shape.dimensions()),
                     frame.body.Eval(result.instruction, index, {}, result.element), {});
}

// ---- Rows.

// Combines the accumulators of all threads. Neighbours are combined first, so that the smaller index stands on the
// left.
Vals CombineThreads(KernelFrame& frame, const Instruction& reduce, const Vals& mine) {
  llvm::IRBuilder<>& b = frame.b;
  std::vector<Value*> shared;
  std::vector<PrimitiveType> types;
  for (size_t k = 0; k < mine.size(); ++k) {
    types.push_back(reduce.operand(static_cast<int64_t>(k))->shape().element_type());
    shared.push_back(frame.AddShared(types.back(), frame.plan.threads));
  }
  const VarId own = frame.vars.Loop(frame.plan.threads), other = frame.vars.Loop(frame.plan.threads);
  auto load = [&](VarId at) {
    Vals r;
    for (size_t k = 0; k < shared.size(); ++k) {
      Val v = frame.memory.LoadComputed(shared[k], Affine::Var(at), types[k]);
      v.stored = nullptr;
      r.push_back(v);
    }
    return r;
  };
  auto store = [&](const Vals& values) {
    for (size_t k = 0; k < shared.size(); ++k)
      frame.memory.StoreComputed(shared[k], Affine::Var(own), types[k], values[k]);
  };
  frame.scopes.Block([&] {
    frame.scopes.Bind({&own, 1}, frame.thread());
    store(mine);
  });
  frame.EmitBarrier();
  LoopScopes::Values distance = {b.getInt32(1)};
  frame.scopes.Repeat(
      distance, [&](LoopScopes::Values& now) { return b.CreateICmpSLT(now[0], b.getInt32(frame.plan.threads)); },
      [&](LoopScopes::Values& now) -> Value* {
        Value* mask = b.CreateSub(b.CreateShl(now[0], b.getInt32(1)), b.getInt32(1));
        Value* combines = b.CreateICmpEQ(b.CreateAnd(frame.thread(), mask), b.getInt32(0));
        Value* partner = b.CreateAdd(frame.thread(), now[0]);
        frame.scopes.If(combines, [&] {
          frame.scopes.Bind({&own, 1}, frame.thread());
          frame.scopes.Bind({&other, 1}, partner);
          store(frame.body.combiners().Combine(reduce, load(own), load(other)));
        });
        frame.EmitBarrier();
        now[0] = b.CreateShl(now[0], b.getInt32(1));
        return nullptr;
      });
  Vals result;
  for (size_t k = 0; k < shared.size(); ++k) {
    Val v = frame.memory.LoadComputed(shared[k], Affine::Const(0), types[k]);
    v.stored = nullptr;
    result.push_back(v);
  }
  frame.EmitBarrier();  // the memory is written again in the next row
  return result;
}

// The index of an element of the reductions' operands from that of its row and its position in the row.
struct RowIndex {
  std::vector<VarId> row, column;
  Index row_index, full_index;
};

void AddColumns(KernelFrame& frame, const Instruction& reduce, RowIndex& index) {
  index.column.clear(), index.full_index.clear();
  const Shape& shape = reduce.operand(0)->shape();
  size_t row = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (compiler::IsReducedDim(reduce, d)) {
      index.column.push_back(frame.vars.Loop(shape.dimensions(d)));
      index.full_index.push_back(Affine::Var(index.column.back()));
    } else {
      index.full_index.push_back(index.row_index[row++]);
    }
  }
}

// Whether pairs must be combined in the order of their indices.
bool NeedsOrder(KernelFrame& frame, const Instruction& reduce) {
  const codegen::Combiner& c = frame.body.combiners().CombinerOf(reduce);
  return !c.op && !c.reorderable;
}

Vals ReduceRow(KernelFrame& frame, const Instruction& reduce, RowIndex index) {
  AddColumns(frame, reduce, index);
  codegen::CombinerEmitter& combiners = frame.body.combiners();
  const bool identities = combiners.HasIdentities(reduce);
  const Vals initial = frame.body.InitialValues(reduce, identities);
  LoopScopes::Values parts = codegen::PartsOf(initial);
  auto combine = [&](Value* at, LoopScopes::Values& now) {
    frame.scopes.Bind(index.column, at);
    Vals inputs;
    for (int64_t k = 0; k < reduce.operand_count() / 2; ++k)
      inputs.push_back(frame.body.Eval(reduce.operand(k), index.full_index, {}));
    now = codegen::PartsOf(combiners.Combine(reduce, codegen::FromParts(initial, now), inputs));
  };
  if (!NeedsOrder(frame, reduce)) {
    frame.ForEachInBlock(frame.plan.columns, parts, combine);
  } else {
    // Each thread combines neighbours, in their order.
    const int64_t each = (frame.plan.columns + frame.plan.threads - 1) / frame.plan.threads;
    llvm::IntegerType* type = frame.indices.CounterType(each * frame.plan.threads);
    llvm::IRBuilder<>& b = frame.b;
    Value* begin =
        b.CreateMul(b.CreateZExt(frame.thread(), type), llvm::ConstantInt::get(type, static_cast<uint64_t>(each)));
    Value* end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                         b.CreateAdd(begin, llvm::ConstantInt::get(type, static_cast<uint64_t>(each))),
                                         llvm::ConstantInt::get(type, static_cast<uint64_t>(frame.plan.columns)));
    parts.push_back(begin);
    frame.scopes.Repeat(
        parts, [&](LoopScopes::Values& now) { return b.CreateICmpSLT(now.back(), end); },
        [&](LoopScopes::Values& now) -> Value* {
          Value* at = now.back();
          now.pop_back();
          combine(at, now);
          now.push_back(b.CreateAdd(at, llvm::ConstantInt::get(type, 1)));
          return nullptr;
        });
    parts.pop_back();
  }
  Vals all = CombineThreads(frame, reduce, codegen::FromParts(initial, parts));
  if (identities) all = combiners.Combine(reduce, frame.body.InitialValues(reduce, false), all);
  return combiners.Rounded(reduce, std::move(all));
}

}  // namespace

void EmitElements(KernelFrame& frame, const Instruction& fusion) {
  const std::vector<ResultRef> results = BindArrays(frame, *fusion.called(0));
  // Results of equal dimensions share a loop, and what they compute.
  std::map<std::vector<int64_t>, std::vector<const ResultRef*>> by_dims;
  for (const ResultRef& r : results) by_dims[{r.shape.dimensions().begin(), r.shape.dimensions().end()}].push_back(&r);
  for (const auto& [dims, group] : by_dims) {
    const Shape& shape = group[0]->shape;
    if (shape.num_elements() == 0) continue;
    const std::vector<VarId> loops = MakeLoops(frame, shape);
    frame.ForEachInGrid(shape.num_elements(), frame.plan.lanes, [&](Value* at) {
      if (!loops.empty()) frame.scopes.Bind(loops, at, frame.plan.lanes);
      for (const ResultRef* r : group) StoreResult(frame, *r, IndexOf(loops));
    });
  }
}

void EmitRows(KernelFrame& frame, const Instruction& fusion) {
  const std::vector<ResultRef> results = BindArrays(frame, *fusion.called(0));
  const Instruction& first = *frame.plan.reduces[0];
  const Shape& space = first.operand(0)->shape();
  RowIndex index;
  for (int64_t d = 0; d < space.rank(); ++d) {
    if (compiler::IsReducedDim(first, d)) continue;
    index.row.push_back(frame.vars.Loop(space.dimensions(d)));
    index.row_index.push_back(Affine::Var(index.row.back()));
  }
  frame.ForEachBlock(frame.plan.rows, [&](Value* row) {
    if (!index.row.empty()) frame.scopes.Bind(index.row, row);
    for (const Instruction* reduce : frame.plan.reduces) {
      const Vals values = ReduceRow(frame, *reduce, index);
      for (size_t k = 0; k < values.size(); ++k) frame.body.SetValue(reduce, static_cast<int>(k), values[k]);
    }
    AddColumns(frame, first, index);
    std::vector<const ResultRef*> full, single;
    for (const ResultRef& r : results) {
      const bool is_reduce = r.instruction->Is(Opcode::kReduce);
      (!is_reduce && r.shape.dimensions() == space.dimensions() ? full : single).push_back(&r);
    }
    if (!single.empty()) {
      frame.scopes.If(frame.b.CreateICmpEQ(frame.thread(), frame.b.getInt32(0)), [&] {
        for (const ResultRef* r : single) StoreResult(frame, *r, index.row_index);
      });
    }
    if (full.empty()) return;
    LoopScopes::Values none;
    frame.ForEachInBlock(frame.plan.columns, none, [&](Value* at, LoopScopes::Values&) {
      frame.scopes.Bind(index.column, at);
      for (const ResultRef* r : full) StoreResult(frame, *r, index.full_index);
    });
  });
}

absl::Status EmitKernel(codegen::ElementEmitter& elements, const Instruction& instruction, const KernelPlan& plan,
                        absl::string_view name) {
  size_t arrays = static_cast<size_t>(instruction.operand_count());
  ForEachLeaf(instruction.shape(), [&](const Shape&, const std::vector<int64_t>&) { ++arrays; });
  KernelFrame frame(elements, plan, name, arrays);
  switch (plan.kind) {
    case KernelPlan::Kind::kElements:
      EmitElements(frame, instruction);
      break;
    case KernelPlan::Kind::kRows:
      EmitRows(frame, instruction);
      break;
    case KernelPlan::Kind::kUpdate:
      EmitUpdate(frame, instruction);
      break;
    case KernelPlan::Kind::kScatter:
      EmitScatter(frame, instruction);
      break;
    case KernelPlan::Kind::kDot:
      plan.matrix != nullptr ? EmitMatrixDot(frame, instruction) : EmitDot(frame, instruction);
      break;
    case KernelPlan::Kind::kConvolution:
      EmitConvolution(frame, instruction);
      break;
  }
  frame.Finish();
  if (!elements.status().ok())
    return absl::Status(elements.status().code(), absl::StrCat(instruction.name(), ": ", elements.status().message()));
  return absl::OkStatus();
}

}  // namespace backplane::hip
