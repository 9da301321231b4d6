// What a sort's comparator compares, where it is a chain of plain comparisons.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_

#include <optional>
#include <vector>

#include "core/ir/computation.h"
#include "sdk/engine/library/order_key.h"
#include "sdk/engine/library/sort.h"

namespace backplane::engine {

// The order of a type's numbers; nullopt for types without keys (f8, complex, tuples).
std::optional<KeyFormat> KeyFormatOf(PrimitiveType type, bool descending, bool total_order);

// The keys that order elements as the comparator (parameters 2k, 2k+1: operand k, left and right) does, most
// significant first; nullopt when it is anything else. Understood:
//   - a < b and a > b of the same operand, or of its real or imaginary part, plain or in total order;
//   - total order after zeros are made +0 and NaNs one NaN, as JAX writes it;
//   - first < or (first == and rest), and select(first ==, rest, first <), for any number of keys.
// Plain comparisons of floats say nothing consistent about NaNs; the keys put them above everything.
std::optional<std::vector<SortKey>> ComparatorKeys(const Computation& comparator);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_SORT_COMPARATOR_H_
