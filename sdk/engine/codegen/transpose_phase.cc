// TransposePhase: square blocks of what is read across are transposed in registers, so that memory is read and written
// in long pieces. A plain transpose goes straight to the output; with arithmetic around it the transposed tile goes to
// scratch memory, from where the loop over the tile reads it.
#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "core/types/integer_division.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

// Rows of a square matrix in, columns out, by shuffles that are one instruction each: first within the 128-bit lanes of
// the vectors, as interleavings of rows that are half a group apart, then of those lanes themselves.
std::vector<Value*> TransposeSquare(llvm::IRBuilder<>& b, std::vector<Value*> rows) {
  int n = static_cast<int>(rows.size());
  int bits = static_cast<int>(rows[0]->getType()->getScalarSizeInBits());
  int per_lane = std::min(n, 128 / bits), lanes = n / per_lane;
  std::vector<int> low, high;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int i = 0; i < per_lane / 2; ++i) {
      int at = lane * per_lane + i;
      low.insert(low.end(), {at, n + at});
      high.insert(high.end(), {at + per_lane / 2, n + at + per_lane / 2});
    }
  }
  for (int group = 0; group < n; group += per_lane) {
    for (int s = 1; s < per_lane; s *= 2) {
      std::vector<Value*> next;
      for (int i = 0; i < per_lane / 2; ++i) {
        Value *a = rows[group + i], *c = rows[group + i + per_lane / 2];
        next.push_back(b.CreateShuffleVector(a, c, low));
        next.push_back(b.CreateShuffleVector(a, c, high));
      }
      std::copy(next.begin(), next.end(), rows.begin() + group);
    }
  }
  // Now row g * per_lane + c holds, in its lane l, column l * per_lane + c of the rows of group g.
  auto pick = [&](Value* a, Value* c, std::initializer_list<int> from) {
    std::vector<int> mask;
    for (int lane : from) {
      for (int i = 0; i < per_lane; ++i) mask.push_back(lane * per_lane + i);
    }
    return b.CreateShuffleVector(a, c, mask);
  };
  std::vector<Value*> out(n);
  for (int c = 0; c < per_lane; ++c) {
    if (lanes == 1) {
      out[c] = rows[c];
    } else if (lanes == 2) {
      Value *a = rows[c], *d = rows[per_lane + c];
      out[c] = pick(a, d, {0, 2});
      out[per_lane + c] = pick(a, d, {1, 3});
    } else {
      Value *r0 = rows[c], *r1 = rows[per_lane + c], *r2 = rows[2 * per_lane + c], *r3 = rows[3 * per_lane + c];
      Value *x0 = pick(r0, r1, {0, 1, 4, 5}), *x1 = pick(r0, r1, {2, 3, 6, 7});
      Value *y0 = pick(r2, r3, {0, 1, 4, 5}), *y1 = pick(r2, r3, {2, 3, 6, 7});
      out[c] = pick(x0, y0, {0, 2, 4, 6});
      out[per_lane + c] = pick(x0, y0, {1, 3, 5, 7});
      out[2 * per_lane + c] = pick(x1, y1, {0, 2, 4, 6});
      out[3 * per_lane + c] = pick(x1, y1, {1, 3, 5, 7});
    }
  }
  return out;
}

class TileLoops {
 public:
  TileLoops(PhaseFrame& f, const TransposePhase& kind)
      : f_(f), kind_(kind), loops_(MakeLoops(f.vars, kind.nest)), row_vars_(loops_.groups[SourceGroup()]) {
    AccessWalk walk = f_.WalkOutputs(loops_);
    walk.Finish();
    for (const Access& a : walk.accesses()) {
      if (!IsReadTransposed(a)) continue;
      const int bytes = ByteWidth(FirstShape(*a.array).element_type());
      crossed_.push_back({a, f_.AllocateScratch(RoundUp(kind_.tile_rows * kind_.tile_columns * bytes + 64, 64))});
    }
    plain_ = f_.phase.outputs.size() == 1 && f_.phase.outputs[0].container == nullptr && crossed_.size() == 1 &&
             walk.accesses().size() == 1;
    for (const Instruction* x : walk.visited()) {
      plain_ = plain_ && (MovesElements(*x) || x == crossed_[0].access.array);
    }
  }

  void Emit() {
    const int64_t rows = f_.ComputeExtent(row_vars_), columns = f_.ComputeExtent(column_vars());
    f_.ForEachItem([&](Value* item) {
      // The last tiles start early enough to be full.
      tile_column_ = f_.b.CreateMul(f_.Take(item, CeilDiv(columns, kind_.tile_columns)), f_.Number(kind_.tile_columns));
      tile_row_ = f_.b.CreateMul(f_.Take(item, CeilDiv(rows, kind_.tile_rows)), f_.Number(kind_.tile_rows));
      tile_column_ = f_.Min(tile_column_, f_.Number(columns - kind_.tile_columns));
      tile_row_ = f_.Min(tile_row_, f_.Number(rows - kind_.tile_rows));
      for (size_t g = loops_.groups.size() - 1; g-- > 0;) {
        if (g != SourceGroup()) f_.scopes.Bind(loops_.groups[g], f_.Take(item, f_.ComputeExtent(loops_.groups[g])));
      }
      for (const TransposedTile& c : crossed_) {
        auto square = [&](Value* r, Value* k) { TransposeAt(c, r, k); };
        // The output is written in long pieces; with a tile in between, the source is read in long pieces instead.
        if (plain_) {
          ForEachRow(kind_.tile_square,
                     [&](Value* r) { ForEachColumn(kind_.tile_square, 0, [&](Value* k) { square(r, k); }); });
        } else {
          ForEachColumn(kind_.tile_square, 0,
                        [&](Value* k) { ForEachRow(kind_.tile_square, [&](Value* r) { square(r, k); }); });
        }
      }
      if (!plain_) EvalTile();
    });
  }

 private:
  // An array that is read across, at the only index that counts, and its transposed tile.
  struct TransposedTile {
    Access access;
    Value* tile;
  };

  size_t SourceGroup() const { return static_cast<size_t>(kind_.source_group); }
  const std::vector<VarId>& column_vars() const { return loops_.groups.back(); }

  bool IsReadTransposed(const Access& a) const {
    if (std::find(kind_.arrays.begin(), kind_.arrays.end(), a.array) == kind_.arrays.end()) return false;
    if (!IsReadAcross(f_.vars, a, row_vars_, column_vars())) return false;
    // A second index into the same array is read element by element.
    return std::none_of(crossed_.begin(), crossed_.end(),
                        [&](const TransposedTile& c) { return c.access.array == a.array; });
  }

  void ForEachRow(int64_t step, const std::function<void(Value* row)>& fn) {
    f_.scopes.Loop(f_.Number(0), f_.Number(kind_.tile_rows), step, [&](Value* r) {
      f_.scopes.Bind(row_vars_, f_.b.CreateAdd(tile_row_, r));
      fn(r);
    });
  }
  void ForEachColumn(int64_t step, int lanes, const std::function<void(Value* column)>& fn) {
    f_.scopes.Loop(f_.Number(0), f_.Number(kind_.tile_columns), step, [&](Value* k) {
      f_.scopes.Bind(column_vars(), f_.b.CreateAdd(tile_column_, k), lanes);
      fn(k);
    });
  }

  Affine OutputAddress() {
    const PhaseOutput& output = f_.phase.outputs[0];
    return StoreAddress(f_.vars, output, OutputIndex(f_.vars, loops_, output));
  }

  // The square at row r and column k of the tile.
  void TransposeAt(const TransposedTile& c, Value* r, Value* k) {
    llvm::IRBuilder<>& b = f_.b;
    llvm::Type* element = b.getIntNTy(static_cast<unsigned>(ByteWidth(FirstShape(*c.access.array).element_type()) * 8));
    const int64_t square = kind_.tile_square, source_step = c.access.address.GetCoef(column_vars().back());
    Value* from = b.CreateGEP(element, f_.body.GetArray(c.access.array).base, f_.indices.Evaluate(c.access.address));
    auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(square));
    std::vector<Value*> lines;
    for (int64_t i = 0; i < square; ++i) {
      Value* line = b.CreateConstGEP1_64(element, from, static_cast<uint64_t>(i * source_step));
      lines.push_back(b.CreateAlignedLoad(vector, line, llvm::Align(1)));
    }
    lines = TransposeSquare(b, std::move(lines));
    Value* to;
    int64_t step = kind_.tile_columns;
    if (plain_) {
      const Affine address = OutputAddress();
      step = address.GetCoef(row_vars_.back());
      to = b.CreateGEP(element, f_.GetBuffer(f_.phase.outputs[0]).base, f_.indices.Evaluate(address));
    } else {
      to = b.CreateGEP(element, c.tile, b.CreateAdd(b.CreateMul(r, f_.Number(step)), k));
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      Value* line = b.CreateConstGEP1_64(element, to, i * static_cast<uint64_t>(step));
      b.CreateAlignedStore(lines[i], line, llvm::Align(1));
    }
  }

  // The outputs of the tile, from the transposed tiles.
  void EvalTile() {
    const int lanes = static_cast<int>(kind_.lanes);
    ForEachRow(1, [&](Value* r) {
      Value* line = f_.b.CreateMul(r, f_.Number(kind_.tile_columns));
      ForEachColumn(lanes, lanes, [&](Value* k) {
        for (const TransposedTile& c : crossed_) {
          // The tile has elements as memory has them; complex numbers are pairs.
          const VarId position = f_.vars.Loop(kind_.tile_rows * kind_.tile_columns);
          f_.scopes.Bind({&position, 1}, f_.b.CreateAdd(line, k), lanes);
          const ArrayRef tile{c.tile, FirstShape(*c.access.array).element_type()};
          f_.body.SetElement(c.access.array, c.access.index, f_.memory.Load(tile, Affine::Var(position), {}));
        }
        f_.EvalAndStore(loops_, {}, false);
      });
    });
  }

  PhaseFrame& f_;
  const TransposePhase& kind_;
  const PhaseLoops loops_;
  const std::vector<VarId>& row_vars_;
  std::vector<TransposedTile> crossed_;
  bool plain_ = false;  // nothing but the transpose: no tile in scratch
  // In the work item that is being emitted: where its tile starts.
  Value *tile_column_ = nullptr, *tile_row_ = nullptr;
};

}  // namespace

void EmitPhaseBody(PhaseFrame& f, const TransposePhase& kind) { TileLoops(f, kind).Emit(); }

}  // namespace backplane::engine::codegen
