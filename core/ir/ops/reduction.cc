#include "core/ir/ops/reduction.h"

#include <algorithm>

#include "core/ir/ops/internal.h"

namespace backplane::hlo {
namespace {

using internal::Fail;

absl::StatusOr<Window> MakeWindow(Opcode opcode, Dims sizes, Dims strides, Dims base_dilations, Dims window_dilations,
                                  const PaddingPairs& padding) {
  const size_t n = sizes.size();
  auto fits = [&](Dims list) { return list.empty() || list.size() == n; };
  auto wrong = [&](absl::string_view label, absl::string_view what, size_t found) {
    return Fail(opcode, label, "has ", found, " ", what, ", expected ", n);
  };
  if (!fits(strides))
    return wrong(opcode == Opcode::kReduceWindow ? "reduce_window_c6" : "select_and_scatter_c6", "window strides",
                 strides.size());
  if (!fits(base_dilations)) return wrong("reduce_window_c8", "base dilations", base_dilations.size());
  if (!fits(window_dilations)) return wrong("reduce_window_c10", "window dilations", window_dilations.size());
  if (!padding.empty() && padding.size() != n) {
    return wrong(opcode == Opcode::kReduceWindow ? "reduce_window_c12" : "select_and_scatter_c8", "pairs of padding",
                 padding.size());
  }
  Window window;
  for (size_t i = 0; i < n; ++i) {
    WindowDimension d;
    d.size = sizes[i];
    if (!strides.empty()) d.stride = strides[i];
    if (!base_dilations.empty()) d.base_dilation = base_dilations[i];
    if (!window_dilations.empty()) d.window_dilation = window_dilations[i];
    if (!padding.empty()) std::tie(d.padding_low, d.padding_high) = padding[i];
    window.dimensions.push_back(d);
  }
  return window;
}

// The pairs that an enumerated padding means. What breaks a rule is left as it is for the rule to find.
absl::StatusOr<PaddingPairs> PairsOf(Opcode opcode, Padding padding, const Shape& x, Dims sizes, Dims strides,
                                     Dims base_dilations, Dims window_dilations) {
  PaddingPairs pairs(sizes.size());
  const size_t rank = static_cast<size_t>(x.rank());
  auto at = [](Dims list, size_t i) { return i < list.size() ? list[i] : int64_t{1}; };
  for (size_t i = 0; i < std::min(rank, sizes.size()); ++i) {
    const int64_t d = x.dimensions(static_cast<int64_t>(i));
    ASSIGN_OR_RETURN(int64_t base, internal::Product(opcode, "padding_size", std::max<int64_t>(d, 1) - 1,
                                                     std::max<int64_t>(at(base_dilations, i), 1)));
    ASSIGN_OR_RETURN(int64_t window, internal::Product(opcode, "padding_size", std::max<int64_t>(sizes[i], 1) - 1,
                                                       std::max<int64_t>(at(window_dilations, i), 1)));
    ASSIGN_OR_RETURN(pairs[i],
                     internal::ComputePadding(opcode, padding, d == 0 ? 0 : base + 1, window + 1, at(strides, i)));
  }
  return pairs;
}

}  // namespace

Result Reduce(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values, Computation* computation,
              Dims dimensions_to_reduce) {
  if (operands.size() != init_values.size()) {
    return Fail(Opcode::kReduce, "reduce_c3", "has ", operands.size(), " operands and ", init_values.size(),
                " init values");
  }
  return b.Reduce(std::move(operands), init_values, computation, dimensions_to_reduce);
}

Result Scan(Builder& b, std::vector<Value> inputs, const std::vector<Value>& inits, Computation* to_apply,
            int64_t scan_dimension, bool is_reverse, std::optional<bool> is_associative) {
  if (inputs.empty()) return Fail(Opcode::kScan, "scan_c4", "needs an input to know its length");
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{scan_dimension});
  if (is_reverse) attrs.Set(AttrId::kIsReverse, true);
  if (is_associative) attrs.Set(AttrId::kIsAssociative, *is_associative);
  attrs.Set(AttrId::kNumCarries, static_cast<int64_t>(inits.size()));
  inputs.insert(inputs.end(), inits.begin(), inits.end());
  return b.Op(Opcode::kScan, std::move(inputs), std::move(attrs), {to_apply});
}

Result Sort(Builder& b, std::vector<Value> operands, Computation* comparator, int64_t dimension, bool is_stable) {
  if (operands.empty()) return Fail(Opcode::kSort, "sort_c1", "needs at least one operand");
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kSort, operands));
  const int64_t rank = operands[0]->shape().rank();
  if (dimension < 0 && dimension >= -std::max<int64_t>(rank, 1)) dimension += std::max<int64_t>(rank, 1);
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  if (is_stable) attrs.Set(AttrId::kIsStable, true);
  return b.Op(Opcode::kSort, std::move(operands), std::move(attrs), {comparator});
}

Result TopK(Builder& b, Value operand, int64_t k, bool largest) {
  Attributes attrs;
  attrs.Set(AttrId::kK, k);
  attrs.Set(AttrId::kLargest, largest);
  return b.Op(Opcode::kTopK, {operand}, std::move(attrs));
}

Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, const PaddingPairs& padding) {
  if (operands.size() != init_values.size()) {
    return Fail(Opcode::kReduceWindow, "reduce_window_c1", "has ", operands.size(), " operands and ",
                init_values.size(), " init values");
  }
  ASSIGN_OR_RETURN(Window window, MakeWindow(Opcode::kReduceWindow, window_dimensions, window_strides, base_dilations,
                                             window_dilations, padding));
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(window));
  operands.insert(operands.end(), init_values.begin(), init_values.end());
  return b.Op(Opcode::kReduceWindow, std::move(operands), std::move(attrs), {computation});
}

Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, Padding padding) {
  PaddingPairs pairs;
  if (!operands.empty()) {
    RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kReduceWindow, operands));
    ASSIGN_OR_RETURN(pairs, PairsOf(Opcode::kReduceWindow, padding, operands[0]->shape(), window_dimensions,
                                    window_strides, base_dilations, window_dilations));
  }
  return ReduceWindow(b, std::move(operands), init_values, computation, window_dimensions, window_strides,
                      base_dilations, window_dilations, pairs);
}

Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        const PaddingPairs& padding, Value source, Value init_value, Computation* scatter) {
  ASSIGN_OR_RETURN(Window window,
                   MakeWindow(Opcode::kSelectAndScatter, window_dimensions, window_strides, {}, {}, padding));
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(window));
  return b.Op(Opcode::kSelectAndScatter, {operand, source, init_value}, std::move(attrs), {select, scatter});
}

Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        Padding padding, Value source, Value init_value, Computation* scatter) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kSelectAndScatter, {operand, source, init_value}));
  ASSIGN_OR_RETURN(PaddingPairs pairs, PairsOf(Opcode::kSelectAndScatter, padding, operand->shape(), window_dimensions,
                                               window_strides, {}, {}));
  return SelectAndScatter(b, operand, select, window_dimensions, window_strides, pairs, source, init_value, scatter);
}

}  // namespace backplane::hlo
