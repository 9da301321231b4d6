// Tests of the stack itself: the table for the host, order, answers, errors, copies of args, callbacks, threads.
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "sdk/layers/calls_test.h"
#include "sdk/layers/config.h"
#include "sdk/layers/extensions.h"
#include "sdk/layers/refusal.h"

namespace backplane::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls functions of the test.
class Probe : public Layer {
 public:
  std::function<void(Call&)> before, after;
  std::function<bool(Fn)> wants;
  const char* name() const override { return "probe"; }
  bool Wants(Fn fn) const override { return wants == nullptr || wants(fn); }
  void Before(Call& call) override {
    if (before) before(call);
  }
  void After(Call& call) override {
    if (after) after(call);
  }
};

std::vector<std::unique_ptr<Layer>> List(std::unique_ptr<Layer> a, std::unique_ptr<Layer> b = nullptr) {
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::move(a));
  if (b != nullptr) layers.push_back(std::move(b));
  return layers;
}

using StackTest = LayersTest;

TEST_F(StackTest, WithoutLayersTheSlotsAreTheTargets) {
  Open({});
  EXPECT_EQ(api().PJRT_Client_Create, GetPjrtApi()->PJRT_Client_Create);
  EXPECT_EQ(api().PJRT_Error_Destroy, GetPjrtApi()->PJRT_Error_Destroy);
  RunAll();
}

TEST_F(StackTest, OnlyWhatALayerWantsIsInterposed) {
  auto probe = std::make_unique<Probe>();
  probe->wants = [](Fn fn) { return fn == Fn::PJRT_Client_Create; };
  Open(List(std::move(probe)));
  EXPECT_NE(api().PJRT_Client_Create, GetPjrtApi()->PJRT_Client_Create);
  EXPECT_EQ(api().PJRT_Client_Destroy, GetPjrtApi()->PJRT_Client_Destroy);
  EXPECT_NE(api().PJRT_Error_Message, GetPjrtApi()->PJRT_Error_Message) << "errors of layers have to be readable";
  RunAll();
}

TEST_F(StackTest, EveryFunctionIsInterposedAndHandedOn) {
  auto probe = std::make_unique<Probe>();
  std::multiset<std::string> begun, ended;
  probe->before = [&](Call& call) { begun.insert(call.name()); };
  probe->after = [&](Call& call) {
    ended.insert(call.name());
    EXPECT_TRUE(call.reached_target);
    EXPECT_LE(call.start, call.end);
    EXPECT_EQ(call.args_size, *static_cast<size_t*>(call.args));
  };
  Open(List(std::move(probe)));
  RunAll();
  EXPECT_EQ(begun, ended);
  EXPECT_EQ(begun.count("PJRT_Client_BufferFromHostBuffer"), 2);
  EXPECT_EQ(begun.count("PJRT_LoadedExecutable_Execute"), 1);
  const auto* table = reinterpret_cast<const void* const*>(&api().PJRT_Error_Destroy);
  const auto* target = reinterpret_cast<const void* const*>(&GetPjrtApi()->PJRT_Error_Destroy);
  for (size_t i = 0; i < Index(Fn::PJRT_TopologyDescription_GetMemorySpaceKindIds) + 1; ++i) {
    EXPECT_NE(table[i], target[i]) << GetInfo(static_cast<Fn>(i)).name;
  }
}

TEST_F(StackTest, VersionSizeAndAbsentSlotsAreTheTargets) {
  PJRT_Api& target = TargetCopy();
  target.struct_size = offsetof(PJRT_Api, PJRT_Client_Load);  // 0.92's table
  target.pjrt_api_version.minor_version = 92;
  target.PJRT_Buffer_CopyToMemory = nullptr;
  Open(List(std::make_unique<Probe>()), &target);
  EXPECT_EQ(api().struct_size, target.struct_size);
  EXPECT_EQ(api().pjrt_api_version.minor_version, 92);
  EXPECT_EQ(api().PJRT_Buffer_CopyToMemory, nullptr);
  EXPECT_EQ(api().PJRT_Client_Load, nullptr) << "beyond the table";
  EXPECT_EQ(api().PJRT_Error_ForEachPayload, nullptr) << "beyond the table";
  EXPECT_FALSE(stack_->TargetHas(&PJRT_Api::PJRT_Client_Load));
  EXPECT_TRUE(stack_->TargetHas(&PJRT_Api::PJRT_Client_Create));
  RunAll();
}

TEST_F(StackTest, ExtensionsAreClonedInTheirOrderAndInterposed) {
  auto probe = std::make_unique<Probe>();
  std::vector<std::string> seen;
  probe->after = [&](Call& call) {
    if (call.info().extension != nullptr) seen.push_back(absl::StrCat(call.info().extension, " ", call.name()));
  };
  // An unknown extension, before those of the shim.
  struct UnknownExtension {
    PJRT_Extension_Base base;
    int fact;
  } strange{{sizeof(UnknownExtension), static_cast<PJRT_Extension_Type>(0x12345), GetPjrtApi()->extension_start}, 7};
  PJRT_Api& target = TargetCopy();
  target.extension_start = &strange.base;
  Open(List(std::move(probe)), &target);
  const PJRT_Extension_Base* ours = api().extension_start;
  ASSERT_EQ(static_cast<int>(ours->type), 0x12345);
  EXPECT_EQ(reinterpret_cast<const UnknownExtension*>(ours)->fact, 7);
  const PJRT_FFI_Extension* ffi = nullptr;
  const PJRT_Extension_Base* theirs = target.extension_start;
  for (; theirs != nullptr && ours != nullptr; theirs = theirs->next, ours = ours->next) {
    EXPECT_EQ(ours->type, theirs->type);
    EXPECT_EQ(ours->struct_size, theirs->struct_size);
    if (ours->type == PJRT_Extension_Type_FFI) ffi = reinterpret_cast<const PJRT_FFI_Extension*>(ours);
  }
  EXPECT_EQ(ours, nullptr);
  EXPECT_EQ(theirs, nullptr);
  ASSERT_NE(ffi, nullptr) << "the shim offers FFI";
  PJRT_FFI_Type_Register_Args a{};
  a.struct_size = PJRT_FFI_Type_Register_Args_STRUCT_SIZE;
  a.type_name = "layers_test";
  a.type_name_size = 11;
  EXPECT_OK(Take(ffi->type_register(&a)));
  EXPECT_NE(a.type_id, 0);
  EXPECT_THAT(seen, ElementsAre("PJRT_FFI_Extension PJRT_FFI_Type_Register"));
}

TEST_F(StackTest, ALoopInTheChainIsCut) {
  PJRT_Extension_Base a{sizeof(PJRT_Extension_Base), static_cast<PJRT_Extension_Type>(100), nullptr};
  PJRT_Extension_Base b{sizeof(PJRT_Extension_Base), static_cast<PJRT_Extension_Type>(101), &a};
  a.next = &b;
  PJRT_Api& target = TargetCopy();
  target.extension_start = &a;
  Open(List(std::make_unique<Probe>()), &target);
  int count = 0;
  for (const PJRT_Extension_Base* e = api().extension_start; e != nullptr; e = e->next) ++count;
  EXPECT_EQ(count, 2);
}

TEST_F(StackTest, OrderIsThatOfAnOnion) {
  std::vector<std::string> order;
  auto make = [&](std::string name) {
    auto probe = std::make_unique<Probe>();
    probe->wants = [](Fn fn) { return fn == Fn::PJRT_Client_Create; };
    probe->before = [&order, name](Call& call) {
      order.push_back("+" + name);
      call.memo[0] = name[0];
    };
    probe->after = [&order, name](Call& call) {
      order.push_back("-" + name);
      EXPECT_EQ(call.memo[0], static_cast<uint64_t>(name[0])) << "each layer has words of its own";
    };
    return probe;
  };
  Open(List(make("a"), make("b")));
  Destroy(NewClient());
  EXPECT_THAT(order, ElementsAre("+a", "+b", "-b", "-a"));
}

TEST_F(StackTest, AnAnswerEndsTheWayAndItsErrorIsAsGoodAsAnother) {
  std::vector<std::string> order;
  auto outer = std::make_unique<Probe>();
  outer->before = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_Create) return;
    order.push_back("outer");
    call.Answer(MakeError(*call.stack, PJRT_Error_Code_UNAVAILABLE, "not today"));
  };
  outer->after = [&](Call& call) {
    if (call.fn == Fn::PJRT_Client_Create) order.push_back(call.reached_target ? "reached" : "answered");
  };
  auto inner = std::make_unique<Probe>();
  inner->before = [&](Call& call) {
    if (call.fn == Fn::PJRT_Client_Create) order.push_back("inner");
  };
  Open(List(std::move(outer), std::move(inner)));
  BP_ARGS(a, PJRT_Client_Create);
  PJRT_Error* error = api().PJRT_Client_Create(&a);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(order, ElementsAre("outer", "answered"));
  // Through the error's own table of functions, as hosts do since 0.107, and then through the plugin's table.
  const char* text = nullptr;
  size_t size = 0;
  error->vtable->message(error, &text, &size);
  EXPECT_EQ(absl::string_view(text, size), "not today");
  EXPECT_EQ(error->vtable->get_code(error), PJRT_Error_Code_UNAVAILABLE);
  int payloads = 0;
  BP_ARGS(p, PJRT_Error_ForEachPayload);
  p.error = error;
  p.user_arg = &payloads;
  p.visitor = [](const char*, size_t, const char*, size_t, void* arg) { ++*static_cast<int*>(arg); };
  EXPECT_OK(CALL(PJRT_Error_ForEachPayload, p));
  EXPECT_EQ(payloads, 0);
  p.visitor = nullptr;
  EXPECT_EQ(CALL(PJRT_Error_ForEachPayload, p).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Take(error), absl::UnavailableError("not today"));
  error = api().PJRT_Client_Create(&a);
  error->vtable->destroy(error);
}

TEST_F(StackTest, AfterMayReplaceTheResult) {
  auto probe = std::make_unique<Probe>();
  probe->after = [](Call& call) {
    if (call.fn != Fn::PJRT_Client_LookupDevice || call.result == nullptr) return;
    const std::string text = ErrorMessage(*call.stack, call.result);
    EXPECT_EQ(ErrorCode(*call.stack, call.result), PJRT_Error_Code_INVALID_ARGUMENT);
    DestroyError(*call.stack, call.result);
    call.result = MakeError(*call.stack, PJRT_Error_Code_NOT_FOUND, absl::StrCat("seen: ", text));
  };
  Open(List(std::move(probe)));
  PJRT_Client* client = NewClient();
  BP_ARGS(a, PJRT_Client_LookupDevice);
  a.client = client;
  a.id = 1234;
  const absl::Status status = CALL(PJRT_Client_LookupDevice, a);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("seen: "));
  Destroy(client);
}

TEST_F(StackTest, WhatTheTargetWritesIntoACopyComesBack) {
  auto outer = std::make_unique<Probe>();
  void* host_args = nullptr;
  outer->before = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_LookupDevice) return;
    host_args = call.args;
    auto* copy = static_cast<PJRT_Client_LookupDevice_Args*>(CopyArgs(call));
    ASSERT_NE(copy, nullptr);
    copy->id = 1;  // the target looks up another device than the host asked for
  };
  outer->after = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_LookupDevice) return;
    EXPECT_EQ(call.args, host_args);
  };
  auto inner = std::make_unique<Probe>();
  inner->before = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_LookupDevice) return;
    EXPECT_NE(call.args, host_args);
    EXPECT_EQ(call.As<PJRT_Client_LookupDevice_Args>()->id, 1);
    CopyArgs(call);  // a copy of a copy
  };
  inner->after = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_LookupDevice) return;
    EXPECT_NE(call.As<PJRT_Client_LookupDevice_Args>()->device, nullptr);
  };
  Open(List(std::move(outer), std::move(inner)));
  PJRT_Client* client = NewClient();
  BP_ARGS(a, PJRT_Client_LookupDevice);
  a.client = client;
  a.id = 0;
  EXPECT_OK(CALL(PJRT_Client_LookupDevice, a));
  EXPECT_EQ(a.id, 0) << "what the layer changed is not the host's";
  BP_ARGS(d, PJRT_Device_GetDescription);
  d.device = a.device;
  EXPECT_OK(CALL(PJRT_Device_GetDescription, d));
  BP_ARGS(i, PJRT_DeviceDescription_Id);
  i.device_description = d.device_description;
  EXPECT_OK(CALL(PJRT_DeviceDescription_Id, i));
  EXPECT_EQ(i.id, 1);
  Destroy(client);
}

TEST_F(StackTest, AChainOfAnOlderFormIsHandedOnUnread) {
  PJRT_Api& target = TargetCopy();
  target.pjrt_api_version.minor_version = 44;
  void* nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // reading it ends the process
  target.extension_start = static_cast<PJRT_Extension_Base*>(nothing);
  Open(List(std::make_unique<Probe>()), &target);
  EXPECT_EQ(api().extension_start, nothing);
  stack_.reset();
  munmap(nothing, 4096);
}

TEST_F(StackTest, ATableInAnotherOrderIsRefused) {
  PJRT_Api& target = TargetCopy();
  target.pjrt_api_version.minor_version = 56;
  const absl::Status status = Stack::Create(&target, "fake", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("0.56"));
}

TEST_F(StackTest, AnImplausibleSizeIsNotCopied) {
  auto probe = std::make_unique<Probe>();
  int refused = 0;
  probe->before = [&](Call& call) {
    if (call.fn == Fn::PJRT_Plugin_Attributes) refused += CopyArgs(call) == nullptr;
  };
  Open(List(std::move(probe)));
  BP_ARGS(a, PJRT_Plugin_Attributes);
  a.struct_size = size_t{1} << 40;
  Take(api().PJRT_Plugin_Attributes(&a)).IgnoreError();
  EXPECT_EQ(refused, 1);
}

class CountingWait : public ReadyWait {
 public:
  explicit CountingWait(std::atomic<int>* fine) : fine_(*fine) {}
  void Done(const PJRT_Error* error) override { fine_ += error == nullptr; }

 private:
  std::atomic<int>& fine_;
};

TEST_F(StackTest, HooksAndOwnWaitsSeeEvents) {
  auto probe = std::make_unique<Probe>();
  std::atomic<int> hooks{0}, waits{0}, buffers{0};
  probe->before = [&](Call& call) {
    if (call.fn != Fn::PJRT_Event_OnReady) return;
    EXPECT_TRUE(HookOnReady(call, [&](PJRT_Error* error) {
      ++hooks;
      EXPECT_EQ(error, nullptr);
      return error;
    }));
  };
  probe->after = [&](Call& call) {
    if (call.fn != Fn::PJRT_Client_BufferFromHostBuffer) return;
    auto* a = call.As<PJRT_Client_BufferFromHostBuffer_Args>();
    EXPECT_TRUE(WhenReady(*call.stack, a->done_with_host_buffer, std::make_unique<CountingWait>(&waits)));
    EXPECT_TRUE(WhenBufferReady(*call.stack, a->buffer, std::make_unique<CountingWait>(&buffers)));
  };
  Open(List(std::move(probe)));
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = NewBuffer(client);
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
  int called = 0;
  BP_ARGS(o, PJRT_Event_OnReady);
  o.event = r.event;
  o.user_arg = &called;
  o.callback = [](PJRT_Error* error, void* arg) {
    EXPECT_EQ(error, nullptr);
    ++*static_cast<int*>(arg);
  };
  EXPECT_OK(CALL(PJRT_Event_OnReady, o));
  EXPECT_EQ(o.user_arg, &called) << "the host's args are the host's";
  EXPECT_OK(Await(r.event));
  EXPECT_EQ(called, 1);
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(buffers, 1);
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
}

TEST_F(StackTest, SixteenThreads) {
  auto probe = std::make_unique<Probe>();
  std::atomic<int64_t> calls{0}, failures{0};
  probe->before = [&](Call& call) { call.memo[0] = reinterpret_cast<uint64_t>(&call); };
  probe->after = [&](Call& call) {
    ++calls;
    failures += call.memo[0] != reinterpret_cast<uint64_t>(&call);
  };
  Open(List(std::move(probe)));
  PJRT_Client* client = NewClient();
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        BP_ARGS(a, PJRT_Client_PlatformName);
        a.client = client;
        EXPECT_OK(CALL(PJRT_Client_PlatformName, a));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Destroy(client);
  EXPECT_GE(calls, 16 * 200);
  EXPECT_EQ(failures, 0);
}

TEST(StacksTest, SeveralTargetsSideBySideUpToTheLimit) {
  std::vector<std::unique_ptr<Stack>> stacks;
  std::vector<int> counts(Stack::kMaxStacks);
  for (int i = 0; i < Stack::kMaxStacks; ++i) {
    auto probe = std::make_unique<Probe>();
    probe->after = [&counts, i](Call&) { ++counts[i]; };
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Stack> stack, Stack::Create(GetPjrtApi(), "fake", List(std::move(probe))));
    stacks.push_back(std::move(stack));
  }
  EXPECT_EQ(Stack::Create(GetPjrtApi(), "fake", {}).status().code(), absl::StatusCode::kResourceExhausted);
  BP_ARGS(a, PJRT_Plugin_Attributes);
  for (int i = 0; i < Stack::kMaxStacks; ++i) {
    for (int n = 0; n <= i; ++n) EXPECT_EQ(stacks[i]->api()->PJRT_Plugin_Attributes(&a), nullptr);
  }
  for (int i = 0; i < Stack::kMaxStacks; ++i) EXPECT_EQ(counts[i], i + 1);
  stacks.clear();
  EXPECT_TRUE(Stack::Create(GetPjrtApi(), "fake", {}).ok()) << "places are given back";
}

TEST(StacksTest, WhatIsNoTargetIsRefused) {
  PJRT_Api& target = TargetCopy();
  target.struct_size = 8;
  EXPECT_THAT(std::string(Stack::Create(&target, "small", {}).status().message()),
              HasSubstr("small: the table says a size of 8"));
  TargetCopy().pjrt_api_version.major_version = 3;
  EXPECT_THAT(std::string(Stack::Create(&target, "major", {}).status().message()), HasSubstr("speaks PJRT C API 3."));
  EXPECT_EQ(Stack::Create(nullptr, "none", {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FunctionsTest, TheListsAreWhole) {
  // Each extension struct consists of a head, the functions of the list, and members that are no functions (their
  // number is known).
  size_t functions = 0;
#define BP_EXTENSION(type_name, type)                                                              \
  EXPECT_TRUE(functions == 0) << "before " #type_name << ": " << functions << " words not listed"; \
  functions = (sizeof(type_name) - sizeof(PJRT_Extension_Base)) / sizeof(void*) -                  \
              (absl::string_view(#type_name) == "PJRT_Profiler_Extension"        ? 2               \
               : absl::string_view(#type_name) == "PJRT_Megascale_Extension"     ? 5               \
               : absl::string_view(#type_name) == "PJRT_TpuExecutable_Extension" ? 1               \
                                                                                 : 0);
#define BP_EXTENSION_FUNCTION(type_name, member, name) --functions;
#define BP_PROFILER_FUNCTION(member, name)
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
  EXPECT_EQ(functions, 0);
  for (size_t i = 0; i < kNumFunctions; ++i) {
    EXPECT_EQ(FunctionByName(GetInfo(static_cast<Fn>(i)).name), static_cast<Fn>(i)) << "names are unique";
  }
  EXPECT_EQ(FunctionByName("PJRT_Nothing"), Fn::kCount);
}

// ---- Configuration

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = ::testing::TempDir() + "layers_config_test_" + std::to_string(getpid()); }
  absl::StatusOr<Config> ReadWith(std::map<std::string, std::string> variables) {
    return ReadConfig(folder_ + ".so", [&](const char* name) -> const char* {
      auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
  }
  void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    written_.push_back(path);
  }
  void TearDown() override {
    for (const std::string& path : written_) unlink(path.c_str());
  }
  std::string folder_;
  std::vector<std::string> written_;
};

TEST_F(ConfigTest, VariablesNameLayersAndPlugin) {
  ASSERT_OK_AND_ASSIGN(Config config,
                       ReadWith({{"BACKPLANE_LAYERS", "trace, validate"}, {"BACKPLANE_LAYERS_PLUGIN", "/p.so"}}));
  EXPECT_EQ(config.plugin, "/p.so");
  ASSERT_EQ(config.layers.size(), 2);
  EXPECT_EQ(config.layers[0].layer(), "trace");
  EXPECT_EQ(config.layers[1].layer(), "validate");
}

TEST_F(ConfigTest, WithoutAPluginItSaysWhatToDo) {
  const absl::Status status = ReadWith({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("BACKPLANE_LAYERS_PLUGIN"));
}

TEST_F(ConfigTest, AManifestBesideTheLibraryGoesFirst) {
  Write(folder_ + ".json", R"({"plugin": "beside.so", "layers": [{"name": "fault", "spec": "compile:1", "seed": 7}]})");
  ASSERT_OK_AND_ASSIGN(Config config, ReadWith({{"BACKPLANE_LAYERS_PLUGIN", "/other.so"}}));
  EXPECT_EQ(config.plugin, ::testing::TempDir() + "beside.so") << "relative to the manifest";
  ASSERT_EQ(config.layers.size(), 1);
  EXPECT_EQ(config.layers[0].Get("spec"), "compile:1");
  EXPECT_EQ(config.layers[0].Get("seed"), "7");
  ASSERT_OK_AND_ASSIGN(config, ReadWith({{"BACKPLANE_LAYERS", "trace,fault"}}));
  ASSERT_EQ(config.layers.size(), 2);
  EXPECT_EQ(config.layers[1].Get("spec"), "compile:1")
      << "options of a manifest hold for the layer wherever it is named";
}

TEST_F(ConfigTest, ANamedManifest) {
  Write(folder_ + ".other.json", R"({"plugin": "/named.so", "layers": ["validate"]})");
  ASSERT_OK_AND_ASSIGN(Config config, ReadWith({{"BACKPLANE_LAYERS_MANIFEST", folder_ + ".other.json"}}));
  EXPECT_EQ(config.plugin, "/named.so");
  ASSERT_EQ(config.layers.size(), 1);
  ASSERT_OK_AND_ASSIGN(
      config, ReadWith({{"BACKPLANE_LAYERS_MANIFEST", folder_ + ".other.json"}, {"BACKPLANE_LAYERS_PLUGIN", "/v.so"}}));
  EXPECT_EQ(config.plugin, "/v.so");
}

TEST_F(ConfigTest, WhatCannotBeUnderstoodIsNamed) {
  const std::string path = folder_ + ".json";
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"{", path},
           {"[]", "not a JSON object"},
           {R"({"plug": 1})", "no member 'plug'"},
           {R"({"plugin": 1})", "'plugin' is not text"},
           {R"({"layers": "trace"})", "'layers' is not a list"},
           {R"({"layers": [3]})", "each layer is a name"},
           {R"({"layers": [{"name": "fault", "spec": []}]})", "option 'spec'"}}) {
    Write(path, text);
    const absl::Status status = ReadWith({{"BACKPLANE_LAYERS_PLUGIN", "/p.so"}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  unlink(path.c_str());
  EXPECT_THAT(
      std::string(ReadWith({{"BACKPLANE_LAYERS", "a,,b"}, {"BACKPLANE_LAYERS_PLUGIN", "/p.so"}}).status().message()),
      HasSubstr("empty name"));
  ASSERT_OK_AND_ASSIGN(Config config, ReadWith({{"BACKPLANE_LAYERS", "nix"}, {"BACKPLANE_LAYERS_PLUGIN", "/p.so"}}));
  EXPECT_THAT(std::string(MakeLayers(config).status().message()), HasSubstr("no layer 'nix', expected one of fault, "));
}

TEST(OptionsTest, AVariableGoesBeforeTheManifest) {
  const Options options("trace", {{"file", "a"}, {"limit", "12"}});
  EXPECT_EQ(options.Get("file"), "a");
  setenv("BACKPLANE_TRACE_FILE", "b.%p.%%", 1);
  EXPECT_EQ(options.Get("file"), "b.%p.%%");
  EXPECT_EQ(options.GetPath("file", "c"), absl::StrCat("b.", getpid(), ".%"));
  unsetenv("BACKPLANE_TRACE_FILE");
  EXPECT_EQ(*options.GetInt("limit", 3), 12);
  EXPECT_EQ(*options.GetInt("none", 3), 3);
  EXPECT_FALSE(Options("trace", {{"limit", "many"}}).GetInt("limit", 3).ok());
  EXPECT_FALSE(MakeLayerByName("trace", Options("trace", {{"fiel", "x"}})).ok());
}

TEST(RefusalTest, EveryFunctionSaysWhy) {
  const PJRT_Api* table = MakeRefusalTable("because");
  ASSERT_NE(table, nullptr);
  PJRT_Plugin_Initialize_Args a{PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
  PJRT_Error* error = table->PJRT_Plugin_Initialize(&a);
  ASSERT_NE(error, nullptr);
  PJRT_Error_Message_Args m{PJRT_Error_Message_Args_STRUCT_SIZE, nullptr, error};
  table->PJRT_Error_Message(&m);
  EXPECT_EQ(absl::string_view(m.message, m.message_size), "because");
  PJRT_Error_GetCode_Args c{PJRT_Error_GetCode_Args_STRUCT_SIZE, nullptr, error};
  EXPECT_EQ(table->PJRT_Error_GetCode(&c), nullptr);
  EXPECT_EQ(c.code, PJRT_Error_Code_FAILED_PRECONDITION);
  PJRT_Error_Destroy_Args d{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  table->PJRT_Error_Destroy(&d);
}

}  // namespace
}  // namespace backplane::layers
