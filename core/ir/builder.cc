#include "core/ir/builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/ir/ops/broadcasting.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Bad(absl::string_view what, absl::string_view text, absl::string_view label) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", text, " [", label, "]"));
}

Ints AsInts(absl::Span<const int64_t> s) { return Ints(s.begin(), s.end()); }

// Checks the operand before its shape is read. AddChecked repeats the check, but later.
absl::Status CheckValue(Value x, absl::string_view what) {
  return x != nullptr ? absl::OkStatus() : Bad(what, "an operand is missing", "operand");
}

}  // namespace

Builder::Builder(Module* module, std::string computation_name)
    : module_(module), computation_(module->AddComputation(std::move(computation_name))) {}

absl::StatusOr<Value> Builder::Op(Opcode opcode, std::vector<Value> operands, Attributes attrs,
                                  std::vector<Computation*> called, Shape declared) {
  InstructionSpec spec;
  spec.opcode = opcode;
  spec.shape = std::move(declared);
  spec.operands = std::move(operands);
  spec.attrs = std::move(attrs);
  spec.called = std::move(called);
  spec.metadata = metadata_;
  ASSIGN_OR_RETURN(Instruction * i, computation_->AddChecked(std::move(spec)));
  i->set_sharding(sharding_);
  i->mutable_frontend_attributes() = frontend_;
  if (budget_ != nullptr) RETURN_IF_ERROR(budget_->Spend(MeasureBytes(*i)));
  return i;
}

absl::StatusOr<Value> Builder::Parameter(int64_t number, const Shape& shape, std::string name) {
  InstructionSpec spec;
  spec.opcode = Opcode::kParameter;
  spec.shape = shape;
  spec.attrs.Set(AttrId::kParameterNumber, number);
  spec.name = std::move(name);
  spec.metadata = metadata_;
  ASSIGN_OR_RETURN(Instruction * i, computation_->AddChecked(std::move(spec)));
  i->set_sharding(sharding_);
  i->mutable_frontend_attributes() = frontend_;
  if (budget_ != nullptr) RETURN_IF_ERROR(budget_->Spend(MeasureBytes(*i)));
  return i;
}

absl::StatusOr<Value> Builder::Constant(Literal literal) {
  if (budget_ != nullptr) RETURN_IF_ERROR(budget_->Spend(literal.byte_size()));
  return Constant(std::make_shared<const Literal>(std::move(literal)));
}

absl::StatusOr<Value> Builder::Constant(std::shared_ptr<const Literal> literal) {
  InstructionSpec spec;
  spec.opcode = Opcode::kConstant;
  spec.shape = literal->shape();
  spec.literal = std::move(literal);
  spec.metadata = metadata_;
  ASSIGN_OR_RETURN(Instruction * i, computation_->AddChecked(std::move(spec)));
  i->set_sharding(sharding_);
  if (budget_ != nullptr) RETURN_IF_ERROR(budget_->Spend(MeasureBytes(*i)));
  return i;
}

absl::StatusOr<Value> Builder::Scalar(PrimitiveType type, double value) {
  return Constant(Literal::Scalar(type, value));
}

absl::StatusOr<Value> Builder::Iota(const Shape& shape, int64_t dimension) {
  Attributes attrs;
  attrs.Set(AttrId::kIotaDimension, dimension);
  return Op(Opcode::kIota, {}, std::move(attrs), {}, shape);
}

absl::StatusOr<Value> Builder::BinaryBroadcast(Opcode opcode, Value lhs, Value rhs,
                                               absl::Span<const int64_t> broadcast_dimensions) {
  RETURN_IF_ERROR(hlo::BroadcastOperands(*this, opcode, &lhs, &rhs, broadcast_dimensions));
  return Op(opcode, {lhs, rhs});
}

absl::StatusOr<Value> Builder::Compare(Value lhs, Value rhs, ComparisonDirection direction,
                                       std::optional<ComparisonType> type) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kDirection, direction);
  if (type) attrs.SetEnum(AttrId::kComparisonType, *type);
  return Op(Opcode::kCompare, {lhs, rhs}, std::move(attrs));
}

absl::StatusOr<Value> Builder::Convert(Value x, PrimitiveType to) {
  RETURN_IF_ERROR(CheckValue(x, "convert"));
  return Op(Opcode::kConvert, {x}, {}, {}, x->shape().WithElementType(to).WithoutLayout());
}

absl::StatusOr<Value> Builder::BroadcastInDim(Value x, absl::Span<const int64_t> result_dims,
                                              absl::Span<const int64_t> broadcast_dimensions) {
  RETURN_IF_ERROR(CheckValue(x, "broadcast"));
  const Shape& s = x->shape();
  if (static_cast<int64_t>(broadcast_dimensions.size()) != s.rank()) {
    return Bad("broadcast", absl::StrCat("broadcast_dimensions must have one entry for each dim of ", s.ToString()),
               "broadcast_c2");
  }
  const int64_t rank = static_cast<int64_t>(result_dims.size());
  bool identity = s.rank() == rank;
  DimVector kept;
  Ints dims;
  for (int64_t i = 0; i < s.rank(); ++i) {
    const int64_t d = broadcast_dimensions[i];
    if (d < 0 || d >= rank) {
      return Bad("broadcast", absl::StrCat("dimension ", d, " lies outside the result rank ", rank), "broadcast_c3");
    }
    identity = identity && d == i && s.dimensions(i) == result_dims[i];
    if (s.dimensions(i) == 1 && result_dims[d] != 1) continue;
    kept.push_back(s.dimensions(i));
    dims.push_back(d);
  }
  Ints unique = AsInts(broadcast_dimensions);
  std::sort(unique.begin(), unique.end());
  if (std::adjacent_find(unique.begin(), unique.end()) != unique.end()) {
    return Bad("broadcast", "broadcast_dimensions repeat", "broadcast_c4");
  }
  if (identity) return x;
  if (kept.size() != s.dimensions().size()) {
    ASSIGN_OR_RETURN(x, Reshape(x, kept));
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(dims));
  return Op(Opcode::kBroadcast, {x}, std::move(attrs), {}, Shape(s.element_type(), result_dims));
}

absl::StatusOr<Value> Builder::Reshape(Value x, absl::Span<const int64_t> dims) {
  RETURN_IF_ERROR(CheckValue(x, "reshape"));
  return Op(Opcode::kReshape, {x}, {}, {}, Shape(x->shape().element_type(), dims));
}

absl::StatusOr<Value> Builder::Transpose(Value x, absl::Span<const int64_t> permutation) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, AsInts(permutation));
  return Op(Opcode::kTranspose, {x}, std::move(attrs));
}

absl::StatusOr<Value> Builder::Slice(Value x, SliceConfig slices) {
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return Op(Opcode::kSlice, {x}, std::move(attrs));
}

absl::StatusOr<Value> Builder::Concatenate(std::vector<Value> xs, int64_t dimension) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  return Op(Opcode::kConcatenate, std::move(xs), std::move(attrs));
}

absl::StatusOr<Value> Builder::Pad(Value x, Value value, PaddingConfig config) {
  Attributes attrs;
  attrs.Set(AttrId::kPadding, std::move(config));
  return Op(Opcode::kPad, {x, value}, std::move(attrs));
}

absl::StatusOr<Value> Builder::Dot(Value lhs, Value rhs, DotDimensions dims, PrimitiveType result_type,
                                   Precisions precision) {
  RETURN_IF_ERROR(CheckValue(lhs, "dot"));
  RETURN_IF_ERROR(CheckValue(rhs, "dot"));
  const Shape &l = lhs->shape(), &r = rhs->shape();
  DimVector out;
  auto size = [](const Shape& s, int64_t d) { return d >= 0 && d < s.rank() ? s.dimensions(d) : int64_t{0}; };
  auto in = [](const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); };
  for (int64_t d : dims.lhs_batch) out.push_back(size(l, d));
  for (int64_t d = 0; d < l.rank(); ++d) {
    if (!in(dims.lhs_batch, d) && !in(dims.lhs_contracting, d)) out.push_back(l.dimensions(d));
  }
  for (int64_t d = 0; d < r.rank(); ++d) {
    if (!in(dims.rhs_batch, d) && !in(dims.rhs_contracting, d)) out.push_back(r.dimensions(d));
  }
  Attributes attrs;
  attrs.Set(AttrId::kDotDims, std::move(dims));
  if (!precision.empty()) attrs.Set(AttrId::kOperandPrecision, std::move(precision));
  return Op(Opcode::kDot, {lhs, rhs}, std::move(attrs), {}, backplane::Shape(result_type, out));
}

absl::StatusOr<Value> Builder::Reduce(std::vector<Value> inputs, std::vector<Value> inits, Computation* body,
                                      absl::Span<const int64_t> dims) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, AsInts(dims));
  inputs.insert(inputs.end(), inits.begin(), inits.end());
  return Op(Opcode::kReduce, std::move(inputs), std::move(attrs), {body});
}

absl::StatusOr<Value> Builder::GetTupleElement(Value tuple, int64_t index) {
  Attributes attrs;
  attrs.Set(AttrId::kTupleIndex, index);
  return Op(Opcode::kGetTupleElement, {tuple}, std::move(attrs));
}

absl::StatusOr<Value> Builder::Conditional(Value selector, std::vector<Computation*> branches,
                                           std::vector<Value> operands) {
  operands.insert(operands.begin(), selector);
  return Op(Opcode::kConditional, std::move(operands), {}, std::move(branches));
}

absl::StatusOr<Computation*> Builder::Build(Value root) {
  if (root == nullptr || root->parent() != computation_)
    return Bad(computation_->name(), "the root is not of this computation", "root");
  for (size_t i = 0; i < computation_->parameters().size(); ++i) {
    if (computation_->parameters()[i] == nullptr) {
      return Bad(computation_->name(), absl::StrCat("parameter ", i, " is missing"), "parameter_i1");
    }
  }
  computation_->set_root(root);
  return computation_;
}

absl::StatusOr<Computation*> MakeScalarBinaryComputation(Module* module, Opcode opcode, PrimitiveType type) {
  const std::string name = absl::StrCat(OpName(opcode), "_", Name(type));
  for (const auto& c : module->computations()) {
    const Instruction* root = c->root();
    if (c->name() == name && root != nullptr && root->Is(opcode) && c->instruction_count() == 3 &&
        root->shape().IsScalar() && root->operand(0) == c->parameter(0) && root->operand(1) == c->parameter(1) &&
        c->parameter(0)->shape() == Shape::Scalar(type)) {
      return c.get();
    }
  }
  Builder b(module, name);
  ASSIGN_OR_RETURN(Value x, b.Parameter(0, Shape::Scalar(type), "x"));
  ASSIGN_OR_RETURN(Value y, b.Parameter(1, Shape::Scalar(type), "y"));
  ASSIGN_OR_RETURN(Value r, b.Op(opcode, {x, y}));
  return b.Build(r);
}

}  // namespace backplane
