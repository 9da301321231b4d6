// Known ways to be wrong that can be computed: what a plugin returned is held against what the program would mean in
// that way. A difference that is explained so is told from every other one, which a list of operations and types cannot
// do.
#ifndef BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
#define BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_

#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Processors have a mode that reads subnormal operands as zero and writes subnormal results as zero. Whether each
// element of what was found is what the program means, or means when each instruction of the entry reads subnormal
// elements as zero, writes them as zero, or both; and at least one is not as meant without. Made for shrunk programs:
// what happens inside called computations is not followed.
bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found);

// Whether what was found is what the program means when every window of its scatters that lies partly outside the
// operand is left out as a whole.
bool DropsWholeWindows(const FuzzProgram& program, const std::vector<Literal>& found);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
