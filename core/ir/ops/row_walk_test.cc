#include "core/ir/ops/row_walk_test.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"

namespace backplane::rows {

Shape S(absl::string_view text) { return ParseShape(text).value(); }
Value C(Builder& b, absl::string_view shape, absl::string_view values) {
  return b.Constant(ParseLiteral(S(shape), values).value()).value();
}
Computation* Fn(Builder& b, const std::vector<const char*>& parameters,
                hlo::Result (*body)(Builder& b, const std::vector<Value>& p)) {
  Builder f(b.module(), "f");
  std::vector<Value> p;
  for (const char* s : parameters) p.push_back(f.Parameter(static_cast<int64_t>(p.size()), S(s)).value());
  return f.Build(body(f, p).value()).value();
}
Computation* AddFn(Builder& b, PrimitiveType type) {
  return MakeScalarBinaryComputation(b.module(), Opcode::kAdd, type).value();
}

namespace {

// Fields of a line; a field in quotes may hold commas.
std::vector<std::string> Fields(absl::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// ---- two replicas with the same operands, seen from replica 0 ----

Literal Counted(const Shape& shape) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& s : shape.tuple_shapes()) elements.push_back(Counted(s));
    return Literal::Tuple(std::move(elements));
  }
  Literal literal(shape);
  for (int64_t i = 0; i < literal.num_elements(); ++i) literal.SetFromInt(i, i + 1);
  return literal;
}

// Element at c of the result is `scale` times element at c of x, dimension `d` taken modulo x's.
Literal RepeatAlong(const Literal& x, const Shape& result, int64_t d, int64_t wrap, double scale) {
  Literal out(result.WithoutLayout());
  const DimVector to = RowMajorStrides(result.dimensions()), from = RowMajorStrides(x.shape().dimensions());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, at = 0;
    for (int64_t k = 0; k < result.rank(); ++k) {
      int64_t c = rest / to[k];
      rest %= to[k];
      if (k == d) c %= wrap;
      at += c * from[k];
    }
    out.SetFromDouble(i, scale * x.GetAsDouble(at));
  }
  return out;
}

absl::StatusOr<Literal> Collective(const Instruction& op, absl::Span<const Literal* const> operands) {
  if (op.Is(Opcode::kRecv) || op.Is(Opcode::kRecvDone)) return Counted(op.shape().tuple_shapes(0));
  if (op.Is(Opcode::kSend)) return Literal::Token();
  if (op.Is(Opcode::kRaggedAllToAll)) {
    Literal out = *operands[1];
    const int64_t from = operands[2]->GetAsInt(0), n = operands[3]->GetAsInt(0), to = operands[4]->GetAsInt(0);
    for (int64_t i = 0; i < n; ++i) out.SetFromDouble(to + i, operands[0]->GetAsDouble(from + i));
    return out;
  }
  const bool start = op.Is(Opcode::kAllGatherStart) || op.Is(Opcode::kCollectivePermuteStart);
  const Shape& shape = start ? op.shape().tuple_shapes(1) : op.shape();
  std::vector<Literal> results;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Literal& x = *operands[i];
    const Shape& result = shape.IsTuple() ? shape.tuple_shapes(static_cast<int64_t>(i)) : shape;
    const int64_t d = op.dimensions().empty() ? -1 : op.dimensions()[0];
    switch (op.opcode()) {
      case Opcode::kAllGather:
      case Opcode::kAllGatherStart:
        results.push_back(RepeatAlong(x, result, d, x.shape().dimensions(d), 1));
        break;
      case Opcode::kAllToAll:
        results.push_back(RepeatAlong(x, result, d, x.shape().dimensions(d) / 2, 1));
        break;
      case Opcode::kReduceScatter:
      case Opcode::kAllReduce:
      case Opcode::kAllReduceStart:
        results.push_back(RepeatAlong(x, result, -1, 1, 2));
        break;
      default:
        results.push_back(x);
    }
  }
  return results.size() == 1 ? std::move(results[0]) : Literal::Tuple(std::move(results));
}

absl::StatusOr<Literal> Transfer(const Instruction& op, absl::Span<const Literal* const>) {
  if (op.Is(Opcode::kInfeed) || op.Is(Opcode::kRecv)) return Counted(op.shape().tuple_shapes(0));
  return Literal::Token();
}

absl::StatusOr<Literal> Double(const Instruction& call, absl::Span<const Literal* const> operands) {
  if (call.custom_call_target() != "test.double") return absl::NotFoundError(call.custom_call_target());
  Literal out = *operands[0];
  for (int64_t i = 0; i < out.num_elements(); ++i) out.SetFromDouble(i, 2 * operands[0]->GetAsDouble(i));
  return out;
}

void ExpectClose(const Literal& got, const Literal& want, double tolerance) {
  if (want.shape().IsTuple()) {
    ASSERT_EQ(got.elements().size(), want.elements().size());
    for (size_t i = 0; i < want.elements().size(); ++i) ExpectClose(got.elements()[i], want.elements()[i], tolerance);
    return;
  }
  if (tolerance == 0) {
    EXPECT_EQ(got.ToString(), want.ToString());
    return;
  }
  ASSERT_EQ(got.num_elements(), want.num_elements());
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double w = want.GetAsDouble(i);
    EXPECT_NEAR(got.GetAsDouble(i), w, tolerance * std::max(std::abs(w), tolerance));
  }
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

namespace {

// Four values in the domain of every function.
Value Sample(Builder& b, OperandTypes types) {
  return Includes(types, PrimitiveType::kF32) ? C(b, "f32[4]", "{0.25, 1, 2, 0.5}") : C(b, "s32[4]", "{1, 2, 3, 5}");
}

}  // namespace

std::vector<RowProgram> TableRows() {
  return {
#define OP_UNARY(e, text, types, stablehlo, since, builder)                                             \
  RowProgram{#builder, nullptr,                                                                         \
             [](Builder& b) -> hlo::Result { return hlo::builder(b, Sample(b, OperandTypes::types)); }, \
             #builder "(b"},
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder)               \
  OP_UNARY(e, text, types, stablehlo, since, builder)                                        \
  RowProgram{#builder " (result_accuracy)", nullptr,                                         \
             [](Builder& b) -> hlo::Result {                                                 \
               return hlo::builder(b, Sample(b, OperandTypes::types),                        \
                                   ResultAccuracy{ResultAccuracy::Mode::kHighest, 0, 0, 0}); \
             },                                                                              \
             #builder "(b"},
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder)                                   \
  RowProgram{#builder, nullptr,                                                                        \
             [](Builder& b) -> hlo::Result {                                                           \
               return hlo::builder(b, Sample(b, OperandTypes::types), Sample(b, OperandTypes::types)); \
             },                                                                                        \
             #builder "(b"},
#include "core/ops/op_table.def"
  };
}

const std::vector<Row>& Rows() {
  static const auto* rows = [] {
    auto* all = new std::vector<Row>();
    const std::string text = ReadFile(BACKPLANE_SOURCE_DIR "/conformance/ops.csv");
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> f = Fields(line);
      if (f.size() == 6 && f[0] != "row") all->push_back({f[0], f[1], f[2], f[3], f[5]});
    }
    std::set<std::string> listed;
    for (const Row& r : *all) listed.insert(r.name);
    for (const RowProgram& p : TableRows()) {
      if (listed.contains(p.row)) continue;
      std::unique_ptr<Module> module = Build(p);
      const OpInfo& info = module->entry()->root()->info();
      const std::string name = p.row;
      all->push_back({name, name.substr(0, name.find(' ')), info.text, info.stablehlo, ""});
    }
    return all;
  }();
  return *rows;
}

const std::map<std::string, RowProgram>& Programs() {
  static const auto* programs = [] {
    auto* all = new std::map<std::string, RowProgram>();
    // Of two programs for one row the first counts.
    for (const auto& list : {ElementwiseRows(), ShapeRows(), ComputeRows(), DeviceRows(), TableRows()}) {
      for (const RowProgram& p : list) all->emplace(p.row, p);
    }
    return all;
  }();
  return *programs;
}

std::unique_ptr<Module> Build(const RowProgram& program) {
  auto module = std::make_unique<Module>("row");
  Builder b(module.get(), "main");
  hlo::Result root = program.make(b);
  EXPECT_TRUE(root.ok()) << root.status();
  if (!root.ok()) return nullptr;
  absl::StatusOr<Computation*> entry = b.Build(*root);
  EXPECT_TRUE(entry.ok()) << entry.status();
  if (!entry.ok()) return nullptr;
  module->set_entry(*entry);
  module->config().num_replicas = 2;
  return module;
}

absl::StatusOr<Literal> RunRow(const Module& module) {
  EvaluatorHooks hooks;
  hooks.collective = Collective;
  hooks.transfer = Transfer;
  hooks.custom_call = Double;
  std::vector<Literal> arguments;
  for (const Instruction* p : module.entry()->parameters()) arguments.push_back(Counted(p->shape()));
  return Evaluate(module, arguments, hooks);
}

// The value is what the row's line says.
void ExpectValue(const RowProgram& program, const Literal& got) {
  if (program.expected == nullptr) {
    std::unique_ptr<Module> module = Build(program);
    ASSERT_NE(module, nullptr);
    absl::StatusOr<Literal> want = RunRow(*module);
    ASSERT_TRUE(want.ok()) << want.status();
    ExpectClose(got, *want, 0);
    return;
  }
  absl::string_view text = program.expected;
  double tolerance = 0;
  if (absl::ConsumePrefix(&text, "~")) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
    ASSERT_TRUE(absl::SimpleAtod(parts.first, &tolerance));
    text = parts.second;
  }
  absl::StatusOr<Literal> want = ParseLiteral(got.shape(), text);
  ASSERT_TRUE(want.ok()) << want.status() << " for " << got.ToString();
  ExpectClose(got, *want, tolerance);
}

}  // namespace backplane::rows
