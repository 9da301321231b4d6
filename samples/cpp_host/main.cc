// A host in C++ over sdk/host: several devices, donation, asynchronous execution with callbacks.
//
//   cpp_host PLUGIN.so
//
// One training step of a linear model, compiled once, runs on two devices at the same time, each with its own weights.
// The weights are donated to every step, so a step writes the new weights to the memory of the old ones. The loop only
// starts steps; it waits once, at the end.
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <vector>

#include "sdk/host/client.h"
#include "sdk/host/status.h"

namespace {

using namespace backplane::host;  // NOLINT: a sample

// w := w - 0.1 * x^T (x w - y), with the sum of squares of x w - y before the step.
constexpr char kStep[] = R"(
module @step {
  func.func public @main(%w: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<4x2xf32>, %y: tensor<4xf32>)
      -> (tensor<2xf32>, tensor<f32>) {
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %e = stablehlo.subtract %p, %y : tensor<4xf32>
    %g = stablehlo.dot_general %x, %e, contracting_dims = [0] x [0] : (tensor<4x2xf32>, tensor<4xf32>) -> tensor<2xf32>
    %rate = stablehlo.constant dense<0.1> : tensor<2xf32>
    %d = stablehlo.multiply %g, %rate : tensor<2xf32>
    %new = stablehlo.subtract %w, %d : tensor<2xf32>
    %loss = stablehlo.dot_general %e, %e, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    return %new, %loss : tensor<2xf32>, tensor<f32>
  }
})";
constexpr int kSteps = 200;

// Counts what has become ready; callbacks come in threads of the plugin.
class Counter {
 public:
  void Add(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok()) first_error_ = status;
    ++count_;
    changed_.notify_all();
  }
  absl::Status WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
    return first_error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  absl::Status first_error_;
};

absl::Status Run(const char* path) {
  BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(path));
  BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin, {NamedValue("cpu_device_count", 2)}));
  BP_ASSIGN_OR_RETURN(const std::string platform, client.PlatformName());
  BP_ASSIGN_OR_RETURN(const std::vector<Device> devices, client.AddressableDevices());
  printf("%s: PJRT C API 0.%d, %zu devices\n", platform.c_str(), plugin->minor_version(), devices.size());
  if (devices.size() < 2) return absl::FailedPreconditionError("expected two devices");

  CompileOptions options;
  options.num_replicas = 2;
  BP_ASSIGN_OR_RETURN(const LoadedExecutable step, client.Compile({"mlir", kStep}, options));

  // y = 3 x0 - 2 x1, the same data on both devices, different first weights.
  const HostArray x = HostArray::Of<float>({4, 2}, {1, 0, 0, 1, 1, 1, 1, -1}),
                  y = HostArray::Of<float>({4}, {3, -2, 1, 5});
  std::vector<Buffer> weights, xs, ys;
  BP_ASSIGN_OR_RETURN(const std::vector<Device> order, step.AddressableDevices());
  for (size_t d = 0; d < order.size(); ++d) {
    const float first = static_cast<float>(d);
    BP_ASSIGN_OR_RETURN(Buffer w, client.ToDevice(HostArray::Of<float>({2}, {first, -first}), order[d]));
    BP_ASSIGN_OR_RETURN(Buffer dx, client.ToDevice(x, order[d]));
    BP_ASSIGN_OR_RETURN(Buffer dy, client.ToDevice(y, order[d]));
    weights.push_back(std::move(w)), xs.push_back(std::move(dx)), ys.push_back(std::move(dy));
  }

  Counter losses;
  std::vector<Buffer> last_losses;
  for (int i = 0; i < kSteps; ++i) {
    BP_ASSIGN_OR_RETURN(ExecuteResult result,
                        step.Execute({{&weights[0], &xs[0], &ys[0]}, {&weights[1], &xs[1], &ys[1]}}));
    last_losses.clear();
    for (size_t d = 0; d < 2; ++d) {
      BP_ASSIGN_OR_RETURN(const bool donated, weights[d].IsDeleted());
      if (!donated) return absl::InternalError("the weights were not donated");
      weights[d] = std::move(result.outputs[d][0]);
      BP_ASSIGN_OR_RETURN(const Event ready, result.outputs[d][1].ReadyEvent());
      BP_RETURN_IF_ERROR(ready.OnReady([&losses](absl::Status status) { losses.Add(status); }));
      last_losses.push_back(std::move(result.outputs[d][1]));
    }
  }
  BP_RETURN_IF_ERROR(losses.WaitFor(2 * kSteps));

  for (size_t d = 0; d < 2; ++d) {
    BP_ASSIGN_OR_RETURN(const HostArray w, weights[d].ToHost());
    BP_ASSIGN_OR_RETURN(const HostArray loss, last_losses[d].ToHost());
    const absl::Span<const float> v = w.Values<float>();
    printf("device %zu: weights %.4f %.4f, loss %.2g\n", d, v[0], v[1], loss.Values<float>()[0]);
    if (std::abs(v[0] - 3) > 1e-3 || std::abs(v[1] + 2) > 1e-3) return absl::InternalError("expected weights 3 and -2");
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s PLUGIN.so\n", argv[0]), 2;
  const absl::Status status = Run(argv[1]);
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
