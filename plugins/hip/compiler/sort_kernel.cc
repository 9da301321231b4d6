#include "plugins/hip/compiler/sort_kernel.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/array_rows.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/sort_order.h"
#include "sdk/codegen/body/can_evaluate.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kMaxChunk = 4096;      // elements that a block sorts
constexpr int64_t kMaxMergeTile = 2048;  // elements that a block merges at a time
constexpr int64_t kScratchAlignment = 256;

int64_t PowerOfTwoFrom(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

int64_t DimensionOf(const Instruction& sort) {
  return sort.dimensions().empty() ? sort.operand(0)->shape().rank() - 1 : sort.dimensions()[0];
}

// How blocks divide the rows of a sort.
struct SortRows : ArrayRows {
  explicit SortRows(const Instruction& sort) : ArrayRows(sort.operand(0)->shape(), DimensionOf(sort)) {
    int64_t bytes = 0;  // as KernelFrame::AddShared counts them
    for (const Instruction* o : sort.operands()) bytes += std::max(4, ByteWidth(o->shape().element_type()));
    auto fits = [](int64_t each) {
      return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kMaxSharedBytes / each)));
    };
    numbered = sort.attrs().GetBool(AttrId::kIsStable) && !DistinguishesAll(sort);
    // A chunk that is not the whole row gets numbers only if it is merged afterwards.
    const int64_t with_numbers = std::min(kMaxChunk, fits(bytes + 4));
    merges =
        length > (numbered ? with_numbers : std::min(kMaxChunk, fits(bytes))) && IsStrictWeakOrder(*sort.called(0));
    if (length > with_numbers && !merges) numbered = false;
    if (numbered) bytes += 4;
    // A merging block has the numbers of the merged elements, besides them.
    tile = std::min({kMaxMergeTile, fits(bytes + (numbered ? 0 : 4)) / 2, fits(bytes)});
    chunk = std::min(kMaxChunk, fits(bytes));
    padded = std::max<int64_t>(2, PowerOfTwoFrom(length));
    // Short rows: as many as keep the threads of a block busy.
    if (padded <= chunk) chunk = std::min(chunk, std::max<int64_t>(padded, 512));
    run = std::min(padded, chunk);
  }

  bool is_chunked() const { return padded > chunk; }
  int64_t chunks_of_row() const { return CeilDiv(length, chunk); }
  // Of all rows: parts of rows, or groups of rows.
  int64_t chunks() const { return is_chunked() ? rows * chunks_of_row() : CeilDiv(rows, chunk / padded); }

  // Of all rows: parts of rows that blocks merge.
  int64_t tiles_of_row() const { return CeilDiv(length, tile); }

  bool numbered = false;  // equal elements are told apart by their numbers in the chunk
  bool merges = false;    // sorted chunks are merged
  int64_t tile = 0;       // elements that a block merges
  int64_t padded = 0;     // the length of a row, rounded up to a power of two
  int64_t chunk = 0;      // elements that a block sorts, a power of two
  int64_t run = 0;        // elements that follow one another in sorted order afterwards
};

int64_t ScratchBytes(const Shape& shape) { return CeilDiv(shape.byte_size(), kScratchAlignment) * kScratchAlignment; }

// How often runs are merged.
int64_t CountMerges(const SortRows& rows) {
  int64_t merges = 0;
  for (int64_t run = rows.chunk; run < rows.length; run *= 2) ++merges;
  return merges;
}

class SortEmitter {
 public:
  SortEmitter(KernelFrame& frame, const Instruction& sort) : f_(frame), b_(frame.b), sort_(sort), rows_(sort) {
    for (const Instruction* o : sort.operands()) types_.push_back(o->shape().element_type());
    wide_ = f_.indices.CounterType(2 * std::max(rows_.rows * rows_.padded, rows_.elements + rows_.chunk));
  }

  void EmitChunks() {
    for (const PrimitiveType t : types_) shared_.push_back(f_.AddShared(t, rows_.chunk));
    if (rows_.numbered) numbers_ = f_.AddShared(PrimitiveType::kS32, rows_.chunk);
    if (rows_.merges) SetRuns(false, nullptr, CountMerges(rows_) % 2 == 1);
    f_.ForEachBlock(rows_.chunks(), [&](Value* chunk) {
      chunk = b_.CreateZExtOrTrunc(chunk, wide_);
      f_.scopes.Block([&] { CopyChunk(chunk, true); });
      f_.EmitBarrier();
      EmitRounds(chunk);
      f_.scopes.Block([&] { CopyChunk(chunk, false); });
      f_.EmitBarrier();  // the memory is written again
    });
  }

  // Merges pairs of runs.
  void EmitMerge() {
    for (const PrimitiveType t : types_) shared_.push_back(f_.AddShared(t, rows_.tile));
    sources_ = f_.AddShared(PrimitiveType::kS32, rows_.tile);
    limits_ = f_.AddShared(PrimitiveType::kS64, 4);
    flags_ = f_.AddShared(PrimitiveType::kS32, f_.plan.threads);
    SetRuns(true, b_.CreateICmpNE(f_.number(1), b_.getInt64(0)), false);
    f_.ForEachBlock(rows_.rows * rows_.tiles_of_row(), [&](Value* block) {
      block = b_.CreateZExtOrTrunc(block, wide_);
      Value *row = b_.CreateUDiv(block, Wide(rows_.tiles_of_row())), *length = Wide(rows_.length);
      Value* begin = b_.CreateMul(b_.CreateURem(block, Wide(rows_.tiles_of_row())), Wide(rows_.tile));
      Value* run = b_.CreateTrunc(f_.number(0), wide_);
      // The pair of runs, and which elements of the merged one the block has.
      Runs r;
      r.row = row;
      r.first = b_.CreateAnd(begin, b_.CreateNeg(b_.CreateShl(run, 1)));
      r.second = b_.CreateAdd(r.first, run);
      r.left = Min(run, b_.CreateSub(length, r.first));
      r.right = b_.CreateSub(Min(b_.CreateAdd(r.second, run), length), Min(r.second, length));
      Value* from = b_.CreateSub(begin, r.first);
      Value* to = Min(b_.CreateAdd(from, Wide(rows_.tile)), b_.CreateAdd(r.left, r.right));
      auto [i0, i1] = FindLimits(r, from, to);
      Value *j0 = b_.CreateSub(from, i0), *j1 = b_.CreateSub(to, i1);
      Value* left = b_.CreateTrunc(b_.CreateSub(i1, i0), b_.getInt32Ty());
      Value* right = b_.CreateTrunc(b_.CreateSub(j1, j0), b_.getInt32Ty());
      Value* count = b_.CreateAdd(left, right);
      ForEachOfTile(count, [&, i0 = i0](Value* slot) {
        Value* is_left = b_.CreateICmpULT(slot, left);
        Value* in_left = b_.CreateAdd(b_.CreateAdd(r.first, i0), b_.CreateZExtOrTrunc(slot, wide_));
        Value* in_right =
            b_.CreateAdd(b_.CreateAdd(r.second, j0), b_.CreateZExtOrTrunc(b_.CreateSub(slot, left), wide_));
        Value* at = b_.CreateSelect(is_left, in_left, in_right);
        const Affine here = f_.AsIndex(slot, rows_.tile), there = ElementAt(row, at);
        for (size_t k = 0; k < types_.size(); ++k)
          f_.memory.Store(Shared(k), here, f_.memory.Load({from_[k], types_[k]}, there, {}), {});
      });
      f_.EmitBarrier();
      MergeOwn(left, right, count);
      f_.EmitBarrier();
      ForEachOfTile(count, [&](Value* slot) {
        Value* source = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), sources_, slot));
        const Affine here = f_.AsIndex(source, rows_.tile);
        const Affine there = ElementAt(row, b_.CreateAdd(begin, b_.CreateZExtOrTrunc(slot, wide_)));
        for (size_t k = 0; k < types_.size(); ++k)
          f_.memory.Store({to_[k], types_[k]}, there, f_.memory.Load(Shared(k), here, {}), {});
      });
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
  Value* Wide(int64_t n) { return Number(wide_, n); }
  Value* Min(Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); }
  Value* Max(Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); }

  // Sets from_ and to_. The runs of a merge are in the results, or in the scratch memory if `from_scratch` holds; those
  // of chunks are written to one of them.
  void SetRuns(bool is_merge, Value* from_scratch, bool to_scratch) {
    int64_t offset = 0;
    Value* scratch = f_.array(2 * types_.size());
    for (size_t k = 0; k < types_.size(); ++k) {
      Value* in_scratch = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch, static_cast<uint64_t>(offset));
      Value* result = f_.array(types_.size() + k);
      from_.push_back(is_merge ? b_.CreateSelect(from_scratch, in_scratch, result) : f_.array(k));
      to_.push_back(is_merge ? b_.CreateSelect(from_scratch, result, in_scratch) : to_scratch ? in_scratch : result);
      offset += ScratchBytes(sort_.operand(static_cast<int64_t>(k))->shape());
    }
  }

  // Two runs of a row: where they begin, and their lengths. The second may be shorter or empty.
  struct Runs {
    Value *row, *first, *second, *left, *right;
  };

  // Whether element `y` of the second run precedes element `x` of the first.
  Value* RightPrecedes(const std::vector<ArrayRef>& arrays, const Affine& x, const Affine& y) {
    Vals arguments;
    for (const ArrayRef& a : arrays) {
      arguments.push_back(f_.memory.Load(a, y, {}));
      arguments.push_back(f_.memory.Load(a, x, {}));
    }
    return f_.body.caller().Call(*sort_.called(0), arguments)[0].v;
  }

  // Returns how many elements of the first run are among the first `from` and the first `to` of the merged one. Each
  // half of the block searches for one of them: the threads test equidistant candidates, and go on between two.
  std::pair<Value*, Value*> FindLimits(const Runs& r, Value* from, Value* to) {
    const int64_t half = f_.plan.threads / 2;
    std::vector<ArrayRef> arrays;
    for (size_t k = 0; k < types_.size(); ++k) arrays.push_back({from_[k], types_[k]});
    Value* searcher = b_.CreateUDiv(f_.thread(), Number(b_.getInt32Ty(), half));
    Value* lane = b_.CreateURem(f_.thread(), Number(b_.getInt32Ty(), half));
    Value* wide_lane = b_.CreateZExtOrTrunc(lane, wide_);
    Value* d = b_.CreateSelect(b_.CreateICmpEQ(searcher, b_.getInt32(0)), from, to);
    Value* is_first = b_.CreateICmpEQ(lane, b_.getInt32(0));
    auto limit = [&](int which) {
      return b_.CreateGEP(b_.getInt64Ty(), limits_,
                          b_.CreateAdd(b_.CreateShl(searcher, 1), b_.getInt32(static_cast<uint32_t>(which))));
    };
    auto load = [&](Value* at) { return b_.CreateZExtOrTrunc(b_.CreateLoad(b_.getInt64Ty(), at), wide_); };
    auto store = [&](Value* low, Value* high) {
      b_.CreateStore(b_.CreateZExtOrTrunc(low, b_.getInt64Ty()), limit(0));
      b_.CreateStore(b_.CreateZExtOrTrunc(high, b_.getInt64Ty()), limit(1));
    };
    f_.scopes.If(is_first, [&] { store(b_.CreateSub(d, Min(d, r.right)), Min(d, r.left)); });
    f_.EmitBarrier();
    int64_t rounds = 1;
    for (int64_t span = rows_.length; span > 0; span = CeilDiv(span, half) - 1) ++rounds;
    f_.scopes.Loop(b_.getInt32(0), b_.getInt32(static_cast<uint32_t>(rounds)), 1, [&](Value*) {
      Value *low = load(limit(0)), *high = load(limit(1));
      Value* step = Max(b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(high, low), Wide(half - 1)), Wide(half)), Wide(1));
      Value* candidate = b_.CreateAdd(low, b_.CreateMul(wide_lane, step));
      Value* flag = b_.CreateGEP(b_.getInt32Ty(), flags_, f_.thread());
      b_.CreateStore(b_.getInt32(1), flag);
      f_.scopes.If(b_.CreateICmpULT(candidate, high), [&] {
        Value* other = b_.CreateSub(b_.CreateSub(d, candidate), Wide(1));
        Value* precedes = RightPrecedes(arrays, ElementAt(r.row, b_.CreateAdd(r.first, candidate)),
                                        ElementAt(r.row, b_.CreateAdd(r.second, other)));
        b_.CreateStore(b_.CreateZExt(precedes, b_.getInt32Ty()), flag);
      });
      f_.EmitBarrier();
      Value* own = b_.CreateICmpNE(b_.CreateLoad(b_.getInt32Ty(), flag), b_.getInt32(0));
      Value* before = b_.CreateSelect(is_first, f_.thread(), b_.CreateSub(f_.thread(), b_.getInt32(1)));
      Value* previous = b_.CreateICmpNE(b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), flags_, before)),
                                        b_.getInt32(0));
      Value* changes = b_.CreateAnd(own, b_.CreateOr(is_first, b_.CreateNot(previous)));
      f_.scopes.If(changes, [&] {
        Value* after = b_.CreateAdd(b_.CreateSub(candidate, step), Wide(1));
        store(b_.CreateSelect(is_first, low, after), Min(candidate, high));
      });
      Value* none = b_.CreateAnd(b_.CreateNot(own), b_.CreateICmpEQ(lane, Number(b_.getInt32Ty(), half - 1)));
      f_.scopes.If(none, [&] { store(Min(b_.CreateAdd(candidate, Wide(1)), high), high); });
      f_.EmitBarrier();
    });
    auto found = [&](uint32_t which) { return load(b_.CreateGEP(b_.getInt64Ty(), limits_, b_.getInt32(2 * which))); };
    return {found(0), found(1)};
  }

  // The slots of a tile that have elements.
  void ForEachOfTile(Value* count, const std::function<void(Value*)>& body) {
    LoopScopes::Values none;
    f_.ForEachInBlock(rows_.tile, none, [&](Value* slot, LoopScopes::Values&) {
      slot = b_.CreateZExtOrTrunc(slot, b_.getInt32Ty());
      f_.scopes.If(b_.CreateICmpULT(slot, count), [&] { body(slot); });
    });
  }

  // Each thread finds the sources of some neighbouring elements of the merged tile: slots in shared memory, where the
  // elements of the second run follow those of the first.
  void MergeOwn(Value* left, Value* right, Value* count) {
    llvm::Type* type = b_.getInt32Ty();
    const int64_t each = CeilDiv(rows_.tile, int64_t{f_.plan.threads});
    std::vector<ArrayRef> arrays;
    for (size_t k = 0; k < types_.size(); ++k) arrays.push_back(Shared(k));
    auto precedes = [&](Value* x, Value* y) {
      return RightPrecedes(arrays, f_.AsIndex(x, rows_.tile), f_.AsIndex(b_.CreateAdd(left, y), rows_.tile));
    };
    Value* first = b_.CreateMul(f_.thread(), Number(type, each));
    f_.scopes.If(b_.CreateICmpULT(first, count), [&] {
      LoopScopes::Values range = {b_.CreateSub(first, Min(first, right)), Min(first, left)};
      f_.scopes.Repeat(
          range, [&](LoopScopes::Values& now) { return b_.CreateICmpULT(now[0], now[1]); },
          [&](LoopScopes::Values& now) -> Value* {
            Value* middle = b_.CreateLShr(b_.CreateAdd(now[0], now[1]), 1);
            Value* is_past = precedes(middle, b_.CreateSub(b_.CreateSub(first, middle), b_.getInt32(1)));
            now = {b_.CreateSelect(is_past, now[0], b_.CreateAdd(middle, b_.getInt32(1))),
                   b_.CreateSelect(is_past, middle, now[1])};
            return nullptr;
          });
      LoopScopes::Values at = {range[0], b_.CreateSub(first, range[0])};
      Value* end = Min(b_.CreateAdd(first, Number(type, each)), count);
      f_.scopes.Loop(first, end, 1, at, [&](Value* slot, LoopScopes::Values& now) {
        Value *i = now[0], *j = now[1];
        // Where a run has ended, the comparison does not count, and reads elements that are there.
        Value *has_left = b_.CreateICmpULT(i, left), *has_right = b_.CreateICmpULT(j, right);
        Value* x = b_.CreateSelect(has_left, i, b_.getInt32(0));
        Value* y = b_.CreateSelect(has_right, b_.CreateAdd(left, j), b_.getInt32(0));
        Value* order = RightPrecedes(arrays, f_.AsIndex(x, rows_.tile), f_.AsIndex(y, rows_.tile));
        Value* takes_right = b_.CreateAnd(has_right, b_.CreateOr(b_.CreateNot(has_left), order));
        Value* source = b_.CreateSelect(takes_right, b_.CreateAdd(left, j), i);
        b_.CreateStore(source, b_.CreateGEP(b_.getInt32Ty(), sources_, slot));
        Value* step = b_.CreateZExt(takes_right, b_.getInt32Ty());
        now = {b_.CreateAdd(i, b_.CreateSub(b_.getInt32(1), step)), b_.CreateAdd(j, step)};
      });
    });
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
    return f_.AsIndex(rows_.ComputeAddress(b_, row, position), rows_.elements);
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
        for (size_t k = 0; k < types_.size(); ++k) {
          const ArrayRef to = rows_.merges ? ArrayRef{to_[k], types_[k]} : Result(k);
          load ? f_.memory.Store(Shared(k), here, values[k], {}) : f_.memory.Store(to, there, values[k], {});
        }
        if (load && rows_.numbered) {
          Value* number = b_.CreateZExtOrTrunc(slot, b_.getInt32Ty());
          b_.CreateStore(number, b_.CreateGEP(b_.getInt32Ty(), numbers_, number));
        }
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
        rows_.numbered ? ExchangeNumbered(arrays, lower, upper) : Exchange(arrays, Slot(lower), Slot(upper));
      });
    });
  }

  // As Exchange, but of equal elements the one with the smaller number precedes. One call of the comparator decides: it
  // asks whether the element of the larger number precedes the other one.
  void ExchangeNumbered(const std::vector<ArrayRef>& arrays, Value* lower_slot, Value* upper_slot) {
    Value* lower_number_at = b_.CreateGEP(b_.getInt32Ty(), numbers_, lower_slot);
    Value* upper_number_at = b_.CreateGEP(b_.getInt32Ty(), numbers_, upper_slot);
    Value *m = b_.CreateLoad(b_.getInt32Ty(), lower_number_at), *n = b_.CreateLoad(b_.getInt32Ty(), upper_number_at);
    Value* is_reversed = b_.CreateICmpULT(n, m);  // the upper element came first
    const Affine first = Slot(lower_slot), second = Slot(upper_slot);
    Vals lower, upper, arguments;
    for (const ArrayRef& a : arrays) {
      lower.push_back(f_.memory.Load(a, first, {}));
      upper.push_back(f_.memory.Load(a, second, {}));
      Val x = lower.back(), y = upper.back();
      x.stored = y.stored = nullptr;
      arguments.push_back(f_.elements.Select(is_reversed, x, y));
      arguments.push_back(f_.elements.Select(is_reversed, y, x));
    }
    Value* precedes = b_.CreateXor(f_.body.caller().Call(*sort_.called(0), arguments)[0].v, is_reversed);
    f_.scopes.If(precedes, [&] {
      for (size_t k = 0; k < arrays.size(); ++k) {
        f_.memory.Store(arrays[k], first, upper[k], {});
        f_.memory.Store(arrays[k], second, lower[k], {});
      }
      b_.CreateStore(n, lower_number_at);
      b_.CreateStore(m, upper_number_at);
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
  std::vector<Value*> from_, to_;      // by operand: the runs of a merge, and where they go
  Value* numbers_ = nullptr;           // of the elements of a chunk before it was sorted
  Value *sources_ = nullptr, *limits_ = nullptr, *flags_ = nullptr;  // of a merge, in shared memory
};

}  // namespace

bool KeepsOrderOfEquals(const Instruction& sort) { return SortRows(sort).numbered; }

absl::StatusOr<KernelPlan> PlanSort(const Instruction& sort) {
  RETURN_IF_ERROR(codegen::CheckArrays(sort));
  RETURN_IF_ERROR(codegen::CanCall(*sort.called(0)));
  if (2 * sort.operand_count() > kMaxArrays)
    return absl::UnimplementedError(absl::StrCat(sort.name(), ": ", sort.operand_count(), " operands"));
  const SortRows rows(sort);
  KernelPlan plan;
  plan.kind = SortPlan{};
  plan.blocks = CountBlocks(rows.chunks(), 1);
  plan.note = absl::StrCat("sort: ", rows.rows, " rows of ", rows.length, ", ", rows.chunk, " elements in a block");
  if (!rows.is_chunked()) return plan;
  plan.numbers = 2;
  if (rows.merges) {
    for (const Instruction* o : sort.operands()) plan.scratch_bytes += ScratchBytes(o->shape());
    plan.further = {CountBlocks(rows.rows * rows.tiles_of_row(), 1)};
    plan.launches.push_back({0, {2, 1}, false});
    int64_t left = CountMerges(rows);
    for (int64_t run = rows.chunk; run < rows.length; run *= 2, --left)
      plan.launches.push_back({1, {run, left % 2}, false});
    absl::StrAppend(&plan.note, ", merged by ", plan.launches.size() - 1, " launches");
    return plan;
  }
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

void EmitBody(KernelFrame& frame, const Instruction& sort, const SortPlan&) {
  SortEmitter emitter(frame, sort);
  if (frame.plan.kernel == 0) return emitter.EmitChunks();
  SortRows(sort).merges ? emitter.EmitMerge() : emitter.EmitRound();
}

}  // namespace backplane::hip
