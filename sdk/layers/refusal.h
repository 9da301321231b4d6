// A table whose functions all fail. The library returns it for an invalid configuration, because GetPjrtApi itself
// cannot return an error.
#ifndef BACKPLANE_SDK_LAYERS_REFUSAL_H_
#define BACKPLANE_SDK_LAYERS_REFUSAL_H_

#include <string>

#include "api/pjrt_c_api.h"

namespace backplane::layers {

// Every function returns FAILED_PRECONDITION with this message; errors can be read and destroyed. The table lives until
// the process ends. Later calls return the table of the first call.
const PJRT_Api* MakeRefusalTable(const std::string& message);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_REFUSAL_H_
