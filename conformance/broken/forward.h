// Plugins with one defect each, for testing the kit: each opens a correct plugin, named by the environment variable
// BACKPLANE_BROKEN_OVER, copies its table, and replaces some of its functions. caught_by.txt lists the check that must
// find each.
//
// A defect is a function that changes the table; `real` is the unchanged one.
#ifndef BACKPLANE_CONFORMANCE_BROKEN_FORWARD_H_
#define BACKPLANE_CONFORMANCE_BROKEN_FORWARD_H_

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "api/pjrt_c_api.h"

namespace backplane::broken {

inline const PJRT_Api* real = nullptr;

inline const PJRT_Api* Open(void (*defect)(PJRT_Api*)) {
  static PJRT_Api table;
  static const PJRT_Api* opened = [defect]() -> const PJRT_Api* {
    const char* path = std::getenv("BACKPLANE_BROKEN_OVER");
    void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
    if (get == nullptr) return nullptr;
    real = get();
    std::memcpy(&table, real, std::min(sizeof(table), real->struct_size));
    table.struct_size = std::min(sizeof(table), real->struct_size);
    defect(&table);
    return &table;
  }();
  return opened;
}

// Compiles other code in place of the program's.
inline PJRT_Error* CompileInstead(PJRT_Client_Compile_Args* args, std::string code) {
  PJRT_Program program = *args->program;
  program.code = code.data();
  program.code_size = code.size();
  PJRT_Client_Compile_Args changed = *args;
  changed.program = &program;
  PJRT_Error* error = real->PJRT_Client_Compile(&changed);
  args->executable = changed.executable;
  return error;
}

// An error of this library. Its memory begins with the pointer to its function table, as the C API demands.
struct OwnError {
  const PJRT_Error_FunctionTable* vtable;
  PJRT_Error_Code code;
  std::string message;
};
// Returns an OwnError, which the caller destroys like any error of a plugin.
inline PJRT_Error* MakeError(PJRT_Error_Code code, std::string message) {
  static const PJRT_Error_FunctionTable table = {
      PJRT_Error_FunctionTable_STRUCT_SIZE,
      PJRT_Error_STRUCT_SIZE,
      nullptr,
      [](PJRT_Error* e) { delete reinterpret_cast<OwnError*>(e); },
      [](const PJRT_Error* e, const char** text, size_t* size) {
        const auto* own = reinterpret_cast<const OwnError*>(e);
        *text = own->message.data();
        *size = own->message.size();
      },
      [](const PJRT_Error* e) { return reinterpret_cast<const OwnError*>(e)->code; },
      [](const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {}};
  return reinterpret_cast<PJRT_Error*>(new OwnError{&table, code, std::move(message)});
}

}  // namespace backplane::broken

// BROKEN_PLUGIN { body with `table` } defines GetPjrtApi of the library.
#define BROKEN_PLUGIN                                                                       \
  static void Break(PJRT_Api* table);                                                       \
  extern "C" const PJRT_Api* GetPjrtApi(void) { return ::backplane::broken::Open(&Break); } \
  static void Break(PJRT_Api* table)

#endif  // BACKPLANE_CONFORMANCE_BROKEN_FORWARD_H_
