// A compiled program: machine code, the slots of its arrays, and the thunks that run it.
//
// Built from a module that has been through the passes of the engine (sdk/engine/backend/pipeline.h). Immutable
// afterwards. Run may be called by many threads at once; each run has its own temporary memory.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/module.h"
#include "sdk/compiler/buffer_assignment.h"
#include "sdk/engine/compiler/custom_lowering.h"
#include "sdk/engine/jit/jit.h"
#include "sdk/engine/runtime/memory_pool.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

using compiler::AssignBuffers;

struct ProgramOptions {
  ThreadPool* pool = nullptr;  // compiles on these threads; may be null
  int num_threads = 1;         // number of threads that runs will use
  CustomCallRegistry* custom_calls = nullptr;
  // The code of an earlier build of the same module, which is linked instead of compiling; may be null.
  const std::vector<jit::ObjectCode>* objects = nullptr;
  const CustomLowering* lowering = nullptr;  // may be null; must outlive the call of Build
};

// Properties of a program that a launch needs, besides its estimated time.
struct ProgramTraits {
  bool communicates = false;        // communicates with other devices: a run needs ExecutionContext::member
  bool has_host_effects = false;    // custom calls with side effects, callbacks among them
  bool has_unbounded_loop = false;  // there is a loop of unknown trip count
};

// Weights that a kernel of the program can read in a packed form. Executions may provide it
// (ExecutionContext::packed_weights).
struct PackableWeight {
  int32_t argument = 0;  // the leaf
  int64_t bytes = 0;     // of the packed form
  std::function<absl::Status(const void* weights, void* packed)> pack;
};

class Program {
 public:
  // Builds a program. `log`, which may be null, receives one line for each thunk that is not generated code, and for
  // each refusal of a faster kernel.
  static absl::StatusOr<std::unique_ptr<Program>> Build(std::unique_ptr<Module> module, const ProgramOptions& options,
                                                        std::vector<std::string>* log);
  ~Program();

  const Module& module() const { return *module_; }
  const BufferAssignment& assignment() const { return assignment_; }
  const std::vector<jit::ObjectCode>& objects() const { return objects_; }
  int64_t code_bytes() const { return library_ ? library_->code_bytes() : 0; }
  int64_t temporary_bytes() const { return (assignment_.temporary_bytes + 63) / 64 * 64 + workspace_bytes_; }
  int64_t constant_bytes() const { return constant_bytes_; }
  double estimated_us() const { return estimated_us_; }
  bool may_block() const { return may_block_; }
  bool may_use_pool() const { return may_use_pool_; }  // worth waking the pool before a run
  const ProgramTraits& traits() const { return traits_; }

  // Whether there are loops of unknown length or calls of the host: the time is known only from earlier runs.
  bool time_depends_on_data() const { return traits_.has_unbounded_loop || may_block_; }
  // For a program that may block: the runs since a step that may block was executed last.
  int runs_without_host_calls() const { return runs_without_host_calls_.load(std::memory_order_relaxed); }

  // For a program whose time depends on its data: about the longest of its recent runs, in microseconds. A run counts
  // less with each run after it. One of up to 5 ms that is much longer than those before it, as when another process
  // had the core, at most doubles the value. Before the first runs a long run is assumed. Callers measure the runs.
  double recent_us() const { return recent_us_.load(std::memory_order_relaxed); }
  void AddRecentRun(double microseconds) const;
  const std::vector<PackableWeight>& packable_weights() const { return packable_weights_; }
  uint64_t id() const { return id_; }  // of this program in the process

  // Runs the program and blocks until it has ended. `arguments` and `outputs` hold the addresses of the leaves, in
  // order (null for tokens).
  absl::Status Run(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                   MemoryPool* memory, const ExecutionContext& context) const;

  // Runs the program once and measures each thunk of the entry. Returns the name of its instruction and its time, in
  // order. For benchmarks.
  struct StepTime {
    std::string name;
    double microseconds = 0;
  };
  absl::StatusOr<std::vector<StepTime>> Profile(absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                                                ThreadPool* pool, MemoryPool* memory,
                                                const ExecutionContext& context) const;

 private:
  absl::Status RunTraced(const RunState& state) const;
  absl::Status RunThunks(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                         MemoryPool* memory, const ExecutionContext& context, std::vector<StepTime>* times) const;

  Program() = default;
  absl::Status CopyConstants();

  std::unique_ptr<Module> module_;
  BufferAssignment assignment_;
  std::vector<jit::ObjectCode> objects_;
  std::unique_ptr<jit::CodeLibrary> library_;
  std::vector<std::shared_ptr<std::byte>> constants_;
  ThunkSequence thunks_;
  std::vector<std::string> thunk_names_;  // of the entry's
  int64_t workspace_bytes_ = 0, constant_bytes_ = 0;
  double estimated_us_ = 0;
  mutable std::atomic<double> recent_us_{1000};
  mutable std::atomic<int> runs_without_host_calls_{0};
  bool may_block_ = false, may_use_pool_ = false;
  ProgramTraits traits_;
  std::vector<PackableWeight> packable_weights_;
  uint64_t id_ = 0;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_H_
