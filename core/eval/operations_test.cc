// Runs testdata/operations.txt: the test vectors of each operation, including the edge cases of its definition.
#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

struct Case {
  std::string name, computations, body, expected;
};

std::vector<Case> ReadCases(absl::string_view name, std::string* prelude) {
  std::ifstream file(absl::StrCat(BACKPLANE_SOURCE_DIR, "/core/eval/testdata/", name));
  std::vector<Case> cases;
  bool in_prelude = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (absl::StartsWith(line, "== ")) {
      in_prelude = line == "== prelude";
      if (!in_prelude) cases.push_back({line.substr(3), "", "", ""});
    } else if (in_prelude) {
      absl::StrAppend(prelude, line, "\n");
    } else if (line == "ENTRY") {
      cases.back().computations = std::move(cases.back().body);
      cases.back().body.clear();
    } else if (absl::StartsWith(line, "-> ")) {
      cases.back().expected = line.substr(3);
    } else {
      absl::StrAppend(&cases.back().body, line, "\n");
    }
  }
  return cases;
}

std::string Program(absl::string_view prelude, const Case& c) {
  return absl::StrCat("HloModule test\n", prelude, c.computations, "ENTRY main {\n", c.body, "}\n");
}

void ExpectNear(const Literal& got, const Literal& want, double tolerance) {
  if (want.shape().IsTuple()) {
    for (size_t i = 0; i < want.elements().size(); ++i) ExpectNear(got.elements()[i], want.elements()[i], tolerance);
    return;
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const std::complex<double> a = got.GetAsComplex(i), b = want.GetAsComplex(i);
    for (auto [x, y] : {std::pair(a.real(), b.real()), std::pair(a.imag(), b.imag())}) {
      if (std::isnan(y))
        EXPECT_TRUE(std::isnan(x));
      else if (std::isinf(y))
        EXPECT_EQ(x, y);
      else
        EXPECT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y)));
    }
  }
}

TEST(Operations, TestVectors) {
  std::string prelude;
  const std::vector<Case> cases = ReadCases("operations.txt", &prelude);
  ASSERT_GT(cases.size(), 100u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string text = Program(prelude, c);
    absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
    if (!module.ok()) {
      ADD_FAILURE() << module.status();
      continue;
    }
    const absl::Status verified = VerifyModule(**module);
    EXPECT_TRUE(verified.ok()) << verified;
    absl::StatusOr<Literal> got = Evaluate(**module, {});
    if (!got.ok()) {
      ADD_FAILURE() << got.status();
      continue;
    }
    EXPECT_EQ(got->shape().ToString(), (*module)->entry()->root()->shape().ToString());
    absl::string_view expected = c.expected;
    double tolerance = 0;
    if (absl::StartsWith(expected, "~")) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(expected.substr(1), absl::MaxSplits(' ', 1));
      ASSERT_TRUE(absl::SimpleAtod(parts.first, &tolerance));
      expected = parts.second;
    }
    absl::StatusOr<Literal> want = ParseLiteral((*module)->entry()->root()->shape(), expected);
    if (!want.ok()) {
      ADD_FAILURE() << want.status();
      continue;
    }
    ExpectNear(*got, *want, tolerance);
    if (tolerance == 0) {
      EXPECT_EQ(got->ToString(), want->ToString());  // the sign of zero matters
    }
  }
}

}  // namespace
}  // namespace backplane
