// Maps the index of a row, column, batch or summed term of a product to the offset of its elements in memory.
//
// The index is split into indices of several dimensions, the last one fastest. Each dimension contributes its part of
// the offset. With this, one product routine reads row-major arrays, transposed arrays, windows of a convolution and
// tiles. Offsets are in elements.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_OFFSETS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_OFFSETS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/types/physical_layout.h"

namespace backplane::tpu {

class Offsets {
 public:
  // Appends a dimension, faster than those before it.
  void Add(int64_t size, int64_t stride);
  void Add(int64_t size, absl::Span<const PhysicalLayout::Digit> digits);  // as in PhysicalLayout::digits

  // Call after the last Add. Stores the offsets of all indices in a table if there are not too many of them.
  void Precompute();

  int64_t size() const { return size_; }  // the product of all sizes; 1 without dimensions
  // Writes the offsets of the indices [begin, begin + count).
  void Fill(int64_t begin, int64_t count, int64_t* offsets) const;
  int64_t At(int64_t index) const {
    if (!table_.empty()) return table_[static_cast<size_t>(index)];
    int64_t offset;
    Fill(index, 1, &offset);
    return offset;
  }

 private:
  struct Dim {
    int64_t size;
    absl::InlinedVector<PhysicalLayout::Digit, 2> digits;
    int64_t Offset(int64_t index) const;
  };
  absl::InlinedVector<Dim, 4> dims_;
  int64_t size_ = 1;
  std::vector<int64_t> table_;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_OFFSETS_H_
