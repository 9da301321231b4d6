// The trace of the devices for a host's profiler. It contains the events that the backend has recorded
// (sdk/backend/operation_trace.h) as an XSpace with a plane for each device. A plane has a line of programs and a line
// of operations for each thread that ran some.
//
// JAX up to 0.9 and torch_xla query this extension of every plugin and crash if it is missing. The table ends with
// collect_data: hosts up to JAX 0.10 compare its size with their own, for equality, and record no trace of the devices
// if it differs. Hosts from 0.11 on know three more functions and accept a table without them.
#include "api/extensions/profiler.h"
#include "base/mutex.h"
#include "base/wire.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "sdk/backend/operation_trace.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

struct PLUGIN_Profiler_Error {
  absl::Status status;
  std::string message;
};

struct PLUGIN_Profiler {
  backplane::Mutex mu;
  bool listening ABSL_GUARDED_BY(mu) = false;
  backplane::OperationTrace::Listening since ABSL_GUARDED_BY(mu);
  std::string space ABSL_GUARDED_BY(mu);  // a serialized XSpace of the last Stop
};

namespace backplane::shim {
namespace {

// Field numbers are those of the published xplane.proto.
class Plane {
 public:
  Plane(int64_t id, std::string name) : id_(id), name_(std::move(name)) {}

  // The events of one line. They do not overlap, unless one contains the other.
  void AddLine(int64_t id, absl::string_view name, absl::Span<const OperationTrace::Event* const> events) {
    int64_t start = events[0]->start_ns;
    for (const OperationTrace::Event* e : events) start = std::min(start, e->start_ns);
    WireWriter line;
    line.Varint(1, static_cast<uint64_t>(id));
    line.Bytes(2, name);
    line.Varint(3, static_cast<uint64_t>(start));
    for (const OperationTrace::Event* e : events) {
      WireWriter event;
      event.Varint(1, static_cast<uint64_t>(Number(event_names_, e->name)));
      event.Varint(2, static_cast<uint64_t>((e->start_ns - start) * 1000));
      event.Varint(3, static_cast<uint64_t>(std::max<int64_t>(0, e->end_ns - e->start_ns) * 1000));
      event.Bytes(4, Reference("hlo_module", e->program));
      if (!e->is_program) event.Bytes(4, Reference("hlo_op", e->name));
      line.Bytes(4, event.str());
    }
    lines_.push_back(line.Take());
  }

  std::string Serialize() const {
    WireWriter plane;
    plane.Varint(1, static_cast<uint64_t>(id_));
    plane.Bytes(2, name_);
    for (const std::string& line : lines_) plane.Bytes(3, line);
    PutNames(4, event_names_, &plane);
    PutNames(5, stat_names_, &plane);
    return plane.Take();
  }

 private:
  using Names = std::map<std::string, int64_t>;
  static int64_t Number(Names& names, const std::string& name) {
    return names.try_emplace(name, static_cast<int64_t>(names.size()) + 1).first->second;
  }
  // A stat whose value is a name.
  std::string Reference(const std::string& key, const std::string& value) {
    WireWriter stat;
    stat.Varint(1, static_cast<uint64_t>(Number(stat_names_, key)));
    stat.Varint(7, static_cast<uint64_t>(Number(stat_names_, value)));
    return stat.Take();
  }
  static void PutNames(int field, const Names& names, WireWriter* plane) {
    for (const auto& [name, number] : names) {
      WireWriter metadata, entry;
      metadata.Varint(1, static_cast<uint64_t>(number));
      metadata.Bytes(2, name);
      entry.Varint(1, static_cast<uint64_t>(number));
      entry.Bytes(2, metadata.str());
      plane->Bytes(field, entry.str());
    }
  }

  const int64_t id_;
  const std::string name_;
  std::vector<std::string> lines_;
  Names event_names_, stat_names_;
};

std::string MakeSpace(const std::vector<OperationTrace::Event>& events, int64_t lost) {
  // By device, programs before operations, by thread.
  std::map<std::tuple<int32_t, bool, uint32_t>, std::vector<const OperationTrace::Event*>> lines;
  for (const OperationTrace::Event& e : events) lines[{e.device, !e.is_program, e.thread}].push_back(&e);
  std::map<int32_t, Plane> planes;
  for (auto& [key, line] : lines) {
    const auto& [device, is_step, thread] = key;
    // If two events begin at the same time, the longer one comes first, because it contains the other.
    std::stable_sort(line.begin(), line.end(), [](const auto* a, const auto* b) {
      return std::tie(a->start_ns, b->end_ns) < std::tie(b->start_ns, a->end_ns);
    });
    Plane& plane = planes
                       .try_emplace(device, device + 1,
                                    absl::StrCat("/device:CUSTOM:", Plugin().backend->platform_name(), ":", device))
                       .first->second;
    const std::string queue = OperationTrace::Get().GetLineName(thread);
    plane.AddLine(int64_t{thread} * 2 + (is_step ? 1 : 0),
                  absl::StrCat(is_step ? "Operations" : "Programs", " (",
                               queue.empty() ? absl::StrCat("thread ", thread) : queue, ")"),
                  line);
  }
  WireWriter space;
  for (const auto& [device, plane] : planes) space.Bytes(1, plane.Serialize());
  if (lost > 0)
    space.Bytes(
        3, absl::StrCat(lost, " events of the devices came after ", OperationTrace::kMaxEvents, " and are not shown"));
  return space.Take();
}

PLUGIN_Profiler_Error* Fail(absl::Status status) {
  if (status.ok()) return nullptr;
  auto* error = new PLUGIN_Profiler_Error;
  error->message = std::string(status.message());
  error->status = std::move(status);
  return error;
}

// Like the guard of the table, with the profiler's own errors. Sizes are not checked, because XLA's hosts leave them
// unset.
template <typename Args, absl::Status (*kDo)(Args&)>
PLUGIN_Profiler_Error* Entry(Args* args) noexcept {
  try {
    if (args == nullptr) return Fail(absl::InvalidArgumentError("profiler: the arguments are null"));
    return Fail(kDo(*args));
  } catch (const std::exception& e) {
    return Fail(absl::InternalError(absl::StrCat("profiler: ", e.what())));
  } catch (...) {
    return Fail(absl::InternalError("profiler: exception of an unknown type"));
  }
}

absl::Status Create(PLUGIN_Profiler_Create_Args& a) {
  a.profiler = new PLUGIN_Profiler;
  return absl::OkStatus();
}

absl::Status StopListening(PLUGIN_Profiler& p) {
  MutexLock lock(p.mu);
  if (!p.listening) return absl::OkStatus();
  p.listening = false;
  int64_t lost = 0;
  Plugin().backend->EndTrace();
  const std::vector<OperationTrace::Event> events = OperationTrace::Get().Stop(p.since, &lost);
  p.space = MakeSpace(events, lost);
  return absl::OkStatus();
}

absl::Status Destroy(PLUGIN_Profiler_Destroy_Args& a) {
  if (a.profiler == nullptr) return absl::OkStatus();
  const absl::Status status = StopListening(*a.profiler);
  delete a.profiler;
  return status;
}

absl::Status Start(PLUGIN_Profiler_Start_Args& a) {
  BP_REQUIRE(a.profiler);
  MutexLock lock(a.profiler->mu);
  if (a.profiler->listening) return absl::FailedPreconditionError("profiler: started twice");
  a.profiler->since = OperationTrace::Get().Start();
  a.profiler->listening = true;
  Plugin().backend->BeginTrace();
  return absl::OkStatus();
}

absl::Status Stop(PLUGIN_Profiler_Stop_Args& a) {
  BP_REQUIRE(a.profiler);
  return StopListening(*a.profiler);
}

absl::Status CollectData(PLUGIN_Profiler_CollectData_Args& a) {
  BP_REQUIRE(a.profiler);
  MutexLock lock(a.profiler->mu);
  std::string& space = a.profiler->space;
  // Without memory of the caller ours is lent. XLA's hosts read it at once and do not call again.
  if (a.buffer == nullptr) {
    a.buffer = reinterpret_cast<uint8_t*>(space.data());
  } else {
    std::memcpy(a.buffer, space.data(), space.size());
  }
  a.buffer_size_in_bytes = space.size();
  return absl::OkStatus();
}

absl::Status GetCode(PLUGIN_Profiler_Error_GetCode_Args& a) {
  BP_REQUIRE(a.error);
  a.code = static_cast<int>(a.error->status.code());
  return absl::OkStatus();
}

#define BP_PROFILER(name, impl) &Entry<PLUGIN_Profiler_##name##_Args, &impl>

}  // namespace

PJRT_Extension_Base* ProfilerExtension() {
  static PLUGIN_Profiler_Api api = [] {
    PLUGIN_Profiler_Api t{};
    t.struct_size = PROFILER_STRUCT_SIZE(PLUGIN_Profiler_Api, collect_data);
    t.error_destroy = [](PLUGIN_Profiler_Error_Destroy_Args* a) { delete a->error; };
    t.error_message = [](PLUGIN_Profiler_Error_Message_Args* a) {
      a->message = a->error == nullptr ? "" : a->error->message.data();
      a->message_size = a->error == nullptr ? 0 : a->error->message.size();
    };
    t.error_get_code = BP_PROFILER(Error_GetCode, GetCode);
    t.create = BP_PROFILER(Create, Create);
    t.destroy = BP_PROFILER(Destroy, Destroy);
    t.start = BP_PROFILER(Start, Start);
    t.stop = BP_PROFILER(Stop, Stop);
    t.collect_data = BP_PROFILER(CollectData, CollectData);
    return t;
  }();
  static PJRT_Profiler_Extension extension = [] {
    PJRT_Profiler_Extension e{};
    e.base = {PJRT_Profiler_Extension_STRUCT_SIZE, PJRT_Extension_Type_Profiler, nullptr};
    e.profiler_api = &api;
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
