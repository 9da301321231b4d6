// Generates manual pages from the commands' options: backplane.1, and backplane-NAME.1 for each subcommand.
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/types/status_macros.h"
#include "sdk/cli/command.h"

namespace backplane::cli {
namespace {

// Returns text as roff requires: no line begins with a dot or a quote, and hyphens stay hyphens.
std::string Quoted(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (absl::StartsWith(out, ".") || absl::StartsWith(out, "'")) out = absl::StrCat("\\&", out);
  return out;
}

std::string QuotedLines(absl::string_view text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(Quoted(line));
  return absl::StrJoin(lines, "\n");
}

std::string Heading(const std::string& name) {
  return absl::StrCat(".TH \"", Quoted(absl::StrReplaceAll(name, {{" ", "-"}})),
                      "\" 1 \"\" \"Backplane\" \"Backplane\"\n");
}

bool IsMany(const Option& option) { return std::holds_alternative<std::vector<std::string>*>(option.target); }

std::string ValueOf(const Option& option) {
  if (std::holds_alternative<bool*>(option.target)) return "";
  return option.value.empty() ? "VALUE" : option.value;
}

std::string Synopsis(const Command& command) {
  std::string text = absl::StrCat(".B backplane ", Quoted(command.name), "\n");
  for (const Option& option : command.options) {
    if (!option.by_position()) continue;
    const std::string name = absl::StrCat("\\fI", Quoted(option.value.empty() ? option.name : option.value), "\\fR",
                                          IsMany(option) ? " ..." : "");
    absl::StrAppend(&text, option.required ? name : absl::StrCat("[", name, "]"), "\n");
  }
  return text + "[\\fIOPTIONS\\fR]\n";
}

std::string OptionEntry(const Option& option) {
  std::vector<std::string> names;
  for (absl::string_view name : absl::StrSplit(option.name, ',')) {
    names.push_back(absl::StrCat(option.by_position() ? "\\fI" : "\\fB",
                                 Quoted(option.by_position() && !option.value.empty() ? option.value : name), "\\fR"));
  }
  std::string text = absl::StrCat(".TP\n", absl::StrJoin(names, ", "));
  if (!option.by_position() && !ValueOf(option).empty())
    absl::StrAppend(&text, " \\fI", Quoted(ValueOf(option)), "\\fR");
  absl::StrAppend(&text, "\n", Quoted(option.help));
  if (!option.choices.empty()) absl::StrAppend(&text, " (", Quoted(absl::StrJoin(option.choices, ", ")), ")");
  if (IsMany(option) && !option.by_position()) absl::StrAppend(&text, "; may be repeated");
  return text + "\n";
}

constexpr char kCommon[] =
    ".TP\n\\fB\\-\\-json\\fR\nresults and errors as one JSON value on standard output\n"
    ".TP\n\\fB\\-\\-color\\fR \\fIWHEN\\fR\nauto, always or never\n"
    ".TP\n\\fB\\-\\-help\\fR\nprint a short help\n";

std::string Page(const Command& command) {
  std::string text = Heading(absl::StrCat("backplane ", command.name));
  absl::StrAppend(&text, ".SH NAME\nbackplane\\-", Quoted(command.name), " \\- ", Quoted(command.summary),
                  "\n.SH SYNOPSIS\n", Synopsis(command), ".SH OPTIONS\n");
  for (const bool by_position : {true, false}) {
    for (const Option& option : command.options) {
      if (option.by_position() == by_position) absl::StrAppend(&text, OptionEntry(option));
    }
  }
  absl::StrAppend(&text, kCommon);
  if (!command.details.empty()) {
    absl::StrAppend(&text, ".SH NOTES\n.nf\n", QuotedLines(command.details), "\n.fi\n");
  }
  return absl::StrCat(text, ".SH SEE ALSO\n.BR backplane (1)\n");
}

std::string Overview(const std::vector<Command>& commands, absl::string_view summary, absl::string_view footer) {
  std::string text = Heading("backplane");
  absl::StrAppend(&text, ".SH NAME\nbackplane \\- ", Quoted(summary),
                  "\n.SH SYNOPSIS\n.B backplane\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH COMMANDS\n");
  std::vector<std::string> others;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    absl::StrAppend(&text, ".TP\n\\fB", Quoted(command.name), "\\fR\n", Quoted(command.summary), "\n");
    others.push_back(absl::StrCat(".BR backplane\\-", Quoted(command.name), " (1)"));
  }
  absl::StrAppend(&text, ".TP\n\\fBcompletion\\fR \\fISHELL\\fR\n",
                  "prints a completion script for bash, zsh or fish\n.SH OPTIONS\n", kCommon);
  absl::StrAppend(&text, ".SH NOTES\n.nf\n", QuotedLines(footer), "\n.fi\n");
  return absl::StrCat(text, ".SH SEE ALSO\n", absl::StrJoin(others, ",\n"), "\n");
}

absl::Status Write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.flush();
  return out.good() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
}

}  // namespace

absl::Status WriteManual(const std::vector<Command>& commands, absl::string_view summary, absl::string_view footer,
                         const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(folder, ": ", error.message()));
  RETURN_IF_ERROR(Write(absl::StrCat(folder, "/backplane.1"), Overview(commands, summary, footer)));
  for (const Command& command : commands) {
    if (command.hidden) continue;
    RETURN_IF_ERROR(Write(absl::StrCat(folder, "/backplane-", command.name, ".1"), Page(command)));
  }
  return absl::OkStatus();
}

}  // namespace backplane::cli
