#include "core/passes/partition/annotations.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace backplane {

bool IsShardingAnnotation(const Instruction* i) {
  return i->Is(Opcode::kCustomCall) && i->operand_count() == 1 &&
         (i->custom_call_target() == "Sharding" || i->custom_call_target() == "ShardingGroup");
}

bool IsManualBoundary(const Instruction* i) {
  return i->Is(Opcode::kCustomCall) && i->operand_count() == 1 &&
         (i->custom_call_target() == "SPMDFullToShardShape" || i->custom_call_target() == "SPMDShardToFullShape");
}

bool IsResultAnnotation(const Instruction* annotation) {
  return IsShardingAnnotation(annotation) && annotation->attrs().GetString(AttrId::kOpaque) == "result";
}

bool HasDynamicArray(const Instruction* i) {
  auto is_dynamic = [](const Shape& s) { return s.IsArray() && s.HasDynamicDimensions(); };
  if (is_dynamic(i->shape())) return true;
  for (const Instruction* o : i->operands()) {
    if (is_dynamic(o->shape())) return true;
  }
  if (!i->shape().IsTuple()) return false;
  return std::any_of(i->shape().tuple_shapes().begin(), i->shape().tuple_shapes().end(), is_dynamic);
}

Ints GetUnspecifiedDims(const Instruction* annotation) {
  Ints dims;
  const int64_t rank = annotation->shape().IsArray() ? annotation->shape().rank() : 0;
  absl::string_view text = annotation->attrs().GetString(AttrId::kOpaque);
  constexpr absl::string_view kList = "unspecified_dims=[";
  const size_t at = text.find(kList);
  if (at == absl::string_view::npos) return dims;
  text.remove_prefix(at + kList.size());
  text = text.substr(0, text.find(']'));
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    int64_t d = -1;
    if (absl::SimpleAtoi(piece, &d) && d >= 0 && d < rank) dims.push_back(d);
  }
  return dims;
}

}  // namespace backplane
