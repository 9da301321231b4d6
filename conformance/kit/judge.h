// A complete run: opens the plugin in child processes, runs the checks, prints and writes the reports. The
// implementation of `conform` and `backplane conform`.
#ifndef BACKPLANE_CONFORMANCE_KIT_JUDGE_H_
#define BACKPLANE_CONFORMANCE_KIT_JUDGE_H_

#include <string>
#include <vector>

#include "conformance/kit/options.h"
#include "conformance/kit/runner.h"

namespace backplane::conformance {

enum ExitStatus { kGood = 0, kNotConformant = 1, kWrongUsage = 2, kNotOpened = 3, kKitFailed = 4 };

// The checks run in processes of this program, started with kChildFlag (runner.h) as the first argument. A program that
// calls Judge must pass the arguments after it to ChildMain before parsing its command line.
int ChildMain(const std::vector<std::string>& words);

// Prints to standard output and error. `name` prefixes error messages. Returns an ExitStatus.
int Judge(Options options, const std::string& name);

// The main function of `conform`.
int ConformMain(const std::vector<std::string>& words);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_JUDGE_H_
