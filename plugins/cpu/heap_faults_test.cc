// Every allocation of the C++ heap that a step makes fails: once, or with all that follow it, as on a machine whose
// memory is used up. The step must end, with an error or with right values, and hold no memory; the next step must give
// right values. Allocations of the host, which are those outside of calls of the ABI, do not fail.
//
// Compilation is not tested in this way: LLVM ends the process when it has no memory.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plugins/cpu/faults_testing.h"
#include "sdk/engine/backend/client.h"

namespace backplane::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<bool> fails_on{false};  // the allocations after the first one that fails, too
std::atomic<int64_t> first_failing{0}, allocations{0}, failed{0};
thread_local bool is_host = false;

bool MayAllocate() {
  if (!counting.load(std::memory_order_relaxed) || (is_host && !inside_call)) return true;
  const int64_t number = ++allocations;
  const int64_t first = first_failing.load(std::memory_order_relaxed);
  if (first == 0 || number < first || (number > first && !fails_on.load(std::memory_order_relaxed))) return true;
  ++failed;
  return false;
}

}  // namespace
}  // namespace backplane::testing

void* operator new(size_t size) {
  void* const memory = backplane::testing::MayAllocate() ? std::malloc(size == 0 ? 1 : size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace backplane::testing {
namespace {

void StartCounting(int64_t first, bool on) {
  first_failing = first;
  fails_on = on;
  allocations = failed = 0;
  counting = true;
}

class HeapFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    is_host = true;
    // Devices that wait for one that could not be launched end after this time, if there is not even a thread for it.
    ASSERT_TRUE(OpenClient(&client_, 1).ok());
    engine::Runtime::Get().WaitUntilIdle(60000);  // the client warms the compiler up, which must not fail here
  }

  void FailEach(absl::string_view name, const std::function<absl::Status()>& step) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(step().ok()) << name;  // threads, pools and packed weights are there
    StartCounting(0, false);
    ASSERT_TRUE(step().ok()) << name;
    counting = false;
    const int64_t count = allocations;
    ASSERT_GT(count, 0);
    for (const bool on : {false, true}) {
      int64_t errors = 0;
      for (int64_t nth = 1; nth <= count; ++nth) {
        const std::string round = absl::StrCat(name, ", allocation ", nth, " of ", count, on ? " and all others" : "");
        Watchdog watchdog(round);
        const Live before = CountLive();
        StartCounting(nth, on);
        const absl::Status status = step();
        counting = false;
        if (!status.ok()) ++errors;
        EXPECT_NE(status.code(), absl::StatusCode::kDataLoss) << round << ": " << status;
        EXPECT_TRUE(status.ok() || failed > 0) << round << ": " << status;
        EXPECT_EQ(SettledLive(before), before) << round;
        const absl::Status again = step();
        EXPECT_TRUE(again.ok()) << round << ", the step after it: " << again;
        EXPECT_EQ(SettledLive(before), before) << round << ", the step after it";
        if (HasFailure()) return;
      }
      EXPECT_GT(errors, 0) << name;
    }
  }

  void FailEachOf(absl::string_view name, const Job& job) {
    Loaded program;
    absl::Status s = Build(client_.get(), job, &program);
    ASSERT_TRUE(s.ok()) << s;
    FailEach(name, [&] { return RunStep(client_.get(), program.get(), job); });
  }

  OwnedClient client_;
};

TEST_F(HeapFaultsTest, ATrainingStepOfATransformer) { FailEachOf("transformer step", TransformerStep()); }

TEST_F(HeapFaultsTest, AStepOnTwoDevices) { FailEachOf("two devices", TwoDeviceStep()); }

TEST_F(HeapFaultsTest, OperationsOfLibraries) { FailEachOf("many operations", ManyOperations()); }

// The calls that move arrays without a program.
TEST_F(HeapFaultsTest, Buffers) {
  const std::vector<PJRT_Device*> devices = Devices(client_.get());
  PJRT_Memory* const memory = Memories(devices[0])[0];
  const Value value{PJRT_Buffer_Type_F32, {512, 64}, std::string(512 * 64 * 4, 'x')};
  FailEach("buffers", [&]() -> absl::Status {
    Buffer buffer;
    if (absl::Status s = Upload(client_.get(), devices[0], value, &buffer); !s.ok()) return s;
    BP_ARGS(increase, PJRT_Buffer_IncreaseExternalReferenceCount);
    increase.buffer = buffer.get();
    if (absl::Status s = BP_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, increase); !s.ok()) return s;
    BP_ARGS(decrease, PJRT_Buffer_DecreaseExternalReferenceCount);
    decrease.buffer = buffer.get();
    if (absl::Status s = BP_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, decrease); !s.ok()) return s;
    BP_ARGS(copy, PJRT_Buffer_CopyToDevice);
    copy.buffer = buffer.get();
    copy.dst_device = devices[1];
    if (absl::Status s = BP_CALL(PJRT_Buffer_CopyToDevice, copy); !s.ok()) return s;
    const Buffer elsewhere(copy.dst_buffer);
    BP_ARGS(donate, PJRT_Buffer_DonateWithControlDependency);
    donate.buffer = buffer.get();
    if (absl::Status s = BP_CALL(PJRT_Buffer_DonateWithControlDependency, donate); !s.ok()) return s;
    const Buffer donated(donate.out_buffer);
    BP_ARGS(dependency, PJRT_Buffer_DonateWithControlDependency_Callback);
    dependency.callback_data = donate.callback_data;
    inside_call = true;
    donate.dependency_ready_callback(&dependency);
    inside_call = false;

    PJRT_ShapeSpec spec{};
    spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
    spec.dims = value.dims.data();
    spec.num_dims = value.dims.size();
    spec.element_type = value.type;
    BP_ARGS(create, PJRT_Client_CreateBuffersForAsyncHostToDevice);
    create.client = client_.get();
    create.shape_specs = &spec;
    create.num_shape_specs = 1;
    create.memory = memory;
    if (absl::Status s = BP_CALL(PJRT_Client_CreateBuffersForAsyncHostToDevice, create); !s.ok()) return s;
    struct ManagerDeleter {
      void operator()(PJRT_AsyncHostToDeviceTransferManager* m) const {
        BP_ARGS(destroy, PJRT_AsyncHostToDeviceTransferManager_Destroy);
        destroy.transfer_manager = m;
        if (!BP_CALL(PJRT_AsyncHostToDeviceTransferManager_Destroy, destroy).ok()) std::abort();
      }
    };
    const std::unique_ptr<PJRT_AsyncHostToDeviceTransferManager, ManagerDeleter> manager(create.transfer_manager);
    BP_ARGS(retrieve, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
    retrieve.transfer_manager = manager.get();
    if (absl::Status s = BP_CALL(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, retrieve); !s.ok()) return s;
    const Buffer pieces(retrieve.buffer_out);
    BP_ARGS(transfer, PJRT_AsyncHostToDeviceTransferManager_TransferData);
    transfer.transfer_manager = manager.get();
    transfer.data = value.bytes.data();
    transfer.transfer_size = static_cast<int64_t>(value.bytes.size());
    transfer.is_last_transfer = true;
    if (absl::Status s = BP_CALL(PJRT_AsyncHostToDeviceTransferManager_TransferData, transfer); !s.ok()) return s;
    if (absl::Status s = AwaitAndDestroy(transfer.done_with_h2d_transfer); !s.ok()) return s;
    for (PJRT_Buffer* b : {elsewhere.get(), donated.get(), pieces.get()}) {
      std::string bytes;
      if (absl::Status s = Download(b, &bytes); !s.ok()) return s;
      if (bytes != value.bytes) return absl::DataLossError("wrong bytes");
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace backplane::testing
