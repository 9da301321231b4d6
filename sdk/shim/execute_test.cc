// Tests programs: compile, load, run, donate, delete, serialize.
#include <cstddef>
#include <cstring>
#include <string>

#include "api/backplane_c_api.h"
#include "api/extensions/shardings.h"
#include "api/extensions/xla_transform.h"
#include "core/import/proto/hlo_proto.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Rows = std::vector<std::vector<PJRT_Buffer*>>;

class ExecuteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    storages_ = control_.storages;
    client_ = NewClient(2);
    devices_ = Devices(client_);
    x_ = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
    y_ = NewBuffer(client_, devices_[0], {10, 20, 30, 40});
  }
  void TearDown() override {
    Destroy(x_);
    Destroy(y_);
    Destroy(client_);
    EXPECT_EQ(control_.storages, storages_) << "storages leaked";
    EXPECT_EQ(control_.executables, 0) << "loaded executables leaked";
  }
  FakeControl& control_ = FakeControl::Get();
  int64_t storages_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
  PJRT_Buffer *x_, *y_;
};

TEST_F(ExecuteTest, RunsAndReportsCompletion) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  Rows out;
  std::vector<PJRT_Event*> events;
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, nullptr, &events).ok());
  EXPECT_TRUE(AwaitAndDestroy(events[0]).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(11, 22, 33, 44));
  Destroy(out[0][0]);
  Destroy(add);
}

TEST_F(ExecuteTest, ReturnsBeforeTheProgramHasRun) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  control_.Hold();
  Rows out, next;
  std::vector<PJRT_Event*> events;
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, nullptr, &events).ok());
  ASSERT_TRUE(Execute(add, {{out[0][0], y_}}, 1, &next).ok());
  BP_ARGS(r, PJRT_Event_IsReady);
  r.event = events[0];
  ASSERT_TRUE(BP_CALL(PJRT_Event_IsReady, r).ok());
  EXPECT_FALSE(r.is_ready);
  // The host may destroy everything while the programs wait.
  Destroy(out[0][0]);
  Destroy(add);
  EXPECT_EQ(control_.executables, 1);
  control_.ReleaseAll();
  EXPECT_EQ(control_.executables, 0);
  EXPECT_TRUE(AwaitAndDestroy(events[0]).ok());
  EXPECT_THAT(Values(next[0][0]), ElementsAre(21, 42, 63, 84));
  Destroy(next[0][0]);
}

// A transformation of a host: reads the module and replaces additions by subtractions.
struct Transform {
  PJRT_XlaTransform_Callbacks callbacks{};
  int seen = 0, cleaned = 0, destroyed = 0;
  std::string fails, out;
  bool drops_parameter = false;
  Transform() {
    callbacks.version = PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION;
    callbacks.dtor = [](PJRT_XlaTransform_Callbacks* c) { ++Of(c).destroyed; };
    callbacks.transform_hlo_module = [](PJRT_XlaTransform_Callbacks* c, PJRT_XlaTransform_Args* a) { Of(c).Run(*a); };
  }
  // The callbacks are the first field.
  static Transform& Of(PJRT_XlaTransform_Callbacks* c) { return *reinterpret_cast<Transform*>(c); }
  void Run(PJRT_XlaTransform_Args& a) {
    ++seen;
    a.header.data = this;
    a.header.cleanup_fn = [](void* data) { ++static_cast<Transform*>(data)->cleaned; };
    if (!fails.empty()) {
      a.header.has_error = true;
      a.header.code = PJRT_Error_Code_NOT_FOUND;
      a.header.error_msg = {fails.data(), fails.size()};
      return;
    }
    auto module = ParseHloModuleProto(absl::string_view(a.hlo_module.data, a.hlo_module.size));
    ASSERT_TRUE(module.ok()) << module.status();
    std::string text = (*module)->ToString();
    const size_t sum = text.find(" add(");
    if (sum == std::string::npos) return;
    text.replace(sum, 5, " subtract(");
    if (drops_parameter) text = "HloModule m\nENTRY e {\n ROOT x = f32[4] parameter(0)\n}\n";
    auto changed = ParseHloModule(text);
    ASSERT_TRUE(changed.ok()) << changed.status();
    out = *SerializeHloModule(**changed);
    a.transformed_hlo_module = {out.data(), out.size()};
    a.changed = true;
  }
};

TEST_F(ExecuteTest, TransformationsOfTheHostChangePrograms) {
  const PJRT_Extension_Base* base = Api().extension_start;
  while (base != nullptr && base->type != PJRT_Extension_Type_XlaTransform) base = base->next;
  auto* ext = reinterpret_cast<const PJRT_Xla_Transform_Extension*>(base);
  ASSERT_NE(ext, nullptr);
  static_assert(offsetof(Transform, callbacks) == 0);
  Transform first, second;
  auto add = [&](Transform& t, const char* name, PJRT_XlaTransform_PipelineStage stage) {
    BP_ARGS(r, PJRT_Register_Xla_Transform);
    r.name = name;
    r.name_size = std::strlen(name);
    r.stage = stage;
    r.callbacks = &t.callbacks;
    return Take(ext->register_xla_transform(&r));
  };
  auto clear = [&](const char* name, PJRT_XlaTransform_PipelineStage stage) {
    BP_ARGS(c, PJRT_Clear_Xla_Transform);
    c.name = name;
    c.name_size = std::strlen(name);
    c.stage = stage;
    EXPECT_TRUE(Take(ext->clear_xla_transform(&c)).ok());
    return c.cleared;
  };
  constexpr auto kPre = PJRT_XlaTransform_PipelineStage_kPreScheduler;
  constexpr auto kPost = PJRT_XlaTransform_PipelineStage_kPostScheduler;
  // The transformation of the later stage sees the result of the earlier one, which contains no addition.
  ASSERT_TRUE(add(second, "second", kPost).ok());
  ASSERT_TRUE(add(first, "first", kPre).ok());
  PJRT_LoadedExecutable* program = MustCompile(client_, kAdd);
  Rows out;
  ASSERT_TRUE(Execute(program, {{x_, y_}}, 1, &out).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(-9, -18, -27, -36));
  EXPECT_EQ(first.seen + second.seen, 2);
  EXPECT_TRUE(second.out.empty());
  Destroy(out[0][0]);
  Destroy(program);

  first.fails = "not today";
  PJRT_LoadedExecutable* none = nullptr;
  EXPECT_EQ(Compile(client_, kAdd, &none), absl::NotFoundError("transformation first: not today"));
  first.fails.clear();
  first.drops_parameter = true;
  EXPECT_THAT(std::string(Compile(client_, kAdd, &none).message()), HasSubstr("other parameters or results"));

  EXPECT_FALSE(clear("first", kPost));
  EXPECT_TRUE(clear("first", kPre));
  EXPECT_FALSE(clear("first", kPre));
  EXPECT_EQ(first.destroyed, 1);
  EXPECT_EQ(first.cleaned, first.seen);
  EXPECT_TRUE(clear("second", kPost));
  program = MustCompile(client_, kAdd);
  Rows plain;
  ASSERT_TRUE(Execute(program, {{x_, y_}}, 1, &plain).ok());
  EXPECT_THAT(Values(plain[0][0]), ElementsAre(11, 22, 33, 44));
  Destroy(plain[0][0]);
  Destroy(program);
  EXPECT_FALSE(add(first, "first", static_cast<PJRT_XlaTransform_PipelineStage>(7)).ok());
}

// An HloModuleProto contains the layouts with which it was built. Only the compile options determine the layouts of
// arguments and results.
TEST_F(ExecuteTest, LayoutsOfAProtoAreNobodysWish) {
  const auto module = ParseHloModule(R"(HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  t = f32[3,2]{0,1} transpose(x), dimensions={1,0}
  ROOT n = f32[3,2]{0,1} negate(t)
})");
  ASSERT_TRUE(module.ok()) << module.status();
  const std::string proto = *SerializeHloModule(**module);
  PJRT_Program program{PJRT_Program_STRUCT_SIZE, nullptr, const_cast<char*>(proto.data()), proto.size(), "hlo", 3};
  BP_ARGS(a, PJRT_Client_Compile);
  a.client = client_;
  a.program = &program;
  ASSERT_TRUE(BP_CALL(PJRT_Client_Compile, a).ok());
  PJRT_Buffer* x = NewBuffer(client_, devices_[0], {1, 2, 3, 4, 5, 6}, {2, 3});
  Rows out;
  const absl::Status status = Execute(a.executable, {{x}}, 1, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Values(out[0][0]), ElementsAre(-1, -4, -2, -5, -3, -6));
  Destroy(out[0][0]);
  Destroy(x);
  Destroy(a.executable);
}

TEST_F(ExecuteTest, NoArgumentsNeedNoLists) {
  PJRT_LoadedExecutable* one = MustCompile(client_, R"(
    func.func @main() -> tensor<2xf32> {
      %0 = stablehlo.constant dense<[7.0, 8.0]> : tensor<2xf32>
      return %0 : tensor<2xf32>
    })");
  BP_ARGS(a, PJRT_LoadedExecutable_Execute);
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  PJRT_Buffer* out = nullptr;
  PJRT_Buffer** row = &out;
  a.executable = one;
  a.options = &options;
  a.num_devices = 1;
  a.output_lists = &row;
  const absl::Status status = BP_CALL(PJRT_LoadedExecutable_Execute, a);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Values(out), ElementsAre(7, 8));
  Destroy(out);
  a.num_args = 1;  // then there must be a list
  EXPECT_THAT(std::string(BP_CALL(PJRT_LoadedExecutable_Execute, a).message()), HasSubstr("argument_lists"));
  Destroy(one);
}

TEST_F(ExecuteTest, WrongArgumentsAreNamedAndNothingRuns) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  PJRT_Buffer* three = NewBuffer(client_, devices_[0], {1, 2, 3});
  PJRT_Buffer* elsewhere = NewBuffer(client_, devices_[1], {1, 2, 3, 4});
  PJRT_Client* other = NewClient();
  PJRT_Buffer* foreign = NewBuffer(other, Devices(other)[0], {1, 2, 3, 4});
  PJRT_Buffer* deleted = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
  ASSERT_TRUE(Delete(deleted).ok());
  struct {
    Rows rows;
    const char* text;
  } cases[] = {
      {{{x_}}, "1 arguments, the program takes 2"},
      {{{x_, three}}, "argument 1 is f32[3]{0}, the program takes f32[4]{0}"},
      {{{x_, nullptr}}, "argument 1 is null"},
      {{{elsewhere, y_}}, "argument 0 is on Fake(id=1), the program runs on Fake(id=0)"},
      {{{x_, foreign}}, "argument 1 belongs to another client"},
      {{{x_, deleted}}, "argument 1, buffer f32[4], has been deleted or donated"},
      {{{x_, y_}, {x_, y_}}, "2 rows of arguments, the executable has 1 addressable devices"},
  };
  for (const auto& c : cases) {
    Rows out;
    absl::Status status = Execute(add, c.rows, 1, &out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
  }
  // Messages contain the names of arguments that the program states.
  std::string named = kAdd;
  const std::string second = "%y: tensor<4xf32>";
  const size_t at = named.find(second);
  ASSERT_NE(at, std::string::npos);
  named.insert(at + second.size(), " loc(\"params['b']\")");
  PJRT_LoadedExecutable* add_named = MustCompile(client_, named);
  Rows none;
  EXPECT_THAT(std::string(Execute(add_named, {{x_, three}}, 1, &none).message()),
              HasSubstr("argument 1 (params['b']) is f32[3]{0}, the program takes f32[4]{0}"));
  EXPECT_THAT(std::string(Execute(add_named, {{deleted, y_}}, 1, &none).message()),
              HasSubstr("argument 0, buffer f32[4], has been deleted"));
  Destroy(add_named);
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  options.num_send_ops = 1;
  Rows out;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out, &options).code(), absl::StatusCode::kInvalidArgument);  // no list
  options.struct_size = 8;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out, &options).code(), absl::StatusCode::kInvalidArgument);
  for (PJRT_Buffer* b : {three, elsewhere, foreign, deleted}) Destroy(b);
  Destroy(other);
  Destroy(add);
}

TEST_F(ExecuteTest, FailuresOfTheLaunchAndOfTheProgram) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  Rows out;
  control_.FailNext(absl::ResourceExhaustedError("no queue"), /*at_launch=*/true);
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out), absl::ResourceExhaustedError("no queue"));
  control_.FailNext(absl::DataLossError("bit rot"), /*at_launch=*/false);
  std::vector<PJRT_Event*> events;
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, nullptr, &events).ok());
  EXPECT_EQ(AwaitAndDestroy(events[0]), absl::DataLossError("bit rot"));
  std::vector<float> values;
  EXPECT_EQ(Read(out[0][0], &values), absl::DataLossError("bit rot"));
  Destroy(out[0][0]);
  Destroy(add);
}

TEST_F(ExecuteTest, DonationTakesTheBufferAndOffersSoleMemory) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  PJRT_Buffer* given = NewBuffer(client_, devices_[0], {1, 1, 1, 1});
  Rows out;
  ASSERT_TRUE(Execute(donate, {{given, y_}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(true, false));
  EXPECT_TRUE(IsDeleted(given));
  EXPECT_FALSE(IsDeleted(y_));
  EXPECT_THAT(Values(out[0][0]), ElementsAre(11, 21, 31, 41));
  Rows again;
  EXPECT_EQ(Execute(donate, {{given, y_}}, 1, &again).code(), absl::StatusCode::kInvalidArgument);
  Destroy(given);
  Destroy(out[0][0]);
  Destroy(donate);
}

TEST_F(ExecuteTest, DonationOfSharedMemoryGivesTheBufferButNotTheMemory) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  PJRT_Buffer* given = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
  BP_ARGS(i, PJRT_Buffer_IncreaseExternalReferenceCount);
  i.buffer = given;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, i).ok());
  const float* seen = static_cast<const float*>(Address(given));
  Rows out;
  ASSERT_TRUE(Execute(donate, {{given, y_}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  EXPECT_TRUE(IsDeleted(given));
  EXPECT_EQ(seen[3], 4);
  Destroy(out[0][0]);
  BP_ARGS(d, PJRT_Buffer_DecreaseExternalReferenceCount);
  d.buffer = given;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, d).ok());
  Destroy(given);

  // Memory that the host lends for reading only, and memory that it lends for reading and writing.
  alignas(64) float host[4] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  for (auto semantics : {PJRT_HostBufferSemantics_kImmutableZeroCopy, PJRT_HostBufferSemantics_kMutableZeroCopy}) {
    BP_ARGS(b, PJRT_Client_BufferFromHostBuffer);
    b.client = client_;
    b.data = host;
    b.type = PJRT_Buffer_Type_F32;
    b.dims = dims;
    b.num_dims = 1;
    b.device = devices_[0];
    b.host_buffer_semantics = semantics;
    ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, b).ok());
    ASSERT_TRUE(Execute(donate, {{b.buffer, y_}}, 1, &out).ok());
    EXPECT_EQ(control_.last_arguments[0], host);
    EXPECT_EQ(control_.last_donated[0], semantics == PJRT_HostBufferSemantics_kMutableZeroCopy);
    EXPECT_TRUE(AwaitAndDestroy(b.done_with_host_buffer).ok());
    Destroy(out[0][0]);
    Destroy(b.buffer);
  }
  Destroy(donate);
}

TEST_F(ExecuteTest, MemoryStillBeingWrittenIsGivenOnAndMemoryStillBeingReadIsNot) {
  PJRT_LoadedExecutable *add = MustCompile(client_, kAdd), *donate = MustCompile(client_, kDonate);
  control_.Hold();
  Rows first, second, reader, third;
  ASSERT_TRUE(Execute(donate, {{x_, y_}}, 1, &first).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(true, false));
  ASSERT_TRUE(Execute(donate, {{first[0][0], y_}}, 1, &second).ok());  // first is not ready yet
  EXPECT_THAT(control_.last_donated, ElementsAre(true, false));
  ASSERT_TRUE(Execute(add, {{second[0][0], y_}}, 1, &reader).ok());
  ASSERT_TRUE(Execute(donate, {{second[0][0], y_}}, 1, &third).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  control_.ReleaseAll();
  EXPECT_THAT(Values(reader[0][0]), ElementsAre(31, 62, 93, 124));
  EXPECT_THAT(Values(third[0][0]), ElementsAre(31, 62, 93, 124));
  for (auto* rows : {&first, &second, &reader, &third}) Destroy((*rows)[0][0]);
  Destroy(add);
  Destroy(donate);
}

TEST_F(ExecuteTest, OutputsThatShareMemoryAreNotGivenOn) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  const char* identity = R"(
module @identity {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
})";
  control_.forward = true;
  PJRT_LoadedExecutable* both = MustCompile(client_, identity);
  Rows same, out;
  ASSERT_TRUE(Execute(both, {{x_}}, 2, &same).ok());
  control_.forward = false;
  EXPECT_EQ(Address(same[0][0]), Address(x_));
  ASSERT_TRUE(Execute(donate, {{same[0][0], y_}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  Destroy(out[0][0]);
  ASSERT_TRUE(Execute(donate, {{same[0][1], y_}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  Destroy(out[0][0]);
  ASSERT_TRUE(Execute(donate, {{x_, y_}}, 1, &out).ok());  // the last program that reads it
  EXPECT_THAT(control_.last_donated, ElementsAre(true, false));
  Destroy(out[0][0]);
  Destroy(same[0][0]);
  Destroy(same[0][1]);
  Destroy(both);
  Destroy(donate);
}

TEST_F(ExecuteTest, NonDonatableIndicesAndDoubleDonation) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  const int64_t keep[] = {0}, beyond[] = {2};
  options.non_donatable_input_indices = keep;
  options.num_non_donatable_input_indices = 1;
  Rows out;
  ASSERT_TRUE(Execute(donate, {{x_, y_}}, 1, &out, &options).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  EXPECT_FALSE(IsDeleted(x_));
  Destroy(out[0][0]);
  options.non_donatable_input_indices = beyond;
  EXPECT_EQ(Execute(donate, {{x_, y_}}, 1, &out, &options).code(), absl::StatusCode::kInvalidArgument);
  absl::Status status = Execute(donate, {{x_, x_}}, 1, &out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("also donated in the same call"));
  EXPECT_FALSE(IsDeleted(x_));
  // A caller whose struct has fewer fields.
  options = {};
  options.struct_size = PJRT_STRUCT_SIZE(PJRT_ExecuteOptions, launch_id);
  options.num_non_donatable_input_indices = 99;
  ASSERT_TRUE(Execute(donate, {{x_, y_}}, 1, &out, &options).ok());
  EXPECT_TRUE(IsDeleted(x_));
  Destroy(out[0][0]);
  Destroy(donate);
}

TEST_F(ExecuteTest, CustomOptionsReachTheBackend) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = "depth";
  value.name_size = 5;
  value.type = PJRT_NamedValue_kInt64;
  value.int64_value = 3;
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  Rows out;
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, &options).ok());
  EXPECT_TRUE(control_.last_options.empty());
  Destroy(out[0][0]);
  options.custom_options = &value;
  options.num_custom_options = 1;
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, &options).ok());
  EXPECT_THAT(control_.last_options, ElementsAre(Pair("depth", NamedValue(int64_t{3}))));
  Destroy(out[0][0]);
  value.name = nullptr;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out, &options).code(), absl::StatusCode::kInvalidArgument);
  options.custom_options = nullptr;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out, &options).code(), absl::StatusCode::kInvalidArgument);
  options.struct_size = PJRT_STRUCT_SIZE(PJRT_ExecuteOptions, num_hlo_output_callbacks);  // a host of 0.115
  ASSERT_TRUE(Execute(add, {{x_, y_}}, 1, &out, &options).ok());
  Destroy(out[0][0]);
  Destroy(add);
}

TEST_F(ExecuteTest, SeveralDevicesAndOneOfThem) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd, OptionsFor(2, 1));
  BP_ARGS(l, PJRT_LoadedExecutable_AddressableDeviceLogicalIds);
  l.executable = add;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_AddressableDeviceLogicalIds, l).ok());
  ASSERT_EQ(l.num_addressable_device_logical_ids, 2u);
  EXPECT_EQ(l.addressable_device_logical_ids[1].replica, 1);
  EXPECT_EQ(l.addressable_device_logical_ids[1].partition, 0);
  BP_ARGS(g, PJRT_LoadedExecutable_GetDeviceAssignment);
  g.executable = add;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_GetDeviceAssignment, g).ok());
  EXPECT_EQ(std::string(g.serialized_bytes, g.serialized_bytes_size),
            std::string("\x08\x02\x10\x01\x1a\x04\x0a\x02\x00\x01", 10));
  g.serialized_device_assignment_deleter(g.serialized_device_assignment);

  PJRT_Buffer* far = NewBuffer(client_, devices_[1], {5, 6, 7, 8});
  Rows out;
  ASSERT_TRUE(Execute(add, {{x_, y_}, {far, far}}, 1, &out).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(Values(out[1][0]), ElementsAre(10, 12, 14, 16));
  BP_ARGS(w, PJRT_Buffer_Device);
  w.buffer = out[1][0];
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_Device, w).ok());
  EXPECT_EQ(w.device, devices_[1]);
  Destroy(out[0][0]);
  Destroy(out[1][0]);
  ASSERT_TRUE(Execute(add, {{far, far}}, 1, &out, nullptr, nullptr, devices_[1]).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(10, 12, 14, 16));
  Destroy(out[0][0]);
  Destroy(far);
  Destroy(add);
  PJRT_LoadedExecutable* none = nullptr;
  EXPECT_EQ(Compile(client_, kAdd, &none, OptionsFor(3, 1)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ExecuteTest, PortableProgramsRunWhereTheyAreTold) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd, OptionsFor(1, 1, /*portable=*/true));
  BP_ARGS(d, PJRT_LoadedExecutable_AddressableDevices);
  d.executable = add;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_AddressableDevices, d).ok());
  EXPECT_EQ(d.num_addressable_devices, 0u);
  Rows out;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out).code(), absl::StatusCode::kInvalidArgument);
  PJRT_Buffer* far = NewBuffer(client_, devices_[1], {5, 6, 7, 8});
  ASSERT_TRUE(Execute(add, {{far, far}}, 1, &out, nullptr, nullptr, devices_[1]).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(10, 12, 14, 16));
  Destroy(out[0][0]);
  Destroy(far);
  Destroy(add);
}

TEST_F(ExecuteTest, DeletedProgramsRunNoMore) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  BP_ARGS(d, PJRT_LoadedExecutable_Delete);
  d.executable = add;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_Delete, d).ok());
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_Delete, d).ok());
  BP_ARGS(i, PJRT_LoadedExecutable_IsDeleted);
  i.executable = add;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_IsDeleted, i).ok());
  EXPECT_TRUE(i.is_deleted);
  EXPECT_EQ(control_.executables, 0);
  Rows out;
  EXPECT_EQ(Execute(add, {{x_, y_}}, 1, &out).code(), absl::StatusCode::kFailedPrecondition);
  Destroy(add);
}

TEST_F(ExecuteTest, WhatAnExecutableTellsOfItself) {
  PJRT_LoadedExecutable* loaded = MustCompile(client_, kAdd);
  BP_ARGS(g, PJRT_LoadedExecutable_GetExecutable);
  g.loaded_executable = loaded;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_GetExecutable, g).ok());
  PJRT_Executable* e = g.executable;
  BP_ARGS(dims, PJRT_Executable_OutputDimensions);
  dims.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_OutputDimensions, dims).ok());
  ASSERT_EQ(dims.num_outputs, 1u);
  EXPECT_EQ(dims.dim_sizes[0], 1u);
  EXPECT_EQ(dims.dims[0], 4);
  BP_ARGS(kinds, PJRT_Executable_ParameterMemoryKinds);
  kinds.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_ParameterMemoryKinds, kinds).ok());
  ASSERT_EQ(kinds.num_parameters, 2u);
  EXPECT_EQ(std::string(kinds.memory_kinds[1], kinds.memory_kind_sizes[1]), "device");
  BP_ARGS(cost, PJRT_Executable_GetCostAnalysis);
  cost.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_GetCostAnalysis, cost).ok());
  ASSERT_EQ(cost.num_properties, 1u);
  EXPECT_EQ(cost.properties[0].float_value, 7.0f);
  BP_ARGS(stats, PJRT_Executable_GetCompiledMemoryStats);
  stats.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_GetCompiledMemoryStats, stats).ok());
  EXPECT_EQ(stats.temp_size_in_bytes, 11);
  EXPECT_EQ(stats.peak_memory_in_bytes, 13);
  BP_ARGS(f, PJRT_Executable_Fingerprint);
  f.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_Fingerprint, f).ok());
  EXPECT_EQ(f.executable_fingerprint_size, 32u);
  BP_ARGS(lf, PJRT_LoadedExecutable_Fingerprint);
  lf.executable = loaded;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_Fingerprint, lf).ok());
  EXPECT_EQ(std::string(lf.executable_fingerprint, 32), std::string(f.executable_fingerprint, 32));

  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  BP_ARGS(o, PJRT_Executable_OptimizedProgram);
  o.executable = e;
  o.program = &program;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_OptimizedProgram, o).ok());
  EXPECT_EQ(std::string(program.format, program.format_size), "hlo_with_config");
  std::string code(program.code_size, '\0');
  program.code = code.data();
  ASSERT_TRUE(BP_CALL(PJRT_Executable_OptimizedProgram, o).ok());
  EXPECT_THAT(code, HasSubstr("add"));
  program.code_size -= 1;
  EXPECT_EQ(BP_CALL(PJRT_Executable_OptimizedProgram, o).code(), absl::StatusCode::kInvalidArgument);

  const PJRT_Shardings_Extension* shardings = nullptr;
  const Backplane_Extension* ours = nullptr;
  for (const PJRT_Extension_Base* x = Api().extension_start; x != nullptr; x = x->next) {
    if (x->type == PJRT_Extension_Type_Shardings) shardings = reinterpret_cast<const PJRT_Shardings_Extension*>(x);
    if (x->type == BACKPLANE_EXTENSION_TYPE) ours = reinterpret_cast<const Backplane_Extension*>(x);
  }
  BP_ARGS(s, PJRT_Shardings_PJRT_Executable_ParameterShardings);
  s.executable = e;
  ASSERT_TRUE(Take(shardings->PJRT_Shardings_PJRT_Executable_ParameterShardings(&s)).ok());
  EXPECT_EQ(s.shardings, nullptr);
  BP_ARGS(log, Backplane_LoadedExecutable_CompileLog);
  log.executable = loaded;
  ASSERT_TRUE(Take(ours->loaded_executable_compile_log(&log)).ok());
  EXPECT_EQ(std::string(log.log, log.log_size), "fake: nothing was compiled");

  BP_ARGS(d, PJRT_Executable_Destroy);
  d.executable = e;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_Destroy, d).ok());
  Destroy(loaded);
}

TEST_F(ExecuteTest, SerializedProgramsComeBackAndDamagedOnesDoNot) {
  // Compiled without a client, loaded on one, serialized, and loaded again.
  BP_ARGS(t, PJRT_Client_TopologyDescription);
  t.client = client_;
  ASSERT_TRUE(BP_CALL(PJRT_Client_TopologyDescription, t).ok());
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
  BP_ARGS(l, PJRT_Client_Load);
  l.client = client_;
  l.executable = c.executable;
  ASSERT_TRUE(BP_CALL(PJRT_Client_Load, l).ok());
  Destroy(l.loaded_executable);
  BP_ARGS(s, PJRT_Executable_Serialize);
  s.executable = c.executable;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_Serialize, s).ok());
  const std::string bytes(s.serialized_bytes, s.serialized_bytes_size);
  s.serialized_executable_deleter(s.serialized_executable);
  BP_ARGS(o, PJRT_Executable_GetCompileOptions);
  o.executable = c.executable;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_GetCompileOptions, o).ok());
  o.serialized_compile_options_deleter(o.serialized_compile_options);
  BP_ARGS(d, PJRT_Executable_Destroy);
  d.executable = c.executable;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_Destroy, d).ok());

  BP_ARGS(r, PJRT_Executable_DeserializeAndLoad);
  r.struct_size = PJRT_STRUCT_SIZE(PJRT_Executable_DeserializeAndLoad_Args, loaded_executable);  // a caller before 0.71
  r.client = client_;
  r.serialized_executable = bytes.data();
  r.serialized_executable_size = bytes.size();
  ASSERT_TRUE(BP_CALL(PJRT_Executable_DeserializeAndLoad, r).ok());
  Rows out;
  ASSERT_TRUE(Execute(r.loaded_executable, {{x_, y_}}, 1, &out).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(11, 22, 33, 44));
  Destroy(out[0][0]);
  Destroy(r.loaded_executable);

  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    r.serialized_executable_size = cut;
    EXPECT_FALSE(BP_CALL(PJRT_Executable_DeserializeAndLoad, r).ok()) << cut;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    r.serialized_executable = flipped.data();
    r.serialized_executable_size = flipped.size();
    EXPECT_FALSE(BP_CALL(PJRT_Executable_DeserializeAndLoad, r).ok()) << at;
  }
}

TEST_F(ExecuteTest, ProgramsThatCannotBeReadSayWhy) {
  PJRT_LoadedExecutable* none = nullptr;
  EXPECT_EQ(Compile(client_, "module @m { func.func", &none).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Compile(client_, kAdd, &none, "\xff\xff\xff").code(), absl::StatusCode::kInvalidArgument);
  std::string code = kAdd;
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = code.data();
  program.code_size = code.size();
  program.format = "punched cards";
  program.format_size = 13;
  BP_ARGS(a, PJRT_Client_Compile);
  a.client = client_;
  a.program = &program;
  absl::Status status = BP_CALL(PJRT_Client_Compile, a);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("punched cards"));
  program.code = nullptr;
  EXPECT_EQ(BP_CALL(PJRT_Client_Compile, a).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::testing
