// The extension of Backplane: callbacks into Python, handlers with several stages, the compile log, and generated code.
#include "api/backplane_c_api.h"
#include "base/mutex.h"

#include "sdk/shim/executable_views.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/ffi/registry.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

absl::Status SetTrampoline(Backplane_SetCallbackTrampoline_Args& a) {
  ffi::TheRegistry().SetTrampoline(a.trampoline, a.user_data_type_id);
  return absl::OkStatus();
}

absl::Status CompileLog(Backplane_LoadedExecutable_CompileLog_Args& a) {
  BP_REQUIRE(a.executable);
  PJRT_LoadedExecutable& e = *a.executable;
  MutexLock lock(e.mu);
  if (!e.compile_log.has_value()) e.compile_log = e.executable->compile_log();
  a.log = e.compile_log->data();
  a.log_size = e.compile_log->size();
  return absl::OkStatus();
}

absl::Status GetCodeText(Backplane_Executable_CodeText_Args& a) {
  BP_REQUIRE(a.executable);
  BP_REQUIRE(a.form);
  ASSIGN_OR_RETURN(const std::string* text, a.executable->code_text(absl::string_view(a.form, a.form_size)));
  a.text = text->data();
  a.text_size = text->size();
  return absl::OkStatus();
}

absl::Status RegisterHandlerBundle(Backplane_RegisterHandlerBundle_Args& a) {
  BP_REQUIRE(a.target_name);
  BP_REQUIRE(a.execute);
  ffi::Handler handler;
  handler.bundle.instantiate = reinterpret_cast<XLA_FFI_Handler*>(a.instantiate);
  handler.bundle.prepare = reinterpret_cast<XLA_FFI_Handler*>(a.prepare);
  handler.bundle.initialize = reinterpret_cast<XLA_FFI_Handler*>(a.initialize);
  handler.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(a.execute);
  return ffi::TheRegistry().RegisterForThisPlatform(absl::string_view(a.target_name, a.target_name_size), handler);
}

}  // namespace

PJRT_Extension_Base* BackplaneExtension() {
  static Backplane_Extension extension = [] {
    Backplane_Extension e{};
    e.base = {Backplane_Extension_STRUCT_SIZE, BACKPLANE_EXTENSION_TYPE, nullptr};
    e.set_callback_trampoline = BP_ENTRY(Backplane_SetCallbackTrampoline, &SetTrampoline);
    e.loaded_executable_compile_log = BP_ENTRY(Backplane_LoadedExecutable_CompileLog, &CompileLog);
    e.register_handler_bundle = BP_ENTRY(Backplane_RegisterHandlerBundle, &RegisterHandlerBundle);
    e.executable_code_text = BP_ENTRY(Backplane_Executable_CodeText, &GetCodeText);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
