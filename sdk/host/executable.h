// Compiled programs, and compiled programs that are loaded on devices.
//
// Thread-safe, except for moving and destroying. Both classes keep their client alive.
#ifndef BACKPLANE_SDK_HOST_EXECUTABLE_H_
#define BACKPLANE_SDK_HOST_EXECUTABLE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "sdk/host/async_transfer.h"
#include "sdk/host/buffer.h"
#include "sdk/host/execute_options.h"

namespace backplane::host {

// A program in one of the formats "mlir" (StableHLO as text, bytecode or portable artifact), "hlo" (serialized
// HloModuleProto) and "hlo_with_config".
struct Program {
  std::string format;
  std::string code;
};

// The memory that a program needs on one device, in bytes. Zero if the version of the plugin does not report it.
struct CompiledMemoryStats {
  int64_t generated_code = 0, argument = 0, output = 0, alias = 0, temp = 0;
  int64_t host_generated_code = 0, host_argument = 0, host_output = 0, host_alias = 0, host_temp = 0;
  int64_t peak_memory = 0, total_size = 0, total_allocation = 0, indefinite_allocations = 0, peak_unpadded_heap = 0;
};

class Executable {
 public:
  Executable() = default;
  // Takes ownership of `raw`.
  Executable(const Plugin& plugin, std::shared_ptr<const void> keep, PJRT_Executable* raw)
      : handle_(plugin, std::move(keep), raw) {}
  absl::StatusOr<std::string> Name() const;
  absl::StatusOr<size_t> NumReplicas() const;
  absl::StatusOr<size_t> NumPartitions() const;
  absl::StatusOr<size_t> NumOutputs() const;
  absl::StatusOr<int64_t> SizeOfGeneratedCode() const;  // bytes
  absl::StatusOr<std::string> Fingerprint() const;
  absl::StatusOr<std::vector<NamedValue>> CostAnalysis() const;
  absl::StatusOr<CompiledMemoryStats> MemoryStats() const;
  absl::StatusOr<std::vector<ArrayShape>> OutputShapes() const;
  absl::StatusOr<std::vector<std::string>> ParameterMemoryKinds() const;
  absl::StatusOr<std::vector<std::string>> OutputMemoryKinds() const;
  absl::StatusOr<Program> OptimizedProgram() const;
  absl::StatusOr<std::string> Serialize() const;                 // for Client::Deserialize of the same platform version
  absl::StatusOr<std::string> SerializedCompileOptions() const;  // CompileOptionsProto

  explicit operator bool() const { return static_cast<bool>(handle_); }
  PJRT_Executable* raw() const { return handle_.get(); }

 private:
  internal::Handle<PJRT_Executable> handle_;
};

class LoadedExecutable {
 public:
  LoadedExecutable() = default;
  // Takes ownership of `raw`.
  LoadedExecutable(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_LoadedExecutable* raw)
      : handle_(plugin, std::move(client), raw), num_outputs_(std::make_unique<std::atomic<int64_t>>(-1)) {}

  absl::StatusOr<Executable> GetExecutable() const;  // a separate object
  // Returns the devices in the order of the argument lists of an execution.
  absl::StatusOr<std::vector<Device>> AddressableDevices() const;
  struct LogicalId {
    int replica, partition;
  };
  absl::StatusOr<std::vector<LogicalId>> AddressableDeviceLogicalIds() const;  // in the same order
  absl::StatusOr<std::string> DeviceAssignment() const;                        // DeviceAssignmentProto
  absl::Status Delete() const;
  absl::StatusOr<bool> IsDeleted() const;

  // Starts the program on all its devices in this process and returns without waiting for the outputs. `arguments` has
  // one list for each device. Donated arguments are deleted when the function returns. After an error nothing has been
  // started.
  absl::StatusOr<ExecuteResult> Execute(absl::Span<const std::vector<const Buffer*>> arguments,
                                        const ExecuteOptions& options = {}) const;
  // Executes a program that runs on one device, and returns its outputs.
  absl::StatusOr<std::vector<Buffer>> Execute(absl::Span<const Buffer* const> arguments,
                                              const ExecuteOptions& options = {}) const;

  explicit operator bool() const { return static_cast<bool>(handle_); }
  PJRT_LoadedExecutable* raw() const { return handle_.get(); }
  const Plugin& plugin() const { return handle_.plugin(); }

 private:
  absl::StatusOr<size_t> NumOutputs() const;
  internal::Handle<PJRT_LoadedExecutable> handle_;
  std::unique_ptr<std::atomic<int64_t>> num_outputs_;  // -1: not known yet
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_EXECUTABLE_H_
