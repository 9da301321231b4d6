// All code of the project that parses external bytes, behind one signature, for programs that feed it corrupted input.
#ifndef BACKPLANE_TESTS_MUTATION_READERS_H_
#define BACKPLANE_TESTS_MUTATION_READERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::mutation {

struct Reader {
  const char* name;
  bool text;  // input is text, so that changes of whole tokens reach deeper than changes of bytes
  // Parses any bytes and uses the result as its users would: a program is verified, printed, exported and run through
  // the common passes. Ok: the bytes were accepted. An error: they were rejected, which is correct too. Anything else
  // (a crash, an exception, a hang) is a defect.
  absl::Status (*read)(absl::string_view bytes);
  // Inputs to start from; never empty. `source` is the root of the repository.
  std::vector<std::string> (*seeds)(const std::string& source);
  // Mutates the seeds; null: Mutate.
  std::string (*mutate)(const std::vector<std::string>& seeds, uint64_t seed) = nullptr;
  // With a plugin: executes the accepted bytes on it. Null: nothing.
  absl::Status (*replay)(absl::string_view bytes, const std::string& plugin) = nullptr;
  // With a plugin: further seeds. Null: none.
  std::vector<std::string> (*plugin_seeds)(const std::string& plugin) = nullptr;
  const char* program_format = nullptr;  // the format for PJRT_Client_Compile; null: does not read programs
};

absl::Span<const Reader> AllReaders();
const Reader* FindReader(absl::string_view name);  // null: there is none

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_READERS_H_
