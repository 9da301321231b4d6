// Executables of a mixed backend: a module and the kernels of its instructions.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_EXECUTABLE_H_
#define BACKPLANE_SDK_BACKEND_MIXED_EXECUTABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/backend/mixed/claims.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/backend/mixed/collectives.h"
#include "sdk/backend/mixed/custom_calls.h"
#include "sdk/backend/mixed/interpreter.h"

namespace backplane::mixed {

class MixedExecutable : public Executable {
 public:
  // Creates the executable of a module on which all passes have run. `version` becomes part of the serialized form.
  // `log` is the log of the passes.
  static absl::StatusOr<std::shared_ptr<MixedExecutable>> Create(std::unique_ptr<Module> module, CompileOptions options,
                                                                 const std::string& version, const Claims& claims,
                                                                 CustomCallRegistry& registry, std::string log);

  const std::string& name() const override { return module_->name(); }
  const CompileOptions& options() const override { return options_; }
  const ExecutableSignature& signature() const override { return signature_; }
  const Module* optimized_module() const override { return module_.get(); }
  std::string fingerprint() const override { return fingerprint_; }
  NamedValues cost() const override;
  CompiledMemoryStats memory_stats() const override;
  std::string compile_log() const override { return log_; }
  absl::StatusOr<std::string> Serialize() const override;

  const Program& program() const { return *program_; }
  const CustomCalls& custom_calls() const { return custom_calls_; }
  const Collectives& collectives() const { return collectives_; }
  // By output: the instruction whose kernel writes directly to the output's buffer. Null: the value is copied there.
  const std::vector<const Instruction*>& writer_of_output() const { return writer_of_output_; }

 private:
  MixedExecutable() = default;
  void FindWriters();
  std::unique_ptr<Module> module_;
  std::unique_ptr<Program> program_;
  CompileOptions options_;
  std::string version_, fingerprint_;
  ExecutableSignature signature_;
  std::vector<const Instruction*> writer_of_output_;
  CustomCalls custom_calls_;
  Collectives collectives_;
  std::string log_;
};

// Compiles a module. `finish`, if given, is called after all passes and before kernels are chosen. It may change only
// the layouts of the entry's parameters and results (ModuleConfig).
absl::StatusOr<std::shared_ptr<Executable>> CompileMixed(std::unique_ptr<Module> module, const CompileOptions& options,
                                                         const std::string& version, const Claims& claims,
                                                         CustomCallRegistry& registry,
                                                         const std::function<absl::Status(Module*)>& finish = nullptr);
absl::StatusOr<std::shared_ptr<Executable>> DeserializeMixed(absl::string_view bytes, const std::string& version,
                                                             const Claims& claims, CustomCallRegistry& registry);
absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadMixed(std::shared_ptr<const Executable> executable,
                                                            std::shared_ptr<Runtime> runtime);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_EXECUTABLE_H_
