// One self-contained HTML page of what programs do on a machine: a timeline by unit, a roofline plot, padding, memory,
// kernels, and the comparison of several programs or machines.
//
// The page is made from JSON documents of the format "backplane.tpu_report", version 1 (docs/tpu_report.md). It refers
// to nothing outside itself, so that it can be mailed and opened without a network; it works from some tens of
// thousands of kernels down to none.
#ifndef BACKPLANE_SDK_REPORT_PAGE_H_
#define BACKPLANE_SDK_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::report {

struct PageDocument {
  std::string title;  // as tabs name it: "step.mlir on v5e"; empty: the program's and the machine's names
  std::string json;   // one document; UTF-8
};

// Any number of documents, of which the page shows one at a time; from two on it compares. A text that is no such
// document is not looked into here: the page says so in its place.
std::string Page(absl::Span<const PageDocument> documents);

}  // namespace backplane::report

#endif  // BACKPLANE_SDK_REPORT_PAGE_H_
