#include "plugins/tpu_emulator/plugin/options.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/fnv.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_topology.h"
#include "sdk/backend/processes/process_group.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kMaxEmulatedDevices = 1024;
constexpr size_t kMaxMachineBytes = 1 << 20;

// A value and its source, for error messages.
struct Setting {
  std::string value, source;
};

absl::StatusOr<Setting> FindSetting(const NamedValues& options, const std::string& name, const char* variable,
                                    absl::string_view fallback) {
  const auto at = options.find(name);
  if (at != options.end()) {
    const std::string* text = std::get_if<std::string>(&at->second);
    if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": must be a string"));
    return Setting{*text, absl::StrCat("create option ", name)};
  }
  if (const char* value = std::getenv(variable); value != nullptr && *value != 0) {
    return Setting{value, absl::StrCat("environment variable ", variable)};
  }
  return Setting{std::string(fallback), name};
}

absl::StatusOr<Machine> ReadChip(const Setting& chip) {
  if (const Machine* known = FindMachine(chip.value)) return *known;
  std::ifstream file(chip.value, std::ios::binary);
  if (!file) {
    auto name = [](std::string* out, const Machine& m) { out->append(m.name); };
    return absl::NotFoundError(
        absl::StrCat(chip.source, ": '", chip.value,
                     "' is neither a file nor a known chip; known: ", absl::StrJoin(KnownMachines(), ", ", name)));
  }
  std::string text(kMaxMachineBytes + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxMachineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(chip.source, ": ", chip.value, ": is larger than a machine can be"));
  }
  absl::StatusOr<Machine> machine = ReadMachine(text);
  if (!machine.ok()) {
    return absl::Status(machine.status().code(),
                        absl::StrCat(chip.source, ": ", chip.value, ": ", machine.status().message()));
  }
  return machine;
}

absl::StatusOr<std::vector<int64_t>> ReadTorus(const Setting& topology) {
  std::vector<int64_t> torus;
  int64_t devices = 1;
  for (absl::string_view axis : absl::StrSplit(topology.value, 'x')) {
    int64_t n = 0;
    if (!absl::SimpleAtoi(axis, &n) || n < 1 || n > kMaxEmulatedDevices || (devices *= n) > kMaxEmulatedDevices ||
        torus.size() == 3) {
      return absl::InvalidArgumentError(absl::StrCat(
          topology.source, ": '", topology.value, "' is no topology; expected up to three sizes as in 2x2x1, at most ",
          kMaxEmulatedDevices, " devices in all"));
    }
    torus.push_back(n);
  }
  torus.resize(3, 1);
  return torus;
}

absl::StatusOr<Poison> ReadPoison(const Setting& poison) {
  if (poison.value == "none") return Poison::kNone;
  if (poison.value == "zero") return Poison::kZero;
  if (poison.value == "nan") return Poison::kNan;
  if (poison.value == "random") return Poison::kRandom;
  return absl::InvalidArgumentError(
      absl::StrCat(poison.source, ": '", poison.value, "': must be none, zero, nan or random"));
}

absl::StatusOr<Round> ReadRound(const Setting& round) {
  if (round.value == "fusion") return Round::kFusion;
  if (round.value == "op") return Round::kOp;
  return absl::InvalidArgumentError(absl::StrCat(round.source, ": '", round.value, "': must be fusion or op"));
}

absl::StatusOr<F64> ReadF64(const Setting& f64) {
  if (f64.value == "ieee") return F64::kIeee;
  if (f64.value == "pairs") return F64::kPairs;
  return absl::InvalidArgumentError(absl::StrCat(f64.source, ": '", f64.value, "': must be ieee or pairs"));
}

// Returns the device kind by which JAX's libraries know the chip.
std::string DeviceKind(const Machine& machine) {
  static constexpr std::pair<const char*, const char*> kKinds[] = {
      {"v4", "TPU v4"}, {"v5e", "TPU v5 lite"}, {"v5p", "TPU v5"}, {"v6e", "TPU v6 lite"}, {"tpu7x", "TPU7x"}};
  for (const auto& [name, kind] : kKinds) {
    if (machine.name == name) return kind;
  }
  return absl::StrCat("TPU ", machine.name);
}

}  // namespace

absl::StatusOr<EmulatorOptions> ReadOptions(absl::string_view topology_name, const NamedValues& options) {
  for (const auto& [name, value] : options) {
    if (name != "chip" && name != "topology" && name != "poison" && name != "round" && name != "f64" &&
        name != "report" && name != kCollectiveTimeoutOption) {
      return absl::InvalidArgumentError(absl::StrCat("create option ", name,
                                                     ": unknown; known: chip, topology, poison, round, f64, report, ",
                                                     kCollectiveTimeoutOption, ", ", kProcessOptionNames));
    }
  }
  ASSIGN_OR_RETURN(Setting chip, FindSetting(options, "chip", "TILEDTPU_CHIP", "v5e"));
  ASSIGN_OR_RETURN(Setting topology, FindSetting(options, "topology", "TILEDTPU_TOPOLOGY", "1"));
  if (!topology_name.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(topology_name, absl::MaxSplits(':', 1));
    chip = {parts[0], "topology name"};
    if (parts.size() > 1) topology = {parts[1], "topology name"};
  }
  EmulatorOptions out;
  ASSIGN_OR_RETURN(out.machine, ReadChip(chip));
  ASSIGN_OR_RETURN(out.torus, ReadTorus(topology));
  ASSIGN_OR_RETURN(Setting poison, FindSetting(options, "poison", "TILEDTPU_POISON", "none"));
  ASSIGN_OR_RETURN(out.poison, ReadPoison(poison));
  ASSIGN_OR_RETURN(Setting round, FindSetting(options, "round", "TILEDTPU_ROUND", "fusion"));
  ASSIGN_OR_RETURN(out.round, ReadRound(round));
  ASSIGN_OR_RETURN(Setting f64, FindSetting(options, "f64", "TILEDTPU_F64", "ieee"));
  ASSIGN_OR_RETURN(out.f64, ReadF64(f64));
  ASSIGN_OR_RETURN(Setting report, FindSetting(options, "report", "TILEDTPU_REPORT", ""));
  out.report = std::move(report.value);
  ASSIGN_OR_RETURN(out.collective_timeout, ReadCollectiveTimeLimitOption(options));
  return out;
}

Topology MakeTopology(const EmulatorOptions& options, int64_t process) {
  Topology topology = HostTopology(ComputeVersion(options), static_cast<int>(options.device_count()));
  topology.platform_name = kPlatformName;
  topology.attributes["machine"] = WriteMachine(options.machine);
  topology.attributes["torus"] = options.torus;
  topology.attributes["round"] = std::string(options.round == Round::kOp ? "op" : "fusion");
  topology.attributes["f64"] = std::string(options.f64 == F64::kPairs ? "pairs" : "ieee");
  if (!options.report.empty()) topology.attributes["report"] = options.report;
  const std::string kind = DeviceKind(options.machine);
  for (DeviceInfo& device : topology.devices) {
    const int64_t x = device.id % options.torus[0], y = device.id / options.torus[0] % options.torus[1],
                  z = device.id / (options.torus[0] * options.torus[1]) + process * options.torus[2];
    device.kind = kind;
    device.debug_string = absl::StrCat(kPlatformName, ":", device.id, " ", kind, " at (", x, ",", y, ",", z, ")");
    device.to_string = absl::StrCat("TiledTpuDevice(id=", device.id, ", coords=(", x, ",", y, ",", z, "))");
    device.attributes["coords"] = std::vector<int64_t>{x, y, z};
    device.attributes["core_on_chip"] = int64_t{0};
    device.attributes["slice_index"] = int64_t{0};
    device.attributes["slice_index"] = int64_t{0};
    device.attributes["num_cores"] = options.machine.cores_per_device;
  }
  return topology;
}

absl::StatusOr<EmulatorOptions> ReadOptionsFromTopology(const Topology& topology) {
  auto text = [&](const char* name) -> const std::string* {
    const auto at = topology.attributes.find(name);
    return at == topology.attributes.end() ? nullptr : std::get_if<std::string>(&at->second);
  };
  const std::string* machine = text("machine");
  if (machine == nullptr) {
    return absl::InvalidArgumentError("topology: not one of the TPU emulator: it names no machine");
  }
  EmulatorOptions options;
  ASSIGN_OR_RETURN(options.machine, ReadMachine(*machine));
  options.torus = {static_cast<int64_t>(topology.devices.size()), 1, 1};
  if (const auto at = topology.attributes.find("torus"); at != topology.attributes.end()) {
    if (const auto* torus = std::get_if<std::vector<int64_t>>(&at->second); torus != nullptr && torus->size() == 3)
      options.torus = *torus;
  }
  if (const std::string* round = text("round"); round != nullptr) {
    ASSIGN_OR_RETURN(options.round, ReadRound({*round, "topology"}));
  }
  if (const std::string* f64 = text("f64"); f64 != nullptr) {
    ASSIGN_OR_RETURN(options.f64, ReadF64({*f64, "topology"}));
  }
  if (const std::string* report = text("report"); report != nullptr) options.report = *report;
  return options;
}

std::string ComputeVersion(const EmulatorOptions& options) {
  // The hash need not resist attacks, but must tell apart two machines with the same name.
  const uint64_t digest =
      Fnv1a64(absl::StrCat(WriteMachine(options.machine), options.round == Round::kOp ? "op" : "fusion",
                           options.f64 == F64::kPairs ? "pairs" : ""));
  return absl::StrCat(kVersion, "; ", options.machine.name, " ", absl::Hex(digest, absl::kZeroPad16));
}

}  // namespace backplane::tpu
