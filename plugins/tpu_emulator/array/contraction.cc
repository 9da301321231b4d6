#include "plugins/tpu_emulator/array/contraction.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/ops/families/elements.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_product.h"

namespace backplane::tpu {
namespace {

bool Narrow(PrimitiveType t) { return IsFloat(t) && BitWidth(t) <= 16; }
bool Taken(PrimitiveType t) { return t == PrimitiveType::kF32 || Narrow(t); }
bool Holds(const Ints& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

const float* Floats(const std::vector<std::byte>& bytes) { return reinterpret_cast<const float*>(bytes.data()); }

absl::StatusOr<Literal> Dot(const Instruction& op, const Literal& lhs, const Literal& rhs, ArrayProductShape product,
                            int threads) {
  const DotDimensions& d = op.dot_dims();
  product.batch = product.m = product.n = product.k = 1;
  Ints left = d.lhs_batch, right = d.rhs_batch;
  for (int64_t i : d.lhs_batch) product.batch *= lhs.shape().dimensions(i);
  for (int64_t i = 0; i < lhs.shape().rank(); ++i) {
    if (Holds(d.lhs_batch, i) || Holds(d.lhs_contracting, i)) continue;
    left.push_back(i);
    product.m *= lhs.shape().dimensions(i);
  }
  for (int64_t i : d.lhs_contracting) {
    left.push_back(i);
    product.k *= lhs.shape().dimensions(i);
  }
  right.insert(right.end(), d.rhs_contracting.begin(), d.rhs_contracting.end());
  for (int64_t i = 0; i < rhs.shape().rank(); ++i) {
    if (Holds(d.rhs_batch, i) || Holds(d.rhs_contracting, i)) continue;
    right.push_back(i);
    product.n *= rhs.shape().dimensions(i);
  }
  Literal sums(op.shape().WithElementType(PrimitiveType::kF32).WithoutLayout());
  if (sums.num_elements() > 0) {
    const std::vector<std::byte> a = PackAs(lhs, left, PrimitiveType::kF32),
                                 b = PackAs(rhs, right, PrimitiveType::kF32);
    ArrayProduct(product, Floats(a), Floats(b), reinterpret_cast<float*>(sums.mutable_bytes()), threads);
  }
  return sums.Convert(op.shape().element_type());
}

// The windows of one image, one row for each output position: what the kernel matrix is multiplied with.
class Windows {
 public:
  Windows(const Window& window, DimVector in, DimVector out)
      : window_(window), in_(std::move(in)), out_(std::move(out)) {
    for (const WindowDimension& d : window_.dimensions) positions_ *= d.size;
    for (int64_t n : out_) rows_ *= n;
  }
  int64_t positions() const { return positions_; }
  int64_t rows() const { return rows_; }

  // image: [spatial][pitch] floats, of which `features` are taken. to: [rows][positions][features].
  void Fill(const float* image, int64_t pitch, int64_t features, float* to) const {
    const size_t rank = out_.size();
    DimVector at(rank, 0);
    for (int64_t row = 0; row < rows_; ++row) {
      DimVector w(rank, 0);
      for (int64_t position = 0; position < positions_; ++position, to += features) {
        const int64_t from = Source(at, w);
        if (from < 0) {
          std::fill(to, to + features, 0.0f);
        } else {
          std::copy(image + from * pitch, image + from * pitch + features, to);
        }
        for (size_t d = rank; d-- > 0 && ++w[d] == window_.dimensions[d].size;) w[d] = 0;
      }
      for (size_t d = rank; d-- > 0 && ++at[d] == out_[d];) at[d] = 0;
    }
  }

 private:
  // The input position that window position `w` of output `at` falls on; -1: padding or a hole.
  int64_t Source(const DimVector& at, const DimVector& w) const {
    int64_t linear = 0;
    for (size_t d = 0; d < out_.size(); ++d) {
      const WindowDimension& dim = window_.dimensions[d];
      const int64_t tap = dim.window_reversal ? dim.size - 1 - w[d] : w[d];
      const int64_t dilated = at[d] * dim.stride + tap * dim.window_dilation - dim.padding_low;
      if (dilated < 0 || dilated % dim.base_dilation != 0 || dilated / dim.base_dilation >= in_[d]) return -1;
      linear = linear * in_[d] + dilated / dim.base_dilation;
    }
    return linear;
  }

  const Window& window_;
  const DimVector in_, out_;
  int64_t positions_ = 1, rows_ = 1;
};

absl::StatusOr<Literal> Convolution(const Instruction& op, const Literal& lhs, const Literal& rhs,
                                    ArrayProductShape product, int threads) {
  const ConvolutionDimensions& d = op.conv_dims();
  const Shape& shape = op.shape();
  const int64_t feature_groups = op.attrs().GetInt(AttrId::kFeatureGroupCount, 1),
                batch_groups = op.attrs().GetInt(AttrId::kBatchGroupCount, 1), groups = feature_groups * batch_groups;
  const int64_t out_batch = shape.dimensions(d.output_batch), out_features = shape.dimensions(d.output_feature);
  const int64_t in_features = lhs.shape().dimensions(d.input_feature),
                kernel_features = rhs.shape().dimensions(d.kernel_input_feature), per_group = out_features / groups;
  Ints in_order{d.input_batch}, kernel_order = d.kernel_spatial;
  DimVector in, out, packed{out_batch};
  int64_t in_image = in_features;
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    in_order.push_back(d.input_spatial[i]);
    in.push_back(lhs.shape().dimensions(d.input_spatial[i]));
    out.push_back(shape.dimensions(d.output_spatial[i]));
    packed.push_back(out.back());
    in_image *= in.back();
  }
  in_order.push_back(d.input_feature);
  kernel_order.push_back(d.kernel_input_feature);
  kernel_order.push_back(d.kernel_output_feature);
  packed.push_back(out_features);
  Literal sums(Shape(PrimitiveType::kF32, packed));
  float* target = reinterpret_cast<float*>(sums.mutable_bytes());
  if (sums.num_elements() > 0) {
    const std::vector<std::byte> input = PackAs(lhs, in_order, PrimitiveType::kF32),
                                 kernel = PackAs(rhs, kernel_order, PrimitiveType::kF32);
    const Windows windows(op.window(), in, out);
    product.batch = 1;
    product.m = windows.rows();
    product.n = per_group;
    product.k = windows.positions() * kernel_features;
    std::vector<float> rows(static_cast<size_t>(product.m * product.k)),
        result(static_cast<size_t>(product.m * per_group)), weights(static_cast<size_t>(product.k * per_group));
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t k = 0; k < product.k; ++k) {
        const float* row = Floats(kernel) + k * out_features + g * per_group;
        std::copy(row, row + per_group, weights.data() + k * per_group);
      }
      const int64_t batch_group = batch_groups > 1 ? g : 0, feature_group = feature_groups > 1 ? g : 0;
      for (int64_t b = 0; b < out_batch; ++b) {
        windows.Fill(Floats(input) + (batch_group * out_batch + b) * in_image + feature_group * kernel_features,
                     in_features, kernel_features, rows.data());
        ArrayProduct(product, rows.data(), weights.data(), result.data(), threads);
        for (int64_t r = 0; r < product.m; ++r) {
          std::copy(result.data() + r * per_group, result.data() + (r + 1) * per_group,
                    target + (b * product.m + r) * out_features + g * per_group);
        }
      }
    }
  }
  ASSIGN_OR_RETURN(sums, sums.Convert(shape.element_type()));
  Literal result(shape.WithoutLayout());
  const DimVector strides = RowMajorStrides(shape.dimensions());
  StridedSide to{0, {strides[d.output_batch]}};
  for (int64_t i : d.output_spatial) to.strides.push_back(strides[i]);
  to.strides.push_back(strides[d.output_feature]);
  StridedCopy(ByteWidth(shape.element_type()), packed, sums.bytes(), {0, RowMajorStrides(packed)},
              result.mutable_bytes(), to);
  return result;
}

}  // namespace

absl::Status TakenByArray(const Instruction& op) {
  for (const Instruction* operand : op.operands()) {
    if (!Taken(operand->shape().element_type())) {
      return absl::UnimplementedError(
          absl::StrCat("the matrix unit takes no ", Name(operand->shape().element_type()), " operand"));
    }
  }
  if (!Taken(op.shape().element_type())) {
    return absl::UnimplementedError(
        absl::StrCat("the matrix unit gives no ", Name(op.shape().element_type()), " result"));
  }
  return absl::OkStatus();
}

int PassesOf(const Instruction& op) {
  const PrimitiveType lhs = op.operand(0)->shape().element_type(), rhs = op.operand(1)->shape().element_type();
  if (Narrow(lhs) && Narrow(rhs)) return 0;
  if (op.attrs().Has(AttrId::kDotAlgorithm)) {
    const DotAlgorithm& a = op.attrs().Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    const bool bf16 = a.lhs_type == PrimitiveType::kBF16 && a.rhs_type == PrimitiveType::kBF16;
    if (bf16) return a.primitive_operations >= 6 ? 6 : a.primitive_operations >= 3 ? 3 : 1;
    if (a.lhs_type == PrimitiveType::kF32) return 6;
  }
  Precision most = Precision::kDefault;
  if (op.attrs().Has(AttrId::kOperandPrecision)) {
    for (Precision p : op.attrs().Get<Precisions>(AttrId::kOperandPrecision)) {
      if (p == Precision::kHighest || (p == Precision::kHigh && most == Precision::kDefault)) most = p;
    }
  }
  return most == Precision::kHighest ? 6 : most == Precision::kHigh ? 3 : 1;
}

absl::StatusOr<Literal> RunOnArray(const Instruction& op, const Literal& lhs, const Literal& rhs, int64_t side,
                                   int threads) {
  ArrayProductShape product;
  product.side = side;
  product.passes = PassesOf(op);
  return op.Is(Opcode::kDot) ? Dot(op, lhs, rhs, product, threads) : Convolution(op, lhs, rhs, product, threads);
}

}  // namespace backplane::tpu
