// A host in C: opens any plugin by its path, compiles a StableHLO program given as text, runs it, prints the result.
//
//   c_host PLUGIN.so program.mlir
//
// The program takes f32[2,3], f32[3,2] and f32[2] and returns f32[2,2]; see program.mlir.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pjrt_c_api.h"

static const PJRT_Api* api;

// Every argument struct begins with its size; all else starts as zero.
#define ARGS(type, name)          \
  type name;                      \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = type##_STRUCT_SIZE

static void Check(PJRT_Error* error, const char* what) {
  if (error == NULL) return;
  ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  fprintf(stderr, "%s: %.*s\n", what, (int)message.message_size, message.message);
  exit(1);
}

#define DESTROY(type, field, object)                    \
  do {                                                  \
    ARGS(PJRT_##type##_Destroy_Args, destroy);          \
    destroy.field = object;                             \
    Check(api->PJRT_##type##_Destroy(&destroy), #type); \
  } while (0)

static void Await(PJRT_Event* event, const char* what) {
  ARGS(PJRT_Event_Await_Args, await);
  await.event = event;
  Check(api->PJRT_Event_Await(&await), what);
  DESTROY(Event, event, event);
}

static char text[1 << 20];  // the program

static size_t ReadFile(const char* path) {
  FILE* file = fopen(path, "rb");
  size_t size = file == NULL ? 0 : fread(text, 1, sizeof(text), file);
  if (size == 0) exit((fprintf(stderr, "%s: cannot be read\n", path), 1));
  fclose(file);
  return size;
}

static PJRT_Client* CreateClient(void) {
  ARGS(PJRT_Plugin_Initialize_Args, initialize);
  ARGS(PJRT_Client_Create_Args, create);
  Check(api->PJRT_Plugin_Initialize(&initialize), "initialize");
  Check(api->PJRT_Client_Create(&create), "client");
  return create.client;
}

static PJRT_LoadedExecutable* Compile(PJRT_Client* client, size_t size) {
  // A CompileOptionsProto: executable_build_options (field 3) with num_replicas = 1 (4) and num_partitions = 1 (5).
  static const char options[] = {0x1a, 4, 0x20, 1, 0x28, 1};
  ARGS(PJRT_Program, program);
  program.code = text;
  program.code_size = size;
  program.format = "mlir";
  program.format_size = 4;
  ARGS(PJRT_Client_Compile_Args, compile);
  compile.client = client;
  compile.program = &program;
  compile.compile_options = options;
  compile.compile_options_size = sizeof(options);
  Check(api->PJRT_Client_Compile(&compile), "compile");
  return compile.executable;
}

static PJRT_Buffer* ToDevice(PJRT_Client* client, PJRT_Device* device, const float* data, const int64_t* dims,
                             size_t rank) {
  ARGS(PJRT_Client_BufferFromHostBuffer_Args, put);
  put.client = client;
  put.data = data;
  put.type = PJRT_Buffer_Type_F32;
  put.dims = dims;
  put.num_dims = rank;
  put.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  put.device = device;
  Check(api->PJRT_Client_BufferFromHostBuffer(&put), "buffer from host");
  Await(put.done_with_host_buffer, "buffer from host");
  return put.buffer;
}

static PJRT_Buffer* Run(PJRT_LoadedExecutable* executable, PJRT_Buffer* const* arguments, size_t count) {
  PJRT_Buffer *result = NULL, **results = &result;  // one device, one result
  PJRT_Event* done = NULL;
  ARGS(PJRT_ExecuteOptions, options);
  ARGS(PJRT_LoadedExecutable_Execute_Args, execute);
  execute.executable = executable;
  execute.options = &options;
  execute.argument_lists = &arguments;
  execute.num_devices = 1;
  execute.num_args = count;
  execute.output_lists = &results;
  execute.device_complete_events = &done;
  Check(api->PJRT_LoadedExecutable_Execute(&execute), "execute");
  Await(done, "execute");
  return result;
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s PLUGIN.so program.mlir\n", argv[0]), 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);  // for the life of the process: plugins are not unloaded
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const PJRT_Api* (*get_api)(void);
  *(void**)&get_api = dlsym(library, "GetPjrtApi");
  if (get_api == NULL) return fprintf(stderr, "%s: no GetPjrtApi\n", argv[1]), 1;
  api = get_api();
  printf("PJRT C API %d.%d\n", api->pjrt_api_version.major_version, api->pjrt_api_version.minor_version);

  PJRT_Client* client = CreateClient();
  ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = client;
  Check(api->PJRT_Client_AddressableDevices(&devices), "devices");
  PJRT_LoadedExecutable* executable = Compile(client, ReadFile(argv[2]));

  const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0, 0, 1, 1, -1}, b[] = {0.5f, -0.5f};
  const int64_t xw_dims[] = {2, 3, 2};
  PJRT_Device* device = devices.addressable_devices[0];
  PJRT_Buffer* arguments[] = {ToDevice(client, device, x, xw_dims, 2), ToDevice(client, device, w, xw_dims + 1, 2),
                              ToDevice(client, device, b, xw_dims, 1)};
  float out[4];
  ARGS(PJRT_Buffer_ToHostBuffer_Args, get);
  get.src = Run(executable, arguments, 3);
  get.dst = out;
  get.dst_size = sizeof(out);
  Check(api->PJRT_Buffer_ToHostBuffer(&get), "buffer to host");
  Await(get.event, "buffer to host");
  printf("%g %g\n%g %g\n", out[0], out[1], out[2], out[3]);

  for (int i = 0; i < 3; i++) DESTROY(Buffer, buffer, arguments[i]);
  DESTROY(Buffer, buffer, get.src);
  DESTROY(LoadedExecutable, executable, executable);
  DESTROY(Client, client, client);

  const float want[] = {4.5f, 0, 10.5f, 0};  // x * w + b = 4.5 -1.5 / 10.5 -1.5, and nothing below zero
  return memcmp(out, want, sizeof(out)) != 0;
}
