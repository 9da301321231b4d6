// backplane new-plugin: creates a project outside of this tree that builds, works with JAX and is conformant.
#include "sdk/cli/new_plugin.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/types/status_macros.h"
#include "sdk/cli/command.h"
#include "sdk/cli/command_files.h"

namespace backplane::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kVersion[] = "0.1.0";

// Words of Python and C++ that cannot be names of modules or variables, and platforms that hosts already know.
constexpr absl::string_view kTaken[] = {
    "and",     "as",       "assert", "auto",    "async",    "await",     "backplane", "bool",   "break",
    "case",    "catch",    "char",   "class",   "const",    "continue",  "cpu",       "cuda",   "def",
    "default", "del",      "delete", "do",      "double",   "elif",      "else",      "enum",   "except",
    "export",  "extern",   "false",  "final",   "finally",  "float",     "for",       "friend", "from",
    "global",  "goto",     "gpu",    "host",    "if",       "import",    "in",        "inline", "int",
    "is",      "jax",      "lambda", "long",    "match",    "namespace", "new",       "none",   "nonlocal",
    "not",     "or",       "pass",   "private", "public",   "raise",     "register",  "return", "rocm",
    "short",   "signed",   "sizeof", "static",  "struct",   "switch",    "template",  "test",   "this",
    "throw",   "tpu",      "true",   "try",     "typename", "union",     "unsigned",  "using",  "virtual",
    "void",    "volatile", "while",  "with",    "xla",      "yield"};

std::string Capitalize(const std::string& name) {
  std::string out;
  for (absl::string_view word : absl::StrSplit(name, '_', absl::SkipEmpty())) {
    std::string part(word);
    part[0] = absl::ascii_toupper(static_cast<unsigned char>(part[0]));
    out += part;
  }
  return out;
}

absl::Status Failed(const fs::path& path, const std::error_code& error) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", error.message()));
}

// Returns every file under `root`, relative to it, sorted.
absl::StatusOr<std::vector<std::string>> FilesUnder(const fs::path& root) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error), end;
  while (!error && at != end) {
    if (at->path().filename() == "__pycache__") {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(error) && !error) {
      files.push_back(at->path().lexically_relative(root).string());
    }
    if (!error) at.increment(error);
  }
  if (error) return Failed(root, error);
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::string> ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.good() && !in.eof()) return absl::InvalidArgumentError(absl::StrCat(path.string(), ": cannot be read"));
  return text;
}

absl::Status WriteAll(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return Failed(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.flush();
  return out.good() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(path.string(), ": cannot be written"));
}

struct NewPluginOptions {
  std::string name, folder;
};

}  // namespace

absl::Status CheckPluginName(const std::string& name) {
  constexpr size_t kLongest = 40;
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("new-plugin: name '", name, "': ", why));
  };
  if (name.empty() || name.size() > kLongest) return refuse(absl::StrCat("must have 1 to ", kLongest, " characters"));
  if (!absl::ascii_islower(static_cast<unsigned char>(name[0]))) return refuse("must begin with a letter from a to z");
  for (char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (!absl::ascii_islower(u) && !absl::ascii_isdigit(u) && c != '_') {
      return refuse("may have letters from a to z, digits and underscores only");
    }
  }
  if (absl::StrContains(name, "__") || name.back() == '_') return refuse("underscores stand between words");
  if (std::find(std::begin(kTaken), std::end(kTaken), absl::string_view(name)) != std::end(kTaken)) {
    return refuse("is a word of Python or C++, or a platform that hosts know already");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MakeProject(const std::string& templates, const std::string& folder,
                                                     const std::string& name) {
  RETURN_IF_ERROR(CheckPluginName(name));
  const std::vector<std::pair<std::string, std::string>> words = {
      {"@name@", name}, {"@Name@", Capitalize(name)}, {"@NAME@", absl::AsciiStrToUpper(name)}, {"@version@", kVersion}};
  std::error_code error;
  const bool was_there = fs::exists(folder, error);
  if (was_there && !fs::is_directory(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat(folder, ": is a file, expected a folder or nothing"));
  }
  if (was_there && !fs::is_empty(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat(folder, ": has files in it, expected an empty folder or nothing"));
  }
  if (error) return Failed(folder, error);
  ASSIGN_OR_RETURN(std::vector<std::string> sources, FilesUnder(templates));
  if (sources.empty()) return absl::NotFoundError(absl::StrCat(templates, ": has no files"));
  std::vector<std::string> made;
  absl::Status status;
  for (const std::string& source : sources) {
    absl::StatusOr<std::string> text = ReadAll(fs::path(templates) / source);
    const std::string target = absl::StrReplaceAll(source, words);
    status = text.ok() ? WriteAll(fs::path(folder) / target, absl::StrReplaceAll(*text, words)) : text.status();
    if (!status.ok()) break;
    made.push_back(target);
  }
  if (!status.ok()) {
    // The folder was empty before, so everything in it is ours.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) fs::remove_all(entry.path(), error);
    if (!was_there) fs::remove(folder, error);
    return status;
  }
  std::sort(made.begin(), made.end());
  return made;
}

Command NewPluginCommand() {
  auto o = std::make_shared<NewPluginOptions>();
  Command command{"new-plugin", "creates a project for a plugin that builds, works with JAX and is conformant"};
  command.options.push_back(
      {"name", &o->name, "what the plugin, its Python module and its platform are called: my_chip", "NAME", true});
  command.options.push_back(
      {"--dir,-d", &o->folder, "the folder; default: the name, in the current folder", "DIR", false, {}, true});
  command.details =
      "Every operation is evaluated by its definition until you bring a kernel for it. The project has a CMake build\n"
      "against the installed Backplane, tests, a wheel that JAX discovers, and a CI file.\n"
      "  backplane new-plugin my_chip && cd my_chip && cmake -B build && cmake --build build && ctest --test-dir build";
  command.state = o;
  command.run = [o](Terminal& terminal, int*) -> absl::Status {
    const std::string folder = o->folder.empty() ? o->name : o->folder;
    if (absl::Status status = CheckPluginName(o->name); !status.ok()) {
      return MakeUsageError(absl::string_view(status.message()));
    }
    ASSIGN_OR_RETURN(std::string templates, FindCommandData("templates"));
    ASSIGN_OR_RETURN(std::vector<std::string> files, MakeProject(absl::StrCat(templates, "/plugin"), folder, o->name));
    if (terminal.json()) {
      host::Json list = host::Json::MakeArray();
      for (const std::string& file : files) list.Push(file);
      terminal.PrintJson(
          host::Json::MakeObject().Set("name", o->name).Set("folder", folder).Set("files", std::move(list)));
      return absl::OkStatus();
    }
    for (const std::string& file : files) terminal.Print(absl::StrCat(folder, "/", file, "\n"));
    terminal.Note(
        absl::StrCat("next: cd ", folder, " && cmake -B build && cmake --build build && ctest --test-dir build"));
    return absl::OkStatus();
  };
  return command;
}

}  // namespace backplane::cli
