// Shrinks a failing program while it still fails.
//
// The steps are repeated until none helps: use one operation alone, with its operands as arguments; return one value
// only, the earliest that still fails; pass values as arguments instead of computing them; omit an operation whose
// operand has its shape; inline calls, branches and single iterations of loops, in every computation; remove elements
// from loop state; replace computed values by zeros; reduce limits of loops; give a caller its own copy of a
// computation; run fewer programs at once; pass dense arguments, request no layouts, donate nothing, use one device;
// reduce dimensions; simplify the values of arguments. Each candidate is a complete, verified program with its
// arguments, and is evaluated again.
#ifndef BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_
#define BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_

#include <functional>
#include <set>
#include <vector>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

// Whether a program still shows the failure. Called for many programs, which it must not change.
using StillFails = std::function<bool(const FuzzProgram&)>;

struct ShrinkResult {
  FuzzProgram program;
  int tried = 0, taken = 0;
};
// `most_tries` limits the calls of `fails`.
ShrinkResult Shrink(const FuzzProgram& program, const StillFails& fails, int most_tries = 600);

FuzzProgram Copy(const FuzzProgram& program);
// Counts the instructions that compute, in all computations: all except parameters, constants, tuples and their
// elements.
int64_t CountOperations(const Module& module);

// ---- The steps. Each creates the candidates of one kind, the largest changes first.
using Candidates = std::vector<FuzzProgram>;
// Removes what is not needed, including unused arguments. Returns false if the program does not verify.
bool RemoveUnused(FuzzProgram& program);
// Does the same for a program with a schedule, but keeps its parameters and results.
bool RemoveUnusedScheduled(FuzzProgram& program);
// Returns the computations that must not be changed: those of reductions and scatters, which must stay associative,
// those of sorts, which must stay orders, all that these call, and those that are sent with quantized types.
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
Candidates UnshareComputations(const FuzzProgram& program);
Candidates ShorterSchedule(const FuzzProgram& program);
Candidates PlainHandling(const FuzzProgram& program);
Candidates SmallerDimensions(const FuzzProgram& program);
Candidates SimplerArguments(const FuzzProgram& program);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_SHRINK_H_
