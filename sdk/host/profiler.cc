#include "sdk/host/profiler.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wire.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

// Converts an error of the extension and destroys it. Null is OK.
absl::Status TakeError(const PLUGIN_Profiler_Api& api, PLUGIN_Profiler_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  PLUGIN_Profiler_Error_Message_Args message{PLUGIN_Profiler_Error_Message_Args_STRUCT_SIZE, nullptr, error};
  api.error_message(&message);
  std::string text =
      message.message == nullptr ? "an error without a message" : std::string(message.message, message.message_size);
  PLUGIN_Profiler_Error_GetCode_Args code{PLUGIN_Profiler_Error_GetCode_Args_STRUCT_SIZE, nullptr, error};
  // An error of this query has nobody to report it to.
  if (PLUGIN_Profiler_Error* other = api.error_get_code(&code); other != nullptr) {
    PLUGIN_Profiler_Error_Destroy_Args destroy{PLUGIN_Profiler_Error_Destroy_Args_STRUCT_SIZE, nullptr, other};
    api.error_destroy(&destroy);
    code.code = 0;
  }
  PLUGIN_Profiler_Error_Destroy_Args destroy{PLUGIN_Profiler_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api.error_destroy(&destroy);
  const bool known = code.code >= 1 && code.code <= 16;
  return absl::Status(known ? static_cast<absl::StatusCode>(code.code) : absl::StatusCode::kUnknown,
                      absl::StrCat("profiler: ", text));
}

using Names = std::map<uint64_t, std::string>;

// Reads an entry of a map from numbers to metadata with a name.
bool ReadName(absl::string_view bytes, Names* names) {
  uint64_t key = 0;
  std::string name;
  WireReader entry(bytes);
  while (entry.Next()) {
    if (entry.field == 1) key = entry.value;
    if (entry.field != 2) continue;
    WireReader metadata(entry.bytes);
    while (metadata.Next()) {
      if (metadata.field == 2) name = std::string(metadata.bytes);
    }
    if (!metadata.ok()) return false;
  }
  (*names)[key] = std::move(name);
  return entry.ok();
}

struct Metadata {
  Names events, stats;
};

// Reads a statistic whose value is a text, or the number of a name.
bool ReadStat(absl::string_view bytes, const Metadata& names, TraceEvent* event) {
  uint64_t key = 0;
  std::string value;
  WireReader stat(bytes);
  while (stat.Next()) {
    if (stat.field == 1) key = stat.value;
    if (stat.field == 5) value = std::string(stat.bytes);
    if (stat.field != 7) continue;
    if (const auto at = names.stats.find(stat.value); at != names.stats.end()) value = at->second;
  }
  const auto at = names.stats.find(key);
  if (at == names.stats.end()) return stat.ok();
  if (at->second == "hlo_module") event->program = std::move(value);
  if (at->second == "hlo_op") event->is_operation = true;
  return stat.ok();
}

bool ReadEvent(absl::string_view bytes, const Metadata& names, int64_t line_start_ns, TraceEvent* event) {
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field == 1) {
      const auto at = names.events.find(reader.value);
      event->name = at == names.events.end() ? std::string() : at->second;
    }
    if (reader.field == 2) event->start_ps = line_start_ns * 1000 + static_cast<int64_t>(reader.value);
    if (reader.field == 3) event->duration_ps = static_cast<int64_t>(reader.value);
    if (reader.field == 4 && !ReadStat(reader.bytes, names, event)) return false;
  }
  return reader.ok();
}

bool ReadLine(absl::string_view bytes, const Metadata& names, TraceLine* line) {
  int64_t start_ns = 0;
  WireReader header(bytes);
  while (header.Next()) {
    if (header.field == 2) line->name = std::string(header.bytes);
    if (header.field == 3) start_ns = static_cast<int64_t>(header.value);
  }
  if (!header.ok()) return false;
  WireReader events(bytes);
  while (events.Next()) {
    if (events.field == 4 && !ReadEvent(events.bytes, names, start_ns, &line->events.emplace_back())) return false;
  }
  return true;
}

bool ReadPlane(absl::string_view bytes, TracePlane* plane) {
  Metadata names;
  WireReader header(bytes);
  while (header.Next()) {
    if (header.field == 2) plane->name = std::string(header.bytes);
    if (header.field == 4 && !ReadName(header.bytes, &names.events)) return false;
    if (header.field == 5 && !ReadName(header.bytes, &names.stats)) return false;
  }
  if (!header.ok()) return false;
  WireReader lines(bytes);
  while (lines.Next()) {
    if (lines.field == 3 && !ReadLine(lines.bytes, names, &plane->lines.emplace_back())) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<DeviceTrace> ParseXSpace(absl::string_view bytes) {
  DeviceTrace trace;
  WireReader space(bytes);
  bool ok = true;
  while (ok && space.Next()) {
    if (space.field == 1) ok = ReadPlane(space.bytes, &trace.planes.emplace_back());
    if (space.field == 2 || space.field == 3) trace.warnings.emplace_back(space.bytes);
  }
  if (!ok || !space.ok()) return absl::InvalidArgumentError("profiler: the trace is no XSpace");
  return trace;
}

absl::StatusOr<Profiler> Profiler::Create(const Plugin& plugin) {
  BP_RETURN_IF_ERROR(plugin.Initialize());
  const auto* extension = plugin.Extension<PJRT_Profiler_Extension>(
      PJRT_Extension_Type_Profiler, offsetof(PJRT_Profiler_Extension, profiler_api) + sizeof(void*));
  constexpr size_t kNeeded = offsetof(PLUGIN_Profiler_Api, collect_data) + sizeof(void*);
  if (extension == nullptr || extension->profiler_api == nullptr || extension->profiler_api->struct_size < kNeeded) {
    return absl::UnimplementedError(absl::StrCat(plugin.name(), " has no profiler extension"));
  }
  const PLUGIN_Profiler_Api* api = extension->profiler_api;
  PLUGIN_Profiler_Create_Args args{PLUGIN_Profiler_Create_Args_STRUCT_SIZE, "", 0, nullptr};
  BP_RETURN_IF_ERROR(TakeError(*api, api->create(&args)));
  return Profiler(api, args.profiler);
}

Profiler::Profiler(Profiler&& other) noexcept : api_(other.api_), profiler_(std::exchange(other.profiler_, nullptr)) {}

Profiler::~Profiler() {
  if (profiler_ == nullptr) return;
  PLUGIN_Profiler_Destroy_Args args{PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE, profiler_};
  // Nobody is left to report an error to.
  TakeError(*api_, api_->destroy(&args)).IgnoreError();
}

absl::Status Profiler::Start() {
  PLUGIN_Profiler_Start_Args args{PLUGIN_Profiler_Start_Args_STRUCT_SIZE, profiler_};
  return TakeError(*api_, api_->start(&args));
}

absl::StatusOr<DeviceTrace> Profiler::Stop() {
  PLUGIN_Profiler_Stop_Args stop{PLUGIN_Profiler_Stop_Args_STRUCT_SIZE, profiler_};
  BP_RETURN_IF_ERROR(TakeError(*api_, api_->stop(&stop)));
  // The plugin may keep the bytes or only count them; in the second case it is called again with memory for them.
  PLUGIN_Profiler_CollectData_Args data{PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE, profiler_, nullptr, 0};
  BP_RETURN_IF_ERROR(TakeError(*api_, api_->collect_data(&data)));
  if (data.buffer != nullptr) {
    return ParseXSpace(absl::string_view(reinterpret_cast<const char*>(data.buffer), data.buffer_size_in_bytes));
  }
  std::string bytes(data.buffer_size_in_bytes, '\0');
  data.buffer = reinterpret_cast<uint8_t*>(bytes.data());
  BP_RETURN_IF_ERROR(TakeError(*api_, api_->collect_data(&data)));
  return ParseXSpace(bytes);
}

}  // namespace backplane::host
