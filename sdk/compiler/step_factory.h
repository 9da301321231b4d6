// Converts a schedule to the steps of a target.
#ifndef BACKPLANE_SDK_COMPILER_STEP_FACTORY_H_
#define BACKPLANE_SDK_COMPILER_STEP_FACTORY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/schedule.h"

namespace backplane::compiler {

// `Step` is a movable type that the target can execute, such as std::unique_ptr<Thunk>.
template <typename Step>
class StepFactory {
 public:
  using Steps = std::vector<Step>;
  virtual ~StepFactory() = default;

  // Appends the steps that run this instruction, or none if the target has no work for it. An error ends the
  // compilation.
  virtual absl::Status AddWork(const Instruction& instruction, Steps* steps) = 0;
  virtual Step MakeCopy(const SlotCopy& copy) = 0;
  // `step` has the kind kWhile. Its condition and body have been converted.
  virtual Step MakeWhile(const ScheduledStep& step, Steps condition, Steps body) = 0;
  // `step` has the kind kConditional.
  virtual Step MakeConditional(const ScheduledStep& step, std::vector<Steps> branches) = 0;
};

// Converts a sequence. `names`, which may be null, receives the name of the instruction of each step, or "copy" for
// copies at the end of the computation.
template <typename Step>
absl::StatusOr<std::vector<Step>> MakeSteps(const StepSequence& sequence, StepFactory<Step>& factory,
                                            std::vector<std::string>* names = nullptr) {
  std::vector<Step> steps;
  for (const ScheduledStep& scheduled : sequence) {
    std::vector<std::vector<Step>> inner;
    for (const StepSequence& s : scheduled.sequences) {
      ASSIGN_OR_RETURN(std::vector<Step> made, MakeSteps(s, factory));
      inner.push_back(std::move(made));
    }
    switch (scheduled.kind) {
      case ScheduledStep::Kind::kWork:
        RETURN_IF_ERROR(factory.AddWork(*scheduled.instruction, &steps));
        break;
      case ScheduledStep::Kind::kCopy:
        steps.push_back(factory.MakeCopy(scheduled.copy));
        break;
      case ScheduledStep::Kind::kWhile:
        steps.push_back(factory.MakeWhile(scheduled, std::move(inner[0]), std::move(inner[1])));
        break;
      case ScheduledStep::Kind::kConditional:
        steps.push_back(factory.MakeConditional(scheduled, std::move(inner)));
        break;
    }
    if (names != nullptr)
      names->resize(steps.size(), scheduled.instruction == nullptr ? "copy" : scheduled.instruction->name());
  }
  return steps;
}

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_STEP_FACTORY_H_
