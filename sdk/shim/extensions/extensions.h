// One function for each extension: its static struct, not yet linked into the chain.
#ifndef BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_
#define BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_

#include <memory>

#include "absl/status/status.h"
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
PJRT_Extension_Base* BackplaneExtension();

// What hosts registered through XlaTransformExtension changes the program, which keeps its parameters and results.
absl::Status TransformProgram(std::unique_ptr<Module>* module);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_EXTENSIONS_EXTENSIONS_H_
