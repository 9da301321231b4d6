// Checks the result accuracy that a program requests of an operation with the trait kResultAccuracy, which approximates
// its result.
//
// DEFAULT and HIGHEST have no bounds. TOLERANCE has at least one of an absolute bound, a relative bound and a bound in
// units in the last place: |expected - actual| <= max(|expected| * max(rtol, ulps * eps), atol). These checks concern
// the request only; whether generated code keeps the bounds is known to the backend alone.
#ifndef BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_
#define BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_

#include "core/ops/op_info.h"

namespace backplane {

// Returns InvalidArgument, whose message begins with `name`: [result_accuracy_i1] the operation takes no accuracy;
// [result_accuracy_c1] a bound is negative or not finite; [result_accuracy_c2] bounds without TOLERANCE;
// [result_accuracy_c3] TOLERANCE without bounds.
absl::Status CheckResultAccuracy(Opcode opcode, absl::string_view name, const ResultAccuracy& accuracy);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_
