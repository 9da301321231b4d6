// Handlers, types and user data of custom calls.
#include "api/extensions/ffi.h"
#include "base/mutex.h"

#include "absl/strings/str_cat.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/ffi/registry.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

absl::Status TypeRegister(PJRT_FFI_Type_Register_Args& a) {
  BP_REQUIRE(a.type_name);
  return ffi::TheRegistry().RegisterType(absl::string_view(a.type_name, a.type_name_size), &a.type_id,
                                         a.type_info == nullptr ? nullptr : a.type_info->deleter);
}

absl::Status UserDataAdd(PJRT_FFI_UserData_Add_Args& a) {
  BP_REQUIRE(a.context);
  MutexLock lock(a.context->mu);
  auto data =
      a.context->data == nullptr ? std::make_shared<ContextData>() : std::make_shared<ContextData>(*a.context->data);
  for (const auto& [id, unused] : data->entries) {
    if (id == a.user_data.type_id) {
      return absl::AlreadyExistsError(absl::StrCat("execute context: has user data of type ", id));
    }
  }
  data->entries.emplace_back(a.user_data.type_id, a.user_data.data);
  a.context->data = std::move(data);
  return absl::OkStatus();
}

absl::Status RegisterHandler(PJRT_FFI_Register_Handler_Args& a) {
  BP_REQUIRE(a.target_name);
  BP_REQUIRE(a.handler);
  BP_REQUIRE(a.platform_name);
  ffi::Handler handler;
  handler.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(a.handler);
  return ffi::TheRegistry().Register(absl::string_view(a.target_name, a.target_name_size),
                                     absl::string_view(a.platform_name, a.platform_name_size), handler);
}

}  // namespace

PJRT_Extension_Base* FfiExtension() {
  static PJRT_FFI_Extension extension = [] {
    PJRT_FFI_Extension e{};
    e.base = {PJRT_FFI_Extension_STRUCT_SIZE, PJRT_Extension_Type_FFI, nullptr};
    e.type_register = BP_ENTRY(PJRT_FFI_Type_Register, &TypeRegister);
    e.user_data_add = BP_ENTRY(PJRT_FFI_UserData_Add, &UserDataAdd);
    e.register_handler = BP_ENTRY(PJRT_FFI_Register_Handler, &RegisterHandler);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
