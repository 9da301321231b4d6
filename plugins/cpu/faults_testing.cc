#include "plugins/cpu/faults_testing.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "gtest/gtest.h"
#include "sdk/engine/backend/client.h"

namespace backplane::testing {
namespace {

constexpr int kDevices = 2;

}  // namespace

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Watch() {
  std::unique_lock<std::mutex> lock(mu_);
  if (changed_.wait_for(lock, std::chrono::seconds(kTimeLimitSeconds), [&] { return done_; })) return;
  std::fprintf(stderr, "%s: nothing has ended within %d s\n", what_.c_str(), kTimeLimitSeconds);
  std::abort();
}

absl::Status OpenClient(OwnedClient* client, int64_t collective_seconds) {
  auto option = [](absl::string_view name, int64_t value) {
    PJRT_NamedValue v{};
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    v.name = name.data();
    v.name_size = name.size();
    v.type = PJRT_NamedValue_kInt64;
    v.int64_value = value;
    v.value_size = 1;
    return v;
  };
  const PJRT_NamedValue options[] = {option("cpu_device_count", kDevices),
                                     option("collective_timeout_seconds", collective_seconds)};
  BP_ARGS(a, PJRT_Client_Create);
  a.create_options = options;
  a.num_options = 2;
  absl::Status s = BP_CALL(PJRT_Client_Create, a);
  if (s.ok()) client->reset(a.client);
  return s;
}

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

namespace {

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

}  // namespace

absl::Status Build(PJRT_Client* client, const Job& job, Loaded* out) {
  PJRT_LoadedExecutable* loaded = nullptr;
  absl::Status s = Compile(client, job.text, &loaded, OptionsFor(job.replicas, 1));
  out->reset(loaded);
  return s;
}

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

namespace {

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

// Reads a program and makes its arguments. The expected results are those of the operations' definitions.
Job ReadJob(const std::string& name) {
  Job job;
  std::ifstream file(absl::StrCat(BACKPLANE_SOURCE_DIR "/plugins/cpu/testdata/", name));
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

}  // namespace

Job TransformerStep() { return ReadJob("transformer_step.mlir"); }
Job ManyOperations() { return ReadJob("many_operations.mlir"); }

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

Live CountLive() {
  const auto s = engine::Runtime::Get().memory.GetStatistics();
  return {s.num_live, s.bytes_in_use};
}

std::ostream& operator<<(std::ostream& out, const Live& l) {
  return out << l.blocks << " blocks, " << l.bytes << " bytes";
}

Live SettledLive(const Live& expected) {
  for (int i = 0; i < 1000 && !(CountLive() == expected); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return CountLive();
}

}  // namespace backplane::testing
