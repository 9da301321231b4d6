// Every row of the list of operations that StableHLO has goes there and back, as text and as portable bytecode, and
// means the same. The others are named here, each with the reason.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/ir/ops/row_walk_test.h"
#include "gtest/gtest.h"

namespace backplane::rows {
namespace {

const std::map<std::string, std::string>& WithoutStablehlo() {
  static const auto* reasons = new std::map<std::string, std::string>{
      {"AddDependency", "orders a value after a token, of which StableHLO knows only operations that take the token"},
      {"AsyncUpdate", "StableHLO's futures have no updates"},
      {"Bitcast", "depends on layouts, which StableHLO leaves open"},
      {"Call", "is func.call there"},
      {"Copy", "changes nothing that StableHLO can tell"},
      {"CopyStart", "changes nothing that StableHLO can tell"},
      {"CopyDone", "changes nothing that StableHLO can tell"},
      {"Domain", "marks a place for HLO passes alone"},
      {"Fusion", "says how a backend runs a call"},
      {"Parameter", "is a function's argument there"},
      {"RecvDone", "recv is whole there"},
      {"SendDone", "send is whole there"},
      {"RngGetAndUpdateState", "StableHLO has no state between executions but that of rng"},
  };
  return *reasons;
}

TEST(Rows, ReasonsAreOfRowsWithoutAName) {
  for (const Row& r : Rows()) EXPECT_EQ(r.stablehlo == "-", WithoutStablehlo().contains(r.name)) << r.name;
}

// Names of the list that our text does not have, since another form means the same.
bool WrittenOtherwise(absl::string_view name) {
  return absl::StartsWith(name, "chlo.broadcast_") ||      // the broadcast and the operation apart
         name == "async_start" || name == "async_done" ||  // the operation that is started
         name == "tuple" || name == "get_tuple_element";   // several values
}

// A name of the list as the text has it.
bool Stands(absl::string_view text, absl::string_view name) {
  if (absl::StrContains(text, absl::StrCat("stablehlo.", name))) return true;
  return absl::StrContains(text, name);
}

void ExpectSame(const RowProgram& program, const absl::StatusOr<std::unique_ptr<Module>>& again) {
  ASSERT_TRUE(again.ok()) << again.status();
  absl::StatusOr<Literal> got = RunRow(**again);
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << (*again)->ToString();
  ExpectValue(program, *got);
}

TEST(Rows, StablehloTextBothWays) {
  for (const Row& r : Rows()) {
    if (r.stablehlo == "-") continue;
    SCOPED_TRACE(r.name);
    const RowProgram& program = Programs().at(r.name);
    std::unique_ptr<Module> module = Build(program);
    ASSERT_NE(module, nullptr);
    absl::StatusOr<std::string> text = ExportStablehloText(*module);
    if (!text.ok()) {
      ADD_FAILURE() << text.status();
      continue;
    }
    SCOPED_TRACE(*text);
    for (absl::string_view name : absl::StrSplit(r.stablehlo, ';')) {
      if (WrittenOtherwise(name)) continue;
      EXPECT_TRUE(Stands(*text, name)) << name << " is missing";
    }
    ExpectSame(program, ImportStablehlo(*text));
  }
}

TEST(Rows, PortableArtifactBothWays) {
  for (const Row& r : Rows()) {
    if (r.stablehlo == "-") continue;
    SCOPED_TRACE(r.name);
    const RowProgram& program = Programs().at(r.name);
    std::unique_ptr<Module> module = Build(program);
    ASSERT_NE(module, nullptr);
    absl::StatusOr<std::string> bytes = ExportPortableArtifact(*module);
    if (!bytes.ok()) {
      ADD_FAILURE() << bytes.status();
      continue;
    }
    ExpectSame(program, ImportStablehlo(*bytes));
  }
}

}  // namespace
}  // namespace backplane::rows
