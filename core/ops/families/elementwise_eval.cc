// Evaluation of unary, binary and converting operations through the elementwise kernels.
#include <algorithm>
#include <numeric>

#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"
#include "core/types/physical_layout.h"

namespace backplane {
namespace {

// Where a dimension of the result is dynamic, its size is the smallest of the operands'.
void CopyDynamicSizes(Args args, Literal& result) {
  for (int64_t d = 0; d < result.shape().rank(); ++d) {
    if (!result.shape().is_dynamic(d)) continue;
    int64_t size = result.shape().dimensions(d);
    for (const Literal* a : args) {
      if (a->shape().rank() == result.shape().rank()) size = std::min(size, a->dynamic_size(d));
    }
    result.set_dynamic_size(d, size);
  }
}

absl::StatusOr<Literal> RunKernel(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  absl::InlinedVector<PrimitiveType, 3> types;
  for (const Literal* a : args) types.push_back(a->shape().element_type());
  std::optional<ElementwiseKernel> kernel = ElementwiseKernel::Make(op.opcode, *op.attrs, types, shape.element_type());
  if (!kernel) {
    return absl::UnimplementedError(
        absl::StrCat(op.name, ": no arithmetic of ", OpName(op.opcode), " for ", Name(types[0])));
  }
  const int64_t n = shape.num_elements();
  const void* in[3] = {};
  bool scalars = false;
  for (size_t i = 0; i < args.size(); ++i) {
    in[i] = args[i]->bytes();
    scalars = scalars || (args[i]->shape().rank() == 0 && shape.rank() != 0);
  }
  // An operand that nobody needs any more, of the result's type and dims, becomes the result. `taken` keeps operands
  // alive that were moved out of the environment.
  Literal taken[3];
  Literal out;
  const int width = ByteWidth(shape.element_type());
  for (size_t i = 0; i < args.size() && !out.valid() && !shape.HasDynamicDimensions(); ++i) {
    if (op.operand(static_cast<int>(i)).dimensions() != shape.dimensions() || types[i] != shape.element_type())
      continue;
    taken[i] = env.TakeOperand(static_cast<int>(i), *args[i]);
    in[i] = taken[i].bytes();
    if (taken[i].unique()) out = std::move(taken[i]);
  }
  if (!out.valid()) {
    ASSIGN_OR_RETURN(out, AllocateLiteral(op, shape));
  }
  std::byte* target = out.mutable_bytes();
  if (!scalars) {
    kernel->Run(in, target, n);
  } else {  // clamp with scalar bounds
    constexpr int64_t kBlock = 1024;
    std::vector<std::byte> spread[3];
    for (size_t i = 0; i < args.size(); ++i) {
      if (op.operand(static_cast<int>(i)).rank() != 0) continue;
      spread[i].resize(kBlock * 16);
      FillElements(ByteWidth(types[i]), args[i]->bytes(), spread[i].data(), std::min(kBlock, n));
    }
    for (int64_t at = 0; at < n; at += kBlock) {
      const void* part[3] = {};
      for (size_t i = 0; i < args.size(); ++i) {
        part[i] =
            spread[i].empty() ? static_cast<const std::byte*>(in[i]) + at * ByteWidth(types[i]) : spread[i].data();
      }
      kernel->Run(part, target + at * width, std::min(kBlock, n - at));
    }
  }
  if (shape.HasDynamicDimensions()) CopyDynamicSizes(args, out);
  return out;
}

absl::StatusOr<Literal> BitcastConvert(const OpContext& op, Args args) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Literal& x = *args[0];
  const PrimitiveType from = x.shape().element_type(), to = shape.element_type();
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  std::byte* target = out.mutable_bytes();
  if (!IsSubByte(from) && !IsSubByte(to)) {
    std::memcpy(target, x.bytes(), static_cast<size_t>(out.byte_size()));
    return out;
  }
  // Elements narrower than a byte are stored in a byte each: pack their bits, low element first, and unpack them again.
  const int a = BitWidth(from), b = BitWidth(to);
  auto extend = [](PrimitiveType t, uint32_t bits) {
    const int shift = 32 - BitWidth(t);
    return IsSigned(t) ? static_cast<uint32_t>(static_cast<int32_t>(bits << shift) >> shift) : bits;
  };
  const std::byte* source = x.bytes();
  const int64_t n = out.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (a == b) {
      target[i] = static_cast<std::byte>(extend(to, static_cast<uint32_t>(source[i]) & ((1u << a) - 1)));
    } else if (b < a) {  // one wide element gives a / b narrow ones
      const int64_t per = a / b, whole = i / per, bit = (i % per) * b;
      const std::byte* bytes = source + whole * ByteWidth(from);
      const uint32_t bits = (static_cast<uint32_t>(bytes[bit / 8]) >> (bit % 8)) & ((1u << b) - 1);
      target[i] = static_cast<std::byte>(extend(to, bits));
    } else {
      const int64_t per = b / a;
      std::byte* bytes = target + i * ByteWidth(to);
      for (int64_t k = 0; k < per; ++k) {
        const uint32_t bits = static_cast<uint32_t>(source[i * per + k]) & ((1u << a) - 1);
        bytes[k * a / 8] |= static_cast<std::byte>(bits << (k * a % 8));
      }
      if (IsSubByte(to)) *bytes = static_cast<std::byte>(extend(to, static_cast<uint32_t>(*bytes)));
    }
  }
  return out;
}

// Element by element in memory order, in which both layouts number the elements alike.
absl::StatusOr<Literal> BitcastLayouts(const OpContext& op, const Literal& x, const Shape& shape) {
  ASSIGN_OR_RETURN(const PhysicalLayout from, PhysicalLayout::Of(op.operand(0)));
  ASSIGN_OR_RETURN(const PhysicalLayout to, PhysicalLayout::Of(shape));
  if (shape.element_type() != x.shape().element_type() || from.has_padding() || to.has_padding()) {
    return absl::UnimplementedError(absl::StrCat(op.name, ": a bitcast between element types or padded layouts"));
  }
  Literal out(shape);
  const int64_t width = ByteWidth(shape.element_type());
  const DimVector from_strides = RowMajorStrides(x.shape().dimensions()),
                  to_strides = RowMajorStrides(shape.dimensions());
  const auto offset = [](const DimVector& index, const DimVector& strides) {
    return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
  };
  std::byte* target = out.mutable_bytes();
  for (int64_t place = 0; place < x.num_elements(); ++place) {
    const std::byte* source = x.bytes() + offset(*from.LogicalIndex(place), from_strides) * width;
    std::copy(source, source + width, target + offset(*to.LogicalIndex(place), to_strides) * width);
  }
  return out;
}

}  // namespace

absl::StatusOr<Literal> EvaluateUnary(const OpContext& op, Args args, EvalEnv& env) { return RunKernel(op, args, env); }

absl::StatusOr<Literal> EvaluateBinary(const OpContext& op, Args args, EvalEnv& env) {
  if (op.opcode == Opcode::kSelect && args[0]->shape().rank() == 0) {
    return *args[args[0]->GetAsInt(0) != 0 ? 1 : 2];
  }
  return RunKernel(op, args, env);
}

absl::StatusOr<Literal> EvaluateConvert(const OpContext& op, Args args, EvalEnv& env) {
  if (op.opcode == Opcode::kBitcastConvert) return BitcastConvert(op, args);
  if (op.opcode == Opcode::kBitcast) {
    ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
    const bool plain = shape.IsRowMajor() && op.operand(0).IsRowMajor();
    if (!plain) return BitcastLayouts(op, *args[0], shape);
    if (shape.element_type() == args[0]->shape().element_type()) return args[0]->Reshape(shape.dimensions());
    return BitcastConvert(op, args);
  }
  if (op.opcode == Opcode::kConvert && op.declared != nullptr &&
      op.declared->element_type() == args[0]->shape().element_type()) {
    return *args[0];
  }
  return RunKernel(op, args, env);
}

}  // namespace backplane
