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
  if (!tiles.empty() || element_size_in_bits != 0 || tail_alignment != 1 || metadata_prefix_bytes != 0) return false;
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
  if (tail_alignment != 1) absl::StrAppend(&rest, "L(", tail_alignment, ")");
  if (index_type != PrimitiveType::kInvalid) absl::StrAppend(&rest, "#(", Name(index_type), ")");
  if (pointer_type != PrimitiveType::kInvalid) absl::StrAppend(&rest, "*(", Name(pointer_type), ")");
  if (element_size_in_bits != 0) absl::StrAppend(&rest, "E(", element_size_in_bits, ")");
  if (memory_space != 0) absl::StrAppend(&rest, "S(", memory_space, ")");
  for (size_t i = 0; i < splits.size(); ++i) {
    absl::StrAppend(&rest, i == 0 ? "SC(" : "(", splits[i].dimension, ":", absl::StrJoin(splits[i].indices, ","), ")");
  }
  if (metadata_prefix_bytes != 0) absl::StrAppend(&rest, "M(", metadata_prefix_bytes, ")");
  if (!rest.empty()) absl::StrAppend(&out, ":", rest);
  return out + "}";
}

}  // namespace backplane
