// Provokes each kind of finding, and checks that correct calls give none.
#include "sdk/layers/validate/validate.h"

#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "sdk/host/json.h"
#include "sdk/layers/calls_test.h"
#include "sdk/layers/validate/handles.h"

namespace backplane::layers {
namespace {

using ::testing::HasSubstr;

class ValidateTest : public LayersTest {
 protected:
  void Open(Settings settings = {}, const PJRT_Api* target = GetPjrtApi()) {
    path_ = absl::StrCat(::testing::TempDir(), "validate_test.", getpid(), ".txt");
    settings.emplace_back("file", path_);
    LayersTest::Open("validate", std::move(settings), target);
  }
  void TearDown() override {
    stack_.reset();
    unlink(path_.c_str());
  }
  uint64_t Count(const std::string& kind) { return GetReport(*layer_).GetCount(kind); }
  size_t Findings() { return GetReport(*layer_).size(); }
  std::string Text() {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  absl::Status Dims(PJRT_Buffer* buffer) {
    BP_ARGS(a, PJRT_Buffer_Dimensions);
    a.buffer = buffer;
    return CALL(PJRT_Buffer_Dimensions, a);
  }
  std::string path_;
};

TEST_F(ValidateTest, NothingWrongNothingFound) {
  Open();
  RunAll();
  layer_->End();
  EXPECT_EQ(Findings(), 0) << Text();
  EXPECT_EQ(Text(), "validate: 0 findings, met 0 times\n");
}

TEST_F(ValidateTest, UseAfterDestroy) {
  Open({{"refuse", "1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_OK(Destroy(buffer));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Dims(buffer).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Findings(), 1) << "the same call site is reported once";
  EXPECT_EQ(Count("use-after-destroy"), 3);
  EXPECT_THAT(Text(), HasSubstr("use-after-destroy: PJRT_Buffer_Dimensions: `buffer` is Buffer 0x"));
  EXPECT_THAT(Text(), HasSubstr("destroyed by PJRT_Buffer_Destroy"));
  EXPECT_THAT(Text(), HasSubstr("created by PJRT_Client_BufferFromHostBuffer"));
  EXPECT_THAT(Text(), HasSubstr("#0 ")) << "with stacks";
  Destroy(client);
}

TEST_F(ValidateTest, UseAfterDestroyReachesThePluginUnlessRefused) {
  PJRT_Api& target = TargetCopy();
  static int reached = 0;
  target.PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) -> PJRT_Error* {
    ++reached;
    args->dims = nullptr;
    args->num_dims = 0;
    return nullptr;
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_OK(Destroy(buffer));
  EXPECT_OK(Dims(buffer));
  EXPECT_EQ(reached, 1) << "the layer changes nothing";
  EXPECT_EQ(Count("use-after-destroy"), 1);
  Destroy(client);
}

TEST_F(ValidateTest, DoubleDestroyOfEachTypeOfObject) {
  Open({{"refuse", "1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  PJRT_LoadedExecutable* loaded = Compile(client, testing::kAdd);
  BP_ARGS(e, PJRT_LoadedExecutable_GetExecutable);
  e.loaded_executable = loaded;
  EXPECT_OK(CALL(PJRT_LoadedExecutable_GetExecutable, e));
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
  BP_ARGS(x, PJRT_ExecuteContext_Create);
  EXPECT_OK(CALL(PJRT_ExecuteContext_Create, x));
  BP_ARGS(m, PJRT_Client_LookupDevice);
  m.client = client;
  m.id = 99;
  PJRT_Error* error = api().PJRT_Client_LookupDevice(&m);
  ASSERT_NE(error, nullptr);

  int expected = 0;
#define TWICE(fn, member, object)                                             \
  {                                                                           \
    BP_ARGS(d, fn);                                                           \
    d.member = object;                                                        \
    EXPECT_OK(CALL(fn, d));                                                   \
    EXPECT_EQ(CALL(fn, d).code(), absl::StatusCode::kInvalidArgument) << #fn; \
    EXPECT_EQ(Count("double-destroy"), ++expected) << #fn;                    \
    EXPECT_THAT(Text(), HasSubstr("double-destroy: " #fn ": "));              \
  }
  TWICE(PJRT_Event_Destroy, event, r.event)
  TWICE(PJRT_Executable_Destroy, executable, e.executable)
  TWICE(PJRT_LoadedExecutable_Destroy, executable, loaded)
  TWICE(PJRT_ExecuteContext_Destroy, context, x.context)
  TWICE(PJRT_Buffer_Destroy, buffer, buffer)
  TWICE(PJRT_Client_Destroy, client, client)
#undef TWICE
  BP_ARGS(d, PJRT_Error_Destroy);
  d.error = error;
  api().PJRT_Error_Destroy(&d);
  api().PJRT_Error_Destroy(&d);
  EXPECT_EQ(Count("double-destroy"), ++expected) << "errors too";
  layer_->End();
  EXPECT_EQ(Count("leak"), 0) << Text();
}

TEST_F(ValidateTest, AnErrorFreedByItsOwnTableIsSeen) {
  Open();
  PJRT_Client* client = NewClient();
  BP_ARGS(m, PJRT_Client_LookupDevice);
  m.client = client;
  m.id = 99;
  PJRT_Error* error = api().PJRT_Client_LookupDevice(&m);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->vtable->get_code(error), PJRT_Error_Code_INVALID_ARGUMENT);
  const char* text = nullptr;
  size_t size = 0;
  error->vtable->message(error, &text, &size);
  EXPECT_GT(size, 0) << "the words of the plugin";
  error->vtable->destroy(error);
  PJRT_Error* leaked = api().PJRT_Client_LookupDevice(&m);
  Destroy(client);
  layer_->End();
  EXPECT_EQ(Count("leak"), 1) << Text();
  EXPECT_THAT(Text(), HasSubstr("leak: 1 object of type Error from PJRT_Client_LookupDevice never destroyed"));
  EXPECT_FALSE(Take(leaked).ok());
}

TEST_F(ValidateTest, UnknownHandleAndHandleOfAnotherType) {
  Open({{"refuse", "1"}});
  PJRT_Client* client = NewClient();
  int64_t nothing[8] = {};
  EXPECT_FALSE(Dims(reinterpret_cast<PJRT_Buffer*>(nothing)).ok());
  EXPECT_EQ(Count("unknown-handle"), 1);
  EXPECT_FALSE(Dims(reinterpret_cast<PJRT_Buffer*>(client)).ok());
  EXPECT_EQ(Count("unknown-handle"), 2);
  Destroy(client);
}

TEST_F(ValidateTest, DestroyOfWhatIsBorrowed) {
  Open({{"refuse", "1"}});
  PJRT_Client* client = NewClient();
  BP_ARGS(t, PJRT_Client_TopologyDescription);
  t.client = client;
  EXPECT_OK(CALL(PJRT_Client_TopologyDescription, t));
  BP_ARGS(d, PJRT_TopologyDescription_Destroy);
  d.topology = t.topology;
  EXPECT_FALSE(CALL(PJRT_TopologyDescription_Destroy, d).ok());
  EXPECT_EQ(Count("destroy-of-borrowed"), 1);
  Destroy(client);
}

TEST_F(ValidateTest, UseAfterDelete) {
  Open();
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  BP_ARGS(d, PJRT_Buffer_Delete);
  d.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_Delete, d));
  EXPECT_OK(Dims(buffer));
  EXPECT_EQ(Findings(), 0) << "what it is may still be asked";
  std::vector<float> values;
  EXPECT_FALSE(Read(buffer, &values).ok());
  EXPECT_EQ(Count("use-after-delete"), 1);
  EXPECT_OK(Destroy(buffer));

  PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
  BP_ARGS(l, PJRT_LoadedExecutable_Delete);
  l.executable = add;
  EXPECT_OK(CALL(PJRT_LoadedExecutable_Delete, l));
  BP_ARGS(a, PJRT_LoadedExecutable_AddressableDevices);
  a.executable = add;
  CALL(PJRT_LoadedExecutable_AddressableDevices, a).IgnoreError();
  EXPECT_EQ(Count("use-after-delete"), 2);
  Destroy(add);
  Destroy(client);
}

TEST_F(ValidateTest, UseAfterDonate) {
  Open();
  PJRT_Client* client = NewClient();
  PJRT_Buffer *x = NewBuffer(client), *y = NewBuffer(client), *z = nullptr, *none = nullptr;
  PJRT_LoadedExecutable* donate = Compile(client, testing::kDonate);
  EXPECT_OK(Execute(donate, {x, y}, &z));
  EXPECT_EQ(Findings(), 0) << Text();
  EXPECT_FALSE(Execute(donate, {x, y}, &none).ok());
  EXPECT_EQ(Count("use-after-donate"), 1);
  EXPECT_THAT(Text(), HasSubstr("last an argument of PJRT_LoadedExecutable_Execute"));
  for (PJRT_Buffer* b : {x, y, z}) EXPECT_OK(Destroy(b));
  Destroy(donate);
  Destroy(client);
  layer_->End();
  EXPECT_EQ(Findings(), 1) << Text();
}

TEST_F(ValidateTest, ADestroyedArgumentOfAnExecution) {
  Open({{"refuse", "1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer *x = NewBuffer(client), *y = NewBuffer(client), *z = nullptr;
  PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
  EXPECT_OK(Destroy(y));
  EXPECT_FALSE(Execute(add, {x, y}, &z).ok());
  EXPECT_EQ(Count("use-after-destroy"), 1);
  EXPECT_THAT(Text(), HasSubstr("`argument_lists`"));
  EXPECT_OK(Destroy(x));
  Destroy(add);
  Destroy(client);
}

// A plugin that refuses one call of PJRT_Buffer_Destroy, counted from 1.
PJRT_Api& RefuseDestroy(int number) {
  PJRT_Api& target = TargetCopy();
  static int left = 0;
  left = number;
  target.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) {
    if (--left != 0) return GetPjrtApi()->PJRT_Buffer_Destroy(args);
    BP_ARGS(unknown, PJRT_Client_Create);  // any call that fails
    unknown.num_options = 1;
    return GetPjrtApi()->PJRT_Client_Create(&unknown);
  };
  return target;
}

// A plugin may refuse the second destroy. The object stays destroyed.
TEST_F(ValidateTest, ARefusedSecondDestroyDoesNotReviveTheObject) {
  PJRT_Api& target = RefuseDestroy(2);
  target.PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args*) -> PJRT_Error* { return nullptr; };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_OK(Destroy(buffer));
  EXPECT_FALSE(Destroy(buffer).ok());
  EXPECT_EQ(Count("double-destroy"), 1);
  EXPECT_OK(Dims(buffer));
  EXPECT_EQ(Count("use-after-destroy"), 1);
  Destroy(client);
  layer_->End();
  EXPECT_EQ(Count("leak"), 0) << Text();
}

// After a first destroy that the plugin refuses, the object lives on.
TEST_F(ValidateTest, ARefusedFirstDestroyLeavesTheObject) {
  Open({}, &RefuseDestroy(1));
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_FALSE(Destroy(buffer).ok());
  EXPECT_OK(Dims(buffer));
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
  layer_->End();
  EXPECT_EQ(Findings(), 0) << Text();
}

TEST_F(ValidateTest, ClientDestroyedWithLiveBuffersAndTheirLateDestroy) {
  PJRT_Api& target = TargetCopy();
  // The real function would free memory that the buffers use; only the order of calls matters here.
  target.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args*) -> PJRT_Error* { return nullptr; };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer *a = NewBuffer(client), *b = NewBuffer(client);
  PJRT_Device* device = FirstDevice(client);
  Destroy(client);
  EXPECT_EQ(Count("client-destroyed-early"), 1);
  EXPECT_THAT(Text(), HasSubstr("is destroyed while 2 of its objects of type Buffer live"));
  BP_ARGS(d, PJRT_Device_IsAddressable);
  d.device = device;
  EXPECT_OK(CALL(PJRT_Device_IsAddressable, d));
  EXPECT_EQ(Count("use-after-destroy"), 1) << "devices go with their client";
  EXPECT_OK(Destroy(a));
  EXPECT_OK(Destroy(b));
  layer_->End();
  EXPECT_EQ(Count("leak"), 0) << Text();
  BP_ARGS(c, PJRT_Client_Destroy);
  c.client = client;
  EXPECT_EQ(GetPjrtApi()->PJRT_Client_Destroy(&c), nullptr);
}

TEST_F(ValidateTest, LeaksAtTheEnd) {
  Open();
  PJRT_Client* client = NewClient();
  std::vector<PJRT_Buffer*> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(NewBuffer(client));
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = buffers[0];
  EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
  layer_->Flush();
  EXPECT_EQ(Findings(), 0) << "a flush is not the end";
  layer_->End();
  EXPECT_EQ(Count("leak"), 3) << "client, buffers, event\n" << Text();
  EXPECT_THAT(Text(),
              HasSubstr("leak: 3 objects of type Buffer from PJRT_Client_BufferFromHostBuffer never destroyed"));
  EXPECT_THAT(Text(), HasSubstr("1 object of type Event from PJRT_Buffer_ReadyEvent"));
  EXPECT_THAT(Text(), HasSubstr("1 object of type Client from PJRT_Client_Create"));
  EXPECT_OK(Await(r.event));
  for (PJRT_Buffer* b : buffers) EXPECT_OK(Destroy(b));
  Destroy(client);
}

TEST_F(ValidateTest, StacksCanBeLeftOut) {
  Open({{"depth", "0"}, {"refuse", "1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_OK(Destroy(buffer));
  EXPECT_FALSE(Dims(buffer).ok());
  EXPECT_THAT(Text(), HasSubstr("(no stack was taken)"));
  Destroy(client);
  EXPECT_FALSE(MakeLayerByName("validate", Options("validate", {{"depth", "49"}})).ok());
}

TEST_F(ValidateTest, LeaksCanBeLeftOut) {
  Open({{"leaks", "0"}});
  PJRT_Client* client = NewClient();
  layer_->End();
  EXPECT_EQ(Findings(), 0);
  Destroy(client);
}

TEST_F(ValidateTest, FieldsThatThePluginDidNotWrite) {
  PJRT_Api& target = TargetCopy();
  target.PJRT_Buffer_IsOnCpu = [](PJRT_Buffer_IsOnCpu_Args*) -> PJRT_Error* { return nullptr; };
  target.PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) -> PJRT_Error* {
    args->num_dims = 0;  // without an address, which an empty list does not need
    return nullptr;
  };
  target.PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = static_cast<int>(0xa7d39be5);  // three of its bytes are bytes of the pattern
    return nullptr;
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  BP_ARGS(a, PJRT_Buffer_IsOnCpu);
  a.buffer = buffer;
  a.is_on_cpu = true;
  EXPECT_OK(CALL(PJRT_Buffer_IsOnCpu, a));
  EXPECT_TRUE(a.is_on_cpu) << "the host's own value stays";
  EXPECT_EQ(Count("unset-out-field"), 1);
  EXPECT_THAT(Text(), HasSubstr("PJRT_Buffer_IsOnCpu: succeeded, but the plugin did not write `is_on_cpu`"));
  EXPECT_OK(Dims(buffer));
  EXPECT_EQ(Count("unset-out-field"), 1) << Text();
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
}

TEST_F(ValidateTest, AFieldThatIsLaterNotWrittenIsFoundInTime) {
  PJRT_Api& target = TargetCopy();
  static int calls;
  calls = 0;
  target.PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    if (++calls <= 1000) args->process_index = 0;
    return nullptr;
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  BP_ARGS(a, PJRT_Client_ProcessIndex);
  a.client = client;
  for (int i = 0; i < 1000; ++i) EXPECT_OK(CALL(PJRT_Client_ProcessIndex, a));
  EXPECT_EQ(Findings(), 0) << Text();
  for (int i = 0; i < 16; ++i) EXPECT_OK(CALL(PJRT_Client_ProcessIndex, a));
  EXPECT_EQ(Count("unset-out-field"), 1) << Text();
  Destroy(client);
}

TEST_F(ValidateTest, AFieldWithBytesOfThePatternComesBackWhole) {
  PJRT_Api& target = TargetCopy();
  target.PJRT_Buffer_OnDeviceSizeInBytes = [](PJRT_Buffer_OnDeviceSizeInBytes_Args* args) -> PJRT_Error* {
    args->on_device_size_in_bytes = 0x1000000000009be5;  // the low bytes are those of the pattern
    return nullptr;
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  BP_ARGS(a, PJRT_Buffer_OnDeviceSizeInBytes);
  a.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_OnDeviceSizeInBytes, a));
  EXPECT_EQ(a.on_device_size_in_bytes, 0x1000000000009be5);
  EXPECT_EQ(Findings(), 0) << Text();
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
}

TEST_F(ValidateTest, AnOlderPluginNeedNotWriteYoungerFields) {
  PJRT_Api& target = TargetCopy();
  target.pjrt_api_version.minor_version = 71;
  target.PJRT_Executable_GetCompiledMemoryStats = [](PJRT_Executable_GetCompiledMemoryStats_Args* a) -> PJRT_Error* {
    a->generated_code_size_in_bytes = a->argument_size_in_bytes = a->output_size_in_bytes = a->alias_size_in_bytes = 1;
    a->temp_size_in_bytes = a->host_generated_code_size_in_bytes = a->host_argument_size_in_bytes = 1;
    a->host_output_size_in_bytes = a->host_alias_size_in_bytes = a->host_temp_size_in_bytes = 1;
    return nullptr;  // 0.71 has no further slots
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
  BP_ARGS(e, PJRT_LoadedExecutable_GetExecutable);
  e.loaded_executable = add;
  EXPECT_OK(CALL(PJRT_LoadedExecutable_GetExecutable, e));
  BP_ARGS(s, PJRT_Executable_GetCompiledMemoryStats);
  s.executable = e.executable;
  s.peak_memory_in_bytes = 5;
  EXPECT_OK(CALL(PJRT_Executable_GetCompiledMemoryStats, s));
  EXPECT_EQ(s.host_temp_size_in_bytes, 1);
  EXPECT_EQ(s.peak_memory_in_bytes, 5);
  EXPECT_EQ(Findings(), 0) << Text();
  BP_ARGS(d, PJRT_Executable_Destroy);
  d.executable = e.executable;
  EXPECT_OK(CALL(PJRT_Executable_Destroy, d));
  Destroy(add);
  Destroy(client);
}

TEST_F(ValidateTest, WrongStructSizes) {
  Open();
  BP_ARGS(a, PJRT_Plugin_Attributes);
  for (const size_t wrong : {size_t{8}, size_t{20}, size_t{100000}}) {
    a.struct_size = wrong;
    Take(api().PJRT_Plugin_Attributes(&a)).IgnoreError();
  }
  EXPECT_EQ(Count("wrong-struct-size"), 3) << Text();
  EXPECT_THAT(Text(), HasSubstr("PJRT_Plugin_Attributes: struct_size is 8, expected"));
  for (const size_t fine :
       {size_t{PJRT_Plugin_Attributes_Args_STRUCT_SIZE}, sizeof(PJRT_Plugin_Attributes_Args) + 16}) {
    // The struct of a newer host; it must be as long as it says.
    struct {
      PJRT_Plugin_Attributes_Args args;
      char more[64];
    } longer{};
    longer.args.struct_size = fine;
    EXPECT_OK(Take(api().PJRT_Plugin_Attributes(&longer.args)));
  }
  EXPECT_EQ(Findings(), 3) << Text();
}

TEST_F(ValidateTest, CallbackNeverCalled) {
  PJRT_Api& target = TargetCopy();
  // The callback runs after the client has been destroyed, which is too late.
  static auto* const late = new std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>>;
  target.PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) -> PJRT_Error* {
    late->emplace_back(args->callback, args->user_arg);
    return nullptr;
  };
  Open({{"patience_ms", "0"}}, &target);
  auto forgotten = [&](bool end_client) {
    PJRT_Client* client = NewClient();
    PJRT_Buffer* buffer = NewBuffer(client);
    BP_ARGS(r, PJRT_Buffer_ReadyEvent);
    r.buffer = buffer;
    EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
    BP_ARGS(o, PJRT_Event_OnReady);
    o.event = r.event;
    o.callback = [](PJRT_Error*, void*) {};
    EXPECT_OK(CALL(PJRT_Event_OnReady, o));
    BP_ARGS(d, PJRT_Event_Destroy);
    d.event = r.event;
    EXPECT_OK(CALL(PJRT_Event_Destroy, d));
    EXPECT_OK(Destroy(buffer));
    if (!end_client) layer_->End();
    Destroy(client);
  };
  forgotten(true);
  EXPECT_EQ(Count("callback-never-called"), 1) << Text();
  EXPECT_THAT(Text(), HasSubstr("registered by PJRT_Event_OnReady"));
  forgotten(false);
  EXPECT_EQ(Count("callback-never-called"), 2) << Text();
  ASSERT_EQ(late->size(), 2u);
  for (const auto& [callback, argument] : *late) callback(nullptr, argument);
  late->clear();
}

TEST_F(ValidateTest, ADestroyThatFailedLeavesTheObjectAlive) {
  PJRT_Api& target = TargetCopy();
  target.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args*) -> PJRT_Error* {
    BP_ARGS(a, PJRT_Client_LookupDevice);  // some error
    return GetPjrtApi()->PJRT_Client_LookupDevice(&a);
  };
  Open({}, &target);
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_FALSE(Destroy(buffer).ok());
  EXPECT_OK(Dims(buffer));
  EXPECT_EQ(Findings(), 0) << Text();
  testing::Destroy(buffer);
  Destroy(client);
  EXPECT_EQ(Count("client-destroyed-early"), 1);
}

TEST_F(ValidateTest, FindingsAsJson) {
  const std::string json = absl::StrCat(::testing::TempDir(), "validate_test.", getpid(), ".json");
  Open({{"json", json}, {"refuse", "1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  EXPECT_OK(Destroy(buffer));
  EXPECT_FALSE(Dims(buffer).ok());
  Destroy(client);
  layer_->End();
  std::stringstream text;
  text << std::ifstream(json).rdbuf();
  unlink(json.c_str());
  ASSERT_OK_AND_ASSIGN(host::Json parsed, host::Json::Parse(text.str()));
  const host::Json* findings = parsed.Find("findings");
  ASSERT_NE(findings, nullptr);
  ASSERT_EQ(findings->array()->size(), 1);
  const host::Json& one = findings->array()->at(0);
  EXPECT_EQ(*one.Find("kind")->string(), "use-after-destroy");
  EXPECT_EQ(*one.Find("function")->string(), "PJRT_Buffer_Dimensions");
  EXPECT_FALSE(one.Find("stack")->array()->empty());
  EXPECT_EQ(one.Find("before")->array()->size(), 2);
}

TEST(HandlesTest, AnAddressIsANewObjectWhenItIsGivenOutAgain) {
  Handles handles;
  int object;
  handles.AddOwned(Object::Buffer, &object, Fn::PJRT_Buffer_Bitcast, 1, nullptr);
  Handle was;
  EXPECT_EQ(handles.BeginDestroy(Object::Buffer, &object, Fn::PJRT_Buffer_Destroy, 2, &was), Handles::Destroyed::kOk);
  // Another thread gets the address before this thread's destroy has returned.
  handles.AddOwned(Object::Buffer, &object, Fn::PJRT_Buffer_Bitcast, 3, nullptr);
  EXPECT_TRUE(handles.Find(Object::Buffer, &object)->alive);
  EXPECT_FALSE(handles.Find(Object::Event, &object).has_value()) << "types have addresses of their own";
  EXPECT_EQ(handles.BeginDestroy(Object::Buffer, &object, Fn::PJRT_Buffer_Destroy, 4, &was), Handles::Destroyed::kOk);
  EXPECT_EQ(handles.BeginDestroy(Object::Buffer, &object, Fn::PJRT_Buffer_Destroy, 5, &was),
            Handles::Destroyed::kTwice);
  EXPECT_EQ(was.destroyed, 4);
}

TEST(HandlesTest, WhatIsLentBelongsToTheClientThatLentItLast) {
  int first = 0, second = 0, device = 0;
  Handles handles;
  // The first client's object ends unseen, with one that lent it; the second client's has its address.
  handles.AddBorrowed(Object::DeviceDescription, &device, Fn::PJRT_TopologyDescription_GetDeviceDescriptions, &first);
  handles.AddBorrowed(Object::DeviceDescription, &device, Fn::PJRT_TopologyDescription_GetDeviceDescriptions, &second);
  handles.EndClient(&first, Fn::PJRT_Client_Destroy, 1);
  EXPECT_TRUE(handles.GetState(Object::DeviceDescription, &device).fine);
  handles.EndClient(&second, Fn::PJRT_Client_Destroy, 2);
  EXPECT_FALSE(handles.GetState(Object::DeviceDescription, &device).fine);
}

TEST(HandlesTest, GivenTwiceIsDestroyedTwice) {
  Handles handles;
  int object;
  handles.AddOwned(Object::Executable, &object, Fn::PJRT_LoadedExecutable_GetExecutable, 1, nullptr);
  handles.AddOwned(Object::Executable, &object, Fn::PJRT_LoadedExecutable_GetExecutable, 1, nullptr);
  Handle was;
  using enum Handles::Destroyed;
  EXPECT_EQ(handles.BeginDestroy(Object::Executable, &object, Fn::PJRT_Executable_Destroy, 2, &was), kOk);
  EXPECT_EQ(handles.BeginDestroy(Object::Executable, &object, Fn::PJRT_Executable_Destroy, 2, &was), kOk);
  EXPECT_EQ(handles.BeginDestroy(Object::Executable, &object, Fn::PJRT_Executable_Destroy, 2, &was), kTwice);
}

TEST(HandlesTest, TheLongDeadAreForgottenAndNothingElse) {
  Handles handles;
  // More objects than are remembered, while some live: each is found after the table has moved, and the last dead ones
  // are known.
  constexpr size_t kLiving = 5000, kDead = 60000, kSurely = 8192;
  std::vector<char> objects(kLiving + kDead);
  for (size_t i = 0; i < kLiving; ++i) {
    handles.AddOwned(Object::Buffer, &objects[i], Fn::PJRT_Buffer_Bitcast, static_cast<uint32_t>(i + 1), &objects[i]);
  }
  Handle was;
  for (size_t i = kLiving; i < objects.size(); ++i) {
    handles.AddOwned(Object::Buffer, &objects[i], Fn::PJRT_Buffer_Bitcast, 1, &objects);
    ASSERT_EQ(handles.BeginDestroy(Object::Buffer, &objects[i], Fn::PJRT_Buffer_Destroy, 7, &was),
              Handles::Destroyed::kOk);
  }
  for (size_t i = 0; i < kLiving; ++i) {
    const std::optional<Handle> h = handles.Find(Object::Buffer, &objects[i]);
    ASSERT_TRUE(h.has_value() && h->alive && h->created == i + 1 && h->client == &objects[i]) << i;
  }
  size_t known = 0;
  for (size_t i = kLiving; i < objects.size(); ++i) {
    const std::optional<Handle> h = handles.Find(Object::Buffer, &objects[i]);
    const bool dead = h.has_value() && !h->alive && h->destroyed == 7;
    ASSERT_TRUE(dead || i < objects.size() - kSurely) << i;
    known += h.has_value();
  }
  EXPECT_LT(known, kDead) << "memory is bounded";
  size_t owned = 0;
  handles.ForEachOwned([&](Object, const void*, const Handle&) { ++owned; });
  EXPECT_EQ(owned, kLiving);
  EXPECT_TRUE(handles.Use(Object::Buffer, &objects[0], 9, false).fine);
  EXPECT_EQ(handles.GetState(Object::Buffer, &objects[0]).used, 9);
  handles.MarkDeleted(Object::Buffer, &objects[0]);
  EXPECT_FALSE(handles.GetState(Object::Buffer, &objects[0]).fine);
  EXPECT_FALSE(handles.GetState(Object::Event, &objects[1]).fine);
}

// Two call paths to one site, whose frames have the same size: the stacks differ in their second frame only.
__attribute__((noinline)) uint32_t RememberHere(Stacks& stacks) {
  const uint32_t stack = stacks.Remember(__builtin_return_address(0), __builtin_dwarf_cfa(), 14);
  asm volatile("" ::: "memory");  // no call in tail position
  return stack;
}
__attribute__((noinline)) uint32_t Middle(Stacks& stacks) {
  const uint32_t stack = RememberHere(stacks);
  asm volatile("" ::: "memory");
  return stack;
}
__attribute__((noinline)) uint32_t OneWay(Stacks& stacks) {
  const uint32_t stack = Middle(stacks);
  asm volatile("nop" ::: "memory");
  return stack;
}
__attribute__((noinline)) uint32_t OtherWay(Stacks& stacks) {
  const uint32_t stack = Middle(stacks);
  asm volatile("nop; nop" ::: "memory");
  return stack;
}

// Calls from one site in this function, whatever the compiler does to loops.
__attribute__((noinline)) std::set<uint32_t> Often(Stacks& stacks, uint32_t (*way)(Stacks&)) {
  std::set<uint32_t> met;
  for (int i = 0; i < 100; ++i) met.insert(way(stacks));
  return met;
}

TEST(StacksTest, AStackIsKnownAgainWithoutUnwinding) {
  Stacks stacks(100);
  const std::set<uint32_t> first = Often(stacks, OneWay), other = Often(stacks, OtherWay);
  ASSERT_EQ(first.size(), 1) << "the same stack each time";
  ASSERT_EQ(other.size(), 1);
  EXPECT_NE(first, other) << "the frame below the first is another";
  EXPECT_THAT(stacks.Text(*first.begin()), HasSubstr("#3 "));
  EXPECT_NE(stacks.Text(*first.begin()), stacks.Text(*other.begin()));
#if defined(__x86_64__)
  EXPECT_EQ(stacks.unwound(), 2);
#endif
  Stacks others(100);
  EXPECT_NE(others.Text(OneWay(others)), others.Text(0)) << "what one has met is nothing to another";
}

TEST(StacksTest, EachThreadsStackIsItsOwn) {
  Stacks stacks(100);
  std::vector<std::thread> threads;
  std::vector<std::set<uint32_t>> met(4);
  for (std::set<uint32_t>& m : met) threads.emplace_back([&stacks, &m] { m = Often(stacks, OneWay); });
  for (std::thread& t : threads) t.join();
  for (const std::set<uint32_t>& m : met) EXPECT_EQ(m, met[0]) << "the same frames";
  EXPECT_EQ(met[0].size(), 1);
}

TEST(StacksTest, TimeForRememberingIsBounded) {
  Stacks stacks(0);
  const void* here = __builtin_return_address(0);
  const std::string full = stacks.Text(stacks.Remember(here, nullptr, 14));
  EXPECT_THAT(full, HasSubstr("#1 "));
  const int64_t end = ReadMonotonicNanos() + 5000000000;  // some tens of thousands of stacks take a tenth of a second
  std::string last = full;
  while (last == full && ReadMonotonicNanos() < end) last = stacks.Text(stacks.Remember(here, nullptr, 14));
  EXPECT_THAT(last, HasSubstr("#0 "));
  EXPECT_THAT(last, ::testing::Not(HasSubstr("#1 "))) << "one frame";
  EXPECT_EQ(stacks.Text(stacks.Capture(here, 14)), full) << "for a finding there is always time";
}

TEST(ArgumentsTest, EverySlotIsDescribed) {
  for (size_t f = 0; f <= Index(Fn::PJRT_TopologyDescription_GetMemorySpaceKindIds); ++f) {
    const Fn fn = static_cast<Fn>(f);
    const FunctionInfo& info = GetInfo(fn);
    size_t end = info.has_extension_start ? 16 : 8;
    for (const Argument& a : GetArguments(fn)) {
      EXPECT_GE(a.offset, end) << info.name << " " << a.member << ": a field is missing before it";
      EXPECT_LT(a.offset - end, 8) << info.name << " " << a.member << ": a field is missing before it";
      end = a.offset + a.size;
    }
    EXPECT_EQ(end, info.args_size) << info.name;
    EXPECT_LE(SmallestSize(fn), info.args_size) << info.name;
    EXPECT_EQ(SizeAtMinor(fn, PJRT_API_MINOR), info.args_size) << info.name;
    const absl::string_view name = info.name;
    if (name.size() > 8 && name.substr(name.size() - 8) == "_Destroy") {
      ASSERT_EQ(GetArguments(fn).size(), 1) << name;
      EXPECT_EQ(GetArguments(fn)[0].direction, Direction::DESTROYS) << name;
    }
  }
}

}  // namespace
}  // namespace backplane::layers
