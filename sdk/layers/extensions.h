// Includes all headers of extensions.
#ifndef BACKPLANE_SDK_LAYERS_EXTENSIONS_H_
#define BACKPLANE_SDK_LAYERS_EXTENSIONS_H_

#include "api/backplane_c_api.h"
#include "api/extensions/abi_version.h"
#include "api/extensions/callback.h"
#include "api/extensions/collectives.h"
#include "api/extensions/cross_host_transfers.h"
#include "api/extensions/custom_partitioner.h"
#include "api/extensions/device_event.h"
#include "api/extensions/executable_metadata.h"
#include "api/extensions/ffi.h"
#include "api/extensions/gpu_custom_call.h"
#include "api/extensions/host_allocator.h"
#include "api/extensions/host_memory_allocator.h"
#include "api/extensions/layouts.h"
#include "api/extensions/megascale.h"
#include "api/extensions/memory_descriptions.h"
#include "api/extensions/multi_slice.h"
#include "api/extensions/phase_compile.h"
#include "api/extensions/profiler.h"
#include "api/extensions/raw_buffer.h"
#include "api/extensions/shardings.h"
#include "api/extensions/stream.h"
#include "api/extensions/tpu_executable.h"
#include "api/extensions/tpu_topology.h"
#include "api/extensions/triton.h"
#include "api/extensions/xla_transform.h"
#include "api/pjrt_c_api.h"

#endif  // BACKPLANE_SDK_LAYERS_EXTENSIONS_H_
