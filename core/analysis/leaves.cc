#include "core/analysis/leaves.h"

#include <algorithm>

namespace backplane {

int64_t CountLeaves(const Shape& shape) {
  int64_t count = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++count; });
  return count;
}

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

EntryLeaves::EntryLeaves(const Computation& entry) : entry_(&entry), first_argument_{0} {
  for (const Instruction* parameter : entry.parameters())
    first_argument_.push_back(first_argument_.back() + CountLeaves(parameter->shape()));
}

std::optional<int64_t> EntryLeaves::FindArgument(int64_t parameter, absl::Span<const int64_t> index) const {
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry_->parameters().size())) return std::nullopt;
  const std::optional<int64_t> leaf = FindLeaf(entry_->parameter(parameter)->shape(), index);
  if (!leaf) return std::nullopt;
  return first_argument(parameter) + *leaf;
}

std::optional<int64_t> EntryLeaves::FindOutput(absl::Span<const int64_t> index) const {
  return FindLeaf(entry_->root()->shape(), index);
}

}  // namespace backplane
