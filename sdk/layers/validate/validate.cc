#include "sdk/layers/validate/validate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/host/status.h"
#include "sdk/layers/error.h"
#include "sdk/layers/extensions.h"
#include "sdk/layers/frame.h"
#include "sdk/layers/raw.h"
#include "sdk/layers/validate/layer_impl.h"

namespace backplane::layers {
namespace {

// Bytes that a plugin does not write by chance: not a bool, an address or a count.
constexpr unsigned char kPattern[8] = {0xe5, 0x9b, 0xd3, 0xa7, 0xf1, 0xc6, 0xb9, 0xd6};

// Call::memo[1] of this layer: the number of the copy of the args whose fields are checked (0: none), whether the call
// has begun to destroy an object, and the stack that created the object, by which it is known after the call.
constexpr uint64_t kCopyBits = 0xffff, kBeganDestroy = uint64_t{1} << 16, kRefused = ~uint64_t{0};
constexpr int kCreationShift = 32;

// Whether all functions that return objects of this type are tracked, so that an unknown handle was not returned by the
// plugin.
bool AllAreKnown(Object type) {
  switch (type) {
    case Object::Client:
    case Object::Buffer:
    case Object::Event:
    case Object::Executable:
    case Object::LoadedExecutable:
    case Object::ExecuteContext:
    case Object::AsyncHostToDeviceTransferManager:
    case Object::AsyncTrackingEvent:
    case Object::FulfillAliasBufferCallback:
      return true;
    default:
      return false;
  }
}

// Whether the call needs the contents of the buffer.
bool NeedsContents(Fn fn) {
  switch (fn) {
    case Fn::PJRT_Buffer_ToHostBuffer:
    case Fn::PJRT_Buffer_CopyRawToHost:
    case Fn::PJRT_Buffer_CopyRawToHostFuture:
    case Fn::PJRT_Buffer_CopyToDevice:
    case Fn::PJRT_Buffer_CopyToMemory:
    case Fn::PJRT_Buffer_Bitcast:
    case Fn::PJRT_Buffer_DonateWithControlDependency:
    case Fn::PJRT_Buffer_IncreaseExternalReferenceCount:
    case Fn::PJRT_Buffer_OpaqueDeviceMemoryDataPointer:
    case Fn::PJRT_Buffer_UnsafePointer:
    case Fn::PJRT_LoadedExecutable_Execute:
      return true;
    default:
      return false;
  }
}

// Returns "created by PJRT_Client_Compile" and so on.
std::pair<std::string, uint32_t> DescribeCreation(const Handle& h) {
  return {absl::StrCat("created by ", GetInfo(h.created_by).name), h.created};
}

// Objects that the plugin owns and returns in lists: function, list, count, type.
#define BP_LENT_LISTS(one)                                                                             \
  one(PJRT_Client_Devices, devices, num_devices, Device)                                               \
      one(PJRT_Client_AddressableDevices, addressable_devices, num_addressable_devices, Device)        \
          one(PJRT_Client_AddressableMemories, addressable_memories, num_addressable_memories, Memory) \
              one(PJRT_Device_AddressableMemories, memories, num_memories, Memory)                     \
                  one(PJRT_Memory_AddressableByDevices, devices, num_devices, Device) one(             \
                      PJRT_LoadedExecutable_AddressableDevices, addressable_devices, num_addressable_devices, Device)

// Whether the call returns or changes more than the handles among its fields. TakeResults handles it.
bool HasMoreResults(Fn fn) {
  switch (fn) {
#define BP_LENT_LIST(fn_name, list, count, object) case Fn::fn_name:
    BP_LENT_LISTS(BP_LENT_LIST)
#undef BP_LENT_LIST
    case Fn::PJRT_Buffer_Delete:
    case Fn::PJRT_LoadedExecutable_Delete:
    case Fn::PJRT_LoadedExecutable_Execute:
      return true;
    default:
      return GetInfo(fn).extension != nullptr;
  }
}

// Whether the call may consume the contents of its buffers. Extensions may do anything.
bool MayConsume(Fn fn) {
  if (fn == Fn::PJRT_Buffer_DonateWithControlDependency) return true;
  const char* extension = GetInfo(fn).extension;
  return extension != nullptr && absl::string_view(extension) != "PJRT_Layouts_Extension";
}

}  // namespace

bool IsDeletedOnTarget(Stack& stack, PJRT_Buffer* buffer) {
  if (!stack.TargetHas(&PJRT_Api::PJRT_Buffer_IsDeleted)) return false;
  PJRT_Buffer_IsDeleted_Args args{};
  args.struct_size = PJRT_Buffer_IsDeleted_Args_STRUCT_SIZE;
  args.buffer = buffer;
  PJRT_Error* error = stack.target().PJRT_Buffer_IsDeleted(&args);
  DestroyError(stack, error);
  return error == nullptr && args.is_deleted;
}

std::string FormatHandle(Object type, const void* handle) { return absl::StrFormat("%s %p", ObjectName(type), handle); }

const void* ReadHandle(const void* args, size_t offset) {
  const void* handle;
  memcpy(&handle, static_cast<const char*>(args) + offset, sizeof(handle));
  return handle;
}

void ValidateLayer::Add(const Call& call, const char* kind, std::string key, std::string message,
                        std::vector<std::pair<std::string, uint32_t>> others) {
  Finding f;
  f.kind = kind;
  f.fn = call.fn;
  f.key = std::move(key);
  f.message = std::move(message);
  f.stack = CaptureStack(call);
  f.others = std::move(others);
  state_->report.Add(std::move(f), state_->stacks);
}

ValidateLayer::ValidateLayer(const ValidateOptions& options)
    : options_(options), state_(std::make_shared<ValidateState>(options.out, options.json, options.budget)) {
  for (size_t f = 0; f < kNumFunctions; ++f) {
    const absl::Span<const Argument> arguments = GetArguments(static_cast<Fn>(f));
    Plan& plan = plans_[f];
    auto add = [&](Direction one, Direction other) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        const Argument& a = arguments[i];
        // A handle that is not declared as one is ignored.
        if ((a.direction != one && a.direction != other) || a.size != sizeof(void*)) continue;
        plan.fields.push_back({static_cast<uint16_t>(a.offset), a.object, a.direction, static_cast<uint8_t>(i)});
      }
    };
    add(Direction::USES, Direction::DESTROYS);
    plan.ins = static_cast<uint8_t>(plan.fields.size());
    add(Direction::GIVES, Direction::LENDS);
    const Fn fn = static_cast<Fn>(f);
    for (const Argument& a : arguments) plan.sets_fields |= a.Out();
    for (size_t i = 0; i < plan.ins; ++i) {
      if (plan.fields[i].object != Object::Buffer || plan.fields[i].direction != Direction::USES) continue;
      plan.needs_contents |= NeedsContents(fn);
      plan.may_consume |= MayConsume(fn);
    }
    // Its buffers are in lists.
    plan.needs_contents |= fn == Fn::PJRT_LoadedExecutable_Execute;
    plan.only_fields = !HasMoreResults(fn);
  }
}

// The profiler's table has its own objects and errors.
bool ValidateLayer::Wants(Fn fn) const { return GetInfo(fn).returns != Returns::kOther; }

void ValidateLayer::CheckSizes(const Call& call) {
  std::atomic<uint16_t>& fine_size = GetPlan(call.fn).fine_size;
  if (call.args_size == fine_size.load(std::memory_order_relaxed) && call.args_size != 0) return;
  auto fine = [&] {
    if (call.args_size <= UINT16_MAX) {
      fine_size.store(static_cast<uint16_t>(call.args_size), std::memory_order_relaxed);
    }
  };
  const FunctionInfo& info = call.info();
  const size_t size = call.args_size, newest = info.args_size, smallest = SmallestSize(call.fn);
  auto tell = [&](const std::string& expected) {
    Add(call, "wrong-struct-size", absl::StrCat(size),
        absl::StrCat(info.name, ": struct_size is ", size, ", expected ", expected));
  };
  if (smallest == 0) {
    // The older sizes of an extension's struct are unknown.
    if (size < sizeof(size_t) || size > 2 * newest + 256) return tell(absl::StrCat(newest));
    return fine();
  }
  if (size < smallest) return tell(smallest == newest ? absl::StrCat(newest) : absl::StrCat("at least ", smallest));
  if (size > newest) {
    // Newer hosts have longer structs, but not this much longer.
    if (size > 2 * newest + 256) return tell(absl::StrCat(newest, ", or somewhat more from a newer host"));
    return fine();
  }
  // Otherwise the size must end at a field, or at the padding after it.
  for (const Argument& a : GetArguments(call.fn)) {
    const size_t end = a.offset + a.size;
    if (size == end || size == (end + 7) / 8 * 8) return fine();
  }
  if (size == newest || GetArguments(call.fn).empty()) return fine();
  tell(absl::StrCat("the end of a field, such as ", newest));
}

bool ValidateLayer::ReportDestroyed(Call& call, Object type, const void* handle, const char* member, const Handle& h) {
  std::vector<std::pair<std::string, uint32_t>> others = {
      {absl::StrCat("destroyed by ", GetInfo(h.destroyed_by).name), h.destroyed}};
  if (h.created_by != Fn::kCount) others.push_back(DescribeCreation(h));
  Add(call, "use-after-destroy", absl::StrCat(ObjectName(type), member),
      absl::StrCat(call.name(), ": `", member, "` is ", FormatHandle(type, handle), ", which has been destroyed"),
      std::move(others));
  return !options_.refuse;
}

void ValidateLayer::ReportNoContents(Call& call, const Argument& a, const void* handle, const Handle& h) {
  std::vector<std::pair<std::string, uint32_t>> others;
  if (!h.deleted && h.used != 0) others.emplace_back("last an argument of PJRT_LoadedExecutable_Execute", h.used);
  others.push_back(DescribeCreation(h));
  Add(call, h.deleted ? "use-after-delete" : "use-after-donate", a.member,
      absl::StrCat(call.name(), ": `", a.member, "` is ", FormatHandle(Object::Buffer, handle), ", which ",
                   h.deleted ? "has been deleted" : "has been donated", " and has no contents"),
      std::move(others));
}

bool ValidateLayer::CheckUse(Call& call, const Field& f, const void* handle, const void** client) {
  if (handle == nullptr) return true;
  const Handles::State state = state_->handles.GetState(f.object, handle);
  const bool contents = f.object == Object::Buffer && GetPlan(call.fn).needs_contents;
  if (state.fine && !contents) [[likely]] {
    if (*client == nullptr) *client = state.client;
    return true;
  }
  return CheckState(call, GetArguments(call.fn)[f.index], handle, state, client);
}

// Called for each handle; in nearly all cases the state is fine.
bool ValidateLayer::CheckState(Call& call, const Argument& a, const void* handle, const Handles::State& state,
                               const void** client) {
  if (!state.fine) return CheckFound(call, a, handle, state_->handles.Find(a.object, handle), client);
  if (*client == nullptr) *client = state.client;
  if (a.object == Object::Buffer && GetPlan(call.fn).needs_contents) CheckContents(call, a, handle, state);
  return true;
}

bool ValidateLayer::CheckContents(Call& call, const Argument& a, const void* handle, const Handles::State& state) {
  if (!IsDeletedOnTarget(*call.stack, static_cast<PJRT_Buffer*>(const_cast<void*>(handle)))) return true;
  std::optional<Handle> h = state_->handles.Find(a.object, handle);
  if (!h.has_value()) return false;
  h->used = state.used;  // the execution that is being checked has not consumed the buffer
  ReportNoContents(call, a, handle, *h);
  return false;
}

bool ValidateLayer::CheckFound(Call& call, const Argument& a, const void* handle, const std::optional<Handle>& h,
                               const void** client) {
  if (!h.has_value()) {
    if (!AllAreKnown(a.object)) return true;
    Add(call, "unknown-handle", a.member,
        absl::StrCat(call.name(), ": `", a.member, "` is ", FormatHandle(a.object, handle),
                     ", which this plugin did not hand out"));
    return !options_.refuse;
  }
  if (!h->alive) return ReportDestroyed(call, a.object, handle, a.member, *h);
  if (*client == nullptr) *client = h->client;
  if (a.object == Object::Buffer && GetPlan(call.fn).needs_contents &&
      IsDeletedOnTarget(*call.stack, static_cast<PJRT_Buffer*>(const_cast<void*>(handle)))) {
    ReportNoContents(call, a, handle, *h);
  }
  if (a.object == Object::LoadedExecutable && h->deleted && call.fn != Fn::PJRT_LoadedExecutable_IsDeleted &&
      call.fn != Fn::PJRT_LoadedExecutable_Delete) {
    Add(call, "use-after-delete", a.member,
        absl::StrCat(call.name(), ": `", a.member, "` is ", FormatHandle(a.object, handle), ", which has been deleted"),
        {DescribeCreation(*h)});
  }
  return true;
}

bool ValidateLayer::CheckDestroy(Call& call, const Argument& a, const void* handle, const void** client) {
  if (handle == nullptr) return true;
  // Objects that outlive a client are counted while it is still known which objects belong to it.
  if (a.object == Object::Client) CheckClientDestroy(call, handle);
  Handle was;
  const uint32_t stack = Remember(call);
  switch (state_->handles.BeginDestroy(a.object, handle, call.fn, stack, &was)) {
    case Handles::Destroyed::kOk:
      call.memo[1] = kBeganDestroy | uint64_t{was.created} << kCreationShift;
      *client = a.object == Object::Client ? handle : was.client;
      return true;
    case Handles::Destroyed::kUnknown:
      if (!AllAreKnown(a.object)) return true;
      Add(call, "unknown-handle", a.member,
          absl::StrCat(call.name(), ": `", a.member, "` is ", FormatHandle(a.object, handle),
                       ", which this plugin did not hand out"));
      return !options_.refuse;
    case Handles::Destroyed::kTwice: {
      std::vector<std::pair<std::string, uint32_t>> others = {
          {absl::StrCat("destroyed by ", GetInfo(was.destroyed_by).name), was.destroyed}};
      if (was.created_by != Fn::kCount) others.push_back(DescribeCreation(was));
      Add(call, "double-destroy", ObjectName(a.object),
          absl::StrCat(call.name(), ": ", FormatHandle(a.object, handle), " has been destroyed already"),
          std::move(others));
      return !options_.refuse;
    }
    case Handles::Destroyed::kNotOwned:
      Add(call, "destroy-of-borrowed", ObjectName(a.object),
          absl::StrCat(call.name(), ": ", FormatHandle(a.object, handle), " belongs to another object, which ",
                       GetInfo(was.created_by).name, " showed it of"));
      return !options_.refuse;
  }
  return true;
}

// Makes a copy of the args and fills the fields that the target must write with a pattern. The host's own struct keeps
// its contents.
void ValidateLayer::FillWithPattern(Call& call) {
  const size_t known = std::min(call.args_size, SizeAtMinor(call.fn, call.stack->minor_version()));
  bool any = false;
  for (const Argument& a : GetArguments(call.fn)) any |= a.Out() && a.offset + a.size <= known;
  if (!any) return;
  auto* copy = static_cast<char*>(CopyArgs(call));
  if (copy == nullptr) return;
  auto& copies = static_cast<Frame*>(call.frame)->copies;
  for (const Argument& a : GetArguments(call.fn)) {
    if (!a.Out() || a.offset + a.size > known) continue;
    for (uint32_t i = 0; i < a.size; ++i) copy[a.offset + i] = static_cast<char>(kPattern[i % sizeof(kPattern)]);
    copies.back().fields.push_back({a.offset, a.size});
  }
  call.memo[1] |= copies.size();
}

void ValidateLayer::CheckWritten(const Call& call, size_t copy) {
  const ArgsCopy& c = static_cast<const Frame*>(call.frame)->copies[copy];
  const auto* bytes = static_cast<const char*>(call.args);
  if (call.fn == Fn::PJRT_Buffer_ToHostBuffer && call.As<PJRT_Buffer_ToHostBuffer_Args>()->dst == nullptr) return;
  // An empty list needs no address.
  bool nothing = false;
  for (const Argument& a : GetArguments(call.fn)) {
    if (a.direction != Direction::SETS || !a.integral || a.offset + a.size > c.size) continue;
    uint64_t value = 0;
    memcpy(&value, bytes + a.offset, std::min<size_t>(a.size, sizeof(value)));
    nothing |= value == 0;
  }
  size_t i = 0;
  for (const Argument& a : GetArguments(call.fn)) {
    if (i >= c.fields.size() || c.fields[i].offset != a.offset) continue;
    const bool written = c.fields[i++].written;
    if (written || (nothing && a.pointer)) continue;
    Add(call, "unset-out-field", a.member,
        absl::StrCat(call.name(), ": succeeded, but the plugin did not write `", a.member, "`"));
  }
}

void ValidateLayer::Before(Call& call) {
  CheckSizes(call);
  const void* client = nullptr;
  bool go_on = true;
  Plan& plan = GetPlan(call.fn);
  for (size_t i = 0; i < plan.ins; ++i) {
    const Field& f = plan.fields[i];
    if (f.offset + sizeof(void*) > call.args_size) continue;  // the host's struct does not contain it
    const void* handle = ReadHandle(call.args, f.offset);
    go_on &= f.direction == Direction::USES ? CheckUse(call, f, handle, &client)
                                            : CheckDestroy(call, GetArguments(call.fn)[f.index], handle, &client);
  }
  if (call.fn == Fn::PJRT_LoadedExecutable_Execute) go_on &= CheckExecute(call, &client);
  call.memo[0] = reinterpret_cast<uint64_t>(client);
  if (!go_on) {
    PJRT_Error* error = nullptr;
    if (call.info().returns == Returns::kError) {
      error = MakeError(*call.stack, PJRT_Error_Code_INVALID_ARGUMENT,
                        absl::StrCat(call.name(), ": refused by the validate layer: a handle is not alive"));
    }
    call.memo[1] = kRefused;
    return call.Answer(error);
  }
  if (plan.sets_fields) {
    // Two threads may get the same count; the number need not be exact.
    const uint32_t calls = plan.calls.load(std::memory_order_relaxed);
    plan.calls.store(calls + 1, std::memory_order_relaxed);
    if (calls < kFirstCalls || calls % kOneIn == 0) FillWithPattern(call);
  }
  if (call.fn == Fn::PJRT_Event_OnReady) FollowCallback(call, client);
}

void ValidateLayer::After(Call& call) {
  const auto* client = reinterpret_cast<const void*>(call.memo[0]);
  const bool refused = call.memo[1] == kRefused;
  const bool ok = call.result == nullptr && !refused;
  if (const uint64_t copy = call.memo[1] & kCopyBits; ok && copy != 0 && call.reached_target)
    CheckWritten(call, copy - 1);
  if (ok) TakeResults(call, client);
  if (GetPlan(call.fn).may_consume && !refused) MarkBuffersUncertain(call);
  if (!ok && !refused) {
    if (call.fn == Fn::PJRT_LoadedExecutable_Execute) MarkArgumentsUncertain(call);
    const Plan& plan = GetPlan(call.fn);
    for (size_t i = 0; i < plan.ins && (call.memo[1] & kBeganDestroy) != 0; ++i) {
      const Field& f = plan.fields[i];
      if (f.direction != Direction::DESTROYS || f.offset + sizeof(void*) > call.args_size) continue;
      const void* handle = ReadHandle(call.args, f.offset);
      if (std::optional<Handle> h = state_->handles.Find(f.object, handle); h.has_value()) {
        Handle was = *h;
        was.alive = true;
        was.created = static_cast<uint32_t>(call.memo[1] >> kCreationShift);
        state_->handles.UndoDestroy(f.object, handle, was);
      }
    }
  }
  if (ok && call.fn == Fn::PJRT_Client_Destroy) OnClientDestroyed(call, client);
  if (call.result != nullptr) TakeError(call);
}

// The call may have consumed the contents of its buffers.
void ValidateLayer::MarkBuffersUncertain(Call& call) {
  const Plan& plan = GetPlan(call.fn);
  for (size_t i = 0; i < plan.ins; ++i) {
    const Field& f = plan.fields[i];
    if (f.object != Object::Buffer || f.offset + sizeof(void*) > call.args_size) continue;
    state_->handles.SetUncertain(Object::Buffer, ReadHandle(call.args, f.offset), true);
  }
}

void ValidateLayer::TakeError(Call& call) {
  // Since 0.107 a host may read and free an error without the table, so the error is wrapped.
  if (call.stack->minor_version() >= 107) call.result = WrapError(*call.stack, call.result);
  state_->handles.AddOwned(Object::Error, call.result, call.fn, Remember(call), nullptr);
}

void ValidateLayer::TakeResults(Call& call, const void* client) {
  uint32_t stack = 0;
  auto here = [&] {
    if (stack == 0) stack = Remember(call);
    return stack;
  };
  const Plan& plan = GetPlan(call.fn);
  for (size_t i = plan.ins; i < plan.fields.size(); ++i) {
    const Field& a = plan.fields[i];
    if (a.offset + sizeof(void*) > call.args_size) continue;
    const void* handle = ReadHandle(call.args, a.offset);
    if (handle == nullptr) continue;
    if (call.fn == Fn::PJRT_Buffer_ToHostBuffer && call.As<PJRT_Buffer_ToHostBuffer_Args>()->dst == nullptr) continue;
    const void* owner = a.object == Object::Client ? handle : client;
    // A program that was compiled ahead of time belongs to no client, even if the topology does.
    if (call.fn == Fn::PJRT_Compile) {
      owner = layers::Field(call.As<PJRT_Compile_Args>(), &PJRT_Compile_Args::client);
    }
    if (a.direction == Direction::LENDS) {
      state_->handles.AddBorrowed(a.object, handle, call.fn, owner);
      continue;
    }
    Program* program = nullptr;
    if (a.object == Object::LoadedExecutable) {
      auto* executable = static_cast<PJRT_LoadedExecutable*>(const_cast<void*>(handle));
      program = state_->programs.Add(raw::NumOutputs(*call.stack, executable));
    }
    state_->handles.AddOwned(a.object, handle, call.fn, here(), owner, program);
  }
  if (plan.only_fields) return;
  switch (call.fn) {
    case Fn::PJRT_Buffer_Delete:
      if (Has(call.As<PJRT_Buffer_Delete_Args>(), &PJRT_Buffer_Delete_Args::buffer)) {
        state_->handles.MarkDeleted(Object::Buffer, call.As<PJRT_Buffer_Delete_Args>()->buffer);
      }
      break;
    case Fn::PJRT_LoadedExecutable_Delete:
      if (Has(call.As<PJRT_LoadedExecutable_Delete_Args>(), &PJRT_LoadedExecutable_Delete_Args::executable)) {
        state_->handles.MarkDeleted(Object::LoadedExecutable, call.As<PJRT_LoadedExecutable_Delete_Args>()->executable);
      }
      break;
    case Fn::PJRT_LoadedExecutable_Execute:
      TakeExecuteResults(call, client);
      break;
    default:
      TakeLists(call, client);
  }
}

// Objects that come in lists.
void ValidateLayer::TakeLists(Call& call, const void* client) {
  auto lend = [&](Object type, const auto* list, size_t count, const void* owner) {
    for (size_t i = 0; list != nullptr && i < count; ++i) state_->handles.AddBorrowed(type, list[i], call.fn, owner);
  };
  auto give = [&](Object type, const auto* list, size_t count) {
    const uint32_t stack = Remember(call);
    for (size_t i = 0; list != nullptr && i < count; ++i) {
      if (list[i] != nullptr) state_->handles.AddOwned(type, list[i], call.fn, stack, client);
    }
  };
  switch (call.fn) {
#define BP_LENT_LIST(fn_name, list, count, object)                         \
  case Fn::fn_name: {                                                      \
    const auto* a = call.As<fn_name##_Args>();                             \
    if (Has(a, &fn_name##_Args::list) && Has(a, &fn_name##_Args::count)) { \
      lend(Object::object, a->list, a->count, client);                     \
    }                                                                      \
    break;                                                                 \
  }
    BP_LENT_LISTS(BP_LENT_LIST)
#undef BP_LENT_LIST
    case Fn::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers: {
      const auto* a = call.As<PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args>();
      if (Has(a, &PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args::send_events)) {
        give(Object::Event, a->send_events, a->num_buffers);
      }
      break;
    }
    case Fn::PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers: {
      const auto* a = call.As<PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args>();
      if (Has(a, &PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args::buffers)) {
        give(Object::Buffer, a->buffers, a->num_shapes);
      }
      break;
    }
    case Fn::PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers: {
      const auto* a = call.As<PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args>();
      if (Has(a, &PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args::buffers)) {
        give(Object::Buffer, a->buffers, a->num_shapes);
      }
      break;
    }
    case Fn::PJRT_Collectives_CreateCommunicators: {
      const auto* a = call.As<PJRT_Collectives_CreateCommunicators_Args>();
      if (Has(a, &PJRT_Collectives_CreateCommunicators_Args::num_communicators)) {
        give(Object::Collectives_Communicator, a->communicators, a->num_communicators);
      }
      break;
    }
    default:
      break;
  }
}

absl::StatusOr<std::unique_ptr<Layer>> MakeValidateLayer(const Options& options) {
  BP_RETURN_IF_ERROR(options.CheckNames({"file", "json", "refuse", "leaks", "patience_ms", "depth", "budget"}));
  ValidateOptions o;
  BP_ASSIGN_OR_RETURN(o.refuse, options.GetBool("refuse", false));
  BP_ASSIGN_OR_RETURN(o.leaks, options.GetBool("leaks", true));
  BP_ASSIGN_OR_RETURN(int64_t patience_ms, options.GetInt("patience_ms", 10000));
  if (patience_ms < 0 || patience_ms > 86400000) {
    return absl::InvalidArgumentError(
        absl::StrCat("validate: patience_ms is ", patience_ms, ", expected 0 to 86400000"));
  }
  o.patience_ns = patience_ms * 1000000;
  BP_ASSIGN_OR_RETURN(int64_t depth, options.GetInt("depth", Stacks::kDepth));
  if (depth < 0 || depth > Stacks::kLargestDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("validate: depth is ", depth, ", expected 0 to ", Stacks::kLargestDepth));
  }
  o.depth = static_cast<int>(depth);
  BP_ASSIGN_OR_RETURN(o.budget, options.GetInt("budget", o.budget));
  if (o.budget < 0 || o.budget > 100) {
    return absl::InvalidArgumentError(absl::StrCat("validate: budget is ", o.budget, ", expected 0 to 100"));
  }
  o.json = options.GetPath("json", "");
  const std::string file = options.GetPath("file", "stderr");
  if (file == "stderr") {
    o.out = stderr;
  } else if (file != "none") {
    o.out = fopen(file.c_str(), "we");
    if (o.out == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("validate: file ", file, ": cannot be written"));
    o.close = o.always = true;
  }
  return std::unique_ptr<Layer>(new ValidateLayer(o));
}

const Report& GetReport(const Layer& validate) { return static_cast<const ValidateLayer&>(validate).report(); }

}  // namespace backplane::layers
