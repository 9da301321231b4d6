// Kernels of the tests as a host image: a shared library that needs no other.
#include <cstdint>

#include "plugins/hip/lowering/host_image.h"

namespace {

struct Array {
  float* data;
  uint64_t elements;
};

// data[i] += 1
int32_t AddOne(const void* kernarg, uint32_t block, uint32_t, void*, void*) {
  const Array& array = *static_cast<const Array*>(kernarg);
  for (uint64_t i = uint64_t{block} * 64; i < array.elements && i < uint64_t{block} * 64 + 64; ++i) array.data[i] += 1;
  return 0;
}

struct TwoArrays {
  float* to;
  const float* from;
  uint64_t elements;
};

// to[i] = 2 * from[i]
int32_t Twice(const void* kernarg, uint32_t block, uint32_t, void*, void*) {
  const TwoArrays& arrays = *static_cast<const TwoArrays*>(kernarg);
  for (uint64_t i = uint64_t{block} * 64; i < arrays.elements && i < uint64_t{block} * 64 + 64; ++i) {
    arrays.to[i] = 2 * arrays.from[i];
  }
  return 0;
}

// Writes the number of each block, the number of blocks, and whether shared memory and frames are aligned and usable.
int32_t BlockNumbers(const void* kernarg, uint32_t block, uint32_t blocks, void* shared, void* frames) {
  uint32_t* out = *static_cast<uint32_t* const*>(kernarg);
  auto* words = static_cast<volatile uint32_t*>(shared);
  auto* frame = static_cast<volatile uint32_t*>(frames);
  for (uint32_t i = 0; i < 256; ++i) words[i] = i;
  for (uint32_t i = 0; i < 64; ++i) frame[i] = i;
  const bool aligned = (reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(frames)) % 64 == 0;
  out[block] = aligned && words[255] == 255 && frame[63] == 63 ? block * 1000 + blocks : 0;
  return 0;
}

// Waits until a word of pinned host memory is not zero, for tests of order.
int32_t WaitForFlag(const void* kernarg, uint32_t, uint32_t, void*, void*) {
  const uint32_t* flag = *static_cast<const uint32_t* const*>(kernarg);
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
  }
  return 0;
}

// Writes one element behind the end.
int32_t WriteBehind(const void* kernarg, uint32_t, uint32_t, void*, void*) {
  const Array& array = *static_cast<const Array*>(kernarg);
  array.data[array.elements] = 5;
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int host_table[4];
int host_table[4] = {3, 1, 4, 1};

extern "C" __attribute__((visibility("default"))) const backplane::hip::HostKernel backplane_host_kernels[];
const backplane::hip::HostKernel backplane_host_kernels[] = {
    {"add_one", &AddOne, 64, 16, 0, 0},
    {"twice", &Twice, 64, 24, 0, 0},
    {"block_numbers", &BlockNumbers, 32, 8, 1024, 256},
    {"wait_for_flag", &WaitForFlag, 1, 8, 0, 0},
    {"write_behind", &WriteBehind, 1, 16, 0, 0},
    {nullptr, nullptr, 0, 0, 0, 0},
};
