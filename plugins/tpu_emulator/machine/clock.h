// The clock: estimates how long one kernel takes on a machine, and which unit bounds it.
//
// A kernel is one fusion: at most one matrix product, the vector operations around it, and the bytes that it moves
// between HBM and VMEM. A kernel is described in plain numbers, so the clock does not depend on the IR.
//
// The model of a matrix product:
//   - The product is split into a grid of windows over rows, columns and the inner dimension. While one window is
//     computed, the results of the previous one are written and the operands of the next one are read (double
//     buffering). Both copies share the bandwidth of HBM. Each window's copies take window_cycles to start, which is
//     hidden if the computation takes longer. The first window's reads and the last one's writes are never hidden. The
//     clock picks the cheapest grid by its own formula, among those whose buffers fit the scoped VMEM limit.
//   - The array holds array_side^2 weights. After weights are loaded, the rows stream through. A load takes at least
//     weight_load_rows cycles, or transposed_load_rows if the inner dimension of the weights is minor. Either operand
//     can be the one that is held. An f32 operand at higher precision is two or three bf16 parts; it takes three or six
//     passes over loads of split_load_rows each.
//   - Sums are 32 bits wide. A narrower result is first written as 32-bit sums and then in its own type.
//   - An operand in VMEM needs neither a copy nor a buffer. An operand in CMEM needs neither if the machine's
//     cmem_gb_per_s is 0; otherwise it is copied at that bandwidth. A result for CMEM takes as long as one for HBM, and
//     is written both as 32-bit sums and in its own type.
//   - If the inner dimension is split, partial sums are added in VMEM at accumulate_cycles a register.
//   - Operands of types that the array does not support are converted on the vector unit.
// A matrix-vector product (one row or one column) runs on the vector unit.
//
// docs/notes/tpu_emulator_clock.md says how the fitted constants were obtained and how accurate the clock is.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CLOCK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CLOCK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/types/primitive_type.h"
#include "plugins/tpu_emulator/machine/machine.h"

namespace backplane::tpu {

enum class Space : uint8_t { kHbm, kVmem, kCmem };

// result[batch, m, n] = lhs[batch, m, k] * rhs[batch, k, n]. See ConvertConvolutionToMatmul for convolutions.
struct MatmulWork {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  PrimitiveType lhs = PrimitiveType::kBF16, rhs = PrimitiveType::kBF16, result = PrimitiveType::kBF16;
  int passes = 1;  // bf16 products per element: 1, 3 or 6 for f32 at default, high or highest precision
  Space lhs_space = Space::kHbm, rhs_space = Space::kHbm, result_space = Space::kHbm;
  // The padded bytes of an operand, if they differ from those of its matrix. For example, the input of a convolution is
  // read about once, although each element belongs to several windows.
  std::optional<int64_t> lhs_bytes, rhs_bytes;
  // Whether the inner dimension of the right operand is minor, so that the array loads it transposed. If not given, the
  // default layout decides.
  std::optional<bool> rhs_inner_minor;
};

// A convolution. As a product it has a row for each output point, a column for each output feature, and an inner
// dimension of the window times the input features of a group. Its bytes are those of the input and the filter.
struct ConvolutionWork {
  int64_t batch = 1, output_points = 0, window_points = 0, input_points = 0;  // points: products of spatial sizes
  int64_t input_features = 0, output_features = 0, groups = 1;
  PrimitiveType input = PrimitiveType::kBF16, filter = PrimitiveType::kBF16, result = PrimitiveType::kBF16;
  int passes = 1;
};
MatmulWork ConvertConvolutionToMatmul(const Machine& machine, const ConvolutionWork& work);

// Classes of vector operations. The number is the cost per register of results, in operations that the unit can issue.
enum class VectorOp : uint8_t {
  kSimple,          // add, multiply, compare, select, integer and bit operations: 1
  kConvert,         // between widths (pack, unpack): 2
  kDivide,          // divide, square root, remainder: 4
  kTranscendental,  // exp, log, tanh, sin: 8
  kMove,            // a copy that keeps the order (a load and a store): 1
  kRelayout,        // transposes, rotations, gathers within a register: 8
  kCrossLane,       // a sum or maximum over the lanes of a register: log2(lanes) rotations and operations
};

struct VectorWork {
  VectorOp op = VectorOp::kSimple;
  int64_t vregs = 0;  // registers of 32-bit lanes, padding included
};

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kPermute };

// `bytes` is one device's share: the operand of an all-reduce, reduce-scatter, all-to-all or permute, or the result of
// an all-gather. The group forms a ring with wrap-around on each of `axes` dimensions of the torus.
struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t bytes = 0, group = 1;
  int64_t axes = 1;  // 1 to the machine's torus_rank
};

struct KernelWork {
  std::optional<MatmulWork> matmul;
  std::vector<VectorWork> vector;
  // Padded bytes that are moved between HBM and VMEM, without those of the matrix product.
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;
  std::optional<CollectiveWork> collective;
};

enum class Unit : uint8_t { kFixed, kMxu, kVpu, kHbm, kIci };
absl::string_view UnitName(Unit unit);  // "fixed", "mxu", "vpu", "hbm", "ici"

// The grid that the clock picked for a matrix product: `steps` windows of `rows` x `columns` x `inner` elements (the
// last window of a dimension may be smaller), and the scoped VMEM of their buffers.
struct Windows {
  int64_t rows = 0, columns = 0, inner = 0, steps = 0;
  int64_t vmem_bytes = 0;
};

struct KernelTime {
  double cycles = 0;   // of the whole kernel
  double seconds = 0;  // cycles at the machine's clock
  // The cycles during which each unit was busy. They overlap, so their sum may exceed `cycles`.
  double mxu_cycles = 0, vpu_cycles = 0, hbm_cycles = 0, ici_cycles = 0;
  Unit bound = Unit::kFixed;    // the unit that is busy longest; kFixed if the fixed cost exceeds all of their times
  double flops = 0;             // of the matrix product: two for a multiply-add, times passes
  double hbm_bytes = 0;         // the bytes that the kernel must move, each operand once
  double utilisation = 0;       // the roofline over the time, 0 to 1
  double roofline_seconds = 0;  // the lower bound from peak and bandwidth, without hbm_efficiency
  std::optional<Windows> windows;
};

// Times one kernel. Sizes must be positive, and the group of a collective must be at least 1.
KernelTime TimeKernel(const Machine& machine, const KernelWork& work);

// Where the compiler prefetches an operand of this many padded bytes while earlier kernels run. It is CMEM on a machine
// that has it; otherwise VMEM, less what is reserved for kernels (the scoped limit, at most half of VMEM). Returns kHbm
// if the operand does not fit.
Space PrefetchSpace(const Machine& machine, int64_t padded_bytes);

// Sets the operands' spaces as the compiler does for a product that is alone in a program: the larger operand that fits
// is prefetched, and the other one is streamed from HBM.
void PrefetchLargerOperand(const Machine& machine, MatmulWork& work);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CLOCK_H_
