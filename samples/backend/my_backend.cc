// The plugin that docs/writing_a_plugin.md builds step by step.
#include "samples/backend/kernels.h"
#include "sdk/backend/mixed/mixed_backend.h"

namespace backplane {

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  mixed::Options options;
  options.platform_name = "my_backend";
  options.version = "my_backend 0.1.0";
  options.claims = my::MyClaims();
  return mixed::MakeBackend(std::move(options), std::move(services));
}

}  // namespace backplane
