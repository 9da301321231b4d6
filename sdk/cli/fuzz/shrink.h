// A program that fails made as small as it can be and still fail.
//
// Steps, tried over and over until none helps: one operation by itself, its operands arguments; return one value only,
// the earliest that still fails; hand values over as arguments instead of computing them; leave out an operation whose
// operand has its shape; put calls, branches and single turns of loops in place, in every computation; take elements
// away from what loops carry; put zeros for what computations work out; make limits of loops smaller; give a caller a
// computation of its own; run fewer programs at once; hand arguments over plainly, ask for no layouts, give nothing
// away, run on one device; make dimensions smaller; make arguments simple numbers. Each candidate is a whole, verified
// program with its arguments, and is judged anew.
#ifndef BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_
#define BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_

#include <functional>
#include <set>
#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Whether a program still shows what is looked for. Called for many programs; must not change it.
using StillFails = std::function<bool(const FuzzProgram&)>;

struct ShrinkResult {
  FuzzProgram program;
  int tried = 0, taken = 0;
};
// `most_tries` bounds how often `fails` is asked.
ShrinkResult Shrink(const FuzzProgram& program, const StillFails& fails, int most_tries = 600);

FuzzProgram Copy(const FuzzProgram& program);
// Instructions that compute: no parameters, constants, tuples and their elements, in all computations.
int64_t CountOperations(const Module& module);

// ---- The steps: each makes the candidates of one kind, the boldest first.
using Candidates = std::vector<FuzzProgram>;
// Removes what is not needed, unused arguments too; false when the program does not verify.
bool Tidy(FuzzProgram& program);
// The same for a program with a schedule, whose parameters and results stay as they are.
bool TidyScheduled(FuzzProgram& program);
// The bodies of reductions, sorts and scatters and what they call, which must stay associative, or orders; and what
// goes out in quantized types.
std::set<const Computation*> CombiningComputations(const FuzzProgram& program);
Candidates SingleOperation(const FuzzProgram& program);
Candidates FewerResults(const FuzzProgram& program);
Candidates EarlierResult(const FuzzProgram& program);
Candidates ValuesAsArguments(const FuzzProgram& program);
Candidates WithoutOperation(const FuzzProgram& program);
Candidates InPlaceAnywhere(const FuzzProgram& program);
Candidates WithoutStateElement(const FuzzProgram& program);
Candidates ZerosForOperation(const FuzzProgram& program);
Candidates SmallerNumbers(const FuzzProgram& program);
Candidates Unshared(const FuzzProgram& program);
Candidates ShorterSchedule(const FuzzProgram& program);
Candidates PlainHandling(const FuzzProgram& program);
Candidates SmallerDimensions(const FuzzProgram& program);
Candidates SimplerArguments(const FuzzProgram& program);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_
