// The private extension of Backplane plugins. It contains what the plugin and its Python package exchange, and what the
// published API cannot express. It is in the extension chain of the function table, like any other extension, and is
// found by its type.
#ifndef BACKPLANE_API_BACKPLANE_C_API_H_
#define BACKPLANE_API_BACKPLANE_C_API_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// The bytes "BPL" and 1. Far above every published number.
#define BACKPLANE_EXTENSION_TYPE ((PJRT_Extension_Type)0x42504C01)
#define BACKPLANE_EXTENSION_VERSION 1

// ---- Python callbacks

// One operand or result of a Python callback: a dense array, last dimension fastest. Borrowed for the call.
struct Backplane_Callback_Arg {
  int32_t dtype;  // an XLA_FFI_DataType, see ffi_c_api.h
  void* data;     // types narrower than a byte have one element per byte; NULL for a token
  int64_t rank;
  const int64_t* dims;  // `rank` elements
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_Callback_Arg, dims);

// Calls a Python callable with arrays and stores its results. May be called in any thread. The caller holds no lock of
// the plugin, so the callable may use the plugin. The trampoline acquires the GIL itself.
//   callable  the entry of the host's table at the index of the call, a borrowed PyObject*
//   err       receives the error text on failure: at most err_cap bytes, including the terminating NUL
// Returns 0 on success.
typedef int (*Backplane_Callback_Trampoline)(void* callable, int64_t nargs, const Backplane_Callback_Arg* args,
                                             int64_t nrets, const Backplane_Callback_Arg* rets, char* err,
                                             size_t err_cap);

// Installs the trampoline. Without one, programs with Python callbacks fail with UNIMPLEMENTED when they run. A later
// call replaces the earlier one. Thread-safe.
struct Backplane_SetCallbackTrampoline_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  Backplane_Callback_Trampoline trampoline;  // in: callable until the process ends; NULL removes it
  // in: the FFI type under which the host adds its table of callables to an execute context; 0 if the type is unknown,
  // and then the only entry of the context is used.
  int64_t user_data_type_id;
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_SetCallbackTrampoline_Args, user_data_type_id);
typedef PJRT_Error* Backplane_SetCallbackTrampoline(Backplane_SetCallbackTrampoline_Args* args);

// The user data of that type.
struct Backplane_Callback_Table {
  void** callbacks;  // borrowed PyObject*, by index
  size_t num;
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_Callback_Table, num);

// ---- Compile log

// Returns the compile log of an executable: which kernels were refused and why, fusions, buffers. Plain text.
struct Backplane_LoadedExecutable_CompileLog_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_LoadedExecutable* executable;  // in
  const char* log;                    // out: lives as long as the executable; not terminated by NUL
  size_t log_size;                    // out: 0 for an empty log
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_LoadedExecutable_CompileLog_Args, log_size);
typedef PJRT_Error* Backplane_LoadedExecutable_CompileLog(Backplane_LoadedExecutable_CompileLog_Args* args);

// ---- Generated code

// Returns a form of the code of an executable as text: what people read, or a document for tools. Each plugin defines
// its forms; those of the HIP plugin are "ir", "isa", "resources" and "report" (docs/hip.md). Returns UNIMPLEMENTED if
// the plugin has no such form; the message names those that it has. Thread-safe.
struct Backplane_Executable_CodeText_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;  // in
  const char* form;             // in
  size_t form_size;             // in
  const char* text;             // out: lives as long as the executable; not terminated by NUL
  size_t text_size;             // out
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_Executable_CodeText_Args, text_size);
typedef PJRT_Error* Backplane_Executable_CodeText(Backplane_Executable_CodeText_Args* args);

// ---- Custom calls of several stages

// Registers a typed handler with the functions of all its stages, which PJRT_FFI_Register_Handler cannot pass. The
// handler is registered for the platform of this plugin. Registering the same handler again has no effect; another
// handler with the same name returns ALREADY_EXISTS. Thread-safe.
struct Backplane_RegisterHandlerBundle_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* target_name;  // in: copied
  size_t target_name_size;  // in
  void* instantiate;        // in: XLA_FFI_Handler*, callable until the process ends; may be NULL
  void* prepare;            // in: likewise
  void* initialize;         // in: likewise
  void* execute;            // in: never NULL
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_RegisterHandlerBundle_Args, execute);
typedef PJRT_Error* Backplane_RegisterHandlerBundle(Backplane_RegisterHandlerBundle_Args* args);

// The extension.
struct Backplane_Extension {
  PJRT_Extension_Base base;
  Backplane_SetCallbackTrampoline* set_callback_trampoline;
  Backplane_LoadedExecutable_CompileLog* loaded_executable_compile_log;
  Backplane_RegisterHandlerBundle* register_handler_bundle;
  Backplane_Executable_CodeText* executable_code_text;
};
PJRT_DEFINE_STRUCT_TRAITS(Backplane_Extension, executable_code_text);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_BACKPLANE_C_API_H_
