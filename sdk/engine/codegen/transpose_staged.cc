// A transpose and nothing else, at the speed of memory. Read line by line and written line by line it would touch a
// line of the other side for each element, and lines a power of two apart keep evicting one another. So a tile is
// turned into scratch memory, whose rows lie apart as suits the cache, and goes from there to the result in runs of
// whole cache lines; of a large result past the caches, which spares reading what is overwritten.
#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

constexpr int64_t kLine = 64;          // bytes of a cache line
constexpr int64_t kAhead = 32 * 1024;  // bytes of the source fetched before they are wanted: a part of the second cache
constexpr int64_t kWay = 64 * 1024;    // bytes in one way of that

}  // namespace

std::vector<Value*> PhaseEmitter::TransposeLong(std::vector<Value*> rows) {
  const int n = static_cast<int>(rows.size());
  const int length = static_cast<int>(llvm::cast<llvm::FixedVectorType>(rows[0]->getType())->getNumElements());
  std::vector<int> low, high;
  for (int lane = 0; lane < length; lane += n) {
    for (int i = 0; i < n / 2; ++i) {
      low.insert(low.end(), {lane + i, length + lane + i});
      high.insert(high.end(), {lane + i + n / 2, length + lane + i + n / 2});
    }
  }
  for (int s = 1; s < n; s *= 2) {
    std::vector<Value*> next;
    for (int i = 0; i < n / 2; ++i) {
      next.push_back(b_.CreateShuffleVector(rows[i], rows[i + n / 2], low));
      next.push_back(b_.CreateShuffleVector(rows[i], rows[i + n / 2], high));
    }
    rows = std::move(next);
  }
  std::vector<Value*> columns;
  for (int lane = 0; lane < length; lane += n) {
    std::vector<int> pick(n);
    for (int i = 0; i < n; ++i) pick[i] = lane + i;
    for (int i = 0; i < n; ++i) columns.push_back(length == n ? rows[i] : b_.CreateShuffleVector(rows[i], pick));
  }
  return columns;
}

void PhaseEmitter::TransposeStaged() {
  const int last = static_cast<int>(phase_.groups.size()) - 1, across = phase_.transposed_group;
  const int64_t rows = ExtentOf(across), columns = ExtentOf(last);
  const int64_t tile_rows = phase_.tile_rows, tile_columns = phase_.tile_columns;
  const int64_t block_rows = phase_.block_rows, block_columns = phase_.block_columns;
  const std::vector<VarId>&row_vars = loops_.groups[across], &column_vars = loops_.groups[last];
  std::vector<Value*> none;

  const Instruction* array = phase_.transposed[0];
  AccessWalk::ArraySet arrays;
  for (const Materialized& m : phase_.reads) arrays.insert(m.instruction);
  AccessWalk walk(vars_, arrays);
  const Target& target = phase_.targets[0];
  const Index index = TargetIndex(vars_, phase_, loops_, target);
  walk.Visit(target.instruction, index);
  walk.Finish();
  const Affine source_address = walk.accesses()[0].address, target_address = StoreAddress(vars_, target, index);
  const int64_t width = ByteWidth(FirstShape(*array).element_type());
  const int64_t source_step = source_address.CoefOf(column_vars.back()) * width;
  const int64_t target_step = target_address.CoefOf(row_vars.back()) * width;
  llvm::Type *byte = b_.getInt8Ty(), *element = b_.getIntNTy(static_cast<unsigned>(width * 8));
  auto* line = llvm::FixedVectorType::get(byte, kLine);
  auto* block_row = llvm::FixedVectorType::get(element, static_cast<unsigned>(block_rows));
  Value* tile = ScratchAt(phase_.scratch_bytes);
  auto at = [&](Value* base, Value* bytes) { return b_.CreateGEP(byte, base, bytes); };
  auto times = [&](Value* a, int64_t n) { return b_.CreateMul(a, b_.getInt64(n)); };
  auto least = [&](Value* a, Value* c) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, c); };

  auto fetch = [&](Value* p) {
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {p->getType()},
                       {p, b_.getInt32(0), b_.getInt32(2), b_.getInt32(1)});  // to be read; second-level cache; data
  };
  // Lines whose distance is a multiple of a large power of two share a few sets of the second-level cache: no more are
  // fetched than half of what those hold, in eight ways.
  const int64_t together = 8 * (kWay / std::gcd(source_step, kWay)) / 2;
  int64_t ahead = std::min({RoundUp(CeilDiv(kAhead, tile_rows * width), block_columns), tile_columns, together});
  if (ahead < block_columns) ahead = 0;
  Units([&](Value* unit) {
    // Neighbours along the source's lines come one after another: their lines are read on.
    Value* tile_row = times(Take(unit, CeilDiv(rows, tile_rows)), tile_rows);
    Value* tile_column = times(Take(unit, CeilDiv(columns, tile_columns)), tile_columns);
    tile_row = least(tile_row, b_.getInt64(rows - tile_rows));
    tile_column = least(tile_column, b_.getInt64(columns - tile_columns));
    for (int g = last - 1; g >= 0; --g) {
      if (g != across) body_.Count(loops_.groups[g], Take(unit, ExtentOf(g)));
    }
    body_.Count(row_vars, tile_row);
    body_.Count(column_vars, tile_column);
    Value* from = b_.CreateGEP(element, body_.ArrayBase(array), body_.IndexValue(source_address));
    Value* to = b_.CreateGEP(element, buffers_[target.buffer], body_.IndexValue(target_address));
    // Where the lines of the result are not the tile's, it takes all of a line that begins in it.
    Value* staged = b_.getInt64(tile_columns);
    if (phase_.stream) {
      Value* more = b_.getInt64(tile_columns + kLine / width);
      if (target_step % kLine == 0) {
        Value* inside = b_.CreateAnd(b_.CreatePtrToInt(to, b_.getInt64Ty()), kLine - 1);
        more = b_.CreateSelect(b_.CreateICmpEQ(inside, b_.getInt64(0)), staged, more);
      }
      staged = least(more, b_.CreateSub(b_.getInt64(columns), tile_column));
    }

    // In, line by line of the source, each fetched so many lines before. The last block of a side may do a part of its
    // neighbour's work again.
    const int64_t line_rows = std::max(block_rows, kLine / width);
    const int64_t row_turn = tile_rows % line_rows == 0 ? line_rows : block_rows;
    Value* last_block = b_.CreateSub(staged, b_.getInt64(block_columns));
    body_.Loop(b_.getInt64(0), staged, block_columns, none, [&](Value* k, std::vector<Value*>&) {
      k = least(k, last_block);
      Value* lines = at(from, times(k, source_step));
      Value* fetched = at(from, times(least(b_.CreateAdd(k, b_.getInt64(ahead)), last_block), source_step));
      body_.Loop(b_.getInt64(0), b_.getInt64(tile_rows), row_turn, none, [&](Value* r, std::vector<Value*>&) {
        for (int64_t i = 0; ahead > 0 && i < block_columns; ++i)
          fetch(at(fetched, b_.CreateAdd(times(r, width), b_.getInt64(i * source_step))));
        for (int64_t part = 0; part < row_turn; part += block_rows) {
          Value* row = b_.CreateAdd(r, b_.getInt64(part));
          if (tile_rows % block_rows != 0) row = least(row, b_.getInt64(tile_rows - block_rows));
          Value* source = at(lines, times(row, width));
          std::vector<Value*> block;
          for (int64_t i = 0; i < block_columns; ++i) {
            Value* p = b_.CreateConstGEP1_64(byte, source, i * source_step);
            block.push_back(b_.CreateAlignedLoad(block_row, p, llvm::Align(1)));
          }
          block = width > 2 ? TransposeSquare(std::move(block)) : TransposeLong(std::move(block));
          Value* place = at(tile, b_.CreateAdd(times(row, phase_.tile_pitch), times(k, width)));
          for (int64_t i = 0; i < block_rows; ++i) {
            b_.CreateAlignedStore(block[i], b_.CreateConstGEP1_64(byte, place, i * phase_.tile_pitch), llvm::Align(1));
          }
        }
      });
    });

    // Out. Meanwhile the first lines of the next tile, this one's continuation, are fetched.
    const int64_t next_lines = CeilDiv(ahead, tile_rows), next_bytes = tile_rows * width;
    const int64_t tile_bytes = tile_columns * width;
    Value* row_end = times(b_.CreateSub(b_.getInt64(columns), tile_column), width);
    body_.Loop(b_.getInt64(0), b_.getInt64(tile_rows), 1, none, [&](Value* r, std::vector<Value*>&) {
      Value *source = at(tile, times(r, phase_.tile_pitch)), *result = at(to, times(r, target_step));
      Value* next = at(from, b_.CreateAdd(times(r, next_lines * source_step), b_.getInt64(next_bytes)));
      for (int64_t i = 0; i < next_lines; ++i) {
        for (int64_t k = 0; k < next_bytes; k += kLine) {
          fetch(b_.CreateConstGEP1_64(byte, next, i * source_step + k));
        }
      }
      if (!phase_.stream) {
        int64_t run = std::min<int64_t>(host_.vector_bytes, block_columns * width);
        while (run < 4 * host_.vector_bytes && tile_bytes % (2 * run) == 0) run *= 2;
        auto* vector = llvm::FixedVectorType::get(byte, static_cast<unsigned>(run));
        body_.Loop(b_.getInt64(0), b_.getInt64(tile_bytes), run, none, [&](Value* k, std::vector<Value*>&) {
          if (tile_bytes % run != 0) k = least(k, b_.getInt64(tile_bytes - run));
          b_.CreateAlignedStore(b_.CreateAlignedLoad(vector, at(source, k), llvm::Align(1)), at(result, k),
                                llvm::Align(1));
        });
        return;
      }
      // Lines that begin before the tile are the neighbour's, but at the beginning of the row.
      Value* address = b_.CreatePtrToInt(result, b_.getInt64Ty());
      Value* to_line = b_.CreateAnd(b_.CreateNeg(address), kLine - 1);
      Value* first = b_.CreateICmpEQ(tile_column, b_.getInt64(0));
      Value* past = b_.CreateAdd(b_.getInt64(tile_bytes),
                                 b_.CreateAnd(b_.CreateNeg(b_.CreateAdd(address, b_.getInt64(tile_bytes))), kLine - 1));
      Value* end = least(past, row_end);
      Value* aligned_end = b_.CreateSub(end, b_.CreateAnd(b_.CreateSub(end, to_line), kLine - 1));
      auto copy = [&](Value* begin, Value* stop) {
        b_.CreateMemCpy(at(result, begin), llvm::MaybeAlign(1), at(source, begin), llvm::MaybeAlign(1),
                        b_.CreateSub(stop, begin));
      };
      body_.If(b_.CreateAnd(first, b_.CreateICmpNE(to_line, b_.getInt64(0))), [&] { copy(b_.getInt64(0), to_line); });
      body_.Loop(to_line, aligned_end, kLine, none, [&](Value* k, std::vector<Value*>&) {
        Value* v = b_.CreateAlignedLoad(line, at(source, k), llvm::Align(1));
        llvm::StoreInst* store = b_.CreateAlignedStore(v, at(result, k), llvm::Align(kLine));
        store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                           llvm::MDNode::get(e_.context(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
      });
      body_.If(b_.CreateICmpSLT(aligned_end, end), [&] { copy(aligned_end, end); });
    });
  });
  // Stores past the caches are ordered with nothing that follows but by a fence.
  if (phase_.stream && absl::StartsWith(host_.triple, "x86_64"))
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

}  // namespace backplane::engine::codegen
