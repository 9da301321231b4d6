#include "plugins/hip/program/step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/strided_copy.h"

namespace backplane::hip {
namespace {

// Copies an array from the layout of one shape to that of the other. The shapes differ only in their layouts.
absl::Status CopyBetweenLayouts(const Shape& from_shape, const void* from, const Shape& to_shape, void* to) {
  ASSIGN_OR_RETURN(const DimVector from_strides, DenseByteStrides(from_shape));
  ASSIGN_OR_RETURN(const DimVector to_strides, DenseByteStrides(to_shape));
  StridedCopy(from_shape.dimensions(), static_cast<size_t>(ByteWidth(from_shape.element_type())), from, from_strides,
              to, to_strides);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunSteps(const Steps& steps, const RunState& state) {
  for (const auto& step : steps) RETURN_IF_ERROR(step->Run(state));
  return absl::OkStatus();
}

StartCount CountStarts(const Steps& steps) {
  int64_t count = 0;
  for (const auto& step : steps) {
    const StartCount starts = step->CountStarts();
    if (!starts.has_value()) return std::nullopt;
    count = std::min(count + *starts, kManyStarts);
  }
  return count;
}

absl::Status KernelStep::Run(const RunState& state) const {
  absl::InlinedVector<void*, 16> arguments;
  for (const SlotId s : slots_) arguments.push_back(state.slots[s]);
  if (takes_scratch_) arguments.push_back(state.scratch);
  for (const int64_t n : numbers_) arguments.push_back(reinterpret_cast<void*>(n));
  return state.queue->Launch(kernel_, blocks_, threads_, arguments);
}

absl::Status CopyStep::Run(const RunState& state) const {
  if (copy_.bytes == 0) return absl::OkStatus();
  return state.queue->CopyWithin(state.slots[copy_.from], state.slots[copy_.to], static_cast<size_t>(copy_.bytes));
}

absl::Status WhileStep::Run(const RunState& state) const {
  if (trip_count_) {
    for (int64_t t = 0; t < *trip_count_; ++t) RETURN_IF_ERROR(RunSteps(body_, state));
    return absl::OkStatus();
  }
  while (true) {
    RETURN_IF_ERROR(RunSteps(condition_, state));
    uint8_t goes_on = 0;
    RETURN_IF_ERROR(state.queue->CopyOut(state.slots[predicate_], &goes_on, 1));
    if (goes_on == 0) return absl::OkStatus();
    RETURN_IF_ERROR(RunSteps(body_, state));
  }
}

StartCount WhileStep::CountStarts() const {
  if (!trip_count_.has_value()) return std::nullopt;
  const StartCount once = hip::CountStarts(body_);
  if (!once.has_value()) return std::nullopt;
  if (*once == 0 || *trip_count_ <= 0) return 0;
  return *trip_count_ > kManyStarts / *once ? kManyStarts : *trip_count_ * *once;
}

absl::Status ConditionalStep::Run(const RunState& state) const {
  size_t branch = branches_.size() - 1;
  if (by_predicate_) {
    uint8_t holds = 0;
    RETURN_IF_ERROR(state.queue->CopyOut(state.slots[selector_], &holds, 1));
    branch = holds != 0 ? 0 : 1;
  } else {
    int32_t index = 0;
    RETURN_IF_ERROR(state.queue->CopyOut(state.slots[selector_], &index, sizeof index));
    if (index >= 0 && static_cast<size_t>(index) < branches_.size()) branch = static_cast<size_t>(index);
  }
  return RunSteps(branches_[branch], state);
}

HostStep::HostStep(const Instruction& instruction, std::vector<std::vector<SlotId>> operands,
                   std::vector<SlotId> results)
    : instruction_(instruction),
      evaluator_(instruction),
      operands_(std::move(operands)),
      results_(std::move(results)) {}

absl::StatusOr<Literal> HostStep::Read(const Shape& shape, const std::vector<SlotId>& slots, size_t* at,
                                       const RunState& state) const {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (int64_t k = 0; k < shape.tuple_size(); ++k) {
      ASSIGN_OR_RETURN(Literal element, Read(shape.tuple_shapes(k), slots, at, state));
      elements.push_back(std::move(element));
    }
    return Literal::Tuple(std::move(elements));
  }
  const SlotId slot = slots[(*at)++];
  if (!shape.IsArray()) return Literal::Token();
  Literal value(shape.WithoutLayout());
  if (value.byte_size() == 0) return value;
  RETURN_IF_ERROR(
      state.queue->CopyOut(state.slots[slot], value.mutable_bytes(), static_cast<size_t>(value.byte_size())));
  if (shape.IsRowMajor()) return value;
  Literal row_major(value.shape());
  RETURN_IF_ERROR(CopyBetweenLayouts(shape, value.bytes(), value.shape(), row_major.mutable_bytes()));
  return row_major;
}

absl::Status HostStep::Write(const Literal& value, const Shape& shape, const std::vector<SlotId>& slots, size_t* at,
                             const RunState& state) const {
  if (shape.IsTuple()) {
    for (int64_t k = 0; k < shape.tuple_size(); ++k) {
      RETURN_IF_ERROR(Write(value.elements()[static_cast<size_t>(k)], shape.tuple_shapes(k), slots, at, state));
    }
    return absl::OkStatus();
  }
  const SlotId slot = slots[(*at)++];
  if (!shape.IsArray() || value.byte_size() == 0) return absl::OkStatus();
  const size_t bytes = static_cast<size_t>(value.byte_size());
  if (shape.IsRowMajor()) return state.queue->CopyIn(value.bytes(), state.slots[slot], bytes);
  Literal ordered(value.shape());
  RETURN_IF_ERROR(CopyBetweenLayouts(value.shape(), value.bytes(), shape, ordered.mutable_bytes()));
  return state.queue->CopyIn(ordered.bytes(), state.slots[slot], bytes);
}

absl::Status HostStep::Run(const RunState& state) const {
  std::vector<Literal> values;
  for (int64_t k = 0; k < instruction_.operand_count(); ++k) {
    size_t at = 0;
    ASSIGN_OR_RETURN(Literal value,
                     Read(instruction_.operand(k)->shape(), operands_[static_cast<size_t>(k)], &at, state));
    values.push_back(std::move(value));
  }
  ASSIGN_OR_RETURN(const Literal result, evaluator_.Run(std::move(values), *state.hooks));
  size_t at = 0;
  return Write(result, instruction_.shape(), results_, &at, state);
}

}  // namespace backplane::hip
