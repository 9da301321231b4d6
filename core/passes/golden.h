// Golden cases of a pass: a file of modules before and after. For tests only.
//
//   // what the case shows
//   HloModule ...           the module before
//   // ==>
//   HloModule ...           the module after the pass
//   // ----                 between cases
//
// Each must come out as written, verify before and after, not change in a second run, and give for random arguments
// what the module gives that no pass has touched. With BACKPLANE_UPDATE_GOLDEN=1 in the environment the file is
// rewritten; read the diff then.
#ifndef BACKPLANE_CORE_PASSES_GOLDEN_H_
#define BACKPLANE_CORE_PASSES_GOLDEN_H_

#include <functional>
#include <memory>
#include <string>

#include "core/passes/pass.h"

namespace backplane {

struct GoldenOptions {
  bool verify_after = true;            // off for forms that only one plugin understands
  bool same_results = true;            // off for passes after which a module means something else: each device's part
  double tolerance = 0;                // of results; 0: to the bit
  int64_t int_low = -9, int_high = 9;  // of random integers
  int not_evaluated = 0;               // cases that no evaluator can run alone, for they need a host or other devices
};

// Checks every case of `path` (relative to the source directory) through GoogleTest's expectations.
void RunGoldenFile(const std::string& path, const std::function<std::unique_ptr<Pass>()>& make_pass,
                   const GoldenOptions& options = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_GOLDEN_H_
