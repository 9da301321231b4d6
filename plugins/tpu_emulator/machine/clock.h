// The clock: how long one kernel takes on a machine, by unit, and what it waited for.
//
// A kernel is one fusion: at most one matrix product, the vector operations around it, and the bytes it moves between
// HBM and VMEM. It is described in plain numbers, so the clock knows nothing of programs.
//
// How a matrix product runs, in the model:
//   - The product is cut into a grid of windows: so many rows, columns and parts of the inner dimension. While one
//   window
//     is computed, the results of the one before go out and the operands of the next come in (double buffers); both
//     copies share the bandwidth of HBM. Each copy needs window_cycles to start, hidden where the computing takes
//     longer. The first window's operands and the last one's results hide behind nothing. Of all grids whose buffers
//     fit the scoped VMEM limit the clock takes the one that its own formula finds cheapest, as a compiler does.
//   - The array holds array_side^2 weights; a load of weights is followed by the rows that stream through it, and takes
//   no
//     less than weight_load_rows cycles, turned_load_rows where the weights lie with the inner dimension along the
//     lanes. Either operand may be the one held. An f32 operand at higher precision is two or three bf16 parts: three
//     or six streams past loads that take split_load_rows for each pass.
//   - Sums are 32 bits wide. A result of a narrower type passes memory as wide sums and as narrow results.
//   - An operand that lies in VMEM already costs no copy and no buffer; one in CMEM neither where the machine's
//     cmem_gb_per_s is 0, else it is copied at that bandwidth. A result for CMEM leaves no quicker than one for HBM, as
//     wide sums and as itself.
//   - Sums of parts of the inner dimension are added in VMEM, accumulate_cycles a register.
//   - Operands of types that the array does not take are converted on the vector unit.
// A product with a vector (one row or one column) runs on the vector unit.
//
// What the fitted constants were fitted to, and how far the clock is off, is in docs/tpu_emulator_clock.md.
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

// result[batch, m, n] = lhs[batch, m, k] * rhs[batch, k, n]. A convolution is one too: ConvolutionAsMatmul.
struct MatmulWork {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  PrimitiveType lhs = PrimitiveType::kBF16, rhs = PrimitiveType::kBF16, result = PrimitiveType::kBF16;
  int passes = 1;  // bf16 products an element: 1, 3 or 6 for f32 at default, high or highest precision
  Space lhs_space = Space::kHbm, rhs_space = Space::kHbm, result_space = Space::kHbm;
  // Padded bytes of an operand where they are not those of its matrix: a convolution's input is read about once,
  // however often its elements take part.
  std::optional<int64_t> lhs_bytes, rhs_bytes;
  // Whether the right operand lies with the inner dimension along the lanes; where not said, as the default layout has
  // it. An array takes such weights turned.
  std::optional<bool> rhs_inner_minor;
};

// What a convolution costs as a product: a row for each output point, a column for each output feature, and the window
// times the input features (of one group) between them. The bytes are those of the input and the filter.
struct ConvolutionWork {
  int64_t batch = 1, output_points = 0, window_points = 0, input_points = 0;  // points: products of spatial sizes
  int64_t input_features = 0, output_features = 0, groups = 1;
  PrimitiveType input = PrimitiveType::kBF16, filter = PrimitiveType::kBF16, result = PrimitiveType::kBF16;
  int passes = 1;
};
MatmulWork ConvolutionAsMatmul(const Machine& machine, const ConvolutionWork& work);

// Classes of vector operations by what one register of results costs, in operations the unit can issue.
enum class VectorOp : uint8_t {
  kSimple,          // add, multiply, compare, select, integer and bit operations: 1
  kConvert,         // between widths: packs and unpacks: 2
  kDivide,          // divide, square root, remainder: 4
  kTranscendental,  // exp, log, tanh, sin: 8
  kMove,            // a copy that keeps the order: a load and a store: 1
  kRelayout,        // transposes, rotations, gathers within a register: 8
  kCrossLane,       // a sum or maximum over the lanes of a register: log2(lanes) rotations and operations
};

struct VectorWork {
  VectorOp op = VectorOp::kSimple;
  int64_t vregs = 0;  // registers of 32-bit lanes, padding included
};

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kPermute };

// `bytes` is what one device holds of the full array: the operand of an all-reduce, reduce-scatter, all-to-all or
// permute, the result of an all-gather. The group forms a ring with wrap-around on `axes` dimensions of the torus at
// once.
struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t bytes = 0, group = 1;
  int64_t axes = 1;  // 1 to the machine's torus_rank
};

struct KernelWork {
  std::optional<MatmulWork> matmul;
  std::vector<VectorWork> vector;
  // Padded bytes between HBM and VMEM, besides the operands and the result of the matrix product.
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;
  std::optional<CollectiveWork> collective;
};

enum class Unit : uint8_t { kFixed, kMxu, kVpu, kHbm, kIci };
absl::string_view UnitName(Unit unit);  // "fixed", "mxu", "vpu", "hbm", "ici"

// The grid that the clock chose for a matrix product: windows of `rows` x `columns` x `inner` elements (before padding
// of a ragged edge), `steps` of them, and the scoped VMEM that their buffers take.
struct Windows {
  int64_t rows = 0, columns = 0, inner = 0, steps = 0;
  int64_t vmem_bytes = 0;
};

struct KernelTime {
  double cycles = 0;   // the whole kernel
  double seconds = 0;  // cycles at the machine's clock
  // How long each unit was busy, in cycles. They overlap, so that their sum may pass `cycles`.
  double mxu_cycles = 0, vpu_cycles = 0, hbm_cycles = 0, ici_cycles = 0;
  Unit bound = Unit::kFixed;    // the unit busy longest; kFixed when the fixed cost is longer than any
  double flops = 0;             // of the matrix product, as peaks count them: two for a multiply-add, times passes
  double hbm_bytes = 0;         // that the kernel must move, each operand once
  double utilisation = 0;       // the roofline over the time, 0 to 1
  double roofline_seconds = 0;  // no machine of this peak and bandwidth is faster (efficiency not counted)
  std::optional<Windows> windows;
};

// Sizes must be positive (a product with an empty dimension is no kernel); the group of a collective at least 1.
KernelTime TimeKernel(const Machine& machine, const KernelWork& work);

// Where a compiler copies an operand of this many padded bytes ahead of the kernel that needs it, while earlier ones
// run: CMEM on a machine that has it, else the VMEM that kernels leave (the scoped limit is kept for them, at most half
// of all); HBM when it does not fit.
Space PrefetchSpace(const Machine& machine, int64_t padded_bytes);

// What the compiler of these machines does for a product alone in a program: of the operands in HBM the larger one that
// fits is prefetched, the other is streamed.
void PrefetchLargerOperand(const Machine& machine, MatmulWork& work);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_CLOCK_H_
