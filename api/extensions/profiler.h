// Extension 1, Profiler, version 1: collects a trace of the device. The table inside is independent of the API table,
// with its own errors, because a profiler can be opened before any client is.
#ifndef BACKPLANE_API_EXTENSIONS_PROFILER_H_
#define BACKPLANE_API_EXTENSIONS_PROFILER_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_PROFILER_EXTENSION_VERSION 1
#define PLUGIN_PROFILER_VERSION 1

#define PROFILER_STRUCT_SIZE(struct_type, last_field) PJRT_STRUCT_SIZE(struct_type, last_field)
#define PROFILER_DEFINE_STRUCT_TRAITS(sname, last_field) PJRT_DEFINE_STRUCT_TRAITS(sname, last_field)

typedef struct PLUGIN_Profiler PLUGIN_Profiler;
typedef struct PLUGIN_Profiler_Error PLUGIN_Profiler_Error;
typedef struct PLUGIN_Profiler_ConsumeResult PLUGIN_Profiler_ConsumeResult;

// Frees an error.
struct PLUGIN_Profiler_Error_Destroy_Args {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;  // in: may be NULL
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Error_Destroy_Args, error);
typedef void PLUGIN_Profiler_Error_Destroy(PLUGIN_Profiler_Error_Destroy_Args* args);

// Returns the text of an error.
struct PLUGIN_Profiler_Error_Message_Args {
  size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;  // in
  const char* message;                 // out: lives as long as the error
  size_t message_size;                 // out
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Error_Message_Args, message_size);
typedef void PLUGIN_Profiler_Error_Message(PLUGIN_Profiler_Error_Message_Args* args);

// Returns the code of an error.
struct PLUGIN_Profiler_Error_GetCode_Args {
  size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;  // in
  int code;                            // out: one of PJRT_Error_Code
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Error_GetCode_Args, code);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Error_GetCode(PLUGIN_Profiler_Error_GetCode_Args* args);

// Creates a profiler.
struct PLUGIN_Profiler_Create_Args {
  size_t struct_size;
  const char* options;        // in: serialized ProfileOptions, borrowed for the call
  size_t options_size;        // in
  PLUGIN_Profiler* profiler;  // out: owned by the caller
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Create_Args, profiler);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Create(PLUGIN_Profiler_Create_Args* args);

// Frees a profiler.
struct PLUGIN_Profiler_Destroy_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;  // in: may be NULL
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Destroy_Args, profiler);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Destroy(PLUGIN_Profiler_Destroy_Args* args);

// Starts to collect events.
struct PLUGIN_Profiler_Start_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;  // in
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Start_Args, profiler);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Start(PLUGIN_Profiler_Start_Args* args);

// Stops collecting events.
struct PLUGIN_Profiler_Stop_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;  // in
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Stop_Args, profiler);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Stop(PLUGIN_Profiler_Stop_Args* args);

// Returns the trace as a serialized XSpace. If `buffer` is NULL, the profiler returns its size and memory of its own,
// which is valid until its next call; the caller may then call again with a buffer of that size.
struct PLUGIN_Profiler_CollectData_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;    // in
  uint8_t* buffer;              // in: NULL or memory of the caller; out: where the bytes are
  size_t buffer_size_in_bytes;  // out
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_CollectData_Args, buffer_size_in_bytes);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_CollectData(PLUGIN_Profiler_CollectData_Args* args);

// Removes the trace collected so far from the profiler.
struct PLUGIN_Profiler_Consume_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;              // in
  PLUGIN_Profiler_ConsumeResult* result;  // out: owned by the caller
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Consume_Args, result);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Consume(PLUGIN_Profiler_Consume_Args* args);

// Frees such a trace.
struct PLUGIN_Profiler_ConsumeResult_Destroy_Args {
  size_t struct_size;
  PLUGIN_Profiler_ConsumeResult* consume_result;  // in: may be NULL
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_ConsumeResult_Destroy_Args, consume_result);
typedef void PLUGIN_Profiler_ConsumeResult_Destroy(PLUGIN_Profiler_ConsumeResult_Destroy_Args* args);

// Serializes the trace that was taken.
struct PLUGIN_Profiler_Serialize_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;                      // in
  PLUGIN_Profiler_ConsumeResult* consume_result;  // in
  const uint8_t* serialized_bytes;                // out: serialized XSpace; lives as long as `consume_result`
  size_t serialized_size;                         // out
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Serialize_Args, serialized_size);
typedef PLUGIN_Profiler_Error* PLUGIN_Profiler_Serialize(PLUGIN_Profiler_Serialize_Args* args);

// The table; static.
struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error_Destroy* error_destroy;
  PLUGIN_Profiler_Error_Message* error_message;
  PLUGIN_Profiler_Error_GetCode* error_get_code;
  PLUGIN_Profiler_Create* create;
  PLUGIN_Profiler_Destroy* destroy;
  PLUGIN_Profiler_Start* start;
  PLUGIN_Profiler_Stop* stop;
  PLUGIN_Profiler_CollectData* collect_data;
  PLUGIN_Profiler_Consume* consume;
  PLUGIN_Profiler_ConsumeResult_Destroy* consume_result_destroy;
  PLUGIN_Profiler_Serialize* serialize;
};
PROFILER_DEFINE_STRUCT_TRAITS(PLUGIN_Profiler_Api, serialize);

// The extension. It is in the chain of the function table, and also in the chain of the arguments of a call, where it
// names the host trace to which the call belongs.
struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api* profiler_api;  // NULL in the chain of a call
  int64_t traceme_context_id;         // only read in the chain of a call
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Profiler_Extension, traceme_context_id);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_PROFILER_H_
