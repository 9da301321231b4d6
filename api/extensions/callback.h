// Extension 14, Callback, version 1: tells the host of failures of the platform.
#ifndef BACKPLANE_API_EXTENSIONS_CALLBACK_H_
#define BACKPLANE_API_EXTENSIONS_CALLBACK_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_CALLBACK_EXTENSION_VERSION 1

enum PJRT_Callback_Type {
  PJRT_Callback_Type_Unknown = 0,
  PJRT_Callback_Type_Tpu_SliceBuilder = 1,  // args: PJRT_Callback_Tpu_SliceBuilderArgs
  PJRT_Callback_Type_Prefatal = 2           // args: PJRT_Callback_PrefatalArgs
};
typedef enum PJRT_Callback_Type PJRT_Callback_Type;

// How a group of connected devices failed. In C++ the names are scoped, as in the published header.
#ifdef __cplusplus
enum class PJRT_Callback_Tpu_SliceFailureType : int32_t {
#else
typedef int32_t PJRT_Callback_Tpu_SliceFailureType;
enum {
#endif
  SLICE_FAILURE_UNKNOWN = 0,
  SLICE_FAILURE_INIT_ERROR = 1,           // while the network was set up
  SLICE_FAILURE_WORKER_UNAVAILABLE = 2,   // a worker is silent for too long
  SLICE_FAILURE_FLAPPING_TASK_ERROR = 3,  // a task restarts again and again
  SLICE_FAILURE_SW_INJECT_ERROR = 4,      // provoked by software, for tests and control
  SLICE_FAILURE_CHIP_DRIVER_ERROR = 5     // a driver reports a chip or link
};

struct PJRT_Callback_Tpu_SliceBuilderArgs {
  size_t struct_size;
  PJRT_Callback_Tpu_SliceFailureType failure_type;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Callback_Tpu_SliceBuilderArgs, failure_type);

// The arguments of the callback that is called shortly before the process must end.
struct PJRT_Callback_PrefatalArgs {
  size_t struct_size;
  PJRT_Error_Code error_code;
  const char* error_message;  // borrowed for the call
  size_t error_message_size;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Callback_PrefatalArgs, error_message_size);

// Called in any thread, with the struct of the callback's type, borrowed for the call.
typedef void PJRT_Callback_Function(void* args, void* user_arg);

// Registers a callback until the client is destroyed.
struct PJRT_Callback_RegisterCallback_Args {
  size_t struct_size;
  PJRT_Client* client;               // in
  PJRT_Callback_Type type;           // in
  PJRT_Callback_Function* callback;  // in
  void* user_arg;                    // in: passed to the callback unchanged
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Callback_RegisterCallback_Args, user_arg);
typedef PJRT_Error* PJRT_Register_Callback(PJRT_Callback_RegisterCallback_Args* args);

// Calls all callbacks of a type in the calling thread and then returns.
struct PJRT_Callback_InvokeCallback_Args {
  size_t struct_size;
  PJRT_Client* client;      // in
  PJRT_Callback_Type type;  // in
  void* args;               // in: the struct of that type
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Callback_InvokeCallback_Args, args);
typedef PJRT_Error* PJRT_Callback_InvokeCallback(PJRT_Callback_InvokeCallback_Args* args);

// The extension.
struct PJRT_Callback_Extension {
  PJRT_Extension_Base base;
  PJRT_Register_Callback* register_callback;
  PJRT_Callback_InvokeCallback* invoke_callback;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Callback_Extension, invoke_callback);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_CALLBACK_H_
