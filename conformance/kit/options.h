// The options of a run, as data: what `conform` and `backplane conform` parse, and what their help and completions are
// made from.
#ifndef BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_
#define BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace backplane::conformance {

struct Options {
  std::string plugin;  // a path, a manifest or a name (sdk/host/discovery.h)
  bool list = false, verbose = false, quiet = false, help = false;
  std::vector<std::string> only, levels, options, compile_options;
  std::string suites, profile, json, junit, html, baseline, data, color = "auto";
  int64_t jobs = 0, timeout = 20;
  double slow = 1;
  // Of the processes in which checks run; not part of the help.
  bool strict = false;
  std::vector<std::string> run;
};

// Where the value of an option goes; a bool is a flag without a value, a vector takes the option many times.
using OptionTarget = std::variant<bool*, std::string*, int64_t*, double*, std::vector<std::string>*>;

struct OptionLine {
  const char* names;  // "--verbose,-v"
  const char* value;  // what to call the value, or ""
  const char* help;   // one line
  OptionTarget target;
  bool file = false;  // the value is the name of a file
};
// In the order of the help; the targets point into `options`.
std::vector<OptionLine> OptionLines(Options* options);

// Below the options in the help.
extern const char kExitStatusHelp[];
// The whole help of the program of this name.
std::string HelpText(const std::string& program);

// Reads the words of a command line. False with one sentence in `problem` when they make no sense.
bool ParseOptions(const std::vector<std::string>& words, Options* options, std::string* problem);
// Whether numbers are in their ranges, for those who parse by themselves; also fills in the default of `data`.
bool CheckOptions(Options* options, std::string* problem);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_OPTIONS_H_
