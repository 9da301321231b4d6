// Generates completion scripts for shells from the commands' options.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "sdk/cli/command.h"

namespace backplane::cli {
namespace {

std::vector<std::string> Names(const Option& option) { return absl::StrSplit(option.name, ','); }

// Returns the words of a subcommand: its options, the common options, and the values of options with few values.
std::string Words(const Command& command) {
  std::vector<std::string> words;
  for (const Option& option : command.options) {
    if (option.by_position()) continue;
    for (const std::string& name : Names(option)) words.push_back(name);
  }
  for (const char* common : {"--json", "--color", "--help"}) words.push_back(common);
  return absl::StrJoin(words, " ");
}

std::vector<std::string> VisibleNames(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.hidden) names.push_back(command.name);
  }
  names.push_back("completion");
  return names;
}

std::string Bash(const std::vector<Command>& commands) {
  std::string text =
      "# bash completion for backplane\n_backplane() {\n  local cur=${COMP_WORDS[COMP_CWORD]} "
      "prev=${COMP_WORDS[COMP_CWORD-1]} sub= w\n";
  absl::StrAppend(
      &text, "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case $w in -*) ;; *) sub=$w; break;; esac; done\n");
  absl::StrAppend(&text,
                  "  COMPREPLY=()\n  case $prev in --color) COMPREPLY=($(compgen -W 'auto always never' -- \"$cur\")); "
                  "return;; esac\n");
  absl::StrAppend(&text, "  case $sub in\n");
  absl::StrAppend(&text, "    '') COMPREPLY=($(compgen -W '", absl::StrJoin(VisibleNames(commands), " "),
                  " --help --version --json --color' -- \"$cur\")); return;;\n");
  for (const Command& command : commands) {
    absl::StrAppend(&text, "    ", command.name, ")\n      case $prev in\n");
    for (const Option& option : command.options) {
      if (option.by_position() || option.choices.empty()) continue;
      absl::StrAppend(&text, "        ", absl::StrJoin(Names(option), "|"), ") COMPREPLY=($(compgen -W '",
                      absl::StrJoin(option.choices, " "), "' -- \"$cur\")); return;;\n");
    }
    absl::StrAppend(&text, "      esac\n      [[ $cur == -* ]] && COMPREPLY=($(compgen -W '", Words(command),
                    "' -- \"$cur\")) && return;;\n");
  }
  absl::StrAppend(&text, "    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\")); return;;\n  esac\n");
  absl::StrAppend(&text, "  COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _backplane backplane\n");
  return text;
}

std::string ZshQuoted(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string Zsh(const std::vector<Command>& commands) {
  std::string text = "#compdef backplane\n_backplane() {\n  local -a subs\n  subs=(\n";
  for (const Command& command : commands) {
    if (!command.hidden) absl::StrAppend(&text, "    '", command.name, ":", ZshQuoted(command.summary), "'\n");
  }
  absl::StrAppend(&text, "    'completion:prints a completion script for a shell'\n  )\n");
  absl::StrAppend(&text, "  if (( CURRENT == 2 )); then _describe command subs; return; fi\n  case $words[2] in\n");
  for (const Command& command : commands) {
    absl::StrAppend(&text, "    ", command.name, ") _arguments -s");
    for (const Option& option : command.options) {
      if (option.by_position()) continue;
      const bool flag = std::holds_alternative<bool*>(option.target);
      const std::string value =
          flag ? ""
               : absl::StrCat(
                     ":", option.value.empty() ? "value" : option.value, ":",
                     option.choices.empty() ? "_files" : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")"));
      for (const std::string& name : Names(option)) {
        absl::StrAppend(&text, " \\\n      '*", name, "[", ZshQuoted(option.help), "]", value, "'");
      }
    }
    absl::StrAppend(&text,
                    " \\\n      '--json[results and errors as JSON]' '--color[colour]:when:(auto always never)' "
                    "'*:file:_files' ;;\n");
  }
  absl::StrAppend(&text, "    completion) _values shell bash zsh fish ;;\n  esac\n}\ncompdef _backplane backplane\n");
  return text;
}

std::string Fish(const std::vector<Command>& commands) {
  auto quoted = [](absl::string_view s) {
    return absl::StrCat("'", absl::StrReplaceAll(s, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
  };
  std::string text = "# fish completion for backplane\n";
  for (const Command& command : commands) {
    if (command.hidden) continue;
    absl::StrAppend(&text, "complete -c backplane -n __fish_use_subcommand -f -a ", command.name, " -d ",
                    quoted(command.summary), "\n");
    for (const Option& option : command.options) {
      if (option.by_position()) continue;
      std::string line = absl::StrCat("complete -c backplane -n '__fish_seen_subcommand_from ", command.name, "'");
      for (const std::string& name : Names(option)) {
        absl::StrAppend(&line, name[1] == '-' ? " -l " : " -s ", name.substr(name[1] == '-' ? 2 : 1));
      }
      if (!std::holds_alternative<bool*>(option.target)) absl::StrAppend(&line, " -r");
      if (!option.choices.empty()) absl::StrAppend(&line, " -f -a ", quoted(absl::StrJoin(option.choices, " ")));
      absl::StrAppend(&text, line, " -d ", quoted(option.help), "\n");
    }
  }
  absl::StrAppend(
      &text,
      "complete -c backplane -n __fish_use_subcommand -f -a completion -d 'prints a completion script for a shell'\n",
      "complete -c backplane -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n",
      "complete -c backplane -l json -d 'results and errors as JSON'\n",
      "complete -c backplane -l color -r -f -a 'auto always never' -d colour\n");
  return text;
}

}  // namespace

absl::Status PrintCompletion(const std::vector<Command>& commands, const std::string& shell, Terminal& terminal) {
  if (shell == "bash") return terminal.Print(Bash(commands)), absl::OkStatus();
  if (shell == "zsh") return terminal.Print(Zsh(commands)), absl::OkStatus();
  if (shell == "fish") return terminal.Print(Fish(commands)), absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("completion: shell '", shell, "' is not known, expected bash, zsh or fish"));
}

}  // namespace backplane::cli
