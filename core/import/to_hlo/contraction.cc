// Products, convolutions, normalizations and linear algebra.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/runtime_shapes.h"

namespace backplane::to_hlo {

absl::Status Importer::ImportDot(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value lhs, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value rhs, Get(scope, op.operands[1]));
  ASSIGN_OR_RETURN(Shape result, ConvertType(op.results[0].type));
  std::vector<stablehlo::SourceNamedAttr> dims;
  if (op.name == "stablehlo.dot") {
    for (Value v : {lhs, rhs}) {
      if (!v->shape().IsArray() || v->shape().rank() < 1 || v->shape().rank() > 2) {
        return absl::InvalidArgumentError(
            absl::StrCat("dot takes vectors and matrices, found ", v->shape().ToString()));
      }
    }
    const SourceAttr* none = stablehlo::MakeI64List(arena_, {});
    dims = {{"lhs_batching_dimensions", none},
            {"rhs_batching_dimensions", none},
            {"lhs_contracting_dimensions", stablehlo::MakeI64List(arena_, {lhs->shape().rank() - 1})},
            {"rhs_contracting_dimensions", stablehlo::MakeI64List(arena_, {0})}};
  }
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kDot, op, dims));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kDot, {lhs, rhs}, std::move(attrs), {}, std::move(result)));
  return Bind(scope, op, y);
}

absl::StatusOr<bool> Importer::ImportScaledDot(Scope& scope, const SourceOp& op) {
  // [[lhs contracting, rhs contracting], [lhs batch, rhs batch]]
  const SourceAttr* given = op.Find("composite_attributes");
  const SourceAttr* numbers = given ? given->Find("dimension_numbers") : nullptr;
  auto pair = [](const SourceAttr* a) {
    return a != nullptr && a->kind == stablehlo::AttrKind::kArray && a->elements.size() == 2;
  };
  if (op.operands.size() != 4 || op.results.size() != 1 || !pair(numbers) || !pair(numbers->elements[0]) ||
      !pair(numbers->elements[1])) {
    return false;
  }
  DotDimensions dims;
  const std::pair<const SourceAttr*, Ints*> lists[] = {{numbers->elements[0]->elements[0], &dims.lhs_contracting},
                                                       {numbers->elements[0]->elements[1], &dims.rhs_contracting},
                                                       {numbers->elements[1]->elements[0], &dims.lhs_batch},
                                                       {numbers->elements[1]->elements[1], &dims.rhs_batch}};
  for (const auto& [list, out] : lists) {
    if (list->kind != stablehlo::AttrKind::kArray) return false;
    for (const SourceAttr* e : list->elements) {
      if (e->kind != stablehlo::AttrKind::kInteger) return false;
      out->push_back(e->integer);
    }
  }
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Shape result, ConvertType(op.results[0].type));
  Attributes attrs;
  attrs.Set(AttrId::kDotDims, std::move(dims));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kScaledDot, std::move(operands), std::move(attrs), {}, std::move(result)));
  RETURN_IF_ERROR(Bind(scope, op, y));
  return true;
}

// "ab,bc->ac": sums over letters that only one side has, then one dot, then a transpose. Unary: sums and a transpose.
absl::Status Importer::ImportEinsum(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(absl::string_view config, GetText(op, "einsum_config"));
  std::vector<std::string> sides = absl::StrSplit(std::string(config), "->");
  std::vector<std::string> inputs = absl::StrSplit(sides[0], ',');
  if (sides.size() != 2 || inputs.size() != op.operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("einsum_config \"", config, "\" does not fit ", op.operands.size(), " operands"));
  }
  const std::string out = sides[1];
  ASSIGN_OR_RETURN(const Shape result, ResultShape(op));
  if (!result.IsArray()) return absl::InvalidArgumentError(absl::StrCat("result is declared ", result.ToString()));
  auto has = [](const std::string& s, char c) { return s.find(c) != std::string::npos; };
  ASSIGN_OR_RETURN(std::vector<Value> x, Operands(scope, op));
  for (size_t i = 0; i < x.size(); ++i) {
    std::string& letters = inputs[i];
    if (!x[i]->shape().IsArray() || static_cast<int64_t>(letters.size()) != x[i]->shape().rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("einsum_config \"", config, "\" does not fit ", x[i]->shape().ToString()));
    }
    std::string sorted = letters;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() || has(letters, '.')) {
      return absl::UnimplementedError(
          absl::StrCat("einsum_config \"", config, "\" repeats a letter or has an ellipsis"));
    }
    Ints summed;
    std::string kept;
    for (size_t d = 0; d < letters.size(); ++d) {
      bool needed = has(out, letters[d]) || (inputs.size() == 2 && has(inputs[1 - i], letters[d]));
      if (needed) {
        kept.push_back(letters[d]);
      } else {
        summed.push_back(static_cast<int64_t>(d));
      }
    }
    if (!summed.empty()) {
      PrimitiveType t = x[i]->shape().element_type();
      ASSIGN_OR_RETURN(Value zero, scope.builder.Scalar(t, 0));
      ASSIGN_OR_RETURN(Computation * add, MakeScalarBinaryComputation(module_.get(), Opcode::kAdd, t));
      ASSIGN_OR_RETURN(x[i], scope.builder.Reduce({x[i]}, {zero}, add, summed));
      letters = kept;
    }
  }
  std::string letters = inputs[0];
  Value y = x[0];
  if (x.size() == 2) {
    DotDimensions dims;
    std::string batch, left, right;
    for (size_t d = 0; d < inputs[0].size(); ++d) {
      char c = inputs[0][d];
      size_t other = inputs[1].find(c);
      if (other == std::string::npos) {
        left.push_back(c);
      } else if (has(out, c)) {
        dims.lhs_batch.push_back(static_cast<int64_t>(d));
        dims.rhs_batch.push_back(static_cast<int64_t>(other));
        batch.push_back(c);
      } else {
        dims.lhs_contracting.push_back(static_cast<int64_t>(d));
        dims.rhs_contracting.push_back(static_cast<int64_t>(other));
      }
    }
    for (char c : inputs[1]) {
      if (!has(inputs[0], c)) right.push_back(c);
    }
    letters = batch + left + right;
    ASSIGN_OR_RETURN(y, scope.builder.Dot(x[0], x[1], std::move(dims), result.element_type()));
  }
  Ints permutation;
  for (char c : out) {
    size_t p = letters.find(c);
    if (p == std::string::npos)
      return absl::InvalidArgumentError(absl::StrCat("einsum_config \"", config, "\" makes a letter"));
    permutation.push_back(static_cast<int64_t>(p));
  }
  if (!std::is_sorted(permutation.begin(), permutation.end())) {
    ASSIGN_OR_RETURN(y, scope.builder.Transpose(y, permutation));
  }
  return Bind(scope, op, y);
}

namespace {

// The input of a dynamic_conv whose padding is known at run time only, padded and dilated as far as the static result
// reaches. `padding` is an integer matrix of low and high for each spatial dimension.
absl::StatusOr<Value> PadConvolutionInput(Builder& b, Value x, Value padding, const ConvolutionDimensions& dims,
                                          const Window& window, const Shape& result) {
  const int64_t n = static_cast<int64_t>(window.dimensions.size());
  const Shape& p = padding->shape();
  if (!p.IsArray() || p.rank() != 2 || p.dimensions(0) != n || p.dimensions(1) != 2 || !IsIntegral(p.element_type())) {
    return absl::InvalidArgumentError(
        absl::StrCat("padding is ", p.ToString(), ", expected two integers for each of ", n, " spatial dimensions"));
  }
  if (result.HasDynamicDimensions() || x->shape().HasDynamicDimensions()) {
    return absl::UnimplementedError("padding known at run time only, of a dynamic dimension");
  }
  const int64_t rank = x->shape().rank();
  DimVector padded = x->shape().dimensions();
  Literal gaps(Shape(PrimitiveType::kS64, {rank}));
  ASSIGN_OR_RETURN(Value zero, b.Constant(Literal(Shape(p.element_type(), {1}))));
  std::vector<Value> low(static_cast<size_t>(rank), zero);
  for (int64_t i = 0; i < n; ++i) {
    const WindowDimension& d = window.dimensions[i];
    const int64_t in = dims.input_spatial[i], out = dims.output_spatial[i];
    if (in < 0 || in >= rank || out < 0 || out >= result.rank()) {
      return absl::InvalidArgumentError(absl::StrCat("spatial dimension ", i, " does not exist"));
    }
    int64_t reach = result.dimensions(out) == 0 ? 0 : (result.dimensions(out) - 1) * d.stride + 1;
    padded[in] = reach + (d.size == 0 ? 0 : (d.size - 1) * d.window_dilation);
    gaps.SetFromInt(in, d.base_dilation - 1);
    ASSIGN_OR_RETURN(Value part, b.Slice(padding, {{i, i + 1, 1}, {0, 1, 1}}));
    ASSIGN_OR_RETURN(low[in], b.Reshape(part, {1}));
  }
  ASSIGN_OR_RETURN(Value before, b.Concatenate(std::move(low), 0));
  ASSIGN_OR_RETURN(Value between, b.Constant(std::move(gaps)));
  ASSIGN_OR_RETURN(Value value, b.Scalar(x->shape().element_type(), 0));
  return PadAtRuntime(b, x, value, before, between, padded);
}

}  // namespace

// convolution, and dynamic_conv, whose result is static.
absl::Status Importer::ImportConvolution(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value lhs, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value rhs, Get(scope, op.operands[1]));
  ASSIGN_OR_RETURN(Shape result, ConvertType(op.results[0].type));
  std::vector<stablehlo::SourceNamedAttr> padding;
  const bool pads_at_runtime = op.name == "stablehlo.dynamic_conv" && ConstantOperand(op, 2) == nullptr;
  if (pads_at_runtime) {
    ASSIGN_OR_RETURN(const Ints strides, GetInts(op, "window_strides"));
    padding = {{"padding", stablehlo::MakeI64List(arena_, Ints(2 * strides.size(), 0))}};
  } else if (op.name == "stablehlo.dynamic_conv") {
    padding = {{"padding", ConstantOperand(op, 2)}};
  }
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kConvolution, op, padding));
  const ConvolutionDimensions dims = attrs.Get<ConvolutionDimensions>(AttrId::kConvolutionDims);
  Window window = attrs.Get<Window>(AttrId::kWindow);
  const size_t n = dims.kernel_spatial.size();
  if (window.dimensions.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat("window attributes do not have ", n, " entries each"));
  }
  for (size_t i = 0; i < n; ++i) {
    int64_t k = dims.kernel_spatial[i];
    if (!rhs->shape().IsArray() || k < 0 || k >= rhs->shape().rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel spatial dimension ", k, " is not one of ", rhs->shape().ToString()));
    }
    window.dimensions[i].size = rhs->shape().dimensions(k);
  }
  if (pads_at_runtime) {
    if (dims.input_spatial.size() != n || dims.output_spatial.size() != n) {
      return absl::InvalidArgumentError("input, kernel and output differ in spatial dimensions");
    }
    ASSIGN_OR_RETURN(Value amounts, Get(scope, op.operands[2]));
    ASSIGN_OR_RETURN(lhs, PadConvolutionInput(scope.builder, lhs, amounts, dims, window, result));
    for (WindowDimension& d : window.dimensions) d.base_dilation = 1;
  }
  attrs.Set(AttrId::kWindow, std::move(window));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kConvolution, {lhs, rhs}, std::move(attrs), {}, std::move(result)));
  return Bind(scope, op, y);
}

}  // namespace backplane::to_hlo
