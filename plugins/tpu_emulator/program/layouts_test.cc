#include "plugins/tpu_emulator/program/layouts.h"

#include <random>

#include "core/types/physical_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/program/program_testing.h"

namespace backplane::tpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Whether every element has the same offset in both shapes.
bool HaveSameOffsets(const Shape& a, const Shape& b) {
  const PhysicalLayout from = *PhysicalLayout::Of(a), to = *PhysicalLayout::Of(b);
  if (from.byte_size() != to.byte_size()) return false;
  const auto index = [](const Shape& s, int64_t linear) {
    DimVector at(static_cast<size_t>(s.rank()), 0);
    for (int64_t d = s.rank(); d-- > 0;) {
      at[static_cast<size_t>(d)] = linear % s.dimensions(d);
      linear /= s.dimensions(d);
    }
    return at;
  };
  for (int64_t n = 0; n < a.num_elements(); ++n) {
    if (from.LinearIndex(index(a, n)) != to.LinearIndex(index(b, n))) return false;
  }
  return true;
}

// Random reshapes: a bitcast must not move any element.
TEST(Layouts, BitcastsMoveNoElements) {
  std::mt19937 random(11);
  const int64_t factors[] = {1, 1, 2, 3, 4, 8, 16, 128};
  int bitcasts = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<int64_t> parts;
    int64_t product = 1;
    for (int k = 0; k < 5; ++k) {
      const int64_t f = factors[random() % 8];
      if (product * f > 20000) continue;
      parts.push_back(f);
      product *= f;
    }
    const auto merged = [&] {
      std::vector<int64_t> dims;
      for (int64_t p : parts) {
        if (dims.empty() || random() % 2 == 0) {
          dims.push_back(p);
        } else {
          dims.back() *= p;
        }
      }
      return dims;
    };
    const PrimitiveType types[] = {PrimitiveType::kF32, PrimitiveType::kBF16, PrimitiveType::kS8};
    const PrimitiveType type = types[random() % 3];
    Shape from(type, merged());
    const Shape to(type, merged());
    std::vector<int64_t> order(static_cast<size_t>(from.rank()));
    for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
    if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
    from.set_layout(TiledLayout(type, from.dimensions(), order));
    const std::optional<Layout> layout = BitcastLayout(from, to, {});
    if (!layout) continue;
    ++bitcasts;
    Shape out = to;
    out.set_layout(*layout);
    EXPECT_TRUE(HaveSameOffsets(from, out)) << from.ToString(true) << " to " << out.ToString(true);
  }
  EXPECT_GT(bitcasts, 300);
}

TEST(Layouts, RecognizesCommonBitcasts) {
  const auto layout = [](std::initializer_list<int64_t> from, std::initializer_list<int64_t> to) {
    Shape a(PrimitiveType::kF32, from);
    a.set_layout(TiledLayout(PrimitiveType::kF32, a.dimensions(), Layout::RowMajor(a.rank()).minor_to_major));
    return BitcastLayout(a, Shape(PrimitiveType::kF32, to), {}).has_value();
  };
  EXPECT_TRUE(layout({4, 128, 768}, {512, 768}));
  EXPECT_TRUE(layout({512, 768}, {4, 128, 768}));
  EXPECT_TRUE(layout({8, 128}, {1, 8, 128}));
  EXPECT_FALSE(layout({4, 100, 768}, {400, 768}));  // 100 is not a multiple of the tile's rows
  EXPECT_FALSE(layout({128, 768}, {128, 12, 64}));
}

std::string TextOf(absl::string_view entry) {
  PreparedProgram p = PrepareFromText(absl::StrCat("HloModule m\n", entry));
  return p.kernels == nullptr ? "" : p.kernels->ToString();
}

TEST(Layouts, TransposesAreBitcastsWithACopyForAnotherLayout) {
  const std::string text = TextOf(
      "ENTRY e { a = f32[256,512] parameter(0) ROOT t = f32[512,256] transpose(a), "
      "dimensions={1,0} }");
  EXPECT_THAT(text, HasSubstr("= f32[512,256]{0,1:T(8,128)} bitcast("));
  EXPECT_THAT(text, HasSubstr("ROOT %copy = f32[512,256]{1,0:T(8,128)} copy("));
  EXPECT_THAT(text, Not(HasSubstr("transpose(")));
}

TEST(Layouts, ProductsReadTransposedOperandsDirectly) {
  const std::string text = TextOf(R"(ENTRY e {
    a = f32[256,512] parameter(0)
    w = f32[384,512] parameter(1)
    t = f32[512,384] transpose(w), dimensions={1,0}
    ROOT d = f32[256,384] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} })");
  EXPECT_THAT(text, Not(HasSubstr(" copy(")));
}

TEST(Layouts, KernelsUseOneOrderForTheirArrays) {
  const std::string text = TextOf(R"(ENTRY e {
    a = f32[256,512] parameter(0)
    b = f32[512,256] parameter(1)
    t = f32[512,256] transpose(a), dimensions={1,0}
    s = f32[512,256] add(t, b)
    ROOT e = f32[512,256] exponential(s) })");
  EXPECT_THAT(text, HasSubstr(" copy("));
  EXPECT_THAT(text, HasSubstr("kind=kLoop"));
}

// A kernel uses the order that most of its arrays have: one copy instead of two.
TEST(Layouts, ChoosesTheOrderWithFewestCopies) {
  const std::string text = TextOf(R"(ENTRY e {
    a = f32[256,512] parameter(0)
    b = f32[512,256] parameter(1)
    t = f32[512,256] transpose(a), dimensions={1,0}
    ROOT s = f32[512,256] add(t, b) })");
  EXPECT_EQ(text.find(" copy("), text.rfind(" copy("));
}

// The update of weights in a training step: the gradient is computed in the weights' layout, and the update is its
// epilogue.
TEST(Layouts, WritesATransposedProductInTheWantedLayout) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
  ENTRY e {
    x = f32[1024,512] parameter(0)
    g = f32[1024,256] parameter(1)
    w = f32[512,256] parameter(2)
    r = f32[] constant(0.5)
    d = f32[256,512] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    t = f32[512,256] transpose(d), dimensions={1,0}
    b = f32[512,256] broadcast(r), dimensions={}
    m = f32[512,256] multiply(t, b)
    ROOT s = f32[512,256] subtract(w, m) })");
  EXPECT_EQ(DescribeKernels(*p.kernels), "kOutput: dot, multiply, subtract");
}

TEST(Layouts, LoopsKeepTheLayoutsOfTheirState) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
  cond { s = (s32[], f32[300,500]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
         ROOT c = pred[] compare(i, n), direction=LT }
  body { s = (s32[], f32[300,500]) parameter(0) i = s32[] get-tuple-element(s), index=0
         x = f32[300,500] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
         y = f32[300,500] multiply(x, x) ROOT t = (s32[], f32[300,500]) tuple(j, y) }
  ENTRY e { x = f32[500,300] parameter(0) o = s32[] constant(0) y = f32[300,500] transpose(x), dimensions={1,0}
            t = (s32[], f32[300,500]) tuple(o, y)
            w = (s32[], f32[300,500]) while(t), condition=cond, body=body
            ROOT r = f32[300,500] get-tuple-element(w), index=1 })");
  const Instruction* loop = nullptr;
  for (const auto& i : p.kernels->entry()->instructions()) {
    if (i->Is(Opcode::kWhile)) loop = i.get();
  }
  ASSERT_NE(loop, nullptr);
  for (const Shape& s : {loop->operand(0)->shape(), loop->called(0)->parameter(0)->shape(),
                         loop->called(1)->parameter(0)->shape(), loop->called(1)->root()->shape()}) {
    EXPECT_EQ(s.tuple_shapes(1).layout().minor_to_major, loop->shape().tuple_shapes(1).layout().minor_to_major);
  }
}

}  // namespace
}  // namespace backplane::tpu
