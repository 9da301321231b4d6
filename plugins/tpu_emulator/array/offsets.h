// Where the elements of an operand lie, as seen by a product: the index of a row, a column, a batch or a term of the
// sum is cut into indices of several dimensions, the last of them fastest, and each adds its part to the place.
//
// This is what lets one product read row-major arrays, transposed ones, windows of a convolution and tiles alike.
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
  // Places are in elements. A further dimension, faster than those before it.
  void Add(int64_t size, int64_t stride);
  void Add(int64_t size, absl::Span<const PhysicalLayout::Digit> digits);  // as PhysicalLayout::digits has them

  // After the last Add: the places of all indices are noted, if these are not too many, and only looked up from then
  // on.
  void Note();

  int64_t size() const { return size_; }  // of all dimensions together; 1 without any
  // Places of the indices [begin, begin + count).
  void Fill(int64_t begin, int64_t count, int64_t* places) const;
  int64_t At(int64_t index) const {
    if (!noted_.empty()) return noted_[static_cast<size_t>(index)];
    int64_t place;
    Fill(index, 1, &place);
    return place;
  }

 private:
  struct Dim {
    int64_t size;
    absl::InlinedVector<PhysicalLayout::Digit, 2> digits;
    int64_t Place(int64_t index) const;
  };
  absl::InlinedVector<Dim, 4> dims_;
  int64_t size_ = 1;
  std::vector<int64_t> noted_;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_OFFSETS_H_
