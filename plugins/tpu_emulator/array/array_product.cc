#include "plugins/tpu_emulator/array/array_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "core/types/integer_division.h"
#include "core/types/literal_convert.h"
#include "plugins/tpu_emulator/array/pack.h"
#include "plugins/tpu_emulator/machine/machine.h"

namespace backplane::tpu {
namespace {

// A task computes one block of the result over all of k. Blocks are sized so that the packed chunks and the sums stay
// in the second-level cache, and so that packing costs little compared with the multiply-adds.
constexpr int64_t kBlockFloats = 240 * 128;  // of the packed left operand
constexpr int64_t kBlockColumns = 192;
constexpr int64_t kFewRowsColumns = 64;  // columns summed at once when there are few rows
// The least multiply-adds that justify waking a thread. Reading the right operand for few rows costs as much as
// computing kMinCostRows rows.
constexpr int64_t kMinTaskMultiplyAdds = 150'000, kMinCostRows = 8;

struct PassPart {
  Part lhs, rhs;
};
absl::Span<const PassPart> PassParts(int passes) {
  static constexpr PassPart kWhole[] = {{Part::kWhole, Part::kWhole}};
  static constexpr PassPart kOne[] = {{Part::kFirst, Part::kFirst}};
  static constexpr PassPart kThree[] = {
      {Part::kSecond, Part::kFirst}, {Part::kFirst, Part::kSecond}, {Part::kFirst, Part::kFirst}};
  static constexpr PassPart kSix[] = {{Part::kThird, Part::kFirst},  {Part::kSecond, Part::kSecond},
                                      {Part::kFirst, Part::kThird},  {Part::kSecond, Part::kFirst},
                                      {Part::kFirst, Part::kSecond}, {Part::kFirst, Part::kFirst}};
  switch (passes) {
    case 0:
      return kWhole;
    case 1:
      return kOne;
    case 3:
      return kThree;
    default:
      return kSix;
  }
}

// A register tile is wider than high, so the operand with fewer outer indices is better on the side of the rows. The
// swap does not change the result: a product of two parts does not depend on their order.
bool ShouldSwapOperands(const ArrayProductShape& s) {
  auto cost = [](int64_t rows, int64_t columns) { return rows * RoundUp(columns, kTileColumns); };
  return cost(s.n, s.m) < cost(s.m, s.n);
}

struct Blocks {
  int64_t rows, columns;  // of a block
  int64_t row_blocks, column_blocks;
};

Blocks ChooseBlocks(int64_t m, int64_t n, const ArrayProductShape& s, int threads) {
  const int64_t chunk = std::max<int64_t>(1, std::min(s.side, s.k));
  Blocks b;
  b.rows = std::min(RoundUp(m, kTileRows), std::max(kTileRows, kBlockFloats / chunk / kTileRows * kTileRows));
  b.rows = std::min<int64_t>(b.rows, 480);
  b.columns = std::min(RoundUp(n, kTileColumns), kBlockColumns);
  auto count = [&] {
    b.row_blocks = CeilDiv(m, b.rows);
    b.column_blocks = CeilDiv(n, b.columns);
    return s.batch * b.row_blocks * b.column_blocks;
  };
  // Split blocks until each thread has two of them, as long as a block is worth a task.
  while (threads > 1 && count() < 2 * threads &&
         std::max(b.rows, kMinCostRows) * b.columns * s.k > 2 * kMinTaskMultiplyAdds) {
    if (b.rows >= b.columns && b.rows > 2 * kTileRows) {
      b.rows = RoundUp((b.rows + 1) / 2, kTileRows);
    } else if (const int64_t least = m <= kFewRows ? kFewRowsColumns : kTileColumns; b.columns > least) {
      b.columns = RoundUp((b.columns + 1) / 2, least);
    } else {
      break;
    }
  }
  count();
  return b;
}

int64_t ScratchFloats(const Blocks& b, const ArrayProductShape& s) {
  const int64_t chunk = std::min(s.side, s.k);
  return b.rows * chunk + b.columns * chunk + 2 * b.rows * b.columns + 3 * kPackSlack;
}

int64_t FindRuns(const int64_t* offsets, int64_t count, OffsetRun* runs) {
  int64_t n = 0;
  for (int64_t i = 0; i < count;) {
    OffsetRun run{i, 1, 1};
    if (i + 1 < count) run.step = offsets[i + 1] - offsets[i];
    while (i + run.count < count && offsets[i + run.count] - offsets[i + run.count - 1] == run.step) ++run.count;
    // A single element that is far from the next one does not start a run with it.
    if (run.count == 2 && i + 2 < count && offsets[i + 2] - offsets[i + 1] == 1 && run.step != 1) run = {i, 1, 1};
    i += run.count;
    runs[n++] = run;
  }
  return n;
}

// Whether to pack the left operand row by row. That is better if the terms of a row are adjacent in memory, or if the
// rows are not.
bool ShouldPackInRows(const PackSource& s, const int64_t* rows, int64_t count) {
  int64_t near = 0, near_rows = 0;
  const int64_t most = s.type == PrimitiveType::kF32 ? 1 : 2;
  for (int64_t n = 0; n < s.run_count; ++n)
    near += s.runs[n].step <= most && s.runs[n].count >= 4 ? s.runs[n].count : 0;
  for (int64_t r = 1; r < count; ++r) near_rows += rows[r] - rows[r - 1] == 1;
  return 2 * near >= s.k_count || 2 * near_rows < count;
}

// Computes blocks of the result.
class BlockProduct {
 public:
  BlockProduct(const ArrayProductShape& s, const Blocks& blocks, int64_t m, int64_t n, const ArrayOperand& lhs,
               const ArrayOperand& rhs, const ArrayResult& out, bool swapped)
      : s_(s), blocks_(blocks), m_(m), n_(n), lhs_(lhs), rhs_(rhs), out_(out), swapped_(swapped) {}

  void Run(int64_t number, float* scratch) const {
    const int64_t column_block = number % blocks_.column_blocks, rest = number / blocks_.column_blocks;
    const int64_t row_block = rest % blocks_.row_blocks, batch = rest / blocks_.row_blocks;
    const int64_t m0 = row_block * blocks_.rows, n0 = column_block * blocks_.columns;
    const int64_t rows = std::min(blocks_.rows, m_ - m0), columns = std::min(blocks_.columns, n_ - n0);
    const int64_t pitch = RoundUp(columns, kTileColumns), chunk = std::min(s_.side, s_.k);
    float* a = scratch;
    float* b = a + blocks_.rows * chunk + kPackSlack;
    float* pass_sum = b + blocks_.columns * chunk + kPackSlack;
    float* result = pass_sum + blocks_.rows * blocks_.columns;
    absl::InlinedVector<int64_t, 256> row_offsets(static_cast<size_t>(rows)),
        column_offsets(static_cast<size_t>(columns));
    lhs_.outer->Fill(m0, rows, row_offsets.data());
    rhs_.outer->Fill(n0, columns, column_offsets.data());
    for (int64_t& p : row_offsets) p += lhs_.batch->At(batch);
    for (int64_t& p : column_offsets) p += rhs_.batch->At(batch);
    bool first_pass = true;
    for (const PassPart& pass : PassParts(s_.passes)) {
      float* target = first_pass ? result : pass_sum;
      RunPass(swapped_ ? PassPart{pass.rhs, pass.lhs} : pass, row_offsets, column_offsets, a, b, target, pitch);
      if (!first_pass) {
        for (int64_t i = 0; i < rows * pitch; ++i) result[i] += pass_sum[i];
      }
      first_pass = false;
    }
    Write(batch, m0, rows, n0, columns, result, pitch, pass_sum);
  }

 private:
  void RunPass(PassPart part, absl::Span<const int64_t> rows, absl::Span<const int64_t> columns, float* a, float* b,
               float* total, int64_t pitch) const {
    const ArrayKernels& kernels = HostKernels();
    const int64_t row_count = static_cast<int64_t>(rows.size()), column_count = static_cast<int64_t>(columns.size());
    int64_t left_k[kMaxArraySide], right_k[kMaxArraySide];
    OffsetRun left_runs[kMaxArraySide], right_runs[kMaxArraySide];
    for (int64_t k0 = 0; k0 < s_.k; k0 += s_.side) {
      const int64_t chunk = std::min(s_.side, s_.k - k0);
      lhs_.k->Fill(k0, chunk, left_k);
      rhs_.k->Fill(k0, chunk, right_k);
      const PackSource left{
          lhs_.data, lhs_.type, part.lhs, left_k, chunk, left_runs, FindRuns(left_k, chunk, left_runs)};
      PackSource right{rhs_.data, rhs_.type, part.rhs, right_k, chunk, right_runs, 0};
      const bool in_rows = ShouldPackInRows(left, rows.data(), row_count);
      if (in_rows) {
        kernels.pack_rows(left, rows.data(), row_count, a);
      } else {
        for (int64_t r = 0; r < row_count; r += kTileRows)
          kernels.pack_panel(left, &rows[static_cast<size_t>(r)], std::min(kTileRows, row_count - r), kTileRows,
                             a + r * chunk);
      }
      if (in_rows && row_count <= kFewRows &&
          kernels.few_rows(right, columns.data(), column_count, a, row_count, k0 == 0, total, pitch)) {
        continue;
      }
      right.run_count = FindRuns(right_k, chunk, right_runs);
      kernels.pack_panels(right, columns.data(), column_count, b);
      for (int64_t c = 0; c < column_count; c += kTileColumns) {
        for (int64_t r = 0; r < row_count; r += kTileRows) {
          kernels.tile[std::min(kTileRows, row_count - r)](a + r * chunk, chunk, in_rows ? 1 : kTileRows, b + c * chunk,
                                                           chunk, k0 == 0, total + r * pitch + c, pitch);
        }
      }
    }
  }

  void Write(int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const float* result, int64_t pitch,
             float* row) const {
    const int64_t width = ByteWidth(out_.type);
    absl::InlinedVector<int64_t, 256> row_offsets(static_cast<size_t>(rows)), offsets(static_cast<size_t>(columns));
    out_.rows->Fill(m0, rows, row_offsets.data());
    out_.columns->Fill(n0, columns, offsets.data());
    const int64_t base = out_.batch->At(batch);
    absl::InlinedVector<OffsetRun, 32> runs(static_cast<size_t>(columns));
    const int64_t run_count = FindRuns(offsets.data(), columns, runs.data());
    auto* data = static_cast<std::byte*>(out_.data);
    for (int64_t r = 0; r < rows; ++r) {
      const float* sums = result + r * pitch;
      const std::byte* from = reinterpret_cast<const std::byte*>(sums);
      if (out_.type != PrimitiveType::kF32) {
        if (out_.type == PrimitiveType::kBF16) {
          HostKernels().narrow_bf16(sums, columns, reinterpret_cast<uint16_t*>(row));
        } else {
          ConvertElements(PrimitiveType::kF32, from, out_.type, reinterpret_cast<std::byte*>(row), columns);
        }
        from = reinterpret_cast<const std::byte*>(row);
      }
      for (int64_t n = 0; n < run_count; ++n) {
        const OffsetRun& run = runs[static_cast<size_t>(n)];
        const int64_t offset = base + row_offsets[static_cast<size_t>(r)] + offsets[static_cast<size_t>(run.begin)];
        const std::byte* source = from + run.begin * width;
        if (run.step == 1) {
          std::memcpy(data + offset * width, source, static_cast<size_t>(run.count * width));
        } else {
          Scatter(source, run.count, run.step, data + offset * width);
        }
      }
    }
  }

  template <typename T>
  static void ScatterAs(const std::byte* from, int64_t count, int64_t step, std::byte* to) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * step * static_cast<int64_t>(sizeof(T)), from + i * static_cast<int64_t>(sizeof(T)),
                  sizeof(T));
  }
  void Scatter(const std::byte* from, int64_t count, int64_t step, std::byte* to) const {
    switch (ByteWidth(out_.type)) {
      case 1:
        return ScatterAs<uint8_t>(from, count, step, to);
      case 2:
        return ScatterAs<uint16_t>(from, count, step, to);
      default:
        return ScatterAs<uint32_t>(from, count, step, to);
    }
  }

  const ArrayProductShape& s_;
  const Blocks& blocks_;
  const int64_t m_, n_;
  const ArrayOperand &lhs_, &rhs_;
  const ArrayResult& out_;
  const bool swapped_;
};

// The stride between the workspaces of two threads. It is computed for the largest blocks, those of one thread.
int64_t ScratchStrideFloats(const ArrayProductShape& s) {
  const bool swap = ShouldSwapOperands(s);
  const Blocks blocks = ChooseBlocks(swap ? s.n : s.m, swap ? s.m : s.n, s, 1);
  return RoundUp(ScratchFloats(blocks, s), 16);
}

void FillZero(const ArrayProductShape& s, const ArrayResult& out) {
  const int64_t width = ByteWidth(out.type);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t n = 0; n < s.n; ++n) {
        std::memset(
            static_cast<std::byte*>(out.data) + (out.batch->At(b) + out.rows->At(m) + out.columns->At(n)) * width, 0,
            static_cast<size_t>(width));
      }
    }
  }
}

}  // namespace

float RoundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if (std::isnan(x)) {
    bits = (bits | 0x00400000u) & 0xffff0000u;
  } else {
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  }
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

int64_t ComputeArrayProductWorkspaceBytes(const ArrayProductShape& s, int threads) {
  if (s.batch * s.m * s.n * s.k == 0) return 0;
  return ScratchStrideFloats(s) * 4 * std::max(1, threads);
}

void ComputeArrayProduct(const ArrayProductShape& s, const ArrayOperand& lhs, const ArrayOperand& rhs,
                         const ArrayResult& out, void* workspace, engine::ThreadPool* pool) {
  if (s.batch * s.m * s.n == 0) return;
  if (s.k == 0) return FillZero(s, out);
  const bool swap = ShouldSwapOperands(s);
  const ArrayResult transposed{out.data, out.type, out.batch, out.columns, out.rows};
  const int64_t m = swap ? s.n : s.m, n = swap ? s.m : s.n;
  const int threads = pool == nullptr ? 1 : pool->num_threads();
  const Blocks blocks = ChooseBlocks(m, n, s, threads);
  const BlockProduct product(s, blocks, m, n, swap ? rhs : lhs, swap ? lhs : rhs, swap ? transposed : out, swap);
  const int64_t block_count = s.batch * blocks.row_blocks * blocks.column_blocks, stride = ScratchStrideFloats(s);
  float* scratch = static_cast<float*>(workspace);
  const int64_t multiply_adds_of_block =
      std::max(std::min(blocks.rows, m), kMinCostRows) * std::min(blocks.columns, n) * s.k;
  if (threads == 1 || block_count * multiply_adds_of_block < 2 * kMinTaskMultiplyAdds) {
    for (int64_t u = 0; u < block_count; ++u) product.Run(u, scratch);
    return;
  }
  pool->ParallelRange(block_count,
                      std::max<int64_t>(1, kMinTaskMultiplyAdds / std::max<int64_t>(1, multiply_adds_of_block)),
                      [&](int64_t begin, int64_t end, int slot) {
                        for (int64_t u = begin; u < end; ++u) product.Run(u, scratch + slot * stride);
                      });
}

void ComputeArrayProduct(const ArrayProductShape& s, const float* lhs, const float* rhs, float* out,
                         engine::ThreadPool* pool) {
  Offsets left_batch, rows, left_k, right_batch, columns, right_k, out_batch, out_rows, out_columns;
  left_batch.Add(s.batch, s.m * s.k);
  rows.Add(s.m, s.k);
  left_k.Add(s.k, 1);
  right_batch.Add(s.batch, s.k * s.n);
  columns.Add(s.n, 1);
  right_k.Add(s.k, s.n);
  out_batch.Add(s.batch, s.m * s.n);
  out_rows.Add(s.m, s.n);
  out_columns.Add(s.n, 1);
  const int64_t bytes = ComputeArrayProductWorkspaceBytes(s, pool == nullptr ? 1 : pool->num_threads());
  const std::unique_ptr<float[]> workspace(new float[static_cast<size_t>(bytes / 4 + 1)]);
  ComputeArrayProduct(s, {lhs, PrimitiveType::kF32, &left_batch, &rows, &left_k},
                      {rhs, PrimitiveType::kF32, &right_batch, &columns, &right_k},
                      {out, PrimitiveType::kF32, &out_batch, &out_rows, &out_columns}, workspace.get(), pool);
}

}  // namespace backplane::tpu
