// Calls of the C ABI as a host makes them, with errors as absl::Status. For tests.
#ifndef BACKPLANE_SDK_TESTING_API_CALLS_H_
#define BACKPLANE_SDK_TESTING_API_CALLS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"

namespace backplane::testing {

const PJRT_Api& Api();  // the table that GetPjrtApi returns

// Converts the error to a Status and frees it.
absl::Status Take(PJRT_Error* error);

// BP_ARGS(a, PJRT_Client_Destroy) defines zeroed arguments `a` of that call with its size.
#define BP_ARGS(name, fn)            \
  [[maybe_unused]] fn##_Args name{}; \
  name.struct_size = fn##_Args_STRUCT_SIZE
// BP_CALL(PJRT_Client_Destroy, a) calls the function through the table.
#define BP_CALL(fn, args) \
  ::backplane::testing::Take(::backplane::testing::CallInside([&] { return ::backplane::testing::Api().fn(&(args)); }))

// Whether this thread is inside of a call of the table. Tests that make allocations fail spare those of the host.
inline thread_local bool inside_call = false;

template <typename Call>
PJRT_Error* CallInside(Call&& call) {
  inside_call = true;
  PJRT_Error* const error = call();
  inside_call = false;
  return error;
}

PJRT_Client* NewClient(int64_t devices = 2);
void Destroy(PJRT_Client* client);
std::vector<PJRT_Device*> Devices(PJRT_Client* client);
std::vector<PJRT_Memory*> Memories(PJRT_Device* device);

absl::Status AwaitAndDestroy(PJRT_Event* event);

// Creates a buffer of f32 values on a device. Copies the values during the call.
PJRT_Buffer* NewBuffer(PJRT_Client* client, PJRT_Device* device, const std::vector<float>& values,
                       std::vector<int64_t> dims = {});
void Destroy(PJRT_Buffer* buffer);
bool IsDeleted(PJRT_Buffer* buffer);
absl::Status Delete(PJRT_Buffer* buffer);
const void* Address(PJRT_Buffer* buffer);
// Returns its values, or the error of reading them.
absl::Status Read(PJRT_Buffer* buffer, std::vector<float>* values);
std::vector<float> Values(PJRT_Buffer* buffer);  // empty on error

// Compiles StableHLO text. Options are CompileOptionsProto bytes.
absl::Status Compile(PJRT_Client* client, const std::string& text, PJRT_LoadedExecutable** out,
                     const std::string& options = "");
PJRT_LoadedExecutable* MustCompile(PJRT_Client* client, const std::string& text, const std::string& options = "");
void Destroy(PJRT_LoadedExecutable* executable);
std::string OptionsFor(int replicas, int partitions, bool portable = false);

// Launches once. `outputs` receives the buffers, device by device.
absl::Status Execute(PJRT_LoadedExecutable* executable, const std::vector<std::vector<PJRT_Buffer*>>& arguments,
                     size_t num_outputs, std::vector<std::vector<PJRT_Buffer*>>* outputs,
                     PJRT_ExecuteOptions* options = nullptr, std::vector<PJRT_Event*>* events = nullptr,
                     PJRT_Device* device = nullptr);

extern const char kAdd[];     // main(x, y: f32[4]) = x + y
extern const char kDonate[];  // the same, x donated

}  // namespace backplane::testing

#endif  // BACKPLANE_SDK_TESTING_API_CALLS_H_
