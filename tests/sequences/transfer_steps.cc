// Buffers that are filled in pieces.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

using Manager = PJRT_AsyncHostToDeviceTransferManager;

struct Transfer {
  Item manager, client;
  std::vector<Array> arrays;
  std::vector<bool> complete;  // by data or by an error
  std::vector<Item> buffers;   // null: not retrieved
};

void CheckFacts(Actor& actor, const Transfer& t) {
  auto* manager = static_cast<Manager*>(t.manager->handle);
  PREPARE(c, PJRT_AsyncHostToDeviceTransferManager_BufferCount);
  c.transfer_manager = manager;
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_BufferCount, &c);
  if (c.buffer_count != t.arrays.size()) throw Wrong{absl::StrCat("a transfer has ", c.buffer_count, " buffers")};
  PREPARE(s, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  s.transfer_manager = manager;
  s.buffer_index = static_cast<int>(actor.random.Below(t.arrays.size()));
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_BufferSize, &s);
  if (s.buffer_size < t.arrays[static_cast<size_t>(s.buffer_index)].bytes.size())
    throw Wrong{"a buffer of a transfer is smaller than its array"};
  s.buffer_index = actor.random.OneIn(2) ? -1 : static_cast<int>(t.arrays.size());
  actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_BufferSize, &s);
}

void Retrieve(Actor& actor, Transfer& t, size_t i) {
  PREPARE(a, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  a.transfer_manager = static_cast<Manager*>(t.manager->handle);
  a.buffer_index = static_cast<int>(i);
  if (t.buffers[i] != nullptr) return actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, &a);
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, &a);
  t.buffers[i] = actor.Add(Type::Buffer, a.buffer_out, t.client);
  t.buffers[i]->array = t.arrays[i];
}

// Transfers pieces, of which the last one is marked; literals if the device's bytes are not those of the array.
void Send(Actor& actor, Transfer& t, size_t i) {
  auto* manager = static_cast<Manager*>(t.manager->handle);
  const Array& array = t.arrays[i];
  const auto have = static_cast<int64_t>(array.bytes.size());
  PREPARE(d, PJRT_AsyncHostToDeviceTransferManager_TransferData);
  d.transfer_manager = manager;
  d.buffer_index = static_cast<int>(i);
  d.data = array.bytes.data();
  d.transfer_size = have;
  d.is_last_transfer = true;
  PREPARE(l, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  l.transfer_manager = manager;
  l.buffer_index = static_cast<int>(i);
  l.data = array.bytes.data();
  l.shape_dims = array.dims.data();
  l.shape_num_dims = array.dims.size();
  l.shape_element_type = array.type;
  PREPARE(s, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  s.transfer_manager = manager;
  s.buffer_index = static_cast<int>(i);
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_BufferSize, &s);
  if (t.complete[i]) {
    actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData, &d);
    return actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, &l);
  }
  if (s.buffer_size == array.bytes.size() && array.dims.size() <= 1 && actor.random.OneIn(2)) {
    const int64_t half = have / 2;
    if (actor.random.OneIn(2)) {
      d.transfer_size = half;
      d.is_last_transfer = false;
      actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData, &d);
      actor.AwaitOk(d.done_with_h2d_transfer, "a transfer");
      d.data = array.bytes.data() + half;
      d.offset = half;
      d.transfer_size = have - half;
      d.is_last_transfer = true;
    }
    actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData, &d);
    actor.AwaitOk(d.done_with_h2d_transfer, "a transfer");
  } else {
    actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, &l);
    actor.AwaitOk(l.done_with_h2d_transfer, "a transfer of a literal");
  }
  t.complete[i] = true;
}

void Absurd(Actor& actor, Transfer& t, size_t i) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  auto* manager = static_cast<Manager*>(t.manager->handle);
  const std::string bytes(64, 'x');
  PREPARE(s, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  s.transfer_manager = manager;
  s.buffer_index = static_cast<int>(i);
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_BufferSize, &s);
  const auto have = static_cast<int64_t>(s.buffer_size);
  PREPARE(d, PJRT_AsyncHostToDeviceTransferManager_TransferData);
  d.transfer_manager = manager;
  d.buffer_index = static_cast<int>(i);
  d.data = bytes.data();
  d.transfer_size = 1;
  PREPARE(l, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  const int64_t dims[] = {actor.random.OneIn(2) ? -1 : kMax};
  l.transfer_manager = manager;
  l.buffer_index = static_cast<int>(i);
  l.data = bytes.data();
  l.shape_dims = dims;
  l.shape_num_dims = 1;
  l.shape_element_type = PJRT_Buffer_Type_F32;
  PREPARE(e, PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  e.transfer_manager = manager;
  e.buffer_index = static_cast<int>(i);
  switch (actor.random.Below(7)) {
    case 0:
      d.offset = have;
      break;
    case 1:
      d.offset = -1;
      break;
    case 2:
      d.transfer_size = actor.random.OneIn(2) ? kMax : have + 1;
      d.offset = actor.random.OneIn(2) ? 1 : 0;
      break;
    case 3:
      d.data = nullptr;
      if (have == 0) return;
      break;
    case 4:
      d.buffer_index = actor.random.OneIn(2) ? -1 : 1000;
      break;
    case 5:
      return actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, &l);
    default:
      return actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_SetBufferError,
                                 &e);  // an error with code OK
  }
  actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData, &d);
}

void SetError(Actor& actor, Transfer& t, size_t i) {
  PREPARE(e, PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  e.transfer_manager = static_cast<Manager*>(t.manager->handle);
  e.buffer_index = static_cast<int>(i);
  e.error_code = PJRT_Error_Code_ABORTED;
  e.error_message = "planned";
  e.error_message_size = 7;
  if (t.complete[i]) return actor.ExpectFailure(Fn::PJRT_AsyncHostToDeviceTransferManager_SetBufferError, &e);
  Retrieve(actor, t, i);
  if (t.buffers[i] == nullptr) return;
  actor.ExpectSuccess(Fn::PJRT_AsyncHostToDeviceTransferManager_SetBufferError, &e);
  t.complete[i] = true;
  t.buffers[i]->contents = Thing::kError;
}

void TransferSome(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  const size_t device = actor.random.Below(client->devices.size());
  Transfer t;
  t.client = client;
  std::vector<PJRT_ShapeSpec> specs;
  for (size_t n = 1 + actor.random.Below(3); n > 0; --n) t.arrays.push_back(actor.RandomArray());
  for (const Array& array : t.arrays) {
    PJRT_ShapeSpec spec{};
    spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
    spec.dims = array.dims.data();
    spec.num_dims = array.dims.size();
    spec.element_type = array.type;
    specs.push_back(spec);
  }
  t.complete.resize(t.arrays.size());
  t.buffers.resize(t.arrays.size());
  PREPARE(a, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.shape_specs = specs.data();
  a.num_shape_specs = specs.size();
  a.memory = client->memories[device];
  const int64_t negative[] = {-3};
  switch (actor.random.Below(16)) {
    case 0:
      specs.back().dims = negative;
      specs.back().num_dims = 1;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, &a);
    case 1:
      a.memory = nullptr;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, &a);
    case 2:
      a.num_device_layouts = 1;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, &a);
    case 3:
      specs[0].struct_size = 8;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, &a);
    default:
      break;
  }
  actor.ExpectSuccess(Fn::PJRT_Client_CreateBuffersForAsyncHostToDevice, &a);
  t.manager = actor.Add(Type::AsyncHostToDeviceTransferManager, a.transfer_manager, client);
  for (size_t calls = 2 + actor.random.Below(8); calls > 0; --calls) {
    const size_t i = actor.random.Below(t.arrays.size());
    switch (actor.random.Below(6)) {
      case 0:
        CheckFacts(actor, t);
        break;
      case 1:
        Retrieve(actor, t, i);
        break;
      case 2:
        if (!t.complete[i]) Absurd(actor, t, i);
        break;
      case 3:
        if (actor.random.OneIn(3) && t.buffers[i] == nullptr) SetError(actor, t, i);
        break;
      default:
        Send(actor, t, i);
    }
  }
  actor.Destroy(t.manager);
  // What was not completed must be an error now.
  for (size_t i = 0; i < t.arrays.size(); ++i) {
    if (t.buffers[i] == nullptr) continue;
    t.buffers[i]->device = device;
    if (!t.complete[i]) t.buffers[i]->contents = Thing::kError;
    actor.Read(t.buffers[i]);
  }
}

}  // namespace

std::vector<Step> TransferSteps() { return {{"transfer", 5, TransferSome, true}}; }

}  // namespace backplane::sequences
