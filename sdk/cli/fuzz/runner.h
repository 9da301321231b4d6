// Where programs run: a plugin in a process of its own, so that one that crashes or hangs ends that process only; or
// the evaluator in this one, for the tests of the tool itself.
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
const char* Text(Form form);

struct Outcome {
  enum class Kind {
    kResults,
    kRefused,  // an error of the plugin, at compile or execute
    kNoForm,   // the program cannot be written in that form
    kCrashed,  // the process ended
    kTimedOut
  } kind = Kind::kResults;
  std::vector<Literal> results;
  std::string message;  // of what is no result; of a crash the signal and the end of what was written to stderr
  bool failed() const { return kind == Kind::kCrashed || kind == Kind::kTimedOut; }
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual const std::string& name() const = 0;
  // Starts a program and gives its outcome later; one at a time.
  virtual void Send(const FuzzProgram& program, Form form) = 0;
  virtual Outcome Receive() = 0;
  // The next program gets a new process, if programs have one: what this one has done to its memory ends with it.
  virtual void Renew() {}
  Outcome Run(const FuzzProgram& program, Form form) {
    Send(program, form);
    return Receive();
  }
};

// Changes a program on its way to a runner: a defect put in on purpose.
using Mutation = std::function<void(Module&)>;

// Must be made while this process has a single thread. The process starts with the first program and again after a
// crash; after `programs` programs it is replaced, which bounds what compiled code may pile up.
struct PluginRunnerOptions {
  PluginOptions plugin;
  double seconds = 60;  // for a program
  int programs = 4000;
  Mutation mutation;
};
absl::StatusOr<std::unique_ptr<Runner>> MakePluginRunner(const std::string& plugin, const PluginRunnerOptions& options);

// The evaluator, on a program that `mutation` may have changed. The form is ignored.
std::unique_ptr<Runner> MakeEvaluatorRunner(std::string name, Mutation mutation = nullptr);

// The defects of the tests, by name: docs/fuzzing.md lists them.
absl::StatusOr<Mutation> FindMutation(const std::string& name);
std::vector<std::string> MutationNames();

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_RUNNER_H_
