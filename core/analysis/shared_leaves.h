// Operands of an instruction that share their memory with parts of its result, as its output_to_operand_aliasing says.
#ifndef BACKPLANE_CORE_ANALYSIS_SHARED_LEAVES_H_
#define BACKPLANE_CORE_ANALYSIS_SHARED_LEAVES_H_

#include <cstddef>
#include <vector>

#include "core/ir/computation.h"

namespace backplane {

// One array, by its places among the leaves of all operands one after the other, and among the result's.
struct SharedLeaf {
  size_t operand = 0, result = 0;
  bool operator==(const SharedLeaf&) const = default;
};

// In the order of the attribute. An index that names a tuple, or nothing, shares nothing.
std::vector<SharedLeaf> SharedLeavesOf(const Instruction& i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_SHARED_LEAVES_H_
