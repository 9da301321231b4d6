// Tiles that are read across: square blocks are turned in registers, so that memory is read and written in whole
// lines. A plain transpose goes straight to the output; with arithmetic around it the turned tile lies in scratch
// memory, from where the loop over the tile reads it.
#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using llvm::Value;

// Rows of a square matrix in, columns out, by shuffles that are one instruction each: first within the 128-bit lanes of
// the vectors, as interleavings of rows that are half a group apart, then whole lanes.
std::vector<Value*> PhaseEmitter::TransposeSquare(std::vector<Value*> rows) {
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
        next.push_back(b_.CreateShuffleVector(a, c, low));
        next.push_back(b_.CreateShuffleVector(a, c, high));
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
    return b_.CreateShuffleVector(a, c, mask);
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

void PhaseEmitter::Transpose() {
  int last = static_cast<int>(phase_.groups.size()) - 1, across = phase_.transposed_group;
  int64_t rows = ExtentOf(across), columns = ExtentOf(last);
  int64_t tile_rows = phase_.tile_rows, tile_columns = phase_.tile_columns, square = phase_.tile_square;
  const std::vector<VarId>&row_vars = loops_.groups[across], &column_vars = loops_.groups[last];
  std::vector<Value*> none;

  // The arrays that are read across, and at which index.
  struct Crossed {
    Access access;
    Value* tile;
  };
  std::vector<Crossed> crossed;
  AccessWalk::ArraySet arrays;
  for (const Materialized& m : phase_.reads) arrays.insert(m.instruction);
  AccessWalk walk(vars_, arrays);
  for (const Target& t : phase_.targets) walk.Visit(t.instruction, TargetIndex(vars_, phase_, loops_, t));
  walk.Finish();
  for (const Access& a : walk.accesses()) {
    if (std::find(phase_.transposed.begin(), phase_.transposed.end(), a.array) == phase_.transposed.end()) continue;
    if (a.address.CoefOf(row_vars.back()) != 1 || std::abs(a.address.CoefOf(column_vars.back())) <= 1) continue;
    bool known = false;
    for (const Crossed& c : crossed) known = known || c.access.array == a.array;
    if (known) continue;  // a second way of reading the same array is read element by element
    int bytes = ByteWidth(FirstShape(*a.array).element_type());
    crossed.push_back({a, ScratchAt(RoundUp(tile_rows * tile_columns * bytes + 64, 64))});
  }
  // Nothing but the transpose: no tile in scratch.
  bool plain = phase_.targets.size() == 1 && phase_.targets[0].window == nullptr && crossed.size() == 1 &&
               walk.accesses().size() == 1;
  for (const Instruction* x : walk.visited()) plain = plain && (MovesElements(*x) || x == crossed[0].access.array);

  Units([&](Value* unit) {
    Value* tile_column = b_.CreateMul(Take(unit, CeilDiv(columns, tile_columns)), b_.getInt64(tile_columns));
    Value* tile_row = b_.CreateMul(Take(unit, CeilDiv(rows, tile_rows)), b_.getInt64(tile_rows));
    tile_column = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile_column, b_.getInt64(columns - tile_columns));
    tile_row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tile_row, b_.getInt64(rows - tile_rows));
    for (int g = last - 1; g >= 0; --g) {
      if (g != across) body_.Count(loops_.groups[g], Take(unit, ExtentOf(g)));
    }
    for (const Crossed& c : crossed) {
      PrimitiveType t = FirstShape(*c.access.array).element_type();
      llvm::Type* element = b_.getIntNTy(ByteWidth(t) * 8);
      Value* base = body_.ArrayBase(c.access.array);
      int64_t source_step = c.access.address.CoefOf(column_vars.back());
      Value* out = nullptr;
      int64_t out_step = tile_columns;
      if (plain) {
        Affine address = StoreAddress(vars_, phase_.targets[0], TargetIndex(vars_, phase_, loops_, phase_.targets[0]));
        out_step = address.CoefOf(row_vars.back());
        out = buffers_[phase_.targets[0].buffer];
      }
      auto turn = [&](Value* r, Value* k) {
        Value* from = b_.CreateGEP(element, base, body_.IndexValue(c.access.address));
        auto* vector = llvm::FixedVectorType::get(element, square);
        std::vector<Value*> in;
        for (int64_t i = 0; i < square; ++i) {
          in.push_back(
              b_.CreateAlignedLoad(vector, b_.CreateConstGEP1_64(element, from, i * source_step), llvm::Align(1)));
        }
        in = TransposeSquare(std::move(in));
        Value* to;
        if (plain) {
          Affine address =
              StoreAddress(vars_, phase_.targets[0], TargetIndex(vars_, phase_, loops_, phase_.targets[0]));
          to = b_.CreateGEP(element, out, body_.IndexValue(address));
        } else {
          to = b_.CreateGEP(element, c.tile, b_.CreateAdd(b_.CreateMul(r, b_.getInt64(tile_columns)), k));
        }
        for (int64_t i = 0; i < square; ++i) {
          b_.CreateAlignedStore(in[i], b_.CreateConstGEP1_64(element, to, i * out_step), llvm::Align(1));
        }
      };
      auto row_loop = [&](const std::function<void(Value*)>& fn) {
        body_.Loop(b_.getInt64(0), b_.getInt64(tile_rows), square, none, [&](Value* r, std::vector<Value*>&) {
          body_.Count(row_vars, b_.CreateAdd(tile_row, r));
          fn(r);
        });
      };
      auto column_loop = [&](const std::function<void(Value*)>& fn) {
        body_.Loop(b_.getInt64(0), b_.getInt64(tile_columns), square, none, [&](Value* k, std::vector<Value*>&) {
          body_.Count(column_vars, b_.CreateAdd(tile_column, k));
          fn(k);
        });
      };
      // The output is written in long pieces; with a tile in between, the source is read in long pieces instead.
      if (plain) {
        row_loop([&](Value* r) { column_loop([&](Value* k) { turn(r, k); }); });
      } else {
        column_loop([&](Value* k) { row_loop([&](Value* r) { turn(r, k); }); });
      }
    }
    if (plain) return;
    body_.Loop(b_.getInt64(0), b_.getInt64(tile_rows), 1, none, [&](Value* r, std::vector<Value*>&) {
      body_.Count(row_vars, b_.CreateAdd(tile_row, r));
      Value* line = b_.CreateMul(r, b_.getInt64(tile_columns));
      int64_t lanes = phase_.lanes;
      body_.Loop(b_.getInt64(0), b_.getInt64(tile_columns), lanes, none, [&](Value* k, std::vector<Value*>&) {
        body_.Count(column_vars, b_.CreateAdd(tile_column, k), static_cast<int>(lanes));
        for (const Crossed& c : crossed) {
          PrimitiveType t = FirstShape(*c.access.array).element_type();
          // The tile has the element's storage form; complex numbers are pairs.
          VarId place = vars_.Loop(tile_rows * tile_columns);
          body_.Count({&place, 1}, b_.CreateAdd(line, k), static_cast<int>(lanes));
          body_.Preset(c.access.array, c.access.index, body_.Load({c.tile, t}, Affine::Var(place), {}));
        }
        EvalAndStore({}, false);
      });
    });
  });
}

}  // namespace backplane::engine::codegen
