// A complete backend to start from: the author adds kernels, and the evaluator (core/eval) runs every operation that
// has none. docs/writing_a_plugin.md is the tutorial.
//
//   std::unique_ptr<Backend> backplane::CreateBackend(BackendServices services) {
//     mixed::Options options;
//     options.platform_name = "my_backend";
//     options.version = "my_backend 0.1.0";
//     options.claims.Add({"matmul", Opcode::kDot, {PrimitiveType::kF32}, &IsMatrixProduct, &MakeMatmul});
//     return mixed::MakeBackend(std::move(options), std::move(services));
//   }
//
// It supports any number of devices, collectives, SPMD programs, custom calls, transfers to and from the host,
// donation, layouts, serialization and memory statistics. The author claims operations for kernels (claims.h). The
// compile log of a program tells which kernel runs each instruction, why a kernel was refused, and which share of the
// work was left to the evaluator.
//
// Arrays are in host memory unless `memory` is given. Then they are in device memory, and are copied to the host only
// for the evaluator (device_memory.h).
#ifndef BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_
#define BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_

#include <memory>
#include <string>

#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"
#include "sdk/backend/mixed/claims.h"

namespace backplane::mixed {

struct Options {
  std::string platform_name;  // seen by hosts; JAX chooses lowering rules by it ("cpu" lowers to LAPACK, for example)
  // Name and version. Part of the keys of compilation caches: change it whenever kernels change.
  std::string version;
  std::string device_kind;                           // empty: the platform name
  int device_count = 1;                              // the default number of devices
  std::string device_count_option = "device_count";  // the create option for another number, 1 to 1024
  NamedValues plugin_attributes;                     // added to those of the shim
  std::shared_ptr<DeviceMemory> memory;              // null: host memory
  Claims claims;
};

std::unique_ptr<Backend> MakeBackend(Options options, BackendServices services);

// Returns devices 0 to devices-1 in process 0. Device d has the memories "device" (its default), "pinned_host" and
// "unpinned_host" with the ids 3d, 3d+1, 3d+2.
Topology MakeTopology(const Options& options, int devices);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_
