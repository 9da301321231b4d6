// Extension 4, Layouts, version 4: the layouts of buffers, parameters and outputs as objects.
//
// With this extension a host may put `mhlo.layout_mode` attributes on the inputs and outputs of a program and
// expects these functions to answer accordingly. The serialized form of a layout is its HLO text, such as
// `{1,0:T(8,128)}`.
#ifndef BACKPLANE_API_EXTENSIONS_LAYOUTS_H_
#define BACKPLANE_API_EXTENSIONS_LAYOUTS_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_LAYOUTS_EXTENSION_VERSION 4

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;

// Frees a layout that the caller owns.
struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_MemoryLayout_Destroy_Args, layout);
typedef PJRT_Error* PJRT_Layouts_MemoryLayout_Destroy(PJRT_Layouts_MemoryLayout_Destroy_Args* args);

// Returns the text of a layout.
struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;                                           // in
  const char* serialized_bytes;                                                // out: live until the deleter is called
  size_t serialized_bytes_size;                                                // out
  PJRT_Layouts_SerializedLayout* serialized_layout;                            // out: keeps the bytes alive
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* s_layout);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_layout_deleter);
typedef PJRT_Error* PJRT_Layouts_MemoryLayout_Serialize(PJRT_Layouts_MemoryLayout_Serialize_Args* args);

// Returns the layout of a buffer.
struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;                // in
  PJRT_Layouts_MemoryLayout* layout;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, layout);
typedef PJRT_Error* PJRT_Layouts_PJRT_Buffer_MemoryLayout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args);

// Returns the layout of an array for which the host requests none.
struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;                // in
  PJRT_Buffer_Type type;              // in
  const int64_t* dims;                // in: borrowed for the call
  size_t num_dims;                    // in
  PJRT_Layouts_MemoryLayout* layout;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout);
typedef PJRT_Error* PJRT_Layouts_PJRT_Client_GetDefaultLayout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args);

// Like PJRT_Layouts_PJRT_Client_GetDefaultLayout, for a topology.
struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology_description;  // in
  PJRT_Buffer_Type type;                           // in
  const int64_t* dims;                             // in: borrowed for the call
  size_t num_dims;                                 // in
  PJRT_Layouts_MemoryLayout* layout;               // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, layout);
typedef PJRT_Error* PJRT_Layouts_PJRT_Topology_GetDefaultLayout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args);

// Returns the layout of each output. Since 0.81.
struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;          // in
  size_t num_outputs;                   // out
  PJRT_Layouts_MemoryLayout** layouts;  // out: list and layouts belong to the executable and live as long as it
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, layouts);
typedef PJRT_Error* PJRT_Layouts_PJRT_Executable_GetOutputLayouts(
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args);

// Returns the layout of each parameter. Since 0.93.
struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;          // in
  size_t num_parameters;                // out
  PJRT_Layouts_MemoryLayout** layouts;  // out: list and layouts belong to the executable and live as long as it
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, layouts);
typedef PJRT_Error* PJRT_Layouts_PJRT_Executable_GetParameterLayouts(
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* args);

// The extension.
struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_API_FIELD(PJRT_Layouts_MemoryLayout_Destroy);
  PJRT_API_FIELD(PJRT_Layouts_MemoryLayout_Serialize);
  PJRT_API_FIELD(PJRT_Layouts_PJRT_Client_GetDefaultLayout);
  PJRT_API_FIELD(PJRT_Layouts_PJRT_Buffer_MemoryLayout);
  PJRT_API_FIELD(PJRT_Layouts_PJRT_Topology_GetDefaultLayout);
  PJRT_API_FIELD(PJRT_Layouts_PJRT_Executable_GetOutputLayouts);
  PJRT_API_FIELD(PJRT_Layouts_PJRT_Executable_GetParameterLayouts);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Layouts_Extension, PJRT_Layouts_PJRT_Executable_GetParameterLayouts);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_LAYOUTS_H_
