// Tests what the shim passes to a backend in addition to programs and copies: the host's key-value store, load options,
// registered host memory, programs as bytes, streams of handlers, the profiler.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "api/extensions/profiler.h"
#include "api/extensions/shardings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/shim/ffi/frame.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- The store of a host

struct HostStore {
  std::map<std::string, std::string> values;
  int limit = 0, freed = 0;
};
HostStore* the_store = nullptr;

template <typename Args>
PJRT_Error* Answer(HostStore& store, Args* args) {
  auto at = store.values.find(std::string(args->key, args->key_size));
  if (at == store.values.end()) return (*args->callback_error)(PJRT_Error_Code_NOT_FOUND, "no such key", 11);
  args->value = strdup(at->second.c_str());
  args->value_size = at->second.size();
  args->value_deleter_callback = [](char* value) {
    ++the_store->freed;
    std::free(value);
  };
  return nullptr;
}

PJRT_Client* ClientWith(HostStore* store, bool try_get) {
  the_store = store;
  BP_ARGS(a, PJRT_Client_Create);
  a.kv_get_user_arg = a.kv_put_user_arg = a.kv_try_get_user_arg = store;
  a.kv_get_callback = [](PJRT_KeyValueGetCallback_Args* args) {
    static_cast<HostStore*>(args->user_arg)->limit = args->timeout_in_ms;
    return Answer(*static_cast<HostStore*>(args->user_arg), args);
  };
  if (try_get) {
    a.kv_try_get_callback = [](PJRT_KeyValueTryGetCallback_Args* args) {
      return Answer(*static_cast<HostStore*>(args->user_arg), args);
    };
  }
  a.kv_put_callback = [](PJRT_KeyValuePutCallback_Args* args) -> PJRT_Error* {
    auto& values = static_cast<HostStore*>(args->user_arg)->values;
    if (values.try_emplace(std::string(args->key, args->key_size), args->value, args->value_size).second)
      return nullptr;
    return (*args->callback_error)(PJRT_Error_Code_ALREADY_EXISTS, "twice", 5);
  };
  EXPECT_TRUE(BP_CALL(PJRT_Client_Create, a).ok());
  return a.client;
}

TEST(ServicesTest, TheHostsKeyValueStore) {
  HostStore store;
  PJRT_Client* client = ClientWith(&store, true);
  const std::shared_ptr<KeyValueStore> kv = FakeControl::Get().key_values;
  ASSERT_NE(kv, nullptr);
  EXPECT_TRUE(kv->Put("address/0", "node:1").ok());
  EXPECT_EQ(*kv->Get("address/0", milliseconds(2500)), "node:1");
  EXPECT_EQ(store.limit, 2500);
  EXPECT_EQ(*kv->TryGet("address/0"), "node:1");
  EXPECT_EQ(store.freed, 2);
  EXPECT_EQ(kv->TryGet("address/1").status(), absl::NotFoundError("no such key"));
  EXPECT_EQ(kv->Put("address/0", "node:2"), absl::AlreadyExistsError("twice"));
  Destroy(client);
  EXPECT_EQ(kv->TryGet("address/0").status().code(), absl::StatusCode::kFailedPrecondition);
  client = ClientWith(&store, false);
  EXPECT_EQ(FakeControl::Get().key_values->TryGet("x").status().code(), absl::StatusCode::kUnimplemented);
  Destroy(client);
  client = NewClient();
  EXPECT_EQ(FakeControl::Get().key_values, nullptr);  // one process
  Destroy(client);
}

TEST(ServicesTest, HostMemoryIsRegistered) {
  PJRT_Client* client = NewClient();
  float memory[16];
  BP_ARGS(m, PJRT_Client_DmaMap);
  m.client = client;
  m.data = memory;
  m.size = sizeof(memory);
  ASSERT_TRUE(BP_CALL(PJRT_Client_DmaMap, m).ok());
  EXPECT_EQ(FakeControl::Get().registered[memory], sizeof(memory));
  BP_ARGS(u, PJRT_Client_DmaUnmap);
  u.client = client;
  u.data = memory;
  EXPECT_TRUE(BP_CALL(PJRT_Client_DmaUnmap, u).ok());
  EXPECT_EQ(BP_CALL(PJRT_Client_DmaUnmap, u).code(), absl::StatusCode::kInvalidArgument);
  Destroy(client);
}

TEST(ServicesTest, ALoadHasItsOwnOptions) {
  PJRT_Client* client = NewClient(2);
  PJRT_LoadedExecutable* both = MustCompile(client, kAdd, OptionsFor(2, 1));
  EXPECT_THAT(FakeControl::Get().last_load.device_assignment, ElementsAre(0, 1));
  EXPECT_EQ(FakeControl::Get().last_load.compile_options.num_replicas, 2);
  PJRT_LoadedExecutable* any = MustCompile(client, kAdd, OptionsFor(1, 1, /*portable=*/true));
  EXPECT_THAT(FakeControl::Get().last_load.device_assignment, ElementsAre());
  Destroy(both);
  Destroy(any);
  Destroy(client);
}

// ---- A program that is not imported

TEST(ServicesTest, ACompilerOfItsOwnGetsBytes) {
  PJRT_Client* client = NewClient();
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  std::string code = "my_program";
  program.code = code.data();
  program.code_size = code.size();
  program.format = "fake";
  program.format_size = 4;
  const std::string options = OptionsFor(1, 1);
  BP_ARGS(c, PJRT_Client_Compile);
  c.client = client;
  c.program = &program;
  c.compile_options = options.data();
  c.compile_options_size = options.size();
  ASSERT_TRUE(BP_CALL(PJRT_Client_Compile, c).ok());
  // Functions that need no module work, and messages contain the names that the executable states.
  PJRT_Buffer* wrong = NewBuffer(client, Devices(client)[0], {1, 2});
  std::vector<std::vector<PJRT_Buffer*>> out;
  EXPECT_THAT(std::string(Execute(c.executable, {{wrong}}, 1, &out).message()),
              HasSubstr("argument 0 (weights) is f32[2]"));
  BP_ARGS(g, PJRT_LoadedExecutable_GetExecutable);
  g.loaded_executable = c.executable;
  ASSERT_TRUE(BP_CALL(PJRT_LoadedExecutable_GetExecutable, g).ok());
  BP_ARGS(n, PJRT_Executable_Name);
  n.executable = g.executable;
  ASSERT_TRUE(BP_CALL(PJRT_Executable_Name, n).ok());
  EXPECT_EQ(std::string(n.executable_name, n.executable_name_size), "my_program");
  PJRT_Program optimized{};
  optimized.struct_size = PJRT_Program_STRUCT_SIZE;
  BP_ARGS(o, PJRT_Executable_OptimizedProgram);
  o.executable = g.executable;
  o.program = &optimized;
  EXPECT_EQ(BP_CALL(PJRT_Executable_OptimizedProgram, o).code(), absl::StatusCode::kUnimplemented);
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    if (e->type != PJRT_Extension_Type_Shardings) continue;
    BP_ARGS(s, PJRT_Shardings_PJRT_Executable_ParameterShardings);
    s.executable = g.executable;
    const auto* shardings = reinterpret_cast<const PJRT_Shardings_Extension*>(e);
    ASSERT_TRUE(Take(shardings->PJRT_Shardings_PJRT_Executable_ParameterShardings(&s)).ok());
    ASSERT_EQ(s.num_parameters, 1u);
    EXPECT_EQ(std::string(s.shardings[0], s.sharding_sizes[0]), "one sharding");
  }
  BP_ARGS(d, PJRT_Executable_Destroy);
  d.executable = g.executable;
  EXPECT_TRUE(BP_CALL(PJRT_Executable_Destroy, d).ok());
  Destroy(wrong);
  Destroy(c.executable);
  Destroy(client);
}

// ---- Handlers on a stream of the backend

class Scratch : public ScratchMemory {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes, size_t alignment) override {
    if (bytes > sizeof(room)) return absl::ResourceExhaustedError("scratch: too much");
    ++taken;
    return static_cast<void*>(room);
  }
  void Free(void* data, size_t bytes) override { taken -= data == room; }
  alignas(64) char room[64];
  int taken = 0;
};

void* seen_stream = nullptr;
void* seen_room = nullptr;

XLA_FFI_Error* OnStream(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) {
    auto* m = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    m->api_version.major_version = XLA_FFI_API_MAJOR;
    m->api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  XLA_FFI_Stream_Get_Args stream{XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
  if (XLA_FFI_Error* e = frame->api->XLA_FFI_Stream_Get(&stream)) return e;
  seen_stream = stream.stream;
  XLA_FFI_DeviceMemory_Allocate_Args room{};
  room.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
  room.ctx = frame->ctx;
  room.size = 32;
  room.alignment = 16;
  if (XLA_FFI_Error* e = frame->api->XLA_FFI_DeviceMemory_Allocate(&room)) return e;
  seen_room = room.data;
  XLA_FFI_DeviceMemory_Free_Args free{};
  free.struct_size = XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE;
  free.ctx = frame->ctx;
  free.size = 32;
  free.data = room.data;
  return frame->api->XLA_FFI_DeviceMemory_Free(&free);
}

TEST(ServicesTest, HandlersGetTheBackendsStreamAndMemory) {
  Destroy(NewClient());  // initializes the plugin
  shim::ffi::Handler handler;
  handler.bundle.execute = &OnStream;
  auto site = shim::ffi::MakeTypedSite(shim::ffi::TheRegistry(), handler, {"on_stream"});
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_FALSE((*site)->NeedsHostMemory());
  Scratch scratch;
  int stream = 0;
  CustomCallFrame frame;
  frame.stream = &stream;
  frame.scratch = &scratch;
  ASSERT_TRUE((*site)->Call(frame).ok());
  EXPECT_EQ(seen_stream, &stream);
  EXPECT_EQ(seen_room, scratch.room);
  EXPECT_EQ(scratch.taken, 0);
  ASSERT_TRUE((*site)->Call({}).ok());  // of a backend without streams
  EXPECT_EQ(seen_stream, nullptr);
  EXPECT_NE(seen_room, scratch.room);
}

TEST(ServicesTest, TheDevicesOwnRecordsAreInTheTrace) {
  PJRT_Client* client = NewClient();
  const PLUGIN_Profiler_Api* api = nullptr;
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_Profiler)
      api = reinterpret_cast<const PJRT_Profiler_Extension*>(e)->profiler_api;
  }
  ASSERT_NE(api, nullptr);
  PLUGIN_Profiler_Create_Args c{PLUGIN_Profiler_Create_Args_STRUCT_SIZE, "", 0, nullptr};
  ASSERT_EQ(api->create(&c), nullptr);
  PLUGIN_Profiler_Start_Args start{PLUGIN_Profiler_Start_Args_STRUCT_SIZE, c.profiler};
  ASSERT_EQ(api->start(&start), nullptr);
  FakeControl& control = FakeControl::Get();
  EXPECT_EQ(control.traces, 1);
  PJRT_Buffer* x = NewBuffer(client, Devices(client)[0], {1});
  control.queues_copies = true;
  float value = 0;
  BP_ARGS(h, PJRT_Buffer_ToHostBuffer);
  h.src = x;
  h.dst = &value;
  h.dst_size = 4;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_ToHostBuffer, h).ok());
  control.FinishCopy(control.queued_copies() - 1);
  control.ForgetCopies();
  EXPECT_TRUE(AwaitAndDestroy(h.event).ok());
  PLUGIN_Profiler_Stop_Args stop{PLUGIN_Profiler_Stop_Args_STRUCT_SIZE, c.profiler};
  ASSERT_EQ(api->stop(&stop), nullptr);
  EXPECT_EQ(control.traces, 0);
  PLUGIN_Profiler_CollectData_Args data{PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE, c.profiler, nullptr, 0};
  ASSERT_EQ(api->collect_data(&data), nullptr);
  const std::string space(reinterpret_cast<const char*>(data.buffer), data.buffer_size_in_bytes);
  EXPECT_THAT(space, HasSubstr("Operations (copy engine)"));
  PLUGIN_Profiler_Destroy_Args d{PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE, c.profiler};
  EXPECT_EQ(api->destroy(&d), nullptr);
  Destroy(x);
  Destroy(client);
}

}  // namespace
}  // namespace backplane::testing
