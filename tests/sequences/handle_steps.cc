// Calls that take only handles, generated from the table that describes the fields: valid ones, ones with a wrong
// handle, and ones with a struct that is too small.
#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/loader.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

using layers::Argument;
using layers::Direction;
using layers::GetArguments;

// Arguments of any function.
struct AnyArgs {
  explicit AnyArgs(Fn f) : fn(f), bytes(layers::GetInfo(f).args_size / 8 + 2) {
    bytes[0] = layers::GetInfo(f).args_size;
  }
  void Set(const Argument& a, const void* handle) { std::memcpy(At(a), &handle, sizeof(handle)); }
  void* Get(const Argument& a) {
    void* handle;
    std::memcpy(&handle, At(a), sizeof(handle));
    return handle;
  }
  char* At(const Argument& a) { return reinterpret_cast<char*>(bytes.data()) + a.offset; }
  void* args() { return bytes.data(); }
  const Fn fn;
  std::vector<size_t> bytes;
};

bool HandlesOnly(Fn fn) {
  const absl::Span<const Argument> arguments = GetArguments(fn);
  return !arguments.empty() && std::none_of(arguments.begin(), arguments.end(),
                                            [](const Argument& a) { return a.direction == Direction::IN; });
}

const std::vector<Fn>& HandleFunctions() {
  static const std::vector<Fn>& functions = *[] {
    auto* list = new std::vector<Fn>;
    for (size_t f = 0; f < host::AllSlots().size(); ++f) {
      if (HandlesOnly(static_cast<Fn>(f))) list->push_back(static_cast<Fn>(f));
    }
    return list;
  }();
  return functions;
}

// All of our objects of this type are created by functions that the layer tracks.
bool Followed(Type type) {
  switch (type) {
    case Type::Client:
    case Type::Buffer:
    case Type::Event:
    case Type::Executable:
    case Type::LoadedExecutable:
    case Type::ExecuteContext:
    case Type::AsyncHostToDeviceTransferManager:
    case Type::AsyncTrackingEvent:
    case Type::FulfillAliasBufferCallback:
      return true;
    default:
      return false;
  }
}

// Needs the contents of its buffer.
bool NeedsContents(Fn fn) {
  switch (fn) {
    case Fn::PJRT_Buffer_CopyToDevice:
    case Fn::PJRT_Buffer_CopyToMemory:
    case Fn::PJRT_Buffer_DonateWithControlDependency:
    case Fn::PJRT_Buffer_IncreaseExternalReferenceCount:
    case Fn::PJRT_Buffer_OpaqueDeviceMemoryDataPointer:
    case Fn::PJRT_Buffer_UnsafePointer:
      return true;
    default:
      return false;
  }
}

// Other steps cover these, because they do more than query or need a correct answer.
bool DoneElsewhere(Fn fn) {
  switch (fn) {
    case Fn::PJRT_Client_Destroy:
    case Fn::PJRT_Buffer_DonateWithControlDependency:
    case Fn::PJRT_Event_Await:  // would wait for ever on an event that is not set
    case Fn::PJRT_Event_Error:
    case Fn::PJRT_Buffer_Delete:
    case Fn::PJRT_LoadedExecutable_Delete:
    case Fn::PJRT_Buffer_DecreaseExternalReferenceCount:
      return true;
    default:
      return false;
  }
}

// Adds the results to the model; results with a deleter are released.
void TakeResults(Actor& actor, AnyArgs& args, const Item& of) {
  const Item client = of == nullptr ? nullptr : of->type == Type::Client ? of : of->client;
  const absl::Span<const Argument> arguments = GetArguments(args.fn);
  void* holder = nullptr;
  for (const Argument& a : arguments) {
    if (a.direction == Direction::GIVES) {
      Item made = actor.Add(a.object, args.Get(a), client);
      if (a.object == Type::Executable) made->program = of->program;
      if (a.object == Type::Event && of != nullptr && of->type == Type::Buffer && of->contents != Thing::kThere)
        made->readiness = Thing::kFailed;
      if (a.object == Type::Event && args.fn == Fn::PJRT_Event_Create) {
        made->readiness = Thing::kUnset;
        made->host_made = true;
      }
      if (a.object == Type::Buffer) {  // a copy
        made->array = of->array;
        made->contents = of->contents;
        made->any_value = of->any_value;
        for (const Argument& b : arguments) {
          if (b.direction != Direction::USES || b.object == Type::Buffer) continue;
          for (size_t d = 0; d < client->devices.size(); ++d) {
            const std::vector<PJRT_Memory*>& memories = client->all_memories[d];
            if (args.Get(b) == client->devices[d] || std::count(memories.begin(), memories.end(), args.Get(b)) > 0)
              made->device = d;
          }
        }
        actor.Read(made);
      }
    } else if (a.direction == Direction::LENDS) {
      if (args.Get(a) == nullptr) throw Wrong{absl::StrCat(layers::GetInfo(a.fn).name, ": gave no ", a.member)};
      if (!actor.parallel) actor.Add(a.object, args.Get(a), client, false);
    } else if (a.direction == Direction::SETS && absl::EndsWith(a.member, "_deleter")) {
      auto* deleter = reinterpret_cast<void (*)(void*)>(args.Get(a));
      if (deleter == nullptr) throw Wrong{absl::StrCat(layers::GetInfo(a.fn).name, ": gave no deleter")};
      deleter(holder);
    } else if (a.direction == Direction::SETS && a.pointer) {
      holder = args.Get(a);
    }
  }
}

// Checks answers that the model knows.
void CheckAnswer(AnyArgs& args, const Item& of) {
  const auto wrong = [&](const char* what) {
    throw Wrong{absl::StrCat(layers::GetInfo(args.fn).name, ": ", what, " of ", of->name, " is not what it has to be")};
  };
  switch (args.fn) {
    case Fn::PJRT_Buffer_IsDeleted:
      if (static_cast<PJRT_Buffer_IsDeleted_Args*>(args.args())->is_deleted !=
          (of->contents == Thing::kDeleted || of->contents == Thing::kDonated))
        wrong("is_deleted");
      break;
    case Fn::PJRT_Buffer_ElementType:
      if (static_cast<PJRT_Buffer_ElementType_Args*>(args.args())->type != of->array.type) wrong("type");
      break;
    case Fn::PJRT_Buffer_Dimensions: {
      const auto* a = static_cast<PJRT_Buffer_Dimensions_Args*>(args.args());
      if (std::vector<int64_t>(a->dims, a->dims + a->num_dims) != of->array.dims) wrong("dims");
      break;
    }
    case Fn::PJRT_Buffer_Device:
      if (of->device >= of->client->devices.size() ||
          static_cast<PJRT_Buffer_Device_Args*>(args.args())->device != of->client->devices[of->device])
        wrong("device");
      break;
    case Fn::PJRT_Executable_NumOutputs:
      if (of->program != nullptr &&
          static_cast<PJRT_Executable_NumOutputs_Args*>(args.args())->num_outputs != of->program->results.size())
        wrong("num_outputs");
      break;
    case Fn::PJRT_LoadedExecutable_IsDeleted:
      if (static_cast<PJRT_LoadedExecutable_IsDeleted_Args*>(args.args())->is_deleted != of->deleted)
        wrong("is_deleted");
      break;
    case Fn::PJRT_Client_AddressableDevices:
      if (static_cast<PJRT_Client_AddressableDevices_Args*>(args.args())->num_addressable_devices != of->devices.size())
        wrong("num_addressable_devices");
      break;
    default:
      break;
  }
}

// Picks a live object for each handle. Returns false if one of them has none.
bool FillHandles(Actor& actor, AnyArgs& args, Item* first) {
  for (const Argument& a : GetArguments(args.fn)) {
    if (a.direction != Direction::USES && a.direction != Direction::DESTROYS) continue;
    const bool destroys = a.direction == Direction::DESTROYS;
    const Item item = actor.Pick(
        a.object,
        [&](const Thing& t) {
          return (!destroys || t.owned) && (*first == nullptr || (*first)->client == nullptr || t.client == nullptr ||
                                            t.client == (*first)->client);
        },
        !destroys);
    if (item == nullptr) return false;
    if (*first == nullptr) *first = item;
    args.Set(a, item->handle);
  }
  return true;
}

void RightHandles(Actor& actor) {
  const Fn fn = actor.random.Pick(HandleFunctions());
  if (DoneElsewhere(fn)) return;
  AnyArgs args(fn);
  Item of;
  if (!FillHandles(actor, args, &of)) return;
  const bool gone = of != nullptr && of->type == Type::Buffer && NeedsContents(fn) && of->contents != Thing::kThere;
  if (gone && of->contents == Thing::kError) return;  // the error may be returned at once or by the copy
  if (gone) {
    // External references to memory may be taken after the buffer is destroyed, without the layer's knowledge.
    if (of->references > 0) return;
    actor.Expect(of->contents == Thing::kDeleted ? kUseAfterDelete : kUseAfterDonate);
    actor.ExpectFailure(fn, args.args());
    return;
  }
  if (of != nullptr && of->type == Type::LoadedExecutable && of->deleted && fn != Fn::PJRT_LoadedExecutable_IsDeleted &&
      fn != Fn::PJRT_LoadedExecutable_Destroy) {
    actor.Expect(kUseAfterDelete);
    if (actor.Call(fn, args.args()).ok()) TakeResults(actor, args, of);
    return;
  }
  if (fn == Fn::PJRT_Buffer_IncreaseExternalReferenceCount && actor.parallel) return;
  actor.ExpectSuccess(fn, args.args());
  if (GetArguments(fn)[0].direction == Direction::DESTROYS) {
    of->alive = false;
    return;
  }
  if (fn == Fn::PJRT_Buffer_IncreaseExternalReferenceCount) ++of->references;
  if (of != nullptr) CheckAnswer(args, of);
  TakeResults(actor, args, of);
}

// Makes one of the handles null, unknown, destroyed, or of another type.
void WrongHandle(Actor& actor) {
  static char* const nothing = new char[4096]();
  Fn fn = actor.random.Pick(HandleFunctions());
  // Functions with other fields read their handles first.
  if (actor.random.OneIn(4)) fn = static_cast<Fn>(actor.random.Below(host::AllSlots().size()));
  const absl::Span<const Argument> arguments = GetArguments(fn);
  if (arguments.empty() || layers::GetInfo(fn).returns == layers::Returns::kNothing) return;
  if (arguments[0].direction != Direction::USES && arguments[0].direction != Direction::DESTROYS) return;
  AnyArgs args(fn);
  Item of;
  // The first handle is the wrong one; later ones may be null.
  const Argument& a = arguments[0];
  const bool destroys = a.direction == Direction::DESTROYS;
  switch (actor.random.Below(4)) {
    case 0:
      // Destroying null is allowed.
      if (!destroys) actor.ExpectFailure(fn, args.args());
      if (destroys) actor.Call(fn, args.args()).IgnoreError();
      return;
    case 1: {
      if (!Followed(a.object)) return;
      args.Set(a, nothing + 64 * actor.random.Below(64));
      actor.Expect(kUnknownHandle);
      actor.ExpectFailure(fn, args.args());
      return;
    }
    case 2: {
      if (actor.parallel) return;
      const Item dead = actor.PickDead(a.object);
      if (dead == nullptr) return;
      args.Set(a, dead->handle);
      actor.Expect(destroys ? kDoubleDestroy : kUseAfterDestroy);
      actor.ExpectFailure(fn, args.args());
      return;
    }
    default: {
      if (!Followed(a.object)) return;
      const Item other = actor.Pick(actor.random.OneIn(2) ? Type::Client : Type::Buffer);
      if (other == nullptr || other->type == a.object) return;
      args.Set(a, other->handle);
      actor.Expect(kUnknownHandle);
      ++actor.of_another_type;
      actor.ExpectFailure(fn, args.args());
    }
  }
}

void TooSmallStruct(Actor& actor) {
  const Fn fn = static_cast<Fn>(actor.random.Below(host::AllSlots().size()));
  if (layers::GetInfo(fn).returns == layers::Returns::kNothing || layers::SmallestSize(fn) <= 16) return;
  AnyArgs args(fn);
  args.bytes[0] = 8 * actor.random.Below(3);
  if (args.bytes[0] >= layers::SmallestSize(fn)) return;
  actor.Expect(kWrongStructSize);
  actor.ExpectFailure(fn, args.args());
}

// A borrowed object must not be destroyed.
void DestroyLent(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(t, PJRT_Client_TopologyDescription);
  t.client = static_cast<PJRT_Client*>(client->handle);
  actor.ExpectSuccess(Fn::PJRT_Client_TopologyDescription, &t);
  PREPARE(d, PJRT_TopologyDescription_Destroy);
  d.topology = t.topology;
  actor.Expect(kDestroyOfBorrowed);
  actor.ExpectFailure(Fn::PJRT_TopologyDescription_Destroy, &d);
}

void DestroySome(Actor& actor) {
  static const std::vector<Type> types = {Type::Buffer,
                                          Type::Buffer,
                                          Type::Event,
                                          Type::Executable,
                                          Type::ExecuteContext,
                                          Type::AsyncTrackingEvent,
                                          Type::LoadedExecutable,
                                          Type::TopologyDescription};
  const Item item = actor.Pick(
      actor.random.Pick(types), [](const Thing& t) { return t.owned; }, false);
  if (item != nullptr) actor.Destroy(item);
}

void DestroyTwice(Actor& actor) {
  if (actor.parallel) return;
  static const std::vector<Type> types = {Type::Buffer,         Type::Event,
                                          Type::Executable,     Type::LoadedExecutable,
                                          Type::ExecuteContext, Type::AsyncHostToDeviceTransferManager,
                                          Type::Client};
  const Item item = actor.PickDead(actor.random.Pick(types));
  if (item == nullptr || !item->owned) return;
  AnyArgs args(GetDestroyer(item->type));
  args.Set(GetArguments(args.fn)[0], item->handle);
  actor.Expect(kDoubleDestroy);
  actor.ExpectFailure(args.fn, args.args());
}

void DeleteBuffer(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, nullptr, false);
  if (buffer == nullptr) return;
  PREPARE(a, PJRT_Buffer_Delete);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  actor.ExpectSuccess(Fn::PJRT_Buffer_Delete, &a);
  buffer->contents = Thing::kDeleted;
}

void DeleteExecutable(Actor& actor) {
  const Item loaded = actor.Pick(Type::LoadedExecutable, nullptr, false);
  if (loaded == nullptr) return;
  PREPARE(a, PJRT_LoadedExecutable_Delete);
  a.executable = static_cast<PJRT_LoadedExecutable*>(loaded->handle);
  actor.ExpectSuccess(Fn::PJRT_LoadedExecutable_Delete, &a);
  loaded->deleted = true;
}

void LetReferenceGo(Actor& actor) {
  const Item buffer = actor.Pick(Type::Buffer, nullptr, false);
  if (buffer == nullptr) return;
  PREPARE(a, PJRT_Buffer_DecreaseExternalReferenceCount);
  a.buffer = static_cast<PJRT_Buffer*>(buffer->handle);
  if (buffer->references == 0) {
    actor.ExpectFailure(Fn::PJRT_Buffer_DecreaseExternalReferenceCount, &a);
    return;
  }
  actor.ExpectSuccess(Fn::PJRT_Buffer_DecreaseExternalReferenceCount, &a);
  --buffer->references;
}

}  // namespace

std::vector<Step> HandleSteps() {
  return {{"right handles", 24, RightHandles, true},
          {"wrong handle", 12, WrongHandle, true},
          {"too small struct", 3, TooSmallStruct, true},
          {"destroy lent", 1, DestroyLent, true},
          {"destroy", 8, DestroySome, true},
          {"destroy twice", 4, DestroyTwice, true},
          {"delete buffer", 3, DeleteBuffer, true},
          {"delete executable", 1, DeleteExecutable, true},
          {"let reference go", 2, LetReferenceGo, true}};
}

}  // namespace backplane::sequences
