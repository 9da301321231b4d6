// The JSON document "backplane.gpu_report" of a program.
#ifndef BACKPLANE_PLUGINS_HIP_REPORT_REPORT_JSON_H_
#define BACKPLANE_PLUGINS_HIP_REPORT_REPORT_JSON_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/module.h"
#include "plugins/hip/report/launches.h"

namespace backplane::hip {

// `resources`: of `kernels`, in their order. docs/hip.md describes the members.
std::string WriteReportJson(const Module& module, const GpuTarget& target,
                            absl::Span<const ProgramKernels::Kernel> kernels,
                            absl::Span<const KernelResources> resources, absl::Span<const ProgramLaunch> launches);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_REPORT_REPORT_JSON_H_
