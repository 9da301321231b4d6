#include "core/analysis/aliased_leaves.h"

#include <algorithm>
#include <optional>

namespace backplane {
namespace {

std::optional<size_t> FindLeaf(const Shape& shape, const Ints& index) {
  std::optional<size_t> found;
  size_t n = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>& leaf_index) {
    if (std::equal(leaf_index.begin(), leaf_index.end(), index.begin(), index.end())) found = n;
    ++n;
  });
  return found;
}

size_t CountLeaves(const Shape& shape) {
  size_t n = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++n; });
  return n;
}

}  // namespace

std::vector<AliasedLeaf> GetAliasedLeaves(const Instruction& i) {
  std::vector<AliasedLeaf> aliased;
  for (const OutputOperandAlias& alias : i.attrs().Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
    if (alias.operand < 0 || alias.operand >= i.operand_count()) continue;
    const std::optional<size_t> from = FindLeaf(i.operand(alias.operand)->shape(), alias.operand_index),
                                to = FindLeaf(i.shape(), alias.output_index);
    if (!from || !to) continue;
    size_t first_leaf = 0;
    for (int64_t o = 0; o < alias.operand; ++o) first_leaf += CountLeaves(i.operand(o)->shape());
    aliased.push_back({first_leaf + *from, *to});
  }
  return aliased;
}

}  // namespace backplane
