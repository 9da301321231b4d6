// Events: the completion of asynchronous work, with an error or without.
//
// The caller owns each event that it gets and frees it with PJRT_Event_Destroy. It may do so before the event is ready;
// this does not stop the work or the callbacks. An event becomes ready once and stays ready. Thread-safe.
#ifndef BACKPLANE_API_PJRT_EVENT_H_
#define BACKPLANE_API_PJRT_EVENT_H_

#include "api/pjrt/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Frees an event.
struct PJRT_Event_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_Destroy_Args, event);
typedef PJRT_Error* PJRT_Event_Destroy(PJRT_Event_Destroy_Args* args);

// Queries the state without waiting.
struct PJRT_Event_IsReady_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // in
  bool is_ready;      // out: true when the work has ended, well or badly
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_IsReady_Args, is_ready);
typedef PJRT_Error* PJRT_Event_IsReady(PJRT_Event_IsReady_Args* args);

// Returns the status of a ready event: NULL or a new error, which the caller frees. Must not be called before the event
// is ready.
struct PJRT_Event_Error_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_Error_Args, event);
typedef PJRT_Error* PJRT_Event_Error(PJRT_Event_Error_Args* args);

// Blocks the calling thread until the event is ready and returns its status like PJRT_Event_Error.
struct PJRT_Event_Await_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_Await_Args, event);
typedef PJRT_Error* PJRT_Event_Await(PJRT_Event_Await_Args* args);

// Called once when an event has become ready, in any thread, or in the registering one when it was ready before. The
// callback owns `error` (NULL when all went well) and must destroy it. It must not block.
typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error* error, void* user_arg);

// Registers a callback.
struct PJRT_Event_OnReady_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;                    // in: may be destroyed before the callback has run
  PJRT_Event_OnReadyCallback callback;  // in
  void* user_arg;                       // in: passed to the callback unchanged; stays the caller's
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_OnReady_Args, user_arg);
typedef PJRT_Error* PJRT_Event_OnReady(PJRT_Event_OnReady_Args* args);

// Creates an event that the caller will set. Since 0.89.
struct PJRT_Event_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_Create_Args, event);
typedef PJRT_Error* PJRT_Event_Create(PJRT_Event_Create_Args* args);

// Makes a created event ready. Setting one twice is an error.
struct PJRT_Event_Set_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;           // in: from PJRT_Event_Create
  PJRT_Error_Code error_code;  // in: PJRT_Error_Code_OK for success
  const char* error_message;   // in: copied; not read when the code is OK
  size_t error_message_size;   // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Event_Set_Args, error_message_size);
typedef PJRT_Error* PJRT_Event_Set(PJRT_Event_Set_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_EVENT_H_
