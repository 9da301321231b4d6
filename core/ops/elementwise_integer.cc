#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

template <typename T>
ElementwiseKernel::Loop FindIntegerLoop(Opcode opcode, const Attributes& attrs) {
  if (opcode == Opcode::kCompare) return CompareLoop<T>(attrs.GetEnum<ComparisonDirection>(AttrId::kDirection));
  return FindFormulaLoop<T>(opcode);
}

}  // namespace

ElementwiseKernel::Loop SelectIntegerLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kS8:
      return FindIntegerLoop<int8_t>(opcode, attrs);
    case PrimitiveType::kS16:
      return FindIntegerLoop<int16_t>(opcode, attrs);
    case PrimitiveType::kS32:
      return FindIntegerLoop<int32_t>(opcode, attrs);
    case PrimitiveType::kS64:
      return FindIntegerLoop<int64_t>(opcode, attrs);
    case PrimitiveType::kU8:
      return FindIntegerLoop<uint8_t>(opcode, attrs);
    case PrimitiveType::kU16:
      return FindIntegerLoop<uint16_t>(opcode, attrs);
    case PrimitiveType::kU32:
      return FindIntegerLoop<uint32_t>(opcode, attrs);
    default:
      return FindIntegerLoop<uint64_t>(opcode, attrs);
  }
}

}  // namespace backplane
