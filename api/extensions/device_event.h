// Device events and their promises, which the RawBuffer extension uses. They are reference counted, and each object
// refers to a table of its functions. All functions are thread-safe.
#ifndef BACKPLANE_API_EXTENSIONS_DEVICE_EVENT_H_
#define BACKPLANE_API_EXTENSIONS_DEVICE_EVENT_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// Called exactly once, in any thread.
typedef void (*PJRT_DeviceEvent_AndThen)(void* user_arg);

typedef enum {
  PJRT_DeviceEvent_State_Unavailable = 0,
  PJRT_DeviceEvent_State_Ready = 1,
  PJRT_DeviceEvent_State_Error = 2
} PJRT_DeviceEvent_State;

struct PJRT_DeviceEvent_FunctionTable {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  void (*inc_ref)(void* device_event);
  void (*dec_ref)(void* device_event);
  void (*and_then)(void* device_event, PJRT_DeviceEvent_AndThen callback, void* user_arg);
  // Returns nonzero and sets the out values if the event has failed. The message lives as long as the event.
  int (*get_error_if_present)(void* device_event, PJRT_Error_Code* code, const char** message, size_t* message_size);
  // NULL, or the table of a kind of event as which this one can also be used. All events of a plugin share one such
  // ancestor.
  const struct PJRT_DeviceEvent_FunctionTable* parent;
  PJRT_DeviceEvent_State (*get_state)(void* device_event);
  // Returns the stream on which the event is defined; 0 if there is none or it is not known.
  intptr_t (*get_definition_stream)(void* device_event, uint64_t* sequence_number);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceEvent_FunctionTable, get_definition_stream);

// An event and its table of functions, passed by value. The receiver of an event owns a reference to it.
typedef struct PJRT_DeviceEvent {
  const struct PJRT_DeviceEvent_FunctionTable* vtable;
  void* device_event;
} PJRT_DeviceEvent;

// A list of events. The callee takes it and calls `destroy(data)`.
typedef struct PJRT_DeviceEventVector {
  PJRT_DeviceEvent* data;
  size_t size;
  size_t capacity;
  void (*destroy)(PJRT_DeviceEvent* data);
} PJRT_DeviceEventVector;

typedef struct PJRT_DeviceEventPromise PJRT_DeviceEventPromise;

struct PJRT_DeviceEventPromise_FunctionTable {
  size_t struct_size;
  size_t instance_size;  // PJRT_DeviceEventPromise_STRUCT_SIZE of its creator
  PJRT_Extension_Base* extension_start;
  void (*inc_ref)(PJRT_DeviceEventPromise* promise);
  void (*dec_ref)(PJRT_DeviceEventPromise* promise);
  PJRT_DeviceEvent (*event)(PJRT_DeviceEventPromise* promise);             // borrowed from the promise
  void (*set)(PJRT_DeviceEventPromise* promise, PJRT_DeviceEvent event);   // ready when `event` is; takes a reference
  void (*set_error)(PJRT_DeviceEventPromise* promise, PJRT_Error* error);  // takes the error
  void (*set_ready)(PJRT_DeviceEventPromise* promise);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceEventPromise_FunctionTable, set_ready);

struct PJRT_DeviceEventPromise {
  const struct PJRT_DeviceEventPromise_FunctionTable* vtable;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_DeviceEventPromise, vtable);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_DEVICE_EVENT_H_
