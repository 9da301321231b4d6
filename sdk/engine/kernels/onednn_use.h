// Says whether this process has a use for oneDNN.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_USE_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_USE_H_

namespace backplane::engine {

// Returns whether a product or a convolution was planned with oneDNN. Thread-safe.
bool HasUseForOneDnn();

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_USE_H_
