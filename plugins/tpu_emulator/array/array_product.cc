#include "plugins/tpu_emulator/array/array_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "core/types/integer_division.h"
#include "core/types/literal_convert.h"
#include "plugins/tpu_emulator/array/pack.h"

namespace backplane::tpu {
namespace {

// A unit of work: so many rows and columns of the result, all of k. Its packed chunks and its sums stay in the second
// level cache, and packing a chunk costs little beside its products.
constexpr int64_t kBlockFloats = 240 * 128;  // of the packed left operand
constexpr int64_t kBlockColumns = 192;
constexpr int64_t kFewRowsColumns = 64;  // that are summed at once for few rows
// Work for a thread that is worth waking it, in multiply-adds; what is read for few rows costs as much as for several.
constexpr int64_t kWorthwhile = 150'000, kRowsOfReading = 8;

struct PassPart {
  Part lhs, rhs;
};
absl::Span<const PassPart> PassesOf(int passes) {
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

// The kernels' tiles are wide: the operand with fewer places is better on the side of the rows. A product of parts does
// not know which of its factors came first.
bool Exchange(const ArrayProductShape& s) {
  auto cost = [](int64_t rows, int64_t columns) { return rows * RoundUp(columns, kTileColumns); };
  return cost(s.n, s.m) < cost(s.m, s.n);
}

struct Blocks {
  int64_t rows, columns;  // of a unit
  int64_t row_blocks, column_blocks;
};

Blocks BlocksOf(int64_t m, int64_t n, const ArrayProductShape& s, int threads) {
  const int64_t chunk = std::max<int64_t>(1, std::min(s.side, s.k));
  Blocks b;
  b.rows = std::min(RoundUp(m, kTileRows), std::max(kTileRows, kBlockFloats / chunk / kTileRows * kTileRows));
  b.rows = std::min<int64_t>(b.rows, 480);
  b.columns = std::min(RoundUp(n, kTileColumns), kBlockColumns);
  auto count = [&] {
    b.row_blocks = (m + b.rows - 1) / b.rows;
    b.column_blocks = (n + b.columns - 1) / b.columns;
    return s.batch * b.row_blocks * b.column_blocks;
  };
  // Enough units for everybody, while each is worth it.
  while (threads > 1 && count() < 2 * threads && std::max(b.rows, kRowsOfReading) * b.columns * s.k > 2 * kWorthwhile) {
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

int64_t UnitFloats(const Blocks& b, const ArrayProductShape& s) {
  const int64_t chunk = std::min(s.side, s.k);
  return b.rows * chunk + b.columns * chunk + 2 * b.rows * b.columns + 3 * kPackSlack;
}

int64_t FindRuns(const int64_t* places, int64_t count, PlaceRun* runs) {
  int64_t n = 0;
  for (int64_t i = 0; i < count;) {
    PlaceRun run{i, 1, 1};
    if (i + 1 < count) run.step = places[i + 1] - places[i];
    while (i + run.count < count && places[i + run.count] - places[i + run.count - 1] == run.step) ++run.count;
    // One element that is far from the next begins no run of it.
    if (run.count == 2 && i + 2 < count && places[i + 2] - places[i + 1] == 1 && run.step != 1) run = {i, 1, 1};
    i += run.count;
    runs[n++] = run;
  }
  return n;
}

// Whether the left operand is packed in rows: where its terms are near one another, or its rows are not.
bool PackInRows(const PackSource& s, const int64_t* rows, int64_t count) {
  int64_t near = 0, near_rows = 0;
  const int64_t most = s.type == PrimitiveType::kF32 ? 1 : 2;
  for (int64_t n = 0; n < s.run_count; ++n)
    near += s.runs[n].step <= most && s.runs[n].count >= 4 ? s.runs[n].count : 0;
  for (int64_t r = 1; r < count; ++r) near_rows += rows[r] - rows[r - 1] == 1;
  return 2 * near >= s.k_count || 2 * near_rows < count;
}

class Unit {
 public:
  Unit(const ArrayProductShape& s, const Blocks& blocks, int64_t m, int64_t n, const ArrayOperand& lhs,
       const ArrayOperand& rhs, const ArrayResult& out, bool exchanged)
      : s_(s), blocks_(blocks), m_(m), n_(n), lhs_(lhs), rhs_(rhs), out_(out), exchanged_(exchanged) {}

  void Run(int64_t number, float* scratch) const {
    const int64_t column_block = number % blocks_.column_blocks, rest = number / blocks_.column_blocks;
    const int64_t row_block = rest % blocks_.row_blocks, batch = rest / blocks_.row_blocks;
    const int64_t m0 = row_block * blocks_.rows, n0 = column_block * blocks_.columns;
    const int64_t rows = std::min(blocks_.rows, m_ - m0), columns = std::min(blocks_.columns, n_ - n0);
    const int64_t pitch = RoundUp(columns, kTileColumns), chunk = std::min(s_.side, s_.k);
    float* a = scratch;
    float* b = a + blocks_.rows * chunk + kPackSlack;
    float* sum = b + blocks_.columns * chunk + kPackSlack;
    float* all = sum + blocks_.rows * blocks_.columns;
    absl::InlinedVector<int64_t, 256> row_places(static_cast<size_t>(rows)),
        column_places(static_cast<size_t>(columns));
    lhs_.outer->Fill(m0, rows, row_places.data());
    rhs_.outer->Fill(n0, columns, column_places.data());
    for (int64_t& p : row_places) p += lhs_.batch->At(batch);
    for (int64_t& p : column_places) p += rhs_.batch->At(batch);
    bool first_pass = true;
    for (const PassPart& pass : PassesOf(s_.passes)) {
      float* total = first_pass ? all : sum;
      Pass(exchanged_ ? PassPart{pass.rhs, pass.lhs} : pass, row_places, column_places, a, b, total, pitch);
      if (!first_pass) {
        for (int64_t i = 0; i < rows * pitch; ++i) all[i] += sum[i];
      }
      first_pass = false;
    }
    Write(batch, m0, rows, n0, columns, all, pitch, sum);
  }

 private:
  void Pass(PassPart part, absl::Span<const int64_t> rows, absl::Span<const int64_t> columns, float* a, float* b,
            float* total, int64_t pitch) const {
    const ArrayKernels& kernels = HostKernels();
    const int64_t row_count = static_cast<int64_t>(rows.size()), column_count = static_cast<int64_t>(columns.size());
    int64_t left_k[256], right_k[256];
    PlaceRun left_runs[256], right_runs[256];
    for (int64_t k0 = 0; k0 < s_.k; k0 += s_.side) {
      const int64_t chunk = std::min(s_.side, s_.k - k0);
      lhs_.k->Fill(k0, chunk, left_k);
      rhs_.k->Fill(k0, chunk, right_k);
      const PackSource left{
          lhs_.data, lhs_.type, part.lhs, left_k, chunk, left_runs, FindRuns(left_k, chunk, left_runs)};
      PackSource right{rhs_.data, rhs_.type, part.rhs, right_k, chunk, right_runs, 0};
      const bool in_rows = PackInRows(left, rows.data(), row_count);
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

  void Write(int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const float* all, int64_t pitch,
             float* row) const {
    const int64_t width = ByteWidth(out_.type);
    absl::InlinedVector<int64_t, 256> row_places(static_cast<size_t>(rows)), places(static_cast<size_t>(columns));
    out_.rows->Fill(m0, rows, row_places.data());
    out_.columns->Fill(n0, columns, places.data());
    const int64_t base = out_.batch->At(batch);
    absl::InlinedVector<PlaceRun, 32> runs(static_cast<size_t>(columns));
    const int64_t run_count = FindRuns(places.data(), columns, runs.data());
    auto* data = static_cast<std::byte*>(out_.data);
    for (int64_t r = 0; r < rows; ++r) {
      const float* sums = all + r * pitch;
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
        const PlaceRun& run = runs[static_cast<size_t>(n)];
        const int64_t place = base + row_places[static_cast<size_t>(r)] + places[static_cast<size_t>(run.begin)];
        const std::byte* source = from + run.begin * width;
        if (run.step == 1) {
          std::memcpy(data + place * width, source, static_cast<size_t>(run.count * width));
        } else {
          Scatter(source, run.count, run.step, data + place * width);
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
  const bool exchanged_;
};

// Blocks for any number of threads up to the one the working memory was asked for.
int64_t StrideFloats(const ArrayProductShape& s) {
  const bool exchange = Exchange(s);
  const Blocks whole = BlocksOf(exchange ? s.n : s.m, exchange ? s.m : s.n, s, 1);
  return RoundUp(UnitFloats(whole, s), 16);
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

int64_t ArrayProductWorkspace(const ArrayProductShape& s, int threads) {
  if (s.batch * s.m * s.n * s.k == 0) return 0;
  return StrideFloats(s) * 4 * std::max(1, threads);
}

void ArrayProduct(const ArrayProductShape& s, const ArrayOperand& lhs, const ArrayOperand& rhs, const ArrayResult& out,
                  void* workspace, engine::ThreadPool* pool) {
  if (s.batch * s.m * s.n == 0) return;
  if (s.k == 0) return FillZero(s, out);
  const bool exchange = Exchange(s);
  const ArrayResult transposed{out.data, out.type, out.batch, out.columns, out.rows};
  const int64_t m = exchange ? s.n : s.m, n = exchange ? s.m : s.n;
  const int threads = pool == nullptr ? 1 : pool->num_threads();
  const Blocks blocks = BlocksOf(m, n, s, threads);
  const Unit unit(s, blocks, m, n, exchange ? rhs : lhs, exchange ? lhs : rhs, exchange ? transposed : out, exchange);
  const int64_t units = s.batch * blocks.row_blocks * blocks.column_blocks, stride = StrideFloats(s);
  float* scratch = static_cast<float*>(workspace);
  const int64_t work_of_unit = std::max(std::min(blocks.rows, m), kRowsOfReading) * std::min(blocks.columns, n) * s.k;
  if (threads == 1 || units * work_of_unit < 2 * kWorthwhile) {
    for (int64_t u = 0; u < units; ++u) unit.Run(u, scratch);
    return;
  }
  pool->ParallelRange(units, std::max<int64_t>(1, kWorthwhile / std::max<int64_t>(1, work_of_unit)),
                      [&](int64_t begin, int64_t end, int slot) {
                        for (int64_t u = begin; u < end; ++u) unit.Run(u, scratch + slot * stride);
                      });
}

void ArrayProduct(const ArrayProductShape& s, const float* lhs, const float* rhs, float* out,
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
  const int64_t bytes = ArrayProductWorkspace(s, pool == nullptr ? 1 : pool->num_threads());
  const std::unique_ptr<float[]> workspace(new float[static_cast<size_t>(bytes / 4 + 1)]);
  ArrayProduct(s, {lhs, PrimitiveType::kF32, &left_batch, &rows, &left_k},
               {rhs, PrimitiveType::kF32, &right_batch, &columns, &right_k},
               {out, PrimitiveType::kF32, &out_batch, &out_rows, &out_columns}, workspace.get(), pool);
}

}  // namespace backplane::tpu
