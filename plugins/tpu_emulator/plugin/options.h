// The options of the emulated machine, and the topology that they give.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_OPTIONS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/prepare.h"
#include "sdk/backend/backend.h"

namespace backplane::tpu {

inline constexpr char kPlatformName[] = "tiledtpu";
inline constexpr char kVersion[] = "backplane tpu emulator 0.1.0";

// The contents of memory that nothing has written, including the padding of tiles. Results never depend on it.
enum class Poison : uint8_t { kNone, kZero, kNan, kRandom };

// Create options. If an option is not given, its environment variable is used:
//
//   chip      TILEDTPU_CHIP      v4, v5e (the default), v5p, v6e, tpu7x, or the path of a machine as JSON (machine.h)
//   topology  TILEDTPU_TOPOLOGY  devices along each axis of the torus, "2x2" or "2x2x1"; one device when not given.
//                                At most 3 axes and 1024 devices
//   poison    TILEDTPU_POISON    none (the default: whatever the host's allocator leaves), zero, nan (all bits set:
//                                NaN in every floating type, -1 in integers), random
//   round     TILEDTPU_ROUND     where narrow floats are rounded: fusion (the default: once per fusion), op (after
//                                every operation)
//   f64       TILEDTPU_F64       how f64 is computed: ieee (the default), or pairs of f32 as TPUs do (f64_pairs.h)
//   report    TILEDTPU_REPORT    a folder into which a report of each compiled program is written; none when not given
//   collective_timeout_seconds   how long devices wait for one another (sdk/backend/host_topology.h); a create option
//                                only, without a variable
//
// A topology's name, for compiling without devices, is "chip" or "chip:topology", as in "v5e:2x2".
struct EmulatorOptions {
  Machine machine;
  std::vector<int64_t> torus;  // devices along x, y, z; three entries
  Poison poison = Poison::kNone;
  Round round = Round::kFusion;
  F64 f64 = F64::kIeee;
  std::string report;  // a folder; empty: no reports
  std::chrono::milliseconds collective_timeout{};

  int64_t device_count() const { return torus[0] * torus[1] * torus[2]; }
};

// Returns InvalidArgument, with the name of the option or variable, for unknown names and invalid values, and NotFound
// for a missing file.
absl::StatusOr<EmulatorOptions> ReadOptions(absl::string_view topology_name, const NamedValues& options);

// Devices are in x-fastest order. Each has JAX's attributes "coords" (x, y, z) and "core_on_chip" (0), the memories of
// HostTopology, and a kind that JAX's libraries know for the built-in chips ("TPU v5 lite"). The topology's attribute
// "machine" is the machine as JSON; "torus", "round", "f64" and "report" are the options. Its version is
// ComputeVersion. In a program of several processes each has such a torus; they are stacked along z in the order of the
// processes, and `process` is the index of this one.
Topology MakeTopology(const EmulatorOptions& options, int64_t process = 0);

// Returns the options of a topology made by MakeTopology, as far as a compiler needs them: machine, torus, round, f64,
// report.
absl::StatusOr<EmulatorOptions> ReadOptionsFromTopology(const Topology& topology);

// Returns a text that identifies the plugin, the machine, and all options that change a program or its properties.
// Programs compiled under another version must not be run.
std::string ComputeVersion(const EmulatorOptions& options);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_OPTIONS_H_
