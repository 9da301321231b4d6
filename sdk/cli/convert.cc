// backplane convert: converts a program to another format.
#include "absl/strings/str_cat.h"
#include "core/import/export/export.h"
#include "core/import/proto/hlo_proto.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/command.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct ConvertOptions {
  std::string program, to, output = "-", version;
  bool generic = false, locations = false;
};

absl::StatusOr<std::string> Convert(const Module& module, const ConvertOptions& o) {
  if (o.to == "stablehlo") {
    StablehloTextOptions options;
    options.pretty = !o.generic;
    options.locations = o.locations;
    return ExportStablehloText(module, options);
  }
  if (o.to == "bytecode") {
    StablehloVersion version;
    if (!o.version.empty()) {
      BP_ASSIGN_OR_RETURN(version, ParseStablehloVersion(o.version));
    }
    return ExportPortableArtifact(module, version);
  }
  if (o.to == "hlo") {
    HloPrintOptions options;
    options.metadata = o.locations;
    return PrintModule(module, options);
  }
  return SerializeHloModule(module);
}

}  // namespace

Command ConvertCommand() {
  auto o = std::make_shared<ConvertOptions>();
  Command command{"convert", "converts a program to another format"};
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", true, {}, true});
  command.options.push_back({"--to,-t",
                             &o->to,
                             "stablehlo (text), bytecode (portable StableHLO), hlo (text) or proto",
                             "FORM",
                             true,
                             {"stablehlo", "bytecode", "hlo", "proto"}});
  command.options.push_back(
      {"--output,-O", &o->output, "the file to write; '-', standard output, unless said", "FILE", false, {}, true});
  command.options.push_back(
      {"--stablehlo-version", &o->version, "of the bytecode, such as 1.0.0; the newest unless said", "VERSION"});
  command.options.push_back({"--generic", &o->generic, "stablehlo: print all operations in the generic form"});
  command.options.push_back({"--locations", &o->locations, "keep source locations"});
  command.details =
      "  backplane convert model.mlirbc --to stablehlo\n  backplane convert model.hlo --to bytecode "
      "--stablehlo-version 1.0.0 -O model.mlirbc";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) -> absl::Status {
    BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadModule(o->program));
    BP_ASSIGN_OR_RETURN(const std::string bytes, Convert(*file.module, *o));
    if (!terminal.json()) return WriteFile(o->output, bytes);
    host::Json json =
        host::Json::MakeObject().Set("from", FormName(file.form)).Set("to", o->to).Set("bytes", bytes.size());
    if (o->output == "-") {
      if (o->to != "stablehlo" && o->to != "hlo")
        return MakeUsageError("convert: JSON output cannot contain bytes; give a file with --output");
      json.Set("text", bytes);
    } else {
      BP_RETURN_IF_ERROR(WriteFile(o->output, bytes));
      json.Set("output", o->output);
    }
    terminal.PrintJson(json);
    return absl::OkStatus();
  };
  return command;
}

}  // namespace backplane::cli
