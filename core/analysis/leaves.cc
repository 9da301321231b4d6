#include "core/analysis/leaves.h"

namespace backplane {

std::optional<int64_t> FindLeaf(const Shape& shape, absl::Span<const int64_t> index) {
  const Shape* at = &shape;
  int64_t number = 0;
  for (const int64_t element : index) {
    if (!at->IsTuple() || element < 0 || element >= at->tuple_size()) return std::nullopt;
    for (int64_t e = 0; e < element; ++e) number += CountLeaves(at->tuple_shapes(e));
    at = &at->tuple_shapes(element);
  }
  if (at->IsTuple()) return std::nullopt;
  return number;
}

EntryLeaves::EntryLeaves(const Computation& entry) : entry_(&entry), first_argument_{0}, first_output_{0} {
  for (const Instruction* parameter : entry.parameters())
    first_argument_.push_back(first_argument_.back() + CountLeaves(parameter->shape()));
  const Shape& result = entry.root()->shape();
  if (!result.IsTuple()) first_output_.push_back(1);
  for (int64_t i = 0; result.IsTuple() && i < result.tuple_size(); ++i)
    first_output_.push_back(first_output_.back() + CountLeaves(result.tuple_shapes(i)));
}

std::optional<int64_t> EntryLeaves::FindArgument(int64_t parameter, absl::Span<const int64_t> index) const {
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry_->parameters().size())) return std::nullopt;
  const std::optional<int64_t> leaf = FindLeaf(entry_->parameter(parameter)->shape(), index);
  if (!leaf) return std::nullopt;
  return first_argument(parameter) + *leaf;
}

std::optional<int64_t> EntryLeaves::FindOutput(absl::Span<const int64_t> index) const {
  const Shape& result = entry_->root()->shape();
  if (!result.IsTuple() || index.empty()) return FindLeaf(result, index);
  if (index[0] < 0 || index[0] >= result.tuple_size()) return std::nullopt;
  const std::optional<int64_t> leaf = FindLeaf(result.tuple_shapes(index[0]), index.subspan(1));
  if (!leaf) return std::nullopt;
  return first_output_[static_cast<size_t>(index[0])] + *leaf;
}

}  // namespace backplane
