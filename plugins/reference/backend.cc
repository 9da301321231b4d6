// The reference plugin: the evaluator behind the C ABI, a mixed backend without claims. Other plugins are compared with
// it.
#include "sdk/backend/mixed/mixed_backend.h"

namespace backplane {

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  mixed::Options options;
  options.platform_name = "cpu";
  options.version = "backplane reference 0.1.0";
  options.device_count_option = "cpu_device_count";
  return mixed::MakeBackend(std::move(options), std::move(services));
}

}  // namespace backplane
