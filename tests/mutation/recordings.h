// Recorded sessions as corrupted input: their mutation and their replay.
#ifndef BACKPLANE_TESTS_MUTATION_RECORDINGS_H_
#define BACKPLANE_TESTS_MUTATION_RECORDINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace backplane::mutation {

// Calls `use` with the path of a file of these bytes. Corrects the checksums of its frames first, because otherwise
// nothing behind them would be reached.
absl::Status WithRecordingFile(absl::string_view bytes, const std::function<absl::Status(const std::string&)>& use);

// Mutates bytes, as Mutate does, or fields of operations: numbers, ids, dimensions, kinds, the order of operations.
std::string MutateRecording(const std::vector<std::string>& seeds, uint64_t seed);

// Replays each operation on the plugin.
absl::Status ReplayRecording(absl::string_view bytes, const std::string& plugin);

// Records sessions of random calls (tests/sequences) over the plugin in child processes.
std::vector<std::string> RecordedSeeds(const std::string& plugin);

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_RECORDINGS_H_
