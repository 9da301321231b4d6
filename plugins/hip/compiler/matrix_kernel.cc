// Matrix products by matrix instructions.
//
// A block computes a tile of the result (matrix_tile.h). Its threads copy a slice of both operands to shared memory;
// while they multiply it, the loads of the next slice are under way into registers. Each wave computes a part of the
// tile with sums in registers. A step gets the right operand as its left factor, so that a lane's sums are those of
// neighbouring columns.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "plugins/hip/compiler/dot_output.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/matrix_slice.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

// A SIMD of a compute unit runs two waves of such a kernel, so that one computes while the other waits.
constexpr char kWaves[] = "2";

class MatrixEmitter {
 public:
  MatrixEmitter(KernelFrame& frame, const DotProblem& problem, const DotSite& site)
      : f_(frame),
        b_(frame.b),
        p_(problem),
        step_(*frame.plan.matrix),
        tile_(frame.plan.tile),
        slice_(SliceElements(step_)),
        tiles_(frame, p_, tile_.rows, tile_.columns),
        output_(frame, tiles_, p_, site),
        wave_(b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane, {b_.getInt32Ty()},
                                 {b_.CreateUDiv(f_.thread(), Number(step_.wave_size()))})),
        lhs_(frame, step_, Lhs(), wave_),
        rhs_(frame, step_, Rhs(), wave_) {
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    function->addFnAttr("amdgpu-waves-per-eu", kWaves);
    function->addFnAttr("amdgpu-no-agpr");  // sums in ordinary registers: 256 suffice, and none is moved between files
    Value* lane = b_.CreateAnd(f_.thread(), Number(step_.wave_size() - 1));
    lane_in_step_ = b_.CreateAnd(lane, Number(kStepSide - 1));
    part_ = b_.CreateLShr(lane, Number(4));
    wave_row_ = b_.CreateMul(b_.CreateUDiv(wave_, Number(tile_.waves_across)), Number(tile_.wave_rows()));
    wave_column_ = b_.CreateMul(b_.CreateURem(wave_, Number(tile_.waves_across)), Number(tile_.wave_columns()));
  }

  void Emit() {
    tiles_.ForEach([this](Value* row, Value* column) { EmitTile(row, column); });
  }

 private:
  int64_t steps_down() const { return tile_.wave_rows() / kStepSide; }
  int64_t steps_across() const { return tile_.wave_columns() / kStepSide; }
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }

  MatrixOperand Lhs() const {
    MatrixOperand o{output_.lhs(), p_.m, p_.k, p_.lhs_m_stride, p_.lhs_k_stride, {}, tile_.rows, false};
    for (const DotProblem::BatchDim& d : p_.batch) o.other_strides.push_back(d.lhs_stride);
    return o;
  }
  MatrixOperand Rhs() const {
    MatrixOperand o{output_.rhs(), p_.n, p_.k, p_.rhs_n_stride, p_.rhs_k_stride, {}, tile_.columns, true};
    for (const DotProblem::BatchDim& d : p_.batch) o.other_strides.push_back(d.rhs_stride);
    return o;
  }

  llvm::Type* SumVector() const {
    llvm::Type* sum = step_.sum == PrimitiveType::kS32   ? b_.getInt32Ty()
                      : step_.sum == PrimitiveType::kF64 ? b_.getDoubleTy()
                                                         : b_.getFloatTy();
    return llvm::FixedVectorType::get(sum, static_cast<unsigned>(step_.sum_elements()));
  }

  void EmitTile(Value* row, Value* column) {
    lhs_.StartTile(row, f_.indices.Uniform(tiles_.BatchOffset(&DotProblem::BatchDim::lhs_stride)));
    rhs_.StartTile(column, f_.indices.Uniform(tiles_.BatchOffset(&DotProblem::BatchDim::rhs_stride)));
    LoopScopes::Values sums(static_cast<size_t>(steps_down() * steps_across()),
                            llvm::Constant::getNullValue(SumVector()));
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
      KeepRolled(*latch->getTerminator());
      sums.assign(carried.end() - static_cast<std::ptrdiff_t>(sums.size()), carried.end());
    }
    if (complete > 0 && slices > complete) {
      const MatrixSlice::Values left = lhs_.LoadEnd(complete * slice_), right = rhs_.LoadEnd(complete * slice_);
      KeepOrder();
      MultiplySlices(sums, slice_);
      f_.EmitBarrier();
      StoreEnds(left, right, complete * slice_);
    }
    if (slices > 0) MultiplySlices(sums, p_.k - (slices - 1) * slice_);
    StoreSums(row, column, sums);
    if (tiles_.ManyForBlock()) f_.EmitBarrier();  // the next tile's slices overwrite this one's
  }

  // An iteration has work enough. Copies of it would be scheduled as one and need more registers.
  void KeepRolled(llvm::Instruction& latch) {
    llvm::LLVMContext& context = b_.getContext();
    llvm::Metadata* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
    llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
    loop->replaceOperandWith(0, loop);
    latch.setMetadata(llvm::LLVMContext::MD_loop, loop);
  }

  // Makes the compiler compute the sums here. LLVM 19 moves matrix instructions to where their only user is, behind the
  // branches of the threads that store something. Then they would all wait for these, and WMMA needs all lanes of its
  // wave.
  void KeepHere(LoopScopes::Values& sums) {
    auto* type = llvm::FunctionType::get(SumVector(), {SumVector()}, false);
    for (Value*& sum : sums)
      sum = b_.CreateCall(llvm::InlineAsm::get(type, "", "=v,0", /*hasSideEffects=*/true), {sum});
  }

  void EmitIteration(Value* k, LoopScopes::Values& carried) {
    const auto left_end = carried.begin() + static_cast<std::ptrdiff_t>(lhs_.offsets().size());
    const auto right_end = left_end + static_cast<std::ptrdiff_t>(rhs_.offsets().size());
    const MatrixSlice::Values left_offsets = lhs_.KeepInLoop({carried.begin(), left_end});
    const MatrixSlice::Values right_offsets = rhs_.KeepInLoop({left_end, right_end});
    LoopScopes::Values sums(right_end, carried.end());
    const MatrixSlice::Values left = lhs_.Load(k, left_offsets), right = rhs_.Load(k, right_offsets);
    KeepOrder();  // the loads come first, so that they have the time of all products
    MultiplySlices(sums, slice_);
    f_.EmitBarrier();
    StoreSlices(left, right);
    carried = left_offsets;
    carried.insert(carried.end(), right_offsets.begin(), right_offsets.end());
    carried.insert(carried.end(), sums.begin(), sums.end());
  }

  // Keeps the compiler from moving instructions from one side to the other.
  void KeepOrder() { b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_sched_barrier, {}, {Number(0)}); }

  void StoreEnds(const MatrixSlice::Values& left, const MatrixSlice::Values& right, int64_t k) {
    lhs_.StoreEnd(left, k);
    rhs_.StoreEnd(right, k);
    f_.EmitBarrier();
  }

  void StoreSlices(const MatrixSlice::Values& left, const MatrixSlice::Values& right) {
    lhs_.Store(left);
    rhs_.Store(right);
    f_.EmitBarrier();
  }

  // Multiplies the elements of the slices in shared memory, `k` of each row.
  void MultiplySlices(LoopScopes::Values& sums, int64_t k) {
    // A lane's chunks: of MFMA one of four neighbours; its parts serve one step after another, in the same way for both
    // operands, so that it does not matter which elements of k a step multiplies. Of WMMA both of two neighbours, of
    // bytes one after the other.
    const int64_t chunks = step_.is_wmma ? 2 : 4;
    for (int64_t first = 0; first * ChunkElements(step_) < k; first += chunks) {
      // All chunks at once would not leave registers for the loads that are under way.
      if (step_.is_wmma && first == kRowChunks / 2) KeepOrder();
      std::vector<MatrixSlice::Values> left, right;
      for (int64_t i = 0; i < steps_down(); ++i)
        left.push_back(LoadParts(lhs_, b_.CreateAdd(wave_row_, Number(i * kStepSide)), first));
      for (int64_t j = 0; j < steps_across(); ++j)
        right.push_back(LoadParts(rhs_, b_.CreateAdd(wave_column_, Number(j * kStepSide)), first));
      for (size_t part = 0; part < left[0].size(); ++part) {
        for (size_t i = 0; i < left.size(); ++i) {
          for (size_t j = 0; j < right.size(); ++j) {
            Value*& sum = sums[i * right.size() + j];
            sum = Step(right[j][part], left[i][part], sum);
          }
        }
      }
    }
    if (step_.is_wmma || !lhs_.IsLoadedByAll() || !rhs_.IsLoadedByAll()) KeepHere(sums);
  }

  // What the intrinsic takes, for one step after another: of the lane's row behind `row` in shared memory.
  MatrixSlice::Values LoadParts(MatrixSlice& slice, Value* row, int64_t chunk) {
    row = b_.CreateAdd(row, lane_in_step_);
    if (step_.is_wmma && step_.operand == PrimitiveType::kS8) {
      return {slice.LoadChunk(row, Number(chunk)), slice.LoadChunk(row, Number(chunk + 1))};
    }
    if (step_.is_wmma) {
      llvm::Type* half = OperandVector(8);
      Value* low = b_.CreateBitCast(slice.LoadChunk(row, Number(chunk)), half);
      Value* high = b_.CreateBitCast(slice.LoadChunk(row, Number(chunk + 1)), half);
      return {b_.CreateShuffleVector(low, high, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
    }
    Value* loaded = slice.LoadChunk(row, b_.CreateAdd(part_, Number(chunk)));
    const int count = step_.operand_elements();
    MatrixSlice::Values parts;
    for (int at = 0; at < ChunkElements(step_); at += count) {
      if (step_.operand == PrimitiveType::kS8) {
        Value* words = b_.CreateBitCast(loaded, llvm::FixedVectorType::get(b_.getInt64Ty(), 2));
        parts.push_back(b_.CreateExtractElement(words, static_cast<uint64_t>(at / count)));
      } else if (count == 1) {
        llvm::Type* elements = OperandVector(static_cast<unsigned>(ChunkElements(step_)));
        parts.push_back(b_.CreateExtractElement(b_.CreateBitCast(loaded, elements), static_cast<uint64_t>(at)));
      } else {
        parts.push_back(
            b_.CreateShuffleVector(b_.CreateBitCast(loaded, OperandVector(8)), {at, at + 1, at + 2, at + 3}));
      }
    }
    return parts;
  }

  llvm::Type* OperandVector(unsigned count) const {
    llvm::Type* element = step_.operand == PrimitiveType::kF16    ? b_.getHalfTy()
                          : step_.operand == PrimitiveType::kBF16 ? b_.getInt16Ty()
                          : step_.operand == PrimitiveType::kF64  ? b_.getDoubleTy()
                                                                  : b_.getFloatTy();
    return llvm::FixedVectorType::get(element, count);
  }

  Value* Step(Value* left, Value* right, Value* sums) {
    llvm::Type* vector = SumVector();
    std::vector<llvm::Type*> types = {left->getType(), right->getType(), vector};
    std::vector<Value*> arguments = {left, right, sums};
    std::string name = step_.instruction;
    if (step_.is_wmma && step_.operand == PrimitiveType::kS8) {
      absl::StrAppend(&name, ".v8i32.v4i32");
      Value *is_signed = b_.getTrue(), *saturates = b_.getFalse();
      llvm::Type* flag = b_.getInt1Ty();
      types = {flag, left->getType(), flag, right->getType(), vector, flag};
      arguments = {is_signed, left, is_signed, right, sums, saturates};
    } else if (step_.is_wmma) {
      absl::StrAppend(&name, ".v8f32.v16", step_.operand == PrimitiveType::kF16 ? "f16" : "i16");
    } else {
      for (int k = 0; k < 3; ++k) types.push_back(b_.getInt32Ty()), arguments.push_back(b_.getInt32(0));
    }
    return b_.CreateCall(f_.elements.module()->getOrInsertFunction(name, llvm::FunctionType::get(vector, types, false)),
                         arguments);
  }

  void StoreSums(Value* tile_row, Value* tile_column, const LoopScopes::Values& sums) {
    const int64_t run = RunOfColumns(step_), steps = run / step_.sum_elements();
    Value* first_row = First(tile_row, p_.m, tile_.rows);
    Value* first_column = First(tile_column, p_.n, tile_.columns);
    for (int64_t i = 0; i < steps_down(); ++i) {
      Value* row = b_.CreateAdd(b_.CreateAdd(wave_row_, Number(i * kStepSide)), lane_in_step_);
      for (int64_t j = 0; j < steps_across(); j += steps) {
        Value* column =
            b_.CreateAdd(b_.CreateAdd(wave_column_, Number(j * kStepSide)), b_.CreateMul(part_, Number(run)));
        Value* all = sums[static_cast<size_t>(i * steps_across() + j)];
        if (steps == 2) {
          all = b_.CreateShuffleVector(all, sums[static_cast<size_t>(i * steps_across() + j + 1)],
                                       {0, 1, 2, 3, 4, 5, 6, 7});
        }
        // Columns beyond the end stand for others chunk by chunk, so no more than a chunk is stored at a time.
        const int lanes = static_cast<int>(std::min(run, ChunkElements(step_)));
        for (int at = 0; at < run; at += lanes) {
          Value* part = all;
          if (lanes < run) part = b_.CreateShuffleVector(all, llvm::createSequentialMask(at, lanes, 0));
          StoreRun(first_row, row, first_column, b_.CreateAdd(column, Number(at)), part, lanes);
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
      Value* in_row = at(first_row, lhs_.RowOf(row));
      if (!rhs_.HasFewRows()) {
        WithOriginal(rhs_.IsOriginal(column),
                     [&] { output_.Store(in_row, at(first_column, rhs_.RowOf(column)), lanes, Val{sums}); });
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
  const MatrixStep& step_;
  const MatrixTile tile_;
  const int64_t slice_;  // elements of k
  DotTiles tiles_;
  DotOutput output_;
  Value* const wave_;
  MatrixSlice lhs_, rhs_;
  // Within the wave: the row or column in a step, and which part of k or of the sums the lane has.
  Value *lane_in_step_ = nullptr, *part_ = nullptr;
  Value *wave_row_ = nullptr, *wave_column_ = nullptr;
};

}  // namespace

void EmitMatrixDot(KernelFrame& frame, const DotSite& dot) {
  const absl::StatusOr<DotProblem> problem = MakeDotProblem(dot);
  if (!problem.ok()) return frame.elements.Fail(problem.status());
  MatrixEmitter(frame, *problem, dot).Emit();
}

}  // namespace backplane::hip
