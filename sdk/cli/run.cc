// backplane run: runs a program in any format on any plugin.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/command.h"
#include "sdk/cli/execution.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/profile.h"
#include "sdk/cli/profile_page.h"
#include "sdk/cli/program.h"
#include "sdk/cli/run_processes.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct RunOptions {
  PluginOptions plugin;
  std::string which, program, save, picture, profile_trace, profile_page;
  std::vector<std::string> inputs;
  int64_t seed = 0, limit = 100, profile_runs = 10;
  bool stats = false, show_inputs = false, profile = false;
  int64_t processes = 0;
  std::vector<std::string> single_options;
  bool no_compare = false;
};

absl::StatusOr<host::Json> Describe(const host::HostArray& array, const RunOptions& o) {
  host::Json json = host::Json::MakeObject();
  json.Set("shape", host::FormatShape(array.type, array.dims));
  BP_ASSIGN_OR_RETURN(std::string text, PrintArray(array, o.limit));
  json.Set("text", std::move(text));
  BP_ASSIGN_OR_RETURN(const Statistics statistics, ComputeStatistics(array));
  return json.Set("statistics", ToJson(statistics));
}

std::string StatisticsText(const Statistics& s) {
  return absl::StrCat("min ", s.min, ", max ", s.max, ", mean ", s.mean, ", deviation ", s.deviation, ", ", s.zeros,
                      " zeros, ", s.nans, " nan, ", s.infinities, " inf of ", s.count);
}

absl::Status Print(absl::string_view what, const std::vector<host::HostArray>& arrays, const RunOptions& o,
                   Terminal& terminal) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    BP_ASSIGN_OR_RETURN(const Statistics statistics, ComputeStatistics(arrays[i]));
    std::string text = host::FormatShape(arrays[i].type, arrays[i].dims);
    if (!o.stats) {
      BP_ASSIGN_OR_RETURN(text, PrintArray(arrays[i], o.limit));
    }
    terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kBold, absl::StrCat(what, " ", i)), ": ", text, "\n"));
    if (o.stats) terminal.Print(absl::StrCat("  ", StatisticsText(statistics), "\n"));
  }
  return absl::OkStatus();
}

// Writes FILE.npz with all results; or FILE.npy with the only one; or FILE.0.npy, FILE.1.npy and so on.
absl::Status Save(const std::string& path, const std::vector<host::HostArray>& results) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const host::HostArray& result : results) {
    BP_ASSIGN_OR_RETURN(std::string bytes, FormatNpy(result));
    files.emplace_back(absl::StrCat("result_", files.size()), std::move(bytes));
  }
  if (absl::EndsWith(path, ".npz")) {
    BP_ASSIGN_OR_RETURN(const std::string archive, FormatZip(files));
    return WriteFile(path, archive);
  }
  if (files.size() == 1) return WriteFile(path, files[0].second);
  for (size_t i = 0; i < files.size(); ++i) {
    BP_RETURN_IF_ERROR(WriteFile(absl::StrCat(path.substr(0, path.size() - 4), ".", i, ".npy"), files[i].second));
  }
  return absl::OkStatus();
}

bool IsProfiled(const RunOptions& o) { return o.profile || !o.profile_trace.empty() || !o.profile_page.empty(); }

// Profiles the program. Prints the table, unless the output is JSON.
absl::StatusOr<Profile> RunProfiled(const RunOptions& o, const Session& session,
                                    const host::LoadedExecutable& executable,
                                    const std::vector<host::HostArray>& inputs, Terminal& terminal) {
  BP_ASSIGN_OR_RETURN(const std::vector<host::Buffer> buffers, ToDevice(session, inputs));
  BP_ASSIGN_OR_RETURN(Profile profile, ProfileProgram(session, executable, buffers, o.profile_runs));
  BP_ASSIGN_OR_RETURN(profile.rates, MeasureRates(session));
  profile.plugin = session.found.name;
  profile.program = o.program;
  if (!o.profile_trace.empty()) BP_RETURN_IF_ERROR(WriteFile(o.profile_trace, PrintChromeTrace(profile.trace)));
  if (!o.profile_page.empty()) BP_RETURN_IF_ERROR(WriteFile(o.profile_page, ProfilePage(profile)));
  if (!terminal.json()) terminal.Print(FormatProfile(profile, terminal));
  return profile;
}

// Runs the program in several processes, on all of their devices. Each device has random inputs of its own.
absl::Status RunSeveral(const RunOptions& o, const ProgramFile& file, host::Program program, Terminal& terminal,
                        int* exit_code) {
  if (!o.picture.empty() || !o.save.empty() || o.show_inputs || IsProfiled(o))
    return MakeUsageError("run: --processes does not go with --save, --picture, --show-inputs or --profile");
  if (file.module == nullptr) return file.unread;
  BP_ASSIGN_OR_RETURN(const std::vector<host::ArrayShape> shapes, ParameterShapes(*file.module));
  SeveralProcesses run;
  run.count = o.processes;
  run.plugin = o.which;
  run.options = o.plugin;
  run.single_options = o.single_options;
  run.compare = !o.no_compare;
  const ModuleConfig& config = file.module->config();
  if (config.num_replicas > 1) run.num_replicas = config.num_replicas;
  run.num_partitions = config.num_partitions;
  run.program = std::move(program);
  run.inputs = [&](int64_t device) {
    return MakeInputs(shapes, o.inputs, static_cast<uint64_t>(o.seed) + static_cast<uint64_t>(device));
  };
  BP_ASSIGN_OR_RETURN(const std::vector<DeviceResults> results, RunInProcesses(run));
  host::Json list = host::Json::MakeArray();
  size_t differing = 0, count = 0;
  for (size_t d = 0; d < results.size(); ++d) {
    host::Json arrays = host::Json::MakeArray();
    for (const host::HostArray& array : results[d].arrays) {
      BP_ASSIGN_OR_RETURN(host::Json described, Describe(array, o));
      arrays.Push(std::move(described));
    }
    list.Push(host::Json::MakeObject().Set("results", std::move(arrays)).Set("differing", results[d].differing.size()));
    count += results[d].arrays.size();
    differing += results[d].differing.size();
    if (terminal.json()) continue;
    BP_RETURN_IF_ERROR(Print(absl::StrCat("device ", d, ", result"), results[d].arrays, o, terminal));
    for (const size_t i : results[d].differing)
      terminal.Print(
          terminal.ApplyStyle(Style::kBad, absl::StrCat("  result ", i, " differs from that of one process\n")));
  }
  if (differing > 0) *exit_code = kNo;
  if (terminal.json()) {
    terminal.PrintJson(host::Json::MakeObject()
                           .Set("processes", o.processes)
                           .Set("compared", !o.no_compare)
                           .Set("differing", differing)
                           .Set("devices", std::move(list)));
  } else if (!o.no_compare) {
    terminal.Print(differing > 0 ? absl::StrCat(differing, " of ", count, " results differ from those of one process\n")
                                 : absl::StrCat("all ", count, " results have the bits of one process\n"));
  }
  return absl::OkStatus();
}

absl::Status Run(const RunOptions& o, Terminal& terminal, int* exit_code) {
  if (!o.save.empty() && !absl::EndsWith(o.save, ".npz") && !absl::EndsWith(o.save, ".npy"))
    return MakeUsageError(absl::StrCat("run: --save ", o.save, ": expected a name that ends in .npy or .npz"));
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadProgram(o.program));
  BP_ASSIGN_OR_RETURN(host::Program program, ForPlugin(file));
  if (o.processes > 0) return RunSeveral(o, file, std::move(program), terminal, exit_code);
  std::vector<host::HostArray> inputs;
  if (file.module != nullptr) {
    BP_ASSIGN_OR_RETURN(const std::vector<host::ArrayShape> shapes, ParameterShapes(*file.module));
    BP_ASSIGN_OR_RETURN(inputs, MakeInputs(shapes, o.inputs, static_cast<uint64_t>(o.seed)));
    const ModuleConfig& config = file.module->config();
    if (const int64_t devices = config.num_replicas * config.num_partitions; devices > 1)
      terminal.Note(
          absl::StrCat("note: the program is for ", devices,
                       " devices; it runs on one device here, and on all devices of the plugin with --processes 1"));
  } else {  // the plugin may read a program that we cannot
    terminal.Note(absl::StrCat("note: ", absl::string_view(file.unread.message())));
    BP_ASSIGN_OR_RETURN(inputs, ReadInputs(o.inputs));
  }
  BP_ASSIGN_OR_RETURN(const Session session, OpenSession(o.which, o.plugin));
  BP_ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  BP_ASSIGN_OR_RETURN(const std::vector<host::HostArray> results, RunOnce(session, executable, inputs));
  if (!o.save.empty()) BP_RETURN_IF_ERROR(Save(o.save, results));
  if (!o.picture.empty()) {
    if (results.empty()) return absl::InvalidArgumentError("picture: the program has no result");
    BP_ASSIGN_OR_RETURN(const std::string png, RenderPicture(results[0]));
    BP_RETURN_IF_ERROR(WriteFile(o.picture, png));
  }
  host::Json profiled;
  if (IsProfiled(o)) {
    BP_ASSIGN_OR_RETURN(const Profile profile, RunProfiled(o, session, executable, inputs, terminal));
    if (!terminal.json()) return absl::OkStatus();
    profiled = ProfileJson(profile);
  }
  if (terminal.json()) {
    host::Json list = host::Json::MakeArray();
    for (const host::HostArray& result : results) {
      BP_ASSIGN_OR_RETURN(host::Json described, Describe(result, o));
      list.Push(std::move(described));
    }
    host::Json all = host::Json::MakeObject().Set("plugin", session.found.name).Set("results", std::move(list));
    if (!profiled.is_null()) all.Set("profile", std::move(profiled));
    terminal.PrintJson(all);
    return absl::OkStatus();
  }
  if (o.show_inputs) BP_RETURN_IF_ERROR(Print("input", inputs, o, terminal));
  return Print("result", results, o, terminal);
}

}  // namespace

Command RunCommand() {
  auto o = std::make_shared<RunOptions>();
  Command command{"run", "runs a program on a plugin"};
  command.options.push_back({"plugin", &o->which, "the plugin: path, manifest or name", "PLUGIN", true, {}, true});
  command.options.push_back(
      {"program",
       &o->program,
       "the program: StableHLO text or portable bytecode, HLO text or proto ('-': standard input)",
       "PROGRAM",
       true,
       {},
       true});
  command.options.push_back(
      {"--input,-i", &o->inputs, "an input; may be repeated; see below", "SPEC", false, {}, true});
  command.options.push_back(AtLeast(0, {"--seed", &o->seed, "of random inputs", "N"}));
  command.options.push_back(AtLeast(0, {"--limit", &o->limit, "elements of an array to print", "N"}));
  command.options.push_back({"--stats,-s", &o->stats, "print statistics instead of elements"});
  command.options.push_back({"--show-inputs", &o->show_inputs, "print the inputs as well"});
  command.options.push_back({"--save,--output,-O",
                             &o->save,
                             "write the results: .npz, or .npy (several as NAME.0.npy ...)",
                             "FILE",
                             false,
                             {},
                             true});
  command.options.push_back({"--picture",
                             &o->picture,
                             "write the first result, of two dims or a picture's three, as PNG",
                             "FILE",
                             false,
                             {},
                             true});
  command.options.push_back(
      {"--profile", &o->profile, "print the time of each operation of the optimized program, and not the results"});
  command.options.push_back(AtLeast(1, {"--profile-runs", &o->profile_runs, "runs that are profiled (10)", "N"}));
  command.options.push_back({"--profile-trace",
                             &o->profile_trace,
                             "profile, and write all events as a trace for Perfetto or Chrome",
                             "FILE.json",
                             false,
                             {},
                             true});
  command.options.push_back({"--profile-page",
                             &o->profile_page,
                             "profile, and write a page with the operations, their kernels and rates",
                             "FILE.html",
                             false,
                             {},
                             true});
  command.options.push_back(Bounded(
      1, 4096, {"--processes,-p", &o->processes, "run in so many processes, and compare with one process", "N"}));
  command.options.push_back({"--single-option", &o->single_options,
                             "with --processes: an option of the client in one process; may be repeated",
                             "NAME=VALUE"});
  command.options.push_back({"--no-compare", &o->no_compare, "with --processes: do not compare with one process"});
  o->plugin.AddTo(&command);
  command.details =
      "SPEC: FILE.npy; FILE.npz or FILE.npz:name,name; random, random=LOW..HIGH, zeros, ones, iota; a literal such as "
      "1.5,\n"
      "'{1, 2}' or '[1, 2]'; or N:SPEC for input N instead of the next. Inputs that nothing is said about are random.\n"
      "  backplane run cpu model.mlir -i x.npy -i random=0..1 --save out.npz\n"
      "  backplane run cpu model.mlir --profile --profile-trace trace.json --profile-page profile.html\n"
      "With --processes the program runs on all devices of all processes, each with random inputs of its own. Exit "
      "code 1\n"
      "when a result differs in any bit from that of one process with as many devices.\n"
      "  backplane run cpu program.hlo --processes 4 -o cpu_device_count=2";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return Run(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
