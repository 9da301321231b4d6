// Copies an array from one layout to another: any two layouts of the same dimensions and element type.
//
// A plan is created once and run many times. Separable layouts (all except some with `*`) are copied as boxes of
// strided loops; vector kernels copy runs that are contiguous on both sides, interleaved rows (T(8,128)(2,1)) and
// transposed blocks. Other layouts are copied element by element. Elements may be packed on either side (4 bits in 4 or
// in 8): packed elements start at the low bits of a byte, and are sign-extended for signed types when unpacked.
//
// A metadata prefix is copied verbatim. Plan returns Unimplemented if only one of the layouts has a prefix.
//
// A plan is immutable; several threads may run it at once on different targets. Source and target must not overlap.
#ifndef BACKPLANE_CORE_RELAYOUT_RELAYOUT_H_
#define BACKPLANE_CORE_RELAYOUT_RELAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/types/physical_layout.h"

namespace backplane {

enum class PaddingFill : uint8_t { kLeave, kZero };  // how padding of the target is filled

class Relayout {
 public:
  // Plans a copy between array shapes that differ only in layout. A missing layout is row-major.
  static absl::StatusOr<Relayout> Plan(const Shape& from, const Shape& to, PaddingFill fill = PaddingFill::kLeave);
  // Plans a copy between layouts that shapes cannot express (the older padded form). `type` determines sign extension.
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
    int64_t from = 0, to = 0;  // start offsets
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
  void CopyUnpacked(int64_t bytes, const std::byte* source, std::byte* target) const;
  void CopyPackedRuns(const std::byte* source, std::byte* target) const;

  PrimitiveType type_;
  PhysicalLayout from_, to_;
  PaddingFill fill_;
  bool boxed_ = false;
  bool in_order_ = false;  // writes the target sequentially
  // Runs are whole bytes on both sides, at least one of which is packed. Sizes and strides of boxes are then in bytes,
  // except for the innermost loop, which is a run in elements.
  bool packed_runs_ = false;
  std::vector<Loop> shared_;  // loops around all boxes
  std::vector<Box> boxes_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_RELAYOUT_RELAYOUT_H_
