// Errors for programs that do not fit a machine, in the words of the machine's compiler, because that is what users
// search for.
//
// The functions work on a plain list of allocations. Every error is ResourceExhausted. Its message ends with a table of
// the largest allocations: what each one is, which line of the user's program it belongs to, and how much of it is
// padding.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CAPACITY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CAPACITY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "plugins/tpu_emulator/machine/machine.h"

namespace backplane::tpu {

struct Allocation {
  std::string name;           // the instruction, with or without percent sign: "%fusion.3"; may be empty
  std::string operator_name;  // the framework's name: "jit(f)/dot_general"; empty if there is none
  std::string shape;          // with layout: "bf16[9,129]{1,0:T(8,128)(2,1)}"
  std::string kind;           // "HLO temp", "Arguments", "Output", "scoped", ...
  std::string source_file;    // empty if unknown
  int64_t source_line = 0;
  int64_t padded_bytes = 0, unpadded_bytes = 0;
};

// Formats a size in powers of 1024, with one decimal for K and two above: "0B", "1000B", "4.0K", "30.00M", "16.00G".
std::string FormatBytes(int64_t bytes);

// Describes the `most` largest allocations by padded bytes, numbered, one block each. Equal ones keep the given order.
//   Largest program allocations in hbm:
//
//     1. Size: 32.00G
//        Operator: op_name="jit(f)/add" source_file="f.py" source_line=7
//        Shape: f32[8388608,8,4]{2,1,0:T(8,128)}
//        Unpadded size: 1.00G
//        Extra memory due to padding: 31.00G (32.0x expansion)
//        XLA label: %fusion.3
//        Allocation type: HLO temp
//        ==========================
// Lines without a value are left out. `space` is "hbm" or "vmem".
std::string DescribeLargestAllocations(absl::string_view space, absl::Span<const Allocation> allocations,
                                       int most = 20);

// The padding of all allocations together: "Padding takes 31.00G of 32.00G (96.9%)."; empty if there is none.
std::string DescribePadding(absl::Span<const Allocation> allocations);

// Returns OK if `required_bytes` fits the machine's HBM. It is the peak of arguments, results and temporaries.
absl::Status CheckHbm(const Machine& machine, absl::string_view module_name, int64_t required_bytes,
                      absl::Span<const Allocation> allocations);

// Returns OK if the scoped VMEM of one kernel fits the machine's limit. `instruction` is the kernel as HLO text.
absl::Status CheckScopedVmem(const Machine& machine, absl::string_view instruction, int64_t scoped_bytes,
                             absl::Span<const Allocation> allocations);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CAPACITY_H_
