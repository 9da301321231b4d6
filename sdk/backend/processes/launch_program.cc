#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/backend/processes/launch_exchange.h"

namespace backplane {
namespace {

std::string WhatDiffers(const LaunchProgram& a, const LaunchProgram& b) {
  if (a.arrays != b.arrays) {
    return a.parameters == b.parameters ? "their results or later parameters differ"
                                        : absl::StrCat("the parameters are ", a.parameters, " and ", b.parameters);
  }
  if (a.num_instructions != b.num_instructions)
    return absl::StrCat("they have ", a.num_instructions, " and ", b.num_instructions, " instructions");
  if (a.operations != b.operations) return "the operations differ";
  return "constants, attributes or operands differ";
}

}  // namespace

absl::Status DifferentProgramsError(int32_t process, const LaunchProgram& program, int32_t other_process,
                                    const LaunchProgram& other) {
  // A name from a message may be cut off.
  const bool same_name = absl::StartsWith(program.name, other.name) || absl::StartsWith(other.name, program.name);
  return absl::FailedPreconditionError(absl::StrCat(
      "process ", process, " runs ", program.name, " and process ", other_process, " runs ", other.name,
      same_name ? absl::StrCat(", two programs of one name that differ: ", WhatDiffers(program, other)) : "",
      "; all processes must run the same programs in the same order"));
}

}  // namespace backplane
