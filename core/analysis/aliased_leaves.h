// Resolves output_to_operand_aliasing: which operand arrays of an instruction share memory with its result arrays.
#ifndef BACKPLANE_CORE_ANALYSIS_ALIASED_LEAVES_H_
#define BACKPLANE_CORE_ANALYSIS_ALIASED_LEAVES_H_

#include <cstddef>
#include <vector>

#include "core/ir/computation.h"

namespace backplane {

// An array that an operand and the result share. Both fields are leaf indices. `operand` counts the leaves of all
// operands, one operand after the other; `result` counts the leaves of the result.
struct AliasedLeaf {
  size_t operand = 0, result = 0;
  bool operator==(const AliasedLeaf&) const = default;
};

// Returns the aliased arrays in the order of the attribute. Skips an entry whose index names a tuple or does not exist.
// Thread-safe.
std::vector<AliasedLeaf> GetAliasedLeaves(const Instruction& i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_ALIASED_LEAVES_H_
