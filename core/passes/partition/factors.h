// Which dimensions of its operands and of its result an operation walks through
// together.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_
#define BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/instruction.h"

namespace backplane {

// For each dimension of each array its factor's number, or -1 for one that the
// operation cannot be split along. Arrays that have no part in it (scalar
// operands, indices of a dynamic slice) have no list.
struct Factors {
  std::vector<Ints> operands;
  Ints result;             // of each element, where the result is a tuple: they are of the
                           // same dimensions
  bool passes_on = false;  // the elements of the result are elements of the
                           // operands, or made of one each
};

bool HasDim(absl::Span<const int64_t> list, int64_t x);

// Nullopt for operations that say nothing.
std::optional<Factors> FactorsOf(const Instruction& i);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_FACTORS_H_
