#include "sdk/engine/backend/executable.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/engine/backend/launch.h"

namespace backplane::engine {
namespace {

class EngineLaunch : public ProgramLaunch {
 public:
  // `arguments` are those of ProgramLaunch.
  template <typename... Arguments>
  explicit EngineLaunch(std::shared_ptr<PackedWeights> packed_weights, Arguments&&... arguments)
      : ProgramLaunch(std::forward<Arguments>(arguments)...), packed_weights_(std::move(packed_weights)) {}

  // The arguments stay in the request.
  absl::Status Prepare(EngineClient& client, const EngineExecutable& executable, std::vector<DeviceArray>* results) {
    const std::vector<OutputInfo>& outputs = executable.signature().outputs;
    arguments_.reserve(request().arguments.size());
    for (const DeviceArray& a : request().arguments) arguments_.push_back(a.storage ? a.storage->data() : nullptr);
    results->reserve(outputs.size());
    outputs_.reserve(outputs.size());
    const int32_t memory = client.topology().devices[static_cast<size_t>(request().device)].memories[0];
    for (size_t k = 0; k < outputs.size(); ++k) {
      DeviceArray& out = results->emplace_back(outputs[k].shape, memory);
      const int32_t alias = outputs[k].alias;
      // The program stores one element in ByteWidth bytes, whatever element size the layout states.
      const size_t bytes = out.shape.IsArray() ? static_cast<size_t>(out.shape.byte_size()) : 0;
      if (alias >= 0 && request().donated[static_cast<size_t>(alias)]) {
        out.storage = request().arguments[static_cast<size_t>(alias)].storage;
      } else {
        ASSIGN_OR_RETURN(out.storage, client.Allocate(out.memory, bytes));
        if (alias >= 0) {
          // The caller keeps the argument: the program works on a copy, which becomes the output.
          preserve_.push_back({arguments_[static_cast<size_t>(alias)], out.storage->data(), bytes});
          arguments_[static_cast<size_t>(alias)] = out.storage->data();
        }
      }
      outputs_.push_back(out.storage->data());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Run() override {
    for (const Preserve& p : preserve_) std::memcpy(p.to, p.from, p.bytes);
    // Now that all who read a donated array have ended, and before this program writes to it.
    for (size_t k = 0; k < request().arguments.size(); ++k) {
      if (request().donated[k]) DropForms(request().arguments[k].storage.get());
    }
    return RunProgram(arguments_, outputs_, FindPackedWeights());
  }

  void DropForms(Storage* storage) {
    if (KeptForms* forms = storage == nullptr ? nullptr : storage->kept_forms(); forms != nullptr)
      packed_weights_->Drop(*forms);
  }

  std::vector<PackedWeights::Block> FindPackedWeights() {
    const std::vector<PackableWeight>& weights = program().packable_weights();
    std::vector<PackedWeights::Block> blocks(weights.size());
    for (size_t k = 0; k < weights.size(); ++k) {
      const auto argument = static_cast<size_t>(weights[k].argument);
      Storage* storage = request().arguments[argument].storage.get();
      KeptForms* forms = storage == nullptr || request().donated[argument] ? nullptr : storage->kept_forms();
      if (forms == nullptr) continue;
      blocks[k] = packed_weights_->Find(*forms, program().id() << 20 | k, weights[k].bytes,
                                        [&](void* packed) { return weights[k].pack(arguments_[argument], packed); });
    }
    return blocks;
  }

  struct Preserve {
    const void* from;
    void* to;
    size_t bytes;
  };
  const std::shared_ptr<PackedWeights> packed_weights_;
  std::vector<void*> arguments_, outputs_;
  std::vector<Preserve> preserve_;  // arguments whose memory the program overwrites though the caller keeps them
};

class EngineLoadedExecutable : public LoadedExecutable {
 public:
  EngineLoadedExecutable(EngineClient* client, std::shared_ptr<const EngineExecutable> executable)
      : client_(client),
        executable_(std::move(executable)),
        budget_(client->budget()),
        nodes_(DescribeLaunch(client->group(), *executable_)) {}
  ~EngineLoadedExecutable() override {
    if (reserved_) budget_->Release(executable_->program().constant_bytes());
  }

  // Takes the room of the constants out of the client's budget, until the end.
  absl::Status Reserve() {
    RETURN_IF_ERROR(
        budget_->Reserve(executable_->program().constant_bytes(), absl::StrCat(executable_->name(), ": constants")));
    reserved_ = true;
    return absl::OkStatus();
  }

  void Abandon(int64_t run_id, const absl::Status& why) override { Runtime::Get().launches.Abandon(run_id, why); }

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    auto launch = std::make_shared<EngineLaunch>(client_->packed_weights(), std::move(request), executable_,
                                                 executable_->program(), client_->collective_time_limit(),
                                                 client_->budget(), client_->subnormals(), &nodes_);
    std::vector<DeviceArray> outputs;
    absl::Status prepared = Fault(FaultSite::kLaunch);
    if (prepared.ok()) prepared = launch->Prepare(*client_, *executable_, &outputs);
    if (!prepared.ok()) return launch->EndUnstarted(std::move(prepared));
    // Hosts of one device expect the effects of a call, and its error, when it returns, as with JAX's own CPU client.
    // With several devices that could wait for ever: a callback of one may wait for another.
    const bool alone = client_->topology().devices.size() == 1;
    return ProgramLaunch::Start(std::move(launch), std::move(outputs), 0, alone);
  }

 private:
  EngineClient* client_;
  std::shared_ptr<const EngineExecutable> executable_;
  const std::shared_ptr<MemoryBudget> budget_;
  const NodeLaunch nodes_;
  bool reserved_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> EngineExecutable::Create(std::unique_ptr<Program> program,
                                                                     CompileOptions options, NamedValues cost,
                                                                     std::string fingerprint,
                                                                     std::vector<std::string> log) {
  std::shared_ptr<EngineExecutable> out(new EngineExecutable);
  out->program_ = std::move(program);
  out->options_ = std::move(options);
  out->cost_ = std::move(cost);
  out->fingerprint_ = std::move(fingerprint);
  out->log_ = std::move(log);
  // The program's arrays have the layouts of the entry. Buffer assignment has decided which donors an output can use;
  // one that none can use stays the host's.
  ASSIGN_OR_RETURN(out->signature_, DescribeEntry(out->program_->module(), LayoutSource::kEntry));
  out->signature_.SetAliases(out->program_->assignment().output_alias);
  return std::shared_ptr<Executable>(std::move(out));
}

CompiledMemoryStats EngineExecutable::memory_stats() const {
  CompiledMemoryStats m = ComputeEntryMemoryStats(signature_);
  m.generated_code = program_->code_bytes();
  m.temp = program_->temporary_bytes();
  m.total = m.argument + m.output - m.alias + m.temp + m.generated_code;
  m.peak = m.argument + m.output - m.alias + m.temp;
  return m;
}

std::string EngineExecutable::compile_log() const { return absl::StrCat(absl::StrJoin(log_, "\n"), "\n"); }

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadEngineExecutable(EngineClient* client,
                                                                       std::shared_ptr<const Executable> executable) {
  // Every executable of this plugin is made by this plugin: the shim hands back what Compile or Deserialize returned.
  auto ours = std::static_pointer_cast<const EngineExecutable>(std::move(executable));
  auto loaded = std::make_unique<EngineLoadedExecutable>(client, std::move(ours));
  RETURN_IF_ERROR(loaded->Reserve());
  return loaded;
}

}  // namespace backplane::engine
