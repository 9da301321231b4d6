// Control flow, calls, and the computations that regions become.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/chlo_functions.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/quantized.h"

namespace backplane::to_hlo {

namespace {

bool IsConstant(const SourceValue* v) {
  return v->op != nullptr && (v->op->name == "stablehlo.constant" || v->op->name == "stablehlo.iota");
}

// A lower bound of the length of an attribute as text. Its parts may be shared, so it may be much longer than the
// program.
int64_t MeasureText(const SourceAttr* a) {
  int64_t n = 1;
  if (a->kind != stablehlo::AttrKind::kDense) n += static_cast<int64_t>(a->text.size());
  for (const SourceAttr* e : a->elements) n += MeasureText(e);
  for (const stablehlo::SourceNamedAttr& e : a->entries)
    n += static_cast<int64_t>(e.name.size()) + MeasureText(e.value);
  return n;
}

absl::StatusOr<const SourceBlock*> OneBlock(const SourceRegion& region) {
  if (region.blocks.size() != 1) return absl::InvalidArgumentError("a region is empty");
  return &region.blocks[0];
}

}  // namespace

absl::StatusOr<Computation*> Importer::ImportClosedRegion(const SourceRegion& region, absl::string_view name) {
  ASSIGN_OR_RETURN(const SourceBlock* block, OneBlock(region));
  // One binary operation on two scalars, the usual case, is created once for the module.
  if (block->arguments.size() == 2 && block->ops.size() == 2 && block->ops[0]->operands.size() == 2 &&
      block->ops[0]->results.size() == 1 && block->ops[1]->operands.size() == 1 &&
      block->ops[1]->operands[0] == &block->ops[0]->results[0] && block->ops[0]->operands[0] == &block->arguments[0] &&
      block->ops[0]->operands[1] == &block->arguments[1] && !TouchesQuantized(*block->ops[0])) {
    absl::string_view op = block->ops[0]->name;
    static constexpr std::pair<const char*, Opcode> kCommon[] = {
        {"stablehlo.add", Opcode::kAdd},         {"stablehlo.maximum", Opcode::kMaximum},
        {"stablehlo.minimum", Opcode::kMinimum}, {"stablehlo.multiply", Opcode::kMultiply},
        {"stablehlo.and", Opcode::kAnd},         {"stablehlo.or", Opcode::kOr}};
    for (const auto& [text, opcode] : kCommon) {
      if (op != text) continue;
      ASSIGN_OR_RETURN(Shape a, ConvertType(block->arguments[0].type));
      ASSIGN_OR_RETURN(Shape b, ConvertType(block->arguments[1].type));
      if (a.IsScalar() && a == b) return MakeScalarBinaryComputation(module_.get(), opcode, a.element_type());
    }
  }
  Scope scope(module_.get(), name, &expansion_budget_);
  for (size_t i = 0; i < block->arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Shape shape, ConvertType(block->arguments[i].type));
    ASSIGN_OR_RETURN(Value v, scope.builder.Parameter(static_cast<int64_t>(i), shape));
    scope.values[&block->arguments[i]] = {v, -1};
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, *block));
  ASSIGN_OR_RETURN(Value root, Pack(scope, std::move(results)));
  return scope.builder.Build(root);
}

void Importer::CollectCaptures(const SourceBlock& block, absl::flat_hash_map<const SourceValue*, bool>* defined,
                               absl::flat_hash_map<const SourceValue*, bool>* seen,
                               std::vector<const SourceValue*>* out) {
  for (const SourceValue& a : block.arguments) (*defined)[&a] = true;
  for (const SourceOp* op : block.ops) {
    for (const SourceValue* v : op->operands) {
      if (defined->contains(v) || IsConstant(v)) continue;
      if (seen->emplace(v, true).second) out->push_back(v);
    }
    for (const SourceRegion& r : op->regions) {
      for (const SourceBlock& b : r.blocks) CollectCaptures(b, defined, seen, out);
    }
    for (const SourceValue& r : op->results) (*defined)[&r] = true;
  }
}

std::vector<const SourceValue*> Importer::Captures(absl::Span<const SourceRegion* const> regions) {
  absl::flat_hash_map<const SourceValue*, bool> defined, seen;
  std::vector<const SourceValue*> out;
  for (const SourceRegion* r : regions) {
    for (const SourceBlock& b : r->blocks) CollectCaptures(b, &defined, &seen, &out);
  }
  return out;
}

absl::StatusOr<Computation*> Importer::ImportPackedRegion(const SourceRegion& region, absl::string_view name,
                                                          const Shape& parameter,
                                                          const std::vector<const SourceValue*>& captures,
                                                          bool pass_on) {
  ASSIGN_OR_RETURN(const SourceBlock* block, OneBlock(region));
  Scope scope(module_.get(), name, &expansion_budget_);
  ASSIGN_OR_RETURN(Value packed, scope.builder.Parameter(0, parameter, "state"));
  size_t n = block->arguments.size() + captures.size();
  if (n != 1 && (!parameter.IsTuple() || parameter.tuple_size() != static_cast<int64_t>(n))) {
    return absl::InvalidArgumentError(
        absl::StrCat("region takes ", block->arguments.size(), " arguments, given ", parameter.ToString()));
  }
  for (size_t i = 0; i < n; ++i) {
    const SourceValue* v = i < block->arguments.size() ? &block->arguments[i] : captures[i - block->arguments.size()];
    scope.values[v] = {packed, n == 1 ? -1 : static_cast<int64_t>(i)};
    ASSIGN_OR_RETURN(Shape expected, ConvertType(v->type));
    const Shape& given = n == 1 ? parameter : parameter.tuple_shapes(static_cast<int64_t>(i));
    if (expected.element_type() != given.element_type() || expected.dimensions() != given.dimensions()) {
      return absl::InvalidArgumentError(
          absl::StrCat("region argument ", i, " is ", expected.ToString(), ", given ", given.ToString()));
    }
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, *block));
  if (pass_on) {
    for (const SourceValue* v : captures) {
      ASSIGN_OR_RETURN(Value value, Get(scope, v));
      results.push_back(value);
    }
  }
  ASSIGN_OR_RETURN(Value root, Pack(scope, std::move(results)));
  return scope.builder.Build(root);
}

absl::Status Importer::ImportWhile(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> state, Operands(scope, op));
  size_t n = state.size();
  if (op.results.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat(n, " operands, ", op.results.size(), " results"));
  }
  std::vector<const SourceValue*> captures = Captures({&op.regions[0], &op.regions[1]});
  for (const SourceValue* v : captures) {
    ASSIGN_OR_RETURN(Value value, Get(scope, v));
    state.push_back(value);
  }
  ASSIGN_OR_RETURN(Value init, Pack(scope, std::move(state)));
  ASSIGN_OR_RETURN(Computation * condition,
                   ImportPackedRegion(op.regions[0], "while_condition", init->shape(), captures, false));
  ASSIGN_OR_RETURN(Computation * body, ImportPackedRegion(op.regions[1], "while_body", init->shape(), captures, true));
  ASSIGN_OR_RETURN(Value loop, scope.builder.While(condition, body, init));
  RETURN_IF_ERROR(ApplyOpAttributes(op, loop));
  for (size_t i = 0; i < n; ++i) {
    RETURN_IF_ERROR(CheckResult(op, i, n + captures.size() == 1 ? loop->shape() : loop->shape().tuple_shapes(i)));
    scope.values[&op.results[i]] = {loop, n + captures.size() == 1 ? -1 : static_cast<int64_t>(i)};
  }
  return absl::OkStatus();
}

absl::Status Importer::ImportConditional(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value selector, Get(scope, op.operands[0]));
  std::vector<Computation*> branches;
  std::vector<Value> operands;
  for (const SourceRegion& region : op.regions) {
    std::vector<const SourceValue*> captures = Captures({&region});
    std::vector<Value> values;
    for (const SourceValue* v : captures) {
      ASSIGN_OR_RETURN(Value value, Get(scope, v));
      values.push_back(value);
    }
    ASSIGN_OR_RETURN(Value operand, Pack(scope, std::move(values)));
    ASSIGN_OR_RETURN(Computation * branch, ImportPackedRegion(region, "branch", operand->shape(), captures, false));
    branches.push_back(branch);
    operands.push_back(operand);
  }
  ASSIGN_OR_RETURN(Value result, scope.builder.Conditional(selector, std::move(branches), std::move(operands)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportCall(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(absl::string_view callee, GetText(op, "callee"));
  ASSIGN_OR_RETURN(Computation * c, ImportFunction(callee));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Value result, scope.builder.Call(c, std::move(operands)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportComposite(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(absl::string_view name, GetText(op, "name"));
  const SourceAttr* given = op.Find("composite_attributes");
  if (name == "chlo.top_k" && op.operands.size() == 1 && op.results.size() == 2) {
    const SourceAttr* k = given->Find("k");
    const SourceAttr* largest = given->Find("largest");
    if (k && k->kind == stablehlo::AttrKind::kInteger) {
      return ImportTopK(scope, op, k->integer,
                        largest == nullptr || largest->kind != stablehlo::AttrKind::kBool || largest->integer != 0);
    }
  }
  if ((name == "chlo.ragged_dot" && op.regions.empty()) || (name == "chlo.scan" && op.regions.size() == 1)) {
    SourceOp meant = op;
    meant.attributes = given->entries;
    return name == "chlo.scan" ? ImportScan(scope, meant) : ImportRaggedDot(scope, meant);
  }
  if ((name == "chlo.erf" || name == "chlo.cosh") && op.operands.size() == 1 && op.results.size() == 1) {
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
    ASSIGN_OR_RETURN(Value y, ExpandChloUnary(scope.builder, name.substr(5), x));
    return Bind(scope, op, y);
  }
  if (name == "xla.scaled_dot") {
    ASSIGN_OR_RETURN(bool done, ImportScaledDot(scope, op));
    if (done) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(absl::string_view decomposition, GetText(op, "decomposition"));
  ASSIGN_OR_RETURN(int64_t version, GetInt(op, "version"));
  ASSIGN_OR_RETURN(Computation * c, ImportFunction(decomposition));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  Attributes attrs;
  attrs.Set(AttrId::kIsComposite, true);
  attrs.Set(AttrId::kCompositeName, std::string(name));
  attribute_budget_ -= MeasureText(given);
  if (attribute_budget_ < 0) return absl::ResourceExhaustedError("the attributes of composites are too large");
  attrs.Set(AttrId::kCompositeAttributes, stablehlo::AttrToString(given));
  attrs.Set(AttrId::kCompositeVersion, version);
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(Opcode::kCall, std::move(operands), std::move(attrs), {c}));
  return Bind(scope, op, result);
}

// What runs asynchronously may as well run at once: the future holds the region's results.
absl::Status Importer::ImportAsyncStart(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(const SourceBlock* block, OneBlock(op.regions[0]));
  if (block->arguments.size() != op.operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(op.operands.size(), " operands, the region takes ", block->arguments.size()));
  }
  for (size_t i = 0; i < block->arguments.size(); ++i) {
    ASSIGN_OR_RETURN(Value v, Get(scope, op.operands[i]));
    scope.values[&block->arguments[i]] = {v, -1};
  }
  ASSIGN_OR_RETURN(std::vector<Value> results, ImportBlock(scope, *block));
  scope.futures[&op.results[0]] = std::move(results);
  return absl::OkStatus();
}

absl::Status Importer::ImportAsyncDone(Scope& scope, const SourceOp& op) {
  auto it = scope.futures.find(op.operands[0]);
  if (it == scope.futures.end()) return absl::InvalidArgumentError("the operand was not started here");
  return BindResults(scope, op, it->second);
}

}  // namespace backplane::to_hlo
