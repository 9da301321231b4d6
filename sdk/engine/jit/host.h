// The machine we run on, and what of it code is generated for. No LLVM in here.
#ifndef BACKPLANE_SDK_ENGINE_JIT_HOST_H_
#define BACKPLANE_SDK_ENGINE_JIT_HOST_H_

#include "sdk/codegen/ir_target.h"

namespace backplane::engine::jit {

struct HostInfo {
  // Cpu, features, registers, arithmetic. Its passes were measured: kernels are short, and their loops are written as
  // they should run, so loop strength reduction, CodeGenPrepare and both schedulers cost more than they give.
  backplane::codegen::IrTarget target;
  bool has_f16c = false;
  bool has_avx2 = false;
  bool has_avx512_fp16 = false;
  bool has_avx512_vnni = false;
};

// The machine we run on, detected once. The environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16, 32 or 64)
// lowers what is used: 32 hides AVX-512, 16 also hides AVX, AVX2 and FMA.
const HostInfo& Host();

// The same with a cap given by the caller, detected anew; for tests of the narrower paths.
HostInfo DetectHost(int max_vector_bytes);

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_HOST_H_
