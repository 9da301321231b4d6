// What the comparator of a sort says of the order that it defines.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SORT_ORDER_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SORT_ORDER_H_

#include "core/ir/computation.h"

namespace backplane::hip {

// Whether the comparator tells all elements apart that have different bits.
bool DistinguishesAll(const Instruction& sort);

// Whether the comparator is known to be a strict weak order: it compares keys of both elements that it computes in the
// same way, integers or floats in total order, and further keys where the first ones are equal. Only such orders permit
// merging of sorted runs; a comparator that contradicts itself would lose elements.
bool IsStrictWeakOrder(const Computation& comparator);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SORT_ORDER_H_
