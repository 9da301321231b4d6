// Programs of several devices: what each instruction means on all of them at once.
//
// The devices of a program are a grid of replicas and partitions, as its module says; a device is named by the number
// replica * partitions + partition. All run the same instructions in step, each on its own values. Only collectives and
// the device's own numbers tell them apart, and those stand in the entry computation; what the entry calls is judged
// device by device. The rules are written down here once more, apart from core/analysis and the plugins' collectives,
// so that a mistake there is not this tool's mistake too.
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
Devices DevicesOf(const Module& module);

// The argument of a device, made of the one that the program holds: its elements moved on by as many places as the
// device's number says, so that devices hold different values of the same kind. Scalars are the same everywhere (they
// steer loops), and so are stacks of square matrices, whose properties would be lost.
Literal ArgumentOf(const Literal& argument, int64_t device);

// One instruction on all devices; operands[d] are those of device d.
absl::StatusOr<std::vector<Judged>> JudgeOnDevices(const Instruction& instruction,
                                                   absl::Span<const std::vector<const Judged*>> operands,
                                                   const Devices& devices);

using JudgedValues = absl::flat_hash_map<const Instruction*, Judged>;

// What a way to be wrong (explain.h) does to the operands that an instruction reads, and to what it gives.
struct JudgingChange {
  std::function<absl::Status(const Instruction&, std::vector<Judged>& operands)> read;
  std::function<void(const Instruction&, Judged&)> given;
};

// The entry with these arguments (of the first device, see ArgumentOf): the result, of several devices a tuple of the
// results of each. `all`, if given, receives what each instruction is on the first device.
absl::StatusOr<Judged> JudgeEntry(const Module& module, absl::Span<const Literal> arguments,
                                  JudgedValues* all = nullptr, const JudgingChange& change = {});

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_DEVICES_H_
