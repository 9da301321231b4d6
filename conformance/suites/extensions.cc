// Common extensions. Each check requests its extension and is unsupported without it.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "api/extensions/abi_version.h"
#include "api/extensions/ffi.h"
#include "api/extensions/layouts.h"
#include "api/extensions/memory_descriptions.h"
#include "api/extensions/phase_compile.h"
#include "api/extensions/profiler.h"
#include "api/extensions/shardings.h"
#include "api/extensions/stream.h"
#include "api/ffi_c_api.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

// Calls a function of an extension, which must succeed.
#define EXT_OK(k, table, fn, a) (k).MustBeOk((k).RawFunction((table)->fn, #fn, &(a)), #fn)
#define EXT_ARGS(a, type) \
  type a{};               \
  a.struct_size = type##_STRUCT_SIZE

// ---- Layouts

const PJRT_Layouts_Extension* Layouts(Kit& k) {
  // The struct up to the last function of the published version 4; later functions are requested where they are used.
  return k.Extension<PJRT_Layouts_Extension>(
      PJRT_Extension_Type_Layouts, PJRT_STRUCT_SIZE(PJRT_Layouts_Extension, PJRT_Layouts_PJRT_Buffer_MemoryLayout));
}

std::string LayoutText(Kit& k, PJRT_Layouts_MemoryLayout* layout) {
  EXT_ARGS(a, PJRT_Layouts_MemoryLayout_Serialize_Args);
  a.layout = layout;
  EXT_OK(k, Layouts(k), PJRT_Layouts_MemoryLayout_Serialize, a);
  k.Require(a.serialized_bytes != nullptr && a.serialized_layout_deleter != nullptr, "no bytes or no deleter");
  std::string text(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_layout_deleter(a.serialized_layout);
  return text;
}

void DestroyLayout(Kit& k, PJRT_Layouts_MemoryLayout* layout) {
  EXT_ARGS(a, PJRT_Layouts_MemoryLayout_Destroy_Args);
  a.layout = layout;
  EXT_OK(k, Layouts(k), PJRT_Layouts_MemoryLayout_Destroy, a);
}

void LayoutOfBuffer(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXT_ARGS(a, PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args);
  a.buffer = b;
  EXT_OK(k, Layouts(k), PJRT_Layouts_PJRT_Buffer_MemoryLayout, a);
  const std::string text = LayoutText(k, a.layout);
  k.Require(absl::StartsWith(text, "{") && absl::StrContains(text, "1,0"), "the layout of a matrix is '", text,
            "', expected {1,0...}");
  DestroyLayout(k, a.layout);
}

void DefaultLayout(Kit& k) {
  const Dims dims = {2, 3, 4};
  EXT_ARGS(a, PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args);
  a.client = k.client();
  a.type = PJRT_Buffer_Type_F32;
  a.dims = dims.data();
  a.num_dims = 3;
  EXT_OK(k, Layouts(k), PJRT_Layouts_PJRT_Client_GetDefaultLayout, a);
  k.Note(LayoutText(k, a.layout));
  DestroyLayout(k, a.layout);
}

void LayoutsOfOutputs(Kit& k) {
  const auto* layouts = k.Extension<PJRT_Layouts_Extension>(
      PJRT_Extension_Type_Layouts,
      PJRT_STRUCT_SIZE(PJRT_Layouts_Extension, PJRT_Layouts_PJRT_Executable_GetOutputLayouts));
  EXT_ARGS(a, PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args);
  a.executable = GetExecutable(k, Compile(k, kMatmul));
  EXT_OK(k, layouts, PJRT_Layouts_PJRT_Executable_GetOutputLayouts, a);
  k.Require(a.num_outputs == 1, "one output has ", a.num_outputs, " layouts");
  k.Note(LayoutText(k, a.layouts[0]));
}

void LayoutsOfParameters(Kit& k) {
  const auto* layouts =
      k.Extension<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts, PJRT_Layouts_Extension_STRUCT_SIZE);
  EXT_ARGS(a, PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args);
  a.executable = GetExecutable(k, Compile(k, kMatmul));
  EXT_OK(k, layouts, PJRT_Layouts_PJRT_Executable_GetParameterLayouts, a);
  k.Require(a.num_parameters == 2, "two parameters have ", a.num_parameters, " layouts");
  for (size_t i = 0; i < 2; ++i) k.Require(!LayoutText(k, a.layouts[i]).empty(), "a layout is empty");
}

// ---- FFI

const PJRT_FFI_Extension* Ffi(Kit& k) {
  return k.Extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI, PJRT_FFI_Extension_STRUCT_SIZE);
}

void FfiType(Kit& k) {
  PJRT_FFI_Type_Info info{};
  EXT_ARGS(a, PJRT_FFI_Type_Register_Args);
  a.type_name = "kit type";
  a.type_name_size = 8;
  a.type_info = &info;
  EXT_OK(k, Ffi(k), type_register, a);
  k.Require(a.type_id != 0, "the type was given the id 0, which means none");
}

void FfiUserData(Kit& k) {
  EXT_ARGS(t, PJRT_FFI_Type_Register_Args);
  PJRT_FFI_Type_Info info{};
  t.type_name = "kit user data";
  t.type_name_size = 13;
  t.type_info = &info;
  EXT_OK(k, Ffi(k), type_register, t);
  KIT_ARGS(k, c, PJRT_ExecuteContext_Create);
  KIT_OK(k, PJRT_ExecuteContext_Create, c);
  int data = 5;
  EXT_ARGS(a, PJRT_FFI_UserData_Add_Args);
  a.context = c.context;
  a.user_data = {t.type_id, &data};
  EXT_OK(k, Ffi(k), user_data_add, a);
  KIT_ARGS(k, d, PJRT_ExecuteContext_Destroy);
  d.context = c.context;
  KIT_OK(k, PJRT_ExecuteContext_Destroy, d);
}

int handler_calls = 0;

// Doubles f32 vectors. Returns an error if the first element is negative.
XLA_FFI_Error* Double(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_InternalExtension* e = frame->extension_start; e != nullptr; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = 3;  // the handler uses nothing newer
    metadata->traits = 0;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  ++handler_calls;
  const auto fail = [&](const char* why) {
    XLA_FFI_Error_Create_Args a{};
    a.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    a.message = why;
    a.errc = XLA_FFI_Error_Code_OUT_OF_RANGE;
    return frame->api->XLA_FFI_Error_Create(&a);
  };
  if (frame->args.size != 1 || frame->rets.size != 1) return fail("one argument and one result expected");
  const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* out = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  if (in->dtype != XLA_FFI_DataType_F32 || in->rank != 1) return fail("f32 vector expected");
  const auto* x = static_cast<const float*>(in->data);
  if (x[0] < 0) return fail("the handler wants no negative numbers");
  for (int64_t i = 0; i < in->dims[0]; ++i) static_cast<float*>(out->data)[i] = 2 * x[i];
  return nullptr;
}

PJRT_LoadedExecutable* CustomCall(Kit& k) {
  KIT_ARGS(k, p, PJRT_Client_PlatformName);
  p.client = k.client();
  KIT_OK(k, PJRT_Client_PlatformName, p);
  std::string platform(p.platform_name, p.platform_name_size);
  if (!IsOnCpu(k, Put<float>(k, {4}, {1, 2, 3, 4}))) k.Skip("the kit's handler runs on the host");
  if (platform == "cpu") platform = "Host";  // the name under which hosts register handlers for a CPU
  PJRT_FFI_Register_Handler_Args a{};
  a.struct_size = PJRT_FFI_Register_Handler_Args_STRUCT_SIZE;
  a.target_name = "kit_double";
  a.target_name_size = 10;
  a.handler = reinterpret_cast<void*>(&Double);
  a.platform_name = platform.data();
  a.platform_name_size = platform.size();
  EXT_OK(k, Ffi(k), register_handler, a);
  return Compile(k, R"(module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.custom_call"(%x) {call_target_name = "kit_double", api_version = 4 : i32, backend_config = {}, has_side_effect = false} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})");
}

void FfiHandler(Kit& k) {
  PJRT_LoadedExecutable* twice = CustomCall(k);
  k.Require(RunF32(k, twice, {{1, 2, 3, 4}}) == std::vector<float>({2, 4, 6, 8}), "a custom call gives wrong results");
  k.Require(handler_calls == 1, "one execution called the handler ", handler_calls, " times");
}

void FfiHandlerError(Kit& k) {
  PJRT_LoadedExecutable* twice = CustomCall(k);
  Launch launch;
  launch.executable = twice;
  launch.arguments = {{Put<float>(k, {4}, {-1, 2, 3, 4})}};
  Err e = TryExecute(k, &launch);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  k.Require(!e.ok(), "the error of a handler was lost");
  k.Require(absl::StrContains(e.message, "no negative numbers"),
            "the words of a handler's error were lost: ", FormatError(e));
  k.Require(RunF32(k, twice, {{1, 2, 3, 4}}) == std::vector<float>({2, 4, 6, 8}),
            "after a handler's error the program does not run any more");
}

void FfiUnknownTarget(Kit& k) {
  Ffi(k);
  PJRT_LoadedExecutable* loaded = nullptr;
  Err e = TryCompile(k, R"(module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.custom_call"(%x) {call_target_name = "no_such_target", api_version = 4 : i32, backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})",
                     "mlir", PlainOptions(k).Serialize(), &loaded);
  if (e.ok()) {
    Launch launch;
    launch.executable = loaded;
    launch.arguments = {{Put<float>(k, {4}, {1, 2, 3, 4})}};
    e = TryExecute(k, &launch);
    if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  }
  k.Require(!e.ok(), "a custom call without a handler runs");
  k.Require(absl::StrContains(e.message, "no_such_target"), "the message does not name the target: ", e.message);
}

// ---- Memory descriptions

void MemoryDescriptions(Kit& k) {
  const auto* table = k.Extension<PJRT_MemoryDescriptions_Extension>(PJRT_Extension_Type_MemoryDescriptions,
                                                                     PJRT_MemoryDescriptions_Extension_STRUCT_SIZE);
  EXT_ARGS(a, PJRT_DeviceDescription_MemoryDescriptions_Args);
  a.device_description = GetDescription(k, k.device());
  EXT_OK(k, table, PJRT_DeviceDescription_MemoryDescriptions, a);
  std::set<std::string> described, there;
  for (size_t i = 0; i < a.num_memory_descriptions; ++i) {
    EXT_ARGS(m, PJRT_MemoryDescription_Kind_Args);
    m.memory_description = a.memory_descriptions[i];
    EXT_OK(k, table, PJRT_MemoryDescription_Kind, m);
    const std::string kind(m.kind, m.kind_size);
    described.insert(kind);
    if (i == a.default_memory_index)
      k.Require(kind == GetKind(k, DefaultMemory(k, k.device())), "the default memory is described as ", kind);
  }
  for (PJRT_Memory* m : GetMemories(k, k.device())) there.insert(GetKind(k, m));
  k.Require(described == there, "the kinds described are ", absl::StrJoin(described, ", "),
            "; those there are: ", absl::StrJoin(there, ", "));
}

// ---- Shardings

void Shardings(Kit& k) {
  const auto* table =
      k.Extension<PJRT_Shardings_Extension>(PJRT_Extension_Type_Shardings, PJRT_Shardings_Extension_STRUCT_SIZE);
  PJRT_Executable* executable = GetExecutable(k, Compile(k, kAdd));
  EXT_ARGS(p, PJRT_Shardings_PJRT_Executable_ParameterShardings_Args);
  p.executable = executable;
  EXT_OK(k, table, PJRT_Shardings_PJRT_Executable_ParameterShardings, p);
  k.Require(p.shardings == nullptr || p.num_parameters == 2, "two parameters have ", p.num_parameters, " shardings");
  EXT_ARGS(o, PJRT_Shardings_PJRT_Executable_OutputShardings_Args);
  o.executable = executable;
  EXT_OK(k, table, PJRT_Shardings_PJRT_Executable_OutputShardings, o);
  k.Require(o.shardings == nullptr || o.num_outputs == 1, "one output has ", o.num_outputs, " shardings");
}

void ShardedArgument(Kit& k) {  // the sharding that the host sets must be read back
  const auto* table =
      k.Extension<PJRT_Shardings_Extension>(PJRT_Extension_Type_Shardings, PJRT_Shardings_Extension_STRUCT_SIZE);
  host::CompileOptions options = PlainOptions(k);
  options.num_partitions = 2;
  options.use_spmd_partitioning = true;
  PJRT_LoadedExecutable* loaded =
      Compile(k, R"(module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})",
              options);
  EXT_ARGS(p, PJRT_Shardings_PJRT_Executable_ParameterShardings_Args);
  p.executable = GetExecutable(k, loaded);
  EXT_OK(k, table, PJRT_Shardings_PJRT_Executable_ParameterShardings, p);
  k.Require(p.shardings != nullptr && p.num_parameters == 1 && p.sharding_sizes[0] > 0,
            "the sharding of a parameter is not told");
  Launch launch;
  launch.executable = loaded;
  for (size_t d = 0; d < 2; ++d)
    launch.arguments.push_back({Put<float>(k, {2}, {1.0f + static_cast<float>(d), 5}, k.device(d))});
  const Err e = TryExecute(k, &launch);
  k.Require(e.ok(), FormatError(e));
  for (size_t d = 0; d < 2; ++d)
    k.Require(GetAs<float>(k, launch.outputs[d][0]) == std::vector<float>({2.0f + 2.0f * static_cast<float>(d), 10}),
              "a program split over two devices gives wrong results");
}

// ---- ABI versions

const PJRT_AbiVersion_Extension* AbiVersion(Kit& k) {
  return k.Extension<PJRT_AbiVersion_Extension>(PJRT_Extension_Type_AbiVersion, PJRT_AbiVersion_Extension_STRUCT_SIZE);
}

void AbiVersions(Kit& k) {
  const auto* table = AbiVersion(k);
  EXT_ARGS(r, PJRT_Client_RuntimeAbiVersion_Args);
  r.client = k.client();
  EXT_OK(k, table, client_runtime_abi_version, r);
  EXT_ARGS(e, PJRT_Executable_GetAbiVersion_Args);
  e.executable = GetExecutable(k, Compile(k, kAdd));
  EXT_OK(k, table, executable_get_abi_version, e);
  EXT_ARGS(c, PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args);
  c.abi_version = r.abi_version;
  c.executable_abi_version = e.abi_version;
  EXT_OK(k, table, runtime_abi_version_is_compatible_with_executable, c);
  EXT_ARGS(p, PJRT_RuntimeAbiVersion_ToProto_Args);
  p.abi_version = r.abi_version;
  EXT_OK(k, table, runtime_abi_version_to_proto, p);
  const std::string bytes(p.serialized_proto, p.serialized_proto_size);
  k.Require(p.serialized_proto_deleter != nullptr, "no deleter");
  p.serialized_proto_deleter(p.serialized_proto_holder);
  EXT_ARGS(f, PJRT_RuntimeAbiVersion_FromProto_Args);
  f.serialized_proto = bytes.data();
  f.serialized_proto_size = bytes.size();
  EXT_OK(k, table, runtime_abi_version_from_proto, f);
  EXT_ARGS(s, PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args);
  s.abi_version = r.abi_version;
  s.other_abi_version = f.abi_version;
  EXT_OK(k, table, runtime_abi_version_is_compatible_with_runtime, s);
}

// ---- Others

void PhaseNames(Kit& k) {
  const auto* table = k.Extension<PJRT_PhaseCompile_Extension>(PJRT_Extension_Type_PhaseCompile,
                                                               PJRT_PhaseCompile_Extension_STRUCT_SIZE);
  EXT_ARGS(c, PJRT_PhaseCompile_Get_Compiler_Args);
  k.Initialize();
  k.MustBeOk(k.RawFunction(table->phase_compile_get_compiler, "phase_compile_get_compiler", &c),
             "phase_compile_get_compiler");
  EXT_ARGS(n, PJRT_PhaseCompile_Get_PhaseNames_Args);
  n.phase_compiler = c.phase_compiler;
  k.MustBeOk(k.RawFunction(table->phase_compile_get_phase_names, "phase_compile_get_phase_names", &n),
             "phase_compile_get_phase_names");
  k.Note(absl::StrCat(n.num_phase_names, " phases"));
}

void Stream(Kit& k) {
  const auto* table = k.Extension<PJRT_Stream_Extension>(PJRT_Extension_Type_Stream, PJRT_Stream_Extension_STRUCT_SIZE);
  EXT_ARGS(a, PJRT_Get_Stream_For_External_Ready_Events_Args);
  a.device = k.device();
  EXT_OK(k, table, get_stream, a);
}

void Profiler(Kit& k) {
  const auto* extension = k.Extension<PJRT_Profiler_Extension>(PJRT_Extension_Type_Profiler,
                                                               PJRT_STRUCT_SIZE(PJRT_Profiler_Extension, profiler_api));
  const PLUGIN_Profiler_Api* api = extension->profiler_api;
  k.Require(api != nullptr, "the extension has no table");
  const auto ok = [&](PLUGIN_Profiler_Error* error, const char* what) {
    if (error == nullptr) return;
    PLUGIN_Profiler_Error_Message_Args m{};
    m.struct_size = PLUGIN_Profiler_Error_Message_Args_STRUCT_SIZE;
    m.error = error;
    api->error_message(&m);
    k.Fail(what, ": ", std::string(m.message, m.message_size));
  };
  EXT_ARGS(c, PLUGIN_Profiler_Create_Args);
  c.options = "";
  ok(api->create(&c), "create");
  EXT_ARGS(s, PLUGIN_Profiler_Start_Args);
  s.profiler = c.profiler;
  ok(api->start(&s), "start");
  RunF32(k, Compile(k, kAdd), {{1, 2, 3, 4}, {1, 1, 1, 1}});
  EXT_ARGS(e, PLUGIN_Profiler_Stop_Args);
  e.profiler = c.profiler;
  ok(api->stop(&e), "stop");
  EXT_ARGS(d, PLUGIN_Profiler_CollectData_Args);
  d.profiler = c.profiler;
  ok(api->collect_data(&d), "collect_data");
  std::vector<uint8_t> bytes(d.buffer_size_in_bytes + 1);
  d.buffer = bytes.data();
  ok(api->collect_data(&d), "collect_data");
  k.Note(absl::StrCat(d.buffer_size_in_bytes, " bytes of trace"));
  EXT_ARGS(z, PLUGIN_Profiler_Destroy_Args);
  z.profiler = c.profiler;
  ok(api->destroy(&z), "destroy");
}

constexpr Check kChecks[] = {
    {"extensions.layout_of_buffer", "ext:Layouts", "the layout of a buffer as text", LayoutOfBuffer},
    {"extensions.default_layout", "ext:Layouts", "the default layout of a shape", DefaultLayout},
    {"extensions.output_layouts", "ext:Layouts", "the layouts of outputs", LayoutsOfOutputs},
    {"extensions.parameter_layouts", "ext:Layouts", "the layouts of parameters", LayoutsOfParameters},
    {"extensions.ffi_type", "ext:FFI", "a type gets an id", FfiType},
    {"extensions.ffi_user_data", "ext:FFI PJRT_ExecuteContext_Create", "an execute context takes user data",
     FfiUserData},
    {"extensions.ffi_handler", "ext:FFI", "a handler of the host's runs as a custom call", FfiHandler},
    {"extensions.ffi_handler_error", "ext:FFI", "the error of a handler becomes the error of the results",
     FfiHandlerError},
    {"extensions.ffi_unknown_target", "ext:FFI", "a custom call without a handler is refused by name",
     FfiUnknownTarget},
    {"extensions.memory_descriptions", "ext:MemoryDescriptions", "memories as described are those there are",
     MemoryDescriptions},
    {"extensions.shardings", "ext:Shardings", "the shardings of parameters and outputs can be asked for", Shardings},
    {"extensions.sharded_argument", "ext:Shardings devices:2",
     "a program split over two devices runs and tells how it is split", ShardedArgument},
    {"extensions.abi_version", "ext:AbiVersion", "a runtime tells whether an executable fits", AbiVersions},
    {"extensions.phase_names", "ext:PhaseCompile", "the phases of compiling have names", PhaseNames},
    {"extensions.stream", "ext:Stream", "a stream for others", Stream},
    {"extensions.profiler", "ext:Profiler", "a trace can be collected", Profiler},
};

}  // namespace

absl::Span<const Check> ExtensionsSuite() { return kChecks; }

}  // namespace backplane::conformance
