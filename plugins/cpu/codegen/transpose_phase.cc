// Tiles that are read across: square blocks are turned in registers, so that memory is read and written in whole
// lines. A plain transpose goes straight to the output; with arithmetic around it the turned tile lies in scratch
// memory, from where the loop over the tile reads it.
#include "plugins/cpu/codegen/phase_emitter.h"
#include "plugins/cpu/codegen/planner.h"

namespace backplane::cpu::codegen {

using llvm::Value;

// Rows of a square matrix in, columns out. After the stage with step s, blocks of 2s x 2s are turned.
std::vector<Value*> PhaseEmitter::TransposeSquare(std::vector<Value*> rows) {
  int n = static_cast<int>(rows.size());
  for (int s = 1; s < n; s *= 2) {
    std::vector<int> low(n), high(n);
    for (int i = 0; i < n; ++i) {
      bool second = (i / s) % 2 == 1;
      low[i] = second ? n + i - s : i;
      high[i] = second ? n + i : i + s;
    }
    for (int i = 0; i < n; ++i) {
      if ((i / s) % 2 == 1) continue;
      Value *a = rows[i], *c = rows[i + s];
      rows[i] = b_.CreateShuffleVector(a, c, low);
      rows[i + s] = b_.CreateShuffleVector(a, c, high);
    }
  }
  return rows;
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
  bool plain = phase_.targets.size() == 1 && phase_.targets[0].window == nullptr && crossed.size() == 1 && walk.accesses().size() == 1;
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
      body_.Loop(b_.getInt64(0), b_.getInt64(tile_rows), square, none, [&](Value* r, std::vector<Value*>&) {
        Value* row = b_.CreateAdd(tile_row, r);
        body_.Count(row_vars, row);
        body_.Loop(b_.getInt64(0), b_.getInt64(tile_columns), square, none, [&](Value* k, std::vector<Value*>&) {
          body_.Count(column_vars, b_.CreateAdd(tile_column, k));
          Value* from = b_.CreateGEP(element, base, body_.IndexValue(c.access.address));
          auto* vector = llvm::FixedVectorType::get(element, square);
          std::vector<Value*> in;
          for (int64_t i = 0; i < square; ++i) {
            in.push_back(b_.CreateAlignedLoad(vector, b_.CreateConstGEP1_64(element, from, i * source_step), llvm::Align(1)));
          }
          in = TransposeSquare(std::move(in));
          Value* to;
          if (plain) {
            Affine address = StoreAddress(vars_, phase_.targets[0], TargetIndex(vars_, phase_, loops_, phase_.targets[0]));
            to = b_.CreateGEP(element, out, body_.IndexValue(address));
          } else {
            to = b_.CreateGEP(element, c.tile, b_.CreateAdd(b_.CreateMul(r, b_.getInt64(tile_columns)), k));
          }
          for (int64_t i = 0; i < square; ++i) {
            b_.CreateAlignedStore(in[i], b_.CreateConstGEP1_64(element, to, i * out_step), llvm::Align(1));
          }
        });
      });
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

}  // namespace backplane::cpu::codegen
