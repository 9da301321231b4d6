// Extension 24, XlaTransform, version 1: lets the host change a program while it is compiled.
#ifndef BACKPLANE_API_EXTENSIONS_XLA_TRANSFORM_H_
#define BACKPLANE_API_EXTENSIONS_XLA_TRANSFORM_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION 1

typedef struct PJRT_XlaTransform_string {
  const char* data;
  size_t size;
} PJRT_XlaTransform_string;

// Head of the arguments of a callback. Strings that the callback sets belong to it: the plugin copies them and then
// calls `cleanup_fn(data)`, if there is one.
typedef struct PJRT_XlaTransform_version_and_error {
  int64_t api_version;                 // in: PJRT_API_XLA_TRANSFORM_EXTENSION_VERSION
  void* data;                          // out
  void (*cleanup_fn)(void* data);      // out: may be NULL
  bool has_error;                      // out
  PJRT_Error_Code code;                // out, when has_error
  PJRT_XlaTransform_string error_msg;  // out, when has_error
} PJRT_XlaTransform_version_and_error;

// One transformation.
struct PJRT_XlaTransform_Args {
  size_t struct_size;
  PJRT_XlaTransform_version_and_error header;
  PJRT_XlaTransform_string hlo_module;              // in: serialized HloModuleProto, borrowed for the call
  PJRT_XlaTransform_string transformed_hlo_module;  // out: serialized HloModuleProto, when changed
  bool changed;                                     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_XlaTransform_Args, changed);

// The functions of the host; each may be NULL. Taken by the plugin once registered; `dtor` frees it.
typedef struct PJRT_XlaTransform_Callbacks {
  int64_t version;
  void (*dtor)(struct PJRT_XlaTransform_Callbacks* data);
  void (*transform_hlo_module)(struct PJRT_XlaTransform_Callbacks* data, PJRT_XlaTransform_Args* args);
} PJRT_XlaTransform_Callbacks;

// When a transformation runs.
typedef enum {
  PJRT_XlaTransform_PipelineStage_kPreScheduler = 0,
  PJRT_XlaTransform_PipelineStage_kPostScheduler = 1
} PJRT_XlaTransform_PipelineStage;

// Registers a transformation.
struct PJRT_Register_Xla_Transform_Args {
  size_t struct_size;
  const char* name;                        // in: copied
  size_t name_size;                        // in
  PJRT_XlaTransform_PipelineStage stage;   // in
  PJRT_XlaTransform_Callbacks* callbacks;  // in: taken by the plugin
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Register_Xla_Transform_Args, callbacks);
typedef PJRT_Error* (*PJRT_Register_Xla_Transform_Fn)(PJRT_Register_Xla_Transform_Args* args);

// Unregisters a transformation.
struct PJRT_Clear_Xla_Transform_Args {
  size_t struct_size;
  PJRT_XlaTransform_PipelineStage stage;   // in
  const char* name;                        // in: borrowed for the call
  size_t name_size;                        // in
  PJRT_XlaTransform_Callbacks* callbacks;  // in
  bool cleared;                            // out: false when there was none
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Clear_Xla_Transform_Args, cleared);
typedef PJRT_Error* (*PJRT_Clear_Xla_Transform_Fn)(PJRT_Clear_Xla_Transform_Args* args);

// The extension.
struct PJRT_Xla_Transform_Extension {
  PJRT_Extension_Base base;
  PJRT_Register_Xla_Transform_Fn register_xla_transform;
  PJRT_Clear_Xla_Transform_Fn clear_xla_transform;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Xla_Transform_Extension, clear_xla_transform);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_XLA_TRANSFORM_H_
