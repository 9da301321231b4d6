// Extension 5, FFI, version 3: registers handlers of custom calls, and the types and the data that they use. The
// interface of the handlers themselves is in ffi_c_api.h.
#ifndef BACKPLANE_API_EXTENSIONS_FFI_H_
#define BACKPLANE_API_EXTENSIONS_FFI_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_FFI_EXTENSION_VERSION 3

// The functions that handle objects of a type. The two reserved members are NULL.
typedef struct PJRT_FFI_Type_Info {
  void (*deleter)(void* object);  // frees a state; may be NULL
  void (*serialize)(void);        // reserved
  void (*deserialize)(void);      // reserved
} PJRT_FFI_Type_Info;

// Assigns an id to a type, or registers an id of the caller.
struct PJRT_FFI_Type_Register_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;          // in: copied
  size_t type_name_size;          // in
  int64_t type_id;                // in: 0 to be given one, else the caller's own, which must not clash; out: the id
  PJRT_FFI_Type_Info* type_info;  // in: copied; may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_FFI_Type_Register_Args, type_info);
typedef PJRT_Error* PJRT_FFI_Type_Register(PJRT_FFI_Type_Register_Args* args);

// A pointer for the handlers of one execution, found by the id of its type.
typedef struct PJRT_FFI_UserData {
  int64_t type_id;
  void* data;  // borrowed until the execution is complete
} PJRT_FFI_UserData;

// Adds data to an execute context. The size is 40. Version 2 had one more field, so both sizes occur.
struct PJRT_FFI_UserData_Add_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;  // in
  PJRT_FFI_UserData user_data;   // in: copied
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_FFI_UserData_Add_Args, user_data);
typedef PJRT_Error* PJRT_FFI_UserData_Add(PJRT_FFI_UserData_Add_Args* args);

typedef enum PJRT_FFI_Handler_TraitsBits {
  PJRT_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1u << 0  // may be recorded once and replayed
} PJRT_FFI_Handler_TraitsBits;

// Registers the execute handler of a target. Handlers with more stages go through extension 0.
struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char* target_name;             // in: copied
  size_t target_name_size;             // in
  void* handler;                       // in: XLA_FFI_Handler*, callable until the process ends
  const char* platform_name;           // in: copied; compared without regard to case
  size_t platform_name_size;           // in
  PJRT_FFI_Handler_TraitsBits traits;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_FFI_Register_Handler_Args, traits);
typedef PJRT_Error* PJRT_FFI_Register_Handler(PJRT_FFI_Register_Handler_Args* args);

// The extension. It has two names.
typedef struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  PJRT_FFI_Type_Register* type_register;
  PJRT_FFI_UserData_Add* user_data_add;
  PJRT_FFI_Register_Handler* register_handler;
} PJRT_FFI;
PJRT_DEFINE_STRUCT_TRAITS(PJRT_FFI_Extension, register_handler);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_FFI_H_
