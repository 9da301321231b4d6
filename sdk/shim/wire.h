// The part of the protobuf wire format that the shim's messages need. The reader checks every length.
#ifndef BACKPLANE_SDK_SHIM_WIRE_H_
#define BACKPLANE_SDK_SHIM_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::shim {

class WireWriter {
 public:
  void Varint(int field, uint64_t value) {
    Raw(static_cast<uint64_t>(field) << 3);
    Raw(value);
  }
  void Bytes(int field, absl::string_view bytes) {
    Raw(static_cast<uint64_t>(field) << 3 | 2);
    Raw(bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  template <typename T>
  void Packed(int field, absl::Span<const T> values) {
    WireWriter inner;
    for (T v : values) inner.Raw(static_cast<uint64_t>(static_cast<int64_t>(v)));
    if (!values.empty()) Bytes(field, inner.out_);
  }
  void Raw(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  const std::string& str() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}
  // Advances to the next field. Returns false at the end and for invalid bytes (then ok() is false).
  bool Next() {
    if (rest_.empty() || !ok_) return false;
    uint64_t key = Raw();
    field = static_cast<int>(key >> 3);
    type = static_cast<int>(key & 7);
    switch (type) {
      case 0:
        value = Raw();
        break;
      case 1:
        ok_ &= Skip(8);
        break;
      case 2: {
        uint64_t size = Raw();
        if (!ok_ || size > rest_.size()) return ok_ = false;
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        break;
      }
      case 5:
        ok_ &= Skip(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  bool AtEnd() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }  // bytes
  bool ok() const { return ok_; }
  uint64_t Raw() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const uint8_t b = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      v |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }

  int field = 0, type = 0;
  uint64_t value = 0;
  absl::string_view bytes;

 private:
  bool Skip(size_t n) {
    if (n > rest_.size()) return false;
    rest_.remove_prefix(n);
    return true;
  }
  absl::string_view rest_;
  bool ok_ = true;
};

// 64-bit FNV-1a.
inline uint64_t Hash64(absl::string_view bytes, uint64_t seed = 0xcbf29ce484222325u) {
  for (char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return seed;
}

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_WIRE_H_
