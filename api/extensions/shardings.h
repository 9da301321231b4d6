// Extension 19, Shardings, version 1: returns the shardings of the parameters and outputs of an executable. Each entry
// is a serialized OpSharding. Lists and bytes belong to the executable and live as long as it does. A NULL list means
// that the shardings are unknown.
#ifndef BACKPLANE_API_EXTENSIONS_SHARDINGS_H_
#define BACKPLANE_API_EXTENSIONS_SHARDINGS_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_SHARDINGS_EXTENSION_VERSION 1

// Returns the sharding of each parameter.
struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;   // in
  size_t num_parameters;         // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args, sharding_sizes);
typedef PJRT_Error* PJRT_Shardings_PJRT_Executable_ParameterShardings(
    PJRT_Shardings_PJRT_Executable_ParameterShardings_Args* args);

// Returns the sharding of each output.
struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;   // in
  size_t num_outputs;            // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Shardings_PJRT_Executable_OutputShardings_Args, sharding_sizes);
typedef PJRT_Error* PJRT_Shardings_PJRT_Executable_OutputShardings(
    PJRT_Shardings_PJRT_Executable_OutputShardings_Args* args);

// The extension.
struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_API_FIELD(PJRT_Shardings_PJRT_Executable_ParameterShardings);
  PJRT_API_FIELD(PJRT_Shardings_PJRT_Executable_OutputShardings);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Shardings_Extension, PJRT_Shardings_PJRT_Executable_OutputShardings);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_SHARDINGS_H_
