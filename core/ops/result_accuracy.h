// Which accuracy a user may ask of an operation that approximates its result: one with the trait kResultAccuracy.
//
// DEFAULT and HIGHEST have no bounds; TOLERANCE has at least one of an absolute bound, a relative bound and a number of
// units in the last place: |expected - actual| <= max(|expected| * max(rtol, ulps * eps), atol). Only the
// backend knows whether its code keeps the bounds; here the request itself is checked.
#ifndef BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_
#define BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_

#include "core/ops/op_info.h"

namespace backplane {

// InvalidArgument, with `name` in front: [result_accuracy_i1] the operation takes none; [result_accuracy_c1] a bound is
// negative or not finite; [result_accuracy_c2] bounds without TOLERANCE; [result_accuracy_c3] TOLERANCE without bounds.
absl::Status CheckResultAccuracy(Opcode opcode, absl::string_view name, const ResultAccuracy& accuracy);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_RESULT_ACCURACY_H_
