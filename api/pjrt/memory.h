// Memory spaces. They belong to the client and live as long as it.
#ifndef BACKPLANE_API_PJRT_MEMORY_H_
#define BACKPLANE_API_PJRT_MEMORY_H_

#include "api/pjrt/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PJRT_Memory_FunctionTable PJRT_Memory_FunctionTable;

// Since 0.105 the first word of a memory points to this table, which lives as long as the plugin. A host keeps its own
// data at a memory with it; both functions are thread-safe.
struct PJRT_Memory_FunctionTable {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  size_t instance_struct_size;  // PJRT_Memory_STRUCT_SIZE of the plugin
  // Returns what was last set for `key`, or NULL. Keys are compared by address.
  void* (*get_user_data)(PJRT_Memory* memory, const void* key);
  // Sets the data for `key`. `dtor` (may be NULL) is called with it when it is replaced or the memory is destroyed.
  void (*set_user_data)(PJRT_Memory* memory, const void* key, void* data, void (*dtor)(void* data));
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_FunctionTable, set_user_data);

struct PJRT_Memory {
  const struct PJRT_Memory_FunctionTable* vtable;  // never NULL; the rest of the object is the plugin's
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory, vtable);

// Returns the id of a memory, which is unique among the memories of the client.
struct PJRT_Memory_Id_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;  // in
  int id;               // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_Id_Args, id);
typedef PJRT_Error* PJRT_Memory_Id(PJRT_Memory_Id_Args* args);

// Returns the kind of a memory: `device`, `pinned_host`, `unpinned_host`, or a platform-specific name.
struct PJRT_Memory_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;  // in
  const char* kind;     // out: lives as long as the memory
  size_t kind_size;     // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_Kind_Args, kind_size);
typedef PJRT_Error* PJRT_Memory_Kind(PJRT_Memory_Kind_Args* args);

// Returns a number for the kind, which is the same for all memories of that kind. Since 0.48.
struct PJRT_Memory_Kind_Id_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;  // in
  int kind_id;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_Kind_Id_Args, kind_id);
typedef PJRT_Error* PJRT_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args* args);

// Returns a long description, for logs.
struct PJRT_Memory_DebugString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;       // in
  const char* debug_string;  // out: lives as long as the memory
  size_t debug_string_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_DebugString_Args, debug_string_size);
typedef PJRT_Error* PJRT_Memory_DebugString(PJRT_Memory_DebugString_Args* args);

// Returns a short description, for users.
struct PJRT_Memory_ToString_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;    // in
  const char* to_string;  // out: lives as long as the memory
  size_t to_string_size;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_ToString_Args, to_string_size);
typedef PJRT_Error* PJRT_Memory_ToString(PJRT_Memory_ToString_Args* args);

// Returns the devices that can use the memory.
struct PJRT_Memory_AddressableByDevices_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Memory* memory;          // in
  PJRT_Device* const* devices;  // out: list and devices live as long as the memory
  size_t num_devices;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Memory_AddressableByDevices_Args, num_devices);
typedef PJRT_Error* PJRT_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_MEMORY_H_
