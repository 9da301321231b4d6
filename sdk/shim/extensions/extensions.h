// Each function returns the static struct of one extension. The struct is not yet linked into the chain.
#ifndef BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_
#define BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/pjrt_c_api.h"
#include "core/ir/module.h"

namespace backplane::shim {

PJRT_Extension_Base* LayoutsExtension();
PJRT_Extension_Base* FfiExtension();
PJRT_Extension_Base* MemoryDescriptionsExtension();
PJRT_Extension_Base* ShardingsExtension();
PJRT_Extension_Base* CustomPartitionerExtension();
PJRT_Extension_Base* XlaTransformExtension();
PJRT_Extension_Base* ProfilerExtension();
PJRT_Extension_Base* CrossHostTransfersExtension();
PJRT_Extension_Base* BackplaneExtension();

// Applies the transformations that hosts have registered through XlaTransformExtension. They must not change the
// parameters and results of the program.
absl::Status TransformProgram(std::unique_ptr<Module>* module);
// Whether hosts have registered any.
bool HasTransformations();

// Whether compiling the program may call functions that hosts have registered through CustomPartitionerExtension: its
// bytes contain the name of one of them.
bool CallsHostWhenPartitioned(absl::string_view program);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_
