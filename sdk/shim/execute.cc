// Execution: checks everything, then launches on every device, then returns.
#include <algorithm>
#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

std::atomic<int64_t> next_run_id{1};

// Where one row of arguments runs.
struct Place {
  PJRT_Device* device;
  int32_t replica, partition;
  MemoryObject* const* output_memories;  // one for each output
};

// For messages: "execute: argument 2 (params['w'])", the name where the program gives one.
std::string Argument(const PJRT_LoadedExecutable& e, size_t index) {
  std::string text = absl::StrCat("execute: argument ", index);
  const Computation* entry = e.executable->optimized_module().entry();
  if (entry == nullptr || index >= entry->parameters().size()) return text;
  const std::string& called = entry->parameter(static_cast<int64_t>(index))->metadata().op_name;
  if (!called.empty()) absl::StrAppend(&text, " (", called, ")");
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
  // Dimensions of one element may stand anywhere.
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
                            const Place& place) {
  absl::Span<const ParameterInfo> parameters = e.executable->parameters();
  if (count != parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", count, " arguments, the program takes ", parameters.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const PJRT_Buffer* b = arguments[i];
    if (b == nullptr) return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is null"));
    const Shape& expected = parameters[i].shape;
    if (expected.IsToken()) [[unlikely]] {
      // Hosts keep tokens between programs as arrays without elements.
      if (!b->shape.IsToken() && b->shape.num_elements() != 0) return WrongArgument(e, i, b, expected);
    } else if (b->shape.element_type() != expected.element_type() || b->shape.dimensions() != expected.dimensions() ||
               !SameLayout(b->shape, expected)) [[unlikely]] {
      return WrongArgument(e, i, b, expected);
    }
    if (b->client.get() != e.client.get()) [[unlikely]] {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " belongs to another client"));
    }
    if (b->device != place.device) [[unlikely]] {
      const auto& devices = b->memory->devices;
      if (std::find(devices.begin(), devices.end(), place.device) == devices.end()) {
        return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is on ", b->device->info().to_string,
                                                       ", the program runs on ", place.device->info().to_string));
      }
    }
  }
  return absl::OkStatus();
}

// Which arguments this call gives away. A buffer may be given away once, and then not be passed a second time.
absl::StatusOr<std::vector<bool>> Donations(const PJRT_LoadedExecutable& e, const PJRT_ExecuteOptions& options,
                                            PJRT_Buffer* const* arguments, size_t count) {
  std::vector<bool> donated;
  if (e.donated_parameters.empty()) return donated;
  donated.resize(count);
  for (int64_t i : e.donated_parameters) donated[i] = true;
  for (size_t i = 0; i < options.num_non_donatable_input_indices; ++i) {
    const int64_t index = options.non_donatable_input_indices[i];
    if (index < 0 || index >= static_cast<int64_t>(count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("execute: non-donatable index ", index, ", the program takes ", count, " arguments"));
    }
    donated[index] = false;
  }
  absl::flat_hash_set<const PJRT_Buffer*> given;
  for (size_t i = 0; i < count; ++i) {
    if (donated[i] && !given.insert(arguments[i]).second) {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is donated twice in one call"));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!donated[i] && given.count(arguments[i]) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(Argument(e, i), " is also donated in the same call"));
    }
  }
  return donated;
}

// The arrays of a row of arguments, and a mark of use for each.
absl::Status ReadArguments(const PJRT_LoadedExecutable& e, PJRT_Buffer* const* arguments, size_t count,
                           ExecuteRequest& request, std::vector<UseMark>& uses) {
  absl::Span<const ParameterInfo> parameters = e.executable->parameters();
  request.arguments.reserve(count);
  uses.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    PJRT_Buffer* b = arguments[i];
    std::lock_guard<std::mutex> lock(b->mu);
    if (b->deleted) [[unlikely]] {
      return absl::InvalidArgumentError(
          absl::StrCat(Argument(e, i), ", buffer ", b->shape.ToString(), ", has been deleted or donated"));
    }
    request.arguments.push_back(DeviceArray{b->shape, b->memory->info->id, b->storage, b->ready});
    uses.push_back(b->use);
    if (parameters[i].shape.IsToken()) [[unlikely]]
      request.arguments.back().shape = parameters[i].shape;
  }
  return absl::OkStatus();
}

// Takes the donated arrays out of their buffers. From here on nothing may fail without them being gone.
void GiveAway(PJRT_Buffer* const* arguments, size_t count, std::vector<bool>& donated, ExecuteRequest& request,
              std::vector<UseMark>& uses) {
  for (size_t i = 0; i < donated.size(); ++i) {
    if (!donated[i]) continue;
    PJRT_Buffer* b = arguments[i];
    HeldArray from_buffer;
    {
      std::lock_guard<std::mutex> lock(b->mu);
      b->deleted = true;
      from_buffer.storage = std::move(b->storage);
      from_buffer.ready = std::move(b->ready);
      from_buffer.use = std::move(b->use);
    }
    from_buffer = HeldArray();
    // Only memory that nobody else reads or may read can be written.
    const std::shared_ptr<Storage>& storage = request.arguments[i].storage;
    donated[i] = storage != nullptr && uses[i].use_count() == 1 && storage->writable();
    if (donated[i]) std::atomic_thread_fence(std::memory_order_acquire);
  }
  donated.resize(count);
  request.donated = std::move(donated);
}

using StorageList = absl::InlinedVector<const Storage*, 8>;

// Whether an output lies in the memory of one of `arguments` or of another output.
bool AnyShared(const StorageList& arguments, const std::vector<DeviceArray>& outputs) {
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
  absl::flat_hash_set<const Storage*> seen(arguments.begin(), arguments.end());
  for (const DeviceArray& output : outputs) {
    if (output.storage != nullptr && !seen.insert(output.storage.get()).second) return true;
  }
  return false;
}

// Marks for the outputs: new ones, but where an output lies in memory that somebody else reads as well, which is that
// of an argument not given away (null in `arguments` otherwise) or of another output. Empty: all new.
std::vector<UseMark> OutputMarks(const StorageList& arguments, const std::vector<UseMark>& uses,
                                 const std::vector<DeviceArray>& outputs) {
  std::vector<UseMark> marks;
  if (!AnyShared(arguments, outputs)) [[likely]]
    return marks;
  absl::flat_hash_map<const Storage*, UseMark> readers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != nullptr) readers.emplace(arguments[i], uses[i]);
  }
  marks.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    UseMark& mark = readers[outputs[i].storage.get()];
    if (mark == nullptr) mark = NewUseMark();
    marks[i] = mark;
  }
  return marks;
}

absl::StatusOr<std::vector<Place>> FindPlaces(PJRT_LoadedExecutable& e, const PJRT_LoadedExecutable_Execute_Args& a,
                                              std::vector<MemoryObject*>* portable_outputs) {
  const size_t outputs = e.executable->outputs().size();
  std::vector<Place> places;
  if (a.execute_device == nullptr) {
    if (e.device_assignment->empty()) {
      return absl::InvalidArgumentError("execute: a portable executable needs execute_device");
    }
    if (a.num_devices != e.devices.size()) {
      return absl::InvalidArgumentError(absl::StrCat("execute: ", a.num_devices,
                                                     " rows of arguments, the executable has ", e.devices.size(),
                                                     " addressable devices"));
    }
    places.reserve(a.num_devices);
    for (size_t i = 0; i < e.devices.size(); ++i) {
      places.push_back(
          {e.devices[i], e.logical_ids[i].replica, e.logical_ids[i].partition, e.output_memories.data() + i * outputs});
    }
    return places;
  }
  PJRT_Device* device = a.execute_device;
  if (device->client != e.client.get()) return absl::InvalidArgumentError("execute: device belongs to another client");
  if (a.num_devices != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", a.num_devices, " rows of arguments for one execute_device"));
  }
  for (size_t i = 0; i < e.devices.size(); ++i) {
    if (e.devices[i] != device) continue;
    places.push_back(
        {device, e.logical_ids[i].replica, e.logical_ids[i].partition, e.output_memories.data() + i * outputs});
    return places;
  }
  if (!e.device_assignment->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("execute: ", device->info().to_string, " is not among the devices the executable was loaded for"));
  }
  if (!device->addressable || device->memories.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("execute: ", device->info().to_string, " is not addressable"));
  }
  for (const OutputInfo& o : e.executable->outputs()) {
    MemoryObject* memory = ToMemory(device->memories.front());
    for (PJRT_Memory* m : device->memories) {
      if (ToMemory(m)->info->kind == o.memory_kind) memory = ToMemory(m);
    }
    portable_outputs->push_back(memory);
  }
  places.push_back({device, 0, 0, portable_outputs->data()});
  return places;
}

// The run that this launch belongs to. Devices of one run find one another by it.
int64_t RunId(PJRT_LoadedExecutable& e, const Place& place, bool alone) {
  if (!alone || e.devices.size() < 2) return next_run_id.fetch_add(1, std::memory_order_relaxed);
  const size_t d = static_cast<size_t>(std::find(e.devices.begin(), e.devices.end(), place.device) - e.devices.begin());
  std::lock_guard<std::mutex> lock(e.mu);
  e.lone_launches.resize(e.devices.size());
  const int64_t n = e.lone_launches[d]++;
  auto [at, first] = e.lone_runs.try_emplace(n, 0);
  if (first) at->second = next_run_id.fetch_add(1, std::memory_order_relaxed);
  const int64_t id = at->second;
  const bool complete = std::all_of(e.lone_launches.begin(), e.lone_launches.end(), [&](int64_t k) { return k > n; });
  if (complete) e.lone_runs.erase(at);
  return id;
}

// The arguments for one device. A program without arguments may come without lists.
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
  if (a.num_args > 0) BP_REQUIRE(a.argument_lists);
  const size_t num_outputs = e.executable->outputs().size();
  if (num_outputs > 0) BP_REQUIRE(a.output_lists);
  std::shared_ptr<LoadedExecutable> loaded;
  {
    std::lock_guard<std::mutex> lock(e.mu);
    loaded = e.loaded;
  }
  if (loaded == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("execute: executable ", e.executable->name(), " has been deleted"));
  }

  std::vector<MemoryObject*> portable_outputs;
  ASSIGN_OR_RETURN(std::vector<Place> places, FindPlaces(e, a, &portable_outputs));
  const size_t devices = places.size();
  absl::InlinedVector<ExecuteRequest, 1> requests(devices);
  absl::InlinedVector<std::vector<bool>, 1> donations(devices);
  absl::InlinedVector<std::vector<UseMark>, 1> uses(devices);
  for (size_t d = 0; d < devices; ++d) {
    if (a.num_args > 0) BP_REQUIRE(a.argument_lists[d]);
    RETURN_IF_ERROR(CheckArguments(e, ArgumentRow(a, d), a.num_args, places[d]));
    ASSIGN_OR_RETURN(donations[d], Donations(e, options, ArgumentRow(a, d), a.num_args));
  }
  std::shared_ptr<const ContextData> context;
  if (options.context != nullptr) {
    std::lock_guard<std::mutex> lock(options.context->mu);
    context = options.context->data;
  }
  const int64_t run_id = places.empty() ? 0 : RunId(e, places[0], a.execute_device != nullptr);
  for (size_t d = 0; d < devices; ++d) {
    ExecuteRequest& request = requests[d];
    request.device = places[d].device->info().id;
    request.replica = places[d].replica;
    request.partition = places[d].partition;
    request.device_assignment = e.device_assignment->empty() ? absl::MakeConstSpan(&places[d].device->info().id, 1)
                                                             : absl::MakeConstSpan(*e.device_assignment);
    request.run_id = run_id;
    ASSIGN_OR_RETURN(request.context, WithCallbacks(context, options, d));
    RETURN_IF_ERROR(ReadArguments(e, ArgumentRow(a, d), a.num_args, request, uses[d]));
  }
  for (size_t d = 0; d < devices; ++d) GiveAway(ArgumentRow(a, d), a.num_args, donations[d], requests[d], uses[d]);

  absl::InlinedVector<ExecuteResult, 1> results(devices);
  absl::InlinedVector<std::vector<UseMark>, 1> marks(devices);
  for (size_t d = 0; d < devices; ++d) {
    StorageList readable;
    for (size_t i = 0; i < a.num_args; ++i) {
      readable.push_back(requests[d].donated[i] ? nullptr : requests[d].arguments[i].storage.get());
    }
    ASSIGN_OR_RETURN(results[d], loaded->Execute(std::move(requests[d])));
    if (results[d].outputs.size() != num_outputs) [[unlikely]] {
      return absl::InternalError(absl::StrCat("execute: the backend returned ", results[d].outputs.size(),
                                              " outputs, the executable has ", num_outputs));
    }
    marks[d] = OutputMarks(readable, uses[d], results[d].outputs);
  }
  for (size_t d = 0; d < devices; ++d) {
    for (size_t i = 0; i < num_outputs; ++i) {
      a.output_lists[d][i] = NewBuffer(e.client, places[d].device, places[d].output_memories[i],
                                       std::move(results[d].outputs[i]), marks[d].empty() ? nullptr : marks[d][i]);
    }
    // Running work keeps the program and its device assignment (the executable may be deleted meanwhile) and goes on
    // reading its arguments.
    if (!results[d].done.IsReady()) {
      results[d].done.OnReady([loaded, client = e.client, assignment = e.device_assignment,
                               uses = std::move(uses[d])](const absl::Status&) {});
    }
    if (a.device_complete_events != nullptr) a.device_complete_events[d] = NewEvent(std::move(results[d].done));
  }
  return absl::OkStatus();
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
