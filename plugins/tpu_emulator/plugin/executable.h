// A program compiled for the emulated machine.
//
// It runs on the engine (sdk/engine). Contractions run on the emulated matrix unit (array/array_lowering.h), which
// reads and writes tiles itself. Arguments and results that the program keeps tiled (program/keep_entry_tiled.h) are
// passed as they are. Other arguments are converted to row-major working memory before the program runs, and other
// results are converted to tiles afterwards.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_EXECUTABLE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_EXECUTABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/tpu_emulator/plugin/client.h"
#include "plugins/tpu_emulator/plugin/options.h"
#include "plugins/tpu_emulator/plugin/tiled_copy.h"
#include "plugins/tpu_emulator/report/report_folder.h"
#include "sdk/backend/backend.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::tpu {

// The properties of a program other than its code.
struct EmulatorProgramFacts {
  CompileOptions options;
  std::string fingerprint;
  std::string version;  // identifies the plugin, the machine and its options: ComputeVersion
  NamedValues cost;
  CompiledMemoryStats memory;        // without generated_code and total
  std::shared_ptr<RunCounter> runs;  // null without a report
};

class EmulatorExecutable : public Executable {
 public:
  // `lowered` has been through the engine's passes with an ArrayLowering of this machine. `kernels` is the program as
  // the machine runs it; its ModuleConfig has the layouts of arguments and results, and hosts are shown this form.
  // `objects` is the machine code of an earlier build of the same module, or null.
  static absl::StatusOr<std::shared_ptr<Executable>> Build(std::unique_ptr<Module> lowered,
                                                           std::unique_ptr<const Module> kernels,
                                                           EmulatorProgramFacts facts, int64_t array_side,
                                                           CustomCallRegistry* custom_calls,
                                                           const std::vector<engine::jit::ObjectCode>* objects,
                                                           std::vector<std::string> log);

  const std::string& name() const override { return kernels_->name(); }
  const CompileOptions& options() const override { return facts_.options; }
  const ExecutableSignature& signature() const override { return signature_; }
  const Module* optimized_module() const override { return &*kernels_; }
  std::string fingerprint() const override { return facts_.fingerprint; }
  int64_t code_size() const override { return program_->code_bytes(); }
  NamedValues cost() const override { return facts_.cost; }
  CompiledMemoryStats memory_stats() const override;
  std::string compile_log() const override;
  absl::StatusOr<std::string> Serialize() const override;

  const engine::Program& program() const { return *program_; }
  RunCounter* runs() const { return facts_.runs.get(); }

  // How the program accesses a leaf of the arguments or results.
  struct Leaf {
    enum class Access : uint8_t {
      kNone,     // a token, or no elements
      kInPlace,  // in the device memory of the array
      kCopied,   // in row-major working memory, at `offset`
    };
    Access access = Access::kNone;
    int64_t offset = 0;
    int32_t alias = -1;  // of a result: the argument whose memory it reuses
    int64_t bytes = 0;   // in the form that the program uses
    TiledCopy copy;      // used if access is kCopied
  };
  const std::vector<Leaf>& argument_leaves() const { return argument_leaves_; }
  const std::vector<Leaf>& result_leaves() const { return result_leaves_; }
  int64_t working_bytes() const { return working_bytes_; }
  int64_t copied_bytes() const { return copied_bytes_; }

 private:
  EmulatorExecutable() = default;
  absl::Status PlanLeaves(const std::vector<bool>& reads, const std::vector<bool>& writes);

  std::unique_ptr<engine::Program> program_;
  std::unique_ptr<const Module> kernels_;
  EmulatorProgramFacts facts_;
  std::vector<std::string> log_;
  ExecutableSignature signature_;
  std::vector<Leaf> argument_leaves_, result_leaves_;
  int64_t working_bytes_ = 0, copied_bytes_ = 0;
};

absl::StatusOr<std::shared_ptr<Executable>> CompileForMachine(std::unique_ptr<Module> module,
                                                              const CompileOptions& options,
                                                              const EmulatorOptions& chosen,
                                                              CustomCallRegistry* custom_calls);

// Returns FailedPrecondition if the bytes were made for another machine, other options, another host or another
// version.
absl::StatusOr<std::shared_ptr<Executable>> DeserializeForMachine(absl::string_view bytes,
                                                                  const EmulatorOptions& chosen,
                                                                  CustomCallRegistry* custom_calls);

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadEmulatorExecutable(EmulatorClient* client,
                                                                         std::shared_ptr<const Executable> executable);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_EXECUTABLE_H_
