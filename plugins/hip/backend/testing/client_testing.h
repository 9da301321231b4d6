// What tests of the client share: a client on the emulated runtime, arrays, programs, and their expected results.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_CLIENT_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_CLIENT_TESTING_H_

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/import/import.h"
#include "plugins/hip/backend/client.h"
#include "plugins/hip/backend/executable.h"
#include "plugins/hip/backend/options.h"
#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"

namespace backplane::hip {

// f32[1024] -> f32[1024]: x + 1. The second donates x.
inline constexpr char kAddOne[] = R"(HloModule add_one
ENTRY main {
  x = f32[1024] parameter(0)
  c = f32[] constant(1)
  b = f32[1024] broadcast(c), dimensions={}
  ROOT r = f32[1024] add(x, b)
})";
inline constexpr char kAddOneInPlace[] = R"(HloModule add_one_in_place, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[1024] parameter(0)
  c = f32[] constant(1)
  b = f32[1024] broadcast(c), dimensions={}
  ROOT r = f32[1024] add(x, b)
})";
// f32[64,64], f32[64,64]: with temporaries. See Shuffled for its result.
inline constexpr char kShuffle[] = R"(HloModule shuffle
ENTRY main {
  x = f32[64,64] parameter(0)
  p = f32[64,64] parameter(1)
  a = f32[64,64] dot(x, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  three = f32[] constant(3)
  threes = f32[64,64] broadcast(three), dimensions={}
  one = f32[] constant(1)
  ones = f32[64,64] broadcast(one), dimensions={}
  prime = f32[] constant(17)
  primes = f32[64,64] broadcast(prime), dimensions={}
  m = f32[64,64] multiply(a, threes)
  s = f32[64,64] add(m, ones)
  b = f32[64,64] remainder(s, primes)
  ROOT r = f32[64,64] dot(b, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
// f32[4096], f32[] -> f32[4096]: doubles x until its first element is not less than the limit. The host decides when.
inline constexpr char kDoubleUntil[] = R"(HloModule double_until
more {
  s = (f32[4096], f32[]) parameter(0)
  x = f32[4096] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  slice = f32[1] slice(x), slice={[0:1]}
  first = f32[] reshape(slice)
  ROOT r = pred[] compare(first, limit), direction=LT
}
step {
  s = (f32[4096], f32[]) parameter(0)
  x = f32[4096] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  y = f32[4096] add(x, x)
  ROOT t = (f32[4096], f32[]) tuple(y, limit)
}
ENTRY main {
  x = f32[4096] parameter(0)
  limit = f32[] parameter(1)
  s = (f32[4096], f32[]) tuple(x, limit)
  w = (f32[4096], f32[]) while(s), condition=more, body=step
  ROOT r = f32[4096] get-tuple-element(w), index=0
})";

// What kShuffle gives for x and the matrix that moves each column to the next place: all numbers are small integers, so
// every result is exact.
inline std::vector<float> ColumnShift() {
  std::vector<float> p(64 * 64, 0.0f);
  for (size_t k = 0; k < 64; ++k) p[k * 64 + (k + 1) % 64] = 1;
  return p;
}
inline std::vector<float> Shuffled(const std::vector<float>& x) {
  std::vector<float> r(x.size());
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 64; ++j) r[i * 64 + j] = std::fmod(3 * x[i * 64 + (j + 62) % 64] + 1, 17.0f);
  }
  return r;
}
inline std::vector<float> Numbers(size_t n, float first = 0, float modulus = 17) {
  std::vector<float> numbers(n);
  for (size_t i = 0; i < n; ++i) numbers[i] = std::fmod(first + static_cast<float>(i % 4096), modulus);
  return numbers;
}
inline std::vector<float> Plus(std::vector<float> values, float n) {
  for (float& v : values) v += n;
  return values;
}

class ClientTest : public EmulatedTest {
 protected:
  struct NoCalls : CustomCallRegistry {
    bool Has(const std::string&) const override { return false; }
    absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec&) override {
      return absl::NotFoundError("no custom calls");
    }
  };

  void SetUp() override {}
  void TearDown() override {
    if (devices_ != nullptr) Close();
    EmulatedTest::TearDown();
  }

  void Open(const Variables& variables, size_t slab_bytes, int64_t memory_bytes = 0,
            const std::string& target = "host") {
    Start(variables);
    target_ = target;
    if (const char* graphs = std::getenv("BACKPLANE_TEST_GRAPHS"); graphs != nullptr && *graphs == '1')
      graph_mode_ = GraphMode::kOn;
    absl::StatusOr<std::shared_ptr<Devices>> devices = Devices::Open(api_, {memory_bytes, slab_bytes});
    ASSERT_TRUE(devices.ok()) << devices.status();
    devices_ = *devices;
    std::vector<DeviceNames> names;
    for (int d = 0; d < devices_->count(); ++d) names.push_back({devices_->name(d), devices_->architecture(d)});
    ProductLibraries libraries;
    if (!product_library_.empty())
      libraries = OpenProductLibraries(devices_->api(), product_library_, devices_->architecture(0));
    auto runtime = std::make_shared<Runtime>(MakeTopology(target, names), devices_, collective_time_limit_,
                                             std::move(libraries), graph_mode_);
    if (prepare_ != nullptr) prepare_(*runtime);
    client_ = std::make_unique<HipClient>(std::move(runtime));
  }
  // Destroys the client. All work must have ended. Nothing may be left in the runtime, nor found wrong, unless the test
  // expects a line that begins so.
  void Close() {
    client_.reset();
    // The thread that has ended a launch may keep the runtime for a moment.
    for (int i = 0; i < 5000 && devices_.use_count() > 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(devices_.use_count(), 1) << "something of the client is left";
    devices_.reset();
    if (expected_report_.empty()) {
      EXPECT_EQ(FullReport(), "");
    } else {
      EXPECT_THAT(FullReport(), ::testing::StartsWith(expected_report_));
      EXPECT_THAT(FullReport(), ::testing::Not(::testing::ContainsRegex("not freed|not destroyed")));
    }
  }

  std::unique_ptr<LoadedExecutable> Load(const char* program) {
    std::shared_ptr<Executable>& compiled = compiled_[program];
    if (compiled == nullptr) {
      absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram("hlo", program);
      EXPECT_TRUE(module.ok()) << module.status();
      absl::StatusOr<std::shared_ptr<Executable>> executable = CompileForGpu(*std::move(module), target_, {}, calls_);
      EXPECT_TRUE(executable.ok()) << executable.status();
      compiled = *executable;
    }
    return *client_->Load(compiled, {});
  }

  static Shape MakeShape(const DimVector& dims) {
    Shape shape(PrimitiveType::kF32, dims);
    shape.set_row_major();
    return shape;
  }
  absl::StatusOr<DeviceArray> TryRoom(const DimVector& dims, int32_t memory) {
    const Shape shape = MakeShape(dims);
    absl::StatusOr<std::shared_ptr<Storage>> storage =
        client_->Allocate(memory, static_cast<size_t>(shape.byte_size()));
    if (!storage.ok()) return storage.status();
    return DeviceArray{shape, memory, *storage, Event()};
  }
  DeviceArray Room(const DimVector& dims, int32_t memory = 0) {
    absl::StatusOr<DeviceArray> room = TryRoom(dims, memory);
    EXPECT_TRUE(room.ok()) << room.status();
    return room.ok() ? *std::move(room) : DeviceArray{MakeShape(dims), memory, nullptr, Event::Ready(room.status())};
  }
  CopyFromHostEvents Fill(const DeviceArray& array, const std::vector<float>& values,
                          HostUse use = HostUse::kUntilReleased) {
    DimVector strides;
    int64_t stride = 4;
    for (int64_t d = array.shape.rank(); d-- > 0; stride *= array.shape.dimensions(d))
      strides.insert(strides.begin(), stride);
    return client_->StartCopyFromHost({values.data(), PrimitiveType::kF32, array.shape.dimensions(), strides}, array,
                                      use);
  }
  DeviceArray Put(const std::vector<float>& values, const DimVector& dims, int32_t memory = 0) {
    DeviceArray array = Room(dims, memory);
    const CopyFromHostEvents events = Fill(array, values);
    EXPECT_TRUE(events.host_released.Await().ok());
    array.ready = events.done;
    return array;
  }
  Event Fetch(const DeviceArray& array, std::vector<float>* values) {
    values->assign(static_cast<size_t>(array.shape.num_elements()), -1.0f);
    return client_->StartCopyToHost(array, array.shape, values->data());
  }
  std::vector<float> Get(const DeviceArray& array) {
    std::vector<float> values;
    const absl::Status status = Fetch(array, &values).Await();
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  absl::StatusOr<ExecuteResult> TryRun(LoadedExecutable& program, std::vector<DeviceArray> arguments,
                                       int32_t device = 0, bool donates = false) {
    ExecuteRequest request;
    request.run_id = ++run_id_;
    request.device = device;
    assignment_[static_cast<size_t>(device)] = device;
    request.device_assignment = {&assignment_[static_cast<size_t>(device)], 1};
    request.donated.resize(arguments.size(), donates);
    request.arguments = std::move(arguments);
    return program.Execute(std::move(request));
  }
  DeviceArray Run(LoadedExecutable& program, std::vector<DeviceArray> arguments, int32_t device = 0,
                  bool donates = false) {
    absl::StatusOr<ExecuteResult> result = TryRun(program, std::move(arguments), device, donates);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    return result->outputs[0];
  }
  int64_t Calls(const char* function) { return Own<HipemuCallCount>("hipemuCallCount")(function); }

  std::string target_, product_library_;
  GraphMode graph_mode_ = GraphMode::kOff;
  std::chrono::milliseconds collective_time_limit_{60000};
  std::function<void(Runtime&)> prepare_;  // called before the client is made; may be null
  NoCalls calls_;
  std::map<std::string, std::shared_ptr<Executable>> compiled_;
  std::shared_ptr<Devices> devices_;
  std::unique_ptr<HipClient> client_;
  std::string expected_report_;
  int64_t run_id_ = 0;
  int32_t assignment_[4] = {};
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_CLIENT_TESTING_H_
