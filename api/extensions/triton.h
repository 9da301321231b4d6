// Extension 7, Triton, version 2: compiles a Triton kernel. Deprecated since minor 0.115 of the API.
#ifndef BACKPLANE_API_EXTENSIONS_TRITON_H_
#define BACKPLANE_API_EXTENSIONS_TRITON_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_TRITON_EXTENSION_VERSION 2

// Compiles one kernel for one architecture.
struct PJRT_Triton_Compile_Args {
  size_t struct_size;
  const char* module;      // in: the kernel in Triton's dialect; borrowed for the call
  size_t module_size;      // in
  const char* arch_name;   // in: borrowed for the call
  size_t arch_name_size;   // in
  int num_warps;           // in
  int num_ctas;            // in
  int num_stages;          // in
  const char* out_asm;     // out: owned by the caller
  size_t out_asm_size;     // out
  int64_t out_smem_bytes;  // out: shared memory it needs
  const char* out_path;    // out: owned by the caller
  size_t out_path_size;    // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Triton_Compile_Args, out_path_size);
typedef PJRT_Error* PJRT_Triton_Compile(PJRT_Triton_Compile_Args* args);

// The extension. It has two names.
typedef struct PJRT_Triton_Extension {
  PJRT_Extension_Base base;
  PJRT_Triton_Compile* compile;
} PJRT_Triton;
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Triton_Extension, compile);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_TRITON_H_
