// What the machine we generate code for can do. No LLVM in here.
#ifndef BACKPLANE_SDK_ENGINE_JIT_HOST_H_
#define BACKPLANE_SDK_ENGINE_JIT_HOST_H_

#include <string>

namespace backplane::engine::jit {

struct HostInfo {
  std::string cpu;       // LLVM's name, "znver4"
  std::string features;  // LLVM's list, "+avx2,-avx512f,..."
  std::string triple;
  int vector_bytes = 16;  // widest register that code should use: 16, 32 or 64
  bool has_fma = false;
  bool has_f16c = false;
  bool has_avx2 = false;
  bool has_avx512 = false;  // F, BW, DQ, VL together
  bool has_avx512_fp16 = false;
  bool has_avx512_vnni = false;

  // Lanes of one register.
  int F32Lanes() const { return vector_bytes / 4; }
  int F64Lanes() const { return vector_bytes / 8; }
};

// The machine we run on, detected once. The environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16, 32 or 64)
// lowers what is used: 32 hides AVX-512, 16 also hides AVX, AVX2 and FMA.
const HostInfo& Host();

// The same with a cap given by the caller, detected anew; for tests of the narrower paths.
HostInfo DetectHost(int max_vector_bytes);

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_HOST_H_
