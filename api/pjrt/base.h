// The basis of the PJRT C API: the size rule of structs, the extension chain, the version, and the names of all
// objects.
//
// Every struct that crosses the boundary starts with `struct_size`. The caller writes the STRUCT_SIZE it was
// compiled with; the callee reads and writes only what lies inside it. STRUCT_SIZE is the offset of the last
// field plus the size of that field, without trailing padding, so it may be smaller than sizeof.
#ifndef BACKPLANE_API_PJRT_BASE_H_
#define BACKPLANE_API_PJRT_BASE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_STRUCT_SIZE(struct_type, last_field) \
  (offsetof(struct_type, last_field) + sizeof(((struct_type*)0)->last_field))

#ifdef __cplusplus
#define PJRT_STATIC_ASSERT static_assert
#define PJRT_ALIGNOF alignof
#else
#define PJRT_STATIC_ASSERT _Static_assert
#define PJRT_ALIGNOF _Alignof
#endif

// Names the type, defines `sname_STRUCT_SIZE`, and refuses to compile when `last_field` is not the last one. Used
// with a semicolon after it.
#define PJRT_DEFINE_STRUCT_TRAITS(sname, last_field)                                                                 \
  typedef struct sname sname;                                                                                        \
  enum { sname##_STRUCT_SIZE = PJRT_STRUCT_SIZE(struct sname, last_field) };                                         \
  PJRT_STATIC_ASSERT(sizeof(struct sname) - PJRT_STRUCT_SIZE(struct sname, last_field) < PJRT_ALIGNOF(struct sname), \
                     #sname ": " #last_field " is not the last field")

// A table entry has the name of its function type. In C++ the type is written qualified, because a member may not
// change the meaning of a name that was used unqualified before it.
#ifdef __cplusplus
#define PJRT_API_FIELD(fn) ::fn* fn
#else
#define PJRT_API_FIELD(fn) fn* fn
#endif

// Marks functions whose result must not be dropped; used by hosts that wrap the table.
#if defined(__cplusplus) && defined(__clang__)
#define PJRT_NO_DISCARD [[nodiscard]]
#else
#define PJRT_NO_DISCARD
#endif

#if defined(_WIN32)
#define PJRT_CAPI_EXPORT __declspec(dllexport)
#else
#define PJRT_CAPI_EXPORT __attribute__((visibility("default")))
#endif

// ---- Extensions

// The type of an element of an extension chain. A reader skips types that it does not know.
typedef enum {
  PJRT_Extension_Type_Gpu_Custom_Call = 0,
  PJRT_Extension_Type_Profiler = 1,
  PJRT_Extension_Type_Custom_Partitioner = 2,
  PJRT_Extension_Type_Stream = 3,
  PJRT_Extension_Type_Layouts = 4,
  PJRT_Extension_Type_FFI = 5,
  PJRT_Extension_Type_MemoryDescriptions = 6,
  PJRT_Extension_Type_Triton = 7,
  PJRT_Extension_Type_RawBuffer = 8,     // experimental
  PJRT_Extension_Type_PhaseCompile = 9,  // experimental
  PJRT_Extension_Type_Example = 10,      // reserved for tests; has no published struct
  PJRT_Extension_Type_Unknown = 11,      // never advertised
  PJRT_Extension_Type_CrossHostTransfers = 12,
  PJRT_Extension_Type_ExecutableMetadata = 13,
  PJRT_Extension_Type_Callback = 14,
  PJRT_Extension_Type_HostAllocator = 15,  // superseded by HostMemoryAllocator
  PJRT_Extension_Type_TpuTopology = 16,
  PJRT_Extension_Type_TpuExecutable = 17,
  PJRT_Extension_Type_Megascale = 18,
  PJRT_Extension_Type_Shardings = 19,
  PJRT_Extension_Type_AbiVersion = 20,
  PJRT_Extension_Type_Collectives = 21,
  PJRT_Extension_Type_MultiSlice = 22,
  PJRT_Extension_Type_HostMemoryAllocator = 23,
  PJRT_Extension_Type_XlaTransform = 24,
  // Ours; the published header never uses numbers from here on. This value also makes the enumeration wide enough for
  // any number in a chain.
  PJRT_Extension_Type_PrivateRange = 0x40000000
} PJRT_Extension_Type;

// Head of every extension struct. `PJRT_Api.extension_start` begins the chain of what the plugin offers; it is static
// and never changes after GetPjrtApi returned. `extension_start` of an argument struct begins a chain that the caller
// adds to one call; it is read during that call only.
struct PJRT_Extension_Base {
  size_t struct_size;                // of the whole extension struct, not of this head
  PJRT_Extension_Type type;          // which struct this is the head of
  struct PJRT_Extension_Base* next;  // NULL ends the chain
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Extension_Base, next);

// ---- Version

// The major number changes when something changes its meaning, type or position. Versions with different major numbers
// are not compatible.
#define PJRT_API_MAJOR 0

// The minor number grows with each addition: a slot at the end of the table, a field at the end of a struct, an
// enumerator. The history is in CHANGELOG.md, the layouts of older minors are in abi/.
#define PJRT_API_MINOR 117

// A plugin returns the two numbers of the header with which it was compiled. Both sides compare them before they use a
// slot or field that is newer than the other side; `PJRT_Api.struct_size` is the size of the table.
struct PJRT_Api_Version {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  int major_version;
  int minor_version;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Api_Version, minor_version);

// ---- Objects. A host sees pointers only; the function that creates an object says who frees it.

typedef struct PJRT_Error PJRT_Error;  // first word: table of functions, see error.h
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Memory PJRT_Memory;  // first word: table of functions, see memory.h
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;
typedef struct PJRT_CopyToDeviceStream PJRT_CopyToDeviceStream;
typedef struct PJRT_AsyncHostToDeviceTransferManager PJRT_AsyncHostToDeviceTransferManager;
typedef struct PJRT_AsyncTrackingEvent PJRT_AsyncTrackingEvent;
typedef struct PJRT_FulfillAliasBufferCallback PJRT_FulfillAliasBufferCallback;
typedef struct PJRT_PhaseCompiler PJRT_PhaseCompiler;
typedef struct PJRT_MultiSlice_Config PJRT_MultiSlice_Config;

// Owners of memory to which an out field points. Each is released, once, by the deleter that came with it.
typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;
typedef struct PJRT_SerializedCompileOptions PJRT_SerializedCompileOptions;
typedef struct PJRT_SerializedTopology PJRT_SerializedTopology;
typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
typedef struct PJRT_Device_Attributes PJRT_Device_Attributes;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_BASE_H_
