#include "plugins/tpu_emulator/array/offsets.h"

#include <algorithm>
#include <utility>

namespace backplane::tpu {

int64_t Offsets::Dim::Offset(int64_t index) const {
  int64_t offset = index / digits[0].divisor * digits[0].stride;
  for (size_t k = 1; k < digits.size(); ++k) offset += index / digits[k].divisor % digits[k].size * digits[k].stride;
  return offset;
}

void Offsets::Add(int64_t size, int64_t stride) {
  size_ *= size;
  if (size == 1) return;
  dims_.push_back({size, {PhysicalLayout::Digit{1, size, stride}}});
}

void Offsets::Add(int64_t size, absl::Span<const PhysicalLayout::Digit> digits) {
  size_ *= size;
  if (size == 1) return;
  // Drop digits that the index never reaches, and merge adjacent digits with matching strides.
  Dim dim{size, {}};
  for (const PhysicalLayout::Digit& d : digits) {
    if (d.divisor >= size) continue;
    if (!dim.digits.empty() && dim.digits.back().stride == d.stride * d.size &&
        dim.digits.back().divisor == d.divisor * d.size) {
      dim.digits.back() = {d.divisor, dim.digits.back().size * d.size, d.stride};
    } else {
      dim.digits.push_back(d);
    }
  }
  if (dim.digits.empty()) dim.digits.push_back({1, size, 0});
  dims_.push_back(std::move(dim));
}

void Offsets::Precompute() {
  constexpr int64_t kMaxTableSize = 1 << 15;
  if (!table_.empty() || size_ == 0 || size_ > kMaxTableSize) return;
  std::vector<int64_t> offsets(static_cast<size_t>(size_));
  Fill(0, size_, offsets.data());
  table_ = std::move(offsets);
}

void Offsets::Fill(int64_t begin, int64_t count, int64_t* offsets) const {
  if (count == 0) return;  // a dimension may be empty, and its size is no divisor
  if (!table_.empty()) {
    std::copy_n(table_.begin() + begin, count, offsets);
    return;
  }
  if (dims_.empty()) {
    std::fill(offsets, offsets + count, 0);
    return;
  }
  absl::InlinedVector<int64_t, 4> at(dims_.size());
  int64_t rest = begin, outer = 0;
  for (size_t d = dims_.size(); d-- > 0; rest /= dims_[d].size) at[d] = rest % dims_[d].size;
  for (size_t d = 0; d + 1 < dims_.size(); ++d) outer += dims_[d].Offset(at[d]);
  const Dim& last = dims_.back();
  while (count > 0) {
    const int64_t run = std::min(count, last.size - at.back());
    if (last.digits.size() == 1 && last.digits[0].divisor == 1) {
      const int64_t stride = last.digits[0].stride;
      int64_t offset = outer + at.back() * stride;
      for (int64_t i = 0; i < run; ++i, offset += stride) offsets[i] = offset;
    } else {
      for (int64_t i = 0; i < run; ++i) offsets[i] = outer + last.Offset(at.back() + i);
    }
    offsets += run;
    count -= run;
    if (count == 0) return;
    at.back() = 0;
    size_t d = dims_.size() - 1;
    while (d > 0) {
      --d;
      outer -= dims_[d].Offset(at[d]);
      if (++at[d] == dims_[d].size) at[d] = 0;
      outer += dims_[d].Offset(at[d]);
      if (at[d] != 0) break;
    }
  }
}

}  // namespace backplane::tpu
