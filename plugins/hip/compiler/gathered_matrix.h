// Matrices whose elements a product reads from where they are in a larger array: the windows of a convolution.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_MATRIX_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_MATRIX_H_

#include <cstdint>
#include <vector>

namespace backplane::hip {

// The number of a row, and a position along k, are mixed-radix numbers whose digits move through the array. Most digits
// have a stride. The others move in a space: a dimension of the array with zeros around and between its elements, in
// which a digit of the row (the output's position) and one of k (the position in the window) are added up.
struct GatheredMatrix {
  struct Digit {
    int64_t size = 1;
    int64_t stride = 0;  // in elements of the array; in positions of the space if there is one
    int space = -1;      // the number of the space; -1: none
  };
  // Element e of the dimension is at position e * dilation. The position of an element of the matrix is the sum of
  // what its digits move, and `offset`. If no element is there, the matrix has a zero.
  struct Space {
    int64_t size = 1, stride = 0;  // of the dimension, in elements
    int64_t dilation = 1, offset = 0;
  };
  std::vector<Digit> rows, k;  // the outermost first
  std::vector<Space> spaces;
  int64_t base = 0;   // the element of the array with which the matrix begins
  int64_t bytes = 0;  // of the whole array

  bool HasGaps() const { return !spaces.empty(); }
  // In which dimension of the matrix `chunk` elements from each multiple of it on are always together in the array. The
  // elements of k of such a chunk, or those of `chunk` neighbouring ones, have one position in each space.
  enum class Chunks : uint8_t { kAlongK, kAlongRows, kNone };
  Chunks FindChunks(int64_t chunk) const;
  // The extent and the stride of the innermost digit; that of a digit in a space does not count.
  static int64_t InnerSize(const std::vector<Digit>& digits) {
    return digits.empty() || digits.back().space >= 0 ? 1 : digits.back().size;
  }
  static int64_t InnerStride(const std::vector<Digit>& digits) {
    return digits.empty() || digits.back().space >= 0 ? 0 : digits.back().stride;
  }
  // Removes spaces in which every position has an element, and merges digits that move as one.
  void Simplify();
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_GATHERED_MATRIX_H_
