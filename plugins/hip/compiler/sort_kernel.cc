#include "plugins/hip/compiler/sort_kernel.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/array_rows.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/can_evaluate.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kMaxChunk = 4096;  // elements that a block sorts

int64_t PowerOfTwoFrom(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

int64_t DimensionOf(const Instruction& sort) {
  return sort.dimensions().empty() ? sort.operand(0)->shape().rank() - 1 : sort.dimensions()[0];
}

// How blocks divide the rows of a sort.
struct SortRows : ArrayRows {
  explicit SortRows(const Instruction& sort) : ArrayRows(sort.operand(0)->shape(), DimensionOf(sort)) {
    int64_t bytes = 0;  // as KernelFrame::AddShared counts them
    for (const Instruction* o : sort.operands()) bytes += std::max(4, ByteWidth(o->shape().element_type()));
    chunk = std::min(kMaxChunk, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kMaxSharedBytes / bytes))));
    padded = std::max<int64_t>(2, PowerOfTwoFrom(length));
    // Short rows: as many as keep the threads of a block busy.
    if (padded <= chunk) chunk = std::min(chunk, std::max<int64_t>(padded, 512));
    run = std::min(padded, chunk);
  }

  bool is_chunked() const { return padded > chunk; }
  int64_t chunks_of_row() const { return CeilDiv(length, chunk); }
  // Of all rows: parts of rows, or groups of rows.
  int64_t chunks() const { return is_chunked() ? rows * chunks_of_row() : CeilDiv(rows, chunk / padded); }

  int64_t padded = 0;  // the length of a row, rounded up to a power of two
  int64_t chunk = 0;   // elements that a block sorts, a power of two
  int64_t run = 0;     // elements that follow one another in sorted order afterwards
};

class SortEmitter {
 public:
  SortEmitter(KernelFrame& frame, const Instruction& sort) : f_(frame), b_(frame.b), sort_(sort), rows_(sort) {
    for (const Instruction* o : sort.operands()) types_.push_back(o->shape().element_type());
    wide_ = f_.indices.CounterType(2 * std::max(rows_.rows * rows_.padded, rows_.elements + rows_.chunk));
  }

  void EmitChunks() {
    for (const PrimitiveType t : types_) shared_.push_back(f_.AddShared(t, rows_.chunk));
    f_.ForEachBlock(rows_.chunks(), [&](Value* chunk) {
      chunk = b_.CreateZExtOrTrunc(chunk, wide_);
      f_.scopes.Block([&] { CopyChunk(chunk, true); });
      f_.EmitBarrier();
      EmitRounds(chunk);
      f_.scopes.Block([&] { CopyChunk(chunk, false); });
      f_.EmitBarrier();  // the memory is written again
    });
  }

  // One round in global memory.
  void EmitRound() {
    const int64_t pairs = rows_.padded / 2;
    f_.ForEachInGrid(rows_.rows * pairs, 0, [&](Value* at) {
      at = b_.CreateZExtOrTrunc(at, wide_);
      Value* row = b_.CreateUDiv(at, Number(wide_, pairs));
      auto [lower, upper] = PairAt(b_.CreateURem(at, Number(wide_, pairs)), b_.CreateTrunc(f_.number(0), wide_),
                                   b_.CreateTrunc(f_.number(1), wide_));
      f_.scopes.If(b_.CreateICmpULT(upper, Number(wide_, rows_.length)), [&, lower = lower, upper = upper] {
        std::vector<ArrayRef> results;
        for (size_t k = 0; k < types_.size(); ++k) results.push_back(Result(k));
        Exchange(results, ElementAt(row, lower), ElementAt(row, upper));
      });
    });
  }

 private:
  static Value* Number(llvm::Type* type, int64_t n) {
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(n), true);
  }
  ArrayRef Operand(size_t k) const { return {f_.array(k), types_[k]}; }
  ArrayRef Result(size_t k) const { return {f_.array(types_.size() + k), types_[k]}; }
  ArrayRef Shared(size_t k) const { return {shared_[k], types_[k]}; }

  // The positions of pair `pair` of a round: `distance` is a power of two, and `mask` the bits in which the positions
  // differ.
  std::pair<Value*, Value*> PairAt(Value* pair, Value* distance, Value* mask) {
    Value* low = b_.CreateAnd(pair, b_.CreateSub(distance, Number(pair->getType(), 1)));
    Value* lower = b_.CreateSub(b_.CreateShl(pair, 1), low);
    return {lower, b_.CreateXor(lower, mask)};
  }

  // The element of the arrays at a position of a row.
  Affine ElementAt(Value* row, Value* position) {
    return f_.AsIndex(rows_.AddressOf(b_, row, position), rows_.elements);
  }
  Affine Slot(Value* slot) { return f_.AsIndex(slot, rows_.chunk); }

  // The row and the position in it of a slot of a chunk.
  std::pair<Value*, Value*> PositionOf(Value* chunk, Value* slot) {
    slot = b_.CreateZExtOrTrunc(slot, wide_);
    if (rows_.is_chunked()) {
      Value* of_row = Number(wide_, rows_.chunks_of_row());
      Value* base = b_.CreateMul(b_.CreateURem(chunk, of_row), Number(wide_, rows_.chunk));
      return {b_.CreateUDiv(chunk, of_row), b_.CreateAdd(base, slot)};
    }
    Value* base = b_.CreateMul(chunk, Number(wide_, rows_.chunk / rows_.padded));
    return {b_.CreateAdd(base, b_.CreateUDiv(slot, Number(wide_, rows_.padded))),
            b_.CreateURem(slot, Number(wide_, rows_.padded))};
  }

  Value* Exists(Value* row, Value* position) {
    Value* inside = b_.CreateICmpULT(position, Number(wide_, rows_.length));
    if (rows_.is_chunked()) return inside;
    return b_.CreateAnd(inside, b_.CreateICmpULT(row, Number(wide_, rows_.rows)));
  }

  // Between global and shared memory.
  void CopyChunk(Value* chunk, bool load) {
    LoopScopes::Values none;
    f_.ForEachInBlock(rows_.chunk, none, [&](Value* slot, LoopScopes::Values&) {
      auto [row, position] = PositionOf(chunk, slot);
      f_.scopes.If(Exists(row, position), [&, row = row, position = position] {
        const Affine here = Slot(slot), there = ElementAt(row, position);
        Vals values;
        for (size_t k = 0; k < types_.size(); ++k)
          values.push_back(load ? f_.memory.Load(Operand(k), there, {}) : f_.memory.Load(Shared(k), here, {}));
        for (size_t k = 0; k < types_.size(); ++k)
          load ? f_.memory.Store(Shared(k), here, values[k], {}) : f_.memory.Store(Result(k), there, values[k], {});
      });
    });
  }

  // Runs of `length` = 2, 4, ... elements are sorted by merging their sorted halves. The first round compares mirrored
  // positions, which differ in all bits of length - 1; then both halves are as if merged, and the following rounds
  // compare positions at the distances length / 4, length / 8, ..., 1.
  void EmitRounds(Value* chunk) {
    llvm::Type* type = b_.getInt32Ty();
    const bool one_launch = f_.plan.numbers == 0;
    Value* length = one_launch ? b_.getInt32(2) : b_.CreateTrunc(f_.number(0), type);
    Value* mask = one_launch ? b_.getInt32(1) : b_.CreateTrunc(f_.number(1), type);
    LoopScopes::Values state = {length, b_.CreateLShr(length, 1), mask};
    f_.scopes.Repeat(
        state, [&](LoopScopes::Values& now) { return b_.CreateICmpULE(now[0], Number(type, rows_.run)); },
        [&](LoopScopes::Values& now) -> Value* {
          EmitSharedRound(chunk, now[1], now[2]);
          f_.EmitBarrier();
          Value* last = b_.CreateICmpEQ(now[1], b_.getInt32(1));
          Value* twice = b_.CreateShl(now[0], 1);
          Value* half = b_.CreateLShr(now[1], 1);
          Value* mirrored = b_.CreateSub(twice, b_.getInt32(1));
          now = {b_.CreateSelect(last, twice, now[0]), b_.CreateSelect(last, now[0], half),
                 b_.CreateSelect(last, mirrored, half)};
          return nullptr;
        });
  }

  void EmitSharedRound(Value* chunk, Value* distance, Value* mask) {
    LoopScopes::Values none;
    f_.ForEachInBlock(rows_.chunk / 2, none, [&](Value* pair, LoopScopes::Values&) {
      pair = b_.CreateZExtOrTrunc(pair, b_.getInt32Ty());
      auto [lower, upper] = PairAt(pair, distance, mask);
      auto [row, position] = PositionOf(chunk, upper);
      f_.scopes.If(Exists(row, position), [&, lower = lower, upper = upper] {
        std::vector<ArrayRef> arrays;
        for (size_t k = 0; k < types_.size(); ++k) arrays.push_back(Shared(k));
        Exchange(arrays, Slot(lower), Slot(upper));
      });
    });
  }

  // Exchanges the elements at two positions if the second precedes the first.
  void Exchange(const std::vector<ArrayRef>& arrays, const Affine& first, const Affine& second) {
    Vals lower, upper, arguments;
    for (const ArrayRef& a : arrays) {
      lower.push_back(f_.memory.Load(a, first, {}));
      upper.push_back(f_.memory.Load(a, second, {}));
      arguments.push_back(upper.back());
      arguments.push_back(lower.back());
    }
    Value* precedes = f_.body.caller().Call(*sort_.called(0), arguments)[0].v;
    f_.scopes.If(precedes, [&] {
      for (size_t k = 0; k < arrays.size(); ++k) {
        f_.memory.Store(arrays[k], first, upper[k], {});
        f_.memory.Store(arrays[k], second, lower[k], {});
      }
    });
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const Instruction& sort_;
  const SortRows rows_;
  std::vector<PrimitiveType> types_;
  llvm::IntegerType* wide_ = nullptr;  // counts elements
  std::vector<Value*> shared_;         // by operand
};

}  // namespace

absl::StatusOr<KernelPlan> PlanSort(const Instruction& sort) {
  RETURN_IF_ERROR(codegen::CheckArrays(sort));
  RETURN_IF_ERROR(codegen::CanCall(*sort.called(0)));
  if (2 * sort.operand_count() > kMaxArrays)
    return absl::UnimplementedError(absl::StrCat(sort.name(), ": ", sort.operand_count(), " operands"));
  const SortRows rows(sort);
  KernelPlan plan;
  plan.kind = KernelPlan::Kind::kSort;
  plan.blocks = CountBlocks(rows.chunks(), 1);
  plan.note = absl::StrCat("sort: ", rows.rows, " rows of ", rows.length, ", ", rows.chunk, " elements in a block");
  if (!rows.is_chunked()) return plan;
  plan.numbers = 2;
  plan.further = {CountBlocks(rows.rows * rows.padded / 2, plan.threads)};
  plan.launches.push_back({0, {2, 1}, false});
  for (int64_t length = 2 * rows.chunk; length <= rows.padded; length *= 2) {
    plan.launches.push_back({1, {length / 2, length - 1}, true});
    for (int64_t distance = length / 4; distance >= rows.chunk; distance /= 2)
      plan.launches.push_back({1, {distance, distance}, true});
    plan.launches.push_back({0, {rows.chunk, rows.chunk / 2}, true});
  }
  absl::StrAppend(&plan.note, ", ", plan.launches.size(), " launches");
  return plan;
}

void EmitSort(KernelFrame& frame, const Instruction& sort) {
  SortEmitter emitter(frame, sort);
  frame.plan.kernel == 0 ? emitter.EmitChunks() : emitter.EmitRound();
}

}  // namespace backplane::hip
