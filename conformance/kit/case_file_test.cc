#include "conformance/kit/case_file.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::conformance {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<Case> Parse(absl::string_view text) {
  absl::StatusOr<std::vector<Case>> cases = ParseCases(text, "folder/add.case");
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *std::move(cases) : std::vector<Case>();
}

std::string Message(absl::string_view text) {
  const absl::StatusOr<std::vector<Case>> cases = ParseCases(text, "folder/add.case");
  return cases.ok() ? "accepted" : std::string(cases.status().message());
}

TEST(CaseFile, OneOperationForSeveralTypes) {
  const std::vector<Case> cases = Parse(R"(
# The sum.
case matrix
covers Add
covers CrossReplicaSum
source stablehlo
each T s8 c64
apply "stablehlo.add" {a = 1 : i32}
input $T[2] {1,2}
input $T[2] {
  3,
  # the last one
  4 }
output $T[2] {4,6}

case other
covers Add
program
  func.func @main() -> tensor<f32> {}
end
output f32[] 1 within ulp 2
)");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].name, "add/matrix[T=s8]");
  EXPECT_EQ(cases[0].file, "folder/add.case");
  EXPECT_EQ(cases[0].line, 3);
  EXPECT_EQ(cases[0].covers, (std::vector<std::string>{"Add", "CrossReplicaSum"}));
  EXPECT_EQ(cases[0].source, "stablehlo");
  EXPECT_EQ(cases[1].name, "add/matrix[T=c64]");
  EXPECT_EQ(
      cases[1].program,
      "func.func @main(%arg0: tensor<2xcomplex<f32>>, %arg1: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {\n"
      "  %r = \"stablehlo.add\"(%arg0, %arg1) {a = 1 : i32} : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> "
      "tensor<2xcomplex<f32>>\n  return %r : tensor<2xcomplex<f32>>\n}\n");
  ASSERT_EQ(cases[0].inputs[0].size(), 2u);
  EXPECT_EQ(cases[0].inputs[0][1].data, "\x03\x04");
  EXPECT_EQ(cases[2].name, "add/other");
  EXPECT_EQ(cases[2].program, "  func.func @main() -> tensor<f32> {}\n");
  EXPECT_EQ(cases[2].outputs[0][0].tolerance.ulp, 2);
}

TEST(CaseFile, TextsAndVariables) {
  const std::vector<Case> cases = Parse(R"(
let region = ({^bb0(%a: tensor<$T>): return %a : tensor<${T.part}>})
case a
covers Add
each T c64 f32
each D 1 2
let both = $region $$D $D
program hlo
  $both $T.uint $T.part
end
input $T[$D] iota
output $T[$D] any
output $T.part[] 0
)");
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[1].name, "add/a[T=c64,D=2]");
  EXPECT_EQ(cases[1].format, ProgramFormat::kHlo);
  EXPECT_EQ(cases[1].program, "  ({^bb0(%a: tensor<c64>): return %a : tensor<f32>}) $D 2 u64 f32\n");
  EXPECT_EQ(cases[1].inputs[0][0].dims, std::vector<int64_t>{2});
  EXPECT_EQ(cases[1].outputs[0][1].value.type, ElementType::kF32);
}

TEST(CaseFile, SeveralResultsAndNone) {
  const std::vector<Case> cases = Parse(R"(
case two
covers Add
apply stablehlo.x rest \
  more
output f32[] 1
output s32[2] {1,2}
case refused
covers Add
fails compile add_c1
apply "stablehlo.add"
input f32[2,3]
output f32[3]
)");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_THAT(cases[0].program,
              HasSubstr("%r:2 = stablehlo.x() rest  more : () -> (tensor<f32>, tensor<2xi32>)\n  return %r#0, %r#1 : "
                        "tensor<f32>, tensor<2xi32>\n"));
  ASSERT_TRUE(cases[1].fails.has_value());
  EXPECT_EQ(cases[1].fails->label, "add_c1");
  EXPECT_EQ(cases[1].fails->stage, Failure::kCompile);
  EXPECT_EQ(cases[1].inputs[0][0].data.size(), 24u);
}

TEST(CaseFile, SeveralDevices) {
  const std::vector<Case> cases = Parse(R"(
case gather
covers AllGather
devices replicas 2 partitions 2
program hlo
x
end
input@0 f32[] 1
input@1 f32[] 2
input@2 f32[] 3
input@3 f32[] 4
output f32[] 5
)");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].devices(), 4);
  EXPECT_EQ(ReadReal(cases[0].inputs[2][0], 0), 3);
  EXPECT_EQ(cases[0].outputs[3].size(), 1u);
}

TEST(CaseFile, HostTransfers) {
  const std::vector<Case> cases = Parse(R"(
case feed
covers Infeed
program hlo
x
end
infeed f32[2] {1,2}
send 3 f32[] 4
)");
  ASSERT_EQ(cases.size(), 1u);
  ASSERT_EQ(cases[0].transfers.size(), 2u);
  EXPECT_EQ(cases[0].transfers[1].kind, HostTransfer::kSend);
  EXPECT_EQ(cases[0].transfers[1].channel, 3);
}

TEST(CaseFile, EveryTypeForCompilingOnly) {
  const absl::StatusOr<std::vector<TypedCase>> typed = ParseForEveryType(R"(
case a
covers Add
each T f32 s32
each D 1 2
apply x
input $T[$D] {1.5}
output $T[$D] iota
case complex
covers Complex
each T f32
apply y
input $T[] 1
output $T.complex[] 1
case wrong
covers Add
fails compile
apply x
input f32[]
case plain
covers Add
apply z
output s8[2] {1,2}
)",
                                                                         "folder/add.case");
  ASSERT_TRUE(typed.ok()) << typed.status();
  const size_t all = AllElementTypes().size();
  ASSERT_EQ(typed->size(), all + 2 + 1);  // only f32 and f64 have a .complex
  EXPECT_EQ((*typed)[0].value.name, "add/a[T=pred,D=1]");
  EXPECT_EQ((*typed)[0].draft, "add/a");
  int declared = 0;
  for (const TypedCase& t : *typed) declared += t.declared;
  EXPECT_EQ(declared, 2 + 1 + 1);
  EXPECT_EQ(typed->back().value.name, "add/plain");
}

TEST(CaseFile, ErrorsNameFileAndLine) {
  const std::pair<const char*, const char*> rows[] = {
      {"case a-b", "folder/add.case:1: 'a-b' is no name of a case"},
      {"\ninput f32[] 1", "folder/add.case:2: 'input' before the first case"},
      {"case a\ncase a", "folder/add.case:2: a second case 'a'"},
      {"case a\nnonsense 1", "folder/add.case:2: 'nonsense' is no statement"},
      {"case a\ncovers Add\noutput f32[] 1", "folder/add.case:1: case a has no program"},
      {"case a\napply x\noutput f32[] 1", "folder/add.case:1: case a covers nothing"},
      {"case a\ncovers Add\napply x", "folder/add.case:1: case a expects nothing"},
      {"case a\ncovers Add\napply x\napply y\noutput f32[] 1", "folder/add.case:4: a second program"},
      {"case a\nprogram\nx", "folder/add.case:2: 'end' is missing"},
      {"case a\nprogram c++\nx\nend", "folder/add.case:2: expected 'program' or 'program hlo'"},
      {"case a\ninput f32[2] {1,", "folder/add.case:2: the file ends"},
      {"case a\ncovers Add\napply x\ninput f32[2] {1}\noutput f32[] 1", "folder/add.case:4: a list of 1 elements"},
      {"case a\ncovers Add\neach T f32 s8\napply x\ninput $T[] 300\noutput f32[] 1",
       "folder/add.case:5: 300 is not in the range of s8, in add/a[T=s8]"},
      {"case a\ncovers Add\napply $x\noutput f32[] 1", "folder/add.case:3: $x is not defined"},
      {"case a\ncovers Add\napply ${x\noutput f32[] 1", "folder/add.case:3: '${x' is not closed"},
      {"case a\neach T s32\ncovers Add\napply $T.complex\noutput f32[] 1",
       "folder/add.case:4: $T: s32 has no .complex"},
      {"let a = $a\ncase a\ncovers Add\napply $a\noutput f32[] 1", "folder/add.case:4: texts are nested deeper than 8"},
      {"let a = 1\nlet a = 2", "folder/add.case:2: a second 'let a'"},
      {"let 1 = 1", "folder/add.case:1: '1' is no name"},
      {"let a b", "folder/add.case:1: expected 'let NAME = TEXT'"},
      {"case a\neach T", "folder/add.case:2: expected 'each NAME VALUE...'"},
      {"case a\neach T 1\neach T 2", "folder/add.case:3: a second 'each T'"},
      {"case a\ndevices replicas 0", "folder/add.case:2: expected 'devices replicas N partitions M'"},
      {"case a\ndevices replicas 64 partitions 64", "folder/add.case:2: more than 64 devices"},
      {"case a\ncovers Add\napply x\ninput@1 f32[] 1\noutput f32[] 1",
       "folder/add.case:4: 'input@1' names no device of 1"},
      {"case a\ncovers Add\ndevices replicas 2\napply x\noutput@0 f32[] 1",
       "folder/add.case:1: case a expects nothing of device 1"},
      {"case a\ncovers Add\ndevices replicas 2\napply x\ninput@0 f32[] 1\noutput f32[] 1",
       "folder/add.case:1: device 1 has another number"},
      {"case a\nfails sometimes", "folder/add.case:2: expected 'fails compile'"},
      {"case a\nsend x f32[] 1\napply x", "folder/add.case:2: expected the number of a channel"},
  };
  for (const auto& [text, message] : rows) EXPECT_THAT(Message(text), StartsWith(message)) << text;
  std::string many = "case a\n";
  for (char v : {'a', 'b', 'c', 'd'}) many += absl::StrCat("each ", std::string(1, v), " 1 2 3 4 5 6 7 8 9 10\n");
  EXPECT_THAT(Message(many), HasSubstr("more than 4096 cases in one"));
  EXPECT_EQ(ReadCaseFile("no/such/file.case").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace backplane::conformance
