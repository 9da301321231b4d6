// Random bits by counter: Threefry-2x32 with 20 rounds and Philox-4x32 with 10 (Salmon et al., SC 2011), in XLA's order
// of words; and numbers drawn from them.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

// Advanced by the number of blocks used. Threefry counts in 64 bits (high stays), Philox in 128.
struct RandomState {
  uint64_t key = 0, low = 0, high = 0;
  bool operator==(const RandomState&) const = default;
};

// Fills an array of these dims with elements of 1, 2, 4 or 8 bytes. Philox: words in turn, for 8 bytes two together.
// Threefry: for 8 bytes both words of a block; else the two words go to neighbours along the first dimension of even
// size (or the largest). Elements below 4 bytes are the low bits of a word. pool may be null.
void ThreeFryBits(RandomState& state, absl::Span<const int64_t> dims, int element_bytes, void* out, ThreadPool* pool);
void PhiloxBits(RandomState& state, int64_t count, int element_bytes, void* out, ThreadPool* pool);

enum class RandomNumber : uint8_t { kF16, kBF16, kF32, kF64, kPred, kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64 };

// [*low, *high), integers too; values at the pointers are of the element type.
void UniformNumbers(RandomState& state, RandomNumber type, const void* low, const void* high, int64_t count, void* out,
                    ThreadPool* pool);
// Floats only.
void NormalNumbers(RandomState& state, RandomNumber type, const void* mean, const void* deviation, int64_t count,
                   void* out, ThreadPool* pool);

// A different one each call, the same sequence in each process. Thread-safe.
RandomState NextRandomState();

// The 128-bit state, low word first, that programs share; it is `delta` further afterwards. Thread-safe.
std::array<uint64_t, 2> AdvanceGeneratorState(uint64_t delta);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_
