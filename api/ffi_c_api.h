// The XLA FFI C ABI, version 0.5: the interface between a runtime and the handlers of custom calls.
//
// A handler is one C function that takes a call frame and returns NULL or an error. It reaches the runtime only through
// the table in the frame, so a handler that is compiled into any library works with any runtime that fills the table.
// In this file "runtime" is the plugin and "handler" is foreign code.
//
// Everything in a frame is borrowed for the call or, if the handler returns a future, until that future is set. Every
// function of the table may be called from any thread. Arrays are dense and have the layout that the program requested;
// there are no strides, and `dims` are the logical dimensions.
//
// Names, numbers and layouts are those of the published interface; the tests compare every struct. The published size
// of four structs does not include their last fields. These sizes are kept, because the other side compares with them.
#ifndef BACKPLANE_API_FFI_C_API_H_
#define BACKPLANE_API_FFI_C_API_H_

#include <stddef.h>
#include <stdint.h>

#define XLA_FFI_STRUCT_SIZE(struct_type, last_field) \
  (offsetof(struct_type, last_field) + sizeof(((struct_type*)0)->last_field))

#ifdef __cplusplus
#define XLA_FFI_STATIC_ASSERT static_assert
#define XLA_FFI_ALIGNOF alignof
#define XLA_FFI_API_FIELD(fn) ::fn* fn
#else
#define XLA_FFI_STATIC_ASSERT _Static_assert
#define XLA_FFI_ALIGNOF _Alignof
#define XLA_FFI_API_FIELD(fn) fn* fn
#endif

// Names the type and defines `sname_STRUCT_SIZE`. The first form checks that `last_field` is the last one; the second
// is for the structs whose published size stops before it.
#define XLA_FFI_DEFINE_STRUCT_TRAITS(sname, last_field)                                                     \
  XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(sname, last_field);                                                    \
  XLA_FFI_STATIC_ASSERT(                                                                                    \
      sizeof(struct sname) - XLA_FFI_STRUCT_SIZE(struct sname, last_field) < XLA_FFI_ALIGNOF(struct sname), \
      #sname ": " #last_field " is not the last field")
#define XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(sname, last_field) \
  typedef struct sname sname;                                 \
  enum { sname##_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(struct sname, last_field) }

#ifdef __cplusplus
extern "C" {
#endif

typedef struct XLA_FFI_Api XLA_FFI_Api;
typedef struct XLA_FFI_InternalApi XLA_FFI_InternalApi;      // of XLA alone; NULL in other runtimes
typedef struct XLA_FFI_Error XLA_FFI_Error;                  // made and freed by the runtime
typedef struct XLA_FFI_Future XLA_FFI_Future;                // made by the runtime
typedef struct XLA_FFI_InvokeContext XLA_FFI_InvokeContext;  // of one call; the runtime's
typedef XLA_FFI_InvokeContext XLA_FFI_ExecutionContext;      // its name up to 0.3

// ---- Extensions and version

// The chains of the interface itself, that begin in the field `extension_start` of its structs.
typedef enum { XLA_FFI_Extension_Metadata = 1 } XLA_FFI_InternalExtension_Type;

struct XLA_FFI_InternalExtension {
  size_t struct_size;
  XLA_FFI_InternalExtension_Type type;
  struct XLA_FFI_InternalExtension* next;  // NULL ends the chain
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_InternalExtension, next);

// An extension of a runtime for handlers. The author of an extension assigns its number and its versions. A context has
// at most one extension of each number, which lives as long as the context. Since 0.4.
struct XLA_FFI_ExtensionId {
  int64_t extension_type;
  int32_t major_version;
  int32_t minor_version;
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_ExtensionId, minor_version);
struct XLA_FFI_Extension {
  size_t struct_size;
  XLA_FFI_ExtensionId id;
  const struct XLA_FFI_Extension* next;  // NULL ends the chain
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Extension, next);

#define XLA_FFI_API_MAJOR 0
#define XLA_FFI_API_MINOR 5

struct XLA_FFI_Api_Version {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  int major_version;
  int minor_version;
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Api_Version, minor_version);

// ---- Errors

// The numbers are those of absl::StatusCode.
typedef enum {
  XLA_FFI_Error_Code_OK = 0,
  XLA_FFI_Error_Code_CANCELLED = 1,
  XLA_FFI_Error_Code_UNKNOWN = 2,
  XLA_FFI_Error_Code_INVALID_ARGUMENT = 3,
  XLA_FFI_Error_Code_DEADLINE_EXCEEDED = 4,
  XLA_FFI_Error_Code_NOT_FOUND = 5,
  XLA_FFI_Error_Code_ALREADY_EXISTS = 6,
  XLA_FFI_Error_Code_PERMISSION_DENIED = 7,
  XLA_FFI_Error_Code_RESOURCE_EXHAUSTED = 8,
  XLA_FFI_Error_Code_FAILED_PRECONDITION = 9,
  XLA_FFI_Error_Code_ABORTED = 10,
  XLA_FFI_Error_Code_OUT_OF_RANGE = 11,
  XLA_FFI_Error_Code_UNIMPLEMENTED = 12,
  XLA_FFI_Error_Code_INTERNAL = 13,
  XLA_FFI_Error_Code_UNAVAILABLE = 14,
  XLA_FFI_Error_Code_DATA_LOSS = 15,
  XLA_FFI_Error_Code_UNAUTHENTICATED = 16
} XLA_FFI_Error_Code;

// Creates an error, which belongs to the handler until the handler returns it or sets it in a future.
struct XLA_FFI_Error_Create_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  const char* message;      // in: terminated by NUL; copied
  XLA_FFI_Error_Code errc;  // in
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Error_Create_Args, errc);
typedef XLA_FFI_Error* XLA_FFI_Error_Create(XLA_FFI_Error_Create_Args* args);

// Returns the text and, since 0.4, the code of an error that a function of the table returned.
struct XLA_FFI_Error_GetDetails_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Error* error;     // in
  const char* message;      // out: terminated by NUL; lives as long as the error
  XLA_FFI_Error_Code errc;  // out: since 0.4
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Error_GetDetails_Args, errc);
typedef void XLA_FFI_Error_GetDetails(XLA_FFI_Error_GetDetails_Args* args);

// Frees an error that the handler does not return.
struct XLA_FFI_Error_Destroy_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Error* error;  // in: may be NULL
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Error_Destroy_Args, error);
typedef void XLA_FFI_Error_Destroy(XLA_FFI_Error_Destroy_Args* args);

// ---- Values

// The type of an element. The numbers are those of XLA's PrimitiveType, not those of PJRT_Buffer_Type.
typedef enum {
  XLA_FFI_DataType_INVALID = 0,
  XLA_FFI_DataType_PRED = 1,
  XLA_FFI_DataType_S8 = 2,
  XLA_FFI_DataType_S16 = 3,
  XLA_FFI_DataType_S32 = 4,
  XLA_FFI_DataType_S64 = 5,
  XLA_FFI_DataType_U8 = 6,
  XLA_FFI_DataType_U16 = 7,
  XLA_FFI_DataType_U32 = 8,
  XLA_FFI_DataType_U64 = 9,
  XLA_FFI_DataType_F16 = 10,
  XLA_FFI_DataType_F32 = 11,
  XLA_FFI_DataType_F64 = 12,
  XLA_FFI_DataType_C64 = 15,
  XLA_FFI_DataType_BF16 = 16,
  XLA_FFI_DataType_TOKEN = 17,  // rank 0, no data
  XLA_FFI_DataType_C128 = 18,
  XLA_FFI_DataType_F8E5M2 = 19,
  XLA_FFI_DataType_F8E4M3FN = 20,
  XLA_FFI_DataType_S4 = 21,
  XLA_FFI_DataType_U4 = 22,
  XLA_FFI_DataType_F8E4M3B11FNUZ = 23,
  XLA_FFI_DataType_F8E5M2FNUZ = 24,
  XLA_FFI_DataType_F8E4M3FNUZ = 25,
  XLA_FFI_DataType_S2 = 26,
  XLA_FFI_DataType_U2 = 27,
  XLA_FFI_DataType_F8E4M3 = 28,
  XLA_FFI_DataType_F8E3M4 = 29,
  XLA_FFI_DataType_S1 = 30,
  XLA_FFI_DataType_U1 = 31,
  XLA_FFI_DataType_F4E2M1FN = 32,
  XLA_FFI_DataType_F8E8M0FNU = 33
} XLA_FFI_DataType;

// An operand or a result.
struct XLA_FFI_Buffer {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_DataType dtype;
  void* data;  // valid memory from the prepare stage on; its contents in the execute stage only
  int64_t rank;
  int64_t* dims;  // `rank` elements
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Buffer, dims);

typedef enum { XLA_FFI_ArgType_BUFFER = 1 } XLA_FFI_ArgType;

typedef enum { XLA_FFI_RetType_BUFFER = 1 } XLA_FFI_RetType;

// The kind of an attribute, which determines the type to which its pointer points.
typedef enum {
  XLA_FFI_AttrType_ARRAY = 1,       // XLA_FFI_Array
  XLA_FFI_AttrType_DICTIONARY = 2,  // XLA_FFI_Attrs
  XLA_FFI_AttrType_SCALAR = 3,      // XLA_FFI_Scalar
  XLA_FFI_AttrType_STRING = 4       // XLA_FFI_ByteSpan
} XLA_FFI_AttrType;

typedef struct XLA_FFI_ByteSpan {
  const char* ptr;  // not terminated by NUL
  size_t len;
} XLA_FFI_ByteSpan;

typedef struct XLA_FFI_Scalar {
  XLA_FFI_DataType dtype;
  void* value;
} XLA_FFI_Scalar;

typedef struct XLA_FFI_Array {
  XLA_FFI_DataType dtype;
  size_t size;  // elements
  void* data;
} XLA_FFI_Array;

// ---- Types of states and user data

// Ids come from two sources in one process: counters of a runtime, and addresses of statics in a handler's library.
typedef struct XLA_FFI_TypeId {
  int64_t type_id;  // 0: not known yet
} XLA_FFI_TypeId;

struct XLA_FFI_TypeInfo {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  void (*deleter)(void* object);  // frees a state of this type; may be NULL
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_TypeInfo, deleter);

// ---- Futures: a handler that goes on after its return creates one, puts it into the frame, and sets it once

// Creates a future, which belongs to the handler until it is set.
struct XLA_FFI_Future_Create_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Future* future;  // out; past the published size, written all the same
};
XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(XLA_FFI_Future_Create_Args, extension_start);
typedef XLA_FFI_Error* XLA_FFI_Future_Create(XLA_FFI_Future_Create_Args* args);

// Sets the future: the call is complete.
struct XLA_FFI_Future_SetAvailable_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Future* future;  // in: invalid after the call
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Future_SetAvailable_Args, future);
typedef XLA_FFI_Error* XLA_FFI_Future_SetAvailable(XLA_FFI_Future_SetAvailable_Args* args);

// Sets the future: the call has failed.
struct XLA_FFI_Future_SetError_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Future* future;  // in: invalid after the call
  XLA_FFI_Error* error;    // in: taken by the runtime
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Future_SetError_Args, error);
typedef XLA_FFI_Error* XLA_FFI_Future_SetError(XLA_FFI_Future_SetError_Args* args);

// ---- The call frame

// Instantiate runs once for each call site when the executable is made: attributes, no buffers. Prepare and initialize
// run before each execution; execute does the work. Record, since 0.4, writes the work into a device's command buffer
// instead of doing it; a runtime without such buffers never asks for it.
typedef enum {
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  XLA_FFI_ExecutionStage_PREPARE = 1,
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  XLA_FFI_ExecutionStage_EXECUTE = 3,
  XLA_FFI_ExecutionStage_RECORD = 4
} XLA_FFI_ExecutionStage;

struct XLA_FFI_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  int64_t size;
  XLA_FFI_ArgType* types;  // `size` elements
  void** args;             // `size` pointers to XLA_FFI_Buffer
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Args, args);

struct XLA_FFI_Rets {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  int64_t size;
  XLA_FFI_RetType* types;  // `size` elements
  void** rets;             // `size` pointers to XLA_FFI_Buffer
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Rets, rets);

// Attributes, sorted by name.
struct XLA_FFI_Attrs {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  int64_t size;
  XLA_FFI_AttrType* types;   // `size` elements
  XLA_FFI_ByteSpan** names;  // `size` elements
  void** attrs;              // `size` pointers, to what the type says
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Attrs, attrs);

// Handlers compare `struct_size` for equality with XLA_FFI_CallFrame_STRUCT_SIZE, which is 168 and does not cover
// `future`. The runtime allocates the whole struct, zeroed.
struct XLA_FFI_CallFrame {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;  // a metadata extension, when only metadata is wanted
  const XLA_FFI_Api* api;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_Args args;
  XLA_FFI_Rets rets;
  XLA_FFI_Attrs attrs;
  XLA_FFI_Future* future;  // out: set by a handler that goes on after its return
};
XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(XLA_FFI_CallFrame, attrs);

// ---- Handlers and their registration

typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame);

typedef struct XLA_FFI_Handler_Bundle {
  XLA_FFI_Handler* instantiate;  // may be NULL
  XLA_FFI_Handler* prepare;      // may be NULL
  XLA_FFI_Handler* initialize;   // may be NULL
  XLA_FFI_Handler* execute;
  XLA_FFI_Handler* record;  // may be NULL; since 0.4
} XLA_FFI_Handler_Bundle;

enum XLA_FFI_Handler_TraitsBits {
  XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1u << 0  // may be recorded once and replayed
};
typedef uint32_t XLA_FFI_Handler_Traits;

// Registers the handlers of a target. Up to 0.3 the bundle lacked its last field: `traits` stood 8 bytes earlier and
// the size was 84.
struct XLA_FFI_Handler_Register_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_ByteSpan name;          // in: of the target; copied
  XLA_FFI_ByteSpan platform;      // in: copied; compared without regard to case
  XLA_FFI_Handler_Bundle bundle;  // in: callable until the process ends
  XLA_FFI_Handler_Traits traits;  // in
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Handler_Register_Args, traits);
typedef XLA_FFI_Error* XLA_FFI_Handler_Register(XLA_FFI_Handler_Register_Args* args);

// Assigns an id to a type, or registers an id of the caller.
struct XLA_FFI_Type_Register_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_ByteSpan name;              // in: copied
  XLA_FFI_TypeId* type_id;            // in: 0 to be given an id, else the caller's own; out: the id
  const XLA_FFI_TypeInfo* type_info;  // in: copied; past the published size, present all the same
};
XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(XLA_FFI_Type_Register_Args, type_id);
typedef XLA_FFI_Error* XLA_FFI_Type_Register(XLA_FFI_Type_Register_Args* args);

// ---- What a handler asks for during a call

// Returns user data that the host added to the execute context under this type, or NOT_FOUND.
struct XLA_FFI_InvokeContext_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  XLA_FFI_TypeId* type_id;     // in
  void* data;                  // out: borrowed
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_InvokeContext_Get_Args, data);
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_Get(XLA_FFI_InvokeContext_Get_Args* args);

// Returns the extension of this number, or NULL. Since 0.4.
struct XLA_FFI_InvokeContext_FindExtension_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;          // in
  int64_t extension_type;              // in
  const XLA_FFI_Extension* extension;  // out: borrowed
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_InvokeContext_FindExtension_Args, extension);
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_FindExtension(XLA_FFI_InvokeContext_FindExtension_Args* args);

// Returns the options of the host for this execution, besides the attributes of the call. The dictionary is empty if
// there are none. Since 0.5.
struct XLA_FFI_CustomOptions_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  const XLA_FFI_Attrs* attrs;  // out: borrowed
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_CustomOptions_Get_Args, attrs);
typedef XLA_FFI_Error* XLA_FFI_CustomOptions_Get(XLA_FFI_CustomOptions_Get_Args* args);

// Stores a state for later stages. The state of instantiate lives as long as the executable, those of other stages as
// long as the execution. Then the deleter of the type frees it.
struct XLA_FFI_State_Set_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;    // in
  XLA_FFI_ExecutionStage stage;  // in: the stage that runs
  XLA_FFI_TypeId* type_id;       // in
  void* state;                   // in: taken by the runtime
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_State_Set_Args, state);
typedef XLA_FFI_Error* XLA_FFI_State_Set(XLA_FFI_State_Set_Args* args);

// Returns the state that a stage of this call site stored.
struct XLA_FFI_State_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;    // in
  XLA_FFI_ExecutionStage stage;  // in: the stage that stored it
  XLA_FFI_TypeId* type_id;       // in: must be the type with which it was stored
  void* state;                   // out: stays the runtime's
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_State_Get_Args, state);
typedef XLA_FFI_Error* XLA_FFI_State_Get(XLA_FFI_State_Get_Args* args);

// Returns the stream of the platform on which the call runs.
struct XLA_FFI_Stream_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  void* stream;                // out: NULL where there are no streams
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Stream_Get_Args, stream);
typedef XLA_FFI_Error* XLA_FFI_Stream_Get(XLA_FFI_Stream_Get_Args* args);

// Allocate and free scratch memory on the device.
struct XLA_FFI_DeviceMemory_Allocate_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  size_t size;                 // in: in bytes
  size_t alignment;            // in: in bytes
  void* data;                  // out: freed by the handler
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_DeviceMemory_Allocate_Args, data);
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args);

struct XLA_FFI_DeviceMemory_Free_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  size_t size;                 // in: as allocated
  void* data;                  // in
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_DeviceMemory_Free_Args, data);
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Free(XLA_FFI_DeviceMemory_Free_Args* args);

typedef void XLA_FFI_Task(void* data);

// Runs a task on a thread of the runtime, or immediately in the calling thread.
struct XLA_FFI_ThreadPool_Schedule_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  XLA_FFI_Task* task;          // in: called once
  void* data;                  // in: handed to the task unchanged
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_ThreadPool_Schedule_Args, data);
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_Schedule(XLA_FFI_ThreadPool_Schedule_Args* args);

// Returns the number of threads on which tasks run.
struct XLA_FFI_ThreadPool_NumThreads_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  int64_t* num_threads;        // in: memory of the handler; out: at least 1 in it
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_ThreadPool_NumThreads_Args, num_threads);
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args);

// Returns a number that differs between executions.
struct XLA_FFI_RunId_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  int64_t run_id;              // out
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_RunId_Get_Args, run_id);
typedef XLA_FFI_Error* XLA_FFI_RunId_Get(XLA_FFI_RunId_Get_Args* args);

// Returns which of the devices of this process runs the call.
struct XLA_FFI_DeviceOrdinal_Get_Args {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_InvokeContext* ctx;  // in
  int32_t device_ordinal;      // out
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
typedef XLA_FFI_Error* XLA_FFI_DeviceOrdinal_Get(XLA_FFI_DeviceOrdinal_Get_Args* args);

// ---- Metadata

// The metadata of a handler. Before the first use the runtime calls each stage with a metadata extension in the frame;
// the handler fills it in and returns. A stage that creates a state writes the type of the state. That field is beyond
// the published size (36) and must be present all the same.
struct XLA_FFI_Metadata {
  size_t struct_size;
  XLA_FFI_Api_Version api_version;
  XLA_FFI_Handler_Traits traits;
  XLA_FFI_TypeId state_type_id;
};
XLA_FFI_DEFINE_SHORT_STRUCT_TRAITS(XLA_FFI_Metadata, traits);

struct XLA_FFI_Metadata_Extension {
  XLA_FFI_InternalExtension extension_base;
  XLA_FFI_Metadata* metadata;
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Metadata_Extension, metadata);

// ---- The table

struct XLA_FFI_Api {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_Api_Version api_version;
  const XLA_FFI_InternalApi* internal_api;

  XLA_FFI_API_FIELD(XLA_FFI_Error_Create);
  XLA_FFI_API_FIELD(XLA_FFI_Error_GetDetails);
  XLA_FFI_API_FIELD(XLA_FFI_Error_Destroy);
  XLA_FFI_API_FIELD(XLA_FFI_Handler_Register);
  XLA_FFI_API_FIELD(XLA_FFI_Stream_Get);
  XLA_FFI_API_FIELD(XLA_FFI_Type_Register);
  XLA_FFI_API_FIELD(XLA_FFI_InvokeContext_Get);
  XLA_FFI_API_FIELD(XLA_FFI_State_Set);
  XLA_FFI_API_FIELD(XLA_FFI_State_Get);
  XLA_FFI_API_FIELD(XLA_FFI_DeviceMemory_Allocate);
  XLA_FFI_API_FIELD(XLA_FFI_DeviceMemory_Free);
  XLA_FFI_API_FIELD(XLA_FFI_ThreadPool_Schedule);
  XLA_FFI_API_FIELD(XLA_FFI_ThreadPool_NumThreads);
  XLA_FFI_API_FIELD(XLA_FFI_Future_Create);
  XLA_FFI_API_FIELD(XLA_FFI_Future_SetAvailable);
  XLA_FFI_API_FIELD(XLA_FFI_Future_SetError);
  XLA_FFI_API_FIELD(XLA_FFI_RunId_Get);
  XLA_FFI_API_FIELD(XLA_FFI_DeviceOrdinal_Get);
  XLA_FFI_API_FIELD(XLA_FFI_InvokeContext_FindExtension);  // since 0.4
  XLA_FFI_API_FIELD(XLA_FFI_CustomOptions_Get);            // since 0.5
};
XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Api, XLA_FFI_CustomOptions_Get);

XLA_FFI_STATIC_ASSERT(XLA_FFI_CallFrame_STRUCT_SIZE == 168, "handlers compare the size of the call frame for equality");

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_FFI_C_API_H_
