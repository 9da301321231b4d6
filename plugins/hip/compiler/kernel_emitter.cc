#include "plugins/hip/compiler/kernel_emitter.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
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
  for (KernelResult& r : ListKernelResults(body)) {
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

// The memory in which the threads of a block exchange accumulators. It has room for one value of each thread for each
// operand of a reduction. All reductions of a kernel use it, one after another.
using SharedAccumulators = std::vector<Value*>;

SharedAccumulators AddSharedAccumulators(KernelFrame& frame, const RowsPlan& plan) {
  std::vector<PrimitiveType> widest;
  for (const Instruction* reduce : plan.reduces) {
    for (size_t k = 0; k < static_cast<size_t>(reduce->operand_count() / 2); ++k) {
      const PrimitiveType type = reduce->operand(static_cast<int64_t>(k))->shape().element_type();
      if (k == widest.size()) {
        widest.push_back(type);
      } else if (ByteWidth(type) > ByteWidth(widest[k])) {
        widest[k] = type;
      }
    }
  }
  SharedAccumulators shared;
  for (const PrimitiveType type : widest) shared.push_back(frame.AddShared(type, frame.plan.threads));
  return shared;
}

// The threads of a block that share a row. Thread t works on row t % group of the block, as member t / group.
int64_t CountThreadsOfRow(const KernelFrame& frame, const RowsPlan& plan) { return frame.plan.threads / plan.group; }
Value* EmitThreadInRow(KernelFrame& frame, const RowsPlan& plan) {
  return plan.group == 1 ? frame.thread() : frame.b.CreateUDiv(frame.thread(), frame.b.getInt32(plan.group));
}
Value* EmitRowInGroup(KernelFrame& frame, const RowsPlan& plan) {
  return frame.b.CreateURem(frame.thread(), frame.b.getInt32(plan.group));
}

// Combines the accumulators of the first `count` threads of each row. Neighbours are combined first, so that the
// smaller index stands on the left.
Vals CombineThreads(KernelFrame& frame, const RowsPlan& plan, const Instruction& reduce,
                    const SharedAccumulators& shared, int64_t count, const Vals& mine) {
  llvm::IRBuilder<>& b = frame.b;
  std::vector<PrimitiveType> types;
  for (size_t k = 0; k < mine.size(); ++k)
    types.push_back(reduce.operand(static_cast<int64_t>(k))->shape().element_type());
  const VarId own = frame.vars.Loop(frame.plan.threads), other = frame.vars.Loop(frame.plan.threads);
  auto load = [&](const Affine& at) {
    Vals r;
    for (size_t k = 0; k < types.size(); ++k) {
      Val v = frame.memory.LoadComputed(shared[k], at, types[k]);
      v.stored = nullptr;
      r.push_back(v);
    }
    return r;
  };
  auto store = [&](const Vals& values) {
    for (size_t k = 0; k < types.size(); ++k)
      frame.memory.StoreComputed(shared[k], Affine::Var(own), types[k], values[k]);
  };
  frame.scopes.Block([&] {
    frame.scopes.Bind({&own, 1}, frame.thread());
    store(mine);
  });
  frame.EmitBarrier();
  Value* thread = EmitThreadInRow(frame, plan);
  LoopScopes::Values distance = {b.getInt32(1)};
  frame.scopes.Repeat(
      distance,
      [&](LoopScopes::Values& now) {
        return b.CreateICmpSLT(now[0], b.getInt32(static_cast<uint32_t>(CountThreadsOfRow(frame, plan))));
      },
      [&](LoopScopes::Values& now) -> Value* {
        Value* mask = b.CreateSub(b.CreateShl(now[0], b.getInt32(1)), b.getInt32(1));
        Value* partner = b.CreateAdd(thread, now[0]);
        Value* combines = b.CreateAnd(b.CreateICmpEQ(b.CreateAnd(thread, mask), b.getInt32(0)),
                                      b.CreateICmpSLT(partner, b.getInt32(static_cast<uint32_t>(count))));
        frame.scopes.If(combines, [&] {
          frame.scopes.Bind({&own, 1}, frame.thread());
          frame.scopes.Bind({&other, 1}, b.CreateAdd(frame.thread(), b.CreateMul(now[0], b.getInt32(plan.group))));
          store(frame.body.combiners().Combine(reduce, load(Affine::Var(own)), load(Affine::Var(other))));
        });
        frame.EmitBarrier();
        now[0] = b.CreateShl(now[0], b.getInt32(1));
        return nullptr;
      });
  const VarId first = frame.vars.Loop(plan.group);
  frame.scopes.Bind({&first, 1}, EmitRowInGroup(frame, plan));
  const Vals result = load(Affine::Var(first));
  frame.EmitBarrier();  // the memory is written again
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
  const codegen::Combiner& c = frame.body.combiners().GetCombiner(reduce);
  return !c.op && !c.reorderable;
}

Vals ReduceRow(KernelFrame& frame, const RowsPlan& plan, const Instruction& reduce, RowIndex index,
               const SharedAccumulators& shared) {
  AddColumns(frame, reduce, index);
  codegen::CombinerEmitter& combiners = frame.body.combiners();
  auto inputs_at = [&](Value* at) {
    frame.scopes.Bind(index.column, at);
    Vals inputs;
    for (int64_t k = 0; k < reduce.operand_count() / 2; ++k) {
      Val v = frame.body.Eval(reduce.operand(k), index.full_index, {});
      v.stored = nullptr;
      inputs.push_back(v);
    }
    return inputs;
  };
  if (!NeedsOrder(frame, reduce)) {
    const bool identities = combiners.HasIdentities(reduce);
    const Vals initial = frame.body.InitialValues(reduce, identities);
    LoopScopes::Values parts = codegen::GetParts(initial);
    frame.ForEachInBlock(
        plan.columns, parts,
        [&](Value* at, LoopScopes::Values& now) {
          const Vals inputs = inputs_at(at);
          now = codegen::GetParts(combiners.Combine(reduce, codegen::FromParts(initial, now), inputs));
        },
        plan.group);
    Vals all =
        CombineThreads(frame, plan, reduce, shared, CountThreadsOfRow(frame, plan), codegen::FromParts(initial, parts));
    if (identities) all = combiners.Combine(reduce, frame.body.InitialValues(reduce, false), all);
    return combiners.Rounded(reduce, std::move(all));
  }
  // Each thread combines neighbours, in their order, from its first element on: the initial value stands before all
  // elements and nowhere else. Threads without elements take no part.
  llvm::IRBuilder<>& b = frame.b;
  const int64_t each = CeilDiv(plan.columns, CountThreadsOfRow(frame, plan));
  llvm::IntegerType* type = frame.indices.CounterType(each * frame.plan.threads);
  auto number = [&](int64_t n) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(n)); };
  auto smaller = [&](Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); };
  Value* begin =
      smaller(b.CreateMul(b.CreateZExt(EmitThreadInRow(frame, plan), type), number(each)), number(plan.columns - 1));
  Value* end = smaller(b.CreateAdd(begin, number(each)), number(plan.columns));
  LoopScopes::Values parts;
  Vals like;
  frame.scopes.Block([&] {
    like = inputs_at(begin);
    parts = codegen::GetParts(like);
  });
  parts.push_back(b.CreateAdd(begin, number(1)));
  frame.scopes.Repeat(
      parts, [&](LoopScopes::Values& now) { return b.CreateICmpSLT(now.back(), end); },
      [&](LoopScopes::Values& now) -> Value* {
        Value* at = now.back();
        now.pop_back();
        const Vals inputs = inputs_at(at);
        now = codegen::GetParts(combiners.Combine(reduce, codegen::FromParts(like, now), inputs));
        now.push_back(b.CreateAdd(at, number(1)));
        return nullptr;
      });
  parts.pop_back();
  const int64_t threads = CeilDiv(plan.columns, each);  // with elements
  Vals all = CombineThreads(frame, plan, reduce, shared, threads, codegen::FromParts(like, parts));
  all = combiners.Combine(reduce, frame.body.InitialValues(reduce, false), all);
  return combiners.Rounded(reduce, std::move(all));
}

// Binds the dimensions of the results to the number of an element, the first one of a vector.
void BindLoops(KernelFrame& frame, const std::vector<VarId>& loops, Value* at, int lanes) {
  if (loops.empty()) return;
  const int64_t last = frame.vars.extent(loops.back());
  if (lanes == 0 || loops.size() == 1 || last % lanes != 0) return frame.scopes.Bind(loops, at, lanes);
  // A vector has neighbours of a row: what belongs to the row is a scalar.
  Value* row = llvm::ConstantInt::get(at->getType(), static_cast<uint64_t>(last));
  frame.scopes.Bind(absl::MakeConstSpan(loops).first(loops.size() - 1), frame.b.CreateUDiv(at, row));
  frame.scopes.Bind({&loops.back(), 1}, frame.b.CreateURem(at, row), lanes);
}

}  // namespace

void EmitBody(KernelFrame& frame, const Instruction& fusion, const ElementsPlan& plan) {
  const std::vector<ResultRef> results = BindArrays(frame, *fusion.called(0));
  // Results of equal dimensions share a loop, and what they compute.
  std::map<std::vector<int64_t>, std::vector<const ResultRef*>> by_dims;
  for (const ResultRef& r : results) by_dims[{r.shape.dimensions().begin(), r.shape.dimensions().end()}].push_back(&r);
  for (const auto& [dims, group] : by_dims) {
    const Shape& shape = group[0]->shape;
    if (shape.num_elements() == 0) continue;
    const std::vector<VarId> loops = MakeLoops(frame, shape);
    frame.ForEachInGrid(shape.num_elements(), plan.lanes, [&](Value* at) {
      BindLoops(frame, loops, at, plan.lanes);
      // First all values, then the stores: a result may have the memory of an operand that the others read.
      Vals values;
      for (const ResultRef* r : group)
        values.push_back(frame.body.Eval(r->instruction, IndexOf(loops), {}, r->element));
      for (size_t k = 0; k < group.size(); ++k)
        frame.memory.Store(group[k]->array, Linearize(IndexOf(loops), dims), values[k], {});
    });
  }
}

void EmitBody(KernelFrame& frame, const Instruction& fusion, const RowsPlan& plan) {
  const std::vector<ResultRef> results = BindArrays(frame, *fusion.called(0));
  const Instruction& first = *plan.reduces[0];
  const Shape& space = first.operand(0)->shape();
  RowIndex index;
  for (int64_t d = 0; d < space.rank(); ++d) {
    if (compiler::IsReducedDim(first, d)) continue;
    index.row.push_back(frame.vars.Loop(space.dimensions(d)));
    index.row_index.push_back(Affine::Var(index.row.back()));
  }
  const SharedAccumulators shared = AddSharedAccumulators(frame, plan);
  const int64_t group = plan.group, groups = CeilDiv(plan.rows, group);
  frame.ForEachBlock(groups, [&](Value* number) {
    Value *row = number, *exists = nullptr;
    if (group > 1) {
      auto constant = [&](int64_t n) { return llvm::ConstantInt::get(number->getType(), static_cast<uint64_t>(n)); };
      row = frame.b.CreateAdd(frame.b.CreateMul(number, constant(group)),
                              frame.b.CreateZExt(EmitRowInGroup(frame, plan), number->getType()));
      if (groups * group != plan.rows) {
        // Another row stands in for one that does not exist: all threads reach the same barriers.
        exists = frame.b.CreateICmpULT(row, constant(plan.rows));
        row = frame.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row, constant(plan.rows - 1));
      }
    }
    if (!index.row.empty()) frame.scopes.Bind(index.row, row);
    for (const Instruction* reduce : plan.reduces) {
      const Vals values = ReduceRow(frame, plan, *reduce, index, shared);
      for (size_t k = 0; k < values.size(); ++k) frame.body.SetValue(reduce, static_cast<int>(k), values[k]);
    }
    AddColumns(frame, first, index);
    std::vector<const ResultRef*> full, single;
    for (const ResultRef& r : results) {
      const bool is_reduce = r.instruction->Is(Opcode::kReduce);
      (!is_reduce && r.shape.dimensions() == space.dimensions() ? full : single).push_back(&r);
    }
    if (!single.empty()) {
      Value* stores = frame.b.CreateICmpEQ(EmitThreadInRow(frame, plan), frame.b.getInt32(0));
      frame.scopes.If(exists != nullptr ? frame.b.CreateAnd(stores, exists) : stores, [&] {
        for (const ResultRef* r : single) StoreResult(frame, *r, index.row_index);
      });
    }
    if (full.empty()) return;
    frame.scopes.If(exists, [&] {
      LoopScopes::Values none;
      frame.ForEachInBlock(
          plan.columns, none,
          [&](Value* at, LoopScopes::Values&) {
            frame.scopes.Bind(index.column, at);
            for (const ResultRef* r : full) StoreResult(frame, *r, index.full_index);
          },
          plan.group);
    });
  });
}

void EmitBody(KernelFrame& frame, const Instruction&, const DotPlan& plan) {
  plan.matrix != nullptr ? EmitMatrixDot(frame, plan) : EmitProductDot(frame, plan);
}

absl::Status EmitKernel(codegen::ElementEmitter& elements, const Instruction& instruction, const KernelPlan& plan,
                        absl::string_view name) {
  if (elements.module()->getFunction(llvm::StringRef(name.data(), name.size())) != nullptr)
    return absl::InternalError(absl::StrCat(instruction.name(), ": there is a kernel ", name, " already"));
  size_t arrays = static_cast<size_t>(instruction.operand_count());
  ForEachLeaf(instruction.shape(), [&](const Shape&, const std::vector<int64_t>&) { ++arrays; });
  if (plan.scratch_bytes > 0) ++arrays;
  KernelFrame frame(elements, plan, name, arrays);
  std::visit([&](const auto& kind) { EmitBody(frame, instruction, kind); }, plan.kind);
  frame.Finish();
  if (!elements.status().ok())
    return absl::Status(elements.status().code(), absl::StrCat(instruction.name(), ": ", elements.status().message()));
  return absl::OkStatus();
}

}  // namespace backplane::hip
