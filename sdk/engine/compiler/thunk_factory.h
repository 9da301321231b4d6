// Creates the thunks of a program from its schedule.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_THUNK_FACTORY_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_THUNK_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "sdk/backend/collectives/host_collective.h"
#include "sdk/compiler/attention.h"
#include "sdk/compiler/step_factory.h"
#include "sdk/engine/compiler/program.h"
#include "sdk/engine/compiler/program_kernels.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"
#include "sdk/engine/thunks/kernel_thunk.h"
#include "sdk/engine/thunks/library_thunk.h"

namespace backplane::engine {

// Each instruction is converted by the first of these that accepts it: the custom lowering, a generated kernel, a
// library call, the evaluator. Everything that is passed in must outlive the factory.
class ThunkFactory : public compiler::StepFactory<std::unique_ptr<Thunk>> {
 public:
  // `log`, which may be null, receives one line for each thunk that is not generated code and for each refusal of a
  // faster kernel.
  ThunkFactory(const Module& module, const BufferAssignment& assignment, const ProgramKernels& kernels,
               const ProgramOptions& options, std::vector<std::string>* log)
      : module_(module),
        assignment_(assignment),
        kernels_(kernels),
        options_(options),
        log_(log),
        numbers_(NumberCollectives(module)) {}

  absl::Status AddWork(const Instruction& i, ThunkSequence* thunks) override;
  std::unique_ptr<Thunk> MakeCopy(const SlotCopy& copy) override;
  std::unique_ptr<Thunk> MakeWhile(const compiler::ScheduledStep& step, ThunkSequence condition,
                                   ThunkSequence body) override;
  std::unique_ptr<Thunk> MakeConditional(const compiler::ScheduledStep& step,
                                         std::vector<ThunkSequence> branches) override;

  const ProgramTraits& traits() const { return traits_; }  // of the thunks created so far
  std::vector<PackableWeight> TakePackableWeights() { return std::move(packable_); }
  int64_t packed_weight_bytes() const { return packed_bytes_; }  // bytes of packed weights that the thunks own

 private:
  void Log(std::string line);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeThunk(const Instruction& i);  // null: see AddWork
  std::unique_ptr<KernelThunk> MakeKernel(const Instruction& fusion);      // null: it has none
  // Replaces the convolution that was added last, if the kernel can follow it in parts.
  bool FollowConvolution(const Instruction& fusion, std::unique_ptr<KernelThunk>& kernel, ThunkSequence* thunks);
  bool MayFollow(const Instruction& fusion, const KernelThunk& kernel) const;
  absl::StatusOr<std::unique_ptr<Thunk>> MakeDot(const Instruction& i);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeAttention(const Instruction& i, const compiler::Attention& attention);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeConvolution(const Instruction& i);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeCollective(const Instruction& i);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeTransfer(const Instruction& i);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeCustomCall(const Instruction& i);
  absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryCall(const Instruction& i, std::string* refusal);
  std::unique_ptr<Thunk> MakeEvaluatorCall(const Instruction& i, std::string refusal);

  // The plan of a product or a convolution, and why kernels that are ranked before it refused the problem.
  template <typename Plan>
  struct Planned {
    std::shared_ptr<const Plan> plan;
    RefusalLog refusals;
  };
  // Instructions with equal problems share one plan. The primitives of its convolutions took a third of the time in
  // which a ResNet-50, whose blocks repeat, was loaded from its stored form.
  absl::StatusOr<Planned<MatmulPlan>> PlanOnce(const MatmulProblem& problem);
  absl::StatusOr<Planned<ConvolutionPlan>> PlanOnce(const ConvolutionProblem& problem);

  template <typename Plan, typename Problem>
  absl::StatusOr<std::shared_ptr<const std::byte>> PackWeights(const Plan& plan, const Problem& problem,
                                                               const Instruction& weights);

  PackableOperand<ConvolutionPlan> MakePackable(const Instruction& convolution, ConvolutionProblem problem,
                                                absl::string_view kernel);

  // The convolution that was added last, if any.
  struct LastConvolution {
    const Instruction* instruction = nullptr;
    ConvolutionThunk* thunk = nullptr;
  };
  LastConvolution last_convolution_;

  const Module& module_;
  const BufferAssignment& assignment_;
  const ProgramKernels& kernels_;
  const ProgramOptions& options_;
  std::vector<std::string>* const log_;
  const absl::flat_hash_map<const Instruction*, int64_t> numbers_;  // of the collectives
  ProgramTraits traits_;
  int64_t packed_bytes_ = 0;
  std::vector<PackableWeight> packable_;
  absl::flat_hash_map<MatmulProblem, Planned<MatmulPlan>> products_;
  absl::flat_hash_map<ConvolutionProblem, Planned<ConvolutionPlan>> convolutions_;
};

// Allocates memory for a constant or for packed weights, with padding at its end that vector code may read. Returns
// null if no memory is available.
std::shared_ptr<std::byte> AllocateConstant(size_t bytes);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_THUNK_FACTORY_H_
