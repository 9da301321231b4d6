// Calls of the named builder functions that must fail, each with the label of the rule that it violates.
#ifndef BACKPLANE_CORE_IR_OPS_REJECTED_CALLS_TEST_H_
#define BACKPLANE_CORE_IR_OPS_REJECTED_CALLS_TEST_H_

#include <vector>

#include "core/ir/ops/ops.h"

namespace backplane::rows {

struct RejectedCall {
  const char* label;
  hlo::Result (*make)(Builder& b);
};
std::vector<RejectedCall> RejectedCalls();

}  // namespace backplane::rows

#endif  // BACKPLANE_CORE_IR_OPS_REJECTED_CALLS_TEST_H_
