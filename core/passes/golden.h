// Golden cases of a pass: a file of modules before and after. For tests only.
//
//   // what the case shows
//   HloModule ...           the module before
//   // ==>
//   HloModule ...           the module after the pass
//   // ----                 between cases
//
// For each case the pass must produce the module as written, both modules must verify, a second run must change
// nothing, and the result must equal that of the original module for random arguments. With BACKPLANE_UPDATE_GOLDEN=1
// in the environment the file is rewritten; read the diff then.
#ifndef BACKPLANE_CORE_PASSES_GOLDEN_H_
#define BACKPLANE_CORE_PASSES_GOLDEN_H_

#include <functional>
#include <memory>
#include <string>

#include "core/passes/pass.h"

namespace backplane {

struct GoldenOptions {
  bool verify_after = true;            // off for instructions that only one plugin defines
  bool same_results = true;            // off for passes that change the meaning of a module, such as partitioning
  double tolerance = 0;                // relative tolerance of the results; 0: bitwise
  int64_t int_low = -9, int_high = 9;  // range of random integers
  int not_evaluated = 0;               // number of cases that need a host or other devices and so cannot be evaluated
};

// Checks every case of `path` (relative to the source directory) with GoogleTest expectations.
void RunGoldenFile(const std::string& path, const std::function<std::unique_ptr<Pass>()>& make_pass,
                   const GoldenOptions& options = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_GOLDEN_H_
