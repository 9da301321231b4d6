// Compares docs/passes.md with the registry, which generates its tables. With BACKPLANE_UPDATE_GOLDEN=1 in the
// environment the tables are written into the page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/passes.h"
#include "core/passes/registry/registry.h"

namespace backplane {
namespace {

std::string TableOfPasses() {
  std::string table = "| pass | what it does | may be disabled |\n|---|---|---|\n";
  for (const RegisteredPass& p : ListPasses()) {
    if (!p.runs.empty()) continue;
    absl::StrAppend(&table, "| `", p.name, "` | ", p.summary, " | ", p.required ? "" : "yes", " |\n");
  }
  return table;
}

std::string TableOfPipelines() {
  std::string table = "| pipeline | runs, in this order |\n|---|---|\n";
  for (const RegisteredPass& p : ListPasses()) {
    if (!p.runs.empty()) absl::StrAppend(&table, "| `", p.name, "` | ", absl::StrJoin(p.runs, ", "), " |\n");
  }
  return table;
}

std::string TableOfRules() {
  std::string table = "| rule | of | |\n|---|---|---|\n";
  const RuleSet rules = SimplifyAlgebra::MakeRules();
  for (const RewriteRule& rule : rules.rules()) {
    std::vector<std::string> opcodes;
    for (Opcode o : rule.opcodes) opcodes.push_back(std::string(OpName(o)));
    absl::StrAppend(&table, "| `", rule.name, "` | ", absl::StrJoin(opcodes, ", "), " | ", rule.summary, " |\n");
  }
  return table;
}

// Returns the page with `table` between the lines that mark it.
std::string WithTable(const std::string& page, const std::string& name, const std::string& table) {
  const std::string begin = absl::StrCat("<!-- ", name, " -->\n"), end = absl::StrCat("<!-- end of ", name, " -->\n");
  const size_t from = page.find(begin), to = page.find(end);
  EXPECT_TRUE(from != std::string::npos && to != std::string::npos && from < to) << "no table named " << name;
  if (from == std::string::npos || to == std::string::npos || from > to) return page;
  return absl::StrCat(page.substr(0, from + begin.size()), table, page.substr(to));
}

TEST(PassesPage, AgreesWithTheRegistry) {
  const std::string path = absl::StrCat(BACKPLANE_SOURCE_DIR, "/docs/passes.md");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str();
  std::string made = WithTable(page, "passes", TableOfPasses());
  made = WithTable(made, "pipelines", TableOfPipelines());
  made = WithTable(made, "rules", TableOfRules());
  if (std::getenv("BACKPLANE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << made;
  } else {
    EXPECT_EQ(page, made) << "docs/passes.md is out of date: run this test with BACKPLANE_UPDATE_GOLDEN=1";
  }
}

}  // namespace
}  // namespace backplane
