// Element types at the boundary: names, sizes, and the C++ types that hold them.
//
// In host memory an element takes a whole number of bytes: an element of a type narrower than a byte takes one byte.
// All functions are thread-safe.
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

// Returns the name of the type as HLO text spells it, such as "f32", "bf16" or "pred"; "type 99" for an unknown number.
std::string ElementTypeName(PJRT_Buffer_Type type);
// Returns the type of this name, or nullopt if there is none.
std::optional<PJRT_Buffer_Type> ElementTypeByName(absl::string_view name);
// Returns the bits of one element: 1 to 128, 8 for pred, 0 for token, invalid and unknown types.
int BitsPerElement(PJRT_Buffer_Type type);
// Returns the bytes of one element in host memory: at least 1; 0 for token, invalid and unknown types.
int HostBytesPerElement(PJRT_Buffer_Type type);
// Returns the product of the dims. Returns INVALID_ARGUMENT if one is negative or the product does not fit int64.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims);
// Returns the bytes of a dense array in host memory. Returns INVALID_ARGUMENT as NumElements does, and for a type
// without elements.
absl::StatusOr<size_t> HostByteSize(PJRT_Buffer_Type type, absl::Span<const int64_t> dims);
// Returns the shape as text, such as "f32[2,3]".
std::string FormatShape(PJRT_Buffer_Type type, absl::Span<const int64_t> dims);

// ElementTypeOf<T>::value is the element type of the C++ type T, for the types that C++ itself has.
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
