// Describes the machine on which the process runs, as a target of generated code. Needs no LLVM header.
#ifndef BACKPLANE_SDK_ENGINE_JIT_HOST_H_
#define BACKPLANE_SDK_ENGINE_JIT_HOST_H_

#include "sdk/codegen/ir_target.h"

namespace backplane::engine::jit {

struct HostInfo {
  // Cpu, features, registers, arithmetic, and code generation passes. Loop strength reduction, CodeGenPrepare and both
  // schedulers are disabled: measurements showed that they cost more than they save, because kernels are short and
  // their loops are emitted in their final form.
  backplane::codegen::IrTarget target;
  bool has_f16c = false;
  bool has_avx2 = false;
  bool has_avx512_fp16 = false;
  bool has_avx512_vnni = false;
};

// Returns the machine, which is detected once. The environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16, 32 or 64)
// restricts it: 32 hides AVX-512, 16 also hides AVX, AVX2 and FMA. Thread-safe.
const HostInfo& Host();

// Detects the machine again with the given limit in place of the environment variable. For tests of the narrower code
// paths.
HostInfo DetectHost(int max_vector_bytes);

// Registers the host's code generator with LLVM, once in a process. Sets no option of LLVM, so a process may have other
// users of it. Thread-safe.
void RegisterHost();

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_HOST_H_
