// One sequence of calls, made from its number.
#ifndef BACKPLANE_TESTS_SEQUENCES_SEQUENCE_H_
#define BACKPLANE_TESTS_SEQUENCES_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/supervisor/supervisor.h"

namespace backplane::sequences {

struct Settings {
  std::string plugin;
  std::vector<std::pair<std::string, std::string>> create_options;  // of clients: name, value
  std::string record_to;         // a recording of what reaches the plugin; empty: none
  std::vector<size_t> left_out;  // steps that are not done, ascending
};

// How many steps that sequence has.
size_t NumSteps(uint64_t number);
// Runs it on the plugin, which is opened by the first call in this process. What was wrong; empty: nothing.
std::string RunSequence(const Settings& settings, uint64_t number, supervisor::Shared& shared);

}  // namespace backplane::sequences

#endif  // BACKPLANE_TESTS_SEQUENCES_SEQUENCE_H_
