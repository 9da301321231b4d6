// The part of the protobuf wire format that a session file needs. The reader checks every length.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_WIRE_H_
#define BACKPLANE_SDK_LAYERS_RECORD_WIRE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace backplane::record {

class WireWriter {
 public:
  void Varint(uint32_t field, uint64_t value) {
    Raw(uint64_t{field} << 3);
    Raw(value);
  }
  // A small absolute value takes few bytes.
  void Signed(uint32_t field, int64_t value) { Varint(field, ZigZag(value)); }
  void Bytes(uint32_t field, absl::string_view bytes) {
    Raw(uint64_t{field} << 3 | 2);
    Raw(bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  template <typename List>
  void Packed(uint32_t field, const List& values) {
    if (values.empty()) return;
    WireWriter inner;
    for (auto v : values) inner.Raw(ZigZag(static_cast<int64_t>(v)));
    Bytes(field, inner.out_);
  }
  void Raw(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  // Appends bytes that are encoded fields.
  void Append(absl::string_view fields) { out_.append(fields.data(), fields.size()); }
  static uint64_t ZigZag(int64_t v) { return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}

  // Advances to the next field. Returns false at the end and for invalid bytes; ok() tells which.
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
  // Reads the elements of a packed field. The result has at most eight times the size of the bytes.
  template <typename List>
  void Packed(List* list) {
    WireReader inner(bytes);
    while (inner.ok_ && !inner.rest_.empty())
      list->push_back(static_cast<typename List::value_type>(UnZigZag(inner.Raw())));
    ok_ = ok_ && inner.ok_;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  static int64_t UnZigZag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }

  uint64_t field = 0, value = 0;
  int type = 0;  // 0: value, 2: bytes
  absl::string_view bytes;

  // Reads the next number of a packed field, and returns the bytes that have not been read.
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
  absl::string_view rest() const { return rest_; }

 private:
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

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_WIRE_H_
