// A task is some blocks of queries of one item. It copies the keys and values of the item together, then takes one
// block after another: the queries of a block are the columns of a tile (gemm_simd.h), so the keys and values are read
// by rows as they lie, the maximum and the sum over the keys are vertical, and the exponentials are already packed for
// the second product.
#include "sdk/engine/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "sdk/engine/kernels/attention_simd.h"
#include "sdk/engine/kernels/gemm_simd.h"
#include "sdk/engine/kernels/matmul_internal.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kChunk = 64;          // keys whose scores are in the first cache while the steps are applied
constexpr int64_t kChunksOfValues = 4;  // whose scores stay in the first cache for all columns of the values
constexpr int64_t kTasksPerThread = 4;
constexpr float kUnderflow = 104.0f;  // exp(-x) is 0 in f32, also without flushing, from here on

bool IsNarrowFloat(ElementType t) {
  return t == ElementType::kF32 || t == ElementType::kBF16 || t == ElementType::kF16;
}

struct KeyRange {
  int64_t begin = 0, end = 0;
};

class BlockedAttention : public AttentionPlan {
 public:
  BlockedAttention(const AttentionProblem& problem, int num_threads)
      : p_(problem), items_(static_cast<int64_t>(problem.query_offsets.size())) {
    gemm_ = &PickSimd(base::gemm_kernels, avx2::gemm_kernels, avx512::gemm_kernels);
    kernels_ = &PickSimd(base::attention_kernels, avx2::attention_kernels, avx512::attention_kernels);
    wide_ = gemm_->f32.wide;
    narrow_ = gemm_->f32.narrow;
    blocks_ = CeilDiv(p_.queries, wide_);
    const int64_t work = items_ * p_.queries * p_.keys * (p_.depth + p_.width);
    threads_ = work >= kMultipliesWorthSplitting ? std::max(1, num_threads) : 1;
    if (threads_ > 1 && items_ < kTasksPerThread * threads_)
      parts_ = std::min(blocks_, CeilDiv(kTasksPerThread * threads_, items_));
    const int64_t blocks_of_task = CeilDiv(blocks_, parts_);
    copy_keys_ = p_.key_type != ElementType::kF32 || (p_.key_stride != p_.depth && blocks_of_task > 1);
    copy_values_ = p_.value_type != ElementType::kF32 || p_.value_width_stride != 1 ||
                   (p_.value_stride != p_.width && blocks_of_task > 1);
    has_arrays_ = std::any_of(p_.steps.begin(), p_.steps.end(), [](const AttentionStep& s) {
      return s.kind == AttentionStep::Kind::kAdd || s.kind == AttentionStep::Kind::kSelect;
    });
    // Bands hide keys only if nothing happens to the scores after them.
    for (auto s = p_.steps.rbegin(); s != p_.steps.rend() && s->kind == AttentionStep::Kind::kBand; ++s) {
      hides_ = true;
      // A NaN reaches the result, so nothing may be left out.
      largest_hidden_ =
          std::isnan(s->value) ? std::numeric_limits<float>::infinity() : std::max(largest_hidden_, s->value);
    }
    auto floats = [](int64_t n) { return RoundUp(n, 16); };
    const int64_t rows = RoundUp(p_.keys, kChunk);
    keys_at_ = floats(p_.depth * wide_);
    values_at_ = keys_at_ + (copy_keys_ ? floats(p_.keys * p_.depth) : 0);
    scores_at_ = values_at_ + (copy_values_ ? floats(p_.keys * p_.width) : 0);
    sums_at_ = scores_at_ + std::max(rows, RoundUp(p_.width, 16)) * wide_;
    array_at_ = sums_at_ + floats(p_.width * wide_);
    row_at_ = array_at_ + (has_arrays_ ? kChunk * wide_ : 0);
    slot_bytes_ = (row_at_ + 3 * wide_) * static_cast<int64_t>(sizeof(float));
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(slot_bytes_ * threads_); }

  absl::Status Execute(const void* queries, const void* keys, const void* values, absl::Span<const void* const> arrays,
                       void* out, void* scratch, ThreadPool* pool) const override {
    const Memory memory{queries, keys, values, arrays, out};
    auto run = [&](int64_t task, int slot) {
      RunTask(memory, task / parts_, task % parts_,
              reinterpret_cast<float*>(static_cast<char*>(scratch) + slot * slot_bytes_));
    };
    if (pool == nullptr || threads_ == 1) {
      for (int64_t t = 0; t < items_ * parts_; ++t) run(t, 0);
    } else {
      pool->ParallelFor(items_ * parts_, run);
    }
    return absl::OkStatus();
  }

 private:
  struct Memory {
    const void *queries, *keys, *values;
    absl::Span<const void* const> arrays;
    void* out;
  };
  // Rows of f32.
  struct Rows {
    const float* data;
    int64_t stride, column_stride;
  };

  Rows FetchRows(const void* from, int64_t offset, ElementType type, int64_t stride, int64_t column_stride,
                 int64_t columns, bool copy, float* to) const {
    const char* source = At(from, offset, type);
    if (!copy) return {reinterpret_cast<const float*>(source), stride, column_stride};
    if (column_stride == 1) {
      gemm_->pack_rows(type, source, stride, to, columns, p_.keys, columns);
    } else {
      gemm_->convert(type, source, stride, column_stride, ElementType::kF32, to, columns, 1, p_.keys, columns);
    }
    return {to, columns, 1};
  }

  void RunTask(const Memory& memory, int64_t item, int64_t part, float* mine) const {
    const size_t i = static_cast<size_t>(item);
    const Rows keys = FetchRows(memory.keys, p_.key_offsets[i], p_.key_type, p_.key_stride, p_.key_depth_stride,
                                p_.depth, copy_keys_, mine + keys_at_);
    const Rows values = FetchRows(memory.values, p_.value_offsets[i], p_.value_type, p_.value_stride,
                                  p_.value_width_stride, p_.width, copy_values_, mine + values_at_);
    // A hidden key has the factor 0, which changes nothing unless its value is infinite or NaN.
    const bool may_skip = hides_ && kernels_->all_finite(values.data, values.stride, p_.keys, p_.width);
    // The last blocks see the most keys if there is a causal mask.
    for (int64_t b = blocks_ - 1 - part; b >= 0; b -= parts_)
      RunBlock(memory, i, b * wide_, keys, values, may_skip, mine);
  }

  // The keys that some of the queries see, in whole chunks.
  KeyRange FindVisible(int64_t query, int64_t count) const {
    KeyRange r{0, p_.keys};
    for (auto s = p_.steps.rbegin(); s != p_.steps.rend() && s->kind == AttentionStep::Kind::kBand; ++s) {
      r.begin = std::max(r.begin, query + s->low);
      r.end = std::min(r.end, query + count + s->high);
    }
    if (r.begin >= r.end) return {0, 0};
    r.begin = r.begin / kChunk * kChunk;
    r.end = std::min(p_.keys, RoundUp(r.end, kChunk));
    return r;
  }

  void RunBlock(const Memory& memory, size_t item, int64_t query, const Rows& keys, const Rows& values, bool may_skip,
                float* mine) const {
    const int64_t count = std::min<int64_t>(wide_, p_.queries - query);
    const int64_t lanes = count <= narrow_ ? narrow_ : wide_;
    float* const largest = mine + row_at_;
    float* const sum = largest + wide_;
    float* const factor = sum + wide_;
    FetchColumns(At(memory.queries, p_.query_offsets[item] + query * p_.query_stride, p_.query_type), p_.query_type,
                 p_.query_stride, p_.query_depth_stride, count, p_.depth, lanes, mine);
    std::fill_n(largest, lanes, -std::numeric_limits<float>::infinity());
    KeyRange visible{0, p_.keys};
    if (may_skip) visible = FindVisible(query, count);
    ComputeScores(memory, item, query, count, lanes, keys, visible, mine, largest);
    if (visible.begin > 0 || visible.end < p_.keys) {
      bool hidden_vanish = true;
      for (int64_t c = 0; c < count; ++c) hidden_vanish &= largest[c] - largest_hidden_ >= kUnderflow;
      if (!hidden_vanish) {
        ComputeScores(memory, item, query, count, lanes, keys, {0, visible.begin}, mine, largest);
        ComputeScores(memory, item, query, count, lanes, keys, {visible.end, p_.keys}, mine, largest);
        visible = {0, p_.keys};
      }
    }
    float* const scores = mine + scores_at_ + visible.begin * lanes;
    const int64_t seen = visible.end - visible.begin;
    std::fill_n(sum, lanes, 0.0f);
    kernels_->exp_sum(scores, seen, lanes, largest, sum);
    for (int64_t c = 0; c < lanes; ++c) factor[c] = 1.0f / sum[c];

    const GemmTileFn tile = lanes == wide_ ? gemm_->f32.run_wide : gemm_->f32.run_narrow;
    float* const sums = mine + sums_at_;
    for (int64_t k = 0; k < seen; k += kChunk * kChunksOfValues) {
      const int64_t rows = std::min(kChunk * kChunksOfValues, seen - k);
      kernels_->multiply(scores + k * lanes, rows, lanes, factor);
      const float* v = values.data + (visible.begin + k) * values.stride;
      for (int64_t d = 0; d < p_.width; d += gemm_->f32.rows) {
        tile(std::min<int64_t>(gemm_->f32.rows, p_.width - d), rows, v + d * values.column_stride, values.column_stride,
             values.stride, scores + k * lanes, lanes, sums + d * lanes, lanes, k > 0);
      }
    }
    char* const out = At(memory.out, p_.out_offsets[item] + query * p_.out_stride, p_.out_type);
    if (p_.out_width_stride != 1) {
      gemm_->convert_out(ElementType::kF32, sums, lanes, p_.out_type, out, p_.out_width_stride, p_.out_stride, p_.width,
                         count);
    } else if (p_.out_type == ElementType::kF32) {
      kernels_->transpose_out(sums, lanes, reinterpret_cast<float*>(out), p_.out_stride, count, p_.width);
    } else {
      float* const rows = mine + scores_at_;  // no longer needed
      kernels_->transpose_out(sums, lanes, rows, p_.width, count, p_.width);
      gemm_->convert_out(ElementType::kF32, rows, p_.width, p_.out_type, out, p_.out_stride, 1, count, p_.width);
    }
  }

  // Columns from rows of queries: to[c * lanes + r] = from[r * row_stride + c * column_stride], zero for r >= rows.
  void FetchColumns(const char* from, ElementType type, int64_t row_stride, int64_t column_stride, int64_t rows,
                    int64_t columns, int64_t lanes, float* to) const {
    if (column_stride == 1 && row_stride != 0) {
      kernels_->transpose_in(type, from, row_stride, rows, columns, to, lanes);
      return;
    }
    if (rows < lanes) std::memset(to, 0, static_cast<size_t>(columns * lanes) * sizeof(float));
    gemm_->convert(type, from, column_stride, row_stride, ElementType::kF32, to, lanes, 1, columns, rows);
  }

  void ComputeScores(const Memory& memory, size_t item, int64_t query, int64_t count, int64_t lanes, const Rows& keys,
                     KeyRange range, float* mine, float* largest) const {
    const GemmTileFn tile = lanes == wide_ ? gemm_->f32.run_wide : gemm_->f32.run_narrow;
    for (int64_t k = range.begin; k < range.end; k += kChunk) {
      const int64_t rows = std::min(kChunk, range.end - k);
      float* const scores = mine + scores_at_ + k * lanes;
      for (int64_t r = 0; r < rows; r += gemm_->f32.rows) {
        tile(std::min<int64_t>(gemm_->f32.rows, rows - r), p_.depth, keys.data + (k + r) * keys.stride, keys.stride,
             keys.column_stride, mine, lanes, scores + r * lanes, lanes, false);
      }
      for (const AttentionStep& s : p_.steps) Apply(s, memory, item, query, count, lanes, k, rows, scores, mine);
      kernels_->max(scores, rows, lanes, largest);
    }
  }

  void Apply(const AttentionStep& s, const Memory& memory, size_t item, int64_t query, int64_t count, int64_t lanes,
             int64_t key, int64_t rows, float* scores, float* mine) const {
    switch (s.kind) {
      case AttentionStep::Kind::kScale:
        return kernels_->scale(scores, rows * lanes, s.value);
      case AttentionStep::Kind::kRoundF16:
        return kernels_->round_f16(scores, rows * lanes);
      case AttentionStep::Kind::kRoundBf16:
        return kernels_->round_bf16(scores, rows * lanes);
      case AttentionStep::Kind::kBand:
        if (key - (query + count - 1) >= s.low && key + rows - 1 - query <= s.high) return;  // all visible
        return kernels_->band(scores, rows, lanes, key, query, s.low, s.high, s.value);
      case AttentionStep::Kind::kAdd:
      case AttentionStep::Kind::kSelect:
        break;
    }
    float* const array = mine + array_at_;
    const int64_t offset = s.offsets[item] + key * s.key_stride + query * s.query_stride;
    FetchColumns(At(memory.arrays[s.array], offset, s.type), s.type, s.query_stride, s.key_stride, count, rows, lanes,
                 array);
    if (s.kind == AttentionStep::Kind::kAdd) return kernels_->add(scores, array, rows * lanes);
    kernels_->select(scores, array, rows * lanes, s.keep, s.value);
  }

  const AttentionProblem p_;
  const int64_t items_;
  const GemmKernels* gemm_;
  const AttentionKernels* kernels_;
  int64_t wide_, narrow_, blocks_, parts_ = 1;  // a task computes every parts_-th block of an item
  int threads_;
  bool copy_keys_, copy_values_, has_arrays_;
  bool hides_ = false;
  float largest_hidden_ = -std::numeric_limits<float>::infinity();
  // Where parts of the scratch memory of a thread begin, in floats; the queries are at its beginning.
  int64_t keys_at_, values_at_, scores_at_, sums_at_, array_at_, row_at_;
  int64_t slot_bytes_;
};

}  // namespace

std::string AttentionProblem::ToString() const {
  return absl::StrCat(ElementTypeName(query_type), " ", query_offsets.size(), " x [", queries, " queries, ", keys,
                      " keys, ", depth, width == depth ? "" : absl::StrCat(", ", width), "], ", steps.size(), " steps");
}

absl::StatusOr<std::unique_ptr<AttentionPlan>> PlanAttention(const AttentionProblem& p, int num_threads) {
  for (ElementType t : {p.query_type, p.key_type, p.value_type, p.out_type}) {
    if (!IsNarrowFloat(t))
      return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(t), " is not supported"));
  }
  for (const AttentionStep& s : p.steps) {
    if (s.kind == AttentionStep::Kind::kAdd && !IsNarrowFloat(s.type))
      return absl::UnimplementedError(absl::StrCat("terms of type ", ElementTypeName(s.type), " are not supported"));
  }
  if (p.queries < 1 || p.keys < 1 || p.depth < 1 || p.width < 1 || p.query_offsets.empty())
    return absl::UnimplementedError("an operand is empty");
  return std::unique_ptr<AttentionPlan>(std::make_unique<BlockedAttention>(p, num_threads));
}

}  // namespace backplane::engine
