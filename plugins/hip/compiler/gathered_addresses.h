// Emits the addresses of the elements of a gathered matrix.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_ADDRESSES_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_ADDRESSES_H_

#include <vector>

#include "absl/types/span.h"
#include "plugins/hip/compiler/gathered_matrix.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// What rows and positions along k contribute to an address is computed separately, because a loop over k needs that of
// its rows once. Whether an element exists is a bit of a mask that the row has, if the window has at most 32 positions;
// otherwise positions are compared with the ends of the spaces.
class GatheredAddresses {
 public:
  using Values = std::vector<llvm::Value*>;

  // `width` is that of an element in bytes. The builder and the matrix must outlive the object.
  GatheredAddresses(llvm::IRBuilder<>& b, const GatheredMatrix& matrix, int64_t width);

  // Returns the values that stand for a row, row_values() of them. `row` is an i32.
  Values StartRow(llvm::Value* row);
  size_t row_values() const { return uses_mask_ ? positions_ + 2 : positions_ + 1; }
  // Returns the values that stand for a position along k, an i32.
  Values StartTerm(llvm::Value* k) { return MakeTerm(Split(matrix_.k, k)); }

  // A position that moves from slice to slice: the same values and, behind them, counters from which the next position
  // is found without a division. The innermost digit is a multiple of a slice.
  Values StartWalk(llvm::Value* k);
  Values Advance(const Values& walk, int64_t slice);

  struct Address {
    // In bytes from the array's first element, an integer. Unspecified if there is no element.
    llvm::Value* offset = nullptr;
    llvm::Value* exists = nullptr;  // an i1; null: the element exists
  };
  Address Find(absl::Span<llvm::Value* const> row, absl::Span<llvm::Value* const> term);

 private:
  struct Digits {
    llvm::Value* offset = nullptr;  // of the digits with strides, in bytes
    Values positions;               // in each space; null: 0
    llvm::Value* window = nullptr;  // the number of the position in the window; null: 0
    Values digits;
  };
  Digits Split(const std::vector<GatheredMatrix::Digit>& digits, llvm::Value* number);
  Values MakeTerm(Digits digits);
  // Returns by how many bytes of the array a digit of k moves, apart from dilated spaces.
  int64_t ComputeByteStride(const GatheredMatrix::Digit& digit) const;
  llvm::Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  llvm::Value* Offset(llvm::Value* count, int64_t stride);
  llvm::Value* FindMask(const Values& positions);
  llvm::Value* IsElement(const GatheredMatrix::Space& space, llvm::Value* position);

  llvm::IRBuilder<>& b_;
  const GatheredMatrix& matrix_;
  const int64_t width_;
  llvm::IntegerType* type_ = nullptr;  // of offsets
  bool uses_mask_ = false, is_dilated_ = false;
  size_t positions_ = 0;  // of a row that Find needs
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_ADDRESSES_H_
