// overload PLUGIN.so [PEER.so]: tests a plugin under much more load than it can handle at once.
//
// Each scenario runs in its own process, limited to two CPUs and to a time limit. The parent monitors that process and
// prints its maximum number of threads, its maximum resident memory and its time, next to those of PEER. The exit
// status is 0 if every scenario of PLUGIN finished in time with correct results and within --threads and --memory, if
// these are given.
//
//   --only NAME        one scenario
//   --part N           1/N of the work
//   --threads N        maximum number of threads, not counting the callers of the scenario
//   --memory MB        maximum resident memory
//   --limit SECONDS    time limit per scenario, default 300
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "api/extensions/ffi.h"
#include "api/ffi_c_api.h"
#include "sdk/host/client.h"
#include "sdk/host/loader.h"

namespace backplane::host {
namespace {

// x * x * x, and the same reduced to one number: a large temporary buffer and a small result.
constexpr char kProduct[] = R"(module @product {
  func.func public @main(%x: tensor<NxNxf32>) -> tensor<NxNxf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxf32>
    %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxf32>
    return %1 : tensor<NxNxf32>
  }
})";
constexpr char kTrace[] = R"(module @trace {
  func.func public @main(%x: tensor<NxNxf32>) -> tensor<f32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<NxNxf32>, tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
})";
constexpr char kSumOverDevices[] = R"(module @sums {
  func.func public @main(%x: tensor<256xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<256xf32>) -> tensor<256xf32>
    %1 = stablehlo.sine %0 : tensor<256xf32>
    %2 = "stablehlo.all_reduce"(%1) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<256xf32>) -> tensor<256xf32>
    %3 = stablehlo.subtract %0, %2 : tensor<256xf32>
    %4 = stablehlo.add %3, %2 : tensor<256xf32>
    return %4 : tensor<256xf32>
  }
})";
constexpr char kCall[] = R"(module @calls {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.custom_call"(%x) {call_target_name = "overload_callback", api_version = 4 : i32, backend_config = {}, has_side_effect = false} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

constexpr int kDevices = 8;

[[noreturn]] void Stop(const std::string& why) {
  std::printf("WRONG %s\n", why.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

template <typename T>
T Must(absl::StatusOr<T> value, const char* what) {
  if (!value.ok()) Stop(absl::StrCat(what, ": ", std::string(value.status().message())));
  return *std::move(value);
}
void Must(const absl::Status& status, const char* what) {
  if (!status.ok()) Stop(absl::StrCat(what, ": ", std::string(status.message())));
}

struct Run {
  const Plugin* plugin = nullptr;
  int part = 1;
  int Times(int n) const { return std::max(1, n / part); }

  Client Open(std::vector<NamedValue> options = {}) const { return Must(Client::Create(*plugin, options), "client"); }
};

LoadedExecutable CompileSized(const Client& client, const char* program, int n) {
  return Must(client.Compile({"mlir", absl::StrReplaceAll(program, {{"NxN", absl::StrCat(n, "x", n)}})}), "compile");
}

Buffer Square(const Client& client, int n, float value) {
  const std::vector<float> data(static_cast<size_t>(n) * static_cast<size_t>(n), value);
  return Must(client.ToDevice(HostArray::Of<float>({n, n}, data)), "put");
}

void Expect(const Buffer& buffer, float value, const char* what) {
  const HostArray host = Must(buffer.ToHost(), what);
  for (float v : host.Values<float>()) {
    if (std::abs(v - value) > 1e-3f * std::abs(value)) Stop(absl::StrCat(what, ": ", v, ", expected ", value));
  }
}

// ---- Scenarios

void Products(const Run& run) {
  constexpr int kSide = 512;
  const Client client = run.Open();
  const LoadedExecutable product = CompileSized(client, kProduct, kSide);
  const Buffer x = Square(client, kSide, 1.0f / kSide);
  const Buffer* arguments[] = {&x};
  std::vector<Buffer> results;
  for (int i = 0; i < run.Times(400); ++i) {
    results.push_back(std::move(Must(product.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
  }
  for (const Buffer& result : results) Must(result.Await(), "a product");
  for (size_t i = 0; i < results.size(); i += 37) Expect(results[i], 1.0f / kSide, "a product");
}

void Flood(const Run& run) {
  constexpr int kSide = 192;
  const Client client = run.Open();
  const LoadedExecutable trace = CompileSized(client, kTrace, kSide);
  const Buffer x = Square(client, kSide, 1.0f / kSide);
  const Buffer* arguments[] = {&x};
  std::vector<Buffer> results;
  for (int i = 0; i < run.Times(10000); ++i) {
    results.push_back(std::move(Must(trace.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
  }
  for (const Buffer& result : results) Expect(result, 1.0f / kSide, "a trace");
}

// Each program depends on the previous one.
void Chain(const Run& run) {
  constexpr int kSide = 64;
  const Client client = run.Open();
  const LoadedExecutable product = CompileSized(client, kProduct, kSide);
  std::vector<Buffer> values;
  values.push_back(Square(client, kSide, 1.0f / kSide));
  for (int i = 0; i < run.Times(10000); ++i) {
    const Buffer* arguments[] = {&values.back()};
    values.push_back(std::move(Must(product.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
    if (values.size() > 8) values.erase(values.begin());
  }
  Expect(values.back(), 1.0f / kSide, "the end of a chain");
}

void Callers(const Run& run) {
  constexpr int kSide = 160, kCallers = 16;
  const Client client = run.Open();
  const LoadedExecutable trace = CompileSized(client, kTrace, kSide);
  std::vector<std::thread> threads;
  for (int t = 0; t < kCallers; ++t) {
    threads.emplace_back([&, t] {
      const float value = static_cast<float>(t + 1) / kSide;
      for (int i = 0; i < run.Times(500); i += 10) {
        const Buffer x = Square(client, kSide, value);
        const Buffer* arguments[] = {&x};
        std::vector<Buffer> results;
        for (int k = 0; k < 10; ++k) {
          results.push_back(std::move(Must(trace.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
        }
        for (const Buffer& result : results) Expect(result, value * value * kSide, "a caller's trace");
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

int64_t FromStatus(int pid, const char* key) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (absl::StartsWith(line, key)) return std::atoll(line.c_str() + std::string(key).size());
  }
  return 0;
}

void Clients(const Run& run) {
  constexpr int kSide = 256;
  const int clients = run.Times(100);
  int64_t threads = 0, kilobytes = 0;
  for (int i = 0; i < clients; ++i) {
    const Client client = run.Open({NamedValue("cpu_device_count", int64_t{4})});
    const LoadedExecutable trace = CompileSized(client, kTrace, kSide);
    const Buffer x = Square(client, kSide, 1.0f / kSide);
    const Buffer* arguments[] = {&x};
    std::vector<Buffer> results;
    for (int k = 0; k < 20; ++k) {
      results.push_back(std::move(Must(trace.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
    }
    if (i % 2 == 0)
      Expect(results.back(), 1.0f / kSide, "a client's trace");  // the others are destroyed while work is in progress
    if (i == clients / 4) {
      threads = FromStatus(getpid(), "Threads:");
      kilobytes = FromStatus(getpid(), "VmRSS:");
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int64_t threads_now = FromStatus(getpid(), "Threads:"), now = FromStatus(getpid(), "VmRSS:");
  std::printf("NOTE threads %ld then %ld, resident %ld MB then %ld MB\n", long(threads), long(threads_now),
              long(kilobytes >> 10), long(now >> 10));
  // The code of destroyed programs may leave holes, but a client must not leak a megabyte.
  if (clients >= 8 && threads_now > threads + 8) Stop("threads grow with clients");
  if (clients >= 8 && now - kilobytes > int64_t{1024} * clients) Stop("memory grows with clients");
}

void Collectives(const Run& run) {
  constexpr int kCallers = 8;
  const Client client = run.Open({NamedValue("cpu_device_count", int64_t{kDevices})});
  const std::vector<Device> devices = Must(client.AddressableDevices(), "devices");
  if (devices.size() < kDevices) Stop("too few devices");
  CompileOptions options;
  options.num_replicas = kDevices;
  const LoadedExecutable sums = Must(client.Compile({"mlir", kSumOverDevices}, options), "compile");
  std::vector<std::vector<Buffer>> inputs(kCallers);
  for (int c = 0; c < kCallers; ++c) {
    for (int d = 0; d < kDevices; ++d) {
      const std::vector<float> data(256, static_cast<float>(c + d));
      inputs[static_cast<size_t>(c)].push_back(
          Must(client.ToDevice(HostArray::Of<float>({256}, data), devices[static_cast<size_t>(d)]), "put"));
    }
  }
  std::vector<std::thread> threads;
  for (int c = 0; c < kCallers; ++c) {
    threads.emplace_back([&, c] {
      std::vector<std::vector<const Buffer*>> arguments;
      for (const Buffer& b : inputs[static_cast<size_t>(c)]) arguments.push_back({&b});
      std::vector<ExecuteResult> results;
      for (int i = 0; i < run.Times(250); ++i) results.push_back(Must(sums.Execute(arguments), "execute"));
      const float sum = static_cast<float>(kDevices * c + kDevices * (kDevices - 1) / 2);
      for (const ExecuteResult& result : results) {
        for (const std::vector<Buffer>& of_device : result.outputs) Expect(of_device[0], sum, "a sum over devices");
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

// The program that a callback runs.
struct Inner {
  const LoadedExecutable* trace = nullptr;
  const Buffer* argument = nullptr;
  std::atomic<int> calls{0};
};
Inner inner;

XLA_FFI_Error* Callback(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_InternalExtension* e = frame->extension_start; e != nullptr; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  const Buffer* arguments[] = {inner.argument};
  const std::vector<Buffer> result =
      Must(inner.trace->Execute(absl::MakeConstSpan(arguments)), "execute in a callback");
  const float value = Must(result[0].ToHost(), "a callback's result").Values<float>()[0];
  const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* out = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  for (int i = 0; i < 4; ++i) static_cast<float*>(out->data)[i] = static_cast<const float*>(in->data)[i] + value;
  inner.calls.fetch_add(1);
  return nullptr;
}

// Callbacks of running programs run programs on the same device and wait for them.
void Callbacks(const Run& run) {
  constexpr int kSide = 256;
  // With several devices every program runs on a thread of the plugin.
  const Client client = run.Open({NamedValue("cpu_device_count", int64_t{2})});
  const auto* ffi = run.plugin->Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI, PJRT_FFI_Extension_STRUCT_SIZE);
  if (ffi == nullptr) Stop("no FFI extension");
  PJRT_FFI_Register_Handler_Args a{};
  a.struct_size = PJRT_FFI_Register_Handler_Args_STRUCT_SIZE;
  const std::string target = "overload_callback", platform = "Host";
  a.target_name = target.data();
  a.target_name_size = target.size();
  a.handler = reinterpret_cast<void*>(&Callback);
  a.platform_name = platform.data();
  a.platform_name_size = platform.size();
  if (ffi->register_handler(&a) != nullptr) Stop("the handler is refused");
  const LoadedExecutable trace = CompileSized(client, kTrace, kSide);
  const Buffer x = Square(client, kSide, 1.0f / kSide);
  inner.trace = &trace;
  inner.argument = &x;
  const LoadedExecutable call = Must(client.Compile({"mlir", kCall}), "compile");
  const std::vector<float> ones(4, 1.0f);
  const Buffer one = Must(client.ToDevice(HostArray::Of<float>({4}, ones)), "put");
  const Buffer* arguments[] = {&one};
  std::vector<Buffer> results;
  const int times = run.Times(2000);
  for (int i = 0; i < times; ++i) {
    results.push_back(std::move(Must(call.Execute(absl::MakeConstSpan(arguments)), "execute")[0]));
  }
  for (const Buffer& result : results) Expect(result, 1.0f + 1.0f / kSide, "a callback's sum");
  if (inner.calls != times) Stop(absl::StrCat(inner.calls.load(), " calls of ", times));
}

// A limit that holds the memory of two programs, and a thousand programs; then requests beyond it, and work again.
void Limit(const Run& run) {
  constexpr int kSide = 1024;
  constexpr int64_t kLimit = int64_t{40} << 20;  // a matrix takes 4 MiB
  const Client client = run.Open({NamedValue("memory_limit_bytes", kLimit)});
  const LoadedExecutable product = CompileSized(client, kProduct, kSide / 2);
  const Buffer x = Square(client, kSide / 2, 2.0f / kSide);
  const Buffer* arguments[] = {&x};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < run.Times(100); ++i) Must(product.Execute(absl::MakeConstSpan(arguments)), "execute");
    std::vector<Buffer> kept;
    absl::Status refused;
    while (refused.ok() && kept.size() < 100) {
      absl::StatusOr<Buffer> more = client.Uninitialized({PJRT_Buffer_Type_F32, {kSide, kSide}});
      refused = more.status();
      if (more.ok()) kept.push_back(*std::move(more));
    }
    if (refused.code() != absl::StatusCode::kResourceExhausted) Stop("the limit is not enforced");
    if (!absl::StrContains(refused.message(), absl::StrCat(kLimit))) Stop(std::string(refused.message()));
    kept.clear();
    Expect(Must(product.Execute(absl::MakeConstSpan(arguments)), "execute")[0], 2.0f / kSide, "a product");
  }
}

struct Scenario {
  const char* name;
  const char* what;
  int callers;  // threads of the scenario
  void (*run)(const Run&);
  bool ours_only = false;
};

constexpr Scenario kScenarios[] = {
    {"products", "400 dispatches of two 512x512 products", 1, Products},
    {"flood", "10,000 dispatches in flight", 1, Flood},
    {"chain", "10,000 dispatches, each needs the one before", 1, Chain},
    {"callers", "16 threads put, dispatch and read", 17, Callers},
    {"clients", "100 clients opened and closed", 1, Clients},
    {"collectives", "2,000 launches over 8 devices from 8 threads", 9, Collectives},
    {"callbacks", "2,000 programs with callbacks that run programs", 1, Callbacks},
    {"limit", "work at the edge of a memory limit", 1, Limit, true},
};

// ---- Parent process

struct Outcome {
  bool ok = false;
  double seconds = 0;
  int64_t threads = 0, megabytes = 0;
  std::string text;
};

Outcome Watch(const char* self, const std::string& plugin, const Scenario& scenario, int part, int limit_s) {
  int out[2];
  Outcome outcome;
  if (pipe2(out, O_CLOEXEC) != 0) return outcome;
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], 1);
    const std::string parts = absl::StrCat(part);
    execl(self, self, plugin.c_str(), "--run", scenario.name, "--part", parts.c_str(), nullptr);
    _exit(127);
  }
  close(out[1]);
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  int status = 0;
  bool hung = false;
  for (bool ended = false; !ended;) {
    ended = waitpid(pid, &status, WNOHANG) == pid;
    if (!ended) {
      outcome.threads = std::max(outcome.threads, FromStatus(pid, "Threads:"));
      outcome.megabytes = std::max(outcome.megabytes, FromStatus(pid, "VmHWM:") >> 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    char text[4096];
    for (ssize_t n; (n = read(out[0], text, sizeof text)) > 0;) outcome.text.append(text, static_cast<size_t>(n));
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!ended && !hung && outcome.seconds > limit_s) {
      hung = true;
      kill(pid, SIGKILL);
    }
  }
  close(out[0]);
  while (!outcome.text.empty() && outcome.text.back() == '\n') outcome.text.pop_back();
  outcome.ok = !hung && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (hung) {
    outcome.text = absl::StrCat("WRONG hung for ", limit_s, " s");
  } else if (WIFSIGNALED(status)) {
    outcome.text = absl::StrCat("WRONG ended by signal ", WTERMSIG(status));
  }
  return outcome;
}

void HoldToTwoCpus() {
  cpu_set_t all, two;
  CPU_ZERO(&all);
  CPU_ZERO(&two);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int cpu = 0, n = 0; cpu < CPU_SETSIZE && n < 2; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &two);
    ++n;
  }
  sched_setaffinity(0, sizeof two, &two);
}

int Main(int argc, char** argv) {
  std::vector<std::string> plugins;
  std::string only, child;
  int part = 1, threads = 0, memory = 0, limit = 300;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!absl::StartsWith(word, "--")) {
      plugins.push_back(word);
      continue;
    }
    const std::string value = ++i < argc ? argv[i] : "";
    bool good = true;
    if (word == "--only") {
      only = value;
    } else if (word == "--run") {
      child = value;
    } else if (word == "--part") {
      good = absl::SimpleAtoi(value, &part) && part > 0;
    } else if (word == "--threads") {
      good = absl::SimpleAtoi(value, &threads);
    } else if (word == "--memory") {
      good = absl::SimpleAtoi(value, &memory);
    } else if (word == "--limit") {
      good = absl::SimpleAtoi(value, &limit) && limit > 0;
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "overload: %s '%s' is not understood\n", word.c_str(), value.c_str());
      return 2;
    }
  }
  if (plugins.empty()) {
    std::fprintf(stderr, "usage: overload PLUGIN.so [PEER.so] [--only NAME] [--part N] [--threads N] [--memory MB]\n");
    return 2;
  }
  if (!child.empty()) {
    HoldToTwoCpus();
    for (const Scenario& scenario : kScenarios) {
      if (child != scenario.name) continue;
      scenario.run({Must(Plugin::Load(plugins[0]), "load"), part});
      return 0;
    }
    return 2;
  }
  bool all_ok = true, found = false;
  std::printf("%-13s%-24s%9s%9s%9s\n", "", "plugin", "threads", "MB", "seconds");
  for (const Scenario& scenario : kScenarios) {
    if (!only.empty() && only != scenario.name) continue;
    found = true;
    for (size_t p = 0; p < plugins.size(); ++p) {
      if (p > 0 && scenario.ours_only) continue;
      Outcome outcome = Watch(argv[0], plugins[p], scenario, part, limit);
      if (p == 0) {
        const int64_t of_plugin = outcome.threads - scenario.callers;
        if (threads > 0 && of_plugin > threads)
          outcome.ok = false, absl::StrAppend(&outcome.text, " WRONG more than ", threads, " threads of the plugin");
        if (memory > 0 && outcome.megabytes > memory)
          outcome.ok = false, absl::StrAppend(&outcome.text, " WRONG more than ", memory, " MB");
        all_ok = all_ok && outcome.ok;
      }
      const std::string file = plugins[p].substr(plugins[p].rfind('/') + 1);
      std::printf("%-13s%-24s%9ld%9ld%9.2f  %s\n", scenario.name, file.substr(0, 23).c_str(), long(outcome.threads),
                  long(outcome.megabytes), outcome.seconds,
                  outcome.text.empty() ? scenario.what : outcome.text.c_str());
      std::fflush(stdout);
    }
  }
  if (!found) std::fprintf(stderr, "overload: no scenario '%s'\n", only.c_str());
  return all_ok && found ? 0 : 1;
}

}  // namespace
}  // namespace backplane::host

int main(int argc, char** argv) { return backplane::host::Main(argc, argv); }
