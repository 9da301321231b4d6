#include "core/analysis/aliased_leaves.h"

#include <optional>

#include "core/analysis/leaves.h"

namespace backplane {

std::vector<AliasedLeaf> GetAliasedLeaves(const Instruction& i) {
  std::vector<AliasedLeaf> aliased;
  for (const OutputOperandAlias& alias : i.attrs().Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
    if (alias.operand < 0 || alias.operand >= i.operand_count()) continue;
    const std::optional<int64_t> from = FindLeaf(i.operand(alias.operand)->shape(), alias.operand_index),
                                 to = FindLeaf(i.shape(), alias.output_index);
    if (!from || !to) continue;
    int64_t first_leaf = 0;
    for (int64_t o = 0; o < alias.operand; ++o) first_leaf += CountLeaves(i.operand(o)->shape());
    aliased.push_back({static_cast<size_t>(first_leaf + *from), static_cast<size_t>(*to)});
  }
  return aliased;
}

}  // namespace backplane
