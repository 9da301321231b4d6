// Layouts: text, indices in both directions and sizes. The vectors TV-* are those of the layout specification; tables
// list linear indices row by row.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/layout_test.h"
#include "core/types/physical_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(Layout, TextAsXlaPrintsIt) {
  for (const char* text :
       {"f32[2,3]{1,0}", "f32[2,3]{0,1}", "bf16[16,256]{1,0:T(8,128)(2,1)}", "s4[8,256]{1,0:T(8,128)E(4)}",
        "f32[8,128]{1,0:T(8,128)S(5)}", "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", "s4[64]{0:T(128)(4,1)E(4)S(1)}"}) {
    Shape s = MakeShape(text);
    EXPECT_EQ(s.ToString(true), text);
    EXPECT_TRUE(MakeShape(s.ToString(true)).Identical(s));
  }
  EXPECT_EQ(MakeShape("f32[]").ToString(true), "f32[]");
  EXPECT_EQ(Layout::RowMajor(3).ToString(), "{2,1,0}");  // TV-L3
  EXPECT_EQ(Layout::RowMajor(0).ToString(), "{}");
}

TEST(Layout, DenseOrders) {
  EXPECT_THAT(Indices(MakePhysicalLayout("f32[2,3]{0,1}")), ElementsAre(0, 2, 4, 1, 3, 5));  // TV-L1: a d b e c f
  EXPECT_THAT(Indices(MakePhysicalLayout("f32[2,3]{1,0}")), ElementsAre(0, 1, 2, 3, 4, 5));  // TV-L2
  EXPECT_THAT(Indices(MakePhysicalLayout("f32[2,3]")), ElementsAre(0, 1, 2, 3, 4, 5));       // TV-L3
  EXPECT_THAT(Indices(MakePhysicalLayout("f32[]")), ElementsAre(0));
  const struct {
    const char* shape;
    std::vector<int64_t> index;
    int64_t linear;
  } cases[] = {{"f32[2,3,4]{2,1,0}", {1, 2, 3}, 23},
               {"f32[2,3,4]{0,1,2}", {1, 2, 3}, 23},
               {"f32[2,3,4]{2,1,0}", {1, 0, 2}, 14},
               {"f32[2,3,4]{0,1,2}", {1, 0, 2}, 13},
               {"f32[2,3,4]{1,2,0}", {1, 0, 2}, 18}};  // TV-L4
  for (const auto& c : cases) EXPECT_EQ(MakePhysicalLayout(c.shape).LinearIndex(c.index), c.linear) << c.shape;
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
  PhysicalLayout p = MakePhysicalLayout("f32[3,5]{1,0:T(2,2)}");
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
  PhysicalLayout q = MakePhysicalLayout("f32[3,5]{0,1:T(2,2)}");
  EXPECT_THAT(q.bounds(), ElementsAre(3, 2, 2, 2));
  EXPECT_THAT(Indices(q), ElementsAre(0, 2, 8, 10, 16, 1, 3, 9, 11, 17, 4, 6, 12, 14, 20));
  // TV-T5: a tile of lower rank.
  PhysicalLayout r = MakePhysicalLayout("f32[2,3,5]{2,1,0:T(2,2)}");
  EXPECT_THAT(r.bounds(), ElementsAre(2, 2, 3, 2, 2));
  EXPECT_EQ(r.num_elements(), 48);
  EXPECT_EQ(r.LinearIndex({1, 0, 0}), 24);
  EXPECT_EQ(r.LinearIndex({1, 2, 3}), 41);
  Indices(r);
}

TEST(Layout, RepeatedTiles) {
  PhysicalLayout p = MakePhysicalLayout("bf16[4,8]{1,0:T(2,4)(2,1)}");  // TV-T7
  EXPECT_THAT(p.bounds(), ElementsAre(2, 2, 1, 4, 2, 1));
  EXPECT_THAT(Indices(p), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18, 20, 22, 24, 26, 28,
                                      30, 17, 19, 21, 23, 25, 27, 29, 31));
  EXPECT_THAT(Indices(MakePhysicalLayout("bf16[4,8]{1,0:T(2,4)}")),  // TV-T8
              ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19, 24, 25, 26, 27, 20, 21,
                          22, 23, 28, 29, 30, 31));
  PhysicalLayout q = MakePhysicalLayout("f32[4,4]{1,0:T(2,2)(2,1,1)}");  // TV-T9
  EXPECT_THAT(q.bounds(), ElementsAre(2, 1, 2, 2, 2, 1, 1));
  EXPECT_THAT(Indices(q), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  PhysicalLayout r = MakePhysicalLayout("bf16[3,5]{1,0:T(2,2)(2,1)}");  // TV-T10
  EXPECT_THAT(r.bounds(), ElementsAre(2, 3, 1, 2, 2, 1));
  EXPECT_THAT(Indices(r), ElementsAre(0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 12, 14, 16, 18, 20));
}

TEST(Layout, TpuTiles) {
  const PhysicalLayout pairs = MakePhysicalLayout("bf16[16,256]{1,0:T(8,128)(2,1)}"),
                       plain = MakePhysicalLayout("f32[16,256]{1,0:T(8,128)}");
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
  const PhysicalLayout padded = MakePhysicalLayout("bf16[10,200]{1,0:T(8,128)(2,1)}");  // TV-T12
  EXPECT_EQ(padded.num_elements(), 4096);
  EXPECT_EQ(padded.num_elements() - padded.num_logical(), 2096);
  EXPECT_EQ(padded.LinearIndex({8, 0}), 2048);
  EXPECT_EQ(padded.LinearIndex({0, 128}), 1024);
  EXPECT_EQ(padded.LinearIndex({8, 128}), 3072);
  EXPECT_EQ(padded.LinearIndex({9, 199}), 3215);
  Indices(padded);
}

TEST(Layout, CombinedDimensions) {
  PhysicalLayout p = MakePhysicalLayout("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}");  // TV-T13
  EXPECT_THAT(p.bounds(), ElementsAre(56, 37, 2, 3));                                 // TV-T14
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
  Indices(MakePhysicalLayout("f32[3,5,2]{2,1,0:T(*,4)}"));
  Indices(MakePhysicalLayout("f32[3,5]{1,0:T(2,3)(*,*,2)}"));
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
      int64_t position = 0;
      bool inside = true;
      for (size_t i = 0; i < n; ++i) {
        inside = inside && at[i] < dims[i];
        position = position * dims[i] + at[i];
      }
      wide.push_back(inside ? data[position] : -1);
    });
    std::vector<int64_t> result(padded.begin(), padded.end() - static_cast<std::ptrdiff_t>(k));
    for (size_t i = 0; i < k; ++i) result.push_back(padded[n - k + i] / tile.dims[i]);
    result.insert(result.end(), tile.dims.begin(), tile.dims.end());
    std::vector<int64_t> moved;
    for_each(result, [&](const std::vector<int64_t>& at) {
      int64_t position = 0;
      for (size_t i = 0; i < n; ++i) {
        const int64_t e = i < n - k ? at[i] : at[i] * tile.dims[i - (n - k)] + at[i + k];
        position = position * padded[i] + e;
      }
      moved.push_back(wide[position]);
    });
    dims = result;
    data = moved;
  }
  return data;
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
  EXPECT_THAT(MakePhysicalLayout("f32[2,3]").CheckedLinearIndex({1, 3}).status().message(),
              HasSubstr("dimension 1 has size 3"));
  EXPECT_THAT(MakePhysicalLayout("f32[2,3]").CheckedLinearIndex({1}).status().message(), HasSubstr("rank 2"));
  EXPECT_FALSE(PhysicalLayout::Of(Shape::Token()).ok());
}

// L rounds up the number of elements behind the last tile, and M precedes all elements; neither moves an element.
TEST(Layout, TailAndPrefix) {
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(4)}").byte_size(), 32);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(6)}").byte_size(), 24);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(1024)}").byte_size(), 4096);
  EXPECT_EQ(MakePhysicalLayout("f32[3,5]{1,0:T(2,2)L(32)}").byte_size(), 128);
  EXPECT_EQ(MakePhysicalLayout("s4[3,5]{1,0:L(32)E(4)}").byte_size(), 16);
  EXPECT_EQ(MakePhysicalLayout("f32[]{:L(128)}").byte_size(), 512);
  EXPECT_EQ(MakePhysicalLayout("f32[0,3]{1,0:L(128)}").byte_size(), 0);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:M(8)}").byte_size(), 32);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:M(8)}").prefix_bytes(), 8);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(8)#(u32)*(u64)S(1)SC(0:1)M(24)}").byte_size(), 56);
  for (const char* text : {"f32[3,5]{1,0:T(2,2)L(32)}", "f32[3,5]{0,1:L(7)M(16)}", "f32[2,3,5]{2,1,0:T(*,4)L(100)}"})
    Indices(MakePhysicalLayout(text));
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(8)}").LogicalIndex(6), std::nullopt);
  EXPECT_EQ(MakePhysicalLayout("f32[2,3]{1,0:L(8)}").LogicalIndex(7), std::nullopt);
  EXPECT_FALSE(PhysicalLayout::Of(MakeShape("s8[9,9]{1,0:L(9223372036854775807)M(9)}")).ok());
  EXPECT_FALSE(PhysicalLayout::Of(MakeShape("f32[9,9]{1,0:L(9223372036854775807)}")).ok());
}

TEST(Layout, ElementSizes) {
  EXPECT_EQ(MakePhysicalLayout("s4[3,5]{1,0:E(4)}").byte_size(), 8);
  EXPECT_EQ(MakePhysicalLayout("s4[3,5]{1,0}").byte_size(), 15);
  EXPECT_EQ(MakePhysicalLayout("s4[8,128]{1,0:T(8,128)E(4)}").byte_size(), 512);
  EXPECT_EQ(MakePhysicalLayout("c128[2]").byte_size(), 32);
  EXPECT_EQ(MakePhysicalLayout("f32[0,3]{1,0:T(8,128)}").byte_size(), 0);
  EXPECT_EQ(MakePhysicalLayout("f32[3,1]{1,0:T(8,128)}").byte_size(), 4096);
}

}  // namespace
}  // namespace backplane
