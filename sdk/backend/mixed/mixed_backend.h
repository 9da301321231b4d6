// A backend to begin with: complete from the first minute, because every operation its author has no kernel for is
// evaluated by its definition (core/eval). docs/writing_a_plugin.md is the tutorial.
//
//   std::unique_ptr<Backend> backplane::CreateBackend(BackendServices services) {
//     mixed::Options options;
//     options.platform_name = "my_backend";
//     options.version = "my_backend 0.1.0";
//     options.claims.Add({"matmul", Opcode::kDot, {PrimitiveType::kF32}, &IsMatrixProduct, &MakeMatmul});
//     return mixed::MakeBackend(std::move(options), std::move(services));
//   }
//
// What it brings: any number of devices, collectives between them, SPMD programs, custom calls, transfers with the
// host, donation, layouts, serialization, memory statistics. What is fast is what the author claims (claims.h). The
// compile log tells for each program which kernel runs what, why one did not, and how much of the work was left to the
// evaluator.
//
// Arrays lie in the host's memory unless `memory` is given; then they lie in the device's, and cross over only where
// the evaluator has to look at them (device_memory.h).
#ifndef BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_
#define BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_

#include <memory>
#include <string>

#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"
#include "sdk/backend/mixed/claims.h"

namespace backplane::mixed {

struct Options {
  std::string platform_name;  // what hosts call it, and what decides JAX's lowering rules: "cpu" has LAPACK, ...
  // Name and version. Part of the keys of compilation caches: change it when kernels change.
  std::string version;
  std::string device_kind;                           // empty: the platform's name
  int device_count = 1;                              // when the host does not ask for a number
  std::string device_count_option = "device_count";  // the create option by which it asks, 1 to 1024
  NamedValues plugin_attributes;                     // added to what the shim says
  std::shared_ptr<DeviceMemory> memory;              // null: the host's
  Claims claims;
};

std::unique_ptr<Backend> MakeBackend(Options options, BackendServices services);

// Devices 0 to n-1 in process 0, each with the memories "device" (its default), "pinned_host" and "unpinned_host", ids
// 3d, 3d+1, 3d+2.
Topology MakeTopology(const Options& options, int devices);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_MIXED_BACKEND_H_
