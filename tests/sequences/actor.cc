#include "tests/sequences/actor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/host/compile_options.h"
#include "sdk/host/loader.h"

namespace backplane::sequences {

const char* const kMisuseNames[kMisuses] = {
    "use-after-destroy", "double-destroy",    "unknown-handle",         "destroy-of-borrowed",
    "use-after-delete",  "use-after-donate",  "client-destroyed-early", "leak",
    "unset-out-field",   "wrong-struct-size", "callback-never-called"};

uint64_t Random::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

Fn GetDestroyer(Type type) {
  for (size_t f = 0; f < host::AllSlots().size(); ++f) {
    for (const layers::Argument& a : layers::GetArguments(static_cast<Fn>(f))) {
      if (a.direction == layers::Direction::DESTROYS && a.object == type && layers::GetArguments(a.fn).size() == 1)
        return a.fn;
    }
  }
  return Fn::kCount;
}

// ---- Calls

std::string Actor::GetName(Type type, const void* handle) const {
  if (handle == nullptr) return "null";
  for (const std::vector<Item>* list : {&items, &shared}) {
    for (auto it = list->rbegin(); it != list->rend(); ++it) {
      if ((*it)->type == type && (*it)->handle == handle)
        return absl::StrCat((*it)->name, (*it)->alive ? "" : " (destroyed)");
    }
  }
  return absl::StrFormat("%p", handle);
}

std::string Actor::Describe(Fn fn, const void* args) const {
  std::string text;
  const auto* bytes = static_cast<const char*>(args);
  size_t size = 0;
  std::memcpy(&size, bytes, sizeof(size));
  if (size != layers::GetInfo(fn).args_size) absl::StrAppend(&text, "struct_size=", size);
  for (const layers::Argument& a : layers::GetArguments(fn)) {
    using layers::Direction;
    const bool handle = a.direction == Direction::USES || a.direction == Direction::DESTROYS;
    if ((!handle && a.direction != Direction::IN) || a.offset + a.size > size) continue;
    int64_t value = 0;
    std::memcpy(&value, bytes + a.offset, std::min<size_t>(a.size, sizeof(value)));
    if (a.size == 4) value = static_cast<int32_t>(value);
    absl::StrAppend(&text, text.empty() ? "" : ", ", a.member, "=");
    if (handle) {
      absl::StrAppend(&text, GetName(a.object, reinterpret_cast<const void*>(value)));
    } else if (a.pointer) {
      absl::StrAppend(&text, value == 0 ? "null" : "*");
    } else {
      absl::StrAppend(&text, value);
    }
  }
  return text;
}

void* Actor::GetFunction(Fn fn) const {
  const host::Slot& slot = host::AllSlots()[layers::Index(fn)];
  if (slot.offset + sizeof(void*) > api_.struct_size) return nullptr;
  void* function = nullptr;
  std::memcpy(&function, reinterpret_cast<const char*>(&api_) + slot.offset, sizeof(function));
  return function;
}

bool Actor::Has(Fn fn) const { return GetFunction(fn) != nullptr; }

absl::Status Actor::Call(Fn fn, void* args) {
  void* function = GetFunction(fn);
  if (function == nullptr) throw NotOffered{};
  return CallAt(fn, function, args);
}

absl::Status Actor::CallAt(Fn fn, void* function, void* args) {
  const layers::FunctionInfo& info = layers::GetInfo(fn);
  Note(absl::StrCat(name_, info.name, "(", Describe(fn, args), ")"));
  if (info.returns == layers::Returns::kNothing) {
    reinterpret_cast<void (*)(void*)>(function)(args);
    Note("\n");
    return absl::OkStatus();
  }
  PJRT_Error* error = reinterpret_cast<PJRT_Error* (*)(void*)>(function)(args);
  if (error == nullptr) {
    std::string made;
    for (const layers::Argument& a : layers::GetArguments(fn)) {
      if (a.direction != layers::Direction::GIVES) continue;
      const void* handle = nullptr;
      std::memcpy(&handle, static_cast<const char*>(args) + a.offset, sizeof(handle));
      absl::StrAppend(&made, " ", a.member, "=", GetName(a.object, handle));
    }
    Note(absl::StrCat(" -> OK", made, "\n"));
    return absl::OkStatus();
  }
  PREPARE(m, PJRT_Error_Message);
  m.error = error;
  api_.PJRT_Error_Message(&m);
  PREPARE(c, PJRT_Error_GetCode);
  c.error = error;
  if (api_.PJRT_Error_GetCode(&c) != nullptr) throw Wrong{"the code of an error cannot be read"};
  const absl::Status status(static_cast<absl::StatusCode>(c.code), absl::string_view(m.message, m.message_size));
  Note(absl::StrCat(" -> ", status.ToString(), "\n"));
  PREPARE(d, PJRT_Error_Destroy);
  d.error = error;
  api_.PJRT_Error_Destroy(&d);
  if (status.ok()) throw Wrong{absl::StrCat(info.name, ": an error whose code is OK")};
  if (status.message().empty()) throw Wrong{absl::StrCat(info.name, ": an error without a message")};
  return status;
}

void Actor::ExpectSuccess(Fn fn, void* args) {
  const absl::Status status = Call(fn, args);
  if (absl::IsUnimplemented(status)) throw NotOffered{};
  if (!status.ok()) throw Wrong{absl::StrCat(layers::GetInfo(fn).name, ": a right call failed: ", status.ToString())};
}

void Actor::ExpectFailure(Fn fn, void* args) {
  if (Call(fn, args).ok()) throw Wrong{absl::StrCat(layers::GetInfo(fn).name, ": a wrong call succeeded")};
}

// ---- Objects

Item Actor::Add(Type type, const void* handle, const Item& client, bool owned) {
  if (handle == nullptr) throw Wrong{absl::StrCat("null was given for an object of type ", layers::ObjectName(type))};
  for (size_t i = items.size(); i-- > 0;) {
    if (items[i]->type != type || items[i]->handle != handle) continue;
    if (items[i]->alive && !owned) return items[i];
    if (items[i]->alive) throw Wrong{absl::StrCat(items[i]->name, " was given a second time")};
    items.erase(items.begin() + static_cast<ptrdiff_t>(i));  // another object may have the address now
  }
  auto item = std::make_shared<Thing>();
  item->type = type;
  item->handle = const_cast<void*>(handle);
  item->client = client;
  item->owned = owned;
  item->name = absl::StrCat(name_, absl::AsciiStrToLower(layers::ObjectName(type)), ++made_[static_cast<size_t>(type)]);
  items.push_back(item);
  return item;
}

Item Actor::Pick(Type type, const Filter& filter, bool others) {
  std::vector<Item> fitting;
  const auto look = [&](const std::vector<Item>& list) {
    for (const Item& i : list) {
      if (i->type == type && i->alive && (filter == nullptr || filter(*i))) fitting.push_back(i);
    }
  };
  look(items);
  if (others) look(shared);
  return fitting.empty() ? nullptr : random.Pick(fitting);
}

Item Actor::PickDead(Type type) {
  std::vector<Item> dead;
  for (const Item& i : items) {
    if (i->type == type && !i->alive) dead.push_back(i);
  }
  return dead.empty() ? nullptr : random.Pick(dead);
}

Item Actor::PickClient() { return Pick(Type::Client); }

void Actor::Destroy(const Item& item) {
  const Fn fn = GetDestroyer(item->type);
  alignas(8) char args[64] = {};
  const size_t size = layers::GetInfo(fn).args_size;
  std::memcpy(args, &size, sizeof(size));
  std::memcpy(args + layers::GetArguments(fn)[0].offset, &item->handle, sizeof(void*));
  ExpectSuccess(fn, args);
  item->alive = false;
  if (item->type != Type::Client) return;
  for (const Item& i : items) {
    if (i->client == item && !i->owned) i->alive = false;
  }
}

// ---- Clients and arrays

Item Actor::NewClient() {
  std::vector<PJRT_NamedValue> options;
  for (const auto& [name, text] : create_options) {
    PJRT_NamedValue v{};
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    v.name = name.data();
    v.name_size = name.size();
    v.value_size = 1;
    if (absl::SimpleAtoi(text, &v.int64_value)) {
      v.type = PJRT_NamedValue_kInt64;
    } else {
      v.type = PJRT_NamedValue_kString;
      v.string_value = text.data();
      v.value_size = text.size();
    }
    options.push_back(v);
  }
  PREPARE(a, PJRT_Client_Create);
  a.create_options = options.data();
  a.num_options = options.size();
  ExpectSuccess(Fn::PJRT_Client_Create, &a);
  Item client = Add(Type::Client, a.client, nullptr);
  PREPARE(d, PJRT_Client_AddressableDevices);
  d.client = a.client;
  ExpectSuccess(Fn::PJRT_Client_AddressableDevices, &d);
  for (size_t i = 0; i < d.num_addressable_devices; ++i) {
    PREPARE(m, PJRT_Device_DefaultMemory);
    m.device = d.addressable_devices[i];
    ExpectSuccess(Fn::PJRT_Device_DefaultMemory, &m);
    client->devices.push_back(m.device);
    client->memories.push_back(m.memory);
    Add(Type::Device, m.device, client, false);
    Add(Type::Memory, m.memory, client, false);
    // All other memories, too, because a memory that only the layer knows may have the address of a destroyed one. The
    // model would take it for a dangling handle.
    PREPARE(all, PJRT_Device_AddressableMemories);
    all.device = m.device;
    ExpectSuccess(Fn::PJRT_Device_AddressableMemories, &all);
    for (size_t k = 0; k < all.num_memories; ++k) Add(Type::Memory, all.memories[k], client, false);
    client->all_memories.emplace_back(all.memories, all.memories + all.num_memories);
  }
  if (client->devices.empty()) throw Wrong{"the client has no addressable device"};
  return client;
}

Array Actor::Fill(Array shape) {
  const size_t n = NumElements(shape.dims), width = ElementBytes(shape.type);
  shape.bytes.resize(n * width);
  for (size_t i = 0; i < n; ++i) {
    const auto number = static_cast<int32_t>(random.Below(10));
    const auto real = static_cast<float>(number);
    char* at = &shape.bytes[i * width];
    if (shape.type == PJRT_Buffer_Type_F32) {
      std::memcpy(at, &real, 4);
    } else {
      for (size_t b = 0; b < width; ++b) at[b] = static_cast<char>(b == 0 ? number : 0);
    }
  }
  return shape;
}

Array Actor::RandomArray() {
  static const std::vector<Array>& shapes = *new std::vector<Array>{
      {PJRT_Buffer_Type_F32, {4}, ""},     {PJRT_Buffer_Type_F32, {4}, ""},    {PJRT_Buffer_Type_F32, {4}, ""},
      {PJRT_Buffer_Type_S32, {2, 3}, ""},  {PJRT_Buffer_Type_S32, {2, 3}, ""}, {PJRT_Buffer_Type_F32, {}, ""},
      {PJRT_Buffer_Type_F32, {0, 3}, ""},  {PJRT_Buffer_Type_U8, {7}, ""},     {PJRT_Buffer_Type_S64, {3, 1, 2}, ""},
      {PJRT_Buffer_Type_BF16, {5, 3}, ""}, {PJRT_Buffer_Type_F32, {32768}, ""}};
  return Fill(random.Pick(shapes));
}

Item Actor::NewBuffer(const Item& client, size_t device, const Array& array) {
  PREPARE(a, PJRT_Client_BufferFromHostBuffer);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.type = array.type;
  a.dims = array.dims.data();
  a.num_dims = array.dims.size();
  a.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(random.Below(3));
  if (random.OneIn(2)) {
    a.memory = client->memories[device];
  } else {
    a.device = client->devices[device];
  }
  auto bytes = std::make_unique<std::string>(array.bytes);
  std::vector<int64_t> strides;
  a.data = bytes->data();
  if (array.dims.size() == 2 && random.OneIn(3) && !bytes->empty()) {  // column-major
    const auto rows = static_cast<size_t>(array.dims[0]), columns = static_cast<size_t>(array.dims[1]);
    const size_t width = ElementBytes(array.type);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j)
        std::memcpy(&(*bytes)[(j * rows + i) * width], &array.bytes[(i * columns + j) * width], width);
    }
    strides = {static_cast<int64_t>(width), static_cast<int64_t>(width * rows)};
    a.byte_strides = strides.data();
    a.num_byte_strides = 2;
  }
  ExpectSuccess(Fn::PJRT_Client_BufferFromHostBuffer, &a);
  Item buffer = Add(Type::Buffer, a.buffer, client);
  buffer->array = array;
  buffer->device = device;
  if (a.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy) {
    // The event may fire only when the buffer is destroyed or later, and frees the memory then. Bypasses the layer,
    // which would report a callback that outlives the client.
    PREPARE(r, PJRT_Event_OnReady);
    r.event = a.done_with_host_buffer;
    r.user_arg = bytes.release();
    r.callback = [](PJRT_Error*, void* memory) { delete static_cast<std::string*>(memory); };
    if (target->PJRT_Event_OnReady(&r) != nullptr) throw Wrong{"a callback on the host's memory is refused"};
    PREPARE(d, PJRT_Event_Destroy);
    d.event = a.done_with_host_buffer;
    ExpectSuccess(Fn::PJRT_Event_Destroy, &d);
    return buffer;
  }
  AwaitOk(a.done_with_host_buffer, "the copy from the host");
  std::fill(bytes->begin(), bytes->end(), '\x5a');  // must not be read any more
  return buffer;
}

Item Actor::BufferLike(const Item& client, size_t device, const Array& shape, const std::vector<Item>& except) {
  const auto fits = [&](const Thing& t) {
    return t.client == client && t.device == device && t.contents == Thing::kThere && !t.any_value &&
           t.array.SameShape(shape) &&
           std::none_of(except.begin(), except.end(), [&](const Item& e) { return e.get() == &t; });
  };
  if (Item found = Pick(Type::Buffer, fits, except.empty()); found != nullptr && !random.OneIn(4)) return found;
  return NewBuffer(client, device, Fill(shape));
}

// ---- Events

absl::Status Actor::Await(PJRT_Event* event) {
  absl::Status status;
  switch (random.Below(3)) {
    case 0: {
      struct Waiter {
        const PJRT_Api* api;
        std::promise<absl::Status> done;
        std::atomic<int> times{0};
      };
      auto* waiter = new Waiter{&api_, {}};  // leaks if the callback does not come
      PREPARE(a, PJRT_Event_OnReady);
      a.event = event;
      a.user_arg = waiter;
      a.callback = [](PJRT_Error* error, void* arg) {
        auto* w = static_cast<Waiter*>(arg);
        absl::Status s;
        if (error != nullptr) {
          PREPARE(m, PJRT_Error_Message);
          m.error = error;
          w->api->PJRT_Error_Message(&m);
          PREPARE(c, PJRT_Error_GetCode);
          c.error = error;
          w->api->PJRT_Error_GetCode(&c);
          s = absl::Status(static_cast<absl::StatusCode>(c.code), absl::string_view(m.message, m.message_size));
          PREPARE(d, PJRT_Error_Destroy);
          d.error = error;
          w->api->PJRT_Error_Destroy(&d);
        }
        if (w->times++ == 0) w->done.set_value(s);
      };
      ExpectSuccess(Fn::PJRT_Event_OnReady, &a);
      std::future<absl::Status> done = waiter->done.get_future();
      if (done.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
        throw Wrong{"a callback on an event has not come after a minute"};
      status = done.get();
      if (waiter->times != 1) throw Wrong{"a callback on an event has come twice"};
      break;
    }
    case 1: {
      PREPARE(a, PJRT_Event_IsReady);
      a.event = event;
      for (ExpectSuccess(Fn::PJRT_Event_IsReady, &a); !a.is_ready; ExpectSuccess(Fn::PJRT_Event_IsReady, &a))
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      PREPARE(e, PJRT_Event_Error);
      e.event = event;
      status = Call(Fn::PJRT_Event_Error, &e);
      break;
    }
    default: {
      PREPARE(a, PJRT_Event_Await);
      a.event = event;
      status = Call(Fn::PJRT_Event_Await, &a);
    }
  }
  PREPARE(d, PJRT_Event_Destroy);
  d.event = event;
  ExpectSuccess(Fn::PJRT_Event_Destroy, &d);
  return status;
}

void Actor::AwaitOk(PJRT_Event* event, absl::string_view what) {
  if (absl::Status s = Await(event); !s.ok()) throw Wrong{absl::StrCat("the event of ", what, ": ", s.ToString())};
}

// ---- Reading

void Actor::Read(const Item& buffer) {
  if (buffer->contents != Thing::kThere && buffer->contents != Thing::kError) return;
  constexpr size_t kGuard = 64;
  const size_t bytes = NumElements(buffer->array.dims) * ElementBytes(buffer->array.type);
  std::string to(bytes + kGuard, '\x77');
  PREPARE(a, PJRT_Buffer_ToHostBuffer);
  a.src = static_cast<PJRT_Buffer*>(buffer->handle);
  // Row-major, whatever the layout on the device.
  std::vector<int64_t> order(buffer->array.dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.minor_to_major_size = order.size();
  a.host_layout = &layout;
  ExpectSuccess(Fn::PJRT_Buffer_ToHostBuffer, &a);
  if (a.dst_size != bytes) throw Wrong{absl::StrCat(buffer->name, ": the host needs ", a.dst_size, " bytes")};
  a.dst = to.data();
  a.dst_size = bytes + (random.OneIn(2) ? kGuard / 2 : 0);
  const absl::Status started = Call(Fn::PJRT_Buffer_ToHostBuffer, &a);
  const absl::Status status = started.ok() ? Await(a.event) : started;
  if (buffer->contents == Thing::kError) {
    if (status.ok()) throw Wrong{absl::StrCat(buffer->name, ": a buffer with an error was read")};
    return;
  }
  if (!status.ok()) throw Wrong{absl::StrCat("reading ", buffer->name, ": ", status.ToString())};
  if (to.substr(bytes) != std::string(kGuard, '\x77'))
    throw Wrong{absl::StrCat("reading ", buffer->name, " wrote behind its end")};
  const Array read{buffer->array.type, buffer->array.dims, to.substr(0, bytes)};
  if (!buffer->any_value && !SameValues(read, buffer->array))
    throw Wrong{absl::StrCat("reading ", buffer->name, " gave other numbers than it has")};
}

// ---- Programs

Item Actor::NewLoaded(const Item& client, const Program& program, size_t device, bool portable) {
  host::CompileOptions options;
  options.num_replicas = program.replicas;
  options.compile_portable_executable = portable;
  if (!portable) {
    for (int i = 0; i < program.replicas; ++i) {
      PREPARE(g, PJRT_Device_GetDescription);
      g.device = client->devices[program.replicas == 1 ? device : static_cast<size_t>(i)];
      ExpectSuccess(Fn::PJRT_Device_GetDescription, &g);
      PREPARE(id, PJRT_DeviceDescription_Id);
      id.device_description = g.device_description;
      ExpectSuccess(Fn::PJRT_DeviceDescription_Id, &id);
      options.device_assignment.push_back(id.id);
    }
  }
  const std::string bytes = options.Serialize();
  std::string text = program.text;
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = text.data();
  p.code_size = text.size();
  p.format = "mlir";
  p.format_size = 4;
  PREPARE(a, PJRT_Client_Compile);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.program = &p;
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  Note(absl::StrCat("# program ", program.name, portable ? ", portable" : "", "\n"));
  ExpectSuccess(Fn::PJRT_Client_Compile, &a);
  Item loaded = Add(Type::LoadedExecutable, a.executable, client);
  loaded->program = &program;
  loaded->portable = portable;
  loaded->device = program.replicas == 1 ? device : 0;
  return loaded;
}

Item Actor::Compile(const Item& client) {
  const Program& program = random.Pick(AllPrograms());
  if (static_cast<size_t>(program.replicas) > client->devices.size()) throw NotOffered{};
  const bool portable = program.replicas == 1 && random.OneIn(4);
  return NewLoaded(client, program, random.Below(client->devices.size()), portable);
}

}  // namespace backplane::sequences
