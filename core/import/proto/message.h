// Implements protobuf's wire format without the protobuf library, for the message classes that messages.py generates
// from the .proto files of this folder. A plugin that referred to protobuf's symbols would be bound to those of a host
// that has loaded another version globally (`import tensorflow` does so), and crash.
//
// The classes read messages as protobuf does: absent numbers are 0, a message that occurs twice is merged, repeated
// numbers may be packed or not, and a field with an unexpected wire type is skipped like an unknown field. Unknown
// fields are dropped. Any bytes are safe to parse: lengths are checked, and nesting deeper than kMaxDepth is an error.
// Fields are written in the order of their numbers, so equal messages give equal bytes. Not thread-safe.
#ifndef BACKPLANE_CORE_IMPORT_PROTO_MESSAGE_H_
#define BACKPLANE_CORE_IMPORT_PROTO_MESSAGE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace backplane::proto {

// A repeated field of numbers.
template <typename T>
class RepeatedField {
 public:
  // Not bool itself, because the elements of std::vector<bool> have no addresses.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, char, T>;
  int size() const { return static_cast<int>(values_.size()); }
  bool empty() const { return values_.empty(); }
  T Get(int i) const { return static_cast<T>(values_[static_cast<size_t>(i)]); }
  void Set(int i, T v) { values_[static_cast<size_t>(i)] = static_cast<Stored>(v); }
  void Add(T v) { values_.push_back(static_cast<Stored>(v)); }
  void Clear() { values_.clear(); }
  void Reserve(int n) { values_.reserve(static_cast<size_t>(n)); }
  void SwapElements(int i, int k) { std::swap(values_[static_cast<size_t>(i)], values_[static_cast<size_t>(k)]); }
  const Stored* data() const { return values_.data(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  auto rbegin() const { return values_.rbegin(); }
  auto rend() const { return values_.rend(); }

 private:
  std::vector<Stored> values_;
};

// A repeated field of strings or messages. Pointers to elements are valid until the next Add.
template <typename T>
class RepeatedPtrField {
 public:
  int size() const { return static_cast<int>(values_.size()); }
  bool empty() const { return values_.empty(); }
  const T& Get(int i) const { return values_[static_cast<size_t>(i)]; }
  T* Mutable(int i) { return &values_[static_cast<size_t>(i)]; }
  T* Add() { return &values_.emplace_back(); }
  void RemoveLast() { values_.pop_back(); }
  void Clear() { values_.clear(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }

 private:
  std::vector<T> values_;
};

// A message that may be absent. A copy contains a copy of the message.
template <typename T>
class Optional {
 public:
  Optional() = default;
  Optional(const Optional& o) : value_(o.value_ == nullptr ? nullptr : std::make_unique<T>(*o.value_)) {}
  Optional(Optional&&) noexcept = default;
  Optional& operator=(const Optional& o) {
    if (this != &o) value_ = o.value_ == nullptr ? nullptr : std::make_unique<T>(*o.value_);
    return *this;
  }
  Optional& operator=(Optional&&) noexcept = default;
  bool has() const { return value_ != nullptr; }
  const T& get() const {
    static const T* const kEmpty = new T;  // never destroyed, because other threads may use it while the process exits
    return value_ == nullptr ? *kEmpty : *value_;
  }
  T* mutable_get() {
    if (value_ == nullptr) value_ = std::make_unique<T>();
    return value_.get();
  }
  void clear() { value_ = nullptr; }

 private:
  std::unique_ptr<T> value_;
};

class Message;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kGroupEnd = 4, kFixed32 = 5 };

// Reads fields from bytes. Every function returns false if the bytes are truncated or malformed.
class WireInput {
 public:
  static constexpr int kMaxDepth = 100;
  // The messages that are created may take *memory bytes in all, which are subtracted; null: without a limit.
  explicit WireInput(absl::string_view bytes, size_t* memory = nullptr, int depth = 0)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), memory_(memory), depth_(depth) {}
  bool AtEnd() const { return at_ == end_; }
  bool Tag(uint32_t* number, uint32_t* wire);
  bool Skip(uint32_t number, uint32_t wire);  // a field whose tag has been read

  // Read the value of a field whose tag has been read. A field of another wire type is skipped.
  template <typename T>
  bool Field(uint32_t number, uint32_t wire, T* out) {
    if constexpr (std::is_base_of_v<Message, T>) {
      return wire == kBytes ? Merge(out) : Skip(number, wire);
    } else if constexpr (std::is_same_v<T, std::string>) {
      absl::string_view bytes;
      if (wire != kBytes) return Skip(number, wire);
      if (!Bytes(&bytes)) return false;
      out->assign(bytes.data(), bytes.size());
      return true;
    } else {
      return wire == GetWireType<T>() ? Number(out) : Skip(number, wire);
    }
  }
  template <typename T>
  bool Field(uint32_t number, uint32_t wire, Optional<T>* out) {
    if (wire != kBytes) return Skip(number, wire);
    return (out->has() || Spend(sizeof(T))) && Merge(out->mutable_get());
  }
  template <typename T>
  bool Field(uint32_t number, uint32_t wire, RepeatedPtrField<T>* out) {
    if (wire != kBytes) return Skip(number, wire);
    return Spend(sizeof(T)) && Field(number, wire, out->Add());
  }
  template <typename T>
  bool Field(uint32_t number, uint32_t wire, RepeatedField<T>* out) {
    T v{};
    if (wire != kBytes) {
      if (wire != GetWireType<T>()) return Skip(number, wire);
      if (!Number(&v)) return false;
      out->Add(v);
      return true;
    }
    absl::string_view bytes;
    if (!Bytes(&bytes)) return false;
    WireInput packed(bytes);
    // Reserves only once: reserving for each of many short runs would copy all elements each time.
    if (std::is_floating_point_v<T> && out->empty())
      out->Reserve(out->size() + static_cast<int>(bytes.size() / sizeof(T)));
    while (!packed.AtEnd()) {
      if (!packed.Number(&v)) return false;
      out->Add(v);
    }
    return true;
  }

 private:
  template <typename T>
  static constexpr uint32_t GetWireType() {
    return !std::is_floating_point_v<T> ? kVarint : sizeof(T) == 8 ? kFixed64 : kFixed32;
  }
  template <typename T>
  bool Number(T* out) {
    if constexpr (std::is_floating_point_v<T>) {
      if (static_cast<size_t>(end_ - at_) < sizeof(T)) return false;
      std::memcpy(out, at_, sizeof(T));
      at_ += sizeof(T);
    } else {
      uint64_t v = 0;
      if (!Varint(&v)) return false;
      if constexpr (std::is_same_v<T, bool>) {
        *out = v != 0;
      } else {
        *out = static_cast<T>(v);
      }
    }
    return true;
  }
  bool Varint(uint64_t* out);
  bool Bytes(absl::string_view* out);
  bool Merge(Message* out);
  bool Spend(size_t bytes) {
    if (memory_ == nullptr) return true;
    if (*memory_ < bytes) {
      *memory_ = 0;
      return false;
    }
    *memory_ -= bytes;
    return true;
  }

  const char* at_;
  const char* end_;
  size_t* const memory_;
  const int depth_;
};

// Writes fields, or only computes their size. Message computes the size first and then writes the same fields.
class WireOutput {
 public:
  explicit WireOutput(std::string* out) : out_(out) {}
  static size_t VarintSize(uint64_t v);

  // Write one field. Omits a number that is 0 and an empty string, unless `always`.
  template <typename T>
  void Field(uint32_t number, const T& v, bool always = false) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!v.empty() || always) Bytes(number, v);
    } else if constexpr (std::is_floating_point_v<T>) {
      T zero = 0;
      if (std::memcmp(&v, &zero, sizeof(T)) == 0 && !always) return;  // -0 is not left out
      Varint(number << 3 | (sizeof(T) == 8 ? kFixed64 : kFixed32));
      Raw(&v, sizeof(T));
    } else {
      if (v == T{} && !always) return;
      Varint(number << 3 | kVarint);
      Varint(SignExtend(v));
    }
  }
  template <typename T>
  void Field(uint32_t number, const Optional<T>& v, bool always = false) {
    if (v.has()) Sub(number, v.get());
  }
  template <typename T>
  void Field(uint32_t number, const RepeatedPtrField<T>& values) {
    for (const T& v : values) {
      if constexpr (std::is_same_v<T, std::string>) {
        Bytes(number, v);
      } else {
        Sub(number, v);
      }
    }
  }
  template <typename T>
  void Field(uint32_t number, const RepeatedField<T>& values) {
    if (values.empty()) return;
    Varint(number << 3 | kBytes);
    if constexpr (std::is_floating_point_v<T>) {
      Varint(static_cast<size_t>(values.size()) * sizeof(T));
      Raw(values.data(), static_cast<size_t>(values.size()) * sizeof(T));
    } else {
      size_t size = 0;
      for (T v : values) size += VarintSize(SignExtend(v));
      Varint(size);
      for (T v : values) Varint(SignExtend(v));
    }
  }
  size_t size() const { return size_; }

 private:
  template <typename T>
  static uint64_t SignExtend(T v) {  // negative numbers are sign-extended to 64 bits
    return std::is_signed_v<T> ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v);
  }
  void Raw(const void* bytes, size_t size) {
    size_ += size;
    if (out_ != nullptr) out_->append(static_cast<const char*>(bytes), size);
  }
  void Varint(uint64_t v);
  void Bytes(uint32_t number, absl::string_view bytes);
  void Sub(uint32_t number, const Message& message);

  std::string* const out_;  // null: only the size is wanted
  size_t size_ = 0;
};

class Message {
 public:
  virtual ~Message() = default;
  // Replaces the content of the message. Returns false for malformed bytes; the message then holds what was read before
  // the error. An empty message is two bytes, but takes up to thousands in memory; so bytes that contain very many
  // nearly empty messages are not read either. *too_many tells that this is why.
  bool ParseFromString(absl::string_view bytes, bool* too_many = nullptr);
  // Returns the size of the serialized message. Nested messages store their sizes for the following serialization.
  size_t ByteSizeLong() const;
  std::string SerializeAsString() const;
  virtual void Clear() = 0;

 protected:
  Message() = default;
  Message(const Message&) = default;
  Message(Message&&) noexcept = default;
  Message& operator=(const Message&) = default;
  Message& operator=(Message&&) noexcept = default;

 private:
  friend class WireInput;
  friend class WireOutput;
  virtual bool ReadField(uint32_t number, uint32_t wire, WireInput& in) = 0;
  virtual void WriteFields(WireOutput& out) const = 0;

  mutable size_t size_ = 0;
};

}  // namespace backplane::proto

#endif  // BACKPLANE_CORE_IMPORT_PROTO_MESSAGE_H_
