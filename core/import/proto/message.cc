#include "core/import/proto/message.h"

namespace backplane::proto {

bool WireInput::Varint(uint64_t* out) {
  uint64_t v = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == end_) return false;
    const uint8_t byte = static_cast<uint8_t>(*at_++);
    v |= static_cast<uint64_t>(byte & 0x7f) << shift;  // the tenth byte's upper bits fall off, as with protobuf
    if (byte < 0x80) {
      *out = v;
      return true;
    }
  }
  return false;
}

bool WireInput::Bytes(absl::string_view* out) {
  uint64_t size = 0;
  if (!Varint(&size) || size > static_cast<uint64_t>(end_ - at_)) return false;
  *out = absl::string_view(at_, static_cast<size_t>(size));
  at_ += size;
  return true;
}

bool WireInput::Tag(uint32_t* number, uint32_t* wire) {
  uint64_t tag = 0;
  if (!Varint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
  *number = static_cast<uint32_t>(tag >> 3);
  *wire = static_cast<uint32_t>(tag & 7);
  return true;
}

bool WireInput::Skip(uint32_t number, uint32_t wire) {
  uint64_t v = 0;
  absl::string_view bytes;
  switch (wire) {
    case kVarint:
      return Varint(&v);
    case kBytes:
      return Bytes(&bytes);
    case kFixed32:
    case kFixed64: {
      const size_t size = wire == kFixed32 ? 4 : 8;
      if (static_cast<size_t>(end_ - at_) < size) return false;
      at_ += size;
      return true;
    }
    case kGroup:
      break;
    default:
      return false;
  }
  // Nested groups are tracked in a list; their depth is bounded as that of messages.
  std::vector<uint32_t> open = {number};
  while (!open.empty()) {
    uint32_t inner = 0;
    if (!Tag(&inner, &wire)) return false;
    if (wire == kGroup) {
      if (static_cast<int>(open.size()) + depth_ >= kMaxDepth) return false;
      open.push_back(inner);
    } else if (wire == kGroupEnd) {
      if (inner != open.back()) return false;
      open.pop_back();
    } else if (!Skip(inner, wire)) {
      return false;
    }
  }
  return true;
}

bool WireInput::Merge(Message* out) {
  absl::string_view bytes;
  if (depth_ >= kMaxDepth || !Bytes(&bytes)) return false;
  WireInput inner(bytes, memory_, depth_ + 1);
  uint32_t number = 0, wire = 0;
  while (!inner.AtEnd()) {
    if (!inner.Tag(&number, &wire) || !out->ReadField(number, wire, inner)) return false;
  }
  return true;
}

size_t WireOutput::VarintSize(uint64_t v) {
  size_t n = 1;
  for (; v >= 0x80; v >>= 7) ++n;
  return n;
}

void WireOutput::Varint(uint64_t v) {
  if (out_ == nullptr) {
    size_ += VarintSize(v);
    return;
  }
  char bytes[10];
  size_t n = 0;
  for (; v >= 0x80; v >>= 7) bytes[n++] = static_cast<char>(v | 0x80);
  bytes[n++] = static_cast<char>(v);
  Raw(bytes, n);
}

void WireOutput::Bytes(uint32_t number, absl::string_view bytes) {
  Varint(number << 3 | kBytes);
  Varint(bytes.size());
  Raw(bytes.data(), bytes.size());
}

// Sizes are counted once, from the inside out; the writing that follows finds them in the messages.
void WireOutput::Sub(uint32_t number, const Message& message) {
  if (out_ == nullptr) message.ByteSizeLong();
  Varint(number << 3 | kBytes);
  Varint(message.size_);
  if (out_ == nullptr) {
    size_ += message.size_;
  } else {
    message.WriteFields(*this);
  }
}

bool Message::ParseFromString(absl::string_view bytes, bool* too_many) {
  // Instructions of real modules take up to 30 times their encoding.
  constexpr size_t kGrowth = 64, kAlways = size_t{1} << 24;
  Clear();
  size_t memory = bytes.size() * kGrowth + kAlways;
  WireInput in(bytes, &memory);
  uint32_t number = 0, wire = 0;
  while (!in.AtEnd()) {
    if (!in.Tag(&number, &wire) || !ReadField(number, wire, in)) {
      if (too_many != nullptr) *too_many = memory == 0;
      return false;
    }
  }
  return true;
}

size_t Message::ByteSizeLong() const {
  WireOutput count(nullptr);
  WriteFields(count);
  size_ = count.size();
  return size_;
}

std::string Message::SerializeAsString() const {
  std::string bytes;
  bytes.reserve(ByteSizeLong());
  WireOutput out(&bytes);
  WriteFields(out);
  return bytes;
}

}  // namespace backplane::proto
