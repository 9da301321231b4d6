// Tests that clients and topologies use the compile cache, and when they must not.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "api/extensions/xla_transform.h"
#include "core/import/compile_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kOther[] = R"(
module @other {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

class Options {
 public:
  Options& Text(const char* name, const std::string& value) {
    PJRT_NamedValue& v = Add(name, PJRT_NamedValue_kString);
    v.string_value = value.data();
    v.value_size = value.size();
    return *this;
  }
  Options& Integer(const char* name, int64_t value) {
    PJRT_NamedValue& v = Add(name, PJRT_NamedValue_kInt64);
    v.int64_value = value;
    v.value_size = 1;
    return *this;
  }
  const std::vector<PJRT_NamedValue>& values() const { return values_; }

 private:
  PJRT_NamedValue& Add(const char* name, PJRT_NamedValue_Type type) {
    PJRT_NamedValue v{};
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    v.name = name;
    v.name_size = std::strlen(name);
    v.type = type;
    values_.push_back(v);
    return values_.back();
  }
  std::vector<PJRT_NamedValue> values_;
};

class CompileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "shim_cache.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static absl::StatusOr<PJRT_Client*> Create(const Options& options) {
    BP_ARGS(a, PJRT_Client_Create);
    a.create_options = options.values().data();
    a.num_options = options.values().size();
    if (absl::Status status = BP_CALL(PJRT_Client_Create, a); !status.ok()) return status;
    return a.client;
  }
  Options Cached() const { return std::move(Options().Text("compile_cache_directory", folder_)); }

  // Returns how often the backend compiled.
  static int Compilations(PJRT_Client* client, const std::string& text, const std::string& options = "") {
    const int before = FakeControl::Get().compilations;
    PJRT_LoadedExecutable* executable = MustCompile(client, text, options);
    Destroy(executable);
    return FakeControl::Get().compilations - before;
  }
  // The same with a client that ends afterwards.
  static int Compilations(const Options& options, const std::string& text) {
    absl::StatusOr<PJRT_Client*> client = Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    const int count = Compilations(*client, text);
    Destroy(*client);
    return count;
  }
  std::string folder_;
};

TEST_F(CompileCacheTest, AProgramIsCompiledOnce) {
  EXPECT_EQ(Compilations(Cached(), kAdd), 1);
  EXPECT_EQ(Compilations(Cached(), kAdd), 0);
  EXPECT_EQ(Compilations(Cached(), kOther), 1);
  EXPECT_EQ(Compilations(Cached(), kOther), 0);
  EXPECT_EQ(Compilations(Options(), kAdd), 1) << "without a cache";
}

TEST_F(CompileCacheTest, WhatIsFoundRuns) {
  Compilations(Cached(), kAdd);
  absl::StatusOr<PJRT_Client*> client = Create(Cached());
  ASSERT_TRUE(client.ok()) << client.status();
  const int before = FakeControl::Get().compilations;
  PJRT_LoadedExecutable* program = MustCompile(*client, kAdd);
  EXPECT_EQ(FakeControl::Get().compilations, before);
  PJRT_Device* device = Devices(*client)[0];
  PJRT_Buffer* x = NewBuffer(*client, device, {1, 2, 3, 4});
  std::vector<std::vector<PJRT_Buffer*>> out;
  ASSERT_TRUE(Execute(program, {{x, x}}, 1, &out).ok());
  EXPECT_THAT(Values(out[0][0]), ::testing::ElementsAre(2, 4, 6, 8));
  Destroy(out[0][0]);
  Destroy(x);
  Destroy(program);
  Destroy(*client);
}

TEST_F(CompileCacheTest, OptionsTopologiesAndTheEnvironmentMakeOtherEntries) {
  absl::StatusOr<PJRT_Client*> client = Create(Cached());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(Compilations(*client, kAdd), 1);
  EXPECT_EQ(Compilations(*client, kAdd, OptionsFor(2, 1)), 1);
  EXPECT_EQ(Compilations(*client, kAdd, OptionsFor(2, 1)), 0);
  setenv("BACKPLANE_DISABLE_PASSES", "fold-constants", 1);
  EXPECT_EQ(Compilations(*client, kAdd), 1);
  EXPECT_EQ(Compilations(*client, kAdd), 0);
  unsetenv("BACKPLANE_DISABLE_PASSES");
  EXPECT_EQ(Compilations(*client, kAdd), 0);
  Destroy(*client);
  EXPECT_EQ(Compilations(Cached().Integer("devices", 3), kAdd), 1);
}

// Hosts write the map of option overrides in any order.
TEST_F(CompileCacheTest, OptionsInAnotherOrderAreTheSame) {
  const auto bytes_of = [](const char* name, const char* value) {
    CompileOptions options;
    options.env_option_overrides[name] = value;
    return SerializeCompileOptions(options);
  };
  const std::string a = bytes_of("xla_dump_hlo_as_text", "true"), b = bytes_of("xla_dump_hlo_as_proto", "true");
  absl::StatusOr<PJRT_Client*> client = Create(Cached());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(Compilations(*client, kAdd, a + b), 1);
  EXPECT_EQ(Compilations(*client, kAdd, b + a), 0);
  EXPECT_EQ(Compilations(*client, kAdd, a), 1);
  Destroy(*client);
}

TEST_F(CompileCacheTest, DamagedEntriesAreCompiledAgain) {
  EXPECT_EQ(Compilations(Cached(), kAdd), 1);
  for (const auto& entry : fs::directory_iterator(folder_)) std::ofstream(entry.path(), std::ios::trunc) << "damaged";
  EXPECT_EQ(Compilations(Cached(), kAdd), 1);
  EXPECT_EQ(Compilations(Cached(), kAdd), 0);
}

TEST_F(CompileCacheTest, TopologiesHaveACacheToo) {
  const Options options = Cached();
  BP_ARGS(t, PJRT_TopologyDescription_Create);
  t.create_options = options.values().data();
  t.num_options = options.values().size();
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_Create, t).ok());
  for (const int expected : {1, 0}) {
    const int before = FakeControl::Get().compilations;
    std::string code = kAdd;
    PJRT_Program program{};
    program.struct_size = PJRT_Program_STRUCT_SIZE;
    program.code = code.data();
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    BP_ARGS(c, PJRT_Compile);
    c.topology = t.topology;
    c.program = &program;
    ASSERT_TRUE(BP_CALL(PJRT_Compile, c).ok());
    EXPECT_EQ(FakeControl::Get().compilations - before, expected);
    BP_ARGS(d, PJRT_Executable_Destroy);
    d.executable = c.executable;
    EXPECT_TRUE(BP_CALL(PJRT_Executable_Destroy, d).ok());
  }
  BP_ARGS(d, PJRT_TopologyDescription_Destroy);
  d.topology = t.topology;
  EXPECT_TRUE(BP_CALL(PJRT_TopologyDescription_Destroy, d).ok());
}

// A transformation of the host is not part of the key, so its results must not be stored, nor what is stored be used.
TEST_F(CompileCacheTest, TransformationsOfTheHostPreventItsUse) {
  const PJRT_Extension_Base* base = Api().extension_start;
  while (base != nullptr && base->type != PJRT_Extension_Type_XlaTransform) base = base->next;
  const auto* extension = reinterpret_cast<const PJRT_Xla_Transform_Extension*>(base);
  ASSERT_NE(extension, nullptr);
  static PJRT_XlaTransform_Callbacks callbacks{};
  callbacks.version = PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION;
  callbacks.transform_hlo_module = [](auto*, PJRT_XlaTransform_Args*) {};
  BP_ARGS(r, PJRT_Register_Xla_Transform);
  r.name = "cache test";
  r.name_size = std::strlen(r.name);
  r.stage = PJRT_XlaTransform_PipelineStage_kPreScheduler;
  r.callbacks = &callbacks;
  EXPECT_EQ(Compilations(Cached(), kAdd), 1);
  ASSERT_TRUE(Take(extension->register_xla_transform(&r)).ok());
  EXPECT_EQ(Compilations(Cached(), kAdd), 1);
  EXPECT_EQ(Compilations(Cached(), kOther), 1);
  BP_ARGS(c, PJRT_Clear_Xla_Transform);
  c.name = r.name;
  c.name_size = r.name_size;
  c.stage = r.stage;
  ASSERT_TRUE(Take(extension->clear_xla_transform(&c)).ok());
  EXPECT_EQ(Compilations(Cached(), kAdd), 0);
  EXPECT_EQ(Compilations(Cached(), kOther), 1);
}

TEST_F(CompileCacheTest, TheEnvironmentNamesAFolder) {
  setenv("BACKPLANE_COMPILE_CACHE_DIRECTORY", folder_.c_str(), 1);
  EXPECT_EQ(Compilations(Options(), kAdd), 1);
  EXPECT_EQ(Compilations(Options(), kAdd), 0);
  setenv("BACKPLANE_COMPILE_CACHE_LIMIT_BYTES", "many", 1);
  EXPECT_EQ(Create(Options()).status().code(), absl::StatusCode::kInvalidArgument);
  setenv("BACKPLANE_COMPILE_CACHE_LIMIT_BYTES", "10", 1);
  EXPECT_EQ(Compilations(Options(), kOther), 1);
  EXPECT_EQ(Compilations(Options(), kOther), 1) << "larger than the limit";
  unsetenv("BACKPLANE_COMPILE_CACHE_LIMIT_BYTES");
  unsetenv("BACKPLANE_COMPILE_CACHE_DIRECTORY");
}

TEST_F(CompileCacheTest, WrongOptionsAreRefused) {
  const std::string text = "one";
  const Options wrong[] = {Options().Integer("compile_cache_directory", 1),
                           Cached().Integer("compile_cache_limit_bytes", 0),
                           Cached().Text("compile_cache_limit_bytes", text)};
  for (const Options& options : wrong) {
    const absl::Status status = Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("create option compile_cache_"));
  }
  // JAX passes options that a user writes as one text as texts.
  const std::string limit = "1000000";
  EXPECT_EQ(Compilations(Cached().Text("compile_cache_limit_bytes", limit), kAdd), 1);
  EXPECT_EQ(Compilations(Cached().Text("compile_cache_limit_bytes", limit), kAdd), 0);
  std::ofstream(folder_ + "/file") << "x";
  const absl::Status status = Create(Options().Text("compile_cache_directory", folder_ + "/file")).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("is no folder"));
}

}  // namespace
}  // namespace backplane::testing
