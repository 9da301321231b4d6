// Describes which dimensions of operands and results an operation iterates over together ("factors", as in Shardy's
// sharding rules). Sharding all dimensions of one factor in the same way keeps an operation local to the shards.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_
#define BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/instruction.h"

namespace backplane {

// Lists the factor number of each dimension, or -1 if the operation cannot be split along that dimension. An operand
// that takes no part (a scalar, the indices of a dynamic slice) has an empty list.
struct Factors {
  std::vector<Ints> operands;
  Ints result;                   // applies to each element of a tuple; the elements have the same dimensions
  Ints permuted;                 // factors along which a shard of the result needs other shards of the operands
  bool is_pass_through = false;  // each result element is computed from one element of each operand
};

// Returns nullopt for operations without a rule.
std::optional<Factors> GetFactors(const Instruction& i);

// Returns for each dimension in `of` the dimension in `in` that has the same factor, or -1.
Ints MatchDims(const Ints& of, const Ints& in);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_
