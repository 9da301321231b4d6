// Compares copies in pieces with the definition. Padding must not change.
#include "plugins/tpu_emulator/plugin/tiled_copy.h"

#include <cstring>
#include <vector>

#include "core/types/physical_layout.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {
namespace {

void Check(const Shape& shape) {
  SCOPED_TRACE(shape.ToString(true));
  auto physical = PhysicalLayout::Of(shape);
  ASSERT_TRUE(physical.ok()) << physical.status();
  const size_t width = static_cast<size_t>(ByteWidth(shape.element_type()));
  const size_t count = static_cast<size_t>(shape.num_elements()), tiles = static_cast<size_t>(physical->byte_size());
  std::vector<uint8_t> rows(count * width), wanted(tiles, 0xee), found(tiles, 0xee), back(count * width, 0);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  DimVector at(static_cast<size_t>(shape.rank()), 0);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&wanted[static_cast<size_t>(physical->LinearIndex(at)) * width], &rows[i * width], width);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == shape.dimensions(static_cast<int64_t>(d));) at[d] = 0;
  }
  engine::ThreadPool pool({.num_threads = 2});
  auto in = TiledCopy::Plan(shape, TiledCopy::Direction::kToTiled),
       out = TiledCopy::Plan(shape, TiledCopy::Direction::kToRowMajor);
  ASSERT_TRUE(in.ok() && out.ok()) << in.status() << out.status();
  in->Run(rows.data(), found.data(), &pool);
  EXPECT_TRUE(found == wanted);
  out->Run(found.data(), back.data(), &pool);
  EXPECT_TRUE(back == rows);
  if (rows.size() > (1u << 21) && shape.dimensions(0) > 16) {
    EXPECT_GT(out->pieces(), 2u);
  }
}

TEST(TiledCopy, CopiesEveryElement) {
  for (PrimitiveType type : {PrimitiveType::kF32, PrimitiveType::kBF16, PrimitiveType::kS8, PrimitiveType::kF64}) {
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{},
                                                                              {5},
                                                                              {3000, 300},
                                                                              {1031, 517},
                                                                              {257, 8, 130},
                                                                              {256, 8, 32},
                                                                              {9, 131, 700},
                                                                              {700001},
                                                                              {3, 5, 7, 900, 40}}) {
      Shape shape(type, dims);
      shape.set_layout(DefaultLayout(type, dims));
      Check(shape);
    }
  }
}

TEST(TiledCopy, RecognizesDenseRowMajorLayouts) {
  auto lies = [](const std::vector<int64_t>& dims) {
    Shape shape(PrimitiveType::kF32, dims);
    shape.set_layout(DefaultLayout(PrimitiveType::kF32, dims));
    return IsDenseRowMajor(shape);
  };
  EXPECT_TRUE(lies({8, 128}));
  EXPECT_TRUE(lies({512, 128}));
  EXPECT_TRUE(lies({3, 8, 128}));
  EXPECT_TRUE(lies({1024}));
  EXPECT_FALSE(lies({8, 256}));
  EXPECT_FALSE(lies({9, 128}));
  EXPECT_FALSE(lies({1000}));
}

}  // namespace
}  // namespace backplane::tpu
