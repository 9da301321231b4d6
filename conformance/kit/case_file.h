// Case files: programs with their inputs and what must come out, as plain text that people write and read.
//
// The grammar is in conformance/cases/README.md. A case that is written once for several element types (`each T ...`)
// is expanded here: every Case is one program, complete.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_FILE_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_FILE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "conformance/kit/case_literal.h"

namespace backplane::conformance {

enum class ProgramFormat : uint8_t {
  kStablehlo,  // text; any plugin takes it under PJRT's format name "mlir"
  kHlo,        // HLO text, for what StableHLO cannot say; not every plugin takes it
};

// A program that must be refused.
struct Failure {
  enum Stage { kCompile, kRun } stage = kCompile;
  std::string label;  // of the rule that is broken, as it stands in our plugins' messages between [ and ]; may be empty
};

// What a host hands over while the program runs, in the order of use.
struct HostTransfer {
  enum Kind { kInfeed, kOutfeed, kSend, kRecv } kind = kInfeed;
  int64_t channel = 0;  // of kSend (the program sends) and kRecv (the program receives)
  Expected value;       // what the host hands over, or what it must get
};

struct Case {
  std::string name;                 // "dot/matrix[T=f32]": file, case and what it was expanded for
  std::string file;                 // as it was given
  int line = 0;                     // of its `case`
  std::vector<std::string> covers;  // rows of the list of operations, by name
  std::string source;               // where the expected values come from
  std::vector<std::pair<std::string, std::string>> bindings;  // T -> f32
  int replicas = 1, partitions = 1;
  ProgramFormat format = ProgramFormat::kStablehlo;
  std::string program;
  // By device, replica by replica and within a replica partition by partition; then by argument or result.
  std::vector<std::vector<Array>> inputs;
  std::vector<std::vector<Expected>> outputs;
  std::vector<HostTransfer> transfers;
  std::optional<Failure> fails;

  int devices() const { return replicas * partitions; }
};

// Every case of a text; `file` is for names and messages. An error is InvalidArgument and begins with "file:line: ".
absl::StatusOr<std::vector<Case>> ParseCases(absl::string_view text, absl::string_view file);

// The cases that must work, for compiling only: where `each` names a variable T of element types, for every element
// type there is, those that the file does not name marked as such. Values are left out. What cannot be written for a
// type is left out in silence.
struct TypedCase {
  Case value;
  std::string draft;     // its name without what it was expanded for
  bool declared = true;  // the file names this type
};
absl::StatusOr<std::vector<TypedCase>> ParseForEveryType(absl::string_view text, absl::string_view file);

// The same of a file; NotFound when it cannot be read.
absl::StatusOr<std::vector<Case>> ReadCaseFile(const std::string& path);

// Every *.case file of a folder, in the order of their names.
absl::StatusOr<std::vector<Case>> ReadCaseFolder(const std::string& path);
absl::StatusOr<std::vector<TypedCase>> ReadCaseFolderForEveryType(const std::string& path);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_FILE_H_
