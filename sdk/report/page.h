// A self-contained HTML page that shows how programs run on a machine: a timeline by unit, a roofline plot, padding,
// memory, kernels, and a comparison of several programs or machines.
//
// The page is made from JSON documents of the format "backplane.tpu_report", version 1 (docs/tpu_report.md). It has no
// external references, so it can be sent by mail and opened without a network. It supports up to some tens of thousands
// of kernels.
#ifndef BACKPLANE_SDK_REPORT_PAGE_H_
#define BACKPLANE_SDK_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::report {

struct PageDocument {
  std::string title;  // the name of its tab: "step.mlir on v5e"; empty: the names of the program and of the machine
  std::string json;   // one document; UTF-8
};

// Returns the page for any number of documents. It shows one at a time, and a comparison if there are at least two. The
// documents are not checked here: the page shows an error for an invalid one.
std::string FormatPage(absl::Span<const PageDocument> documents);

}  // namespace backplane::report

#endif  // BACKPLANE_SDK_REPORT_PAGE_H_
