// In the place of amd_image.cc in a build without the interpreter.
#include "plugins/hip/emulated_runtime/kernel_image.h"

namespace backplane::hip::emulated {

absl::StatusOr<std::unique_ptr<KernelImage>> LoadAmdImage(absl::string_view elf, absl::string_view architecture) {
  return absl::UnimplementedError(
      "this build has no interpreter of AMD's machine code, so that it cannot load code objects");
}

}  // namespace backplane::hip::emulated
