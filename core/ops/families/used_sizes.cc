#include "core/ops/families/used_sizes.h"

#include <algorithm>

#include "core/ops/families/elements.h"

namespace backplane {
namespace {

// The environment of the operation, but operands are never moved out of it.
class SameOperands : public EvalEnv {
 public:
  explicit SameOperands(EvalEnv& env) : env_(env) {}
  absl::StatusOr<Literal> Call(int i, Args args) override { return env_.Call(i, args); }
  absl::StatusOr<Literal> CallWithOwnedArguments(int i, std::vector<Literal> args) override {
    return env_.CallWithOwnedArguments(i, std::move(args));
  }
  const ScalarProgram* CalledScalarProgram(int i) override { return env_.CalledScalarProgram(i); }
  absl::Status CheckCancelled() override { return env_.CheckCancelled(); }
  std::optional<Opcode> CalledBinaryOp(int i) override { return env_.CalledBinaryOp(i); }
  absl::StatusOr<Literal> RunExternal(const OpContext& op, Args operands) override {
    return env_.RunExternal(op, operands);
  }

 private:
  EvalEnv& env_;
};

bool IsShort(const Literal& x) {
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    if (x.dynamic_size(d) != x.shape().dimensions(d)) return true;
  }
  return false;
}

// The elements of x (all of `from`) inside `sizes`, copied to the same indices of an array of dimensions `to`.
void CopyBox(const Literal& from, absl::Span<const int64_t> sizes, Literal& to) {
  if (from.num_elements() == 0 || to.num_elements() == 0) return;
  StridedCopy(ByteWidth(from.shape().element_type()), sizes, from.bytes(),
              {0, RowMajorStrides(from.shape().dimensions())}, to.mutable_bytes(),
              {0, RowMajorStrides(to.shape().dimensions())});
}

Literal Cut(const Literal& x, const DimVector& sizes) {
  Literal cut(Shape(x.shape().element_type(), sizes));
  CopyBox(x, sizes, cut);
  return cut;
}

// Pads a result of the dynamic sizes to the shape that is declared for the bounds.
Literal PadToBound(const Literal& used, const Shape& bound) {
  if (bound.IsTuple()) {
    std::vector<Literal> elements;
    for (size_t i = 0; i < used.elements().size(); ++i) {
      elements.push_back(PadToBound(used.elements()[i], bound.tuple_shapes(static_cast<int>(i))));
    }
    return Literal::Tuple(std::move(elements));
  }
  Literal out(bound);
  DimVector sizes = used.shape().dimensions();
  for (int64_t d = 0; d < bound.rank(); ++d) {
    sizes[d] = std::min(sizes[d], bound.dimensions(d));
    if (bound.is_dynamic(d)) out.set_dynamic_size(d, sizes[d]);
  }
  CopyBox(used, sizes, out);
  return out;
}

// Dimensions that must agree take the smaller of their dynamic sizes.
void UnifySizes(std::vector<DimVector>& sizes, size_t i, int64_t d, size_t j, int64_t e) {
  sizes[i][d] = sizes[j][e] = std::min(sizes[i][d], sizes[j][e]);
}

}  // namespace

// Whether a slice takes nothing past the sizes.
bool IsSliceOfUsed(const OpContext& op, Args operands) {
  const Literal& x = *operands[0];
  for (int64_t d = 0; d < x.shape().rank(); ++d) {
    const int64_t size = x.dynamic_size(d), bound = x.shape().dimensions(d);
    if (size == bound) continue;
    if (op.opcode == Opcode::kSlice) {
      if (op.attrs->Get<SliceConfig>(AttrId::kSlices)[d].limit > size) return false;
      continue;
    }
    const int64_t taken = op.attrs->GetInts(AttrId::kDynamicSliceSizes)[d];
    const int64_t start = operands[static_cast<size_t>(d) + 1]->GetAsInt(0);
    if (std::clamp<int64_t>(start, 0, bound - taken) + taken > size) return false;
  }
  return true;
}

absl::Status CheckUsedSizes(const OpContext& op, Args operands) {
  switch (op.opcode) {
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining:
    case Opcode::kBitcastConvert:
    case Opcode::kCholesky:
    case Opcode::kConvolution:
    case Opcode::kFft:
    case Opcode::kGather:
    case Opcode::kMap:
    case Opcode::kScatter:
    case Opcode::kSelectAndScatter:
    case Opcode::kTriangularSolve:
      break;
    case Opcode::kDynamicSlice:
    case Opcode::kSlice:
      if (IsSliceOfUsed(op, operands)) return absl::OkStatus();
      break;
    default:
      return absl::OkStatus();
  }
  if (std::none_of(operands.begin(), operands.end(), [](const Literal* x) { return IsShort(*x); }))
    return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(op.name, ": of a dynamic size smaller than its bound"));
}

bool NeedsUsedSizes(const OpContext& op, Args operands) {
  switch (op.opcode) {
    case Opcode::kConcatenate:
    case Opcode::kDot:
    case Opcode::kPad:
    case Opcode::kReduceWindow:
    case Opcode::kReverse:
    case Opcode::kSort:
    case Opcode::kTopK:
      return std::any_of(operands.begin(), operands.end(), [](const Literal* x) { return IsShort(*x); });
    default:
      return false;
  }
}

absl::StatusOr<Literal> EvaluateOverUsedSizes(const OpContext& op, Args operands, EvalEnv& env) {
  ASSIGN_OR_RETURN(const Shape bound, InferResultShape(op));
  std::vector<DimVector> sizes;
  for (const Literal* x : operands) {
    sizes.emplace_back();
    for (int64_t d = 0; d < x->shape().rank(); ++d) sizes.back().push_back(x->dynamic_size(d));
  }
  Shape declared = bound;
  OpContext used = op;
  used.declared = nullptr;
  if (op.opcode == Opcode::kDot) {
    const DotDimensions& dims = op.attrs->Get<DotDimensions>(AttrId::kDotDims);
    for (size_t k = 0; k < dims.lhs_batch.size(); ++k) UnifySizes(sizes, 0, dims.lhs_batch[k], 1, dims.rhs_batch[k]);
    for (size_t k = 0; k < dims.lhs_contracting.size(); ++k) {
      UnifySizes(sizes, 0, dims.lhs_contracting[k], 1, dims.rhs_contracting[k]);
    }
    DimVector result;
    for (int64_t d : dims.lhs_batch) result.push_back(sizes[0][d]);
    for (size_t side = 0; side < 2; ++side) {
      const Ints& batch = side == 0 ? dims.lhs_batch : dims.rhs_batch;
      const Ints& contracting = side == 0 ? dims.lhs_contracting : dims.rhs_contracting;
      for (int64_t d = 0; d < static_cast<int64_t>(sizes[side].size()); ++d) {
        if (!Contains(batch, d) && !Contains(contracting, d)) result.push_back(sizes[side][d]);
      }
    }
    declared = Shape(bound.element_type(), result);
    used.declared = &declared;
  } else {
    const int64_t along = op.opcode == Opcode::kConcatenate ? op.attrs->GetInts(AttrId::kDimensions)[0] : -1;
    for (size_t i = 1; i < operands.size(); ++i) {
      if (sizes[i].size() != sizes[0].size()) continue;  // initial values
      for (int64_t d = 0; d < static_cast<int64_t>(sizes[0].size()); ++d) {
        if (d == along) continue;
        for (size_t k = 0; k < i; ++k) UnifySizes(sizes, k, d, i, d);
      }
    }
  }
  std::vector<Literal> cut;
  for (size_t i = 0; i < operands.size(); ++i) cut.push_back(Cut(*operands[i], sizes[i]));
  std::vector<const Literal*> pointers;
  std::vector<const Shape*> shapes;
  for (const Literal& x : cut) {
    pointers.push_back(&x);
    shapes.push_back(&x.shape());
  }
  used.operands = shapes;
  RETURN_IF_ERROR(InferShape(used).status());
  SameOperands same(env);
  ASSIGN_OR_RETURN(Literal result, Info(op.opcode).evaluate(used, pointers, same));
  return PadToBound(result, bound);
}

}  // namespace backplane
