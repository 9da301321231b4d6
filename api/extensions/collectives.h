// Extension 21, Collectives, version 1: collective operations between processes, driven by the host.
#ifndef BACKPLANE_API_EXTENSIONS_COLLECTIVES_H_
#define BACKPLANE_API_EXTENSIONS_COLLECTIVES_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_COLLECTIVES_EXTENSION_VERSION 1

typedef struct PJRT_Collectives PJRT_Collectives;
typedef struct PJRT_Collectives_Communicator PJRT_Collectives_Communicator;
typedef struct PJRT_Collectives_Communicators PJRT_Collectives_Communicators;
typedef struct PJRT_Collectives_ToString_Holder PJRT_Collectives_ToString_Holder;

// Enumerations of 32 bits: in C an int32_t and its constants.
#ifdef __cplusplus
enum PJRT_Collectives_ReductionKind : int32_t {
#else
typedef int32_t PJRT_Collectives_ReductionKind;
enum {
#endif
  PJRT_COLLECTIVES_REDUCTION_SUM = 0,
  PJRT_COLLECTIVES_REDUCTION_PRODUCT = 1,
  PJRT_COLLECTIVES_REDUCTION_MIN = 2,
  PJRT_COLLECTIVES_REDUCTION_MAX = 3
};

#ifdef __cplusplus
enum PJRT_Collectives_CollectiveOpKind : int32_t {
#else
typedef int32_t PJRT_Collectives_CollectiveOpKind;
enum {
#endif
  PJRT_COLLECTIVES_COLLECTIVE_OP_KIND_CROSS_MODULE = 0,
  PJRT_COLLECTIVES_COLLECTIVE_OP_KIND_CROSS_REPLICA = 1
};

// Identifies one operation to its participants, and limits how long they wait for one another.
struct PJRT_Collectives_CpuExecutor {
  int64_t run_id;
  int64_t* global_device_ids;
  size_t num_global_device_ids;
  int32_t num_local_participants;
  PJRT_Collectives_CollectiveOpKind collective_op_kind;
  int64_t op_id;
  int64_t timeout_in_ns;
};
typedef struct PJRT_Collectives_CpuExecutor PJRT_Collectives_CpuExecutor;

// Frees the collectives of a platform.
struct PJRT_Collectives_Destroy_Args {
  size_t struct_size;
  PJRT_Collectives* collectives;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Destroy_Args, collectives);
typedef PJRT_Error* PJRT_Collectives_Destroy(PJRT_Collectives_Destroy_Args* args);

// Creates a communicator between the devices of this process and those of others. Blocks until all have joined.
struct PJRT_Collectives_CreateCommunicators_Args {
  size_t struct_size;
  PJRT_Collectives* collectives;                         // in
  const int64_t* device_ids;                             // in: all devices that take part
  size_t num_device_ids;                                 // in
  const char** clique_ids;                               // in: NULL, or what the participants agreed on
  const size_t* clique_id_sizes;                         // in
  size_t num_clique_ids;                                 // in
  int64_t* rank_ids;                                     // in: the ranks of this process's devices
  size_t num_device_ranks;                               // in
  PJRT_Collectives_Communicator** communicators;         // out: one for each rank; each owned by the caller
  size_t num_communicators;                              // out
  PJRT_Collectives_Communicators* communicators_holder;  // out: keeps the list alive (not the communicators)
  void (*communicators_holder_deleter)(PJRT_Collectives_Communicators* ptr);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_CreateCommunicators_Args, communicators_holder_deleter);
typedef PJRT_Error* PJRT_Collectives_CreateCommunicators(PJRT_Collectives_CreateCommunicators_Args* args);

// Frees a communicator.
struct PJRT_Collectives_Communicator_Destroy_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_Destroy_Args, communicator);
typedef PJRT_Error* PJRT_Collectives_Communicator_Destroy(PJRT_Collectives_Communicator_Destroy_Args* args);

// Reduces equal buffers of all ranks; each rank gets the result.
struct PJRT_Collectives_Communicator_AllReduce_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;  // in
  void* send_buffer_ptr;            // in: buffers stay the caller's, who leaves them alone until the event is ready
  size_t send_buffer_size;          // in: in bytes
  void* recv_buffer_ptr;            // in
  size_t recv_buffer_size;          // in: in bytes
  PJRT_Buffer_Type primitive_type;  // in
  size_t count;                     // in: elements
  PJRT_Collectives_ReductionKind reduction_kind;  // in
  PJRT_Collectives_CpuExecutor* cpu_executor;     // in: borrowed for the call
  PJRT_Event* event;                              // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_AllReduce_Args, event);
typedef PJRT_Error* PJRT_Collectives_Communicator_AllReduce(PJRT_Collectives_Communicator_AllReduce_Args* args);

// Reduces equal buffers of all ranks; each rank gets one part of the result. Fields as above.
struct PJRT_Collectives_Communicator_ReduceScatter_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;    // in
  void* send_buffer_ptr;                          // in
  size_t send_buffer_size;                        // in
  void* recv_buffer_ptr;                          // in
  size_t recv_buffer_size;                        // in
  PJRT_Buffer_Type primitive_type;                // in
  size_t count;                                   // in
  PJRT_Collectives_ReductionKind reduction_kind;  // in
  PJRT_Collectives_CpuExecutor* cpu_executor;     // in
  PJRT_Event* event;                              // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_ReduceScatter_Args, event);
typedef PJRT_Error* PJRT_Collectives_Communicator_ReduceScatter(PJRT_Collectives_Communicator_ReduceScatter_Args* args);

// Gathers the buffers of all ranks on each rank. Fields as above.
struct PJRT_Collectives_Communicator_AllGather_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;  // in
  void* send_buffer_ptr;                        // in
  size_t send_buffer_size;                      // in
  void* recv_buffer_ptr;                        // in
  size_t recv_buffer_size;                      // in
  PJRT_Buffer_Type primitive_type;              // in
  size_t count;                                 // in
  PJRT_Collectives_CpuExecutor* cpu_executor;   // in
  PJRT_Event* event;                            // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_AllGather_Args, event);
typedef PJRT_Error* PJRT_Collectives_Communicator_AllGather(PJRT_Collectives_Communicator_AllGather_Args* args);

// Sends the buffer to some ranks and receives the buffer of another one. Fields as above.
struct PJRT_Collectives_Communicator_CollectivePermute_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;  // in
  void* send_buffer_ptr;                        // in
  size_t send_buffer_size;                      // in
  void* recv_buffer_ptr;                        // in
  size_t recv_buffer_size;                      // in
  PJRT_Buffer_Type primitive_type;              // in
  size_t count;                                 // in
  bool has_source_rank;                         // in
  int64_t source_rank;                          // in: whose buffer comes here, when has_source_rank
  int64_t* target_ranks;                        // in
  size_t num_target_ranks;                      // in
  PJRT_Collectives_CpuExecutor* cpu_executor;   // in
  PJRT_Event* event;                            // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_CollectivePermute_Args, event);
typedef PJRT_Error* PJRT_Collectives_Communicator_CollectivePermute(
    PJRT_Collectives_Communicator_CollectivePermute_Args* args);

// Sends one buffer to each rank and receives one from each.
struct PJRT_Collectives_Communicator_AllToAll_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;  // in
  void** send_buffers_ptrs;                     // in: one for each rank
  const size_t* send_buffers_sizes;             // in
  size_t num_send_buffers;                      // in
  void** recv_buffers_ptrs;                     // in: one for each rank
  const size_t* recv_buffers_sizes;             // in
  size_t num_recv_buffers;                      // in
  PJRT_Buffer_Type primitive_type;              // in
  size_t count;                                 // in
  PJRT_Collectives_CpuExecutor* cpu_executor;   // in
  PJRT_Event* event;                            // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_AllToAll_Args, event);
typedef PJRT_Error* PJRT_Collectives_Communicator_AllToAll(PJRT_Collectives_Communicator_AllToAll_Args* args);

// Returns a description for users.
struct PJRT_Collectives_Communicator_ToString_Args {
  size_t struct_size;
  PJRT_Collectives_Communicator* communicator;                        // in
  const char* str;                                                    // out
  size_t str_size;                                                    // out
  PJRT_Collectives_ToString_Holder* str_holder;                       // out: keeps the string alive
  void (*str_holder_deleter)(PJRT_Collectives_ToString_Holder* ptr);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Communicator_ToString_Args, str_holder_deleter);
typedef PJRT_Error* PJRT_Collectives_Communicator_ToString(PJRT_Collectives_Communicator_ToString_Args* args);

// The extension.
struct PJRT_Collectives_Extension {
  PJRT_Extension_Base base;
  PJRT_Collectives_Destroy* collectives_destroy;
  PJRT_Collectives_CreateCommunicators* collectives_create_communicators;
  PJRT_Collectives_Communicator_Destroy* communicator_destroy;
  PJRT_Collectives_Communicator_AllReduce* communicator_all_reduce;
  PJRT_Collectives_Communicator_ReduceScatter* communicator_reduce_scatter;
  PJRT_Collectives_Communicator_AllGather* communicator_all_gather;
  PJRT_Collectives_Communicator_CollectivePermute* communicator_collective_permute;
  PJRT_Collectives_Communicator_AllToAll* communicator_all_to_all;
  PJRT_Collectives_Communicator_ToString* communicator_to_string;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Collectives_Extension, communicator_to_string);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_COLLECTIVES_H_
