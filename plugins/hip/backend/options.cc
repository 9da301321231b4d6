#include "plugins/hip/backend/options.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/types/status_macros.h"
#include "plugins/hip/lowering/lowering.h"
#include "sdk/backend/build_id.h"
#include "sdk/backend/host_topology.h"

namespace backplane::hip {
namespace {

constexpr char kPlatformOption[] = "platform", kLibraryOption[] = "library", kTargetOption[] = "target",
               kCountOption[] = "device_count", kProductsOption[] = "f32_products", kCopiesOption[] = "operand_copies",
               kSlabOption[] = "memory_slab_bytes", kLibrariesOption[] = "vendor_libraries",
               kProductLibraryOption[] = "product_library", kGraphsOption[] = "graphs",
               kCollectiveLibraryOption[] = "collective_library";
constexpr int64_t kMaxGpus = 1024;
constexpr int64_t kMaxSlabBytes = int64_t{1} << 40;
constexpr size_t kUsualSlabBytes = size_t{32} << 20;
// Environment variables for hosts that pass no options.
constexpr std::pair<const char*, const char*> kVariables[] = {
    {kPlatformOption, "BACKPLANE_HIP_PLATFORM"},
    {kTargetOption, "BACKPLANE_HIP_TARGET"},
    {kProductsOption, "BACKPLANE_HIP_F32_PRODUCTS"},
    {kCopiesOption, "BACKPLANE_HIP_OPERAND_COPIES"},
    {kLibrariesOption, "BACKPLANE_HIP_VENDOR_LIBRARIES"},
    {kProductLibraryOption, "BACKPLANE_HIP_PRODUCT_LIBRARY"},
    {kGraphsOption, "BACKPLANE_HIP_GRAPHS"},
    {kCollectiveLibraryOption, "BACKPLANE_HIP_COLLECTIVE_LIBRARY"}};

absl::StatusOr<std::string> ReadText(const std::string& name, const NamedValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": expected a text"));
}

// Whether the text of an option is `second`; it must be this or `first`.
absl::StatusOr<bool> ReadChoice(const std::string& name, const NamedValue& value, absl::string_view first,
                                absl::string_view second) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(name, value));
  if (text == first || text == second) return text == second;
  return absl::InvalidArgumentError(
      absl::StrCat("create option ", name, ": \"", text, "\"; expected ", first, " or ", second));
}

absl::StatusOr<GraphMode> ReadGraphMode(const std::string& name, const NamedValue& value) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(name, value));
  constexpr std::pair<const char*, GraphMode> kModes[] = {
      {"auto", GraphMode::kAuto}, {"on", GraphMode::kOn}, {"off", GraphMode::kOff}};
  for (const auto& [known, mode] : kModes) {
    if (text == known) return mode;
  }
  return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": \"", text, "\"; expected auto, on or off"));
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const NamedValues& given) {
  Options options;
  NamedValues values = given;
  for (const auto& [option, variable] : kVariables) {
    const char* text = std::getenv(variable);
    if (text != nullptr && *text != 0) values.try_emplace(option, std::string(text));
  }
  for (const auto& [name, value] : values) {
    if (name == kPlatformOption) {
      ASSIGN_OR_RETURN(const std::string platform, ReadText(name, value));
      ASSIGN_OR_RETURN(options.runtime.platform, ParsePlatform(platform));
    } else if (name == kLibraryOption) {
      ASSIGN_OR_RETURN(options.runtime.library, ReadText(name, value));
    } else if (name == kTargetOption) {
      ASSIGN_OR_RETURN(options.target, ReadText(name, value));
    } else if (name == kProductsOption) {
      ASSIGN_OR_RETURN(options.tf32_products, ReadChoice(name, value, "exact", "tf32"));
    } else if (name == kCopiesOption) {
      ASSIGN_OR_RETURN(options.register_copies, ReadChoice(name, value, "async", "registers"));
    } else if (name == kLibrariesOption) {
      ASSIGN_OR_RETURN(options.vendor_libraries, ReadChoice(name, value, "off", "auto"));
    } else if (name == kProductLibraryOption) {
      ASSIGN_OR_RETURN(options.product_library, ReadText(name, value));
    } else if (name == kCollectiveLibraryOption) {
      ASSIGN_OR_RETURN(options.collective_library, ReadText(name, value));
    } else if (name == kGraphsOption) {
      ASSIGN_OR_RETURN(options.graphs, ReadGraphMode(name, value));
    } else if (name == kCountOption) {
      const std::optional<int64_t> count = ReadInteger(value);
      if (!count.has_value() || *count < 1 || *count > kMaxGpus)
        return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": expected 1 to ", kMaxGpus));
      options.device_count = static_cast<int>(*count);
    } else if (name == kMemoryLimitOption) {
      const std::optional<int64_t> bytes = ReadInteger(value);
      if (!bytes.has_value() || *bytes < 1)
        return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": expected at least 1"));
      options.memory_limit_bytes = *bytes;
    } else if (name == kSlabOption) {
      const std::optional<int64_t> bytes = ReadInteger(value);
      if (!bytes.has_value() || *bytes < 0 || *bytes > kMaxSlabBytes)
        return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": expected 0 to ", kMaxSlabBytes));
      options.memory_slab_bytes = *bytes;
    } else if (name != kCollectiveTimeoutOption) {
      return absl::InvalidArgumentError(
          absl::StrCat("create option ", name, ": unknown; known: ",
                       absl::StrJoin({kPlatformOption, kLibraryOption, kTargetOption, kProductsOption, kCopiesOption,
                                      kLibrariesOption, kProductLibraryOption, kGraphsOption, kCollectiveLibraryOption,
                                      kCountOption, kMemoryLimitOption, kSlabOption, kCollectiveTimeoutOption},
                                     ", ")));
    }
  }
  ASSIGN_OR_RETURN(options.collective_time_limit, ReadCollectiveTimeLimitOption(values));
  return options;
}

std::string MakeTargetName(const std::string& machine, const Options& options) {
  absl::string_view name = machine;
  const bool registers = absl::ConsumeSuffix(&name, kRegistersSuffix) || options.register_copies;
  const bool tf32 = absl::ConsumeSuffix(&name, kTf32Suffix) || options.tf32_products;
  return absl::StrCat(name, tf32 ? kTf32Suffix : "", registers ? kRegistersSuffix : "");
}

size_t ChooseSlabBytes(const Options& options, bool emulated) {
  if (options.memory_slab_bytes.has_value()) return static_cast<size_t>(*options.memory_slab_bytes);
  return emulated ? 0 : kUsualSlabBytes;
}

Topology MakeTopology(const std::string& target, const std::vector<DeviceNames>& devices) {
  Topology topology;
  topology.platform_name = "hip";
  topology.platform_version = absl::StrCat("backplane hip 0.1.0; ", target, "; build ", BuildId());
  topology.attributes[kTargetAttribute] = target;
  for (size_t d = 0; d < devices.size(); ++d) {
    const int32_t id = static_cast<int32_t>(d);
    DeviceInfo device;
    device.id = device.local_hardware_id = id;
    device.kind = devices[d].name;
    device.debug_string = absl::StrCat("hip:", d);
    device.to_string = absl::StrCat("HipDevice(id=", d, ")");
    device.attributes["architecture"] = devices[d].architecture;
    device.memories = {2 * id, 2 * id + 1};
    topology.devices.push_back(std::move(device));
    topology.memories.push_back({2 * id, "device", 0, {id}});
    topology.memories.push_back({2 * id + 1, "pinned_host", 1, {id}});
  }
  return topology;
}

}  // namespace backplane::hip
