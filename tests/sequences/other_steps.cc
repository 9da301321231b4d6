// Clients, topologies, contexts, errors and the remaining functions.
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

void SecondClient(Actor& actor) {
  size_t alive = 0;
  for (const Item& i : actor.items) alive += i->type == Type::Client && i->alive ? 1 : 0;
  if (alive < 2) actor.NewClient();
}

void AbsurdClient(Actor& actor) {
  PJRT_NamedValue v{};
  v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  v.name = "no_such_option";
  v.name_size = 14;
  v.type = PJRT_NamedValue_kInt64;
  v.int64_value = 1;
  v.value_size = 1;
  PREPARE(a, PJRT_Client_Create);
  a.create_options = &v;
  a.num_options = 1;
  if (actor.random.OneIn(2)) {
    v.type = static_cast<PJRT_NamedValue_Type>(99);
  } else if (actor.random.OneIn(2)) {
    a.create_options = nullptr;
  } else if (actor.random.OneIn(2)) {
    v.struct_size = 8;
  }
  if (actor.Call(Fn::PJRT_Client_Create, &a).ok()) actor.Destroy(actor.Add(Type::Client, a.client, nullptr));
}

// Destroys a client with all of its objects, or before them, which the layer must report.
void EndClient(Actor& actor) {
  const Item client = actor.Pick(Type::Client, nullptr, false);
  if (client == nullptr) return;
  const bool early = actor.random.OneIn(3);
  std::vector<bool> types(static_cast<size_t>(Type::kCount));
  for (const Item& i : std::vector<Item>(actor.items)) {
    if (!i->alive || i->client != client || !i->owned) continue;
    if (!early) {
      actor.Destroy(i);
    } else if (!types[static_cast<size_t>(i->type)]) {
      types[static_cast<size_t>(i->type)] = true;
      actor.Expect(kClientDestroyedEarly);
    }
  }
  actor.Destroy(client);
  // The rest is destroyed after its client; the outcome of using it until then is not specified.
  for (const Item& i : std::vector<Item>(actor.items)) {
    if (i->alive && i->client == client && i->owned) actor.Destroy(i);
  }
}

void LookUp(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(a, PJRT_Client_LookupDevice);
  a.client = static_cast<PJRT_Client*>(client->handle);
  PREPARE(b, PJRT_Client_LookupAddressableDevice);
  b.client = a.client;
  static const std::vector<int> absurd = {-1, 100000, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  a.id = b.local_hardware_id = actor.random.Pick(absurd);
  actor.ExpectFailure(Fn::PJRT_Client_LookupDevice, &a);
  actor.ExpectFailure(Fn::PJRT_Client_LookupAddressableDevice, &b);
  std::vector<int> ids(2, -5);
  PREPARE(d, PJRT_Client_DefaultDeviceAssignment);
  d.client = a.client;
  d.num_replicas = 1;
  d.num_partitions = 1;
  d.default_assignment = ids.data();
  d.default_assignment_size = 1;
  actor.ExpectSuccess(Fn::PJRT_Client_DefaultDeviceAssignment, &d);
  if (ids[1] != -5) throw Wrong{"a device assignment was written behind its end"};
  switch (actor.random.Below(4)) {
    case 0:
      d.default_assignment_size = 0;
      break;
    case 1:
      d.num_replicas = actor.random.OneIn(2) ? -1 : 0;
      break;
    case 2:
      d.num_replicas = d.num_partitions = std::numeric_limits<int>::max();
      break;
    default:
      d.default_assignment = nullptr;
  }
  actor.ExpectFailure(Fn::PJRT_Client_DefaultDeviceAssignment, &d);
}

void CountPayload(const char*, size_t, const char*, size_t, void* count) { ++*static_cast<int*>(count); }

// Keeps an error alive for a while, reads and destroys it.
void KeepError(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(a, PJRT_Client_LookupDevice);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.id = 100000;
  PJRT_Error* error = actor.api().PJRT_Client_LookupDevice(&a);
  if (error == nullptr) throw Wrong{"a device of id 100000 was found"};
  actor.Note("# an error kept\n");
  PREPARE(c, PJRT_Error_GetCode);
  c.error = error;
  actor.ExpectSuccess(Fn::PJRT_Error_GetCode, &c);
  int payloads = 0;
  PREPARE(p, PJRT_Error_ForEachPayload);
  p.error = error;
  p.visitor = &CountPayload;
  p.user_arg = &payloads;
  actor.ExpectSuccess(Fn::PJRT_Error_ForEachPayload, &p);
  p.visitor = nullptr;
  actor.ExpectFailure(Fn::PJRT_Error_ForEachPayload, &p);
  PREPARE(d, PJRT_Error_Destroy);
  d.error = error;
  (void)actor.Call(Fn::PJRT_Error_Destroy, &d);
  if (actor.parallel || actor.random.OneIn(2)) return;
  actor.Expect(kDoubleDestroy);
  (void)actor.Call(Fn::PJRT_Error_Destroy, &d);
}

void Topology(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(t, PJRT_Client_TopologyDescription);
  t.client = static_cast<PJRT_Client*>(client->handle);
  actor.ExpectSuccess(Fn::PJRT_Client_TopologyDescription, &t);
  PREPARE(s, PJRT_TopologyDescription_Serialize);
  s.topology = t.topology;
  actor.ExpectSuccess(Fn::PJRT_TopologyDescription_Serialize, &s);
  std::string bytes(s.serialized_bytes, s.serialized_bytes_size);
  s.serialized_topology_deleter(s.serialized_topology);
  PREPARE(d, PJRT_TopologyDescription_Deserialize);
  const bool right = actor.random.OneIn(2);
  if (!right && actor.random.OneIn(2)) {
    bytes.resize(actor.random.Below(bytes.size()));
  } else if (!right) {
    bytes[actor.random.Below(bytes.size())] ^= static_cast<char>(1 << actor.random.Below(8));
  }
  d.serialized_topology = bytes.data();
  d.serialized_topology_size = bytes.size();
  const absl::Status status = actor.Call(Fn::PJRT_TopologyDescription_Deserialize, &d);
  if (absl::IsUnimplemented(status)) return;
  if (right && !status.ok()) throw Wrong{absl::StrCat("reading a topology back: ", status.ToString())};
  if (!status.ok()) return;
  const Item topology = actor.Add(Type::TopologyDescription, d.topology, nullptr);
  const int64_t dims[] = {2, 3}, absurd[] = {-2, std::numeric_limits<int64_t>::max()};
  PREPARE(m, PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace);
  m.topology = d.topology;
  m.memory_space_kind_id = actor.random.OneIn(2) ? 12345 : 0;
  m.dims = actor.random.OneIn(2) ? dims : absurd;
  m.num_dims = 2;
  m.element_type = PJRT_Buffer_Type_F32;
  const bool must_fail = m.memory_space_kind_id == 12345 || m.dims == absurd;
  const absl::Status made = actor.Call(Fn::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace, &m);
  if (made.ok() && must_fail) throw Wrong{"a shape that cannot be was made"};
  if (made.ok()) m.serialized_shape_deleter(m.serialized_shape);
  if (actor.random.OneIn(2)) actor.Destroy(topology);
}

void MakeTopology(Actor& actor) {
  PREPARE(a, PJRT_TopologyDescription_Create);
  const std::string name = actor.random.OneIn(2) ? "" : "no such topology \xff";
  a.topology_name = name.data();
  a.topology_name_size = name.size();
  if (actor.random.OneIn(3)) a.num_options = 1;
  if (actor.Call(Fn::PJRT_TopologyDescription_Create, &a).ok())
    actor.Add(Type::TopologyDescription, a.topology, nullptr);
}

void TrackingEvent(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(a, PJRT_Device_CreateAsyncTrackingEvent);
  a.device = client->devices[0];
  a.description_size = 3;
  actor.ExpectFailure(Fn::PJRT_Device_CreateAsyncTrackingEvent, &a);  // null text
  a.description = "abc";
  actor.ExpectSuccess(Fn::PJRT_Device_CreateAsyncTrackingEvent, &a);
  actor.Add(Type::AsyncTrackingEvent, a.event, client);
}

void OptimizedProgram(Actor& actor) {
  const Item executable = actor.Pick(Type::Executable);
  if (executable == nullptr) return;
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  PREPARE(a, PJRT_Executable_OptimizedProgram);
  a.executable = static_cast<PJRT_Executable*>(executable->handle);
  actor.ExpectFailure(Fn::PJRT_Executable_OptimizedProgram, &a);  // null destination
  a.program = &program;
  actor.ExpectSuccess(Fn::PJRT_Executable_OptimizedProgram, &a);
  std::string code(program.code_size + 16, '\x77');
  program.code = code.data();
  actor.ExpectSuccess(Fn::PJRT_Executable_OptimizedProgram, &a);
  if (code.substr(program.code_size) != std::string(16, '\x77')) throw Wrong{"a program was written behind its end"};
  if (program.code_size == 0) return;
  program.code_size -= 1;
  // A buffer that is too small is rejected, or the call returns the required size.
  if (actor.Call(Fn::PJRT_Executable_OptimizedProgram, &a).ok() && code[code.size() - 16] != '\x77')
    throw Wrong{"a program was written behind a room that is too small"};
}

void DmaMap(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  auto memory = std::make_unique<std::string>(4096, '\0');
  PREPARE(a, PJRT_Client_DmaMap);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.size = 4096;
  actor.ExpectFailure(Fn::PJRT_Client_DmaMap, &a);
  a.data = memory->data();
  actor.ExpectSuccess(Fn::PJRT_Client_DmaMap, &a);
  PREPARE(u, PJRT_Client_DmaUnmap);
  u.client = a.client;
  u.data = a.data;
  actor.ExpectSuccess(Fn::PJRT_Client_DmaUnmap, &u);
}

void PoisonExecution(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(a, PJRT_Device_PoisonExecution);
  a.device = client->devices[0];
  a.launch_id = 424242;  // unknown execution
  a.error_code = PJRT_Error_Code_ABORTED;
  a.error_message = "planned";
  a.error_message_size = 7;
  if (actor.Call(Fn::PJRT_Device_PoisonExecution, &a).ok() && a.poisoned)
    throw Wrong{"an execution that does not exist was poisoned"};
}

}  // namespace

std::vector<Step> OtherSteps() {
  return {{"second client", 1, SecondClient, false},
          {"absurd client", 1, AbsurdClient, true},
          {"end client", 1, EndClient, false},
          {"look up", 2, LookUp, true},
          {"keep error", 3, KeepError, true},
          {"topology", 2, Topology, true},
          {"make topology", 1, MakeTopology, true},
          {"tracking event", 1, TrackingEvent, true},
          {"optimized program", 1, OptimizedProgram, true},
          {"dma map", 1, DmaMap, true},
          {"poison execution", 1, PoisonExecution, true}};
}

}  // namespace backplane::sequences
