// backplane fuzz: runs random programs on one or two plugins and compares each result with the program's meaning.
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/import/export/export.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/command.h"
#include "sdk/cli/fuzz/campaign.h"
#include "sdk/cli/fuzz/shrink.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/session.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct FuzzOptions {
  PluginOptions plugin;
  std::vector<std::string> plugins, without, without_types;
  std::string only, form = "both", save = ".", known, defect;
  int64_t count = 1000, seed = 1, jobs = 1, tries = 600, devices = 1, structured = 40, thresholds = 0, in_flight = 15;
  double minutes = 0, seconds = 60;
  bool coverage = false, print = false, bf16_products = false, quantized = false, replicas_only = false;
};

absl::StatusOr<Opcode> Operation(const std::string& name, int64_t devices) {
  const std::optional<Opcode> opcode = ParseOpcode(name);
  if (!opcode.has_value()) return absl::InvalidArgumentError(absl::StrCat("fuzz: no operation '", name, "'"));
  if (const std::string why = fuzz::ExplainNotGenerated(*opcode, devices); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("fuzz: ", name, " is not generated: ", why));
  }
  return *opcode;
}

// Saves the program and its inputs. Returns the command that shows the difference.
absl::StatusOr<std::string> Save(const FuzzOptions& o, const fuzz::Finding& finding) {
  const std::string base = absl::StrCat(o.save, "/fuzz-", finding.seed);
  BP_RETURN_IF_ERROR(WriteFile(base + ".hlo", PrintModule(*finding.program.module)));
  std::string program = base + ".hlo";
  if (finding.form == fuzz::Form::kStablehlo) {
    if (absl::StatusOr<std::string> text = fuzz::ExportQuantized(*finding.program.module, finding.program.quantized);
        text.ok()) {
      program = base + ".mlir";
      BP_RETURN_IF_ERROR(WriteFile(program, *text));
    }
  }
  std::vector<std::pair<std::string, std::string>> members;
  for (const Literal& argument : finding.program.arguments) {
    BP_ASSIGN_OR_RETURN(const host::HostArray array, FromLiteral(argument));
    BP_ASSIGN_OR_RETURN(std::string npy, FormatNpy(array));
    members.emplace_back(absl::StrCat("input", members.size()), std::move(npy));
  }
  std::string command = absl::StrCat("backplane diff ", program, " ", absl::StrJoin(o.plugins, " "));
  if (!members.empty()) {
    BP_ASSIGN_OR_RETURN(const std::string archive, FormatZip(members));
    BP_RETURN_IF_ERROR(WriteFile(base + ".npz", archive));
    absl::StrAppend(&command, " --input ", base, ".npz");
  }
  return command;
}

host::Json ToJson(const fuzz::Finding& f) {
  return host::Json::MakeObject()
      .Set("seed", static_cast<int64_t>(f.seed))
      .Set("plugin", f.runner)
      .Set("form", fuzz::FormatForm(f.form))
      .Set("what", f.what)
      .Set("known", f.known)
      .Set("operations", fuzz::CountOperations(*f.program.module))
      .Set("program", PrintModule(*f.program.module));
}

absl::Status PrintPrograms(const FuzzOptions& o, const fuzz::GeneratorOptions& generator, Terminal& terminal) {
  fuzz::Coverage coverage;
  int64_t operations = 0;
  for (int64_t k = 0; k < o.count; ++k) {
    BP_ASSIGN_OR_RETURN(const fuzz::FuzzProgram program,
                        fuzz::GenerateProgram(static_cast<uint64_t>(o.seed + k), generator));
    fuzz::AddCoverage(*program.module, coverage);
    operations += fuzz::CountOperations(*program.module);
    if (o.print) terminal.Print(absl::StrCat(PrintModule(*program.module), "\n"));
  }
  if (o.coverage) terminal.Print(fuzz::PrintCoverage(coverage, o.devices));
  terminal.Print(absl::StrCat(o.count, " programs of ", operations, " operations\n"));
  return absl::OkStatus();
}

absl::Status Fuzz(const FuzzOptions& o, Terminal& terminal, int* exit_code) {
  fuzz::CampaignOptions campaign;
  if (!o.only.empty()) {
    BP_ASSIGN_OR_RETURN(campaign.generator.only, Operation(o.only, o.devices));
  }
  for (const std::string& name : o.without) {
    BP_ASSIGN_OR_RETURN(const Opcode opcode, Operation(name, o.devices));
    campaign.generator.without.insert(opcode);
  }
  for (const std::string& name : o.without_types) {
    const std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
    if (!type.has_value()) return MakeUsageError(absl::StrCat("fuzz: no element type '", name, "'"));
    campaign.generator.without_types.insert(*type);
  }
  campaign.generator.bf16_products = o.bf16_products;
  campaign.generator.devices = o.devices;
  campaign.generator.quantized = o.quantized;
  campaign.generator.structured = static_cast<int>(o.structured);
  campaign.generator.thresholds = static_cast<int>(o.thresholds);
  campaign.generator.in_flight = static_cast<int>(o.in_flight);
  campaign.generator.replicas_only = o.replicas_only;
  if (o.form == "stablehlo") campaign.forms = {fuzz::Form::kStablehlo};
  if (o.form == "hlo") campaign.forms = {fuzz::Form::kHlo};
  campaign.generator.portable = o.form == "stablehlo";
  campaign.seed = o.seed;
  campaign.count = o.count;
  campaign.minutes = o.minutes;
  campaign.shrink_tries = static_cast<int>(o.tries);
  if (o.plugins.empty()) {
    if (!o.coverage && !o.print) return MakeUsageError("fuzz: expected one or two plugins, --coverage or --print");
    return PrintPrograms(o, campaign.generator, terminal);
  }
  if (o.plugins.size() > 2) return MakeUsageError("fuzz: expected one or two plugins");
  if (!o.known.empty()) {
    BP_ASSIGN_OR_RETURN(const std::string text, ReadFile(o.known));
    BP_ASSIGN_OR_RETURN(campaign.known, fuzz::ParseKnownDifferences(text));
  }
  mkdir(o.save.c_str(), 0777);

  std::vector<fuzz::Lane> lanes(static_cast<size_t>(o.jobs));
  for (fuzz::Lane& lane : lanes) {
    for (size_t k = 0; k < o.plugins.size(); ++k) {
      fuzz::PluginRunnerOptions options;
      options.plugin = o.plugin;
      if (o.devices > 1) options.plugin.options.push_back(absl::StrCat("cpu_device_count=", o.devices));
      options.seconds = o.seconds;
      if (k + 1 == o.plugins.size() && !o.defect.empty()) {
        BP_ASSIGN_OR_RETURN(options.mutation, fuzz::FindMutation(o.defect));
      }
      BP_ASSIGN_OR_RETURN(std::unique_ptr<fuzz::Runner> runner, fuzz::MakePluginRunner(o.plugins[k], options));
      lane.push_back(std::move(runner));
    }
  }
  absl::Status saved;
  const fuzz::CampaignResult result = fuzz::RunCampaign(
      lanes, campaign,
      [&](const fuzz::Finding& f) {
        absl::StatusOr<std::string> command = Save(o, f);
        if (!command.ok()) saved = command.status();
        if (terminal.json()) return;
        terminal.Print(absl::StrCat(terminal.ApplyStyle(f.known.empty() ? Style::kBad : Style::kNote,
                                                        f.known.empty() ? "differs" : absl::StrCat("known: ", f.known)),
                                    " seed ", f.seed, ", ", f.runner, ", ", fuzz::FormatForm(f.form), ": ", f.what,
                                    "\n"));
        if (f.known.empty()) terminal.Print(PrintModule(*f.program.module));
        for (const std::string& line : fuzz::DescribeHandling(f.program)) {
          terminal.Print(absl::StrCat("  ", line, "\n"));
        }
        if (command.ok()) terminal.Print(absl::StrCat("  ", *command, "\n"));
      },
      [&](int64_t done) {
        terminal.ShowProgress("fuzz", static_cast<size_t>(done), static_cast<size_t>(o.count));
        if (done % 1000 == 0 && !terminal.json()) terminal.Note(absl::StrCat(done, " programs"));
      });
  BP_RETURN_IF_ERROR(saved);

  int64_t known = 0;
  for (const fuzz::Finding& f : result.findings) known += !f.known.empty();
  const int64_t unknown = static_cast<int64_t>(result.findings.size()) - known;
  if (unknown > 0 || result.generator_failures > 0) *exit_code = kNo;
  if (terminal.json()) {
    host::Json findings = host::Json::MakeArray();
    for (const fuzz::Finding& f : result.findings) findings.Push(ToJson(f));
    host::Json refusals = host::Json::MakeObject();
    for (const auto& [what, count] : result.refusals) refusals.Set(what, count);
    terminal.PrintJson(host::Json::MakeObject()
                           .Set("programs", result.programs)
                           .Set("operations", result.operations)
                           .Set("agreeing", result.agreeing)
                           .Set("not_written", result.not_written)
                           .Set("generator_failures", result.generator_failures)
                           .Set("differences", unknown)
                           .Set("known_differences", known)
                           .Set("elements_bitwise", result.power.bitwise)
                           .Set("elements_bounded", result.power.bounded)
                           .Set("elements_undecided", result.power.undecided)
                           .Set("seconds", result.seconds)
                           .Set("refusals", std::move(refusals))
                           .Set("findings", std::move(findings)));
    return absl::OkStatus();
  }
  if (o.coverage) terminal.Print(fuzz::PrintCoverage(result.coverage, o.devices));
  for (const auto& [what, count] : result.refusals) {
    terminal.Print(
        absl::StrCat("refused ", count, " times, as seed ", result.refusal_seeds.at(what), ": ", what, "\n"));
  }
  const double elements =
      static_cast<double>(std::max<int64_t>(result.power.bitwise + result.power.bounded + result.power.undecided, 1));
  auto percent = [&](int64_t n) { return absl::StrFormat("%.1f %%", 100 * static_cast<double>(n) / elements); };
  terminal.Print(absl::StrCat(result.programs, " programs of ", result.operations, " operations in ",
                              absl::StrFormat("%.0f", result.seconds), " s: ", result.agreeing, " agree, ", unknown,
                              " findings, ", known, " known, ", result.not_written, " have no such form, ",
                              result.generator_failures, " the evaluator cannot run\ncompared to the bit ",
                              percent(result.power.bitwise), " of the elements, within a bound ",
                              percent(result.power.bounded), ", undecided ", percent(result.power.undecided), "\n"));
  for (size_t k = 0; k < result.waited.size(); ++k) {
    terminal.Print(absl::StrCat(k == 0 ? "waited " : ", ", absl::StrFormat("%.0f", result.waited[k]), " s for ",
                                o.plugins[k], k + 1 == result.waited.size() ? "\n" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

Command FuzzCommand() {
  auto o = std::make_shared<FuzzOptions>();
  Command command{"fuzz", "runs random programs on one or two plugins and compares the results with their meaning"};
  command.options.push_back({"--plugin,-p", &o->plugins, "a plugin, or two", "PLUGIN", false, {}, true});
  command.options.push_back(AtLeast(1, {"--count,-n", &o->count, "how many programs", "N"}));
  command.options.push_back(
      {"--seed,-s", &o->seed, "seed of the first program; it increases by one for each program", "N"});
  command.options.push_back(AtLeast(0, {"--minutes", &o->minutes, "end after so many minutes", "M"}));
  command.options.push_back({"--only", &o->only, "programs with this operation", "OP"});
  command.options.push_back({"--without", &o->without, "no programs with this operation; may be repeated", "OP"});
  command.options.push_back(
      {"--without-type", &o->without_types, "no programs with this element type; may be repeated", "TYPE"});
  command.options.push_back({"--bf16-products", &o->bf16_products,
                             "operands of products rounded to bf16, for plugins whose matrix unit does that"});
  command.options.push_back(
      Bounded(1, 64,
              {"--devices", &o->devices,
               "programs of up to so many devices among the others (client option cpu_device_count)", "N"}));
  command.options.push_back(
      {"--replicas-only", &o->replicas_only, "on several devices, only programs with one partition"});
  command.options.push_back({"--quantized", &o->quantized, "also functions on quantized tensors"});
  command.options.push_back(
      Bounded(0, 100,
              {"--structured", &o->structured,
               "percentage of programs that consist of computations with many call sites", "PERCENT"}));
  command.options.push_back(Bounded(
      0, 100,
      {"--thresholds", &o->thresholds,
       "percentage of short programs with sizes at which implementations change: 31, 32, 33, 127, 128, 129, ...",
       "PERCENT"}));
  command.options.push_back(
      Bounded(0, 100,
              {"--in-flight", &o->in_flight,
               "percentage of programs that run concurrently with others that share buffers", "PERCENT"}));
  command.options.push_back({"--form", &o->form, "how programs are sent", "FORM", false, {"both", "stablehlo", "hlo"}});
  command.options.push_back(
      Bounded(1, 64, {"--jobs,-j", &o->jobs, "programs that run at the same time, each with its own processes", "N"}));
  command.options.push_back({"--save", &o->save, "folder for reproducers", "DIR", false, {}, true});
  command.options.push_back({"--known", &o->known, "list of known differences", "FILE", false, {}, true});
  command.options.push_back(
      Bounded(0, 1e6, {"--shrink", &o->tries, "number of smaller programs to try for each finding", "N"}));
  command.options.push_back(
      Bounded(0.01, 1e6, {"--program-timeout", &o->seconds, "seconds a program may take", "SECONDS"}));
  command.options.push_back({"--coverage", &o->coverage, "print how often each operation was made with each type"});
  command.options.push_back({"--print", &o->print, "without plugins: print the programs"});
  command.options.push_back(
      {"--defect", &o->defect,
       "add a known defect to the programs for the last plugin: " + absl::StrJoin(fuzz::ListMutations(), ", "),
       "NAME"});
  o->plugin.AddTo(&command, false);
  command.details =
      "Each program is evaluated by its definition, with an error bound for every element; a plugin's result must lie\n"
      "within it. What differs is shrunk and saved as fuzz-SEED.hlo and fuzz-SEED.npz, for `backplane diff`.\n"
      "\n"
      "  backplane fuzz -p cpu --count 20000\n"
      "  backplane fuzz -p cpu --structured 100 --in-flight 50\n"
      "  backplane fuzz -p cpu -p other.so --only gather --form stablehlo --known known.txt\n"
      "\n"
      "Exit code 1: a finding that is not among the known differences.";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return Fuzz(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
