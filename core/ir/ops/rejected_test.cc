// What breaks a rule is refused with the rule's label: HLO text from core/ops/families/testdata/rejected, calls of the
// named builder functions from the table below, and the rules that all operations share. And every label that stands in
// the sources has such a case.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/ir/ops/rejected_calls_test.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"

namespace backplane::rows {
namespace {

namespace fs = std::filesystem;
const char kFamilies[] = BACKPLANE_SOURCE_DIR "/core/ops/families";

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> Files(const fs::path& folder, absl::string_view extension) {
  std::vector<fs::path> files;
  for (const auto& f : fs::directory_iterator(folder)) {
    if (f.path().extension() == std::string(extension)) files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Case {
  std::string label, program;
};

// "dynamic-slice" of label dynamic_slice_c2.
std::string OpOf(absl::string_view label) {
  return absl::StrReplaceAll(label.substr(0, label.rfind('_')), {{"_", "-"}});
}

// What the line of an elementwise operation without attributes forbids: other element types [i1], and two operands that
// differ in type or dimensions [c1].
void AddElementwiseCases(std::vector<Case>* all) {
  const std::pair<PrimitiveType, const char*> kValues[] = {{PrimitiveType::kPred, "1"},
                                                           {PrimitiveType::kS32, "1"},
                                                           {PrimitiveType::kBF16, "1"},
                                                           {PrimitiveType::kF32, "1"},
                                                           {PrimitiveType::kC64, "(1, 0)"}};
  for (const OpInfo& info : Operations()) {
    if (!info.operand_types) continue;
    const std::string prefix = absl::StrReplaceAll(info.text, {{"-", "_"}});
    auto add = [&](absl::string_view rule, absl::string_view program) {
      all->push_back({absl::StrCat(prefix, rule), absl::StrCat("HloModule test\nENTRY main {\n", program, "}\n")});
    };
    for (const auto& [type, value] : kValues) {
      const std::string x = absl::StrCat("x = ", Name(type), "[1] constant({", value, "})\n");
      const std::string end = absl::StrCat("ROOT r = ", info.text, info.arity == 1 ? "(x)\n" : "(x, y)\n");
      if (!Includes(*info.operand_types, type)) {
        add("_i1", absl::StrCat(x, "y = ", Name(type), "[1] constant({", value, "})\n", end));
      } else if (info.arity == 2) {
        add("_c1", absl::StrCat(x, "y = ", Name(type), "[2] constant({", value, ", ", value, "})\n", end));
        add("_c1", absl::StrCat(x, "y = u8[1] constant({1})\n", end));
      }
    }
  }
}

const std::vector<Case>& Cases() {
  static const auto* cases = [] {
    auto* all = new std::vector<Case>();
    const std::string prelude = ReadFile(fs::path(kFamilies) / "testdata/rejected/prelude.txt");
    std::string shared;
    for (absl::string_view line : absl::StrSplit(prelude, '\n')) {
      if (!absl::StartsWith(line, "#")) absl::StrAppend(&shared, line, "\n");
    }
    for (const fs::path& file : Files(fs::path(kFamilies) / "testdata/rejected", ".txt")) {
      if (file.filename() == "prelude.txt" || file.filename() == "unreachable.txt") continue;
      std::vector<std::string> labels;
      std::string computations, body;
      auto finish = [&] {
        for (const std::string& label : labels) {
          const std::string text =
              absl::StrCat("HloModule test\n", shared, computations, "ENTRY main {\n", body, "}\n");
          all->push_back({label, absl::StrReplaceAll(text, {{"$op", OpOf(label)}})});
        }
        computations.clear();
        body.clear();
      };
      const std::string text = ReadFile(file);
      for (absl::string_view line : absl::StrSplit(text, '\n')) {
        if (line.empty() || line[0] == '#') continue;
        if (absl::StartsWith(line, "== ")) {
          finish();
          labels = absl::StrSplit(line.substr(3), ' ', absl::SkipEmpty());
        } else if (line == "ENTRY") {
          computations = std::move(body);
          body.clear();
        } else {
          absl::StrAppend(&body, line, "\n");
        }
      }
      finish();
    }
    AddElementwiseCases(all);
    return all;
  }();
  return *cases;
}

void ExpectRefused(const absl::Status& status, absl::string_view label) {
  if (status.ok()) {
    ADD_FAILURE() << "accepted";
    return;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::EndsWith(status.message(), absl::StrCat("[", label, "]"))) << status;
}

TEST(Rejected, HloText) {
  ASSERT_GT(Cases().size(), 400u);
  for (const Case& c : Cases()) {
    SCOPED_TRACE(absl::StrCat(c.label, "\n", c.program));
    ExpectRefused(ParseHloModule(c.program).status(), c.label);
  }
}

TEST(Rejected, BuilderCalls) {
  for (const RejectedCall& c : RejectedCalls()) {
    SCOPED_TRACE(c.label);
    Module module("m");
    Builder b(&module, "main");
    ExpectRefused(c.make(b).status(), c.label);
  }
}

// ---- rules of all operations ----

std::string LabelOf(Opcode opcode, absl::string_view rule) {
  return absl::StrCat(absl::StrReplaceAll(OpName(opcode), {{"-", "_"}}), "_", rule);
}

std::vector<Opcode> AllOpcodes() {
  std::vector<Opcode> all;
  for (const OpInfo& info : Operations()) all.push_back(info.opcode);
  return all;
}

// Operations whose operands may be anything, tuples and tokens too.
bool TakesAnything(Opcode o) {
  switch (o) {
    case Opcode::kSelect:
    case Opcode::kCopy:
    case Opcode::kAddDependency:
    case Opcode::kAfterAll:
    case Opcode::kCall:
    case Opcode::kConditional:
    case Opcode::kDomain:
    case Opcode::kFusion:
    case Opcode::kOptimizationBarrier:
    case Opcode::kWhile:
    case Opcode::kGetTupleElement:
    case Opcode::kTuple:
    case Opcode::kCustomCall:
    case Opcode::kAllReduce:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kAllReduceStart:
    case Opcode::kAllReduceDone:
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
    case Opcode::kCopyStart:
    case Opcode::kCopyDone:
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
    case Opcode::kSend:
    case Opcode::kSendDone:
      return true;
    default:
      return false;
  }
}

class General : public testing::Test {
 protected:
  General() { op_.attrs = &attrs_; }
  // The operation with `n` operands of one shape and `called` computations of no parameters.
  absl::Status Try(Opcode opcode, int n, int called = 0) {
    operands_.assign(static_cast<size_t>(n), &shape_);
    ProgramShape none;
    none.result = shape_;
    called_.assign(static_cast<size_t>(called), none);
    op_.opcode = opcode;
    op_.operands = operands_;
    op_.called = called_;
    return InferShape(op_).status();
  }
  Shape shape_ = Shape(PrimitiveType::kF32, {2});
  Attributes attrs_;
  std::vector<const Shape*> operands_;
  std::vector<ProgramShape> called_;
  OpContext op_;
};

TEST_F(General, NumberOfOperands) {
  for (Opcode o : AllOpcodes()) {
    if (Info(o).arity < 0) continue;
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, Info(o).arity + 1), LabelOf(o, "arity"));
  }
}

TEST_F(General, NoOperand) {
  for (Opcode o : {Opcode::kAllGather, Opcode::kReduceScatter, Opcode::kAllReduce, Opcode::kCollectiveBroadcast,
                   Opcode::kCollectivePermute, Opcode::kAllGatherStart, Opcode::kAllReduceStart,
                   Opcode::kCollectivePermuteStart}) {
    SCOPED_TRACE(OpName(o));
    op_.declared = &shape_;
    ExpectRefused(Try(o, 0, Info(o).Has(kHasCalled) ? 1 : 0), LabelOf(o, "arity"));
  }
}

TEST_F(General, Attributes) {
  for (Opcode o : AllOpcodes()) {
    SCOPED_TRACE(OpName(o));
    const std::vector<AttrId>& own = Info(o).attributes;
    attrs_ = Attributes();
    const AttrId other =
        std::find(own.begin(), own.end(), AttrId::kResultType) == own.end() ? AttrId::kResultType : AttrId::kBlockSize;
    attrs_.Set(other, PrimitiveType::kF32);
    ExpectRefused(Try(o, std::max(Info(o).arity, 0)), LabelOf(o, "attributes"));
    if (own.empty()) continue;
    attrs_ = Attributes();
    attrs_.Set(own[0], PrimitiveType::kF32);  // of no kind that an operation has
    ExpectRefused(Try(o, std::max(Info(o).arity, 0)), LabelOf(o, "attributes"));
  }
}

TEST_F(General, CalledComputations) {
  for (Opcode o : AllOpcodes()) {
    SCOPED_TRACE(OpName(o));
    const int n = std::max(Info(o).arity, 0);
    if (o == Opcode::kCustomCall || o == Opcode::kConditional) continue;  // any number, each with rules of its own
    if (!Info(o).Has(kHasCalled)) {
      ExpectRefused(Try(o, n, 1), LabelOf(o, "called"));
    } else {
      Shape start = Shape::Tuple({shape_, shape_});
      op_.declared = &start;
      ExpectRefused(Try(o, std::max(n, 1), 3), LabelOf(o, "called"));
      op_.declared = nullptr;
    }
  }
}

TEST_F(General, DeclaredShapes) {
  const Shape negative(PrimitiveType::kF32, {-1});
  const Shape huge(PrimitiveType::kF64, {int64_t{1} << 40, int64_t{1} << 40});
  for (Opcode o : AllOpcodes()) {
    SCOPED_TRACE(OpName(o));
    for (const Shape* s : {&negative, &huge}) {
      op_.declared = s;
      ExpectRefused(Try(o, std::max(Info(o).arity, 0)), LabelOf(o, "shape"));
    }
  }
}

// What must be declared, and is no array where it has to be one.
TEST_F(General, ResultsToDeclare) {
  const Shape token = Shape::Token();
  for (Opcode o : {Opcode::kBitcast, Opcode::kBitcastConvert, Opcode::kConvert, Opcode::kIota, Opcode::kBroadcast,
                   Opcode::kReshape, Opcode::kDynamicReshape, Opcode::kRng}) {
    SCOPED_TRACE(OpName(o));
    op_.declared = nullptr;
    ExpectRefused(Try(o, std::max(Info(o).arity, 0)), LabelOf(o, "declared"));
    op_.declared = &token;
    ExpectRefused(Try(o, std::max(Info(o).arity, 0)), LabelOf(o, "declared"));
  }
  op_.declared = nullptr;
  for (Opcode o : {Opcode::kRngGetAndUpdateState, Opcode::kAllGather, Opcode::kAllToAll, Opcode::kAllGatherStart,
                   Opcode::kCollectivePermuteStart, Opcode::kAllReduceStart, Opcode::kCopyStart, Opcode::kCustomCall}) {
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, std::max(Info(o).arity, 0), Info(o).Has(kHasCalled) ? 1 : 0), LabelOf(o, "declared"));
  }
  shape_ = Shape::Token();
  for (Opcode o : {Opcode::kInfeed, Opcode::kRecv}) {
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, 1), LabelOf(o, "declared"));
  }
}

TEST_F(General, OperandsThatAreNoArrays) {
  shape_ = Shape::Tuple({Shape(PrimitiveType::kF32, {2})});
  const Shape declared(PrimitiveType::kF32, {2});
  for (Opcode o : AllOpcodes()) {
    if (Info(o).arity == 0 || TakesAnything(o)) continue;
    SCOPED_TRACE(OpName(o));
    op_.declared = &declared;
    const Shape gathered = Shape::Tuple({shape_, shape_});
    if (o == Opcode::kAllGatherStart) op_.declared = &gathered;
    ExpectRefused(Try(o, Info(o).arity < 0 ? 1 : Info(o).arity, Info(o).Has(kHasCalled) ? 1 : 0),
                  LabelOf(o, "operand"));
  }
}

TEST_F(General, DeclaredResultOfAnotherShape) {
  const Shape other(PrimitiveType::kF32, {3});
  op_.declared = &other;
  for (Opcode o : {Opcode::kTanh, Opcode::kAdd, Opcode::kCopy, Opcode::kReplicaId, Opcode::kPartitionId,
                   Opcode::kAfterAll, Opcode::kTuple, Opcode::kOptimizationBarrier, Opcode::kDomain}) {
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, Info(o).arity < 0 ? 0 : Info(o).arity), LabelOf(o, "result"));
  }
}

// Where a start's or done's shape has to be a tuple.
TEST_F(General, ShapesOfHalves) {
  op_.declared = &shape_;
  for (Opcode o : {Opcode::kAllGatherStart, Opcode::kCollectivePermuteStart, Opcode::kCopyStart}) {
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, 1), LabelOf(o, "result"));
  }
  for (Opcode o : {Opcode::kAllGatherDone, Opcode::kCollectivePermuteDone, Opcode::kAsyncDone, Opcode::kCopyDone,
                   Opcode::kAsyncUpdate}) {
    SCOPED_TRACE(OpName(o));
    ExpectRefused(Try(o, 1), LabelOf(o, "result"));
  }
}

// ---- labels and cases ----

std::set<std::string> Matches(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (auto i = std::sregex_iterator(text.begin(), text.end(), regex); i != std::sregex_iterator(); ++i) {
    found.insert((*i)[1].str());
  }
  return found;
}

std::map<std::string, std::vector<std::string>> OperationsByFile() {
  std::map<std::string, std::vector<std::string>> map;
  auto file = [](std::string family) {  // LinearAlgebra -> linear_algebra
    std::string name;
    for (char c : family) {
      if (absl::ascii_isupper(c) && !name.empty()) name += '_';
      name += absl::ascii_tolower(c);
    }
    return name;
  };
#define OP(e, text, arity, family, traits, stablehlo, ...) \
  map[file(#family)].push_back(absl::StrReplaceAll(text, {{"-", "_"}}));
#include "core/ops/op_table.def"
  return map;
}

const std::set<std::string>& SharedRules() {  // those of the tests above
  static const auto* rules =
      new std::set<std::string>{"arity", "attributes", "called", "declared", "operand", "result", "shape"};
  return *rules;
}

// Each label that the sources can write, with the file that has it.
std::map<std::string, std::string> LabelsOfSources() {
  std::map<std::string, std::string> labels;
  const auto operations = OperationsByFile();
  std::set<std::string> any_type;  // operations that no element type breaks
  for (const OpInfo& info : Operations()) {
    if (info.operand_types == OperandTypes::kAny) any_type.insert(absl::StrReplaceAll(info.text, {{"-", "_"}}));
  }
  std::vector<fs::path> files = Files(kFamilies, ".cc");
  for (const fs::path& f : Files(BACKPLANE_SOURCE_DIR "/core/ir/ops", ".cc")) files.push_back(f);
  files.push_back(BACKPLANE_SOURCE_DIR "/core/ops/result_accuracy.cc");
  files.push_back(BACKPLANE_SOURCE_DIR "/core/ir/verifier.cc");
  for (const fs::path& f : files) {
    if (absl::EndsWith(f.string(), "_test.cc") || absl::EndsWith(f.string(), "_eval.cc")) continue;
    const std::string text = ReadFile(f), stem = f.stem().string();
    std::set<std::string> found = Matches(text, "\"([a-z][a-z0-9_]*_[cie][0-9]+)\"");
    // The second argument of Fail, whatever its form.
    found.merge(Matches(text, "Fail\\([A-Za-z:]+,\\s*\"([a-z_0-9]+)\""));
    found.merge(Matches(text, "\"([a-z_]+_groups)\""));
    found.merge(Matches(text, "\"([a-z_]+_precision)\""));
    found.merge(Matches(text, "\"([a-z_]+_algorithm)\""));
    found.merge(Matches(text, "Bad\\(c, &i, \"([a-z]+_pair)\""));
    if (auto ops = operations.find(stem); ops != operations.end()) {
      for (const std::string& rule : Matches(text, "Label\\(op, \"([a-z0-9_]+)\"\\)")) {
        if (SharedRules().contains(rule)) continue;
        for (const std::string& op : ops->second) {
          if (rule != "i1" || !any_type.contains(op)) found.insert(absl::StrCat(op, "_", rule));
        }
      }
    }
    for (const std::string& label : found) labels.emplace(label, f.filename().string());
  }
  labels.erase("operand");  // of a value that is of no computation, and of computations likewise: tested as calls
  labels.erase("called");
  return labels;
}

TEST(Rejected, EveryLabelHasACase) {
  std::set<std::string> cases;
  for (const Case& c : Cases()) cases.insert(c.label);
  for (const RejectedCall& c : RejectedCalls()) cases.insert(c.label);
  std::map<std::string, std::string> unreachable;
  const std::string list = ReadFile(fs::path(kFamilies) / "testdata/rejected/unreachable.txt");
  for (absl::string_view line : absl::StrSplit(list, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    EXPECT_FALSE(parts.second.empty()) << line << ": no reason";
    for (absl::string_view label : absl::StrSplit(parts.first, ' ')) unreachable.emplace(label, parts.second);
  }
  const std::map<std::string, std::string> labels = LabelsOfSources();
  EXPECT_GT(labels.size(), 330u);
  for (const auto& [label, file] : labels) {
    EXPECT_TRUE(cases.contains(label) != unreachable.contains(label))
        << label << " of " << file << (cases.contains(label) ? " is unreachable, but has a case" : " has no case");
  }
  for (const auto& [label, reason] : unreachable) EXPECT_TRUE(labels.contains(label)) << label << " stands nowhere";
  for (const std::string& label : cases) {
    const bool shared =
        SharedRules().contains(label.substr(label.rfind('_') + 1)) || label == "operand" || label == "called";
    EXPECT_TRUE(labels.contains(label) || shared || label == "parameter_i1") << label << " stands in no source";
  }
}

}  // namespace
}  // namespace backplane::rows
