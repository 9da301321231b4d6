// Bounds of loops, branches, maps and scans, through the computations that they run.
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

// The generator makes no loop with more iterations.
constexpr int kMaxIterations = 10000;

absl::StatusOr<BoundedValue> BoundWhile(const Instruction& i, const BoundedValue& init) {
  BoundedValue state = init;
  for (int iteration = 0; iteration < kMaxIterations; ++iteration) {
    ASSIGN_OR_RETURN(const BoundedValue go, BoundComputation(*i.called(0), absl::MakeConstSpan(&state, 1)));
    if (!go.exact()) return MakeBoundedValue(state.ToLiteral(), false);
    if (go.value.GetAsInt(0) == 0) return state;
    ASSIGN_OR_RETURN(state, BoundComputation(*i.called(1), absl::MakeConstSpan(&state, 1)));
  }
  return absl::InvalidArgumentError("a loop does not end");
}

absl::StatusOr<BoundedValue> BoundConditional(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  const BoundedValue& selector = *ops[0];
  const int64_t branches = static_cast<int64_t>(i.called().size());
  int64_t taken;
  if (selector.value.shape().element_type() == PrimitiveType::kPred) {
    taken = selector.value.GetAsInt(0) != 0 ? 0 : 1;
  } else {
    taken = selector.value.GetAsInt(0);
    if (taken < 0 || taken >= branches) taken = branches - 1;
  }
  ASSIGN_OR_RETURN(BoundedValue result, BoundComputation(*i.called(taken), absl::MakeConstSpan(ops[taken + 1], 1)));
  return selector.exact() ? result : MakeBoundedValue(result.ToLiteral(), false);
}

// Converts a computation on scalars to one on arrays, so that its bounds are computed for all elements at once.
absl::StatusOr<BoundedValue> BoundMap(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  const Computation& body = *i.called(0);
  const absl::Span<const int64_t> dims = ops[0]->value.shape().dimensions();
  Module module("map");
  Builder b(&module, "main");
  absl::flat_hash_map<const Instruction*, Value> made;
  for (const auto& from : body.instructions()) {
    const Shape shape(from->shape().element_type(), dims);
    Value v = nullptr;
    if (from->Is(Opcode::kParameter)) {
      ASSIGN_OR_RETURN(v, b.Parameter(from->parameter_number(), shape));
    } else if (from->Is(Opcode::kConstant)) {
      ASSIGN_OR_RETURN(const Value c, b.Constant(from->literal()));
      ASSIGN_OR_RETURN(v, b.BroadcastInDim(c, dims, {}));
    } else if (from->info().Has(kElementwise)) {
      std::vector<Value> operands;
      for (const Instruction* o : from->operands()) operands.push_back(made.at(o));
      ASSIGN_OR_RETURN(
          v, b.Op(from->opcode(), operands, from->attrs(), {}, from->info().Has(kDeclared) ? shape : Shape()));
    } else {
      return absl::UnimplementedError("map: the body is more than elementwise");
    }
    made[from.get()] = v;
  }
  ASSIGN_OR_RETURN(Computation * over_arrays, b.Build(made.at(body.root())));
  std::vector<BoundedValue> arguments;
  for (const BoundedValue* j : ops) arguments.push_back(*j);
  return BoundComputation(*over_arrays, arguments);
}

// Slice by slice along the dimension, as in the definition.
absl::StatusOr<BoundedValue> BoundScan(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  ASSIGN_OR_RETURN(const Literal value, EvaluateValue(i, ops));
  if (AllExact(ops)) {
    bool whole = true;
    for (const BoundedValue* j : ops) whole = whole && !IsFloat(ComplexPart(j->value.shape().element_type()));
    if (whole) return MakeBoundedValue(value, true);
  }
  const Computation& body = *i.called(0);
  const int64_t carries = i.attrs().GetInt(AttrId::kNumCarries), inputs = i.operand_count() - carries;
  const int64_t d = i.dimensions()[0], n = ops[0]->value.shape().dimensions(d);
  std::vector<BoundedValue> carry;
  for (int64_t k = inputs; k < i.operand_count(); ++k) carry.push_back(*ops[static_cast<size_t>(k)]);
  const int64_t outputs = i.shape().tuple_size() - carries;
  BoundedValue all = MakeBoundedValue(value, true);
  for (int64_t k = 0; k < outputs; ++k) {
    BoundedValue& out = all.elements[static_cast<size_t>(k)];
    out.seen = out.used = Zeros(out.value.shape());
  }
  for (int64_t iteration = 0; iteration < n; ++iteration) {
    const int64_t at = i.attrs().GetBool(AttrId::kIsReverse) ? n - 1 - iteration : iteration;
    std::vector<BoundedValue> arguments;
    for (int64_t k = 0; k < inputs; ++k) {
      const Shape& shape = ops[static_cast<size_t>(k)]->value.shape();
      Module module("slice");
      Builder b(&module, "main");
      ASSIGN_OR_RETURN(const Value p, b.Parameter(0, shape));
      SliceConfig slices;
      Ints rest;
      for (int64_t e = 0; e < shape.rank(); ++e) {
        slices.push_back(e == d ? SliceDimension{at, at + 1, 1} : SliceDimension{0, shape.dimensions(e), 1});
        if (e != d) rest.push_back(shape.dimensions(e));
      }
      ASSIGN_OR_RETURN(const Value s, b.Slice(p, slices));
      ASSIGN_OR_RETURN(const Value r, b.Reshape(s, rest));
      ASSIGN_OR_RETURN(Computation * take, b.Build(r));
      ASSIGN_OR_RETURN(BoundedValue slice,
                       BoundComputation(*take, absl::MakeConstSpan(ops[static_cast<size_t>(k)], 1)));
      arguments.push_back(std::move(slice));
    }
    for (const BoundedValue& c : carry) arguments.push_back(c);
    ASSIGN_OR_RETURN(const BoundedValue step, BoundComputation(body, arguments));
    for (int64_t k = 0; k < outputs; ++k) {
      BoundedValue& out = all.elements[static_cast<size_t>(k)];
      const BoundedValue& part = step.elements[static_cast<size_t>(k)];
      const int64_t count = part.value.num_elements();
      int64_t inner = 1;
      const Shape& shape = out.value.shape();
      for (int64_t e = d + 1; e < shape.rank(); ++e) inner *= shape.dimensions(e);
      for (int64_t m = 0; m < count; ++m) {
        const int64_t to = (m / inner * n + at) * inner + m % inner;
        out.seen.mutable_data<double>()[static_cast<size_t>(to)] = BoundAt(part.seen, m);
        out.used.mutable_data<double>()[static_cast<size_t>(to)] = BoundAt(part.used, m);
      }
    }
    carry.assign(step.elements.begin() + outputs, step.elements.end());
  }
  for (int64_t k = 0; k < carries; ++k) all.elements[static_cast<size_t>(outputs + k)] = carry[static_cast<size_t>(k)];
  // An implementation may also add in another order (a tree): twice the bound, and not 0 if something was rounded.
  for (BoundedValue& j : all.elements) {
    for (Literal BoundedValue::*bound : {&BoundedValue::seen, &BoundedValue::used}) {
      if (!(j.used.valid())) continue;
      Literal wide = j.used;
      for (double& e : wide.mutable_data<double>()) e *= 4;
      j.*bound = std::move(wide);
      Drop(j.*bound);
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<BoundedValue> BoundControl(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  switch (i.opcode()) {
    case Opcode::kMap:
      return BoundMap(i, ops);
    case Opcode::kScan:
      return BoundScan(i, ops);
    case Opcode::kWhile:
      return BoundWhile(i, *ops[0]);
    case Opcode::kConditional:
      return BoundConditional(i, ops);
    default: {  // calls and fusions
      std::vector<BoundedValue> arguments;
      for (const BoundedValue* o : ops) arguments.push_back(*o);
      return BoundComputation(*i.called(0), arguments);
    }
  }
}

}  // namespace backplane::cli::fuzz
