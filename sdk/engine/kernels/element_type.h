// The element types of the library kernels, which work on raw memory.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_ELEMENT_TYPE_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>

namespace backplane::engine {

enum class ElementType : uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128
};

constexpr size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kPred:
    case ElementType::kS8:
    case ElementType::kU8:
      return 1;
    case ElementType::kS16:
    case ElementType::kU16:
    case ElementType::kF16:
    case ElementType::kBF16:
      return 2;
    case ElementType::kS32:
    case ElementType::kU32:
    case ElementType::kF32:
      return 4;
    case ElementType::kS64:
    case ElementType::kU64:
    case ElementType::kF64:
    case ElementType::kC64:
      return 8;
    case ElementType::kC128:
      return 16;
  }
  return 0;
}

constexpr const char* ElementTypeName(ElementType type) {
  constexpr const char* kNames[] = {"pred", "s8",  "s16",  "s32", "s64", "u8",  "u16", "u32",
                                    "u64",  "f16", "bf16", "f32", "f64", "c64", "c128"};
  return kNames[static_cast<int>(type)];
}

constexpr bool IsFloat(ElementType type) { return type >= ElementType::kF16 && type <= ElementType::kF64; }
constexpr bool IsComplex(ElementType type) { return type >= ElementType::kC64; }
constexpr bool IsInteger(ElementType type) { return type >= ElementType::kS8 && type <= ElementType::kU64; }

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_ELEMENT_TYPE_H_
