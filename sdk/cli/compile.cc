// backplane compile: compiles a program on a plugin and shows the result.
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/ahead_of_time.h"
#include "sdk/cli/command.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/program.h"
#include "sdk/host/probe_report.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

constexpr double kMaxCompileDevices = 1 << 20;

struct CompileCommandOptions {
  PluginOptions plugin;
  std::string which, program, save, target, print;
  bool optimized = false, log = false;
  int64_t replicas = 1, partitions = 1;
};

// What the command has compiled: with a client, or without one for --target.
struct Compiled {
  std::string name;  // the plugin's
  const host::Plugin* plugin = nullptr;
  host::Executable executable;
  absl::StatusOr<std::string> log;
};

absl::StatusOr<Compiled> CompileProgram(const CompileCommandOptions& o, const host::Program& program,
                                        const host::CompileOptions& options, double* seconds) {
  auto begin = std::chrono::steady_clock::now();
  if (!o.target.empty()) {
    BP_ASSIGN_OR_RETURN(CompiledAhead ahead, CompileAhead(o.which, o.plugin, o.target, program, options));
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    absl::Status no_log = absl::UnimplementedError("compile: --log needs a client, so it cannot be used with --target");
    return Compiled{ahead.found.name, ahead.plugin, std::move(ahead.executable), std::move(no_log)};
  }
  BP_ASSIGN_OR_RETURN(const Session session, OpenSession(o.which, o.plugin));
  begin = std::chrono::steady_clock::now();
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable loaded, CompileOn(session, program, options));
  *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  absl::StatusOr<host::Executable> executable = loaded.GetExecutable();
  BP_RETURN_IF_ERROR(FromPlugin(executable.status()));
  return Compiled{session.found.name, session.plugin, *std::move(executable), ReadCompileLog(session, loaded)};
}

// The code in the forms that --print names, by form.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> CodeToPrint(const CompileCommandOptions& o,
                                                                             const Compiled& compiled) {
  std::vector<std::pair<std::string, std::string>> texts;
  if (o.print.empty()) return texts;
  std::vector<std::string> forms = {o.print};
  if (o.print == "all") forms = {"ir", "isa", "resources"};
  for (const std::string& form : forms) {
    BP_ASSIGN_OR_RETURN(std::string text, GetCodeText(*compiled.plugin, compiled.name, compiled.executable, form));
    texts.emplace_back(form, std::move(text));
  }
  return texts;
}

absl::Status Compile(const CompileCommandOptions& o, Terminal& terminal) {
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadProgram(o.program));
  BP_ASSIGN_OR_RETURN(const host::Program program, ForPlugin(file));
  host::CompileOptions options;
  options.num_replicas = static_cast<int>(o.replicas);
  options.num_partitions = static_cast<int>(o.partitions);
  options.use_spmd_partitioning = o.partitions > 1;
  double seconds = 0;
  BP_ASSIGN_OR_RETURN(const Compiled compiled, CompileProgram(o, program, options, &seconds));
  const host::Executable* const executable = &compiled.executable;
  BP_ASSIGN_OR_RETURN(const auto code, CodeToPrint(o, compiled));
  if (!o.save.empty()) {
    absl::StatusOr<std::string> bytes = executable->Serialize();
    BP_RETURN_IF_ERROR(FromPlugin(bytes.status()));
    BP_RETURN_IF_ERROR(WriteFile(o.save, *bytes));
  }
  const absl::StatusOr<host::Program> optimized = executable->OptimizedProgram();
  const absl::StatusOr<std::string>& log = compiled.log;
  // HLO protos are printed as text if we can read them.
  std::string text;
  if (o.optimized) {
    BP_RETURN_IF_ERROR(FromPlugin(optimized.status()));
    text = PrintOptimized(*optimized);
  }
  if (o.log) BP_RETURN_IF_ERROR(FromPlugin(log.status()));

  if (terminal.json()) {
    host::Json json = host::Json::MakeObject();
    json.Set("plugin", compiled.name).Set("seconds", seconds);
    if (auto name = executable->Name(); name.ok()) json.Set("name", *name);
    if (auto fingerprint = executable->Fingerprint(); fingerprint.ok()) {
      std::string hex;
      for (unsigned char c : *fingerprint) {
        if (c >= 0x20 && c < 0x7f) {
          hex.push_back(static_cast<char>(c));
        } else {
          absl::StrAppendFormat(&hex, "\\x%02x", c);
        }
      }
      json.Set("fingerprint", hex);
    }
    if (auto size = executable->SizeOfGeneratedCode(); size.ok()) json.Set("code_bytes", *size);
    if (auto shapes = executable->OutputShapes(); shapes.ok()) {
      host::Json outputs = host::Json::MakeArray();
      for (const host::ArrayShape& s : *shapes) outputs.Push(host::FormatShape(s.type, s.dims));
      json.Set("outputs", std::move(outputs));
    }
    if (auto m = executable->MemoryStats(); m.ok()) {
      json.Set("memory", host::Json::MakeObject()
                             .Set("arguments", m->argument)
                             .Set("outputs", m->output)
                             .Set("aliased", m->alias)
                             .Set("temporary", m->temp)
                             .Set("code", m->generated_code)
                             .Set("peak", m->peak_memory));
    }
    if (auto cost = executable->CostAnalysis(); cost.ok()) json.Set("cost", host::ToJson(*cost));
    if (o.optimized) json.Set("optimized_format", optimized->format).Set("optimized", text);
    if (log.ok()) json.Set("log", *log);
    for (const auto& [form, code_text] : code) json.Set(form, code_text);
    terminal.PrintJson(json);
    return absl::OkStatus();
  }
  // Code alone, so that it can be piped into other tools.
  if (!code.empty()) {
    for (const auto& [form, code_text] : code) {
      if (code.size() > 1) terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kBold, form), "\n"));
      terminal.Print(absl::StrCat(code_text, code.size() > 1 ? "\n" : ""));
    }
    return absl::OkStatus();
  }
  auto bold = [&](absl::string_view t) { return terminal.ApplyStyle(Style::kBold, t); };
  std::vector<std::vector<std::string>> rows = {{bold("compiled in"), absl::StrFormat("%.1f ms", seconds * 1e3)}};
  if (auto name = executable->Name(); name.ok()) rows.push_back({bold("name"), *name});
  if (auto shapes = executable->OutputShapes(); shapes.ok()) {
    for (size_t i = 0; i < shapes->size(); ++i) {
      rows.push_back({bold(absl::StrCat("output ", i)), host::FormatShape((*shapes)[i].type, (*shapes)[i].dims)});
    }
  }
  if (auto size = executable->SizeOfGeneratedCode(); size.ok())
    rows.push_back({bold("code"), Bytes(static_cast<double>(*size))});
  if (auto m = executable->MemoryStats(); m.ok()) {
    rows.push_back({bold("memory"), absl::StrCat(Bytes(static_cast<double>(m->argument)), " arguments, ",
                                                 Bytes(static_cast<double>(m->output)), " outputs, ",
                                                 Bytes(static_cast<double>(m->alias)), " aliased, ",
                                                 Bytes(static_cast<double>(m->temp)), " temporary")});
  }
  if (auto cost = executable->CostAnalysis(); cost.ok()) {
    for (const char* name : {"flops", "transcendentals", "bytes accessed"}) {
      if (const host::NamedValue* v = host::Find(*cost, name); v != nullptr)
        rows.push_back({bold(name), v->FormatValue()});
    }
  }
  terminal.Print(FormatTable(rows));
  if (o.log) terminal.Print(absl::StrCat("\n", *log, "\n"));
  if (o.optimized) terminal.Print(absl::StrCat("\n", text));
  return absl::OkStatus();
}

}  // namespace

Command CompileCommand() {
  auto o = std::make_shared<CompileCommandOptions>();
  Command command{"compile", "compiles a program on a plugin and shows the result"};
  command.options.push_back({"plugin", &o->which, "the plugin: path, manifest or name", "PLUGIN", true, {}, true});
  command.options.push_back(
      {"program", &o->program, "the program, in any form ('-': standard input)", "PROGRAM", true, {}, true});
  command.options.push_back({"--optimized", &o->optimized, "print the program after the plugin's optimization"});
  command.options.push_back({"--log", &o->log, "print the compile log (plugins of this project)"});
  command.options.push_back(
      {"--save,--output,-O", &o->save, "write the serialized executable", "FILE", false, {}, true});
  command.options.push_back({"--target,-t", &o->target,
                             "compile without a device, for the topology of this name (hip: a GPU, such as gfx942)",
                             "NAME"});
  command.options.push_back({"--print",
                             &o->print,
                             "print the code alone; the HIP plugin has these forms",
                             "FORM",
                             false,
                             {"ir", "isa", "resources", "report", "all"}});
  command.options.push_back(Bounded(1, kMaxCompileDevices, {"--replicas", &o->replicas, "number of replicas", "N"}));
  command.options.push_back(
      Bounded(1, kMaxCompileDevices, {"--partitions", &o->partitions, "number of partitions", "N"}));
  o->plugin.AddTo(&command);
  command.details =
      "  backplane compile cpu step.mlir --log\n"
      "  backplane compile hip step.mlir --target gfx942 --print isa\n"
      "  backplane compile hip step.mlir --target gfx942 --save step.executable\n"
      "--print all prints the forms ir, isa and resources. docs/hip.md describes the forms.";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) { return Compile(*o, terminal); };
  return command;
}

}  // namespace backplane::cli
