// The inner loops of factorizations and triangular solves, on row-major blocks. Strides may be negative.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_MATRIX_BLOCKS_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_MATRIX_BLOCKS_H_

#include <cstdint>

namespace backplane::engine {

template <typename T>
struct ComplexNumber {
  T r, i;
};
using C64 = ComplexNumber<float>;
using C128 = ComplexNumber<double>;

template <typename T>
struct ConstBlock {
  const T* data;
  int64_t stride;  // elements from one row to the next
  ConstBlock At(int64_t i, int64_t j) const { return {data + i * stride + j, stride}; }
};
template <typename T>
struct Block {
  T* data;
  int64_t stride;
  Block At(int64_t i, int64_t j) const { return {data + i * stride + j, stride}; }
  operator ConstBlock<T>() const { return {data, stride}; }
};

constexpr int64_t kSolveRows = 32;  // most rows that SolveRows takes

#define BP_MATRIX_BLOCKS(T)                                                                                       \
  /* c -= a b; a is m x k, b k x n. */                                                                            \
  void SubtractProduct(int64_t m, int64_t n, int64_t k, ConstBlock<T> a, ConstBlock<T> b, Block<T> c);            \
  /* l x = b in place of b: l lower, rows x rows, `rows` at most kSolveRows; x rows x columns. unit: diagonal not \
   * read. */                                                                                                     \
  void SolveRows(int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x);                          \
  /* One right side, contiguous; l of any size. */                                                                \
  void SolveVector(int64_t n, ConstBlock<T> l, bool unit, T* x);
BP_MATRIX_BLOCKS(float)
BP_MATRIX_BLOCKS(double)
BP_MATRIX_BLOCKS(C64)
BP_MATRIX_BLOCKS(C128)
#undef BP_MATRIX_BLOCKS

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_MATRIX_BLOCKS_H_
