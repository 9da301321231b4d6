// Every form of every operation, over every element type it takes: nothing that a user would notice goes to the
// evaluator, and the results are the evaluator's. The forms are listed in testdata/coverage.txt. Each form runs over a
// few of its types, other ones from form to form; over all of them with BACKPLANE_COVERAGE=full in the environment.
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

constexpr size_t kTypesOfAForm = 3;

struct Form {
  std::string name, type, hlo;
  bool loose = false;
};
void PrintTo(const Form& f, std::ostream* out) { *out << f.name << " of " << f.type << "\n" << f.hlo; }

bool InGroup(PrimitiveType t, absl::string_view group) {
  const bool integer = IsIntegral(t) && BitWidth(t) > 1, real = integer || IsFloat(t);
  if (group == "integer") return integer;
  if (group == "float") return IsFloat(t);
  if (group == "standard") return IsFloat(t) && BitWidth(t) > 8;
  if (group == "complex") return IsComplex(t);
  if (group == "real") return real;
  if (group == "inexact") return IsFloat(t) || IsComplex(t);
  if (group == "number") return real || IsComplex(t);
  if (group == "all") return real || IsComplex(t) || t == PrimitiveType::kPred;
  return Name(t) == group;
}

void AddForms(const std::string& header, const std::string& text, size_t number, std::vector<Form>& forms) {
  const std::vector<std::string> parts = absl::StrSplit(header, " : ");
  const std::vector<std::string> groups = absl::StrSplit(parts.at(1), ' ');
  std::vector<Form> all;
  for (int code = 1; code < 256; ++code) {
    if (!IsValidPrimitiveType(code)) continue;
    const PrimitiveType t = static_cast<PrimitiveType>(code);
    if (!IsArrayType(t)) continue;
    bool wanted = false;
    for (const std::string& g : groups) wanted |= InGroup(t, g);
    if (!wanted) continue;
    const PrimitiveType whole = GetComplexType(t);
    all.push_back(
        {parts[0], std::string(Name(t)),
         absl::StrCat("HloModule m\n",
                      absl::StrReplaceAll(text, {{"$T", Name(t)}, {"$P", Name(ComplexPart(t))}, {"$C", Name(whole)}})),
         parts.size() > 2 && parts[2] == "loose"});
  }
  if (all.empty()) return;
  const bool full =
      std::getenv("BACKPLANE_COVERAGE") != nullptr && std::string(std::getenv("BACKPLANE_COVERAGE")) == "full";
  const size_t step = full ? 1 : (all.size() + kTypesOfAForm - 1) / kTypesOfAForm;
  for (size_t k = full ? 0 : number % step; k < all.size(); k += step) forms.push_back(std::move(all[k]));
}

// The group of element types that an elementwise operation takes.
const char* GroupOf(OperandTypes types) {
  switch (types) {
    case OperandTypes::kFloat:
      return "float";
    case OperandTypes::kComplexPart:
      return "f32 f64";
    case OperandTypes::kInteger:
      return "integer";
    case OperandTypes::kBits:
      return "integer pred";
    case OperandTypes::kInexact:
      return "inexact";
    case OperandTypes::kReal:
      return "real";
    case OperandTypes::kNumber:
      return "number";
    case OperandTypes::kAny:
      return "all";
  }
  return "";
}

std::vector<Form> Forms() {
  std::ifstream file(BACKPLANE_SOURCE_DIR "/sdk/engine/compiler/testdata/coverage.txt");
  std::vector<Form> forms;
  std::string line, header, text, all;
  size_t number = 0;
  while (std::getline(file, line)) {
    absl::StrAppend(&all, line, "\n");
    if (absl::StartsWith(line, "#")) continue;
    if (!absl::StartsWith(line, "case ")) {
      absl::StrAppend(&text, line, "\n");
      continue;
    }
    if (!header.empty()) AddForms(header, text, number++, forms);
    header = line.substr(5);
    text.clear();
  }
  if (!header.empty()) AddForms(header, text, number++, forms);
  for (const OpInfo& info : Operations()) {
    if (!info.operand_types) continue;
    if (!info.Has(kResultAccuracy) && absl::StrContains(all, absl::StrCat(" ", info.text, "("))) continue;
    const std::string header = absl::StrCat(info.text, " : ", GroupOf(*info.operand_types));
    AddForms(header,
             info.arity == 1
                 ? absl::StrCat("ENTRY e { a = $T[3,21] parameter(0) ROOT r = ", info.text, "(a) }")
                 : absl::StrCat("ENTRY e { a = $T[3,21] parameter(0) b = $T[3,21] parameter(1) ROOT r = ", info.text,
                                "(a, b) }"),
             number++, forms);
  }
  return forms;
}

class Coverage : public ::testing::TestWithParam<Form> {};

TEST_P(Coverage, IsCompiled) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.stored = false;
  options.tolerance = 1e-5;
  if (GetParam().loose) {
    const std::optional<PrimitiveType> t = PrimitiveTypeFromName(GetParam().type);
    if (IsFloat(*t) || IsComplex(*t)) {
      options.low = -1;
      options.high = 1;
      options.tolerance = BitWidth(*t) < 16 ? 1.5 : BitWidth(*t) == 16 ? 0.05 : 1e-4;
    }
  }
  EXPECT_EQ(ProgramDifference(GetParam().hlo, options), "");
  for (const std::string& line : log) EXPECT_FALSE(absl::StartsWith(line, "interpreted: ")) << line;
}

INSTANTIATE_TEST_SUITE_P(Forms, Coverage, ::testing::ValuesIn(Forms()), [](const auto& info) {
  return absl::StrReplaceAll(absl::StrCat(info.param.name, "_of_", info.param.type), {{"-", "_"}});
});

}  // namespace
}  // namespace backplane::engine
