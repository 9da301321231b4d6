#include "plugins/hip/compiler/prepare_convolutions.h"

#include <algorithm>

#include "core/passes/make_reducer.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/convolution_problem.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::hip {
namespace {

constexpr int64_t kMinSide = 16;        // of the matrices of a dot: that of a matrix instruction
constexpr int64_t kMostPositions = 49;  // of the sums of a depthwise gradient
constexpr int64_t kMostPhases = 16;
constexpr int64_t kMinProductsOfPhases = int64_t{1} << 26;

using Dims = std::vector<int64_t>;

Dims GetDims(const Instruction* i) { return {i->shape().dimensions().begin(), i->shape().dimensions().end()}; }

class Convolution {
 public:
  Convolution(Computation* c, Instruction* convolution)
      : c_(c), op_(convolution), dims_(convolution->conv_dims()), window_(convolution->window()) {}

  bool Prepare() {
    if (op_->shape().num_elements() == 0 || op_->operand(0)->shape().num_elements() == 0 ||
        op_->operand(1)->shape().num_elements() == 0 || IsComplex(op_->shape().element_type()))
      return false;
    if (IsPointwise()) {
      MakeDot();
      return true;
    }
    if (IsDepthwiseGradient()) {
      SumProducts();
      return true;
    }
    if (!IsConvolutionProduct(*op_)) return false;
    return HasPhases() ? SplitPhases() : MakeContiguous();
  }

 private:
  int64_t feature_groups() const { return op_->attrs().GetInt(AttrId::kFeatureGroupCount, 1); }
  int64_t batch_groups() const { return op_->attrs().GetInt(AttrId::kBatchGroupCount, 1); }

  // ---- Windows of one element.

  bool IsPointwise() const {
    const Shape &input = op_->operand(0)->shape(), &kernel = op_->operand(1)->shape(), &out = op_->shape();
    for (size_t d = 0; d < window_.dimensions.size(); ++d) {
      const WindowDimension& w = window_.dimensions[d];
      if (w.size != 1 || w.stride != 1 || w.padding_low != 0 || w.padding_high != 0 || w.base_dilation != 1)
        return false;
    }
    const int64_t features = kernel.dimensions(dims_.kernel_output_feature);
    return feature_groups() == 1 && batch_groups() == 1 && features >= kMinSide &&
           kernel.dimensions(dims_.kernel_input_feature) >= kMinSide && out.num_elements() / features >= kMinSide &&
           dims_.input_feature + 1 == input.rank() && dims_.output_feature + 1 == out.rank() &&
           dims_.input_batch == dims_.output_batch && dims_.input_spatial == dims_.output_spatial;
  }

  void MakeDot() {
    const Shape& kernel = op_->operand(1)->shape();
    Dims order = {dims_.kernel_input_feature, dims_.kernel_output_feature};
    order.insert(order.begin(), dims_.kernel_spatial.begin(), dims_.kernel_spatial.end());
    Instruction* factors = Transpose(op_->operand(1), order);
    factors = Make(c_, op_, Opcode::kReshape,
                   Shape(kernel.element_type(), {kernel.dimensions(dims_.kernel_input_feature),
                                                 kernel.dimensions(dims_.kernel_output_feature)}),
                   {factors});
    DotDimensions dot;
    dot.lhs_contracting = {dims_.input_feature}, dot.rhs_contracting = {0};
    Attributes attrs;
    attrs.Set(AttrId::kDotDims, std::move(dot));
    if (op_->attrs().Has(AttrId::kOperandPrecision))
      attrs.Set(AttrId::kOperandPrecision, op_->attrs().Get<Precisions>(AttrId::kOperandPrecision));
    Replace(op_, Make(c_, op_, Opcode::kDot, op_->shape(), {op_->operand(0), factors}, std::move(attrs)));
  }

  // ---- The gradient of a depthwise convolution's kernel.

  bool IsDepthwiseGradient() const {
    const int64_t features = op_->shape().dimensions(dims_.output_feature);
    const int64_t positions = op_->shape().num_elements() / features;
    return feature_groups() == 1 && batch_groups() == features && features > 1 &&
           op_->operand(0)->shape().dimensions(dims_.input_batch) == features && positions <= kMostPositions &&
           IsFloat(op_->shape().element_type()) &&
           std::none_of(window_.dimensions.begin(), window_.dimensions.end(),
                        [](const WindowDimension& w) { return w.window_reversal; });
  }

  void SumProducts() {
    const PrimitiveType type = op_->shape().element_type();
    const PrimitiveType sum = codegen::IsNarrowFloat(type) ? PrimitiveType::kF32 : type;
    const size_t space = window_.dimensions.size();
    // The kernel, whose elements are the gradient of the output, in the order of the input's dimensions.
    Dims order(space + 2);
    order[static_cast<size_t>(dims_.input_batch)] = dims_.kernel_output_feature;
    order[static_cast<size_t>(dims_.input_feature)] = dims_.kernel_input_feature;
    for (size_t d = 0; d < space; ++d) order[static_cast<size_t>(dims_.input_spatial[d])] = dims_.kernel_spatial[d];
    Instruction* factors = Convert(Transpose(op_->operand(1), order), sum);
    Instruction* padded = Pad(op_->operand(0));
    const int64_t features = op_->shape().dimensions(dims_.output_feature);
    Ints reduced;
    for (int64_t d = 0; d < padded->shape().rank(); ++d) {
      if (d != dims_.input_batch) reduced.push_back(d);
    }
    std::vector<Instruction*> sums;
    Dims at(space, 0);
    for (bool more = true; more;) {
      SliceConfig slices;
      for (const int64_t n : GetDims(padded)) slices.push_back({0, n, 1});
      for (size_t d = 0; d < space; ++d) {
        const WindowDimension& w = window_.dimensions[d];
        const int64_t start = at[d] * w.stride;
        slices[static_cast<size_t>(dims_.input_spatial[d])] = {start, start + (w.size - 1) * w.window_dilation + 1,
                                                               w.window_dilation};
      }
      Attributes attrs;
      attrs.Set(AttrId::kSlices, std::move(slices));
      Instruction* terms = Make(c_, op_, Opcode::kSlice, Shape(padded->shape().element_type(), GetDims(factors)),
                                {padded}, std::move(attrs));
      terms = Make(c_, op_, Opcode::kMultiply, factors->shape(), {Convert(terms, sum), factors});
      Attributes dimensions;
      dimensions.Set(AttrId::kDimensions, reduced);
      Instruction* total = Make(c_, op_, Opcode::kReduce, Shape(sum, {features}),
                                {terms, MakeConstant(c_, op_, Literal::Scalar(sum, 0))}, std::move(dimensions),
                                {MakeReducer(c_->parent(), "add_products", Opcode::kAdd, sum)});
      sums.push_back(Make(c_, op_, Opcode::kReshape, Shape(sum, {1, features}), {total}));
      more = false;
      for (size_t d = space; d-- > 0 && !more;) {
        more = ++at[d] < op_->shape().dimensions(dims_.output_spatial[d]);
        if (!more) at[d] = 0;
      }
    }
    // Positions and features, in the order of the space, and then of the result.
    Attributes along;
    along.Set(AttrId::kDimensions, Ints{0});
    Instruction* all = sums.size() == 1
                           ? sums[0]
                           : Make(c_, op_, Opcode::kConcatenate,
                                  Shape(sum, {static_cast<int64_t>(sums.size()), features}), sums, std::move(along));
    Dims result = {dims_.output_batch}, sizes;
    result.insert(result.end(), dims_.output_spatial.begin(), dims_.output_spatial.end());
    result.push_back(dims_.output_feature);
    for (const int64_t d : result) sizes.push_back(op_->shape().dimensions(d));
    all = Convert(Make(c_, op_, Opcode::kReshape, Shape(sum, sizes), {all}), type);
    Dims back(result.size());  // dimension i of the result is back[i] of the sums
    for (size_t d = 0; d < result.size(); ++d) back[static_cast<size_t>(result[d])] = static_cast<int64_t>(d);
    Replace(op_, Transpose(all, back));
  }

  // The input with zeros around and between its elements.
  Instruction* Pad(Instruction* input) {
    PaddingConfig padding(static_cast<size_t>(input->shape().rank()));
    Dims dims = GetDims(input);
    bool changes = false;  // not only the size: elements may be added before the first and removed behind the last
    for (size_t d = 0; d < window_.dimensions.size(); ++d) {
      const WindowDimension& w = window_.dimensions[d];
      changes |= w.padding_low != 0 || w.padding_high != 0 || w.base_dilation != 1;
      const auto at = static_cast<size_t>(dims_.input_spatial[d]);
      padding[at] = {w.padding_low, w.padding_high, w.base_dilation - 1};
      dims[at] = (dims[at] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
    }
    if (!changes) return input;
    const PrimitiveType type = input->shape().element_type();
    Attributes attrs;
    attrs.Set(AttrId::kPadding, std::move(padding));
    return Make(c_, op_, Opcode::kPad, Shape(type, dims), {input, MakeConstant(c_, op_, Literal::Scalar(type, 0))},
                std::move(attrs));
  }

  Instruction* Convert(Instruction* x, PrimitiveType type) {
    if (x->shape().element_type() == type) return x;
    return Make(c_, op_, Opcode::kConvert, x->shape().WithElementType(type), {x});
  }

  // ---- Dilated inputs.

  // Whether zeros between the input's elements are so many, and the convolution so large, that a convolution for each
  // phase of the output, which multiplies no such zero, is worth its launch.
  bool HasPhases() const {
    int64_t phases = 1;
    for (const WindowDimension& w : window_.dimensions) {
      if (w.base_dilation == 1) continue;
      if (w.stride != 1 || w.window_dilation != 1) return false;
      phases *= w.base_dilation;
    }
    if (phases == 1 || phases > kMostPhases) return false;
    const absl::StatusOr<DotProblem> p = MakeConvolutionProblem(*op_, 1);
    return p.ok() && p->batch_size() * p->m * p->n * p->k >= kMinProductsOfPhases;
  }

  // What an output position that is `phase` more than a multiple of the dilation reads.
  struct Phase {
    int64_t outputs = 0;              // positions
    int64_t first = 0, elements = 0;  // of the kernel, each `dilation` after the one before
    int64_t padding_low = 0, padding_high = 0;
  };
  Phase FindPhase(size_t d, int64_t phase) const {
    const WindowDimension& w = window_.dimensions[d];
    const int64_t size = op_->operand(0)->shape().dimensions(dims_.input_spatial[d]);
    Phase p;
    p.outputs = CeilDiv(op_->shape().dimensions(dims_.output_spatial[d]) - phase, w.base_dilation);
    // Element e of the kernel reads position phase + e - padding_low of the first window, or phase + size - 1 - e -
    // padding_low if the window is reversed.
    const int64_t origin = phase - w.padding_low + (w.window_reversal ? w.size - 1 : 0);
    const int64_t sign = w.window_reversal ? -1 : 1;
    while (p.first < w.size && (origin + sign * p.first) % w.base_dilation != 0) ++p.first;
    if (p.first == w.size || p.outputs <= 0) return p;
    p.elements = CeilDiv(w.size - p.first, w.base_dilation);
    const int64_t element = (origin + sign * p.first) / w.base_dilation;  // of the input, that the first one reads
    p.padding_low = w.window_reversal ? p.elements - 1 - element : -element;
    p.padding_high = p.outputs + p.elements - 1 - size - p.padding_low;
    return p;
  }

  bool SplitPhases() {
    const size_t space = window_.dimensions.size();
    std::vector<Instruction*> convolutions;
    Instruction* sum = nullptr;
    Dims at(space, 0);
    for (bool more = true; more;) {
      std::vector<Phase> phases;
      for (size_t d = 0; d < space; ++d) phases.push_back(FindPhase(d, at[d]));
      const bool exists =
          std::all_of(phases.begin(), phases.end(), [](const Phase& p) { return p.outputs > 0 && p.elements > 0; });
      if (exists) {
        convolutions.push_back(ComputePhase(phases));
        Instruction* placed = PlacePhase(convolutions.back(), at);
        sum = sum == nullptr ? placed : Make(c_, op_, Opcode::kAdd, op_->shape(), {sum, placed});
      }
      more = false;
      for (size_t d = space; d-- > 0 && !more;) {
        more = ++at[d] < window_.dimensions[d].base_dilation;
        if (!more) at[d] = 0;
      }
    }
    if (sum == nullptr) return false;
    Replace(op_, sum);
    for (Instruction* convolution : convolutions) Convolution(c_, convolution).Prepare();
    return true;
  }

  Instruction* ComputePhase(const std::vector<Phase>& phases) {
    Window window = window_;
    SliceConfig slices;
    Dims kernel = GetDims(op_->operand(1)), out = GetDims(op_);
    for (const int64_t n : kernel) slices.push_back({0, n, 1});
    for (size_t d = 0; d < phases.size(); ++d) {
      const Phase& p = phases[d];
      WindowDimension& w = window.dimensions[d];
      const auto of_kernel = static_cast<size_t>(dims_.kernel_spatial[d]);
      slices[of_kernel] = {p.first, p.first + (p.elements - 1) * w.base_dilation + 1, w.base_dilation};
      kernel[of_kernel] = p.elements;
      out[static_cast<size_t>(dims_.output_spatial[d])] = p.outputs;
      if (w.base_dilation == 1) continue;  // as it was
      w.size = p.elements, w.base_dilation = 1, w.padding_low = p.padding_low, w.padding_high = p.padding_high;
    }
    Attributes of_slice;
    of_slice.Set(AttrId::kSlices, std::move(slices));
    Instruction* factors = op_->operand(1);
    if (kernel != GetDims(factors)) {
      factors =
          Make(c_, op_, Opcode::kSlice, Shape(factors->shape().element_type(), kernel), {factors}, std::move(of_slice));
    }
    Attributes attrs = op_->attrs();
    attrs.Set(AttrId::kWindow, std::move(window));
    return Make(c_, op_, Opcode::kConvolution, Shape(op_->shape().element_type(), out), {op_->operand(0), factors},
                std::move(attrs));
  }

  // Puts the results of a phase to where they belong, with zeros elsewhere.
  Instruction* PlacePhase(Instruction* phase, const Dims& at) {
    PaddingConfig padding(static_cast<size_t>(op_->shape().rank()));
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t dim = dims_.output_spatial[d], dilation = window_.dimensions[d].base_dilation;
      const int64_t extent = (phase->shape().dimensions(dim) - 1) * dilation + 1;
      padding[static_cast<size_t>(dim)] = {at[d], op_->shape().dimensions(dim) - at[d] - extent, dilation - 1};
    }
    const PrimitiveType type = op_->shape().element_type();
    Attributes attrs;
    attrs.Set(AttrId::kPadding, std::move(padding));
    return Make(c_, op_, Opcode::kPad, op_->shape(), {phase, MakeConstant(c_, op_, Literal::Scalar(type, 0))},
                std::move(attrs));
  }

  // ---- The order of dimensions.

  Instruction* Transpose(Instruction* x, const Dims& permutation) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    Dims dims;
    for (const int64_t d : permutation) dims.push_back(x->shape().dimensions(d));
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, Ints(permutation.begin(), permutation.end()));
    return Make(c_, op_, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
  }

  // Whether neighbours in memory are neighbours in space.
  static bool IsSpaceInnermost(const Shape& shape, const Ints& spatial) {
    for (int64_t d = shape.rank(); d-- > 0;) {
      if (shape.dimensions(d) > 1) return std::find(spatial.begin(), spatial.end(), d) != spatial.end();
    }
    return false;
  }

  // Gradients of kernels have windows that are larger than the output. Their products are summed over what was the
  // batch, so they read the features of the input and of the gradient as rows and columns.
  bool MakeContiguous() {
    int64_t space = 1;
    for (const int64_t d : dims_.output_spatial) space *= op_->shape().dimensions(d);
    const bool is_gradient = window_.CountElements() > space;
    std::vector<Instruction*> operands = {op_->operand(0), op_->operand(1)};
    ConvolutionDimensions dims = dims_;
    bool changes = false;
    const auto rank = static_cast<int64_t>(window_.dimensions.size()) + 2;
    auto move = [&](size_t operand, const Ints& spatial, int64_t first, int64_t last, bool is_kernel) {
      Dims order = {first};
      order.insert(order.begin() + (is_kernel ? 0 : 1), spatial.begin(), spatial.end());
      order.push_back(last);
      operands[operand] = Transpose(operands[operand], order);
      changes = true;
    };
    auto count_from = [&](Ints& spatial, int64_t first) {
      for (size_t d = 0; d < spatial.size(); ++d) spatial[d] = first + static_cast<int64_t>(d);
    };
    if (IsSpaceInnermost(op_->operand(0)->shape(), dims_.input_spatial)) {
      if (is_gradient) {
        move(0, dims_.input_spatial, dims_.input_feature, dims_.input_batch, false);
        dims.input_feature = 0, dims.input_batch = rank - 1;
      } else {
        move(0, dims_.input_spatial, dims_.input_batch, dims_.input_feature, false);
        dims.input_batch = 0, dims.input_feature = rank - 1;
      }
      count_from(dims.input_spatial, 1);
    }
    if (IsSpaceInnermost(op_->operand(1)->shape(), dims_.kernel_spatial)) {
      // The gradient's order is that of the input's gradient, which may read the same copy.
      move(1, dims_.kernel_spatial, dims_.kernel_input_feature, dims_.kernel_output_feature, !is_gradient);
      dims.kernel_input_feature = is_gradient ? 0 : rank - 2, dims.kernel_output_feature = rank - 1;
      count_from(dims.kernel_spatial, is_gradient ? 1 : 0);
    }
    if (!changes) return false;
    Attributes attrs = op_->attrs();
    attrs.Set(AttrId::kConvolutionDims, std::move(dims));
    Replace(op_, Make(c_, op_, Opcode::kConvolution, op_->shape(), operands, std::move(attrs)));
    return true;
  }

  Computation* const c_;
  Instruction* const op_;
  const ConvolutionDimensions dims_;
  const Window window_;
};

}  // namespace

absl::StatusOr<bool> PrepareConvolutions::Run(Module* module) {
  return RewriteEach(module, [](Computation* c, Instruction* i) {
    return i->Is(Opcode::kConvolution) && Convolution(c, i).Prepare();
  });
}

}  // namespace backplane::hip
