// Known ways to be wrong that can be computed: what a plugin returned is held against what the program would mean in
// that way. A difference that is explained so is told from every other one, which a list of operations and types cannot
// do.
#ifndef BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
#define BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_

#include <string>
#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Processors have a mode that reads subnormal operands as zero and writes subnormal results as zero. Whether each
// element of what was found is what the program means, or means when each instruction of the entry reads subnormal
// elements (of all operands, or of one) as zero, writes them as zero, or both; and at least one is not as meant
// without. What happens inside called computations is not followed.
bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found);

// Whether what was found is what the program means when every window of its scatters that lies partly outside the
// operand is left out as a whole.
bool DropsWholeWindows(const FuzzProgram& program, const std::vector<Literal>& found);

// Whether the program asks for a result without elements in another order of dimensions than the last one fastest.
bool ReordersEmptyResult(const FuzzProgram& program);

// Whether three or more elementwise operations on floats of eight bits follow one another: code that writes out each
// operand anew wherever it is read grows with every one of them.
bool ChainsNarrowFloats(const FuzzProgram& program);

// Whether there are elements that are not as `meant`, and each of them is as the other meaning has it, and decided
// there.
bool Explains(const Judged& meant, const Judged& other, const std::vector<Literal>& found);

// The words of known.h for all ways of this kind that explain what was found, rewrites of single instructions among
// them (explain_rewrites.cc). For any program, shrunk or not.
std::vector<std::string> ExplainedBy(const FuzzProgram& program, const std::vector<Literal>& found);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
