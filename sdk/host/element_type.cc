#include "sdk/host/element_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace backplane::host {
namespace {

struct Row {
  PJRT_Buffer_Type type;
  const char* name;
  int bits;
};
constexpr Row kRows[] = {
    {PJRT_Buffer_Type_INVALID, "invalid", 0},
    {PJRT_Buffer_Type_PRED, "pred", 8},
    {PJRT_Buffer_Type_S8, "s8", 8},
    {PJRT_Buffer_Type_S16, "s16", 16},
    {PJRT_Buffer_Type_S32, "s32", 32},
    {PJRT_Buffer_Type_S64, "s64", 64},
    {PJRT_Buffer_Type_U8, "u8", 8},
    {PJRT_Buffer_Type_U16, "u16", 16},
    {PJRT_Buffer_Type_U32, "u32", 32},
    {PJRT_Buffer_Type_U64, "u64", 64},
    {PJRT_Buffer_Type_F16, "f16", 16},
    {PJRT_Buffer_Type_F32, "f32", 32},
    {PJRT_Buffer_Type_F64, "f64", 64},
    {PJRT_Buffer_Type_BF16, "bf16", 16},
    {PJRT_Buffer_Type_C64, "c64", 64},
    {PJRT_Buffer_Type_C128, "c128", 128},
    {PJRT_Buffer_Type_F8E5M2, "f8e5m2", 8},
    {PJRT_Buffer_Type_F8E4M3FN, "f8e4m3fn", 8},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, "f8e4m3b11fnuz", 8},
    {PJRT_Buffer_Type_F8E5M2FNUZ, "f8e5m2fnuz", 8},
    {PJRT_Buffer_Type_F8E4M3FNUZ, "f8e4m3fnuz", 8},
    {PJRT_Buffer_Type_S4, "s4", 4},
    {PJRT_Buffer_Type_U4, "u4", 4},
    {PJRT_Buffer_Type_TOKEN, "token", 0},
    {PJRT_Buffer_Type_S2, "s2", 2},
    {PJRT_Buffer_Type_U2, "u2", 2},
    {PJRT_Buffer_Type_F8E4M3, "f8e4m3", 8},
    {PJRT_Buffer_Type_F8E3M4, "f8e3m4", 8},
    {PJRT_Buffer_Type_F8E8M0FNU, "f8e8m0fnu", 8},
    {PJRT_Buffer_Type_F4E2M1FN, "f4e2m1fn", 4},
    {PJRT_Buffer_Type_S1, "s1", 1},
    {PJRT_Buffer_Type_U1, "u1", 1},
    {PJRT_Buffer_Type_F6E2M3FN, "f6e2m3fn", 6},
    {PJRT_Buffer_Type_F6E3M2FN, "f6e3m2fn", 6},
};

const Row* Find(PJRT_Buffer_Type type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::string ElementTypeName(PJRT_Buffer_Type type) {
  const Row* row = Find(type);
  return row != nullptr ? row->name : absl::StrCat("type ", static_cast<int>(type));
}

std::optional<PJRT_Buffer_Type> ElementTypeByName(absl::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name && row.type != PJRT_Buffer_Type_INVALID) return row.type;
  }
  return std::nullopt;
}

int BitsPerElement(PJRT_Buffer_Type type) {
  const Row* row = Find(type);
  return row != nullptr ? row->bits : 0;
}

int HostBytesPerElement(PJRT_Buffer_Type type) { return (BitsPerElement(type) + 7) / 8; }

absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims) {
  int64_t count = 1;
  bool fits = true, zero = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      return absl::InvalidArgumentError(absl::StrCat("dim ", i, " is ", dims[i], ", expected 0 or more"));
    if (dims[i] == 0) zero = true;
    if (fits && __builtin_mul_overflow(count, dims[i], &count)) fits = false;
  }
  if (zero) return 0;
  if (!fits) return absl::InvalidArgumentError(absl::StrCat("[", absl::StrJoin(dims, ","), "]: too many elements"));
  return count;
}

absl::StatusOr<size_t> HostByteSize(PJRT_Buffer_Type type, absl::Span<const int64_t> dims) {
  const int bytes = HostBytesPerElement(type);
  if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat(ElementTypeName(type), ": has no elements"));
  absl::StatusOr<int64_t> count = NumElements(dims);
  if (!count.ok()) return count.status();
  int64_t size;
  if (__builtin_mul_overflow(*count, static_cast<int64_t>(bytes), &size)) {
    return absl::InvalidArgumentError(absl::StrCat(FormatShape(type, dims), ": too many bytes"));
  }
  return static_cast<size_t>(size);
}

std::string FormatShape(PJRT_Buffer_Type type, absl::Span<const int64_t> dims) {
  return absl::StrCat(ElementTypeName(type), "[", absl::StrJoin(dims, ","), "]");
}

}  // namespace backplane::host
