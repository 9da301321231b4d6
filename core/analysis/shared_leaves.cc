#include "core/analysis/shared_leaves.h"

#include <algorithm>
#include <optional>

namespace backplane {
namespace {

std::optional<size_t> LeafAt(const Shape& shape, const Ints& index) {
  std::optional<size_t> found;
  size_t n = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>& at) {
    if (std::equal(at.begin(), at.end(), index.begin(), index.end())) found = n;
    ++n;
  });
  return found;
}

size_t LeafCount(const Shape& shape) {
  size_t n = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++n; });
  return n;
}

}  // namespace

std::vector<SharedLeaf> SharedLeavesOf(const Instruction& i) {
  std::vector<SharedLeaf> shared;
  for (const OutputOperandAlias& alias : i.attrs().Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
    if (alias.operand < 0 || alias.operand >= i.operand_count()) continue;
    const std::optional<size_t> from = LeafAt(i.operand(alias.operand)->shape(), alias.operand_index),
                                to = LeafAt(i.shape(), alias.output_index);
    if (!from || !to) continue;
    size_t first = 0;
    for (int64_t o = 0; o < alias.operand; ++o) first += LeafCount(i.operand(o)->shape());
    shared.push_back({first + *from, *to});
  }
  return shared;
}

}  // namespace backplane
