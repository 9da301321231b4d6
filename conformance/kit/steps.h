// Building blocks of checks. Each ends the check if it fails. The caller owns the returned objects.
#ifndef BACKPLANE_CONFORMANCE_KIT_STEPS_H_
#define BACKPLANE_CONFORMANCE_KIT_STEPS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/kit/kit.h"
#include "sdk/host/compile_options.h"
#include "sdk/host/element_type.h"

namespace backplane::conformance {

using Dims = std::vector<int64_t>;

// A layout with this order of dimensions, the fastest first, without tiles. Borrows `minor_to_major`.
PJRT_Buffer_MemoryLayout MakeLayout(const Dims& minor_to_major);

// ---- Destruction
void Destroy(Kit& k, PJRT_Buffer* object);
void Destroy(Kit& k, PJRT_Event* object);
void Destroy(Kit& k, PJRT_LoadedExecutable* object);
void Destroy(Kit& k, PJRT_Executable* object);
void Destroy(Kit& k, PJRT_Client* object);
void Destroy(Kit& k, PJRT_TopologyDescription* object);

// ---- Events
void Await(Kit& k, PJRT_Event* event, absl::string_view what);  // must succeed; destroys it
Err Outcome(Kit& k, PJRT_Event* event);                         // awaits; destroys it
bool IsReady(Kit& k, PJRT_Event* event);
PJRT_Event* ReadyEvent(Kit& k, PJRT_Buffer* buffer);
// Polls `done` until it returns true or the time limit is over.
bool WaitFor(double seconds, const std::function<bool()>& done);
double GetSeconds();  // the time of a monotonic clock

// ---- Buffers
// Creates a dense array from host memory. Waits until the memory may be reused.
PJRT_Buffer* Put(Kit& k, PJRT_Buffer_Type type, const Dims& dims, const void* data, PJRT_Device* device = nullptr);
template <typename T>
PJRT_Buffer* Put(Kit& k, const Dims& dims, const std::vector<T>& values, PJRT_Device* device = nullptr) {
  return Put(k, host::ElementTypeOf<T>::value, dims, values.data(), device);
}
// Arguments for PJRT_Client_BufferFromHostBuffer as in Put. Borrows `dims` and `data`.
PJRT_Client_BufferFromHostBuffer_Args PutArgs(Kit& k, PJRT_Buffer_Type type, const Dims& dims, const void* data,
                                              PJRT_Device* device = nullptr);
// Returns the contents, dense with the last dimension fastest. Waits.
std::string Get(Kit& k, PJRT_Buffer* buffer);
template <typename T>
std::vector<T> GetAs(Kit& k, PJRT_Buffer* buffer) {
  const std::string bytes = Get(k, buffer);
  k.Require(bytes.size() % sizeof(T) == 0, "PJRT_Buffer_ToHostBuffer: ", bytes.size(),
            " bytes are no whole number of elements");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
PJRT_Buffer_Type GetType(Kit& k, PJRT_Buffer* buffer);
Dims GetDims(Kit& k, PJRT_Buffer* buffer);
std::string FormatShape(Kit& k, PJRT_Buffer* buffer);  // "f32[2,3]"
bool IsDeleted(Kit& k, PJRT_Buffer* buffer);
void Delete(Kit& k, PJRT_Buffer* buffer);
PJRT_Device* GetDevice(Kit& k, PJRT_Buffer* buffer);
PJRT_Memory* GetMemory(Kit& k, PJRT_Buffer* buffer);
bool IsOnCpu(Kit& k, PJRT_Buffer* buffer);

// ---- Programs
// Compiles StableHLO text, or other bytes under `format`.
Err TryCompile(Kit& k, absl::string_view program, absl::string_view format, absl::string_view options,
               PJRT_LoadedExecutable** out);
host::CompileOptions PlainOptions(Kit& k);  // one device, and the compile options of the run
PJRT_LoadedExecutable* Compile(Kit& k, absl::string_view program, const host::CompileOptions& options);
PJRT_LoadedExecutable* Compile(Kit& k, absl::string_view program);
PJRT_Executable* GetExecutable(Kit& k, PJRT_LoadedExecutable* loaded);
size_t NumOutputs(Kit& k, PJRT_LoadedExecutable* loaded);
std::string GetFingerprint(Kit& k, PJRT_LoadedExecutable* loaded);

// One execution on any number of devices.
struct Launch {
  PJRT_LoadedExecutable* executable = nullptr;
  std::vector<std::vector<PJRT_Buffer*>> arguments;  // by device
  std::vector<int64_t> not_donated;
  PJRT_Device* device = nullptr;  // execute_device
  bool want_events = false;
  std::vector<std::vector<PJRT_SendCallbackInfo>> sends;
  std::vector<std::vector<PJRT_RecvCallbackInfo>> recvs;
  // Outputs of the call.
  std::vector<std::vector<PJRT_Buffer*>> outputs;  // by device
  std::vector<PJRT_Event*> events;                 // by device
};
Err TryExecute(Kit& k, Launch* launch);  // sets the outputs only on success
std::vector<PJRT_Buffer*> Execute(Kit& k, PJRT_LoadedExecutable* executable,
                                  const std::vector<PJRT_Buffer*>& arguments);
// Runs an executable on f32 vectors of one size and returns its only result.
std::vector<float> RunF32(Kit& k, PJRT_LoadedExecutable* executable, const std::vector<std::vector<float>>& arguments);

// ---- Devices
int GetId(Kit& k, PJRT_Device* device);
PJRT_DeviceDescription* GetDescription(Kit& k, PJRT_Device* device);
PJRT_Memory* DefaultMemory(Kit& k, PJRT_Device* device);
std::vector<PJRT_Memory*> GetMemories(Kit& k, PJRT_Device* device);
std::string GetKind(Kit& k, PJRT_Memory* memory);

// ---- Serialized things
std::string Serialize(Kit& k, PJRT_Executable* executable);

// Returns the bytes allocated by malloc in this process, including those of the plugin.
int64_t CountHeapBytes();

// ---- Texts of programs
extern const char kAdd[];         // f32[4], f32[4] -> sum
extern const char kDonate[];      // the same, the first argument may become the output
extern const char kTwoOutputs[];  // f32[4] a, s32[2] b -> b + b, a * a
extern const char kConstant[];    // () -> f32[3] {1, 2, 3}
extern const char kMatmul[];      // f32[8,8], f32[8,8] -> product
extern const char kCount[];      // s32[] n -> s after n steps of s = s * 1664525 + step, which compilers do not shorten
int32_t CountResult(int32_t n);  // the result of kCount
extern const char kSumRows[];    // f32[2,3] -> f32[2]
// Returns kAdd for another element type in StableHLO's spelling, and dims such as "2x0x".
std::string MakeAddProgram(absl::string_view type, absl::string_view dims = "4x");
std::string PrintIdentityProgram(absl::string_view type);  // "2x3xf32"

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_STEPS_H_
