// The page of `backplane gpu-report`: what a program starts on a GPU, with the resources of each kernel.
#ifndef BACKPLANE_SDK_CLI_GPU_REPORT_PAGE_H_
#define BACKPLANE_SDK_CLI_GPU_REPORT_PAGE_H_

#include <string>

#include "sdk/host/json.h"

namespace backplane::cli {

// Returns one HTML file that needs no other file, no network and no script. It is well-formed XML as well. `title` is
// its heading; `document` has the format "backplane.gpu_report", version 1 (docs/hip.md). Members that are missing are
// shown as unknown.
std::string MakeGpuReportPage(const std::string& title, const host::Json& document);

// Returns the summary that the command prints: totals and the launches that take the most time.
std::string MakeGpuReportSummary(const std::string& title, const host::Json& document);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_GPU_REPORT_PAGE_H_
