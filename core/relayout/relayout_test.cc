// Copies between any two layouts.
#include "core/relayout/relayout.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/types/layout_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Copies elements by definition: through the indices of both layouts.
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
    const Shape plain = MakeShape(c.plain), tiled = MakeShape(c.tiled);
    const size_t width = static_cast<size_t>(ByteWidth(plain.element_type()));
    absl::StatusOr<Relayout> there = Relayout::Plan(plain, tiled), back = Relayout::Plan(tiled, plain);
    ASSERT_TRUE(there.ok() && back.ok());
    std::vector<std::byte> source(static_cast<size_t>(there->source_bytes()));
    for (std::byte& b : source) b = static_cast<std::byte>(rng());
    // Padding holds a poison value that must neither change nor be copied.
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

// Large targets are written with non-temporal stores, by separate code.
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
    const Shape plain = MakeShape(c.plain), tiled = MakeShape(c.tiled);
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
    const Shape to = MakeShape(packed), from = to.WithoutLayout();
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

// Packed runs with non-temporal stores.
TEST(Relayout, LargePackedArrays) {
  std::mt19937 rng(10);
  const Shape plain = MakeShape("s4[3000,3008]{1,0}"), tiled = MakeShape("s4[3000,3008]{1,0:T(8,128)E(4)}"),
              packed = MakeShape("s4[3072,3072]{1,0:E(4)}"),
              packed_tiles = MakeShape("s4[3072,3072]{1,0:T(8,128)E(4)}");
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

// Any two layouts of sub-byte elements: packed on neither side, on one or on both, with the type's width or a wider
// one. Compares with the positions of the indices bit by bit. Padding must not change.
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
      auto put = [](std::vector<uint8_t>& bytes, int64_t position, int64_t width, int value) {
        const int64_t bit = position * width;
        const int mask = (1 << width) - 1;
        uint8_t& byte = bytes[static_cast<size_t>(bit / 8)];
        byte = static_cast<uint8_t>((byte & ~(mask << bit % 8)) | (value & mask) << bit % 8);
      };
      const std::vector<int64_t> i = Indices(a), j = Indices(b);
      std::vector<uint8_t> want = target;
      for (size_t k = 0; k < i.size(); ++k) {
        int value = static_cast<int>(rng() % (1u << bits));
        if (IsSigned(type)) value -= value >> (bits - 1) << bits;  // sign-extended if there is room
        put(source, i[k], a.element_bits(), value);
        put(want, j[k], b.element_bits(), value);
      }
      r->Run(source.data(), target.data());
      // Bits behind the last element are unspecified.
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

// The prefix is copied if both layouts have one; otherwise there is nothing to fill it with.
TEST(Relayout, MetadataGoesAlong) {
  const Shape from = MakeShape("s16[2,3]{1,0:M(4)}"), to = MakeShape("s16[2,3]{0,1:T(2)L(8)M(4)}");
  absl::StatusOr<Relayout> r = Relayout::Plan(from, to, PaddingFill::kZero);
  ASSERT_TRUE(r.ok()) << r.status();
  const int16_t source[] = {77, 78, 1, 2, 3, 4, 5, 6};
  std::vector<int16_t> target(static_cast<size_t>(r->target_bytes()) / 2, -1);
  r->Run(source, target.data());
  EXPECT_THAT(target, ElementsAre(77, 78, 1, 4, 2, 5, 3, 6, 0, 0));
  EXPECT_EQ(Relayout::Plan(from, MakeShape("s16[2,3]{1,0}")).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Relayout, RefusesShapesThatDifferInMoreThanTheLayout) {
  EXPECT_FALSE(Relayout::Plan(MakeShape("f32[2]"), MakeShape("f32[3]")).ok());
  EXPECT_FALSE(Relayout::Plan(MakeShape("f32[2]"), MakeShape("s32[2]")).ok());
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
