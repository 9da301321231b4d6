// Brings an array from one layout into another: any two layouts of the same sizes and element type.
//
// Planned once, run often. Separable layouts (all but some with `*`) are copied by boxes of strided loops: runs that
// are contiguous on both sides, rows that are interleaved (T(8,128)(2,1)) and transposed blocks by kernels of vectors;
// others element by element. Elements may be packed on either side (4 bits in 4 or in 8):
// packed elements lie from the low bits of a byte up, and are sign-extended when unpacked for signed types.
//
// Metadata in front of the elements is copied as it is; a layout that has some and one that has none do not become one
// another: Unimplemented.
//
// A plan is immutable; any number of threads may run it at once on different targets. Source and target must not
// overlap.
#ifndef BACKPLANE_CORE_TYPES_RELAYOUT_H_
#define BACKPLANE_CORE_TYPES_RELAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/types/physical_layout.h"

namespace backplane {

enum class PaddingFill : uint8_t { kLeave, kZero };  // what becomes of the target's padding

class Relayout {
 public:
  // Two array shapes that differ in layout only; a missing layout is row-major.
  static absl::StatusOr<Relayout> Plan(const Shape& from, const Shape& to, PaddingFill fill = PaddingFill::kLeave);
  // Layouts made otherwise (the older padded form). `type` says how bits are extended.
  static absl::StatusOr<Relayout> Plan(PrimitiveType type, const PhysicalLayout& from, const PhysicalLayout& to,
                                       PaddingFill fill = PaddingFill::kLeave);

  int64_t source_bytes() const { return from_.byte_size(); }
  int64_t target_bytes() const { return to_.byte_size(); }
  void Run(const void* source, void* target) const;

 private:
  struct Loop {
    int64_t size, from, to;  // steps and strides, in elements
  };
  struct Box {
    int64_t from = 0, to = 0;  // where it begins
    std::vector<Loop> loops;   // outermost first
  };
  Relayout(PrimitiveType type, PhysicalLayout from, PhysicalLayout to, PaddingFill fill)
      : type_(type), from_(std::move(from)), to_(std::move(to)), fill_(fill) {}
  void MakeBoxes();
  bool MakePackedRuns();
  template <typename T>
  void Copy(const T* source, T* target) const;
  template <typename T>
  static void CopyBox(const Box& box, bool far, bool stream, const T* source, T* target);
  void CopyUnits(int64_t bytes, const std::byte* source, std::byte* target) const;
  void CopyPackedRuns(const std::byte* source, std::byte* target) const;

  PrimitiveType type_;
  PhysicalLayout from_, to_;
  PaddingFill fill_;
  bool boxed_ = false;
  bool in_order_ = false;  // the target is written from one end to the other
  // Runs of whole bytes on both sides, at least one of them packed: the boxes' numbers are bytes then, but that the
  // innermost loop is the run, in elements.
  bool packed_runs_ = false;
  std::vector<Loop> shared_;  // around all boxes
  std::vector<Box> boxes_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_RELAYOUT_H_
