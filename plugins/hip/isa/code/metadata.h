// The metadata of kernels: a note in MessagePack ("Code Object Metadata" in LLVM's AMDGPU guide).
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_METADATA_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_METADATA_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/isa/interpreter.h"

namespace backplane::hip::isa {

struct KernelMetadata {
  KernelInfo info;
  std::string descriptor_symbol;
  bool uses_dynamic_stack = false;
};

absl::Status AppendKernelMetadata(absl::string_view blob, std::vector<KernelMetadata>& kernels);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_METADATA_H_
