// The options of a run as data: `conform` and `backplane conform` parse them and generate help and completions from
// them.
#ifndef BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_
#define BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace backplane::conformance {

struct Options {
  std::string plugin;  // path, manifest or name (sdk/host/discovery.h)
  bool list = false, verbose = false, quiet = false, help = false;
  std::vector<std::string> only, levels, options, compile_options;
  std::string suites, profile, json, junit, html, baseline, data, color = "auto";
  int64_t jobs = 0, timeout = 20, processes = 0;
  double slow = 1;
  // Options for the processes that run checks. They are not part of the help.
  bool strict = false;
  std::vector<std::string> run;
};

// The target of an option's value. A bool is a flag without a value; a vector accepts the option several times.
using OptionTarget = std::variant<bool*, std::string*, int64_t*, double*, std::vector<std::string>*>;

struct OptionLine {
  const char* names;  // "--verbose,-v"
  const char* value;  // name of the value in the help, or ""
  const char* help;   // one line
  OptionTarget target;
  bool file = false;  // whether the value is a file name
};
// Returns the options in the order of the help. Their targets point into `options`.
std::vector<OptionLine> MakeOptionLines(Options* options);

// The text below the options in the help.
extern const char kExitStatusHelp[];
// Returns the help of the program of this name.
std::string PrintHelp(const std::string& program);

// Parses a command line. Returns false, and one sentence in `problem`, if it is invalid.
bool ParseOptions(const std::vector<std::string>& words, Options* options, std::string* problem);
// Checks the ranges of numbers, for callers that parse themselves, and fills in the default of `data`.
bool CheckOptions(Options* options, std::string* problem);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_
