// Tests the emulator through the Backend interface: layouts, padding, memory limits.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/import/import.h"
#include "core/text/hlo_parser.h"
#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/plugin/options.h"
#include "plugins/tpu_emulator/program/f64_pairs.h"
#include "sdk/backend/backend.h"

namespace backplane::tpu {
namespace {

using ::testing::HasSubstr;

class NoHandlers : public CustomCallRegistry {
 public:
  bool Has(const std::string&) const override { return false; }
  absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) override {
    return absl::NotFoundError("no handler for " + spec.target);
  }
};

class Emulator {
 public:
  explicit Emulator(const NamedValues& options = {}) : backend_(CreateBackend({std::make_shared<NoHandlers>()})) {
    auto client = backend_->CreateClient(options);
    EXPECT_TRUE(client.ok()) << client.status();
    if (client.ok()) client_ = *std::move(client);
  }
  Client& client() { return *client_; }

  absl::StatusOr<DeviceArray> Put(PrimitiveType type, const std::vector<int64_t>& dims, const void* data) {
    Shape shape(type, dims);
    ASSIGN_OR_RETURN(Layout layout, client_->DefaultLayout(type, dims));
    shape.set_layout(layout);
    ASSIGN_OR_RETURN(size_t bytes, client_->StorageSize(shape, 0));
    ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, client_->Allocate(0, bytes));
    DeviceArray array{shape, 0, std::move(storage), Event()};
    std::vector<int64_t> strides(dims.size());
    int64_t stride = ByteWidth(type);
    for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
    if (absl::Status s = client_->CopyFromHost({data, type, dims, strides}, array); !s.ok()) return s;
    return array;
  }
  absl::StatusOr<std::vector<std::byte>> Get(const DeviceArray& array) {
    Shape host = array.shape.WithoutLayout();
    host.set_row_major();
    std::vector<std::byte> out(static_cast<size_t>(host.byte_size()));
    if (absl::Status s = client_->CopyToHost(array, host, out.data()); !s.ok()) return s;
    return out;
  }
  // Runs @main with f32 arguments; `given` says whether the caller donates all of them.
  absl::StatusOr<std::vector<DeviceArray>> Run(const std::string& body, std::vector<DeviceArray> arguments,
                                               bool given = false) {
    auto module = ImportProgram("mlir", "module @m {\n" + body + "\n}");
    if (!module.ok()) return module.status();
    auto executable = backend_->Compile(*std::move(module), CompileOptions(), client_->topology());
    if (!executable.ok()) return executable.status();
    auto loaded = client_->Load(*executable, {});
    if (!loaded.ok()) return loaded.status();
    static constexpr int32_t kDevices[] = {0};
    ExecuteRequest request;
    request.device_assignment = kDevices;
    request.run_id = ++runs_;
    request.donated.assign(arguments.size(), given);
    request.arguments = std::move(arguments);
    auto result = (*loaded)->Execute(std::move(request));
    if (!result.ok()) return result.status();
    if (absl::Status s = result->done.Await(); !s.ok()) return s;
    return result->outputs;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Client> client_;
  int64_t runs_ = 0;
};

TEST(Emulator, RoundTripsArrays) {
  Emulator emulator({{"poison", std::string("nan")}});
  const std::vector<std::vector<int64_t>> shapes = {
      {},     {1},       {5},         {1000},       {3, 5},          {300, 5},          {9, 129},
      {0, 4}, {2, 3, 4}, {7, 1, 130}, {2, 3, 5, 7}, {2, 1, 3, 2, 9}, {2, 2, 1, 3, 2, 3}};
  for (PrimitiveType type : {PrimitiveType::kF32, PrimitiveType::kBF16, PrimitiveType::kS8, PrimitiveType::kPred,
                             PrimitiveType::kF64, PrimitiveType::kC64, PrimitiveType::kC128, PrimitiveType::kF8E4M3FN,
                             PrimitiveType::kS4, PrimitiveType::kU2, PrimitiveType::kU16, PrimitiveType::kS64}) {
    for (const auto& dims : shapes) {
      const Shape shape(type, dims);
      std::vector<std::byte> data(static_cast<size_t>(shape.byte_size()));
      for (size_t i = 0; i < data.size(); ++i) {
        // Hosts pass narrow integers extended to bytes, and a pred as 0 or 1.
        const int64_t value = type == PrimitiveType::kPred ? i % 2
                              : type == PrimitiveType::kS4 ? static_cast<int64_t>(i % 16) - 8
                              : type == PrimitiveType::kU2 ? i % 4
                                                           : i * 37 + 11;
        data[i] = static_cast<std::byte>(value);
      }
      auto array = emulator.Put(type, dims, data.data());
      ASSERT_TRUE(array.ok()) << shape.ToString() << ": " << array.status();
      EXPECT_EQ(array->storage->size(), static_cast<size_t>(PhysicalLayout::Of(array->shape)->byte_size()));
      auto back = emulator.Get(*array);
      ASSERT_TRUE(back.ok()) << array->shape.ToString(true) << ": " << back.status();
      EXPECT_EQ(*back, data) << array->shape.ToString(true);
    }
  }
}

TEST(Emulator, ResultsHaveDefaultLayouts) {
  Emulator emulator;
  std::vector<float> x(300 * 500, 1.0f);
  auto array = emulator.Put(PrimitiveType::kF32, {300, 500}, x.data());
  ASSERT_TRUE(array.ok()) << array.status();
  auto outputs = emulator.Run(
      "func.func @main(%a: tensor<300x500xf32>) -> (tensor<300x500xbf16>, tensor<f32>, tensor<500xf32>) {\n"
      "  %0 = stablehlo.convert %a : (tensor<300x500xf32>) -> tensor<300x500xbf16>\n"
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<300x500xf32>, "
      "tensor<f32>) -> tensor<f32>\n"
      "  %2 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<300x500xf32>, "
      "tensor<f32>) -> tensor<500xf32>\n"
      "  return %0, %1, %2 : tensor<300x500xbf16>, tensor<f32>, tensor<500xf32>\n}",
      {*array});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_EQ((*outputs)[0].shape.ToString(true), "bf16[300,500]{1,0:T(8,128)(2,1)}");
  EXPECT_EQ((*outputs)[0].storage->size(), 311296u);
  EXPECT_EQ((*outputs)[1].shape.ToString(true), "f32[]{:T(128)}");
  EXPECT_EQ((*outputs)[1].storage->size(), 512u);
  EXPECT_EQ((*outputs)[2].shape.ToString(true), "f32[500]{0:T(512)}");
  auto sum = emulator.Get((*outputs)[1]);
  ASSERT_TRUE(sum.ok());
  float value = 0;
  std::memcpy(&value, sum->data(), sizeof(value));
  EXPECT_EQ(value, 150000.0f);
}

// An operand that the matrix unit reads in place may be donated without an aliased result. The product then takes its
// memory, after the operand has been read.
TEST(Emulator, ProductsReuseTheMemoryOfAnOperand) {
  const std::string types = "(tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>";
  for (const std::string donor : {"", " {jax.buffer_donor = true}"}) {
    for (const bool given : {false, true}) {
      if (donor.empty() && given) continue;
      Emulator emulator;
      const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y = {1, 0, 0, 0, 2, 0, 0, 0, 4};
      auto a = emulator.Put(PrimitiveType::kF32, {3, 3}, x.data()),
           b = emulator.Put(PrimitiveType::kF32, {3, 3}, y.data());
      ASSERT_TRUE(a.ok() && b.ok());
      auto outputs = emulator.Run("func.func @main(%a: tensor<3x3xf32>" + donor + ", %b: tensor<3x3xf32>" + donor +
                                      ") -> tensor<3x3xf32> {\n  %0 = stablehlo.dot_general %a, %b, contracting_dims = "
                                      "[1] x [0] : " +
                                      types + "\n  return %0 : tensor<3x3xf32>\n}",
                                  {*a, *b}, given);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      auto back = emulator.Get((*outputs)[0]);
      ASSERT_TRUE(back.ok());
      std::vector<float> found(9);
      std::memcpy(found.data(), back->data(), 36);
      EXPECT_THAT(found, testing::ElementsAre(1, 4, 12, 4, 10, 24, 7, 16, 36)) << donor << given;
    }
  }
}

// A result may reuse the memory of an argument of another type or layout.
TEST(Emulator, ResultsReuseMemoryOfAnotherTypeOrLayout) {
  struct Case {
    const char* from;
    const char* to;
    const char* body;
  };
  const Case cases[] = {
      {"1x1x1xf8E4M3", "1x1x1xf8E4M3FN", "%0 = stablehlo.convert %a : (FROM) -> TO"},
      {"16x256xf8E4M3", "16x256xf8E4M3FN", "%0 = stablehlo.convert %a : (FROM) -> TO"},
      {"8x256xf32", "8x256xui32", "%0 = stablehlo.bitcast_convert %a : (FROM) -> TO"},
      {"8x256xf32", "256x8xf32", "%0 = stablehlo.transpose %a, dims = [1, 0] : (FROM) -> TO"},
      {"8x256xf32", "16x128xf32", "%0 = stablehlo.reshape %a : (FROM) -> TO"},
      {"9x130xf32", "1170xf32", "%0 = stablehlo.reshape %a : (FROM) -> TO"},
  };
  for (const Case& c : cases) {
    const std::string from = absl::StrCat("tensor<", c.from, ">"), to = absl::StrCat("tensor<", c.to, ">");
    std::vector<std::byte> results[2];
    for (const bool given : {false, true}) {
      SCOPED_TRACE(absl::StrCat(from, " to ", to, given ? ", given" : ""));
      Emulator emulator({{"poison", std::string("nan")}});
      const Shape shape = *ParseShape(std::string(c.from).find("f8E4M3") == std::string::npos
                                          ? (c.from[0] == '8' ? "f32[8,256]" : "f32[9,130]")
                                          : (c.from[1] == 'x' ? "f8e4m3[1,1,1]" : "f8e4m3[16,256]"));
      std::vector<std::byte> data(static_cast<size_t>(shape.byte_size()));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 64 + 8);  // finite, of one sign
      const std::vector<int64_t> dims(shape.dimensions().begin(), shape.dimensions().end());
      auto a = emulator.Put(shape.element_type(), dims, data.data());
      ASSERT_TRUE(a.ok()) << a.status();
      const std::string body = absl::StrReplaceAll(c.body, {{"FROM", from}, {"TO", to}});
      auto outputs = emulator.Run(absl::StrCat("func.func @main(%a: ", from, given ? " {jax.buffer_donor = true}" : "",
                                               ") -> ", to, " {\n  ", body, "\n  return %0 : ", to, "\n}"),
                                  {*a}, given);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      auto back = emulator.Get((*outputs)[0]);
      ASSERT_TRUE(back.ok()) << back.status();
      results[given] = *back;
    }
    EXPECT_TRUE(results[0] == results[1]) << from << " to " << to;
  }
}

// An array constant of equal elements, in tiles.
TEST(Emulator, ConstantsOfEqualElements) {
  Emulator emulator;
  auto outputs = emulator.Run(
      "func.func @main() -> tensor<2xi32> {\n  %c = stablehlo.constant dense<[7, 7]> : tensor<2xi32>\n"
      "  %k = stablehlo.constant dense<4> : tensor<i32>\n"
      "  %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i32>) -> tensor<2xi32>\n"
      "  %r = stablehlo.remainder %c, %b : tensor<2xi32>\n  return %r : tensor<2xi32>\n}",
      {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  auto back = emulator.Get((*outputs)[0]);
  ASSERT_TRUE(back.ok()) << back.status();
  std::vector<int32_t> found(2);
  std::memcpy(found.data(), back->data(), 8);
  EXPECT_THAT(found, testing::ElementsAre(3, 3));
}

// Results have the same bits for any contents of padding and fresh memory.
TEST(Emulator, PoisonIsNeverRead) {
  const std::string program =
      "func.func @main(%a: tensor<9x13xf32>, %b: tensor<13x5xf32>) -> (tensor<9x5xf32>, tensor<13x9xf32>, "
      "tensor<9xf32>, tensor<9x13xf32>, tensor<4x13xf32>) {\n"
      "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<9x13xf32>, tensor<13x5xf32>) -> "
      "tensor<9x5xf32>\n"
      "  %1 = stablehlo.transpose %a, dims = [1, 0] : (tensor<9x13xf32>) -> tensor<13x9xf32>\n"
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %2 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<9x13xf32>, "
      "tensor<f32>) -> tensor<9xf32>\n"
      "  %3 = stablehlo.exponential %a : tensor<9x13xf32>\n"
      "  %4 = stablehlo.slice %a [1:9:2, 0:13] : (tensor<9x13xf32>) -> tensor<4x13xf32>\n"
      "  return %0, %1, %2, %3, %4 : tensor<9x5xf32>, tensor<13x9xf32>, tensor<9xf32>, tensor<9x13xf32>, "
      "tensor<4x13xf32>\n}";
  std::vector<float> a(9 * 13), b(13 * 5);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.01f * static_cast<float>(i) - 0.5f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.3f - 0.02f * static_cast<float>(i);
  std::vector<std::vector<std::byte>> expected;
  for (const char* poison : {"zero", "nan", "random", "none"}) {
    Emulator emulator({{"poison", std::string(poison)}});
    auto x = emulator.Put(PrimitiveType::kF32, {9, 13}, a.data()),
         y = emulator.Put(PrimitiveType::kF32, {13, 5}, b.data());
    ASSERT_TRUE(x.ok() && y.ok());
    auto outputs = emulator.Run(program, {*x, *y});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    std::vector<std::vector<std::byte>> found;
    for (const DeviceArray& output : *outputs) {
      auto bytes = emulator.Get(output);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      found.push_back(*std::move(bytes));
    }
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << poison;
    if (std::string(poison) != "nan") continue;
    // The padding still holds the poison, so nothing was written there.
    const DeviceArray& padded = (*outputs)[2];  // f32[9], padded to 128
    const auto* words = static_cast<const uint32_t*>(padded.storage->data());
    for (size_t i = 9; i < padded.storage->size() / 4; ++i) ASSERT_EQ(words[i], 0xffffffffu) << i;
    // The same for tiles that the matrix unit wrote itself: f32[9,5] in tiles of 8 by 128.
    const DeviceArray& product = (*outputs)[0];
    auto physical = PhysicalLayout::Of(product.shape);
    ASSERT_TRUE(physical.ok() && physical->has_padding());
    words = static_cast<const uint32_t*>(product.storage->data());
    for (int64_t i = 0; i < physical->num_elements(); ++i) {
      if (!physical->LogicalIndex(i)) {
        ASSERT_EQ(words[i], 0xffffffffu) << i;
      }
    }
  }
}

TEST(Emulator, LimitsMemoryToTheMachine) {
  Emulator emulator({{"chip", std::string("v5e")}});
  const size_t half = size_t{9} << 30;  // of 15.75 GiB
  auto first = emulator.client().Allocate(0, half);
  if (!first.ok()) GTEST_SKIP() << "this host has no 9 GiB to lend: " << first.status();
  auto second = emulator.client().Allocate(0, half);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Attempting to allocate 9.00G"));
  first->reset();
  EXPECT_TRUE(emulator.client().Allocate(0, half).ok());
}

// Many devices together have more memory than the host. The allocation must fail before the host runs out.
TEST(Emulator, LimitsMemoryToTheHost) {
  Emulator emulator({{"topology", std::string("8x8x8")}});
  const size_t block = size_t{4} << 30;
  std::vector<std::shared_ptr<Storage>> held;  // never written to, so it takes no host memory
  absl::Status refused;
  for (int32_t device = 0; device < 512 && refused.ok(); ++device) {
    const int32_t memory = emulator.client().topology().devices[static_cast<size_t>(device)].memories[0];
    auto storage = emulator.client().Allocate(memory, block);
    if (storage.ok()) held.push_back(*std::move(storage));
    refused = storage.status();
  }
  if (held.size() == 512) GTEST_SKIP() << "this host has 2 TiB";
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the host has no 4.00G"));
  held.clear();
  EXPECT_TRUE(emulator.client().Allocate(0, 1 << 20).ok());
}

// 32 GiB padded, 1 GiB of values: too large for v5e, not for v5p. The message names the array and the line it is from.
TEST(Emulator, RefusesProgramsThatDoNotFit) {
  const std::string text =
      "HloModule big, entry_computation_layout={(f32[8388608,8,4]{2,1,0:T(8,128)})->f32[8388608]{0}}\n"
      "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
      "ENTRY e {\n"
      "  x = f32[8388608,8,4] parameter(0), metadata={op_name=\"state\" source_file=\"train.py\" source_line=41}\n"
      "  z = f32[] constant(0)\n"
      "  ROOT s = f32[8388608] reduce(x, z), dimensions={1,2}, to_apply=add\n}\n";
  auto compile = [&](const char* chip) {
    std::unique_ptr<Backend> backend = CreateBackend({std::make_shared<NoHandlers>()});
    auto topology = backend->DescribeTopology(chip, {});
    EXPECT_TRUE(topology.ok()) << topology.status();
    auto module = ParseHloModule(text);
    EXPECT_TRUE(module.ok()) << module.status();
    return backend->Compile(*std::move(module), CompileOptions(), *topology).status();
  };
  const absl::Status refused = compile("v5e");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("CompileTimeHbmOom: Ran out of memory on HBM"));
  EXPECT_THAT(message, HasSubstr("exceeds available HBM (15.75G)"));
  EXPECT_THAT(message, HasSubstr("source_file=\"train.py\" source_line=41"));
  EXPECT_THAT(message, HasSubstr("Extra memory due to padding: 31.00G (32.0x expansion)"));
  EXPECT_TRUE(compile("v5p").ok()) << compile("v5p");
}

// A serialized program can be loaded for the same machine only, even if another one has the same name.
TEST(Emulator, SerializedProgramsBelongToOneMachine) {
  const std::string text =
      "HloModule m, entry_computation_layout={(f32[20,30],f32[30,10])->f32[20,10]}\n"
      "ENTRY e {\n  x = f32[20,30] parameter(0)\n  y = f32[30,10] parameter(1)\n"
      "  d = f32[20,10] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  ROOT r = f32[20,10] tanh(d)\n}\n";
  std::unique_ptr<Backend> backend = CreateBackend({std::make_shared<NoHandlers>()});
  auto topology = backend->DescribeTopology("v5e", {});
  ASSERT_TRUE(topology.ok()) << topology.status();
  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  auto executable = backend->Compile(*std::move(module), CompileOptions(), *topology);
  ASSERT_TRUE(executable.ok()) << executable.status();
  auto bytes = (*executable)->Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto again = backend->Deserialize(*bytes, *topology);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->cost(), (*executable)->cost());
  EXPECT_EQ((*again)->memory_stats().peak, (*executable)->memory_stats().peak);
  EXPECT_EQ((*again)->signature().parameters[1].shape.ToString(true),
            (*executable)->signature().parameters[1].shape.ToString(true));
  EXPECT_EQ((*again)->signature().outputs[0].shape.ToString(true),
            (*executable)->signature().outputs[0].shape.ToString(true));
  EXPECT_EQ((*again)->optimized_module()->ToString(), (*executable)->optimized_module()->ToString());

  auto options = ReadOptions("v5e", {});
  ASSERT_TRUE(options.ok()) << options.status();
  options->machine.hbm_gb_per_s *= 2;
  EXPECT_EQ(backend->Deserialize(*bytes, MakeTopology(*options)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options = ReadOptions("v5e", {{"f64", std::string("pairs")}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(backend->Deserialize(*bytes, MakeTopology(*options)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options = ReadOptions("v5e", {{"round", std::string("op")}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(backend->Deserialize(*bytes, MakeTopology(*options)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (size_t cut : {size_t{3}, size_t{40}, bytes->size() / 2, bytes->size() - 1})
    EXPECT_FALSE(backend->Deserialize(bytes->substr(0, cut), *topology).ok()) << cut;
}

// Generated code follows the definition: sums are in order and rounded at each step. Sizes and layouts do not change.
TEST(Emulator, F64InPairs) {
  std::vector<double> x(40 * 300), y(300 * 8);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<double>(i) + 0.1) * std::exp2(static_cast<double>(i % 17) - 8);
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::cos(static_cast<double>(i) * 1.7);
  const std::string body =
      R"(func.func @main(%x: tensor<40x300xf64>, %y: tensor<300x8xf64>) -> (tensor<40x300xf64>, tensor<40xf64>, tensor<40x8xf64>) {
    %s = stablehlo.multiply %x, %x : tensor<40x300xf64>
    %a = stablehlo.add %s, %x : tensor<40x300xf64>
    %q = stablehlo.divide %x, %a : tensor<40x300xf64>
    %z = stablehlo.constant dense<0.0> : tensor<f64>
    %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<40x300xf64>, tensor<f64>) -> tensor<40xf64>
    %d = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<40x300xf64>, tensor<300x8xf64>) -> tensor<40x8xf64>
    return %q, %r, %d : tensor<40x300xf64>, tensor<40xf64>, tensor<40x8xf64>
  })";
  for (const char* mode : {"pairs", "ieee"}) {
    const bool pairs = std::string(mode) == "pairs";
    const auto round = [&](double v) { return pairs ? RoundToPair(v) : v; };
    Emulator e({{"f64", std::string(mode)}});
    auto a = e.Put(PrimitiveType::kF64, {40, 300}, x.data()), b = e.Put(PrimitiveType::kF64, {300, 8}, y.data());
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    auto out = e.Run(body, {*a, *b});
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<std::vector<double>> got;
    for (const DeviceArray& array : *out) {
      auto bytes = e.Get(array);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      got.emplace_back(bytes->size() / 8);
      std::memcpy(got.back().data(), bytes->data(), bytes->size());
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = round(x[i]);
      EXPECT_EQ(got[0][i], round(v / round(round(v * v) + v))) << mode << " " << i;
    }
    if (!pairs) continue;  // the engine chooses the order of sums
    for (size_t i = 0; i < 40; ++i) {
      double sum = 0;
      for (size_t k = 0; k < 300; ++k) sum = round(sum + round(x[i * 300 + k]));
      EXPECT_EQ(got[1][i], sum) << i;
      for (size_t j = 0; j < 8; ++j) {
        double dot = 0;
        for (size_t k = 0; k < 300; ++k) dot = round(dot + round(round(x[i * 300 + k]) * round(y[k * 8 + j])));
        EXPECT_EQ(got[2][i * 8 + j], dot) << i << " " << j;
      }
    }
  }
}

TEST(Options, F64HasTwoValues) {
  auto options = ReadOptions("v5e", {{"f64", std::string("pairs")}});
  ASSERT_TRUE(options.ok()) << options.status();
  auto known = ReadOptionsFromTopology(MakeTopology(*options));
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->f64, F64::kPairs);
  const absl::Status refused = ReadOptions("v5e", {{"f64", std::string("double")}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("must be ieee or pairs"));
}

TEST(Options, Topologies) {
  auto options = ReadOptions("v5p:2x2x2", {});
  ASSERT_TRUE(options.ok()) << options.status();
  const Topology topology = MakeTopology(*options);
  ASSERT_EQ(topology.devices.size(), 8u);
  EXPECT_EQ(topology.devices[5].kind, "TPU v5");
  EXPECT_EQ(std::get<std::vector<int64_t>>(topology.devices[5].attributes.at("coords")),
            (std::vector<int64_t>{1, 0, 1}));
  auto known = ReadOptionsFromTopology(topology);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->machine.name, "v5p");
  EXPECT_EQ(known->torus, (std::vector<int64_t>{2, 2, 2}));
  // Another machine of the same name is another version.
  EmulatorOptions other = *options;
  other.machine.clock_ghz *= 2;
  EXPECT_NE(MakeTopology(other).platform_version, topology.platform_version);
}

TEST(Options, ErrorsNameTheirSource) {
  auto error = [](const NamedValues& options, const char* name = "") {
    return std::string(ReadOptions(name, options).status().message());
  };
  EXPECT_THAT(error({{"chip", std::string("v99")}}), HasSubstr("create option chip: 'v99' is neither a file"));
  EXPECT_THAT(error({{"topology", std::string("2x0")}}), HasSubstr("create option topology: '2x0'"));
  EXPECT_THAT(error({{"topology", std::string("2x2x2x2")}}), HasSubstr("up to three sizes"));
  EXPECT_THAT(error({{"topology", std::string("1024x1024x1024")}}), HasSubstr("at most 1024"));
  EXPECT_THAT(error({{"poison", std::string("red")}}), HasSubstr("none, zero, nan or random"));
  EXPECT_THAT(error({{"poison", int64_t{3}}}), HasSubstr("must be a string"));
  EXPECT_THAT(error({{"color", std::string("red")}}), HasSubstr("create option color: unknown; known: chip"));
  EXPECT_THAT(error({}, "v7"), HasSubstr("topology name: 'v7'"));
}

}  // namespace
}  // namespace backplane::tpu
