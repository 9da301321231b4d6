// Recognizes sort comparators that are chains of plain comparisons.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_

#include <optional>
#include <vector>

#include "core/ir/computation.h"
#include "sdk/engine/library/order_key.h"
#include "sdk/engine/library/sort.h"

namespace backplane::engine {

// Returns the format of the keys of a type, or nullopt for types without keys (f8, complex, tuples).
std::optional<KeyFormat> FindKeyFormat(PrimitiveType type, bool descending, bool total_order);

// Returns the keys that order elements as the comparator does, most significant first. Parameters 2k and 2k+1 of the
// comparator are the left and right values of operand k. Returns nullopt for any comparator but these:
//   - a < b and a > b of the same operand, or of its real or imaginary part, plain or in total order;
//   - total order after zeros are made +0 and NaNs one NaN, as JAX writes it;
//   - first < or (first == and rest), and select(first ==, rest, first <), for any number of keys.
// Plain comparisons of floats define no consistent order for NaN. The keys put NaN above all numbers.
std::optional<std::vector<SortKey>> ComparatorKeys(const Computation& comparator);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_
