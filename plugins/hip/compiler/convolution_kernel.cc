// Convolutions that are no products: each thread computes elements of the result by the definition. Those of depthwise
// convolutions are 16 bytes of neighbouring features.
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

constexpr int64_t kUnrolledElements = 32;  // of a window
constexpr int kVectorBytes = 16;

class ConvolutionEmitter {
 public:
  ConvolutionEmitter(KernelFrame& frame, const Instruction& op)
      : f_(frame),
        op_(op),
        dims_(op.conv_dims()),
        out_type_(op.shape().element_type()),
        sum_(codegen::IsNarrowFloat(out_type_) ? PrimitiveType::kF32 : out_type_) {
    const Shape& out = op.shape();
    for (const int64_t n : out.dimensions()) {
      loops_.push_back(f_.vars.Loop(n));
      out_index_.push_back(Affine::Var(loops_.back()));
    }
    for (const int64_t d : dims_.kernel_spatial) window_.push_back(f_.vars.Loop(kernel().dimensions(d)));
    feature_ = f_.vars.Loop(kernel().dimensions(dims_.kernel_input_feature));
  }

  void Emit() {
    const int64_t count = op_.shape().num_elements();
    if (count == 0) return;
    f_.scopes.UnrollShortLoops(kUnrolledElements);
    f_.ForEachInGrid(count, f_.plan.lanes, [&](Value* at) {
      if (f_.plan.lanes > 0) {
        Value* features = llvm::ConstantInt::get(at->getType(), static_cast<uint64_t>(f_.vars.extent(loops_.back())));
        f_.scopes.Bind(absl::MakeConstSpan(loops_).first(loops_.size() - 1), f_.b.CreateUDiv(at, features));
        f_.scopes.Bind({&loops_.back(), 1}, f_.b.CreateURem(at, features), f_.plan.lanes);
      } else if (!loops_.empty()) {
        f_.scopes.Bind(loops_, at);
      }
      like_ = {f_.elements.Constant(Literal::Scalar(sum_, 0), f_.plan.lanes)};
      LoopScopes::Values carried = codegen::PartsOf(like_);
      if (kernel().num_elements() > 0 && op_.operand(0)->shape().num_elements() > 0) EmitLoops(0, carried);
      const Val sum = codegen::FromParts(like_, carried)[0];
      f_.memory.Store({f_.array(2), out_type_}, Linearize(out_index_, op_.shape().dimensions()),
                      f_.elements.Convert(sum, sum_, out_type_), {});
    });
  }

 private:
  const Shape& input() const { return op_.operand(0)->shape(); }
  const Shape& kernel() const { return op_.operand(1)->shape(); }

  // The loops over the window, outer to inner, and over the input features of a group.
  void EmitLoops(size_t level, LoopScopes::Values& carried) {
    if (level > window_.size()) return AddProduct(carried);
    const VarId v = level < window_.size() ? window_[level] : feature_;
    llvm::IntegerType* type = f_.indices.CounterType(f_.vars.extent(v));
    f_.scopes.Loop(llvm::ConstantInt::get(type, 0),
                   llvm::ConstantInt::get(type, static_cast<uint64_t>(f_.vars.extent(v))), 1, carried,
                   [&](Value* at, LoopScopes::Values& now) {
                     f_.scopes.Bind({&v, 1}, at);
                     EmitLoops(level + 1, now);
                   });
  }

  void AddProduct(LoopScopes::Values& carried) {
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
      spatial_out.push_back(out_index_[static_cast<size_t>(dims_.output_spatial[d])]);
      spatial_dims.push_back(input().dimensions(dims_.input_spatial[d]));
    }
    Guards guards;
    if (!WindowElement(window, spatial_dims, spatial_out, window_index, f_.vars, input_spatial, guards)) return;
    const Affine& batch = out_index_[static_cast<size_t>(dims_.output_batch)];
    const Affine& out_feature = out_index_[static_cast<size_t>(dims_.output_feature)];
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
    Val x = f_.elements.Convert(
        f_.memory.Load({f_.array(0), input_type}, Linearize(input_index, input().dimensions()), guards), input_type,
        sum_);
    Val y = f_.elements.Convert(
        f_.memory.Load({f_.array(1), kernel_type}, Linearize(kernel_index, kernel().dimensions()), {}), kernel_type,
        sum_);
    x.stored = y.stored = nullptr;
    const bool is_pred = sum_ == PrimitiveType::kPred;
    const Val old = codegen::FromParts(like_, carried)[0];
    Val sum = f_.elements.Binary(is_pred ? Opcode::kOr : Opcode::kAdd, sum_, old,
                                 f_.elements.Binary(is_pred ? Opcode::kAnd : Opcode::kMultiply, sum_, x, y));
    sum.stored = nullptr;
    if (Value* inside = f_.indices.Mask(guards)) sum = f_.elements.Select(inside, sum, old);
    carried = codegen::PartsOf({sum});
  }

  KernelFrame& f_;
  const Instruction& op_;
  const ConvolutionDimensions dims_;
  const PrimitiveType out_type_, sum_;
  std::vector<VarId> loops_, window_;
  VarId feature_ = 0;
  Index out_index_;
  Vals like_;
};

}  // namespace

int ChooseConvolutionLanes(const Instruction& convolution) {
  const ConvolutionDimensions& d = convolution.conv_dims();
  const Shape &input = convolution.operand(0)->shape(), &kernel = convolution.operand(1)->shape(),
              &out = convolution.shape();
  const PrimitiveType type = out.element_type();
  if (!IsDepthwise(convolution) || IsComplex(type) || input.element_type() != type || kernel.element_type() != type ||
      input.dimensions(d.input_feature) != out.dimensions(d.output_feature) || d.output_feature + 1 != out.rank() ||
      d.input_feature + 1 != input.rank() || d.kernel_output_feature + 1 != kernel.rank())
    return 0;
  const int lanes = std::min(kVectorBytes / ByteWidth(type), 8);
  return lanes >= 2 && out.dimensions(d.output_feature) % lanes == 0 ? lanes : 0;
}

void EmitConvolution(KernelFrame& frame, const Instruction& convolution) {
  ConvolutionEmitter(frame, convolution).Emit();
}

}  // namespace backplane::hip
