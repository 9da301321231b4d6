#include "plugins/hip/compiler/convolution_problem.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"

namespace backplane::hip {
namespace {

constexpr int64_t kMinTerms = 8;
constexpr int64_t kTile = 64;       // rows and columns of a small tile
constexpr int64_t kMostWaste = 16;  // elements of tiles for each element of the result
constexpr int64_t kLongSum = 2048, kMostWasteOfLongSums = 64;

// The sizes of a convolution.
struct Sizes {
  explicit Sizes(const Instruction& conv) {
    const ConvolutionDimensions& d = conv.conv_dims();
    const Shape &input = conv.operand(0)->shape(), &kernel = conv.operand(1)->shape(), &out = conv.shape();
    feature_groups = conv.attrs().GetInt(AttrId::kFeatureGroupCount, 1);
    batch_groups = conv.attrs().GetInt(AttrId::kBatchGroupCount, 1);
    columns = out.dimensions(d.output_feature) / groups();
    features = kernel.dimensions(d.kernel_input_feature);
    batch = out.dimensions(d.output_batch);
    for (const int64_t s : d.output_spatial) space *= out.dimensions(s);
    for (const int64_t s : d.kernel_spatial) window *= kernel.dimensions(s);
    is_empty = input.num_elements() == 0 || kernel.num_elements() == 0 || out.num_elements() == 0;
  }
  int64_t groups() const { return feature_groups * batch_groups; }
  int64_t rows() const { return batch * space; }
  int64_t terms() const { return window * features; }

  int64_t feature_groups = 1, batch_groups = 1;
  int64_t columns = 0, features = 0, batch = 0, space = 1, window = 1;
  bool is_empty = false;
};

int64_t StrideOf(const Shape& shape, int64_t dim) {
  return RowMajorStrides(shape.dimensions())[static_cast<size_t>(dim)];
}

// Whether the innermost digit of the rows is the batch: then neighbouring rows are neighbours in memory.
bool HasBatchInnermost(const Instruction& conv) {
  return conv.conv_dims().input_batch + 1 == conv.operand(0)->shape().rank();
}

}  // namespace

bool IsDepthwise(const Instruction& conv) {
  const Sizes s(conv);
  return s.batch_groups == 1 && s.features == 1 && s.feature_groups > 1;
}

bool IsConvolutionProduct(const Instruction& conv) {
  const Sizes s(conv);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (s.is_empty || s.terms() < kMinTerms || s.rows() > kMost || s.terms() > kMost) return false;
  const double waste = static_cast<double>(RoundUp(s.rows(), kTile) * RoundUp(s.columns, kTile)) /
                       static_cast<double>(s.rows() * s.columns);
  return waste <= static_cast<double>(s.terms() >= kLongSum ? kMostWasteOfLongSums : kMostWaste);
}

Ints RowDimensions(const Instruction& conv) {
  const ConvolutionDimensions& d = conv.conv_dims();
  Ints dims = d.output_spatial;
  dims.insert(HasBatchInnermost(conv) ? dims.end() : dims.begin(), d.output_batch);
  return dims;
}

absl::StatusOr<DotProblem> MakeConvolutionProblem(const Instruction& conv, int64_t parts) {
  const Sizes s(conv);
  if (s.is_empty || s.terms() % parts != 0)
    return absl::InvalidArgumentError(absl::StrCat(conv.name(), ": no terms, or none for a part"));
  const ConvolutionDimensions& d = conv.conv_dims();
  const Shape &input = conv.operand(0)->shape(), &kernel = conv.operand(1)->shape();
  DotProblem p;
  p.lhs_type = input.element_type(), p.rhs_type = kernel.element_type();
  p.out_type = conv.shape().element_type();
  p.m = s.rows(), p.n = s.columns, p.k = s.terms() / parts;

  GatheredMatrix windows, factors;
  windows.bytes = input.byte_size(), factors.bytes = kernel.byte_size();
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    const WindowDimension& w = conv.window().dimensions[i];
    const int space = static_cast<int>(i);
    GatheredMatrix::Space of{input.dimensions(d.input_spatial[i]), StrideOf(input, d.input_spatial[i]), w.base_dilation,
                             -w.padding_low};
    // The kernel is read in the order of its memory; the window then moves backwards if it is reversed.
    if (w.window_reversal) of.offset += (w.size - 1) * w.window_dilation;
    windows.spaces.push_back(of);
    windows.rows.push_back({conv.shape().dimensions(d.output_spatial[i]), w.stride, space});
    windows.k.push_back({w.size, w.window_reversal ? -w.window_dilation : w.window_dilation, space});
    factors.k.push_back({w.size, StrideOf(kernel, d.kernel_spatial[i])});
  }
  const int64_t batch_stride = StrideOf(input, d.input_batch), feature_stride = StrideOf(input, d.input_feature),
                column_stride = StrideOf(kernel, d.kernel_output_feature);
  windows.rows.insert(HasBatchInnermost(conv) ? windows.rows.end() : windows.rows.begin(),
                      GatheredMatrix::Digit{s.batch, batch_stride});
  windows.k.push_back({s.features, feature_stride});
  factors.k.push_back({s.features, StrideOf(kernel, d.kernel_input_feature)});
  factors.rows.push_back({s.columns, column_stride});

  if (parts > 1) p.batch.push_back({parts, 0, 0, conv.shape().num_elements()});
  if (s.groups() > 1) {
    p.batch.push_back({s.groups(), s.feature_groups > 1 ? s.features * feature_stride : s.batch * batch_stride,
                       s.columns * column_stride, 0});
  }
  p.parts = parts;
  windows.Simplify();
  factors.Simplify();
  p.lhs_m_stride = GatheredMatrix::InnerStride(windows.rows), p.lhs_k_stride = GatheredMatrix::InnerStride(windows.k);
  p.rhs_n_stride = column_stride, p.rhs_k_stride = GatheredMatrix::InnerStride(factors.k);
  p.lhs_gather = std::move(windows);
  // A kernel whose terms are one run is a matrix as others are.
  if (parts > 1 || factors.k.size() > 1) {
    p.rhs_gather = std::move(factors);
  } else if (factors.k.empty()) {
    p.rhs_k_stride = 1;
  }
  return p;
}

int64_t ChooseConvolutionParts(const Instruction& conv) {
  constexpr int64_t kBlocks = 256;  // that a large GPU should have at least
  constexpr int64_t kMinTermsOfPart = 512;
  constexpr int64_t kMostParts = 64;
  constexpr int64_t kMultiple = 16;  // of the terms of a part: chunks of every type
  const Sizes s(conv);
  const int64_t tiles = s.groups() * CeilDiv(s.rows(), kTile) * CeilDiv(s.columns, kTile);
  int64_t best = 1;
  for (int64_t parts = 2; parts <= kMostParts && tiles * (parts - 1) < kBlocks; ++parts) {
    if (s.terms() % (parts * kMultiple) == 0 && s.terms() / parts >= kMinTermsOfPart) best = parts;
  }
  return best;
}

}  // namespace backplane::hip
