// Execution: checks everything, takes the donated arguments, launches the program on every device, and returns.
#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

std::atomic<int64_t> next_run_id{1};
// The run ids of executables that are launched separately on each device.
constexpr int64_t kFirstSingleDeviceRun = int64_t{1} << 62, kSingleDeviceRange = int64_t{1} << 32;
std::atomic<int64_t> next_single_device_range{0};

// The device on which one list of arguments is executed.
struct LaunchDevice {
  PJRT_Device* device;
  int32_t replica, partition;
  MemoryObject* const* output_memories;  // one for each output
};

// Returns the argument for messages: "execute: argument 2 (params['w'])", with the name if the program has one.
std::string Argument(const PJRT_LoadedExecutable& e, size_t index) {
  std::string text = absl::StrCat("execute: argument ", index);
  const std::vector<ParameterInfo>& parameters = e.executable->signature().parameters;
  if (index < parameters.size() && !parameters[index].name.empty())
    absl::StrAppend(&text, " (", parameters[index].name, ")");
  return text;
}

absl::Status WrongArgument(const PJRT_LoadedExecutable& e, size_t index, const PJRT_Buffer* buffer,
                           const Shape& expected) {
  return absl::InvalidArgumentError(absl::StrCat(Argument(e, index), " is ", buffer->shape.ToString(true),
                                                 ", the program takes ", expected.ToString(true)));
}

bool SameLayout(const Shape& a, const Shape& b) {
  if (!a.has_layout() || !b.has_layout()) return true;
  const Layout& x = a.layout();
  const Layout& y = b.layout();
  if (x.minor_to_major == y.minor_to_major) return x.tiles == y.tiles;
  if (x.tiles != y.tiles) return false;
  // Dimensions of size 1 may be anywhere in the order.
  auto significant = [](const Shape& s) {
    DimVector order;
    for (int64_t d : s.layout().minor_to_major) {
      if (s.dimensions(d) != 1) order.push_back(d);
    }
    return order;
  };
  return x.tiles.empty() && significant(a) == significant(b);
}

absl::Status CheckArguments(const PJRT_LoadedExecutable& e, PJRT_Buffer* const* arguments, size_t count,
                            const LaunchDevice& target) {
  const std::vector<ParameterInfo>& parameters = e.executable->signature().parameters;
  if (count != parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", count, " arguments, the program takes ", parameters.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const PJRT_Buffer* b = arguments[i];
    if (b == nullptr) return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is null"));
    const Shape& expected = parameters[i].shape;
    if (expected.IsToken()) [[unlikely]] {
      // Hosts represent tokens between programs by arrays without elements.
      if (!b->shape.IsToken() && b->shape.num_elements() != 0) return WrongArgument(e, i, b, expected);
    } else if (b->shape.element_type() != expected.element_type() || b->shape.dimensions() != expected.dimensions() ||
               !SameLayout(b->shape, expected)) [[unlikely]] {
      return WrongArgument(e, i, b, expected);
    }
    if (b->client.get() != e.client.get()) [[unlikely]] {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " belongs to another client"));
    }
    if (b->device != target.device) [[unlikely]] {
      const auto& devices = b->memory->devices;
      if (std::find(devices.begin(), devices.end(), target.device) == devices.end()) {
        return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is on ", b->device->info().to_string,
                                                       ", the program runs on ", target.device->info().to_string));
      }
    }
  }
  return absl::OkStatus();
}

// Returns which arguments this call donates. A buffer may be donated once, and must not be passed a second time then.
absl::StatusOr<std::vector<bool>> Donations(const PJRT_LoadedExecutable& e, const PJRT_ExecuteOptions& options,
                                            PJRT_Buffer* const* arguments, size_t count) {
  std::vector<bool> donated;
  if (e.donated_arguments.empty()) return donated;
  donated.resize(count);
  for (int64_t i : e.donated_arguments) donated[i] = true;
  for (size_t i = 0; i < options.num_non_donatable_input_indices; ++i) {
    const int64_t index = options.non_donatable_input_indices[i];
    if (index < 0 || index >= static_cast<int64_t>(count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("execute: non-donatable index ", index, ", the program takes ", count, " arguments"));
    }
    donated[index] = false;
  }
  // Sorted vectors, because abseil's hash tables are not valid any more if they find no memory to grow.
  absl::InlinedVector<std::pair<const PJRT_Buffer*, size_t>, 16> given;
  for (size_t i = 0; i < count; ++i) {
    if (donated[i]) given.emplace_back(arguments[i], i);
  }
  if (given.empty()) return donated;
  std::sort(given.begin(), given.end());
  for (size_t k = 1; k < given.size(); ++k) {
    if (given[k].first == given[k - 1].first) {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, given[k].second), " is donated twice in one call"));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (donated[i]) continue;
    const auto at =
        std::lower_bound(given.begin(), given.end(), std::pair<const PJRT_Buffer*, size_t>(arguments[i], 0));
    if (at != given.end() && at->first == arguments[i]) {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is also donated in the same call"));
    }
  }
  return donated;
}

absl::Status DeletedError(const PJRT_LoadedExecutable& e, size_t index, const PJRT_Buffer* buffer) {
  return absl::InvalidArgumentError(
      absl::StrCat(Argument(e, index), ", buffer ", buffer->shape.ToString(), ", has been deleted or donated"));
}

// One device's part of a call. Donated arrays are taken out of their buffers before anything is launched. So if two
// calls donate the same buffer, one gets it and the other gets an error. The arrays are put back if this part is not
// launched.
class Row {
 public:
  Row() = default;
  Row(Row&&) = default;
  ~Row() {
    for (Claimed& c : claimed_) c.buffer->UndoClaim(std::move(c.array));
  }

  ExecuteRequest request;
  std::vector<bool> donated;  // by argument; empty: none is donated
  std::vector<UseMark> uses;  // by argument

  // Reads the arguments that are not donated.
  absl::Status Read(const PJRT_LoadedExecutable& e, PJRT_Buffer* const* arguments, size_t count) {
    const std::vector<ParameterInfo>& parameters = e.executable->signature().parameters;
    request.arguments.reserve(count);
    uses.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (i < donated.size() && donated[i]) {
        request.arguments.emplace_back();
        uses.emplace_back();
        continue;
      }
      PJRT_Buffer* b = arguments[i];
      {
        MutexLock lock(b->mu);
        if (b->gone()) [[unlikely]]
          return DeletedError(e, i, b);
        request.arguments.emplace_back(b->shape, b->memory->info->id, b->storage, b->ready);
        uses.push_back(b->GetMark());
      }
      if (parameters[i].shape.IsToken()) [[unlikely]]
        request.arguments[i].shape = parameters[i].shape;
    }
    return absl::OkStatus();
  }

  // Takes the donated arguments. `request.donated` says which memory may be written: memory that nothing else reads.
  absl::Status Claim(const PJRT_LoadedExecutable& e, PJRT_Buffer* const* arguments) {
    request.donated.resize(request.arguments.size());
    if (donated.empty()) return absl::OkStatus();
    claimed_.reserve(donated.size());
    for (size_t i = 0; i < donated.size(); ++i) {
      if (!donated[i]) continue;
      bool sole = false;
      absl::StatusOr<HeldArray> array = arguments[i]->Claim(&sole, "execute");
      if (!array.ok()) return DeletedError(e, i, arguments[i]);
      request.donated[i] = sole && array->storage != nullptr && array->storage->writable();
      claimed_.push_back({arguments[i], *std::move(array)});
      request.arguments[i] = claimed_.back().array;
      uses[i] = claimed_.back().array.use;
      const Shape& expected = e.executable->signature().parameters[i].shape;
      if (expected.IsToken()) [[unlikely]]
        request.arguments[i].shape = expected;
    }
    return absl::OkStatus();
  }

  // The launch has succeeded, so the donated arguments are consumed.
  void CommitDonation() {
    for (Claimed& c : claimed_) c.buffer->CommitDonation();
    claimed_.clear();
  }

 private:
  struct Claimed {
    PJRT_Buffer* buffer;
    HeldArray array;
  };
  std::vector<Claimed> claimed_;
};

using StorageList = absl::InlinedVector<const Storage*, 8>;

// Whether an output uses the memory of one of `arguments` or of another output.
bool AnyShared(const StorageList& arguments, const std::vector<DeviceArray>& outputs) {
  // What has no other reference is shared with nothing. So it is for the outputs of a program that has ended.
  if (std::all_of(outputs.begin(), outputs.end(), [](const DeviceArray& o) { return o.storage.use_count() <= 1; })) {
    std::atomic_thread_fence(std::memory_order_acquire);  // after the accesses by references that are gone
    return false;
  }
  const size_t n = arguments.size() + outputs.size();
  if (n * outputs.size() <= 256) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Storage* storage = outputs[i].storage.get();
      if (storage == nullptr) continue;
      for (const Storage* s : arguments) {
        if (s == storage) return true;
      }
      for (size_t k = 0; k < i; ++k) {
        if (outputs[k].storage.get() == storage) return true;
      }
    }
    return false;
  }
  std::unordered_set<const Storage*> seen(arguments.begin(), arguments.end());  // valid also after want of memory
  for (const DeviceArray& output : outputs) {
    if (output.storage != nullptr && !seen.insert(output.storage.get()).second) return true;
  }
  return false;
}

// Returns the marks of the outputs. They are new, except for an output in memory that something else reads as well: the
// memory of an argument that is not donated (null in `arguments` otherwise) or of another output. Empty: all new.
std::vector<UseMark> OutputMarks(const StorageList& arguments, const std::vector<UseMark>& uses,
                                 const std::vector<DeviceArray>& outputs) {
  std::vector<UseMark> marks;
  if (!AnyShared(arguments, outputs)) [[likely]]
    return marks;
  std::unordered_map<const Storage*, UseMark> readers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != nullptr) readers.emplace(arguments[i], uses[i]);
  }
  marks.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    UseMark& mark = readers[outputs[i].storage.get()];
    if (mark == nullptr) mark = MakeUseMark();
    marks[i] = mark;
  }
  return marks;
}

absl::StatusOr<std::vector<LaunchDevice>> FindLaunchDevices(PJRT_LoadedExecutable& e,
                                                            const PJRT_LoadedExecutable_Execute_Args& a,
                                                            std::vector<MemoryObject*>* portable_outputs) {
  const size_t outputs = e.executable->signature().outputs.size();
  std::vector<LaunchDevice> targets;
  if (a.execute_device == nullptr) {
    if (e.device_assignment->empty()) {
      return absl::InvalidArgumentError("execute: a portable executable needs execute_device");
    }
    if (a.num_devices != e.devices.size()) {
      return absl::InvalidArgumentError(absl::StrCat("execute: ", a.num_devices,
                                                     " rows of arguments, the executable has ", e.devices.size(),
                                                     " addressable devices"));
    }
    targets.reserve(a.num_devices);
    for (size_t i = 0; i < e.devices.size(); ++i) {
      targets.push_back(
          {e.devices[i], e.logical_ids[i].replica, e.logical_ids[i].partition, e.output_memories.data() + i * outputs});
    }
    return targets;
  }
  PJRT_Device* device = a.execute_device;
  if (device->client != e.client.get()) return absl::InvalidArgumentError("execute: device belongs to another client");
  if (a.num_devices != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", a.num_devices, " rows of arguments for one execute_device"));
  }
  for (size_t i = 0; i < e.devices.size(); ++i) {
    if (e.devices[i] != device) continue;
    targets.push_back(
        {device, e.logical_ids[i].replica, e.logical_ids[i].partition, e.output_memories.data() + i * outputs});
    return targets;
  }
  if (!e.device_assignment->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", device->info().to_string, " is not among the devices the executable was loaded for"));
  }
  if (!device->addressable || device->memories.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("execute: ", device->info().to_string, " is not addressable"));
  }
  for (const OutputInfo& o : e.executable->signature().outputs) {
    MemoryObject* memory = ToMemory(device->memories.front());
    for (PJRT_Memory* m : device->memories) {
      if (ToMemory(m)->info->kind == o.memory_kind) memory = ToMemory(m);
    }
    portable_outputs->push_back(memory);
  }
  targets.push_back({device, 0, 0, portable_outputs->data()});
  return targets;
}

// Returns the id of the run to which this launch belongs, by which the devices of a run find one another. Must be
// called only for a launch that is passed to the backend. A refused launch must not count, or later launches of the
// devices would be matched incorrectly.
int64_t RunId(PJRT_LoadedExecutable& e, const LaunchDevice& target, bool alone) {
  if (!alone || e.devices.size() < 2) return next_run_id.fetch_add(1, std::memory_order_relaxed);
  const size_t d =
      static_cast<size_t>(std::find(e.devices.begin(), e.devices.end(), target.device) - e.devices.begin());
  MutexLock lock(e.mu);
  e.lone_launches.resize(e.devices.size());
  // Each executable has its own range, above the ids of all other launches.
  if (e.lone_runs == 0)
    e.lone_runs =
        kFirstSingleDeviceRun + next_single_device_range.fetch_add(kSingleDeviceRange, std::memory_order_relaxed);
  return e.lone_runs + e.lone_launches[d]++ % kSingleDeviceRange;
}

// The objects that a running program needs until its end, whatever the host does meanwhile. The client is destroyed
// last.
struct Running {
  std::shared_ptr<ClientState> client;
  std::shared_ptr<LoadedExecutable> loaded;
  std::shared_ptr<const std::vector<int32_t>> assignment;
  std::vector<UseMark> uses;  // of the arguments, which it still reads
};

// Fails for want of memory for the callback. The caller must then wait for `done` before it releases anything.
absl::Status KeepWhileRunning(const PJRT_LoadedExecutable& e, const std::shared_ptr<LoadedExecutable>& loaded,
                              const std::vector<UseMark>& uses, const Event& done) {
  if (done.IsReady()) return absl::OkStatus();
  return CatchExceptions([&] {
    auto running = std::make_shared<const Running>(Running{e.client, loaded, e.device_assignment, uses});
    done.OnReady([running](const absl::Status&) {});
    return absl::OkStatus();
  });
}

struct Launched {
  std::vector<DeviceArray> outputs;
  std::vector<UseMark> marks;  // of the outputs; empty: all new
  Event done;
};

// Launches the program on one device. After an error nothing of this part runs, or what runs is kept alive.
absl::Status LaunchOn(const PJRT_LoadedExecutable& e, const std::shared_ptr<LoadedExecutable>& loaded, Row& row,
                      int64_t run_id, Launched* launched) {
  row.request.run_id = run_id;
  StorageList readable;
  readable.reserve(row.request.arguments.size());
  for (size_t i = 0; i < row.request.arguments.size(); ++i) {
    readable.push_back(row.request.donated[i] ? nullptr : row.request.arguments[i].storage.get());
  }
  ASSIGN_OR_RETURN(ExecuteResult result, CatchExceptions([&] { return loaded->Execute(std::move(row.request)); }));
  row.CommitDonation();
  if (absl::Status kept = KeepWhileRunning(e, loaded, row.uses, result.done); !kept.ok()) [[unlikely]] {
    // The program may wait for devices that this call launches later, so it has to be told before this thread waits.
    (void)CatchExceptions([&] { loaded->Abandon(run_id, kept); });
    (void)result.done.Await();
    return kept;
  }
  RETURN_IF_ERROR(result.failure);
  const size_t expected = e.executable->signature().outputs.size();
  if (result.outputs.size() != expected) [[unlikely]] {
    return absl::InternalError(absl::StrCat("execute: the backend returned ", result.outputs.size(),
                                            " outputs, the executable has ", expected));
  }
  launched->marks = OutputMarks(readable, row.uses, result.outputs);
  row.uses.clear();  // a program in progress has its own
  launched->outputs = std::move(result.outputs);
  launched->done = std::move(result.done);
  return absl::OkStatus();
}

absl::Status Prefixed(const absl::Status& status, absl::string_view prefix) {
  absl::Status named(status.code(), absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& value) { named.SetPayload(key, value); });
  return named;
}

// Creates all objects before the host sees any of them.
absl::Status ReturnOutputs(const PJRT_LoadedExecutable& e, PJRT_LoadedExecutable_Execute_Args& a,
                           absl::Span<const LaunchDevice> targets, absl::Span<Launched> launched) {
  absl::InlinedVector<std::unique_ptr<PJRT_Buffer>, 8> buffers;
  absl::InlinedVector<std::unique_ptr<PJRT_Event>, 1> events;
  if (!launched.empty()) buffers.reserve(launched.size() * launched[0].outputs.size());
  for (size_t d = 0; d < launched.size(); ++d) {
    Launched& from = launched[d];
    for (size_t i = 0; i < from.outputs.size(); ++i) {
      buffers.emplace_back(NewBuffer(e.client, targets[d].device, targets[d].output_memories[i],
                                     std::move(from.outputs[i]), from.marks.empty() ? nullptr : from.marks[i]));
    }
    if (a.device_complete_events != nullptr) events.emplace_back(NewEvent(std::move(from.done)));
  }
  size_t next = 0;
  for (size_t d = 0; d < launched.size(); ++d) {
    for (size_t i = 0; i < launched[d].outputs.size(); ++i) a.output_lists[d][i] = buffers[next++].release();
    if (a.device_complete_events != nullptr) a.device_complete_events[d] = events[d].release();
  }
  return absl::OkStatus();
}

// Returns the arguments for one device. For a program without arguments the host may pass no lists.
PJRT_Buffer* const* ArgumentRow(const PJRT_LoadedExecutable_Execute_Args& a, size_t d) {
  return a.argument_lists == nullptr ? nullptr : a.argument_lists[d];
}

absl::Status CheckOptions(const PJRT_ExecuteOptions& options) {
  if (options.num_hlo_output_callbacks > 0) {
    return absl::UnimplementedError("execute: output callbacks are not offered");
  }
  if (options.multi_slice_config != nullptr) {
    return absl::UnimplementedError("execute: multi-slice executions are not offered");
  }
  if (options.num_non_donatable_input_indices > 0) BP_REQUIRE(options.non_donatable_input_indices);
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args& a) {
  BP_REQUIRE(a.executable);
  PJRT_LoadedExecutable& e = *a.executable;
  PJRT_ExecuteOptions options{};
  if (a.options != nullptr) {
    ASSIGN_OR_RETURN(
        options, ReadStruct<PJRT_ExecuteOptions>("PJRT_ExecuteOptions", a.options, PJRT_ExecuteOptions_STRUCT_SIZE));
    RETURN_IF_ERROR(CheckOptions(options));
  }
  // A process without devices of the program passes no lists.
  if (a.num_args > 0 && a.num_devices > 0) BP_REQUIRE(a.argument_lists);
  const size_t num_outputs = e.executable->signature().outputs.size();
  if (num_outputs > 0 && a.num_devices > 0) BP_REQUIRE(a.output_lists);
  std::shared_ptr<LoadedExecutable> loaded;
  {
    MutexLock lock(e.mu);
    loaded = e.loaded;
  }
  if (loaded == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("execute: executable ", e.executable->name(), " has been deleted"));
  }

  std::vector<MemoryObject*> portable_outputs;
  ASSIGN_OR_RETURN(std::vector<LaunchDevice> targets, FindLaunchDevices(e, a, &portable_outputs));
  const size_t devices = targets.size();
  absl::InlinedVector<Row, 1> rows(devices);
  std::shared_ptr<const ContextData> context;
  if (options.context != nullptr) {
    MutexLock lock(options.context->mu);
    context = options.context->data;
  }
  std::shared_ptr<const NamedValues> custom_options;
  if (options.num_custom_options > 0) {
    ASSIGN_OR_RETURN(NamedValues read, ReadNamedValues(options.custom_options, options.num_custom_options));
    custom_options = std::make_shared<const NamedValues>(std::move(read));
  }
  // Everything that may be refused comes first; nothing has changed until then.
  for (size_t d = 0; d < devices; ++d) {
    Row& row = rows[d];
    if (a.num_args > 0) BP_REQUIRE(a.argument_lists[d]);
    if (num_outputs > 0) BP_REQUIRE(a.output_lists[d]);
    RETURN_IF_ERROR(CheckArguments(e, ArgumentRow(a, d), a.num_args, targets[d]));
    ASSIGN_OR_RETURN(row.donated, Donations(e, options, ArgumentRow(a, d), a.num_args));
    row.request.device = targets[d].device->info().id;
    row.request.replica = targets[d].replica;
    row.request.partition = targets[d].partition;
    row.request.device_assignment = e.device_assignment->empty() ? absl::MakeConstSpan(&targets[d].device->info().id, 1)
                                                                 : absl::MakeConstSpan(*e.device_assignment);
    ASSIGN_OR_RETURN(row.request.context, AddCallbacks(context, options, d));
    row.request.options = custom_options;
    RETURN_IF_ERROR(row.Read(e, ArgumentRow(a, d), a.num_args));
  }
  for (size_t d = 0; d < devices; ++d) RETURN_IF_ERROR(rows[d].Claim(e, ArgumentRow(a, d)));

  const bool alone = a.execute_device != nullptr;
  const int64_t run_id = targets.empty() ? 0 : RunId(e, targets[0], alone);
  absl::InlinedVector<Launched, 1> launched(devices);
  for (size_t d = 0; d < devices; ++d) {
    absl::Status status = CatchExceptions([&] { return LaunchOn(e, loaded, rows[d], run_id, &launched[d]); });
    if (status.ok()) continue;
    // The devices before this one run. They keep what they need, and are told that the others will not be launched. A
    // run whose devices are launched by separate calls continues without this call; its backend knows that.
    if (!alone && devices > 1) (void)CatchExceptions([&] { loaded->Abandon(run_id, status); });
    return devices == 1 ? status : Prefixed(status, absl::StrCat("execute on ", targets[d].device->info().to_string));
  }
  return ReturnOutputs(e, a, targets, absl::MakeSpan(launched));
}

absl::Status ExecuteContext_Create(PJRT_ExecuteContext_Create_Args& a) {
  a.context = new PJRT_ExecuteContext;
  return absl::OkStatus();
}

absl::Status ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args& a) {
  delete a.context;
  return absl::OkStatus();
}

}  // namespace backplane::shim
