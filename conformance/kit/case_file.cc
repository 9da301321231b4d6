#include "conformance/kit/case_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "conformance/kit/case_template.h"

namespace backplane::conformance {
namespace {

constexpr size_t kMaxExpansions = 4096;
constexpr int kMaxCaseDevices = 64;
constexpr uintmax_t kMaxFileBytes = uintmax_t{16} << 20;

// One line, or lines that belong together: a literal over several lines, or the lines of a program.
struct Statement {
  int line = 0;
  std::string key, text;
};

// A case as written, before variables are substituted.
struct Draft {
  int line = 0;
  std::string name;
  std::vector<Statement> statements;
  std::vector<std::pair<std::string, std::vector<std::string>>> each;
  Scope scope;  // the `let` texts of the file before it, and its own
};

int OpenBraces(absl::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '{') - std::count(text.begin(), text.end(), '}'));
}

bool IsName(absl::string_view s) {
  return !s.empty() && !absl::ascii_isdigit(s[0]) &&
         std::all_of(s.begin(), s.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

class FileParser {
 public:
  FileParser(absl::string_view text, absl::string_view file) : lines_(absl::StrSplit(text, '\n')), file_(file) {
    stem_ = std::string(file.substr(file.rfind('/') + 1));
    absl::string_view stem = stem_;
    absl::ConsumeSuffix(&stem, ".case");
    stem_ = std::string(stem);
  }

  absl::StatusOr<std::vector<Case>> Parse() {
    if (absl::Status s = ReadDrafts(); !s.ok()) return s;
    std::vector<Case> cases;
    for (const Draft& draft : drafts_) {
      if (absl::Status s = Expand(draft, &cases); !s.ok()) return s;
    }
    return cases;
  }

  absl::StatusOr<std::vector<TypedCase>> ParseForEveryType() {
    if (absl::Status s = ReadDrafts(); !s.ok()) return s;
    shapes_only_ = true;
    std::vector<TypedCase> typed;
    for (Draft& draft : drafts_) {
      const auto is = [&](absl::string_view key) { return [key](const Statement& s) { return s.key == key; }; };
      if (std::any_of(draft.statements.begin(), draft.statements.end(), is("fails"))) continue;
      std::set<std::string> declared;
      for (auto& [name, values] : draft.each) {
        const bool types = std::all_of(values.begin(), values.end(),
                                       [](const std::string& v) { return ElementTypeFromName(v).has_value(); });
        if (name != "T" || !types) {
          values.resize(1);  // one value of each other variable is enough
          continue;
        }
        declared.insert(values.begin(), values.end());
        values.clear();
        for (const ElementInfo& t : AllElementTypes()) values.emplace_back(t.name);
      }
      // Expands one type at a time, because a case may be invalid for one type and valid for the next.
      Draft one = draft;
      const auto add = [&](bool is_declared) {
        std::vector<Case> cases;
        if (!Expand(one, &cases).ok()) return;
        for (Case& c : cases) typed.push_back({std::move(c), absl::StrCat(stem_, "/", draft.name), is_declared});
      };
      if (declared.empty()) add(true);
      for (size_t k = 0; k < draft.each.size(); ++k) {
        if (draft.each[k].first != "T" || declared.empty()) continue;
        for (const std::string& t : draft.each[k].second) {
          one.each[k].second = {t};
          add(declared.count(t) > 0);
        }
      }
    }
    return typed;
  }

 private:
  absl::Status Error(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", line, ": ", what));
  }

  // ---- Parses lines to drafts

  absl::Status ReadDrafts() {
    std::set<std::string, std::less<>> names;
    for (next_ = 0; next_ < lines_.size();) {
      const int line = static_cast<int>(next_) + 1;
      const absl::string_view text = absl::StripAsciiWhitespace(lines_[next_++]);
      if (text.empty() || text[0] == '#') continue;
      const size_t space = std::min(text.find_first_of(" \t"), text.size());
      const std::string key(text.substr(0, space));
      std::string rest(absl::StripAsciiWhitespace(text.substr(space)));
      if (key == "case") {
        if (!IsName(rest))
          return Error(line, absl::StrCat("'", rest, "' is no name of a case: letters, digits and '_'"));
        if (!names.insert(rest).second) return Error(line, absl::StrCat("a second case '", rest, "'"));
        drafts_.push_back({line, rest, {}, {}, file_scope_});
        continue;
      }
      if (key == "let") {
        if (absl::Status s = ReadLet(line, rest); !s.ok()) return s;
        continue;
      }
      if (drafts_.empty()) return Error(line, absl::StrCat("'", key, "' before the first case"));
      if (key == "each") {
        std::vector<std::string> words = absl::StrSplit(rest, absl::ByAnyChar(" \t"), absl::SkipEmpty());
        if (words.size() < 2 || !IsName(words[0])) return Error(line, "expected 'each NAME VALUE...'");
        for (const auto& other : drafts_.back().each) {
          if (other.first == words[0]) return Error(line, absl::StrCat("a second 'each ", words[0], "'"));
        }
        drafts_.back().each.emplace_back(words[0], std::vector<std::string>(words.begin() + 1, words.end()));
        continue;
      }
      if (key == "program") {
        if (rest != "" && rest != "hlo") return Error(line, "expected 'program' or 'program hlo'");
        std::string body;
        if (absl::Status s = ReadBlock(line, &body); !s.ok()) return s;
        drafts_.back().statements.push_back({line, rest.empty() ? "program" : "program hlo", std::move(body)});
        continue;
      }
      // A list of values may continue over several lines, and so does any line that ends in a backslash.
      const bool literal = absl::StartsWith(key, "input") || absl::StartsWith(key, "output");
      while ((literal && OpenBraces(rest) > 0) || absl::EndsWith(rest, "\\")) {
        if (next_ >= lines_.size()) return Error(line, "the file ends in the middle of this statement");
        if (absl::EndsWith(rest, "\\")) rest.pop_back();
        const absl::string_view more = absl::StripAsciiWhitespace(lines_[next_++]);
        if (more.empty() || more[0] != '#') absl::StrAppend(&rest, " ", more);
      }
      drafts_.back().statements.push_back({line, key, rest});
    }
    return absl::OkStatus();
  }

  // Returns the lines up to `end`.
  absl::Status ReadBlock(int line, std::string* body) {
    for (; next_ < lines_.size(); absl::StrAppend(body, lines_[next_++], "\n")) {
      if (absl::StripAsciiWhitespace(lines_[next_]) != "end") continue;
      ++next_;
      return absl::OkStatus();
    }
    return Error(line, "'end' is missing");
  }

  // `let NAME = text`, or `let NAME` and the lines up to `end`. Before the first case it applies to the whole file.
  absl::Status ReadLet(int line, absl::string_view rest) {
    const size_t space = std::min(rest.find_first_of(" \t="), rest.size());
    const std::string name(rest.substr(0, space));
    absl::string_view value = absl::StripLeadingAsciiWhitespace(rest.substr(space));
    if (!IsName(name)) return Error(line, absl::StrCat("'", name, "' is no name"));
    std::string text;
    if (absl::ConsumePrefix(&value, "=")) {
      text = std::string(absl::StripAsciiWhitespace(value));
    } else if (!value.empty()) {
      return Error(line, "expected 'let NAME = TEXT', or 'let NAME' and a block up to 'end'");
    } else if (absl::Status s = ReadBlock(line, &text); !s.ok()) {
      return s;
    }
    auto& texts = drafts_.empty() ? file_scope_.texts : drafts_.back().scope.texts;
    if (!texts.emplace(name, text).second) return Error(line, absl::StrCat("a second 'let ", name, "'"));
    return absl::OkStatus();
  }

  // ---- Expands drafts to cases

  absl::Status Expand(const Draft& draft, std::vector<Case>* cases) const {
    size_t count = 1;
    for (const auto& [name, values] : draft.each) {
      if (draft.scope.texts.count(name)) return Error(draft.line, absl::StrCat("$", name, " is both 'each' and 'let'"));
      if ((count *= values.size()) > kMaxExpansions)
        return Error(draft.line, absl::StrCat("more than ", kMaxExpansions, " cases in one"));
    }
    for (size_t i = 0; i < count; ++i) {
      Case c;
      Scope scope = draft.scope;
      size_t rest = i, block = count;
      std::vector<std::string> labels;
      for (const auto& [name, values] : draft.each) {
        block /= values.size();
        const std::string& value = values[rest / block];
        rest %= block;
        scope.variables[name] = value;
        c.bindings.emplace_back(name, value);
        labels.push_back(absl::StrCat(name, "=", value));
      }
      c.name = absl::StrCat(stem_, "/", draft.name,
                            labels.empty() ? "" : absl::StrCat("[", absl::StrJoin(labels, ","), "]"));
      c.file = file_;
      c.line = draft.line;
      if (absl::Status s = Fill(draft, scope, &c); !s.ok()) return s;
      cases->push_back(std::move(c));
    }
    return absl::OkStatus();
  }

  absl::Status Fill(const Draft& draft, const Scope& scope, Case* c) const {
    // Reads first what determines how to read the rest, wherever it is.
    bool programs = false;
    for (const Statement& s : draft.statements) {
      absl::Status status;
      if (s.key == "devices")
        status = ReadDevices(s.text, c);
      else if (s.key == "fails")
        status = ReadFailure(s.text, c);
      if (!status.ok()) return Error(s.line, status.message());
    }
    c->inputs.resize(c->devices());
    c->outputs.resize(c->devices());
    std::string apply;
    for (const Statement& s : draft.statements) {
      const bool is_program = s.key == "program";
      absl::StatusOr<std::string> text = Substitute(s.text, scope, /*mlir=*/is_program || s.key == "apply");
      if (!text.ok()) return Error(s.line, text.status().message());
      const bool literal = absl::StartsWith(s.key, "input") || absl::StartsWith(s.key, "output");
      if (shapes_only_ && literal) text->resize(std::min(text->find(']') + 1, text->size()));
      if (is_program || s.key == "program hlo" || s.key == "apply") {
        if (programs) return Error(s.line, "a second program");
        if (text->empty()) return Error(s.line, "an empty program");
        programs = true;
        c->format = s.key == "program hlo" ? ProgramFormat::kHlo : ProgramFormat::kStablehlo;
        (s.key == "apply" ? apply : c->program) = *text;
        continue;
      }
      if (absl::Status status = ReadStatement(s.key, *text, c); !status.ok()) {
        const absl::string_view message = status.message();
        return Error(s.line, c->bindings.empty() ? std::string(message) : absl::StrCat(message, ", in ", c->name));
      }
    }
    if (!programs) return Error(draft.line, absl::StrCat("case ", draft.name, " has no program"));
    if (c->covers.empty()) return Error(draft.line, absl::StrCat("case ", draft.name, " covers nothing"));
    for (int d = 0; d < c->devices(); ++d) {
      if (c->outputs[d].empty() && !c->fails && c->transfers.empty()) {
        return Error(draft.line, absl::StrCat("case ", draft.name, " expects nothing",
                                              c->devices() > 1 ? absl::StrCat(" of device ", d) : ""));
      }
      if (c->inputs[d].size() != c->inputs[0].size() || c->outputs[d].size() != c->outputs[0].size()) {
        return Error(draft.line, absl::StrCat("device ", d, " has another number of inputs or outputs than device 0"));
      }
    }
    if (!apply.empty()) c->program = Apply(apply, *c);
    return absl::OkStatus();
  }

  static absl::Status ReadDevices(absl::string_view text, Case* c) {
    const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
    if (words.empty() || words.size() % 2 != 0)
      return absl::InvalidArgumentError("expected 'devices replicas N partitions M'");
    for (size_t i = 0; i < words.size(); i += 2) {
      int* field = words[i] == "replicas" ? &c->replicas : words[i] == "partitions" ? &c->partitions : nullptr;
      if (field == nullptr || !absl::SimpleAtoi(words[i + 1], field) || *field < 1 || *field > kMaxCaseDevices) {
        return absl::InvalidArgumentError("expected 'devices replicas N partitions M'");
      }
    }
    return c->devices() <= kMaxCaseDevices
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("more than ", kMaxCaseDevices, " devices"));
  }

  static absl::Status ReadFailure(absl::string_view text, Case* c) {
    Failure failure;
    if (absl::ConsumePrefix(&text, "run")) {
      failure.stage = Failure::kRun;
    } else if (!absl::ConsumePrefix(&text, "compile")) {
      return absl::InvalidArgumentError("expected 'fails compile' or 'fails run', and the label of the rule");
    }
    failure.label = std::string(absl::StripAsciiWhitespace(text));
    if (absl::StrContains(failure.label, ' ')) return absl::InvalidArgumentError("a label is one word");
    c->fails = failure;
    return absl::OkStatus();
  }

  // `input`, `output` for every device, `input@2`, `output@2` for one.
  static absl::StatusOr<std::pair<int, int>> DevicesOf(absl::string_view key, const Case& c) {
    const size_t at = key.find('@');
    if (at == absl::string_view::npos) return std::pair(0, c.devices());
    int device;
    if (!absl::SimpleAtoi(key.substr(at + 1), &device) || device < 0 || device >= c.devices()) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "' names no device of ", c.devices()));
    }
    return std::pair(device, device + 1);
  }

  absl::Status ReadStatement(absl::string_view key, absl::string_view text, Case* c) const {
    const bool need_values = !c->fails && !shapes_only_;
    if (key == "devices" || key == "fails") return absl::OkStatus();  // handled earlier
    if (key == "covers") {
      c->covers.emplace_back(text);
      return text.empty() ? absl::InvalidArgumentError("'covers' without a name") : absl::OkStatus();
    }
    if (key == "source") {
      c->source = std::string(text);
      return absl::OkStatus();
    }
    if (key == "input" || absl::StartsWith(key, "input@")) {
      const absl::StatusOr<std::pair<int, int>> range = DevicesOf(key, *c);
      if (!range.ok()) return range.status();
      const absl::StatusOr<Array> array = ParseArray(text, need_values);
      if (!array.ok()) return array.status();
      for (int d = range->first; d < range->second; ++d) c->inputs[d].push_back(*array);
      return absl::OkStatus();
    }
    if (key == "output" || absl::StartsWith(key, "output@")) {
      const absl::StatusOr<std::pair<int, int>> range = DevicesOf(key, *c);
      if (!range.ok()) return range.status();
      const absl::StatusOr<Expected> expected = ParseExpected(text, need_values);
      if (!expected.ok()) return expected.status();
      for (int d = range->first; d < range->second; ++d) c->outputs[d].push_back(*expected);
      return absl::OkStatus();
    }
    for (auto [word, kind] : {std::pair("infeed", HostTransfer::kInfeed), std::pair("outfeed", HostTransfer::kOutfeed),
                              std::pair("send", HostTransfer::kSend), std::pair("recv", HostTransfer::kRecv)}) {
      if (key != word) continue;
      HostTransfer transfer;
      transfer.kind = kind;
      if (kind == HostTransfer::kSend || kind == HostTransfer::kRecv) {
        const size_t space = std::min(text.find(' '), text.size());
        if (!absl::SimpleAtoi(text.substr(0, space), &transfer.channel)) {
          return absl::InvalidArgumentError(absl::StrCat("expected the number of a channel after '", word, "'"));
        }
        text.remove_prefix(space);
      }
      absl::StatusOr<Expected> value = ParseExpected(text);
      if (!value.ok()) return value.status();
      transfer.value = *std::move(value);
      c->transfers.push_back(std::move(transfer));
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' is no statement of a case file"));
  }

  // Returns the program of one operation: its operands are the inputs, its results the outputs.
  static std::string Apply(absl::string_view text, const Case& c) {
    const size_t end =
        text[0] == '"' ? std::min(text.find('"', 1), text.size() - 1) + 1 : std::min(text.find(' '), text.size());
    std::vector<std::string> parameters, operands, operand_types, results, result_types;
    const auto tensor = [](ElementType type, const std::vector<int64_t>& dims) {
      return absl::StrCat("tensor<", absl::StrJoin(dims, "x"), dims.empty() ? "" : "x", Info(type).mlir, ">");
    };
    for (const Array& input : c.inputs[0]) {
      operand_types.push_back(tensor(input.type, input.dims));
      operands.push_back(absl::StrCat("%arg", operands.size()));
      parameters.push_back(absl::StrCat(operands.back(), ": ", operand_types.back()));
    }
    for (const Expected& output : c.outputs[0]) {
      result_types.push_back(tensor(output.value.type, output.value.dims));
      results.push_back(absl::StrCat("%r", c.outputs[0].size() > 1 ? absl::StrCat("#", results.size()) : ""));
    }
    const std::string types = absl::StrJoin(result_types, ", ");
    const std::string returns = result_types.size() == 1 ? types : absl::StrCat("(", types, ")");
    return absl::StrCat(
        "func.func @main(", absl::StrJoin(parameters, ", "), ") -> ", returns, " {\n  ",
        results.empty() ? "" : absl::StrCat("%r", results.size() > 1 ? absl::StrCat(":", results.size()) : "", " = "),
        text.substr(0, end), "(", absl::StrJoin(operands, ", "), ")", text.substr(end), " : (",
        absl::StrJoin(operand_types, ", "), ") -> ", returns, "\n  return",
        results.empty() ? "" : absl::StrCat(" ", absl::StrJoin(results, ", "), " : ", types), "\n}\n");
  }

  std::vector<std::string> lines_;
  std::string file_, stem_;
  size_t next_ = 0;
  bool shapes_only_ = false;
  std::vector<Draft> drafts_;
  Scope file_scope_;
};

}  // namespace

absl::StatusOr<std::vector<Case>> ParseCases(absl::string_view text, absl::string_view file) {
  return FileParser(text, file).Parse();
}

absl::StatusOr<std::vector<TypedCase>> ParseForEveryType(absl::string_view text, absl::string_view file) {
  return FileParser(text, file).ParseForEveryType();
}

namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (bytes > kMaxFileBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, ": more than ", kMaxFileBytes, " bytes"));
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return text.str();
}

template <typename T>
absl::StatusOr<std::vector<T>> ReadFolder(const std::string& path,
                                          absl::StatusOr<std::vector<T>> (*parse)(absl::string_view,
                                                                                  absl::string_view)) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".case") files.push_back(it->path().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  std::sort(files.begin(), files.end());
  std::vector<T> all;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = ReadText(file);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::vector<T>> some = parse(*text, file);
    if (!some.ok()) return some.status();
    std::move(some->begin(), some->end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<Case>> ReadCaseFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  return ParseCases(*text, path);
}

absl::StatusOr<std::vector<Case>> ReadCaseFolder(const std::string& path) {
  return ReadFolder<Case>(path, &ParseCases);
}

absl::StatusOr<std::vector<TypedCase>> ReadCaseFolderForEveryType(const std::string& path) {
  return ReadFolder<TypedCase>(path, &ParseForEveryType);
}

}  // namespace backplane::conformance
