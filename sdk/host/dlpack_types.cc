#include "absl/strings/str_cat.h"
#include "sdk/host/dlpack.h"

namespace backplane::host::dlpack {
namespace {

struct DLPackRow {
  PJRT_Buffer_Type type;
  TypeCode code;
};
constexpr DLPackRow kDLPackRows[] = {
    {PJRT_Buffer_Type_PRED, kBool},
    {PJRT_Buffer_Type_S1, kInt},
    {PJRT_Buffer_Type_S2, kInt},
    {PJRT_Buffer_Type_S4, kInt},
    {PJRT_Buffer_Type_S8, kInt},
    {PJRT_Buffer_Type_S16, kInt},
    {PJRT_Buffer_Type_S32, kInt},
    {PJRT_Buffer_Type_S64, kInt},
    {PJRT_Buffer_Type_U1, kUInt},
    {PJRT_Buffer_Type_U2, kUInt},
    {PJRT_Buffer_Type_U4, kUInt},
    {PJRT_Buffer_Type_U8, kUInt},
    {PJRT_Buffer_Type_U16, kUInt},
    {PJRT_Buffer_Type_U32, kUInt},
    {PJRT_Buffer_Type_U64, kUInt},
    {PJRT_Buffer_Type_F16, kFloat},
    {PJRT_Buffer_Type_F32, kFloat},
    {PJRT_Buffer_Type_F64, kFloat},
    {PJRT_Buffer_Type_BF16, kBfloat},
    {PJRT_Buffer_Type_C64, kComplex},
    {PJRT_Buffer_Type_C128, kComplex},
    {PJRT_Buffer_Type_F8E3M4, kFloat8E3m4},
    {PJRT_Buffer_Type_F8E4M3, kFloat8E4m3},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, kFloat8E4m3b11fnuz},
    {PJRT_Buffer_Type_F8E4M3FN, kFloat8E4m3fn},
    {PJRT_Buffer_Type_F8E4M3FNUZ, kFloat8E4m3fnuz},
    {PJRT_Buffer_Type_F8E5M2, kFloat8E5m2},
    {PJRT_Buffer_Type_F8E5M2FNUZ, kFloat8E5m2fnuz},
    {PJRT_Buffer_Type_F8E8M0FNU, kFloat8E8m0fnu},
    {PJRT_Buffer_Type_F6E2M3FN, kFloat6E2m3fn},
    {PJRT_Buffer_Type_F6E3M2FN, kFloat6E3m2fn},
    {PJRT_Buffer_Type_F4E2M1FN, kFloat4E2m1fn},
};

}  // namespace

absl::StatusOr<DataType> ToDlpack(PJRT_Buffer_Type type) {
  for (const DLPackRow& row : kDLPackRows) {
    if (row.type == type) return DataType{row.code, static_cast<uint8_t>(BitsPerElement(type)), 1};
  }
  return absl::UnimplementedError(absl::StrCat("dlpack: has no type for ", ElementTypeName(type)));
}

absl::StatusOr<PJRT_Buffer_Type> FromDlpack(DataType type) {
  if (type.lanes != 1) {
    return absl::UnimplementedError(
        absl::StrCat("dlpack: vectors of ", type.lanes, " lanes have no element type here"));
  }
  for (const DLPackRow& row : kDLPackRows) {
    if (row.code == type.code && BitsPerElement(row.type) == type.bits) return row.type;
  }
  return absl::UnimplementedError(
      absl::StrCat("dlpack: type code ", type.code, " of ", type.bits, " bits has no element type here"));
}

}  // namespace backplane::host::dlpack
