#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/wire.h"
#include "sdk/backend/topology_bytes.h"
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
