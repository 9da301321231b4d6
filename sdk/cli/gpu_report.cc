// backplane gpu-report: shows the kernels that a program becomes on a GPU, on one page. No GPU is needed.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "sdk/cli/ahead_of_time.h"
#include "sdk/cli/command.h"
#include "sdk/cli/gpu_report_page.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct GpuReportOptions {
  PluginOptions plugin_options;
  std::string plugin = "hip", program, target = "gfx942", out = "gpu_report.html";
};

absl::Status GpuReport(const GpuReportOptions& o, Terminal& terminal) {
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadProgram(o.program));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(file));
  BP_ASSIGN_OR_RETURN(const CompiledAhead compiled, CompileAhead(o.plugin, o.plugin_options, o.target, program, {}));
  BP_ASSIGN_OR_RETURN(const std::string text,
                      GetCodeText(*compiled.plugin, compiled.found.name, compiled.executable, "report"));
  absl::StatusOr<host::Json> document = host::Json::Parse(text);
  BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(document.status(), "gpu-report: what the plugin wrote")));
  const host::Json* format = document->Find("format");
  const host::Json* version = document->Find("version");
  if (format == nullptr || format->string() == nullptr || *format->string() != "backplane.gpu_report" ||
      version == nullptr || version->integer() == nullptr || *version->integer() != 1) {
    return FromPlugin(absl::InternalError(
        absl::StrCat("gpu-report: ", compiled.found.name, ": wrote no backplane.gpu_report of version 1")));
  }
  const std::string name = o.program == "-" ? "program" : std::filesystem::path(o.program).filename().string();
  const std::string title = absl::StrCat(name, " on ", o.target);
  BP_RETURN_IF_ERROR(WriteFile(o.out, MakeGpuReportPage(title, *document)));
  if (terminal.json()) {
    terminal.PrintJson(host::Json::MakeObject().Set("page", o.out).Set("report", *std::move(document)));
    return absl::OkStatus();
  }
  terminal.Print(MakeGpuReportSummary(title, *document));
  terminal.Note(absl::StrCat("gpu-report: ", o.out, " (open in a browser)"));
  return absl::OkStatus();
}

}  // namespace

Command GpuReportCommand() {
  auto o = std::make_shared<GpuReportOptions>();
  Command command{"gpu-report", "writes a page that shows the kernels of a program on a GPU, with their resources"};
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", true, {}, true});
  command.options.push_back({"--target,-t", &o->target, "the GPU; default: gfx942", "NAME"});
  command.options.push_back({"--out,--output,-O", &o->out, "the page", "FILE", false, {}, true});
  command.options.push_back(
      {"--plugin,-p", &o->plugin, "a plugin that writes such reports; default: hip", "PLUGIN", false, {}, true});
  o->plugin_options.AddTo(&command);
  command.details =
      "The program is compiled for the GPU and not run. The page needs no network; docs/hip.md says how to read it.\n"
      "  backplane gpu-report step.mlir\n"
      "  backplane gpu-report step.mlir --target gfx1100 --out step.html";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) { return GpuReport(*o, terminal); };
  return command;
}

}  // namespace backplane::cli
