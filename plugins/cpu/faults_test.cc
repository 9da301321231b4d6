// Runs a training step of a transformer, a step on two devices and a compilation repeatedly. Each time another
// allocation, copy, kernel, launch or thread start fails. Each time there must be an error, no leak and no waiting
// thread, and the next step must give the right values.
//
// The fault points are those of sdk/backend/faults.h. The test tries a few dozen of each kind at regular intervals;
// BACKPLANE_FAULTS=all (./dev faults) tries all of them.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "gtest/gtest.h"
#include "sdk/backend/faults.h"
#include "sdk/engine/backend/client.h"
#include "sdk/testing/api_calls.h"

// Intercepts every thread start in this process.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* arg) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!backplane::Fault(backplane::FaultSite::kThread).ok()) return EAGAIN;
  return real(thread, attributes, body, arg);
}

namespace backplane::testing {
namespace {

constexpr int kDevices = 2;
constexpr int kTimeLimitSeconds = 60;  // for one round: a second or two of work on a busy machine

// Ends the process if a round takes too long, because something waits for ever.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : what_(std::move(what)), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void Watch() {
    std::unique_lock<std::mutex> lock(mu_);
    if (changed_.wait_for(lock, std::chrono::seconds(kTimeLimitSeconds), [&] { return done_; })) return;
    std::fprintf(stderr, "%s: nothing has ended within %d s\n", what_.c_str(), kTimeLimitSeconds);
    std::abort();
  }
  const std::string what_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool done_ = false;  // under mu_
  std::thread thread_;
};

struct BufferDeleter {
  void operator()(PJRT_Buffer* b) const { Destroy(b); }
};
using Buffer = std::unique_ptr<PJRT_Buffer, BufferDeleter>;
struct ExecutableDeleter {
  void operator()(PJRT_LoadedExecutable* e) const { Destroy(e); }
};
using Loaded = std::unique_ptr<PJRT_LoadedExecutable, ExecutableDeleter>;
struct ClientDeleter {
  void operator()(PJRT_Client* c) const { Destroy(c); }
};
using OwnedClient = std::unique_ptr<PJRT_Client, ClientDeleter>;

absl::Status OpenClient(OwnedClient* client) {
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "cpu_device_count";
  option.name_size = std::strlen(option.name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = kDevices;
  option.value_size = 1;
  BP_ARGS(a, PJRT_Client_Create);
  a.create_options = &option;
  a.num_options = 1;
  absl::Status s = BP_CALL(PJRT_Client_Create, a);
  if (s.ok()) client->reset(a.client);
  return s;
}

// A dense array in host memory.
struct Value {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::string bytes;
};

absl::Status Upload(PJRT_Client* client, PJRT_Device* device, const Value& value, Buffer* buffer) {
  BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
  a.client = client;
  a.data = value.bytes.data();
  a.type = value.type;
  a.dims = value.dims.data();
  a.num_dims = value.dims.size();
  a.device = device;
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  if (absl::Status s = BP_CALL(PJRT_Client_BufferFromHostBuffer, a); !s.ok()) return s;
  buffer->reset(a.buffer);
  return AwaitAndDestroy(a.done_with_host_buffer);
}

absl::Status Download(PJRT_Buffer* buffer, std::string* bytes) {
  BP_ARGS(a, PJRT_Buffer_ToHostBuffer);
  a.src = buffer;
  if (absl::Status s = BP_CALL(PJRT_Buffer_ToHostBuffer, a); !s.ok()) return s;
  bytes->assign(a.dst_size, '\0');
  a.dst = bytes->data();
  if (absl::Status s = BP_CALL(PJRT_Buffer_ToHostBuffer, a); !s.ok()) return s;
  return AwaitAndDestroy(a.event);
}

absl::Status Compare(const std::string& got, const std::vector<float>& expected, absl::string_view what) {
  if (got.size() != expected.size() * sizeof(float)) return absl::DataLossError(absl::StrCat(what, ": wrong size"));
  for (size_t i = 0; i < expected.size(); ++i) {
    float value;
    std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
    if (!(std::abs(value - expected[i]) <= 1e-4f * (1 + std::abs(expected[i])))) {
      return absl::DataLossError(absl::StrCat(what, "[", i, "] is ", value, ", expected ", expected[i]));
    }
  }
  return absl::OkStatus();
}

// A program with its arguments and its expected results.
struct Job {
  std::string text;
  int replicas = 1;
  std::vector<std::vector<Value>> arguments;             // by device
  std::vector<std::vector<std::vector<float>>> results;  // by device, output
};

absl::Status Build(PJRT_Client* client, const Job& job, Loaded* out) {
  PJRT_LoadedExecutable* loaded = nullptr;
  absl::Status s = Compile(client, job.text, &loaded, OptionsFor(job.replicas, 1));
  out->reset(loaded);
  return s;
}

// One step: copies the arguments to the device, runs the program, copies the results back. Waits for everything that it
// has started, also after an error.
absl::Status RunStep(PJRT_Client* client, PJRT_LoadedExecutable* program, const Job& job) {
  const std::vector<PJRT_Device*> devices = Devices(client);
  std::vector<Buffer> owned;
  std::vector<std::vector<PJRT_Buffer*>> rows;
  for (size_t d = 0; d < job.arguments.size(); ++d) {
    rows.emplace_back();
    for (const Value& v : job.arguments[d]) {
      owned.emplace_back();
      if (absl::Status s = Upload(client, devices[d], v, &owned.back()); !s.ok()) return s;
      rows.back().push_back(owned.back().get());
    }
  }
  std::vector<std::vector<PJRT_Buffer*>> outputs;
  std::vector<PJRT_Event*> events;
  absl::Status status = Execute(program, rows, job.results[0].size(), &outputs, nullptr, &events);
  if (!status.ok()) return status;
  for (auto& row : outputs) {
    for (PJRT_Buffer* b : row) owned.emplace_back(b);
  }
  for (PJRT_Event* e : events) {
    if (absl::Status s = AwaitAndDestroy(e); status.ok()) status = s;
  }
  for (size_t d = 0; d < outputs.size(); ++d) {
    for (size_t i = 0; i < outputs[d].size(); ++i) {
      std::string bytes;
      absl::Status s = Download(outputs[d][i], &bytes);
      if (s.ok() && status.ok()) s = Compare(bytes, job.results[d][i], absl::StrCat("output ", i, " of device ", d));
      if (status.ok()) status = s;
    }
  }
  return status;
}

// The same numbers in every run.
class Numbers {
 public:
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state_ >> 40) / static_cast<float>(1 << 24) - 0.5f;
  }

 private:
  uint64_t state_ = 1;
};

Value FloatValue(std::vector<int64_t> dims, const std::vector<float>& values) {
  return {PJRT_Buffer_Type_F32, std::move(dims),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

// Compares the results with those of the operations' definitions.
Job TransformerStep() {
  Job job;
  std::ifstream file(BACKPLANE_SOURCE_DIR "/plugins/cpu/testdata/transformer_step.mlir");
  std::stringstream text;
  text << file.rdbuf();
  job.text = text.str();
  auto module = ImportProgram("mlir", job.text);
  if (!module.ok()) {
    ADD_FAILURE() << module.status();
    return job;
  }
  Numbers numbers;
  std::vector<Literal> literals;
  job.arguments.emplace_back();
  for (const Instruction* p : (*module)->entry()->parameters()) {
    Literal literal(p->shape());
    Value value{PJRT_Buffer_Type_F32, {p->shape().dimensions().begin(), p->shape().dimensions().end()}, ""};
    if (p->shape().element_type() == PrimitiveType::kS32) {
      value.type = PJRT_Buffer_Type_S32;
      for (int64_t i = 0; i < p->shape().num_elements(); ++i) {
        const int32_t word = static_cast<int32_t>(i * 7 % 32);
        value.bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
      }
    } else {
      std::vector<float> values;
      for (int64_t i = 0; i < p->shape().num_elements(); ++i) values.push_back(numbers.Next());
      value = FloatValue(value.dims, values);
    }
    std::memcpy(literal.mutable_bytes(), value.bytes.data(), value.bytes.size());
    literals.push_back(std::move(literal));
    job.arguments[0].push_back(std::move(value));
  }
  auto result = Evaluate(**module, literals);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return job;
  }
  job.results.emplace_back();
  for (const Literal& leaf : result->elements()) {
    const float* values = reinterpret_cast<const float*>(leaf.bytes());
    job.results[0].emplace_back(values, values + leaf.shape().num_elements());
  }
  return job;
}

// w -= (w x) summed over the devices / 8, on each its own x; and the sum.
Job TwoDeviceStep() {
  constexpr int n = 48;
  Job job;
  job.replicas = kDevices;
  job.text = absl::StrCat(R"(
module @two attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%w: tensor<NxNxf32> {tf.aliasing_output = 0 : i32}, %x: tensor<NxNxf32>) -> (tensor<NxNxf32>, tensor<NxNxf32>) {
    %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxf32>
    %s = "stablehlo.all_reduce"(%y) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %t = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %t : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<NxNxf32>) -> tensor<NxNxf32>
    %c = stablehlo.constant dense<0.125> : tensor<f32>
    %k = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<NxNxf32>
    %d = stablehlo.multiply %s, %k : tensor<NxNxf32>
    %v = stablehlo.subtract %w, %d : tensor<NxNxf32>
    return %v, %s : tensor<NxNxf32>, tensor<NxNxf32>
  }
})");
  for (size_t at = 0; (at = job.text.find("NxNx", at)) != std::string::npos;) {
    job.text.replace(at, 4, absl::StrCat(n, "x", n, "x"));
  }
  Numbers numbers;
  auto matrix = [&] {
    std::vector<float> m;
    for (int i = 0; i < n * n; ++i) m.push_back(numbers.Next());
    return m;
  };
  const std::vector<float> w = matrix();
  std::vector<float> sum(n * n, 0.0f), next = w;
  for (int d = 0; d < kDevices; ++d) {
    const std::vector<float> x = matrix();
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        double y = 0;
        for (int k = 0; k < n; ++k) y += double{w[i * n + k]} * double{x[k * n + j]};
        sum[i * n + j] += static_cast<float>(y);
      }
    }
    job.arguments.push_back({FloatValue({n, n}, w), FloatValue({n, n}, x)});
  }
  for (int i = 0; i < n * n; ++i) next[i] -= sum[i] / 8;
  job.results.assign(kDevices, {next, sum});
  return job;
}

// x times a constant, which the compiler packs, plus another.
Job ConstantStep() {
  constexpr int n = 64;
  Numbers numbers;
  auto matrix = [&] {
    std::vector<float> m;
    for (int i = 0; i < n * n; ++i) m.push_back(numbers.Next());
    return m;
  };
  auto text = [](const std::vector<float>& m) {
    std::string rows;
    for (int i = 0; i < n; ++i) {
      absl::StrAppend(&rows, i == 0 ? "[" : ", [");
      for (int j = 0; j < n; ++j) absl::StrAppend(&rows, j == 0 ? "" : ", ", absl::StrFormat("%.9e", m[i * n + j]));
      absl::StrAppend(&rows, "]");
    }
    return absl::StrCat("stablehlo.constant dense<[", rows, "]> : tensor<64x64xf32>");
  };
  const std::vector<float> x = matrix(), c = matrix(), d = matrix();
  Job job;
  job.text =
      absl::StrCat("module @constant {\n  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {\n",
                   "    %c = ", text(c), "\n    %d = ", text(d), R"(
    %y = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %z = stablehlo.add %y, %d : tensor<64x64xf32>
    return %z : tensor<64x64xf32>
  }
})");
  std::vector<float> z = d;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      double y = 0;
      for (int k = 0; k < n; ++k) y += double{x[i * n + k]} * double{c[k * n + j]};
      z[i * n + j] += static_cast<float>(y);
    }
  }
  job.arguments = {{FloatValue({n, n}, x)}};
  job.results = {{z}};
  return job;
}

struct Live {
  int64_t blocks, bytes;
  bool operator==(const Live&) const = default;
};

Live CountLive() {
  const auto s = engine::Runtime::Get().memory.GetStatistics();
  return {s.num_live, s.bytes_in_use};
}

std::ostream& operator<<(std::ostream& out, const Live& l) {
  return out << l.blocks << " blocks, " << l.bytes << " bytes";
}

// What is counted may go a little after the host has heard of the end.
Live SettledLive(const Live& expected) {
  for (int i = 0; i < 1000 && !(CountLive() == expected); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return CountLive();
}

bool TryAll() {
  const char* value = std::getenv("BACKPLANE_FAULTS");
  return value != nullptr && std::string(value) == "all";
}

// Runs `step` once for each of up to `most` fault points of one kind, which fails. `after` must succeed each time.
void FailOneByOne(absl::string_view name, FaultSite site, int most, const std::function<absl::Status()>& step,
                  const std::function<absl::Status()>& after) {
  faults::Fail(FaultSite::kCount, 0);
  const absl::Status sound = step();
  faults::Stop();
  ASSERT_TRUE(sound.ok()) << name << ": " << sound;
  const int64_t points = faults::CountPassed(site);
  const int64_t stride = TryAll() ? 1 : std::max<int64_t>(1, (points + most - 1) / most);
  int64_t tried = 0;
  for (int64_t nth = 1; nth <= points; nth += stride) {
    const std::string round = absl::StrCat(name, ", ", FaultSiteName(site), " ", nth, " of ", points);
    Watchdog watchdog(round);
    const Live before = CountLive();
    faults::Fail(site, nth);
    const absl::Status status = step();
    faults::Stop();
    if (faults::Failed()) {
      ++tried;
      EXPECT_FALSE(status.ok()) << round;
      EXPECT_NE(status.code(), absl::StatusCode::kDataLoss) << round << ": " << status;
    } else {
      EXPECT_TRUE(status.ok()) << round << ": " << status;  // the number of fault points differs this time
    }
    EXPECT_EQ(SettledLive(before), before) << round;
    const absl::Status again = after();
    EXPECT_TRUE(again.ok()) << round << ", the step after it: " << again;
    EXPECT_EQ(SettledLive(before), before) << round << ", the step after it";
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("%s: %lld fault points of kind %s, %lld made to fail\n", std::string(name).c_str(),
              static_cast<long long>(points), FaultSiteName(site), static_cast<long long>(tried));
}

constexpr FaultSite kSites[] = {FaultSite::kStorage, FaultSite::kTemporary, FaultSite::kCopy, FaultSite::kKernel,
                                FaultSite::kLaunch};

// Threads are started once per process, so each round runs in its own process. This test runs before all others, while
// this process has no threads.
TEST(AFaultsOfThreads, TheStartOfAThread) {
  const Job job = TwoDeviceStep();
  const int most = TryAll() ? 1000 : 12;
  int tried = 0;
  for (int nth = 1; nth <= most; ++nth) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // 0: failed and went on; 1: not reached; else what went wrong.
      alarm(kTimeLimitSeconds);
      OwnedClient client;
      Loaded program;
      auto all = [&] {
        absl::Status s = client == nullptr ? OpenClient(&client) : absl::OkStatus();
        if (s.ok() && program == nullptr) s = Build(client.get(), job, &program);
        return s.ok() ? RunStep(client.get(), program.get(), job) : s;
      };
      faults::Fail(FaultSite::kThread, nth);
      const absl::Status first = all();
      faults::Stop();
      if (first.code() == absl::StatusCode::kDataLoss) _exit(3);
      if (!faults::Failed()) _exit(first.ok() ? 1 : 4);
      const absl::Status second = all();
      if (!second.ok()) std::fprintf(stderr, "thread %d: then %s\n", nth, second.ToString().c_str());
      _exit(second.ok() ? 0 : 5);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFEXITED(end)) << "thread " << nth << ": signal " << WTERMSIG(end);
    ASSERT_LE(WEXITSTATUS(end), 1) << "thread " << nth;
    if (WEXITSTATUS(end) == 1) break;
    ++tried;
  }
  EXPECT_GT(tried, 0);
  std::printf("open, compile and step on two devices: %d thread starts made to fail\n", tried);
}

class FaultsTest : public ::testing::Test {
 protected:
  static PJRT_Client* client() {
    static PJRT_Client* const client = [] {
      OwnedClient made;
      EXPECT_TRUE(OpenClient(&made).ok());
      return made.release();
    }();
    return client;
  }

  void Try(absl::string_view name, const Job& job, int most) {
    ASSERT_NE(client(), nullptr);
    Loaded program;
    absl::Status s = Build(client(), job, &program);
    ASSERT_TRUE(s.ok()) << s;
    auto step = [&] { return RunStep(client(), program.get(), job); };
    ASSERT_TRUE(step().ok());  // threads and pools are there
    for (FaultSite site : kSites) {
      FailOneByOne(name, site, most, step, step);
      if (HasFailure()) return;
    }
  }
};

TEST_F(FaultsTest, ATrainingStepOfATransformer) { Try("transformer step", TransformerStep(), 40); }

TEST_F(FaultsTest, AStepOnTwoDevices) { Try("two devices", TwoDeviceStep(), 40); }

TEST_F(FaultsTest, ACompilation) {
  ASSERT_NE(client(), nullptr);
  for (const auto& [name, job, most] : {std::tuple<const char*, Job, int>("compilation", TransformerStep(), 10),
                                        {"compilation with constants", ConstantStep(), 10}}) {
    auto compile = [&] {
      Loaded program;
      return Build(client(), job, &program);
    };
    auto use = [&] {
      Loaded program;
      absl::Status s = Build(client(), job, &program);
      return s.ok() ? RunStep(client(), program.get(), job) : s;
    };
    const absl::Status sound = use();
    ASSERT_TRUE(sound.ok()) << name << ": " << sound;
    for (FaultSite site : {FaultSite::kCode, FaultSite::kTemporary}) {
      FailOneByOne(name, site, most, compile, use);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace backplane::testing
