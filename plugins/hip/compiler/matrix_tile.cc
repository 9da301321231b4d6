#include "plugins/hip/compiler/matrix_tile.h"

#include <algorithm>
#include <limits>

#include "absl/types/span.h"
#include "core/types/integer_division.h"

namespace backplane::hip {
namespace {

constexpr int64_t kManyTiles = 240;  // about the compute units of a large GPU

// From large to small. A wave of 64 lanes computes up to 64 x 64 elements, one of 32 lanes up to 32 x 64.
constexpr MatrixTile kMfmaTiles[] = {
    {256, 128, 4, 2}, {128, 128, 2, 2}, {128, 64, 2, 2}, {64, 128, 2, 2},
    {64, 64, 2, 2},   {32, 128, 2, 2},  {32, 64, 2, 2},
};
// Of f64, blocks of two elements by two are transposed on the way, one for each thread.
constexpr MatrixTile kF64Tiles[] = {{64, 64, 2, 2}, {32, 64, 2, 2}};
constexpr MatrixTile kWmmaTiles[] = {{128, 128, 4, 2}, {128, 64, 4, 2}, {64, 128, 4, 2}, {64, 64, 4, 2}};

int64_t CountTiles(const DotProblem& p, const MatrixTile& t) {
  return p.batch_size() * CeilDiv(p.m, t.rows) * CeilDiv(p.n, t.columns);
}

llvm::Value* Bit(llvm::IRBuilder<>& b, llvm::Value* v, int from, int to) {
  llvm::Value* bit = b.CreateAnd(v, b.getInt32(1u << from));
  if (from < to) return b.CreateShl(bit, b.getInt32(static_cast<uint32_t>(to - from)));
  return b.CreateLShr(bit, b.getInt32(static_cast<uint32_t>(from - to)));
}

}  // namespace

int64_t ChunkElements(const MatrixStep& step) { return kChunkBytes / ByteWidth(step.operand); }
int64_t SliceElements(const MatrixStep& step) { return kRowChunks * ChunkElements(step); }

int64_t RunOfColumns(const MatrixStep& step) { return step.is_wmma || ByteWidth(step.operand) == 2 ? 8 : 4; }

MatrixTile ChooseMatrixTile(const DotProblem& p, const MatrixStep& step) {
  absl::Span<const MatrixTile> tiles = kMfmaTiles;
  if (step.is_wmma) tiles = kWmmaTiles;
  if (ByteWidth(step.operand) == 8) tiles = kF64Tiles;
  // Operands that are transposed on the way cost instructions for each tile, which a larger tile spreads over more
  // products. Otherwise two blocks of a smaller tile overlap their work better.
  const bool transposes = p.lhs_k_stride != 1 || p.rhs_k_stride != 1;
  const MatrixTile* best = nullptr;
  for (const MatrixTile& t : tiles) {
    if (t.rows == 256 && !transposes) continue;
    const bool is_smallest = t.rows == tiles.back().rows && t.columns == tiles.back().columns;
    const bool wastes =
        (t.rows / 2 >= p.m && t.rows > tiles.back().rows) || (t.columns / 2 >= p.n && t.columns > tiles.back().columns);
    if (wastes && !is_smallest) continue;
    best = &t;
    if (CountTiles(p, t) >= kManyTiles) break;
  }
  return *best;
}

bool OffsetsFit(const DotProblem& p, const MatrixTile& tile, const MatrixStep& step) {
  const int64_t width = ByteWidth(step.operand), slice = SliceElements(step);
  auto fits = [&](int64_t rows, int64_t row_stride, int64_t k_stride) {
    return (rows * row_stride + slice * k_stride) * width < std::numeric_limits<int32_t>::max();
  };
  return p.k < std::numeric_limits<int32_t>::max() && fits(tile.rows, p.lhs_m_stride, p.lhs_k_stride) &&
         fits(tile.columns, p.rhs_n_stride, p.rhs_k_stride);
}

llvm::Value* PermuteColumns(llvm::IRBuilder<>& b, const MatrixStep& step, llvm::Value* column) {
  // A lane's sums of a step are those of rows 2 * r + lane / 16 (WMMA), 4 * (lane / 16) + r (MFMA) or 4 * r + lane / 16
  // (MFMA of f64) of the left factor, for which the right operand serves.
  auto move = [&](std::initializer_list<int> to) {
    const uint32_t moved = (1u << to.size()) - 1;
    llvm::Value* result = b.CreateAnd(column, b.getInt32(~moved));
    int from = 0;
    for (const int t : to) result = b.CreateOr(result, Bit(b, column, from++, t));
    return result;
  };
  if (step.is_wmma) return move({1, 2, 3, 0});
  if (ByteWidth(step.operand) == 8) return move({2, 3, 0, 1});
  return ByteWidth(step.operand) == 2 ? move({0, 1, 4, 2, 3}) : column;  // a pair of steps makes a run of eight
}

llvm::Value* SwizzleChunk(llvm::IRBuilder<>& b, llvm::Value* row, llvm::Value* chunk) {
  // Each bit of the row's number flips bits of the chunk's. What eight lanes access at a time differs in three bits of
  // the row: 0 to 2 for reads (also for those of ds_read_b128 on gfx942, whose passes take lanes 0 to 3 with 20 to 23
  // and so on); for writes of transposed blocks of f32 2 to 4, of 16 bits 3 to 5 or 2, 3, 5 or (WMMA) 0, 4, 5, of bytes
  // 4 to 6. Those flip independent combinations.
  llvm::Value* key = b.CreateAnd(row, b.getInt32(7));
  key = b.CreateXor(key, b.CreateAnd(b.CreateLShr(row, b.getInt32(3)), b.getInt32(3)));
  key = b.CreateXor(key, b.CreateOr(Bit(b, row, 5, 1), Bit(b, row, 5, 2)));
  key = b.CreateXor(key, Bit(b, row, 6, 0));
  return b.CreateShl(b.CreateXor(key, chunk), b.getInt32(4));
}

}  // namespace backplane::hip
