// Extension 3, Stream, version 0: orders work with streams of the platform, for DLPack.
#ifndef BACKPLANE_API_EXTENSIONS_STREAM_H_
#define BACKPLANE_API_EXTENSIONS_STREAM_H_

#include "api/pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PJRT_API_STREAM_EXTENSION_VERSION 0

// Returns the stream on which other users signal that memory they share is ready.
struct PJRT_Get_Stream_For_External_Ready_Events_Args {
  size_t struct_size;
  PJRT_Device* device;  // in
  intptr_t stream;      // out: a handle of the platform, such as a cudaStream_t; belongs to the device
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Get_Stream_For_External_Ready_Events_Args, stream);
typedef PJRT_Error* PJRT_Get_Stream_For_External_Ready_Events(PJRT_Get_Stream_For_External_Ready_Events_Args* args);

// Makes a stream wait until a buffer is ready, without blocking the caller.
struct PJRT_Wait_Until_Buffer_Ready_On_Stream_Args {
  size_t struct_size;
  intptr_t stream;      // in
  PJRT_Buffer* buffer;  // in
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args, buffer);
typedef PJRT_Error* PJRT_Wait_Until_Buffer_Ready_On_Stream(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args* args);

// The extension.
struct PJRT_Stream_Extension {
  PJRT_Extension_Base base;
  PJRT_Get_Stream_For_External_Ready_Events* get_stream;
  PJRT_Wait_Until_Buffer_Ready_On_Stream* wait_stream;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Stream_Extension, wait_stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BACKPLANE_API_EXTENSIONS_STREAM_H_
