// backplane trace: runs a host, or a program, with layers, and prints where the trace is.
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sdk/cli/command.h"
#include "sdk/cli/command_files.h"
#include "sdk/cli/session.h"
#include "sdk/cli/temporary_folder.h"
#include "sdk/host/json.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

namespace fs = std::filesystem;
using host::Json;

struct TraceOptions {
  PluginOptions plugin_options;
  std::string plugin, layers = "trace", output = "backplane_trace", fault;
  bool open = false;
  std::vector<std::string> command;
};

absl::StatusOr<fs::path> LayersLibrary() {
  if (const char* set = secure_getenv("BACKPLANE_LAYERS_LIBRARY"); set != nullptr && *set != '\0') return fs::path(set);
  if (const std::string found = FindCommandLibrary("layers", "pjrt_backplane_layers.so"); !found.empty()) {
    return fs::path(found);
  }
  return absl::NotFoundError(
      "trace: pjrt_backplane_layers.so is not beside this program; BACKPLANE_LAYERS_LIBRARY can name it");
}

// A copy of the layers' library for one plugin. Each copy has its own table and reads the manifest in its folder.
absl::StatusOr<std::string> LibraryFor(const fs::path& library, const std::string& plugin,
                                       const TemporaryFolder& folder, size_t number) {
  const fs::path copy = folder / absl::StrCat("layers_", number, ".so");
  std::error_code error;
  fs::copy_file(library, copy, error);
  if (error) return absl::UnavailableError(absl::StrCat("trace: ", library.string(), ": ", error.message()));
  std::ofstream manifest(folder / absl::StrCat("layers_", number, ".json"));
  manifest << Json::MakeObject().Set("plugin", fs::absolute(plugin, error).string()).Text() << "\n";
  if (!manifest.flush()) return absl::UnavailableError(absl::StrCat("trace: ", folder.path(), ": cannot be written"));
  return copy.string();
}

// Converts a create option of `backplane run --option` to its form in a manifest.
std::string OptionText(const host::NamedValue& option) {
  const bool text = std::holds_alternative<std::string>(option.value);
  return absl::StrCat(option.name, "=", text ? "\"" : "", option.FormatValue(), text ? "\"" : "");
}

Json OptionJson(const host::NamedValue& option) {
  if (const auto* text = std::get_if<std::string>(&option.value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&option.value)) return *whole;
  if (const auto* flag = std::get_if<bool>(&option.value)) return *flag;
  if (const auto* real = std::get_if<float>(&option.value)) return static_cast<double>(*real);
  Json list = Json::MakeArray();
  for (int64_t element : std::get<std::vector<int64_t>>(option.value)) list.Push(element);
  return list;
}

// Returns what a host should open instead of `found`: the library `copy`, or a manifest with options for the client.
absl::StatusOr<std::string> MakeHostEntry(const host::FoundPlugin& found, const std::string& copy,
                                          const TemporaryFolder& folder, size_t number) {
  if (found.create_options.empty()) return copy;
  Json options = Json::MakeObject();
  for (const host::NamedValue& option : found.create_options) options.Set(option.name, OptionJson(option));
  const std::string path = (folder / absl::StrCat("host_", number, ".json")).string();
  std::ofstream manifest(path);
  manifest << Json::MakeObject().Set("library_path", copy).Set("create_options", std::move(options)).Text() << "\n";
  if (!manifest.flush()) return absl::UnavailableError(absl::StrCat("trace: ", folder.path(), ": cannot be written"));
  return path;
}

bool IsCommand(const std::string& word) {
  if (absl::StrContains(word, '/')) return access(word.c_str(), X_OK) == 0 && fs::is_regular_file(word);
  const char* path = getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    if (access(absl::StrCat(folder, "/", word).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Runs the command with these variables added to ours. Returns the status of waitpid. `aside`: its output goes to
// standard error, because standard output is ours.
// standard error, because standard output is ours.
absl::StatusOr<int> Run(const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& set, bool aside = false) {
  std::vector<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) {
    const absl::string_view name = absl::string_view(*v).substr(0, absl::string_view(*v).find('='));
    if (std::none_of(set.begin(), set.end(), [&](const auto& s) { return s.first == name; }))
      variables.emplace_back(*v);
  }
  for (const auto& [name, value] : set) variables.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> argv, envp;
  for (const std::string& s : command) argv.push_back(const_cast<char*>(s.c_str()));
  for (const std::string& s : variables) envp.push_back(const_cast<char*>(s.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t child;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (aside) posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  const int failed = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return absl::NotFoundError(absl::StrCat("trace: ", command[0], " cannot be run: ", strerror(failed)));
  }
  // The child reacts to the keyboard's signals; this process collects what it wrote.
  struct sigaction ignore = {}, interrupt, quit;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &interrupt);
  sigaction(SIGQUIT, &ignore, &quit);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGQUIT, &quit, nullptr);
  return status;
}

absl::Status Move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  error.clear();  // another file system
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  return error ? absl::UnavailableError(absl::StrCat("trace: ", to.string(), ": ", error.message())) : absl::OkStatus();
}

// The layer `record` writes to this path by default; %p is the process id.
constexpr char kSessionPattern[] = ".%p.bprec";

// Returns the sessions with the name of the trace.
std::vector<std::string> Sessions(const std::string& output) {
  std::vector<std::string> found;
  std::error_code error;
  const fs::path folder = fs::path(output).parent_path();
  const std::string base = absl::StrCat(fs::path(output).filename().string(), ".");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, base) && absl::EndsWith(name, ".bprec")) found.push_back((folder / name).string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::Status Trace(const TraceOptions& o, Terminal& terminal, int* exit_code) {
  if (o.command.empty()) return MakeUsageError("trace: nothing to run: name a program, or a command after --");
  BP_ASSIGN_OR_RETURN(const fs::path library, LayersLibrary());
  BP_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("trace"));
  const std::string layers =
      o.fault.empty() || absl::StrContains(o.layers, "fault") ? o.layers : absl::StrCat(o.layers, ",fault");
  std::vector<std::pair<std::string, std::string>> set = {
      {"BACKPLANE_LAYERS", layers},
      {"BACKPLANE_TRACE_FILE", (folder / "trace.%p.json").string()},
      {"BACKPLANE_TRACE_HTML", (folder / "trace.%p.html").string()}};
  if (!o.fault.empty()) set.emplace_back("BACKPLANE_FAULT", o.fault);
  const bool names_sessions = getenv("BACKPLANE_RECORD_FILE") == nullptr;
  if (names_sessions) set.emplace_back("BACKPLANE_RECORD_FILE", absl::StrCat(o.output, kSessionPattern));
  const std::vector<std::string> old_sessions = Sessions(o.output);

  std::vector<std::string> command = o.command;
  if (!IsCommand(command[0])) {
    std::error_code error;
    if (!fs::is_regular_file(command[0], error)) {
      return absl::NotFoundError(absl::StrCat("trace: ", command[0], " is neither a command nor a program"));
    }
    if (o.plugin.empty()) return MakeUsageError("trace: a program needs --plugin");
    BP_ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(o.plugin, o.plugin_options));
    BP_ASSIGN_OR_RETURN(const std::string copy, LibraryFor(library, found.library, folder, 0));
    BP_ASSIGN_OR_RETURN(const std::string self, ThisCommand());
    std::vector<std::string> run = {self, "run"};
    for (const host::NamedValue& option : found.create_options) run.insert(run.end(), {"--option", OptionText(option)});
    // In its own process, because the layers write their files when the process ends.
    run.insert(run.end(), {"--in-process", copy});
    run.insert(run.end(), command.begin(), command.end());
    command = run;
  } else {
    // The plugins that the host would find by the variable, each behind its own copy of the library.
    std::vector<std::string> entries;
    if (!o.plugin.empty()) {
      BP_ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(o.plugin, o.plugin_options));
      BP_ASSIGN_OR_RETURN(const std::string copy, LibraryFor(library, found.library, folder, 0));
      std::string name = found.name;
      if (found.source == "path") name = "traced";
      BP_ASSIGN_OR_RETURN(const std::string opened, MakeHostEntry(found, copy, folder, 0));
      entries.push_back(absl::StrCat(name, ":", opened));
      if (getenv("JAX_PLATFORMS") == nullptr) set.emplace_back("JAX_PLATFORMS", name);
    } else if (const char* named = getenv("PJRT_NAMES_AND_LIBRARY_PATHS"); named != nullptr) {
      for (absl::string_view entry : absl::StrSplit(named, ',', absl::SkipEmpty())) {
        const std::pair<std::string, std::string> parts = absl::StrSplit(entry, absl::MaxSplits(':', 1));
        host::FoundPlugin found;
        found.library = parts.second;
        if (absl::EndsWith(parts.second, ".json")) {
          BP_ASSIGN_OR_RETURN(found, host::ReadManifest(parts.second));
        }
        BP_ASSIGN_OR_RETURN(const std::string copy, LibraryFor(library, found.library, folder, entries.size()));
        BP_ASSIGN_OR_RETURN(const std::string opened, MakeHostEntry(found, copy, folder, entries.size()));
        entries.push_back(absl::StrCat(parts.first, ":", opened));
      }
    }
    if (entries.empty()) {
      return MakeUsageError("trace: no plugin: name one by --plugin, or in PJRT_NAMES_AND_LIBRARY_PATHS");
    }
    std::string all;
    for (const std::string& entry : entries) absl::StrAppend(&all, all.empty() ? "" : ",", entry);
    set.emplace_back("PJRT_NAMES_AND_LIBRARY_PATHS", all);
  }

  BP_ASSIGN_OR_RETURN(const int status, Run(command, set, terminal.json()));
  *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

  Json sessions = Json::MakeArray();
  for (const std::string& session : Sessions(o.output)) {
    if (!names_sessions || std::binary_search(old_sessions.begin(), old_sessions.end(), session)) continue;
    sessions.Push(session);
    if (!terminal.json()) terminal.Note(absl::StrCat("trace: ", session, " (for backplane replay)"));
  }
  // One pair of files for each process that opened a plugin.
  std::vector<std::string> processes;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path(), error)) {
    std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "trace.") && absl::EndsWith(name, ".json")) {
      processes.push_back(name.substr(6, name.size() - 11));
    }
  }
  std::sort(processes.begin(), processes.end());
  const bool traces = absl::StrContains(absl::StrCat(",", layers, ","), ",trace,");
  Json written = Json::MakeArray();
  for (const std::string& process : processes) {
    const std::string base = processes.size() == 1 ? o.output : absl::StrCat(o.output, ".", process);
    BP_RETURN_IF_ERROR(Move(folder / absl::StrCat("trace.", process, ".json"), base + ".json"));
    BP_RETURN_IF_ERROR(Move(folder / absl::StrCat("trace.", process, ".html"), base + ".html"));
    written.Push(Json::MakeObject().Set("process", process).Set("json", base + ".json").Set("html", base + ".html"));
    if (!terminal.json()) {
      terminal.Note(absl::StrCat("trace: ", base, ".html (open in a browser), ", base, ".json (for ui.perfetto.dev)"));
    }
    if (o.open) {
      BP_ASSIGN_OR_RETURN(const int opened, Run({"xdg-open", fs::absolute(base + ".html", error).string()}, {}));
      if (opened != 0) terminal.Note("trace: xdg-open could not open the page");
    }
  }
  if (terminal.json()) {
    terminal.PrintJson(Json::MakeObject()
                           .Set("exit_code", *exit_code)
                           .Set("traces", std::move(written))
                           .Set("sessions", std::move(sessions)));
  }
  if (!traces || !processes.empty()) return absl::OkStatus();
  return FromPlugin(absl::NotFoundError(
      WIFSIGNALED(status)
          ? absl::StrCat("trace: nothing was written: ", command[0], " was ended by signal ", WTERMSIG(status))
          : absl::StrCat("trace: nothing was written: ", command[0], " opened no plugin, or ended by _exit")));
}

}  // namespace

Command TraceCommand() {
  auto o = std::make_shared<TraceOptions>();
  Command command{"trace", "runs a host or a program and shows every call to its plugin"};
  command.options.push_back(
      {"--plugin,-p", &o->plugin, "the plugin; default: those of PJRT_NAMES_AND_LIBRARY_PATHS", "PLUGIN"});
  command.options.push_back({"--output,-O", &o->output, "the files: this with .json and .html", "BASE"});
  command.options.push_back(
      {"--layers", &o->layers, "layers, outermost first: trace, validate, fault, record", "NAMES"});
  command.options.push_back({"--fault", &o->fault, "rules of the fault layer, which is added", "SPEC"});
  command.options.push_back({"--open", &o->open, "opens the page in a browser"});
  o->plugin_options.AddTo(&command, false);
  Option rest{"command", &o->command, "a program's file, or -- and a command with its arguments",
              "PROGRAM | -- COMMAND"};
  rest.file = true;
  command.options.push_back(rest);
  command.details =
      "  backplane trace add.mlir --plugin cpu\n"
      "  backplane trace --plugin cpu -- python train.py\n"
      "  backplane trace --layers trace,validate --output run1 -- python train.py\n"
      "A file that is no executable is a program, compiled and run as by `backplane run`. A command gets the layers "
      "by\n"
      "PJRT_NAMES_AND_LIBRARY_PATHS, as JAX reads it. The exit code is that of what was run.";
  command.state = o;
  command.run = [o](Terminal& terminal, int* exit_code) { return Trace(*o, terminal, exit_code); };
  return command;
}

}  // namespace backplane::cli
