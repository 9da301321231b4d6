// NCCL and RCCL, which have the same functions: those that the plugin calls, with the signatures and numbers of the
// makers' headers.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "plugins/hip/libraries/collective_library.h"
#include "plugins/hip/libraries/nccl_numbers.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip::nccl {

using Comm = struct NcclComm*;

// X(member, name, (parameters)); each returns a result, which is 0 for success.
#define BACKPLANE_NCCL_FUNCTIONS(X)                                                                                   \
  X(get_version, "ncclGetVersion", (int* version))                                                                    \
  X(comm_init_all, "ncclCommInitAll", (Comm * comms, int count, const int* devices))                                  \
  X(comm_destroy, "ncclCommDestroy", (Comm comm))                                                                     \
  X(comm_abort, "ncclCommAbort", (Comm comm))                                                                         \
  X(comm_get_async_error, "ncclCommGetAsyncError", (Comm comm, Enum * error))                                         \
  X(group_start, "ncclGroupStart", ())                                                                                \
  X(group_end, "ncclGroupEnd", ())                                                                                    \
  X(all_reduce, "ncclAllReduce",                                                                                      \
    (const void* operand, void* result, size_t count, Enum type, Enum reducer, Comm comm, hipStream_t stream))        \
  X(reduce_scatter, "ncclReduceScatter",                                                                              \
    (const void* operand, void* result, size_t result_count, Enum type, Enum reducer, Comm comm, hipStream_t stream)) \
  X(all_gather, "ncclAllGather",                                                                                      \
    (const void* operand, void* result, size_t operand_count, Enum type, Comm comm, hipStream_t stream))              \
  X(send, "ncclSend", (const void* operand, size_t count, Enum type, int peer, Comm comm, hipStream_t stream))        \
  X(receive, "ncclRecv", (void* result, size_t count, Enum type, int peer, Comm comm, hipStream_t stream))

struct Functions {
#define BACKPLANE_NCCL_MEMBER(member, name, parameters) Enum(*member) parameters = nullptr;
  BACKPLANE_NCCL_FUNCTIONS(BACKPLANE_NCCL_MEMBER)
#undef BACKPLANE_NCCL_MEMBER
};

inline constexpr int kMinVersion = 21000;  // 2.10, which has bf16

// Return nullopt if the library has none.
std::optional<Enum> FindType(PrimitiveType type);
std::optional<Enum> FindReducer(ArrayCollective::Reducer reducer);

// Returns NotFound if the library has another interface, FailedPrecondition if it is older than 2.10.
absl::StatusOr<std::shared_ptr<const CollectiveLibrary>> Open(const HipApi& api, const VendorLibrary& library);

}  // namespace backplane::hip::nccl

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_H_
