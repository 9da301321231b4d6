// A call sequence, determined by its number.
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
  std::vector<std::pair<std::string, std::string>> create_options;  // for clients: name and value
  std::string record_to;         // path of a recording of the calls that reach the plugin; empty: none
  std::vector<size_t> left_out;  // indices of steps to skip, ascending
};

// Returns the number of steps of the sequence.
size_t NumSteps(uint64_t number);
// Runs it on the plugin, which the first call in this process opens. Returns a description of the error, or "".
std::string RunSequence(const Settings& settings, uint64_t number, supervisor::Shared& shared);

}  // namespace backplane::sequences

#endif  // BACKPLANE_TESTS_SEQUENCES_SEQUENCE_H_
