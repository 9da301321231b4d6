// Writes and reads the protobuf wire format, for messages without generated classes.
//
// WireWriter appends fields; WireReader visits them in order. The reader checks every length against the bytes that are
// left, and stops at malformed input. Both are value types without synchronization.
#ifndef BACKPLANE_BASE_WIRE_H_
#define BACKPLANE_BASE_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace backplane {

class WireWriter {
 public:
  void Varint(uint32_t field, uint64_t value) {
    Raw(uint64_t{field} << 3);
    Raw(value);
  }
  // Writes a zigzag-encoded number, which is short if the number is close to zero.
  void Signed(uint32_t field, int64_t value) { Varint(field, ZigZag(value)); }
  // Writes nothing for false, as proto3 does.
  void Flag(uint32_t field, bool value) {
    if (value) Varint(field, 1);
  }
  void Double(uint32_t field, double value) {
    Raw(uint64_t{field} << 3 | 1);
    char bytes[8];
    std::memcpy(bytes, &value, 8);  // the format is little-endian, as are all supported targets
    out_.append(bytes, 8);
  }
  void Bytes(uint32_t field, absl::string_view bytes) {
    Raw(uint64_t{field} << 3 | 2);
    Raw(bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  // Write a list of numbers as one packed field, as varints or in zigzag encoding. They write nothing for an empty
  // list.
  template <typename List>
  void Packed(uint32_t field, const List& values) {
    if (values.empty()) return;
    WireWriter list;
    for (auto v : values) list.Raw(static_cast<uint64_t>(static_cast<int64_t>(v)));
    Bytes(field, list.out_);
  }
  template <typename List>
  void PackedSigned(uint32_t field, const List& values) {
    if (values.empty()) return;
    WireWriter list;
    for (auto v : values) list.Raw(ZigZag(static_cast<int64_t>(v)));
    Bytes(field, list.out_);
  }
  // Appends a varint without a field number, for building a packed list.
  void Raw(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  // Appends encoded fields.
  void Append(absl::string_view fields) { out_.append(fields.data(), fields.size()); }
  const std::string& str() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  static uint64_t ZigZag(int64_t v) { return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63); }

  std::string out_;
};

class WireReader {
 public:
  // `bytes` must outlive the reader.
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}

  // Reads the next field into the public members. Returns false at the end, and for malformed bytes; ok() tells which.
  bool Next() {
    if (!ok_ || rest_.empty()) return false;
    const uint64_t key = Raw();
    field = key >> 3;
    type = static_cast<int>(key & 7);
    value = 0;
    bytes = {};
    switch (type) {
      case 0:
        value = Raw();
        break;
      case 1:
        Skip(8);
        break;
      case 2: {
        const uint64_t size = Raw();
        if (!ok_ || size > rest_.size()) return ok_ = false;
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        break;
      }
      case 5:
        Skip(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  int64_t signed_value() const { return UnZigZag(value); }
  // Appends the numbers of a packed list in zigzag encoding. Uses at most eight times as much memory as `bytes`.
  template <typename List>
  void PackedSigned(List* list) {
    WireReader inner(bytes);
    while (inner.ok_ && !inner.rest_.empty())
      list->push_back(static_cast<typename List::value_type>(UnZigZag(inner.Raw())));
    ok_ = ok_ && inner.ok_;
  }
  // Reads a varint without a field number, as in a packed list.
  uint64_t Raw() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }
  // Marks the input as malformed.
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool AtEnd() const { return rest_.empty(); }
  absl::string_view rest() const { return rest_; }  // the bytes that have not been read

  uint64_t field = 0;
  int type = 0;             // 0: varint, 1: 8 bytes, 2: length-delimited, 5: 4 bytes
  uint64_t value = 0;       // of type 0
  absl::string_view bytes;  // of type 2

 private:
  static int64_t UnZigZag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }
  void Skip(size_t n) {
    if (n > rest_.size()) {
      ok_ = false;
      return;
    }
    rest_.remove_prefix(n);
  }

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace backplane

#endif  // BACKPLANE_BASE_WIRE_H_
