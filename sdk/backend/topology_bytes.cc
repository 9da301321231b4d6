#include "sdk/backend/topology_bytes.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/wire.h"

namespace backplane {
namespace {

constexpr absl::string_view kTopologyMagic = "backplane.topology.1";

std::string SerializeValues(const NamedValues& values) {
  WireWriter out;
  for (const auto& [name, value] : values) {
    WireWriter entry;
    entry.Bytes(1, name);
    if (const auto* s = std::get_if<std::string>(&value)) {
      entry.Bytes(2, *s);
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      entry.Varint(3, static_cast<uint64_t>(*i));
    } else if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) {
      WireWriter list;
      for (int64_t v : *l) list.Raw(static_cast<uint64_t>(v));
      entry.Bytes(4, list.str());
    } else if (const auto* f = std::get_if<float>(&value)) {
      uint32_t bits;
      std::memcpy(&bits, f, sizeof(bits));
      entry.Varint(5, bits);
    } else {
      entry.Varint(6, std::get<bool>(value));
    }
    out.Bytes(1, entry.str());
  }
  return out.Take();
}

bool ParseValues(absl::string_view bytes, NamedValues* out) {
  WireReader in(bytes);
  while (in.Next()) {
    WireReader entry(in.bytes);
    std::string name;
    NamedValue value;
    while (entry.Next()) {
      switch (entry.field) {
        case 1:
          name = std::string(entry.bytes);
          break;
        case 2:
          value = std::string(entry.bytes);
          break;
        case 3:
          value = static_cast<int64_t>(entry.value);
          break;
        case 4: {
          std::vector<int64_t> list;
          WireReader values(entry.bytes);
          while (!values.AtEnd() && values.ok()) list.push_back(static_cast<int64_t>(values.Raw()));
          if (!values.ok()) return false;
          value = std::move(list);
          break;
        }
        case 5: {
          const uint32_t bits = static_cast<uint32_t>(entry.value);
          float f;
          std::memcpy(&f, &bits, sizeof(f));
          value = f;
          break;
        }
        case 6:
          value = entry.value != 0;
          break;
        default:
          break;
      }
    }
    if (!entry.ok()) return false;
    (*out)[name] = std::move(value);
  }
  return in.ok();
}

// The fields of each message with their numbers, which FieldWriter and FieldReader visit.
template <typename Message, typename Visitor>
requires std::is_same_v<std::remove_const_t<Message>, DeviceInfo>
void VisitFields(Message& device, Visitor& visit) {
  visit(1, device.id);
  visit(2, device.process_index);
  visit(3, device.local_hardware_id);
  visit(4, device.kind);
  visit(5, device.debug_string);
  visit(6, device.to_string);
  visit(7, device.attributes);
  visit(8, device.memories);
}
template <typename Message, typename Visitor>
requires std::is_same_v<std::remove_const_t<Message>, MemoryInfo>
void VisitFields(Message& memory, Visitor& visit) {
  visit(1, memory.id);
  visit(2, memory.kind);
  visit(3, memory.kind_id);
  visit(4, memory.devices);
}
// Field 1 is the magic number, field 7 the digest of all fields before it.
template <typename Message, typename Visitor>
requires std::is_same_v<std::remove_const_t<Message>, Topology>
void VisitFields(Message& topology, Visitor& visit) {
  visit(2, topology.platform_name);
  visit(3, topology.platform_version);
  visit(4, topology.devices);
  visit(5, topology.memories);
  visit(6, topology.attributes);
}

class FieldWriter {
 public:
  void operator()(uint32_t field, int32_t value) { out_.Varint(field, static_cast<uint64_t>(int64_t{value})); }
  void operator()(uint32_t field, const std::string& value) { out_.Bytes(field, value); }
  void operator()(uint32_t field, const NamedValues& values) { out_.Bytes(field, SerializeValues(values)); }
  void operator()(uint32_t field, const std::vector<int32_t>& values) {
    WireWriter list;
    for (int32_t v : values) list.Raw(static_cast<uint64_t>(int64_t{v}));
    out_.Bytes(field, list.str());
  }
  template <typename Message>
  void operator()(uint32_t field, const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      FieldWriter writer;
      VisitFields(message, writer);
      out_.Bytes(field, writer.out_.str());
    }
  }
  WireWriter& out() { return out_; }

 private:
  WireWriter out_;
};

// Stores the field that `in` is at in the member with its number. Repeated messages are appended.
class FieldReader {
 public:
  explicit FieldReader(WireReader& in) : in_(in) {}
  void operator()(uint32_t field, int32_t& value) {
    if (in_.field == field) value = static_cast<int32_t>(in_.value);
  }
  void operator()(uint32_t field, std::string& value) {
    if (in_.field == field) value = std::string(in_.bytes);
  }
  void operator()(uint32_t field, NamedValues& values) {
    if (in_.field == field) ok_ &= ParseValues(in_.bytes, &values);
  }
  void operator()(uint32_t field, std::vector<int32_t>& values) {
    if (in_.field != field) return;
    WireReader list(in_.bytes);
    while (!list.AtEnd() && list.ok()) values.push_back(static_cast<int32_t>(list.Raw()));
    ok_ &= list.ok();
  }
  template <typename Message>
  void operator()(uint32_t field, std::vector<Message>& messages) {
    if (in_.field != field) return;
    WireReader in(in_.bytes);
    FieldReader reader(in);
    Message& message = messages.emplace_back();
    while (reader.ok_ && in.Next()) VisitFields(message, reader);
    ok_ &= reader.ok_ && in.ok();
  }
  bool ok() const { return ok_; }

 private:
  WireReader& in_;
  bool ok_ = true;
};

}  // namespace

absl::Status CheckTopology(const Topology& topology) {
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const DeviceInfo& device = topology.devices[i];
    if (device.id != static_cast<int32_t>(i)) {
      return absl::InternalError(absl::StrCat("topology: device ", i, " has id ", device.id));
    }
    for (int32_t m : device.memories) {
      if (m < 0 || m >= static_cast<int32_t>(topology.memories.size())) {
        return absl::InternalError(
            absl::StrCat("topology: device ", i, " names memory ", m, " of ", topology.memories.size()));
      }
    }
  }
  for (size_t i = 0; i < topology.memories.size(); ++i) {
    const MemoryInfo& memory = topology.memories[i];
    if (memory.id != static_cast<int32_t>(i)) {
      return absl::InternalError(absl::StrCat("topology: memory ", i, " has id ", memory.id));
    }
    if (memory.devices.empty())
      return absl::InternalError(absl::StrCat("topology: memory ", i, " belongs to no device"));
    for (int32_t d : memory.devices) {
      if (d < 0 || d >= static_cast<int32_t>(topology.devices.size())) {
        return absl::InternalError(
            absl::StrCat("topology: memory ", i, " names device ", d, " of ", topology.devices.size()));
      }
    }
  }
  if (topology.devices.empty()) return absl::InternalError("topology: no devices");
  return absl::OkStatus();
}

absl::StatusOr<Topology> ParseTopology(absl::string_view bytes) {
  Topology t;
  bool magic = false, whole = false;
  WireReader in(bytes);
  FieldReader reader(in);
  for (size_t end = 0; reader.ok() && in.Next(); end = bytes.size() - in.rest().size()) {
    if (in.field == 1) magic = in.bytes == kTopologyMagic;
    if (in.field == 7) whole = in.value == Fnv1a64(bytes.substr(0, end)) && in.AtEnd();
    VisitFields(t, reader);
  }
  if (!reader.ok() || !in.ok() || !magic || !whole)
    return absl::InvalidArgumentError("topology: these bytes are no serialized topology of ours");
  if (absl::Status s = CheckTopology(t); !s.ok()) return absl::InvalidArgumentError(s.message());
  return t;
}

std::string SerializeTopology(const Topology& t) {
  FieldWriter writer;
  writer.out().Bytes(1, kTopologyMagic);
  VisitFields(t, writer);
  writer.out().Varint(7, Fnv1a64(writer.out().str()));
  return writer.out().Take();
}

}  // namespace backplane
