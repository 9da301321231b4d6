// Topologies: descriptions of devices, and compilation for them.
#include <set>

#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

PJRT_TopologyDescription* OfClient(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_TopologyDescription);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_TopologyDescription, a);
  k.Require(a.topology != nullptr, "succeeded without a topology");
  return a.topology;
}

std::string Bytes(Kit& k, PJRT_TopologyDescription* topology) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_Serialize);
  a.topology = topology;
  KIT_OK(k, PJRT_TopologyDescription_Serialize, a);
  k.Require(a.serialized_bytes_size == 0 || a.serialized_bytes != nullptr, "a size without bytes");
  k.Require(a.serialized_topology_deleter != nullptr, "no deleter, which hosts call");
  std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_topology_deleter(a.serialized_topology);
  return bytes;
}

uint64_t Fingerprint(Kit& k, PJRT_TopologyDescription* topology) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_Fingerprint);
  a.topology = topology;
  KIT_OK(k, PJRT_TopologyDescription_Fingerprint, a);
  return a.fingerprint;
}

std::set<int> Ids(Kit& k, PJRT_TopologyDescription* topology) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_GetDeviceDescriptions);
  a.topology = topology;
  KIT_OK(k, PJRT_TopologyDescription_GetDeviceDescriptions, a);
  std::set<int> ids;
  for (size_t i = 0; i < a.num_descriptions; ++i) {
    KIT_ARGS(k, d, PJRT_DeviceDescription_Id);
    d.device_description = a.descriptions[i];
    KIT_OK(k, PJRT_DeviceDescription_Id, d);
    k.Require(ids.insert(d.id).second, "two described devices have the id ", d.id);
  }
  return ids;
}

PJRT_TopologyDescription* Again(Kit& k, absl::string_view bytes) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_Deserialize);
  a.serialized_topology = bytes.data();
  a.serialized_topology_size = bytes.size();
  KIT_OK(k, PJRT_TopologyDescription_Deserialize, a);
  k.Require(a.topology != nullptr, "succeeded without a topology");
  return a.topology;
}

void Platform(Kit& k) {
  PJRT_TopologyDescription* topology = OfClient(k);
  KIT_ARGS(k, n, PJRT_TopologyDescription_PlatformName);
  n.topology = topology;
  KIT_OK(k, PJRT_TopologyDescription_PlatformName, n);
  KIT_ARGS(k, c, PJRT_Client_PlatformName);
  c.client = k.client();
  KIT_OK(k, PJRT_Client_PlatformName, c);
  k.Require(std::string(n.platform_name, n.platform_name_size) == std::string(c.platform_name, c.platform_name_size),
            "the platform's name differs from the client's");
  KIT_ARGS(k, v, PJRT_TopologyDescription_PlatformVersion);
  v.topology = topology;
  KIT_OK(k, PJRT_TopologyDescription_PlatformVersion, v);
  k.Require(v.platform_version_size > 0, "no version");
}

void Devices(Kit& k) {
  const std::set<int> described = Ids(k, OfClient(k));
  for (PJRT_Device* d : k.devices())
    k.Require(described.count(GetId(k, d)) == 1, "device ", GetId(k, d), " of the client is not described");
}

void Attributes(Kit& k) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_Attributes);
  a.topology = OfClient(k);
  KIT_OK(k, PJRT_TopologyDescription_Attributes, a);
  const auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
  k.Require(values.ok(), values.status().message());
}

void StableBytes(Kit& k) {
  k.Require(Bytes(k, OfClient(k)) == Bytes(k, OfClient(k)), "one topology has two serialized forms");
}

void RoundTrip(Kit& k) {
  PJRT_TopologyDescription* before = OfClient(k);
  PJRT_TopologyDescription* after = Again(k, Bytes(k, before));
  k.Require(Ids(k, before) == Ids(k, after), "the devices have changed");
  if (k.Has(&PJRT_Api::PJRT_TopologyDescription_Fingerprint)) {
    KIT_ARGS(k, a, PJRT_TopologyDescription_Fingerprint);
    a.topology = before;
    if (KIT_TRY(k, PJRT_TopologyDescription_Fingerprint, a).ok())
      k.Require(Fingerprint(k, after) == a.fingerprint, "the fingerprint has changed");
  }
  Destroy(k, after);
}

void Malformed(Kit& k) {
  const std::string good = Bytes(k, OfClient(k));
  for (const std::string& bad : {std::string("nonsense"), std::string(200, '\xff'), good.substr(0, good.size() / 2)}) {
    KIT_ARGS(k, a, PJRT_TopologyDescription_Deserialize);
    a.serialized_topology = bad.data();
    a.serialized_topology_size = bad.size();
    const Err e = KIT_TRY(k, PJRT_TopologyDescription_Deserialize, a);
    if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported(FormatError(e));
    k.Require(!e.ok() || bad.size() == good.size() / 2, "bytes that are no topology are accepted");
    if (e.ok()) Destroy(k, a.topology);
  }
}

void StableFingerprint(Kit& k) {
  k.Require(Fingerprint(k, OfClient(k)) == Fingerprint(k, OfClient(k)), "one topology has two fingerprints");
}

void ByName(Kit& k) {
  k.Initialize();
  KIT_ARGS(k, a, PJRT_TopologyDescription_Create);
  a.topology_name = "";
  KIT_OK(k, PJRT_TopologyDescription_Create, a);
  k.Require(!Ids(k, a.topology).empty(), "the default topology has no devices");
  Destroy(k, a.topology);
}

PJRT_Executable* CompileFor(Kit& k, PJRT_TopologyDescription* topology, PJRT_Client* client) {
  std::string code = kAdd;
  const std::string options = PlainOptions(k).Serialize();
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = code.data();
  p.code_size = code.size();
  p.format = "mlir";
  p.format_size = 4;
  KIT_ARGS(k, a, PJRT_Compile);
  a.topology = topology;
  a.program = &p;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  a.client = client;
  KIT_OK(k, PJRT_Compile, a);
  k.Require(a.executable != nullptr, "succeeded without an executable");
  return a.executable;
}

void CompileForTopology(Kit& k) {
  PJRT_Executable* executable = CompileFor(k, OfClient(k), nullptr);
  KIT_ARGS(k, n, PJRT_Executable_NumOutputs);
  n.executable = executable;
  KIT_OK(k, PJRT_Executable_NumOutputs, n);
  k.Require(n.num_outputs == 1, "one output became ", n.num_outputs);
}

void LoadAndRun(Kit& k) {
  PJRT_Executable* executable = CompileFor(k, OfClient(k), nullptr);
  const std::string options = PlainOptions(k).Serialize();
  KIT_ARGS(k, a, PJRT_Client_Load);
  a.client = k.client();
  a.executable = executable;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  KIT_OK(k, PJRT_Client_Load, a);
  k.Require(RunF32(k, a.loaded_executable, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
            "wrong results");
}

void LoadOtherCounts(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = 2;
  const std::string bytes = options.Serialize();
  KIT_ARGS(k, a, PJRT_Client_Load);
  a.client = k.client();
  a.executable = CompileFor(k, OfClient(k), nullptr);
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  const Err e = KIT_TRY(k, PJRT_Client_Load, a);
  k.Require(!e.ok(), "compiled for one replica, loaded for two, it is accepted");
  k.Require(!e.message.empty(), CodeName(e.code), " without a message");
}

void SerializeWithoutClient(Kit& k) {  // compiled ahead of time, loaded from bytes
  const std::string bytes = Serialize(k, CompileFor(k, OfClient(k), nullptr));
  KIT_ARGS(k, a, PJRT_Executable_DeserializeAndLoad);
  a.client = k.client();
  a.serialized_executable = bytes.data();
  a.serialized_executable_size = bytes.size();
  KIT_OK(k, PJRT_Executable_DeserializeAndLoad, a);
  k.Require(RunF32(k, a.loaded_executable, {{1, 2, 3, 4}, {1, 1, 1, 1}}) == std::vector<float>({2, 3, 4, 5}),
            "wrong results");
}

void MemoryKindIds(Kit& k) {
  KIT_ARGS(k, a, PJRT_TopologyDescription_GetMemorySpaceKindIds);
  a.topology = OfClient(k);
  KIT_OK(k, PJRT_TopologyDescription_GetMemorySpaceKindIds, a);
  const std::set<int> told(a.memory_space_kind_ids, a.memory_space_kind_ids + a.num_memory_space_kind_ids);
  for (PJRT_Memory* m : GetMemories(k, k.device())) {
    KIT_ARGS(k, i, PJRT_Memory_Kind_Id);
    i.memory = m;
    KIT_OK(k, PJRT_Memory_Kind_Id, i);
    k.Require(told.count(i.kind_id) == 1, "the kind ", GetKind(k, m),
              " of a memory there is, is not among the topology's");
  }
}

constexpr Check kChecks[] = {
    {"topology.platform", "PJRT_Client_TopologyDescription PJRT_TopologyDescription_PlatformName",
     "it is of the client's platform", Platform},
    {"topology.devices", "PJRT_Client_TopologyDescription PJRT_TopologyDescription_GetDeviceDescriptions",
     "it describes the client's devices", Devices},
    {"topology.attributes", "PJRT_Client_TopologyDescription PJRT_TopologyDescription_Attributes",
     "its attributes can be read", Attributes},
    {"topology.stable_bytes", "PJRT_Client_TopologyDescription PJRT_TopologyDescription_Serialize",
     "its bytes are the same each time", StableBytes},
    {"topology.round_trip", "PJRT_TopologyDescription_Serialize PJRT_TopologyDescription_Deserialize",
     "made again from its bytes it is the same", RoundTrip},
    {"topology.malformed", "PJRT_TopologyDescription_Deserialize", "bytes that are no topology give an error",
     Malformed},
    {"topology.fingerprint", "PJRT_TopologyDescription_Fingerprint", "its fingerprint is the same each time",
     StableFingerprint},
    {"topology.by_name", "PJRT_TopologyDescription_Create", "the platform's default topology without a client", ByName},
    {"topology.compile", "PJRT_Compile", "a program compiles for it", CompileForTopology},
    {"topology.load", "PJRT_Compile PJRT_Client_Load", "what was compiled for it runs on a client", LoadAndRun},
    {"refused.load_counts", "devices:2 PJRT_Compile PJRT_Client_Load",
     "options of the load with another number of replicas give an error", LoadOtherCounts, 0, true},
    {"topology.serialize", "PJRT_Compile PJRT_Executable_Serialize PJRT_Executable_DeserializeAndLoad",
     "what was compiled for it runs after a way through bytes", SerializeWithoutClient},
    {"topology.memory_kinds", "PJRT_TopologyDescription_GetMemorySpaceKindIds PJRT_Memory_Kind_Id",
     "it knows the kinds of memory its devices have", MemoryKindIds},
};

}  // namespace

absl::Span<const Check> TopologySuite() { return kChecks; }

}  // namespace backplane::conformance
