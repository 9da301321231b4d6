#include "plugins/hip/compiler/transpose_kernel.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/compiler/index_map.h"

namespace backplane::hip {

using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using compiler::Index;
using llvm::Value;

namespace {

constexpr int64_t kMinSide = 16;         // of a tile: shorter ones would leave most of a transaction unused
constexpr int64_t kMinElements = 8192;   // fewer are in the caches
constexpr size_t kMaxCrossedArrays = 4;  // of a kernel

// The dimensions of a tile are `dim` and the last one.
struct Crossing {
  int64_t dim = 0, tile = 0;
  int64_t rows = 0, columns = 0, others = 1;  // extents of `dim`, of the last dimension, and of all others together
  std::vector<compiler::Access> arrays;       // that are read across
};

std::optional<Crossing> FindCrossing(const Computation& body, compiler::VarTable& vars,
                                     const std::vector<VarId>& loops) {
  const std::vector<KernelResult> results = ListKernelResults(body);
  const Shape& shape = results[0].shape;
  if (shape.rank() < 2 || shape.num_elements() < kMinElements) return std::nullopt;
  Index index;
  for (const VarId v : loops) index.push_back(Affine::Var(v));
  const compiler::AccessWalk::ArraySet none;
  compiler::AccessWalk walk(vars, none);
  for (const KernelResult& r : results) {
    if (r.shape.dimensions() != shape.dimensions()) return std::nullopt;
    walk.Visit(r.instruction, index);
  }
  walk.Finish();
  if (walk.too_complex() || !walk.reduces().empty()) return std::nullopt;
  Crossing c;
  const int64_t last = shape.rank() - 1;
  c.dim = -1;
  int64_t bytes = 0, widest = 1;
  for (const compiler::Access& a : walk.accesses()) {
    if (a.guarded || a.array->Is(Opcode::kConstant) || !a.array->shape().IsArray()) continue;
    const bool by_loops = std::all_of(a.address.terms.begin(), a.address.terms.end(), [&](const compiler::Term& t) {
      return vars.def(t.var).kind == compiler::VarKind::kLoop;
    });
    const int64_t step = a.address.GetCoef(loops[static_cast<size_t>(last)]);
    if (!by_loops || step == 0 || step == 1) continue;
    for (int64_t d = 0; d < last; ++d) {
      if (a.address.GetCoef(loops[static_cast<size_t>(d)]) != 1 || shape.dimensions(d) < kMinSide) continue;
      if (c.dim >= 0 && c.dim != d) break;
      const PrimitiveType t = a.array->shape().element_type();
      if (IsSubByte(t) || c.arrays.size() == kMaxCrossedArrays) break;
      c.dim = d;
      c.arrays.push_back(a);
      bytes += std::max(4, ByteWidth(t));
      widest = std::max<int64_t>(widest, ByteWidth(t));
      break;
    }
  }
  if (c.dim < 0) return std::nullopt;
  c.rows = shape.dimensions(c.dim), c.columns = shape.dimensions(last);
  if (c.columns < kMinSide) return std::nullopt;
  c.others = shape.num_elements() / (c.rows * c.columns);
  c.tile = widest <= 4 && std::min(c.rows, c.columns) >= 64 ? 64 : 32;
  while (c.tile > kMinSide && bytes * c.tile * (c.tile + 4) > kMaxSharedBytes) c.tile /= 2;
  if (bytes * c.tile * (c.tile + 4) > kMaxSharedBytes) return std::nullopt;
  return c;
}

// Slots of a row of the array in shared memory. The rest of a row stays empty, so that no two rows begin in one bank.
int64_t PitchOf(const compiler::Access& access, int64_t tile) {
  return tile + std::max(1, 4 / ByteWidth(access.array->shape().element_type()));
}

std::vector<VarId> MakeTransposeLoops(compiler::VarTable& vars, const Shape& shape) {
  std::vector<VarId> loops;
  for (const int64_t n : shape.dimensions()) loops.push_back(vars.Loop(n));
  return loops;
}

}  // namespace

std::optional<KernelPlan> PlanTranspose(const Computation& body) {
  compiler::VarTable vars;
  const std::vector<KernelResult> results = ListKernelResults(body);
  if (results.empty() || !results[0].shape.IsArray()) return std::nullopt;
  const std::optional<Crossing> c = FindCrossing(body, vars, MakeTransposeLoops(vars, results[0].shape));
  if (!c) return std::nullopt;
  const int64_t tiles = c->others * CeilDiv(c->rows, c->tile) * CeilDiv(c->columns, c->tile);
  KernelPlan plan;
  plan.kind = TransposePlan{};
  plan.blocks = CountBlocks(tiles, 1);
  plan.note =
      absl::StrCat("transpose: ", results[0].shape.num_elements(), " elements, tiles of ", c->tile, " x ", c->tile);
  return plan;
}

void EmitBody(KernelFrame& f, const Instruction& fusion, const TransposePlan&) {
  llvm::IRBuilder<>& b = f.b;
  const Computation& body = *fusion.called(0);
  const std::vector<KernelResult> results = ListKernelResults(body);
  size_t next = 0;
  for (const Instruction* p : body.parameters()) f.body.SetArray(p, 0, {f.array(next++), p->shape().element_type()});
  const std::vector<VarId> loops = MakeTransposeLoops(f.vars, results[0].shape);
  const std::optional<Crossing> found = FindCrossing(body, f.vars, loops);
  if (!found) return f.elements.Fail(absl::InternalError(absl::StrCat(fusion.name(), ": no transpose")));
  const Crossing& c = *found;
  std::vector<Value*> shared;
  for (const compiler::Access& a : c.arrays)
    shared.push_back(f.AddShared(a.array->shape().element_type(), c.tile * PitchOf(a, c.tile)));
  const VarId row = loops[static_cast<size_t>(c.dim)], column = loops.back();
  std::vector<VarId> others;
  for (size_t d = 0; d + 1 < loops.size(); ++d) {
    if (static_cast<int64_t>(d) != c.dim) others.push_back(loops[d]);
  }
  const int64_t row_tiles = CeilDiv(c.rows, c.tile), column_tiles = CeilDiv(c.columns, c.tile);
  llvm::IntegerType* wide = f.indices.CounterType(2 * c.others * row_tiles * column_tiles * c.tile);
  auto number = [&](int64_t n) { return llvm::ConstantInt::get(wide, static_cast<uint64_t>(n)); };
  std::vector<VarId> slots;
  for (const compiler::Access& a : c.arrays) slots.push_back(f.vars.Loop(c.tile * PitchOf(a, c.tile)));

  f.ForEachBlock(c.others * row_tiles * column_tiles, [&](Value* tile) {
    tile = b.CreateZExtOrTrunc(tile, wide);
    Value* first_column = b.CreateMul(b.CreateURem(tile, number(column_tiles)), number(c.tile));
    tile = b.CreateUDiv(tile, number(column_tiles));
    Value* first_row = b.CreateMul(b.CreateURem(tile, number(row_tiles)), number(c.tile));
    Value* other = b.CreateUDiv(tile, number(row_tiles));
    // `slow` and `fast`: the places in the tile of which neighbouring threads have equal and neighbouring ones.
    auto for_each = [&](const std::function<void(Value * slow, Value * fast)>& emit) {
      LoopScopes::Values carried;
      f.ForEachInBlock(c.tile * c.tile, carried, [&](Value* at, LoopScopes::Values&) {
        at = b.CreateZExtOrTrunc(at, wide);
        emit(b.CreateUDiv(at, number(c.tile)), b.CreateURem(at, number(c.tile)));
      });
    };
    auto bind = [&](Value* in_row, Value* in_column) {
      if (!others.empty()) f.scopes.Bind(others, other);
      f.scopes.Bind({&row, 1}, in_row);
      f.scopes.Bind({&column, 1}, in_column);
    };
    auto bind_slots = [&](Value* of_row, Value* of_column) {
      for (size_t k = 0; k < slots.size(); ++k) {
        Value* begin = b.CreateMul(of_column, number(PitchOf(c.arrays[k], c.tile)));
        f.scopes.Bind({&slots[k], 1}, b.CreateAdd(begin, of_row));
      }
    };
    // The memory has elements as the array has them, so that a moved one keeps all its bits.
    auto slot_array = [&](size_t k) -> ArrayRef { return {shared[k], c.arrays[k].array->shape().element_type()}; };
    f.scopes.Block([&] {
      for_each([&](Value* slow, Value* fast) {
        // Past the edges, the last element stands in for one that does not exist.
        auto inside = [&](Value* at, int64_t extent) {
          return extent % c.tile == 0 ? at : b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at, number(extent - 1));
        };
        bind(inside(b.CreateAdd(first_row, fast), c.rows), inside(b.CreateAdd(first_column, slow), c.columns));
        bind_slots(fast, slow);
        std::vector<Val> values;
        for (const compiler::Access& a : c.arrays) values.push_back(f.body.Eval(a.array, a.index, {}));
        for (size_t k = 0; k < shared.size(); ++k) f.memory.Store(slot_array(k), Affine::Var(slots[k]), values[k], {});
      });
    });
    f.EmitBarrier();
    f.scopes.Block([&] {
      for_each([&](Value* slow, Value* fast) {
        Value *in_row = b.CreateAdd(first_row, slow), *in_column = b.CreateAdd(first_column, fast), *exists = nullptr;
        if (c.rows % c.tile != 0) exists = b.CreateICmpULT(in_row, number(c.rows));
        if (c.columns % c.tile != 0) {
          Value* is_inside = b.CreateICmpULT(in_column, number(c.columns));
          exists = exists == nullptr ? is_inside : b.CreateAnd(exists, is_inside);
        }
        f.scopes.If(exists, [&] {
          bind(in_row, in_column);
          bind_slots(slow, fast);
          for (size_t k = 0; k < shared.size(); ++k) {
            const Val v = f.memory.Load(slot_array(k), Affine::Var(slots[k]), {});
            f.body.SetElement(c.arrays[k].array, c.arrays[k].index, v);
          }
          Index index;
          for (const VarId v : loops) index.push_back(Affine::Var(v));
          Vals values;
          for (const KernelResult& r : results) values.push_back(f.body.Eval(r.instruction, index, {}, r.element));
          for (size_t k = 0; k < results.size(); ++k) {
            const ArrayRef array{f.array(next + k), results[k].shape.element_type()};
            f.memory.Store(array, Linearize(index, results[k].shape.dimensions()), values[k], {});
          }
        });
      });
    });
    f.EmitBarrier();  // the memory is written again
  });
}

}  // namespace backplane::hip
