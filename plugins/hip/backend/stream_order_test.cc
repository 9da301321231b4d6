// Tests that copies and programs are ordered by the streams of the emulated runtime, without the host in between. The
// runtime reports accesses that nothing orders, and uses of memory after its release; Close expects no report.
//
// The parameter is the size of the pool's slabs. With 0 each array is an allocation of the runtime, whose bounds and
// lifetime it checks. With a pool it sees which work uses memory again.
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "plugins/hip/backend/testing/client_testing.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

class StreamOrderTest : public ClientTest, public ::testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Pool, StreamOrderTest, ::testing::Values(0, 1 << 20),
                         [](const auto& info) { return absl::StrCat("slabs", info.param); });

// Each kernel takes 20 milliseconds. The host starts all of them and a copy of the result before the second has ended,
// and waits for nothing.
TEST_P(StreamOrderTest, LaunchesReturnBeforeTheDeviceHasRunThem) {
  Open({{"HIPEMU_LATENCY_US", "20000"}}, GetParam());
  const auto add = Load(kAddOne);
  DeviceArray x = Put(Numbers(1024), {1024});
  std::vector<DeviceArray> results = {Run(*add, {x})};
  ASSERT_TRUE(results[0].ready.Await().ok());
  const int64_t waits = Calls("hipStreamSynchronize"), kernels = Calls("hipModuleLaunchKernel");
  constexpr int kLaunches = 30;
  for (int i = 1; i < kLaunches; ++i) results.push_back(Run(*add, {results.back()}));
  std::vector<float> values;
  const Event fetched = Fetch(results.back(), &values);
  EXPECT_EQ(Calls("hipModuleLaunchKernel"), kernels + kLaunches - 1);
  for (int i = 20; i < kLaunches; ++i) EXPECT_NE(results[static_cast<size_t>(i)].ready.signal(), nullptr) << i;
  EXPECT_NE(fetched.signal(), nullptr);
  results.erase(results.begin(), results.end() - 1);  // deleted while the device uses them
  ASSERT_TRUE(fetched.Await().ok());
  EXPECT_EQ(values, Plus(Numbers(1024), kLaunches));
  EXPECT_EQ(Calls("hipStreamSynchronize"), waits);
}

// A thread waits for the copy, and the program's stream waits for the same copy: the host does not.
TEST_P(StreamOrderTest, LaunchesDoNotWaitForTheCopiesOfTheirArguments) {
  Open({{"HIPEMU_LATENCY_US", "200000"}}, GetParam());
  const auto add = Load(kAddOne);
  ASSERT_TRUE(Run(*add, {Put(Numbers(1024), {1024})}).ready.Await().ok());
  const DeviceArray x = Put(Numbers(1024), {1024});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the thread has begun to wait
  const DeviceArray y = Run(*add, {x});
  EXPECT_FALSE(x.ready.IsReady());
  std::vector<float> values;
  const Event fetched = Fetch(y, &values);
  EXPECT_FALSE(y.ready.IsReady());
  ASSERT_TRUE(fetched.Await().ok());
  EXPECT_EQ(values, Plus(Numbers(1024), 1));
}

TEST_P(StreamOrderTest, CopiesRunBesidePrograms) {
  Open({{"HIPEMU_LATENCY_US", "20000"}}, GetParam());
  const auto add = Load(kAddOne);
  DeviceArray x = Put(Numbers(1024), {1024});
  for (int i = 0; i < 30; ++i) x = Run(*add, {x});
  const DeviceArray other = Put(Numbers(5000, 3), {5000});
  EXPECT_EQ(Get(other), Numbers(5000, 3));
  EXPECT_FALSE(x.ready.IsReady());
  const std::vector<float> want = Plus(Numbers(1024), 30);
  EXPECT_EQ(Get(x), want);
}

TEST_P(StreamOrderTest, DevicesWaitForOneAnother) {
  Open({{"HIPEMU_LATENCY_US", "2000"}}, GetParam());
  const auto add = Load(kAddOne);
  for (int round = 0; round < 5; ++round) {
    DeviceArray x = Put(Numbers(1024, static_cast<float>(round)), {1024}, 0);
    for (int hop = 0; hop < 6; ++hop) {
      x = Run(*add, {x}, hop % 2);
      DeviceArray there = Room({1024}, hop % 2 == 0 ? 2 : 0);
      there.ready = client_->StartCopyDevice(x, there);
      DeviceArray here = Room({1024}, hop % 2 == 0 ? 2 : 0);
      here.ready = client_->StartCopyDevice(there, here);
      x = here;
    }
    EXPECT_NE(x.ready.signal(), nullptr);
    const std::vector<float> want = Plus(Numbers(1024, static_cast<float>(round)), 6);
    EXPECT_EQ(Get(x), want);
  }
}

TEST_P(StreamOrderTest, ProgramsInFlightShareTemporaries) {
  Open({{"HIPEMU_LATENCY_US", "1000"}}, GetParam());
  const auto shuffle = Load(kShuffle);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  std::vector<float> want = Numbers(64 * 64);
  DeviceArray x = Put(want, {64, 64});
  ASSERT_TRUE(Run(*shuffle, {x, p}).ready.Await().ok());
  const int64_t before = client_->GetMemoryStats(0)->bytes_in_use;
  ASSERT_TRUE(client_->ClearMemoryStats(0).ok());
  constexpr int kLaunches = 20;
  std::vector<DeviceArray> all;
  for (int i = 0; i < kLaunches; ++i) {
    x = Run(*shuffle, {x, p});
    all.push_back(x);
    want = Shuffled(want);
  }
  EXPECT_EQ(Get(x), want);
  const int64_t array = 64 * 64 * 4, arrays = kLaunches * array;
  const int64_t most = *client_->GetMemoryStats(0)->peak_bytes_in_use - before;
  EXPECT_GE(most, arrays);
  if (GetParam() > 0) {
    EXPECT_LE(most, arrays + 3 * array);  // one block of temporaries
  }
}

TEST_P(StreamOrderTest, ADonatedArrayIsWrittenInPlace) {
  Open({{"HIPEMU_LATENCY_US", "1000"}}, GetParam());
  const auto add = Load(kAddOneInPlace);
  DeviceArray x = Put(Numbers(1024), {1024});
  const void* const address = x.storage->data();
  std::vector<float> early;
  for (int i = 0; i < 10; ++i) {
    x = Run(*add, {std::move(x)}, 0, true);
    EXPECT_EQ(x.storage->data(), address);
  }
  const Event fetched = Fetch(x, &early);
  // An array that is not donated stays as it is.
  DeviceArray y = Run(*add, {x});
  EXPECT_NE(y.storage->data(), address);
  const std::vector<float> want = Plus(Numbers(1024), 10);
  ASSERT_TRUE(fetched.Await().ok());
  EXPECT_EQ(early, want);
  EXPECT_EQ(Get(x), want);
  EXPECT_EQ(Get(y), Plus(Numbers(1024), 11));
}

TEST_P(StreamOrderTest, ProgramsThatNeedTheHostAreAmongTheOthers) {
  Open({{"HIPEMU_LATENCY_US", "5000"}}, GetParam());
  const auto loop = Load(kDoubleUntil);
  const DeviceArray x = Put(Numbers(4096, 3), {4096}), six = Put({6}, {}), hundred = Put({100}, {});
  const DeviceArray last = Run(*loop, {Run(*loop, {x, six}), hundred});
  EXPECT_EQ(last.ready.signal(), nullptr);
  std::vector<float> want = Numbers(4096, 3);
  for (float& v : want) v *= 64;  // 3, 6, 12, 24, 48, 96, 192
  EXPECT_EQ(Get(last), want);
}

TEST_P(StreamOrderTest, AnInputOfTheHostIsWaitedFor) {
  Open({}, GetParam());
  const auto add = Load(kAddOne);
  DeviceArray x = Put(Numbers(1024), {1024});
  ASSERT_TRUE(x.ready.Await().ok());
  const Event host = Event::Create();
  x.ready = host;
  DeviceArray sum = Run(*add, {x});
  DeviceArray more = Run(*add, {sum});
  EXPECT_EQ(sum.ready.signal(), nullptr);
  EXPECT_FALSE(more.ready.IsReady());
  host.Set();
  const std::vector<float> want = Plus(Numbers(1024), 2);
  EXPECT_EQ(Get(more), want);

  x.ready = Event::Create();
  sum = Run(*add, {x});
  more = Run(*add, {sum});
  x.ready.Set(absl::DataLossError("lost"));
  EXPECT_EQ(more.ready.Await(), absl::DataLossError("lost"));
  EXPECT_EQ(sum.ready.Await(), absl::DataLossError("lost"));
  std::vector<float> nothing;
  EXPECT_EQ(Fetch(more, &nothing).Await(), absl::DataLossError("lost"));

  x.ready = Event::Create();
  sum = Run(*add, {x});
  x.ready = Event();  // the event is dropped
  EXPECT_EQ(sum.ready.Await().code(), absl::StatusCode::kAborted);
}

// Large arrays go through staging memory in pieces.
TEST_P(StreamOrderTest, LargeCopies) {
  Open({}, GetParam());
  constexpr int64_t kRows = 1500, kColumns = 2000;  // 12 MB, not a multiple of a piece
  const std::vector<float> values = Numbers(kRows * kColumns, 1, 4099);
  for (const HostUse use : {HostUse::kUntilReleased, HostUse::kDuringCall}) {
    DeviceArray array = Room({kRows, kColumns});
    std::vector<float> source = values;
    const CopyFromHostEvents events = Fill(array, source, use);
    if (use == HostUse::kDuringCall) {
      EXPECT_TRUE(events.host_released.IsReady());
    }
    ASSERT_TRUE(events.host_released.Await().ok());
    std::fill(source.begin(), source.end(), -3.0f);  // ours again
    array.ready = events.done;
    EXPECT_EQ(Get(array), values);
  }
  // Another layout on the device than on the host, both ways.
  DeviceArray turned = Room({kRows, kColumns});
  turned.shape.mutable_layout().minor_to_major = {0, 1};
  const CopyFromHostEvents events = Fill(turned, values);
  ASSERT_TRUE(events.done.Await().ok());
  std::vector<float> back(values.size());
  ASSERT_TRUE(client_->StartCopyToHost(turned, MakeShape({kRows, kColumns}), back.data()).Await().ok());
  EXPECT_EQ(back, values);
  ASSERT_TRUE(client_->StartCopyToHost(turned, turned.shape, back.data()).Await().ok());
  EXPECT_EQ(back[1], values[kColumns]);
  EXPECT_EQ(back[kRows], values[1]);
}

TEST_P(StreamOrderTest, ManyLargeCopiesShareTheStagingMemory) {
  Open({{"HIPEMU_LATENCY_US", "200"}}, GetParam());
  std::vector<std::vector<float>> sources;
  std::vector<DeviceArray> arrays;
  for (int i = 0; i < 12; ++i) {
    sources.push_back(Numbers(3 << 20, static_cast<float>(i), 4099));
    arrays.push_back(Room({3 << 20}));
    arrays.back().ready = Fill(arrays.back(), sources.back()).done;
  }
  std::vector<std::vector<float>> results(arrays.size());
  std::vector<Event> fetched;
  for (size_t i = 0; i < arrays.size(); ++i) fetched.push_back(Fetch(arrays[i], &results[i]));
  for (size_t i = 0; i < arrays.size(); ++i) {
    ASSERT_TRUE(fetched[i].Await().ok());
    EXPECT_EQ(results[i], sources[i]);
  }
}

// They would hold all of it, and what the host waits for could not be copied.
TEST_P(StreamOrderTest, CopiesThatWaitForTheHostHoldNoStagingMemory) {
  Open({}, GetParam());
  const std::vector<float> values = Numbers(1 << 20, 2, 4099);
  DeviceArray array = Put(values, {1 << 20});
  ASSERT_TRUE(array.ready.Await().ok());
  const Event host = Event::Create();
  array.ready = host;
  std::vector<std::vector<float>> results(20);
  std::vector<Event> fetched;
  for (std::vector<float>& result : results) fetched.push_back(Fetch(array, &result));
  DeviceArray filled = Room({1 << 20});
  filled.ready = host;
  const CopyFromHostEvents late = Fill(filled, values);
  const std::vector<float> large = Numbers(5 << 20, 7, 4099);
  EXPECT_EQ(Get(Put(large, {5 << 20})), large);
  EXPECT_FALSE(late.done.IsReady());
  host.Set();
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(fetched[i].Await().ok());
    EXPECT_EQ(results[i], values);
  }
  ASSERT_TRUE(late.done.Await().ok());
  filled.ready = Event();
  EXPECT_EQ(Get(filled), values);
}

TEST_P(StreamOrderTest, RegisteredAndPinnedMemoryIsCopiedWhereItIs) {
  Open({{"HIPEMU_LATENCY_US", "5000"}}, GetParam());
  std::vector<float> values = Numbers(3 << 20);
  ASSERT_TRUE(client_->RegisterHostMemory(values.data(), values.size() * 4).ok());
  DeviceArray array = Room({3 << 20});
  const int64_t copies = Calls("hipMemcpyHtoDAsync");
  const CopyFromHostEvents events = Fill(array, values);
  EXPECT_EQ(Calls("hipMemcpyHtoDAsync"), copies + 1);
  EXPECT_NE(events.host_released.signal(), nullptr);
  array.ready = events.done;
  DeviceArray pinned = Room({3 << 20}, 1);
  ASSERT_TRUE(client_->IsHostMemory(1));
  pinned.ready = client_->StartCopyDevice(array, pinned);
  EXPECT_NE(pinned.ready.signal(), nullptr);
  DeviceArray again = Room({3 << 20}, 2);
  again.ready = client_->StartCopyDevice(pinned, again);
  EXPECT_NE(again.ready.signal(), nullptr);
  ASSERT_TRUE(pinned.ready.Await().ok());
  const float* first = static_cast<const float*>(pinned.storage->data());
  EXPECT_EQ(std::vector<float>(first, first + values.size()), values);
  EXPECT_EQ(Get(again), values);
  std::vector<float> direct = values;
  std::fill(values.begin(), values.end(), 0.0f);
  ASSERT_TRUE(client_->StartCopyToHost(again, again.shape, values.data()).Await().ok());
  EXPECT_EQ(values, direct);
  EXPECT_TRUE(client_->UnregisterHostMemory(values.data()).ok());
  EXPECT_FALSE(client_->UnregisterHostMemory(values.data()).ok());
}

// Work in flight holds the memory of its arguments. A host that runs ahead waits for it before it is refused.
TEST_P(StreamOrderTest, MemoryOfWorkInFlightIsAwaited) {
  Open({{"HIPEMU_LATENCY_US", "2000"}}, GetParam(), 64 << 10);
  const auto add = Load(kAddOne);
  DeviceArray x = Put(Numbers(1024), {1024});
  for (int i = 0; i < 100; ++i) {
    x = Run(*add, {x});
    ASSERT_NE(x.storage, nullptr);
  }
  const std::vector<float> want = Plus(Numbers(1024), 100);
  EXPECT_EQ(Get(x), want);
  const absl::Status status = TryRoom({1 << 20}, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("no memory for 4194304 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("the limit is 65536"));
}

// The same of launches that the host helps, which have streams of their own. Each depends on the one before it.
TEST_P(StreamOrderTest, MemoryOfLaunchesThatTheHostHelpsIsAwaited) {
  Open({{"HIPEMU_LATENCY_US", "500"}}, GetParam(), 256 << 10);
  const auto twice = Load(kDoubleUntil);
  const DeviceArray limit = Put({8}, {});
  DeviceArray x = Put(std::vector<float>(4096, 1.0f), {4096});
  for (int i = 0; i < 40; ++i) {
    x = Run(*twice, {x, limit});
    ASSERT_NE(x.storage, nullptr) << i;
  }
  EXPECT_EQ(Get(x), std::vector<float>(4096, 8.0f));
}

TEST_P(StreamOrderTest, AKernelThatFailsOnTheDeviceFailsAllBehindIt) {
  Open({{"HIPEMU_LATENCY_US", "2000"}}, GetParam());
  const auto add = Load(kAddOne);
  DeviceArray x = Put(Numbers(1024), {1024});
  ASSERT_TRUE(Run(*add, {x}).ready.Await().ok());
  SetFault("hipModuleLaunchKernel", 2, hipErrorLaunchFailure);
  std::vector<DeviceArray> results = {x};
  for (int i = 0; i < 5; ++i) results.push_back(Run(*add, {results.back()}));
  std::vector<float> values;
  const Event fetched = Fetch(results.back(), &values);
  const absl::Status status = fetched.Await();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("a kernel failed"));
  for (size_t i = 2; i < results.size(); ++i) EXPECT_FALSE(results[i].ready.Await().ok()) << i;
  // The device is lost, and says so.
  const absl::StatusOr<ExecuteResult> next = TryRun(*add, {x});
  EXPECT_FALSE(next.ok() && next->done.Await().ok());
  expected_report_ = "device 0 failed with hipErrorLaunchFailure";
}

// The interpreter sees every access of machine code.
TEST_P(StreamOrderTest, MachineCode) {
  Open({}, GetParam(), 0, "gfx942");
  const auto shuffle = Load(kShuffle);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  std::vector<float> want = Numbers(64 * 64);
  DeviceArray x = Put(want, {64, 64});
  for (int i = 0; i < 3; ++i) {
    x = Run(*shuffle, {x, p});
    want = Shuffled(want);
  }
  EXPECT_EQ(Get(x), want);
}

}  // namespace
}  // namespace backplane::hip
