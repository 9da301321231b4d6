// A program compiled for the host's processor, and the functions that load and deserialize it.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_EXECUTABLE_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_EXECUTABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

class EngineExecutable : public Executable {
 public:
  // `cost` is the cost of the program before fusion.
  static absl::StatusOr<std::shared_ptr<Executable>> Create(std::unique_ptr<Program> program, CompileOptions options,
                                                            NamedValues cost, std::string fingerprint,
                                                            std::vector<std::string> log);

  const std::string& name() const override { return program_->module().name(); }
  const CompileOptions& options() const override { return options_; }
  const ExecutableSignature& signature() const override { return signature_; }
  const Module* optimized_module() const override { return &program_->module(); }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t code_size() const override { return program_->code_bytes(); }
  NamedValues cost() const override { return cost_; }
  CompiledMemoryStats memory_stats() const override;
  std::string compile_log() const override;
  absl::StatusOr<std::string> Serialize() const override;

  const Program& program() const { return *program_; }

 private:
  EngineExecutable() = default;
  std::unique_ptr<Program> program_;
  CompileOptions options_;
  NamedValues cost_;
  std::string fingerprint_;
  std::vector<std::string> log_;
  ExecutableSignature signature_;
};

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadEngineExecutable(EngineClient* client,
                                                                       std::shared_ptr<const Executable> executable);

// Returns the target of serialized machine code: the host's processor and this build. See ExecutableWriter in
// serialized_executable.h.
std::string DescribeCodeTarget();

// Reads the bytes of EngineExecutable::Serialize. Returns FailedPrecondition if another host or build wrote them.
absl::StatusOr<std::shared_ptr<Executable>> DeserializeEngineExecutable(absl::string_view bytes,
                                                                        CustomCallRegistry* custom_calls);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_EXECUTABLE_H_
