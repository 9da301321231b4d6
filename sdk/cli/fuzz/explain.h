// Known errors whose effect can be computed: the result of a plugin is compared with the meaning that the program would
// have with that error. So an explained difference can be distinguished from all others, which a list of operations and
// types cannot do.
#ifndef BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
#define BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_

#include <string>
#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Whether flushing of subnormal numbers explains the result. Processors have a mode that reads subnormal operands as
// zero and writes subnormal results as zero. Each element must be correct, or correct if the instructions of the entry
// computation read subnormal elements (of all operands, or of one) as zero, write them as zero, or both; sums may also
// write their products and partial sums as zero. At least one element must be incorrect otherwise. Called computations
// are not followed.
bool IsFlushing(const FuzzProgram& program, const std::vector<Literal>& found);

// Whether the program requests a result without elements in another order of dimensions than row-major.
bool ReordersEmptyResult(const FuzzProgram& program);

// Whether at least three elementwise operations on 8-bit floats follow one another. Code that recomputes each operand
// wherever it is read grows exponentially with such a chain.
bool ChainsNarrowFloats(const FuzzProgram& program);

// Whether there are elements that differ from `meant`, and each of them agrees with the other meaning and is decided
// there.
bool Explains(const BoundedValue& meant, const BoundedValue& other, const std::vector<Literal>& found);

// Returns the terms of known.h for all explanations of this kind that apply, including rewrites of single instructions
// (explain_rewrites.cc). Works for any program, shrunk or not.
std::vector<std::string> FindExplanations(const FuzzProgram& program, const std::vector<Literal>& found);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_EXPLAIN_H_
