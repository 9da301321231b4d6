// Programs of the reference plugin: a module, kept, and run by the evaluator.
#ifndef BACKPLANE_PLUGINS_REFERENCE_EXECUTABLE_H_
#define BACKPLANE_PLUGINS_REFERENCE_EXECUTABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/reference/client.h"
#include "plugins/reference/collectives.h"
#include "plugins/reference/custom_calls.h"
#include "sdk/backend/backend.h"

namespace backplane::reference {

class ReferenceExecutable : public Executable {
 public:
  // Of a module that has been through its passes. `log`: what they had to say.
  static absl::StatusOr<std::shared_ptr<ReferenceExecutable>> Create(std::unique_ptr<Module> module,
                                                                     CompileOptions options,
                                                                     CustomCallRegistry& registry, std::string log);

  const std::string& name() const override { return module_->name(); }
  const CompileOptions& options() const override { return options_; }
  absl::Span<const ParameterInfo> parameters() const override { return parameters_; }
  absl::Span<const OutputInfo> outputs() const override { return outputs_; }
  const Module& optimized_module() const override { return *module_; }
  std::string fingerprint() const override { return fingerprint_; }
  NamedValues cost() const override;
  CompiledMemoryStats memory_stats() const override;
  std::string compile_log() const override { return log_; }
  absl::StatusOr<std::string> Serialize() const override;

  const CustomCalls& custom_calls() const { return custom_calls_; }
  const Collectives& collectives() const { return collectives_; }
  // The argument whose memory an output takes when it is donated; -1: none.
  const std::vector<int64_t>& alias_of_output() const { return alias_of_output_; }

 private:
  ReferenceExecutable() = default;
  absl::Status Describe();
  std::unique_ptr<Module> module_;
  CompileOptions options_;
  std::string fingerprint_;
  std::vector<ParameterInfo> parameters_;
  std::vector<OutputInfo> outputs_;
  std::vector<int64_t> alias_of_output_;
  CustomCalls custom_calls_;
  Collectives collectives_;
  std::string log_;
};

absl::StatusOr<std::shared_ptr<Executable>> CompileReference(std::unique_ptr<Module> module,
                                                             const CompileOptions& options,
                                                             CustomCallRegistry& registry);
absl::StatusOr<std::shared_ptr<Executable>> DeserializeReference(absl::string_view bytes, CustomCallRegistry& registry);
absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadReference(std::shared_ptr<const Executable> executable,
                                                                const Topology& topology,
                                                                std::shared_ptr<Runtime> runtime);

}  // namespace backplane::reference

#endif  // BACKPLANE_PLUGINS_REFERENCE_EXECUTABLE_H_
