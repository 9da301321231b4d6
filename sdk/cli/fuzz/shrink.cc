#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {

FuzzProgram Copy(const FuzzProgram& program) {
  FuzzProgram copy;
  copy.seed = program.seed;
  copy.module = program.module->Clone();
  copy.arguments = program.arguments;
  copy.quantized = program.quantized;
  copy.host_orders = program.host_orders;
  for (const std::unique_ptr<Module>& helper : program.helpers) copy.helpers.push_back(helper->Clone());
  copy.schedule = program.schedule;
  return copy;
}

int64_t CountOperations(const Module& module) {
  int64_t count = 0;
  for (const Computation* c : module.PostOrder()) {
    for (const auto& i : c->instructions()) {
      if (!i->info().Has(kNoOp)) ++count;
    }
  }
  return count;
}

ShrinkResult Shrink(const FuzzProgram& program, const StillFails& fails, int most_tries) {
  ShrinkResult result;
  result.program = Copy(program);
  bool better = true;
  while (better && result.tried < most_tries) {
    better = false;
    for (auto step : {&ShorterSchedule, &SingleOperation, &FewerResults, &EarlierResult, &InPlaceAnywhere,
                      &WithoutStateElement, &WithoutOperation, &ZerosForOperation, &ValuesAsArguments, &PlainHandling,
                      &SmallerNumbers, &SmallerDimensions, &SimplerArguments, &UnshareComputations}) {
      bool helped = true;
      while (helped && result.tried < most_tries) {
        helped = false;
        for (FuzzProgram& candidate : step(result.program)) {
          if (result.tried >= most_tries) break;
          if (!RemoveUnused(candidate)) continue;
          ++result.tried;
          if (!fails(candidate)) continue;
          result.program = std::move(candidate);
          ++result.taken;
          helped = better = true;
          break;
        }
      }
    }
  }
  return result;
}

}  // namespace backplane::cli::fuzz
