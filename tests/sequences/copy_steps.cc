// Copies from buffers with valid and invalid arguments; conditional donation; aliases; host events.
#include <cstring>
#include <limits>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

bool Whole(const Thing& t) { return t.contents == Thing::kThere && !t.any_value; }

size_t DeviceBytes(Actor& actor, const Item& buffer) {
  PREPARE(a, PJRT_Buffer_OnDeviceSizeInBytes);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  actor.ExpectSuccess(Fn::PJRT_Buffer_OnDeviceSizeInBytes, &a);
  return a.on_device_size_in_bytes;
}

void ReadSome(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer);
  if (buffer == nullptr) return;
  if (buffer->contents == Thing::kThere || buffer->contents == Thing::kError) return actor.Read(buffer);
  std::string to(buffer->array.bytes.size() + 1, '\0');
  PREPARE(a, PJRT_Buffer_ToHostBuffer);
  a.src = static_cast<PJRT_Buffer*>(buffer->handle);
  a.dst = to.data();
  a.dst_size = to.size();
  actor.Expect(buffer->contents == Thing::kDeleted ? kUseAfterDelete : kUseAfterDonate);
  actor.ExpectFailure(Fn::PJRT_Buffer_ToHostBuffer, &a);
}

void AbsurdRead(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, [](const Thing& t) { return Whole(t) && t.array.bytes.size() > 4; });
  if (buffer == nullptr) return;
  std::string to(buffer->array.bytes.size(), '\0');
  PREPARE(a, PJRT_Buffer_ToHostBuffer);
  a.src = static_cast<PJRT_Buffer*>(buffer->handle);
  a.dst = to.data();
  a.dst_size = to.size();
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  const int64_t order[] = {9, 9, 9, 9};
  layout.tiled.minor_to_major = order;
  layout.tiled.minor_to_major_size = buffer->array.dims.size();
  switch (actor.random.Below(3)) {
    case 0:
      a.dst_size -= 1 + actor.random.Below(4);
      break;
    case 1:
      a.dst_size = 0;
      break;
    default:
      a.host_layout = &layout;
  }
  actor.ExpectFailure(Fn::PJRT_Buffer_ToHostBuffer, &a);
}

void ReadRaw(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, Whole);
  if (buffer == nullptr) return;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto have = static_cast<int64_t>(DeviceBytes(actor, buffer));
  const auto offset = static_cast<int64_t>(actor.random.Below(static_cast<size_t>(have) + 1));
  const auto size = static_cast<int64_t>(actor.random.Below(static_cast<size_t>(have - offset) + 1));
  std::string to(static_cast<size_t>(size) + 16, '\x77');
  PREPARE(a, PJRT_Buffer_CopyRawToHost);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  a.dst = to.data();
  a.offset = offset;
  a.transfer_size = size;
  if (actor.random.OneIn(3)) {
    const std::vector<std::pair<int64_t, int64_t>> absurd = {{-1, 1},      {0, -1},   {have + 1, 0}, {0, have + 1},
                                                             {kMax, kMax}, {1, kMax}, {have, 1},     {-kMax, have}};
    std::tie(a.offset, a.transfer_size) = actor.random.Pick(absurd);
    return actor.ExpectFailure(Fn::PJRT_Buffer_CopyRawToHost, &a);
  }
  const bool dense = static_cast<size_t>(have) == buffer->array.bytes.size() && buffer->array.dims.size() <= 1;
  const auto check = [&] {
    if (to.substr(static_cast<size_t>(size)) != std::string(16, '\x77')) throw Wrong{"a raw copy wrote behind its end"};
    if (dense && to.compare(0, static_cast<size_t>(size), buffer->array.bytes, static_cast<size_t>(offset),
                            static_cast<size_t>(size)) != 0)
      throw Wrong{absl::StrCat("a raw copy of ", buffer->name, " gave other bytes than it has")};
  };
  if (actor.random.OneIn(2)) {
    actor.ExpectSuccess(Fn::PJRT_Buffer_CopyRawToHost, &a);
    actor.AwaitOk(a.event, "a raw copy");
    return check();
  }
  PREPARE(f, PJRT_Buffer_CopyRawToHostFuture);
  f.buffer = a.buffer;
  f.offset = offset;
  f.transfer_size = size;
  actor.ExpectSuccess(Fn::PJRT_Buffer_CopyRawToHostFuture, &f);
  PJRT_Buffer_CopyRawToHostFuture_Callback_Args c{};
  c.struct_size = PJRT_Buffer_CopyRawToHostFuture_Callback_Args_STRUCT_SIZE;
  c.callback_data = f.callback_data;
  c.dst = to.data();
  const bool fails = actor.random.OneIn(3);
  if (fails) {
    c.error_code = PJRT_Error_Code_CANCELLED;
    c.error_message = "planned";
    c.error_message_size = 7;
  }
  actor.Note(fails ? "# the future fails\n" : "# the future is there\n");
  f.future_ready_callback(&c);
  if (!fails) {
    actor.AwaitOk(f.event, "a raw copy to a future");
    return check();
  }
  if (actor.Await(f.event).ok()) throw Wrong{"a raw copy to a future that failed succeeded"};
}

void CopyToOther(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, Whole);
  if (buffer == nullptr) return;
  const Item client = actor.random.OneIn(4) ? actor.PickClient() : buffer->client;
  if (client == nullptr) return;
  const size_t device = actor.random.Below(client->devices.size());
  const bool by_device = actor.random.OneIn(2);
  PREPARE(d, PJRT_Buffer_CopyToDevice);
  d.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  d.dst_device = client->devices[device];
  PREPARE(m, PJRT_Buffer_CopyToMemory);
  m.buffer = d.buffer;
  m.dst_memory = client->memories[device];
  const Fn fn = by_device ? Fn::PJRT_Buffer_CopyToDevice : Fn::PJRT_Buffer_CopyToMemory;
  void* args = by_device ? static_cast<void*>(&d) : &m;
  if (client != buffer->client) {
    const absl::Status status = actor.Call(fn, args);
    // Some plugins copy between clients.
    if (!status.ok()) return;
  } else {
    actor.ExpectSuccess(fn, args);
  }
  const Item copy = actor.Add(Type::Buffer, by_device ? d.dst_buffer : m.dst_buffer, client);
  copy->array = buffer->array;
  copy->device = device;
  actor.Read(copy);
}

void DonateWithDependency(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, Whole, false);
  if (buffer == nullptr) return;
  PREPARE(a, PJRT_Buffer_DonateWithControlDependency);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  actor.ExpectSuccess(Fn::PJRT_Buffer_DonateWithControlDependency, &a);
  buffer->contents = Thing::kDonated;
  const Item out = actor.Add(Type::Buffer, a.out_buffer, buffer->client);
  out->array = buffer->array;
  out->device = buffer->device;
  // A read may be requested before its dependency is ready.
  std::string to(out->array.bytes.size() + 1, '\0');
  PREPARE(r, PJRT_Buffer_ToHostBuffer);
  r.src = a.out_buffer;
  r.dst = to.data();
  r.dst_size = to.size();
  const bool early = actor.random.OneIn(2);
  if (early) actor.ExpectSuccess(Fn::PJRT_Buffer_ToHostBuffer, &r);
  PJRT_Buffer_DonateWithControlDependency_Callback_Args c{};
  c.struct_size = PJRT_Buffer_DonateWithControlDependency_Callback_Args_STRUCT_SIZE;
  c.callback_data = a.callback_data;
  if (actor.random.OneIn(3)) {
    c.error_code = PJRT_Error_Code_ABORTED;
    c.error_message = "planned";
    c.error_message_size = 7;
    out->contents = Thing::kError;
  }
  actor.Note("# the dependency is ready\n");
  a.dependency_ready_callback(&c);
  if (early && actor.Await(r.event).ok() == (out->contents == Thing::kError))
    throw Wrong{absl::StrCat("an early read of ", out->name, " ended otherwise than its dependency")};
  actor.Read(out);
}

void Alias(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  Array shape{PJRT_Buffer_Type_F32, {4}, ""};
  PREPARE(a, PJRT_Client_CreateAliasBuffer);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.memory = client->memories[0];
  a.shape_dims = shape.dims.data();
  a.shape_num_dims = 1;
  a.shape_element_type = shape.type;
  if (actor.random.OneIn(8)) {
    const int64_t dims[] = {-4};
    a.shape_dims = dims;
    return actor.ExpectFailure(Fn::PJRT_Client_CreateAliasBuffer, &a);
  }
  actor.ExpectSuccess(Fn::PJRT_Client_CreateAliasBuffer, &a);
  const Item alias = actor.Add(Type::Buffer, a.alias_buffer, client);
  const Item promise = actor.Add(Type::FulfillAliasBufferCallback, a.fulfill_alias_buffer_cb, client);
  alias->array = shape;
  const bool destroyed = actor.random.OneIn(6);
  std::string to(16, '\0');
  PREPARE(r, PJRT_Buffer_ToHostBuffer);
  r.src = a.alias_buffer;
  r.dst = to.data();
  r.dst_size = to.size();
  const bool early = actor.random.OneIn(2);
  if (early) actor.ExpectSuccess(Fn::PJRT_Buffer_ToHostBuffer, &r);
  if (destroyed) actor.Destroy(alias);
  const Item value = actor.NewBuffer(client, 0, actor.Fill(shape));
  PREPARE(f, PJRT_Client_FulfillAliasBuffer);
  f.client = a.client;
  f.fulfill_alias_buffer_cb = a.fulfill_alias_buffer_cb;
  // A rejected call must not change the promise.
  if (actor.random.OneIn(3)) actor.ExpectFailure(Fn::PJRT_Client_FulfillAliasBuffer, &f);  // null buffer
  if (actor.random.OneIn(3)) {
    const Item other = actor.NewBuffer(client, 0, actor.Fill({PJRT_Buffer_Type_S32, {2, 3}, ""}));
    f.buffer = static_cast<PJRT_Buffer*>(other->handle);
    actor.ExpectFailure(Fn::PJRT_Client_FulfillAliasBuffer, &f);
  }
  if (actor.random.OneIn(3) && !destroyed) {
    f.buffer = a.alias_buffer;  // itself: its value would depend on itself
    actor.ExpectFailure(Fn::PJRT_Client_FulfillAliasBuffer, &f);
  }
  if (actor.random.OneIn(3)) {
    const Item gone = actor.NewBuffer(client, 0, actor.Fill(shape));
    PREPARE(d, PJRT_Buffer_Delete);
    d.buffer = static_cast<PJRT_Buffer*>(gone->handle);
    actor.ExpectSuccess(Fn::PJRT_Buffer_Delete, &d);
    gone->contents = Thing::kDeleted;
    f.buffer = d.buffer;
    actor.ExpectFailure(Fn::PJRT_Client_FulfillAliasBuffer, &f);
  }
  f.buffer = static_cast<PJRT_Buffer*>(value->handle);
  if (actor.random.OneIn(3)) {
    f.status_code = PJRT_Error_Code_ABORTED;
    f.error_message = "planned";
    f.error_message_size = 7;
    if (!destroyed) alias->contents = Thing::kError;
  }
  const bool fails = f.status_code != PJRT_Error_Code_OK;
  actor.ExpectSuccess(Fn::PJRT_Client_FulfillAliasBuffer, &f);
  promise->alive = false;
  alias->array = value->array;
  if (early && actor.Await(r.event).ok() == fails) throw Wrong{"an early read of an alias ended otherwise than it"};
  if (early && !fails && to != value->array.bytes) throw Wrong{"an early read of an alias gave other numbers"};
  if (!destroyed) actor.Read(alias);
  if (actor.parallel || !actor.random.OneIn(3)) return;
  actor.Expect(kDoubleDestroy);
  actor.ExpectFailure(Fn::PJRT_Client_FulfillAliasBuffer, &f);
}

// Sets an event of the host twice; or tries to set one of the plugin.
void SetEvent(Actor& actor) {
  const Item event = actor.Pick(Type::Event, nullptr, false);
  if (event == nullptr) return;
  PREPARE(a, PJRT_Event_Set);
  a.event = static_cast<PJRT_Event*>(event->handle);
  if (actor.random.OneIn(2)) {
    a.error_code = PJRT_Error_Code_INTERNAL;
    a.error_message = "planned";
    a.error_message_size = 7;
  }
  if (!event->host_made || event->readiness != Thing::kUnset) return actor.ExpectFailure(Fn::PJRT_Event_Set, &a);
  actor.ExpectSuccess(Fn::PJRT_Event_Set, &a);
  event->readiness = a.error_code == PJRT_Error_Code_OK ? Thing::kWillBeReady : Thing::kFailed;
}

void AskEvent(Actor& actor) {
  const Item event = actor.Pick(Type::Event);
  if (event == nullptr) return;
  PREPARE(e, PJRT_Event_Error);
  e.event = static_cast<PJRT_Event*>(event->handle);
  if (event->readiness == Thing::kUnset) return actor.ExpectFailure(Fn::PJRT_Event_Error, &e);
  PREPARE(a, PJRT_Event_Await);
  a.event = e.event;
  const bool failed = event->readiness == Thing::kFailed;
  if (actor.Call(Fn::PJRT_Event_Await, &a).ok() == failed || actor.Call(Fn::PJRT_Event_Error, &e).ok() == failed)
    throw Wrong{absl::StrCat(event->name, " ended otherwise than it has to")};
}

// One thread waits for an event that another sets.
void WaitForSet(Actor& actor) {
  PREPARE(c, PJRT_Event_Create);
  actor.ExpectSuccess(Fn::PJRT_Event_Create, &c);
  std::thread setter([&actor, event = c.event] {
    PREPARE(s, PJRT_Event_Set);
    s.event = event;
    actor.api().PJRT_Event_Set(&s);
  });
  PREPARE(a, PJRT_Event_Await);
  a.event = c.event;
  const absl::Status status = actor.Call(Fn::PJRT_Event_Await, &a);
  setter.join();
  PREPARE(d, PJRT_Event_Destroy);
  d.event = c.event;
  actor.ExpectSuccess(Fn::PJRT_Event_Destroy, &d);
  if (!status.ok()) throw Wrong{absl::StrCat("an event of the host's: ", status.ToString())};
}

}  // namespace

std::vector<Step> CopySteps() {
  return {{"read", 8, ReadSome, true},
          {"absurd read", 3, AbsurdRead, true},
          {"read raw", 5, ReadRaw, true},
          {"copy", 4, CopyToOther, true},
          {"donate with dependency", 2, DonateWithDependency, true},
          {"alias", 3, Alias, true},
          {"set event", 3, SetEvent, true},
          {"ask event", 3, AskEvent, true},
          {"wait for set", 1, WaitForSet, true}};
}

}  // namespace backplane::sequences
