#include "sdk/codegen/ir_target.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::codegen {

IrTarget X86Target(int level) {
  IrTarget t;
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = level <= 1 ? "x86-64" : absl::StrCat("x86-64-v", std::min(level, 4));
  t.has_fma = level >= 3;
  t.has_rounding = level >= 2;
  t.has_f16_conversions = level >= 3;
  t.has_avx512 = level >= 4;
  t.vector_bytes = level >= 4 ? 64 : level == 3 ? 32 : 16;
  return t;
}

IrTarget AmdGpuTarget(absl::string_view name) {
  IrTarget t;
  t.family = TargetFamily::kAmdGpu;
  t.triple = "amdgcn-amd-amdhsa";
  t.cpu = std::string(name);
  t.vector_bytes = 0;
  t.buffer_address_space = 1;
  t.constant_address_space = 4;
  t.temporary_address_space = 5;
  t.index_bits = 32;
  t.buffer_alignment = 16;
  return t;
}

IrTarget NvptxTarget(absl::string_view name) {
  IrTarget t;
  t.family = TargetFamily::kNvptx;
  t.triple = "nvptx64-nvidia-cuda";
  t.cpu = std::string(name);
  t.has_bf16_conversions = true;
  t.vector_bytes = 0;
  t.buffer_address_space = 1;
  // Global memory: constant memory is read at one address at a time, and every lane reads another.
  t.constant_address_space = 1;
  t.index_bits = 32;
  t.buffer_alignment = 16;
  return t;
}

void SetFunctionAttributes(llvm::Function& function, const IrTarget& target) {
  function.addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty()) function.addFnAttr("target-features", target.features);
  if (target.family == TargetFamily::kX86) {
    const std::string width = std::to_string(target.vector_bytes * 8);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr("stackrealign");  // or 64-byte spill slots straddle cache lines, up to 1.7 times slower
  }
  function.addFnAttr(llvm::Attribute::NoUnwind);
  // Subnormals are kept: the results of HLO programs are compared with IEEE arithmetic.
  function.addFnAttr("no-trapping-math", "true");
}

void SetKernelAttributes(llvm::Function& function, const IrTarget& target) {
  SetFunctionAttributes(function, target);
  if (target.family == TargetFamily::kAmdGpu) function.setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  if (target.family == TargetFamily::kNvptx) function.setCallingConv(llvm::CallingConv::PTX_Kernel);
}

}  // namespace backplane::codegen
