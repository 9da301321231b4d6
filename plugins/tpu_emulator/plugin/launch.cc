// Runs a program: converts arguments out of tiles, runs the engine, and converts results to tiles.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/engine/backend/launch.h"

namespace backplane::tpu {
namespace {

using Leaf = EmulatorExecutable::Leaf;

constexpr double kBytesPerMicrosecond = 4000;  // conversion to or from tiles, on one thread
constexpr int64_t kSpinBytes =
    1 << 17;  // from this many converted bytes on, threads spin between steps instead of sleeping

class EmulatorLaunch : public engine::ProgramLaunch {
 public:
  EmulatorLaunch(ExecuteRequest request, std::shared_ptr<const EmulatorExecutable> executable,
                 std::chrono::milliseconds time_limit, const NodeLaunch* nodes)
      : ProgramLaunch(std::move(request), executable, executable->program(), time_limit, nullptr, Subnormals::kKeep,
                      nodes),
        executable_(*executable) {}

  // `memories`: the memory of each output.
  absl::Status Prepare(EmulatorClient& client, absl::Span<const int32_t> memories, std::vector<DeviceArray>* results) {
    const std::vector<OutputInfo>& outputs = executable_.signature().outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      DeviceArray out;
      out.shape = outputs[k].shape;
      out.memory = memories[k];
      if (const DeviceArray* argument = FindReusedArgument(request(), outputs[k], out.memory)) {
        out.storage = argument->storage;
      } else {
        ASSIGN_OR_RETURN(out.storage, client.Allocate(out.memory, StorageBytes(out.shape)));
      }
      targets_.push_back(out.storage->data());
      results->push_back(std::move(out));
    }
    return absl::OkStatus();
  }

 private:
  struct Copy {
    const TiledCopy* plan;
    const void* from;
    void* to;
  };

  absl::Status Run() override {
    const std::vector<Leaf>&arguments = executable_.argument_leaves(), &results = executable_.result_leaves();
    std::byte* working = nullptr;
    const absl::Cleanup free = [this, &working] {
      if (working != nullptr) runtime().memory.Free(working);
    };
    if (executable_.working_bytes() > 0) {
      working = static_cast<std::byte*>(runtime().memory.Allocate(static_cast<size_t>(executable_.working_bytes())));
      if (working == nullptr) {
        return absl::ResourceExhaustedError(absl::StrCat(executable_.name(), ": the host has not enough memory for ",
                                                         executable_.working_bytes(), " bytes of working memory"));
      }
    }
    std::vector<void*> sources, targets;
    std::vector<Copy> before, after;
    for (size_t p = 0; p < arguments.size(); ++p) {
      const DeviceArray& array = request().arguments[p];
      void* address = array.storage == nullptr ? nullptr : array.storage->data();
      if (arguments[p].access == Leaf::Access::kCopied) {
        sources.push_back(working + arguments[p].offset);
        before.push_back({&arguments[p].copy, address, sources.back()});
      } else {
        sources.push_back(address);
      }
    }
    for (size_t k = 0; k < results.size(); ++k) {
      const Leaf& leaf = results[k];
      if (leaf.access == Leaf::Access::kCopied) {
        targets.push_back(working + leaf.offset);
        after.push_back({&leaf.copy, targets.back(), targets_[k]});
        continue;
      }
      targets.push_back(targets_[k]);
      if (leaf.alias < 0) continue;
      // The caller keeps the argument. The program works on a copy of it, which becomes the output.
      void*& source = sources[static_cast<size_t>(leaf.alias)];
      if (source != targets_[k]) std::memcpy(targets_[k], source, static_cast<size_t>(leaf.bytes));
      source = targets_[k];
    }
    if (executable_.copied_bytes() < kSpinBytes) return RunAll(before, sources, targets, after);
    const engine::ThreadPool::ActiveScope spinning(&runtime().pool);
    return RunAll(before, sources, targets, after);
  }

  absl::Status RunAll(const std::vector<Copy>& before, absl::Span<void* const> sources, absl::Span<void* const> targets,
                      const std::vector<Copy>& after) const {
    RunCopies(before);
    RETURN_IF_ERROR(RunProgram(sources, targets));
    RunCopies(after);
    return absl::OkStatus();
  }

  void RunCopies(const std::vector<Copy>& copies) const {
    std::vector<std::pair<size_t, size_t>> pieces;  // index of the copy, and of its piece
    int64_t bytes = 0;
    for (size_t c = 0; c < copies.size(); ++c) {
      bytes += copies[c].plan->bytes();
      for (size_t p = 0; p < copies[c].plan->pieces(); ++p) pieces.emplace_back(c, p);
    }
    auto run = [&](size_t n) {
      const auto [c, p] = pieces[n];
      copies[c].plan->RunPiece(p, copies[c].from, copies[c].to);
    };
    if (static_cast<double>(bytes) < 20 * kBytesPerMicrosecond || pieces.size() < 2) {
      for (size_t n = 0; n < pieces.size(); ++n) run(n);
      return;
    }
    runtime().pool.ParallelFor(static_cast<int64_t>(pieces.size()),
                               [&](int64_t n, int) { run(static_cast<size_t>(n)); });
  }

  const EmulatorExecutable& executable_;
  std::vector<void*> targets_;  // addresses of the outputs
};

class EmulatorLoadedExecutable : public LoadedExecutable {
 public:
  EmulatorLoadedExecutable(EmulatorClient* client, std::shared_ptr<const EmulatorExecutable> executable)
      : client_(client),
        executable_(std::move(executable)),
        output_memories_(ChooseOutputMemories(client->topology(), executable_->signature())),
        nodes_(DescribeLaunch(client->group(), *executable_)) {}

  void Abandon(int64_t run_id, const absl::Status& why) override {
    engine::Runtime::Get().launches.Abandon(run_id, why);
  }

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    const size_t device = static_cast<size_t>(request.device);
    auto launch =
        std::make_shared<EmulatorLaunch>(std::move(request), executable_, client_->collective_time_limit(), &nodes_);
    std::vector<DeviceArray> outputs;
    absl::Status prepared = launch->Prepare(*client_, output_memories_[device], &outputs);
    if (!prepared.ok()) return launch->EndUnstarted(std::move(prepared));
    if (RunCounter* runs = executable_->runs()) runs->Add();
    return engine::ProgramLaunch::Start(std::move(launch), std::move(outputs),
                                        static_cast<double>(executable_->copied_bytes()) / kBytesPerMicrosecond);
  }

 private:
  EmulatorClient* const client_;
  const std::shared_ptr<const EmulatorExecutable> executable_;
  const std::vector<std::vector<int32_t>> output_memories_;  // by device and output
  const NodeLaunch nodes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedExecutable>> LoadEmulatorExecutable(EmulatorClient* client,
                                                                         std::shared_ptr<const Executable> executable) {
  // The shim passes back what Compile or Deserialize returned, so it is an executable of this plugin.
  return std::make_unique<EmulatorLoadedExecutable>(
      client, std::static_pointer_cast<const EmulatorExecutable>(std::move(executable)));
}

}  // namespace backplane::tpu
