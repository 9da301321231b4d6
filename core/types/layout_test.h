// Helpers of the tests of layouts and relayouts.
#ifndef BACKPLANE_CORE_TYPES_LAYOUT_TEST_H_
#define BACKPLANE_CORE_TYPES_LAYOUT_TEST_H_

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/types/physical_layout.h"
#include "gtest/gtest.h"

namespace backplane {

inline Shape MakeShape(absl::string_view text) {
  absl::StatusOr<Shape> s = ParseShape(text);
  EXPECT_TRUE(s.ok()) << s.status() << text;
  return s.ok() ? *s : Shape();
}

inline PhysicalLayout MakePhysicalLayout(absl::string_view text) {
  absl::StatusOr<PhysicalLayout> p = PhysicalLayout::Of(MakeShape(text));
  EXPECT_TRUE(p.ok()) << p.status() << text;
  return *p;
}

// Returns all linear indices in row-major order of the logical index, after checking the inverse mapping.
inline std::vector<int64_t> Indices(const PhysicalLayout& p) {
  std::vector<int64_t> out;
  std::vector<bool> used(static_cast<size_t>(p.num_elements()), false);
  DimVector at(p.dims().size(), 0);
  for (int64_t n = 0; n < p.num_logical(); ++n) {
    const int64_t linear = p.LinearIndex(at);
    EXPECT_EQ(*p.CheckedLinearIndex(at), linear);
    EXPECT_GE(linear, 0);
    EXPECT_LT(linear, p.num_elements());
    std::optional<DimVector> back = p.LogicalIndex(linear);
    EXPECT_TRUE(back.has_value());
    if (back) {
      EXPECT_EQ(*back, at);
    }
    EXPECT_FALSE(used[linear]) << linear;
    used[linear] = true;
    if (p.separable()) {
      int64_t sum = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        const auto& digits = p.digits(static_cast<int64_t>(d));
        for (size_t k = 0; k < digits.size(); ++k) {
          const int64_t v = at[d] / digits[k].divisor;
          sum += (k == 0 ? v : v % digits[k].size) * digits[k].stride;
        }
      }
      EXPECT_EQ(sum, linear);
    }
    out.push_back(linear);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < p.dims()[d]) break;
      at[d] = 0;
    }
  }
  for (int64_t linear = 0; linear < p.num_elements(); ++linear) {
    if (!used[linear]) {
      EXPECT_FALSE(p.LogicalIndex(linear).has_value()) << linear;
    }
  }
  return out;
}

inline Layout RandomLayout(std::mt19937& rng, int64_t rank, bool combine) {
  Layout l;
  for (int64_t i = 0; i < rank; ++i) l.minor_to_major.push_back(i);
  std::shuffle(l.minor_to_major.begin(), l.minor_to_major.end(), rng);
  int64_t now = rank;
  for (int t = rank == 0 ? 0 : static_cast<int>(rng() % 3); t > 0; --t) {
    Tile tile;
    const int64_t k = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(std::min<int64_t>(now, 3)));
    for (int64_t i = 0; i < k; ++i) {
      tile.dims.push_back(combine && i + 1 < k && rng() % 4 == 0 ? Tile::kCombine
                                                                 : 1 + static_cast<int64_t>(rng() % 5));
    }
    int64_t kept = 0;
    for (int64_t d : tile.dims) kept += d != Tile::kCombine;
    now += 2 * kept - k;
    l.tiles.push_back(tile);
  }
  return l;
}

inline Shape RandomShape(std::mt19937& rng, PrimitiveType type) {
  DimVector dims;
  const int rank = static_cast<int>(rng() % 7);
  for (int n = rank; n > 0; --n) dims.push_back(static_cast<int64_t>(rng() % (rank > 4 ? 4 : 12)) + (rng() % 8 != 0));
  return Shape(type, dims);
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_LAYOUT_TEST_H_
