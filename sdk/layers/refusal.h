// A table for the host when there is nothing to hand out: GetPjrtApi cannot fail, but each of its functions can.
#ifndef BACKPLANE_SDK_LAYERS_REFUSAL_H_
#define BACKPLANE_SDK_LAYERS_REFUSAL_H_

#include <string>

#include "api/pjrt_c_api.h"

namespace backplane::layers {

// Every function answers FAILED_PRECONDITION with this message; errors can be read and destroyed. Lives until the
// process ends; later calls return the table of the first.
const PJRT_Api* RefusalTable(const std::string& message);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_REFUSAL_H_
