#include "api/extensions/shardings.h"

#include "sdk/shim/executable_views.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

// No lists mean that nothing is known, as published.
void Put(const std::optional<StringViews>& views, size_t& count, const char* const*& shardings, const size_t*& sizes) {
  count = views ? views->strings.size() : 0;
  shardings = views ? views->pointers.data() : nullptr;
  sizes = views ? views->sizes.data() : nullptr;
}

absl::Status ShardingsOfParameters(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& a) {
  BP_REQUIRE(a.executable);
  Put(a.executable->views().parameter_shardings, a.num_parameters, a.shardings, a.sharding_sizes);
  return absl::OkStatus();
}

absl::Status ShardingsOfOutputs(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& a) {
  BP_REQUIRE(a.executable);
  Put(a.executable->views().output_shardings, a.num_outputs, a.shardings, a.sharding_sizes);
  return absl::OkStatus();
}

}  // namespace

PJRT_Extension_Base* ShardingsExtension() {
  static PJRT_Shardings_Extension extension = [] {
    PJRT_Shardings_Extension e{};
    e.base = {PJRT_Shardings_Extension_STRUCT_SIZE, PJRT_Extension_Type_Shardings, nullptr};
    e.PJRT_Shardings_PJRT_Executable_ParameterShardings =
        BP_ENTRY(PJRT_Shardings_PJRT_Executable_ParameterShardings, &ShardingsOfParameters);
    e.PJRT_Shardings_PJRT_Executable_OutputShardings =
        BP_ENTRY(PJRT_Shardings_PJRT_Executable_OutputShardings, &ShardingsOfOutputs);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
