// The command line parser, based on CLI11. Only this file includes it.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "sdk/cli/command.h"

namespace backplane::cli {
namespace {

constexpr char kFooter[] =
    "A plugin is a path, a manifest (.json), or a name: of PJRT_NAMES_AND_LIBRARY_PATHS, of a manifest in\n"
    "BACKPLANE_PLUGIN_PATH or the XDG folders, or of a wheel in the Python environment VIRTUAL_ENV.\n"
    "\n"
    "Exit codes: 0 done; 1 the answer is no (results differ, the plugin cannot be used); 2 the command line makes\n"
    "no sense; 3 a file or program is missing or wrong; 4 the plugin refused, lacks something, failed or crashed.\n"
    "With --json, results and errors are one JSON value on standard output.";

// Returns "" if the text is a number within the option's bounds, or not a number, which the parser reports itself.
std::string OutOfBounds(const Option& option, const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) return "";
  if (value >= option.least && value <= option.most) return "";
  if (std::isinf(option.most)) return absl::StrFormat("'%s': expected a number of at least %g", text, option.least);
  return absl::StrFormat("'%s': expected a number from %g to %g", text, option.least, option.most);
}

void AddOption(const Option& option, CLI::App* app) {
  CLI::Option* added = std::visit(
      [&](auto* target) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(target), bool*>) {
          return app->add_flag(option.name, *target, option.help);
        } else {
          return app->add_option(option.name, *target, option.help);
        }
      },
      option.target);
  if (option.required) added->required();
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  if (!option.value.empty()) added->type_name(option.value);
  if (!std::isinf(option.least) || !std::isinf(option.most)) {
    added->check([option](const std::string& text) { return OutOfBounds(option, text); });
  }
  // Each use takes one value, so that the following word is a positional argument.
  if (std::holds_alternative<std::vector<std::string>*>(option.target) && option.name[0] == '-') {
    added->expected(1)->take_all();
    added->allow_extra_args(false);
  }
}

host::Json ErrorJson(const absl::Status& status) {
  host::Json error = host::Json::MakeObject();
  error.Set("code", absl::StatusCodeToString(status.code())).Set("message", absl::string_view(status.message()));
  return host::Json::MakeObject().Set("error", std::move(error));
}

// Checks that the output has been written, so that a full disk is an error.
absl::Status Flushed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  const int error = errno;
  std::clearerr(stdout);
  return absl::InvalidArgumentError(absl::StrCat("standard output: cannot be written: ", strerror(error)));
}

// Prints an error and returns the exit code.
int Fail(const absl::Status& error, bool json, Terminal& terminal) {
  if (json) terminal.PrintJson(ErrorJson(error));
  terminal.Error(absl::string_view(error.message()));
  return ToExitCode(error);
}

// Returns the words that are neither options nor arguments, in the order of the command line; the parser returns them
// in reverse order.
std::string NotExpected(std::vector<std::string> left, int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const auto it = std::find(left.begin(), left.end(), argv[i]);
    if (it == left.end()) continue;
    words.push_back(*it);
    left.erase(it);
  }
  return absl::StrCat(absl::StrJoin(words, " "), words.size() == 1 ? " is" : " are", " not expected");
}

}  // namespace

int RunCommandLine(std::vector<Command> commands, int argc, char** argv) {
  Terminal terminal(stdout, stderr);
  CLI::App app("Runs, inspects, compares and measures programs on any PJRT plugin.", "backplane");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", "backplane 0.1.0");
  std::string color = "auto", shell, manual_folder;
  bool json = false;
  int exit_code = kOk;
  absl::Status outcome;

  // May be given before or after the subcommand. A subcommand's own option of the same name takes precedence.
  auto add_common = [&](CLI::App* to) {
    if (to->get_option_no_throw("--json") == nullptr) to->add_flag("--json", json, "results and errors as JSON");
    if (to->get_option_no_throw("--color") != nullptr) return;
    to->add_option("--color", color, "auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN");
  };
  add_common(&app);
  auto begin = [&] {
    terminal.set_color(color);
    terminal.set_json(json);
  };
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    if (command.hidden) sub->group("");
    sub->footer(command.details);
    for (const Option& option : command.options) AddOption(option, sub);
    add_common(sub);
    sub->callback([&, run = command.run, limits = command.limits] {
      begin();
      const auto work = [&] {
        outcome = run(terminal, &exit_code);
        if (!outcome.ok()) exit_code = Fail(outcome, json, terminal);
        if (absl::Status flushed = Flushed(); outcome.ok() && !flushed.ok()) exit_code = Fail(flushed, false, terminal);
        return exit_code;
      };
      if (limits == nullptr) {
        work();
      } else if (outcome = Supervise(*limits, work, &exit_code); !outcome.ok()) {
        terminal.ClearProgress();
        exit_code = Fail(outcome, json, terminal);
      }
    });
  }
  CLI::App* completion = app.add_subcommand("completion", "prints a completion script for a shell");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer("  source <(backplane completion bash)");
  completion->callback([&] {
    begin();
    outcome = PrintCompletion(commands, shell, terminal);
    if (!outcome.ok()) exit_code = Fail(outcome, json, terminal);
  });
  // Hidden, because only packagers need it; users have `man backplane`.
  CLI::App* manual = app.add_subcommand("manual", "writes the manual pages into a folder");
  manual->group("");
  manual->add_option("folder", manual_folder, "the folder")->required();
  manual->callback([&] {
    begin();
    outcome = WriteManual(commands, app.get_description(), kFooter, manual_folder);
    if (!outcome.ok()) exit_code = Fail(outcome, json, terminal);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version also arrive here, with status 0.
    if (error.get_exit_code() == 0) return app.exit(error), static_cast<int>(kOk);
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "" : chosen[0]->get_name();
    // The parser may have stopped before it reached these options.
    for (int i = 1; i < argc && absl::string_view(argv[i]) != "--" && command != "conform"; ++i)
      json |= absl::string_view(argv[i]) == "--json";
    begin();
    std::string words = absl::StrJoin(absl::StrSplit(error.what(), '\n', absl::SkipWhitespace()), "; ");
    if (!chosen.empty() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
      words = NotExpected(chosen[0]->remaining(), argc, argv);
    for (int i = 1; i < argc && command.empty() && words.find("ubcommand") != std::string::npos; ++i) {
      const bool value = absl::string_view(argv[i - 1]) == "--color";
      if (argv[i][0] != '-' && !value) words = absl::StrCat("no subcommand '", argv[i], "'");
    }
    if (!words.empty()) words[0] = absl::ascii_tolower(static_cast<unsigned char>(words[0]));
    return Fail(MakeUsageError(absl::StrCat(command, command.empty() ? "" : ": ", words, "; `backplane ", command,
                                            command.empty() ? "" : " ", "--help` tells more")),
                json, terminal);
  }
  return exit_code;
}

}  // namespace backplane::cli
