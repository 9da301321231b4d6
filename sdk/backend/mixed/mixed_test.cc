// Programs that mix kernels and the evaluator, in host memory and in memory that only the device can access.
#include <atomic>
#include <cstring>
#include <functional>

#include "core/import/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/mixed/mixed_backend.h"

namespace backplane::mixed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Memory with addresses that are invalid on the host: dereferencing one ends the process.
class FarMemory : public DeviceMemory {
 public:
  static constexpr uintptr_t kFar = uintptr_t{1} << 62;
  template <typename T>
  static T* Near(T* address) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) - kFar);
  }

  absl::StatusOr<void*> Allocate(int32_t, size_t bytes) override {
    EXPECT_GT(bytes, 0u);
    if (in_use + bytes > limit) return absl::ResourceExhaustedError("the device is full");
    in_use += bytes;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(std::malloc(bytes)) + kFar);
  }
  void Free(int32_t, void* address, size_t bytes) override {
    in_use -= bytes;
    std::free(Near(address));
  }
  absl::Status CopyIn(int32_t, const void* host, void* address, size_t bytes) override {
    ++copies_in;
    std::memcpy(Near(address), host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(int32_t, const void* address, void* host, size_t bytes) override {
    ++copies_out;
    std::memcpy(host, Near(address), bytes);
    return absl::OkStatus();
  }
  std::optional<int64_t> Capacity(int32_t) const override { return static_cast<int64_t>(limit); }

  std::atomic<size_t> in_use{0};
  size_t limit = 1 << 20;
  std::atomic<int> copies_in{0}, copies_out{0};
};

class NoHandlers : public CustomCallRegistry {
 public:
  bool Has(const std::string&) const override { return false; }
  absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) override {
    return absl::NotFoundError("no handler for " + spec.target);
  }
};

// The parameter: whether arrays are in device memory.
class MixedTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.platform_name = "test";
    options_.version = "test 1";
    if (GetParam()) options_.memory = far_ = std::make_shared<FarMemory>();
  }

  template <typename T>
  T* At(T* address) const {
    return far_ != nullptr ? FarMemory::Near(address) : address;
  }
  // Adds elementwise f32 kernels that count their runs.
  Claim Elementwise(std::string name, Opcode opcode, float (*f)(float, float)) {
    return {name, opcode, {PrimitiveType::kF32}, nullptr, [this, f](const Instruction& op) -> absl::StatusOr<Kernel> {
              const int64_t n = op.shape().num_elements();
              return Kernel([this, f, n](const KernelArrays& arrays) {
                ++runs_;
                const float* a = static_cast<const float*>(At(arrays.operands.front()));
                const float* b = static_cast<const float*>(At(arrays.operands.back()));
                float* out = static_cast<float*>(At(arrays.results[0]));
                for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
                return absl::OkStatus();
              });
            }};
  }
  static float Sum(float a, float b) { return a + b; }
  static float Product(float a, float b) { return a * b; }
  static float Opposite(float a, float) { return -a; }

  absl::Status Open(const std::string& body, std::function<void(Module&)> change = {}) {
    backend_ = MakeBackend(options_, {std::make_shared<NoHandlers>()});
    auto client = backend_->CreateClient({});
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    auto module = ImportProgram("mlir", "module @m {\n" + body + "\n}");
    if (!module.ok()) return module.status();
    if (change) change(**module);
    auto executable = backend_->Compile(*std::move(module), CompileOptions{}, client_->topology());
    if (!executable.ok()) return executable.status();
    executable_ = *executable;
    auto loaded = client_->Load(executable_, {});
    if (!loaded.ok()) return loaded.status();
    loaded_ = *std::move(loaded);
    return absl::OkStatus();
  }
  DeviceArray Array(const std::vector<float>& values, std::vector<int64_t> dims = {}) {
    if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
    Shape shape(PrimitiveType::kF32, dims);
    shape.set_row_major();
    DeviceArray array{shape, 0, *client_->Allocate(0, values.size() * 4), Event()};
    std::vector<int64_t> strides;
    for (int64_t s : RowMajorStrides(dims)) strides.push_back(4 * s);
    EXPECT_TRUE(client_->CopyFromHost({values.data(), PrimitiveType::kF32, dims, strides}, array).ok());
    return array;
  }
  std::vector<float> Values(const DeviceArray& array) {
    if (absl::Status s = array.ready.Await(); !s.ok()) {
      ADD_FAILURE() << s;
      return {};
    }
    std::vector<float> out(static_cast<size_t>(array.shape.num_elements()));
    Shape host = array.shape;
    host.set_row_major();
    EXPECT_TRUE(client_->CopyToHost(array, host, out.data()).ok());
    return out;
  }
  absl::StatusOr<ExecuteResult> Launch(std::vector<DeviceArray> arguments, bool donated = false) {
    static constexpr int32_t kDevice[] = {0};
    ExecuteRequest request;
    request.device_assignment = kDevice;
    request.run_id = 1;
    request.donated.assign(arguments.size(), donated);
    request.arguments = std::move(arguments);
    auto result = loaded_->Execute(std::move(request));
    if (result.ok()) (void)result->done.Await();
    return result;
  }
  std::string Log() const { return executable_->compile_log(); }

  std::shared_ptr<FarMemory> far_;
  Options options_;
  std::atomic<int> runs_{0};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Client> client_;
  std::shared_ptr<Executable> executable_;
  std::unique_ptr<LoadedExecutable> loaded_;
};
INSTANTIATE_TEST_SUITE_P(HostAndDevice, MixedTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "DeviceMemory" : "HostMemory"; });

constexpr char kFormula[] = R"(
  func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %x, %y : tensor<3xf32>
    %1 = stablehlo.floor %0 : tensor<3xf32>
    %2 = stablehlo.multiply %1, %y : tensor<3xf32>
    %3 = stablehlo.add %2, %2 : tensor<3xf32>
    return %3 : tensor<3xf32>
  })";

TEST_P(MixedTest, KernelsRunWhatIsClaimedAndTheEvaluatorTheRest) {
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  options_.claims.Add(Elementwise("product", Opcode::kMultiply, &Product));
  ASSERT_TRUE(Open(kFormula).ok());
  EXPECT_THAT(Log(), HasSubstr("f32[3]: sum\n"));
  EXPECT_THAT(Log(), HasSubstr("f32[3]: product\n"));
  EXPECT_THAT(Log(), HasSubstr("kernels run 3 of 4 operations: 75.0 % of the arithmetic"));
  EXPECT_THAT(Log(), HasSubstr("evaluated by definition: floor 1\n"));
  auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  const int out = far_ ? far_->copies_out.load() : 0;
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(1, 9, 20));
  EXPECT_EQ(runs_, 3);
  if (far_ == nullptr) return;
  // Two arguments are copied in; the operand of floor is copied out and its result in. The last kernel writes directly
  // to the output.
  EXPECT_EQ(out, 1);
  EXPECT_EQ(far_->copies_in, 3);
}

TEST_P(MixedTest, NothingClaimedIsTheReference) {
  ASSERT_TRUE(Open(kFormula).ok());
  EXPECT_THAT(Log(), HasSubstr("kernels run 0 of 4 operations: 0.0 %"));
  EXPECT_THAT(Log(), HasSubstr("evaluated by definition: add 2, floor 1, multiply 1\n"));
  auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(1, 9, 20));
}

TEST_P(MixedTest, RefusalsSayWhy) {
  Claim picky = Elementwise("sum", Opcode::kAdd, &Sum);
  picky.supports = [](const Instruction&, PrimitiveType type, const Shape& shape) {
    EXPECT_EQ(type, PrimitiveType::kF32);
    return shape.dimensions(0) == 4 ? absl::OkStatus() : absl::UnimplementedError("not four elements");
  };
  Claim hopeless = Elementwise("late", Opcode::kAdd, &Sum);
  hopeless.make = [](const Instruction&) -> absl::StatusOr<Kernel> {
    return absl::UnimplementedError("no code for it");
  };
  Claim other = Elementwise("integers", Opcode::kAdd, &Sum);
  other.types = {PrimitiveType::kS32};
  options_.claims.Add(picky);
  options_.claims.Add(hopeless);
  options_.claims.Add(other);
  ASSERT_TRUE(Open(kFormula).ok());
  EXPECT_THAT(Log(), HasSubstr("f32[3]: evaluated; not sum: not four elements; not late: no code for it; "
                               "not integers: no f32[3]\n"));
  // The next claim takes what the first ones refuse.
  options_.claims.Add(Elementwise("any sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(kFormula).ok());
  EXPECT_THAT(Log(), HasSubstr("f32[3]: any sum; not sum: not four elements"));
}

TEST_P(MixedTest, AKernelThatCannotBeMadeEndsTheCompilation) {
  Claim broken = Elementwise("sum", Opcode::kAdd, &Sum);
  broken.make = [](const Instruction&) -> absl::StatusOr<Kernel> { return absl::InternalError("assembler crashed"); };
  options_.claims.Add(broken);
  const absl::Status status = Open(kFormula);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("sum: assembler crashed"));
}

TEST_P(MixedTest, AKernelsErrorNamesTheInstruction) {
  Claim failing = Elementwise("product", Opcode::kMultiply, &Product);
  failing.make = [](const Instruction&) -> absl::StatusOr<Kernel> {
    return Kernel([](const KernelArrays&) { return absl::DataLossError("lost a bit"); });
  };
  options_.claims.Add(failing);
  ASSERT_TRUE(Open(kFormula).ok());
  auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  const absl::Status status = result->outputs[0].ready.Await();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("multiply"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(": lost a bit"));
}

constexpr char kLoop[] = R"(
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2xf32>
      cond {
        %n = stablehlo.constant dense<50> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %w = stablehlo.add %v, %x : tensor<2xf32>
        stablehlo.return %j, %w : tensor<i32>, tensor<2xf32>
      }
    return %r#1 : tensor<2xf32>
  })";

TEST_P(MixedTest, KernelsRunInLoopsAndValuesStayOnTheDevice) {
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(kLoop).ok());
  auto result = Launch({Array({1, 2})});
  ASSERT_TRUE(result.ok());
  const int in = far_ ? far_->copies_in.load() : 0;
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(51, 102));
  EXPECT_EQ(runs_, 50);
  if (far_ == nullptr) return;
  EXPECT_LE(in, 2);  // the argument, and copies within the device that go through the host
}

TEST_P(MixedTest, AWholeLoopCanBeClaimed) {
  Claim loop;
  loop.kernel = "fifty times";
  loop.opcode = Opcode::kWhile;
  loop.make = [this](const Instruction& op) -> absl::StatusOr<Kernel> {
    EXPECT_EQ(op.called().size(), 2u);
    // The loop state of this program: leaf 0 is the counter, the others are f32[2].
    const size_t leaves = static_cast<size_t>(op.shape().tuple_size());
    return Kernel([this, leaves](const KernelArrays& arrays) {
      EXPECT_EQ(arrays.operands.size(), leaves);
      EXPECT_EQ(arrays.results.size(), leaves);
      ++runs_;
      *static_cast<int32_t*>(At(arrays.results[0])) = 50;
      for (size_t k = 1; k < leaves; ++k) {
        for (int e = 0; e < 2; ++e) {
          const float x = static_cast<const float*>(At(arrays.operands[k]))[e];
          static_cast<float*>(At(arrays.results[k]))[e] = 51 * x;
        }
      }
      return absl::OkStatus();
    });
  };
  options_.claims.Add(loop);
  ASSERT_TRUE(Open(kLoop).ok());
  EXPECT_THAT(Log(), HasSubstr(": fifty times\n"));
  EXPECT_THAT(Log(), Not(HasSubstr("evaluated by definition: add")));
  auto result = Launch({Array({1, 2})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(51, 102));
  EXPECT_EQ(runs_, 1);
}

TEST_P(MixedTest, RegionsAreClaimedOrRunInParts) {
  options_.claims.AddRegion({[](const Instruction& op) { return op.info().Has(kElementwise); }});
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(kFormula).ok());
  auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(1, 9, 20));
  EXPECT_EQ(runs_, 2);

  Claim formula;
  formula.kernel = "formula";
  formula.opcode = Opcode::kFusion;
  formula.make = [this](const Instruction& op) -> absl::StatusOr<Kernel> {
    EXPECT_EQ(op.called(0)->root()->opcode(), Opcode::kAdd);
    const bool swapped = op.operand(0)->parameter_number() == 1;
    return Kernel([this, swapped](const KernelArrays& arrays) {
      const float* x = static_cast<const float*>(At(arrays.operands[swapped ? 1 : 0]));
      const float* y = static_cast<const float*>(At(arrays.operands[swapped ? 0 : 1]));
      for (int i = 0; i < 3; ++i) {
        static_cast<float*>(At(arrays.results[0]))[i] = 2 * static_cast<float>(static_cast<int>(x[i] + y[i])) * y[i];
      }
      return absl::OkStatus();
    });
  };
  options_.claims.Add(formula);
  ASSERT_TRUE(Open(kFormula).ok());
  EXPECT_THAT(Log(), HasSubstr("f32[3]: formula\n"));
  EXPECT_THAT(Log(), HasSubstr("kernels run 1 of 1 operations: 100.0 % of the arithmetic"));
  runs_ = 0;
  result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(1, 9, 20));
  EXPECT_EQ(runs_, 0);
}

TEST_P(MixedTest, DonatedMemoryBecomesTheOutputEvenWhenResultsCross) {
  options_.claims.Add(Elementwise("minus", Opcode::kNegate, &Opposite));
  ASSERT_TRUE(Open(R"(
  func.func public @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.negate %x : tensor<2xf32>
    return %y, %x, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  })")
                  .ok());
  DeviceArray x = Array({1, 2}), y = Array({3, 4});
  const void* px = x.storage->data();
  auto result = Launch({std::move(x), std::move(y)}, true);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(3, 4));
  EXPECT_THAT(Values(result->outputs[1]), ElementsAre(1, 2));
  EXPECT_THAT(Values(result->outputs[2]), ElementsAre(-1, -2));
  EXPECT_EQ(result->outputs[0].storage->data(), px);
}

// A donated parameter is paired with the first output of the same shape; without such an output it is not donated.
TEST_P(MixedTest, DonorsServeOutputsLikeThem) {
  ASSERT_TRUE(Open(R"(
  func.func public @main(%x: tensor<3xf32> {jax.buffer_donor = true}, %y: tensor<2xf32> {jax.buffer_donor = true},
                         %z: tensor<2xf32> {jax.buffer_donor = true}) -> (tensor<3x3xf32>, tensor<2xf32>) {
    %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
    %1 = stablehlo.add %y, %z : tensor<2xf32>
    return %0, %1 : tensor<3x3xf32>, tensor<2xf32>
  })")
                  .ok());
  std::vector<bool> donated;
  for (const ParameterInfo& p : executable_->signature().parameters) donated.push_back(p.donated);
  EXPECT_THAT(donated, ElementsAre(false, true, false));
  DeviceArray x = Array({1, 2, 3}), y = Array({3, 4}), z = Array({5, 6});
  const void* py = y.storage->data();
  auto result = Launch({std::move(x), std::move(y), std::move(z)}, true);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[1]), ElementsAre(8, 10));
  EXPECT_EQ(result->outputs[1].storage->data(), py);
}

TEST_P(MixedTest, KernelsSeeRowMajorArraysWhateverTheHostAskedFor) {
  Shape column(PrimitiveType::kF32, {2, 3});
  Layout layout = Layout::RowMajor(2);
  layout.minor_to_major = {0, 1};
  column.set_layout(layout);
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(R"(
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %x, %y : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  })",
                   [&](Module& m) {
                     m.config().parameter_layouts = {column, Shape(PrimitiveType::kF32, {2, 3})};
                     m.config().result_layout = column;
                   })
                  .ok());
  DeviceArray row = Array({1, 2, 3, 4, 5, 6}, {2, 3}), x = Array({0, 0, 0, 0, 0, 0}, {2, 3});
  x.shape = column;
  ASSERT_TRUE(client_->CopyDevice(row, x).ok());
  auto result = Launch({x, Array({10, 20, 30, 40, 50, 60}, {2, 3})});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->outputs[0].shape.Identical(column));
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(11, 22, 33, 44, 55, 66));
}

TEST_P(MixedTest, ArraysWithoutElementsReachNoKernel) {
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(R"(
  func.func public @main(%x: tensor<0xf32>) -> tensor<0xf32> {
    %0 = stablehlo.add %x, %x : tensor<0xf32>
    return %0 : tensor<0xf32>
  })")
                  .ok());
  auto result = Launch({Array({})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre());
  EXPECT_EQ(runs_, 0);
}

TEST_P(MixedTest, OnlyTheSameVersionReadsItsExecutables) {
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(kFormula).ok());
  auto bytes = executable_->Serialize();
  ASSERT_TRUE(bytes.ok());
  auto back = backend_->Deserialize(*bytes, client_->topology());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_THAT((*back)->compile_log(), HasSubstr("f32[3]: sum\n"));
  loaded_ = *client_->Load(*back, {});
  executable_ = *back;
  auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Values(result->outputs[0]), ElementsAre(1, 9, 20));
  EXPECT_EQ(runs_, 2);
  options_.version = "test 2";
  auto newer = MakeBackend(options_, {std::make_shared<NoHandlers>()});
  const absl::Status status = newer->Deserialize(*bytes, client_->topology()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "serialized executable: made by test 1, this is test 2");
}

TEST_P(MixedTest, MemoryIsGivenBackAndCounted) {
  options_.claims.Add(Elementwise("sum", Opcode::kAdd, &Sum));
  ASSERT_TRUE(Open(kFormula).ok());
  {
    auto result = Launch({Array({1, 2, 3}), Array({0.5, 1.5, 2})});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(client_->GetMemoryStats(0)->bytes_in_use, 12);  // the result
  }
  EXPECT_EQ(client_->GetMemoryStats(0)->bytes_in_use, 0);
  if (far_ == nullptr) return;
  EXPECT_EQ(client_->GetMemoryStats(0)->bytes_limit, 1 << 20);
  EXPECT_EQ(far_->in_use, 0u);
  EXPECT_FALSE(client_->IsHostMemory(0));
  EXPECT_TRUE(client_->IsHostMemory(1));
  EXPECT_EQ(client_->Allocate(0, 2 << 20).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(MixedTest, CreateOptions) {
  backend_ = MakeBackend(options_, {std::make_shared<NoHandlers>()});
  auto client = backend_->CreateClient({{"device_count", int64_t{3}}});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->topology().devices.size(), 3u);
  EXPECT_EQ((*client)->topology().devices[2].debug_string, "test:2");
  EXPECT_EQ(backend_->CreateClient({{"device_count", int64_t{0}}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      backend_->CreateClient({{"colour", int64_t{0}}}).status().message(),
      absl::StrCat(
          "create option colour: unknown; known: device_count, collective_timeout_seconds",
          options_.memory == nullptr ? ", memory_limit_bytes" : "",
          ", node_id, num_nodes, transport, network_interface, shared_memory_megabytes, connect_timeout_seconds"));
  auto limited = backend_->CreateClient({{"device_count", int64_t{2}}, {"memory_limit_bytes", int64_t{1000}}});
  ASSERT_EQ(limited.ok(), options_.memory == nullptr);
  if (!limited.ok()) return;
  auto storage = (*limited)->Allocate(0, 600);
  ASSERT_TRUE(storage.ok());
  EXPECT_EQ((*limited)->Allocate(3, 600).status().message(),
            "allocate: no memory for 600 bytes: 600 are in use, the limit is 1000");
  EXPECT_EQ((*limited)->GetMemoryStats(0)->bytes_limit, 1000);
}

}  // namespace
}  // namespace backplane::mixed
