// Attention in one pass: out = softmax(steps(queries * keys^T)) * values, without a matrix of scores in memory.
//
// The softmax is over the keys. A problem has many independent items (the batch, the heads); each has its queries, keys
// and values at offsets of their own, which may be those of other items (grouped heads). All arithmetic is in f32; the
// exponentials are divided by their sum before they meet the values, so that nothing overflows that does not overflow
// in separate operations. NaNs and infinities have the effect that they have there.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/engine/kernels/element_type.h"

namespace backplane::engine {

class ThreadPool;

// An operation on each score before the softmax.
struct AttentionStep {
  enum class Kind {
    kScale,     // score * value
    kAdd,       // score + array
    kSelect,    // score where the array (pred) is `keep`, else value
    kBand,      // score where low <= key - query <= high, else value
    kRoundF16,  // rounds to f16 or bf16
    kRoundBf16,
  };
  Kind kind = Kind::kScale;
  float value = 0;
  bool keep = true;
  int64_t low = 0, high = 0;
  // The array: its type, its number among the arrays of Execute, strides, and the offset for each item, in elements.
  ElementType type = ElementType::kF32;
  size_t array = 0;
  int64_t query_stride = 0, key_stride = 0;
  std::vector<int64_t> offsets;
};

struct AttentionProblem {
  // f32, bf16 or f16.
  ElementType query_type = ElementType::kF32, key_type = ElementType::kF32, value_type = ElementType::kF32,
              out_type = ElementType::kF32;
  int64_t queries = 1, keys = 1;
  int64_t depth = 1;  // of a query and a key
  int64_t width = 1;  // of a value
  // Strides in elements.
  int64_t query_stride = 0, query_depth_stride = 1;
  int64_t key_stride = 0, key_depth_stride = 1;
  int64_t value_stride = 0, value_width_stride = 1;
  int64_t out_stride = 0, out_width_stride = 1;
  // By item; the same count in all.
  std::vector<int64_t> query_offsets, key_offsets, value_offsets, out_offsets;
  std::vector<AttentionStep> steps;  // in order

  // Returns a text for logs, such as "f32 12 x [256 queries, 256 keys, 64]".
  std::string ToString() const;
};

class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  // Returns the bytes of scratch memory that Execute needs, aligned to 64.
  virtual size_t scratch_bytes() const = 0;
  // Computes. The output must not overlap an operand. `pool` may be null: one thread. Thread-safe, with different
  // scratch memory for each concurrent call.
  virtual absl::Status Execute(const void* queries, const void* keys, const void* values,
                               absl::Span<const void* const> arrays, void* out, void* scratch,
                               ThreadPool* pool) const = 0;
};

// `num_threads`: of the pool that is passed to Execute. Returns Unimplemented for element types and sizes that the
// kernel does not support.
absl::StatusOr<std::unique_ptr<AttentionPlan>> PlanAttention(const AttentionProblem& problem, int num_threads);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_H_
