// The parameters of a tiled TPU that layouts, memory limits and the clock depend on.
//
// Five machines are built in (v4, v5e, v5p, v6e, tpu7x). A user-defined machine is a JSON object with the same fields.
// Figures are per device, as JAX counts devices: one core of v4 and tpu7x, the whole chip of v5e and v6e, and two cores
// that work as one ("megacore") of v5p. A comment says so if a figure is per core.
//
// Sources of the figures: [doc] published by the maker (cloud documentation, "How to Scale Your Model", the v4 paper,
// JAX's tpu_info). [compiler] an answer of the maker's compiler, run ahead of time (the limits that it enforces, the
// bandwidth of its roofline, its cycle estimates). [fit] a constant fitted to such estimates; see clock.h. [inferred]
// derived from other figures or from a similar machine.
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

// The largest array that a description of a machine may name.
inline constexpr int64_t kMaxArraySide = 1024;

struct Machine {
  std::string name;  // as printed in reports; the key of FindMachine for built-in machines

  // The matrix unit: arrays of array_side x array_side cells.
  int64_t array_side = 0;       // cells; 128, from v6e 256 [doc]
  int64_t arrays_per_core = 0;  // physical arrays per core; 4, from v6e 2 [doc]
  // bf16 multiply-adds per cycle and core: the peak divided by twice the clock. From v6e on this is twice what the
  // physical arrays give at one multiply-add per cell and cycle [doc, v6e and tpu7x inferred]; see EffectiveArrays().
  int64_t macs_per_cycle = 0;
  double clock_ghz = 0;          // 1.05 and 1.5 [doc]; v5p, v6e, tpu7x: peak over multiply-adds [inferred]
  int64_t cores_per_device = 0;  // 2 for a megacore, else 1 [compiler]

  // The vector unit, per core.

  // Vector registers that an elementwise operation finishes per cycle: 2 (v4), 4 (later) [doc; v6e, tpu7x inferred].
  double vpu_issue = 0;
  // Vector registers of tile_rows x tile_lanes words of 32 bits: 32 (v4), 64 (v5p) [doc], others [inferred].
  int64_t vpu_vregs = 0;

  // Memories, per device unless said otherwise.
  int64_t vmem_bytes = 0;         // per core [doc]
  int64_t scoped_vmem_bytes = 0;  // what one kernel may use of it by default [compiler]
  int64_t hbm_bytes = 0;          // what a program may use; a little less than the installed size [compiler]
  double hbm_gb_per_s = 0;        // peak, 1e9 bytes per second [doc]
  double hbm_efficiency = 0;      // fraction of the peak that large transfers reach, 0 to 1 [compiler]
  int64_t smem_bytes = 0;         // per core, for scalars [doc]
  int64_t cmem_bytes = 0;         // only v4 has one: half of the chip's 128 MiB [doc]
  double cmem_gb_per_s = 0;  // from CMEM to VMEM; 0: operands are read from CMEM directly, as fast as from VMEM [fit]

  // Between chips.
  int64_t ici_links = 0;        // links per chip: two for each dimension of the torus [doc]
  double ici_gb_per_s = 0;      // one link in one direction, 1e9 bytes per second [doc; tpu7x inferred]
  int64_t torus_rank = 0;       // 2 or 3 [doc]
  double hop_microseconds = 0;  // latency from a chip to its neighbour; 1 [doc for v5e, others inferred]
  double pcie_gb_per_s = 0;     // host to device [doc; v4, v5p, tpu7x inferred]

  // The tile of a vector register, which layouts are made of.
  int64_t tile_rows = 0;   // sublanes; 8 [doc]
  int64_t tile_lanes = 0;  // 128 [doc]

  // The fixed cost of a kernel, in cycles.
  double matmul_kernel_cycles = 0;   // a kernel with a matrix product [fit]
  double integer_kernel_cycles = 0;  // in addition for a product of integers [fit]
  double vector_kernel_cycles = 0;   // any other kernel [fit]
  double dispatch_microseconds = 0;  // host to device and back, per program; 100, from published wall clocks [inferred]

  // Constants of the clock's model of a matrix product; see clock.h.

  // The smallest number of cycles between two loads of an array's weights [fit].
  double weight_load_rows = 0;
  // The same for weights whose inner dimension is minor; they are loaded transposed [fit].
  double transposed_load_rows = 0;
  // The same for weights that are bf16 parts of f32, per pass [fit].
  double split_load_rows = 0;
  double row_cycles = 0;         // cycles per row of the streamed operand, at least 1 [fit]
  double window_cycles = 0;      // start of the copies of a window [fit]
  double accumulate_cycles = 0;  // adding one register of sums if the inner dimension is split [fit]
  double convert_ops = 0;    // vector operations to convert a register to a type that the array supports [fit for v4]
  double exposed_share = 0;  // fraction of the vector unit's time that is not hidden behind a longer unit [inferred]

  // Speed of the array by operand type, relative to bf16: the ratio of multiply-adds per cycle. A type that is not
  // listed is converted to bf16 first and runs at speed 1. [compiler; also where published peaks are higher (4-bit
  // integers)]
  std::vector<std::pair<PrimitiveType, double>> type_speed;
  // Operand types (left, right) that the array supports without a conversion [doc].
  std::vector<std::pair<PrimitiveType, PrimitiveType>> native_inputs;

  // The number of arrays of array_side^2 cells, at one multiply-add per cell and cycle, that give the peak of the
  // device.
  double EffectiveArrays() const;
  double TypeSpeed(PrimitiveType type) const;
  bool IsNative(PrimitiveType lhs, PrimitiveType rhs) const;
  double PeakBf16Flops() const;      // per second, for the whole device; two per multiply-add
  double HbmBytesPerSecond() const;  // peak times efficiency
  double CyclesPerSecond() const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

// The built-in machines v4, v5e, v5p, v6e, tpu7x, in this order. They live as long as the process.
absl::Span<const Machine> KnownMachines();

// Returns null if no built-in machine has this name.
const Machine* FindMachine(absl::string_view name);

// Reads a user-defined machine. `json` is one object. Its keys are the fields above and, optionally, "base": the name
// of a built-in machine that supplies the missing fields. Without a base every field must be present.
//   {"base": "v5e", "name": "half", "arrays_per_core": 2, "macs_per_cycle": 32768, "hbm_gb_per_s": 410}
// "type_speed" is an object from type names to numbers, "native_inputs" an array of "lhs*rhs"; each replaces the
// base's. Returns InvalidArgument if the text is not JSON, a field is unknown, of the wrong type or out of range, or
// fields contradict each other. With a base and without a name, the name is "<base> (changed)".
absl::StatusOr<Machine> ReadMachine(absl::string_view json);

// Writes all fields in the order above, indented by two spaces. ReadMachine reads the same machine back.
std::string WriteMachine(const Machine& machine);

// Returns InvalidArgument if fields are out of range or contradict each other. ReadMachine calls it.
absl::Status CheckMachine(const Machine& machine);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_MACHINE_H_
