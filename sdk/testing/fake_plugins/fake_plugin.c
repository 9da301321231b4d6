// Small plugins with one defect each, or for old versions, for testing loaders. Compiled once for each FAKE_* macro:
//
//   FAKE_OLD           speaks 0.40: a short table, and requires the struct sizes of its own header
//   FAKE_ANCIENT       speaks 0.28
//   FAKE_NEWER         speaks 0.999: a longer table, an unknown extension
//   FAKE_OTHER_MAJOR   speaks 1.0
//   FAKE_NO_SYMBOL     does not export GetPjrtApi
//   FAKE_NULL_TABLE    GetPjrtApi returns NULL
//   FAKE_TINY_TABLE    the table states a size of 16 bytes
//   FAKE_NO_ERRORS     the functions that read errors are NULL
//   FAKE_NULL_SLOTS    implements only errors, initialization and attributes
//   FAKE_NO_ATTRIBUTES implements only errors and initialization
//   FAKE_INIT_FAILS    PJRT_Plugin_Initialize returns an error; PJRT_Client_Create would crash
//   FAKE_CHAIN_LOOP    the extension chain is circular
//   FAKE_CRASH_LOAD, FAKE_HANG_LOAD, FAKE_EXIT_LOAD     an initializer of the library does that
//   FAKE_CHATTY_LOAD   an initializer of the library starts a process that writes without end
//   FAKE_CRASH_CLIENT, FAKE_HANG_CLIENT                 PJRT_Client_Create does that
//   FAKE_ABORT_INIT    prints and aborts in PJRT_Plugin_Initialize
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/pjrt_c_api.h"

#if defined(FAKE_CRASH_LOAD)
__attribute__((constructor)) static void Load(void) { raise(SIGSEGV); }
#elif defined(FAKE_HANG_LOAD)
__attribute__((constructor)) static void Load(void) {
  for (;;) pause();
}
#elif defined(FAKE_CHATTY_LOAD)
__attribute__((constructor)) static void Load(void) {
  if (fork() != 0) return;
  for (;;) {
    if (write(1, "chatter\n", 8) < 0) _exit(0);
  }
}
#elif defined(FAKE_EXIT_LOAD)
__attribute__((constructor)) static void Load(void) { _exit(7); }
#endif

// An error with the first field that 0.107 requires.
typedef struct {
  const struct PJRT_Error_FunctionTable* vtable;
  PJRT_Error_Code code;
  const char* message;
} Error;

static PJRT_Error* Fail(PJRT_Error_Code code, const char* message) {
  Error* error = calloc(1, sizeof(Error));
  if (error == NULL) return NULL;
  error->code = code;
  error->message = message;
  return (PJRT_Error*)error;
}
static void ErrorDestroy(PJRT_Error_Destroy_Args* args) { free(args->error); }
static void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = ((const Error*)args->error)->message;
  args->message_size = strlen(args->message);
}
static PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = ((const Error*)args->error)->code;
  return NULL;
}

static PJRT_Error* Initialize(PJRT_Plugin_Initialize_Args* args) {
#if defined(FAKE_INIT_FAILS)
  return Fail(PJRT_Error_Code_FAILED_PRECONDITION, "the fake hardware is not plugged in");
#elif defined(FAKE_ABORT_INIT)
  fprintf(stderr, "fake: check failed: hardware != nullptr\n");
  abort();
#endif
  return NULL;
}

static PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args) {
  static PJRT_NamedValue answer[1];
  answer[0].struct_size = PJRT_NamedValue_STRUCT_SIZE;
  answer[0].name = "answer";
  answer[0].name_size = 6;
  answer[0].type = PJRT_NamedValue_kInt64;
  answer[0].int64_value = 42;
  answer[0].value_size = 1;
  args->attributes = answer;
  args->num_attributes = 1;
  return NULL;
}

static int fake_client;

static PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
#if defined(FAKE_INIT_FAILS) || defined(FAKE_CRASH_CLIENT)
  abort();
#elif defined(FAKE_HANG_CLIENT)
  for (;;) pause();
#elif defined(FAKE_OLD)
  // 0.40 knows this struct up to `client`.
  if (args->struct_size != PJRT_STRUCT_SIZE(struct PJRT_Client_Create_Args, client)) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "PJRT_Client_Create_Args: unexpected struct size");
  }
#endif
  args->client = (PJRT_Client*)&fake_client;
  return NULL;
}
static PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) { return NULL; }
static PJRT_Error* PlatformName(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return NULL;
}
static PJRT_Error* Devices(PJRT_Client_Devices_Args* args) {
  args->devices = NULL;
  args->num_devices = 0;
  return NULL;
}

// The table of the newest version, with space behind it for FAKE_NEWER.
static struct {
  PJRT_Api api;
  void* more[4];
} table;

static PJRT_Extension_Base extensions[2];

#if defined(FAKE_NO_SYMBOL)
PJRT_CAPI_EXPORT const PJRT_Api* GetSomethingElse(void) {
#else
PJRT_CAPI_EXPORT const PJRT_Api* GetPjrtApi(void) {
#endif
  table.api.struct_size = PJRT_Api_STRUCT_SIZE;
  table.api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  table.api.pjrt_api_version.major_version = 0;
  table.api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  table.api.PJRT_Error_Destroy = ErrorDestroy;
  table.api.PJRT_Error_Message = ErrorMessage;
  table.api.PJRT_Error_GetCode = ErrorGetCode;
  table.api.PJRT_Plugin_Initialize = Initialize;
#if !defined(FAKE_NO_ATTRIBUTES)
  table.api.PJRT_Plugin_Attributes = Attributes;
#endif
#if !defined(FAKE_NULL_SLOTS)
  table.api.PJRT_Client_Create = ClientCreate;
  table.api.PJRT_Client_Destroy = ClientDestroy;
  table.api.PJRT_Client_PlatformName = PlatformName;
  table.api.PJRT_Client_Devices = Devices;
#endif
#if defined(FAKE_OLD)
  table.api.pjrt_api_version.minor_version = 40;
  table.api.struct_size = PJRT_STRUCT_SIZE(struct PJRT_Api, PJRT_Executable_GetCompiledMemoryStats);
  memset(&table.api.PJRT_Memory_Kind_Id, 0x5a, sizeof(void*));  // behind the end: must not be called
#elif defined(FAKE_ANCIENT)
  table.api.pjrt_api_version.minor_version = 28;
#elif defined(FAKE_NEWER)
table.api.pjrt_api_version.minor_version = 999;
table.api.struct_size = sizeof(table);
extensions[0].struct_size = sizeof(PJRT_Extension_Base) + 8;
extensions[0].type = (PJRT_Extension_Type)777;
table.api.extension_start = &extensions[0];
#elif defined(FAKE_OTHER_MAJOR)
table.api.pjrt_api_version.major_version = 1;
table.api.pjrt_api_version.minor_version = 0;
#elif defined(FAKE_NULL_TABLE)
return NULL;
#elif defined(FAKE_TINY_TABLE)
table.api.struct_size = 16;
#elif defined(FAKE_NO_ERRORS)
table.api.PJRT_Error_Destroy = NULL;
table.api.PJRT_Error_Message = NULL;
table.api.PJRT_Error_GetCode = NULL;
#elif defined(FAKE_CHAIN_LOOP)
extensions[0].struct_size = extensions[1].struct_size = PJRT_Extension_Base_STRUCT_SIZE;
extensions[0].type = PJRT_Extension_Type_Example;
extensions[1].type = PJRT_Extension_Type_Profiler;
extensions[0].next = &extensions[1];
extensions[1].next = &extensions[0];
table.api.extension_start = &extensions[0];
#endif
  return &table.api;
}
