// Compiles modules written as HLO text as a plugin does, runs them, and compares the results with the evaluator.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_TESTING_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/module.h"

namespace backplane::engine {

struct ProgramRunOptions {
  uint32_t seed = 1;
  double low = -3, high = 3;                // of random floats
  int64_t int_low = -9, int_high = 9;       // of random integers
  bool specials = false;                    // infinities, NaN and zeros of both signs among the floats
  double tolerance = 4e-6;                  // relative, for f32; other float types from their precision
  bool stored = true;                       // also runs the program that comes back from its serialized form
  std::vector<Literal> arguments;           // used in place of random ones where given
  std::vector<std::string>* log = nullptr;  // receives the compile log
};

// Runs the module on one thread and on several, twice each, on memory that contains other values, and from its
// serialized form. Returns "" if every run gave the results of the evaluator and changed no argument that is not
// aliased with an output and no byte past an array. Otherwise returns a description of the difference.
std::string ProgramDifference(const std::string& hlo, const ProgramRunOptions& options = {});
std::string ProgramDifference(const Module& module, const ProgramRunOptions& options);

// Returns the lines of the compile log. On failure the result is empty and `error` is set.
std::vector<std::string> GetCompileLog(const std::string& hlo, std::string* error);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_PROGRAM_TESTING_H_
