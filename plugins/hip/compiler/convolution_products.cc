#include "plugins/hip/compiler/convolution_products.h"

#include <algorithm>
#include <numeric>

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"

namespace backplane::hip {
namespace {

constexpr int64_t kMinSide = 16;                 // of the matrices: that of a matrix instruction
constexpr int64_t kMaxWindow = 64;               // elements, without features
constexpr int64_t kMaxBytes = int64_t{1} << 28;  // of all windows

using Dims = std::vector<int64_t>;

Dims DimsOf(const Instruction* i) { return {i->shape().dimensions().begin(), i->shape().dimensions().end()}; }

class Conversion {
 public:
  Conversion(Computation* c, Instruction* convolution)
      : c_(c), op_(convolution), dims_(convolution->conv_dims()), window_(convolution->window()) {}

  bool IsWorthwhile() const {
    if (op_->attrs().GetInt(AttrId::kFeatureGroupCount, 1) != 1 ||
        op_->attrs().GetInt(AttrId::kBatchGroupCount, 1) != 1)
      return false;
    const Shape& kernel = op_->operand(1)->shape();
    int64_t size = 1;
    for (const WindowDimension& w : window_.dimensions) size *= w.size;
    const int64_t features = kernel.dimensions(dims_.kernel_output_feature),
                  terms = size * kernel.dimensions(dims_.kernel_input_feature);
    if (op_->shape().num_elements() == 0 || terms == 0 || IsComplex(op_->shape().element_type())) return false;
    const int64_t rows = op_->shape().num_elements() / features;
    const int64_t bytes = rows * terms * ByteWidth(op_->operand(0)->shape().element_type());
    return size <= kMaxWindow && features >= kMinSide && terms >= kMinSide && rows >= kMinSide &&
           (size == 1 || bytes <= kMaxBytes);
  }

  void Run() {
    // Batch, space and features of each array, in this order.
    Dims input = {dims_.input_batch}, kernel, result = {dims_.output_batch};
    input.insert(input.end(), dims_.input_spatial.begin(), dims_.input_spatial.end());
    input.push_back(dims_.input_feature);
    kernel.assign(dims_.kernel_spatial.begin(), dims_.kernel_spatial.end());
    kernel.push_back(dims_.kernel_input_feature);
    kernel.push_back(dims_.kernel_output_feature);
    result.insert(result.end(), dims_.output_spatial.begin(), dims_.output_spatial.end());
    result.push_back(dims_.output_feature);

    Instruction* windows = ListWindows(Pad(Transpose(op_->operand(0), input)), result);
    Instruction* factors = Transpose(op_->operand(1), kernel);
    const int64_t features = op_->operand(1)->shape().dimensions(dims_.kernel_output_feature);
    const Dims rows = DimsOf(windows);
    factors =
        Make(c_, op_, Opcode::kReshape, Shape(factors->shape().element_type(), {rows.back(), features}), {factors});
    DotDimensions dot;
    dot.lhs_contracting = {static_cast<int64_t>(rows.size()) - 1}, dot.rhs_contracting = {0};
    Attributes attrs;
    attrs.Set(AttrId::kDotDims, std::move(dot));
    if (op_->attrs().Has(AttrId::kOperandPrecision))
      attrs.Set(AttrId::kOperandPrecision, op_->attrs().Get<Precisions>(AttrId::kOperandPrecision));
    Dims product = rows;
    product.back() = features;
    Instruction* sums =
        Make(c_, op_, Opcode::kDot, Shape(op_->shape().element_type(), product), {windows, factors}, std::move(attrs));
    Dims order(result.size());  // dimension i of the convolution is order[i] of the dot
    for (size_t d = 0; d < result.size(); ++d) order[static_cast<size_t>(result[d])] = static_cast<int64_t>(d);
    Replace(op_, Transpose(sums, order));
  }

 private:
  Instruction* Transpose(Instruction* x, const Dims& permutation) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    Dims dims;
    for (const int64_t d : permutation) dims.push_back(x->shape().dimensions(d));
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, Ints(permutation.begin(), permutation.end()));
    return Make(c_, op_, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
  }

  // The input with zeros around and between its elements.
  Instruction* Pad(Instruction* input) {
    PaddingConfig padding(static_cast<size_t>(input->shape().rank()));
    Dims dims = DimsOf(input);
    bool changes = false;
    for (size_t d = 0; d < window_.dimensions.size(); ++d) {
      const WindowDimension& w = window_.dimensions[d];
      padding[d + 1] = {w.padding_low, w.padding_high, w.base_dilation - 1};
      changes |= w.padding_low != 0 || w.padding_high != 0 || w.base_dilation != 1;
      int64_t& size = dims[d + 1];
      size = (size == 0 ? 0 : (size - 1) * w.base_dilation + 1) + w.padding_low + w.padding_high;
    }
    if (!changes) return input;
    const PrimitiveType type = input->shape().element_type();
    Attributes attrs;
    attrs.Set(AttrId::kPadding, std::move(padding));
    return Make(c_, op_, Opcode::kPad, Shape(type, dims), {input, MakeConstant(c_, op_, Literal::Scalar(type, 0))},
                std::move(attrs));
  }

  // Batch, output's space, and the elements of the window with all their features.
  Instruction* ListWindows(Instruction* padded, const Dims& result) {
    const size_t space = window_.dimensions.size();
    std::vector<Instruction*> elements;
    Dims at(space, 0), dims = DimsOf(padded);
    for (size_t d = 0; d < space; ++d) dims[d + 1] = op_->shape().dimensions(result[d + 1]);
    for (bool more = true; more;) {
      SliceConfig slices;
      for (const int64_t n : DimsOf(padded)) slices.push_back({0, n, 1});
      for (size_t d = 0; d < space; ++d) {
        const WindowDimension& w = window_.dimensions[d];
        const int64_t start = (w.window_reversal ? w.size - 1 - at[d] : at[d]) * w.window_dilation;
        slices[d + 1] = {start, start + (dims[d + 1] - 1) * w.stride + 1, w.stride};
      }
      Attributes attrs;
      attrs.Set(AttrId::kSlices, std::move(slices));
      elements.push_back(
          dims == DimsOf(padded)
              ? padded
              : Make(c_, op_, Opcode::kSlice, Shape(padded->shape().element_type(), dims), {padded}, std::move(attrs)));
      more = false;
      for (size_t d = space; d-- > 0 && !more;) {
        more = ++at[d] < window_.dimensions[d].size;
        if (!more) at[d] = 0;
      }
    }
    if (elements.size() == 1) return elements[0];
    dims.back() *= static_cast<int64_t>(elements.size());
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, Ints{static_cast<int64_t>(dims.size()) - 1});
    return Make(c_, op_, Opcode::kConcatenate, Shape(padded->shape().element_type(), dims), elements, std::move(attrs));
  }

  Computation* const c_;
  Instruction* const op_;
  const ConvolutionDimensions dims_;
  const Window window_;
};

}  // namespace

absl::StatusOr<bool> ConvolutionsToProducts::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) {
    if (!i->Is(Opcode::kConvolution)) return false;
    Conversion conversion(c, i);
    if (!conversion.IsWorthwhile()) return false;
    conversion.Run();
    return true;
  });
}

}  // namespace backplane::hip
