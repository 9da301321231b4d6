// What tests of collectives share: programs on four emulated devices.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_COLLECTIVES_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_COLLECTIVES_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/hip/backend/testing/client_testing.h"

namespace backplane::hip {

inline constexpr int kDevices = 4;
using Values = std::vector<float>;

class CollectivesTest : public ClientTest, public ::testing::WithParamInterface<size_t> {
 protected:
  void OpenDevices(const std::string& latency_us = "0", int64_t memory_bytes = 0) {
    Open({{"HIPEMU_DEVICES", "4"}, {"HIPEMU_LATENCY_US", latency_us}}, GetParam(), memory_bytes);
  }
  // Compiles for four replicas. `on_devices`: whether the devices must run all collectives themselves.
  std::shared_ptr<Executable> Compile(const std::string& program, bool on_devices = true) {
    absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram("hlo", program);
    EXPECT_TRUE(module.ok()) << module.status();
    CompileOptions options;
    options.num_replicas = kDevices;
    absl::StatusOr<std::shared_ptr<Executable>> executable = CompileForGpu(*std::move(module), "host", options, calls_);
    EXPECT_TRUE(executable.ok()) << executable.status();
    EXPECT_EQ((*executable)->compile_log().find("on the host:") == std::string::npos, on_devices)
        << (*executable)->compile_log();
    return *executable;
  }
  // Runs the program on all devices: by device the arguments, and the events and outputs.
  std::vector<ExecuteResult> RunAll(LoadedExecutable& program, const std::vector<std::vector<DeviceArray>>& arguments) {
    static constexpr int32_t kAssignment[] = {0, 1, 2, 3};
    ++run_id_;
    std::vector<ExecuteResult> results;
    for (int32_t d = 0; d < kDevices; ++d) {
      ExecuteRequest request;
      request.run_id = run_id_;
      request.device = request.replica = d;
      request.device_assignment = kAssignment;
      request.arguments = arguments[static_cast<size_t>(d)];
      request.donated.resize(request.arguments.size());
      absl::StatusOr<ExecuteResult> result = program.Execute(std::move(request));
      EXPECT_TRUE(result.ok()) << result.status();
      results.push_back(*std::move(result));
    }
    return results;
  }
  // Runs a program of one argument: by device the values, and the values of each output.
  std::vector<std::vector<Values>> RunOnValues(LoadedExecutable& program, const std::vector<Values>& values,
                                               const DimVector& dims) {
    std::vector<std::vector<DeviceArray>> arguments;
    for (size_t d = 0; d < kDevices; ++d) arguments.push_back({Put(values[d], dims, static_cast<int32_t>(2 * d))});
    const std::vector<ExecuteResult> results = RunAll(program, arguments);
    std::vector<std::vector<Values>> all;
    for (const ExecuteResult& result : results) {
      all.emplace_back();
      for (const DeviceArray& output : result.outputs) all.back().push_back(Get(output));
    }
    return all;
  }
  // Different on each device.
  static std::vector<Values> Inputs(size_t n) {
    std::vector<Values> inputs;
    for (size_t d = 0; d < kDevices; ++d) {
      inputs.push_back(Numbers(n, static_cast<float>(5 * d), 97));
      for (float& v : inputs.back()) v += static_cast<float>(100 * d);
    }
    return inputs;
  }
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_TESTING_COLLECTIVES_TESTING_H_
