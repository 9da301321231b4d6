#include "sdk/backend/mixed/custom_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/analysis/aliased_leaves.h"
#include "core/types/status_macros.h"
#include "sdk/backend/mixed/value.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/backend/workers.h"

namespace backplane::mixed {
namespace {

// Whether the target only informs a compiler about a value. Its result is its operand.
bool IsIdentity(absl::string_view target) {
  static constexpr absl::string_view kTargets[] = {"Sharding", "LayoutConstraint", "annotate_device_placement",
                                                   "SPMDFullToShardShape", "SPMDShardToFullShape"};
  return std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets);
}

// A dense array in a given layout.
struct Dense {
  CustomCallBuffer buffer;
  std::unique_ptr<std::byte[]> memory;  // used if the layout differs from the literal's
};

absl::Status Transpose(const Shape& from_shape, const void* from, const Shape& to_shape, void* to) {
  ASSIGN_OR_RETURN(DimVector from_strides, DenseByteStrides(from_shape));
  ASSIGN_OR_RETURN(DimVector to_strides, DenseByteStrides(to_shape));
  StridedCopy(from_shape.dimensions(), static_cast<size_t>(ByteWidth(from_shape.element_type())), from, from_strides,
              to, to_strides);
  return absl::OkStatus();
}

absl::Status AddOperands(const Shape& shape, const Literal& value, std::vector<Dense>* out) {
  if (shape.IsTuple()) {
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      RETURN_IF_ERROR(AddOperands(shape.tuple_shapes(i), value.elements()[i], out));
    }
    return absl::OkStatus();
  }
  Dense dense;
  dense.buffer.type = shape.element_type();
  if (shape.IsArray()) {
    dense.buffer.dims = absl::MakeConstSpan(shape.dimensions());
    dense.buffer.data = const_cast<std::byte*>(value.bytes());
    if (!shape.IsRowMajor()) {
      dense.memory = std::make_unique<std::byte[]>(static_cast<size_t>(value.byte_size()));
      RETURN_IF_ERROR(Transpose(value.shape(), value.bytes(), shape, dense.memory.get()));
      dense.buffer.data = dense.memory.get();
    }
  }
  out->push_back(std::move(dense));
  return absl::OkStatus();
}

void AddResults(const Shape& shape, Literal& value, std::vector<Dense>* out) {
  if (shape.IsTuple()) {
    for (int64_t i = 0; i < shape.tuple_size(); ++i)
      AddResults(shape.tuple_shapes(i), value.mutable_elements()[i], out);
    return;
  }
  Dense dense;
  dense.buffer.type = shape.element_type();
  if (shape.IsArray()) {
    dense.buffer.dims = absl::MakeConstSpan(shape.dimensions());
    if (shape.IsRowMajor()) {
      dense.buffer.data = value.mutable_bytes();
    } else {
      dense.memory = std::make_unique<std::byte[]>(static_cast<size_t>(value.byte_size()));
      dense.buffer.data = dense.memory.get();
    }
  }
  out->push_back(std::move(dense));
}

absl::Status CollectResults(const Shape& shape, const std::vector<Dense>& dense, size_t* at, Literal& value) {
  if (shape.IsTuple()) {
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      RETURN_IF_ERROR(CollectResults(shape.tuple_shapes(i), dense, at, value.mutable_elements()[i]));
    }
    return absl::OkStatus();
  }
  const Dense& d = dense[(*at)++];
  if (d.memory == nullptr) return absl::OkStatus();
  return Transpose(shape, d.memory.get(), value.shape(), value.mutable_bytes());
}

std::vector<CustomCallBuffer> Buffers(const std::vector<Dense>& dense) {
  std::vector<CustomCallBuffer> out;
  for (const Dense& d : dense) out.push_back(d.buffer);
  return out;
}

}  // namespace

absl::StatusOr<CustomCalls> CustomCalls::Create(const Module& module, CustomCallRegistry& registry) {
  CustomCalls calls;
  for (const Computation* computation : module.PostOrder()) {
    for (const auto& instruction : computation->instructions()) {
      if (!instruction->Is(Opcode::kCustomCall) || IsIdentity(instruction->custom_call_target())) continue;
      CustomCallSpec spec;
      spec.target = instruction->custom_call_target();
      spec.api_version =
          instruction->attrs().GetEnum<CustomCallApiVersion>(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
      spec.opaque = instruction->attrs().GetString(AttrId::kOpaque);
      spec.attributes = instruction->attrs().Get<FfiDictionary>(AttrId::kFfiAttributes);
      ASSIGN_OR_RETURN(calls.sites_[instruction.get()], registry.Instantiate(spec));
    }
  }
  return calls;
}

absl::StatusOr<Literal> CustomCalls::Run(const Instruction& call, absl::Span<const Literal* const> operands,
                                         const ExecuteContext* context, int64_t run_id, int32_t device) const {
  auto site = sites_.find(&call);
  if (site == sites_.end()) {
    if (operands.size() == 1) return *operands[0];
    return absl::InternalError(
        absl::StrCat(call.name(), ": custom call '", call.custom_call_target(), "' has no call site"));
  }
  const std::vector<Shape>& layouts = call.attrs().Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  std::vector<Dense> in, out;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape& shape = i < layouts.size() ? layouts[i] : operands[i]->shape();
    RETURN_IF_ERROR(AddOperands(shape, *operands[i], &in));
  }
  Literal result(call.shape());
  AddResults(call.shape(), result, &out);
  std::vector<CustomCallBuffer> arguments = Buffers(in);
  const std::vector<CustomCallBuffer> results = Buffers(out);
  for (const AliasedLeaf& leaf : GetAliasedLeaves(call))
    CopyOperandToResult(results[leaf.result], &arguments[leaf.operand]);
  const Workers::Waiting in_host(Workers::Waiting::For::kHost);
  ASSIGN_OR_RETURN(Event done, site->second->Call({arguments, results, context, run_id, device}));
  RETURN_IF_ERROR(done.Await());
  size_t at = 0;
  RETURN_IF_ERROR(CollectResults(call.shape(), out, &at, result));
  return result;
}

}  // namespace backplane::mixed
