// The kernels and constants of a program, which stay on a device as long as the program is loaded.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_RESIDENCE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_RESIDENCE_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "plugins/hip/backend/client.h"
#include "plugins/hip/backend/executable.h"
#include "plugins/hip/backend/graph_cache.h"

namespace backplane::hip {

// Immutable, apart from the graphs.
class Residence {
 public:
  // The executable must outlive every launch of the residence.
  static absl::StatusOr<std::unique_ptr<Residence>> Make(Runtime& runtime, int32_t device,
                                                         const HipExecutable& executable, ProductChoices& chosen);

  const LoadedKernels& kernels() const { return *kernels_; }
  absl::Span<void* const> constants() const { return addresses_; }
  GraphCache* graphs() const { return graphs_.get(); }  // null: kernels are started singly

 private:
  std::unique_ptr<LoadedKernels> kernels_;
  std::vector<std::shared_ptr<Storage>> constants_;
  std::vector<void*> addresses_;
  std::unique_ptr<GraphCache> graphs_;  // destroyed before the kernels
};

// The residences of a loaded program, made at the first launch on each device. Thread-safe.
class Residences {
 public:
  absl::StatusOr<const Residence*> Find(Runtime& runtime, int32_t device, const HipExecutable& executable);

 private:
  ProductChoices chosen_;  // of all devices; guarded by the tuner
  Mutex mu_;
  std::vector<std::unique_ptr<Residence>> by_device_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_RESIDENCE_H_
