// The products of attention by matrix instructions.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "plugins/hip/compiler/attention_plan.h"
#include "plugins/hip/compiler/attention_products.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {

using compiler::Attention;
using llvm::Value;

namespace {

// What kernels with matrix instructions have in common: keys and values in shared memory as they are in the arrays, in
// rows of a multiple of 128 bytes. The chunks of 16 bytes of a row are permuted, so that neither eight rows of one
// chunk nor two rows of four chunks meet in a bank.
class MatrixProducts : public AttentionProducts {
 public:
  MatrixProducts(KernelFrame& frame, const Attention& a, const AttentionPlan& plan)
      : AttentionProducts(frame),
        step_(*plan.matrix),
        tile_(plan.tile),
        keys_(tile_.columns),
        strips_(tile_.rows / (tile_.waves_down * step_.rows())),
        groups_(CeilDiv(a.depth, kGroup)),
        width_(a.width),
        key_pitch_(2 * PadAttentionRow(a.depth, &step_)),
        value_pitch_(2 * PadAttentionRow(a.width, &step_)) {
    machine_.SetAttributes(*b_.GetInsertBlock()->getParent());
    const int64_t stages = std::max(1, tile_.stages);
    key_memory_ = f_.AddShared(PrimitiveType::kS32, stages * keys_ * key_pitch_ / 4);
    value_memory_ = f_.AddShared(PrimitiveType::kS32, stages * keys_ * value_pitch_ / 4);
    if (!keeps_queries()) query_memory_ = f_.AddShared(PrimitiveType::kS32, tile_.rows * key_pitch_ / 4);
    lane_ = b_.CreateAnd(f_.thread(), Number(step_.wave_size() - 1));
    Value* wave = machine_.MakeUniform(b_.CreateUDiv(f_.thread(), Number(step_.wave_size())));
    wave_row_ = b_.CreateMul(wave, Number(strips_ * step_.rows()));
  }

  void CopyTile(const AttentionRows& keys, const AttentionRows& values, Value* first_key, Value* stage) override {
    Copy(keys, first_key, key_memory_, key_pitch_, groups_ * kGroup / 8, stage);
    Copy(values, first_key, value_memory_, value_pitch_, CeilDiv(width_, int64_t{32}) * 4, stage);
  }

 protected:
  static constexpr int64_t kGroup = 32;  // elements of the depth that two steps multiply

  // The byte of a chunk of a row in a tile.
  Value* PositionOf(Value* row, Value* chunk, int64_t pitch) {
    Value* key = b_.CreateOr(b_.CreateShl(b_.CreateAnd(row, Number(1)), Number(2)),
                             b_.CreateAnd(b_.CreateLShr(row, Number(1)), Number(3)));
    return b_.CreateAdd(b_.CreateMul(row, Number(pitch)), b_.CreateShl(b_.CreateXor(chunk, key), Number(4)));
  }
  Value* KeyStage(Value* stage) {
    return b_.CreateGEP(b_.getInt8Ty(), key_memory_, b_.CreateMul(stage, Number(keys_ * key_pitch_)));
  }
  Value* ValueStage(Value* stage) {
    return b_.CreateGEP(b_.getInt8Ty(), value_memory_, b_.CreateMul(stage, Number(keys_ * value_pitch_)));
  }
  Value* LoadShared(Value* memory, Value* position) {
    return b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), 4),
                                b_.CreateGEP(b_.getInt8Ty(), memory, position), llvm::Align(16));
  }

  void KeepQueries(const AttentionRows& queries, Value* first_query) {
    auto load = [&](Value* row, Value* chunk) {
      row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateAdd(first_query, row), Number(queries.rows - 1));
      return LoadChunk(queries, row, b_.CreateMul(chunk, Number(8)));
    };
    if (!keeps_queries()) {
      ForEachChunk(tile_.rows, groups_ * kGroup / 8, [&](Value* row, Value* chunk) {
        Value* to = b_.CreateGEP(b_.getInt8Ty(), query_memory_, PositionOf(row, chunk, key_pitch_));
        b_.CreateAlignedStore(load(row, chunk), to, llvm::Align(16));
        machine_.KeepOrder();  // all chunks at once would not fit into the registers
      });
      return;
    }
    kept_.clear();
    for (int64_t g = 0; g < groups_; ++g) {
      kept_.emplace_back();
      for (int64_t s = 0; s < strips_; ++s) kept_.back().push_back(LoadQueries(s, g, load));
    }
  }
  // The queries stay in registers if there are enough, otherwise in shared memory.
  bool keeps_queries() const { return strips_ * groups_ <= 4; }
  // Returns the operands of two steps for each strip, from elements kGroup * g on.
  std::vector<Values> QueriesOf(int64_t g) {
    if (keeps_queries()) return kept_[static_cast<size_t>(g)];
    std::vector<Values> loaded;
    for (int64_t s = 0; s < strips_; ++s) {
      loaded.push_back(LoadQueries(s, g, [&](Value* row, Value* chunk) {
        return LoadShared(query_memory_, PositionOf(row, chunk, key_pitch_));
      }));
    }
    return loaded;
  }
  // Loads a chunk of a query of the tile.
  using ChunkLoader = std::function<Value*(Value* row, Value* chunk)>;
  virtual Values LoadQueries(int64_t s, int64_t g, const ChunkLoader& load) = 0;

  // Rounds f32 to the type of the operands, as an i16.
  Value* Narrow(Value* value) { return f_.elements.ToStorage(step_.operand, f_.elements.Round(step_.operand, value)); }

  const MatrixStep& step_;
  const MatrixTile& tile_;
  const int64_t keys_, strips_, groups_, width_, key_pitch_, value_pitch_;
  Value *key_memory_, *value_memory_, *lane_, *wave_row_;

 private:
  void Copy(const AttentionRows& rows, Value* first, Value* memory, int64_t pitch, int64_t chunks, Value* stage) {
    Value* to = b_.CreateGEP(b_.getInt8Ty(), memory, b_.CreateMul(stage, Number(keys_ * pitch)));
    ForEachChunk(keys_, chunks, [&](Value* row, Value* chunk) {
      CopyChunk(rows, b_.CreateAdd(first, row), chunk, b_.CreateGEP(b_.getInt8Ty(), to, PositionOf(row, chunk, pitch)));
    });
  }

  // The threads of the block take the chunks of some rows in turns.
  void ForEachChunk(int64_t rows, int64_t chunks, const std::function<void(Value* row, Value* chunk)>& body) {
    const int64_t total = rows * chunks, threads = f_.plan.threads;
    for (int64_t done = 0; done < total; done += threads) {
      Value* n = b_.CreateAdd(f_.thread(), Number(done));
      auto one = [&] { body(b_.CreateUDiv(n, Number(chunks)), b_.CreateURem(n, Number(chunks))); };
      done + threads <= total ? one() : f_.scopes.If(b_.CreateICmpULT(n, Number(total)), one);
    }
  }

  void CopyChunk(const AttentionRows& rows, Value* row, Value* chunk, Value* to) {
    Value* element = b_.CreateMul(chunk, Number(8));
    if (tile_.stages == 0) {
      b_.CreateAlignedStore(LoadChunk(rows, row, element), to, llvm::Align(16));
      return;
    }
    Value* exists =
        b_.CreateAnd(b_.CreateICmpULT(row, Number(rows.rows)), b_.CreateICmpULT(element, Number(rows.elements)));
    Value* from = ComputeAddress(rows, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, row, Number(rows.rows - 1)),
                                 b_.CreateSelect(exists, element, Number(0)));
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {to->getType(), from->getType(), b_.getInt32Ty()}, false);
    b_.CreateCall(f_.elements.module()->getOrInsertFunction(kCopyAsync, type),
                  {to, from, b_.CreateSelect(exists, Number(16), Number(0))});
  }

  Value* query_memory_ = nullptr;
  std::vector<std::vector<Values>> kept_;  // by group, strip
};

// gpu.multiply. The scores of two steps are the words of a left operand, so the weights stay in registers.
class MmaProducts : public MatrixProducts {
 public:
  MmaProducts(KernelFrame& frame, const Attention& a, const AttentionPlan& plan) : MatrixProducts(frame, a, plan) {
    quad_ = b_.CreateLShr(lane_, Number(2)), in_quad_ = b_.CreateAnd(lane_, Number(3));
  }

  int64_t rows() const override { return 2 * strips_; }
  int64_t columns() const override { return keys_ / 4; }
  int64_t widths() const override { return 2 * (WidthSteps() + (sums_weights() ? 1 : 0)); }
  int64_t sum_column() const override { return sums_weights() ? 2 * WidthSteps() : -1; }
  Value* Row(int64_t r) override {
    return b_.CreateAdd(b_.CreateAdd(wave_row_, quad_), Number(16 * (r / 2) + 8 * (r % 2)));
  }
  Value* Column(int64_t c) override {
    return b_.CreateAdd(b_.CreateMul(in_quad_, Number(2)), Number(8 * (c / 2) + c % 2));
  }
  Value* Width(int64_t w) override { return Column(w); }
  int64_t run() const override { return 2; }
  std::vector<int> row_masks() const override { return {1, 2}; }

  void StartQueries(const AttentionRows& queries, Value* first_query) override { KeepQueries(queries, first_query); }

  Values ComputeScores(Value* stage) override {
    const int64_t steps = keys_ / 8;
    Values sums(static_cast<size_t>(strips_ * steps), llvm::Constant::getNullValue(SumType()));
    Value* memory = KeyStage(stage);
    for (int64_t g = 0; g < groups_; ++g) {
      const std::vector<Values> left = QueriesOf(g);
      for (int64_t j = 0; j < steps; ++j) {
        Value* words = LoadShared(
            memory, PositionOf(b_.CreateAdd(quad_, Number(8 * j)), b_.CreateAdd(in_quad_, Number(4 * g)), key_pitch_));
        for (int part = 0; part < 2; ++part) {
          Value* right = b_.CreateShuffleVector(words, {2 * part, 2 * part + 1});
          for (int64_t s = 0; s < strips_; ++s) {
            Value*& sum = sums[static_cast<size_t>(s * steps + j)];
            sum = Multiply(left[static_cast<size_t>(s)][static_cast<size_t>(part)], right, sum);
          }
        }
      }
    }
    return FromSums(sums, steps);
  }

  void AddProducts(const Values& weights, Value* stage, Values& results) override {
    const int64_t steps = WidthSteps(), all_steps = widths() / 2;
    Values sums = ToSums(results, all_steps);
    Value* memory = ValueStage(stage);
    Value *in_matrix = b_.CreateAnd(lane_, Number(7)), *matrix = b_.CreateLShr(lane_, Number(3));
    Value* key = b_.CreateAdd(in_matrix, b_.CreateShl(b_.CreateAnd(matrix, Number(1)), Number(3)));
    Value* chunk = b_.CreateLShr(matrix, Number(1));
    for (int64_t t = 0; t < keys_ / 16; ++t) {
      Values left;
      for (int64_t s = 0; s < strips_; ++s) left.push_back(PackWeights(weights, s, t));
      for (int64_t n = 0; n < steps; n += 2) {
        Value* words = LoadTransposed(
            memory, PositionOf(b_.CreateAdd(key, Number(16 * t)), b_.CreateAdd(chunk, Number(n)), value_pitch_));
        for (int64_t half = 0; half < 2; ++half) {
          const int first = static_cast<int>(2 * half);
          Value* right = b_.CreateShuffleVector(words, {first, first + 1});
          for (int64_t s = 0; s < strips_; ++s) {
            Value*& sum = sums[static_cast<size_t>(s * all_steps + n + half)];
            sum = Multiply(left[static_cast<size_t>(s)], right, sum);
          }
        }
      }
      // A further column of the values, of ones, sums the weights.
      for (int64_t s = 0; s < strips_ && sums_weights(); ++s) {
        Value*& sum = sums[static_cast<size_t>(s * all_steps + steps)];
        const uint32_t one = step_.operand == PrimitiveType::kF16 ? 0x3c003c00 : 0x3f803f80;
        Value* ones = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(2), b_.getInt32(one));
        sum = Multiply(left[static_cast<size_t>(s)], ones, sum);
      }
    }
    results = FromSums(sums, all_steps);
  }

 private:
  int64_t WidthSteps() const { return CeilDiv(width_, int64_t{16}) * 2; }
  // A step more takes registers, which large results need.
  bool sums_weights() const { return width_ <= 128; }

  Values LoadQueries(int64_t s, int64_t g, const ChunkLoader& load) override {
    Value* chunk = b_.CreateAdd(in_quad_, Number(4 * g));
    Value *upper = load(Row(2 * s), chunk), *lower = load(Row(2 * s + 1), chunk);
    Values parts;
    for (int w = 0; w < 4; w += 2) parts.push_back(b_.CreateShuffleVector(upper, lower, {w, 4 + w, w + 1, 5 + w}));
    return parts;
  }

  llvm::Type* SumType() { return llvm::FixedVectorType::get(b_.getFloatTy(), 4); }

  // The sums of step n of a strip are those of two rows and two columns.
  Values FromSums(const Values& sums, int64_t steps) {
    Values scalars;
    for (int64_t r = 0; r < rows(); ++r) {
      for (int64_t n = 0; n < steps; ++n) {
        for (int64_t e = 0; e < 2; ++e) {
          scalars.push_back(b_.CreateExtractElement(sums[static_cast<size_t>(r / 2 * steps + n)],
                                                    static_cast<uint64_t>(r % 2 * 2 + e)));
        }
      }
    }
    return scalars;
  }
  Values ToSums(const Values& scalars, int64_t steps) {
    Values sums;
    for (int64_t s = 0; s < strips_; ++s) {
      for (int64_t n = 0; n < steps; ++n) {
        Value* sum = llvm::PoisonValue::get(SumType());
        for (int64_t e = 0; e < 4; ++e) {
          const int64_t from = (2 * s + e / 2) * 2 * steps + 2 * n + e % 2;
          sum = b_.CreateInsertElement(sum, scalars[static_cast<size_t>(from)], static_cast<uint64_t>(e));
        }
        sums.push_back(sum);
      }
    }
    return sums;
  }

  // The left operand for keys 16 t to 16 t + 15.
  Value* PackWeights(const Values& weights, int64_t s, int64_t t) {
    Value* words = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), 4));
    for (int64_t w = 0; w < 4; ++w) {
      const int64_t row = 2 * s + w % 2, column = 2 * (2 * t + w / 2);
      const size_t at = static_cast<size_t>(row * columns() + column);
      words = b_.CreateInsertElement(words, machine_.PackHalves(step_.operand, weights[at], weights[at + 1]),
                                     static_cast<uint64_t>(w));
    }
    return words;
  }

  Value* Multiply(Value* left, Value* right, Value* sums) {
    auto* type = llvm::FunctionType::get(sums->getType(), {left->getType(), right->getType(), sums->getType()}, false);
    llvm::FunctionCallee callee = f_.elements.module()->getOrInsertFunction(step_.instruction, type);
    llvm::cast<llvm::Function>(callee.getCallee())->setConvergent();
    return b_.CreateCall(callee, {left, right, sums});
  }

  Value* LoadTransposed(Value* memory, Value* position) {
    Value* from = b_.CreateGEP(b_.getInt8Ty(), memory, position);
    auto* type = llvm::FunctionType::get(llvm::FixedVectorType::get(b_.getInt32Ty(), 4), {from->getType()}, false);
    llvm::FunctionCallee load = f_.elements.module()->getOrInsertFunction(kLoadTransposed, type);
    llvm::cast<llvm::Function>(load.getCallee())->setConvergent();
    return b_.CreateCall(load, {from});
  }

  Value *quad_, *in_quad_;
};

// MFMA and WMMA. The left factor of both products has the keys or the values, so that a lane has the scores of one
// query, and its sums of the first product are, except for an exchange with another lane on gfx11, an operand of the
// second one.
class AmdProducts : public MatrixProducts {
 public:
  AmdProducts(KernelFrame& frame, const Attention& a, const AttentionPlan& plan) : MatrixProducts(frame, a, plan) {
    in_step_ = b_.CreateAnd(lane_, Number(15)), part_ = b_.CreateLShr(lane_, Number(4));
  }

  int64_t rows() const override { return strips_; }
  int64_t columns() const override { return keys_ / 16 * sums_of_step(); }
  int64_t widths() const override { return WidthSteps() * sums_of_step(); }
  Value* Row(int64_t r) override { return b_.CreateAdd(b_.CreateAdd(wave_row_, in_step_), Number(16 * r)); }
  Value* Column(int64_t c) override {
    const int64_t step = c / sums_of_step(), sum = c % sums_of_step();
    return is_wmma() ? b_.CreateAdd(part_, Number(16 * step + 2 * sum))
                     : b_.CreateAdd(b_.CreateMul(part_, Number(4)), Number(16 * step + sum));
  }
  Value* Width(int64_t w) override { return Column(w); }
  int64_t run() const override { return is_wmma() ? 1 : 4; }
  std::vector<int> row_masks() const override { return is_wmma() ? std::vector<int>{16} : std::vector<int>{16, 32}; }
  Value* Exchange(Value* value, int mask) override {
    if (mask < 32) return AttentionProducts::Exchange(value, mask);
    Value* from = b_.CreateShl(b_.CreateXor(lane_, Number(mask)), Number(2));
    Value* other =
        b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_bpermute, {}, {from, b_.CreateBitCast(value, b_.getInt32Ty())});
    return b_.CreateBitCast(KeepExchange(other), b_.getFloatTy());
  }

  void StartQueries(const AttentionRows& queries, Value* first_query) override { KeepQueries(queries, first_query); }

  Values ComputeScores(Value* stage) override {
    Value* memory = KeyStage(stage);
    const int64_t steps = keys_ / 16;
    Values sums(static_cast<size_t>(strips_ * steps), llvm::Constant::getNullValue(SumType()));
    for (int64_t g = 0; g < groups_; ++g) {
      const std::vector<Values> right = QueriesOf(g);
      for (int64_t j = 0; j < steps; ++j) {
        const Values left = Split([&](Value* chunk) {
          return LoadShared(memory, PositionOf(b_.CreateAdd(in_step_, Number(16 * j)),
                                               b_.CreateAdd(chunk, Number(4 * g)), key_pitch_));
        });
        for (size_t p = 0; p < 2; ++p) {
          for (int64_t s = 0; s < strips_; ++s) {
            Value*& sum = sums[static_cast<size_t>(s * steps + j)];
            sum = Multiply(left[p], right[static_cast<size_t>(s)][p], sum);
          }
        }
      }
      if (!keeps_queries()) machine_.KeepOrder();
    }
    Values scores;
    for (Value* sum : sums) {
      for (int64_t e = 0; e < sums_of_step(); ++e)
        scores.push_back(b_.CreateExtractElement(sum, static_cast<uint64_t>(e)));
    }
    return scores;
  }

  void AddProducts(const Values& weights, Value* stage, Values& results) override {
    Value* memory = ValueStage(stage);
    std::vector<Values> right(static_cast<size_t>(strips_));  // by strip, by step along the keys
    for (int64_t s = 0; s < strips_; ++s) {
      for (int64_t t = 0; t < keys_ / 16; ++t) right[static_cast<size_t>(s)].push_back(PackWeights(weights, s, t));
    }
    for (int64_t n = 0; n < WidthSteps(); ++n) {
      Values sums;
      for (int64_t s = 0; s < strips_; ++s) {
        Value* sum = llvm::PoisonValue::get(SumType());
        for (int64_t e = 0; e < sums_of_step(); ++e)
          sum = b_.CreateInsertElement(sum, results[At(s, n, e)], static_cast<uint64_t>(e));
        sums.push_back(sum);
      }
      for (int64_t t = 0; t < keys_ / 16; ++t) {
        Value* left = LoadValues(memory, t, n);
        for (size_t s = 0; s < sums.size(); ++s) sums[s] = Multiply(left, right[s][static_cast<size_t>(t)], sums[s]);
      }
      // Otherwise LLVM 19 moves the last products to where threads store results, behind a branch that some lanes do
      // not take.
      for (Value*& sum : sums) sum = machine_.Hide(sum, /*stays=*/true);
      machine_.KeepOrder();  // all values at once would not fit into the registers
      for (int64_t s = 0; s < strips_; ++s) {
        for (int64_t e = 0; e < sums_of_step(); ++e)
          results[At(s, n, e)] = b_.CreateExtractElement(sums[static_cast<size_t>(s)], static_cast<uint64_t>(e));
      }
    }
  }

 private:
  bool is_wmma() const { return step_.family == MatrixFamily::kWmma; }
  int64_t sums_of_step() const { return step_.sum_elements(); }
  int64_t WidthSteps() const { return CeilDiv(width_, int64_t{16}); }
  size_t At(int64_t s, int64_t n, int64_t e) const {
    return static_cast<size_t>(s * widths() + n * sums_of_step() + e);
  }
  llvm::Type* SumType() { return llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(sums_of_step())); }
  llvm::Type* Operand(unsigned count) {
    return llvm::FixedVectorType::get(
        step_.operand == PrimitiveType::kF16 ? b_.getHalfTy() : static_cast<llvm::Type*>(b_.getInt16Ty()), count);
  }

  Values LoadQueries(int64_t s, int64_t g, const ChunkLoader& load) override {
    return Split([&](Value* chunk) { return load(Row(s), b_.CreateAdd(chunk, Number(4 * g))); });
  }

  // Returns the operands of two steps from chunks of 32 elements of a row, of which `load` loads one. It does not
  // matter which elements a step multiplies.
  Values Split(const std::function<Value*(Value*)>& load) {
    if (is_wmma()) {
      Values parts;
      for (int64_t p = 0; p < 2; ++p) {
        Value* low = b_.CreateBitCast(load(Number(2 * p)), Operand(8));
        Value* high = b_.CreateBitCast(load(Number(2 * p + 1)), Operand(8));
        parts.push_back(b_.CreateShuffleVector(low, high, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
      }
      return parts;
    }
    Value* chunk = b_.CreateBitCast(load(part_), Operand(8));
    return {b_.CreateShuffleVector(chunk, {0, 1, 2, 3}), b_.CreateShuffleVector(chunk, {4, 5, 6, 7})};
  }

  // The right operand for keys 16 t to 16 t + 15.
  Value* PackWeights(const Values& weights, int64_t s, int64_t t) {
    const size_t first = static_cast<size_t>(s * columns() + t * sums_of_step());
    const unsigned count = static_cast<unsigned>(step_.operand_elements());
    auto* halves = llvm::FixedVectorType::get(b_.getInt16Ty(), count);
    Value* packed = llvm::PoisonValue::get(halves);
    if (!is_wmma()) {
      for (unsigned e = 0; e < count; ++e)
        packed = b_.CreateInsertElement(packed, Narrow(weights[first + e]), uint64_t{e});
      return b_.CreateBitCast(packed, Operand(count));
    }
    // The lane has every second key, the lane 16 away has the others.
    Value* is_odd = b_.CreateICmpNE(part_, Number(0));
    for (unsigned e = 0; e < count / 2; ++e) {
      Value* own = weights[first + e];
      Value* other = Exchange(own, 16);
      packed = b_.CreateInsertElement(packed, Narrow(b_.CreateSelect(is_odd, other, own)), uint64_t{2 * e});
      packed = b_.CreateInsertElement(packed, Narrow(b_.CreateSelect(is_odd, own, other)), uint64_t{2 * e + 1});
    }
    return b_.CreateBitCast(packed, Operand(count));
  }

  // The left operand: of column 16 n + l % 16 of the values the keys of the lane.
  Value* LoadValues(Value* memory, int64_t t, int64_t n) {
    const unsigned count = static_cast<unsigned>(step_.operand_elements());
    Value* values = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt16Ty(), count));
    Value* chunk = b_.CreateAdd(b_.CreateLShr(in_step_, Number(3)), Number(2 * n));
    Value* in_chunk = b_.CreateShl(b_.CreateAnd(in_step_, Number(7)), Number(1));
    for (unsigned e = 0; e < count; ++e) {
      Value* key = is_wmma() ? Number(16 * t + e) : b_.CreateAdd(b_.CreateMul(part_, Number(4)), Number(16 * t + e));
      Value* from = b_.CreateGEP(b_.getInt8Ty(), memory, b_.CreateAdd(PositionOf(key, chunk, value_pitch_), in_chunk));
      values = b_.CreateInsertElement(values, b_.CreateAlignedLoad(b_.getInt16Ty(), from, llvm::Align(2)), uint64_t{e});
    }
    return b_.CreateBitCast(values, Operand(count));
  }

  Value* Multiply(Value* left, Value* right, Value* sums) {
    std::string name = step_.instruction;
    std::vector<llvm::Type*> types = {left->getType(), right->getType(), sums->getType()};
    std::vector<Value*> arguments = {left, right, sums};
    if (is_wmma()) {
      absl::StrAppend(&name, ".v8f32.v16", step_.operand == PrimitiveType::kF16 ? "f16" : "i16");
    } else {
      for (int k = 0; k < 3; ++k) types.push_back(b_.getInt32Ty()), arguments.push_back(Number(0));
    }
    auto* type = llvm::FunctionType::get(sums->getType(), types, false);
    return b_.CreateCall(f_.elements.module()->getOrInsertFunction(name, type), arguments);
  }

  Value *in_step_, *part_;
};

}  // namespace

std::unique_ptr<AttentionProducts> AttentionProducts::MakeMatrixProducts(KernelFrame& frame, const Attention& attention,
                                                                         const AttentionPlan& plan) {
  if (plan.matrix->family == MatrixFamily::kMma) return std::make_unique<MmaProducts>(frame, attention, plan);
  return std::make_unique<AmdProducts>(frame, attention, plan);
}

}  // namespace backplane::hip
