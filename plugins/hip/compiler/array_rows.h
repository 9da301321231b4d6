// The rows of an array along one dimension, for operations that treat each row by itself: sorts and scans.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_ARRAY_ROWS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_ARRAY_ROWS_H_

#include <cstdint>

#include "core/types/shape.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

struct ArrayRows {
  ArrayRows(const Shape& shape, int64_t dimension)
      : elements(shape.num_elements()), length(shape.dimensions(dimension)), rows(length == 0 ? 0 : elements / length) {
    for (int64_t d = dimension + 1; d < shape.rank(); ++d) stride *= shape.dimensions(d);
  }

  // Returns the number of the element at a position of a row. `row` and `position` have one integer type, which holds
  // the numbers of all elements.
  llvm::Value* ComputeAddress(llvm::IRBuilder<>& b, llvm::Value* row, llvm::Value* position) const {
    auto number = [&](int64_t n) { return llvm::ConstantInt::get(row->getType(), static_cast<uint64_t>(n)); };
    if (stride == 1) return b.CreateAdd(b.CreateMul(row, number(length)), position);
    llvm::Value* outer = b.CreateMul(b.CreateUDiv(row, number(stride)), number(length * stride));
    llvm::Value* first = b.CreateAdd(outer, b.CreateURem(row, number(stride)));
    return b.CreateAdd(first, b.CreateMul(position, number(stride)));
  }

  int64_t elements = 0, length = 0, rows = 0;
  int64_t stride = 1;  // between neighbours in a row
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_ARRAY_ROWS_H_
