#include "plugins/tpu_emulator/machine/clock.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/types/integer_division.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {
namespace {

// A product as the array runs it. The matrix of `rows` x `inner` streams through, `cols` x `inner` is held as weights.
struct Product {
  int64_t batch, rows, cols, inner;
  double streamed_bytes, held_bytes;                      // bytes of the whole padded operand
  double result_bytes;                                    // all bytes written for the results
  double streamed_element, held_element, result_element;  // bytes per element in a window's buffer
  double load_rows;                                       // least cycles of an array between two loads of weights
  Space streamed_space, held_space, result_space;
};

// The candidate numbers of windows along a dimension: all small ones, then steps of about an eighth. The list is the
// same for every size, so a larger size is never estimated to be faster: for a given number of windows, no term of the
// cost decreases with the size. Numbers beyond the tiles only give windows of one tile.
std::vector<int64_t> ListWindowCounts(int64_t tiles) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= tiles; count = std::max(count + 1, count + count / 8)) counts.push_back(count);
  if (counts.back() != tiles) counts.push_back(tiles);
  return counts;
}

struct GridChoice {
  double cycles = std::numeric_limits<double>::infinity();  // without the kernel's fixed cost
  double mxu = 0, hbm = 0;
  Windows windows;
};

struct Costs {
  const Machine& machine;
  double passes;
  double speed;
  double extra_dma;     // cycles of copies other than those of the product
  double extra_vector;  // cycles of the vector unit, all cores together
};

// Returns the array's cycles for one window. The rows stream past each load of weights once per pass, unless the load
// takes longer.
double ArrayCycles(const Costs& costs, double load_rows, int64_t rows, int64_t cols, int64_t inner) {
  const Machine& m = costs.machine;
  const double loads = static_cast<double>(CeilDiv(cols, m.array_side) * CeilDiv(inner, m.array_side));
  const double stream = costs.passes * m.row_cycles * static_cast<double>(RoundUp(rows, m.tile_rows));
  return loads * std::max(load_rows, stream) / (costs.speed * m.EffectiveArrays());
}

// Returns the cycles to copy these bytes to or from VMEM.
double CopyCycles(const Machine& m, Space space, double bytes) {
  switch (space) {
    case Space::kVmem:
      return 0;
    case Space::kCmem:
      return m.cmem_gb_per_s > 0 ? bytes / (m.cmem_gb_per_s * 1e9) * m.CyclesPerSecond() : 0;
    case Space::kHbm:
      break;
  }
  return bytes / m.HbmBytesPerSecond() * m.CyclesPerSecond();
}

// Whether windows of an operand in `space` are copied to a VMEM buffer.
bool IsCopied(const Machine& m, Space space) {
  return space == Space::kHbm || (space == Space::kCmem && m.cmem_gb_per_s > 0);
}

// The properties of a grid that do not depend on the order of its loops.
struct Grid {
  int64_t batch_count, row_count, col_count, inner_count;
  int64_t batch, rows, cols, inner;  // sizes of a window
};

void ConsiderGrid(const Costs& costs, const Product& p, const Grid& g, double vregs, double mxu_floor,
                  GridChoice& best) {
  const Machine& m = costs.machine;
  const double window_batch = static_cast<double>(g.batch), rows = static_cast<double>(g.rows);
  const double cols = static_cast<double>(g.cols), inner = static_cast<double>(g.inner);
  const bool splits_inner = g.inner_count > 1;
  // Two buffers for each copied operand, and the 32-bit sums if the inner dimension is split.
  double buffers = 0;
  if (IsCopied(m, p.streamed_space)) buffers += 2 * p.streamed_element * rows * inner;
  if (IsCopied(m, p.held_space)) buffers += 2 * p.held_element * cols * inner;
  if (p.result_space != Space::kVmem) buffers += 2 * p.result_element * rows * cols;
  if (splits_inner) buffers += 4 * rows * cols;
  buffers *= window_batch;
  if (buffers > static_cast<double>(m.scoped_vmem_bytes)) return;

  const double steps = static_cast<double>(g.batch_count) * static_cast<double>(g.row_count) *
                       static_cast<double>(g.col_count) * static_cast<double>(g.inner_count);
  const double mxu =
      std::max(mxu_floor, steps * window_batch * ArrayCycles(costs, p.load_rows, g.rows, g.cols, g.inner));
  const double accumulate =
      vregs * static_cast<double>(g.inner_count - 1) * m.accumulate_cycles / static_cast<double>(m.cores_per_device);
  const double vector = costs.extra_vector;
  const double compute = (accumulate + std::max(mxu, vector) + m.exposed_share * std::min(mxu, vector)) / steps;
  // A result takes as long to reach CMEM as to reach HBM.
  const double result_dma = p.result_space == Space::kVmem ? 0 : CopyCycles(m, Space::kHbm, p.result_bytes);
  // The outer loop runs over columns or over rows. The operand of the outer loop stays in VMEM while the inner loop
  // runs, unless the inner dimension is split.
  for (const bool columns_outer : {true, false}) {
    const double streamed_again = columns_outer || splits_inner ? static_cast<double>(g.col_count) : 1;
    const double held_again = !columns_outer || splits_inner ? static_cast<double>(g.row_count) : 1;
    const double read = CopyCycles(m, p.streamed_space, p.streamed_bytes * streamed_again) +
                        CopyCycles(m, p.held_space, p.held_bytes * held_again) + costs.extra_dma;
    const double dma = read + result_dma;
    // The write of the last window is not hidden. If the inner dimension is split, it is the write of several steps.
    const double last_out = result_dma / steps * static_cast<double>(g.inner_count);
    const double cycles =
        read / steps + compute + last_out + (steps - 1) * std::max(compute, dma / steps + m.window_cycles);
    if (cycles >= best.cycles) continue;
    best.cycles = cycles;
    best.mxu = mxu;
    best.hbm = p.result_space == Space::kCmem ? read : dma;
    best.windows = {std::min(g.rows, p.rows), std::min(g.cols, p.cols), std::min(g.inner, p.inner),
                    static_cast<int64_t>(steps), static_cast<int64_t>(buffers)};
  }
}

void ConsiderGrids(const Costs& costs, const Product& p, GridChoice& best) {
  const Machine& m = costs.machine;
  const int64_t row_tiles = CeilDiv(p.rows, m.tile_rows), col_tiles = CeilDiv(p.cols, m.tile_lanes);
  const int64_t inner_tiles = CeilDiv(p.inner, m.tile_lanes);
  const double vregs = static_cast<double>(p.batch) * static_cast<double>(row_tiles) * static_cast<double>(col_tiles);
  const double mxu_floor = static_cast<double>(p.batch) * ArrayCycles(costs, p.load_rows, p.rows, p.cols, p.inner);
  const std::vector<int64_t> row_counts = ListWindowCounts(row_tiles), col_counts = ListWindowCounts(col_tiles);
  // A grid costs at least the start of its copies, and at least its products and sums. Once either exceeds the best
  // grid, finer grids cannot be better.
  const auto too_many = [&](double steps) { return (steps - 1) * m.window_cycles >= best.cycles; };
  for (const int64_t batch_count : ListWindowCounts(p.batch)) {
    if (too_many(static_cast<double>(batch_count))) break;
    for (const int64_t inner_count : ListWindowCounts(inner_tiles)) {
      const double outer = static_cast<double>(batch_count) * static_cast<double>(inner_count);
      const double sums =
          vregs * static_cast<double>(inner_count - 1) * m.accumulate_cycles / static_cast<double>(m.cores_per_device);
      if (too_many(outer) || mxu_floor + sums >= best.cycles) break;
      for (const int64_t col_count : col_counts) {
        if (too_many(outer * static_cast<double>(col_count))) break;
        for (const int64_t row_count : row_counts) {
          if (too_many(outer * static_cast<double>(col_count) * static_cast<double>(row_count))) break;
          const Grid grid{batch_count,
                          row_count,
                          col_count,
                          inner_count,
                          CeilDiv(p.batch, batch_count),
                          CeilDiv(row_tiles, row_count) * m.tile_rows,
                          CeilDiv(col_tiles, col_count) * m.tile_lanes,
                          CeilDiv(inner_tiles, inner_count) * m.tile_lanes};
          ConsiderGrid(costs, p, grid, vregs, mxu_floor, best);
        }
      }
    }
  }
}

// The minor dimension is padded to the lanes of a tile and the second-minor one to its rows.
double PaddedBytes(const Machine& m, PrimitiveType type, int64_t batch, int64_t second, int64_t minor) {
  const int64_t pack = PackedElements(type);
  return static_cast<double>(batch) * static_cast<double>(RoundUp(second, std::max(m.tile_rows, pack))) *
         static_cast<double>(RoundUp(minor, m.tile_lanes)) * BitWidth(type) / 8;
}

// The default layout picks the minor dimension that needs the least padding.
double MatrixBytes(const Machine& m, PrimitiveType type, int64_t batch, int64_t rows, int64_t cols) {
  return std::min(PaddedBytes(m, type, batch, rows, cols), PaddedBytes(m, type, batch, cols, rows));
}

double ElementBytes(PrimitiveType type) { return BitWidth(type) / 8.0; }

double OpCost(const Machine& m, VectorOp op) {
  switch (op) {
    case VectorOp::kSimple:
    case VectorOp::kMove:
      return 1;
    case VectorOp::kConvert:
      return 2;
    case VectorOp::kDivide:
      return 4;
    case VectorOp::kTranscendental:
    case VectorOp::kRelayout:
      return 8;
    case VectorOp::kCrossLane:
      return 2.0 * std::bit_width(static_cast<uint64_t>(m.tile_lanes)) -
             2;  // log2(lanes) rotations and as many operations
  }
  return 1;
}

double VectorCycles(const Machine& m, const std::vector<VectorWork>& work) {
  double operations = 0;
  for (const VectorWork& w : work) operations += static_cast<double>(w.vregs) * OpCost(m, w.op);
  return operations / (m.vpu_issue * static_cast<double>(m.cores_per_device));
}

struct MatmulBytes {
  double lhs, rhs, result;
};

MatmulBytes OperandBytes(const Machine& m, const MatmulWork& w) {
  return {w.lhs_bytes ? static_cast<double>(*w.lhs_bytes) : MatrixBytes(m, w.lhs, w.batch, w.m, w.k),
          w.rhs_bytes ? static_cast<double>(*w.rhs_bytes) : MatrixBytes(m, w.rhs, w.batch, w.k, w.n),
          MatrixBytes(m, w.result, w.batch, w.m, w.n)};
}

// Returns the cycles to convert both operands once to a type that the array supports.
double ConvertCycles(const Machine& m, const MatmulWork& w, const MatmulBytes& bytes) {
  const double elements = bytes.lhs / ElementBytes(w.lhs) + bytes.rhs / ElementBytes(w.rhs);
  return elements / static_cast<double>(m.tile_rows * m.tile_lanes) * m.convert_ops /
         (m.vpu_issue * static_cast<double>(m.cores_per_device));
}

// Whether the inner dimension of a matrix [outer, inner] or [inner, outer] is minor. If not given, the default layout
// decides: the minor dimension is the one that needs the least padding, and the last one if both need the same.
bool IsInnerMinor(const Machine& m, const std::optional<bool>& given, PrimitiveType type, int64_t outer, int64_t inner,
                  bool inner_last) {
  if (given) return *given;
  const double last = PaddedBytes(m, type, 1, inner_last ? outer : inner, inner_last ? inner : outer);
  const double first = PaddedBytes(m, type, 1, inner_last ? inner : outer, inner_last ? outer : inner);
  return (last <= first) == inner_last;
}

double Speed(const Machine& m, const MatmulWork& w) { return std::min(m.TypeSpeed(w.lhs), m.TypeSpeed(w.rhs)); }

// The fraction of an array that weights of this size fill. A load takes this fraction of the full time.
double FilledFraction(const Machine& m, int64_t cols, int64_t inner) {
  const auto fraction = [&](int64_t n) {
    return static_cast<double>(std::min(RoundUp(n, m.tile_rows), m.array_side)) / static_cast<double>(m.array_side);
  };
  return fraction(cols) * fraction(inner);
}

GridChoice ChooseWindows(const Machine& m, const MatmulWork& w, const MatmulBytes& bytes, double extra_dma,
                         double extra_vector) {
  const Costs costs{m, static_cast<double>(w.passes), Speed(m, w), extra_dma, extra_vector};
  // The right operand is loaded directly or transposed. A left operand that is held takes the mean of both times.
  const bool transposed = IsInnerMinor(m, w.rhs_inner_minor, w.rhs, w.n, w.k, false);
  const double split = w.passes * m.split_load_rows, mean = (m.weight_load_rows + m.transposed_load_rows) / 2;
  const double right_load = w.passes > 1 ? split : transposed ? m.transposed_load_rows : m.weight_load_rows;
  const double left_load = w.passes > 1 ? split : mean;
  const double element = ElementBytes(w.result);
  // Sums are written as 32 bits. A narrower result, or one in CMEM, is written in its own type as well.
  const bool both = element < 4 || w.result_space == Space::kCmem;
  const double result_bytes = both ? bytes.result * (4 + element) / element : bytes.result;
  Product p{.batch = w.batch,
            .rows = w.m,
            .cols = w.n,
            .inner = w.k,
            .streamed_bytes = bytes.lhs,
            .held_bytes = bytes.rhs,
            .result_bytes = result_bytes,
            .streamed_element = ElementBytes(w.lhs),
            .held_element = ElementBytes(w.rhs),
            .result_element = element,
            .load_rows = right_load * FilledFraction(m, w.n, w.k),
            .streamed_space = w.lhs_space,
            .held_space = w.rhs_space,
            .result_space = w.result_space};
  GridChoice best;
  ConsiderGrids(costs, p, best);
  std::swap(p.rows, p.cols);
  std::swap(p.streamed_bytes, p.held_bytes);
  std::swap(p.streamed_element, p.held_element);
  std::swap(p.streamed_space, p.held_space);
  p.load_rows = left_load * FilledFraction(m, w.m, w.k);
  ConsiderGrids(costs, p, best);
  return best;
}

double CollectiveCycles(const Machine& m, const CollectiveWork& c) {
  if (c.group <= 1) return 0;
  const double group = static_cast<double>(c.group), bytes = static_cast<double>(c.bytes);
  const double axes = static_cast<double>(std::clamp<int64_t>(c.axes, 1, m.torus_rank));
  const double both_ways = 2 * axes * m.ici_gb_per_s * 1e9;  // a ring has two directions
  const double half_ring = static_cast<double>(c.group / 2), hop = m.hop_microseconds * 1e-6;
  const double gather = bytes * (group - 1) / group / both_ways + half_ring / axes * hop;
  double seconds = 0;
  switch (c.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      seconds = gather;
      break;
    case CollectiveKind::kAllReduce:  // a reduce-scatter, then an all-gather
      seconds = 2 * gather;
      break;
    case CollectiveKind::kAllToAll: {
      // Each device sends a part to every other one, over a mean distance of a quarter of the ring. Each hop uses a
      // link.
      const double hops = static_cast<double>((c.group / 2) * ((c.group + 1) / 2));
      seconds = bytes / group * hops / both_ways + half_ring / axes * hop;
      break;
    }
    case CollectiveKind::kPermute:
      seconds = bytes / (m.ici_gb_per_s * 1e9) + hop;
      break;
  }
  return seconds * m.CyclesPerSecond();
}

}  // namespace

absl::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kFixed:
      return "fixed";
    case Unit::kMxu:
      return "mxu";
    case Unit::kVpu:
      return "vpu";
    case Unit::kHbm:
      return "hbm";
    case Unit::kIci:
      return "ici";
  }
  return "fixed";
}

MatmulWork ConvertConvolutionToMatmul(const Machine& machine, const ConvolutionWork& work) {
  MatmulWork matmul;
  matmul.batch = work.groups;
  matmul.m = work.batch * work.output_points;
  matmul.n = CeilDiv(work.output_features, work.groups);
  matmul.k = work.window_points * CeilDiv(work.input_features, work.groups);
  matmul.lhs = work.input;
  matmul.rhs = work.filter;
  matmul.result = work.result;
  matmul.passes = work.passes;
  matmul.lhs_bytes =
      static_cast<int64_t>(MatrixBytes(machine, work.input, 1, work.batch * work.input_points, work.input_features));
  return matmul;
}

Space PrefetchSpace(const Machine& machine, int64_t padded_bytes) {
  if (machine.cmem_bytes > 0) return padded_bytes < machine.cmem_bytes ? Space::kCmem : Space::kHbm;
  const int64_t kept = std::min(machine.scoped_vmem_bytes, machine.vmem_bytes / 2);
  return padded_bytes < machine.vmem_bytes - kept ? Space::kVmem : Space::kHbm;
}

void PrefetchLargerOperand(const Machine& machine, MatmulWork& work) {
  const MatmulBytes bytes = OperandBytes(machine, work);
  const bool lhs_larger = bytes.lhs >= bytes.rhs;
  for (const bool lhs : {lhs_larger, !lhs_larger}) {
    Space& space = lhs ? work.lhs_space : work.rhs_space;
    // Sizes beyond 2^53 fit nowhere, so the rounding of the conversion does not matter.
    const double size = lhs ? bytes.lhs : bytes.rhs;
    const Space to = size < 1e15 ? PrefetchSpace(machine, static_cast<int64_t>(size)) : Space::kHbm;
    if (space != Space::kHbm || to == Space::kHbm) continue;
    space = to;
    return;
  }
}

KernelTime TimeKernel(const Machine& m, const KernelWork& work) {
  KernelTime time;
  const double bytes_per_cycle = m.HbmBytesPerSecond() / m.CyclesPerSecond();
  const double extra_bytes = static_cast<double>(work.hbm_read_bytes) + static_cast<double>(work.hbm_written_bytes);
  const double extra_dma = extra_bytes / bytes_per_cycle;
  double vpu = VectorCycles(m, work.vector);
  double fixed = m.vector_kernel_cycles;
  time.hbm_bytes = extra_bytes;

  const bool on_array = work.matmul && work.matmul->m > 1 && work.matmul->n > 1;
  if (work.matmul) {
    const MatmulWork& w = *work.matmul;
    const MatmulBytes bytes = OperandBytes(m, w);
    time.hbm_bytes += (w.lhs_space == Space::kHbm ? bytes.lhs : 0) + (w.rhs_space == Space::kHbm ? bytes.rhs : 0) +
                      (w.result_space == Space::kHbm ? bytes.result : 0);
    const double macs =
        static_cast<double>(w.batch) * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k);
    time.flops = 2 * macs * w.passes;
    if (on_array) {
      fixed = m.matmul_kernel_cycles + (IsIntegral(w.lhs) && IsIntegral(w.rhs) ? m.integer_kernel_cycles : 0);
      if (!m.IsNative(w.lhs, w.rhs)) vpu += ConvertCycles(m, w, bytes);
      const GridChoice choice = ChooseWindows(m, w, bytes, extra_dma, vpu);
      time.mxu_cycles = choice.mxu;
      time.vpu_cycles = vpu;
      time.hbm_cycles = choice.hbm;
      time.windows = choice.windows;
      time.cycles = fixed + choice.cycles;
    } else {
      // Multiply and add every element of the matrix, after widening narrow types.
      const double registers = std::max(bytes.lhs / ElementBytes(w.lhs), bytes.rhs / ElementBytes(w.rhs)) /
                               static_cast<double>(m.tile_rows * m.tile_lanes);
      const double widen = ElementBytes(w.lhs) < 4 || ElementBytes(w.rhs) < 4 ? OpCost(m, VectorOp::kConvert) : 0;
      vpu += registers * (2 + widen) / (m.vpu_issue * static_cast<double>(m.cores_per_device));
    }
  }
  if (!on_array) {
    const double hbm = time.hbm_bytes / bytes_per_cycle;
    time.vpu_cycles = vpu;
    time.hbm_cycles = hbm;
    time.cycles = fixed + std::max(vpu, hbm) + m.exposed_share * std::min(vpu, hbm);
  }
  if (work.collective) {
    time.ici_cycles = CollectiveCycles(m, *work.collective);
    time.cycles += time.ici_cycles;
  }

  const std::pair<double, Unit> units[] = {{fixed, Unit::kFixed},
                                           {time.mxu_cycles, Unit::kMxu},
                                           {time.vpu_cycles, Unit::kVpu},
                                           {time.hbm_cycles, Unit::kHbm},
                                           {time.ici_cycles, Unit::kIci}};
  time.bound = std::max_element(std::begin(units), std::end(units), [](const auto& a, const auto& b) {
                 return a.first < b.first;
               })->second;
  time.seconds = time.cycles / m.CyclesPerSecond();
  const double peak = m.PeakBf16Flops() * (work.matmul ? Speed(m, *work.matmul) : 1);
  time.roofline_seconds = std::max(on_array ? time.flops / peak : 0, time.hbm_bytes / (m.hbm_gb_per_s * 1e9));
  time.utilisation = time.roofline_seconds / time.seconds;
  return time;
}

}  // namespace backplane::tpu
