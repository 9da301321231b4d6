#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "sdk/host/executable.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

// The handlers of one execution. The plugin keeps their addresses, so they live until the last device is done.
struct Handlers {
  const Plugin* plugin;
  std::vector<std::vector<SendHandler>> send;
  std::vector<std::vector<RecvHandler>> recv;
  // The arrays of the C form. The `user_arg` of each entry points to a BoundHandler.
  struct BoundHandler {
    const Plugin* plugin;
    const SendHandler* send;
    const RecvHandler* recv;
  };
  std::vector<std::unique_ptr<BoundHandler>> bound;
  std::vector<std::vector<PJRT_SendCallbackInfo>> send_infos;
  std::vector<std::vector<PJRT_RecvCallbackInfo>> recv_infos;
  std::vector<PJRT_SendCallbackInfo*> send_rows;
  std::vector<PJRT_RecvCallbackInfo*> recv_rows;
};

PJRT_Error* OnSend(PJRT_Chunk* chunk, PJRT_CallbackError* make_error, size_t total, bool done, void* user_arg) {
  const auto* bound = static_cast<const Handlers::BoundHandler*>(user_arg);
  absl::Status status = bound->send->on_chunk({static_cast<const std::byte*>(chunk->data), chunk->size}, total, done);
  if (chunk->deleter != nullptr) chunk->deleter(chunk->data, chunk->deleter_arg);
  if (status.ok()) return nullptr;
  return (*make_error)(static_cast<PJRT_Error_Code>(status.code()), status.message().data(), status.message().size());
}

void OnRecv(PJRT_CopyToDeviceStream* stream, void* user_arg) {
  const auto* bound = static_cast<const Handlers::BoundHandler*>(user_arg);
  bound->recv->on_ready(DeviceStream(*bound->plugin, stream));
}

std::shared_ptr<Handlers> Bind(const Plugin& plugin, const ExecuteOptions& options) {
  auto h = std::make_shared<Handlers>(Handlers{&plugin, options.send, options.recv, {}, {}, {}, {}, {}});
  for (const auto& row : h->send) {
    auto& infos = h->send_infos.emplace_back();
    for (const SendHandler& handler : row) {
      h->bound.push_back(std::make_unique<Handlers::BoundHandler>(Handlers::BoundHandler{&plugin, &handler, nullptr}));
      infos.push_back({handler.channel_id, h->bound.back().get(), OnSend});
    }
  }
  for (const auto& row : h->recv) {
    auto& infos = h->recv_infos.emplace_back();
    for (const RecvHandler& handler : row) {
      h->bound.push_back(std::make_unique<Handlers::BoundHandler>(Handlers::BoundHandler{&plugin, nullptr, &handler}));
      infos.push_back({handler.channel_id, h->bound.back().get(), OnRecv});
    }
  }
  for (auto& row : h->send_infos) h->send_rows.push_back(row.data());
  for (auto& row : h->recv_infos) h->recv_rows.push_back(row.data());
  return h;
}

// Keeps the handlers until the process ends, because nothing tells when the plugin stops calling them.
void KeepForever(std::shared_ptr<const Handlers> handlers) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const Handlers>>;
  std::lock_guard<std::mutex> lock(mutex);
  kept.push_back(std::move(handlers));
}

absl::Status CheckHandlers(const ExecuteOptions& options, size_t devices) {
  auto check = [&](const auto& rows, absl::string_view what) {
    if (!rows.empty() && rows.size() != devices) {
      return absl::InvalidArgumentError(
          absl::StrCat("execute: ", rows.size(), " lists of ", what, " handlers for ", devices, " devices"));
    }
    for (const auto& row : rows) {
      if (row.size() != rows[0].size()) {
        return absl::InvalidArgumentError(absl::StrCat("execute: the lists of ", what, " handlers differ in length"));
      }
    }
    return absl::OkStatus();
  };
  BP_RETURN_IF_ERROR(check(options.send, "send"));
  return check(options.recv, "receive");
}

// Returns an error if the plugin is too old for an option. It would ignore the option, and the caller would not notice.
absl::Status CheckMinor(const Plugin& plugin, const ExecuteOptions& options) {
  auto need = [&](bool used, int minor, absl::string_view what) {
    if (!used || plugin.minor_version() >= minor) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("execute: ", plugin.name(), " speaks PJRT C API 0.",
                                                 plugin.minor_version(), ", ", what, " came with 0.", minor));
  };
  BP_RETURN_IF_ERROR(need(!options.non_donatable.empty(), 39, "non-donatable arguments"));
  return need(options.context != nullptr, 64, "execute contexts");
}

}  // namespace

absl::StatusOr<size_t> LoadedExecutable::NumOutputs() const {
  // Queried once, because each query creates an object.
  if (const int64_t known = num_outputs_->load(std::memory_order_relaxed); known >= 0)
    return static_cast<size_t>(known);
  BP_ASSIGN_OR_RETURN(const Executable executable, GetExecutable());
  BP_ASSIGN_OR_RETURN(const size_t count, executable.NumOutputs());
  num_outputs_->store(static_cast<int64_t>(count), std::memory_order_relaxed);
  return count;
}

absl::StatusOr<ExecuteResult> LoadedExecutable::Execute(absl::Span<const std::vector<const Buffer*>> arguments,
                                                        const ExecuteOptions& options) const {
  const Plugin& plugin = handle_.plugin();
  const size_t devices = arguments.size();
  if (devices == 0) return absl::InvalidArgumentError("execute: no row of arguments, expected one for each device");
  BP_RETURN_IF_ERROR(CheckHandlers(options, devices));
  BP_RETURN_IF_ERROR(CheckMinor(plugin, options));
  BP_ASSIGN_OR_RETURN(const size_t num_outputs, NumOutputs());

  std::vector<std::vector<PJRT_Buffer*>> rows(devices), outputs(devices);
  std::vector<PJRT_Buffer* const*> row_pointers;
  std::vector<PJRT_Buffer**> output_pointers;
  for (size_t d = 0; d < devices; ++d) {
    if (arguments[d].size() != arguments[0].size()) {
      return absl::InvalidArgumentError(absl::StrCat("execute: device ", d, " has ", arguments[d].size(),
                                                     " arguments, device 0 has ", arguments[0].size()));
    }
    for (const Buffer* buffer : arguments[d]) {
      if (buffer == nullptr || !*buffer) {
        return absl::InvalidArgumentError(
            absl::StrCat("execute: argument ", rows[d].size(), " of device ", d, " is no buffer"));
      }
      rows[d].push_back(buffer->raw());
    }
    outputs[d].assign(num_outputs, nullptr);
    row_pointers.push_back(rows[d].data());
    output_pointers.push_back(outputs[d].data());
  }

  PJRT_ExecuteOptions o{};
  o.struct_size = StructSizeAt(plugin.minor_version(), &o, PJRT_ExecuteOptions_STRUCT_SIZE);
  o.launch_id = options.launch_id;
  o.non_donatable_input_indices = options.non_donatable.data();
  o.num_non_donatable_input_indices = options.non_donatable.size();
  o.context = options.context != nullptr ? options.context->raw() : nullptr;
  o.call_location = options.call_location.empty() ? nullptr : options.call_location.c_str();
  std::shared_ptr<Handlers> handlers;
  if (!options.send.empty() || !options.recv.empty()) {
    handlers = Bind(plugin, options);
    o.send_callbacks = handlers->send_rows.empty() ? nullptr : handlers->send_rows.data();
    o.recv_callbacks = handlers->recv_rows.empty() ? nullptr : handlers->recv_rows.data();
    o.num_send_ops = handlers->send_infos.empty() ? 0 : handlers->send_infos[0].size();
    o.num_recv_ops = handlers->recv_infos.empty() ? 0 : handlers->recv_infos[0].size();
    o.use_major_to_minor_data_layout_for_callbacks = true;
  }

  const bool events = options.want_events || handlers != nullptr;
  std::vector<PJRT_Event*> done(events ? devices : 0, nullptr);
  BP_PJRT_ARGS(plugin, a, PJRT_LoadedExecutable_Execute);
  a.executable = handle_.get();
  a.options = &o;
  a.argument_lists = row_pointers.data();
  a.num_devices = devices;
  a.num_args = rows[0].size();
  a.output_lists = output_pointers.data();
  a.device_complete_events = events ? done.data() : nullptr;
  a.execute_device = options.device.raw();
  const absl::Status launched = BP_PJRT_CALL(plugin, PJRT_LoadedExecutable_Execute, a);
  if (!launched.ok() && handlers != nullptr) KeepForever(handlers);  // some devices may have started
  BP_RETURN_IF_ERROR(launched);

  ExecuteResult result;
  for (size_t d = 0; d < devices; ++d) {
    auto& row = result.outputs.emplace_back();
    for (PJRT_Buffer* output : outputs[d]) row.emplace_back(plugin, handle_.keep(), output);
  }
  for (PJRT_Event* event : done) {
    Event owned(plugin, handle_.keep(), event);
    // Keeps the handlers alive as long as a device may call them.
    if (handlers != nullptr && (event == nullptr || !owned.OnReady([handlers](absl::Status) {}).ok()))
      KeepForever(handlers);
    if (options.want_events) result.done.push_back(std::move(owned));
  }
  return result;
}

absl::StatusOr<std::vector<Buffer>> LoadedExecutable::Execute(absl::Span<const Buffer* const> arguments,
                                                              const ExecuteOptions& options) const {
  const std::vector<const Buffer*> row(arguments.begin(), arguments.end());
  BP_ASSIGN_OR_RETURN(ExecuteResult result, Execute(absl::MakeConstSpan(&row, 1), options));
  return std::move(result.outputs[0]);
}

absl::StatusOr<ExecuteContext> ExecuteContext::Create(const Plugin& plugin) {
  BP_PJRT_ARGS(plugin, a, PJRT_ExecuteContext_Create);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin, PJRT_ExecuteContext_Create, a));
  return ExecuteContext(internal::Handle<PJRT_ExecuteContext>(plugin, nullptr, a.context));
}

absl::StatusOr<int64_t> DeviceStream::TotalBytes() const {
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_CopyToDeviceStream_TotalBytes);
  a.stream = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(handle_.plugin(), PJRT_CopyToDeviceStream_TotalBytes, a));
  return a.total_bytes;
}
absl::StatusOr<int64_t> DeviceStream::GranuleSize() const {
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_CopyToDeviceStream_GranuleSize);
  a.stream = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(handle_.plugin(), PJRT_CopyToDeviceStream_GranuleSize, a));
  return a.granule_size_in_bytes;
}
absl::StatusOr<int64_t> DeviceStream::CurrentBytes() const {
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_CopyToDeviceStream_CurrentBytes);
  a.stream = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(handle_.plugin(), PJRT_CopyToDeviceStream_CurrentBytes, a));
  return a.current_bytes;
}

absl::StatusOr<Event> DeviceStream::AddChunk(absl::Span<const std::byte> data) const {
  auto copy = std::make_unique<std::vector<std::byte>>(data.begin(), data.end());
  PJRT_Chunk chunk{copy->data(), copy->size(),
                   [](void*, void* arg) { delete static_cast<std::vector<std::byte>*>(arg); }, copy.get()};
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_CopyToDeviceStream_AddChunk);
  a.stream = handle_.get();
  a.chunk = &chunk;
  copy.release();  // the plugin owns the chunk, also after an error
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(handle_.plugin(), PJRT_CopyToDeviceStream_AddChunk, a));
  return Event(handle_.plugin(), nullptr, a.transfer_complete);
}

}  // namespace backplane::host
