// Streams, events, host functions and their order in libhipemu.
#include <chrono>

#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"

namespace backplane::hip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmulatedStreamTest : public EmulatedTest {
 protected:
  // A stream that waits at a kernel until Release.
  void Hold(hipStream_t stream) {
    if (flag_ == nullptr) {
      flag_ = AllocatePinned<uint32_t>(1);
      __atomic_store_n(flag_, 0, __ATOMIC_RELEASE);
    }
    ASSERT_HIP(Launch(Kernel("wait_for_flag"), 1, 1, stream, flag_));
  }
  void Release() { __atomic_store_n(flag_, 1, __ATOMIC_RELEASE); }
  void TearDown() override {
    if (flag_ != nullptr) Release();
    if (api_.hipDeviceSynchronize != nullptr) (void)api_.hipDeviceSynchronize();
    EmulatedTest::TearDown();
  }
  uint32_t* flag_ = nullptr;
};

TEST_F(EmulatedStreamTest, RunsInOrder) {
  hipStream_t stream = NewStream();
  std::vector<int> seen;
  struct Step {
    std::vector<int>* seen;
    int number;
  };
  std::vector<Step> steps;
  for (int i = 0; i < 100; ++i) steps.push_back({&seen, i});
  for (Step& step : steps) {
    EXPECT_HIP(api_.hipLaunchHostFunc(
        stream,
        [](void* data) {
          const Step& one = *static_cast<Step*>(data);
          one.seen->push_back(one.number);
        },
        &step));
  }
  EXPECT_HIP(api_.hipStreamSynchronize(stream));
  ASSERT_EQ(seen.size(), 100u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(EmulatedStreamTest, QueriesAndEvents) {
  hipStream_t stream = NewStream();
  hipEvent_t before = NewEvent(), after = NewEvent();
  EXPECT_HIP(api_.hipEventQuery(before));  // one that was never recorded is complete
  EXPECT_HIP(api_.hipEventRecord(before, stream));
  EXPECT_HIP(api_.hipEventSynchronize(before));
  Hold(stream);
  EXPECT_HIP(api_.hipEventRecord(after, stream));
  EXPECT_HIP(api_.hipEventQuery(before));
  EXPECT_HIP_ERROR(api_.hipEventQuery(after), hipErrorNotReady);
  EXPECT_HIP_ERROR(api_.hipStreamQuery(stream), hipErrorNotReady);
  EXPECT_HIP_ERROR(api_.hipGetLastError(), hipSuccess);  // which is no error
  Release();
  EXPECT_HIP(api_.hipEventSynchronize(after));
  EXPECT_HIP(api_.hipStreamQuery(stream));
}

TEST_F(EmulatedStreamTest, EventsOrderStreams) {
  hipStream_t first = NewStream(), second = NewStream();
  hipEvent_t event = NewEvent();
  Hold(first);
  EXPECT_HIP(api_.hipEventRecord(event, first));
  EXPECT_HIP(api_.hipStreamWaitEvent(second, event, 0));
  std::atomic<bool> ran{false};
  EXPECT_HIP(api_.hipLaunchHostFunc(
      second, [](void* data) { static_cast<std::atomic<bool>*>(data)->store(true); }, &ran));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ran.load());
  Release();
  EXPECT_HIP(api_.hipStreamSynchronize(second));
  EXPECT_TRUE(ran.load());
}

TEST_F(EmulatedStreamTest, TheNullStreamWaitsForBlockingStreams) {
  hipStream_t blocking = NewStream(kStreamDefault), other = NewStream(kStreamNonBlocking);
  hipEvent_t null_reached = NewEvent(), other_reached = NewEvent(), blocking_reached = NewEvent();
  Hold(blocking);
  EXPECT_HIP(api_.hipEventRecord(null_reached, nullptr));
  EXPECT_HIP(api_.hipEventRecord(other_reached, other));
  EXPECT_HIP(api_.hipEventSynchronize(other_reached));
  EXPECT_HIP_ERROR(api_.hipEventQuery(null_reached), hipErrorNotReady);
  hipStream_t second_blocking = NewStream(kStreamDefault);  // waits for the null stream
  EXPECT_HIP(api_.hipEventRecord(blocking_reached, second_blocking));
  EXPECT_HIP_ERROR(api_.hipEventQuery(blocking_reached), hipErrorNotReady);
  Release();
  EXPECT_HIP(api_.hipEventSynchronize(blocking_reached));
  EXPECT_HIP(api_.hipEventQuery(null_reached));
}

TEST_F(EmulatedStreamTest, SynchronizingTheNullStreamWaitsForBlockingStreamsOnly) {
  hipStream_t blocking = NewStream(kStreamDefault), other = NewStream(kStreamNonBlocking);
  void* memory = Allocate(16);
  EXPECT_HIP(api_.hipMemsetD8Async(memory, 1, 16, blocking));
  Hold(other);
  EXPECT_HIP(api_.hipStreamSynchronize(nullptr));  // would wait for ever
  EXPECT_HIP(api_.hipStreamQuery(blocking));
  EXPECT_HIP_ERROR(api_.hipStreamQuery(other), hipErrorNotReady);
}

// Several threads of the host with streams of their own, a part of a common allocation each, and one event that all
// streams wait for.
TEST_F(EmulatedStreamTest, ThreadsOfTheHost) {
  constexpr int kThreads = 4, kRounds = 40, kElements = 256;
  float* memory = static_cast<float*>(Allocate(kThreads * kElements * 4));
  hipFunction_t add = Kernel("add_one");
  hipEvent_t ready = NewEvent();
  EXPECT_HIP(api_.hipMemsetD8Async(memory, 0, kThreads * kElements * 4, nullptr));
  EXPECT_HIP(api_.hipEventRecord(ready, nullptr));
  std::vector<std::thread> threads;
  std::vector<int> wrong(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      float* part = memory + t * kElements;
      float* pinned = AllocatePinned<float>(kElements);
      hipStream_t stream = NewStream();
      EXPECT_HIP(api_.hipStreamWaitEvent(stream, ready, 0));
      for (int round = 1; round <= kRounds; ++round) {
        EXPECT_HIP(Launch(add, kElements / 64, 64, stream, Array{part, kElements}));
        EXPECT_HIP(api_.hipMemcpyDtoHAsync(pinned, part, kElements * 4, stream));
        hipEvent_t event = NewEvent();
        EXPECT_HIP(api_.hipEventRecord(event, stream));
        EXPECT_HIP(api_.hipEventSynchronize(event));
        EXPECT_HIP(api_.hipEventDestroy(event));
        for (int i = 0; i < kElements; ++i) wrong[static_cast<size_t>(t)] += pinned[i] != static_cast<float>(round);
        void* temporary = nullptr;
        EXPECT_HIP(api_.hipMalloc(&temporary, 64));
        EXPECT_HIP(api_.hipFree(temporary));
      }
      EXPECT_HIP(api_.hipStreamDestroy(stream));
      EXPECT_HIP(api_.hipHostFree(pinned));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  EXPECT_EQ(FormatReport(), "");
}

TEST_F(EmulatedStreamTest, MeasuresTime) {
  Start({{"HIPEMU_LATENCY_US", "20000"}});
  hipStream_t stream = NewStream();
  hipEvent_t start = NewEvent(kEventDefault), stop = NewEvent(kEventDefault), plain = NewEvent();
  void* memory = Allocate(16);
  EXPECT_HIP(api_.hipEventRecord(start, stream));
  EXPECT_HIP(api_.hipMemsetD8Async(memory, 0, 16, stream));
  EXPECT_HIP(api_.hipEventRecord(stop, stream));
  EXPECT_HIP(api_.hipEventRecord(plain, stream));
  float milliseconds = 0;
  EXPECT_HIP_ERROR(api_.hipEventElapsedTime(&milliseconds, start, stop), hipErrorNotReady);
  EXPECT_HIP(api_.hipEventSynchronize(plain));
  EXPECT_HIP(api_.hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GE(milliseconds, 20.0f);
  EXPECT_LT(milliseconds, 20000.0f);
  EXPECT_HIP_ERROR(api_.hipEventElapsedTime(&milliseconds, start, plain), hipErrorInvalidHandle);
}

TEST_F(EmulatedStreamTest, HostFunctionsMustNotCall) {
  hipStream_t stream = NewStream();
  struct Call {
    HipApi* api;
    hipError_t result;
  } call{&api_, hipSuccess};
  EXPECT_HIP(api_.hipLaunchHostFunc(
      stream,
      [](void* data) {
        Call& one = *static_cast<Call*>(data);
        void* memory = nullptr;
        one.result = one.api->hipMalloc(&memory, 16);
      },
      &call));
  EXPECT_HIP(api_.hipStreamSynchronize(stream));
  EXPECT_HIP_ERROR(call.result, hipErrorNotSupported);
  EXPECT_THAT(FormatReport(), HasSubstr("hipMalloc was called by a host function"));
}

TEST_F(EmulatedStreamTest, FreedHandlesAreRefused) {
  hipStream_t stream = NewStream();
  hipEvent_t event = NewEvent();
  EXPECT_HIP(api_.hipStreamDestroy(stream));
  EXPECT_HIP_ERROR(api_.hipStreamSynchronize(stream), hipErrorInvalidHandle);
  EXPECT_THAT(FormatReport(), HasSubstr("freed handle: stream 1 was destroyed before"));
  EXPECT_HIP(api_.hipEventDestroy(event));
  EXPECT_HIP_ERROR(api_.hipEventRecord(event, nullptr), hipErrorInvalidHandle);
  EXPECT_HIP_ERROR(api_.hipStreamQuery(reinterpret_cast<hipStream_t>(event)), hipErrorInvalidHandle);
  EXPECT_THAT(FormatReport(), HasSubstr("is no stream"));
}

TEST_F(EmulatedStreamTest, DestroyedStreamsFinishTheirWork) {
  hipStream_t stream = NewStream();
  int* pinned = AllocatePinned<int>(4);
  for (int i = 0; i < 4; ++i) EXPECT_HIP(api_.hipMemsetD32Async(pinned + i, i, 1, stream));
  EXPECT_HIP(api_.hipStreamDestroy(stream));
  EXPECT_THAT(std::vector<int>(pinned, pinned + 4), ElementsAre(0, 1, 2, 3));
}

TEST_F(EmulatedStreamTest, EventsBelongToADevice) {
  hipEvent_t event = NewEvent();
  EXPECT_HIP(api_.hipSetDevice(1));
  hipStream_t stream = NewStream();
  EXPECT_HIP_ERROR(api_.hipEventRecord(event, stream), hipErrorInvalidHandle);
  EXPECT_THAT(FormatReport(), HasSubstr("an event of device 0 on stream"));
  EXPECT_HIP(api_.hipStreamWaitEvent(stream, event, 0));  // waiting is permitted
}

TEST_F(EmulatedStreamTest, PrioritiesAreAccepted) {
  int least = 0, greatest = 0;
  EXPECT_HIP(api_.hipDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_GT(least, greatest);
  hipStream_t stream = nullptr;
  EXPECT_HIP(api_.hipStreamCreateWithPriority(&stream, kStreamNonBlocking, greatest));
  EXPECT_HIP_ERROR(api_.hipStreamCreateWithFlags(&stream, 6), hipErrorInvalidValue);
}

// Copies without an order between their streams.
class EmulatedOrderTest : public EmulatedStreamTest {
 protected:
  void SetUp() override {
    EmulatedStreamTest::SetUp();
    Prepare();
  }
  void Prepare() {
    memory_ = Allocate(4096);
    first_ = NewStream();
    second_ = NewStream();
  }
  // One stream fills; what the other does is not ordered after it.
  void Fill() { ASSERT_HIP(api_.hipMemsetD8Async(memory_, 1, 4096, first_)); }
  hipError_t Read() {
    int* pinned = AllocatePinned<int>(1024);
    const hipError_t error = api_.hipMemcpyDtoHAsync(pinned, memory_, 4096, second_);
    return error != hipSuccess ? error : api_.hipStreamSynchronize(second_);
  }
  void* memory_ = nullptr;
  hipStream_t first_ = nullptr, second_ = nullptr;
};

TEST_F(EmulatedOrderTest, CopiesWithoutOrderFail) {
  Fill();
  // Whichever runs later fails, so both streams are awaited.
  const hipError_t read = Read();
  const hipError_t all = api_.hipDeviceSynchronize();
  EXPECT_TRUE(read == hipErrorLaunchFailure || all == hipErrorLaunchFailure);
  EXPECT_THAT(FormatReport(), HasSubstr("no order between streams: "));
  EXPECT_THAT(FormatReport(), HasSubstr("hipMemsetD8Async of 4096 bytes on stream"));
  EXPECT_THAT(FormatReport(), HasSubstr("hipMemcpyDtoHAsync of 4096 bytes on stream"));
}

TEST_F(EmulatedOrderTest, EventsMakeOrder) {
  hipEvent_t event = NewEvent();
  Fill();
  EXPECT_HIP(api_.hipEventRecord(event, first_));
  EXPECT_HIP(api_.hipStreamWaitEvent(second_, event, 0));
  EXPECT_HIP(Read());
}

TEST_F(EmulatedOrderTest, SynchronizesMakeOrder) {
  Fill();
  EXPECT_HIP(api_.hipStreamSynchronize(first_));
  EXPECT_HIP(Read());
}

TEST_F(EmulatedOrderTest, HostFunctionsMakeOrder) {
  Fill();
  std::atomic<bool> ran{false};
  EXPECT_HIP(api_.hipLaunchHostFunc(
      first_, [](void* data) { static_cast<std::atomic<bool>*>(data)->store(true); }, &ran));
  while (!ran.load()) std::this_thread::yield();
  EXPECT_HIP(Read());
}

TEST_F(EmulatedOrderTest, TheNullStreamMakesNoOrderForNonBlockingStreams) {
  Fill();
  EXPECT_HIP(api_.hipMemsetD8Async(Allocate(16), 0, 16, nullptr));
  (void)Read();
  (void)api_.hipDeviceSynchronize();
  EXPECT_THAT(FormatReport(), HasSubstr("no order between streams"));
}

TEST_F(EmulatedOrderTest, KernelsAndCopies) {
  // The kernel writes the line that its argument points to.
  ASSERT_HIP(api_.hipMemsetD8Async(memory_, 0, 4096, first_));
  ASSERT_HIP(Launch(Kernel("add_one"), 16, 64, first_, Array{memory_, 1024}));
  ASSERT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(Read());  // after a synchronize
  ASSERT_HIP(Launch(Kernel("add_one"), 16, 64, first_, Array{memory_, 1024}));
  const hipError_t read = Read();
  const hipError_t all = api_.hipDeviceSynchronize();
  EXPECT_TRUE(read == hipErrorLaunchFailure || all == hipErrorLaunchFailure);
  EXPECT_THAT(FormatReport(), HasSubstr("kernel add_one"));
}

TEST_F(EmulatedOrderTest, KernelsThatReadMayOverlap) {
  ASSERT_HIP(api_.hipMemsetD8Async(memory_, 0, 4096, first_));
  ASSERT_HIP(api_.hipDeviceSynchronize());
  void* a = Allocate(4096);
  void* b = Allocate(4096);
  for (int i = 0; i < 10; ++i) {
    ASSERT_HIP(Launch(Kernel("twice"), 16, 64, first_, TwoArrays{a, memory_, 1024}));
    ASSERT_HIP(Launch(Kernel("twice"), 16, 64, second_, TwoArrays{b, memory_, 1024}));
  }
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_EQ(FormatReport(), "");
}

TEST_F(EmulatedOrderTest, PartsOfAnAllocationAreApart) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_HIP(api_.hipMemsetD8Async(memory_, 1, 2048, first_));
    EXPECT_HIP(api_.hipMemsetD8Async(static_cast<char*>(memory_) + 2048, 2, 2048, second_));
  }
  EXPECT_HIP(api_.hipDeviceSynchronize());
}

// The one conflict with the check and without it. The second fill of the first stream is behind the first, and long
// done when the copy begins, but nothing tells the runtime so.
TEST_F(EmulatedOrderTest, TheCheckCanBeTurnedOff) {
  for (const bool strict : {true, false}) {
    Start({{"HIPEMU_STRICT_ORDER", strict ? "1" : "0"}});
    Prepare();
    Fill();
    ASSERT_HIP(api_.hipMemsetD8Async(Allocate(16), 1, 16, first_));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_HIP_ERROR(Read(), strict ? hipErrorLaunchFailure : hipSuccess);
  }
}

}  // namespace
}  // namespace backplane::hip
