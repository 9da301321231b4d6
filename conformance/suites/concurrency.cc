// Many threads, many devices.
#include <thread>

#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

constexpr int kThreads = 16;

void InThreads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (auto& t : threads) t.join();
}

void Execute16(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  InThreads([&](int t) {
    for (int i = 0; i < 40; ++i) {
      const float a = static_cast<float>(t), b = static_cast<float>(i);
      k.Require(RunF32(k, add, {{a, a, a, a}, {b, b + 1, b + 2, b + 3}}) ==
                    std::vector<float>({a + b, a + b + 1, a + b + 2, a + b + 3}),
                "one executable run from ", kThreads, " threads gives the results of another thread");
    }
  });
}

void Loops16(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  InThreads([&](int t) {
    for (int32_t n = t + 1; n < t + 6; ++n) {
      PJRT_Buffer* out = Execute(k, count, {Put<int32_t>(k, {}, {n * 100})})[0];
      k.Require(GetAs<int32_t>(k, out)[0] == CountResult(n * 100), "a loop run beside others gives wrong results");
      Destroy(k, out);
    }
  });
}

void Compile16(Kit& k) {
  k.client();
  k.devices();
  InThreads([&](int t) {
    PJRT_LoadedExecutable* constant = Compile(k, absl::StrReplaceAll(kConstant, {{"1.0", absl::StrCat(t, ".5")}}));
    k.Require(GetAs<float>(k, Execute(k, constant, {})[0])[0] == static_cast<float>(t) + 0.5f,
              "programs compiled at once give each other's results");
    Destroy(k, constant);
  });
}

void Buffers16(Kit& k) {
  k.client();
  k.devices();
  InThreads([&](int t) {
    for (int i = 0; i < 60; ++i) {
      const std::vector<int32_t> data(static_cast<size_t>(1 + (i * 131) % 4000), t * 1000 + i);
      PJRT_Buffer* b = Put<int32_t>(k, {static_cast<int64_t>(data.size())}, data);
      k.Require(GetAs<int32_t>(k, b) == data, "buffers made from ", kThreads, " threads show each other's contents");
      Destroy(k, b);
    }
  });
}

void Mixed16(Kit& k) {  // compiles, runs, fails and copies concurrently
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  InThreads([&](int t) {
    for (int i = 0; i < 8; ++i) {
      if (t % 4 == 0) {
        PJRT_LoadedExecutable* none = nullptr;
        const Err e = TryCompile(k, "nonsense", "mlir", PlainOptions(k).Serialize(), &none);
        k.Require(!e.ok() && !e.message.empty(), "an error that happens beside other work is lost");
      } else if (t % 4 == 1) {
        Destroy(k, Compile(k, kTwoOutputs));
      } else {
        k.Require(RunF32(k, add, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
                  "wrong results beside other work");
      }
    }
  });
}

void ReadBy16(Kit& k) {
  const std::vector<int32_t> data(10000, 5);
  PJRT_Buffer* b = Put<int32_t>(k, {10000}, data);
  InThreads([&](int) {
    k.Require(GetAs<int32_t>(k, b) == data, "a buffer read from ", kThreads, " threads gives other contents");
  });
}

// ---- Several devices

// Compiles a program for two replicas.
Launch ForTwoReplicas(Kit& k, const char* program) {
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = 2;
  Launch launch;
  launch.executable = Compile(k, program, options);
  return launch;
}

// Launches device `d` alone with one argument. Returns its output.
PJRT_Buffer* LaunchAlone(Kit& k, Launch* launch, size_t d, const std::vector<float>& argument) {
  launch->device = k.device(d);
  launch->arguments = {{Put<float>(k, {static_cast<int64_t>(argument.size())}, argument, k.device(d))}};
  const Err e = TryExecute(k, launch);
  k.Require(e.ok(), "device ", d, " launched alone: ", FormatError(e));
  k.Require(launch->outputs.size() == 1 && launch->outputs[0].size() == 1, "a launch of one device gives ",
            launch->outputs.size(), " rows of outputs");
  return launch->outputs[0][0];
}

void Replicas(Kit& k) {
  Launch launch = ForTwoReplicas(k, R"(module @m {
  func.func public @main(%x: tensor<2xui32>) -> tensor<2xui32> {
    %0 = stablehlo.replica_id : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %2 = stablehlo.add %x, %1 : tensor<2xui32>
    return %2 : tensor<2xui32>
  }
})");
  for (size_t d = 0; d < 2; ++d) launch.arguments.push_back({Put<uint32_t>(k, {2}, {10, 20}, k.device(d))});
  const Err e = TryExecute(k, &launch);
  k.Require(e.ok(), FormatError(e));
  for (uint32_t d = 0; d < 2; ++d) {
    k.Require(GetDevice(k, launch.outputs[d][0]) == k.device(d), "the result of replica ", d, " is on another device");
    k.Require(GetAs<uint32_t>(k, launch.outputs[d][0]) == std::vector<uint32_t>({10 + d, 20 + d}), "replica ", d,
              " gives the results of another one");
  }
}

constexpr char kAllReduce[] = R"(module @m {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
})";

void AllReduce(Kit& k) {
  Launch launch = ForTwoReplicas(k, kAllReduce);
  for (int round = 0; round < 10; ++round) {
    const float r = static_cast<float>(round);
    launch.arguments = {{Put<float>(k, {2}, {1, r}, k.device(0))}, {Put<float>(k, {2}, {10, 20}, k.device(1))}};
    const Err e = TryExecute(k, &launch);
    k.Require(e.ok(), FormatError(e));
    for (size_t d = 0; d < 2; ++d)
      k.Require(GetAs<float>(k, launch.outputs[d][0]) == std::vector<float>({11, 20 + r}),
                "a sum over two replicas is wrong on device ", d);
  }
}

// Launches each device by its own call, in alternating order. The n-th launches of all devices form one execution.
void DeviceByDevice(Kit& k) {
  Launch launch = ForTwoReplicas(k, kAllReduce);
  PJRT_Buffer* out[2] = {nullptr, nullptr};
  for (size_t round = 0; round < 6; ++round) {
    const float r = static_cast<float>(round);
    const float x[2][2] = {{1, r}, {10, 20}};
    for (size_t i = 0; i < 2; ++i) {
      const size_t d = (i + round) % 2;
      out[d] = LaunchAlone(k, &launch, d, {x[d][0], x[d][1]});
      k.Require(GetDevice(k, out[d]) == k.device(d), "a launch on device ", d, " gives a result on another one");
    }
    for (size_t d = 0; d < 2; ++d)
      k.Require(GetAs<float>(k, out[d]) == std::vector<float>({11, 20 + r}),
                "a sum over two replicas that were launched one by one is wrong on device ", d);
  }
}

// Launches one device twice before the other: the plugin must not pair the two launches with each other.
void DeviceAhead(Kit& k) {
  Launch launch = ForTwoReplicas(k, kAllReduce);
  std::vector<PJRT_Buffer*> out;
  for (size_t i : {0, 1, 2, 3}) {
    const size_t d = i / 2;
    const float value = i % 2 == 0 ? 1.0f : 100.0f;
    out.push_back(LaunchAlone(k, &launch, d, {value, static_cast<float>(d)}));
  }
  for (size_t i = 0; i < out.size(); ++i)
    k.Require(GetAs<float>(k, out[i]) == std::vector<float>({i % 2 == 0 ? 2.0f : 200.0f, 1}), "launch ", i % 2,
              " of device ", i / 2, " was paired with another launch than its own");
}

void ReplicaArgumentCount(Kit& k) {
  Launch launch = ForTwoReplicas(k, kAllReduce);
  launch.arguments = {{Put<float>(k, {2}, {1, 2}, k.device(0))}};  // arguments for one device only
  const Err e = TryExecute(k, &launch);
  k.Require(!e.ok(), "a program for two devices runs with arguments for one");
  k.Require(!e.message.empty(), CodeName(e.code), " without a message");
}

// A sum over two replicas whose first argument is donated.
constexpr char kDonatingSum[] = R"(
module @donating_sum attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
})";

// The arguments of one device are right and those of the other are not: nothing may run or be donated on either.
void PartialLaunch(Kit& k) {
  Launch launch = ForTwoReplicas(k, kDonatingSum);
  PJRT_Buffer* deleted = Put<float>(k, {2}, {1, 1}, k.device(1));
  Delete(k, deleted);
  const struct {
    const char* what;
    PJRT_Buffer* argument;
  } wrong[] = {{"has been deleted", deleted},
               {"has another shape", Put<float>(k, {3}, {1, 1, 1}, k.device(1))},
               {"lies on another device", Put<float>(k, {2}, {1, 1}, k.device(0))}};
  for (const auto& w : wrong) {
    PJRT_Buffer* x = Put<float>(k, {2}, {1, 2}, k.device(0));
    launch.arguments = {{x}, {w.argument}};
    const Err e = TryExecute(k, &launch);
    k.Require(!e.ok(), "a launch on two devices is accepted though the second one's argument ", w.what);
    k.Require(!e.message.empty(), CodeName(e.code), " without a message");
    k.Require(!IsDeleted(k, x), "the launch was refused because the second device's argument ", w.what,
              ", and the first device's was taken");
    k.Require(GetAs<float>(k, x) == std::vector<float>({1, 2}),
              "the launch was refused because the second device's "
              "argument ",
              w.what, ", and the first device's was overwritten");
    // The failed launch must not affect the next one.
    launch.arguments = {{x}, {Put<float>(k, {2}, {10, 20}, k.device(1))}};
    const Err next = TryExecute(k, &launch);
    k.Require(next.ok(), "the launch after one that was refused: ", FormatError(next));
    for (size_t d = 0; d < 2; ++d)
      k.Require(GetAs<float>(k, launch.outputs[d][0]) == std::vector<float>({11, 22}),
                "the launch after one that was refused gives a wrong sum on device ", d);
  }
}

// A rejected call for one device does not count as a launch.
void RefusedAlone(Kit& k) {
  Launch launch = ForTwoReplicas(k, kDonatingSum);
  PJRT_Buffer* deleted = Put<float>(k, {2}, {1, 1}, k.device(1));
  Delete(k, deleted);
  for (int round = 0; round < 3; ++round) {
    const float r = static_cast<float>(round);
    PJRT_Buffer* out[2];
    for (size_t d = 0; d < 2; ++d) {
      if (d == 1) {
        launch.device = k.device(d);
        launch.arguments = {{deleted}};
        k.Require(!TryExecute(k, &launch).ok(), "a deleted argument is accepted");
      }
      out[d] = LaunchAlone(k, &launch, d, {r, static_cast<float>(d)});
    }
    for (size_t d = 0; d < 2; ++d)
      k.Require(
          GetAs<float>(k, out[d]) == std::vector<float>({2 * r, 1}),
          "after a call that was refused a device's launches are paired with the wrong ones of the other: device ", d);
  }
}

void Portable(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.compile_portable_executable = true;
  Launch launch;
  launch.executable = Compile(k, kAdd, options);
  for (size_t d = 0; d < 2; ++d) {
    PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4}, k.device(d));
    launch.arguments = {{x, x}};
    launch.device = k.device(d);
    const Err e = TryExecute(k, &launch);
    k.Require(e.ok(), "on device ", d, ": ", FormatError(e));
    k.Require(GetDevice(k, launch.outputs[0][0]) == k.device(d), "an execution on device ", d,
              " gives a result on another one");
    k.Require(GetAs<float>(k, launch.outputs[0][0]) == std::vector<float>({2, 4, 6, 8}), "wrong results on device ", d);
  }
}

void LogicalIds2(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = 2;
  PJRT_LoadedExecutable* loaded = Compile(k, kAllReduce, options);
  KIT_ARGS(k, a, PJRT_LoadedExecutable_AddressableDeviceLogicalIds);
  a.executable = loaded;
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDeviceLogicalIds, a);
  k.Require(a.num_addressable_device_logical_ids == 2, "two replicas have ", a.num_addressable_device_logical_ids,
            " logical ids");
  k.Require(a.addressable_device_logical_ids[0].replica == 0 && a.addressable_device_logical_ids[1].replica == 1,
            "the replicas are not 0 and 1");
  KIT_ARGS(k, d, PJRT_LoadedExecutable_AddressableDevices);
  d.executable = loaded;
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDevices, d);
  k.Require(d.num_addressable_devices == 2 && d.addressable_devices[0] != d.addressable_devices[1],
            "two replicas do not run on two devices");
}

void DevicesAtOnce(Kit& k) {
  host::CompileOptions options[2] = {PlainOptions(k), PlainOptions(k)};
  PJRT_LoadedExecutable* loaded[2];
  for (size_t d = 0; d < 2; ++d) {
    options[d].device_assignment = {GetId(k, k.device(d))};
    loaded[d] = Compile(k, kAdd, options[d]);
  }
  InThreads([&](int t) {
    const size_t d = static_cast<size_t>(t) % 2;
    for (int i = 0; i < 20; ++i) {
      PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, static_cast<float>(t)}, k.device(d));
      PJRT_Buffer* out = Execute(k, loaded[d], {x, x})[0];
      k.Require(GetAs<float>(k, out) == std::vector<float>({2, 4, 6, 2.0f * static_cast<float>(t)}),
                "work on two devices at once gives wrong results");
      Destroy(k, x);
      Destroy(k, out);
    }
  });
}

constexpr Check kChecks[] = {
    {"concurrency.execute", "", "one executable run from 16 threads", Execute16, 60},
    {"concurrency.loops", "", "loops run from 16 threads", Loops16, 60},
    {"concurrency.compile", "", "16 programs compiled at once", Compile16, 60},
    {"concurrency.buffers", "", "buffers made and read from 16 threads", Buffers16, 60},
    {"concurrency.mixed", "", "compiling, running and failing at once", Mixed16, 60},
    {"concurrency.read", "", "one buffer read from 16 threads", ReadBy16},
    {"devices2.replicas", "devices:2", "two replicas run each on its device", Replicas},
    {"devices2.all_reduce", "devices:2", "a sum over two replicas", AllReduce},
    {"devices2.argument_count", "devices:2", "arguments for too few devices give an error", ReplicaArgumentCount},
    {"one_by_one.all_reduce", "devices:2", "the devices of a program launched each by itself find one another",
     DeviceByDevice, 60},
    {"one_by_one.ahead", "devices:2", "a device that is a launch ahead waits for its partner", DeviceAhead, 60},
    {"refused.partial_launch", "devices:2",
     "a launch that is refused for one device takes nothing on the others, and the next one works", PartialLaunch, 0,
     true},
    {"refused.lone_launch", "devices:2", "a refused call of one device does not count among its launches", RefusedAlone,
     0, true},
    {"devices2.portable", "devices:2", "a portable program runs on the device of the execution", Portable},
    {"devices2.logical_ids", "devices:2 PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
     "two replicas know their devices", LogicalIds2},
    {"devices2.at_once", "devices:2", "two devices work at once from many threads", DevicesAtOnce, 60},
};

}  // namespace

absl::Span<const Check> ConcurrencySuite() { return kChecks; }

}  // namespace backplane::conformance
