// A compiled program: the image with its kernels, the slots of its arrays, and the steps that run it.
//
// Made from a module that has been through RunGpuPipeline. Immutable afterwards; Run may be called from many threads.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "plugins/hip/lowering/lowering.h"
#include "plugins/hip/program/collective.h"
#include "plugins/hip/program/library_products.h"
#include "plugins/hip/program/program_kernels.h"
#include "plugins/hip/program/step.h"
#include "sdk/compiler/schedule.h"

namespace backplane::hip {

class GpuProgram {
 public:
  // `image` is that of an earlier build from the same module for the same target; if it is null, the kernels are
  // compiled. Appends a line to *log for each kernel and for each instruction that the host evaluates.
  static absl::StatusOr<std::unique_ptr<GpuProgram>> Build(std::unique_ptr<Module> module, const GpuTarget& target,
                                                           const Image* image, std::vector<std::string>* log);

  const Module& module() const { return *module_; }
  const compiler::BufferAssignment& assignment() const { return assignment_; }
  const Image& image() const { return image_; }  // without bytes if the program has no kernel
  // The names of the kernels; Queue::Launch numbers them so.
  const std::vector<std::string>& kernels() const { return kernels_; }
  // The kernels whose place a vendor's library can take.
  const std::vector<LibraryProduct>& library_products() const { return library_products_; }
  // Whether the program communicates with other devices of the launch.
  bool communicates() const { return communicates_; }
  // How many kernels and copies a run starts; nullopt if Run waits for the device, because the host takes part.
  StartCount starts() const { return starts_; }

  // Returns the size of the memory that temporary arrays and collectives need.
  int64_t temporary_bytes() const;

  // `arguments` and `outputs` are the addresses of the leaves, in order, and `constants` those of
  // assignment().constants; `temporary` has temporary_bytes(). All are on the device. `exchange` may be null if the
  // program does not communicate. Returns when all steps have been started; those that the host takes part in have
  // ended.
  absl::Status Run(Queue& queue, absl::Span<void* const> arguments, absl::Span<void* const> outputs,
                   absl::Span<void* const> constants, void* temporary, const EvaluatorHooks& hooks,
                   Exchange* exchange) const;

 private:
  GpuProgram() = default;

  std::unique_ptr<Module> module_;
  compiler::BufferAssignment assignment_;
  Image image_;
  std::vector<std::string> kernels_;
  std::vector<LibraryProduct> library_products_;
  Steps steps_;
  bool communicates_ = false;
  StartCount starts_;
  int64_t scratch_bytes_ = 0;  // of collectives
};

// The instructions that the host evaluates, and why no kernel does.
using Refusals = absl::flat_hash_map<const Instruction*, std::string>;

// Finds the kernels and the schedule of a program without compiling it. `kernels` must be empty; it gets the kernels
// that Build compiles, in the same order. The schedule refers to the module.
absl::StatusOr<compiler::Schedule> FindKernels(const Module& module, ProgramKernels& kernels, Refusals* refusals);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_PROGRAM_H_
