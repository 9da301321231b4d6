#include "conformance/kit/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sdk/host/status.h"

namespace backplane::conformance {
namespace {

std::string SuiteOf(const std::string& id) { return id.substr(0, id.find('.')); }

struct Counts {
  size_t pass = 0, fail = 0, unsupported = 0, skip = 0, advice = 0, expected = 0;
  size_t all() const { return pass + fail + unsupported + skip + advice + expected; }
};

Counts CountAll(const Report& report) {
  Counts counts;
  for (const CheckOutcome& o : report.outcomes) {
    switch (JudgeOutcome(o, report.strict)) {
      case Verdict::kExpected:
        ++counts.expected;
        continue;
      case Verdict::kAdvice:
        ++counts.advice;
        continue;
      case Verdict::kBad:
        ++counts.fail;
        continue;
      case Verdict::kGood:
        break;
    }
    ++(o.result == Result::kPass ? counts.pass : o.result == Result::kUnsupported ? counts.unsupported : counts.skip);
  }
  return counts;
}

std::string GetReason(const CheckOutcome& o) {
  return o.unexpected_pass ? "passes, though the profile lists it: take the line out" : o.detail;
}

std::string FirstLine(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() > 220) {
    size_t end = 217;
    while (end > 0 && (line[end] & 0xC0) == 0x80) --end;  // not within a character
    line.resize(end);
    line += "...";
  }
  return line;
}

// Messages of a plugin may be any bytes, but XML may not. JSON replaces invalid bytes by a mark.
std::string XmlText(absl::string_view text) {
  const absl::StatusOr<host::Json> valid = host::Json::Parse(host::Json(std::string(text)).Text());
  std::string clean;
  for (char c : valid.ok() && valid->string() != nullptr ? *valid->string() : std::string()) {
    if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') clean.push_back(c);
  }
  clean = absl::StrReplaceAll(clean, {{"\xEF\xBF\xBE", ""}, {"\xEF\xBF\xBF", ""}});  // noncharacters that XML excludes
  return absl::StrReplaceAll(clean, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Returns a member of type string, or "".
std::string TextOf(const host::Json& object, absl::string_view name) {
  const host::Json* value = object.Find(name);
  return value != nullptr && value->string() != nullptr ? *value->string() : "";
}

// Prints seconds with few digits; more would be noise.
double Rounded(double seconds, double digits) {
  return std::round(seconds * std::pow(10, digits)) / std::pow(10, digits);
}

host::Json LevelJson(const LevelResult& l) {
  host::Json missing = host::Json::MakeArray();
  for (const std::string& id : l.missing) missing.Push(id);
  return host::Json::MakeObject()
      .Set("name", l.name)
      .Set("meaning", l.meaning)
      .Set("met", l.met())
      .Set("passed", l.passed)
      .Set("wanted", l.wanted)
      .Set("not_run", l.not_run)
      .Set("missing", std::move(missing));
}

host::Json CheckJson(const CheckOutcome& o) {
  return host::Json::MakeObject()
      .Set("id", o.id)
      .Set("result", ResultName(o.result))
      .Set("seconds", Rounded(o.seconds, 4))
      .Set("meaning", o.meaning)
      .Set("detail", o.detail)
      .Set("advice", o.advice)
      .Set("expected", o.expected)
      .Set("unexpected_pass", o.unexpected_pass);
}

}  // namespace

Verdict JudgeOutcome(const CheckOutcome& o, bool strict) {
  if (o.unexpected_pass) return Verdict::kBad;
  if (o.result == Result::kPass) return Verdict::kGood;
  if (!o.expected.empty()) return Verdict::kExpected;
  if (o.result != Result::kFail) return Verdict::kGood;
  return o.advice && !strict ? Verdict::kAdvice : Verdict::kBad;
}

bool IsConformant(const Report& report) {
  for (const CheckOutcome& o : report.outcomes) {
    if (JudgeOutcome(o, report.strict) == Verdict::kBad) return false;
  }
  for (const std::string& name : report.demanded) {
    const auto level =
        std::find_if(report.levels.begin(), report.levels.end(), [&](const LevelResult& l) { return l.name == name; });
    if (level == report.levels.end() || !level->met()) return false;
  }
  return true;
}

std::string PrintConsole(const Report& report, bool colour, bool verbose) {
  const auto paint = [&](const char* code, absl::string_view text) {
    return colour ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
  };
  std::string out;
  if (verbose) {
    for (const CheckOutcome& o : report.outcomes) {
      absl::StrAppendFormat(&out, "%-11s %6.2f s  %s%s\n", ResultName(o.result), o.seconds, o.id,
                            o.detail.empty() ? "" : absl::StrCat("  ", FirstLine(o.detail)));
    }
    out += "\n";
  }
  absl::StrAppend(&out, paint("1", report.plugin));
  if (!report.facts.is_null()) {
    const host::Json* devices = report.facts.Find("devices");
    absl::StrAppend(&out, "  PJRT C API ", TextOf(report.facts, "api"), ", platform ", TextOf(report.facts, "platform"),
                    ", ", devices != nullptr ? devices->Text() : "?", " devices");
  }
  out += "\n";
  std::map<std::string, Counts> suites;
  std::vector<std::string> order;
  for (const CheckOutcome& o : report.outcomes) {
    const std::string suite = SuiteOf(o.id);
    if (suites.count(suite) == 0) order.push_back(suite);
    Counts& c = suites[suite];
    switch (JudgeOutcome(o, report.strict)) {
      case Verdict::kExpected:
        ++c.expected;
        break;
      case Verdict::kAdvice:
        ++c.advice;
        break;
      case Verdict::kBad:
        ++c.fail;
        break;
      case Verdict::kGood:
        ++(o.result == Result::kPass ? c.pass : o.result == Result::kUnsupported ? c.unsupported : c.skip);
        break;
    }
  }
  for (const std::string& suite : order) {
    const Counts& c = suites[suite];
    std::string line = absl::StrFormat("  %-14s %4d of %d pass", suite, c.pass, c.all());
    const auto add = [&](size_t n, const char* what, const char* code) {
      if (n > 0) absl::StrAppend(&line, ", ", paint(code, absl::StrCat(n, " ", what)));
    };
    add(c.fail, "FAIL", "31;1");
    add(c.advice, "advice", "33");
    add(c.expected, "expected", "36");
    add(c.unsupported, "unsupported", "2");
    add(c.skip, "skipped", "2");
    absl::StrAppend(&out, line, "\n");
  }
  const auto list = [&](Verdict verdict, const char* title, const char* code) {
    bool any = false;
    for (const CheckOutcome& o : report.outcomes) {
      if (JudgeOutcome(o, report.strict) != verdict) continue;
      if (!any) absl::StrAppend(&out, paint(code, title), "\n");
      any = true;
      absl::StrAppend(&out, "  ", o.id, ": ", FirstLine(GetReason(o)), "\n");
    }
  };
  list(Verdict::kBad, "failures", "31;1");
  list(Verdict::kAdvice, "advice", "33");
  if (!report.levels.empty()) {
    out += "levels\n";
    for (const LevelResult& level : report.levels) {
      if (level.passed == 0 && level.missing.empty()) continue;  // none of its checks ran
      const bool demanded =
          std::find(report.demanded.begin(), report.demanded.end(), level.name) != report.demanded.end();
      std::string line = absl::StrFormat("  %-14s %s  %d of %d", level.name,
                                         level.met()             ? paint("32", "met    ")
                                         : level.missing.empty() ? "partly "
                                                                 : paint(demanded ? "31;1" : "33", "not met"),
                                         level.passed, level.wanted);
      if (level.not_run > 0) absl::StrAppend(&line, ", ", level.not_run, " not run");
      if (!level.missing.empty())
        absl::StrAppend(&line, ", missing ", level.missing.front(),
                        level.missing.size() > 1 ? absl::StrCat(" and ", level.missing.size() - 1, " more") : "");
      absl::StrAppend(&out, line, "\n");
    }
  }
  const Counts c = CountAll(report);
  absl::StrAppend(
      &out, paint(IsConformant(report) ? "32;1" : "31;1", IsConformant(report) ? "conformant" : "NOT CONFORMANT"), ": ",
      c.pass, " pass, ", c.fail, " fail, ", c.advice, " advice, ", c.expected, " expected, ", c.unsupported,
      " unsupported, ", c.skip, " skipped in ", absl::StrFormat("%.1f", report.seconds), " s\n");
  return out;
}

std::string FormatJson(const Report& report) {
  // One line for each level and each check, so that reports can be compared with diff.
  const auto lines = [](const auto& items, const auto& json) {
    std::vector<std::string> texts;
    for (const auto& item : items) texts.push_back(absl::StrCat("\n  ", json(item).Text()));
    return absl::StrJoin(texts, ",");
  };
  const std::string head = host::Json::MakeObject()
                               .Set("kit", 1)
                               .Set("plugin", report.plugin)
                               .Set("profile", report.profile)
                               .Set("strict", report.strict)
                               .Set("good", IsConformant(report))
                               .Set("seconds", Rounded(report.seconds, 3))
                               .Set("facts", report.facts)
                               .Text();
  return absl::StrCat(absl::StripSuffix(head, "}"), ",\n \"levels\": [", lines(report.levels, LevelJson),
                      "],\n \"checks\": [", lines(report.outcomes, CheckJson), "]}\n");
}

std::string PrintJunit(const Report& report) {
  const Counts c = CountAll(report);
  std::string out = absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"conformance of ",
                                 XmlText(report.plugin), "\" tests=\"", c.all(), "\" failures=\"", c.fail, "\" time=\"",
                                 absl::StrFormat("%.3f", report.seconds), "\">\n");
  for (size_t i = 0; i < report.outcomes.size();) {
    const std::string suite = SuiteOf(report.outcomes[i].id);
    std::string cases;
    size_t tests = 0, failures = 0, skipped = 0;
    for (; i < report.outcomes.size() && SuiteOf(report.outcomes[i].id) == suite; ++i) {
      const CheckOutcome& o = report.outcomes[i];
      ++tests;
      absl::StrAppend(&cases, "  <testcase classname=\"", XmlText(suite), "\" name=\"", XmlText(o.id), "\" time=\"",
                      absl::StrFormat("%.3f", o.seconds), "\">");
      const Verdict verdict = JudgeOutcome(o, report.strict);
      if (verdict == Verdict::kBad) {
        ++failures;
        absl::StrAppend(&cases, "<failure message=\"", XmlText(FirstLine(GetReason(o))), "\">",
                        XmlText(absl::StrCat(o.meaning, "\n", GetReason(o))), "</failure>");
      } else if (o.result != Result::kPass) {
        ++skipped;
        absl::StrAppend(
            &cases, "<skipped message=\"",
            XmlText(absl::StrCat(ResultName(o.result), ": ", o.expected.empty() ? FirstLine(o.detail) : o.expected)),
            "\"/>");
      }
      absl::StrAppend(&cases, "</testcase>\n");
    }
    absl::StrAppend(&out, " <testsuite name=\"", XmlText(suite), "\" tests=\"", tests, "\" failures=\"", failures,
                    "\" errors=\"0\" skipped=\"", skipped, "\">\n", cases, " </testsuite>\n");
  }
  absl::StrAppend(&out, "</testsuites>\n");
  return out;
}

absl::StatusOr<Report> ReadReport(absl::string_view json) {
  BP_ASSIGN_OR_RETURN(const host::Json parsed, host::Json::Parse(json));
  const host::Json* checks = parsed.Find("checks");
  if (checks == nullptr || checks->array() == nullptr)
    return absl::InvalidArgumentError("no report of this kit: it has no list of checks");
  Report report;
  report.plugin = TextOf(parsed, "plugin");
  for (const host::Json& item : *checks->array()) {
    CheckOutcome o;
    o.id = TextOf(item, "id");
    o.detail = TextOf(item, "detail");
    if (o.id.empty() || !ResultFromName(TextOf(item, "result"), &o.result))
      return absl::InvalidArgumentError("a check without id or result");
    report.outcomes.push_back(std::move(o));
  }
  return report;
}

std::vector<std::string> FindDifferences(const Report& before, const Report& now) {
  std::map<std::string, std::string> was;
  for (const CheckOutcome& o : before.outcomes) was[o.id] = ResultName(o.result);
  std::vector<std::string> lines;
  for (const CheckOutcome& o : now.outcomes) {
    const auto old = was.find(o.id);
    if (old == was.end()) {
      lines.push_back(absl::StrCat(o.id, ": new -> ", ResultName(o.result)));
    } else {
      if (old->second != ResultName(o.result))
        lines.push_back(absl::StrCat(o.id, ": ", old->second, " -> ", ResultName(o.result)));
      was.erase(old);
    }
  }
  for (const auto& [id, result] : was) lines.push_back(absl::StrCat(id, ": ", result, " -> not run"));
  return lines;
}

}  // namespace backplane::conformance
