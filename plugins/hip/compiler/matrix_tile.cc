#include "plugins/hip/compiler/matrix_tile.h"

#include <algorithm>
#include <limits>

#include "absl/types/span.h"
#include "core/types/integer_division.h"

namespace backplane::hip {
namespace {

// About the compute units of a large GPU of AMD, and of one of NVIDIA.
constexpr int64_t kManyTiles = 240, kManyMmaTiles = 128;

// The tiles that ChooseMatrixTile tries, from large to small. A wave of 64 lanes computes up to 64 x 64 elements, one
// of 32 lanes up to 32 x 64.
constexpr MatrixTile kMfmaTiles[] = {
    {256, 128, 4, 2}, {128, 128, 2, 2}, {128, 64, 2, 2}, {64, 128, 2, 2},
    {64, 64, 2, 2},   {32, 128, 2, 2},  {32, 64, 2, 2},
};
// Elements of f64 are transposed on the way in blocks of two by two, one for each thread.
constexpr MatrixTile kF64Tiles[] = {{64, 64, 2, 2}, {32, 64, 2, 2}};
constexpr MatrixTile kWmmaTiles[] = {{128, 128, 4, 2}, {128, 64, 4, 2}, {64, 128, 4, 2}, {64, 64, 4, 2}};
// Both operands' slices fit into 48 KiB. A thread transposes at most one block of elements.
constexpr MatrixTile kMmaTiles[] = {
    {128, 128, 2, 4}, {128, 64, 2, 2}, {64, 128, 2, 2}, {64, 64, 2, 2}, {32, 128, 2, 2}, {32, 64, 2, 2},
};
// A thread that transposes bytes needs 64 registers for them.
constexpr MatrixTile kMmaTransposedByteTiles[] = {{64, 64, 2, 4}, {32, 64, 2, 4}};
// For few columns, as groups of convolutions have: a run of columns takes 32.
constexpr MatrixTile kMmaNarrowTiles[] = {{128, 32, 4, 1}, {64, 32, 4, 1}};
// A thread that loads single elements computes an address for each.
constexpr MatrixTile kMmaElementTiles[] = {{64, 64, 2, 2}, {32, 64, 2, 2}};
// With asynchronous copies no thread transposes, and no registers hold the slices that are being copied.
constexpr MatrixTile kMmaAsyncTiles[] = {{128, 128, 2, 2}, {128, 64, 2, 2}, {64, 128, 2, 2}, {64, 64, 2, 2}};
constexpr MatrixTile kMmaAsyncF64Tiles[] = {{128, 64, 4, 2}, {64, 64, 2, 2}};
constexpr int64_t kNarrow = 32;  // columns
// A group's part has 64 or more rows, and columns whose number gpu.group.multiply permits.
constexpr MatrixTile kGroupTiles[] = {
    {128, 256, 2, 1}, {128, 128, 2, 1}, {128, 64, 2, 1}, {64, 128, 1, 2}, {64, 64, 1, 1}};
constexpr int64_t kMaxStages = 4;
constexpr int64_t kReservedShared = 1024;  // by the system, for each block
constexpr MatrixTile kMmaTf32Tiles[] = {
    {128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4}, {64, 64, 2, 2}, {32, 64, 2, 2}};
constexpr MatrixTile kMmaF64Tiles[] = {{64, 64, 2, 4}, {32, 64, 2, 4}};

int64_t CountTiles(const DotProblem& p, const MatrixTile& t) {
  return p.batch_size() * CeilDiv(p.m, t.rows) * CeilDiv(p.n, t.columns);
}

llvm::Value* Bit(llvm::IRBuilder<>& b, llvm::Value* v, int from, int to) {
  llvm::Value* bit = b.CreateAnd(v, b.getInt32(1u << from));
  if (from < to) return b.CreateShl(bit, b.getInt32(static_cast<uint32_t>(to - from)));
  return b.CreateLShr(bit, b.getInt32(static_cast<uint32_t>(from - to)));
}

// Whether each chunk of both operands is 16 aligned bytes in memory, and lanes can load the factors of the step from
// the copied chunks.
bool CanCopyAsync(const DotProblem& p, const MatrixStep& step, const GpuTarget& target) {
  if (p.lhs_gather || p.rhs_gather) return false;
  const int64_t chunk = CountChunkElements(step);
  auto can = [&](int64_t rows, int64_t row_stride, int64_t k_stride, int64_t DotProblem::BatchDim::*stride) {
    for (const DotProblem::BatchDim& d : p.batch) {
      if (d.*stride % chunk != 0) return false;
    }
    if (k_stride == 1) return row_stride % chunk == 0 && p.k % chunk == 0;
    return row_stride == 1 && ByteWidth(step.operand) == 2 && k_stride % chunk == 0 && rows % chunk == 0;
  };
  // A group reads what has been copied as it is, without rounding it.
  const bool rounds_in_memory = step.family == MatrixFamily::kGroup && step.rounds_operands;
  return target.async_copies && step.is_nvidia() && !rounds_in_memory && p.k > 0 &&
         can(p.m, p.lhs_m_stride, p.lhs_k_stride, &DotProblem::BatchDim::lhs_stride) &&
         can(p.n, p.rhs_n_stride, p.rhs_k_stride, &DotProblem::BatchDim::rhs_stride);
}

// Returns how many slices each of two blocks on a multiprocessor has room for, at least two; of groups at
// least three, and with a large tile as many as one block has room for.
int CountStages(const MatrixTile& tile, const MatrixStep& step, const GpuTarget& target) {
  const int64_t bytes = (tile.rows + tile.columns) * kRowChunks * kChunkBytes;
  const int blocks = step.family == MatrixFamily::kGroup && tile.rows * tile.columns > 128 * 128 ? 1 : 2;
  const int64_t room = target.multiprocessor_shared_bytes / blocks - kReservedShared;
  return static_cast<int>(std::clamp<int64_t>(room / bytes, step.family == MatrixFamily::kGroup ? 3 : 2, kMaxStages));
}

}  // namespace

int64_t CountChunkElements(const MatrixStep& step) { return kChunkBytes / ByteWidth(step.operand); }
int64_t CountSliceElements(const MatrixStep& step) { return kRowChunks * CountChunkElements(step); }

int64_t CountColumnsOfRun(const MatrixStep& step) {
  if (step.family == MatrixFamily::kWmma || ByteWidth(step.operand) == 2) return 8;
  return step.family == MatrixFamily::kMma && ByteWidth(step.operand) == 8 ? 2 : 4;
}

const MatrixStep* PreferGroups(const DotProblem& p, const MatrixStep& step, const GpuTarget& target) {
  const MatrixStep* group = FindGroupStep(target, step);
  // Windows pass through registers into the places that mma.sync reads.
  if (group == nullptr || p.lhs_gather || p.rhs_gather) return &step;
  if (CanCopyAsync(p, *group, target)) return group;
  // Threads would transpose the left operand with bank conflicts, and need many registers for bytes. Few rows are
  // better served by smaller tiles.
  const bool can_store = p.lhs_k_stride == 1 && (p.rhs_k_stride == 1 || ByteWidth(step.operand) > 1);
  return can_store && p.k > 0 && p.m > 32 ? group : &step;
}

MatrixTile ChooseMatrixTile(const DotProblem& p, const MatrixStep& step, const GpuTarget& target) {
  absl::Span<const MatrixTile> tiles = kMfmaTiles;
  const bool is_mma = step.family == MatrixFamily::kMma;
  const int width = ByteWidth(step.operand);
  if (step.family == MatrixFamily::kWmma) tiles = kWmmaTiles;
  if (is_mma) tiles = width == 4 ? absl::Span<const MatrixTile>(kMmaTf32Tiles) : kMmaTiles;
  const bool async = CanCopyAsync(p, step, target);
  if (width == 8) tiles = is_mma ? absl::Span<const MatrixTile>(kMmaF64Tiles) : kF64Tiles;
  const bool transposes = p.lhs_k_stride != 1 || p.rhs_k_stride != 1;
  // Without asynchronous copies a thread has no registers for the largest tile.
  if (step.family == MatrixFamily::kGroup) tiles = absl::MakeConstSpan(kGroupTiles).subspan(async ? 0 : 1);
  if (async && is_mma) tiles = width == 8 ? absl::Span<const MatrixTile>(kMmaAsyncF64Tiles) : kMmaAsyncTiles;
  if (is_mma && !async && width == 1 && transposes) tiles = kMmaTransposedByteTiles;
  auto has_no_chunks = [&](const std::optional<GatheredMatrix>& gather) {
    return gather && gather->FindChunks(CountChunkElements(step)) == GatheredMatrix::Chunks::kNone;
  };
  if (is_mma && width < 4 && (has_no_chunks(p.lhs_gather) || has_no_chunks(p.rhs_gather))) tiles = kMmaElementTiles;
  if (is_mma && !async && width == 2 && p.n <= kNarrow && p.lhs_gather && !has_no_chunks(p.lhs_gather))
    tiles = kMmaNarrowTiles;
  // Operands that are transposed on the way cost instructions for each tile, which a larger tile spreads over more
  // products. Otherwise two blocks of a smaller tile overlap their work better.
  const MatrixTile* best = nullptr;
  for (const MatrixTile& t : tiles) {
    if (t.rows == 256 && !transposes) continue;
    const bool is_smallest = t.rows == tiles.back().rows && t.columns == tiles.back().columns;
    const bool wastes =
        (t.rows / 2 >= p.m && t.rows > tiles.back().rows) || (t.columns / 2 >= p.n && t.columns > tiles.back().columns);
    if (wastes && !is_smallest) continue;
    best = &t;
    if (CountTiles(p, t) >= (step.is_nvidia() ? kManyMmaTiles : kManyTiles)) break;
  }
  MatrixTile tile = *best;
  if (async) tile.stages = CountStages(tile, step, target);
  return tile;
}

bool OffsetsFit(const DotProblem& p, const MatrixTile& tile, const MatrixStep& step) {
  const int64_t width = ByteWidth(step.operand), slice = CountSliceElements(step);
  auto fits = [&](int64_t rows, int64_t row_stride, int64_t k_stride) {
    return (rows * row_stride + slice * k_stride) * width < std::numeric_limits<int32_t>::max();
  };
  // The offsets of gathered operands have 64 bits where they need them.
  return p.k < std::numeric_limits<int32_t>::max() &&
         (p.lhs_gather || fits(tile.rows, p.lhs_m_stride, p.lhs_k_stride)) &&
         (p.rhs_gather || fits(tile.columns, p.rhs_n_stride, p.rhs_k_stride));
}

llvm::Value* PermuteColumns(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* column) {
  // A lane's sums of a step of MMA are those of two neighbouring columns; several steps make a run. Of AMD they are
  // those of rows 2 * r + lane / 16 (WMMA), 4 * (lane / 16) + r (MFMA) or 4 * r + lane / 16 (MFMA of f64) of the left
  // factor, for which the right operand serves.
  auto move = [&](std::initializer_list<int> to) {
    const uint32_t moved = (1u << to.size()) - 1;
    llvm::Value* result = b.CreateAnd(column, b.getInt32(~moved));
    int from = 0;
    for (const int t : to) result = b.CreateOr(result, Bit(b, column, from++, t));
    return result;
  };
  if (step.is_nvidia()) {
    if (CountColumnsOfRun(step) == 8) return move({0, 3, 4, 1, 2});
    return CountColumnsOfRun(step) == 4 ? move({0, 3, 1, 2}) : column;
  }
  if (step.family == MatrixFamily::kWmma) return move({1, 2, 3, 0});
  if (ByteWidth(step.operand) == 8) return move({2, 3, 0, 1});
  return ByteWidth(step.operand) == 2 ? move({0, 1, 4, 2, 3}) : column;  // a pair of steps makes a run of eight
}

llvm::Value* SwizzleChunk(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* row, llvm::Value* chunk) {
  // Each bit of the row's number flips bits of the chunk's. What eight lanes access at a time differs in three bits of
  // the row, which flip independent combinations.
  if (step.family == MatrixFamily::kGroup)
    return b.CreateShl(b.CreateXor(b.CreateAnd(row, b.getInt32(7)), chunk), b.getInt32(4));
  llvm::Value* key = b.getInt32(0);
  if (step.family == MatrixFamily::kMma) {
    // Reads take four chunks of two rows, so bit 0 flips the halves of a row. Writes of transposed blocks differ in
    // bits 2 to 4 or (right operand) 1, 2, 4 of f32, 3 to 5 or 1, 2, 5 of 16 bits, 4 to 6 of bytes, 1 to 3 of f64.
    constexpr uint32_t kFlips[] = {4, 3, 5, 1, 2, 4, 1};
    for (int from = 0; from < 7; ++from) {
      for (int to = 0; to < 3; ++to) {
        if ((kFlips[from] >> to & 1) != 0) key = b.CreateXor(key, Bit(b, row, from, to));
      }
    }
  } else {
    // 0 to 2 for reads (also for those of ds_read_b128 on gfx942, whose passes take lanes 0 to 3 with 20 to 23 and so
    // on); for writes of transposed blocks of f32 2 to 4, of 16 bits 3 to 5 or 2, 3, 5 or (WMMA) 0, 4, 5, of bytes 4 to
    // 6.
    key = b.CreateAnd(row, b.getInt32(7));
    key = b.CreateXor(key, b.CreateAnd(b.CreateLShr(row, b.getInt32(3)), b.getInt32(3)));
    key = b.CreateXor(key, b.CreateOr(Bit(b, row, 5, 1), Bit(b, row, 5, 2)));
    key = b.CreateXor(key, Bit(b, row, 6, 0));
  }
  return b.CreateShl(b.CreateXor(key, chunk), b.getInt32(4));
}

}  // namespace backplane::hip
