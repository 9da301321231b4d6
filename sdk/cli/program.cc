#include "sdk/cli/program.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/import/proto/hlo_proto.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/npy.h"
#include "sdk/host/element_type.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

// Skips comments and blank lines at the beginning of a text.
absl::string_view SkipComments(absl::string_view text) {
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (!absl::StartsWith(text, "//")) return text;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

// Whether the beginning contains no control characters except those of lines and pages.
bool LooksLikeText(absl::string_view bytes) {
  return absl::c_none_of(bytes.substr(0, 1000), [](char c) {
    return (c >= 0 && c < ' ' && !absl::ascii_isspace(static_cast<unsigned char>(c))) || c == '\x7f';
  });
}

Form DetectForm(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "ML\xefR")) return Form::kStablehloBytecode;
  const absl::string_view text = SkipComments(bytes);
  if (absl::StartsWith(text, "HloModule")) return Form::kHloText;
  for (const char* word : {"module", "func", "#", "\"builtin.module\"", "builtin.module", "sdy"}) {
    if (absl::StartsWith(text, word)) return Form::kStablehloText;
  }
  // A serialized HloModuleProto begins with the tag of its name, field 1.
  return absl::StartsWith(bytes, "\n") ? Form::kHloProto : Form::kStablehloText;
}

}  // namespace

const char* FormName(Form form) {
  switch (form) {
    case Form::kStablehloText:
      return "stablehlo text";
    case Form::kStablehloBytecode:
      return "stablehlo portable bytecode";
    case Form::kHloText:
      return "hlo text";
    case Form::kHloProto:
      return "hlo proto";
  }
  return "";
}

absl::StatusOr<ProgramFile> ReadProgram(const std::string& path) {
  ProgramFile file;
  file.path = path;
  BP_ASSIGN_OR_RETURN(file.bytes, ReadFile(path));
  if (file.bytes.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": empty"));
  if (absl::StartsWith(file.bytes,
                       "\x7f"
                       "ELF")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a shared library or executable, expected a program"));
  }
  file.form = DetectForm(file.bytes);
  const bool hlo = file.form == Form::kHloText || file.form == Form::kHloProto;
  absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(hlo ? "hlo" : "mlir", file.bytes);
  if (module.ok()) {
    file.module = *std::move(module);
  } else {
    file.unread = host::AddContext(module.status(), path);
    if (file.form == Form::kStablehloText && !LooksLikeText(file.bytes)) {
      file.unread = absl::InvalidArgumentError(
          absl::StrCat(path, ": not a program: neither StableHLO text or portable bytecode, nor HLO text or proto"));
    }
  }
  return file;
}

absl::StatusOr<ProgramFile> ReadModule(const std::string& path) {
  BP_ASSIGN_OR_RETURN(ProgramFile file, ReadProgram(path));
  BP_RETURN_IF_ERROR(file.unread);
  return file;
}

absl::StatusOr<host::Program> ForPlugin(const ProgramFile& file) {
  switch (file.form) {
    case Form::kStablehloText:
    case Form::kStablehloBytecode:
      return host::Program{"mlir", file.bytes};
    case Form::kHloProto:
      return host::Program{"hlo", file.bytes};
    case Form::kHloText:
      break;
  }
  BP_RETURN_IF_ERROR(file.unread);
  BP_ASSIGN_OR_RETURN(std::string proto, SerializeHloModule(*file.module));
  return host::Program{"hlo", std::move(proto)};
}

absl::StatusOr<host::Program> ForPlugin(const Module& module) {
  if (absl::StatusOr<std::string> artifact = ExportPortableArtifact(module); artifact.ok()) {
    return host::Program{"mlir", *std::move(artifact)};
  }
  BP_ASSIGN_OR_RETURN(std::string proto, SerializeHloModule(module));
  return host::Program{"hlo", std::move(proto)};
}

std::string PrintOptimized(const host::Program& program) {
  absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(program.format, program.code);
  return module.ok() ? PrintModule(**module) : program.code;
}

absl::StatusOr<std::vector<host::ArrayShape>> ParameterShapes(const Module& module) {
  std::vector<host::ArrayShape> shapes;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const Shape& shape = parameter->shape();
    std::optional<PJRT_Buffer_Type> type = host::ElementTypeByName(Name(shape.element_type()));
    if (!shape.IsArray() || !type.has_value()) {
      return absl::UnimplementedError(
          absl::StrCat("parameter ", shapes.size(), " is ", shape.ToString(), ": only arrays can be passed"));
    }
    shapes.push_back({*type, std::vector<int64_t>(shape.dimensions().begin(), shape.dimensions().end())});
  }
  return shapes;
}

size_t NumResults(const Module& module) {
  size_t count = 0;
  ForEachLeaf(module.entry()->root()->shape(), [&](const Shape&, const std::vector<int64_t>&) { ++count; });
  return count;
}

}  // namespace backplane::cli
