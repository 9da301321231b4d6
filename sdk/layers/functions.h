// All functions that layers can see: the slots of PJRT_Api, the functions of all extensions in api/extensions, and
// those of the profiler's table. The lists are sdk/host/slots.def and extension_functions.def; the trampolines, the
// enumeration and the table of properties are generated from them.
#ifndef BACKPLANE_SDK_LAYERS_FUNCTIONS_H_
#define BACKPLANE_SDK_LAYERS_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace backplane::layers {

// Table slots first, in the order of the table, then the functions of extensions. Names are as in the headers:
// Fn::PJRT_Client_Create, Fn::PJRT_FFI_UserData_Add (a function of an extension is named after its args).
enum class Fn : uint16_t {
#define BP_SLOT(name, since) name,
#include "sdk/host/slots.def"
#undef BP_SLOT
#define BP_EXTENSION(type_name, type)
#define BP_EXTENSION_FUNCTION(type_name, member, name) name,
#define BP_PROFILER_FUNCTION(member, name) name,
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
  kCount
};
inline constexpr size_t kNumFunctions = static_cast<size_t>(Fn::kCount);
inline constexpr size_t Index(Fn fn) { return static_cast<size_t>(fn); }

enum class Returns : uint8_t {
  kError,    // PJRT_Error*
  kNothing,  // void
  kOther,    // PLUGIN_Profiler_Error*
};

struct FunctionInfo {
  const char* name;       // "PJRT_Client_Create"
  const char* extension;  // null for a slot of the table, else the name of the struct: "PJRT_FFI_Extension"
  size_t args_size;       // STRUCT_SIZE of its args in our headers
  Returns returns;
  bool has_extension_start;  // whether the second word of its args starts a chain of extensions
};
const FunctionInfo& GetInfo(Fn fn);
// Returns Fn::kCount if there is no function of that name.
Fn FunctionByName(absl::string_view name);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FUNCTIONS_H_
