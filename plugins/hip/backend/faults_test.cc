// Makes each call of the runtime fail once: the copies and programs that are under way then succeed with the right
// values or report an error, the same work succeeds afterwards, and nothing is left in the runtime.
#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/testing/client_testing.h"

namespace backplane::hip {
namespace {

// The functions that the client calls while it works. Those that release something are not among them: if the runtime
// refuses to release its memory, nobody can.
constexpr const char* kFunctions[] = {"hipGetDevice",
                                      "hipSetDevice",
                                      "hipMalloc",
                                      "hipHostMalloc",
                                      "hipMemcpyHtoDAsync",
                                      "hipMemcpyDtoHAsync",
                                      "hipMemcpyDtoDAsync",
                                      "hipMemcpyPeerAsync",
                                      "hipStreamWaitEvent",
                                      "hipStreamCreateWithFlags",
                                      "hipEventRecord",
                                      "hipEventSynchronize",
                                      "hipModuleLoadData",
                                      "hipModuleGetFunction",
                                      "hipEventCreateWithFlags",
                                      "hipStreamSynchronize",
                                      "hipModuleLaunchKernel"};

// Those of graphs (BACKPLANE_TEST_GRAPHS=1, client_testing.h). If a graph cannot be made, nothing fails.
constexpr const char* kGraphFunctions[] = {"hipGraphCreate", "hipGraphAddKernelNode", "hipGraphAddMemcpyNode1D",
                                           "hipGraphInstantiate", "hipGraphLaunch"};

class FaultsTest : public ClientTest, public ::testing::WithParamInterface<size_t> {
 protected:
  // Arrays of a step, which are dropped when it is over.
  absl::StatusOr<DeviceArray> TryPut(const std::vector<float>& values, const DimVector& dims, int32_t memory) {
    ASSIGN_OR_RETURN(DeviceArray array, TryRoom(dims, memory));
    const CopyFromHostEvents events = Fill(array, values);
    (void)events.host_released.Await();
    ended_.push_back(events.done);
    array.ready = events.done;
    return array;
  }
  absl::StatusOr<DeviceArray> TryCopy(const DeviceArray& from, int32_t memory) {
    ASSIGN_OR_RETURN(DeviceArray array,
                     TryRoom({from.shape.dimensions().begin(), from.shape.dimensions().end()}, memory));
    array.ready = client_->StartCopyDevice(from, array);
    ended_.push_back(array.ready);
    return array;
  }
  absl::StatusOr<DeviceArray> TryRunOn(LoadedExecutable& program, std::vector<DeviceArray> arguments, int32_t device) {
    ASSIGN_OR_RETURN(ExecuteResult result, TryRun(program, std::move(arguments), device));
    ended_.push_back(result.done);
    return result.outputs[0];
  }
  absl::StatusOr<std::vector<float>> TryGet(const DeviceArray& array) {
    std::vector<float> values;
    RETURN_IF_ERROR(Fetch(array, &values).Await());
    return values;
  }

  // Small and large copies, programs with temporaries, in place and with the host, and copies between devices.
  absl::Status Step() {
    const auto shuffle = Load(kShuffle), add = Load(kAddOneInPlace), loop = Load(kDoubleUntil);
    absl::Status status = [&]() -> absl::Status {
      const std::vector<float> numbers = Numbers(64 * 64);
      ASSIGN_OR_RETURN(DeviceArray p, TryPut(ColumnShift(), {64, 64}, 0));
      ASSIGN_OR_RETURN(DeviceArray x, TryPut(numbers, {64, 64}, 0));
      ASSIGN_OR_RETURN(x, TryRunOn(*shuffle, {x, p}, 0));
      ASSIGN_OR_RETURN(x, TryRunOn(*shuffle, {x, p}, 0));
      ASSIGN_OR_RETURN(DeviceArray there, TryCopy(x, 2));
      ASSIGN_OR_RETURN(DeviceArray here, TryCopy(there, 2));
      ASSIGN_OR_RETURN(DeviceArray y, TryPut(Numbers(1024), {1024}, 2));
      ASSIGN_OR_RETURN(y, TryRunOn(*add, {y}, 1));
      ASSIGN_OR_RETURN(DeviceArray pinned, TryCopy(y, 3));
      ASSIGN_OR_RETURN(DeviceArray f, TryPut(Numbers(4096, 3), {4096}, 1));
      ASSIGN_OR_RETURN(DeviceArray limit, TryPut({6}, {}, 0));
      ASSIGN_OR_RETURN(f, TryRunOn(*loop, {f, limit}, 0));
      const std::vector<float> many = Numbers(3 << 19);
      ASSIGN_OR_RETURN(DeviceArray large, TryPut(many, {3 << 19}, 0));

      ASSIGN_OR_RETURN(std::vector<float> values, TryGet(here));
      EXPECT_EQ(values, Shuffled(Shuffled(numbers)));
      ASSIGN_OR_RETURN(values, TryGet(pinned));
      EXPECT_EQ(values, Plus(Numbers(1024), 1));
      ASSIGN_OR_RETURN(values, TryGet(f));
      std::vector<float> doubled = Numbers(4096, 3);
      for (float& v : doubled) v *= 2;
      EXPECT_EQ(values, doubled);
      ASSIGN_OR_RETURN(values, TryGet(large));
      EXPECT_EQ(values, many);
      return absl::OkStatus();
    }();
    // Programs are unloaded when their launches have ended, and the client is destroyed when all work has.
    for (const Event& end : ended_) {
      if (absl::Status s = end.Await(); status.ok()) status = std::move(s);
    }
    ended_.clear();
    return status;
  }

  std::vector<Event> ended_;
};
INSTANTIATE_TEST_SUITE_P(Pool, FaultsTest, ::testing::Values(0, 1 << 20),
                         [](const auto& info) { return absl::StrCat("slabs", info.param); });

TEST_P(FaultsTest, EachCallMayFail) {
  // Copies and kernels take a while, so that what follows has to wait for them.
  const Variables variables = {{"HIPEMU_LATENCY_US", "200"}};
  Open(variables, GetParam());
  std::vector<std::string> functions(std::begin(kFunctions), std::end(kFunctions));
  if (graph_mode_ == GraphMode::kOn) {
    // All kernels and copies within a device are in graphs.
    for (const char* single : {"hipMemcpyDtoDAsync", "hipModuleLaunchKernel"})
      functions.erase(std::find(functions.begin(), functions.end(), single));
    functions.insert(functions.end(), std::begin(kGraphFunctions), std::end(kGraphFunctions));
  }
  std::map<std::string, int64_t> opened, calls;
  for (const std::string& function : functions) opened[function] = Calls(function.c_str());
  ASSERT_TRUE(Step().ok());
  for (const std::string& function : functions) calls[function] = Calls(function.c_str()) - opened[function];
  Close();
  int tried = 0, failed = 0;
  for (const std::string& name : functions) {
    const char* const function = name.c_str();
    EXPECT_GT(calls[function], 0) << function;
    int errors = 0;
    for (int64_t n = 1; n <= calls[function]; n = n < 8 ? n + 1 : n * 2) {
      SCOPED_TRACE(absl::StrCat(function, " call ", n, " of ", calls[function]));
      Open(variables, GetParam());
      SetFault(function, n);
      errors += Step().ok() ? 0 : 1;
      ++tried;
      SetFault(function, 0);
      const absl::Status status = Step();
      EXPECT_TRUE(status.ok()) << status;
      Close();
      ASSERT_FALSE(HasFailure());
    }
    failed += errors;
    // If a slab is refused, the pool takes a smaller one.
    const bool takes_slabs = GetParam() > 0 && absl::StrContains(function, "Malloc");
    const bool makes_graph = absl::StrContains(function, "hipGraph") && name != "hipGraphLaunch";
    if (!takes_slabs && !makes_graph) {
      EXPECT_GT(errors, 0) << function;
    }
  }
  EXPECT_GT(tried, 80);
  EXPECT_GT(failed, tried / 2);
  RecordProperty("tried", tried);
  RecordProperty("failed", failed);
}

// A client that cannot be opened leaves nothing.
TEST_P(FaultsTest, OpeningMayFail) {
  for (const char* function : {"hipGetDevice", "hipDeviceGetName", "hipDeviceTotalMem"}) {
    for (int n = 1; n <= 2; ++n) {
      Start({});
      SetFault(function, n);
      EXPECT_FALSE(Devices::Open(api_, {0, GetParam()}).ok()) << function << " call " << n;
      EXPECT_EQ(FullReport(), "");
    }
  }
}

}  // namespace
}  // namespace backplane::hip
