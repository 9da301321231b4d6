// Executables of the HIP plugin.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_EXECUTABLE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_EXECUTABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/hip/backend/client.h"
#include "plugins/hip/program/program.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/mixed/collectives.h"
#include "sdk/backend/mixed/custom_calls.h"

namespace backplane::hip {

class HipExecutable : public Executable {
 public:
  // Looks up the handlers of the program's custom calls in `registry`, which is not kept.
  static absl::StatusOr<std::shared_ptr<Executable>> Create(std::unique_ptr<GpuProgram> program, std::string target,
                                                            CompileOptions options, NamedValues cost,
                                                            std::string fingerprint, CustomCallRegistry& registry,
                                                            std::vector<std::string> log);

  const std::string& name() const override { return program_->module().name(); }
  const CompileOptions& options() const override { return options_; }
  const ExecutableSignature& signature() const override { return signature_; }
  const Module* optimized_module() const override { return &program_->module(); }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t code_size() const override { return static_cast<int64_t>(program_->image().bytes.size()); }
  NamedValues cost() const override { return cost_; }
  CompiledMemoryStats memory_stats() const override;
  std::string compile_log() const override;
  absl::StatusOr<std::string> PrintCode(absl::string_view form) const override;
  absl::StatusOr<std::string> Serialize() const override;

  // Adds lines to the log that are not there yet: what is known only when the program is loaded on a device.
  // Thread-safe.
  void AddToLog(absl::Span<const std::string> lines) const;

  const GpuProgram& program() const { return *program_; }
  const std::string& target() const { return target_; }
  const mixed::CustomCalls& custom_calls() const { return custom_calls_; }
  const mixed::Collectives& collectives() const { return collectives_; }

 private:
  HipExecutable() = default;
  std::unique_ptr<GpuProgram> program_;
  std::string target_, fingerprint_;
  CompileOptions options_;
  NamedValues cost_;
  ExecutableSignature signature_;
  mixed::CustomCalls custom_calls_;
  mixed::Collectives collectives_;
  mutable Mutex mu_;
  mutable std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
};

// Compiles a module for a GPU by its name (FindGpuTarget).
absl::StatusOr<std::shared_ptr<Executable>> CompileForGpu(std::unique_ptr<Module> module, const std::string& target,
                                                          const CompileOptions& options, CustomCallRegistry& registry);
// Returns FailedPrecondition if another build made the bytes, or if they are for another target.
absl::StatusOr<std::shared_ptr<Executable>> DeserializeForGpu(absl::string_view bytes, const std::string& target,
                                                              CustomCallRegistry& registry);
// Loads an executable, which must be a HipExecutable. `devices`: those that are known to run it; may be empty.
absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadOnGpu(std::shared_ptr<Runtime> runtime,
                                                            std::shared_ptr<const Executable> executable,
                                                            absl::Span<const int32_t> devices);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_EXECUTABLE_H_
