// Counter-based random bits: Threefry-2x32 with 20 rounds and Philox-4x32 with 10 (Salmon et al., SC 2011), in XLA's
// order of words; and random numbers made from them.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

// The state of a generator: its key and its counter, which advances by the number of blocks used. Threefry counts in 64
// bits (`high` stays), Philox in 128.
struct RandomState {
  uint64_t key = 0, low = 0, high = 0;
  bool operator==(const RandomState&) const = default;
};

// Fill an array with random elements of 1, 2, 4 or 8 bytes and advance the state. Philox assigns its words to
// consecutive elements, two words to each element of 8 bytes. Threefry assigns both words of a block to an element of 8
// bytes. For smaller elements the two words go to elements that are neighbours along the first dimension of even size,
// or else along the largest dimension. Elements of less than 4 bytes take the low bits of a word. `pool` may be null:
// one thread.
void GenerateThreeFryBits(RandomState& state, absl::Span<const int64_t> dims, int element_bytes, void* out,
                          ThreadPool* pool);
void GeneratePhiloxBits(RandomState& state, int64_t count, int element_bytes, void* out, ThreadPool* pool);

enum class RandomNumber : uint8_t { kF16, kBF16, kF32, kF64, kPred, kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64 };

// Draws uniform numbers from [*low, *high), also for integers. `low` and `high` point to values of the element type.
void DrawUniformNumbers(RandomState& state, RandomNumber type, const void* low, const void* high, int64_t count,
                        void* out, ThreadPool* pool);
// Draws normal numbers. Supports floats only.
void DrawNormalNumbers(RandomState& state, RandomNumber type, const void* mean, const void* deviation, int64_t count,
                       void* out, ThreadPool* pool);

// Returns a different state at each call. The sequence is the same in every process. Thread-safe.
RandomState DrawRandomState();

// Returns the generator state that all programs share, 128 bits with the low word first, and then advances it by
// `delta`. Thread-safe.
std::array<uint64_t, 2> AdvanceGeneratorState(uint64_t delta);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_RANDOM_H_
