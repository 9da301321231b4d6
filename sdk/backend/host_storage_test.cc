#include "sdk/backend/host_storage.h"

#include "gtest/gtest.h"
#include "sdk/backend/host_topology.h"

namespace backplane {
namespace {

TEST(HostStorageTest, TheLimitIsEnforcedAndNamed) {
  auto counter = std::make_shared<HostMemoryCounter>(1000);
  auto first = AllocateHostStorage(600, counter);
  ASSERT_TRUE(first.ok());
  auto second = AllocateHostStorage(500, counter);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(second.status().message(), "allocate: no memory for 500 bytes: 600 are in use, the limit is 1000");
  EXPECT_EQ(counter->Stats().bytes_in_use, 600);
  EXPECT_EQ(counter->Stats().num_allocs, 1);
  EXPECT_EQ(counter->Stats().bytes_limit, 1000);
  EXPECT_TRUE(AllocateHostStorage(400, counter).ok());
  first->reset();
  EXPECT_TRUE(AllocateHostStorage(1000, counter).ok());
  EXPECT_EQ(counter->Stats().bytes_in_use, 0);
}

TEST(HostStorageTest, CountersShareALimit) {
  auto total = std::make_shared<HostMemoryCounter>(1000);
  auto a = std::make_shared<HostMemoryCounter>(0, total), b = std::make_shared<HostMemoryCounter>(0, total);
  auto first = AllocateHostStorage(600, a);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(AllocateHostStorage(500, b).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(b->Stats().bytes_in_use, 0);
  EXPECT_EQ(b->Stats().bytes_limit, 1000);
  EXPECT_TRUE(AllocateHostStorage(400, b).ok());
  EXPECT_EQ(total->Stats().bytes_in_use, 600);
}

TEST(HostStorageTest, AbsurdSizesAreRefused) {
  auto counter = std::make_shared<HostMemoryCounter>();
  EXPECT_EQ(AllocateHostStorage(SIZE_MAX, counter).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AllocateHostStorage(size_t{1} << 60, counter).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(counter->Stats().bytes_in_use, 0);
}

TEST(MemoryLimitTest, IsAPositiveNumberOfBytes) {
  EXPECT_EQ(*ReadMemoryLimitOption({{kMemoryLimitOption, int64_t{4096}}}), 4096);
  EXPECT_GT(*ReadMemoryLimitOption({}), 0);
  for (const NamedValue& bad : {NamedValue(int64_t{0}), NamedValue(int64_t{-1}), NamedValue(1.5f), NamedValue(true)}) {
    EXPECT_EQ(ReadMemoryLimitOption({{kMemoryLimitOption, bad}}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(SubnormalsOfProgramsTest, AreFlushedUnlessKept) {
  EXPECT_EQ(*ReadSubnormalsOption({}), Subnormals::kFlushResults);
  EXPECT_EQ(*ReadSubnormalsOption({{kDenormalsOption, std::string("flush")}}), Subnormals::kFlushResults);
  EXPECT_EQ(*ReadSubnormalsOption({{kDenormalsOption, std::string("keep")}}), Subnormals::kKeep);
  for (const NamedValue& bad : {NamedValue(std::string("zero")), NamedValue(int64_t{1}), NamedValue(true)}) {
    EXPECT_EQ(ReadSubnormalsOption({{kDenormalsOption, bad}}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace backplane
