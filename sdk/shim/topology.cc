#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/wire.h"
#include "sdk/shim/compile_cache.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

PJRT_TopologyDescription::PJRT_TopologyDescription(backplane::Topology t)
    : topology(std::move(t)), attributes(topology.attributes) {
  for (const backplane::DeviceInfo& info : topology.devices) {
    auto description = std::make_unique<PJRT_DeviceDescription>();
    description->info = &info;
    description->attributes.Assign(info.attributes);
    for (int32_t m : info.memories) {
      description->memories.push_back({topology.memories[m].kind, topology.memories[m].kind_id});
    }
    for (const PJRT_MemoryDescription& m : description->memories) description->memory_pointers.push_back(&m);
    descriptions.push_back(description.get());
    owned.push_back(std::move(description));
  }
  for (const backplane::MemoryInfo& memory : topology.memories) {
    if (std::find(memory_kind_ids.begin(), memory_kind_ids.end(), memory.kind_id) == memory_kind_ids.end()) {
      memory_kind_ids.push_back(memory.kind_id);
    }
  }
}

namespace backplane::shim {
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

}  // namespace

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

absl::Status TopologyDescription_Create(PJRT_TopologyDescription_Create_Args& a) {
  if (a.topology_name_size > 0) BP_REQUIRE(a.topology_name);
  ASSIGN_OR_RETURN(NamedValues options, ReadNamedValues(a.create_options, a.num_options));
  std::string name(a.topology_name == nullptr ? "" : a.topology_name, a.topology_name_size);
  ASSIGN_OR_RETURN(std::shared_ptr<const CompileCache> compile_cache, TakeCompileCache(&options));
  ASSIGN_OR_RETURN(Topology topology, Plugin().backend->DescribeTopology(name, options));
  RETURN_IF_ERROR(CheckTopology(topology));
  a.topology = new PJRT_TopologyDescription(std::move(topology));
  a.topology->compile_cache = std::move(compile_cache);
  return absl::OkStatus();
}

absl::Status TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args& a) {
  delete a.topology;
  return absl::OkStatus();
}

absl::Status TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args& a) {
  BP_REQUIRE(a.topology);
  a.platform_name = a.topology->topology.platform_name.c_str();
  a.platform_name_size = a.topology->topology.platform_name.size();
  return absl::OkStatus();
}

absl::Status TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args& a) {
  BP_REQUIRE(a.topology);
  a.platform_version = a.topology->topology.platform_version.c_str();
  a.platform_version_size = a.topology->topology.platform_version.size();
  return absl::OkStatus();
}

absl::Status TopologyDescription_GetDeviceDescriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& a) {
  BP_REQUIRE(a.topology);
  a.descriptions = a.topology->descriptions.data();
  a.num_descriptions = a.topology->descriptions.size();
  return absl::OkStatus();
}

absl::Status TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args& a) {
  BP_REQUIRE(a.topology);
  auto* holder = new OwnedBytes{SerializeTopology(a.topology->topology)};
  a.serialized_bytes = holder->bytes.data();
  a.serialized_bytes_size = holder->bytes.size();
  a.serialized_topology = reinterpret_cast<PJRT_SerializedTopology*>(holder);
  a.serialized_topology_deleter = &DeleteOwnedBytes<PJRT_SerializedTopology>;
  return absl::OkStatus();
}

absl::Status TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args& a) {
  BP_REQUIRE(a.serialized_topology);
  ASSIGN_OR_RETURN(Topology topology,
                   ParseTopology(absl::string_view(a.serialized_topology, a.serialized_topology_size)));
  a.topology = new PJRT_TopologyDescription(std::move(topology));
  return absl::OkStatus();
}

absl::Status TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args& a) {
  BP_REQUIRE(a.topology);
  a.attributes = a.topology->attributes.data();
  a.num_attributes = a.topology->attributes.size();
  return absl::OkStatus();
}

absl::Status TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args& a) {
  BP_REQUIRE(a.topology);
  a.fingerprint = Fnv1a64(SerializeTopology(a.topology->topology));
  return absl::OkStatus();
}

absl::Status TopologyDescription_MakeCanonicalShapeForMemorySpace(
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args& a) {
  BP_REQUIRE(a.topology);
  const auto& kinds = a.topology->memory_kind_ids;
  if (std::find(kinds.begin(), kinds.end(), a.memory_space_kind_id) == kinds.end()) {
    return absl::InvalidArgumentError(absl::StrCat("shape: no memory kind with id ", a.memory_space_kind_id));
  }
  ASSIGN_OR_RETURN(Shape shape, ReadShape(a.element_type, a.dims, a.num_dims));
  Layout layout = Layout::RowMajor(shape.rank());
  if (a.layout != nullptr) {
    ASSIGN_OR_RETURN(layout, ReadLayout(a.layout, shape));
  }
  // ShapeProto: element_type 2, dimensions 3, layout 5, is_dynamic_dimension 6. LayoutProto: minor_to_major 1, tiles 6.
  WireWriter layout_proto;
  layout_proto.Packed(1, absl::Span<const int64_t>(layout.minor_to_major));
  for (const Tile& tile : layout.tiles) {
    WireWriter tile_proto;
    tile_proto.Packed(1, absl::Span<const int64_t>(tile.dims));
    layout_proto.Bytes(6, tile_proto.str());
  }
  WireWriter proto;
  proto.Varint(2, static_cast<uint64_t>(shape.element_type()));
  proto.Packed(3, absl::Span<const int64_t>(shape.dimensions()));
  proto.Bytes(5, layout_proto.str());
  const std::vector<int64_t> is_dynamic(shape.rank(), 0);
  proto.Packed(6, absl::Span<const int64_t>(is_dynamic));
  char* bytes = new char[proto.str().size() + 1];
  std::memcpy(bytes, proto.str().data(), proto.str().size());
  a.serialized_shape = bytes;
  a.serialized_shape_size = proto.str().size();
  a.serialized_shape_deleter = [](const char* p) { delete[] p; };
  return absl::OkStatus();
}

absl::Status TopologyDescription_GetMemorySpaceKindIds(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args& a) {
  BP_REQUIRE(a.topology);
  a.memory_space_kind_ids = a.topology->memory_kind_ids.data();
  a.num_memory_space_kind_ids = a.topology->memory_kind_ids.size();
  return absl::OkStatus();
}

}  // namespace backplane::shim
