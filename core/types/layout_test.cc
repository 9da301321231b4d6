// Layouts: text, indices both ways, sizes, and copies between any two. The vectors TV-* are those of the layout
// specification; tables are rows of linear indices.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/physical_layout.h"
#include "core/types/relayout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Shape ShapeOf(absl::string_view text) {
  absl::StatusOr<Shape> s = ParseShape(text);
  EXPECT_TRUE(s.ok()) << s.status() << text;
  return s.ok() ? *s : Shape();
}

PhysicalLayout LayoutOf(absl::string_view text) {
  absl::StatusOr<PhysicalLayout> p = PhysicalLayout::Of(ShapeOf(text));
  EXPECT_TRUE(p.ok()) << p.status() << text;
  return *p;
}

// All linear indices in row-major order of the logical index, checked to lead back.
std::vector<int64_t> Indices(const PhysicalLayout& p) {
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

TEST(Layout, TextAsXlaPrintsIt) {
  for (const char* text :
       {"f32[2,3]{1,0}", "f32[2,3]{0,1}", "bf16[16,256]{1,0:T(8,128)(2,1)}", "s4[8,256]{1,0:T(8,128)E(4)}",
        "f32[8,128]{1,0:T(8,128)S(5)}", "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", "s4[64]{0:T(128)(4,1)E(4)S(1)}"}) {
    Shape s = ShapeOf(text);
    EXPECT_EQ(s.ToString(true), text);
    EXPECT_TRUE(ShapeOf(s.ToString(true)).Identical(s));
  }
  EXPECT_EQ(ShapeOf("f32[]").ToString(true), "f32[]");
  EXPECT_EQ(Layout::RowMajor(3).ToString(), "{2,1,0}");  // TV-L3
  EXPECT_EQ(Layout::RowMajor(0).ToString(), "{}");
}

TEST(Layout, DenseOrders) {
  EXPECT_THAT(Indices(LayoutOf("f32[2,3]{0,1}")), ElementsAre(0, 2, 4, 1, 3, 5));  // TV-L1: a d b e c f
  EXPECT_THAT(Indices(LayoutOf("f32[2,3]{1,0}")), ElementsAre(0, 1, 2, 3, 4, 5));  // TV-L2
  EXPECT_THAT(Indices(LayoutOf("f32[2,3]")), ElementsAre(0, 1, 2, 3, 4, 5));       // TV-L3
  EXPECT_THAT(Indices(LayoutOf("f32[]")), ElementsAre(0));
  const struct {
    const char* shape;
    std::vector<int64_t> index;
    int64_t linear;
  } cases[] = {{"f32[2,3,4]{2,1,0}", {1, 2, 3}, 23},
               {"f32[2,3,4]{0,1,2}", {1, 2, 3}, 23},
               {"f32[2,3,4]{2,1,0}", {1, 0, 2}, 14},
               {"f32[2,3,4]{0,1,2}", {1, 0, 2}, 13},
               {"f32[2,3,4]{1,2,0}", {1, 0, 2}, 18}};  // TV-L4
  for (const auto& c : cases) EXPECT_EQ(LayoutOf(c.shape).LinearIndex(c.index), c.linear) << c.shape;
}

TEST(Layout, PaddedForm) {
  const std::vector<int64_t> dims = {2, 3}, padded = {3, 5};
  const std::vector<int64_t> column = {0, 1}, row = {1, 0};
  PhysicalLayout c = *PhysicalLayout::Padded(dims, column, padded, 32);
  PhysicalLayout r = *PhysicalLayout::Padded(dims, row, padded, 32);
  EXPECT_EQ(c.num_elements(), 15);
  EXPECT_EQ(c.byte_size(), 60);
  auto memory = [&](const PhysicalLayout& p) {
    std::string out(15, '0');
    std::vector<int64_t> at = Indices(p);
    for (size_t i = 0; i < at.size(); ++i) out[at[i]] = static_cast<char>('a' + i);
    return out;
  };
  EXPECT_EQ(memory(c), "ad0be0cf0000000");  // TV-P1, TV-P2
  EXPECT_EQ(memory(r), "abc00def0000000");  // TV-P3
  EXPECT_EQ(c.LinearIndex({1, 2}), 7);      // TV-P4
  EXPECT_EQ(r.LinearIndex({1, 2}), 7);
  EXPECT_EQ(c.LinearIndex({0, 2}), 6);
  EXPECT_EQ(r.LinearIndex({0, 2}), 2);
  // TV-P2: the buffer of a 3x5 array of the same order.
  EXPECT_EQ(PhysicalLayout::Of(padded, Layout{{0, 1}, {}, 0, 0}, 32)->LinearIndex({1, 2}), c.LinearIndex({1, 2}));
  // TV-P5
  EXPECT_THAT(PhysicalLayout::Padded(dims, row, {3}, 32).status().message(), HasSubstr("[layout_e2]"));
  EXPECT_THAT(PhysicalLayout::Padded(dims, row, {1, 5}, 32).status().message(), HasSubstr("[layout_e2]"));
}

TEST(Layout, OneTile) {
  PhysicalLayout p = LayoutOf("f32[3,5]{1,0:T(2,2)}");
  EXPECT_THAT(p.bounds(), ElementsAre(2, 3, 2, 2));
  EXPECT_EQ(p.num_elements(), 24);
  EXPECT_EQ(p.byte_size(), 96);
  EXPECT_EQ(p.num_elements() - p.num_logical(), 9);
  EXPECT_EQ(p.LinearIndex({2, 3}), 17);                                                     // TV-T1
  EXPECT_THAT(Indices(p), ElementsAre(0, 1, 4, 5, 8, 2, 3, 6, 7, 10, 12, 13, 16, 17, 20));  // TV-T2
  std::vector<int> memory(24, -1);                                                          // TV-T3
  const std::vector<int64_t> at = Indices(p);
  for (size_t i = 0; i < at.size(); ++i) memory[at[i]] = static_cast<int>(i);
  EXPECT_THAT(memory,
              ElementsAre(0, 1, 5, 6, 2, 3, 7, 8, 4, -1, 9, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, -1, -1, -1));
  // TV-T4: tiles cover physical dimensions.
  PhysicalLayout q = LayoutOf("f32[3,5]{0,1:T(2,2)}");
  EXPECT_THAT(q.bounds(), ElementsAre(3, 2, 2, 2));
  EXPECT_THAT(Indices(q), ElementsAre(0, 2, 8, 10, 16, 1, 3, 9, 11, 17, 4, 6, 12, 14, 20));
  // TV-T5: a tile of lower rank.
  PhysicalLayout r = LayoutOf("f32[2,3,5]{2,1,0:T(2,2)}");
  EXPECT_THAT(r.bounds(), ElementsAre(2, 2, 3, 2, 2));
  EXPECT_EQ(r.num_elements(), 48);
  EXPECT_EQ(r.LinearIndex({1, 0, 0}), 24);
  EXPECT_EQ(r.LinearIndex({1, 2, 3}), 41);
  Indices(r);
}

TEST(Layout, RepeatedTiles) {
  PhysicalLayout p = LayoutOf("bf16[4,8]{1,0:T(2,4)(2,1)}");  // TV-T7
  EXPECT_THAT(p.bounds(), ElementsAre(2, 2, 1, 4, 2, 1));
  EXPECT_THAT(Indices(p), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18, 20, 22, 24, 26, 28,
                                      30, 17, 19, 21, 23, 25, 27, 29, 31));
  EXPECT_THAT(Indices(LayoutOf("bf16[4,8]{1,0:T(2,4)}")),  // TV-T8
              ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19, 24, 25, 26, 27, 20, 21,
                          22, 23, 28, 29, 30, 31));
  PhysicalLayout q = LayoutOf("f32[4,4]{1,0:T(2,2)(2,1,1)}");  // TV-T9
  EXPECT_THAT(q.bounds(), ElementsAre(2, 1, 2, 2, 2, 1, 1));
  EXPECT_THAT(Indices(q), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  PhysicalLayout r = LayoutOf("bf16[3,5]{1,0:T(2,2)(2,1)}");  // TV-T10
  EXPECT_THAT(r.bounds(), ElementsAre(2, 3, 1, 2, 2, 1));
  EXPECT_THAT(Indices(r), ElementsAre(0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 12, 14, 16, 18, 20));
}

TEST(Layout, TpuTiles) {
  const PhysicalLayout pairs = LayoutOf("bf16[16,256]{1,0:T(8,128)(2,1)}"),
                       plain = LayoutOf("f32[16,256]{1,0:T(8,128)}");
  EXPECT_THAT(pairs.bounds(), ElementsAre(2, 2, 4, 128, 2, 1));
  EXPECT_EQ(pairs.num_elements(), 4096);
  EXPECT_EQ(pairs.byte_size(), 8192);
  const int64_t rows[][4] = {{0, 0, 0, 0},       {1, 0, 1, 128},       {0, 1, 2, 1},         {1, 1, 3, 129},
                             {2, 0, 256, 256},   {2, 1, 258, 257},     {3, 0, 257, 384},     {6, 5, 778, 773},
                             {0, 127, 254, 127}, {1, 127, 255, 255},   {7, 127, 1023, 1023}, {0, 128, 1024, 1024},
                             {8, 0, 2048, 2048}, {9, 130, 3077, 3202}, {15, 255, 4095, 4095}};  // TV-T11
  for (const auto& r : rows) {
    EXPECT_EQ(pairs.LinearIndex({r[0], r[1]}), r[2]) << r[0] << "," << r[1];
    EXPECT_EQ(plain.LinearIndex({r[0], r[1]}), r[3]) << r[0] << "," << r[1];
  }
  Indices(pairs);
  const PhysicalLayout padded = LayoutOf("bf16[10,200]{1,0:T(8,128)(2,1)}");  // TV-T12
  EXPECT_EQ(padded.num_elements(), 4096);
  EXPECT_EQ(padded.num_elements() - padded.num_logical(), 2096);
  EXPECT_EQ(padded.LinearIndex({8, 0}), 2048);
  EXPECT_EQ(padded.LinearIndex({0, 128}), 1024);
  EXPECT_EQ(padded.LinearIndex({8, 128}), 3072);
  EXPECT_EQ(padded.LinearIndex({9, 199}), 3215);
  Indices(padded);
}

TEST(Layout, CombinedDimensions) {
  PhysicalLayout p = LayoutOf("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}");  // TV-T13
  EXPECT_THAT(p.bounds(), ElementsAre(56, 37, 2, 3));                       // TV-T14
  EXPECT_EQ(p.num_elements(), 12432);
  EXPECT_EQ(p.num_elements() - p.num_logical(), 112);
  const struct {
    std::vector<int64_t> index;
    int64_t linear;
  } cases[] = {{{0, 0, 0, 0, 0}, 0},    {{0, 0, 0, 0, 1}, 1},    {{0, 0, 0, 0, 3}, 6},
               {{0, 0, 0, 1, 0}, 19},   {{0, 0, 1, 0, 0}, 3},    {{0, 1, 0, 0, 0}, 888},
               {{1, 0, 0, 0, 0}, 6216}, {{1, 3, 5, 7, 2}, 9471}, {{1, 6, 7, 10, 9}, 12430}};
  for (const auto& c : cases) EXPECT_EQ(p.LinearIndex(c.index), c.linear);
  Indices(p);
  Indices(LayoutOf("f32[3,5,2]{2,1,0:T(*,4)}"));
  Indices(LayoutOf("f32[3,5]{1,0:T(2,3)(*,*,2)}"));
}

// The oracle: pad, split each dimension, move tile counts in front. Tiles without *.
std::vector<int64_t> ByPadReshapeTranspose(const Shape& shape) {
  // Elements carry their row-major number, -1 in padding.
  std::vector<int64_t> dims, data;
  const Layout& layout = shape.layout();
  std::vector<int64_t> order(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
  for (int64_t d : order) dims.push_back(shape.dimensions(d));
  const DimVector strides = RowMajorStrides(shape.dimensions());
  auto for_each = [](const std::vector<int64_t>& sizes, auto&& fn) {
    std::vector<int64_t> at(sizes.size(), 0);
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    for (int64_t i = 0; i < n; ++i) {
      fn(at);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < sizes[d]) break;
        at[d] = 0;
      }
    }
  };
  for_each(dims, [&](const std::vector<int64_t>& at) {
    int64_t number = 0;
    for (size_t i = 0; i < at.size(); ++i) number += at[i] * strides[order[i]];
    data.push_back(number);
  });
  for (const Tile& tile : layout.tiles) {
    const size_t k = tile.dims.size(), n = dims.size();
    std::vector<int64_t> padded = dims;
    for (size_t i = 0; i < k; ++i)
      padded[n - k + i] = (dims[n - k + i] + tile.dims[i] - 1) / tile.dims[i] * tile.dims[i];
    std::vector<int64_t> wide;
    for_each(padded, [&](const std::vector<int64_t>& at) {
      int64_t place = 0;
      bool inside = true;
      for (size_t i = 0; i < n; ++i) {
        inside = inside && at[i] < dims[i];
        place = place * dims[i] + at[i];
      }
      wide.push_back(inside ? data[place] : -1);
    });
    std::vector<int64_t> result(padded.begin(), padded.end() - static_cast<std::ptrdiff_t>(k));
    for (size_t i = 0; i < k; ++i) result.push_back(padded[n - k + i] / tile.dims[i]);
    result.insert(result.end(), tile.dims.begin(), tile.dims.end());
    std::vector<int64_t> moved;
    for_each(result, [&](const std::vector<int64_t>& at) {
      int64_t place = 0;
      for (size_t i = 0; i < n; ++i) {
        const int64_t e = i < n - k ? at[i] : at[i] * tile.dims[i - (n - k)] + at[i + k];
        place = place * padded[i] + e;
      }
      moved.push_back(wide[place]);
    });
    dims = result;
    data = moved;
  }
  return data;
}

Layout RandomLayout(std::mt19937& rng, int64_t rank, bool combine) {
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

Shape RandomShape(std::mt19937& rng, PrimitiveType type) {
  DimVector dims;
  const int rank = static_cast<int>(rng() % 7);
  for (int n = rank; n > 0; --n) dims.push_back(static_cast<int64_t>(rng() % (rank > 4 ? 4 : 12)) + (rng() % 8 != 0));
  return Shape(type, dims);
}

TEST(Layout, RandomLayoutsAgreeWithPadReshapeTranspose) {
  std::mt19937 rng(3);
  int checked = 0;
  for (int n = 0; n < 500; ++n) {
    Shape s = RandomShape(rng, PrimitiveType::kF32);
    s.set_layout(RandomLayout(rng, s.rank(), false));
    SCOPED_TRACE(s.ToString(true));
    absl::StatusOr<PhysicalLayout> p = PhysicalLayout::Of(s);
    ASSERT_TRUE(p.ok()) << p.status();
    if (p->num_elements() > 40000) continue;
    std::vector<int64_t> memory(static_cast<size_t>(p->num_elements()), -1);
    const std::vector<int64_t> at = Indices(*p);
    for (size_t i = 0; i < at.size(); ++i) memory[at[i]] = static_cast<int64_t>(i);
    EXPECT_EQ(memory, ByPadReshapeTranspose(s));
    ++checked;
  }
  EXPECT_GT(checked, 200);
  for (int n = 0; n < 200; ++n) {
    Shape s = RandomShape(rng, PrimitiveType::kF32);
    s.set_layout(RandomLayout(rng, s.rank(), true));
    SCOPED_TRACE(s.ToString(true));
    absl::StatusOr<PhysicalLayout> p = PhysicalLayout::Of(s);
    ASSERT_TRUE(p.ok()) << p.status();
    if (p->num_elements() <= 40000) Indices(*p);
  }
}

// TPUs tile scalars too: f32[]{:T(128)} takes 512 bytes.
TEST(Layout, TiledScalar) {
  auto p =
      PhysicalLayout::Of(absl::Span<const int64_t>{}, Layout{{}, {Tile{{256}}, Tile{{128}}, Tile{{2, 1}}}, 0, 0}, 16);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->byte_size(), 512);
  EXPECT_EQ(p->LinearIndex({}), 0);
  EXPECT_EQ(p->LogicalIndex(0), DimVector{});
  EXPECT_EQ(p->LogicalIndex(1), std::nullopt);
  EXPECT_FALSE(PhysicalLayout::Of(absl::Span<const int64_t>{}, Layout{{}, {Tile{{8, 128}}}, 0, 0}, 32).ok());
}

TEST(Layout, ErrorsAreNamed) {
  auto error = [](absl::Span<const int64_t> dims, const Layout& l) {
    return std::string(PhysicalLayout::Of(dims, l, 32).status().message());
  };
  EXPECT_THAT(error({2, 3}, Layout{{0, 0}, {}, 0, 0}), HasSubstr("[layout_e1]"));
  EXPECT_THAT(error({2, 3}, Layout{{0}, {}, 0, 0}), HasSubstr("[layout_e1]"));
  EXPECT_THAT(error({2, 3}, Layout{{2, 0}, {}, 0, 0}), HasSubstr("[layout_e1]"));
  EXPECT_THAT(error({2, 3}, Layout{{1, 0}, {Tile{{0, 2}}}, 0, 0}), HasSubstr("[layout_e4]"));
  EXPECT_THAT(error({2, 3}, Layout{{1, 0}, {Tile{{2, -3}}}, 0, 0}), HasSubstr("[layout_e4]"));
  EXPECT_THAT(error({2, 3}, Layout{{1, 0}, {Tile{{1, 2, 3}}}, 0, 0}), HasSubstr("[layout_e4]"));
  EXPECT_THAT(error({2, 3}, Layout{{1, 0}, {Tile{{2, Tile::kCombine}}}, 0, 0}), HasSubstr("[layout_e4]"));
  EXPECT_THAT(error({INT64_C(1) << 40, INT64_C(1) << 40}, Layout::RowMajor(2)), HasSubstr("[layout_e9]"));
  EXPECT_THAT(error({1, 1}, Layout{{1, 0}, {Tile{{INT64_C(1) << 40, INT64_C(1) << 40}}}, 0, 0}),
              HasSubstr("[layout_e9]"));
  EXPECT_THAT(LayoutOf("f32[2,3]").CheckedLinearIndex({1, 3}).status().message(), HasSubstr("dimension 1 has size 3"));
  EXPECT_THAT(LayoutOf("f32[2,3]").CheckedLinearIndex({1}).status().message(), HasSubstr("rank 2"));
  EXPECT_FALSE(PhysicalLayout::Of(Shape::Token()).ok());
  EXPECT_FALSE(Relayout::Plan(ShapeOf("f32[2]"), ShapeOf("f32[3]")).ok());
  EXPECT_FALSE(Relayout::Plan(ShapeOf("f32[2]"), ShapeOf("s32[2]")).ok());
}

// L rounds the number of elements up behind the last tile, M is in front of all; neither moves an element.
TEST(Layout, TailAndPrefix) {
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(4)}").byte_size(), 32);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(6)}").byte_size(), 24);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(1024)}").byte_size(), 4096);
  EXPECT_EQ(LayoutOf("f32[3,5]{1,0:T(2,2)L(32)}").byte_size(), 128);
  EXPECT_EQ(LayoutOf("s4[3,5]{1,0:L(32)E(4)}").byte_size(), 16);
  EXPECT_EQ(LayoutOf("f32[]{:L(128)}").byte_size(), 512);
  EXPECT_EQ(LayoutOf("f32[0,3]{1,0:L(128)}").byte_size(), 0);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:M(8)}").byte_size(), 32);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:M(8)}").prefix_bytes(), 8);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(8)#(u32)*(u64)S(1)SC(0:1)M(24)}").byte_size(), 56);
  for (const char* text : {"f32[3,5]{1,0:T(2,2)L(32)}", "f32[3,5]{0,1:L(7)M(16)}", "f32[2,3,5]{2,1,0:T(*,4)L(100)}"})
    Indices(LayoutOf(text));
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(8)}").LogicalIndex(6), std::nullopt);
  EXPECT_EQ(LayoutOf("f32[2,3]{1,0:L(8)}").LogicalIndex(7), std::nullopt);
  EXPECT_FALSE(PhysicalLayout::Of(ShapeOf("s8[9,9]{1,0:L(9223372036854775807)M(9)}")).ok());
  EXPECT_FALSE(PhysicalLayout::Of(ShapeOf("f32[9,9]{1,0:L(9223372036854775807)}")).ok());
}

TEST(Layout, ElementSizes) {
  EXPECT_EQ(LayoutOf("s4[3,5]{1,0:E(4)}").byte_size(), 8);
  EXPECT_EQ(LayoutOf("s4[3,5]{1,0}").byte_size(), 15);
  EXPECT_EQ(LayoutOf("s4[8,128]{1,0:T(8,128)E(4)}").byte_size(), 512);
  EXPECT_EQ(LayoutOf("c128[2]").byte_size(), 32);
  EXPECT_EQ(LayoutOf("f32[0,3]{1,0:T(8,128)}").byte_size(), 0);
  EXPECT_EQ(LayoutOf("f32[3,1]{1,0:T(8,128)}").byte_size(), 4096);
}

// ---- relayout ----

// Elements by their definition: through the indices of both sides.
std::vector<std::byte> Expected(const Shape& from, const Shape& to, const std::vector<std::byte>& source,
                                size_t width) {
  const PhysicalLayout a = *PhysicalLayout::Of(from), b = *PhysicalLayout::Of(to);
  std::vector<std::byte> out(static_cast<size_t>(b.byte_size()), std::byte{0});
  const std::vector<int64_t> i = Indices(a), j = Indices(b);
  for (size_t n = 0; n < i.size(); ++n) std::memcpy(&out[j[n] * width], &source[i[n] * width], width);
  return out;
}

TEST(Relayout, RandomPairs) {
  std::mt19937 rng(11);
  int done = 0;
  for (PrimitiveType type :
       {PrimitiveType::kS8, PrimitiveType::kBF16, PrimitiveType::kF32, PrimitiveType::kC64, PrimitiveType::kC128}) {
    for (int n = 0; n < 120; ++n) {
      Shape from = RandomShape(rng, type), to = from;
      from.set_layout(RandomLayout(rng, from.rank(), n % 4 == 0));
      to.set_layout(RandomLayout(rng, to.rank(), n % 4 == 0));
      SCOPED_TRACE(absl::StrCat(from.ToString(true), " to ", to.ToString(true)));
      absl::StatusOr<Relayout> r = Relayout::Plan(from, to, PaddingFill::kZero);
      ASSERT_TRUE(r.ok()) << r.status();
      if (r->source_bytes() > 100000 || r->target_bytes() > 100000) continue;
      std::vector<std::byte> source(static_cast<size_t>(r->source_bytes())),
          target(static_cast<size_t>(r->target_bytes()), std::byte{0xAB});
      for (std::byte& b : source) b = static_cast<std::byte>(rng());
      r->Run(source.data(), target.data());
      EXPECT_EQ(target, Expected(from, to, source, static_cast<size_t>(ByteWidth(type))));
      ++done;
    }
  }
  EXPECT_GT(done, 400);
}

TEST(Relayout, TilesOfAcceleratorsBothWays) {
  std::mt19937 rng(5);
  const struct {
    const char *plain, *tiled;
  } cases[] = {{"f32[50,300]{1,0}", "f32[50,300]{1,0:T(8,128)}"},
               {"bf16[50,300]{1,0}", "bf16[50,300]{1,0:T(8,128)(2,1)}"},
               {"s8[50,300]{1,0}", "s8[50,300]{1,0:T(8,128)(4,1)}"},
               {"s8[70,300]{1,0}", "s8[70,300]{1,0:T(32,128)(4,1)}"},
               {"bf16[3,17,200]{2,1,0}", "bf16[3,17,200]{2,1,0:T(8,128)(2,1)}"},
               {"f32[3,17,200]{2,1,0}", "f32[3,17,200]{1,2,0:T(8,128)}"},
               {"f32[200]{0}", "f32[200]{0:T(1024)}"},
               {"f32[64,48]{1,0}", "f32[64,48]{0,1}"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.tiled);
    const Shape plain = ShapeOf(c.plain), tiled = ShapeOf(c.tiled);
    const size_t width = static_cast<size_t>(ByteWidth(plain.element_type()));
    absl::StatusOr<Relayout> there = Relayout::Plan(plain, tiled), back = Relayout::Plan(tiled, plain);
    ASSERT_TRUE(there.ok() && back.ok());
    std::vector<std::byte> source(static_cast<size_t>(there->source_bytes()));
    for (std::byte& b : source) b = static_cast<std::byte>(rng());
    // Padding is poison that must stay and never come back.
    std::vector<std::byte> target(static_cast<size_t>(there->target_bytes()), std::byte{0xAB}), again(source.size());
    there->Run(source.data(), target.data());
    std::vector<std::byte> expected = Expected(plain, tiled, source, width);
    const PhysicalLayout p = *PhysicalLayout::Of(tiled);
    for (int64_t i = 0; i < p.num_elements(); ++i) {
      if (!p.LogicalIndex(i)) std::memset(&expected[static_cast<size_t>(i) * width], 0xAB, width);
    }
    EXPECT_EQ(target, expected);
    back->Run(target.data(), again.data());
    EXPECT_EQ(again, source);
  }
}

// Large targets are written past the caches, by other code.
TEST(Relayout, LargeArraysBothWays) {
  std::mt19937 rng(6);
  const struct {
    const char *plain, *tiled;
  } cases[] = {{"f32[1030,1300]{1,0}", "f32[1030,1300]{1,0:T(8,128)}"},
               {"bf16[1030,2600]{1,0}", "bf16[1030,2600]{1,0:T(8,128)(2,1)}"},
               {"bf16[1024,2560]{1,0}", "bf16[1024,2560]{1,0:T(8,128)(2,1)}"},
               {"s8[2100,2601]{1,0}", "s8[2100,2601]{1,0:T(32,128)(4,1)}"},
               {"s8[2100,2601]{1,0}", "s8[2100,2601]{1,0:T(8,128)(4,1)}"},
               {"c64[1000,700]{1,0}", "c64[1000,700]{0,1}"},
               {"f32[1111,1301]{1,0}", "f32[1111,1301]{0,1}"},
               {"bf16[2100,2601]{1,0}", "bf16[2100,2601]{0,1}"},
               {"s8[2100,2601]{1,0}", "s8[2100,2601]{0,1}"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.tiled);
    const Shape plain = ShapeOf(c.plain), tiled = ShapeOf(c.tiled);
    const size_t width = static_cast<size_t>(ByteWidth(plain.element_type()));
    absl::StatusOr<Relayout> there = Relayout::Plan(plain, tiled), back = Relayout::Plan(tiled, plain);
    ASSERT_TRUE(there.ok() && back.ok());
    std::vector<uint32_t> source(static_cast<size_t>(there->source_bytes()) / 4 + 1), again(source.size());
    for (uint32_t& word : source) word = rng();
    std::vector<std::byte> target(static_cast<size_t>(there->target_bytes()), std::byte{0xAB});
    there->Run(source.data(), target.data());
    const PhysicalLayout from = *PhysicalLayout::Of(plain), to = *PhysicalLayout::Of(tiled);
    for (int n = 0; n < 20000; ++n) {
      const DimVector at = {static_cast<int64_t>(rng() % static_cast<uint64_t>(plain.dimensions(0))),
                            static_cast<int64_t>(rng() % static_cast<uint64_t>(plain.dimensions(1)))};
      ASSERT_EQ(
          std::memcmp(reinterpret_cast<const char*>(source.data()) + static_cast<size_t>(from.LinearIndex(at)) * width,
                      &target[static_cast<size_t>(to.LinearIndex(at)) * width], width),
          0)
          << at[0] << "," << at[1];
    }
    back->Run(target.data(), again.data());
    EXPECT_EQ(std::memcmp(source.data(), again.data(), static_cast<size_t>(there->source_bytes())), 0);
  }
}

TEST(Relayout, PackedElements) {
  std::mt19937 rng(9);
  for (const char* packed : {"s4[5,7]{1,0:E(4)}", "s4[5,7]{0,1:T(2,4)E(4)}", "s4[40,130]{1,0:T(8,128)(2,1)E(4)}",
                             "s4[40,130]{1,0:T(8,128)E(4)}", "s4[17,3,300]{2,1,0:T(8,128)E(4)}",
                             "u2[24,300]{1,0:T(8,128)E(2)}", "u4[9]{0:E(4)}", "s2[13]{0:E(2)}", "u2[3,6]{0,1:E(2)}"}) {
    SCOPED_TRACE(packed);
    const Shape to = ShapeOf(packed), from = to.WithoutLayout();
    absl::StatusOr<Relayout> pack = Relayout::Plan(from, to, PaddingFill::kZero), unpack = Relayout::Plan(to, from);
    ASSERT_TRUE(pack.ok()) << pack.status();
    ASSERT_TRUE(unpack.ok()) << unpack.status();
    const PrimitiveType type = to.element_type();
    const int bits = BitWidth(type);
    std::vector<int8_t> source(static_cast<size_t>(from.num_elements())), again(source.size());
    for (int8_t& v : source) {
      const int raw = static_cast<int>(rng() % (1u << bits));
      v = static_cast<int8_t>(IsSigned(type) ? raw - (raw >> (bits - 1) << bits) : raw);
    }
    std::vector<uint8_t> target(static_cast<size_t>(pack->target_bytes()), 0xFF);
    pack->Run(source.data(), target.data());
    const PhysicalLayout p = *PhysicalLayout::Of(to);
    const std::vector<int64_t> at = Indices(p);
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t bit = at[i] * bits;
      EXPECT_EQ((target[bit / 8] >> (bit % 8)) & ((1 << bits) - 1), source[i] & ((1 << bits) - 1)) << i;
    }
    unpack->Run(target.data(), again.data());
    EXPECT_EQ(again, source);
  }
}

// Runs that are packed past the caches.
TEST(Relayout, LargePackedArrays) {
  std::mt19937 rng(10);
  const Shape plain = ShapeOf("s4[3000,3008]{1,0}"), tiled = ShapeOf("s4[3000,3008]{1,0:T(8,128)E(4)}"),
              packed = ShapeOf("s4[3072,3072]{1,0:E(4)}"), packed_tiles = ShapeOf("s4[3072,3072]{1,0:T(8,128)E(4)}");
  for (const auto& [from, to] : {std::pair{plain, tiled}, std::pair{packed, packed_tiles}}) {
    SCOPED_TRACE(to.ToString(true));
    absl::StatusOr<Relayout> there = Relayout::Plan(from, to), back = Relayout::Plan(to, from);
    ASSERT_TRUE(there.ok() && back.ok());
    std::vector<int8_t> source(static_cast<size_t>(there->source_bytes())), again(source.size());
    const bool is_packed = from.layout().element_size_in_bits == 4;
    for (int8_t& v : source) v = static_cast<int8_t>(is_packed ? rng() : rng() % 16 - 8);
    std::vector<uint8_t> target(static_cast<size_t>(there->target_bytes()), 0xAB);
    there->Run(source.data(), target.data());
    const PhysicalLayout a = *PhysicalLayout::Of(from), b = *PhysicalLayout::Of(to);
    auto at = [](const auto& bytes, int64_t i) { return (bytes[static_cast<size_t>(i / 2)] >> (i % 2 * 4)) & 15; };
    for (int n = 0; n < 20000; ++n) {
      const DimVector i = {static_cast<int64_t>(rng() % static_cast<uint64_t>(from.dimensions(0))),
                           static_cast<int64_t>(rng() % static_cast<uint64_t>(from.dimensions(1)))};
      const int64_t k = a.LinearIndex(i);
      ASSERT_EQ(is_packed ? at(source, k) : source[static_cast<size_t>(k)] & 15, at(target, b.LinearIndex(i)))
          << i[0] << "," << i[1];
    }
    back->Run(target.data(), again.data());
    EXPECT_EQ(source, again);
  }
}

// Any two layouts of elements below a byte: packed on neither side, on one or on both, in elements of the type's width
// or of a wider one. Held against the places that the indices name, bit by bit; padding is left as it was.
TEST(Relayout, RandomPackedPairs) {
  std::mt19937 rng(21);
  int done = 0, packed_both = 0;
  for (PrimitiveType type : {PrimitiveType::kS4, PrimitiveType::kU4, PrimitiveType::kS2, PrimitiveType::kU2,
                             PrimitiveType::kU1, PrimitiveType::kF4E2M1FN}) {
    for (int n = 0; n < 80; ++n) {
      Shape from = RandomShape(rng, type), to = from;
      for (Shape* s : {&from, &to}) {
        s->set_layout(RandomLayout(rng, s->rank(), n % 4 == 0));
        const int64_t widths[] = {BitWidth(type), BitWidth(type), 4, 0, 8};
        s->mutable_layout().element_size_in_bits = widths[rng() % 5];
      }
      SCOPED_TRACE(absl::StrCat(from.ToString(true), " to ", to.ToString(true)));
      const PhysicalLayout a = *PhysicalLayout::Of(from), b = *PhysicalLayout::Of(to);
      if (a.byte_size() > 50000 || b.byte_size() > 50000) continue;
      absl::StatusOr<Relayout> r = Relayout::Plan(from, to);
      ASSERT_TRUE(r.ok()) << r.status();
      const int bits = BitWidth(type);
      std::vector<uint8_t> source(static_cast<size_t>(a.byte_size())), target(static_cast<size_t>(b.byte_size()), 0xA5);
      auto put = [](std::vector<uint8_t>& bytes, int64_t place, int64_t width, int value) {
        const int64_t bit = place * width;
        const int mask = (1 << width) - 1;
        uint8_t& byte = bytes[static_cast<size_t>(bit / 8)];
        byte = static_cast<uint8_t>((byte & ~(mask << bit % 8)) | (value & mask) << bit % 8);
      };
      const std::vector<int64_t> i = Indices(a), j = Indices(b);
      std::vector<uint8_t> want = target;
      for (size_t k = 0; k < i.size(); ++k) {
        int value = static_cast<int>(rng() % (1u << bits));
        if (IsSigned(type)) value -= value >> (bits - 1) << bits;  // extended by its sign where there is room
        put(source, i[k], a.element_bits(), value);
        put(want, j[k], b.element_bits(), value);
      }
      r->Run(source.data(), target.data());
      // Bits behind the last element are of no one.
      const int64_t spare = b.byte_size() * 8 - b.num_elements() * b.element_bits();
      if (spare > 0) {
        for (auto* bytes : {&target, &want}) bytes->back() &= static_cast<uint8_t>(0xFF >> spare);
      }
      EXPECT_EQ(target, want);
      ++done;
      packed_both += a.element_bits() < 8 && b.element_bits() < 8;
    }
  }
  EXPECT_GT(done, 300);
  EXPECT_GT(packed_both, 100);
}

// The bytes in front go along; where only one side has them there is nothing to fill them with.
TEST(Relayout, MetadataGoesAlong) {
  const Shape from = ShapeOf("s16[2,3]{1,0:M(4)}"), to = ShapeOf("s16[2,3]{0,1:T(2)L(8)M(4)}");
  absl::StatusOr<Relayout> r = Relayout::Plan(from, to, PaddingFill::kZero);
  ASSERT_TRUE(r.ok()) << r.status();
  const int16_t source[] = {77, 78, 1, 2, 3, 4, 5, 6};
  std::vector<int16_t> target(static_cast<size_t>(r->target_bytes()) / 2, -1);
  r->Run(source, target.data());
  EXPECT_THAT(target, ElementsAre(77, 78, 1, 4, 2, 5, 3, 6, 0, 0));
  EXPECT_EQ(Relayout::Plan(from, ShapeOf("s16[2,3]{1,0}")).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Relayout, PaddedForm) {
  const std::vector<int64_t> dims = {2, 3}, order = {0, 1}, padded = {3, 5};
  const PhysicalLayout to = *PhysicalLayout::Padded(dims, order, padded, 32),
                       from = *PhysicalLayout::Of(dims, Layout::RowMajor(2), 32);
  absl::StatusOr<Relayout> r = Relayout::Plan(PrimitiveType::kS32, from, to, PaddingFill::kZero);
  ASSERT_TRUE(r.ok()) << r.status();
  const int32_t source[] = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> target(15, -1);
  r->Run(source, target.data());
  EXPECT_THAT(target, ElementsAre(1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace backplane
