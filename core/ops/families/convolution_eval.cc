// Evaluation of convolution: for each kernel position, rows of outputs are products of input rows and a matrix.
#include <complex>

#include "core/ops/families/elements.h"
#include "core/ops/families/gemm.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

struct Problem {
  const Window* window;
  DimVector in_spatial, out_spatial;
  int64_t out_batch, in_features, kernel_features, out_features, feature_groups, batch_groups;
};

// input [batch][spatial][feature], kernel [spatial][in feature][out feature], output [batch][spatial][feature].
template <typename T>
void Convolve(const Problem& p, const std::byte* input_bytes, const std::byte* kernel_bytes, std::byte* output_bytes) {
  const T* input = reinterpret_cast<const T*>(input_bytes);
  const T* kernel = reinterpret_cast<const T*>(kernel_bytes);
  T* output = reinterpret_cast<T*>(output_bytes);
  const int64_t rank = static_cast<int64_t>(p.in_spatial.size());
  DimVector sizes, zero(rank, 0);
  int64_t in_image = p.in_features, out_image = p.out_features;
  for (int64_t d = 0; d < rank; ++d) {
    sizes.push_back(p.window->dimensions[d].size);
    in_image *= p.in_spatial[d];
    out_image *= p.out_spatial[d];
  }
  const DimVector in_strides = RowMajorStrides(p.in_spatial), out_strides = RowMajorStrides(p.out_spatial);
  const DimVector kernel_strides = RowMajorStrides(sizes);
  const int64_t matrix = p.kernel_features * p.out_features;
  const int64_t groups = p.feature_groups * p.batch_groups, per_group = p.out_features / groups;
  const bool depthwise = p.feature_groups > 1 && p.kernel_features == 1 && per_group == 1;
  Odometer<1> w(sizes, {zero});
  do {
    DimVector counts, from, to;
    int64_t in = 0, out = 0, k = 0;
    bool empty = false;
    for (int64_t d = 0; d < rank; ++d) {
      const WindowDimension& dim = p.window->dimensions[d];
      const WindowLine line = MakeWindowLine(dim, p.in_spatial[d], p.out_spatial[d], w.index()[d]);
      empty = empty || line.count == 0;
      counts.push_back(line.count);
      from.push_back(line.in_step * in_strides[d] * p.in_features);
      to.push_back(line.step * out_strides[d] * p.out_features);
      in += line.in_first * in_strides[d] * p.in_features;
      out += line.first * out_strides[d] * p.out_features;
      k += (dim.window_reversal ? dim.size - 1 - w.index()[d] : w.index()[d]) * kernel_strides[d];
    }
    if (empty) continue;
    int64_t rows = 1, row_in = p.in_features, row_out = p.out_features;
    if (rank > 0) {
      rows = counts[rank - 1];
      row_in = from[rank - 1];
      row_out = to[rank - 1];
      counts[rank - 1] = 1;
    }
    const T* weights = kernel + k * matrix;
    for (int64_t b = 0; b < p.out_batch; ++b) {
      Odometer<2> at(counts, {from, to});
      do {
        for (int64_t g = 0; g < (depthwise ? 1 : groups); ++g) {
          const int64_t batch_group = p.batch_groups > 1 ? g : 0, feature_group = p.feature_groups > 1 ? g : 0;
          const T* x = input + (batch_group * p.out_batch + b) * in_image + in + at.offset(0) +
                       feature_group * p.kernel_features;
          T* y = output + b * out_image + out + at.offset(1) + g * per_group;
          if (depthwise) {
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t c = 0; c < p.out_features; ++c) {
                T& sum = y[r * row_out + c];
                sum = Plus(sum, Times(x[r * row_in + c], weights[c]));
              }
            }
          } else {
            Gemm<T>(rows, per_group, p.kernel_features, x, row_in, weights + g * per_group, p.out_features, y, row_out);
          }
        }
      } while (at.Next());
    }
  } while (w.Next());
}

}  // namespace

absl::StatusOr<Literal> EvaluateConvolution(const OpContext& op, Args args, EvalEnv& env) {
  const Literal &lhs = *args[0], &rhs = *args[1];
  const ConvolutionDimensions& d = op.attrs->Get<ConvolutionDimensions>(AttrId::kConvolutionDims);
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  Problem p;
  p.window = &op.attrs->Get<Window>(AttrId::kWindow);
  p.feature_groups = op.attrs->GetInt(AttrId::kFeatureGroupCount, 1);
  p.batch_groups = op.attrs->GetInt(AttrId::kBatchGroupCount, 1);
  p.out_batch = shape.dimensions(d.output_batch);
  p.out_features = shape.dimensions(d.output_feature);
  p.in_features = lhs.shape().dimensions(d.input_feature);
  p.kernel_features = rhs.shape().dimensions(d.kernel_input_feature);
  Ints in_order{d.input_batch}, kernel_order = d.kernel_spatial;
  DimVector packed{p.out_batch};
  const DimVector out_strides = RowMajorStrides(shape.dimensions());
  StridedSide target{0, {out_strides[d.output_batch]}};
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    in_order.push_back(d.input_spatial[i]);
    p.in_spatial.push_back(lhs.shape().dimensions(d.input_spatial[i]));
    p.out_spatial.push_back(shape.dimensions(d.output_spatial[i]));
    packed.push_back(p.out_spatial.back());
    target.strides.push_back(out_strides[d.output_spatial[i]]);
  }
  in_order.push_back(d.input_feature);
  kernel_order.push_back(d.kernel_input_feature);
  kernel_order.push_back(d.kernel_output_feature);
  packed.push_back(p.out_features);
  target.strides.push_back(out_strides[d.output_feature]);

  const PrimitiveType acc =
      SelectAccumulationType(lhs.shape().element_type(), rhs.shape().element_type(), shape.element_type());
  ASSIGN_OR_RETURN(Literal sums, AllocateLiteral(op, Shape(acc, packed)));
  if (sums.num_elements() > 0 && lhs.num_elements() > 0 && rhs.num_elements() > 0) {
    const std::vector<std::byte> input = PackAs(lhs, in_order, acc), kernel = PackAs(rhs, kernel_order, acc);
    std::byte* out = sums.mutable_bytes();
    switch (acc) {
      case PrimitiveType::kF32:
        Convolve<float>(p, input.data(), kernel.data(), out);
        break;
      case PrimitiveType::kF64:
        Convolve<double>(p, input.data(), kernel.data(), out);
        break;
      case PrimitiveType::kC64:
        Convolve<std::complex<float>>(p, input.data(), kernel.data(), out);
        break;
      case PrimitiveType::kC128:
        Convolve<std::complex<double>>(p, input.data(), kernel.data(), out);
        break;
      default:
        Convolve<int64_t>(p, input.data(), kernel.data(), out);
    }
  }
  ASSIGN_OR_RETURN(sums, sums.Convert(shape.element_type()));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  StridedCopy(ByteWidth(shape.element_type()), packed, sums.bytes(), {0, RowMajorStrides(packed)}, out.mutable_bytes(),
              target);
  return out;
}

}  // namespace backplane
