// Extension 0, Gpu_Custom_Call, version 2: registers handlers of custom calls with all their stages. In spite of its
// name it is not specific to GPUs.
#ifndef BACKPLANE_API_EXTENSIONS_GPU_CUSTOM_CALL_H_
#define BACKPLANE_API_EXTENSIONS_GPU_CUSTOM_CALL_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_GPU_EXTENSION_VERSION 2

// Registers the handlers of a target on the plugin's platform. A handler is an XLA_FFI_Handler* and stays
// callable until the process ends; stages without one are NULL.
struct PJRT_Gpu_Register_Custom_Call_Args {
  size_t struct_size;
  const char* function_name;  // in: copied
  size_t function_name_size;  // in
  int api_version;            // in: 1 for the typed interface of ffi_c_api.h, 0 for the old untyped one
  void* handler_instantiate;  // in
  void* handler_prepare;      // in
  void* handler_initialize;   // in
  void* handler_execute;      // in: never NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Gpu_Register_Custom_Call_Args, handler_execute);
typedef PJRT_Error* PJRT_Gpu_Register_Custom_Call(PJRT_Gpu_Register_Custom_Call_Args* args);

// The extension.
struct PJRT_Gpu_Custom_Call {
  PJRT_Extension_Base base;
  PJRT_Gpu_Register_Custom_Call* custom_call;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Gpu_Custom_Call, custom_call);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_GPU_CUSTOM_CALL_H_
