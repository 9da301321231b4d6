// Tests the reference plugin through the Backend interface.
#include <cstring>
#include <functional>
#include <string>

#include "core/import/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/backend.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Handlers as plain functions.
class Handlers : public CustomCallRegistry {
 public:
  using Function = std::function<absl::Status(const CustomCallFrame&)>;
  std::map<std::string, Function> functions;
  bool Has(const std::string& target) const override { return functions.count(target) != 0; }
  absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) override {
    auto it = functions.find(spec.target);
    if (it == functions.end()) return absl::NotFoundError("no handler for " + spec.target);
    class Site : public CustomCallSite {
     public:
      explicit Site(Function f) : f_(std::move(f)) {}
      absl::StatusOr<Event> Call(const CustomCallFrame& frame) override {
        absl::Status status = f_(frame);
        if (!status.ok()) return status;
        return Event();
      }
      Function f_;
    };
    return std::make_unique<Site>(it->second);
  }
};

class ReferenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BackendServices services{handlers_};
    backend_ = CreateBackend(services);
    auto client = backend_->CreateClient({{"cpu_device_count", int64_t{4}}});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  absl::StatusOr<std::shared_ptr<Executable>> TryCompile(const std::string& body, int replicas = 1,
                                                         std::function<void(Module&)> change = {}) {
    auto module = ImportProgram("mlir", "module @m {\n" + body + "\n}");
    if (!module.ok()) return module.status();
    CompileOptions options;
    options.num_replicas = replicas;
    (*module)->config().num_replicas = replicas;
    if (change) change(**module);
    return backend_->Compile(*std::move(module), options, client_->topology());
  }
  std::unique_ptr<LoadedExecutable> Load(const std::string& body, int replicas = 1,
                                         std::function<void(Module&)> change = {}) {
    auto executable = TryCompile(body, replicas, change);
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok()) return nullptr;
    executable_ = *executable;
    auto loaded = client_->Load(*executable, {});
    EXPECT_TRUE(loaded.ok());
    return *std::move(loaded);
  }
  DeviceArray Array(const std::vector<float>& values, int device = 0, std::vector<int64_t> dims = {}) {
    if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
    Shape shape(PrimitiveType::kF32, dims);
    shape.set_row_major();
    DeviceArray array{shape, 3 * device, *client_->Allocate(3 * device, values.size() * 4), Event()};
    std::memcpy(array.storage->data(), values.data(), values.size() * 4);
    return array;
  }
  static std::vector<float> Values(const DeviceArray& array) {
    if (absl::Status s = array.ready.Await(); !s.ok()) {
      ADD_FAILURE() << s;
      return {};
    }
    const float* at = static_cast<const float*>(array.storage->data());
    return {at, at + array.shape.num_elements()};
  }
  ExecuteResult Launch(LoadedExecutable& loaded, std::vector<DeviceArray> arguments, std::vector<bool> donated = {},
                       int device = 0, int64_t run_id = 1) {
    ExecuteRequest request;
    request.device = device;
    request.replica = device;
    request.device_assignment = absl::MakeConstSpan(kDevices, static_cast<size_t>(executable_->options().num_replicas));
    request.run_id = run_id;
    donated.resize(arguments.size());
    request.arguments = std::move(arguments);
    request.donated = std::move(donated);
    auto result = loaded.Execute(std::move(request));
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  // Runs a program of one f32[n] argument on replicas 0 to n-1, argument i on replica i.
  std::vector<std::vector<float>> Replicas(const std::string& body, const std::vector<std::vector<float>>& arguments) {
    auto loaded = Load(body, static_cast<int>(arguments.size()));
    if (loaded == nullptr) return {};
    std::vector<ExecuteResult> results;
    for (size_t d = 0; d < arguments.size(); ++d) {
      results.push_back(Launch(*loaded, {Array(arguments[d], static_cast<int>(d))}, {}, static_cast<int>(d)));
    }
    std::vector<std::vector<float>> out;
    for (const ExecuteResult& r : results) out.push_back(Values(r.outputs[0]));
    return out;
  }

  static constexpr int32_t kDevices[4] = {0, 1, 2, 3};
  std::shared_ptr<Handlers> handlers_ = std::make_shared<Handlers>();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Client> client_;
  std::shared_ptr<Executable> executable_;
};

constexpr char kSwap[] = R"(
  func.func public @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<2xf32>, tensor<2xf32>) {
    return %y, %x : tensor<2xf32>, tensor<2xf32>
  })";
constexpr char kTwice[] = R"(
  func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  })";

TEST_F(ReferenceTest, DonatedMemoryBecomesTheOutputEvenWhenResultsCross) {
  auto swap = Load(kSwap);
  DeviceArray x = Array({1, 2}), y = Array({3, 4});
  const void *px = x.storage->data(), *py = y.storage->data();
  ExecuteResult r = Launch(*swap, {std::move(x), std::move(y)}, {true, true});
  EXPECT_THAT(Values(r.outputs[0]), ElementsAre(3, 4));
  EXPECT_THAT(Values(r.outputs[1]), ElementsAre(1, 2));
  EXPECT_EQ(r.outputs[0].storage->data(), px);
  EXPECT_EQ(r.outputs[1].storage->data(), py);
  EXPECT_EQ(r.outputs[0].storage.use_count(), 1);  // nothing of the run is left when it is ready

  DeviceArray kept = Array({1, 2});
  r = Launch(*swap, {kept, Array({3, 4})}, {false, true});
  EXPECT_THAT(Values(r.outputs[0]), ElementsAre(3, 4));
  EXPECT_NE(r.outputs[0].storage->data(), kept.storage->data());
  EXPECT_THAT(Values(kept), ElementsAre(1, 2));
}

TEST_F(ReferenceTest, LayoutsAskedForAreKept) {
  Shape column(PrimitiveType::kF32, {2, 3});
  Layout layout = Layout::RowMajor(2);
  layout.minor_to_major = {0, 1};
  column.set_layout(layout);
  auto twice = Load(kTwice, 1, [&](Module& m) {
    m.config().parameter_layouts = {column};
    m.config().result_layout = column;
  });
  EXPECT_TRUE(executable_->signature().parameters[0].shape.Identical(column));
  DeviceArray x = Array({1, 4, 2, 5, 3, 6});
  x.shape = column;
  ExecuteResult r = Launch(*twice, {std::move(x)});
  EXPECT_TRUE(r.outputs[0].shape.Identical(column));
  EXPECT_THAT(Values(r.outputs[0]), ElementsAre(2, 8, 4, 10, 6, 12));
}

TEST_F(ReferenceTest, WaitsForItsArgumentsAndPassesTheirErrorsOn) {
  auto twice = Load(kTwice);
  for (bool fails : {false, true}) {
    DeviceArray x = Array({1, 2, 3, 4, 5, 6}, 0, {2, 3});
    Event late = Event::Create();
    x.ready = late;
    ExecuteResult r = Launch(*twice, {std::move(x)});
    EXPECT_FALSE(r.done.IsReady());
    late.Set(fails ? absl::DataLossError("lost") : absl::OkStatus());
    if (fails) {
      EXPECT_EQ(r.outputs[0].ready.Await(), absl::DataLossError("lost"));
    } else {
      EXPECT_THAT(Values(r.outputs[0]), ElementsAre(2, 4, 6, 8, 10, 12));
    }
  }
}

std::string Collective(const std::string& op, const std::string& in, const std::string& out) {
  return "func.func public @main(%x: tensor<" + in + ">) -> tensor<" + out + "> {\n" + op + "\nreturn %0 : tensor<" +
         out + ">\n}";
}
constexpr char kSum[] = R"(({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) )";

TEST_F(ReferenceTest, CollectivesByTheirDefinition) {
  using V = std::vector<float>;
  EXPECT_THAT(
      Replicas(
          Collective(
              std::string(R"(%0 = "stablehlo.all_reduce"(%x) )") + kSum +
                  "{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>",
              "2xf32", "2xf32"),
          {{1, 2}, {10, 20}, {3, 4}, {30, 40}}),
      ElementsAre(V{4, 6}, V{40, 60}, V{4, 6}, V{40, 60}));
  EXPECT_THAT(
      Replicas(
          Collective("%0 = \"stablehlo.all_gather\"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0]]> : "
                     "tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<4xf32>",
                     "2xf32", "4xf32"),
          {{1, 2}, {3, 4}}),
      ElementsAre(V{3, 4, 1, 2}, V{3, 4, 1, 2}));
  EXPECT_THAT(
      Replicas(Collective(std::string(R"(%0 = "stablehlo.reduce_scatter"(%x) )") + kSum +
                              "{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : "
                              "(tensor<4xf32>) -> tensor<2xf32>",
                          "4xf32", "2xf32"),
               {{1, 2, 3, 4}, {10, 20, 30, 40}}),
      ElementsAre(V{11, 22}, V{33, 44}));
  EXPECT_THAT(
      Replicas(Collective("%0 = \"stablehlo.all_to_all\"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, "
                          "split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : "
                          "(tensor<4xf32>) -> tensor<4xf32>",
                          "4xf32", "4xf32"),
               {{1, 2, 3, 4}, {5, 6, 7, 8}}),
      ElementsAre(V{1, 2, 5, 6}, V{3, 4, 7, 8}));
  EXPECT_THAT(
      Replicas(Collective("%0 = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[0, 1], [1, 2]]> : "
                          "tensor<2x2xi64>} : (tensor<1xf32>) -> tensor<1xf32>",
                          "1xf32", "1xf32"),
               {{7}, {8}, {9}}),
      ElementsAre(V{0}, V{7}, V{8}));
  EXPECT_THAT(
      Replicas(Collective(
                   "%0 = \"stablehlo.collective_broadcast\"(%x) {replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>} : "
                   "(tensor<1xf32>) -> tensor<1xf32>",
                   "1xf32", "1xf32"),
               {{7}, {8}, {9}}),
      ElementsAre(V{0}, V{9}, V{9}));
}

TEST_F(ReferenceTest, CollectivesInLoopsMatchByIteration) {
  const std::string body = std::string(R"(func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
      cond {
        %n = stablehlo.constant dense<20> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %half = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %w = "stablehlo.all_reduce"(%v) )") +
                           kSum +
                           R"({replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<f32>) -> tensor<f32>
        %u = stablehlo.multiply %w, %half : tensor<f32>
        stablehlo.return %j, %u : tensor<i32>, tensor<f32>
      }
    return %r#1 : tensor<f32>
  })";
  auto loaded = Load(body, 2);
  ASSERT_NE(loaded, nullptr);
  for (int64_t run = 0; run < 10; ++run) {  // launches overlap
    DeviceArray a = Array({1}, 0), b = Array({3}, 1);
    a.shape = b.shape = executable_->signature().parameters[0].shape;
    ExecuteResult ra = Launch(*loaded, {a}, {}, 0, 100 + run), rb = Launch(*loaded, {b}, {}, 1, 100 + run);
    EXPECT_THAT(Values(ra.outputs[0]), ElementsAre(2));
    EXPECT_THAT(Values(rb.outputs[0]), ElementsAre(2));
  }
}

TEST_F(ReferenceTest, AFailingDeviceFreesThoseThatWaitForIt) {
  handlers_->functions["boom"] = [](const CustomCallFrame& f) -> absl::Status {
    if (f.device_ordinal == 1) return absl::OutOfRangeError("device 1 does not feel well");
    std::memcpy(f.results[0].data, f.operands[0].data, 4);
    return absl::OkStatus();
  };
  auto loaded = Load(
      Collective(std::string(R"(%b = stablehlo.custom_call @boom(%x) : (tensor<1xf32>) -> tensor<1xf32>
    %0 = "stablehlo.all_reduce"(%b) )") +
                     kSum + "{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xf32>) -> tensor<1xf32>",
                 "1xf32", "1xf32"),
      2);
  ASSERT_NE(loaded, nullptr);
  ExecuteResult a = Launch(*loaded, {Array({1}, 0)}, {}, 0), b = Launch(*loaded, {Array({1}, 1)}, {}, 1);
  EXPECT_EQ(b.outputs[0].ready.Await().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(a.outputs[0].ready.Await().code(), absl::StatusCode::kAborted);
}

TEST_F(ReferenceTest, CustomCallsGetTheLayoutTheyName) {
  handlers_->functions["raw"] = [](const CustomCallFrame& f) {
    EXPECT_EQ(f.operands[0].dims, absl::Span<const int64_t>({2, 3}));
    std::memcpy(f.results[0].data, f.operands[0].data, 24);
    EXPECT_EQ(static_cast<const float*>(f.operands[0].data)[1], 4);
    return absl::OkStatus();
  };
  const char* body = R"(func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = "stablehlo.custom_call"(%x) {call_target_name = "raw", api_version = 4 : i32, backend_config = {},
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  })";
  auto loaded = Load(body);
  ASSERT_NE(loaded, nullptr);
  ExecuteResult r = Launch(*loaded, {Array({1, 2, 3, 4, 5, 6}, 0, {2, 3})});
  EXPECT_THAT(Values(r.outputs[0]), ElementsAre(1, 4, 2, 5, 3, 6));
  handlers_->functions.clear();
  EXPECT_EQ(TryCompile(body).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ReferenceTest, SerializedProgramsRunAgain) {
  Load(kSwap);
  auto bytes = executable_->Serialize();
  ASSERT_TRUE(bytes.ok());
  auto back = backend_->Deserialize(*bytes, client_->topology());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->fingerprint(), executable_->fingerprint());
  EXPECT_TRUE((*back)->signature().parameters[1].donated);
  auto loaded = client_->Load(*back, {});
  ASSERT_TRUE(loaded.ok());
  executable_ = *back;
  EXPECT_THAT(Values(Launch(**loaded, {Array({1, 2}), Array({3, 4})}).outputs[0]), ElementsAre(3, 4));
  EXPECT_EQ(backend_->Deserialize("something else", client_->topology()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(backend_->Deserialize(bytes->substr(0, bytes->size() - 3), client_->topology()).ok());
}

// All devices receive before they send; this must not deadlock.
TEST_F(ReferenceTest, DevicesSendToOneAnother) {
  const std::string body = R"(func.func public @main(%x: tensor<1xf32>) -> tensor<1xf32> {
    %t = stablehlo.create_token : !stablehlo.token
    %r:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, is_host_transfer = false,
      source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (!stablehlo.token) -> (tensor<1xf32>, !stablehlo.token)
    %s = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, is_host_transfer = false,
      source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (tensor<1xf32>, !stablehlo.token) -> !stablehlo.token
    return %r#0 : tensor<1xf32>
  })";
  EXPECT_THAT(Replicas(body, {{7}, {8}, {9}}),
              ElementsAre(std::vector<float>{0}, std::vector<float>{7}, std::vector<float>{8}));
}

// The host's callbacks for channels 1 (from the program) and 2 (to the program).
struct Ends : ExecuteContext {
  mutable std::vector<float> got;
  absl::Status SendToHost(int64_t channel, const CustomCallBuffer& data) const override {
    if (channel != 1) return absl::NotFoundError("another channel");
    const float* at = static_cast<const float*>(data.data);
    got.assign(at, at + data.dims[0]);
    return absl::OkStatus();
  }
  absl::Status ReceiveFromHost(int64_t channel, const CustomCallBuffer& data) const override {
    if (channel != 2) return absl::NotFoundError("another channel");
    for (int64_t i = 0; i < data.dims[0]; ++i) static_cast<float*>(data.data)[i] = got[static_cast<size_t>(i)] * 10;
    return absl::OkStatus();
  }
};

TEST_F(ReferenceTest, TheHostSendsAndReceives) {
  auto loaded = Load(R"(func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %t = stablehlo.create_token : !stablehlo.token
    %s = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}
      : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
    %r:2 = "stablehlo.recv"(%s) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}
      : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
    return %r#0 : tensor<2xf32>
  })");
  ASSERT_NE(loaded, nullptr);
  auto ends = std::make_shared<Ends>();
  for (bool there : {true, false}) {
    ExecuteRequest request;
    request.device_assignment = absl::MakeConstSpan(kDevices, 1);
    request.run_id = 1;
    request.arguments = {Array({1, 2})};
    request.donated = {false};
    if (there) request.context = ends;
    auto result = loaded->Execute(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    if (there) {
      EXPECT_THAT(Values(result->outputs[0]), ElementsAre(10, 20));
      EXPECT_THAT(ends->got, ElementsAre(1, 2));
    } else {
      EXPECT_EQ(result->outputs[0].ready.Await().code(), absl::StatusCode::kFailedPrecondition);
    }
  }
}

TEST_F(ReferenceTest, MemoryIsCountedByDevice) {
  EXPECT_EQ(client_->GetMemoryStats(1)->bytes_in_use, 0);
  DeviceArray x = Array({1, 2, 3}, 1);
  EXPECT_EQ(client_->GetMemoryStats(1)->bytes_in_use, 12);
  EXPECT_EQ(client_->GetMemoryStats(0)->bytes_in_use, 0);
  x.storage.reset();
  EXPECT_EQ(client_->GetMemoryStats(1)->bytes_in_use, 0);
  EXPECT_EQ(client_->GetMemoryStats(1)->peak_bytes_in_use, 12);
  ASSERT_TRUE(client_->ClearMemoryStats(1).ok());
  EXPECT_EQ(client_->GetMemoryStats(1)->peak_bytes_in_use, 0);
}

}  // namespace
}  // namespace backplane
