// Topologies: descriptions of devices that need not exist here, for compilation.
#ifndef BACKPLANE_API_PJRT_TOPOLOGY_H_
#define BACKPLANE_API_PJRT_TOPOLOGY_H_

#include "api/pjrt/error.h"
#include "api/pjrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates a topology from a platform-specific name.
struct PJRT_TopologyDescription_Create_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* topology_name;              // in: borrowed for the call; may be empty for the default
  size_t topology_name_size;              // in
  const PJRT_NamedValue* create_options;  // in: borrowed for the call
  size_t num_options;                     // in
  PJRT_TopologyDescription* topology;     // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Create_Args, topology);
typedef PJRT_Error* PJRT_TopologyDescription_Create(PJRT_TopologyDescription_Create_Args* args);

// Frees a topology that the caller owns.
struct PJRT_TopologyDescription_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Destroy_Args, topology);
typedef PJRT_Error* PJRT_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args* args);

// Like PJRT_Client_PlatformVersion.
struct PJRT_TopologyDescription_PlatformVersion_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology;  // in
  const char* platform_version;        // out: lives as long as the topology
  size_t platform_version_size;        // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_PlatformVersion_Args, platform_version_size);
typedef PJRT_Error* PJRT_TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args* args);

// Like PJRT_Client_PlatformName.
struct PJRT_TopologyDescription_PlatformName_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;  // in
  const char* platform_name;                 // out: lives as long as the topology
  size_t platform_name_size;                 // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_PlatformName_Args, platform_name_size);
typedef PJRT_Error* PJRT_TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args* args);

// Returns the descriptions of the devices, in the same order at each call.
struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;     // in
  PJRT_DeviceDescription* const* descriptions;  // out: list and descriptions live as long as the topology
  size_t num_descriptions;                      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, num_descriptions);
typedef PJRT_Error* PJRT_TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args* args);

// Serializes the topology. The bytes can be used in a cache key.
struct PJRT_TopologyDescription_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology;            // in
  const char* serialized_bytes;                  // out: live until the deleter is called
  size_t serialized_bytes_size;                  // out
  PJRT_SerializedTopology* serialized_topology;  // out: keeps the bytes alive
  // out: the caller calls it once
  void (*serialized_topology_deleter)(PJRT_SerializedTopology* serialized_topology);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Serialize_Args, serialized_topology_deleter);
typedef PJRT_Error* PJRT_TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args* args);

// Creates a topology from the bytes of PJRT_TopologyDescription_Serialize. Since 0.75.
struct PJRT_TopologyDescription_Deserialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* serialized_topology;     // in: borrowed for the call
  size_t serialized_topology_size;     // in
  PJRT_TopologyDescription* topology;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Deserialize_Args, topology);
typedef PJRT_Error* PJRT_TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args* args);

// Returns platform-specific attributes.
struct PJRT_TopologyDescription_Attributes_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology;  // in
  const PJRT_NamedValue* attributes;   // out: live as long as the topology
  size_t num_attributes;               // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Attributes_Args, num_attributes);
typedef PJRT_Error* PJRT_TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args* args);

// Returns a number that is equal for equal topologies. Since 0.101.
struct PJRT_TopologyDescription_Fingerprint_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;  // in
  uint64_t fingerprint;                      // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_Fingerprint_Args, fingerprint);
typedef PJRT_Error* PJRT_TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args* args);

// Returns the shape, with its layout, that an array has in a memory of this kind. Since 0.109.
struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;  // in
  int memory_space_kind_id;                  // in: as of PJRT_Memory_Kind_Id
  const int64_t* dims;                       // in: borrowed for the call
  size_t num_dims;                           // in
  PJRT_Buffer_Type element_type;             // in
  const PJRT_Buffer_MemoryLayout* layout;    // in: the layout wished for, or NULL
  const char* serialized_shape;              // out: ShapeProto; lives until the deleter is called
  size_t serialized_shape_size;              // out
  // out: the caller calls it once with `serialized_shape`
  void (*serialized_shape_deleter)(const char* serialized_shape);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, serialized_shape_deleter);
typedef PJRT_Error* PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace(
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args* args);

// Returns the kinds of memory that the devices have. Since 0.110.
struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;  // in
  const int* memory_space_kind_ids;          // out: lives as long as the topology
  size_t num_memory_space_kind_ids;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, num_memory_space_kind_ids);
typedef PJRT_Error* PJRT_TopologyDescription_GetMemorySpaceKindIds(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args* args);

// Compiles a program for a topology, without a client.
struct PJRT_Compile_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_TopologyDescription* topology;  // in
  const PJRT_Program* program;               // in: borrowed for the call, with all it points to
  const char* compile_options;               // in: serialized CompileOptionsProto, borrowed for the call
  size_t compile_options_size;               // in
  PJRT_Client* client;                       // in: may be NULL; a client the compiler may measure on
  PJRT_Executable* executable;               // out: owned by the caller; PJRT_Client_Load makes it runnable
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Compile_Args, executable);
typedef PJRT_Error* PJRT_Compile(PJRT_Compile_Args* args);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_TOPOLOGY_H_
