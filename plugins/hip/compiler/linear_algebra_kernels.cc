#include "plugins/hip/compiler/linear_algebra_kernels.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::LoopScopes;
using compiler::Affine;
using llvm::Value;

namespace {

constexpr int64_t kSolveThreads = 64;

bool IsFactorType(PrimitiveType t) { return t == PrimitiveType::kF32 || t == PrimitiveType::kF64 || IsComplex(t); }

// Matrices of an array, one after another, one of which is in shared memory. Rows and columns are 32-bit numbers.
class SharedMatrixEmitter {
 public:
  SharedMatrixEmitter(KernelFrame& frame, const Instruction& op)
      : f_(frame), b_(frame.b), op_(op), a_(op.operand(0)->shape()), type_(a_.element_type()) {
    n_ = a_.dimensions(a_.rank() - 1);
    matrices_ = a_.num_elements() / (n_ * n_);
    wide_ = f_.indices.CounterType(2 * std::max(a_.num_elements(), op.shape().num_elements()));
    shared_ = f_.AddShared(type_, n_ * n_);
  }

 protected:
  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  Val Drop(Val v) {
    v.stored = nullptr;
    return v;
  }

  // Element (i, j) of the matrix in shared memory.
  Affine At(Value* i, Value* j) { return f_.AsIndex(b_.CreateAdd(b_.CreateMul(i, Number(n_)), j), n_ * n_); }
  Val Load(Value* i, Value* j) { return Drop(f_.memory.Load({shared_, type_}, At(i, j), {})); }
  void Store(Value* i, Value* j, const Val& v) { f_.memory.Store({shared_, type_}, At(i, j), v, {}); }

  // Runs `body` for each element, the threads taking turns.
  void ForEachElement(const std::function<void(Value* i, Value* j)>& body) {
    LoopScopes::Values none;
    f_.ForEachInBlock(n_ * n_, none, [&](Value* at, LoopScopes::Values&) {
      at = b_.CreateZExtOrTrunc(at, b_.getInt32Ty());
      body(b_.CreateUDiv(at, Number(n_)), b_.CreateURem(at, Number(n_)));
    });
  }

  // Element (i, j) of matrix `matrix` of an array of the matrices' shape.
  Affine Global(Value* matrix, Value* i, Value* j) {
    Value* first = b_.CreateMul(matrix, llvm::ConstantInt::get(wide_, static_cast<uint64_t>(n_ * n_)));
    Value* inside = b_.CreateAdd(b_.CreateMul(i, Number(n_)), j);
    return f_.AsIndex(b_.CreateAdd(first, b_.CreateZExtOrTrunc(inside, wide_)), a_.num_elements());
  }

  Val Multiply(const Val& x, const Val& y) { return Drop(f_.elements.Binary(Opcode::kMultiply, type_, x, y)); }
  Val Subtract(const Val& x, const Val& y) { return Drop(f_.elements.Binary(Opcode::kSubtract, type_, x, y)); }
  Val Divide(const Val& x, const Val& y) { return Drop(f_.elements.Binary(Opcode::kDivide, type_, x, y)); }
  Val Conjugate(const Val& x) { return x.im == nullptr ? x : Val{x.v, b_.CreateFNeg(x.im)}; }
  Val Real(Value* x) { return {x, IsComplex(type_) ? llvm::ConstantFP::get(x->getType(), 0) : nullptr}; }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const Instruction& op_;
  const Shape& a_;
  const PrimitiveType type_;
  int64_t n_ = 0, matrices_ = 0;
  llvm::IntegerType* wide_ = nullptr;  // counts elements
  Value* shared_ = nullptr;
};

// Column by column: the column is divided by the root of its diagonal element, and its products are subtracted from the
// triangle to its right. An upper factor is computed as the transpose of a lower one.
class CholeskyEmitter : public SharedMatrixEmitter {
 public:
  using SharedMatrixEmitter::SharedMatrixEmitter;

  void Emit() {
    const bool lower = op_.attrs().GetBool(AttrId::kLower);
    f_.ForEachBlock(matrices_, [&](Value* matrix) {
      matrix = b_.CreateZExtOrTrunc(matrix, wide_);
      ForEachElement([&](Value* i, Value* j) {
        const Affine from = lower ? Global(matrix, i, j) : Global(matrix, j, i);
        Store(i, j, Drop(f_.memory.Load({f_.array(0), type_}, from, {})));
      });
      f_.EmitBarrier();
      LoopScopes::Values good = {b_.getTrue()};
      f_.scopes.Loop(Number(0), Number(n_), 1, good, [&](Value* j, LoopScopes::Values& now) { FactorColumn(j, now); });
      ForEachElement([&](Value* i, Value* j) {
        Value* inside = b_.CreateICmpUGE(i, j);
        Val v = f_.elements.Select(inside, Load(i, j), Real(Constant(0)));
        Value* nan = Constant(std::numeric_limits<double>::quiet_NaN());
        v = f_.elements.Select(good[0], v, Real(nan));
        f_.memory.Store({f_.array(1), type_}, lower ? Global(matrix, i, j) : Global(matrix, j, i), v, {});
      });
      f_.EmitBarrier();  // the memory is written again
    });
  }

 private:
  Value* Constant(double x) { return llvm::ConstantFP::get(f_.elements.ComputeType(type_), x); }

  void FactorColumn(Value* j, LoopScopes::Values& good) {
    Value* square = Load(j, j).v;
    good[0] = b_.CreateAnd(good[0], b_.CreateFCmpOGT(square, Constant(0)));
    const Val root = Real(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, square));
    f_.EmitBarrier();
    LoopScopes::Values none;
    f_.ForEachInBlock(n_, none, [&](Value* i, LoopScopes::Values&) {
      i = b_.CreateZExtOrTrunc(i, b_.getInt32Ty());
      f_.scopes.If(b_.CreateICmpUGE(i, j), [&] {
        Val v = Load(i, j);
        v = {b_.CreateFDiv(v.v, root.v), v.im == nullptr ? nullptr : b_.CreateFDiv(v.im, root.v)};
        Store(i, j, f_.elements.Select(b_.CreateICmpEQ(i, j), root, v));
      });
    });
    f_.EmitBarrier();
    ForEachElement([&](Value* i, Value* k) {
      f_.scopes.If(b_.CreateAnd(b_.CreateICmpUGT(k, j), b_.CreateICmpUGE(i, k)),
                   [&] { Store(i, k, Subtract(Load(i, k), Multiply(Load(i, j), Conjugate(Load(k, j))))); });
    });
    f_.EmitBarrier();
  }
};

// Forward or backward substitution by each thread, in the memory of the result.
class SolveEmitter : public SharedMatrixEmitter {
 public:
  SolveEmitter(KernelFrame& frame, const Instruction& op)
      : SharedMatrixEmitter(frame, op), left_(op.attrs().GetBool(AttrId::kLeftSide)) {
    vectors_ = op.shape().num_elements() / std::max<int64_t>(matrices_ * n_, 1);
    groups_ = CeilDiv(vectors_, kSolveThreads);
  }

  // x op(a) = b is op(a)^T x^T = b^T: the same with the triangle transposed once more.
  void Emit() {
    const auto transpose =
        op_.attrs().GetEnum<TriangularTranspose>(AttrId::kTransposeA, TriangularTranspose::kNoTranspose);
    const bool transposed = (transpose != TriangularTranspose::kNoTranspose) == left_;
    const bool forward = op_.attrs().GetBool(AttrId::kLower) != transposed;
    f_.ForEachBlock(matrices_ * groups_, [&](Value* work) {
      work = b_.CreateZExtOrTrunc(work, wide_);
      Value* matrix = b_.CreateUDiv(work, Wide(groups_));
      ForEachElement([&](Value* i, Value* j) {
        Val v = Drop(f_.memory.Load({f_.array(0), type_}, Global(matrix, i, j), {}));
        if (transpose == TriangularTranspose::kAdjoint) v = Conjugate(v);
        transposed ? Store(j, i, v) : Store(i, j, v);
      });
      f_.EmitBarrier();
      Value* vector = b_.CreateAdd(b_.CreateMul(b_.CreateURem(work, Wide(groups_)), Wide(kSolveThreads)),
                                   b_.CreateZExtOrTrunc(f_.thread(), wide_));
      f_.scopes.If(b_.CreateICmpULT(vector, Wide(vectors_)), [&] { Substitute(matrix, vector, forward); });
      f_.EmitBarrier();  // the memory is written again
    });
  }

 private:
  Value* Wide(int64_t n) { return llvm::ConstantInt::get(wide_, static_cast<uint64_t>(n)); }

  // Component `i` of a vector of matrix `matrix` of the right-hand side.
  Affine Component(Value* matrix, Value* vector, Value* i) {
    i = b_.CreateZExtOrTrunc(i, wide_);
    Value* at =
        left_ ? b_.CreateAdd(b_.CreateMul(i, Wide(vectors_)), vector) : b_.CreateAdd(b_.CreateMul(vector, Wide(n_)), i);
    at = b_.CreateAdd(b_.CreateMul(matrix, Wide(n_ * vectors_)), at);
    return f_.AsIndex(at, op_.shape().num_elements());
  }

  // x[i] = (b[i] - sum of a[i, j] x[j] over the j that are solved already) / a[i, i].
  void Substitute(Value* matrix, Value* vector, bool forward) {
    auto row = [&](Value* step) { return forward ? step : b_.CreateSub(Number(n_ - 1), step); };
    f_.scopes.Loop(Number(0), Number(n_), 1, [&](Value* step) {
      Value* i = row(step);
      const Val b = Drop(f_.memory.Load({f_.array(1), type_}, Component(matrix, vector, i), {}));
      LoopScopes::Values state = codegen::GetParts({b});
      state.push_back(Number(0));
      f_.scopes.Repeat(
          state, [&](LoopScopes::Values& now) { return b_.CreateICmpULT(now.back(), step); },
          [&](LoopScopes::Values& now) -> Value* {
            Value* solved = now.back();
            Value* j = row(solved);
            const Val x = Drop(f_.memory.Load({f_.array(2), type_}, Component(matrix, vector, j), {}));
            const Val rest = Subtract(codegen::FromParts({b}, now)[0], Multiply(Load(i, j), x));
            now = codegen::GetParts({rest});
            now.push_back(b_.CreateAdd(solved, Number(1)));
            return nullptr;
          });
      state.pop_back();
      Val x = codegen::FromParts({b}, state)[0];
      if (!op_.attrs().GetBool(AttrId::kUnitDiagonal)) x = Divide(x, Load(i, i));
      f_.memory.Store({f_.array(2), type_}, Component(matrix, vector, i), x, {});
    });
  }

  const bool left_;
  int64_t vectors_ = 0;  // that are solved for with each matrix
  int64_t groups_ = 0;   // of vectors, one for each block
};

absl::Status CheckMatrix(const Instruction& op) {
  RETURN_IF_ERROR(codegen::CheckArrays(op));
  const Shape& a = op.operand(0)->shape();
  const int64_t n = a.dimensions(a.rank() - 1);
  if (op.shape().num_elements() == 0) return absl::UnimplementedError(absl::StrCat(op.name(), ": no elements"));
  if (!IsFactorType(a.element_type()) || n > FindLargestMatrix(a.element_type()))
    return absl::UnimplementedError(absl::StrCat(op.name(), ": matrices of ", a.ToString()));
  return absl::OkStatus();
}

}  // namespace

int64_t FindLargestMatrix(PrimitiveType type) {
  int64_t n = 64;
  while (n * n * ByteWidth(type) > kMaxSharedBytes) n /= 2;
  return n;
}

absl::StatusOr<KernelPlan> PlanCholesky(const Instruction& cholesky) {
  RETURN_IF_ERROR(CheckMatrix(cholesky));
  const Shape& a = cholesky.shape();
  const int64_t n = a.dimensions(a.rank() - 1), matrices = a.num_elements() / (n * n);
  KernelPlan plan;
  plan.kind = CholeskyPlan{};
  plan.threads = n > 16 ? 256 : 64;
  plan.blocks = CountBlocks(matrices, 1);
  plan.note = absl::StrCat("cholesky: ", matrices, " of ", n, " x ", n);
  return plan;
}

absl::StatusOr<KernelPlan> PlanTriangularSolve(const Instruction& solve) {
  RETURN_IF_ERROR(CheckMatrix(solve));
  const Shape& a = solve.operand(0)->shape();
  const int64_t n = a.dimensions(a.rank() - 1), matrices = a.num_elements() / (n * n);
  const int64_t vectors = solve.shape().num_elements() / (matrices * n);
  KernelPlan plan;
  plan.kind = TriangularSolvePlan{};
  plan.threads = kSolveThreads;
  plan.blocks = CountBlocks(matrices * CeilDiv(vectors, kSolveThreads), 1);
  plan.note = absl::StrCat("triangular solve: ", matrices, " of ", n, " x ", n, ", ", vectors, " vectors each");
  return plan;
}

void EmitBody(KernelFrame& frame, const Instruction& cholesky, const CholeskyPlan&) {
  CholeskyEmitter(frame, cholesky).Emit();
}
void EmitBody(KernelFrame& frame, const Instruction& solve, const TriangularSolvePlan&) {
  SolveEmitter(frame, solve).Emit();
}

}  // namespace backplane::hip
