// The code of a program as text: the forms of Executable::PrintCode (sdk/backend/backend.h).
//
//   ir         LLVM IR as the code generator takes it
//   isa        assembly; PTX for NVIDIA's GPUs
//   resources  a table: a line for each kernel with its registers, shared memory, scratch memory, occupancy and plan
//   report     a JSON document of the format "backplane.gpu_report" (docs/hip.md), from which `backplane gpu-report`
//              makes a page
#ifndef BACKPLANE_PLUGINS_HIP_REPORT_CODE_TEXT_H_
#define BACKPLANE_PLUGINS_HIP_REPORT_CODE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ir/module.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

// Returns the code in a form. `module` and `image` are those of a GpuProgram for the target. "ir" and "isa" are
// generated again from the module, by the code that has made the image. For any other form it returns Unimplemented,
// and the message names the forms. Thread-safe.
absl::StatusOr<std::string> MakeCodeText(const Module& module, const GpuTarget& target, const Image& image,
                                         absl::string_view form);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_REPORT_CODE_TEXT_H_
