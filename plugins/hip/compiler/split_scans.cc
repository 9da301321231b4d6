#include "plugins/hip/compiler/split_scans.h"

#include <complex>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/replace_each.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/scan_kernel.h"
#include "sdk/codegen/body/combiner.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::hip {
namespace {

constexpr int64_t kLongRow = 16384;
constexpr int64_t kPart = 4096;     // elements of a part
constexpr int64_t kManyRows = 256;  // that keep a GPU busy with a block for each

// The largest or smallest number of an integer type.
Literal Extreme(PrimitiveType t, bool largest) {
  const int bits = t == PrimitiveType::kPred ? 1 : BitWidth(t);
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (!IsSigned(t)) return Literal::ScalarInt(t, largest ? static_cast<int64_t>(all) : 0);
  const int64_t most = static_cast<int64_t>(all >> 1);
  return Literal::ScalarInt(t, largest ? most : -most - 1);
}

// With which the operation changes nothing.
std::optional<Literal> IdentityOf(Opcode op, PrimitiveType t) {
  if (IsComplex(t)) {  // of additions alone: an infinite part times the zero of (1, 0) is NaN
    if (op != Opcode::kAdd) return std::nullopt;
    const std::complex<float> narrow(-0.0f, -0.0f);
    const std::complex<double> wide(-0.0, -0.0);
    return t == PrimitiveType::kC64 ? Literal::FromValues<std::complex<float>>({}, {&narrow, 1})
                                    : Literal::FromValues<std::complex<double>>({}, {&wide, 1});
  }
  switch (op) {
    case Opcode::kAdd:
      return Literal::Scalar(t, IsFloat(t) ? -0.0 : 0);
    case Opcode::kMultiply:
      return Literal::Scalar(t, 1);
    case Opcode::kOr:
    case Opcode::kXor:
      return Literal::ScalarInt(t, 0);
    case Opcode::kAnd:
      return IsSigned(t) ? Literal::ScalarInt(t, -1) : Extreme(t, true);
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      if (!IsFloat(t)) return Extreme(t, op == Opcode::kMinimum);
      const double infinity = std::numeric_limits<double>::infinity();
      return Literal::Scalar(t, op == Opcode::kMaximum ? -infinity : infinity);
    }
    default:
      return std::nullopt;
  }
}

// The scan from the first element along dimension `d`, without an initial value.
absl::StatusOr<Value> ScanAlong(Builder& b, Opcode op, Value x, Value identity, int64_t d) {
  Window window;
  const Shape& shape = x->shape();
  for (int64_t k = 0; k < shape.rank(); ++k) {
    WindowDimension w;
    w.size = k == d ? shape.dimensions(d) : 1;
    w.padding_low = w.size - 1;
    window.dimensions.push_back(w);
  }
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(window));
  ASSIGN_OR_RETURN(Computation * combiner, MakeScalarBinaryComputation(b.module(), op, shape.element_type()));
  return b.Op(Opcode::kReduceWindow, {x, identity}, std::move(attrs), {combiner});
}

absl::StatusOr<Value> Pad(Builder& b, Value x, Value value, int64_t d, int64_t low, int64_t high) {
  PaddingConfig config(static_cast<size_t>(x->shape().rank()));
  config[static_cast<size_t>(d)] = {low, high, 0};
  return b.Pad(x, value, std::move(config));
}

absl::StatusOr<Value> SliceAlong(Builder& b, Value x, int64_t d, int64_t start, int64_t limit) {
  SliceConfig slices;
  for (const int64_t n : x->shape().dimensions()) slices.push_back({0, n, 1});
  slices[static_cast<size_t>(d)] = {start, limit, 1};
  return b.Slice(x, std::move(slices));
}

absl::StatusOr<Value> Reverse(Builder& b, Value x, int64_t d) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{d});
  return b.Op(Opcode::kReverse, {x}, std::move(attrs));
}

absl::StatusOr<Value> SplitScan(Builder& b, Opcode op, const Scan& scan, Value x, Value initial, Literal identity) {
  const PrimitiveType result_type = x->shape().element_type(), type = identity.shape().element_type();
  const DimVector dims = x->shape().dimensions();
  const int64_t d = scan.dimension, n = dims[d], parts = CeilDiv(n, kPart);
  DimVector joined = dims, of_parts = dims;
  joined[d] = parts * kPart;
  of_parts[d] = parts;
  DimVector divided = of_parts;
  divided.insert(divided.begin() + d + 1, kPart);
  Ints kept;
  for (int64_t k = 0; k < x->shape().rank() + 1; ++k) {
    if (k != d + 1) kept.push_back(k);
  }
  ASSIGN_OR_RETURN(Value start, b.Constant(std::move(identity)));
  ASSIGN_OR_RETURN(x, b.Convert(x, type));
  ASSIGN_OR_RETURN(initial, b.Convert(initial, type));
  if (scan.reverse) {
    ASSIGN_OR_RETURN(x, Reverse(b, x, d));
  }
  if (parts * kPart > n) {
    ASSIGN_OR_RETURN(x, Pad(b, x, start, d, 0, parts * kPart - n));
  }
  ASSIGN_OR_RETURN(x, b.Reshape(x, divided));
  ASSIGN_OR_RETURN(x, ScanAlong(b, op, x, start, d + 1));
  ASSIGN_OR_RETURN(Value totals, SliceAlong(b, x, d + 1, kPart - 1, kPart));
  ASSIGN_OR_RETURN(totals, b.Reshape(totals, of_parts));
  ASSIGN_OR_RETURN(totals, ScanAlong(b, op, totals, start, d));
  // Before the first part there is the initial value alone.
  ASSIGN_OR_RETURN(Value before, SliceAlong(b, totals, d, 0, parts - 1));
  ASSIGN_OR_RETURN(before, Pad(b, before, start, d, 1, 0));
  ASSIGN_OR_RETURN(initial, b.BroadcastInDim(initial, of_parts, {}));
  ASSIGN_OR_RETURN(before, b.Binary(op, initial, before));
  ASSIGN_OR_RETURN(before, b.BroadcastInDim(before, divided, kept));
  ASSIGN_OR_RETURN(Value r, b.Binary(op, before, x));
  ASSIGN_OR_RETURN(r, b.Reshape(r, joined));
  ASSIGN_OR_RETURN(r, SliceAlong(b, r, d, 0, n));
  if (scan.reverse) {
    ASSIGN_OR_RETURN(r, Reverse(b, r, d));
  }
  return b.Convert(r, result_type);
}

}  // namespace

absl::StatusOr<bool> SplitScans::Run(Module* module) {
  auto matches = [](const Instruction& i) { return FindScan(i).has_value(); };
  auto build = [](Builder& b, const Instruction& i, std::vector<Value> x) -> absl::StatusOr<Value> {
    const Scan scan = *FindScan(i);
    const Shape& shape = i.operand(0)->shape();
    const int64_t n = shape.dimensions(scan.dimension);
    const std::optional<Opcode> op = codegen::AnalyzeCombiner(*i.called(0)).op;
    if (!op || n < kLongRow || shape.num_elements() / n >= kManyRows) return nullptr;
    // Narrow floats are combined in f32 and rounded once, as in one scan.
    const PrimitiveType t = shape.element_type();
    std::optional<Literal> identity = IdentityOf(*op, codegen::IsNarrowFloat(t) ? PrimitiveType::kF32 : t);
    if (!identity) return nullptr;
    return SplitScan(b, *op, scan, x[0], x[1], *std::move(identity));
  };
  return ReplaceEach(module, "parts", matches, build);
}

}  // namespace backplane::hip
