// The k largest or smallest elements of each row, with their positions.
//
// The input is a dense array [rows, n]. Among equal elements the one with the lower position comes first. Floats are in
// total order, so a positive NaN is above everything, a negative NaN below everything, and -0 is below +0.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_TOPK_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_TOPK_H_

#include <cstddef>
#include <cstdint>

#include "sdk/engine/library/order_key.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

struct TopKProblem {
  int64_t rows = 1, n = 0, k = 0;  // k <= n < 2^31
  // The format of the elements. kFloatCanonical is not supported. `descending` true selects the largest elements, false
  // the smallest.
  KeyFormat format{KeyKind::kFloatTotal, 4, true, 0x7f800000};
};

// The workspace is 64-byte aligned, and the pool may be null, as for Sort.
int64_t ComputeTopKWorkspaceBytes(const TopKProblem& problem, int num_threads);
void TopK(const TopKProblem& problem, const void* input, void* values, int32_t* indices, std::byte* workspace,
          ThreadPool* pool);
double EstimateTopKMicroseconds(const TopKProblem& problem);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_TOPK_H_
