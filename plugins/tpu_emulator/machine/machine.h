// A tiled TPU in numbers: everything about a chip that layouts, limits and the clock ask for.
//
// Five machines are known by name (v4, v5e, v5p, v6e, tpu7x); a user's own is a JSON object of the same fields. Figures
// are those of one device as JAX counts devices: one core of v4 and tpu7x, the whole chip of v5e and v6e, two cores
// working as one ("megacore") of v5p. Where a figure holds for one core instead, its comment says so.
//
// Sources, in the comments below: [doc] published by the maker (cloud documentation, "How to Scale Your Model", the v4
// paper, JAX's tpu_info); [compiler] an answer of the maker's compiler run ahead of time (limits it refuses at, the
// bandwidth its roofline implies, cycles it estimates); [fit] a constant fitted to such estimates, clock.h says to
// which; [inferred] follows from other figures or from a sister machine.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_MACHINE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_MACHINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/types/primitive_type.h"

namespace backplane::tpu {

struct Machine {
  std::string name;  // as printed in reports; the key of FindMachine for the built-in ones

  // The matrix unit: arrays of array_side x array_side cells.
  int64_t array_side = 0;       // cells; 128, from v6e 256 [doc]
  int64_t arrays_per_core = 0;  // physical arrays a core; 4, from v6e 2 [doc]
  // bf16 multiply-adds a cycle and core. Peak divided by twice the clock; from v6e on it is twice what the physical
  // arrays give at one multiply-add a cell and cycle [doc, v6e and tpu7x inferred]: EffectiveArrays() counts with it.
  int64_t macs_per_cycle = 0;
  double clock_ghz = 0;          // 1.05 and 1.5 [doc]; v5p, v6e, tpu7x: peak over macs [inferred]
  int64_t cores_per_device = 0;  // 2 for a megacore, else 1 [compiler]

  // The vector unit, of one core.
  double vpu_issue =
      0;  // vector registers an elementwise operation finishes a cycle: 2 (v4), 4 (later) [doc; v6e, tpu7x inferred]
  int64_t vpu_vregs =
      0;  // registers of tile_rows x tile_lanes words of 32 bits: 32 (v4), 64 (v5p) [doc], others inferred

  // Memories, of a device unless said otherwise.
  int64_t vmem_bytes = 0;         // of one core [doc]
  int64_t scoped_vmem_bytes = 0;  // what one kernel may take of it by default [compiler]
  int64_t hbm_bytes = 0;          // what a program may use; a little less than is fitted [compiler]
  double hbm_gb_per_s = 0;        // peak, 1e9 bytes a second [doc]
  double hbm_efficiency = 0;      // part of the peak that large transfers reach, 0 to 1 [compiler]
  int64_t smem_bytes = 0;         // of one core: scalars [doc]
  int64_t cmem_bytes = 0;         // only v4 has one: half of the chip's 128 MiB [doc]
  double cmem_gb_per_s = 0;       // from there to VMEM; 0: read where it is, as quick as VMEM [fit]

  // Between chips.
  int64_t ici_links = 0;        // links of a chip: two for each dimension of the torus [doc]
  double ici_gb_per_s = 0;      // one link in one direction, 1e9 bytes a second [doc; tpu7x inferred]
  int64_t torus_rank = 0;       // 2 or 3 [doc]
  double hop_microseconds = 0;  // latency from chip to neighbour; 1 [doc for v5e, others inferred]
  double pcie_gb_per_s = 0;     // host to device [doc; v4, v5p, tpu7x inferred]

  // The tile of a vector register: layouts are made of it.
  int64_t tile_rows = 0;   // sublanes; 8 [doc]
  int64_t tile_lanes = 0;  // 128 [doc]

  // What a kernel costs before it does anything, in cycles.
  double matmul_kernel_cycles = 0;   // one with a matrix product in it [fit]
  double integer_kernel_cycles = 0;  // more that a product of integers costs [fit]
  double vector_kernel_cycles = 0;   // any other [fit]
  double dispatch_microseconds = 0;  // host to device and back, a program; 100, from published wall clocks [inferred]

  // Constants of the clock's model of a matrix product; clock.h says how they are used.
  double weight_load_rows = 0;   // fewest cycles between two loads of an array's weights [fit]
  double turned_load_rows = 0;   // of weights whose inner dimension lies along the lanes [fit]
  double split_load_rows = 0;    // of weights that are parts of f32, for each pass [fit]
  double row_cycles = 0;         // cycles a row of the streamed operand takes, at least 1 [fit]
  double window_cycles = 0;      // start of the copies of one window [fit]
  double accumulate_cycles = 0;  // adding one register of sums when the inner dimension is cut [fit]
  double convert_ops = 0;        // to turn a register of another type into one that the array takes [fit for v4]
  double exposed_share = 0;      // part of the vector unit's time that does not hide behind a longer unit [inferred]

  // Speed of the array by the operands' type, bf16 being 1: its multiply-adds a cycle over bf16's. A type that is not
  // named is converted to bf16 first and runs at 1. [compiler; where published peaks are higher than what the
  // compiler reckons with (4-bit integers), the compiler's]
  std::vector<std::pair<PrimitiveType, double>> type_speed;
  // Operand types (left, right) that the array takes without a conversion [doc].
  std::vector<std::pair<PrimitiveType, PrimitiveType>> native_inputs;

  // Arrays of array_side^2 cells, one multiply-add a cell and cycle, that give the whole device's peak.
  double EffectiveArrays() const;
  double TypeSpeed(PrimitiveType type) const;
  bool IsNative(PrimitiveType lhs, PrimitiveType rhs) const;
  double PeakBf16Flops() const;      // a second, whole device; two for each multiply-add
  double HbmBytesPerSecond() const;  // peak times efficiency
  double CyclesPerSecond() const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

// v4, v5e, v5p, v6e, tpu7x, in this order. The machines live as long as the process.
absl::Span<const Machine> KnownMachines();

// Null when there is none of this name.
const Machine* FindMachine(absl::string_view name);

// A machine of one's own. `json` is one object; its keys are the fields above plus, optionally, "base": the name of the
// known machine that the fields not given are taken from. Without a base every field must be there.
//   {"base": "v5e", "name": "half", "arrays_per_core": 2, "macs_per_cycle": 32768, "hbm_gb_per_s": 410}
// "type_speed" is an object from type names to numbers, "native_inputs" an array of "lhs*rhs"; each replaces the
// base's. InvalidArgument: not JSON, a field unknown or of the wrong type or out of range, fields that contradict each
// other. With a base and no name, the name becomes "<base> (changed)".
absl::StatusOr<Machine> ReadMachine(absl::string_view json);

// All fields, in the order above, two spaces of indentation; ReadMachine gives the same machine back.
std::string WriteMachine(const Machine& machine);

// A refusal for fields that are out of range or contradict each other; ReadMachine has called it.
absl::Status CheckMachine(const Machine& machine);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_MACHINE_H_
