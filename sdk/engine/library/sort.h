// Sorts rows of any number of operands together, by keys that are plain comparisons or by a comparator.
//
// Operands are dense row-major arrays seen as [outer, n, inner]; each of the outer * inner lines of n is sorted. All
// sorts are stable, so a result does not depend on the method, the number of threads or the pool.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_SORT_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_SORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sdk/engine/library/order_key.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

struct SortKey {
  int operand = 0;
  int byte_offset = 0;  // of the number within the operand's element: the imaginary part of a complex one
  KeyFormat format;
  bool operator==(const SortKey&) const = default;
};

// Receives one pointer per operand and side. Returns whether the left elements must come first. If the comparator is
// inconsistent, the order is unspecified.
using SortComparator = bool (*)(const void* const* lhs, const void* const* rhs);

struct SortProblem {
  int64_t outer = 1, n = 0, inner = 1;  // n below 2^32
  std::vector<int> operand_bytes;       // of an element: 1, 2, 4, 8 or 16
  std::vector<SortKey> keys;            // the first key decides, the next ones break ties; empty: `comparator` decides
  SortComparator comparator = nullptr;
};

// `inputs` and `outputs` have one pointer per operand and must not overlap. With several operands an output may be
// null: not needed. `workspace` has SortWorkspaceBytes bytes for the threads of the pool and is 64-byte aligned. `pool`
// may be null: one thread.
int64_t SortWorkspaceBytes(const SortProblem& problem, int num_threads);
void Sort(const SortProblem& problem, const void* const* inputs, void* const* outputs, std::byte* workspace,
          ThreadPool* pool);

// Estimates the time on one thread.
double SortMicroseconds(const SortProblem& problem);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_SORT_H_
