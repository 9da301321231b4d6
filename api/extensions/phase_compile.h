// Extension 9, PhaseCompile, version 1, experimental: runs single phases of the compiler. The programs between phases
// are serialized PjRtPartialProgramProtos.
#ifndef BACKPLANE_API_EXTENSIONS_PHASE_COMPILE_H_
#define BACKPLANE_API_EXTENSIONS_PHASE_COMPILE_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_PHASE_COMPILE_EXTENSION_VERSION 1

// Returns the compiler of the plugin.
struct PJRT_PhaseCompile_Get_Compiler_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_PhaseCompiler* phase_compiler;  // out: owned by the caller
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_Get_Compiler_Args, phase_compiler);
typedef PJRT_Error* PJRT_PhaseCompile_Get_Compiler(PJRT_PhaseCompile_Get_Compiler_Args* args);

// Frees a compiler.
struct PJRT_PhaseCompile_Destroy_Compiler_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_PhaseCompiler* phase_compiler;  // in: may be NULL
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_Destroy_Compiler_Args, phase_compiler);
typedef void PJRT_PhaseCompile_Destroy_Compiler(PJRT_PhaseCompile_Destroy_Compiler_Args* args);

// Runs the given phases one after another.
struct PJRT_PhaseCompile_Run_Phase_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_PhaseCompiler* phase_compiler;  // in
  const char** input_programs;               // in: borrowed for the call
  const size_t* input_programs_sizes;        // in
  size_t num_input_programs;                 // in
  const char** phases_to_run;                // in: names, in order; borrowed for the call
  const size_t* phases_to_run_sizes;         // in
  size_t num_phases_to_run;                  // in
  const char* compile_options;               // in: serialized CompileOptionsProto, borrowed for the call
  size_t compile_options_size;               // in
  PJRT_TopologyDescription* topology;        // in
  const char** output_programs;              // out: freed by PJRT_PhaseCompile_C_Buffers_Destroy, with the sizes
  const size_t* output_programs_sizes;       // out
  size_t num_output_programs;                // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_Run_Phase_Args, num_output_programs);
typedef PJRT_Error* PJRT_PhaseCompile_Run_Phase(PJRT_PhaseCompile_Run_Phase_Args* args);

// Returns the names of all phases, in order.
struct PJRT_PhaseCompile_Get_PhaseNames_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_PhaseCompiler* phase_compiler;  // in
  // out: terminated by NUL; freed by PJRT_PhaseCompile_C_Buffers_Destroy, with the sizes
  const char** phase_names;
  const size_t* phase_names_sizes;  // out
  size_t num_phase_names;           // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_Get_PhaseNames_Args, num_phase_names);
typedef PJRT_Error* PJRT_PhaseCompile_Get_PhaseNames(PJRT_PhaseCompile_Get_PhaseNames_Args* args);

// Frees what the two functions above returned.
struct PJRT_PhaseCompile_C_Buffers_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char** char_buffers;        // in: the list and each of its buffers
  const size_t* char_buffer_sizes;  // in
  size_t num_char_buffers;          // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_C_Buffers_Destroy_Args, num_char_buffers);
typedef void PJRT_PhaseCompile_C_Buffers_Destroy(PJRT_PhaseCompile_C_Buffers_Destroy_Args* args);

// The extension.
struct PJRT_PhaseCompile_Extension {
  PJRT_Extension_Base base;
  PJRT_PhaseCompile_Get_Compiler* phase_compile_get_compiler;
  PJRT_PhaseCompile_Destroy_Compiler* phase_compile_destroy_compiler;
  PJRT_PhaseCompile_Run_Phase* phase_compile_run_phases;
  PJRT_PhaseCompile_Get_PhaseNames* phase_compile_get_phase_names;
  PJRT_PhaseCompile_C_Buffers_Destroy* phase_compile_c_buffers_destroy;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_PhaseCompile_Extension, phase_compile_c_buffers_destroy);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_PHASE_COMPILE_H_
