#include "sdk/host/topology.h"

#include "sdk/host/status.h"

namespace backplane::host {
namespace {

std::shared_ptr<const void> Own(const Plugin& plugin, PJRT_TopologyDescription* raw) {
  return std::make_shared<internal::Handle<PJRT_TopologyDescription>>(plugin, nullptr, raw);
}
}  // namespace

absl::StatusOr<Topology> Topology::Create(const Plugin& plugin, absl::string_view name,
                                          absl::Span<const NamedValue> options) {
  BP_RETURN_IF_ERROR(plugin.Initialize());
  std::vector<PJRT_NamedValue> borrowed = BorrowNamedValues(options);
  BP_PJRT_ARGS(plugin, a, PJRT_TopologyDescription_Create);
  a.topology_name = name.data();
  a.topology_name_size = name.size();
  a.create_options = borrowed.data();
  a.num_options = borrowed.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_TopologyDescription_Create, a));
  return Topology(plugin, Own(plugin, a.topology), a.topology);
}

absl::StatusOr<Topology> Topology::Deserialize(const Plugin& plugin, absl::string_view bytes) {
  BP_RETURN_IF_ERROR(plugin.Initialize());
  BP_PJRT_ARGS(plugin, a, PJRT_TopologyDescription_Deserialize);
  a.serialized_topology = bytes.data();
  a.serialized_topology_size = bytes.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_TopologyDescription_Deserialize, a));
  return Topology(plugin, Own(plugin, a.topology), a.topology);
}

// Defines a getter: calls `fn` with the topology and returns the expression `out`.
#define BP_ASK(fn, out)                              \
  BP_PJRT_ARGS(*plugin_, a, fn);                     \
  a.topology = raw_;                                 \
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, fn, a)); \
  return out

absl::StatusOr<std::string> Topology::PlatformName() const {
  BP_ASK(PJRT_TopologyDescription_PlatformName, internal::CopyString(a.platform_name, a.platform_name_size));
}
absl::StatusOr<std::string> Topology::PlatformVersion() const {
  BP_ASK(PJRT_TopologyDescription_PlatformVersion, internal::CopyString(a.platform_version, a.platform_version_size));
}
absl::StatusOr<std::vector<NamedValue>> Topology::Attributes() const {
  BP_ASK(PJRT_TopologyDescription_Attributes, CopyNamedValues(a.attributes, a.num_attributes));
}
absl::StatusOr<uint64_t> Topology::Fingerprint() const { BP_ASK(PJRT_TopologyDescription_Fingerprint, a.fingerprint); }

absl::StatusOr<std::vector<DeviceDescription>> Topology::Devices() const {
  BP_PJRT_ARGS(*plugin_, a, PJRT_TopologyDescription_GetDeviceDescriptions);
  a.topology = raw_;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_TopologyDescription_GetDeviceDescriptions, a));
  std::vector<DeviceDescription> devices;
  for (size_t i = 0; i < a.num_descriptions; ++i) devices.emplace_back(*plugin_, a.descriptions[i]);
  return devices;
}

absl::StatusOr<std::string> Topology::Serialize() const {
  BP_PJRT_ARGS(*plugin_, a, PJRT_TopologyDescription_Serialize);
  a.topology = raw_;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_TopologyDescription_Serialize, a));
  std::string bytes = internal::CopyString(a.serialized_bytes, a.serialized_bytes_size);
  if (a.serialized_topology_deleter != nullptr) a.serialized_topology_deleter(a.serialized_topology);
  return bytes;
}

absl::StatusOr<Executable> Topology::Compile(const Program& program, const CompileOptions& options) const {
  const std::string bytes = options.Serialize();
  std::string code = program.code;
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = code.data();
  p.code_size = code.size();
  p.format = program.format.data();
  p.format_size = program.format.size();
  BP_PJRT_ARGS(*plugin_, a, PJRT_Compile);
  a.topology = raw_;
  a.program = &p;
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_Compile, a));
  return Executable(*plugin_, nullptr, a.executable);
}

#undef BP_ASK

}  // namespace backplane::host
