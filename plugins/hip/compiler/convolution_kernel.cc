// Convolutions that are no products: each thread computes elements of the result by the definition. Those of depthwise
// convolutions are 16 bytes of neighbouring features, for several neighbouring positions, which share what they read.
#include <algorithm>

#include "plugins/hip/compiler/convolution_problem.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "sdk/codegen/body/carried_values.h"

namespace backplane::hip {

using codegen::Index;
using codegen::LoopScopes;
using codegen::VarId;
using compiler::Affine;
using compiler::Guards;
using llvm::Value;

namespace {

constexpr int64_t kManyThreads = 1 << 16;  // that a GPU should have at least
constexpr int64_t kUnrolledElements = 32;  // of a window
constexpr int kVectorBytes = 16;

class ConvolutionEmitter {
 public:
  ConvolutionEmitter(KernelFrame& frame, const Instruction& op, int lanes)
      : f_(frame),
        op_(op),
        dims_(op.conv_dims()),
        out_type_(op.shape().element_type()),
        sum_(codegen::IsNarrowFloat(out_type_) ? PrimitiveType::kF32 : out_type_),
        lanes_(lanes),
        positions_(CountConvolutionPositions(op, lanes)) {
    const Shape& out = op.shape();
    for (int64_t d = 0; d < out.rank(); ++d) {
      const bool is_shared = !dims_.output_spatial.empty() && d == dims_.output_spatial.back();
      loops_.push_back(f_.vars.Loop(out.dimensions(d) / (is_shared ? positions_ : 1)));
      out_index_.push_back(Affine::Var(loops_.back()).Times(is_shared ? positions_ : 1));
    }
    for (const int64_t d : dims_.kernel_spatial) window_.push_back(f_.vars.Loop(kernel().dimensions(d)));
    feature_ = f_.vars.Loop(kernel().dimensions(dims_.kernel_input_feature));
  }

  void Emit() {
    const int64_t count = op_.shape().num_elements(), lanes = lanes_;
    if (count == 0) return;
    f_.scopes.UnrollShortLoops(kUnrolledElements);
    f_.ForEachInGrid(count / std::max<int64_t>(1, lanes * positions_), 0, [&](Value* at) {
      if (lanes > 0) {
        // The first feature is seen to be a multiple of the lanes, so accesses are known to be aligned.
        auto number = [&](int64_t n) { return llvm::ConstantInt::get(at->getType(), static_cast<uint64_t>(n)); };
        Value* vectors = number(f_.vars.extent(loops_.back()) / lanes);
        f_.scopes.Bind(absl::MakeConstSpan(loops_).first(loops_.size() - 1), f_.b.CreateUDiv(at, vectors));
        f_.scopes.Bind({&loops_.back(), 1}, f_.b.CreateMul(f_.b.CreateURem(at, vectors), number(lanes)),
                       static_cast<int>(lanes));
      } else if (!loops_.empty()) {
        f_.scopes.Bind(loops_, at);
      }
      like_.assign(static_cast<size_t>(positions_), Zero());
      LoopScopes::Values carried = codegen::GetParts(like_);
      if (kernel().num_elements() > 0 && op_.operand(0)->shape().num_elements() > 0) EmitLoops(0, carried);
      const Vals sums = codegen::FromParts(like_, carried);
      for (int64_t position = 0; position < positions_; ++position) {
        f_.memory.Store({f_.array(2), out_type_}, Linearize(IndexOf(position), op_.shape().dimensions()),
                        f_.elements.Convert(sums[static_cast<size_t>(position)], sum_, out_type_), {});
      }
    });
  }

 private:
  const Shape& input() const { return op_.operand(0)->shape(); }
  const Shape& kernel() const { return op_.operand(1)->shape(); }

  // Zero of the type of the sums, in each lane.
  Val Zero() {
    Val zero = f_.elements.Constant(Literal::Scalar(sum_, 0), 0);
    if (lanes_ > 0) {
      const auto lanes = static_cast<unsigned>(lanes_);
      zero.v = llvm::Constant::getNullValue(llvm::FixedVectorType::get(zero.v->getType(), lanes));
      zero.stored = nullptr;
    }
    return zero;
  }

  // The index of the thread's result number `position`.
  Index IndexOf(int64_t position) const {
    Index index = out_index_;
    if (position > 0) index[static_cast<size_t>(dims_.output_spatial.back())].constant += position;
    return index;
  }

  // The loops over the window, outer to inner, and over the input features of a group.
  void EmitLoops(size_t level, LoopScopes::Values& carried) {
    if (level > window_.size()) {
      Vals sums = codegen::FromParts(like_, carried);
      for (int64_t position = 0; position < positions_; ++position)
        AddProduct(IndexOf(position), sums[static_cast<size_t>(position)]);
      carried = codegen::GetParts(sums);
      return;
    }
    const VarId v = level < window_.size() ? window_[level] : feature_;
    llvm::IntegerType* type = f_.indices.CounterType(f_.vars.extent(v));
    f_.scopes.Loop(llvm::ConstantInt::get(type, 0),
                   llvm::ConstantInt::get(type, static_cast<uint64_t>(f_.vars.extent(v))), 1, carried,
                   [&](Value* at, LoopScopes::Values& now) {
                     f_.scopes.Bind({&v, 1}, at);
                     EmitLoops(level + 1, now);
                   });
  }

  void AddProduct(const Index& out_index, Val& sum) {
    // The window looks at the padded input; a reversed one reads the kernel backwards.
    Index window_index, kernel_index(static_cast<size_t>(kernel().rank())), spatial_out, input_spatial;
    std::vector<int64_t> spatial_dims;
    Window window = op_.window();
    for (size_t d = 0; d < window_.size(); ++d) {
      WindowDimension& w = window.dimensions[d];
      window_index.push_back(Affine::Var(window_[d]));
      kernel_index[static_cast<size_t>(dims_.kernel_spatial[d])] =
          w.window_reversal ? Affine::Var(window_[d]).Times(-1).Plus(w.size - 1) : Affine::Var(window_[d]);
      w.window_reversal = false;
      spatial_out.push_back(out_index[static_cast<size_t>(dims_.output_spatial[d])]);
      spatial_dims.push_back(input().dimensions(dims_.input_spatial[d]));
    }
    Guards guards;
    if (!WindowElement(window, spatial_dims, spatial_out, window_index, f_.vars, input_spatial, guards)) return;
    const Affine& batch = out_index[static_cast<size_t>(dims_.output_batch)];
    const Affine& out_feature = out_index[static_cast<size_t>(dims_.output_feature)];
    const int64_t out_features = op_.shape().dimensions(dims_.output_feature);
    const int64_t features = kernel().dimensions(dims_.kernel_input_feature);
    Index input_index(static_cast<size_t>(input().rank()));
    for (size_t d = 0; d < input_spatial.size(); ++d)
      input_index[static_cast<size_t>(dims_.input_spatial[d])] = input_spatial[d];
    input_index[static_cast<size_t>(dims_.input_feature)] = Affine::Var(feature_).Plus(
        f_.vars.FloorDiv(out_feature, out_features / op_.attrs().GetInt(AttrId::kFeatureGroupCount, 1)), features);
    input_index[static_cast<size_t>(dims_.input_batch)] =
        batch.Plus(f_.vars.FloorDiv(out_feature, out_features / op_.attrs().GetInt(AttrId::kBatchGroupCount, 1)),
                   op_.shape().dimensions(dims_.output_batch));
    kernel_index[static_cast<size_t>(dims_.kernel_input_feature)] = Affine::Var(feature_);
    kernel_index[static_cast<size_t>(dims_.kernel_output_feature)] = out_feature;

    const PrimitiveType input_type = input().element_type(), kernel_type = kernel().element_type();
    Value* inside = f_.indices.Mask(guards);
    const Affine address = Linearize(input_index, input().dimensions());
    Val x = lanes_ > 0 ? LoadVector(address, inside) : f_.memory.Load({f_.array(0), input_type}, address, guards);
    x = f_.elements.Convert(x, input_type, sum_);
    Val y = f_.elements.Convert(
        f_.memory.Load({f_.array(1), kernel_type}, Linearize(kernel_index, kernel().dimensions()), {}), kernel_type,
        sum_);
    x.stored = y.stored = nullptr;
    if (lanes_ > 0 && IsFloat(sum_)) {
      // Neighbouring positions share the zeros, too.
      if (inside != nullptr) x = f_.elements.Select(inside, x, Zero());
      sum = {f_.b.CreateIntrinsic(llvm::Intrinsic::fma, {x.v->getType()}, {x.v, y.v, sum.v})};
      return;
    }
    const bool is_pred = sum_ == PrimitiveType::kPred;
    const Val old = sum;
    sum = f_.elements.Binary(is_pred ? Opcode::kOr : Opcode::kAdd, sum_, old,
                             f_.elements.Binary(is_pred ? Opcode::kAnd : Opcode::kMultiply, sum_, x, y));
    sum.stored = nullptr;
    if (inside != nullptr) sum = f_.elements.Select(inside, sum, old);
  }

  // Loads the lanes' neighbouring elements of the input, or others if `inside` does not hold. MemoryAccess would load
  // them one by one in that case.
  Val LoadVector(const Affine& address, Value* inside) {
    const PrimitiveType type = input().element_type();
    Value* at = f_.indices.Uniform(f_.indices.SplitLanes(address).uniform);
    if (inside != nullptr) at = f_.b.CreateSelect(inside, at, llvm::ConstantInt::get(at->getType(), 0));
    llvm::Type* element = f_.elements.StorageType(type);
    auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
    Value* raw = f_.b.CreateAlignedLoad(vector, f_.b.CreateGEP(element, f_.array(0), at),
                                        llvm::Align(static_cast<uint64_t>(lanes_ * ByteWidth(type))));
    return f_.elements.FromStorage(type, raw);
  }

  KernelFrame& f_;
  const Instruction& op_;
  const ConvolutionDimensions dims_;
  const PrimitiveType out_type_, sum_;
  const int lanes_;
  const int64_t positions_;  // along the last dimension of space
  std::vector<VarId> loops_, window_;
  VarId feature_ = 0;
  Index out_index_;
  Vals like_;
};

}  // namespace

// Whether neighbours in the dimension are neighbours in memory.
static bool IsInnermost(const Shape& shape, int64_t dimension) {
  return RowMajorStrides(shape.dimensions())[static_cast<size_t>(dimension)] == 1;
}

int64_t CountConvolutionPositions(const Instruction& convolution, int lanes) {
  const Ints& spatial = convolution.conv_dims().output_spatial;
  if (lanes == 0 || spatial.empty()) return 1;
  const int64_t size = convolution.shape().dimensions(spatial.back()), elements = convolution.shape().num_elements();
  for (const int64_t positions : {4, 2}) {
    if (size % positions == 0 && elements / (lanes * positions) >= kManyThreads) return positions;
  }
  return 1;
}

int ChooseConvolutionLanes(const Instruction& convolution) {
  const ConvolutionDimensions& d = convolution.conv_dims();
  const Shape &input = convolution.operand(0)->shape(), &kernel = convolution.operand(1)->shape(),
              &out = convolution.shape();
  const PrimitiveType type = out.element_type();
  if (!IsDepthwise(convolution) || IsComplex(type) || input.element_type() != type || kernel.element_type() != type ||
      input.dimensions(d.input_feature) != out.dimensions(d.output_feature) || d.output_feature + 1 != out.rank() ||
      !IsInnermost(input, d.input_feature) || !IsInnermost(kernel, d.kernel_output_feature))
    return 0;
  const int lanes = std::min(kVectorBytes / ByteWidth(type), 8);
  return lanes >= 2 && out.dimensions(d.output_feature) % lanes == 0 ? lanes : 0;
}

void EmitBody(KernelFrame& frame, const Instruction& convolution, const ConvolutionPlan& plan) {
  ConvolutionEmitter(frame, convolution, plan.lanes).Emit();
}

}  // namespace backplane::hip
