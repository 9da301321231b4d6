// Compiles one function body for several instruction sets. Each call runs the version for the SIMD level of the host.
//
//   BP_TARGETS(void, Scale, (float* x, int64_t n), (x, n), { for (...) ... })
//
// This defines `void Scale(float* x, int64_t n)`. Functions that the body calls must be always_inline to be compiled
// for the wider set as well. They must not be lambdas or functions of the standard library, which a linker could merge
// with another copy. In the body kTargetBytes is the size of a register of the set: 16, 32 or 64.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_TARGETS_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_TARGETS_H_

#include "sdk/engine/kernels/simd_level.h"

#define BP_AVX2_TARGET __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")))
#ifdef __clang__
#define BP_AVX512_WIDTH  // clang has no such feature; it takes registers of 64 bytes where they are asked for
#else
#define BP_AVX512_WIDTH ",prefer-vector-width=512"
#endif
#define BP_AVX512_TARGET \
  __attribute__((        \
      target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512cd" BP_AVX512_WIDTH)))

#define BP_TARGETS(Result, Name, Parameters, Arguments, ...)                                  \
  template <int kTargetBytes>                                                                 \
  static inline __attribute__((always_inline))                                                \
  Result Name##Body Parameters __VA_ARGS__ static Result Name##Base Parameters {              \
    return Name##Body<16> Arguments;                                                          \
  }                                                                                           \
  BP_AVX2_TARGET static Result Name##Avx2 Parameters { return Name##Body<32> Arguments; }     \
  BP_AVX512_TARGET static Result Name##Avx512 Parameters { return Name##Body<64> Arguments; } \
  Result Name Parameters {                                                                    \
    switch (HostSimdLevel()) {                                                                \
      case SimdLevel::kBase:                                                                  \
        return Name##Base Arguments;                                                          \
      case SimdLevel::kAvx2:                                                                  \
        return Name##Avx2 Arguments;                                                          \
      default:                                                                                \
        return Name##Avx512 Arguments;                                                        \
    }                                                                                         \
  }

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_TARGETS_H_
