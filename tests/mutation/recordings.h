// Recorded sessions as damaged input: how they are damaged, and how they are replayed.
#ifndef BACKPLANE_TESTS_MUTATION_RECORDINGS_H_
#define BACKPLANE_TESTS_MUTATION_RECORDINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace backplane::mutation {

// Calls `use` with the path of a file of these bytes. The checksums of its frames are made right first, or nothing
// behind them would be reached.
absl::Status WithRecordingFile(absl::string_view bytes, const std::function<absl::Status(const std::string&)>& use);

// Changes bytes, as Mutate does, or fields of operations: numbers, ids, dimensions, kinds, the order of operations.
std::string MutateRecording(const std::vector<std::string>& seeds, uint64_t seed);

// Does each operation on the plugin.
absl::Status ReplayRecording(absl::string_view bytes, const std::string& plugin);

// Sessions of random calls (tests/sequences), recorded over the plugin in child processes.
std::vector<std::string> RecordedSeeds(const std::string& plugin);

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_RECORDINGS_H_
