// Programs on several devices: the meaning of each instruction on all devices at once.
//
// The devices form a grid of replicas and partitions, as the module states. A device has the number replica *
// partitions + partition. All devices run the same instructions, each on its own values. Only collectives and the
// device's own numbers differ, and they occur in the entry computation only; called computations are evaluated for each
// device separately. The rules are implemented here independently of core/analysis and of the plugins' collectives, so
// that an error there is detected.
#ifndef BACKPLANE_SDK_CLI_FUZZ_DEVICES_H_
#define BACKPLANE_SDK_CLI_FUZZ_DEVICES_H_

#include <functional>
#include <vector>

#include "sdk/cli/fuzz/bounds.h"

namespace backplane::cli::fuzz {

struct Devices {
  int64_t replicas = 1, partitions = 1;
  int64_t count() const { return replicas * partitions; }
};
Devices GetDevices(const Module& module);

// Returns the argument of a device, derived from the one in the program: the elements are rotated by the device's
// number, so that devices have different values of the same kind. Scalars are the same everywhere, because they control
// loops, and so are stacks of square matrices, whose properties would be lost.
Literal MakeDeviceArgument(const Literal& argument, int64_t device);

// Evaluates one instruction on all devices; operands[d] are those of device d.
absl::StatusOr<std::vector<BoundedValue>> BoundOnDevices(const Instruction& instruction,
                                                         absl::Span<const std::vector<const BoundedValue*>> operands,
                                                         const Devices& devices);

using BoundedValues = absl::flat_hash_map<const Instruction*, BoundedValue>;

// Hooks for a known error (explain.h): what it does to the operands that an instruction reads, and to its result.
struct BoundingHooks {
  std::function<absl::Status(const Instruction&, std::vector<BoundedValue>& operands)> read;
  std::function<void(const Instruction&, BoundedValue&)> given;
};

// Evaluates the entry computation with these arguments (of the first device, see MakeDeviceArgument). Returns the
// result; on several devices a tuple of the results of each. `all`, if given, receives the value of each instruction on
// the first device.
absl::StatusOr<BoundedValue> BoundEntry(const Module& module, absl::Span<const Literal> arguments,
                                        BoundedValues* all = nullptr, const BoundingHooks& change = {});
// The same on one device, for arguments that are results with bounds.
absl::StatusOr<BoundedValue> BoundEntryWith(const Module& module, absl::Span<const BoundedValue> arguments,
                                            const BoundingHooks& change = {});

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_DEVICES_H_
