// Types that all planned kernels share. A plan is created from a problem when a program is compiled; running it
// allocates nothing.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace backplane::engine {

class ThreadPool;

// The reasons why faster kernels do not support a problem, one line each: "onednn_matmul: element type s32 is not
// supported".
using RefusalLog = std::vector<std::string>;

// A function that processes a part of an output that was just written and is still in the cache. [begin, end) is a
// range of rows, as the kernel defines them. Called on any thread of the pool, for disjoint ranges that together cover
// the output once.
struct Epilogue {
  void (*run)(void* context, int64_t batch, int64_t begin, int64_t end) = nullptr;
  void* context = nullptr;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_PLAN_H_
