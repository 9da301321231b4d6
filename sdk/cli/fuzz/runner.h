// Runs programs: on a plugin in a separate process, so that a crash or a hang ends only that process; or with the
// evaluator in this process, for tests of the tool itself.
#ifndef BACKPLANE_SDK_CLI_FUZZ_RUNNER_H_
#define BACKPLANE_SDK_CLI_FUZZ_RUNNER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/generator.h"
#include "sdk/cli/session.h"

namespace backplane::cli::fuzz {

enum class Form { kStablehlo, kHlo };  // portable bytecode; HLO proto
const char* FormatForm(Form form);

struct Outcome {
  enum class Kind {
    kResults,
    kRefused,         // an error of the plugin, at compilation or execution
    kNotExpressible,  // the program cannot be expressed in that form
    kCrashed,         // the process ended
    kTimedOut
  } kind = Kind::kResults;
  std::vector<Literal> results;
  std::string message;  // for an outcome without results; for a crash the signal and the end of stderr
  bool failed() const { return kind == Kind::kCrashed || kind == Kind::kTimedOut; }
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual const std::string& name() const = 0;
  // Starts a program. Receive waits for its outcome and returns it. Only one program can be in progress.
  virtual void Send(const FuzzProgram& program, Form form) = 0;
  virtual Outcome Receive() = 0;
  // The next program gets a new process, if programs run in one, so that memory errors of this one do not affect it.
  virtual void ReplaceProcess() {}
  Outcome Run(const FuzzProgram& program, Form form) {
    Send(program, form);
    return Receive();
  }
};

// Changes a program on its way to a runner: a planted defect.
using Mutation = std::function<void(Module&)>;

struct PluginRunnerOptions {
  PluginOptions plugin;
  double seconds = 60;  // time limit of a program
  int programs = 4000;  // after which the process is replaced, which limits the memory for compiled code
  Mutation mutation;
};
// Must be called while this process has a single thread. The plugin's process is started for the first program, and
// again after a crash.
absl::StatusOr<std::unique_ptr<Runner>> MakePluginRunner(const std::string& plugin, const PluginRunnerOptions& options);

// Uses the evaluator, on a program that `mutation` may change. Ignores the form.
std::unique_ptr<Runner> MakeEvaluatorRunner(std::string name, Mutation mutation = nullptr);

// Returns the defects of the tests by name; docs/fuzzing.md lists them.
absl::StatusOr<Mutation> FindMutation(const std::string& name);
std::vector<std::string> ListMutations();

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_RUNNER_H_
