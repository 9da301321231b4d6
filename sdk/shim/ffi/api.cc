// The 20 functions that a handler can call, in the order of the published table.
#include <cstdlib>
#include <exception>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/shim/ffi/frame.h"

namespace backplane::shim::ffi {

absl::Status StateSlot::Set(Registry& registry, int64_t type_id, void* state) {
  ASSIGN_OR_RETURN(Deleter deleter, registry.FindType(type_id));
  MutexLock lock(mu_);
  if (state_ != nullptr) return absl::FailedPreconditionError("ffi state: set a second time in one stage");
  type_id_ = type_id;
  state_ = state;
  deleter_ = deleter;
  return absl::OkStatus();
}

absl::StatusOr<void*> StateSlot::Get(int64_t type_id) const {
  MutexLock lock(mu_);
  if (state_ == nullptr) return absl::NotFoundError("ffi state: was never set");
  if (type_id_ != type_id) {
    return absl::InvalidArgumentError(absl::StrCat("ffi state: has type ", type_id_, ", asked for ", type_id));
  }
  return state_;
}

XLA_FFI_Error* MakeFfiError(absl::Status status) {
  if (status.ok()) return nullptr;
  auto* error = new XLA_FFI_Error;
  error->inlined_code = static_cast<uintptr_t>(status.code()) << 2 | 1;
  error->message = std::string(status.message());
  error->status = std::move(status);
  return error;
}

absl::Status TakeFfiError(XLA_FFI_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  absl::Status status = std::move(error->status);
  delete error;
  return status;
}

namespace {

// Checks for null and sizes, and catches exceptions, like the guard of the table.
template <typename Args, typename Fn>
XLA_FFI_Error* Checked(const char* name, Args* args, size_t size, Fn&& fn) noexcept {
  try {
    if (args == nullptr || args->struct_size < size) {
      return MakeFfiError(absl::InvalidArgumentError(absl::StrCat(
          name, ": struct_size is ", args == nullptr ? 0 : args->struct_size, ", expected at least ", size)));
    }
    return MakeFfiError(fn(*args));
  } catch (const std::exception& e) {
    return MakeFfiError(absl::InternalError(absl::StrCat(name, ": ", e.what())));
  } catch (...) {
    return MakeFfiError(absl::InternalError(absl::StrCat(name, ": exception of an unknown type")));
  }
}

std::string ToString(XLA_FFI_ByteSpan span) {
  return std::string(span.ptr == nullptr ? "" : span.ptr, span.ptr == nullptr ? 0 : span.len);
}

StateSlot* SlotOf(XLA_FFI_InvokeContext& ctx, XLA_FFI_ExecutionStage stage) {
  switch (stage) {
    case XLA_FFI_ExecutionStage_INSTANTIATE:
      return ctx.instantiated;
    case XLA_FFI_ExecutionStage_PREPARE:
      return &ctx.prepared;
    case XLA_FFI_ExecutionStage_INITIALIZE:
      return &ctx.initialized;
    case XLA_FFI_ExecutionStage_EXECUTE:
    case XLA_FFI_ExecutionStage_RECORD:
      break;
  }
  return nullptr;
}

#define BP_NOT_NULL(field) \
  if ((field) == nullptr) return absl::InvalidArgumentError("ffi: " #field " is null")

XLA_FFI_Error* ErrorCreate(XLA_FFI_Error_Create_Args* args) {
  const int code = static_cast<int>(args->errc);
  absl::string_view message = args->message == nullptr ? "" : args->message;
  if (code <= 0 || code > 16) return MakeFfiError(absl::UnknownError(absl::StrCat("code ", code, ": ", message)));
  return MakeFfiError(absl::Status(static_cast<absl::StatusCode>(code), message));
}

void ErrorGetDetails(XLA_FFI_Error_GetDetails_Args* args) {
  args->message = args->error == nullptr ? "" : args->error->message.c_str();
  if (args->struct_size < XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE)
    return;  // a caller of 0.3, whose struct has no code
  args->errc =
      static_cast<XLA_FFI_Error_Code>(args->error == nullptr ? 0 : static_cast<int>(args->error->status.code()));
}

void ErrorDestroy(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* HandlerRegister(XLA_FFI_Handler_Register_Args* args) {
  // In version 0.3 the bundle ends before `record`, so nothing after it is read.
  constexpr size_t kFirstSize = offsetof(XLA_FFI_Handler_Register_Args, bundle) +
                                offsetof(XLA_FFI_Handler_Bundle, record) + sizeof(XLA_FFI_Handler_Traits);
  return Checked("XLA_FFI_Handler_Register", args, kFirstSize, [](auto& a) {
    Handler handler;
    handler.bundle.instantiate = a.bundle.instantiate;
    handler.bundle.prepare = a.bundle.prepare;
    handler.bundle.initialize = a.bundle.initialize;
    handler.bundle.execute = a.bundle.execute;
    return TheRegistry().Register(ToString(a.name), ToString(a.platform), handler);
  });
}

XLA_FFI_Error* StreamGet(XLA_FFI_Stream_Get_Args* args) {
  return Checked("XLA_FFI_Stream_Get", args, XLA_FFI_Stream_Get_Args_STRUCT_SIZE, [](auto& a) {
    // Host memory has no streams. Handlers of jaxlib would misinterpret an error.
    a.stream = a.ctx == nullptr ? nullptr : a.ctx->stream;
    return absl::OkStatus();
  });
}

XLA_FFI_Error* TypeRegister(XLA_FFI_Type_Register_Args* args) {
  return Checked("XLA_FFI_Type_Register", args, XLA_FFI_Type_Register_Args_STRUCT_SIZE, [](auto& a) -> absl::Status {
    BP_NOT_NULL(a.type_id);
    return TheRegistry().RegisterType(ToString(a.name), &a.type_id->type_id,
                                      a.type_info == nullptr ? nullptr : a.type_info->deleter);
  });
}

XLA_FFI_Error* InvokeContextGet(XLA_FFI_InvokeContext_Get_Args* args) {
  return Checked("XLA_FFI_InvokeContext_Get", args, XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.ctx);
                   BP_NOT_NULL(a.type_id);
                   if (a.ctx->user_data != nullptr) {
                     for (const auto& [id, data] : a.ctx->user_data->entries) {
                       if (id == a.type_id->type_id) {
                         a.data = data;
                         return absl::OkStatus();
                       }
                     }
                   }
                   return absl::NotFoundError(absl::StrCat("ffi context: no user data of type ", a.type_id->type_id));
                 });
}

XLA_FFI_Error* StateSet(XLA_FFI_State_Set_Args* args) {
  return Checked("XLA_FFI_State_Set", args, XLA_FFI_State_Set_Args_STRUCT_SIZE, [](auto& a) -> absl::Status {
    BP_NOT_NULL(a.ctx);
    BP_NOT_NULL(a.type_id);
    StateSlot* slot = SlotOf(*a.ctx, a.stage);
    if (slot == nullptr || a.stage != a.ctx->stage) {
      return absl::FailedPreconditionError(absl::StrCat("ffi state: stage ", static_cast<int>(a.stage),
                                                        " cannot be set in stage ", static_cast<int>(a.ctx->stage)));
    }
    return slot->Set(*a.ctx->registry, a.type_id->type_id, a.state);
  });
}

XLA_FFI_Error* StateGet(XLA_FFI_State_Get_Args* args) {
  return Checked("XLA_FFI_State_Get", args, XLA_FFI_State_Get_Args_STRUCT_SIZE, [](auto& a) -> absl::Status {
    BP_NOT_NULL(a.ctx);
    BP_NOT_NULL(a.type_id);
    StateSlot* slot = SlotOf(*a.ctx, a.stage);
    if (slot == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("ffi state: stage ", static_cast<int>(a.stage), " keeps none"));
    }
    ASSIGN_OR_RETURN(a.state, slot->Get(a.type_id->type_id));
    return absl::OkStatus();
  });
}

XLA_FFI_Error* DeviceMemoryAllocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  return Checked(
      "XLA_FFI_DeviceMemory_Allocate", args, XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE,
      [](auto& a) -> absl::Status {
        size_t alignment = 64;
        while (alignment < a.alignment && alignment < (size_t{1} << 30)) alignment *= 2;
        if (a.alignment > alignment || a.size > SIZE_MAX / 2) {
          return absl::InvalidArgumentError(absl::StrCat("ffi memory: ", a.size, " bytes aligned to ", a.alignment));
        }
        if (a.ctx != nullptr && a.ctx->scratch != nullptr) {
          ASSIGN_OR_RETURN(a.data, a.ctx->scratch->Allocate(a.size, alignment));
          return absl::OkStatus();
        }
        a.data = std::aligned_alloc(alignment, (a.size / alignment + 1) * alignment);
        if (a.data == nullptr) {
          return absl::ResourceExhaustedError(absl::StrCat("ffi memory: no room for ", a.size, " bytes"));
        }
        return absl::OkStatus();
      });
}

XLA_FFI_Error* DeviceMemoryFree(XLA_FFI_DeviceMemory_Free_Args* args) {
  return Checked("XLA_FFI_DeviceMemory_Free", args, XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE, [](auto& a) {
    if (a.ctx != nullptr && a.ctx->scratch != nullptr) {
      a.ctx->scratch->Free(a.data, a.size);
    } else {
      std::free(a.data);
    }
    return absl::OkStatus();
  });
}

XLA_FFI_Error* ThreadPoolSchedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  return Checked("XLA_FFI_ThreadPool_Schedule", args, XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.task);
                   a.task(a.data);  // the interface permits the caller's thread; the pool reports one thread
                   return absl::OkStatus();
                 });
}

XLA_FFI_Error* ThreadPoolNumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  return Checked("XLA_FFI_ThreadPool_NumThreads", args, XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.num_threads);
                   *a.num_threads = 1;
                   return absl::OkStatus();
                 });
}

XLA_FFI_Error* FutureCreate(XLA_FFI_Future_Create_Args* args) {
  return Checked("XLA_FFI_Future_Create", args, XLA_FFI_Future_Create_Args_STRUCT_SIZE, [](auto& a) {
    a.future = new XLA_FFI_Future;
    return absl::OkStatus();
  });
}

XLA_FFI_Error* FutureSetAvailable(XLA_FFI_Future_SetAvailable_Args* args) {
  return Checked("XLA_FFI_Future_SetAvailable", args, XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.future);
                   Event event = a.future->event;
                   a.future->Release();
                   event.Set();
                   return absl::OkStatus();
                 });
}

XLA_FFI_Error* FutureSetError(XLA_FFI_Future_SetError_Args* args) {
  return Checked("XLA_FFI_Future_SetError", args, XLA_FFI_Future_SetError_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   absl::Status status = TakeFfiError(a.error);
                   BP_NOT_NULL(a.future);
                   Event event = a.future->event;
                   a.future->Release();
                   event.Set(status.ok() ? absl::UnknownError("ffi future: set to an error that says OK") : status);
                   return absl::OkStatus();
                 });
}

XLA_FFI_Error* RunIdGet(XLA_FFI_RunId_Get_Args* args) {
  return Checked("XLA_FFI_RunId_Get", args, XLA_FFI_RunId_Get_Args_STRUCT_SIZE, [](auto& a) -> absl::Status {
    BP_NOT_NULL(a.ctx);
    a.run_id = a.ctx->run_id;
    return absl::OkStatus();
  });
}

XLA_FFI_Error* DeviceOrdinalGet(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  return Checked("XLA_FFI_DeviceOrdinal_Get", args, XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.ctx);
                   a.device_ordinal = a.ctx->device_ordinal;
                   return absl::OkStatus();
                 });
}

// No extension is offered.
XLA_FFI_Error* FindExtension(XLA_FFI_InvokeContext_FindExtension_Args* args) {
  return Checked("XLA_FFI_InvokeContext_FindExtension", args, XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   BP_NOT_NULL(a.ctx);
                   a.extension = nullptr;
                   return absl::OkStatus();
                 });
}

// PJRT cannot pass options.
XLA_FFI_Error* CustomOptionsGet(XLA_FFI_CustomOptions_Get_Args* args) {
  return Checked("XLA_FFI_CustomOptions_Get", args, XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE,
                 [](auto& a) -> absl::Status {
                   static constexpr XLA_FFI_Attrs kNone{XLA_FFI_Attrs_STRUCT_SIZE};
                   BP_NOT_NULL(a.ctx);
                   a.attrs = &kNone;
                   return absl::OkStatus();
                 });
}

// Handlers of a newer minor version are accepted. They should check the size of the table before they call newer
// functions. A handler that does not check finds these functions after the end of the table.
XLA_FFI_Error* Later(void*) {
  return MakeFfiError(absl::UnimplementedError(
      absl::StrCat("ffi: a function that came after ", XLA_FFI_API_MAJOR, ".", XLA_FFI_API_MINOR)));
}
struct Table {
  XLA_FFI_Api api{};
  XLA_FFI_Error* (*later[32])(void*);
};

XLA_FFI_Api MakeApi() {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  api.api_version.major_version = XLA_FFI_API_MAJOR;
  api.api_version.minor_version = XLA_FFI_API_MINOR;
  api.XLA_FFI_Error_Create = &ErrorCreate;
  api.XLA_FFI_Error_GetDetails = &ErrorGetDetails;
  api.XLA_FFI_Error_Destroy = &ErrorDestroy;
  api.XLA_FFI_Handler_Register = &HandlerRegister;
  api.XLA_FFI_Stream_Get = &StreamGet;
  api.XLA_FFI_Type_Register = &TypeRegister;
  api.XLA_FFI_InvokeContext_Get = &InvokeContextGet;
  api.XLA_FFI_State_Set = &StateSet;
  api.XLA_FFI_State_Get = &StateGet;
  api.XLA_FFI_DeviceMemory_Allocate = &DeviceMemoryAllocate;
  api.XLA_FFI_DeviceMemory_Free = &DeviceMemoryFree;
  api.XLA_FFI_ThreadPool_Schedule = &ThreadPoolSchedule;
  api.XLA_FFI_ThreadPool_NumThreads = &ThreadPoolNumThreads;
  api.XLA_FFI_Future_Create = &FutureCreate;
  api.XLA_FFI_Future_SetAvailable = &FutureSetAvailable;
  api.XLA_FFI_Future_SetError = &FutureSetError;
  api.XLA_FFI_RunId_Get = &RunIdGet;
  api.XLA_FFI_DeviceOrdinal_Get = &DeviceOrdinalGet;
  api.XLA_FFI_InvokeContext_FindExtension = &FindExtension;
  api.XLA_FFI_CustomOptions_Get = &CustomOptionsGet;
  return api;
}

}  // namespace

const XLA_FFI_Api* Api() {
  static const Table table = [] {
    Table t;
    t.api = MakeApi();
    for (auto& later : t.later) later = &Later;
    return t;
  }();
  return &table.api;
}

Registry& TheRegistry() { return static_cast<Registry&>(*Plugin().services.custom_calls); }

}  // namespace backplane::shim::ffi
