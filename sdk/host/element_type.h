// Element types at the boundary: names, sizes, and the C++ types that hold them.
//
// In host memory an element takes a whole number of bytes: types of less than a byte come one element to a byte.
#ifndef BACKPLANE_SDK_HOST_ELEMENT_TYPE_H_
#define BACKPLANE_SDK_HOST_ELEMENT_TYPE_H_

#include <complex>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"

namespace backplane::host {

// "f32", "bf16", "pred"; "type 99" for a number that is not known. As HLO text spells them.
std::string ElementTypeName(PJRT_Buffer_Type type);
// The type of that name, or nothing.
std::optional<PJRT_Buffer_Type> ElementTypeByName(absl::string_view name);
// Bits of one element: 1 to 128; pred is 8; 0 for token, invalid and unknown types.
int BitsPerElement(PJRT_Buffer_Type type);
// Bytes of one element in host memory: at least 1; 0 for token, invalid and unknown types.
int HostBytesPerElement(PJRT_Buffer_Type type);
// Product of the dims. INVALID_ARGUMENT when one is negative or the product does not fit int64.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims);
// Bytes of a dense array in host memory; also INVALID_ARGUMENT for a type without elements.
absl::StatusOr<size_t> HostByteSize(PJRT_Buffer_Type type, absl::Span<const int64_t> dims);
// "f32[2,3]".
std::string ShapeText(PJRT_Buffer_Type type, absl::Span<const int64_t> dims);

// ElementTypeOf<float>::value and so on, for the types C++ has itself.
template <typename T>
struct ElementTypeOf;
#define BP_ELEMENT_TYPE(cpp, name)                                     \
  template <>                                                          \
  struct ElementTypeOf<cpp> {                                          \
    static constexpr PJRT_Buffer_Type value = PJRT_Buffer_Type_##name; \
  };
BP_ELEMENT_TYPE(bool, PRED)
BP_ELEMENT_TYPE(int8_t, S8)
BP_ELEMENT_TYPE(int16_t, S16)
BP_ELEMENT_TYPE(int32_t, S32)
BP_ELEMENT_TYPE(int64_t, S64)
BP_ELEMENT_TYPE(uint8_t, U8)
BP_ELEMENT_TYPE(uint16_t, U16)
BP_ELEMENT_TYPE(uint32_t, U32)
BP_ELEMENT_TYPE(uint64_t, U64)
BP_ELEMENT_TYPE(float, F32)
BP_ELEMENT_TYPE(double, F64)
BP_ELEMENT_TYPE(std::complex<float>, C64)
BP_ELEMENT_TYPE(std::complex<double>, C128)
#undef BP_ELEMENT_TYPE

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_ELEMENT_TYPE_H_
