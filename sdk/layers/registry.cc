// The available layers. To add one, declare its factory here and add a line to kLayers.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/layers/fault/fault.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/record/record.h"
#include "sdk/layers/trace/trace.h"
#include "sdk/layers/validate/validate.h"

namespace backplane::layers {
namespace {

struct Entry {
  const char* name;
  MakeLayer make;
};
constexpr Entry kLayers[] = {
    {"fault", &MakeFaultLayer},
    {"record", &MakeRecordLayer},
    {"trace", &MakeTraceLayer},
    {"validate", &MakeValidateLayer},
};

}  // namespace

std::vector<std::string> LayerNames() {
  std::vector<std::string> names;
  for (const Entry& e : kLayers) names.emplace_back(e.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Layer>> MakeLayerByName(absl::string_view name, const Options& options) {
  for (const Entry& e : kLayers) {
    if (name == e.name) return e.make(options);
  }
  return absl::NotFoundError(
      absl::StrCat("no layer '", name, "', expected one of ", absl::StrJoin(LayerNames(), ", ")));
}

}  // namespace backplane::layers
