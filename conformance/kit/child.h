// The process in which checks run: `conform --conform-child RESULT_FD TRAIL_FD PLUGIN [options] --run ID...`, or
// another program that calls ChildMain (judge.h).
#ifndef BACKPLANE_CONFORMANCE_KIT_CHILD_H_
#define BACKPLANE_CONFORMANCE_KIT_CHILD_H_

#include <string>
#include <vector>

#include "conformance/kit/kit.h"

namespace backplane::conformance {

// Runs the checks one after the other and returns the exit status; a check that does not pass ends the process itself.
int RunChild(Kit::Setup setup, const std::vector<std::string>& ids);

// The id of the pseudo check that tells what a plugin is: its detail is a JSON object.
inline constexpr char kFactsId[] = "kit.facts";

// Another process of this kind, started by a check: runs `id` in it (a check or one of the helpers below), gives it
// `input` in a file and returns what it told. For what has to cross processes.
CheckOutcome RunElsewhere(Kit& k, const std::string& id, const std::string& input);
// Inside such a process: the input.
std::string ElsewhereInput();

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CHILD_H_
