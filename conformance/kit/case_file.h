// Case files: programs with inputs and expected results, as plain text.
//
// The grammar is in conformance/cases/README.md. A case written for several element types (`each T ...`) is expanded,
// so that every Case is one complete program.
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
  kStablehlo,  // text; any plugin accepts it under PJRT's format name "mlir"
  kHlo,        // HLO text, for what StableHLO cannot express; not every plugin accepts it
};

// A program that the plugin must reject.
struct Failure {
  enum Stage { kCompile, kRun } stage = kCompile;
  std::string label;  // label of the broken rule, which messages of our plugins contain between [ and ]; may be empty
};

// Data that the host exchanges with the running program, in the order of use.
struct HostTransfer {
  enum Kind { kInfeed, kOutfeed, kSend, kRecv } kind = kInfeed;
  int64_t channel = 0;  // of kSend (sent by the program) and kRecv (received by the program)
  Expected value;       // what the host sends, or what it must receive
};

struct Case {
  std::string name;                 // "dot/matrix[T=f32]": file, case and the values of its variables
  std::string file;                 // as passed in
  int line = 0;                     // of its `case`
  std::vector<std::string> covers;  // names of rows in the list of operations
  std::string source;               // origin of the expected values
  std::vector<std::pair<std::string, std::string>> bindings;  // T -> f32
  int replicas = 1, partitions = 1;
  ProgramFormat format = ProgramFormat::kStablehlo;
  std::string program;
  // Indexed by device, ordered by replica and then by partition, and then by argument or result.
  std::vector<std::vector<Array>> inputs;
  std::vector<std::vector<Expected>> outputs;
  std::vector<HostTransfer> transfers;
  std::optional<Failure> fails;

  int devices() const { return replicas * partitions; }
};

// Parses all cases of a text. `file` is used for names and messages. Errors are InvalidArgument and start with
// "file:line: ".
absl::StatusOr<std::vector<Case>> ParseCases(absl::string_view text, absl::string_view file);

// Returns the cases that must succeed, for compiling only: if `each` names a variable T of element types, for every
// existing element type, including those that the file does not list, which are marked. Omits values, and skips types
// for which the case is invalid.
struct TypedCase {
  Case value;
  std::string draft;     // the name without the values of variables
  bool declared = true;  // whether the file lists this type
};
absl::StatusOr<std::vector<TypedCase>> ParseForEveryType(absl::string_view text, absl::string_view file);

// Parses a file. Returns NotFound if it cannot be read.
absl::StatusOr<std::vector<Case>> ReadCaseFile(const std::string& path);

// Returns every *.case file of a folder, sorted by name.
absl::StatusOr<std::vector<Case>> ReadCaseFolder(const std::string& path);
absl::StatusOr<std::vector<TypedCase>> ReadCaseFolderForEveryType(const std::string& path);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_FILE_H_
