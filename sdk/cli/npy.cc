#include "sdk/cli/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using host::HostArray;

struct NpyType {
  PJRT_Buffer_Type type;
  const char* descr;  // numpy's name without the byte order
};
constexpr NpyType kNpyTypes[] = {
    {PJRT_Buffer_Type_PRED, "b1"}, {PJRT_Buffer_Type_S8, "i1"},    {PJRT_Buffer_Type_S16, "i2"},
    {PJRT_Buffer_Type_S32, "i4"},  {PJRT_Buffer_Type_S64, "i8"},   {PJRT_Buffer_Type_U8, "u1"},
    {PJRT_Buffer_Type_U16, "u2"},  {PJRT_Buffer_Type_U32, "u4"},   {PJRT_Buffer_Type_U64, "u8"},
    {PJRT_Buffer_Type_F16, "f2"},  {PJRT_Buffer_Type_F32, "f4"},   {PJRT_Buffer_Type_F64, "f8"},
    {PJRT_Buffer_Type_C64, "c8"},  {PJRT_Buffer_Type_C128, "c16"},
};
constexpr NpyType kExtendedNpyTypes[] = {
    {PJRT_Buffer_Type_BF16, "bfloat16"},
    {PJRT_Buffer_Type_F8E3M4, "float8_e3m4"},
    {PJRT_Buffer_Type_F8E4M3, "float8_e4m3"},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, "float8_e4m3b11fnuz"},
    {PJRT_Buffer_Type_F8E4M3FN, "float8_e4m3fn"},
    {PJRT_Buffer_Type_F8E4M3FNUZ, "float8_e4m3fnuz"},
    {PJRT_Buffer_Type_F8E5M2, "float8_e5m2"},
    {PJRT_Buffer_Type_F8E5M2FNUZ, "float8_e5m2fnuz"},
    {PJRT_Buffer_Type_F8E8M0FNU, "float8_e8m0fnu"},
    {PJRT_Buffer_Type_F4E2M1FN, "float4_e2m1fn"},
    {PJRT_Buffer_Type_F6E2M3FN, "float6_e2m3fn"},
    {PJRT_Buffer_Type_F6E3M2FN, "float6_e3m2fn"},
    {PJRT_Buffer_Type_S4, "int4"},
    {PJRT_Buffer_Type_U4, "uint4"},
    {PJRT_Buffer_Type_S2, "int2"},
    {PJRT_Buffer_Type_U2, "uint2"},
};

absl::Status BrokenNpy(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("npy: ", what)); }

// Returns the value of a key in the header, a Python dict literal as numpy writes it.
absl::StatusOr<absl::string_view> Field(absl::string_view header, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "'");
  const size_t at = header.find(quoted);
  if (at == absl::string_view::npos) return BrokenNpy(absl::StrCat("the header has no ", key));
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(header.substr(at + quoted.size()));
  if (!absl::ConsumePrefix(&rest, ":")) return BrokenNpy(absl::StrCat("the header has no value for ", key));
  return absl::StripLeadingAsciiWhitespace(rest);
}

absl::StatusOr<std::vector<int64_t>> Dims(absl::string_view text) {
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == absl::string_view::npos) return BrokenNpy("the shape is no tuple");
  std::vector<int64_t> dims;
  for (absl::string_view part : absl::StrSplit(text.substr(1, end - 1), ',', absl::SkipWhitespace())) {
    int64_t dim;
    if (!absl::SimpleAtoi(part, &dim) || dim < 0 || dims.size() >= 64) return BrokenNpy("the shape cannot be read");
    dims.push_back(dim);
  }
  return dims;
}

// Converts elements from column-major to row-major order.
std::vector<std::byte> FromFortran(const HostArray& array, size_t width) {
  const size_t rank = array.dims.size(), total = array.data.size() / std::max<size_t>(width, 1);
  std::vector<std::byte> out(array.data.size());
  std::vector<int64_t> index(rank, 0);
  for (size_t i = 0; i < total; ++i) {
    size_t from = 0, stride = 1;
    for (size_t d = 0; d < rank; ++d) {
      from += static_cast<size_t>(index[d]) * stride;
      stride *= static_cast<size_t>(array.dims[d]);
    }
    std::memcpy(out.data() + i * width, array.data.data() + from * width, width);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < array.dims[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<HostArray> ParseNpy(absl::string_view bytes, PJRT_Buffer_Type type) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != absl::string_view("\x93NUMPY", 6)) return BrokenNpy("not a .npy file");
  const int version = bytes[6];
  if (version < 1 || version > 3) return BrokenNpy(absl::StrCat("version ", version, " is not known"));
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t begin = version == 1 ? 10 : 12;
  const size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) return BrokenNpy("the file ends in its header");
  const absl::string_view header = bytes.substr(begin, length), data = bytes.substr(begin + length);
  BP_ASSIGN_OR_RETURN(absl::string_view descr, Field(header, "descr"));
  BP_ASSIGN_OR_RETURN(absl::string_view order, Field(header, "fortran_order"));
  BP_ASSIGN_OR_RETURN(absl::string_view shape, Field(header, "shape"));
  if (descr.empty() || (descr[0] != '\'' && descr[0] != '"')) return BrokenNpy("structured types are not supported");
  descr = descr.substr(1, descr.find(descr[0], 1) - 1);
  const std::string full(descr);
  bool big = false;
  if (!descr.empty() && absl::StrContains("<>|=", descr.substr(0, 1))) {
    big = descr[0] == '>';
    descr.remove_prefix(1);
  }
  HostArray array;
  for (const NpyType& row : kNpyTypes) {
    if (descr == row.descr) array.type = row.type;
  }
  for (const NpyType& row : kExtendedNpyTypes) {
    if (descr == row.descr) array.type = row.type;
  }
  if (array.type == PJRT_Buffer_Type_INVALID && absl::StartsWith(descr, "V")) {
    int width;
    if (type == PJRT_Buffer_Type_INVALID || !absl::SimpleAtoi(descr.substr(1), &width) ||
        width != host::HostBytesPerElement(type)) {
      return BrokenNpy(absl::StrCat("raw elements '", full, "' need a type of that size"));
    }
    array.type = type;
  }
  if (array.type == PJRT_Buffer_Type_INVALID)
    return BrokenNpy(absl::StrCat("type '", full, "' has no element type here"));
  BP_ASSIGN_OR_RETURN(array.dims, Dims(shape));
  BP_ASSIGN_OR_RETURN(const size_t size, host::HostByteSize(array.type, array.dims));
  if (size > data.size()) {
    return BrokenNpy(
        absl::StrCat(host::FormatShape(array.type, array.dims), " takes ", size, " bytes, the file has ", data.size()));
  }
  const auto* first = reinterpret_cast<const std::byte*>(data.data());
  array.data.assign(first, first + size);
  const size_t width = static_cast<size_t>(host::HostBytesPerElement(array.type));
  if (big && width > 1) {
    const bool complex = array.type == PJRT_Buffer_Type_C64 || array.type == PJRT_Buffer_Type_C128;
    const size_t unit = complex ? width / 2 : width;
    for (size_t i = 0; i + unit <= size; i += unit) std::reverse(array.data.begin() + i, array.data.begin() + i + unit);
  }
  if (absl::StartsWith(order, "True")) array.data = FromFortran(array, width);
  return array;
}

absl::StatusOr<std::string> FormatNpy(const HostArray& array) {
  std::string descr;
  for (const NpyType& row : kNpyTypes) {
    if (row.type == array.type) descr = absl::StrCat(host::HostBytesPerElement(array.type) == 1 ? "|" : "<", row.descr);
  }
  if (descr.empty()) {
    const int width = host::HostBytesPerElement(array.type);
    if (width == 0)
      return absl::InvalidArgumentError(absl::StrCat("npy: ", host::ElementTypeName(array.type), " has no elements"));
    descr = absl::StrCat(width == 1 ? "|V" : "<V", width);
  }
  std::string header = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(array.dims, ", "), array.dims.size() == 1 ? ",), }" : "), }");
  header.append(63 - (10 + header.size()) % 64, ' ');  // the data begins at a multiple of 64
  header.push_back('\n');
  if (header.size() > 0xFFFF) return absl::InvalidArgumentError("npy: too many dims");
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(header.size() & 0xFF));
  out.push_back(static_cast<char>(header.size() >> 8));
  absl::StrAppend(&out, header, absl::string_view(reinterpret_cast<const char*>(array.data.data()), array.data.size()));
  return out;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  constexpr long long kMax = 1LL << 34;
  FILE* file = path == "-" ? stdin : fopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string bytes;
  bool too_large = false;
  char block[1 << 16];
  for (size_t n; (n = fread(block, 1, sizeof(block), file)) > 0 && !too_large;) {
    bytes.append(block, n);
    too_large = static_cast<long long>(bytes.size()) > kMax;
  }
  const bool failed = ferror(file) != 0;
  const int error = errno;
  if (file != stdin) fclose(file);
  if (too_large) return absl::InvalidArgumentError(absl::StrCat(path, ": larger than ", kMax, " bytes"));
  if (failed) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(error)));
  return bytes;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  FILE* file = path == "-" ? stdout : fopen(path.c_str(), "wb");
  if (file == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  const bool written = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = file == stdout ? fflush(file) == 0 : fclose(file) == 0;
  if (!written || !closed)
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace backplane::cli
