#include "plugins/hip/compiler/gathered_matrix.h"

#include <algorithm>
#include <utility>

namespace backplane::hip {
namespace {

using Digit = GatheredMatrix::Digit;

std::vector<Digit> Merge(const std::vector<Digit>& digits) {
  std::vector<Digit> merged;
  for (const Digit& d : digits) {
    if (d.size == 1) continue;
    if (!merged.empty() && d.space < 0 && merged.back().space < 0 && merged.back().stride == d.stride * d.size) {
      merged.back().size *= d.size;
      merged.back().stride = d.stride;
    } else {
      merged.push_back(d);
    }
  }
  return merged;
}

}  // namespace

GatheredMatrix::Chunks GatheredMatrix::FindChunks(int64_t chunk) const {
  if (InnerSize(k) % chunk != 0) return Chunks::kNone;
  if (InnerStride(k) == 1) return Chunks::kAlongK;
  return InnerStride(rows) == 1 && InnerSize(rows) % chunk == 0 ? Chunks::kAlongRows : Chunks::kNone;
}

void GatheredMatrix::Simplify() {
  std::vector<Space> kept;
  for (int s = 0; s < static_cast<int>(spaces.size()); ++s) {
    const Space& space = spaces[static_cast<size_t>(s)];
    int64_t least = space.offset, most = space.offset;
    for (const std::vector<Digit>* digits : {&rows, &k}) {
      for (const Digit& d : *digits) {
        if (d.space == s) (d.stride < 0 ? least : most) += (d.size - 1) * d.stride;
      }
    }
    const bool is_full = space.dilation == 1 && least >= 0 && most < space.size;
    for (std::vector<Digit>* digits : {&rows, &k}) {
      for (Digit& d : *digits) {
        if (d.space != s) continue;
        if (is_full) d.stride *= space.stride;
        d.space = is_full ? -1 : static_cast<int>(kept.size());
      }
    }
    if (is_full) {
      base += space.offset * space.stride;
    } else {
      kept.push_back(space);
    }
  }
  spaces = std::move(kept);
  rows = Merge(rows), k = Merge(k);
}

}  // namespace backplane::hip
