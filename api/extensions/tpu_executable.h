// Extension 17, TpuExecutable, version 1: queries about serialized executables of a TPU, without a device.
#ifndef BACKPLANE_API_EXTENSIONS_TPU_EXECUTABLE_H_
#define BACKPLANE_API_EXTENSIONS_TPU_EXECUTABLE_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_TPU_EXECUTABLE_EXTENSION_VERSION 1

// Owners of the memory to which out fields point. Each is released, once, by the deleter that came with it.
typedef struct PJRT_TpuExecutable_TargetArguments PJRT_TpuExecutable_TargetArguments;
typedef struct PJRT_TpuExecutable_HloModuleWithConfig PJRT_TpuExecutable_HloModuleWithConfig;
typedef struct PJRT_TpuExecutable_CompiledMemoryStats PJRT_TpuExecutable_CompiledMemoryStats;
typedef struct PJRT_TpuExecutable_CompilationEnvironments PJRT_TpuExecutable_CompilationEnvironments;
typedef struct PJRT_TpuExecutable_CostAnalysisResult PJRT_TpuExecutable_CostAnalysisResult;
typedef struct PJRT_TpuExecutable_FieldValue PJRT_TpuExecutable_FieldValue;

// Returns the target for which the executable was compiled.
struct PJRT_TpuExecutable_GetTargetArguments_Args {
  size_t struct_size;
  const char* serialized_executable;                                           // in: borrowed for the call
  size_t serialized_executable_size;                                           // in
  const char* target_arguments;                                                // out
  size_t target_arguments_size;                                                // out
  PJRT_TpuExecutable_TargetArguments* target_arguments_ptr;                    // out: keeps the bytes alive
  void (*target_arguments_deleter)(PJRT_TpuExecutable_TargetArguments* args);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_GetTargetArguments_Args, target_arguments_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_GetTargetArguments(PJRT_TpuExecutable_GetTargetArguments_Args* args);

// Returns the program of the executable.
struct PJRT_TpuExecutable_GetHloModuleWithConfig_Args {
  size_t struct_size;
  const char* serialized_executable;                                   // in: borrowed for the call
  size_t serialized_executable_size;                                   // in
  const char* hlo_module_with_config;                                  // out: serialized HloModuleProtoWithConfig
  size_t hlo_module_with_config_size;                                  // out
  PJRT_TpuExecutable_HloModuleWithConfig* hlo_module_with_config_ptr;  // out: keeps the bytes alive
  // out: the caller calls it once
  void (*hlo_module_with_config_deleter)(PJRT_TpuExecutable_HloModuleWithConfig* module);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_GetHloModuleWithConfig_Args, hlo_module_with_config_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_GetHloModuleWithConfig(PJRT_TpuExecutable_GetHloModuleWithConfig_Args* args);

// Returns the estimated cost of programs on a target.
struct PJRT_TpuExecutable_RunHloCostAnalysis_Args {
  size_t struct_size;
  const char* target_arguments;                                 // in: borrowed for the call
  size_t target_arguments_size;                                 // in
  const char** hlo_module;                                      // in: serialized HloModuleProtoWithConfig each
  size_t* hlo_module_size;                                      // in
  size_t num_hlo_modules;                                       // in
  const PJRT_NamedValue* analysis_results;                      // out
  size_t num_analysis_results;                                  // out
  PJRT_TpuExecutable_CostAnalysisResult* analysis_results_ptr;  // out: keeps the results alive
  // out: the caller calls it once
  void (*analysis_results_deleter)(PJRT_TpuExecutable_CostAnalysisResult* results);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_RunHloCostAnalysis_Args, analysis_results_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_RunHloCostAnalysis(PJRT_TpuExecutable_RunHloCostAnalysis_Args* args);

// Returns the memory that the executable needs.
struct PJRT_TpuExecutable_GetCompiledMemoryStats_Args {
  size_t struct_size;
  const char* serialized_executable;                                  // in: borrowed for the call
  size_t serialized_executable_size;                                  // in
  const char* compiled_memory_stats;                                  // out: serialized CompiledMemoryStatsProto
  size_t compiled_memory_stats_size;                                  // out
  PJRT_TpuExecutable_CompiledMemoryStats* compiled_memory_stats_ptr;  // out: keeps the bytes alive
  // out: the caller calls it once
  void (*compiled_memory_stats_deleter)(PJRT_TpuExecutable_CompiledMemoryStats* stats);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_GetCompiledMemoryStats_Args, compiled_memory_stats_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_GetCompiledMemoryStats(PJRT_TpuExecutable_GetCompiledMemoryStats_Args* args);

// Adds the platform's environment to compilation environments.
struct PJRT_TpuExecutable_SetTpuCompilationEnv_Args {
  size_t struct_size;
  const char* serialized_compilation_environments;  // in: CompilationEnvironmentsProto; borrowed for the call
  size_t serialized_compilation_environments_size;  // in
  const char* result_compilation_environments;      // out: CompilationEnvironmentsProto
  size_t result_compilation_environments_size;      // out
  // out: keeps the bytes alive
  PJRT_TpuExecutable_CompilationEnvironments* result_compilation_environments_ptr;
  // out: the caller calls it once
  void (*result_compilation_environments_deleter)(PJRT_TpuExecutable_CompilationEnvironments* envs);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_SetTpuCompilationEnv_Args, result_compilation_environments_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_SetTpuCompilationEnv(PJRT_TpuExecutable_SetTpuCompilationEnv_Args* args);

// Returns one field of the environment of the platform.
struct PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args {
  size_t struct_size;
  const char* serialized_compilation_environments;                    // in: borrowed for the call
  size_t serialized_compilation_environments_size;                    // in
  const char* field_name;                                             // in: borrowed for the call
  size_t field_name_size;                                             // in
  const char* field_value;                                            // out
  size_t field_value_size;                                            // out
  PJRT_TpuExecutable_FieldValue* field_value_ptr;                     // out: keeps the bytes alive
  void (*field_value_deleter)(PJRT_TpuExecutable_FieldValue* value);  // out: the caller calls it once
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args, field_value_deleter);
typedef PJRT_Error* PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString(
    PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args* args);

// Returns whether an error is permanent, so that a retry would fail as well.
struct PJRT_TpuExecutable_IsTpuPredeterminedError_Args {
  size_t struct_size;
  const char* serialized_status;  // in: borrowed for the call
  size_t serialized_status_size;  // in
  bool is_predetermined;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_IsTpuPredeterminedError_Args, is_predetermined);
typedef PJRT_Error* PJRT_TpuExecutable_IsTpuPredeterminedError(PJRT_TpuExecutable_IsTpuPredeterminedError_Args* args);

// The extension.
struct PJRT_TpuExecutable_Extension {
  PJRT_Extension_Base base;
  PJRT_TpuExecutable_GetTargetArguments* get_target_arguments;
  PJRT_TpuExecutable_GetHloModuleWithConfig* get_hlo_module_with_config;
  void* get_core_program_abi_version;  // no longer in use
  PJRT_TpuExecutable_GetCompiledMemoryStats* get_compiled_memory_stats;
  PJRT_TpuExecutable_RunHloCostAnalysis* run_hlo_cost_analysis;
  PJRT_TpuExecutable_SetTpuCompilationEnv* set_tpu_compilation_env;
  PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString* get_tpu_compilation_env_field_as_string;
  PJRT_TpuExecutable_IsTpuPredeterminedError* is_tpu_predetermined_error;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_TpuExecutable_Extension, is_tpu_predetermined_error);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_TPU_EXECUTABLE_H_
