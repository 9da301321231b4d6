// The kernels of the samples: a matrix product, and elementwise formulas in one pass over memory.
#ifndef BACKPLANE_SAMPLES_BACKEND_KERNELS_H_
#define BACKPLANE_SAMPLES_BACKEND_KERNELS_H_

#include "sdk/backend/mixed/claims.h"

namespace my {

backplane::mixed::Claims MyClaims();

}  // namespace my

#endif  // BACKPLANE_SAMPLES_BACKEND_KERNELS_H_
