#include "plugins/hip/isa/code/message_pack.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace backplane::hip::isa {
namespace {

constexpr int kMaxDepth = 16;

class PackedReader {
 public:
  explicit PackedReader(absl::string_view bytes) : rest_(bytes) {}
  size_t remaining() const { return rest_.size(); }

  absl::Status Read(PackedValue& v, int depth) {
    if (depth > kMaxDepth) return MakeError("is nested too deeply");
    uint64_t tag = 0;
    if (!Take(1, tag)) return MakeError("ends early");
    if (tag < 0x80) return Integer(v, static_cast<int64_t>(tag));
    if (tag >= 0xe0) return Integer(v, static_cast<int8_t>(tag));
    if (tag < 0x90) return Map(v, tag & 15, depth);
    if (tag < 0xa0) return Array(v, tag & 15, depth);
    if (tag < 0xc0) return String(v, tag & 31);
    uint64_t n = 0;
    switch (tag) {
      case 0xc0:
        return absl::OkStatus();
      case 0xc2:
      case 0xc3:
        v.kind = PackedValue::Kind::kBool;
        v.integer = tag == 0xc3;
        return absl::OkStatus();
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        if (!Take(size_t{1} << (tag - 0xcc), n)) return MakeError("ends early");
        if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          return MakeError("has a number beyond 63 bits");
        return Integer(v, static_cast<int64_t>(n));
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3: {
        const int shift = 64 - (8 << (tag - 0xd0));
        if (!Take(size_t{1} << (tag - 0xd0), n)) return MakeError("ends early");
        return Integer(v, static_cast<int64_t>(n << shift) >> shift);
      }
      case 0xd9:
      case 0xda:
      case 0xdb:
        return Take(size_t{1} << (tag - 0xd9), n) ? String(v, n) : MakeError("ends early");
      case 0xdc:
      case 0xdd:
        return Take(size_t{2} << (tag - 0xdc), n) ? Array(v, n, depth) : MakeError("ends early");
      case 0xde:
      case 0xdf:
        return Take(size_t{2} << (tag - 0xde), n) ? Map(v, n, depth) : MakeError("ends early");
      default:
        return MakeError(absl::StrCat("has a value of the format 0x", absl::Hex(tag)));
    }
  }

 private:
  static absl::Status MakeError(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("isa: the metadata of the code object ", what));
  }
  // Numbers are big-endian.
  bool Take(size_t bytes, uint64_t& v) {
    if (rest_.size() < bytes) return false;
    v = 0;
    for (size_t i = 0; i < bytes; ++i) v = v << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(bytes);
    return true;
  }
  static absl::Status Integer(PackedValue& v, int64_t n) {
    v.kind = PackedValue::Kind::kInteger;
    v.integer = n;
    return absl::OkStatus();
  }
  absl::Status String(PackedValue& v, uint64_t bytes) {
    if (bytes > rest_.size()) return MakeError("ends early");
    v.kind = PackedValue::Kind::kString;
    v.text = std::string(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return absl::OkStatus();
  }
  absl::Status Array(PackedValue& v, uint64_t count, int depth) {
    if (count > rest_.size()) return MakeError("ends early");  // an item has at least a byte
    v.kind = PackedValue::Kind::kArray;
    for (uint64_t i = 0; i < count; ++i) {
      if (absl::Status s = Read(v.items.emplace_back(), depth + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  absl::Status Map(PackedValue& v, uint64_t count, int depth) {
    if (count > rest_.size() / 2) return MakeError("ends early");
    v.kind = PackedValue::Kind::kMap;
    for (uint64_t i = 0; i < count; ++i) {
      PackedValue key;
      if (absl::Status s = Read(key, depth + 1); !s.ok()) return s;
      if (key.kind != PackedValue::Kind::kString) return MakeError("has a key that is no string");
      v.keys.push_back(std::move(key.text));
      if (absl::Status s = Read(v.items.emplace_back(), depth + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::string_view rest_;
};

}  // namespace

const PackedValue* PackedValue::Find(absl::string_view name) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == name) return &items[i];
  }
  return nullptr;
}

absl::StatusOr<PackedValue> ReadMessagePack(absl::string_view bytes) {
  PackedReader reader(bytes);
  PackedValue v;
  if (absl::Status s = reader.Read(v, 0); !s.ok()) return s;
  if (reader.remaining() != 0) return absl::InvalidArgumentError("isa: bytes follow the metadata of the code object");
  return v;
}

}  // namespace backplane::hip::isa
