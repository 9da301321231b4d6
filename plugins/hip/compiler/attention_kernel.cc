// Attention as one kernel (attention_plan.h): the loop over the keys, the operations on the scores, the softmax, and
// the stores. attention_products.h has the products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/types/integer_division.h"
#include "llvm/IR/CFG.h"
#include "plugins/hip/compiler/attention_plan.h"
#include "plugins/hip/compiler/attention_products.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Attention;
using compiler::AttentionView;
using compiler::ScoreOperation;
using llvm::Value;
using Values = AttentionProducts::Values;

namespace {

constexpr double kLog2OfE = 1.44269504088896340736;
constexpr float kUnderflow = 104.0f;  // exp(-x) is 0 in f32, also without flushing, from here on
constexpr int64_t kLargestIndex = int64_t{1} << 30;
constexpr double kLargestExponent = 8;  // of 2, of the exponentials
constexpr double kLeastFactor = 1e-6, kLargestFloat = std::numeric_limits<float>::max();

// The bands behind all other operations: keys outside of them are hidden, whatever their scores are.
absl::Span<const ScoreOperation> FindLastBands(const std::vector<ScoreOperation>& operations) {
  size_t first = operations.size();
  while (first > 0 && operations[first - 1].kind == ScoreOperation::Kind::kBand) --first;
  return absl::MakeConstSpan(operations).subspan(first);
}

// A positive factor with which all scores are multiplied before the softmax, and the operations without it. Operations
// that replace scores by a value have the value divided by the factor.
struct ScaledOperations {
  float factor = 1;
  std::vector<ScoreOperation> operations;
};
ScaledOperations TakeFactor(const Attention& a) {
  ScaledOperations taken;
  taken.operations = a.operations;
  std::vector<ScoreOperation>& operations = taken.operations;
  double factor = 1;
  size_t scales = 0;
  while (scales < operations.size() && operations[scales].kind == ScoreOperation::Kind::kScale)
    factor *= operations[scales++].value;
  const bool only_replaced = std::all_of(
      operations.begin() + static_cast<std::ptrdiff_t>(scales), operations.end(),
      [](const auto& o) { return o.kind == ScoreOperation::Kind::kBand || o.kind == ScoreOperation::Kind::kSelect; });
  // Other factors could make numbers of scores that are none.
  if (!only_replaced || !(factor > kLeastFactor && factor < 1 / kLeastFactor)) return taken;
  operations.erase(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(scales));
  taken.factor = static_cast<float>(factor);
  for (ScoreOperation& o : operations) {
    // The value of a row without other scores stays finite.
    if (std::isfinite(o.value)) o.value = std::clamp<double>(o.value / factor, -kLargestFloat, kLargestFloat);
  }
  return taken;
}

class AttentionEmitter {
 public:
  AttentionEmitter(KernelFrame& frame, const Instruction& fusion, const Attention& attention, const AttentionPlan& plan)
      : f_(frame),
        b_(frame.b),
        machine_(frame),
        a_(attention),
        tile_(plan.tile),
        scaled_(TakeFactor(attention)),
        products_(AttentionProducts::Make(frame, attention, plan)),
        query_tiles_(CeilDiv(a_.queries, tile_.rows)),
        key_tiles_(CeilDiv(a_.keys, tile_.columns)),
        out_(frame.array(static_cast<size_t>(fusion.operand_count()))) {
    // An operand that the computation does not read, the last one, tells whether all values are finite.
    const Instruction* last = fusion.called(0)->parameter(fusion.operand_count() - 1);
    if (last->shape().IsScalar() && last->users().empty())
      finite_ = frame.array(static_cast<size_t>(fusion.operand_count() - 1));
    if (finite_ != nullptr) votes_ = f_.AddShared(PrimitiveType::kS32, f_.plan.threads);
  }

  void Emit() {
    const int64_t tiles = a_.items * query_tiles_;
    f_.ForEachBlock(tiles, [&](Value* number) {
      number = b_.CreateZExtOrTrunc(number, b_.getInt32Ty());
      Value *item, *tile;
      if (finite_ == nullptr) {
        item = b_.CreateUDiv(number, Number(query_tiles_)), tile = b_.CreateURem(number, Number(query_tiles_));
      } else {
        // The last queries see the most keys if there is a causal mask: they begin first.
        item = b_.CreateURem(number, Number(a_.items));
        tile = b_.CreateSub(Number(query_tiles_ - 1), b_.CreateUDiv(number, Number(a_.items)));
      }
      EmitTile(item, b_.CreateMul(tile, Number(tile_.rows)));
      if (tiles > f_.plan.blocks) f_.EmitBarrier();  // the next tile's rows overwrite this one's in shared memory
    });
  }

 private:
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  Value* Float(double x) { return llvm::ConstantFP::get(b_.getFloatTy(), x); }
  size_t rows() const { return static_cast<size_t>(products_->rows()); }
  size_t columns() const { return static_cast<size_t>(products_->columns()); }
  size_t widths() const { return static_cast<size_t>(products_->widths()); }

  Value* OffsetOf(const AttentionView& view, Value* item) {
    const std::optional<ItemOffsets> offsets = FindItemOffsets(view.offsets);
    Value* at = b_.getInt64(static_cast<uint64_t>(offsets->first));
    for (const ItemOffsets::Digit& d : offsets->digits) {
      Value* digit = b_.CreateURem(b_.CreateUDiv(item, Number(d.divisor)), Number(d.size));
      at = b_.CreateAdd(
          at, b_.CreateMul(b_.CreateZExt(digit, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(d.stride))));
    }
    return at;
  }

  AttentionRows RowsOf(const AttentionView& view, Value* item, int64_t rows, int64_t row_stride, int64_t elements) {
    AttentionRows r;
    r.array = f_.array(static_cast<size_t>(view.base->parameter_number()));
    r.offset = OffsetOf(view, item);
    r.type = view.base->shape().element_type();
    r.rows = rows, r.row_stride = row_stride;
    r.elements = elements, r.inner_stride = view.inner_stride;
    r.is_aligned = HasAlignedRows(view, row_stride, elements);
    return r;
  }

  // What a loop over tiles of keys carries.
  struct State {
    Values results;  // not yet divided
    Values largest;  // scores, by row
    Values sums;     // of the exponentials of the thread's columns, by row
    Values Join() const {
      Values all = results;
      all.insert(all.end(), largest.begin(), largest.end());
      all.insert(all.end(), sums.begin(), sums.end());
      return all;
    }
    // Takes the values from the beginning of `all`.
    void Split(Values& all) {
      auto take = [&all](Values& to) {
        const auto end = all.begin() + static_cast<std::ptrdiff_t>(to.size());
        to.assign(all.begin(), end);
        all.erase(all.begin(), end);
      };
      take(results), take(largest), take(sums);
    }
  };

  void EmitTile(Value* item, Value* first_query) {
    item_ = item, first_query_ = first_query;
    keys_ = RowsOf(a_.key, item, a_.keys, a_.key.key_stride, a_.depth);
    values_ = RowsOf(a_.value, item, a_.keys, a_.value.key_stride, a_.width);
    products_->StartQueries(RowsOf(a_.query, item, a_.queries, a_.query.query_stride, a_.depth), first_query);
    queries_.clear();
    for (size_t r = 0; r < rows(); ++r) {
      Value* query = b_.CreateAdd(first_query, products_->Row(static_cast<int64_t>(r)));
      queries_.push_back(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, query, Number(a_.queries - 1)));
    }
    State state;
    state.results.assign(rows() * widths(), Float(0));
    state.largest.assign(rows(), Float(-std::numeric_limits<double>::infinity()));
    state.sums.assign(rows(), Float(0));
    if (finite_ == nullptr) {
      first_tile_ = Number(0);
      SumTiles(Number(0), Number(key_tiles_), state);
    } else {
      SumVisibleTiles(state);
    }
    StoreResults(item, first_query, state);
  }

  // Sums over the tiles of keys of which a query sees one, then, unless all others are proved to change nothing, over
  // the others. A hidden key has the factor 0 if the largest score is far above that of a hidden key; this changes
  // nothing if its value is finite.
  void SumVisibleTiles(State& state) {
    auto bounded = [&](Value* n, int64_t most) {
      n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, n, Number(0));
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, Number(most));
    };
    Value *begin = Number(0), *end = Number(a_.keys);
    float largest_hidden = -std::numeric_limits<float>::infinity();
    for (const ScoreOperation& band : FindLastBands(scaled_.operations)) {
      const int64_t low = Bounded(band.low), high = Bounded(band.high);
      begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, b_.CreateAdd(first_query_, Number(low)));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, b_.CreateAdd(first_query_, Number(tile_.rows + high)));
      const float value = static_cast<float>(band.value);
      largest_hidden = std::isnan(value) ? std::numeric_limits<float>::infinity() : std::max(largest_hidden, value);
    }
    const int64_t columns = tile_.columns;
    Value* first = b_.CreateUDiv(bounded(begin, a_.keys), Number(columns));
    Value* last = b_.CreateUDiv(b_.CreateAdd(bounded(end, a_.keys), Number(columns - 1)), Number(columns));
    Value* is_finite = b_.CreateICmpNE(b_.CreateAlignedLoad(b_.getInt8Ty(), finite_, llvm::Align(1)), b_.getInt8(0));
    Value* can_skip = b_.CreateAnd(is_finite, b_.CreateICmpULT(first, last));
    first_tile_ = b_.CreateSelect(can_skip, first, Number(0));
    Value* visible = b_.CreateSelect(can_skip, b_.CreateSub(last, first), Number(key_tiles_));
    // At most two rounds.
    Values carried = state.Join();
    carried.push_back(Number(0));
    carried.push_back(visible);
    f_.scopes.Repeat(
        carried, [&](Values& now) { return b_.CreateICmpULT(now[now.size() - 2], now.back()); },
        [&](Values& now) -> Value* {
          State inner = state;
          inner.Split(now);
          Value *from = now[0], *to = now[1];
          SumTiles(from, to, inner);
          Value* next = to;
          Value* needs_others = Vote(inner, largest_hidden);
          Value* limit = b_.CreateSelect(needs_others, Number(key_tiles_), to);
          now = inner.Join();
          now.push_back(next);
          now.push_back(limit);
          return nullptr;
        });
    state.Split(carried);
  }
  static int64_t Bounded(int64_t n) { return std::clamp(n, -kLargestIndex, kLargestIndex); }

  // Whether a thread of the block has a query for which hidden keys may count.
  Value* Vote(const State& state, float largest_hidden) {
    Value* all_vanish = b_.getTrue();
    for (Value* largest : state.largest) {
      Value* distance = b_.CreateFSub(largest, Float(largest_hidden));
      all_vanish = b_.CreateAnd(all_vanish, b_.CreateFCmpOGE(distance, Float(kUnderflow / scaled_.factor)));
    }
    auto address = [&](Value* thread) { return b_.CreateGEP(b_.getInt32Ty(), votes_, thread); };
    f_.EmitBarrier();  // the votes of the round before have been counted
    b_.CreateAlignedStore(b_.CreateZExt(b_.CreateNot(all_vanish), b_.getInt32Ty()), address(f_.thread()),
                          llvm::Align(4));
    f_.EmitBarrier();
    Values all = {llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt32Ty(), 4))};
    f_.scopes.Loop(Number(0), Number(f_.plan.threads), 4, all, [&](Value* thread, Values& now) {
      now[0] = b_.CreateOr(now[0], b_.CreateAlignedLoad(now[0]->getType(), address(thread), llvm::Align(16)));
    });
    return b_.CreateICmpNE(machine_.MakeUniform(b_.CreateOrReduce(all[0])), Number(0));
  }

  // Adds tiles `from` to `to`, counted from first_tile_ on and around the end.
  void SumTiles(Value* from, Value* to, State& state) {
    const bool copies = tile_.stages > 0;
    if (copies) {
      products_->CopyTile(keys_, values_, FirstKey(from), Number(0));
      CallCopy(kCopyCommit, {});
    }
    Values carried = state.Join();
    carried.push_back(from);
    carried.push_back(Number(0));
    llvm::BasicBlock* latch = nullptr;
    f_.scopes.Repeat(
        carried, [&](Values& now) { return b_.CreateICmpULT(now[now.size() - 2], to); },
        [&](Values& now) -> Value* {
          State inner = state;
          inner.Split(now);
          Value *at = now[0], *stage = now[1];
          Value* next = b_.CreateAdd(at, Number(1));
          if (copies) {
            CallCopy(kCopyWait, {Number(0)});
            f_.EmitBarrier();  // the tile is there for all threads, and all have used the one before
            Value* other = b_.CreateSub(Number(1), stage);
            f_.scopes.If(b_.CreateICmpULT(next, to), [&] {
              products_->CopyTile(keys_, values_, FirstKey(next), other);
              CallCopy(kCopyCommit, {});
            });
            AddTile(FirstKey(at), stage, inner);
            stage = other;
          } else {
            f_.EmitBarrier();
            products_->CopyTile(keys_, values_, FirstKey(at), stage);
            f_.EmitBarrier();
            AddTile(FirstKey(at), stage, inner);
          }
          now = inner.Join();
          now.push_back(next);
          now.push_back(stage);
          latch = b_.GetInsertBlock();
          return nullptr;
        });
    KeepLoopRolled(*latch->getTerminator());
    state.Split(carried);
  }

  Value* FirstKey(Value* tile) {
    Value* number = b_.CreateAdd(first_tile_, tile);
    Value* around = b_.CreateSub(number, Number(key_tiles_));
    if (finite_ != nullptr) number = b_.CreateSelect(b_.CreateICmpULT(number, Number(key_tiles_)), number, around);
    return b_.CreateMul(number, Number(tile_.columns));
  }

  void CallCopy(const char* function, const std::vector<Value*>& arguments) {
    const std::vector<llvm::Type*> types(arguments.size(), b_.getInt32Ty());
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
    b_.CreateCall(f_.elements.module()->getOrInsertFunction(function, type), arguments);
  }

  void AddTile(Value* first_key, Value* stage, State& state) {
    Values scores = products_->ComputeScores(stage);
    for (const ScoreOperation& o : scaled_.operations) Apply(o, first_key, scores);
    HideMissingKeys(first_key, scores);
    Values shifts, factors;  // of the scores of this tile, and of what has been summed so far
    Value* any_grows = b_.getFalse();
    for (size_t r = 0; r < rows(); ++r) {
      Value*& largest = state.largest[r];
      Value* now = largest;
      for (size_t c = 0; c < columns(); ++c) now = b_.CreateMaxNum(now, scores[r * columns() + c]);
      for (const int mask : products_->row_masks()) now = b_.CreateMaxNum(now, products_->Exchange(now, mask));
      // Exponentials may be a little above 1, so the sums are seldom scaled.
      Value* grows =
          b_.CreateFCmpOGT(b_.CreateFSub(now, largest), Float(kLargestExponent / (kLog2OfE * scaled_.factor)));
      any_grows = b_.CreateOr(any_grows, grows);
      now = b_.CreateSelect(grows, now, largest);
      // In a row without a finite score, differences would be NaN.
      Value* none = b_.CreateFCmpOEQ(now, Float(-std::numeric_limits<double>::infinity()));
      shifts.push_back(b_.CreateSelect(none, Float(0), now));
      factors.push_back(ExpOfDifference(largest, shifts.back()));
      largest = now;
    }
    Values sums = state.results;
    sums.insert(sums.end(), state.sums.begin(), state.sums.end());
    auto scale = [&](Values& all) {
      for (size_t k = 0; k < all.size(); ++k) {
        const size_t row = k < state.results.size() ? k / widths() : k - state.results.size();
        all[k] = b_.CreateFMul(all[k], factors[row]);
      }
    };
    ChangeIf(any_grows, sums, scale);
    state.results.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(state.results.size()));
    for (size_t r = 0; r < rows(); ++r) {
      Value* sum = sums[state.results.size() + r];
      for (size_t c = 0; c < columns(); ++c) {
        Value*& score = scores[r * columns() + c];
        score = ExpOfDifference(score, shifts[r]);
        if (products_->sum_column() < 0) sum = b_.CreateFAdd(sum, score);
      }
      state.sums[r] = sum;
    }
    products_->AddProducts(scores, stage, state.results);
  }

  Value* ExpOfDifference(Value* x, Value* y) {
    return machine_.Exp2(b_.CreateFMul(b_.CreateFSub(x, y), Float(kLog2OfE * scaled_.factor)));
  }

  // Replaces the values by what `change` makes of them, if the condition holds.
  void ChangeIf(Value* condition, Values& scores, const std::function<void(Values&)>& change) {
    Values changed = scores;
    llvm::BasicBlock* from = nullptr;
    f_.scopes.If(condition, [&] {
      change(changed);
      from = b_.GetInsertBlock();
    });
    const std::vector<llvm::BasicBlock*> before(llvm::pred_begin(b_.GetInsertBlock()),
                                                llvm::pred_end(b_.GetInsertBlock()));
    for (size_t k = 0; k < scores.size(); ++k) {
      llvm::PHINode* phi = b_.CreatePHI(scores[k]->getType(), 2);
      for (llvm::BasicBlock* block : before) phi->addIncoming(block == from ? changed[k] : scores[k], block);
      changed[k] = phi;
    }
    scores = std::move(changed);
  }

  Value* KeyOf(Value* first_key, size_t c) {
    return b_.CreateAdd(first_key, products_->Column(static_cast<int64_t>(c)));
  }

  void HideMissingKeys(Value* first_key, Values& scores) {
    const int64_t columns_of_tile = tile_.columns;
    if (a_.keys % columns_of_tile == 0) return;
    Value* is_last = b_.CreateICmpUGT(b_.CreateAdd(first_key, Number(columns_of_tile)), Number(a_.keys));
    ChangeIf(is_last, scores, [&](Values& now) {
      for (size_t k = 0; k < now.size(); ++k) {
        Value* exists = b_.CreateICmpULT(KeyOf(first_key, k % columns()), Number(a_.keys));
        now[k] = b_.CreateSelect(exists, now[k], Float(-std::numeric_limits<double>::infinity()));
      }
    });
  }

  void Apply(const ScoreOperation& o, Value* first_key, Values& scores) {
    using Kind = ScoreOperation::Kind;
    switch (o.kind) {
      case Kind::kScale:
        for (Value*& s : scores) s = b_.CreateFMul(s, Float(static_cast<float>(o.value)));
        return;
      case Kind::kRoundF16:
      case Kind::kRoundBf16:
        for (Value*& s : scores)
          s = f_.elements.Round(o.kind == Kind::kRoundF16 ? PrimitiveType::kF16 : PrimitiveType::kBF16, s).v;
        return;
      case Kind::kBand:
        return ApplyBand(o, first_key, scores);
      case Kind::kAdd:
      case Kind::kSelect:
        break;
    }
    const AttentionView& view = o.array;
    AttentionRows rows_of_array = RowsOf(view, item_, a_.queries, view.query_stride, a_.keys);
    rows_of_array.inner_stride = view.key_stride;
    for (size_t k = 0; k < scores.size(); ++k) {
      Value* key = KeyOf(first_key, k % columns());
      key = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, key, Number(a_.keys - 1));
      Value* element = LoadTerm(rows_of_array, queries_[k / columns()], key);
      scores[k] = o.kind == Kind::kAdd ? b_.CreateFAdd(scores[k], element)
                  : o.keep             ? b_.CreateSelect(element, scores[k], Float(static_cast<float>(o.value)))
                                       : b_.CreateSelect(element, Float(static_cast<float>(o.value)), scores[k]);
    }
  }

  Value* LoadTerm(const AttentionRows& rows, Value* query, Value* key) {
    auto scaled = [&](Value* n, int64_t stride) {
      return b_.CreateMul(b_.CreateZExt(n, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(stride)));
    };
    Value* at = b_.CreateAdd(b_.CreateAdd(rows.offset, scaled(query, rows.row_stride)), scaled(key, rows.inner_stride));
    llvm::Type* type = f_.elements.StorageType(rows.type);
    Value* raw = b_.CreateAlignedLoad(type, b_.CreateGEP(type, rows.array, at),
                                      llvm::Align(static_cast<uint64_t>(ByteWidth(rows.type))));
    return f_.elements.FromStorage(rows.type, raw).v;
  }

  void ApplyBand(const ScoreOperation& o, Value* first_key, Values& scores) {
    const int64_t low = Bounded(o.low), high = Bounded(o.high);
    const int64_t rows_of_tile = tile_.rows, columns_of_tile = tile_.columns;
    Value* difference = b_.CreateSub(first_key, first_query_);  // of the first key and the first query
    Value* hides = b_.CreateOr(b_.CreateICmpSLT(difference, Number(low + rows_of_tile - 1)),
                               b_.CreateICmpSGT(difference, Number(high - columns_of_tile + 1)));
    ChangeIf(hides, scores, [&](Values& now) {
      for (size_t k = 0; k < now.size(); ++k) {
        Value* distance = b_.CreateSub(KeyOf(first_key, k % columns()), queries_[k / columns()]);
        Value* inside = b_.CreateAnd(b_.CreateICmpSGE(distance, Number(low)), b_.CreateICmpSLE(distance, Number(high)));
        now[k] = b_.CreateSelect(inside, now[k], Float(static_cast<float>(o.value)));
      }
    });
  }

  void StoreResults(Value* item, Value* first_query, const State& state) {
    const AttentionView& out = a_.out;
    const PrimitiveType type = out.base->shape().element_type();
    llvm::Type* element = f_.elements.StorageType(type);
    const int64_t run = products_->run();
    const bool is_run = out.inner_stride == 1 && a_.width % run == 0 && out.query_stride % run == 0 &&
                        std::all_of(out.offsets.begin(), out.offsets.end(), [&](int64_t o) { return o % run == 0; });
    Value* offset = OffsetOf(out, item);
    for (size_t r = 0; r < rows(); ++r) {
      Value* sum = state.sums[r];
      if (products_->sum_column() >= 0) {
        sum = state.results[r * widths() + static_cast<size_t>(products_->sum_column())];
      } else {
        for (const int mask : products_->row_masks()) sum = b_.CreateFAdd(sum, products_->Exchange(sum, mask));
      }
      Value* inverse = b_.CreateFDiv(Float(1), sum);
      Value* query = b_.CreateAdd(first_query, products_->Row(static_cast<int64_t>(r)));
      Value* row = b_.CreateAdd(offset, b_.CreateMul(b_.CreateZExt(query, b_.getInt64Ty()),
                                                     b_.getInt64(static_cast<uint64_t>(out.query_stride))));
      f_.scopes.If(b_.CreateICmpULT(query, Number(a_.queries)), [&] {
        for (size_t w = 0; w < widths(); w += is_run ? static_cast<size_t>(run) : 1) {
          Value* width = products_->Width(static_cast<int64_t>(w));
          auto store = [&] {
            Values raw;
            for (size_t e = 0; e < (is_run ? static_cast<size_t>(run) : 1); ++e) {
              Value* result = b_.CreateFMul(state.results[r * widths() + w + e], inverse);
              raw.push_back(f_.elements.ToStorage(type, f_.elements.Round(type, result)));
            }
            Value* at = b_.CreateAdd(row, b_.CreateMul(b_.CreateZExt(width, b_.getInt64Ty()),
                                                       b_.getInt64(static_cast<uint64_t>(out.inner_stride))));
            Value* to = b_.CreateGEP(element, out_, at);
            const uint64_t bytes = static_cast<uint64_t>(ByteWidth(type));
            if (raw.size() == 1) {
              b_.CreateAlignedStore(raw[0], to, llvm::Align(bytes));
              return;
            }
            Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, static_cast<unsigned>(run)));
            for (size_t e = 0; e < raw.size(); ++e) vector = b_.CreateInsertElement(vector, raw[e], uint64_t{e});
            b_.CreateAlignedStore(vector, to, llvm::Align(bytes * raw.size()));
          };
          f_.scopes.If(b_.CreateICmpULT(width, Number(a_.width)), store);
        }
      });
    }
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  MatrixMachine machine_;
  const Attention& a_;
  const MatrixTile& tile_;
  const ScaledOperations scaled_;
  std::unique_ptr<AttentionProducts> products_;
  const int64_t query_tiles_, key_tiles_;
  Value* out_;
  Value *finite_ = nullptr, *votes_ = nullptr;
  // Of the tile of queries.
  AttentionRows keys_, values_;
  Value *item_ = nullptr, *first_query_ = nullptr, *first_tile_ = nullptr;
  Values queries_;  // the thread's, by row; the last one in place of those that do not exist
};

}  // namespace

void EmitBody(KernelFrame& frame, const Instruction& fusion, const AttentionPlan& plan) {
  const std::optional<Attention> attention = compiler::AsAttention(fusion);
  if (!attention) return frame.elements.Fail(absl::InternalError("no attention"));
  AttentionEmitter(frame, fusion, *attention, plan).Emit();
}

}  // namespace backplane::hip
