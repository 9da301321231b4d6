#include "core/types/layout.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace backplane {

Layout Layout::RowMajor(int64_t rank) {
  Layout layout;
  for (int64_t i = rank - 1; i >= 0; --i) layout.minor_to_major.push_back(i);
  return layout;
}

bool Layout::IsRowMajor() const {
  if (!tiles.empty() || element_size_in_bits != 0) return false;
  const int64_t rank = static_cast<int64_t>(minor_to_major.size());
  for (int64_t i = 0; i < rank; ++i) {
    if (minor_to_major[i] != rank - 1 - i) return false;
  }
  return true;
}

std::string Layout::ToString() const {
  std::string out = absl::StrCat("{", absl::StrJoin(minor_to_major, ","));
  std::string rest;
  for (const Tile& tile : tiles) {
    absl::StrAppend(&rest, rest.empty() ? "T(" : "(",
                    absl::StrJoin(tile.dims, ",",
                                  [](std::string* s, int64_t d) {
                                    if (d == Tile::kCombine)
                                      *s += '*';
                                    else
                                      absl::StrAppend(s, d);
                                  }),
                    ")");
  }
  if (element_size_in_bits != 0) absl::StrAppend(&rest, "E(", element_size_in_bits, ")");
  if (memory_space != 0) absl::StrAppend(&rest, "S(", memory_space, ")");
  if (!rest.empty()) absl::StrAppend(&out, ":", rest);
  return out + "}";
}

}  // namespace backplane
