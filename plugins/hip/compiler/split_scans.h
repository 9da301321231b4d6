// Divides scans of few long rows into scans of many short ones.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SCANS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SCANS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A block scans a row (scan_kernel.h), so a few long rows would leave most of a GPU idle. They are divided into parts:
// the parts are scanned, then their totals, and the total of the parts before it is combined with each element of a
// part. Scans of several arrays at once stay as they are.
//
// Run it after LegalizeTypes, and SimplifyTuples after it.
class SplitScans : public Pass {
 public:
  absl::string_view name() const override { return "split-scans"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SCANS_H_
