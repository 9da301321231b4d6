// Processors have a mode that reads subnormal operands as zero and writes subnormal results as zero. A plugin whose
// code runs in it differs from what programs mean, in that way and no other: this tells it from other differences.
#ifndef BACKPLANE_SDK_CLI_FUZZ_FLUSH_H_
#define BACKPLANE_SDK_CLI_FUZZ_FLUSH_H_

#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Whether each element of what was found is what the program means, or means when each instruction of the entry reads
// subnormal elements as zero, writes them as zero, or both; and at least one is not as meant without. Made for shrunk
// programs: what happens inside called computations is not followed.
bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_FLUSH_H_
