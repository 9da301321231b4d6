// How an array lies in the memory of another one that it is a slice, a transpose, a reshape or a broadcast of.
#ifndef BACKPLANE_SDK_COMPILER_STRIDED_VIEW_H_
#define BACKPLANE_SDK_COMPILER_STRIDED_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/instruction.h"

namespace backplane::compiler {

// A dimension of a view: `size` elements, `stride` elements apart, or at the offsets of the table if that is not empty.
struct ViewDimension {
  int64_t size = 1, stride = 0;
  std::vector<int64_t> table;
  int64_t Offset(int64_t index) const { return table.empty() ? index * stride : table[static_cast<size_t>(index)]; }
};

struct StridedView {
  Instruction* base = nullptr;  // dense and row-major
  int64_t offset = 0;
  std::vector<ViewDimension> dimensions;
};

// Returns the view of `array` in the memory of an instruction that is stored anyway: the farthest one from which only
// such operations lead to it. Slices of values that would otherwise not be stored as a whole end the search, except in
// the computation of a fusion, in which the parameters are stored and nothing else.
StridedView FindStridedView(Instruction* array);

// Whether a reshape only adds or removes dimensions of one element.
bool IsUnitReshape(const Instruction& reshape);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_STRIDED_VIEW_H_
