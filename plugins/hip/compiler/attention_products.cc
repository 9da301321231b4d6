#include "plugins/hip/compiler/attention_products.h"

#include "core/types/integer_division.h"
#include "plugins/hip/compiler/attention_plan.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Attention;
using llvm::Value;

Value* AttentionProducts::ComputeAddress(const AttentionRows& rows, Value* row, Value* element) {
  auto scaled = [&](Value* n, int64_t stride) {
    return b_.CreateMul(b_.CreateZExt(n, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(stride)));
  };
  Value* at = b_.CreateAdd(rows.offset, b_.CreateAdd(scaled(row, rows.row_stride), scaled(element, rows.inner_stride)));
  return b_.CreateGEP(f_.elements.StorageType(rows.type), rows.array, at);
}

Value* AttentionProducts::LoadElement(const AttentionRows& rows, Value* row, Value* element) {
  Value* exists =
      b_.CreateAnd(b_.CreateICmpULT(row, Number(rows.rows)), b_.CreateICmpULT(element, Number(rows.elements)));
  row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row, Number(rows.rows - 1));
  element = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, element, Number(rows.elements - 1));
  llvm::Type* type = f_.elements.StorageType(rows.type);
  Value* raw = b_.CreateAlignedLoad(type, ComputeAddress(rows, row, element),
                                    llvm::Align(static_cast<uint64_t>(ByteWidth(rows.type))));
  raw = b_.CreateSelect(exists, raw, llvm::Constant::getNullValue(type));
  return f_.elements.FromStorage(rows.type, raw).v;
}

Value* AttentionProducts::LoadChunk(const AttentionRows& rows, Value* row, Value* element) {
  auto* words = llvm::FixedVectorType::get(b_.getInt32Ty(), 4);
  Value* row_exists = b_.CreateICmpULT(row, Number(rows.rows));
  Value* last = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row, Number(rows.rows - 1));
  if (rows.is_aligned) {
    Value* exists = b_.CreateAnd(row_exists, b_.CreateICmpULT(element, Number(rows.elements)));
    Value* inside = b_.CreateSelect(exists, element, Number(0));
    Value* chunk = b_.CreateAlignedLoad(words, ComputeAddress(rows, last, inside), llvm::Align(16));
    return b_.CreateSelect(exists, chunk, llvm::Constant::getNullValue(words));
  }
  auto* halves = llvm::FixedVectorType::get(b_.getInt16Ty(), 8);
  Value* chunk = llvm::PoisonValue::get(halves);
  for (int64_t e = 0; e < 8; ++e) {
    Value* at = b_.CreateAdd(element, Number(e));
    Value* exists = b_.CreateAnd(row_exists, b_.CreateICmpULT(at, Number(rows.elements)));
    Value* inside = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at, Number(rows.elements - 1));
    Value* raw = b_.CreateAlignedLoad(b_.getInt16Ty(), ComputeAddress(rows, last, inside), llvm::Align(2));
    chunk = b_.CreateInsertElement(chunk, b_.CreateSelect(exists, raw, b_.getInt16(0)), static_cast<uint64_t>(e));
  }
  return b_.CreateBitCast(chunk, words);
}

Value* AttentionProducts::Exchange(Value* value, int mask) {
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getInt32Ty(), b_.getInt32Ty()}, false);
  llvm::FunctionCallee shuffle = f_.elements.module()->getOrInsertFunction(kShuffleXor, type);
  llvm::cast<llvm::Function>(shuffle.getCallee())->setConvergent();
  Value* other = b_.CreateCall(shuffle, {b_.CreateBitCast(value, b_.getInt32Ty()), Number(mask)});
  return b_.CreateBitCast(KeepExchange(other), b_.getFloatTy());
}

// LLVM 19 moves exchanges of AMD's GPUs, too, behind a branch that the other lane does not take.
Value* AttentionProducts::KeepExchange(Value* word) {
  return f_.elements.target().family == codegen::TargetFamily::kAmdGpu ? machine_.Hide(word, /*stays=*/true) : word;
}

namespace {

// Fused multiply-adds. 16 threads share the queries of a row of threads: thread (y, x) has rows() neighbouring queries
// and every 16th key. Shared memory has all operands as f32.
class FmaProducts : public AttentionProducts {
 public:
  FmaProducts(KernelFrame& frame, const Attention& a, const MatrixTile& tile)
      : AttentionProducts(frame),
        queries_(tile.rows),
        keys_(tile.columns),
        depth_(PadAttentionRow(a.depth, nullptr)),
        width_(PadAttentionRow(a.width, nullptr)) {
    query_memory_ = f_.AddShared(PrimitiveType::kF32, queries_ * pitch(depth_));
    key_memory_ = f_.AddShared(PrimitiveType::kF32, keys_ * pitch(depth_));
    value_memory_ = f_.AddShared(PrimitiveType::kF32, keys_ * pitch(width_));
    weight_memory_ = f_.AddShared(PrimitiveType::kF32, queries_ * pitch(keys_));
    x_ = b_.CreateAnd(f_.thread(), Number(15)), y_ = b_.CreateLShr(f_.thread(), Number(4));
  }

  int64_t rows() const override { return queries_ / 16; }
  int64_t columns() const override { return keys_ / 16; }
  int64_t widths() const override { return width_ / 16; }
  Value* Row(int64_t r) override { return b_.CreateAdd(b_.CreateMul(y_, Number(rows())), Number(r)); }
  Value* Column(int64_t c) override { return b_.CreateAdd(x_, Number(16 * c)); }
  Value* Width(int64_t w) override {
    return b_.CreateAdd(b_.CreateMul(x_, Number(run())), Number(w / run() * 16 * run() + w % run()));
  }
  int64_t run() const override { return width_ % 64 == 0 ? 4 : 1; }
  std::vector<int> row_masks() const override { return {1, 2, 4, 8}; }

  void StartQueries(const AttentionRows& queries, Value* first_query) override {
    Copy(queries, first_query, query_memory_, queries_, depth_);
  }
  void CopyTile(const AttentionRows& keys, const AttentionRows& values, Value* first_key, Value* stage) override {
    (void)stage;
    Copy(keys, first_key, key_memory_, keys_, depth_);
    Copy(values, first_key, value_memory_, keys_, width_);
  }

  Values ComputeScores(Value* stage) override {
    (void)stage;
    Values scores(static_cast<size_t>(rows() * columns()), llvm::ConstantFP::get(b_.getFloatTy(), 0));
    f_.scopes.Loop(Number(0), Number(depth_), kStep, scores, [&](Value* d, LoopScopes::Values& now) {
      Values queries, keys;
      for (int64_t r = 0; r < rows(); ++r) queries.push_back(Load4(query_memory_, Row(r), d, pitch(depth_)));
      for (int64_t c = 0; c < columns(); ++c) keys.push_back(Load4(key_memory_, Column(c), d, pitch(depth_)));
      for (uint64_t e = 0; e < kStep; ++e) {
        for (size_t i = 0; i < now.size(); ++i) {
          const size_t columns = keys.size();
          now[i] = MultiplyAdd(b_.CreateExtractElement(queries[i / columns], e),
                               b_.CreateExtractElement(keys[i % columns], e), now[i]);
        }
      }
    });
    return scores;
  }

  void AddProducts(const Values& weights, Value* stage, Values& results) override {
    (void)stage;
    for (int64_t r = 0; r < rows(); ++r) {
      for (int64_t c = 0; c < columns(); ++c) {
        b_.CreateAlignedStore(weights[static_cast<size_t>(r * columns() + c)],
                              AddressIn(weight_memory_, Row(r), Column(c), pitch(keys_)), llvm::Align(4));
      }
    }
    f_.EmitBarrier();
    f_.scopes.Loop(Number(0), Number(keys_), kStep, results, [&](Value* k, LoopScopes::Values& now) {
      Values weight;
      for (int64_t r = 0; r < rows(); ++r) weight.push_back(Load4(weight_memory_, Row(r), k, pitch(keys_)));
      for (int64_t e = 0; e < kStep; ++e) {
        Value* key = b_.CreateAdd(k, Number(e));
        Values values;
        for (int64_t w = 0; w < widths(); w += run()) {
          if (run() == 1) {
            values.push_back(b_.CreateAlignedLoad(
                b_.getFloatTy(), AddressIn(value_memory_, key, Width(w), pitch(width_)), llvm::Align(4)));
            continue;
          }
          Value* four = Load4(value_memory_, key, Width(w), pitch(width_));
          for (uint64_t i = 0; i < 4; ++i) values.push_back(b_.CreateExtractElement(four, i));
        }
        for (size_t i = 0; i < now.size(); ++i) {
          now[i] = MultiplyAdd(b_.CreateExtractElement(weight[i / values.size()], static_cast<uint64_t>(e)),
                               values[i % values.size()], now[i]);
        }
      }
    });
  }

 private:
  static constexpr int64_t kStep = 4;  // elements of the sums at a time
  // Rows begin in other banks, and each of their fours is aligned.
  static int64_t pitch(int64_t elements) { return elements + 4; }

  Value* AddressIn(Value* memory, Value* row, Value* element, int64_t pitch) {
    return b_.CreateGEP(b_.getFloatTy(), memory, b_.CreateAdd(b_.CreateMul(row, Number(pitch)), element));
  }
  Value* Load4(Value* memory, Value* row, Value* element, int64_t pitch) {
    return b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getFloatTy(), 4), AddressIn(memory, row, element, pitch),
                                llvm::Align(16));
  }
  Value* MultiplyAdd(Value* x, Value* y, Value* sum) {
    if (!f_.elements.target().has_fma) return b_.CreateFAdd(b_.CreateFMul(x, y), sum);
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {b_.getFloatTy()}, {x, y, sum});
  }

  void Copy(const AttentionRows& rows, Value* first, Value* memory, int64_t count, int64_t elements) {
    LoopScopes::Values none;
    f_.ForEachInBlock(count * elements, none, [&](Value* n, LoopScopes::Values&) {
      n = b_.CreateZExtOrTrunc(n, b_.getInt32Ty());
      Value *row = b_.CreateUDiv(n, Number(elements)), *element = b_.CreateURem(n, Number(elements));
      b_.CreateAlignedStore(LoadElement(rows, b_.CreateAdd(first, row), element),
                            AddressIn(memory, row, element, pitch(elements)), llvm::Align(4));
    });
  }

  const int64_t queries_, keys_, depth_, width_;
  Value *query_memory_, *key_memory_, *value_memory_, *weight_memory_;
  Value *x_, *y_;
};

}  // namespace

std::unique_ptr<AttentionProducts> AttentionProducts::Make(KernelFrame& frame, const Attention& attention,
                                                           const AttentionPlan& plan) {
  if (plan.matrix != nullptr) return MakeMatrixProducts(frame, attention, plan);
  return std::make_unique<FmaProducts>(frame, attention, plan.tile);
}

}  // namespace backplane::hip
