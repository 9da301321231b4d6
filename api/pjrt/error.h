// Errors, named values, and the attributes of a plugin.
//
// Nearly every function returns a PJRT_Error*: NULL is success, anything else belongs to the caller, who frees
// it with PJRT_Error_Destroy. After an error the out fields hold nothing.
#ifndef BACKPLANE_API_PJRT_ERROR_H_
#define BACKPLANE_API_PJRT_ERROR_H_

#include "api/pjrt/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The numbers are those of absl::StatusCode.
typedef enum {
  PJRT_Error_Code_OK = 0,  // carried by events and callbacks; an error object never has it
  PJRT_Error_Code_CANCELLED = 1,
  PJRT_Error_Code_UNKNOWN = 2,
  PJRT_Error_Code_INVALID_ARGUMENT = 3,
  PJRT_Error_Code_DEADLINE_EXCEEDED = 4,
  PJRT_Error_Code_NOT_FOUND = 5,
  PJRT_Error_Code_ALREADY_EXISTS = 6,
  PJRT_Error_Code_PERMISSION_DENIED = 7,
  PJRT_Error_Code_RESOURCE_EXHAUSTED = 8,
  PJRT_Error_Code_FAILED_PRECONDITION = 9,
  PJRT_Error_Code_ABORTED = 10,
  PJRT_Error_Code_OUT_OF_RANGE = 11,
  PJRT_Error_Code_UNIMPLEMENTED = 12,
  PJRT_Error_Code_INTERNAL = 13,
  PJRT_Error_Code_UNAVAILABLE = 14,
  PJRT_Error_Code_DATA_LOSS = 15,
  PJRT_Error_Code_UNAUTHENTICATED = 16
} PJRT_Error_Code;

// Receives one payload of an error. Key and value are borrowed for the call; the value may hold any bytes.
typedef void (*PJRT_Error_PayloadVisitor)(const char* key, size_t key_size, const char* value, size_t value_size,
                                          void* user_arg);

// Since 0.107 an error object can be read without the table of the plugin that made it: its first word points to this
// table, which lives as long as the plugin. An error made on either side of the boundary can cross to the other.
struct PJRT_Error_FunctionTable {
  size_t struct_size;
  size_t instance_size;  // PJRT_Error_STRUCT_SIZE of its creator
  PJRT_Extension_Base* extension_start;
  void (*destroy)(PJRT_Error* error);  // frees the error
  // Message and size have the lifetime of the error; not necessarily terminated by NUL.
  void (*message)(const PJRT_Error* error, const char** message, size_t* message_size);
  PJRT_Error_Code (*get_code)(const PJRT_Error* error);
  void (*for_each_payload)(const PJRT_Error* error, PJRT_Error_PayloadVisitor visitor, void* user_arg);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error_FunctionTable, for_each_payload);

struct PJRT_Error {
  const struct PJRT_Error_FunctionTable* vtable;  // never NULL; the rest of the object belongs to its creator
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error, vtable);

// Frees an error.
struct PJRT_Error_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Error* error;  // in: may be NULL; invalid after the call
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error_Destroy_Args, error);
typedef void PJRT_Error_Destroy(PJRT_Error_Destroy_Args* args);

// Returns the message of an error.
struct PJRT_Error_Message_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;  // in
  const char* message;      // out: owned by the error, lives as long as it
  size_t message_size;      // out: in bytes, without a terminator
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error_Message_Args, message_size);
typedef void PJRT_Error_Message(PJRT_Error_Message_Args* args);

// Returns the code of an error.
struct PJRT_Error_GetCode_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;  // in
  PJRT_Error_Code code;     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error_GetCode_Args, code);
typedef PJRT_Error* PJRT_Error_GetCode(PJRT_Error_GetCode_Args* args);

// Calls `visitor` once for each payload, in the calling thread, before it returns. Since 0.99.
struct PJRT_Error_ForEachPayload_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;            // in
  PJRT_Error_PayloadVisitor visitor;  // in
  void* user_arg;                     // in: passed to the visitor unchanged
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Error_ForEachPayload_Args, user_arg);
typedef PJRT_Error* PJRT_Error_ForEachPayload(PJRT_Error_ForEachPayload_Args* args);

// Given by a plugin to a callback of the host, so that the callback can return an error. The message is copied. The
// returned error belongs to the plugin once the callback has returned it.
typedef PJRT_Error* (*PJRT_CallbackError)(PJRT_Error_Code code, const char* message, size_t message_size);

// ---- Named values

typedef enum {
  PJRT_NamedValue_kString = 0,
  PJRT_NamedValue_kInt64 = 1,
  PJRT_NamedValue_kInt64List = 2,
  PJRT_NamedValue_kFloat = 3,
  PJRT_NamedValue_kBool = 4
} PJRT_NamedValue_Type;

// One entry of a list of options, attributes, costs or payloads. All pointers belong to the creator of the list.
struct PJRT_NamedValue {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* name;  // not necessarily terminated by NUL
  size_t name_size;
  PJRT_NamedValue_Type type;  // which member of the union is set
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // bytes of a string, elements of a list, 1 for the others
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_NamedValue, value_size);

// ---- Plugin

// Initializes the plugin. A host calls it once, before any other function; it may read the version and the extension
// chain before.
struct PJRT_Plugin_Initialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Plugin_Initialize_Args, extension_start);
typedef PJRT_Error* PJRT_Plugin_Initialize(PJRT_Plugin_Initialize_Args* args);

// Returns attributes of the plugin, which can be read before a client exists. Hosts look for `xla_version` (int64),
// `stablehlo_current_version` and `stablehlo_minimum_version` (lists of three int64), and write portable programs of a
// StableHLO version between the two.
struct PJRT_Plugin_Attributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_NamedValue* attributes;  // out: lives until the process ends
  size_t num_attributes;              // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Plugin_Attributes_Args, num_attributes);
typedef PJRT_Error* PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_ERROR_H_
