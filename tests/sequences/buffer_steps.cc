// Creates buffers from host memory and uninitialized ones, with valid and invalid arguments.
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "api/extensions/layouts.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void FromHost(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  const Item buffer = actor.NewBuffer(client, actor.random.Below(client->devices.size()), actor.RandomArray());
  if (actor.random.OneIn(3)) actor.Read(buffer);
}

// Shapes that no memory can hold.
struct AbsurdShape {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
};
AbsurdShape RandomAbsurdShape(Random& random) {
  static const std::vector<AbsurdShape>& shapes = *new std::vector<AbsurdShape>{
      {PJRT_Buffer_Type_F32, {-1}},
      {PJRT_Buffer_Type_F32, {4, -4}},
      {PJRT_Buffer_Type_F32, {std::numeric_limits<int64_t>::min()}},
      {PJRT_Buffer_Type_F32, {kMax}},
      {PJRT_Buffer_Type_U8, {kMax}},
      {PJRT_Buffer_Type_U8, {kMax - 63}},
      {PJRT_Buffer_Type_F32, {kMax / 4, 2}},
      {PJRT_Buffer_Type_F32, {int64_t{1} << 32, int64_t{1} << 32}},
      {PJRT_Buffer_Type_C128, {int64_t{1} << 59}},
      {PJRT_Buffer_Type_F32, {int64_t{1} << 61}},
      {PJRT_Buffer_Type_U8, {int64_t{1} << 50}},
      {PJRT_Buffer_Type_INVALID, {4}},
      {static_cast<PJRT_Buffer_Type>(34), {4}},
      {static_cast<PJRT_Buffer_Type>(9999), {4}},
      {static_cast<PJRT_Buffer_Type>(-1), {4}},
      {PJRT_Buffer_Type_F32, std::vector<int64_t>(300, 1)},
      {PJRT_Buffer_Type_F32, std::vector<int64_t>(200, 2)},
  };
  return random.Pick(shapes);
}

void AbsurdFromHost(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  const Array array = actor.Fill({PJRT_Buffer_Type_F32, {4}, ""});
  PREPARE(a, PJRT_Client_BufferFromHostBuffer);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.data = array.bytes.data();
  a.type = array.type;
  a.dims = array.dims.data();
  a.num_dims = 1;
  a.device = client->devices[0];
  a.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(actor.random.Below(4));
  AbsurdShape shape;
  const int64_t stride = 4;
  int64_t order[] = {0, 0};
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = order;
  layout.tiled.minor_to_major_size = 1;
  switch (actor.random.Below(10)) {
    case 0:
    case 1:
    case 2:
      shape = RandomAbsurdShape(actor.random);
      a.type = shape.type;
      a.dims = shape.dims.data();
      a.num_dims = shape.dims.size();
      // A plugin that uses the host memory in place cannot detect that it is too small.
      if (shape.dims[0] == int64_t{1} << 50)
        a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
      break;
    case 3:
      a.data = nullptr;
      break;
    case 4:
      a.dims = nullptr;
      break;
    case 5:
      a.byte_strides = &stride;
      a.num_byte_strides = 2;
      break;
    case 6:
      a.num_byte_strides = 1;
      break;
    case 7:
      a.device = nullptr;
      break;
    case 8:
      a.device_layout = &layout;
      if (actor.random.OneIn(3)) {
        order[0] = actor.random.OneIn(2) ? 1 : -1;
      } else if (actor.random.OneIn(2)) {
        layout.tiled.minor_to_major_size = 2;
      } else {
        layout.type = static_cast<PJRT_Buffer_MemoryLayout_Type>(7);
      }
      break;
    default: {
      const Item other = actor.Pick(Type::Client, [&](const Thing& t) { return &t != client.get(); });
      if (other == nullptr) return;
      if (actor.random.OneIn(2)) {
        a.device = other->devices[0];
      } else {
        a.memory = other->memories[0];
      }
    }
  }
  actor.ExpectFailure(Fn::PJRT_Client_BufferFromHostBuffer, &a);
}

void Uninitialized(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  Array array = actor.RandomArray();
  PREPARE(a, PJRT_Client_CreateUninitializedBuffer);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.shape_dims = array.dims.data();
  a.shape_num_dims = array.dims.size();
  a.shape_element_type = array.type;
  a.device = client->devices[0];
  if (actor.random.OneIn(3)) {
    const AbsurdShape shape = RandomAbsurdShape(actor.random);
    a.shape_dims = shape.dims.data();
    a.shape_num_dims = shape.dims.size();
    a.shape_element_type = shape.type;
    actor.ExpectFailure(Fn::PJRT_Client_CreateUninitializedBuffer, &a);
    return;
  }
  actor.ExpectSuccess(Fn::PJRT_Client_CreateUninitializedBuffer, &a);
  const Item buffer = actor.Add(Type::Buffer, a.buffer, client);
  buffer->array = array;
  buffer->any_value = true;
  actor.Read(buffer);
}

void ErrorBuffer(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  const Array array = actor.RandomArray();
  PREPARE(a, PJRT_Client_CreateErrorBuffer);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.error_code = PJRT_Error_Code_ABORTED;
  a.error_message = "planned";
  a.error_message_size = 7;
  a.shape_dims = array.dims.data();
  a.shape_num_dims = array.dims.size();
  a.shape_element_type = array.type;
  a.memory = client->memories[0];
  switch (actor.random.Below(6)) {
    case 0:
      a.error_code = PJRT_Error_Code_OK;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateErrorBuffer, &a);
    case 1:
      a.memory = nullptr;
      return actor.ExpectFailure(Fn::PJRT_Client_CreateErrorBuffer, &a);
    case 2: {
      const AbsurdShape shape = RandomAbsurdShape(actor.random);
      a.shape_dims = shape.dims.data();
      a.shape_num_dims = shape.dims.size();
      a.shape_element_type = shape.type;
      // Allocates nothing, so a large size may succeed.
      if (actor.Call(Fn::PJRT_Client_CreateErrorBuffer, &a).ok()) {
        const Item buffer = actor.Add(Type::Buffer, a.buffer, client);
        actor.Destroy(buffer);
      }
      return;
    }
    default:
      break;
  }
  actor.ExpectSuccess(Fn::PJRT_Client_CreateErrorBuffer, &a);
  const Item buffer = actor.Add(Type::Buffer, a.buffer, client);
  buffer->array = array;
  buffer->contents = Thing::kError;
  actor.Read(buffer);
}

// Creates a view of host memory; the host is notified when nothing uses it any more.
void View(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  constexpr size_t kAlignment = 256;
  auto memory = std::make_unique<std::string>(4 * sizeof(float) + 2 * kAlignment, '\0');
  const size_t past = reinterpret_cast<uintptr_t>(memory->data()) % kAlignment;
  char* aligned = memory->data() + (kAlignment - past) % kAlignment;
  const Array array = actor.Fill({PJRT_Buffer_Type_F32, {4}, ""});
  std::memcpy(aligned, array.bytes.data(), array.bytes.size());
  PREPARE(on, PJRT_Client_CreateViewOfDeviceBuffer);
  on.client = static_cast<PJRT_Client*>(client->handle);
  on.dims = array.dims.data();
  on.num_dims = 1;
  on.element_type = array.type;
  on.device = client->devices[0];
  // Only if the default memory is host memory.
  const Item probe = actor.NewBuffer(client, 0, array);
  PREPARE(cpu, PJRT_Buffer_IsOnCpu);
  cpu.buffer = static_cast<PJRT_Buffer*>(probe->handle);
  actor.ExpectSuccess(Fn::PJRT_Buffer_IsOnCpu, &cpu);
  if (!cpu.is_on_cpu) return;
  switch (actor.random.Below(4)) {
    case 0:
      return actor.ExpectFailure(Fn::PJRT_Client_CreateViewOfDeviceBuffer, &on);  // null address
    case 1: {
      const AbsurdShape shape = RandomAbsurdShape(actor.random);
      on.device_buffer_ptr = aligned;
      on.dims = shape.dims.data();
      on.num_dims = shape.dims.size();
      on.element_type = shape.type;
      // Only the host knows the size of the memory, so any size that could exist may succeed.
      if (actor.Call(Fn::PJRT_Client_CreateViewOfDeviceBuffer, &on).ok())
        actor.Destroy(actor.Add(Type::Buffer, on.buffer, client));
      return;
    }
    default:
      break;
  }
  on.device_buffer_ptr = aligned;
  on.on_delete_callback = [](void*, void* whole) { delete static_cast<std::string*>(whole); };
  on.on_delete_callback_arg = memory.release();
  actor.ExpectSuccess(Fn::PJRT_Client_CreateViewOfDeviceBuffer, &on);
  const Item buffer = actor.Add(Type::Buffer, on.buffer, client);
  buffer->array = array;
  actor.Read(buffer);
}

void Bitcast(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, [](const Thing& t) {
    return t.contents == Thing::kThere && !t.any_value && t.array.dims == std::vector<int64_t>{4};
  });
  if (buffer == nullptr) return;
  const int64_t dims[] = {4};
  const int64_t others[] = {5};
  PREPARE(a, PJRT_Buffer_Bitcast);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  a.element_type = PJRT_Buffer_Type_S32;
  a.dims = dims;
  a.num_dims = 1;
  AbsurdShape shape = RandomAbsurdShape(actor.random);
  switch (actor.random.Below(4)) {
    case 0:
      // With padding five elements may take as much memory as four.
      a.dims = others;
      if (actor.Call(Fn::PJRT_Buffer_Bitcast, &a).ok())
        actor.Destroy(actor.Add(Type::Buffer, a.out_buffer, buffer->client));
      return;
    case 1:
      a.element_type = shape.type;
      a.dims = shape.dims.data();
      a.num_dims = shape.dims.size();
      return actor.ExpectFailure(Fn::PJRT_Buffer_Bitcast, &a);
    default:
      break;
  }
  actor.ExpectSuccess(Fn::PJRT_Buffer_Bitcast, &a);
  const Item cast = actor.Add(Type::Buffer, a.out_buffer, buffer->client);
  cast->array = buffer->array;
  cast->array.type = PJRT_Buffer_Type_S32;
  cast->device = buffer->device;
  actor.Read(cast);
  actor.Destroy(cast);
}

void DefaultLayout(Actor& actor) {
  const auto* layouts = actor.FindExtension<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts);
  const Item client = actor.PickClient();
  if (layouts == nullptr || client == nullptr) return;
  const bool absurd = actor.random.OneIn(2);
  const AbsurdShape shape = absurd ? RandomAbsurdShape(actor.random) : AbsurdShape{PJRT_Buffer_Type_F32, {2, 3}};
  PREPARE(a, PJRT_Layouts_PJRT_Client_GetDefaultLayout);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.type = shape.type;
  a.dims = shape.dims.data();
  a.num_dims = shape.dims.size();
  const absl::Status status =
      actor.CallAt(Fn::PJRT_Layouts_PJRT_Client_GetDefaultLayout,
                   reinterpret_cast<void*>(layouts->PJRT_Layouts_PJRT_Client_GetDefaultLayout), &a);
  if (!absurd && !status.ok()) throw Wrong{absl::StrCat("the default layout: ", status.ToString())};
  if (!status.ok()) return;
  PREPARE(s, PJRT_Layouts_MemoryLayout_Serialize);
  s.layout = a.layout;
  if (actor
          .CallAt(Fn::PJRT_Layouts_MemoryLayout_Serialize,
                  reinterpret_cast<void*>(layouts->PJRT_Layouts_MemoryLayout_Serialize), &s)
          .ok())
    s.serialized_layout_deleter(s.serialized_layout);
  PREPARE(d, PJRT_Layouts_MemoryLayout_Destroy);
  d.layout = a.layout;
  const auto destroy = [&] {
    return actor.CallAt(Fn::PJRT_Layouts_MemoryLayout_Destroy,
                        reinterpret_cast<void*>(layouts->PJRT_Layouts_MemoryLayout_Destroy), &d);
  };
  if (!destroy().ok()) throw Wrong{"a layout cannot be destroyed"};
  if (actor.parallel) return;
  actor.Expect(kDoubleDestroy);
  if (destroy().ok()) throw Wrong{"a layout was destroyed twice"};
}

void BufferLayout(Actor& actor) {
  const auto* layouts = actor.FindExtension<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts);
  if (layouts == nullptr) return;
  PREPARE(a, PJRT_Layouts_PJRT_Buffer_MemoryLayout);
  const Item dead = actor.parallel || actor.random.OneIn(2) ? nullptr : actor.PickDead(Type::Buffer);
  const Item buffer = dead != nullptr ? dead : actor.Pick(Type::Buffer);
  if (buffer == nullptr) return;
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  const absl::Status status = actor.CallAt(Fn::PJRT_Layouts_PJRT_Buffer_MemoryLayout,
                                           reinterpret_cast<void*>(layouts->PJRT_Layouts_PJRT_Buffer_MemoryLayout), &a);
  if (dead != nullptr) actor.Expect(kUseAfterDestroy);
  if (status.ok() == (dead != nullptr))
    throw Wrong{absl::StrCat("the layout of ", buffer->name, ": ", status.ToString())};
  if (dead != nullptr) return;
  PREPARE(d, PJRT_Layouts_MemoryLayout_Destroy);
  d.layout = a.layout;
  if (!actor
           .CallAt(Fn::PJRT_Layouts_MemoryLayout_Destroy,
                   reinterpret_cast<void*>(layouts->PJRT_Layouts_MemoryLayout_Destroy), &d)
           .ok())
    throw Wrong{"a layout cannot be destroyed"};
}

}  // namespace

std::vector<Step> BufferSteps() {
  return {{"from host", 14, FromHost, true},
          {"absurd from host", 6, AbsurdFromHost, true},
          {"uninitialized", 2, Uninitialized, true},
          {"error buffer", 2, ErrorBuffer, true},
          {"view", 2, View, true},
          {"bitcast", 2, Bitcast, true},
          {"default layout", 2, DefaultLayout, true},
          {"buffer layout", 2, BufferLayout, true}};
}

}  // namespace backplane::sequences
