// A whole run: opens the plugin in child processes, judges it, prints and writes the reports. The body of `conform` and
// of `backplane conform`.
#ifndef BACKPLANE_CONFORMANCE_KIT_JUDGE_H_
#define BACKPLANE_CONFORMANCE_KIT_JUDGE_H_

#include <string>
#include <vector>

#include "conformance/kit/options.h"
#include "conformance/kit/runner.h"

namespace backplane::conformance {

enum ExitStatus { kGood = 0, kNotConformant = 1, kWrongUsage = 2, kNotOpened = 3, kKitFailed = 4 };

// The checks run in processes of this very program, started with kChildWord (runner.h) as their first word: a program
// that calls Judge hands the words behind it to ChildMain before it looks at its command line.
int ChildMain(const std::vector<std::string>& words);

// Prints to standard output and error. `name` stands before error messages. Returns an ExitStatus.
int Judge(Options options, const std::string& name);

// The program `conform`.
int ConformMain(const std::vector<std::string>& words);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_JUDGE_H_
