// What all planned kernels share. A plan is made at compile time from a problem; running it allocates nothing.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace backplane::engine {

class ThreadPool;

// Why faster kernels refused: one line a refusal, "onednn_matmul: element type s32 is not supported".
using RefusalLog = std::vector<std::string>;

// Work on a piece of an output that was just written and is still in cache: rows [begin, end) of the output, as the
// kernel counts them. Called on any thread of the pool, for disjoint ranges that together cover the output once.
struct Epilogue {
  void (*run)(void* context, int64_t batch, int64_t begin, int64_t end) = nullptr;
  void* context = nullptr;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_
