// Topologies: descriptions of devices that need not exist in this process, and compilation for them.
#ifndef BACKPLANE_SDK_HOST_TOPOLOGY_H_
#define BACKPLANE_SDK_HOST_TOPOLOGY_H_

#include "sdk/host/compile_options.h"
#include "sdk/host/executable.h"

namespace backplane::host {

// Thread-safe, except for moving and destroying.
class Topology {
 public:
  // `name` is defined by the platform; empty for its default. Initializes the plugin.
  static absl::StatusOr<Topology> Create(const Plugin& plugin, absl::string_view name,
                                         absl::Span<const NamedValue> options = {});
  static absl::StatusOr<Topology> Deserialize(const Plugin& plugin, absl::string_view bytes);

  absl::StatusOr<std::string> PlatformName() const;
  absl::StatusOr<std::string> PlatformVersion() const;
  absl::StatusOr<std::vector<DeviceDescription>> Devices() const;  // valid as long as the topology
  absl::StatusOr<std::vector<NamedValue>> Attributes() const;
  absl::StatusOr<std::string> Serialize() const;
  absl::StatusOr<uint64_t> Fingerprint() const;
  // Needs no client. Client::Load makes the result runnable.
  absl::StatusOr<Executable> Compile(const Program& program, const CompileOptions& options = {}) const;

  PJRT_TopologyDescription* raw() const { return raw_; }

 private:
  friend class Client;
  Topology(const Plugin& plugin, std::shared_ptr<const void> keep, PJRT_TopologyDescription* raw)
      : plugin_(&plugin), keep_(std::move(keep)), raw_(raw) {}

  const Plugin* plugin_;
  std::shared_ptr<const void> keep_;  // the owner of `raw_`: a handle, or the client
  PJRT_TopologyDescription* raw_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_TOPOLOGY_H_
