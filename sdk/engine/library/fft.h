// Fourier transforms of the one to three innermost axes, of any lengths: mixed radix, and Bluestein's algorithm for
// lengths with a large prime factor.
//
// A plan holds the twiddle factors; it is immutable and may run from many threads at once.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_FFT_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_FFT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

enum class FftKind : uint8_t { kForward, kInverse, kRealForward, kRealInverse };

struct FftProblem {
  FftKind kind = FftKind::kForward;
  bool is_double = false;  // f64/c128, else f32/c64
  int64_t batch = 1;
  std::vector<int64_t> lengths;  // of the transformed axes in the time domain, innermost last; each at least 1
};

class FftPlan {
 public:
  static std::unique_ptr<FftPlan> Create(const FftProblem& problem);
  virtual ~FftPlan() = default;

  // Input and output are dense arrays [batch, axes...] that do not overlap. In a real transform the innermost axis of
  // the complex array has the length lengths.back() / 2 + 1. Inverse transforms are divided by the product of the
  // lengths. `workspace` has workspace_bytes bytes for the number of threads of the pool and is 64-byte aligned. `pool`
  // may be null: one thread.
  virtual int64_t workspace_bytes(int num_threads) const = 0;
  virtual void Run(const void* input, void* output, std::byte* workspace, ThreadPool* pool) const = 0;
  virtual double estimated_us() const = 0;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_FFT_H_
