// The chain of extensions of the table. It is static. Gpu_Custom_Call is not part of it, because hosts take a plugin
// with that extension for one of a GPU. Nor is AbiVersion: jaxlib 0.11 and 0.12 serialize executables only of plugins
// without that extension and of platforms whose versions they know.
#include "sdk/shim/extensions/extensions.h"

#include <cstddef>

#include "sdk/shim/entries.h"

namespace backplane::shim {

PJRT_Extension_Base* GetExtensionChain() {
  static PJRT_Extension_Base* const first = [] {
    PJRT_Extension_Base* const all[] = {
        LayoutsExtension(),
        FfiExtension(),
        MemoryDescriptionsExtension(),
        ShardingsExtension(),
        CustomPartitionerExtension(),
        XlaTransformExtension(),
        ProfilerExtension(),
        CrossHostTransfersExtension(),
        BackplaneExtension(),
    };
    PJRT_Extension_Base* next = nullptr;
    for (size_t i = sizeof(all) / sizeof(all[0]); i-- > 0;) {
      all[i]->next = next;
      next = all[i];
    }
    return next;
  }();
  return first;
}

}  // namespace backplane::shim
