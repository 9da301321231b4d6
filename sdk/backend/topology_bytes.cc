#include "sdk/backend/topology_bytes.h"

#include <cstring>
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

template <typename T>
std::string PackInts(const std::vector<T>& values) {
  WireWriter out;
  for (T v : values) out.Raw(static_cast<uint64_t>(static_cast<int64_t>(v)));
  return out.Take();
}

bool UnpackInts(absl::string_view bytes, std::vector<int32_t>* out) {
  WireReader in(bytes);
  while (!in.AtEnd() && in.ok()) out->push_back(static_cast<int32_t>(in.Raw()));
  return in.ok();
}

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
  bool ok = true, magic = false, whole = false;
  WireReader in(bytes);
  for (size_t end = 0; ok && in.Next(); end = bytes.size() - in.rest().size()) {
    switch (in.field) {
      case 1:
        magic = in.bytes == kTopologyMagic;
        break;
      case 2:
        t.platform_name = std::string(in.bytes);
        break;
      case 3:
        t.platform_version = std::string(in.bytes);
        break;
      case 4: {
        DeviceInfo d;
        WireReader r(in.bytes);
        while (ok && r.Next()) {
          switch (r.field) {
            case 1:
              d.id = static_cast<int32_t>(r.value);
              break;
            case 2:
              d.process_index = static_cast<int32_t>(r.value);
              break;
            case 3:
              d.local_hardware_id = static_cast<int32_t>(r.value);
              break;
            case 4:
              d.kind = std::string(r.bytes);
              break;
            case 5:
              d.debug_string = std::string(r.bytes);
              break;
            case 6:
              d.to_string = std::string(r.bytes);
              break;
            case 7:
              ok = ParseValues(r.bytes, &d.attributes);
              break;
            case 8:
              ok = UnpackInts(r.bytes, &d.memories);
              break;
            default:
              break;
          }
        }
        ok = ok && r.ok();
        t.devices.push_back(std::move(d));
        break;
      }
      case 5: {
        MemoryInfo m;
        WireReader r(in.bytes);
        while (ok && r.Next()) {
          switch (r.field) {
            case 1:
              m.id = static_cast<int32_t>(r.value);
              break;
            case 2:
              m.kind = std::string(r.bytes);
              break;
            case 3:
              m.kind_id = static_cast<int32_t>(r.value);
              break;
            case 4:
              ok = UnpackInts(r.bytes, &m.devices);
              break;
            default:
              break;
          }
        }
        ok = ok && r.ok();
        t.memories.push_back(std::move(m));
        break;
      }
      case 6:
        ok = ParseValues(in.bytes, &t.attributes);
        break;
      case 7:
        whole = in.value == Fnv1a64(bytes.substr(0, end)) && in.AtEnd();
        break;
      default:
        break;
    }
  }
  if (!ok || !in.ok() || !magic || !whole)
    return absl::InvalidArgumentError("topology: these bytes are no serialized topology of ours");
  if (absl::Status s = CheckTopology(t); !s.ok()) return absl::InvalidArgumentError(s.message());
  return t;
}

std::string SerializeTopology(const Topology& t) {
  WireWriter out;
  out.Bytes(1, kTopologyMagic);
  out.Bytes(2, t.platform_name);
  out.Bytes(3, t.platform_version);
  for (const DeviceInfo& d : t.devices) {
    WireWriter w;
    w.Varint(1, static_cast<uint64_t>(d.id));
    w.Varint(2, static_cast<uint64_t>(d.process_index));
    w.Varint(3, static_cast<uint64_t>(static_cast<int64_t>(d.local_hardware_id)));
    w.Bytes(4, d.kind);
    w.Bytes(5, d.debug_string);
    w.Bytes(6, d.to_string);
    w.Bytes(7, SerializeValues(d.attributes));
    w.Bytes(8, PackInts(d.memories));
    out.Bytes(4, w.str());
  }
  for (const MemoryInfo& m : t.memories) {
    WireWriter w;
    w.Varint(1, static_cast<uint64_t>(m.id));
    w.Bytes(2, m.kind);
    w.Varint(3, static_cast<uint64_t>(static_cast<int64_t>(m.kind_id)));
    w.Bytes(4, PackInts(m.devices));
    out.Bytes(5, w.str());
  }
  out.Bytes(6, SerializeValues(t.attributes));
  out.Varint(7, Fnv1a64(out.str()));
  return out.Take();
}

}  // namespace backplane
