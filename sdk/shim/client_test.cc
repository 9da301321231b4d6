// Tests clients, devices, memories, topologies.
#include <string>

#include "api/extensions/memory_descriptions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PJRT_Extension_Base* Extension(PJRT_Extension_Type type) {
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return e;
  }
  return nullptr;
}

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = NewClient(3);
    ASSERT_NE(client_, nullptr);
  }
  void TearDown() override { Destroy(client_); }
  PJRT_Client* client_ = nullptr;
};

TEST_F(ClientTest, OptionsOfTheWrongNameOrTypeAreRefused) {
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "turbo";
  option.name_size = 5;
  option.type = PJRT_NamedValue_kBool;
  option.value_size = 1;
  BP_ARGS(a, PJRT_Client_Create);
  a.create_options = &option;
  a.num_options = 1;
  absl::Status status = BP_CALL(PJRT_Client_Create, a);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("known: devices"));
  option.type = static_cast<PJRT_NamedValue_Type>(9);
  EXPECT_EQ(BP_CALL(PJRT_Client_Create, a).code(), absl::StatusCode::kInvalidArgument);
  option.type = PJRT_NamedValue_kString;
  option.string_value = nullptr;
  option.value_size = 4;
  EXPECT_EQ(BP_CALL(PJRT_Client_Create, a).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, DevicesAreFoundByBothIds) {
  std::vector<PJRT_Device*> devices = Devices(client_);
  ASSERT_EQ(devices.size(), 3u);
  BP_ARGS(a, PJRT_Client_LookupDevice);
  a.client = client_;
  a.id = 2;
  ASSERT_TRUE(BP_CALL(PJRT_Client_LookupDevice, a).ok());
  EXPECT_EQ(a.device, devices[2]);
  a.id = 3;
  EXPECT_EQ(BP_CALL(PJRT_Client_LookupDevice, a).code(), absl::StatusCode::kInvalidArgument);
  BP_ARGS(b, PJRT_Client_LookupAddressableDevice);
  b.client = client_;
  b.local_hardware_id = 11;
  ASSERT_TRUE(BP_CALL(PJRT_Client_LookupAddressableDevice, b).ok());
  EXPECT_EQ(b.addressable_device, devices[1]);
  b.local_hardware_id = 1;
  EXPECT_EQ(BP_CALL(PJRT_Client_LookupAddressableDevice, b).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, DeviceAttributesBothWays) {
  PJRT_Device* device = Devices(client_)[1];
  BP_ARGS(g, PJRT_Device_GetAttributes);
  g.device = device;
  ASSERT_TRUE(BP_CALL(PJRT_Device_GetAttributes, g).ok());
  ASSERT_EQ(g.num_attributes, 2u);
  EXPECT_EQ(std::string(g.attributes[0].name, g.attributes[0].name_size), "coords");
  EXPECT_EQ(g.attributes[0].type, PJRT_NamedValue_kInt64List);
  EXPECT_EQ(g.attributes[0].value_size, 2u);
  EXPECT_EQ(g.attributes[0].int64_array_value[0], 1);
  EXPECT_EQ(g.attributes[1].float_value, 1.5f);
  g.attributes_deleter(g.device_attributes);
  BP_ARGS(d, PJRT_Device_GetDescription);
  d.device = device;
  ASSERT_TRUE(BP_CALL(PJRT_Device_GetDescription, d).ok());
  BP_ARGS(a, PJRT_DeviceDescription_Attributes);
  a.device_description = d.device_description;
  ASSERT_TRUE(BP_CALL(PJRT_DeviceDescription_Attributes, a).ok());
  EXPECT_EQ(a.num_attributes, 2u);
  BP_ARGS(k, PJRT_DeviceDescription_ToString);
  k.device_description = d.device_description;
  ASSERT_TRUE(BP_CALL(PJRT_DeviceDescription_ToString, k).ok());
  EXPECT_EQ(std::string(k.to_string, k.to_string_size), "Fake(id=1)");
}

TEST_F(ClientTest, MemoriesKeepTheHostsData) {
  std::vector<PJRT_Memory*> memories = Memories(Devices(client_)[2]);
  ASSERT_EQ(memories.size(), 2u);
  BP_ARGS(k, PJRT_Memory_Kind);
  k.memory = memories[1];
  ASSERT_TRUE(BP_CALL(PJRT_Memory_Kind, k).ok());
  EXPECT_EQ(std::string(k.kind, k.kind_size), "remote");
  BP_ARGS(m, PJRT_Device_DefaultMemory);
  m.device = Devices(client_)[2];
  ASSERT_TRUE(BP_CALL(PJRT_Device_DefaultMemory, m).ok());
  EXPECT_EQ(m.memory, memories[0]);

  const PJRT_Memory_FunctionTable* table = memories[0]->vtable;
  ASSERT_EQ(table->struct_size, PJRT_Memory_FunctionTable_STRUCT_SIZE);
  static int destroyed = 0;
  int key = 0, other = 0, first = 0, second = 0;
  auto dtor = [](void*) { ++destroyed; };
  EXPECT_EQ(table->get_user_data(memories[0], &key), nullptr);
  table->set_user_data(memories[0], &key, &first, dtor);
  EXPECT_EQ(table->get_user_data(memories[0], &key), &first);
  EXPECT_EQ(table->get_user_data(memories[0], &other), nullptr);
  EXPECT_EQ(table->get_user_data(memories[1], &key), nullptr);
  table->set_user_data(memories[0], &key, &second, dtor);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(table->get_user_data(memories[0], &key), &second);
}

TEST_F(ClientTest, DefaultAssignmentFillsAndChecks) {
  int ids[3] = {-1, -1, -1};
  BP_ARGS(a, PJRT_Client_DefaultDeviceAssignment);
  a.client = client_;
  a.num_replicas = 1;
  a.num_partitions = 3;
  a.default_assignment = ids;
  a.default_assignment_size = 3;
  ASSERT_TRUE(BP_CALL(PJRT_Client_DefaultDeviceAssignment, a).ok());
  EXPECT_THAT(ids, ElementsAre(0, 1, 2));
  a.default_assignment_size = 2;
  EXPECT_EQ(BP_CALL(PJRT_Client_DefaultDeviceAssignment, a).code(), absl::StatusCode::kInvalidArgument);
  a.default_assignment_size = 4;
  a.num_replicas = 2;
  EXPECT_EQ(BP_CALL(PJRT_Client_DefaultDeviceAssignment, a).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, StatsThatTheBackendLacksAreUnimplemented) {
  BP_ARGS(a, PJRT_Device_ClearMemoryStats);
  a.device = Devices(client_)[0];
  EXPECT_EQ(BP_CALL(PJRT_Device_ClearMemoryStats, a).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ClientTest, PluginAttributesAreOursAndTheBackends) {
  BP_ARGS(a, PJRT_Plugin_Attributes);
  ASSERT_TRUE(BP_CALL(PJRT_Plugin_Attributes, a).ok());
  std::vector<std::string> names;
  for (size_t i = 0; i < a.num_attributes; ++i) names.emplace_back(a.attributes[i].name, a.attributes[i].name_size);
  EXPECT_THAT(names, ElementsAre("fake_attribute", "feed_channel", "platform_name", "stablehlo_current_version",
                                 "stablehlo_minimum_version", "xla_version"));
  EXPECT_EQ(a.attributes[1].type, PJRT_NamedValue_kInt64);
  EXPECT_EQ(a.attributes[1].int64_value, -1);
  EXPECT_EQ(a.attributes[2].type, PJRT_NamedValue_kString);
  EXPECT_EQ(std::string(a.attributes[2].string_value, a.attributes[2].value_size), "fake");
  EXPECT_EQ(a.attributes[3].type, PJRT_NamedValue_kInt64List);
  EXPECT_EQ(a.attributes[3].value_size, 3u);
}

// jaxlib 0.4.35 writes programs in the version that the attribute states, and fails if it is newer than its own.
TEST_F(ClientTest, AHostBefore061IsToldAVersionThatItCanWrite) {
  auto current = [] {
    BP_ARGS(a, PJRT_Plugin_Attributes);
    EXPECT_TRUE(BP_CALL(PJRT_Plugin_Attributes, a).ok());
    for (size_t i = 0; i < a.num_attributes; ++i) {
      const PJRT_NamedValue& v = a.attributes[i];
      if (std::string(v.name, v.name_size) == "stablehlo_current_version") {
        return std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
      }
    }
    return std::vector<int64_t>{};
  };
  const std::vector<int64_t> newest = current();
  EXPECT_GE(newest, (std::vector<int64_t>{1, 20, 0}));
  BP_ARGS(old, PJRT_Client_Create);
  old.struct_size = PJRT_STRUCT_SIZE(PJRT_Client_Create_Args, client);
  ASSERT_TRUE(BP_CALL(PJRT_Client_Create, old).ok());
  EXPECT_THAT(current(), ElementsAre(1, 7, 0));
  Destroy(old.client);
  PJRT_Client* client = NewClient(1);
  EXPECT_EQ(current(), newest);
  Destroy(client);
}

uint64_t Fingerprint(const PJRT_TopologyDescription* topology) {
  BP_ARGS(a, PJRT_TopologyDescription_Fingerprint);
  a.topology = topology;
  EXPECT_TRUE(BP_CALL(PJRT_TopologyDescription_Fingerprint, a).ok());
  return a.fingerprint;
}

void DestroyTopology(PJRT_TopologyDescription* topology) {
  BP_ARGS(a, PJRT_TopologyDescription_Destroy);
  a.topology = topology;
  EXPECT_TRUE(BP_CALL(PJRT_TopologyDescription_Destroy, a).ok());
}

TEST_F(ClientTest, TopologySurvivesSerialization) {
  BP_ARGS(t, PJRT_Client_TopologyDescription);
  t.client = client_;
  ASSERT_TRUE(BP_CALL(PJRT_Client_TopologyDescription, t).ok());
  BP_ARGS(s, PJRT_TopologyDescription_Serialize);
  s.topology = t.topology;
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_Serialize, s).ok());
  const std::string bytes(s.serialized_bytes, s.serialized_bytes_size);
  s.serialized_topology_deleter(s.serialized_topology);

  BP_ARGS(d, PJRT_TopologyDescription_Deserialize);
  d.serialized_topology = bytes.data();
  d.serialized_topology_size = bytes.size();
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_Deserialize, d).ok());
  EXPECT_EQ(Fingerprint(d.topology), Fingerprint(t.topology));
  BP_ARGS(n, PJRT_TopologyDescription_GetDeviceDescriptions);
  n.topology = d.topology;
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_GetDeviceDescriptions, n).ok());
  ASSERT_EQ(n.num_descriptions, 3u);
  BP_ARGS(i, PJRT_DeviceDescription_Attributes);
  i.device_description = n.descriptions[2];
  ASSERT_TRUE(BP_CALL(PJRT_DeviceDescription_Attributes, i).ok());
  EXPECT_EQ(i.attributes[0].int64_array_value[0], 2);
  BP_ARGS(k, PJRT_TopologyDescription_GetMemorySpaceKindIds);
  k.topology = d.topology;
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_GetMemorySpaceKindIds, k).ok());
  EXPECT_EQ(k.num_memory_space_kind_ids, 2u);
  DestroyTopology(d.topology);

  // Truncated and changed bytes are refused.
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    d.serialized_topology_size = cut;
    EXPECT_FALSE(BP_CALL(PJRT_TopologyDescription_Deserialize, d).ok()) << cut;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x81);
    d.serialized_topology = flipped.data();
    d.serialized_topology_size = flipped.size();
    EXPECT_FALSE(BP_CALL(PJRT_TopologyDescription_Deserialize, d).ok()) << at;
  }
}

TEST_F(ClientTest, TopologyByNameAndItsCanonicalShapes) {
  BP_ARGS(c, PJRT_TopologyDescription_Create);
  c.topology_name = "elsewhere";
  c.topology_name_size = 9;
  EXPECT_EQ(BP_CALL(PJRT_TopologyDescription_Create, c).code(), absl::StatusCode::kNotFound);
  c.topology_name = "fake";
  c.topology_name_size = 4;
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_Create, c).ok());
  const int64_t dims[] = {2, 3};
  BP_ARGS(m, PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace);
  m.topology = c.topology;
  m.memory_space_kind_id = 1;
  m.dims = dims;
  m.num_dims = 2;
  m.element_type = PJRT_Buffer_Type_F32;
  ASSERT_TRUE(BP_CALL(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace, m).ok());
  EXPECT_EQ(std::string(m.serialized_shape, m.serialized_shape_size),
            std::string("\x10\x0b\x1a\x02\x02\x03\x2a\x04\x0a\x02\x01\x00\x32\x02\x00\x00", 16));
  m.serialized_shape_deleter(m.serialized_shape);
  m.memory_space_kind_id = 7;
  EXPECT_EQ(BP_CALL(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace, m).code(),
            absl::StatusCode::kInvalidArgument);
  DestroyTopology(c.topology);
}

TEST_F(ClientTest, MemoryDescriptionsExtension) {
  auto* ext =
      reinterpret_cast<const PJRT_MemoryDescriptions_Extension*>(Extension(PJRT_Extension_Type_MemoryDescriptions));
  ASSERT_NE(ext, nullptr);
  BP_ARGS(d, PJRT_Device_GetDescription);
  d.device = Devices(client_)[0];
  ASSERT_TRUE(BP_CALL(PJRT_Device_GetDescription, d).ok());
  BP_ARGS(m, PJRT_DeviceDescription_MemoryDescriptions);
  m.device_description = d.device_description;
  ASSERT_TRUE(Take(ext->PJRT_DeviceDescription_MemoryDescriptions(&m)).ok());
  ASSERT_EQ(m.num_memory_descriptions, 2u);
  EXPECT_EQ(m.default_memory_index, 0u);
  BP_ARGS(k, PJRT_MemoryDescription_Kind);
  k.memory_description = m.memory_descriptions[1];
  ASSERT_TRUE(Take(ext->PJRT_MemoryDescription_Kind(&k)).ok());
  EXPECT_EQ(std::string(k.kind, k.kind_size), "remote");
  EXPECT_EQ(k.kind_id, 1);
}

TEST(ClientLifetimeTest, BuffersAndProgramsOutliveTheClient) {
  PJRT_Client* client = NewClient();
  PJRT_Buffer* x = NewBuffer(client, Devices(client)[0], {1, 2, 3, 4});
  PJRT_LoadedExecutable* add = MustCompile(client, kAdd);
  const int64_t closed = FakeControl::Get().closed_clients, alive = FakeControl::Get().clients;
  Destroy(client);
  EXPECT_EQ(FakeControl::Get().closed_clients, closed + 1);
  EXPECT_EQ(FakeControl::Get().clients, alive);
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  std::vector<std::vector<PJRT_Buffer*>> out;
  ASSERT_TRUE(Execute(add, {{x, x}}, 1, &out).ok());
  EXPECT_THAT(Values(out[0][0]), ElementsAre(2, 4, 6, 8));
  Destroy(out[0][0]);
  Destroy(x);
  Destroy(add);
}

}  // namespace
}  // namespace backplane::testing
