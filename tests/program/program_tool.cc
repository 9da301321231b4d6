// Converts or evaluates a program: the C++ half of the Python tests in this folder.
//
//   program_tool FORM IN OUT [ARGUMENTS]
//
// IN: HLO text, StableHLO text or bytecode, or (named *.pb) an HLO proto. FORM: hlo (as XLA prints compiled programs:
// hlo-as-xla-made; before compilation: hlo-as-xla-given), proto, stablehlo, stablehlo-generic, artifact:1.9.0, or eval.
// For eval, ARGUMENTS is a file with the bytes of all leaves of all parameters, row-major, concatenated (one byte per
// element of narrower types); OUT receives those of the result. Several jobs may be given, each ended by `--`; each
// prints one line: ok, or the error.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/eval/evaluator.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/import/proto/hlo_proto.h"
#include "core/text/hlo_printer.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

absl::StatusOr<Literal> Take(const Shape& shape, absl::string_view* bytes) {
  if (shape.IsToken()) return Literal::Token();
  if (shape.IsTuple()) {
    std::vector<Literal> parts;
    for (const Shape& s : shape.tuple_shapes()) {
      ASSIGN_OR_RETURN(Literal part, Take(s, bytes));
      parts.push_back(std::move(part));
    }
    return Literal::Tuple(std::move(parts));
  }
  const size_t size = static_cast<size_t>(shape.byte_size());
  if (bytes->size() < size) return absl::InvalidArgumentError(absl::StrCat("too few bytes for ", shape.ToString()));
  ASSIGN_OR_RETURN(Literal literal, Literal::FromBytes(shape.WithoutLayout(),
                                                       absl::Span<const std::byte>(
                                                           reinterpret_cast<const std::byte*>(bytes->data()), size)));
  bytes->remove_prefix(size);
  return literal;
}

void Append(const Literal& literal, std::string* out) {
  for (const Literal& e : literal.elements()) Append(e, out);
  if (literal.shape().IsArray() && literal.byte_size() > 0) {
    out->append(reinterpret_cast<const char*>(literal.bytes()), static_cast<size_t>(literal.byte_size()));
  }
}

absl::Status Job(const std::vector<std::string>& words) {
  if (words.size() < 3) return absl::InvalidArgumentError("expected FORM IN OUT [ARGUMENTS]");
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(words[1]));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module,
                   ImportProgram(absl::EndsWith(words[1], ".pb") ? "hlo" : "mlir", bytes));
  std::string out;
  absl::string_view form = words[0];
  if (form == "hlo" || form == "hlo-as-xla-made") {
    out = PrintModule(*module);
  } else if (form == "hlo-as-xla-given") {
    out = PrintModule(*module, MakeShortPrintOptions());
  } else if (form == "proto") {
    ASSIGN_OR_RETURN(out, SerializeHloModule(*module));
  } else if (form == "stablehlo" || form == "stablehlo-generic") {
    StablehloTextOptions options;
    options.locations = true;
    options.pretty = form == "stablehlo";
    ASSIGN_OR_RETURN(out, ExportStablehloText(*module, options));
  } else if (absl::ConsumePrefix(&form, "artifact:")) {
    ASSIGN_OR_RETURN(StablehloVersion version, ParseStablehloVersion(form));
    ASSIGN_OR_RETURN(out, ExportPortableArtifact(*module, version));
  } else if (form == "eval") {
    std::string data;
    if (words.size() > 3) {
      ASSIGN_OR_RETURN(data, ReadFile(words[3]));
    }
    absl::string_view left = data;
    std::vector<Literal> arguments;
    for (const Instruction* p : module->entry()->parameters()) {
      ASSIGN_OR_RETURN(Literal argument, Take(p->shape(), &left));
      arguments.push_back(std::move(argument));
    }
    if (!left.empty()) return absl::InvalidArgumentError(absl::StrCat(left.size(), " bytes of arguments left over"));
    ASSIGN_OR_RETURN(Literal result, Evaluate(*module, arguments));
    Append(result, &out);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown form ", words[0]));
  }
  std::ofstream(words[2], std::ios::binary) << out;
  return absl::OkStatus();
}

}  // namespace
}  // namespace backplane

int main(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i <= argc; ++i) {
    if (i < argc && std::strcmp(argv[i], "--") != 0) {
      words.push_back(argv[i]);
      continue;
    }
    if (words.empty()) continue;
    const absl::Status status = backplane::Job(words);
    std::string line = status.ok() ? "ok" : std::string(status.message());
    std::printf("%s\n", absl::StrReplaceAll(line, {{"\n", " "}}).c_str());
    words.clear();
  }
  return 0;
}
