// Describes a plugin, from its file and from a child process that opens it.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "sdk/cli/inspect.h"
#include "sdk/host/elf_file.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

std::string Text(const host::Json* value) {
  if (value == nullptr) return "";
  return value->string() != nullptr ? *value->string() : value->Text();
}

host::Json List(const std::vector<std::string>& texts) {
  host::Json list = host::Json::MakeArray();
  for (const std::string& text : texts) list.Push(text);
  return list;
}

// Adds the properties that the file contains.
void FileFacts(const std::string& library, bool symbols, host::Json* facts) {
  absl::StatusOr<host::ElfFile> elf = host::ReadElf(library);
  if (!elf.ok()) return;  // a bare name; only the dynamic linker knows the file
  facts->Set("machine", elf->machine);
  facts->Set("needed", List(elf->needed)).Set("missing_libraries", List(host::FindMissingLibraries(*elf)));
  facts->Set("exported_symbols", elf->exported.size());
  if (symbols || elf->exported.size() <= 8) {
    host::Json names = host::Json::MakeArray();
    for (const host::ElfSymbol& s : elf->exported)
      names.Push(absl::StrCat(s.name, s.binding == 'G' ? "" : s.binding == 'W' ? " (weak)" : " (unique)"));
    facts->Set("symbols", std::move(names));
  }
}

void PrintFacts(const host::Json& facts, Terminal& terminal) {
  std::vector<std::vector<std::string>> rows;
  auto row = [&](absl::string_view name, std::string value) {
    if (!value.empty()) rows.push_back({terminal.ApplyStyle(Style::kBold, name), std::move(value)});
  };
  auto list = [&](const char* member) {
    const host::Json* value = facts.Find(member);
    std::vector<std::string> texts;
    if (value != nullptr && value->array() != nullptr) {
      for (const host::Json& e : *value->array()) texts.push_back(Text(&e));
    }
    return texts;
  };
  row("library", Text(facts.Find("library")));
  if (const host::Json* v = facts.Find("api_version");
      v != nullptr && v->array() != nullptr && v->array()->size() == 2) {
    row("PJRT C API", absl::StrCat((*v->array())[0].Text(), ".", (*v->array())[1].Text(), ", table of ",
                                   Text(facts.Find("table_size")), " bytes"));
  }
  if (const host::Json* slots = facts.Find("slots"); slots != nullptr) {
    std::vector<std::string> missing;
    if (const host::Json* m = slots->Find("missing"); m != nullptr && m->array() != nullptr) {
      for (const host::Json& e : *m->array()) missing.push_back(Text(&e));
    }
    row("functions", absl::StrCat(Text(slots->Find("present")), " of ", Text(slots->Find("known")),
                                  missing.empty() ? "" : absl::StrCat("; without ", absl::StrJoin(missing, ", "))));
  }
  if (const host::Json* extensions = facts.Find("extensions");
      extensions != nullptr && extensions->array() != nullptr) {
    std::vector<std::string> names;
    for (const host::Json& e : *extensions->array())
      names.push_back(absl::StrCat(Text(e.Find("name")), " (", Text(e.Find("struct_size")), ")"));
    row("extensions", names.empty() ? "none" : absl::StrJoin(names, ", "));
  }
  if (const host::Json* attributes = facts.Find("attributes");
      attributes != nullptr && attributes->object() != nullptr) {
    for (const auto& [name, value] : *attributes->object()) row(absl::StrCat("  ", name), Text(&value));
  }
  // Versions may contain thousands of characters of machine flags; the JSON output has all of them.
  std::string version =
      absl::StrJoin(absl::StrSplit(Text(facts.Find("platform_version")), '\n', absl::SkipWhitespace()), "; ");
  if (version.size() > 100) version = absl::StrCat(version.substr(0, 97), "...");
  row("platform", absl::StrCat(Text(facts.Find("platform_name")), version.empty() ? "" : ", ", version));
  if (const host::Json* devices = facts.Find("devices"); devices != nullptr && devices->array() != nullptr) {
    for (const host::Json& d : *devices->array()) {
      std::vector<std::string> memories;
      if (const host::Json* m = d.Find("memories"); m != nullptr && m->array() != nullptr) {
        for (const host::Json& e : *m->array()) memories.push_back(Text(&e));
      }
      row(absl::StrCat("device ", Text(d.Find("id"))), absl::StrCat(Text(d.Find("text")), ", ", Text(d.Find("kind")),
                                                                    ", memories: ", absl::StrJoin(memories, ", ")));
    }
  }
  row("needs", absl::StrJoin(list("needed"), ", "));
  row("not installed", absl::StrJoin(list("missing_libraries"), ", "));
  if (facts.Find("exported_symbols") != nullptr) {
    const std::vector<std::string> symbols = list("symbols");
    row("exports", absl::StrCat(Text(facts.Find("exported_symbols")), symbols.size() == 1 ? " symbol" : " symbols",
                                symbols.empty() ? "" : absl::StrCat(": ", absl::StrJoin(symbols, ", "))));
  }
  terminal.Print(FormatTable(rows));
}

}  // namespace

absl::Status InspectPlugin(const InspectOptions& options, Terminal& terminal, int* exit_code) {
  BP_ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(options.what, options.plugin));
  BP_ASSIGN_OR_RETURN(const host::ProbeResult probe, ProbePlugin(found, options.plugin, !options.no_client));
  host::Json facts = host::Json::MakeObject();
  facts.Set("name", found.name).Set("library", found.library).Set("source", found.source);
  if (probe.facts.object() != nullptr) {
    for (const auto& [name, value] : *probe.facts.object()) facts.Set(name, value);
  }
  FileFacts(found.library, options.symbols, &facts);
  facts.Set("usable", probe.status.ok())
      .Set("stage", probe.stage)
      .Set("seconds", absl::ToDoubleSeconds(probe.duration));
  if (!probe.status.ok()) {
    *exit_code = kNo;
    facts.Set("error", host::Json::MakeObject()
                           .Set("code", absl::StatusCodeToString(probe.status.code()))
                           .Set("message", absl::string_view(probe.status.message())));
    facts.Set("output", probe.output);
  }
  if (terminal.json()) {
    terminal.PrintJson(facts);
    return absl::OkStatus();
  }
  PrintFacts(facts, terminal);
  if (probe.status.ok()) {
    terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kGood, options.no_client ? "opens" : "usable"), "\n"));
  } else {
    terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kBad, "cannot be used"), ": ",
                                absl::string_view(probe.status.message()), "\n"));
    for (absl::string_view line : absl::StrSplit(probe.output, '\n', absl::SkipWhitespace())) {
      terminal.Print(absl::StrCat(terminal.ApplyStyle(Style::kDim, absl::StrCat("  | ", line)), "\n"));
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::cli
