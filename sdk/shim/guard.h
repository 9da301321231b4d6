// The checks of every entry of the C ABI: null pointers, sizes, exceptions; and the conversion of Status to PJRT_Error.
//
// The size rule: a caller's struct may be that of any version since the first release. `SLOT` knows the size in the
// current header, MinSize the smallest size with all required fields. A struct that is at least as large as ours is
// used in place. A smaller one is copied to a zeroed struct, and only the caller's fields are copied back.
#ifndef BACKPLANE_SDK_SHIM_GUARD_H_
#define BACKPLANE_SDK_SHIM_GUARD_H_

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/extensions/cross_host_transfers.h"
#include "api/pjrt_c_api.h"
#include "base/subnormals.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"

namespace backplane::shim {

// Returns a new error with that status; null for OK.
PJRT_Error* MakeError(const absl::Status& status);
// Returns the status of an error, which may be another plugin's or the host's. OK for null.
absl::Status GetStatus(const PJRT_Error* error);
// Returns a status with a code and message that came over the boundary. An invalid code becomes UNKNOWN.
absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t size);

// For functions of the host that we call. MakeCallbackError creates the errors that they return; it is passed to them
// as a PJRT_CallbackError. TakeError returns the status of an error that they returned, and frees the error.
PJRT_Error* MakeCallbackError(PJRT_Error_Code code, const char* message, size_t size);
absl::Status TakeError(PJRT_Error* error);

// Returns InvalidArgument for a field that is null. The guard adds the name of the function.
absl::Status MakeNullFieldError(const char* field);
// Adds the name of the function to a status of MakeNullFieldError.
absl::Status AddFunctionName(const char* function, absl::Status status);

#define BP_REQUIRE(field)                                                         \
  do {                                                                            \
    if ((field) == nullptr) return ::backplane::shim::MakeNullFieldError(#field); \
  } while (false)

// The smallest accepted size of a struct that has grown since its first release. `kOutdated`: a released header stated
// this size although the struct already had the following fields (PJRT 0.46, 0.57 and a minor version after 0.54
// corrected the sizes).
template <typename T>
struct SizeRule {
  static constexpr size_t kMin = 0;       // 0: the struct has not grown
  static constexpr size_t kOutdated = 0;  // 0: no released header stated a wrong size
};
#define BP_MIN_SIZE(type, last)                                  \
  template <>                                                    \
  struct SizeRule<type> {                                        \
    static constexpr size_t kMin = PJRT_STRUCT_SIZE(type, last); \
    static constexpr size_t kOutdated = 0;                       \
  }
#define BP_OUTDATED_SIZE(type, last)                                  \
  template <>                                                         \
  struct SizeRule<type> {                                             \
    static constexpr size_t kMin = 0;                                 \
    static constexpr size_t kOutdated = PJRT_STRUCT_SIZE(type, last); \
  }
BP_MIN_SIZE(PJRT_Client_Create_Args, client);
BP_MIN_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args, buffer);
BP_MIN_SIZE(PJRT_Client_CreateErrorBuffer_Args, buffer);
BP_MIN_SIZE(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set);
BP_MIN_SIZE(PJRT_Device_PoisonExecution_Args, poisoned);
BP_MIN_SIZE(PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes);
BP_MIN_SIZE(PJRT_Executable_DeserializeAndLoad_Args, loaded_executable);
BP_MIN_SIZE(PJRT_ExecuteOptions, launch_id);
BP_MIN_SIZE(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args, send_events);
BP_MIN_SIZE(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args, buffers);
BP_MIN_SIZE(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args, num_buffers);
BP_MIN_SIZE(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args, on_done);
BP_OUTDATED_SIZE(PJRT_Plugin_Attributes_Args, attributes);
BP_OUTDATED_SIZE(PJRT_Device_AddressableMemories_Args, memories);
BP_OUTDATED_SIZE(PJRT_Client_TopologyDescription_Args, client);
BP_OUTDATED_SIZE(PJRT_Buffer_CopyRawToHost_Args, transfer_size);
#undef BP_MIN_SIZE
#undef BP_OUTDATED_SIZE

absl::Status SizeError(const char* name, size_t size, size_t least);

template <typename Args, typename Impl>
absl::Status GuardedStatus(const char* name, Args* args, size_t full_size, Impl&& impl) noexcept {
  using Rule = SizeRule<Args>;
  const ScopedStandardFloats standard;
  try {
    if (args == nullptr) return AddFunctionName(name, MakeNullFieldError("args"));
    const size_t size = args->struct_size;
    if (size >= full_size || (Rule::kOutdated != 0 && size == Rule::kOutdated)) [[likely]] {
      absl::Status status = impl(*args);
      if (!status.ok()) [[unlikely]]
        return AddFunctionName(name, std::move(status));
      return absl::OkStatus();
    }
    const size_t least = Rule::kMin != 0 ? Rule::kMin : Rule::kOutdated != 0 ? Rule::kOutdated : full_size;
    if (size < least) return SizeError(name, size, least);
    Args copy{};
    std::memcpy(static_cast<void*>(&copy), args, size);
    absl::Status status = impl(copy);
    if (!status.ok()) return AddFunctionName(name, std::move(status));
    std::memcpy(static_cast<void*>(args), &copy, size);
    return absl::OkStatus();
  } catch (...) {
    return AddFunctionName(name, MakeStatusOfCurrentException());
  }
}

template <typename Args, typename Impl>
PJRT_Error* Guard(const char* name, Args* args, size_t full_size, Impl&& impl) noexcept {
  absl::Status status = GuardedStatus(name, args, full_size, std::forward<Impl>(impl));
  if (status.ok()) [[likely]]
    return nullptr;
  return MakeError(status);
}

// Returns a function pointer for table entry `fn` that runs `impl`, an absl::Status(fn##_Args&).
#define BP_ENTRY(fn, impl) \
  [](fn##_Args* args) -> PJRT_Error* { return ::backplane::shim::Guard(#fn, args, fn##_Args_STRUCT_SIZE, impl); }
// Returns a function pointer for a function that is not supported. It returns UNIMPLEMENTED with its name.
#define BP_UNSUPPORTED(fn)                                                                             \
  [](fn##_Args* args) -> PJRT_Error* {                                                                 \
    return ::backplane::shim::Guard(#fn, args, fn##_Args_STRUCT_SIZE, [](fn##_Args&) -> absl::Status { \
      return absl::UnimplementedError(#fn ": this plugin does not offer it");                          \
    });                                                                                                \
  }

// Copies a nested struct of the caller, of any version; missing fields are zero. `full_size` is its STRUCT_SIZE.
template <typename T>
absl::StatusOr<T> ReadStruct(const char* name, const T* in, size_t full_size) {
  using Rule = SizeRule<T>;
  if (in == nullptr) return MakeNullFieldError(name);
  const size_t least = Rule::kMin != 0 ? Rule::kMin : full_size;
  if (in->struct_size < least) return SizeError(name, in->struct_size, least);
  T out{};
  std::memcpy(static_cast<void*>(&out), in, in->struct_size < full_size ? in->struct_size : full_size);
  return out;
}

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_GUARD_H_
