// Walks the list of operations and fails for a row that lacks anything: a named builder function, a shape rule, HLO
// text and proto both ways, evaluation. StableHLO and case files: rows_stablehlo_test.cc, rows_cases_test.cc.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/import/proto/hlo_proto.h"
#include "core/ir/ops/row_walk_test.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"

namespace backplane::rows {
namespace {

TEST(Rows, ListIsWhole) {
  ASSERT_GE(Rows().size(), 192u);
  std::set<std::string> names;
  for (const Row& r : Rows()) EXPECT_TRUE(names.insert(r.name).second) << r.name << " stands twice";
  for (const auto& [name, program] : Programs()) EXPECT_TRUE(names.contains(name)) << name << " is no row";
}

// The program's text calls the row's function, so that the compiler has seen it, and makes the row's instruction.
TEST(Rows, HaveBuilders) {
  for (const Row& r : Rows()) {
    SCOPED_TRACE(r.name);
    auto it = Programs().find(r.name);
    if (it == Programs().end()) {
      ADD_FAILURE() << "no builder program";
      continue;
    }
    const std::string source = absl::StrCat(" ", it->second.source);
    size_t at = source.find(absl::StrCat(r.function, "(b"));
    EXPECT_TRUE(at != std::string::npos && !absl::ascii_isalnum(source[at - 1])) << r.function << " is not called";
    std::unique_ptr<Module> module = Build(it->second);
    ASSERT_NE(module, nullptr);
    const Instruction* made = nullptr;
    for (const auto& i : module->entry()->instructions()) {
      if (OpName(i->opcode()) == r.opcode) made = i.get();
    }
    ASSERT_NE(made, nullptr) << "no " << r.opcode << " in\n" << module->ToString();
    if (absl::StrContains(r.name, "result_accuracy")) {
      EXPECT_TRUE(made->result_accuracy().has_value());
    }
    if (absl::StrContains(r.name, "broadcast_dimensions")) {
      EXPECT_TRUE(std::any_of(made->operands().begin(), made->operands().end(),
                              [](const Instruction* o) { return o->Is(Opcode::kBroadcast); }));
    }
  }
}

// Some declaration of the row's function names every argument of the row.
TEST(Rows, HaveTheArgumentsOfTheList) {
  // The builder itself is called b, so that these could not be.
  const std::map<std::string, std::map<std::string, std::string>> renamed = {
      {"RngUniform", {{"a", "low"}, {"b", "high"}}}, {"TriangularSolve", {{"b", "rhs"}}}};
  std::multimap<std::string, std::set<std::string>> declared;
  for (const auto& file : std::filesystem::directory_iterator(BACKPLANE_SOURCE_DIR "/core/ir/ops")) {
    if (file.path().extension() != ".h") continue;
    const std::string text = ReadFile(file.path().string());
    const std::regex declaration("Result (\\w+)\\(Builder& b([^;]*)\\);"), word("\\w+");
    for (auto d = std::sregex_iterator(text.begin(), text.end(), declaration); d != std::sregex_iterator(); ++d) {
      const std::string arguments = (*d)[2].str();
      std::set<std::string> words;
      for (auto w = std::sregex_iterator(arguments.begin(), arguments.end(), word); w != std::sregex_iterator(); ++w) {
        words.insert(w->str());
      }
      declared.emplace((*d)[1].str(), std::move(words));
    }
  }
#define OP_UNARY(e, text, types, stablehlo, since, builder) \
  declared.emplace(#builder, std::set<std::string>{"operand"});
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  declared.emplace(#builder, std::set<std::string>{"operand", "result_accuracy"});
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder) \
  declared.emplace(#builder, std::set<std::string>{"lhs", "rhs", "broadcast_dimensions"});
#include "core/ops/op_table.def"
  for (const Row& r : Rows()) {
    std::vector<std::string> wanted;
    for (absl::string_view a : absl::StrSplit(r.arguments, ';', absl::SkipWhitespace())) {
      std::string name(absl::StripAsciiWhitespace(a.substr(0, a.find(':'))));
      if (auto other = renamed.find(r.name); other != renamed.end() && other->second.contains(name)) {
        name = other->second.at(name);
      }
      wanted.push_back(std::move(name));
    }
    const auto [first, last] = declared.equal_range(r.function);
    EXPECT_TRUE(std::any_of(first, last,
                            [&](const auto& d) {
                              return std::all_of(wanted.begin(), wanted.end(),
                                                 [&](const std::string& w) { return d.second.contains(w); });
                            }))
        << r.name << ": no " << r.function << " takes (" << r.arguments << ")";
  }
}

// The shape that each instruction got without being told is that of the rule; wrong declared shapes are refused.
TEST(Rows, HaveShapeRules) {
  for (const Row& r : Rows()) {
    SCOPED_TRACE(r.name);
    std::unique_ptr<Module> module = Build(Programs().at(r.name));
    ASSERT_NE(module, nullptr);
    const absl::Status verified = VerifyModule(*module);
    EXPECT_TRUE(verified.ok()) << verified;
    for (const auto& i : module->entry()->instructions()) {
      if (OpName(i->opcode()) != r.opcode || i->Is(Opcode::kParameter) || i->Is(Opcode::kRng)) continue;
      Instruction::ContextStorage storage;
      OpContext op = i->Context(storage);
      // One dimension more in front of every array: no operation but those that make data from nothing allows it.
      auto grown = [](auto& self, const Shape& s) -> Shape {
        if (s.IsTuple()) {
          std::vector<Shape> all;
          for (const Shape& t : s.tuple_shapes()) all.push_back(self(self, t));
          return Shape::Tuple(std::move(all));
        }
        if (!s.IsArray()) return Shape::Tuple({s});
        DimVector dims = s.dimensions();
        dims.insert(dims.begin(), 7);
        return Shape(s.element_type(), dims);
      };
      const Shape wrong = grown(grown, i->shape());
      op.declared = &wrong;
      const bool scalar_broadcast = i->Is(Opcode::kBroadcast) && i->operand(0)->shape().rank() == 0;
      const std::set<Opcode> any = {Opcode::kIota, Opcode::kCustomCall, Opcode::kRngBitGenerator, Opcode::kInfeed,
                                    Opcode::kRecv};
      if (!any.contains(i->opcode()) && !scalar_broadcast) {
        EXPECT_FALSE(InferShape(op).ok()) << wrong.ToString();
      }
    }
  }
}

TEST(Rows, EvaluateByDefinition) {
  for (const Row& r : Rows()) {
    SCOPED_TRACE(r.name);
    const RowProgram& program = Programs().at(r.name);
    std::unique_ptr<Module> module = Build(program);
    ASSERT_NE(module, nullptr);
    absl::StatusOr<Literal> got = RunRow(*module);
    if (!got.ok()) {
      ADD_FAILURE() << got.status();
      continue;
    }
    ExpectValue(program, *got);
  }
}

TEST(Rows, HloTextBothWays) {
  for (const Row& r : Rows()) {
    SCOPED_TRACE(r.name);
    std::unique_ptr<Module> module = Build(Programs().at(r.name));
    ASSERT_NE(module, nullptr);
    const std::string text = module->ToString();
    absl::StatusOr<std::unique_ptr<Module>> again = ParseHloModule(text);
    if (!again.ok()) {
      ADD_FAILURE() << again.status() << "\n" << text;
      continue;
    }
    EXPECT_EQ((*again)->ToString(), text);
    EXPECT_EQ((*again)->Fingerprint(), module->Fingerprint());
  }
}

TEST(Rows, HloProtoBothWays) {
  for (const Row& r : Rows()) {
    SCOPED_TRACE(r.name);
    std::unique_ptr<Module> module = Build(Programs().at(r.name));
    ASSERT_NE(module, nullptr);
    absl::StatusOr<std::string> bytes = SerializeHloModule(*module);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    absl::StatusOr<std::unique_ptr<Module>> again = ParseHloModuleProto(*bytes);
    if (!again.ok()) {
      ADD_FAILURE() << again.status();
      continue;
    }
    EXPECT_EQ((*again)->ToString(), module->ToString());
    EXPECT_EQ((*again)->Fingerprint(), module->Fingerprint());
  }
}

}  // namespace
}  // namespace backplane::rows
