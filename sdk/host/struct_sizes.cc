#include "sdk/host/struct_sizes.h"

#include <initializer_list>

namespace backplane::host {
namespace {

struct Growth {
  int minor;    // from this minor version on
  size_t size;  // the struct has this size
};

// Returns the size at a minor version. `steps` are sorted from the newest to the oldest; before the oldest the size is
// `first`.
size_t Pick(int minor, std::initializer_list<Growth> steps, size_t first) {
  for (const Growth& step : steps) {
    if (minor >= step.minor) return step.size;
  }
  return first;
}

}  // namespace

#define BP_SIZE(type, last_field) PJRT_STRUCT_SIZE(type, last_field)

size_t StructSizeAt(int minor, const PJRT_Client_Create_Args*, size_t newest) {
  return Pick(minor, {{61, newest}}, BP_SIZE(PJRT_Client_Create_Args, client));
}
size_t StructSizeAt(int minor, const PJRT_Client_CreateViewOfDeviceBuffer_Args*, size_t newest) {
  return Pick(minor, {{66, newest}}, BP_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args, buffer));
}
size_t StructSizeAt(int minor, const PJRT_Client_CreateErrorBuffer_Args*, size_t newest) {
  using T = PJRT_Client_CreateErrorBuffer_Args;
  return Pick(minor, {{117, newest}, {103, BP_SIZE(T, num_payload)}}, BP_SIZE(T, buffer));
}
size_t StructSizeAt(int minor, const PJRT_Device_MemoryStats_Args*, size_t newest) {
  return Pick(minor, {{113, newest}}, BP_SIZE(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set));
}
size_t StructSizeAt(int minor, const PJRT_Device_PoisonExecution_Args*, size_t newest) {
  return Pick(minor, {{100, newest}}, BP_SIZE(PJRT_Device_PoisonExecution_Args, poisoned));
}
size_t StructSizeAt(int minor, const PJRT_Executable_DeserializeAndLoad_Args*, size_t newest) {
  using T = PJRT_Executable_DeserializeAndLoad_Args;
  return Pick(minor, {{111, newest}, {71, BP_SIZE(T, overridden_serialized_compile_options_size)}},
              BP_SIZE(T, loaded_executable));
}
size_t StructSizeAt(int minor, const PJRT_Executable_GetCompiledMemoryStats_Args*, size_t newest) {
  using T = PJRT_Executable_GetCompiledMemoryStats_Args;
  return Pick(minor,
              {{104, newest},
               {90, BP_SIZE(T, total_size_in_bytes)},
               {72, BP_SIZE(T, peak_memory_in_bytes)},
               {43, BP_SIZE(T, host_temp_size_in_bytes)}},
              BP_SIZE(T, temp_size_in_bytes));
}
size_t StructSizeAt(int minor, const PJRT_Plugin_Attributes_Args*, size_t newest) {
  // In versions up to 0.68 at least, the published size excludes the last field, which the struct has.
  return Pick(minor, {{69, newest}}, BP_SIZE(PJRT_Plugin_Attributes_Args, attributes));
}
size_t StructSizeAt(int minor, const PJRT_ExecuteOptions*, size_t newest) {
  using T = PJRT_ExecuteOptions;
  return Pick(minor,
              {{116, newest},
               {112, BP_SIZE(T, num_hlo_output_callbacks)},
               {108, BP_SIZE(T, use_major_to_minor_data_layout_for_callbacks)},
               {97, BP_SIZE(T, multi_slice_config)},
               {78, BP_SIZE(T, incarnation_ids)},
               {76, BP_SIZE(T, call_location)},
               {64, BP_SIZE(T, context)},
               {39, BP_SIZE(T, num_non_donatable_input_indices)}},
              BP_SIZE(T, launch_id));
}

}  // namespace backplane::host
