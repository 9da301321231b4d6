#include "sdk/layers/trace/trace.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <shared_mutex>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "sdk/host/element_type.h"
#include "sdk/host/status.h"
#include "sdk/layers/raw.h"
#include "sdk/layers/trace/events.h"
#include "sdk/layers/trace/write.h"

namespace backplane::layers {
namespace {

uint64_t BytesOf(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims) {
  if (dims == nullptr && num_dims != 0) return 0;
  uint64_t bits = static_cast<uint64_t>(host::BitsPerElement(type));
  for (size_t i = 0; i < num_dims; ++i) {
    if (dims[i] < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(dims[i]), &bits)) return 0;
  }
  return (bits + 7) / 8;
}

class TraceLayer : public Layer {
 public:
  TraceLayer(std::string json, std::string html, size_t limit, bool spans)
      : json_(std::move(json)), html_(std::move(html)), spans_(spans), log_(std::make_shared<SpanLog>(limit)) {
    for (size_t f = 0; f < kNumFunctions; ++f)
      object_word_[f] = GetInfo(static_cast<Fn>(f)).has_extension_start ? 2 : 1;
  }

  const char* name() const override { return "trace"; }
  void Attach(Stack& stack) override { title_ = stack.name(); }
  void After(Call& call) override;
  void Flush() override;
  void End() override;

 private:
  struct Program {
    uint32_t name;
    size_t num_outputs = 0;
    std::vector<int16_t> devices;  // of the argument lists
  };
  void Fill(const Call& call, Event* e);
  void RecordProgram(const Call& call, PJRT_LoadedExecutable* executable, Event* e);
  std::shared_ptr<const Program> ProgramOf(const void* executable);
  void AddSpans(Call& call, const Event& e);
  std::unique_ptr<ReadyWait> Span(Call& call, const Event& e, EventKind kind);

  const std::string json_, html_;
  const bool spans_;
  const int64_t start_ns_ = ReadMonotonicNanos();
  std::string title_;
  // Callbacks of events may run after the layer has been destroyed.
  struct SpanLog {
    explicit SpanLog(size_t limit) : events(limit) {}
    EventLog events;
    std::atomic<int64_t> open{0};  // spans
  };
  const std::shared_ptr<SpanLog> log_;
  // The index of the word in a function's args that identifies its object: nearly always the first one after the head.
  uint8_t object_word_[kNumFunctions];
  std::shared_mutex programs_mutex_;
  absl::flat_hash_map<const void*, std::shared_ptr<const Program>> programs_;
  Mutex flush_mutex_;
};

// Queries the name and the devices of a new program from the target, without the layers.
void TraceLayer::RecordProgram(const Call& call, PJRT_LoadedExecutable* executable, Event* e) {
  if (executable == nullptr) return;
  auto program = std::make_shared<Program>();
  program->name = e->name = log_->events.Intern(raw::ProgramName(*call.stack, executable));
  program->num_outputs = raw::NumOutputs(*call.stack, executable);
  for (PJRT_Device* device : raw::AddressableDevices(*call.stack, executable)) {
    program->devices.push_back(static_cast<int16_t>(raw::DeviceId(*call.stack, device)));
  }
  std::unique_lock<std::shared_mutex> lock(programs_mutex_);
  programs_[executable] = std::move(program);
}

std::shared_ptr<const TraceLayer::Program> TraceLayer::ProgramOf(const void* executable) {
  std::shared_lock<std::shared_mutex> lock(programs_mutex_);
  auto it = programs_.find(executable);
  return it == programs_.end() ? nullptr : it->second;
}

// Determines the object of a call and the bytes that it copies.
void TraceLayer::Fill(const Call& call, Event* e) {
  const bool ok = call.result == nullptr;
  switch (call.fn) {
    case Fn::PJRT_Client_Compile: {
      const auto* a = call.As<PJRT_Client_Compile_Args>();
      if (!Has(a, &PJRT_Client_Compile_Args::executable)) break;
      e->bytes = a->program != nullptr ? a->program->code_size : 0;
      if (ok) RecordProgram(call, a->executable, e);
      break;
    }
    case Fn::PJRT_Client_Load: {
      const auto* a = call.As<PJRT_Client_Load_Args>();
      if (ok && Has(a, &PJRT_Client_Load_Args::loaded_executable)) RecordProgram(call, a->loaded_executable, e);
      break;
    }
    case Fn::PJRT_Executable_DeserializeAndLoad: {
      const auto* a = call.As<PJRT_Executable_DeserializeAndLoad_Args>();
      if (!Has(a, &PJRT_Executable_DeserializeAndLoad_Args::loaded_executable)) break;
      e->bytes = a->serialized_executable_size;
      if (ok) RecordProgram(call, a->loaded_executable, e);
      break;
    }
    case Fn::PJRT_LoadedExecutable_Execute: {
      const auto* a = call.As<PJRT_LoadedExecutable_Execute_Args>();
      if (!Has(a, &PJRT_LoadedExecutable_Execute_Args::num_args)) break;
      e->object = reinterpret_cast<uint64_t>(a->executable);
      e->count = static_cast<uint32_t>(a->num_args);
      if (auto program = ProgramOf(a->executable)) e->name = program->name;
      break;
    }
    case Fn::PJRT_Client_BufferFromHostBuffer: {
      const auto* a = call.As<PJRT_Client_BufferFromHostBuffer_Args>();
      if (!Has(a, &PJRT_Client_BufferFromHostBuffer_Args::buffer)) break;
      e->bytes = BytesOf(a->type, a->dims, a->num_dims);
      if (ok) e->object = reinterpret_cast<uint64_t>(a->buffer);
      break;
    }
    case Fn::PJRT_Client_CreateUninitializedBuffer: {
      const auto* a = call.As<PJRT_Client_CreateUninitializedBuffer_Args>();
      if (!Has(a, &PJRT_Client_CreateUninitializedBuffer_Args::buffer)) break;
      e->bytes = BytesOf(a->shape_element_type, a->shape_dims, a->shape_num_dims);
      if (ok) e->object = reinterpret_cast<uint64_t>(a->buffer);
      break;
    }
    case Fn::PJRT_Buffer_ToHostBuffer: {
      const auto* a = call.As<PJRT_Buffer_ToHostBuffer_Args>();
      if (!Has(a, &PJRT_Buffer_ToHostBuffer_Args::event)) break;
      e->object = reinterpret_cast<uint64_t>(a->src);
      if (a->dst != nullptr) e->bytes = a->dst_size;
      break;
    }
    case Fn::PJRT_Buffer_CopyRawToHost: {
      const auto* a = call.As<PJRT_Buffer_CopyRawToHost_Args>();
      if (!Has(a, &PJRT_Buffer_CopyRawToHost_Args::transfer_size)) break;
      e->object = reinterpret_cast<uint64_t>(a->buffer);
      e->bytes = static_cast<uint64_t>(a->transfer_size);
      break;
    }
    case Fn::PJRT_Buffer_CopyRawToHostFuture: {
      const auto* a = call.As<PJRT_Buffer_CopyRawToHostFuture_Args>();
      if (!Has(a, &PJRT_Buffer_CopyRawToHostFuture_Args::transfer_size)) break;
      e->object = reinterpret_cast<uint64_t>(a->buffer);
      e->bytes = static_cast<uint64_t>(a->transfer_size);
      break;
    }
    case Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData: {
      const auto* a = call.As<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
      if (!Has(a, &PJRT_AsyncHostToDeviceTransferManager_TransferData_Args::transfer_size)) break;
      e->object = reinterpret_cast<uint64_t>(a->transfer_manager);
      e->bytes = static_cast<uint64_t>(a->transfer_size);
      break;
    }
    case Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: {
      const auto* a = call.As<PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args>();
      if (!Has(a, &PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args::shape_element_type)) break;
      e->object = reinterpret_cast<uint64_t>(a->transfer_manager);
      e->bytes = BytesOf(a->shape_element_type, a->shape_dims, a->shape_num_dims);
      break;
    }
    case Fn::PJRT_Client_DmaMap: {
      const auto* a = call.As<PJRT_Client_DmaMap_Args>();
      if (Has(a, &PJRT_Client_DmaMap_Args::size)) e->bytes = a->size;
      break;
    }
    default: {
      const size_t at = object_word_[Index(call.fn)];
      if (call.args_size >= (at + 1) * sizeof(uint64_t)) e->object = static_cast<const uint64_t*>(call.args)[at];
    }
  }
}

std::unique_ptr<ReadyWait> TraceLayer::Span(Call& call, const Event& e, EventKind kind) {
  struct Wait : ReadyWait {
    Wait(std::shared_ptr<SpanLog> l, Stack* s, const Event& begun) : log(std::move(l)), stack(s), event(begun) {
      log->open.fetch_add(1, std::memory_order_relaxed);
    }
    ~Wait() override { log->open.fetch_sub(1, std::memory_order_release); }
    void Done(const PJRT_Error* error) override {
      event.end = ReadTicks();
      event.error = static_cast<uint8_t>(ErrorCode(*stack, error));
      log->events.Add(event);
    }
    const std::shared_ptr<SpanLog> log;
    Stack* const stack;
    Event event;
  };
  auto wait = std::make_unique<Wait>(log_, call.stack, e);
  wait->event.kind = kind;
  return wait;
}

void TraceLayer::AddSpans(Call& call, const Event& e) {
  Stack& stack = *call.stack;
  switch (call.fn) {
    case Fn::PJRT_LoadedExecutable_Execute: {
      const auto* a = call.As<PJRT_LoadedExecutable_Execute_Args>();
      if (!Has(a, &PJRT_LoadedExecutable_Execute_Args::device_complete_events)) return;
      auto program = ProgramOf(a->executable);
      PJRT_Device* device = Field(a, &PJRT_LoadedExecutable_Execute_Args::execute_device);
      for (size_t d = 0; d < a->num_devices; ++d) {
        Event span = e;
        if (device != nullptr) {
          span.device = static_cast<int16_t>(raw::DeviceId(stack, device));
        } else if (program != nullptr && d < program->devices.size()) {
          span.device = program->devices[d];
        }
        if (a->device_complete_events != nullptr && a->device_complete_events[d] != nullptr) {
          WhenReady(stack, a->device_complete_events[d], Span(call, span, EventKind::kExecution));
        } else if (a->output_lists != nullptr && a->output_lists[d] != nullptr && program != nullptr &&
                   program->num_outputs > 0) {
          WhenBufferReady(stack, a->output_lists[d][0], Span(call, span, EventKind::kExecution));
        }
      }
      return;
    }
    case Fn::PJRT_Client_BufferFromHostBuffer: {
      const auto* a = call.As<PJRT_Client_BufferFromHostBuffer_Args>();
      if (!Has(a, &PJRT_Client_BufferFromHostBuffer_Args::buffer)) return;
      // If the plugin may use the host's memory in place, the host may reuse it only when the buffer is freed, which is
      // not the end of the work. So the span ends when the buffer is ready.
      const bool copies = a->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall ||
                          a->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
      if (copies) {
        WhenReady(stack, a->done_with_host_buffer, Span(call, e, EventKind::kCopyToDevice));
      } else {
        WhenBufferReady(stack, a->buffer, Span(call, e, EventKind::kCopyToDevice));
      }
      return;
    }
    case Fn::PJRT_Buffer_ToHostBuffer: {
      const auto* a = call.As<PJRT_Buffer_ToHostBuffer_Args>();
      if (!Has(a, &PJRT_Buffer_ToHostBuffer_Args::event) || a->dst == nullptr) return;
      WhenReady(stack, a->event, Span(call, e, EventKind::kCopyToHost));
      return;
    }
    case Fn::PJRT_Buffer_CopyRawToHost: {
      const auto* a = call.As<PJRT_Buffer_CopyRawToHost_Args>();
      if (Has(a, &PJRT_Buffer_CopyRawToHost_Args::event))
        WhenReady(stack, a->event, Span(call, e, EventKind::kCopyToHost));
      return;
    }
    case Fn::PJRT_Buffer_CopyRawToHostFuture: {
      const auto* a = call.As<PJRT_Buffer_CopyRawToHostFuture_Args>();
      if (Has(a, &PJRT_Buffer_CopyRawToHostFuture_Args::event)) {
        WhenReady(stack, a->event, Span(call, e, EventKind::kCopyToHost));
      }
      return;
    }
    case Fn::PJRT_AsyncHostToDeviceTransferManager_TransferData: {
      const auto* a = call.As<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
      if (Has(a, &PJRT_AsyncHostToDeviceTransferManager_TransferData_Args::done_with_h2d_transfer)) {
        WhenReady(stack, a->done_with_h2d_transfer, Span(call, e, EventKind::kCopyToDevice));
      }
      return;
    }
    case Fn::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: {
      const auto* a = call.As<PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args>();
      if (Has(a, &PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args::done_with_h2d_transfer)) {
        WhenReady(stack, a->done_with_h2d_transfer, Span(call, e, EventKind::kCopyToDevice));
      }
      return;
    }
    case Fn::PJRT_Buffer_CopyToDevice: {
      const auto* a = call.As<PJRT_Buffer_CopyToDevice_Args>();
      if (Has(a, &PJRT_Buffer_CopyToDevice_Args::dst_buffer)) {
        WhenBufferReady(stack, a->dst_buffer, Span(call, e, EventKind::kCopyOnDevice));
      }
      return;
    }
    case Fn::PJRT_Buffer_CopyToMemory: {
      const auto* a = call.As<PJRT_Buffer_CopyToMemory_Args>();
      if (Has(a, &PJRT_Buffer_CopyToMemory_Args::dst_buffer)) {
        WhenBufferReady(stack, a->dst_buffer, Span(call, e, EventKind::kCopyOnDevice));
      }
      return;
    }
    default:
      return;
  }
}

void TraceLayer::After(Call& call) {
  Event e;
  e.start = call.start;
  e.end = call.end;
  e.fn = call.fn;
  if (call.result != nullptr) e.error = static_cast<uint8_t>(ErrorCode(*call.stack, call.result));
  Fill(call, &e);
  log_->events.Add(e);
  if (spans_ && call.result == nullptr && call.reached_target) AddSpans(call, e);
}

void TraceLayer::Flush() {
  MutexLock lock(flush_mutex_);
  const TraceHead head{title_, start_ns_, getpid()};
  // An error cannot be reported, because the host is ending; the file is missing then.
  if (!json_.empty()) WriteFileAtomically(json_, TraceJson(log_->events, head)).IgnoreError();
  if (!html_.empty()) WriteFileAtomically(html_, TraceHtml(log_->events, head)).IgnoreError();
}

// A host that waits for an event may continue and end before the layer's own callback of that event has run. So the
// layer waits for it for a short time; an event that never becomes ready gives no span.
void TraceLayer::End() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (log_->open.load(std::memory_order_acquire) > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Flush();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeTraceLayer(const Options& options) {
  BP_RETURN_IF_ERROR(options.CheckNames({"file", "html", "limit", "spans"}));
  BP_ASSIGN_OR_RETURN(int64_t limit, options.GetInt("limit", 4000000));
  BP_ASSIGN_OR_RETURN(bool spans, options.GetBool("spans", true));
  if (limit < 1) return absl::InvalidArgumentError("trace: limit is less than 1");
  std::string json = options.GetPath("file", "backplane_trace.%p.json");
  std::string html = options.GetPath(
      "html", json == "none" ? "backplane_trace.%p.html" : absl::StrCat(absl::StripSuffix(json, ".json"), ".html"));
  if (json == "none") json.clear();
  if (html == "none") html.clear();
  return std::unique_ptr<Layer>(new TraceLayer(json, html, static_cast<size_t>(limit), spans));
}

}  // namespace backplane::layers
