#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

struct LexicographicOrder {
  template <typename P>
  static complex_functions::Ordered<P> Of(std::complex<P> z) {
    return {z};
  }
};

template <typename T>
ElementwiseKernel::Loop FindComplexLoop(Opcode opcode, const Attributes& attrs) {
  if (opcode == Opcode::kCompare) {
    return CompareLoop<T, LexicographicOrder>(attrs.GetEnum<ComparisonDirection>(AttrId::kDirection));
  }
  return FindFormulaLoop<T>(opcode);
}

}  // namespace

ElementwiseKernel::Loop SelectComplexLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  return type == PrimitiveType::kC64 ? FindComplexLoop<std::complex<float>>(opcode, attrs)
                                     : FindComplexLoop<std::complex<double>>(opcode, attrs);
}

}  // namespace backplane
