#include "plugins/hip/compiler/scan_kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plugins/hip/compiler/array_rows.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/codegen/body/carried_values.h"
#include "sdk/codegen/body/combiner.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kMinLength = 64;        // below this each element's window is reduced by itself
constexpr int64_t kMinSerialRows = 4096;  // that keep a GPU busy with a thread for each
constexpr int64_t kMaxEach = 8;           // elements of a tile that a thread scans
constexpr int64_t kBanks = 32;            // of shared memory

// An element more after each row of banks: threads that step through neighbouring elements together meet no bank twice.
int64_t CountSlots(int64_t elements) { return elements + elements / kBanks; }

struct ScanRows : ArrayRows {
  ScanRows(const Instruction& op, const Scan& scan) : ArrayRows(op.operand(0)->shape(), scan.dimension) {
    serial = stride > 1 && rows >= kMinSerialRows;
    threads = length >= 512 || serial ? 256 : 64;
    int64_t bytes = 0;  // as KernelFrame::AddShared counts them
    for (int64_t k = 0; k < op.operand_count() / 2; ++k)
      bytes += std::max(4, ByteWidth(op.operand(k)->shape().element_type()));
    each = kMaxEach;
    while (each > 1 &&
           (bytes * (CountSlots(threads * each) + threads) > kMaxSharedBytes || threads * each >= 2 * length))
      each /= 2;
    while (threads > 32 && bytes * (CountSlots(threads * each) + threads) > kMaxSharedBytes) threads /= 2;
    fits = serial || bytes * (CountSlots(threads * each) + threads) <= kMaxSharedBytes;
  }
  int64_t tile() const { return threads * each; }

  bool serial = false;  // a thread scans a row
  int64_t threads = 0;  // of a block
  int64_t each = 0;     // elements of a tile that a thread scans
  bool fits = false;    // into shared memory
};

class ScanEmitter {
 public:
  ScanEmitter(KernelFrame& frame, const Instruction& op, const Scan& scan)
      : f_(frame), b_(frame.b), op_(op), reverse_(scan.reverse), rows_(op, scan), count_(op.operand_count() / 2) {
    for (int64_t k = 0; k < count_; ++k) types_.push_back(op.operand(k)->shape().element_type());
    for (int64_t k = 0; k < count_; ++k) {
      f_.body.SetArray(op.operand(count_ + k), 0,
                       {f_.array(static_cast<size_t>(count_ + k)), types_[static_cast<size_t>(k)]});
    }
    initial_ = f_.body.InitialValues(op, false);
    identity_ = f_.body.InitialValues(op, true);
    wide_ = f_.indices.CounterType(2 * (rows_.elements + rows_.tile()));
  }

  // A thread for each row.
  void EmitSerial() {
    f_.ForEachInGrid(rows_.rows, 0, [&](Value* row) {
      row = b_.CreateZExtOrTrunc(row, wide_);
      LoopScopes::Values carried = codegen::GetParts(initial_);
      f_.scopes.Loop(Number(0), Number(rows_.length), 1, carried, [&](Value* at, LoopScopes::Values& now) {
        const Vals sum = Combine(codegen::FromParts(initial_, now), Load(row, at));
        Store(row, at, sum);
        now = codegen::GetParts(sum);
      });
    });
  }

  void EmitBlocks() {
    for (const PrimitiveType t : types_) {
      tile_.push_back(f_.AddShared(t, CountSlots(rows_.tile())));
      totals_.push_back(f_.AddShared(t, rows_.threads));
    }
    thread_ = b_.CreateZExtOrTrunc(f_.thread(), wide_);
    f_.ForEachBlock(rows_.rows, [&](Value* row) {
      row = b_.CreateZExtOrTrunc(row, wide_);
      LoopScopes::Values carried = codegen::GetParts(identity_);
      f_.scopes.Loop(Number(0), Number(rows_.length), rows_.tile(), carried,
                     [&](Value* first, LoopScopes::Values& now) {
                       now = codegen::GetParts(EmitTile(row, first, codegen::FromParts(identity_, now)));
                     });
    });
  }

 private:
  Value* Number(int64_t n) { return llvm::ConstantInt::get(wide_, static_cast<uint64_t>(n)); }

  Vals Combine(const Vals& x, const Vals& y) { return f_.body.combiners().Combine(op_, x, y); }

  // Element `at` of the row, in the order of the scan.
  Affine ElementAt(Value* row, Value* at) {
    if (reverse_) at = b_.CreateSub(Number(rows_.length - 1), at);
    return f_.AsIndex(rows_.ComputeAddress(b_, row, at), rows_.elements);
  }
  Vals Load(Value* row, Value* at) {
    const Affine address = ElementAt(row, at);
    Vals values;
    for (size_t k = 0; k < types_.size(); ++k) {
      values.push_back(f_.memory.Load({f_.array(k), types_[k]}, address, {}));
      values.back().stored = nullptr;
    }
    return values;
  }
  void Store(Value* row, Value* at, const Vals& values) {
    const Affine address = ElementAt(row, at);
    const Vals rounded = f_.body.combiners().Rounded(op_, values);
    for (size_t k = 0; k < types_.size(); ++k)
      f_.memory.Store({f_.array(2 * types_.size() + k), types_[k]}, address, rounded[k], {});
  }

  Affine Slot(Value* element) {
    return f_.AsIndex(b_.CreateAdd(element, b_.CreateUDiv(element, Number(kBanks))), CountSlots(rows_.tile()));
  }
  Vals LoadShared(const std::vector<Value*>& arrays, const Affine& at) {
    Vals values;
    for (size_t k = 0; k < types_.size(); ++k) values.push_back(f_.memory.LoadComputed(arrays[k], at, types_[k]));
    return values;
  }
  void StoreShared(const std::vector<Value*>& arrays, const Affine& at, const Vals& values) {
    for (size_t k = 0; k < types_.size(); ++k) f_.memory.StoreComputed(arrays[k], at, types_[k], values[k]);
  }

  // The elements of a tile that neighbouring threads move together, and those that this thread scans.
  Value* CopiedElement(int64_t e) { return b_.CreateAdd(thread_, Number(e * rows_.threads)); }
  Value* ScannedElement(int64_t e) { return b_.CreateAdd(b_.CreateMul(thread_, Number(rows_.each)), Number(e)); }

  // Scans the tile that starts at element `first` of the row, after elements whose sum is `before`. Returns the sum
  // with those of the tile.
  Vals EmitTile(Value* row, Value* first, const Vals& before) {
    for (int64_t e = 0; e < rows_.each; ++e) {
      Value* at = b_.CreateAdd(first, CopiedElement(e));
      f_.scopes.If(b_.CreateICmpULT(at, Number(rows_.length)),
                   [&] { StoreShared(tile_, Slot(CopiedElement(e)), Load(row, at)); });
      f_.scopes.If(b_.CreateICmpUGE(at, Number(rows_.length)),
                   [&] { StoreShared(tile_, Slot(CopiedElement(e)), identity_); });
    }
    f_.EmitBarrier();
    Vals own = identity_;
    for (int64_t e = 0; e < rows_.each; ++e) {
      const Affine at = Slot(ScannedElement(e));
      own = Combine(own, LoadShared(tile_, at));
      StoreShared(tile_, at, own);
    }
    ScanTotals(own);
    Value* last = b_.CreateSub(thread_, b_.CreateZExt(b_.CreateICmpUGT(thread_, Number(0)), wide_));
    Vals prefix = LoadShared(totals_, f_.AsIndex(last, rows_.threads));
    prefix = Combine(before, Select(b_.CreateICmpUGT(thread_, Number(0)), prefix, identity_));
    for (int64_t e = 0; e < rows_.each; ++e) {
      const Affine at = Slot(ScannedElement(e));
      StoreShared(tile_, at, Combine(prefix, LoadShared(tile_, at)));
    }
    const Vals total = LoadShared(totals_, Affine::Const(rows_.threads - 1));
    f_.EmitBarrier();
    for (int64_t e = 0; e < rows_.each; ++e) {
      Value* at = b_.CreateAdd(first, CopiedElement(e));
      f_.scopes.If(b_.CreateICmpULT(at, Number(rows_.length)),
                   [&] { Store(row, at, Combine(initial_, LoadShared(tile_, Slot(CopiedElement(e))))); });
    }
    f_.EmitBarrier();  // the memory is written again
    return Combine(before, total);
  }

  // Replaces the totals of the threads by those of all threads up to them: each adds what the one `distance` before it
  // has, at distances 1, 2, 4, ...
  void ScanTotals(Vals own) {
    const Affine here = f_.AsIndex(thread_, rows_.threads);
    StoreShared(totals_, here, own);
    f_.EmitBarrier();
    for (int64_t distance = 1; distance < rows_.threads; distance *= 2) {
      Value* has = b_.CreateICmpUGE(thread_, Number(distance));
      Value* other = b_.CreateSelect(has, b_.CreateSub(thread_, Number(distance)), thread_);
      own = Select(has, Combine(LoadShared(totals_, f_.AsIndex(other, rows_.threads)), own), own);
      f_.EmitBarrier();
      StoreShared(totals_, here, own);
      f_.EmitBarrier();
    }
  }

  Vals Select(Value* condition, const Vals& x, const Vals& y) {
    Vals r;
    for (size_t k = 0; k < x.size(); ++k) {
      Val a = x[k], c = y[k];
      a.stored = c.stored = nullptr;
      r.push_back(f_.elements.Select(condition, a, c));
    }
    return r;
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const Instruction& op_;
  const bool reverse_;
  const ScanRows rows_;
  const int64_t count_;
  std::vector<PrimitiveType> types_;
  Vals initial_, identity_;
  llvm::IntegerType* wide_ = nullptr;  // counts elements
  Value* thread_ = nullptr;
  std::vector<Value*> tile_, totals_;  // in shared memory, by operand
};

}  // namespace

std::optional<Scan> FindScan(const Instruction& op) {
  if (!op.Is(Opcode::kReduceWindow)) return std::nullopt;
  const Shape& shape = op.operand(0)->shape();
  std::optional<Scan> scan;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const WindowDimension& w = op.window().dimensions[static_cast<size_t>(d)];
    if (w.stride != 1 || w.window_dilation != 1 || w.base_dilation != 1) return std::nullopt;
    if (w.size == 1 && w.padding_low == 0 && w.padding_high == 0) continue;
    if (scan || w.window_reversal || w.size != shape.dimensions(d)) return std::nullopt;
    if (w.padding_low + w.padding_high != w.size - 1 || (w.padding_low != 0 && w.padding_high != 0))
      return std::nullopt;
    scan = Scan{d, w.padding_low == 0};
  }
  if (!scan || shape.dimensions(scan->dimension) < kMinLength) return std::nullopt;
  const codegen::Combiner combiner = codegen::AnalyzeCombiner(*op.called(0));
  if (!combiner.reorderable || combiner.ops.empty()) return std::nullopt;
  for (size_t k = 0; k < combiner.ops.size(); ++k) {
    if (!codegen::ElementEmitter::HasIdentity(combiner.ops[k],
                                              op.operand(static_cast<int64_t>(k))->shape().element_type()))
      return std::nullopt;
  }
  if (!codegen::CheckArrays(op).ok() || !ScanRows(op, *scan).fits || 2 * op.operand_count() > kMaxArrays)
    return std::nullopt;
  return scan;
}

absl::StatusOr<KernelPlan> PlanScan(const Instruction& op) {
  const std::optional<Scan> scan = FindScan(op);
  if (!scan) return absl::UnimplementedError(absl::StrCat(op.name(), ": no scan"));
  const ScanRows rows(op, *scan);
  KernelPlan plan;
  plan.kind = ScanPlan{*scan};
  plan.threads = static_cast<uint32_t>(rows.threads);
  plan.blocks = CountBlocks(rows.rows, rows.serial ? rows.threads : 1);
  plan.note = absl::StrCat("scan: ", rows.rows, " rows of ", rows.length, rows.serial ? ", one in each thread" : "");
  return plan;
}

void EmitBody(KernelFrame& frame, const Instruction& reduce_window, const ScanPlan& plan) {
  ScanEmitter emitter(frame, reduce_window, plan.scan);
  ScanRows(reduce_window, plan.scan).serial ? emitter.EmitSerial() : emitter.EmitBlocks();
}

}  // namespace backplane::hip
