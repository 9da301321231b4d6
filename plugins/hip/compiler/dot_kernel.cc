// Matrix products in tiles, for every element type.
//
// A block of 16 x 16 threads computes a tile of the result (ChooseProductTile). In each step its threads copy kTileK
// columns of the left and as many rows of the right operand to shared memory, in the type of the sums. They load the
// elements of the next step while they multiply those of the current one. Both operands are stored by k, so that a
// thread reads its rows and columns as vectors. A thread keeps squares of 4 x 4 sums in registers, kSquareSpan rows or
// columns apart.
#include <functional>
#include <optional>
#include <utility>

#include "core/types/integer_division.h"
#include "plugins/hip/compiler/dot_output.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/dot_tiles.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/lowering/loop_metadata.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kThreadsAcross = 16;  // 16 x 16 threads
constexpr int64_t kThreads = kThreadsAcross * kThreadsAcross;
constexpr int64_t kSquare = 4, kSquareSpan = kSquare * kThreadsAcross;
// Elements between the rows of a tile in shared memory, so that threads that store a column use several banks.
constexpr int64_t kPadding = 4;
constexpr int64_t kUnrolledTerms = 4;  // values of k, so that the reads of one overlap the products of another

class DotEmitter {
 public:
  DotEmitter(KernelFrame& frame, DotProblem problem, const DotPlan& plan)
      : f_(frame),
        e_(frame.elements),
        b_(frame.b),
        p_(std::move(problem)),
        sum_(p_.sum_type()),
        rows_(plan.tile.rows),
        columns_(plan.tile.columns),
        tiles_(frame, p_, rows_, columns_),
        output_(frame, tiles_, p_, plan.site) {}

  void Emit() {
    using BatchDim = DotProblem::BatchDim;
    lhs_ = {{output_.lhs(), p_.lhs_type}, rows_, p_.m, p_.lhs_m_stride, p_.lhs_k_stride, &BatchDim::lhs_stride};
    rhs_ = {{output_.rhs(), p_.rhs_type}, columns_, p_.n, p_.rhs_n_stride, p_.rhs_k_stride, &BatchDim::rhs_stride};
    if (p_.lhs_gather) lhs_.gather = &*p_.lhs_gather;
    if (p_.rhs_gather) rhs_.gather = &*p_.rhs_gather;
    for (Operand* o : {&lhs_, &rhs_}) {
      o->tile = f_.AddShared(sum_, kTileK * (o->lines + kPadding));
      if (o->gather != nullptr) o->k_digits = MakeDigits(o->gather->k);
    }
    zero_ = e_.Constant(Literal::Scalar(sum_, 0), 0);
    row_of_thread_ = b_.CreateLShr(f_.thread(), b_.getInt32(4));
    column_of_thread_ = b_.CreateAnd(f_.thread(), b_.getInt32(kThreadsAcross - 1));
    tiles_.ForEach([this](Value* row, Value* column) { EmitTile(row, column); });
  }

 private:
  // An operand: "lines" are rows of the left and columns of the right one.
  struct Operand {
    ArrayRef array;
    int64_t lines = 0, matrix_lines = 0, line_stride = 0, k_stride = 0;
    int64_t DotProblem::BatchDim::*batch_stride = nullptr;
    Value* tile = nullptr;                     // in shared memory: kTileK rows of `lines` elements and kPadding
    const GatheredMatrix* gather = nullptr;    // null: the strides give the addresses
    std::vector<VarId> k_digits;               // of a gathered operand
    std::vector<std::vector<VarId>> of_loads;  // the digits of the line of each load

    int64_t loads() const { return lines * kTileK / kThreads; }  // of each thread
    // Whether neighbouring threads load neighbouring lines, rather than elements of one line.
    bool IsAcrossLines() const { return gather != nullptr ? k_stride != 1 : line_stride < k_stride; }
  };

  std::vector<VarId> MakeDigits(const std::vector<GatheredMatrix::Digit>& digits) {
    std::vector<VarId> vars;
    for (const GatheredMatrix::Digit& d : digits) vars.push_back(f_.vars.Loop(d.size));
    return vars;
  }

  // Makes the lines that the thread loads of a gathered operand known, so that what depends on them is computed once.
  void StartLines(Operand& o, Value* first_line) {
    if (o.gather == nullptr) return;
    o.of_loads.clear();
    for (int64_t part = 0; part < o.loads(); ++part) {
      Value* line = b_.CreateAdd(Extend(FindElement(o, part).first, first_line), first_line);
      if (o.matrix_lines % o.lines != 0)
        line = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, line, Number(line, o.matrix_lines - 1));
      o.of_loads.push_back(MakeDigits(o.gather->rows));
      if (!o.of_loads.back().empty()) f_.scopes.Bind(o.of_loads.back(), line);
    }
  }

  // Returns the address of an element, and the conditions for its existence. Returns nullopt if no element exists.
  std::optional<Affine> FindGathered(const Operand& o, const std::vector<VarId>& line, compiler::Guards& guards) {
    Affine address = tiles_.BatchOffset(o.batch_stride).Plus(o.gather->base);
    std::vector<Affine> positions;
    for (const GatheredMatrix::Space& s : o.gather->spaces) positions.push_back(Affine::Const(s.offset));
    auto add = [&](const std::vector<GatheredMatrix::Digit>& digits, const std::vector<VarId>& vars) {
      for (size_t i = 0; i < digits.size(); ++i) {
        Affine& to = digits[i].space < 0 ? address : positions[static_cast<size_t>(digits[i].space)];
        to.Add(Affine::Var(vars[i]), digits[i].stride);
      }
    };
    add(o.gather->rows, line);
    add(o.gather->k, o.k_digits);
    for (size_t s = 0; s < positions.size(); ++s) {
      const GatheredMatrix::Space& space = o.gather->spaces[s];
      const Affine element = f_.vars.FloorDiv(positions[s], space.dilation);
      if (!AddGuard(f_.vars, guards, positions[s], 0, (space.size - 1) * space.dilation + 1) ||
          !AddGuard(f_.vars, guards, positions[s].Plus(element, -space.dilation), 0, 1))
        return std::nullopt;
      address.Add(element, space.stride);
    }
    return address;
  }

  void EmitTile(Value* row, Value* column) {
    StartLines(lhs_, row);
    StartLines(rhs_, column);
    const Vals like(static_cast<size_t>((rows_ / kThreadsAcross) * (columns_ / kThreadsAcross)), zero_);
    const Vals like_left(static_cast<size_t>(lhs_.loads()), zero_),
        like_right(static_cast<size_t>(rhs_.loads()), zero_);
    const int64_t steps = CeilDiv(p_.k, kTileK);
    llvm::IntegerType* type = f_.indices.CounterType((steps + 1) * kTileK);
    auto number = [&](int64_t k) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(k)); };
    Vals sums = like;
    if (steps > 0) {  // a loop runs at least once
      LoopScopes::Values carried = codegen::GetParts(sums);
      const size_t sum_parts = carried.size();
      Append(carried, LoadLines(lhs_, row, number(0)));
      const size_t left_end = carried.size();
      Append(carried, LoadLines(rhs_, column, number(0)));
      f_.scopes.Loop(number(0), number(steps * kTileK), kTileK, carried, [&](Value* k, LoopScopes::Values& now) {
        auto part = [&](size_t begin, size_t end) {
          return LoopScopes::Values(now.begin() + static_cast<std::ptrdiff_t>(begin),
                                    now.begin() + static_cast<std::ptrdiff_t>(end));
        };
        StoreLines(lhs_, codegen::FromParts(like_left, part(sum_parts, left_end)));
        StoreLines(rhs_, codegen::FromParts(like_right, part(left_end, now.size())));
        f_.EmitBarrier();
        Value* next = b_.CreateAdd(k, number(kTileK));
        LoopScopes::Values after = part(0, sum_parts), loaded;
        Append(loaded, LoadLines(lhs_, row, next));
        Append(loaded, LoadLines(rhs_, column, next));
        MultiplyTiles(like, after);
        f_.EmitBarrier();
        after.insert(after.end(), loaded.begin(), loaded.end());
        now = std::move(after);
      });
      carried.resize(sum_parts);
      sums = codegen::FromParts(like, carried);
    }
    size_t at = 0;
    for (int64_t i = 0; i < rows_ / kThreadsAcross; ++i) {
      for (int64_t j = 0; j < columns_ / kThreadsAcross; ++j)
        StoreSum(row, column, LineOfThread(i), LineOfThread(j), sums[at++]);
    }
  }

  static void Append(LoopScopes::Values& to, const Vals& values) {
    const LoopScopes::Values parts = codegen::GetParts(values);
    to.insert(to.end(), parts.begin(), parts.end());
  }

  // Rows or columns of the tile that a thread computes, counted from its first one.
  static int64_t LineOfThread(int64_t i) { return i / kSquare * kSquareSpan + i % kSquare; }

  Value* Extend(Value* v, Value* like) { return b_.CreateZExtOrTrunc(v, like->getType()); }
  Value* Number(Value* like, int64_t n) { return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(n)); }

  // Returns the line and the k, within a tile, of the element that the thread copies in its `part`-th load.
  std::pair<Value*, Value*> FindElement(const Operand& o, int64_t part) {
    Value* number = b_.CreateAdd(f_.thread(), b_.getInt32(static_cast<uint32_t>(part * kThreads)));
    // Neighbouring threads read neighbouring memory.
    const int64_t inner = o.IsAcrossLines() ? o.lines : kTileK;
    Value* outer_at = b_.CreateUDiv(number, Number(number, inner));
    Value* inner_at = b_.CreateURem(number, Number(number, inner));
    return o.IsAcrossLines() ? std::pair(inner_at, outer_at) : std::pair(outer_at, inner_at);
  }

  // Binds the digits of k of a gathered operand to element `first_k` + `in_k`, or to another one if it does not exist.
  void BindTerms(const Operand& o, Value* first_k, Value* in_k) {
    if (o.k_digits.empty()) return;
    Value* part = nullptr;
    if (p_.parts > 1) {
      part = f_.indices.Uniform(Affine::Var(tiles_.batch()[0]).Times(p_.k));
      first_k = Extend(first_k, part);
    }
    auto absolute = [&](Value* k) { return part == nullptr ? k : b_.CreateAdd(k, part); };
    const int64_t inner = GatheredMatrix::InnerSize(o.gather->k);
    if (inner % kTileK != 0 || p_.k % kTileK != 0) {
      Value* k = b_.CreateAdd(Extend(in_k, first_k), first_k);
      k = b_.CreateSelect(b_.CreateICmpSLT(k, Number(k, p_.k)), k, Number(k, 0));
      return f_.scopes.Bind(o.k_digits, absolute(k));
    }
    // The terms of a step differ in the innermost digit only: the others are equal in all threads.
    Value* k = b_.CreateSelect(b_.CreateICmpSLT(first_k, Number(first_k, p_.k)), first_k, Number(first_k, 0));
    k = absolute(k);
    if (o.k_digits.size() > 1) {
      f_.scopes.Bind(absl::MakeConstSpan(o.k_digits).first(o.k_digits.size() - 1), b_.CreateUDiv(k, Number(k, inner)));
      k = b_.CreateURem(k, Number(k, inner));
    }
    f_.scopes.Bind({&o.k_digits.back(), 1}, b_.CreateAdd(Extend(in_k, k), k));
  }

  // Loads the thread's elements of the tile from (first_line, first_k) on, with zeros beyond the matrix.
  Vals LoadLines(const Operand& o, Value* first_line, Value* first_k) {
    const VarId l = f_.vars.Loop(o.matrix_lines), k = f_.vars.Loop(p_.k);
    Vals values;
    for (int64_t part = 0; part < o.loads(); ++part) {
      f_.scopes.Block([&] {
        const auto [in_line, in_k] = FindElement(o, part);
        Value* line = b_.CreateAdd(Extend(in_line, first_line), first_line);
        Value* at = b_.CreateAdd(Extend(in_k, first_k), first_k);
        Value* exists = b_.CreateICmpSLT(at, Number(at, p_.k));
        if (o.matrix_lines % o.lines != 0)
          exists = b_.CreateAnd(exists, b_.CreateICmpSLT(line, Number(line, o.matrix_lines)));
        // An element that does not exist is replaced by one that does, and its value by zero.
        Affine address;
        compiler::Guards guards;
        if (o.gather != nullptr) {
          BindTerms(o, first_k, in_k);
          const std::optional<Affine> found = FindGathered(o, o.of_loads[static_cast<size_t>(part)], guards);
          if (!found) {
            values.push_back(zero_);
            return;
          }
          address = *found;
          if (Value* inside = f_.indices.Mask(guards)) exists = b_.CreateAnd(exists, inside);
        } else {
          f_.scopes.Bind({&l, 1}, b_.CreateSelect(exists, line, Number(line, 0)));
          f_.scopes.Bind({&k, 1}, b_.CreateSelect(exists, at, Number(at, 0)));
          address =
              tiles_.BatchOffset(o.batch_stride).Plus(Affine::Var(l), o.line_stride).Plus(Affine::Var(k), o.k_stride);
        }
        Val value = e_.Convert(f_.memory.Load(o.array, address, guards), o.array.type, sum_);
        value.stored = nullptr;
        values.push_back(e_.Select(exists, value, zero_));
      });
    }
    return values;
  }

  void StoreLines(const Operand& o, const Vals& values) {
    const VarId position = f_.vars.Loop(kTileK * (o.lines + kPadding));
    for (int64_t part = 0; part < o.loads(); ++part) {
      f_.scopes.Block([&] {
        const auto [line, k] = FindElement(o, part);
        f_.scopes.Bind({&position, 1}, b_.CreateAdd(b_.CreateMul(k, Number(k, o.lines + kPadding)), line));
        f_.memory.StoreComputed(o.tile, Affine::Var(position), sum_, values[static_cast<size_t>(part)]);
      });
    }
  }

  // Reads the elements of one k that the thread multiplies.
  Vals ReadLines(const Operand& o, VarId k, VarId thread) {
    Vals values;
    for (int64_t i = 0; i < o.lines / kThreadsAcross; ++i) {
      values.push_back(f_.memory.LoadComputed(
          o.tile,
          Affine::Var(k).Times(o.lines + kPadding).Plus(Affine::Var(thread).Times(kSquare)).Plus(LineOfThread(i)),
          sum_));
    }
    return values;
  }

  void MultiplyTiles(const Vals& like, LoopScopes::Values& carried) {
    const VarId k = f_.vars.Loop(kTileK), row = f_.vars.Loop(kThreadsAcross), column = f_.vars.Loop(kThreadsAcross);
    llvm::BasicBlock* latch = nullptr;
    f_.scopes.Loop(b_.getInt32(0), b_.getInt32(kTileK), 1, carried, [&](Value* at, LoopScopes::Values& now) {
      f_.scopes.Bind({&k, 1}, at);
      f_.scopes.Bind({&row, 1}, row_of_thread_);
      f_.scopes.Bind({&column, 1}, column_of_thread_);
      Vals sums = codegen::FromParts(like, now);
      const Vals left = ReadLines(lhs_, k, row), right = ReadLines(rhs_, k, column);
      for (size_t i = 0; i < left.size(); ++i) {
        for (size_t j = 0; j < right.size(); ++j) {
          Val& sum = sums[i * right.size() + j];
          sum = MultiplyAdd(left[i], right[j], sum);
        }
      }
      now = codegen::GetParts(sums);
      latch = b_.GetInsertBlock();
    });
    if (rows_ * columns_ > kSquareSpan * kSquareSpan) UnrollLoop(*latch->getTerminator(), kUnrolledTerms);
  }

  Val MultiplyAdd(const Val& x, const Val& y, const Val& sum) {
    if (sum_ == PrimitiveType::kF32 || sum_ == PrimitiveType::kF64)
      return {b_.CreateIntrinsic(llvm::Intrinsic::fma, {x.v->getType()}, {x.v, y.v, sum.v})};
    const bool is_pred = sum_ == PrimitiveType::kPred;
    Val v = e_.Binary(is_pred ? Opcode::kOr : Opcode::kAdd, sum_, sum,
                      e_.Binary(is_pred ? Opcode::kAnd : Opcode::kMultiply, sum_, x, y));
    v.stored = nullptr;
    return v;
  }

  void StoreSum(Value* first_row, Value* first_column, int64_t i, int64_t j, const Val& sum) {
    auto find = [&](Value* first, Value* thread, int64_t line) {
      Value* own = b_.CreateMul(Extend(thread, first), Number(first, kSquare));
      return b_.CreateAdd(first, b_.CreateAdd(own, Number(first, line)));
    };
    Value* row = find(first_row, row_of_thread_, i);
    Value* column = find(first_column, column_of_thread_, j);
    Value* exists =
        b_.CreateAnd(b_.CreateICmpSLT(row, Number(row, p_.m)), b_.CreateICmpSLT(column, Number(column, p_.n)));
    f_.scopes.If(exists, [&] { output_.Store(row, column, 0, sum); });
  }

  KernelFrame& f_;
  codegen::ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  const DotProblem p_;
  const PrimitiveType sum_;
  const int64_t rows_, columns_;  // of a tile
  DotTiles tiles_;
  DotOutput output_;
  Val zero_;
  Operand lhs_, rhs_;
  Value *row_of_thread_ = nullptr, *column_of_thread_ = nullptr;
};

}  // namespace

void EmitProductDot(KernelFrame& frame, const DotPlan& plan) {
  absl::StatusOr<DotProblem> problem = MakeDotProblem(plan.site);
  if (!problem.ok()) return frame.elements.Fail(problem.status());
  DotEmitter(frame, *std::move(problem), plan).Emit();
}

}  // namespace backplane::hip
