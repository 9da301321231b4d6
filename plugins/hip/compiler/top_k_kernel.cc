#include "plugins/hip/compiler/top_k_kernel.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/can_evaluate.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

constexpr int64_t kSlots = 2048;  // that a block sorts, if rows are short
constexpr int64_t kMinRun = 16;   // shorter runs would leave the threads with little to do

int64_t PowerOfTwoFrom(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

struct TopKRows {
  explicit TopKRows(const Instruction& top_k) {
    const Shape& shape = top_k.operand(0)->shape();
    k = top_k.attrs().GetInt(AttrId::kK);
    length = shape.dimensions(shape.rank() - 1);
    rows = length == 0 ? 0 : shape.num_elements() / length;
    padded = std::max<int64_t>(2, PowerOfTwoFrom(length));
    run = std::min(padded, std::max(kMinRun, PowerOfTwoFrom(k)));
    rows_of_block = std::max<int64_t>(1, kSlots / padded / 2);
    slots = rows_of_block * padded;
  }
  int64_t k = 0, length = 0, rows = 0;
  int64_t padded = 0;         // the length of a row, rounded up to a power of two
  int64_t run = 0;            // the elements that are kept of two runs
  int64_t rows_of_block = 1;  // at a time
  int64_t slots = 0;
};

// An element in shared memory is 64 bits: the upper half is an integer in the order of the elements, the lower one the
// position. So all elements differ, and equal values are in the order of their positions.
class TopKEmitter {
 public:
  TopKEmitter(KernelFrame& frame, const Instruction& top_k)
      : f_(frame),
        b_(frame.b),
        type_(top_k.operand(0)->shape().element_type()),
        storage_(llvm::cast<llvm::IntegerType>(b_.getIntNTy(f_.elements.StorageType(type_)->getScalarSizeInBits()))),
        largest_(!top_k.attrs().Has(AttrId::kLargest) || top_k.attrs().GetBool(AttrId::kLargest)),
        rows_(top_k),
        wide_(f_.indices.CounterType(2 * (rows_.rows + rows_.rows_of_block) * rows_.padded)) {}

  void Emit() {
    shared_ = f_.AddShared(PrimitiveType::kS64, rows_.slots);
    f_.ForEachBlock(CeilDiv(rows_.rows, rows_.rows_of_block), [&](Value* block) {
      first_row_ = b_.CreateMul(b_.CreateZExtOrTrunc(block, wide_), Wide(rows_.rows_of_block));
      LoadRows();
      f_.EmitBarrier();
      SortRuns();
      KeepBest();
      StoreRows();
      f_.EmitBarrier();  // the memory is written again
    });
  }

 private:
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  Value* Wide(int64_t n) { return llvm::ConstantInt::get(wide_, static_cast<uint64_t>(n)); }
  Value* Address(Value* slot) { return b_.CreateGEP(b_.getInt64Ty(), shared_, slot); }

  // Runs `body` for the numbers below `count`, an i32 that is equal for all threads.
  void ForEach(Value* count, const std::function<void(Value*)>& body) {
    LoopScopes::Values at = {f_.thread()};
    f_.scopes.Repeat(
        at, [&](LoopScopes::Values& now) { return b_.CreateICmpULT(now[0], count); },
        [&](LoopScopes::Values& now) -> Value* {
          Value* i = now[0];
          body(i);
          now[0] = b_.CreateAdd(i, Number(f_.plan.threads));
          return nullptr;
        });
  }

  // The bits of an element as an i32 in the order in which the elements are wanted, and back.
  Value* ToKey(Value* bits) {
    const bool is_signed = IsFloat(type_) || IsSigned(type_);
    Value* key = is_signed ? b_.CreateSExt(bits, b_.getInt32Ty()) : b_.CreateZExt(bits, b_.getInt32Ty());
    if (IsFloat(type_)) key = FlipNegative(key);
    // Unsigned numbers of 32 bits: in the order of signed ones.
    if (!is_signed && storage_->getBitWidth() == 32) key = b_.CreateXor(key, Number(int64_t{1} << 31));
    return largest_ ? b_.CreateNot(key) : key;
  }
  Value* FromKey(Value* key) {
    if (largest_) key = b_.CreateNot(key);
    if (IsFloat(type_)) {
      key = FlipNegative(key);
    } else if (!IsSigned(type_) && storage_->getBitWidth() == 32) {
      key = b_.CreateXor(key, Number(int64_t{1} << 31));
    }
    return b_.CreateTrunc(key, storage_);
  }
  // The bits of a negative float order its magnitude. Its sign fills the upper bits of the i32, which stay.
  Value* FlipNegative(Value* key) {
    const int64_t magnitude = (int64_t{1} << (storage_->getBitWidth() - 1)) - 1;
    return b_.CreateXor(key, b_.CreateAnd(b_.CreateAShr(key, 31), Number(magnitude)));
  }

  void LoadRows() {
    LoopScopes::Values none;
    f_.ForEachInBlock(rows_.slots, none, [&](Value* slot, LoopScopes::Values&) {
      slot = b_.CreateZExtOrTrunc(slot, b_.getInt32Ty());
      Value* position = b_.CreateAnd(slot, Number(rows_.padded - 1));
      Value* row = b_.CreateAdd(first_row_, b_.CreateZExtOrTrunc(b_.CreateUDiv(slot, Number(rows_.padded)), wide_));
      Value* exists =
          b_.CreateAnd(b_.CreateICmpULT(row, Wide(rows_.rows)), b_.CreateICmpULT(position, Number(rows_.length)));
      // Slots without an element follow all elements.
      Value* at = b_.CreateAdd(b_.CreateMul(row, Wide(rows_.length)), b_.CreateZExtOrTrunc(position, wide_));
      at = b_.CreateSelect(exists, at, Wide(0));
      Value* bits = b_.CreateAlignedLoad(storage_, b_.CreateGEP(storage_, f_.array(0), at),
                                         llvm::Align(std::max(1u, storage_->getBitWidth() / 8)));
      Value* element = b_.CreateOr(b_.CreateShl(b_.CreateZExt(ToKey(bits), b_.getInt64Ty()), 32),
                                   b_.CreateZExt(position, b_.getInt64Ty()));
      const uint64_t last = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      b_.CreateStore(b_.CreateSelect(exists, element, b_.getInt64(last)), Address(slot));
    });
  }

  void Exchange(Value* lower, Value* upper) {
    Value *x = b_.CreateLoad(b_.getInt64Ty(), Address(lower)), *y = b_.CreateLoad(b_.getInt64Ty(), Address(upper));
    f_.scopes.If(b_.CreateICmpSLT(y, x), [&] {
      b_.CreateStore(y, Address(lower));
      b_.CreateStore(x, Address(upper));
    });
  }

  // As SortEmitter::EmitRounds.
  void SortRuns() {
    LoopScopes::Values state = {Number(2), Number(1), Number(1)};
    f_.scopes.Repeat(
        state, [&](LoopScopes::Values& now) { return b_.CreateICmpULE(now[0], Number(rows_.run)); },
        [&](LoopScopes::Values& now) -> Value* {
          Value *length = now[0], *distance = now[1], *mask = now[2];
          LoopScopes::Values none;
          f_.ForEachInBlock(rows_.slots / 2, none, [&](Value* pair, LoopScopes::Values&) {
            pair = b_.CreateZExtOrTrunc(pair, b_.getInt32Ty());
            Value* low = b_.CreateAnd(pair, b_.CreateSub(distance, Number(1)));
            Value* lower = b_.CreateSub(b_.CreateShl(pair, 1), low);
            Exchange(lower, b_.CreateXor(lower, mask));
          });
          f_.EmitBarrier();
          Value* last = b_.CreateICmpEQ(distance, Number(1));
          Value *twice = b_.CreateShl(length, 1), *half = b_.CreateLShr(distance, 1);
          now = {b_.CreateSelect(last, twice, length), b_.CreateSelect(last, length, half),
                 b_.CreateSelect(last, b_.CreateSub(twice, Number(1)), half)};
          return nullptr;
        });
  }

  // Runs at the multiples of `step`: element i of one is compared with element run - 1 - i of the next one, so the
  // first has the better half of both afterwards. Rounds at falling distances sort it again.
  void KeepBest() {
    const int64_t run = rows_.run;
    LoopScopes::Values step = {Number(run)};
    f_.scopes.Repeat(
        step, [&](LoopScopes::Values& now) { return b_.CreateICmpULT(now[0], Number(rows_.padded)); },
        [&](LoopScopes::Values& now) -> Value* {
          Value* twice = b_.CreateShl(now[0], 1);
          // Pairs of runs; `twice` is a power of two.
          Value* pairs = b_.CreateUDiv(Number(rows_.slots), twice);
          ForEach(b_.CreateMul(pairs, Number(run)), [&](Value* at) {
            Value* i = b_.CreateAnd(at, Number(run - 1));
            Value* first = b_.CreateMul(b_.CreateUDiv(at, Number(run)), twice);
            Exchange(b_.CreateAdd(first, i),
                     b_.CreateAdd(b_.CreateAdd(first, now[0]), b_.CreateSub(Number(run - 1), i)));
          });
          f_.EmitBarrier();
          for (int64_t distance = run / 2; distance > 0; distance /= 2) {
            ForEach(b_.CreateMul(pairs, Number(run / 2)), [&](Value* at) {
              Value* pair = b_.CreateAnd(at, Number(run / 2 - 1));
              Value* low = b_.CreateAnd(pair, Number(distance - 1));
              Value* first = b_.CreateMul(b_.CreateUDiv(at, Number(run / 2)), twice);
              Value* lower = b_.CreateAdd(first, b_.CreateSub(b_.CreateShl(pair, 1), low));
              Exchange(lower, b_.CreateAdd(lower, Number(distance)));
            });
            f_.EmitBarrier();
          }
          now[0] = twice;
          return nullptr;
        });
  }

  void StoreRows() {
    ForEach(Number(rows_.rows_of_block * rows_.k), [&](Value* item) {
      Value *local = b_.CreateUDiv(item, Number(rows_.k)), *position = b_.CreateURem(item, Number(rows_.k));
      Value* row = b_.CreateAdd(first_row_, b_.CreateZExtOrTrunc(local, wide_));
      f_.scopes.If(b_.CreateICmpULT(row, Wide(rows_.rows)), [&] {
        Value* slot = b_.CreateAdd(b_.CreateMul(local, Number(rows_.padded)), position);
        Value* element = b_.CreateLoad(b_.getInt64Ty(), Address(slot));
        Value* bits = FromKey(b_.CreateTrunc(b_.CreateLShr(element, 32), b_.getInt32Ty()));
        Value* at = b_.CreateAdd(b_.CreateMul(row, Wide(rows_.k)), b_.CreateZExtOrTrunc(position, wide_));
        b_.CreateAlignedStore(bits, b_.CreateGEP(storage_, f_.array(1), at),
                              llvm::Align(std::max(1u, storage_->getBitWidth() / 8)));
        b_.CreateStore(b_.CreateTrunc(element, b_.getInt32Ty()), b_.CreateGEP(b_.getInt32Ty(), f_.array(2), at));
      });
    });
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const PrimitiveType type_;
  llvm::IntegerType* const storage_;
  const bool largest_;
  const TopKRows rows_;
  llvm::IntegerType* const wide_;  // counts elements
  Value *shared_ = nullptr, *first_row_ = nullptr;
};

}  // namespace

// Keys of floats are made from a sign and a magnitude. f8e8m0fnu has no sign, and the only NaN of the fnuz types has
// the bits of -0; these are sorted.
bool IsTopKType(PrimitiveType t) {
  switch (t) {
    case PrimitiveType::kF8E8M0FNU:
    case PrimitiveType::kF8E4M3FNUZ:
    case PrimitiveType::kF8E4M3B11FNUZ:
    case PrimitiveType::kF8E5M2FNUZ:
      return false;
    default:
      return (IsIntegral(t) || IsFloat(t)) && BitWidth(t) >= 8 && BitWidth(t) <= 32;
  }
}

absl::StatusOr<KernelPlan> PlanTopK(const Instruction& top_k) {
  RETURN_IF_ERROR(codegen::CheckArrays(top_k));
  const TopKRows rows(top_k);
  if (!IsTopKType(top_k.operand(0)->shape().element_type()) || rows.length > kMaxTopKRow || rows.k > rows.length)
    return absl::UnimplementedError(
        absl::StrCat(top_k.name(), ": ", rows.k, " of ", top_k.operand(0)->shape().ToString()));
  KernelPlan plan;
  plan.kind = TopKPlan{};
  plan.blocks = CountBlocks(rows.rows, rows.rows_of_block);
  plan.note = absl::StrCat("top-k: ", rows.k, " of each of ", rows.rows, " rows of ", rows.length);
  return plan;
}

void EmitBody(KernelFrame& frame, const Instruction& top_k, const TopKPlan&) { TopKEmitter(frame, top_k).Emit(); }

}  // namespace backplane::hip
