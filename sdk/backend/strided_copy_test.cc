#include "sdk/backend/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/host_storage.h"

namespace backplane {
namespace {

using testing::ElementsAre;

// The reference for StridedCopy: copies one element at a time.
template <typename T>
std::vector<T> Expected(const std::vector<int64_t>& dims, const T* src, const std::vector<int64_t>& src_strides,
                        const std::vector<int64_t>& dst_strides, size_t size) {
  std::vector<T> dst(size, T(-1));
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int64_t d = static_cast<int64_t>(dims.size()) - 1; d >= 0; --d) {
      from += rest % dims[d] * src_strides[d];
      to += rest % dims[d] * dst_strides[d];
      rest /= dims[d];
    }
    *reinterpret_cast<T*>(reinterpret_cast<char*>(dst.data()) + to) =
        *reinterpret_cast<const T*>(reinterpret_cast<const char*>(src) + from);
  }
  return dst;
}

std::vector<int64_t> Strides(const std::vector<int64_t>& dims, const std::vector<int64_t>& minor_to_major,
                             int64_t width) {
  std::vector<int64_t> strides(dims.size());
  for (int64_t d : minor_to_major) strides[d] = width, width *= dims[d];
  return strides;
}

template <typename T>
void CheckPermutations(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<T> src(n);
  std::iota(src.begin(), src.end(), T(1));
  std::vector<int64_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int64_t> from = Strides(dims, order, sizeof(T));
  do {
    const std::vector<int64_t> to = Strides(dims, order, sizeof(T));
    std::vector<T> dst(n, T(-1));
    StridedCopy(dims, sizeof(T), src.data(), from, dst.data(), to);
    EXPECT_EQ(dst, Expected(dims, src.data(), from, to, n)) << testing::PrintToString(order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StridedCopyTest, EveryPermutationOfSmallArrays) {
  CheckPermutations<int8_t>({3, 5, 7});
  CheckPermutations<int16_t>({4, 1, 6});
  CheckPermutations<int32_t>({2, 3, 4, 5});
  CheckPermutations<double>({33, 65});
}

TEST(StridedCopyTest, ReversedBroadcastAndGappedSources) {
  std::vector<int32_t> src(24);
  std::iota(src.begin(), src.end(), 0);
  std::vector<int32_t> dst(6, -1);
  StridedCopy({2, 3}, 4, src.data() + 5, {-12, -4}, dst.data(), {12, 4});
  EXPECT_THAT(dst, ElementsAre(5, 4, 3, 2, 1, 0));
  StridedCopy({2, 3}, 4, src.data(), {0, 8}, dst.data(), {12, 4});
  EXPECT_THAT(dst, ElementsAre(0, 2, 4, 0, 2, 4));
  StridedCopy({2, 3}, 4, src.data() + 1, {0, 0}, dst.data(), {4, 8});
  EXPECT_THAT(dst, ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(StridedCopyTest, ScalarsAndEmptyArrays) {
  double from = 3, to = 0;
  StridedCopy({}, 8, &from, {}, &to, {});
  EXPECT_EQ(to, 3);
  from = 4;
  StridedCopy({5, 0}, 8, &from, {0, 8}, &to, {0, 8});
  EXPECT_EQ(to, 3);
}

TEST(StridedCopyTest, DenseStridesFollowTheLayout) {
  Shape shape(PrimitiveType::kF32, {2, 3, 4});
  EXPECT_THAT(*DenseByteStrides(shape), ElementsAre(48, 16, 4));
  Layout layout = Layout::RowMajor(3);
  layout.minor_to_major = {0, 2, 1};
  shape.set_layout(layout);
  EXPECT_THAT(*DenseByteStrides(shape), ElementsAre(4, 32, 8));
  layout.minor_to_major = {0, 0, 1};
  shape.set_layout(layout);
  EXPECT_EQ(DenseByteStrides(shape).status().code(), absl::StatusCode::kInvalidArgument);
  layout = Layout::RowMajor(3);
  layout.tiles.push_back(Tile{{8, 128}});
  shape.set_layout(layout);
  EXPECT_EQ(DenseByteStrides(shape).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(StridedCopyTest, DenseRowMajorIgnoresStridesOfUnitDims) {
  EXPECT_TRUE(IsDenseRowMajor({2, 1, 3}, 4, {12, 999, 4}));
  EXPECT_FALSE(IsDenseRowMajor({2, 1, 3}, 4, {4, 12, 8}));
  EXPECT_TRUE(IsDenseRowMajor({0, 3}, 4, {1, 1}));
  EXPECT_TRUE(IsDenseRowMajor({}, 4, {}));
}

// The defaults of Client over host memory.
class HostClient : public Client {
 public:
  const Topology& topology() const override { return topology_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t, size_t bytes) override {
    return AllocateHostStorage(bytes, counter_);
  }
  bool IsHostMemory(int32_t memory) const override { return memory == 0; }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable>,
                                                         const LoadOptions&) override {
    return absl::UnimplementedError("load");
  }
  std::shared_ptr<HostMemoryCounter> counter_ = std::make_shared<HostMemoryCounter>();
  Topology topology_;
};

TEST(HostClientTest, RoundTripThroughAColumnMajorBuffer) {
  HostClient client;
  Shape shape(PrimitiveType::kS32, {2, 3});
  Layout column = Layout::RowMajor(2);
  column.minor_to_major = {0, 1};
  shape.set_layout(column);
  DeviceArray array{shape, 0, *client.Allocate(0, *client.StorageSize(shape, 0)), Event()};
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.storage->data()) % kHostStorageAlignment, 0u);
  std::vector<int32_t> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> dims = {2, 3}, strides = {12, 4};
  ASSERT_TRUE(client.CopyFromHost({values.data(), PrimitiveType::kS32, dims, strides}, array).ok());
  const auto* raw = static_cast<const int32_t*>(array.storage->data());
  EXPECT_THAT(std::vector<int32_t>(raw, raw + 6), ElementsAre(1, 4, 2, 5, 3, 6));
  Shape row_major(PrimitiveType::kS32, {2, 3});
  row_major.set_row_major();
  DeviceArray copy{row_major, 0, *client.Allocate(0, 24), Event()};
  ASSERT_TRUE(client.CopyDevice(array, copy).ok());
  std::vector<int32_t> back(6);
  ASSERT_TRUE(client.CopyToHost(copy, row_major, back.data()).ok());
  EXPECT_EQ(back, values);
  EXPECT_EQ(client.counter_->Stats().bytes_in_use, 48);
}

TEST(HostClientTest, RoundTripThroughTiles) {
  HostClient client;
  const std::vector<int64_t> dims = {3, 5};
  Shape tiled(PrimitiveType::kS32, dims), plain = tiled;
  Layout layout = Layout::RowMajor(2);
  layout.tiles.push_back(Tile{{2, 4}});
  tiled.set_layout(layout);
  plain.set_row_major();
  ASSERT_EQ(*client.StorageSize(tiled, 0), 128u);  // 2 x 2 tiles of 8
  std::vector<int32_t> values(15), back(15);
  std::iota(values.begin(), values.end(), 1);
  std::vector<int32_t> by_columns(15);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) by_columns[j * 3 + i] = values[i * 5 + j];
  }
  for (const auto& [data, strides] : {std::pair{values.data(), std::vector<int64_t>{20, 4}},
                                      std::pair{by_columns.data(), std::vector<int64_t>{4, 12}}}) {
    DeviceArray array{tiled, 0, *client.Allocate(0, 128), Event()};
    std::memset(array.storage->data(), 0xAB, 128);
    ASSERT_TRUE(client.CopyFromHost({data, PrimitiveType::kS32, dims, strides}, array).ok());
    const auto* raw = static_cast<const int32_t*>(array.storage->data());
    EXPECT_THAT(std::vector<int32_t>(raw, raw + 32), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9, 5, 0, 0, 0, 10, 0, 0, 0, 11,
                                                                 12, 13, 14, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0));
    ASSERT_TRUE(client.CopyToHost(array, plain, back.data()).ok());
    EXPECT_EQ(back, values);
    DeviceArray copy{plain, 0, *client.Allocate(0, 60), Event()};
    ASSERT_TRUE(client.CopyDevice(array, copy).ok());
    EXPECT_EQ(std::memcmp(copy.storage->data(), values.data(), 60), 0);
  }
  DeviceArray little{tiled, 0, *client.Allocate(0, 60), Event()};  // enough for the elements, not for the tiles
  EXPECT_EQ(client.CopyToHost(little, plain, back.data()).code(), absl::StatusCode::kInvalidArgument);
}

// Elements of four bits, with arbitrary values in the unused bits of the host's bytes.
TEST(HostClientTest, NarrowElementsInTiles) {
  HostClient client;
  const std::vector<int64_t> dims = {2, 3}, strides = {3, 1};
  Shape tiled(PrimitiveType::kS4, dims), plain = tiled;
  Layout layout = Layout::RowMajor(2);
  layout.tiles.push_back(Tile{{2, 2}});
  tiled.set_layout(layout);
  plain.set_row_major();
  const std::vector<uint8_t> host = {0x08, 0xff, 0x12, 0x0d, 0x01, 0xf7};
  DeviceArray array{tiled, 0, *client.Allocate(0, *client.StorageSize(tiled, 0)), Event()};
  ASSERT_TRUE(client.CopyFromHost({host.data(), PrimitiveType::kS4, dims, strides}, array).ok());
  std::vector<int8_t> back(6);
  ASSERT_TRUE(client.CopyToHost(array, plain, back.data()).ok());
  EXPECT_THAT(back, ElementsAre(-8, -1, 2, -3, 1, 7));
}

TEST(HostClientTest, SpareBitsOfNarrowElementsArePutInOrder) {
  HostClient client;
  const std::vector<uint8_t> host = {0x08, 0xff, 0x12, 0x0d};
  const std::vector<int64_t> dims = {4}, strides = {1};
  for (auto [type, wanted] : {std::pair(PrimitiveType::kS4, std::vector<uint8_t>{0xf8, 0xff, 0x02, 0xfd}),
                              std::pair(PrimitiveType::kU4, std::vector<uint8_t>{0x08, 0x0f, 0x02, 0x0d}),
                              std::pair(PrimitiveType::kS8, host)}) {
    DeviceArray array{Shape(type, {4}), 0, *client.Allocate(0, 4), Event()};
    ASSERT_TRUE(client.CopyFromHost({host.data(), type, dims, strides}, array).ok());
    const auto* raw = static_cast<const uint8_t*>(array.storage->data());
    EXPECT_EQ(std::vector<uint8_t>(raw, raw + 4), wanted) << Name(type);
  }
}

TEST(HostClientTest, WrongShapesAndShortStorageAreRefused) {
  HostClient client;
  Shape shape(PrimitiveType::kS32, {4});
  DeviceArray array{shape, 0, *client.Allocate(0, 8), Event()};
  std::vector<int32_t> values = {1, 2, 3, 4};
  const std::vector<int64_t> dims = {4}, strides = {4}, short_dims = {3};
  EXPECT_EQ(client.CopyFromHost({values.data(), PrimitiveType::kS32, dims, strides}, array).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.CopyFromHost({values.data(), PrimitiveType::kS32, short_dims, strides}, array).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.CopyToHost(array, Shape(PrimitiveType::kF32, {4}), values.data()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.CopyDevice(array, {shape, 1, array.storage, Event()}).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(client.Allocate(0, SIZE_MAX - 64).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HostStorageTest, CountersSeePeakAndRelease) {
  auto counter = std::make_shared<HostMemoryCounter>();
  auto a = *AllocateHostStorage(100, counter);
  { auto b = *AllocateHostStorage(50, counter); }
  MemoryStats stats = counter->Stats();
  EXPECT_EQ(stats.bytes_in_use, 100);
  EXPECT_EQ(stats.peak_bytes_in_use, 150);
  EXPECT_EQ(stats.num_allocs, 2);
  EXPECT_EQ(stats.largest_alloc_size, 100);
  counter->Clear();
  EXPECT_EQ(counter->Stats().peak_bytes_in_use, 100);
}

}  // namespace
}  // namespace backplane
