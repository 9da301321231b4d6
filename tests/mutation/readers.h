// Everything in the project that reads bytes from outside, under one signature: for programs that feed it damaged
// input.
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
  bool text;  // its input is text, so that changes of whole tokens reach deeper than changes of bytes
  // Reads any bytes and uses what was read as its users would: a program is verified, printed, written in another form
  // and taken through the passes that every plugin shares. Ok: the bytes were accepted. An error: they were refused,
  // which is right as well. Whatever else happens (a crash, an exception, a hang) is a defect.
  absl::Status (*read)(absl::string_view bytes);
  // Whole inputs to begin from; never empty. `source` is the root of the repository's sources.
  std::vector<std::string> (*seeds)(const std::string& source);
  // How an input is made of the seeds; null: by Mutate.
  std::string (*mutate)(const std::vector<std::string>& seeds, uint64_t seed) = nullptr;
  // With a plugin: does on it what the accepted bytes ask for. Null: nothing.
  absl::Status (*replay)(absl::string_view bytes, const std::string& plugin) = nullptr;
  // With a plugin: further inputs to begin from. Null: none.
  std::vector<std::string> (*plugin_seeds)(const std::string& plugin) = nullptr;
  const char* program_format = nullptr;  // what PJRT_Client_Compile calls such programs; null: it reads no programs
};

absl::Span<const Reader> AllReaders();
const Reader* FindReader(absl::string_view name);  // null: there is none

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_READERS_H_
