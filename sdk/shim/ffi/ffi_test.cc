// Tests handlers of custom calls: registration, attributes, states, futures, user data, Python callables.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "api/backplane_c_api.h"
#include "api/extensions/custom_partitioner.h"
#include "api/extensions/ffi.h"
#include "core/import/proto/sharding_proto.h"
#include "core/passes/partition/custom_partitioning.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/ffi/frame.h"
#include "sdk/shim/ffi/registry.h"
#include "sdk/testing/api_calls.h"

namespace backplane::shim::ffi {
namespace {

using ::testing::HasSubstr;

// ---- Handlers of a host, written with the published header alone

// Answers a metadata query as the header's helpers do. Returns true if there was one.
bool AnswerMetadata(XLA_FFI_CallFrame* frame, int minor = XLA_FFI_API_MINOR) {
  if (frame->extension_start == nullptr || frame->extension_start->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata* m = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
  m->api_version.major_version = XLA_FFI_API_MAJOR;
  m->api_version.minor_version = minor;
  return true;
}

XLA_FFI_Error* Fail(const XLA_FFI_Api* api, const char* text,
                    XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INVALID_ARGUMENT) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text, code};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_TypeId counter_type{0};
int counters_alive = 0;

// out = in * scale + number of calls of this site; scale is an attribute.
XLA_FFI_Error* Scale(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame)) return nullptr;
  const XLA_FFI_Api* api = frame->api;
  if (frame->struct_size != 168) return Fail(api, "frame size");
  if (frame->stage == XLA_FFI_ExecutionStage_INSTANTIATE) {
    ++counters_alive;
    XLA_FFI_State_Set_Args set{
        XLA_FFI_State_Set_Args_STRUCT_SIZE, nullptr, frame->ctx, frame->stage, &counter_type, new int(0)};
    return api->XLA_FFI_State_Set(&set);
  }
  XLA_FFI_State_Get_Args get{XLA_FFI_State_Get_Args_STRUCT_SIZE, nullptr,       frame->ctx,
                             XLA_FFI_ExecutionStage_INSTANTIATE, &counter_type, nullptr};
  if (XLA_FFI_Error* e = api->XLA_FFI_State_Get(&get)) return e;
  int& calls = *static_cast<int*>(get.state);
  if (frame->attrs.size != 3) return Fail(api, "three attributes expected");
  const std::string name(frame->attrs.names[2]->ptr, frame->attrs.names[2]->len);
  if (name != "scale" || frame->attrs.types[2] != XLA_FFI_AttrType_SCALAR) return Fail(api, "no scale");
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[2]);
  if (scalar->dtype != XLA_FFI_DataType_F32) return Fail(api, "scale is no f32");
  const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* out = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  if (in->dtype != XLA_FFI_DataType_F32 || in->rank != 1 || in->dims[0] != out->dims[0]) return Fail(api, "operand");
  for (int64_t i = 0; i < in->dims[0]; ++i) {
    static_cast<float*>(out->data)[i] =
        static_cast<const float*>(in->data)[i] * *static_cast<const float*>(scalar->value) + static_cast<float>(calls);
  }
  ++calls;
  return nullptr;
}

std::vector<std::thread> threads;

// Copies after it has returned.
XLA_FFI_Error* Later(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame)) return nullptr;
  XLA_FFI_Future_Create_Args create{XLA_FFI_Future_Create_Args_STRUCT_SIZE, nullptr, nullptr};
  if (XLA_FFI_Error* e = frame->api->XLA_FFI_Future_Create(&create)) return e;
  frame->future = create.future;
  threads.emplace_back([frame, api = frame->api, future = create.future] {
    const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
    const auto* out = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
    std::memcpy(out->data, in->data, static_cast<size_t>(in->dims[0]) * 4);
    if (static_cast<const float*>(in->data)[0] < 0) {
      XLA_FFI_Future_SetError_Args set{XLA_FFI_Future_SetError_Args_STRUCT_SIZE, nullptr, future,
                                       Fail(api, "negative", XLA_FFI_Error_Code_OUT_OF_RANGE)};
      api->XLA_FFI_Future_SetError(&set);
    } else {
      XLA_FFI_Future_SetAvailable_Args set{XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, nullptr, future};
      api->XLA_FFI_Future_SetAvailable(&set);
    }
  });
  return nullptr;
}

XLA_FFI_Error* Incompatible(XLA_FFI_CallFrame* frame) {
  AnswerMetadata(frame);
  reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata->api_version.major_version = 1;
  return nullptr;
}

// Compiled for a later minor version: calls a function beyond the end of the table without checking its size.
XLA_FFI_Error* Newer(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame, XLA_FFI_API_MINOR + 1)) return nullptr;
  XLA_FFI_Error* (*later)(void*);
  std::memcpy(&later, reinterpret_cast<const char*>(frame->api) + XLA_FFI_Api_STRUCT_SIZE, sizeof(later));
  size_t args[3] = {sizeof(args)};
  return later(args);
}

// Features of 0.4 and 0.5.
XLA_FFI_Error* Modern(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame, 5)) return nullptr;
  const XLA_FFI_Api* api = frame->api;
  float* out = static_cast<float*>(static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0])->data);
  XLA_FFI_Extension some{};
  XLA_FFI_InvokeContext_FindExtension_Args find{XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE, nullptr,
                                                frame->ctx, 17, &some};
  if (XLA_FFI_Error* e = api->XLA_FFI_InvokeContext_FindExtension(&find)) return e;
  out[0] = find.extension == nullptr;
  XLA_FFI_CustomOptions_Get_Args options{XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
  if (XLA_FFI_Error* e = api->XLA_FFI_CustomOptions_Get(&options)) return e;
  out[1] =
      options.attrs != nullptr && options.attrs->struct_size == XLA_FFI_Attrs_STRUCT_SIZE && options.attrs->size == 0;
  XLA_FFI_Error* error = Fail(api, "gone", XLA_FFI_Error_Code_DATA_LOSS);
  XLA_FFI_Error_GetDetails_Args details{XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE, nullptr, error, nullptr,
                                        XLA_FFI_Error_Code_OK};
  api->XLA_FFI_Error_GetDetails(&details);
  out[2] = details.errc == XLA_FFI_Error_Code_DATA_LOSS && std::string(details.message) == "gone";
  details.struct_size = XLA_FFI_STRUCT_SIZE(XLA_FFI_Error_GetDetails_Args, message);  // as in 0.3
  details.errc = XLA_FFI_Error_Code_OK;
  api->XLA_FFI_Error_GetDetails(&details);
  out[3] = details.errc == XLA_FFI_Error_Code_OK;
  XLA_FFI_Error_Destroy_Args destroy{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api->XLA_FFI_Error_Destroy(&destroy);
  return nullptr;
}

// out = in * 2, without attributes.
XLA_FFI_Error* Double(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame)) return nullptr;
  if (frame->attrs.size != 0) return Fail(frame->api, "no attributes expected");
  const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* out = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  for (int64_t i = 0; i < in->dims[0]; ++i) {
    static_cast<float*>(out->data)[i] = 2 * static_cast<const float*>(in->data)[i];
  }
  return nullptr;
}

// Calls all other functions of the table.
XLA_FFI_Error* Curious(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame)) return nullptr;
  const XLA_FFI_Api* api = frame->api;
  float* out = static_cast<float*>(static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0])->data);
  XLA_FFI_RunId_Get_Args run{XLA_FFI_RunId_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, 0};
  if (XLA_FFI_Error* e = api->XLA_FFI_RunId_Get(&run)) return e;
  XLA_FFI_DeviceOrdinal_Get_Args device{XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, -1};
  if (XLA_FFI_Error* e = api->XLA_FFI_DeviceOrdinal_Get(&device)) return e;
  int64_t count = 0;
  XLA_FFI_ThreadPool_NumThreads_Args pool{XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr, frame->ctx, &count};
  if (XLA_FFI_Error* e = api->XLA_FFI_ThreadPool_NumThreads(&pool)) return e;
  XLA_FFI_DeviceMemory_Allocate_Args memory{
      XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE, nullptr, frame->ctx, 100, 256, nullptr};
  if (XLA_FFI_Error* e = api->XLA_FFI_DeviceMemory_Allocate(&memory)) return e;
  const bool aligned = reinterpret_cast<uintptr_t>(memory.data) % 256 == 0;
  XLA_FFI_DeviceMemory_Free_Args release{XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE, nullptr, frame->ctx, 100,
                                         memory.data};
  if (XLA_FFI_Error* e = api->XLA_FFI_DeviceMemory_Free(&release)) return e;
  bool ran = false;
  XLA_FFI_ThreadPool_Schedule_Args task{XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame->ctx,
                                        [](void* p) { *static_cast<bool*>(p) = true; }, &ran};
  if (XLA_FFI_Error* e = api->XLA_FFI_ThreadPool_Schedule(&task)) return e;
  XLA_FFI_TypeId type{77};
  XLA_FFI_InvokeContext_Get_Args data{XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, &type, nullptr};
  if (XLA_FFI_Error* e = api->XLA_FFI_InvokeContext_Get(&data)) return e;
  XLA_FFI_Stream_Get_Args stream{XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, &type};
  if (XLA_FFI_Error* e = api->XLA_FFI_Stream_Get(&stream)) return e;
  out[0] = static_cast<float>(run.run_id);
  out[1] = static_cast<float>(device.device_ordinal);
  out[2] = static_cast<float>(aligned + 2 * ran + 4 * (count >= 1) + 8 * (stream.stream == nullptr));
  out[3] = *static_cast<const float*>(data.data);
  return nullptr;
}

std::atomic<int> calls_now{0}, most_calls{0};

XLA_FFI_Error* CountCalls(XLA_FFI_CallFrame* frame) {
  if (AnswerMetadata(frame)) return nullptr;
  const int now = ++calls_now;
  for (int most = most_calls; now > most && !most_calls.compare_exchange_weak(most, now);) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  --calls_now;
  return nullptr;
}

// ---- Tests

template <typename T>
const T* Extension(PJRT_Extension_Type type) {
  for (const PJRT_Extension_Base* e = testing::Api().extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return reinterpret_cast<const T*>(e);
  }
  return nullptr;
}

absl::Status RegisterHandler(const std::string& target, XLA_FFI_Handler* handler,
                             const std::string& platform = "fake") {
  BP_ARGS(a, PJRT_FFI_Register_Handler);
  a.target_name = target.data();
  a.target_name_size = target.size();
  a.platform_name = platform.data();
  a.platform_name_size = platform.size();
  a.handler = reinterpret_cast<void*>(handler);
  return testing::Take(Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI)->register_handler(&a));
}

absl::Status RegisterBundle(const std::string& target, XLA_FFI_Handler* instantiate, XLA_FFI_Handler* execute) {
  BP_ARGS(a, Backplane_RegisterHandlerBundle);
  a.target_name = target.data();
  a.target_name_size = target.size();
  a.instantiate = reinterpret_cast<void*>(instantiate);
  a.execute = reinterpret_cast<void*>(execute);
  return testing::Take(Extension<Backplane_Extension>(BACKPLANE_EXTENSION_TYPE)->register_handler_bundle(&a));
}

FfiAttribute Scalar(PrimitiveType type, const void* bytes) {
  FfiAttribute a;
  a.type = type;
  a.bytes.assign(static_cast<const char*>(bytes), static_cast<size_t>(ByteWidth(type)));
  return a;
}

CustomCallSpec Spec(const std::string& target) {
  CustomCallSpec spec;
  spec.target = target;
  spec.api_version = CustomCallApiVersion::kTypedFfi;
  return spec;
}

class FfiTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (std::thread& t : threads) t.join();
    threads.clear();
  }
  absl::StatusOr<Event> Call(CustomCallSite& site, const ExecuteContext* context = nullptr) {
    in_ = {PrimitiveType::kF32, x_, dims_};
    out_ = {PrimitiveType::kF32, y_, dims_};
    return site.Call({absl::MakeConstSpan(&in_, 1), absl::MakeConstSpan(&out_, 1), context, 42, 3});
  }
  float x_[4] = {1, 2, 3, 4}, y_[4] = {};
  const int64_t dims_[1] = {4};
  CustomCallBuffer in_, out_;
  Registry& registry_ = TheRegistry();
};

TEST_F(FfiTest, StatesLiveAsLongAsTheirCallSite) {
  BP_ARGS(t, PJRT_FFI_Type_Register);
  PJRT_FFI_Type_Info info{[](void* p) { delete static_cast<int*>(p), --counters_alive; }, nullptr, nullptr};
  t.type_name = "counter";
  t.type_name_size = 7;
  t.type_info = &info;
  auto* ext = Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI);
  ASSERT_TRUE(testing::Take(ext->type_register(&t)).ok());
  EXPECT_GT(t.type_id, int64_t{1} << 60);
  counter_type.type_id = t.type_id;
  ASSERT_TRUE(testing::Take(ext->type_register(&t)).ok());  // the same type again
  t.type_id = 5;
  EXPECT_EQ(testing::Take(ext->type_register(&t)).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(RegisterBundle("scale", &Scale, &Scale).ok());

  CustomCallSpec spec = Spec("scale");
  const float two = 2;
  spec.attributes["scale"] = Scalar(PrimitiveType::kF32, &two);
  spec.attributes["name"].kind = FfiAttribute::Kind::kString;
  spec.attributes["name"].bytes = "n";
  spec.attributes["inner"].kind = FfiAttribute::Kind::kDictionary;
  auto site = registry_.Instantiate(spec);
  ASSERT_TRUE(site.ok()) << site.status();
  auto other = registry_.Instantiate(spec);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(counters_alive, 2);
  for (int call = 0; call < 3; ++call) {
    auto done = Call(**site);
    ASSERT_TRUE(done.ok() && done->Await().ok());
    EXPECT_EQ(y_[3], 8.0f + static_cast<float>(call));
  }
  ASSERT_TRUE(Call(**other).ok());
  EXPECT_EQ(y_[3], 8.0f);
  site->reset();
  EXPECT_EQ(counters_alive, 1);
  other->reset();
  EXPECT_EQ(counters_alive, 0);

  spec.attributes.erase("name");
  auto poorer = registry_.Instantiate(spec);
  ASSERT_TRUE(poorer.ok());
  absl::Status status = Call(**poorer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("custom call 'scale': three attributes expected"));
}

TEST_F(FfiTest, FuturesKeepTheCallUntilTheyAreSet) {
  ASSERT_TRUE(RegisterHandler("later", &Later).ok());
  auto site = registry_.Instantiate(Spec("later"));
  ASSERT_TRUE(site.ok());
  auto done = Call(**site);
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(done->Await().ok());
  EXPECT_EQ(y_[2], 3);
  x_[0] = -1;
  done = Call(**site);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->Await().code(), absl::StatusCode::kOutOfRange);
}

// The library behind LAPACK's handlers has threads of its own for large matrices.
TEST_F(FfiTest, LapackHandlersOfLargeMatricesRunOneAtATime) {
  for (const std::string target : {"lapack_test_ffi", "test_lapack_ffi"}) {
    ASSERT_TRUE(RegisterHandler(target, &CountCalls).ok());
    auto site = registry_.Instantiate(Spec(target));
    ASSERT_TRUE(site.ok());
    most_calls = 0;
    std::vector<float> matrix(3 * 64 * 64);
    const int64_t dims[] = {3, 64, 64};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const CustomCallBuffer in{PrimitiveType::kF32, matrix.data(), dims};
        for (int call = 0; call < 20; ++call)
          EXPECT_TRUE((*site)->Call({absl::MakeConstSpan(&in, 1), absl::MakeConstSpan(&in, 1), nullptr, 0, 0}).ok());
      });
    }
    TearDown();
    EXPECT_EQ(most_calls == 1, target == "lapack_test_ffi") << most_calls;
  }
}

TEST_F(FfiTest, TheWholeTableAnswers) {
  ASSERT_TRUE(RegisterHandler("curious", &Curious).ok());
  auto site = registry_.Instantiate(Spec("curious"));
  ASSERT_TRUE(site.ok());
  EXPECT_EQ(Call(**site).status().code(), absl::StatusCode::kNotFound);  // no user data

  BP_ARGS(c, PJRT_ExecuteContext_Create);
  ASSERT_TRUE(BP_CALL(PJRT_ExecuteContext_Create, c).ok());
  float value = 12.5f;
  BP_ARGS(u, PJRT_FFI_UserData_Add);
  u.context = c.context;
  u.user_data = {77, &value};
  auto* ext = Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI);
  ASSERT_TRUE(testing::Take(ext->user_data_add(&u)).ok());
  EXPECT_EQ(testing::Take(ext->user_data_add(&u)).code(), absl::StatusCode::kAlreadyExists);
  std::shared_ptr<const ContextData> data;
  {
    MutexLock lock(c.context->mu);
    data = c.context->data;
  }
  BP_ARGS(d, PJRT_ExecuteContext_Destroy);
  d.context = c.context;
  ASSERT_TRUE(BP_CALL(PJRT_ExecuteContext_Destroy, d).ok());
  ASSERT_TRUE(Call(**site, data.get()).ok());
  EXPECT_EQ(y_[0], 42);
  EXPECT_EQ(y_[1], 3);
  EXPECT_EQ(y_[2], 15);
  EXPECT_EQ(y_[3], 12.5f);
}

TEST_F(FfiTest, RegistrationRules) {
  ASSERT_TRUE(RegisterHandler("rules", &Later, "FAKE").ok());
  EXPECT_TRUE(RegisterHandler("rules", &Later).ok());
  EXPECT_EQ(RegisterHandler("rules", &Curious).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RegisterHandler("rules", &Curious, "rocm").ok());  // for another platform
  EXPECT_TRUE(registry_.Has("rules"));
  EXPECT_FALSE(registry_.Has("rule"));
  absl::Status missing = registry_.Instantiate(Spec("rulez")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("custom call 'rulez': no handler for platform fake; nearest: rules"));
  ASSERT_TRUE(RegisterHandler("incompatible", &Incompatible).ok());
  EXPECT_THAT(std::string(registry_.Instantiate(Spec("incompatible")).status().message()),
              HasSubstr("the handler speaks FFI 1.5, this plugin 0.5"));
  CustomCallSpec spec = Spec("rules");
  spec.api_version = CustomCallApiVersion::kOriginal;
  EXPECT_EQ(registry_.Instantiate(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.api_version = CustomCallApiVersion::kStatusReturningUnified;
  EXPECT_EQ(registry_.Instantiate(spec).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(FfiTest, HandlersOfNewerMinors) {
  ASSERT_TRUE(RegisterHandler("modern", &Modern).ok());
  auto modern = registry_.Instantiate(Spec("modern"));
  ASSERT_TRUE(modern.ok()) << modern.status();
  ASSERT_TRUE(Call(**modern).ok());
  for (float y : y_) EXPECT_EQ(y, 1);
  ASSERT_TRUE(RegisterHandler("newer", &Newer).ok());
  auto newer = registry_.Instantiate(Spec("newer"));
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(Call(**newer).status().code(), absl::StatusCode::kUnimplemented);
}

// A library compiled with 0.3 registers through the table, with a bundle of four functions.
TEST_F(FfiTest, RegistrationInTheFormOf03) {
  alignas(8) unsigned char args[88] = {};
  auto put = [&](size_t at, auto value) { std::memcpy(args + at, &value, sizeof(value)); };
  put(0, size_t{84});
  put(16, XLA_FFI_ByteSpan{"of_03", 5});
  put(32, XLA_FFI_ByteSpan{"fake", 4});
  put(72, &Later);
  put(80, uint32_t{1});
  XLA_FFI_Handler_Register_Args* request = reinterpret_cast<XLA_FFI_Handler_Register_Args*>(args);
  EXPECT_TRUE(TakeFfiError(Api()->XLA_FFI_Handler_Register(request)).ok());
  EXPECT_TRUE(registry_.Has("of_03"));
  put(0, size_t{80});
  EXPECT_EQ(TakeFfiError(Api()->XLA_FFI_Handler_Register(request)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FfiTest, UntypedHandlers) {
  Handler handler;
  handler.untyped = reinterpret_cast<void*>(+[](void* out, const void** in) {
    for (int i = 0; i < 4; ++i) static_cast<float*>(out)[i] = -static_cast<const float*>(in[0])[i];
  });
  ASSERT_TRUE(registry_.RegisterForThisPlatform("negate", handler).ok());
  CustomCallSpec spec = Spec("negate");
  spec.api_version = CustomCallApiVersion::kOriginal;
  auto site = registry_.Instantiate(spec);
  ASSERT_TRUE(site.ok());
  ASSERT_TRUE(Call(**site).ok());
  EXPECT_EQ(y_[1], -2);
}

// Functions of the old form are registered as typed handlers, made by code that knows their status object.
TEST_F(FfiTest, StatusReturningCallsGoToTypedHandlersOnly) {
  ASSERT_TRUE(RegisterHandler("double", &Double).ok());
  CustomCallSpec spec = Spec("double");
  spec.api_version = CustomCallApiVersion::kStatusReturning;
  auto site = registry_.Instantiate(spec);
  ASSERT_TRUE(site.ok()) << site.status();
  ASSERT_TRUE(Call(**site).ok());
  EXPECT_EQ(y_[1], 4);
  Handler handler;
  handler.untyped = reinterpret_cast<void*>(+[](void*, const void**) {});
  ASSERT_TRUE(registry_.RegisterForThisPlatform("old", handler).ok());
  spec.target = "old";
  EXPECT_EQ(registry_.Instantiate(spec).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(FfiTest, PythonCallablesThroughTheTrampoline) {
  CustomCallSpec spec = Spec("xla_ffi_python_cpu_callback");
  EXPECT_EQ(registry_.Instantiate(spec).status().code(), absl::StatusCode::kInvalidArgument);
  const uint64_t index = 1, beyond = 2;
  spec.attributes["index"] = Scalar(PrimitiveType::kU64, &index);
  auto site = registry_.Instantiate(spec);
  ASSERT_TRUE(site.ok());
  EXPECT_EQ(Call(**site).status().code(), absl::StatusCode::kUnimplemented);

  auto* ext = Extension<Backplane_Extension>(BACKPLANE_EXTENSION_TYPE);
  BP_ARGS(t, Backplane_SetCallbackTrampoline);
  t.user_data_type_id = 99;
  t.trampoline = [](void* callable, int64_t nargs, const Backplane_Callback_Arg* args, int64_t nrets,
                    const Backplane_Callback_Arg* rets, char* err, size_t cap) -> int {
    if (nargs != 1 || nrets != 1 || args[0].dtype != 11 || rets[0].dims[0] != 4) return 1;
    const float add = *static_cast<const float*>(callable);
    if (add < 0) {
      std::strncpy(err, "ValueError: negative", cap - 1);
      return 1;
    }
    for (int i = 0; i < 4; ++i) static_cast<float*>(rets[0].data)[i] = static_cast<const float*>(args[0].data)[i] + add;
    return 0;
  };
  ASSERT_TRUE(testing::Take(ext->set_callback_trampoline(&t)).ok());
  EXPECT_EQ(Call(**site).status().code(), absl::StatusCode::kFailedPrecondition);
  float zero = 0, five = 5;
  void* callables[] = {&zero, &five};
  Backplane_Callback_Table table{callables, 2};
  ContextData context;
  context.entries.emplace_back(98, nullptr);
  EXPECT_EQ(Call(**site, &context).status().code(), absl::StatusCode::kFailedPrecondition);
  context.entries.emplace_back(99, &table);
  ASSERT_TRUE(Call(**site, &context).ok());
  EXPECT_EQ(y_[0], 6);
  five = -1;
  absl::Status status = Call(**site, &context).status();
  EXPECT_EQ(status, absl::InternalError("ValueError: negative"));
  spec.attributes["index"] = Scalar(PrimitiveType::kU64, &beyond);
  auto far = registry_.Instantiate(spec);
  ASSERT_TRUE(far.ok());
  EXPECT_EQ(Call(**far, &context).status().code(), absl::StatusCode::kInvalidArgument);
  t.trampoline = nullptr;
  ASSERT_TRUE(testing::Take(ext->set_callback_trampoline(&t)).ok());
}

TEST_F(FfiTest, HostsErrorsLookLikeInlinedStatuses) {
  XLA_FFI_Error* error = MakeFfiError(absl::UnimplementedError("x"));
  uintptr_t word;
  std::memcpy(&word, error, sizeof(word));
  EXPECT_EQ(word, uintptr_t{12} << 2 | 1);
  EXPECT_EQ(TakeFfiError(error), absl::UnimplementedError("x"));
}

// ---- A partitioner of a host: takes halves of x and all of y, returns halves

struct Partitioner {
  JAX_CustomCallPartitioner_Callbacks callbacks{};
  int destroyed = 0, cleaned = 0;
  std::string seen, fails;
  std::string program =
      "func.func @main(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }";
  std::string half, whole = SerializeSharding(Sharding());
  JAX_CustomCallPartitioner_string shardings[2];

  Partitioner() {
    half = SerializeSharding(*ParseSharding("{devices=[2]<=[2]}"));
    callbacks.private_data = this;
    callbacks.dtor = [](JAX_CustomCallPartitioner_Callbacks* c) { ++Of(c).destroyed; };
    callbacks.partition = [](JAX_CustomCallPartitioner_Callbacks* c, JAX_CustomCallPartitioner_Partition_Args* a) {
      Of(c).Partition(*a);
    };
  }
  static Partitioner& Of(JAX_CustomCallPartitioner_Callbacks* c) { return *static_cast<Partitioner*>(c->private_data); }
  static JAX_CustomCallPartitioner_string Lend(const std::string& s) { return {s.data(), s.size()}; }
  void Partition(JAX_CustomCallPartitioner_Partition_Args& a) {
    a.header.data = this;
    a.header.cleanup_fn = [](void* data) { ++static_cast<Partitioner*>(data)->cleaned; };
    if (!fails.empty()) {
      a.header.has_error = true;
      a.header.code = PJRT_Error_Code_NOT_FOUND;
      a.header.error_msg = Lend(fails);
      return;
    }
    seen = std::string(a.backend_config.data, a.backend_config.size);
    for (size_t k = 0; k < a.num_args; ++k) {
      absl::StrAppend(&seen, " ", a.op_args[k].has_sharding ? Text(a.op_args[k].sharding) : "none");
    }
    absl::StrAppend(&seen, " -> ", Text(a.op_result.sharding));
    a.mlir_module = Lend(program);
    shardings[0] = Lend(half);
    shardings[1] = Lend(whole);
    a.args_sharding = shardings;
    a.result_sharding = Lend(half);
  }
  static std::string Text(const JAX_CustomCallPartitioner_string& s) {
    return ParseSerializedSharding(absl::string_view(s.data, s.size))->ToString();
  }
};

TEST_F(FfiTest, CustomPartitionersAreAskedAndFreed) {
  auto* ext = Extension<PJRT_Custom_Partitioner_Extension>(PJRT_Extension_Type_Custom_Partitioner);
  ASSERT_NE(ext, nullptr);
  Partitioner first, second;
  BP_ARGS(a, PJRT_Register_Custom_Partitioner);
  a.name = "MyPartitioner";
  a.name_size = 13;
  a.callbacks = &first.callbacks;
  ASSERT_TRUE(testing::Take(ext->register_custom_partitioner(&a)).ok());
  std::shared_ptr<const CustomPartitioning> asked = FindCustomPartitioning("MyPartitioner");
  ASSERT_NE(asked, nullptr);
  const Shape f8(PrimitiveType::kF32, {8});
  const std::vector<CustomPartitioning::Value> operands = {{f8, *ParseSharding("{devices=[2]<=[2]}")},
                                                           {f8, Sharding()}};
  absl::StatusOr<CustomPartitioning::PartitionedCall> split =
      asked->partition(operands, operands[0], absl::string_view("a\0b", 3));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(first.seen,
            absl::StrCat(absl::string_view("a\0b", 3), " {devices=[2]<=[2]} {replicated} -> {devices=[2]<=[2]}"));
  EXPECT_EQ(split->program->entry()->root()->shape().ToString(), "f32[4]");
  ASSERT_EQ(split->operands.size(), 2u);
  EXPECT_EQ(split->operands[0].ToString(), "{devices=[2]<=[2]}");
  EXPECT_EQ(split->operands[1].ToString(), "{replicated}");
  EXPECT_EQ(split->result.ToString(), "{devices=[2]<=[2]}");
  EXPECT_EQ(first.cleaned, 1);

  first.fails = "no mesh";
  EXPECT_EQ(asked->partition(operands, operands[0], "").status(), absl::NotFoundError("no mesh"));
  EXPECT_EQ(first.cleaned, 2);
  first.fails.clear();
  first.program = "ML\xefRwhatever";
  EXPECT_THAT(std::string(asked->partition(operands, operands[0], "").status().message()),
              HasSubstr("the host's program"));
  first.half = "\xff\xff";
  first.program = second.program;
  EXPECT_THAT(std::string(asked->partition(operands, operands[0], "").status().message()),
              HasSubstr("the host's sharding of operand 0"));

  // A second partitioner replaces it. The first is destroyed when nothing uses it any more.
  a.callbacks = &second.callbacks;
  ASSERT_TRUE(testing::Take(ext->register_custom_partitioner(&a)).ok());
  EXPECT_EQ(first.destroyed, 0);
  asked.reset();
  EXPECT_EQ(first.destroyed, 1);
  EXPECT_EQ(FindCustomPartitioning("Nobody"), nullptr);
  RegisterCustomPartitioning("MyPartitioner", nullptr);
  EXPECT_EQ(second.destroyed, 1);
  BP_ARGS(b, PJRT_Register_Batch_Partitionable);
  b.name = "lapack_spotrf_ffi";
  b.name_size = 17;
  EXPECT_TRUE(testing::Take(ext->register_batch_partitionable(&b)).ok());
}

TEST_F(FfiTest, WhoInspectsAShardingIsTold) {
  std::shared_ptr<const CustomPartitioning> inspect = FindCustomPartitioning("InspectSharding");
  ASSERT_NE(inspect, nullptr);
  ASSERT_TRUE(inspect->inspect);
  struct Args {
    const char* sharding;
    size_t size;
    const char* error;
    void* scratch;
    void (*free_error)(Args*);
  };
  static std::string seen;
  static int freed = 0;
  struct {
    void (*call)(void*, Args*);
    const char* error;
  } callback = {[](void* error, Args* a) {
                  seen = ParseSerializedSharding(absl::string_view(a->sharding, a->size))->ToString();
                  a->error = static_cast<const char*>(error);
                  a->free_error = [](Args*) { ++freed; };
                },
                nullptr};
  auto config = [&] { return absl::string_view(reinterpret_cast<const char*>(&callback), sizeof(callback)); };
  const Sharding split = *ParseSharding("{devices=[2,1]<=[2]}");
  EXPECT_TRUE(inspect->inspect(split, config()).ok());
  EXPECT_EQ(seen, "{devices=[2,1]<=[2]}");
  EXPECT_EQ(freed, 0);
  callback.error = "not today";
  EXPECT_EQ(inspect->inspect(split, config()), absl::InternalError("not today"));
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(inspect->inspect(split, "short").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(inspect->inspect(split, std::string(16, '\x11')).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::shim::ffi
