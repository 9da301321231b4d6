#include "plugins/hip/emulated_runtime/ordering.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::hip::emulated {
namespace {

using ::testing::HasSubstr;

class OrderingTest : public ::testing::Test {
 protected:
  OrderTracker order_;
  AccessLog log_;
  const int first_ = order_.AddStream(), second_ = order_.AddStream();
};

TEST_F(OrderingTest, AStreamOrdersItself) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "a"), 0, 64, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "b"), 0, 64, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "c"), 32, 64, false).has_value());
}

TEST_F(OrderingTest, FindsEachKindOfConflict) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "write a"), 0, 64, true).has_value());
  const auto read = log_.Record(order_.Begin(second_, "read b"), 60, 80, false);
  ASSERT_TRUE(read.has_value());
  EXPECT_THAT(*read, HasSubstr("read b reads"));
  EXPECT_THAT(*read, HasSubstr("write a writes"));
  EXPECT_TRUE(log_.Record(order_.Begin(second_, "write b"), 0, 1, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "read a"), 100, 200, false).has_value());
  EXPECT_TRUE(log_.Record(order_.Begin(second_, "write b"), 199, 300, true).has_value());
}

TEST_F(OrderingTest, ReadersDoNotConflict) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "a"), 0, 64, false).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 0, 64, false).has_value());
  // A third one that writes after only one of them does.
  const int third = order_.AddStream();
  order_.Order(third, order_.GetClock(second_));
  const auto conflict = log_.Record(order_.Begin(third, "c"), 0, 64, true);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_THAT(*conflict, HasSubstr("that a reads"));
}

TEST_F(OrderingTest, NeighboursDoNotConflict) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "a"), 0, 64, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 64, 128, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "c"), 128, 128, true).has_value());
}

TEST_F(OrderingTest, EventsOrder) {
  const OperationPtr write = order_.Begin(first_, "a");
  EXPECT_FALSE(log_.Record(write, 0, 64, true).has_value());
  const OperationPtr later = order_.Begin(first_, "later");
  EXPECT_FALSE(log_.Record(later, 128, 192, true).has_value());
  order_.Order(second_, write->clock);  // an event behind the first operation only
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 0, 64, false).has_value());
  EXPECT_TRUE(log_.Record(order_.Begin(second_, "c"), 128, 192, false).has_value());
}

TEST_F(OrderingTest, TheHostOrders) {
  const OperationPtr write = order_.Begin(first_, "a");
  EXPECT_FALSE(log_.Record(write, 0, 64, true).has_value());
  const OperationPtr before = order_.Begin(second_, "before");
  order_.RecordHostWait(write->clock);
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "after"), 0, 32, false).has_value());
  EXPECT_TRUE(log_.Record(before, 32, 64, false).has_value());
}

TEST_F(OrderingTest, FreedMemoryBeginsAnew) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "a"), 0, 256, true).has_value());
  log_.Forget(64, 128);
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 64, 128, true).has_value());
  EXPECT_TRUE(log_.Record(order_.Begin(second_, "c"), 63, 64, true).has_value());
  EXPECT_TRUE(log_.Record(order_.Begin(second_, "d"), 128, 129, true).has_value());
}

TEST_F(OrderingTest, RemovedStreamsAreUsedAgain) {
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "a"), 0, 64, true).has_value());
  order_.RemoveStream(second_);
  EXPECT_EQ(order_.AddStream(), second_);
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 0, 64, true).has_value());  // is after the old stream's
  EXPECT_TRUE(log_.Record(order_.Begin(first_, "c"), 0, 64, false).has_value());
  EXPECT_GT(order_.AddStream(), second_);
}

TEST_F(OrderingTest, PartsOfARangeKeepTheirWriters) {
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "a"), 0, 300, true).has_value());
  order_.Order(second_, order_.GetClock(first_));
  EXPECT_FALSE(log_.Record(order_.Begin(second_, "b"), 100, 200, true).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "c"), 0, 100, false).has_value());
  EXPECT_FALSE(log_.Record(order_.Begin(first_, "d"), 200, 300, false).has_value());
  const auto conflict = log_.Record(order_.Begin(first_, "e"), 0, 300, false);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_THAT(*conflict, HasSubstr("0x64"));  // 100
}

}  // namespace
}  // namespace backplane::hip::emulated
