// Matrix products by matrix instructions.
//
// A block computes a tile of the result (matrix_tile.h). Its threads copy a slice of both operands to shared memory;
// while they multiply it, the loads of the next slice are under way into registers. Each wave computes a part of the
// tile with sums in registers (matrix_wave.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "llvm/Analysis/VectorUtils.h"
#include "plugins/hip/compiler/dot_output.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/matrix_wave.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

constexpr int64_t kGroupBand = 16;  // rows of tiles that groups go down together (DotTiles)

class MatrixEmitter {
 public:
  MatrixEmitter(KernelFrame& frame, const DotProblem& problem, const DotPlan& plan)
      : f_(frame),
        b_(frame.b),
        p_(problem),
        machine_(frame),
        step_(*plan.matrix),
        tile_(plan.tile),
        slice_(CountSliceElements(step_)),
        tiles_(frame, p_, tile_.rows, tile_.columns, is_group() ? kGroupBand : 1),
        output_(frame, tiles_, p_, plan.site),
        wave_(machine_.MakeUniform(b_.CreateUDiv(f_.thread(), Number(step_.wave_size())))),
        lhs_(frame, step_, DescribeLeft(), wave_),
        rhs_(frame, step_, DescribeRight(), wave_) {
    machine_.SetAttributes(*b_.GetInsertBlock()->getParent());
    lanes_ = MatrixWave::Make(f_, step_, rhs_, b_.CreateAnd(f_.thread(), Number(step_.wave_size() - 1)));
    wave_row_ = b_.CreateMul(b_.CreateUDiv(wave_, Number(tile_.waves_across)), Number(tile_.wave_rows()));
    wave_column_ = b_.CreateMul(b_.CreateURem(wave_, Number(tile_.waves_across)), Number(tile_.wave_columns()));
  }

  void Emit() {
    tiles_.ForEach([this](Value* row, Value* column) { EmitTile(row, column); });
  }

 private:
  bool is_group() const { return step_.family == MatrixFamily::kGroup; }
  int64_t steps_down() const { return tile_.wave_rows() / step_.rows(); }
  int64_t steps_across() const { return tile_.wave_columns() / step_.columns(); }
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }

  MatrixOperand DescribeLeft() const {
    MatrixOperand o{output_.lhs(), p_.m, p_.k, p_.lhs_m_stride, p_.lhs_k_stride, {}, tile_.rows, false, tile_.stages};
    for (const DotProblem::BatchDim& d : p_.batch) o.other_strides.push_back(d.lhs_stride);
    if (p_.lhs_gather) o.gather = &*p_.lhs_gather;
    return o;
  }
  MatrixOperand DescribeRight() const {
    MatrixOperand o{output_.rhs(), p_.n, p_.k, p_.rhs_n_stride, p_.rhs_k_stride, {}, tile_.columns, true, tile_.stages};
    for (const DotProblem::BatchDim& d : p_.batch) o.other_strides.push_back(d.rhs_stride);
    if (p_.rhs_gather) o.gather = &*p_.rhs_gather;
    return o;
  }

  void EmitTile(Value* row, Value* column) {
    Value* first_k = nullptr;
    if (p_.parts > 1) {
      first_k = f_.indices.Uniform(compiler::Affine::Var(tiles_.batch()[0]).Times(p_.k));
      first_k = b_.CreateZExtOrTrunc(first_k, b_.getInt32Ty());
    }
    lhs_.StartTile(row, f_.indices.Uniform(tiles_.BatchOffset(&DotProblem::BatchDim::lhs_stride)), first_k);
    rhs_.StartTile(column, f_.indices.Uniform(tiles_.BatchOffset(&DotProblem::BatchDim::rhs_stride)), first_k);
    LoopScopes::Values sums(static_cast<size_t>(steps_down() * steps_across()),
                            llvm::Constant::getNullValue(SumVector(b_, step_)));
    if (tile_.stages > 0) {
      is_group() ? SumSlicesInGroups(sums) : SumCopiedSlices(sums);
    } else {
      SumSlices(sums);
    }
    StoreSums(row, column, sums);
    if (tiles_.HasSeveralForBlock()) f_.EmitBarrier();  // the next tile's slices overwrite this one's
  }

  // The GPU copies some slices ahead while threads multiply another.
  void SumCopiedSlices(LoopScopes::Values& sums) {
    const int64_t stages = tile_.stages, slices = CeilDiv(p_.k, slice_);
    llvm::IntegerType* type = f_.indices.CounterType((slices + stages) * slice_);
    auto number = [&](int64_t k) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(k)); };
    for (int64_t s = 0; s + 1 < stages; ++s) BeginCopies(number(s * slice_), Number(s));
    llvm::BasicBlock* latch = nullptr;
    LoopScopes::Values carried = sums;
    carried.push_back(Number(0));
    f_.scopes.Loop(number(0), number(slices * slice_), slice_, carried, [&](Value* k, LoopScopes::Values& now) {
      Value* stage = now.back();
      now.pop_back();
      CallCopy(kCopyWait, {Number(stages - 2)});
      f_.EmitBarrier();  // the slice is there for all threads, and all have multiplied the one before
      Value* before =
          b_.CreateSelect(b_.CreateICmpEQ(stage, Number(0)), Number(stages - 1), b_.CreateSub(stage, Number(1)));
      BeginCopies(b_.CreateAdd(k, number((stages - 1) * slice_)), before);
      lhs_.SetStage(stage), rhs_.SetStage(stage);
      MultiplySlices(now, std::min(slice_, p_.k));
      now.push_back(
          b_.CreateSelect(b_.CreateICmpEQ(stage, Number(stages - 1)), Number(0), b_.CreateAdd(stage, Number(1))));
      latch = b_.GetInsertBlock();
    });
    KeepLoopRolled(*latch->getTerminator());
    carried.pop_back();
    sums = carried;
    CallCopy(kCopyWait, {Number(0)});
  }

  // A group begins the product of a slice while that of the one before is under way. What makes this right:
  //   - A slice that is multiplied has been copied: each thread waits for its own copies, publishes them, and then the
  //     barrier lets all threads see them.
  //   - Copies overwrite no slice that is being read: they go to the place of slice i - 2. Before the barrier of slice
  //   i
  //     each thread has waited, in the iteration before, until at most the product of slice i - 1 is under way.
  void SumSlicesInGroups(LoopScopes::Values& sums) {
    const int64_t stages = tile_.stages, ahead = stages - 2, slices = CeilDiv(p_.k, slice_);
    llvm::IntegerType* type = f_.indices.CounterType((slices + stages) * slice_);
    auto number = [&](int64_t k) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(k)); };
    for (int64_t s = 0; s < ahead; ++s) BeginCopies(number(s * slice_), Number(s));
    llvm::BasicBlock* latch = nullptr;
    LoopScopes::Values carried = sums;
    carried.push_back(Number(0));
    f_.scopes.Loop(number(0), number(slices * slice_), slice_, carried, [&](Value* k, LoopScopes::Values& now) {
      Value* stage = now.back();
      now.pop_back();
      CallCopy(kCopyWait, {Number(ahead - 1)});
      CallCopy(kGroupPublish, {});
      f_.EmitBarrier();
      lhs_.SetStage(stage), rhs_.SetStage(stage);
      CallGroup(kGroupMultiply, now);
      Value* free = b_.CreateSelect(b_.CreateICmpULT(stage, Number(2)), b_.CreateAdd(stage, Number(ahead)),
                                    b_.CreateSub(stage, Number(2)));
      BeginCopies(b_.CreateAdd(k, number(ahead * slice_)), free);
      CallGroup(kGroupWait, now);
      now.push_back(
          b_.CreateSelect(b_.CreateICmpEQ(stage, Number(stages - 1)), Number(0), b_.CreateAdd(stage, Number(1))));
      latch = b_.GetInsertBlock();
    });
    KeepLoopRolled(*latch->getTerminator());
    carried.pop_back();
    sums = carried;
    CallGroup(kGroupWait, sums, /*under_way=*/0);
    CallCopy(kCopyWait, {Number(0)});
  }

  // Calls a function gpu.group for each 64 rows of the group's part of the tile. At most `under_way` slices' products
  // are under way after a wait.
  void CallGroup(const char* function, LoopScopes::Values& sums, int64_t under_way = 1) {
    const std::string name = absl::StrCat(function, step_.instruction, ".", tile_.wave_columns());
    const auto across = static_cast<size_t>(steps_across());
    auto* vector =
        llvm::FixedVectorType::get(SumVector(b_, step_)->getElementType(), static_cast<unsigned>(4 * across));
    const bool multiplies = function == absl::string_view(kGroupMultiply);
    for (int64_t i = 0; i < steps_down(); ++i) {
      const auto first = sums.begin() + static_cast<std::ptrdiff_t>(i) * steps_across();
      Value* all = llvm::PoisonValue::get(vector);
      for (size_t s = 0; s < 4 * across; ++s)
        all = b_.CreateInsertElement(all, b_.CreateExtractElement(first[static_cast<std::ptrdiff_t>(s / 4)], s % 4), s);
      std::vector<Value*> arguments = {all, Number(under_way * steps_down())};
      if (multiplies) {
        const int64_t along = (lhs_.IsTransposed() ? 1 : 0) | (rhs_.IsTransposed() ? 2 : 0);
        arguments = {lhs_.FindRows(b_.CreateAdd(wave_row_, Number(i * step_.rows()))), rhs_.FindRows(wave_column_),
                     Number(along), all};
      }
      std::vector<llvm::Type*> types;
      for (Value* argument : arguments) types.push_back(argument->getType());
      llvm::FunctionCallee callee =
          f_.elements.module()->getOrInsertFunction(name, llvm::FunctionType::get(vector, types, false));
      llvm::cast<llvm::Function>(callee.getCallee())->setConvergent();
      all = b_.CreateCall(callee, arguments);
      for (size_t s = 0; s < across; ++s) {
        const int at = static_cast<int>(4 * s);
        first[static_cast<std::ptrdiff_t>(s)] = b_.CreateShuffleVector(all, {at, at + 1, at + 2, at + 3});
      }
    }
  }

  void BeginCopies(Value* k, Value* stage) {
    lhs_.BeginCopies(k, stage);
    rhs_.BeginCopies(k, stage);
    CallCopy(kCopyCommit, {});
  }
  void CallCopy(const char* function, const std::vector<Value*>& arguments) {
    const std::vector<llvm::Type*> types(arguments.size(), b_.getInt32Ty());
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
    b_.CreateCall(f_.elements.module()->getOrInsertFunction(function, type), arguments);
  }

  // The loads of a slice are under way while threads multiply the one before.
  void SumSlices(LoopScopes::Values& sums) {
    const int64_t complete = p_.k / slice_, slices = CeilDiv(p_.k, slice_);
    llvm::IntegerType* type = f_.indices.CounterType((slices + 1) * slice_);
    auto number = [&](int64_t k) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(k)); };
    if (complete > 0) {
      const MatrixSlice::Values left = lhs_.Load(number(0), lhs_.offsets());
      StoreSlices(left, rhs_.Load(number(0), rhs_.offsets()));
    } else if (slices > 0) {
      const MatrixSlice::Values left = lhs_.LoadEnd(0);
      StoreEnds(left, rhs_.LoadEnd(0), 0);
    }
    if (complete > 1) {
      llvm::BasicBlock* latch = nullptr;
      LoopScopes::Values carried = lhs_.offsets();
      carried.insert(carried.end(), rhs_.offsets().begin(), rhs_.offsets().end());
      carried.insert(carried.end(), sums.begin(), sums.end());
      f_.scopes.Loop(number(slice_), number(complete * slice_), slice_, carried,
                     [&](Value* k, LoopScopes::Values& now) {
                       EmitIteration(k, now);
                       latch = b_.GetInsertBlock();
                     });
      // An iteration has work enough. Copies of it would be scheduled as one and need more registers.
      KeepLoopRolled(*latch->getTerminator());
      sums.assign(carried.end() - static_cast<std::ptrdiff_t>(sums.size()), carried.end());
    }
    if (complete > 0 && slices > complete) {
      const MatrixSlice::Values left = lhs_.LoadEnd(complete * slice_), right = rhs_.LoadEnd(complete * slice_);
      machine_.KeepOrder();
      MultiplySlices(sums, slice_);
      f_.EmitBarrier();
      StoreEnds(left, right, complete * slice_);
    }
    if (slices > 0) MultiplySlices(sums, p_.k - (slices - 1) * slice_);
  }

  void EmitIteration(Value* k, LoopScopes::Values& carried) {
    const auto left_end = carried.begin() + static_cast<std::ptrdiff_t>(lhs_.offsets().size());
    const auto right_end = left_end + static_cast<std::ptrdiff_t>(rhs_.offsets().size());
    const MatrixSlice::Values left_offsets = lhs_.NextInLoop({carried.begin(), left_end});
    const MatrixSlice::Values right_offsets = rhs_.NextInLoop({left_end, right_end});
    LoopScopes::Values sums(right_end, carried.end());
    const MatrixSlice::Values left = lhs_.Load(k, left_offsets), right = rhs_.Load(k, right_offsets);
    machine_.KeepOrder();  // the loads come first, so that they have the time of all products
    MultiplySlices(sums, slice_);
    f_.EmitBarrier();
    StoreSlices(left, right);
    carried = left_offsets;
    carried.insert(carried.end(), right_offsets.begin(), right_offsets.end());
    carried.insert(carried.end(), sums.begin(), sums.end());
  }

  void StoreEnds(const MatrixSlice::Values& left, const MatrixSlice::Values& right, int64_t k) {
    lhs_.StoreEnd(left, k);
    rhs_.StoreEnd(right, k);
    EndStores();
  }

  void StoreSlices(const MatrixSlice::Values& left, const MatrixSlice::Values& right) {
    lhs_.Store(left);
    rhs_.Store(right);
    EndStores();
  }

  // What all threads have stored can be multiplied afterwards.
  void EndStores() {
    if (is_group()) CallCopy(kGroupPublish, {});
    f_.EmitBarrier();
  }

  // Multiplies the elements of the slices in shared memory, `k` of each row.
  void MultiplySlices(LoopScopes::Values& sums, int64_t k) {
    if (is_group()) {
      CallGroup(kGroupMultiply, sums);
      CallGroup(kGroupWait, sums, /*under_way=*/0);  // a barrier follows, and then stores to the same places
      return;
    }
    for (int64_t first = 0; first * CountChunkElements(step_) < k; first += lanes_->chunks()) {
      lanes_->BeginChunks(first);
      const std::vector<MatrixSlice::Values> left = lanes_->LoadLeft(lhs_, wave_row_, steps_down(), first);
      const std::vector<MatrixSlice::Values> right = lanes_->LoadRight(rhs_, wave_column_, steps_across(), first);
      for (size_t part = 0; part < left[0].size(); ++part) {
        for (size_t i = 0; i < left.size(); ++i) {
          for (size_t j = 0; j < right.size(); ++j) {
            Value*& sum = sums[i * right.size() + j];
            sum = lanes_->Multiply(left[i][part], right[j][part], sum);
          }
        }
      }
    }
    lanes_->EndSlice(sums, lhs_.IsLoadedByAll() && rhs_.IsLoadedByAll());
  }

  void StoreSums(Value* tile_row, Value* tile_column, const LoopScopes::Values& sums) {
    const int64_t run = lanes_->run(), steps = lanes_->steps_of_run();
    Value* first_row = First(tile_row, p_.m, tile_.rows);
    Value* first_column = First(tile_column, p_.n, tile_.columns);
    for (int64_t i = 0; i < steps_down(); ++i) {
      for (int64_t j = 0; j < steps_across(); j += steps) {
        const absl::Span<Value* const> of_run =
            absl::MakeConstSpan(sums).subspan(static_cast<size_t>(i * steps_across() + j), static_cast<size_t>(steps));
        for (const MatrixWave::Run& r : lanes_->FindRuns(of_run)) {
          Value* row = b_.CreateAdd(b_.CreateAdd(wave_row_, Number(i * step_.rows())), r.row);
          Value* column = b_.CreateAdd(b_.CreateAdd(wave_column_, Number(j * step_.columns())), r.column);
          // Columns beyond the end stand for others chunk by chunk, so no more than a chunk is stored at a time.
          const int lanes = static_cast<int>(std::min(run, CountChunkElements(step_)));
          for (int at = 0; at < run; at += lanes) {
            Value* part = r.sums;
            if (lanes < run) part = b_.CreateShuffleVector(r.sums, llvm::createSequentialMask(at, lanes, 0));
            StoreRun(first_row, row, first_column, b_.CreateAdd(column, Number(at)), part, lanes);
          }
        }
      }
    }
  }

  // The first row of the matrix that a tile computes: tiles do not reach over the end if there is room before it.
  Value* First(Value* first, int64_t rows, int64_t tile_rows) {
    if (rows < tile_rows) return first;
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, first,
                                    llvm::ConstantInt::get(first->getType(), static_cast<uint64_t>(rows - tile_rows)));
  }

  void StoreRun(Value* first_row, Value* row, Value* first_column, Value* column, Value* sums, int lanes) {
    auto at = [&](Value* first, Value* in_tile) {
      return b_.CreateAdd(first, b_.CreateZExtOrTrunc(in_tile, first->getType()));
    };
    WithOriginal(lhs_.IsOriginal(row), [&] {
      Value* in_row = at(first_row, lhs_.GetRow(row));
      if (!rhs_.HasFewRows()) {
        WithOriginal(rhs_.IsOriginal(column),
                     [&] { output_.Store(in_row, at(first_column, rhs_.GetRow(column)), lanes, Val{sums}); });
        return;
      }
      for (int e = 0; e < lanes; ++e) {
        Value* single = b_.CreateAdd(column, Number(e));
        WithOriginal(rhs_.IsOriginal(single), [&] {
          output_.Store(in_row, at(first_column, single), 0,
                        Val{b_.CreateExtractElement(sums, static_cast<uint64_t>(e))});
        });
      }
    });
  }

  void WithOriginal(Value* condition, const std::function<void()>& body) {
    condition == nullptr ? body() : f_.scopes.If(condition, body);
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const DotProblem& p_;
  MatrixMachine machine_;
  const MatrixStep& step_;
  const MatrixTile tile_;
  const int64_t slice_;  // elements of k
  DotTiles tiles_;
  DotOutput output_;
  Value* const wave_;
  MatrixSlice lhs_, rhs_;
  std::unique_ptr<MatrixWave> lanes_;
  Value *wave_row_ = nullptr, *wave_column_ = nullptr;
};

}  // namespace

void EmitMatrixDot(KernelFrame& frame, const DotPlan& plan) {
  const absl::StatusOr<DotProblem> problem = MakeDotProblem(plan.site);
  if (!problem.ok()) return frame.elements.Fail(problem.status());
  MatrixEmitter(frame, *problem, plan).Emit();
}

}  // namespace backplane::hip
