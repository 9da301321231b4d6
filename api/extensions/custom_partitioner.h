// Extension 2, Custom_Partitioner, version 1: lets the host partition custom calls.
//
// The callback structs have no struct_size; `version` and `api_version` (both 0) take its place. Strings that are
// passed to a callback are borrowed for the call. Strings that a callback sets belong to it: the plugin copies them and
// then calls `cleanup_fn(data)`, if that is set.
#ifndef BACKPLANE_API_EXTENSIONS_CUSTOM_PARTITIONER_H_
#define BACKPLANE_API_EXTENSIONS_CUSTOM_PARTITIONER_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_CUSTOM_PARTITIONER_EXTENSION_VERSION 1

typedef struct JAX_CustomCallPartitioner_string {
  const char* data;
  size_t size;
} JAX_CustomCallPartitioner_string;

// One value: its shape (serialized ShapeProto) and optionally its sharding (serialized OpSharding).
typedef struct JAX_CustomCallPartitioner_aval {
  JAX_CustomCallPartitioner_string shape;
  bool has_sharding;
  JAX_CustomCallPartitioner_string sharding;
} JAX_CustomCallPartitioner_aval;

// Head of the arguments of each callback.
typedef struct JAX_CustomCallPartitioner_version_and_error {
  int64_t api_version;                         // in
  void* data;                                  // out: keeps the out strings alive
  void (*cleanup_fn)(void* data);              // out: NULL, or called once when the strings have been copied
  bool has_error;                              // out
  PJRT_Error_Code code;                        // out, when has_error
  JAX_CustomCallPartitioner_string error_msg;  // out, when has_error
} JAX_CustomCallPartitioner_version_and_error;

typedef struct JAX_CustomCallPartitioner_Partition_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;                                   // in
  JAX_CustomCallPartitioner_aval* op_args;           // in: the operands as sharded
  JAX_CustomCallPartitioner_aval op_result;          // in: the result as sharded
  JAX_CustomCallPartitioner_string backend_config;   // in: of the custom call
  JAX_CustomCallPartitioner_string mlir_module;      // out: what each device computes
  JAX_CustomCallPartitioner_string* args_sharding;   // out: `num_args` shardings that module expects
  JAX_CustomCallPartitioner_string result_sharding;  // out: the sharding it delivers
} JAX_CustomCallPartitioner_Partition_Args;

typedef struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;                                   // in
  JAX_CustomCallPartitioner_aval* op_args;           // in
  JAX_CustomCallPartitioner_string result_shape;     // in
  JAX_CustomCallPartitioner_string backend_config;   // in
  bool has_result_sharding;                          // out
  JAX_CustomCallPartitioner_string result_sharding;  // out, when has_result_sharding
} JAX_CustomCallPartitioner_InferShardingFromOperands_Args;

typedef struct JAX_CustomCallPartitioner_PropagateUserSharding_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  JAX_CustomCallPartitioner_string backend_config;   // in
  JAX_CustomCallPartitioner_string result_shape;     // in
  JAX_CustomCallPartitioner_string result_sharding;  // in: as the user has it; out: as it shall be
} JAX_CustomCallPartitioner_PropagateUserSharding_Args;

// The functions of one target, called during compilation only. Owned by the plugin once registered; `dtor` frees it.
typedef struct JAX_CustomCallPartitioner_Callbacks {
  int64_t version;     // 0
  void* private_data;  // the host's
  void (*dtor)(struct JAX_CustomCallPartitioner_Callbacks* data);
  void (*partition)(struct JAX_CustomCallPartitioner_Callbacks* data, JAX_CustomCallPartitioner_Partition_Args* args);
  void (*infer_sharding)(struct JAX_CustomCallPartitioner_Callbacks* data,
                         JAX_CustomCallPartitioner_InferShardingFromOperands_Args* args);
  void (*propagate_user_sharding)(struct JAX_CustomCallPartitioner_Callbacks* data,
                                  JAX_CustomCallPartitioner_PropagateUserSharding_Args* args);
  bool can_side_effecting_have_replicated_sharding;
} JAX_CustomCallPartitioner_Callbacks;

// Registers a partitioner for a custom-call target; a second one for the same name replaces the first.
struct PJRT_Register_Custom_Partitioner_Args {
  size_t struct_size;
  const char* name;                                // in: copied
  size_t name_size;                                // in
  JAX_CustomCallPartitioner_Callbacks* callbacks;  // in: taken by the plugin
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Register_Custom_Partitioner_Args, callbacks);
typedef PJRT_Error* PJRT_Register_Custom_Partitioner(PJRT_Register_Custom_Partitioner_Args* args);

// Declares that a custom call works independently on each element of its leading batch dimensions, so that it may be
// partitioned along them.
struct PJRT_Register_Batch_Partitionable_Args {
  size_t struct_size;
  const char* name;  // in: copied
  size_t name_size;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Register_Batch_Partitionable_Args, name_size);
typedef PJRT_Error* PJRT_Register_Batch_Partitionable(PJRT_Register_Batch_Partitionable_Args* args);

// The extension.
struct PJRT_Custom_Partitioner_Extension {
  PJRT_Extension_Base base;
  PJRT_Register_Custom_Partitioner* register_custom_partitioner;
  PJRT_Register_Batch_Partitionable* register_batch_partitionable;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Custom_Partitioner_Extension, register_batch_partitionable);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_CUSTOM_PARTITIONER_H_
