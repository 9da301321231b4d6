#include "sdk/engine/compiler/library_problems.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/engine/kernels/bf16_products.h"

namespace backplane::engine {

std::optional<ElementType> ToElementType(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      return ElementType::kPred;
    case PrimitiveType::kS8:
      return ElementType::kS8;
    case PrimitiveType::kS16:
      return ElementType::kS16;
    case PrimitiveType::kS32:
      return ElementType::kS32;
    case PrimitiveType::kS64:
      return ElementType::kS64;
    case PrimitiveType::kU8:
      return ElementType::kU8;
    case PrimitiveType::kU16:
      return ElementType::kU16;
    case PrimitiveType::kU32:
      return ElementType::kU32;
    case PrimitiveType::kU64:
      return ElementType::kU64;
    case PrimitiveType::kF16:
      return ElementType::kF16;
    case PrimitiveType::kBF16:
      return ElementType::kBF16;
    case PrimitiveType::kF32:
      return ElementType::kF32;
    case PrimitiveType::kF64:
      return ElementType::kF64;
    case PrimitiveType::kC64:
      return ElementType::kC64;
    case PrimitiveType::kC128:
      return ElementType::kC128;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<MatmulProblem> DotProblem(const DotCall& call) {
  const Instruction& dot = *call.dot;
  const DotDimensions& d = dot.dot_dims();
  const Shape& lhs = dot.operand(0)->shape();
  const Shape& rhs = dot.operand(1)->shape();
  const auto lt = ToElementType(lhs.element_type()), rt = ToElementType(rhs.element_type()),
             ot = ToElementType(dot.shape().element_type());
  if (!lt || !rt || !ot) {
    return absl::UnimplementedError(absl::StrCat(dot.name(), ": no matrix kernel for ", Name(lhs.element_type()), " x ",
                                                 Name(rhs.element_type()), " -> ", Name(dot.shape().element_type())));
  }
  const compiler::DotOperandRuns r = compiler::GetDotOperandRuns(dot);
  if (!r.lhs_ok() || !r.rhs_ok()) {
    return absl::InvalidArgumentError(absl::StrCat(dot.name(), ": free or contracting dims are no single stride"));
  }
  const compiler::DotResultRuns out = compiler::GetDotResultRuns(dot, call.permutation);
  if (!out.m || !out.n) return absl::InvalidArgumentError(absl::StrCat(dot.name(), ": the result is no single stride"));
  MatmulProblem p;
  p.lhs_type = *lt;
  p.rhs_type = *rt;
  p.out_type = *ot;
  p.m = r.m->size;
  p.n = r.n->size;
  p.k = r.lhs_k->size;
  p.lhs_m_stride = r.m->stride;
  p.lhs_k_stride = r.lhs_k->stride;
  p.rhs_k_stride = r.rhs_k->stride;
  p.rhs_n_stride = r.n->stride;
  p.out_m_stride = out.m->stride;
  p.out_n_stride = out.n->stride;
  // A run of one element says nothing of strides; the library likes plausible ones.
  if (p.lhs_m_stride == 1 && p.m == 1) p.lhs_m_stride = p.k;
  if (p.out_m_stride == 1 && p.m == 1) p.out_m_stride = p.n;
  const DimVector ls = RowMajorStrides(lhs.dimensions()), rs = RowMajorStrides(rhs.dimensions());
  for (size_t b = 0; b < d.lhs_batch.size(); ++b) {
    p.batch.push_back(lhs.dimensions(d.lhs_batch[b]));
    p.lhs_batch_strides.push_back(ls[d.lhs_batch[b]]);
    p.rhs_batch_strides.push_back(rs[d.rhs_batch[b]]);
    p.out_batch_strides.push_back(out.strides[b]);
  }
  p.rhs_is_constant = dot.operand(1)->Is(Opcode::kConstant);
  return p;
}

absl::StatusOr<ConvolutionProblem> ConvProblem(const Instruction& convolution) {
  const ConvolutionDimensions& d = convolution.conv_dims();
  const Shape& lhs = convolution.operand(0)->shape();
  const Shape& rhs = convolution.operand(1)->shape();
  const Shape& out = convolution.shape();
  const auto lt = ToElementType(lhs.element_type()), rt = ToElementType(rhs.element_type()),
             ot = ToElementType(out.element_type());
  if (!lt || !rt || !ot) {
    return absl::UnimplementedError(
        absl::StrCat(convolution.name(), ": no convolution kernel for ", Name(lhs.element_type())));
  }
  const DimVector ls = RowMajorStrides(lhs.dimensions()), rs = RowMajorStrides(rhs.dimensions()),
                  os = RowMajorStrides(out.dimensions());
  ConvolutionProblem p;
  p.lhs_type = *lt;
  p.rhs_type = *rt;
  p.out_type = *ot;
  p.batch = lhs.dimensions(d.input_batch);
  p.in_features = lhs.dimensions(d.input_feature);
  p.kernel_in_features = rhs.dimensions(d.kernel_input_feature);
  p.out_features = rhs.dimensions(d.kernel_output_feature);
  p.feature_groups = convolution.attrs().GetInt(AttrId::kFeatureGroupCount, 1);
  p.batch_groups = convolution.attrs().GetInt(AttrId::kBatchGroupCount, 1);
  p.lhs_batch_stride = ls[d.input_batch];
  p.lhs_feature_stride = ls[d.input_feature];
  p.rhs_in_stride = rs[d.kernel_input_feature];
  p.rhs_out_stride = rs[d.kernel_output_feature];
  p.out_batch_stride = os[d.output_batch];
  p.out_feature_stride = os[d.output_feature];
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    const WindowDimension& w = convolution.window().dimensions[i];
    ConvolutionDim c;
    c.input = lhs.dimensions(d.input_spatial[i]);
    c.kernel = rhs.dimensions(d.kernel_spatial[i]);
    c.output = out.dimensions(d.output_spatial[i]);
    c.stride = w.stride;
    c.pad_low = w.padding_low;
    c.pad_high = w.padding_high;
    c.lhs_dilation = w.base_dilation;
    c.rhs_dilation = w.window_dilation;
    c.reversed = w.window_reversal;
    c.lhs_stride = ls[d.input_spatial[i]];
    c.rhs_stride = rs[d.kernel_spatial[i]];
    c.out_stride = os[d.output_spatial[i]];
    p.dims.push_back(c);
  }
  p.rhs_is_constant = convolution.operand(1)->Is(Opcode::kConstant);
  return p;
}

absl::StatusOr<AttentionProblem> ToAttentionProblem(const compiler::Attention& a) {
  AttentionProblem p;
  p.queries = a.queries;
  p.keys = a.keys;
  p.depth = a.depth;
  p.width = a.width;
  auto convert = [](const Instruction& array, ElementType* type) -> absl::Status {
    const std::optional<ElementType> t = ToElementType(array.shape().element_type());
    if (!t)
      return absl::UnimplementedError(
          absl::StrCat(array.name(), ": no kernel for ", Name(array.shape().element_type())));
    *type = *t;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(convert(*a.query.base, &p.query_type));
  RETURN_IF_ERROR(convert(*a.key.base, &p.key_type));
  RETURN_IF_ERROR(convert(*a.value.base, &p.value_type));
  RETURN_IF_ERROR(convert(*a.out.base, &p.out_type));
  p.query_stride = a.query.query_stride;
  p.query_depth_stride = a.query.inner_stride;
  p.key_stride = a.key.key_stride;
  p.key_depth_stride = a.key.inner_stride;
  p.value_stride = a.value.key_stride;
  p.value_width_stride = a.value.inner_stride;
  p.out_stride = a.out.query_stride;
  p.out_width_stride = a.out.inner_stride;
  p.query_offsets = a.query.offsets;
  p.key_offsets = a.key.offsets;
  p.value_offsets = a.value.offsets;
  p.out_offsets = a.out.offsets;
  const std::vector<Instruction*> operands = compiler::AttentionOperands(a);
  using Kind = compiler::ScoreOperation::Kind;
  for (const compiler::ScoreOperation& o : a.operations) {
    AttentionStep step;
    step.value = static_cast<float>(o.value);
    step.keep = o.keep;
    step.low = o.low;
    step.high = o.high;
    switch (o.kind) {
      case Kind::kScale:
        step.kind = AttentionStep::Kind::kScale;
        break;
      case Kind::kAdd:
        step.kind = AttentionStep::Kind::kAdd;
        break;
      case Kind::kSelect:
        step.kind = AttentionStep::Kind::kSelect;
        break;
      case Kind::kBand:
        step.kind = AttentionStep::Kind::kBand;
        break;
      case Kind::kRoundF16:
        step.kind = AttentionStep::Kind::kRoundF16;
        break;
      case Kind::kRoundBf16:
        step.kind = AttentionStep::Kind::kRoundBf16;
        break;
    }
    if (o.array.base != nullptr) {
      RETURN_IF_ERROR(convert(*o.array.base, &step.type));
      step.array = static_cast<size_t>(absl::c_find(operands, o.array.base) - operands.begin());
      step.query_stride = o.array.query_stride;
      step.key_stride = o.array.key_stride;
      step.offsets = o.array.offsets;
    }
    p.steps.push_back(std::move(step));
  }
  RETURN_IF_ERROR(PlanAttention(p, 1).status());
  return p;
}

bool IsConvolutionFasterInF32(const Instruction& convolution) {
  bool is_f32 = true, is_bf16 = true;
  const Instruction* const all[] = {&convolution, convolution.operand(0), convolution.operand(1)};
  for (const Instruction* i : all) {
    const PrimitiveType type = i->shape().element_type();
    if (type != PrimitiveType::kF32 && type != PrimitiveType::kBF16 && type != PrimitiveType::kF16) return false;
    is_f32 &= type == PrimitiveType::kF32;
    is_bf16 &= type == PrimitiveType::kBF16 || (type == PrimitiveType::kF32 && i == &convolution);
  }
  if (is_f32 || (is_bf16 && HasFastBf16Products())) return false;
  const int64_t groups = convolution.attrs().GetInt(AttrId::kFeatureGroupCount, 1);
  return groups == 1 || groups != convolution.operand(0)->shape().dimensions(convolution.conv_dims().input_feature);
}

}  // namespace backplane::engine
