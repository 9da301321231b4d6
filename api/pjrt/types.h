// Element types, layouts, shapes and programs.
#ifndef BACKPLANE_API_PJRT_TYPES_H_
#define BACKPLANE_API_PJRT_TYPES_H_

#include "api/pjrt/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Type of an element. The numbers are those of this API and differ from XLA's PrimitiveType.
typedef enum {
  PJRT_Buffer_Type_INVALID = 0,
  PJRT_Buffer_Type_PRED = 1,  // one byte, 0 or 1
  PJRT_Buffer_Type_S8 = 2,
  PJRT_Buffer_Type_S16 = 3,
  PJRT_Buffer_Type_S32 = 4,
  PJRT_Buffer_Type_S64 = 5,
  PJRT_Buffer_Type_U8 = 6,
  PJRT_Buffer_Type_U16 = 7,
  PJRT_Buffer_Type_U32 = 8,
  PJRT_Buffer_Type_U64 = 9,
  PJRT_Buffer_Type_F16 = 10,
  PJRT_Buffer_Type_F32 = 11,
  PJRT_Buffer_Type_F64 = 12,
  PJRT_Buffer_Type_BF16 = 13,  // the upper half of an F32
  PJRT_Buffer_Type_C64 = 14,   // two F32: real, imaginary
  PJRT_Buffer_Type_C128 = 15,  // two F64: real, imaginary
  PJRT_Buffer_Type_F8E5M2 = 16,
  PJRT_Buffer_Type_F8E4M3FN = 17,
  PJRT_Buffer_Type_F8E4M3B11FNUZ = 18,
  PJRT_Buffer_Type_F8E5M2FNUZ = 19,
  PJRT_Buffer_Type_F8E4M3FNUZ = 20,
  PJRT_Buffer_Type_S4 = 21,
  PJRT_Buffer_Type_U4 = 22,
  PJRT_Buffer_Type_TOKEN = 23,  // no data: orders side effects
  PJRT_Buffer_Type_S2 = 24,
  PJRT_Buffer_Type_U2 = 25,
  PJRT_Buffer_Type_F8E4M3 = 26,
  PJRT_Buffer_Type_F8E3M4 = 27,
  PJRT_Buffer_Type_F8E8M0FNU = 28,
  PJRT_Buffer_Type_F4E2M1FN = 29,
  PJRT_Buffer_Type_S1 = 30,        // since 0.94
  PJRT_Buffer_Type_U1 = 31,        // since 0.94
  PJRT_Buffer_Type_F6E2M3FN = 32,  // since 0.114
  PJRT_Buffer_Type_F6E3M2FN = 33   // since 0.114
} PJRT_Buffer_Type;

// What a plugin may do with host memory passed to PJRT_Client_BufferFromHostBuffer.
typedef enum {
  // The plugin copies the data before the call returns.
  PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0,
  // The caller must not change the memory until `done_with_host_buffer` is ready, after the copy is complete.
  PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes = 1,
  // The buffer may use the memory in place and must not write to it. `done_with_host_buffer` is ready once the buffer's
  // memory has been released.
  PJRT_HostBufferSemantics_kImmutableZeroCopy = 2,
  // As kImmutableZeroCopy, and the plugin may also write to the memory, for example when the buffer is donated. A
  // plugin that cannot work in place treats this value like kImmutableUntilTransferCompletes.
  PJRT_HostBufferSemantics_kMutableZeroCopy = 3
} PJRT_HostBufferSemantics;

typedef enum {
  PJRT_Buffer_MemoryLayout_Type_Tiled = 0,
  PJRT_Buffer_MemoryLayout_Type_Strides = 1
} PJRT_Buffer_MemoryLayout_Type;

// A permutation of the dimensions, and tiles applied one after the other to the permuted shape.
struct PJRT_Buffer_MemoryLayout_Tiled {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const int64_t* minor_to_major;  // logical dimensions, the fastest varying first; a permutation of 0..rank-1
  size_t minor_to_major_size;     // the rank
  const int64_t* tile_dims;       // the dimensions of all tiles, one tile after the other
  const size_t* tile_dim_sizes;   // how many of `tile_dims` each tile takes; `num_tiles` elements
  size_t num_tiles;               // 0 for a plain dense layout
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_MemoryLayout_Tiled, num_tiles);

// Distances in bytes.
struct PJRT_Buffer_MemoryLayout_Strides {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const int64_t* byte_strides;  // for each dimension from the address of element zero; may be negative
  size_t num_byte_strides;      // the rank
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_MemoryLayout_Strides, num_byte_strides);

// A layout. The arrays are borrowed: from the caller for the call when it is an argument.
struct PJRT_Buffer_MemoryLayout {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;  // which member of the union is set
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Buffer_MemoryLayout, type);

// The shape of one array.
struct PJRT_ShapeSpec {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const int64_t* dims;  // borrowed for the call
  size_t num_dims;
  PJRT_Buffer_Type element_type;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ShapeSpec, element_type);

// A program in one of these formats: `mlir` (StableHLO, as text, bytecode or portable artifact), `hlo`
// (serialized HloModuleProto), `hlo_with_config` (serialized HloModuleProtoWithConfig).
struct PJRT_Program {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  char* code;  // any bytes; belongs to the caller, also where the plugin writes into it
  size_t code_size;
  const char* format;  // each function says who owns it
  size_t format_size;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Program, format_size);

typedef enum {
  PJRT_ProcessState_kUnspecified = 0,
  PJRT_ProcessState_kUninitialized = 1,
  PJRT_ProcessState_kDisconnected = 2,
  PJRT_ProcessState_kConnected = 3,
  PJRT_ProcessState_kError = 4
} PJRT_ProcessState;

// What a client is told about one process of a distributed program.
struct PJRT_ProcessInfo {
  size_t struct_size;
  int task_id;
  uint64_t incarnation_id;  // differs after each restart of the process
  PJRT_ProcessState state;
  int error_code;             // one of PJRT_Error_Code when the state is kError
  const char* error_message;  // borrowed for the call
  size_t error_message_size;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_ProcessInfo, error_message_size);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_PJRT_TYPES_H_
