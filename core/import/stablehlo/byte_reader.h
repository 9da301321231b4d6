// Reads the primitives of MLIR bytecode from a range of bytes. The first error is kept: later reads return zero, so the
// caller may check once per record instead of once per field. Allocates no memory except for errors.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_BYTE_READER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_BYTE_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace backplane::stablehlo {

class ByteReader {
 public:
  // `origin` is the offset of bytes[0] in the file and `what` names the range; both are used in error messages only.
  // The bytes and the name must outlive the reader.
  ByteReader(absl::string_view bytes, uint64_t origin, absl::string_view what)
      : bytes_(bytes), origin_(origin), what_(what) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  bool AtEnd() const { return pos_ == bytes_.size(); }
  uint64_t Left() const { return bytes_.size() - pos_; }
  uint64_t Position() const { return origin_ + pos_; }

  // Sets the error, with the position, unless there is one already. Returns the error.
  const absl::Status& Fail(absl::string_view message) {
    if (status_.ok()) {
      status_ =
          absl::InvalidArgumentError(absl::StrCat("portable artifact: ", what_, ", byte ", Position(), ": ", message));
      pos_ = bytes_.size();
    }
    return status_;
  }

  // Sets an error that another reader found, unless there is one already.
  void Adopt(const absl::Status& status) {
    if (status_.ok() && !status.ok()) {
      status_ = status;
      pos_ = bytes_.size();
    }
  }

  // Prepends `context` to the message of the error, if there is one.
  void Annotate(absl::string_view context) {
    if (!status_.ok()) status_ = absl::Status(status_.code(), absl::StrCat(context, ": ", status_.message()));
  }

  uint8_t Byte() {
    if (pos_ >= bytes_.size()) {
      Fail("bytes end in the middle of a record");
      return 0;
    }
    return static_cast<uint8_t>(bytes_[pos_++]);
  }

  uint64_t Varint() {
    uint8_t first = Byte();
    if (first & 1) return first >> 1;
    int more = first == 0 ? 8 : __builtin_ctz(first);
    if (Left() < static_cast<uint64_t>(more)) {
      Fail("bytes end in the middle of a variable-length integer");
      return 0;
    }
    uint64_t rest = 0;
    for (int i = 0; i < more; ++i) rest |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[pos_ + i])) << (8 * i);
    pos_ += more;
    if (first == 0) return rest;
    // The n trailing zero bits and the marker bit occupy the low end of the n+1 bytes.
    uint64_t low = first >> (more + 1);
    return (rest << (7 - more)) | low;
  }

  uint64_t VarintFlag(bool* flag) {
    uint64_t v = Varint();
    *flag = v & 1;
    return v >> 1;
  }

  int64_t SignedVarint() {
    uint64_t v = Varint();
    return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1));
  }

  // Reads a count of items that take at least one byte each. Fails if fewer bytes are left.
  uint64_t Count(absl::string_view of) {
    uint64_t n = Varint();
    if (ok() && n > Left()) {
      Fail(absl::StrCat(n, " ", of, " announced, ", Left(), " bytes left"));
      return 0;
    }
    return ok() ? n : 0;
  }

  absl::string_view Bytes(uint64_t size) {
    if (size > Left()) {
      Fail(absl::StrCat(size, " bytes announced, ", Left(), " left"));
      return {};
    }
    absl::string_view out = bytes_.substr(pos_, size);
    pos_ += size;
    return out;
  }

  absl::string_view Blob() { return Bytes(Varint()); }

 private:
  absl::string_view bytes_;
  uint64_t pos_ = 0;
  uint64_t origin_;
  absl::string_view what_;
  absl::Status status_;
};

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_BYTE_READER_H_
