// What is recorded for each function.
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/host/executable.h"
#include "sdk/host/status.h"
#include "sdk/layers/record/recorder.h"

namespace backplane::record {
namespace {

using layers::Field;

std::string Text(const char* data, size_t size) { return data == nullptr ? std::string() : std::string(data, size); }
void SetDims(const int64_t* dims, size_t count, std::vector<int64_t>& out) {
  const absl::Span<const int64_t> known = ListOfHost(dims, count);
  out.assign(known.begin(), known.end());
}

// More arrays in one call are an error of the host.
constexpr size_t kMostTransferredArrays = size_t{1} << 20;

}  // namespace

// For functions with nothing to add at their end, or that record everything at their end.
#define BP_NOTHING_AT_END(fn) \
  void Recorder::End(fn##_Args&, Pending&) {}

// ---- Clients

bool Recorder::Begin(PJRT_Client_Create_Args& args, Pending& call) {
  call.op.kind = Kind::kClient;
  if (auto options = host::CopyNamedValues(args.create_options, args.num_options); options.ok())
    call.op.options = *std::move(options);
  if (args.kv_get_callback != nullptr || args.kv_put_callback != nullptr)
    call.op.obstacle = "the host gave a key-value store: the program may have other processes";
  return true;
}
void Recorder::End(PJRT_Client_Create_Args& args, Pending& call) {
  const uint64_t id = NewId();
  call.op.makes = {id};
  Put(clients_, args.client, id);
  RecordClient(args.client, call.op);
}

bool Recorder::Begin(PJRT_Client_Destroy_Args& args, Pending& call) {
  call.op.kind = Kind::kClientDestroy;
  call.op.uses = {Take(clients_, args.client)};
  return args.client != nullptr;
}
BP_NOTHING_AT_END(PJRT_Client_Destroy)

// ---- Programs

bool Recorder::Begin(PJRT_Client_Compile_Args& args, Pending& call) {
  call.op.kind = Kind::kCompile;
  call.op.uses = {Find(clients_, args.client)};
  if (args.program == nullptr) return true;
  call.op.text = Text(args.program->format, args.program->format_size);
  call.op.blobs = {writer_->AddBlob(absl::string_view(args.program->code, args.program->code_size)),
                   writer_->AddBlob(absl::string_view(args.compile_options, args.compile_options_size))};
  return true;
}
void Recorder::End(PJRT_Client_Compile_Args& args, Pending& call) { RecordExecutable(args.executable, call.op); }

bool Recorder::Begin(PJRT_Compile_Args& args, Pending& call) {
  call.op.kind = Kind::kCompileAhead;
  if (args.program == nullptr) return true;
  call.op.text = Text(args.program->format, args.program->format_size);
  call.op.blobs = {writer_->AddBlob(absl::string_view(args.program->code, args.program->code_size)),
                   writer_->AddBlob(absl::string_view(args.compile_options, args.compile_options_size))};
  return true;
}
void Recorder::End(PJRT_Compile_Args& args, Pending& call) {
  const uint64_t id = NewId();
  call.op.makes = {id};
  Put(executables_, args.executable, Executable{id, 0, false});
}

bool Recorder::Begin(PJRT_Client_Load_Args& args, Pending& call) {
  call.op.kind = Kind::kLoad;
  call.op.uses = {Find(clients_, args.client), Find(executables_, args.executable).id};
  call.op.blobs = {writer_->AddBlob(absl::string_view(args.compile_options, args.compile_options_size))};
  return true;
}
void Recorder::End(PJRT_Client_Load_Args& args, Pending& call) { RecordExecutable(args.loaded_executable, call.op); }

bool Recorder::Begin(PJRT_Executable_Serialize_Args& args, Pending& call) {
  call.op.kind = Kind::kSerialize;
  call.op.uses = {Find(executables_, args.executable).id};
  return true;
}
void Recorder::End(PJRT_Executable_Serialize_Args& args, Pending& call) {
  call.op.blobs = {writer_->AddBlob(absl::string_view(args.serialized_bytes, args.serialized_bytes_size))};
}

bool Recorder::Begin(PJRT_Executable_DeserializeAndLoad_Args& args, Pending& call) {
  call.op.kind = Kind::kDeserialize;
  call.op.uses = {Find(clients_, args.client)};
  call.op.blobs = {writer_->AddBlob(absl::string_view(args.serialized_executable, args.serialized_executable_size))};
  const char* options = Field(&args, &PJRT_Executable_DeserializeAndLoad_Args::overridden_serialized_compile_options);
  if (options != nullptr) {
    call.op.blobs.push_back(
        writer_->AddBlob(absl::string_view(options, args.overridden_serialized_compile_options_size)));
  }
  return true;
}
void Recorder::End(PJRT_Executable_DeserializeAndLoad_Args& args, Pending& call) {
  RecordExecutable(args.loaded_executable, call.op);
}

bool Recorder::Begin(PJRT_Executable_Destroy_Args& args, Pending& call) {
  // The executable of a loaded one is a view of it, so it is not recorded as an operation.
  const Executable known = Take(executables_, static_cast<const PJRT_Executable*>(args.executable));
  call.op.kind = Kind::kExecutableDestroy;
  call.op.uses = {known.id};
  return known.id != 0 && !known.loaded;
}
BP_NOTHING_AT_END(PJRT_Executable_Destroy)

bool Recorder::Begin(PJRT_LoadedExecutable_GetExecutable_Args& args, Pending& call) {
  call.op.uses = {Find(loaded_, args.loaded_executable).id};
  call.write = false;
  return true;
}
void Recorder::End(PJRT_LoadedExecutable_GetExecutable_Args& args, Pending& call) {
  Put(executables_, args.executable, Executable{call.op.uses[0], 0, true});
}

bool Recorder::Begin(PJRT_LoadedExecutable_Delete_Args& args, Pending& call) {
  call.op.kind = Kind::kExecutableDelete;
  call.op.uses = {Find(loaded_, args.executable).id};
  return true;
}
BP_NOTHING_AT_END(PJRT_LoadedExecutable_Delete)

bool Recorder::Begin(PJRT_LoadedExecutable_Destroy_Args& args, Pending& call) {
  call.op.kind = Kind::kExecutableDestroy;
  call.op.uses = {Take(loaded_, args.executable).id};
  return args.executable != nullptr;
}
BP_NOTHING_AT_END(PJRT_LoadedExecutable_Destroy)

bool Recorder::Begin(PJRT_LoadedExecutable_Execute_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kExecute;
  const Executable executable = Find(loaded_, args.executable);
  op.uses.reserve(1 + args.num_devices * args.num_args);
  op.uses.push_back(executable.id);
  op.numbers.resize(kExecuteNumbers);
  op.numbers[kNumDevices] = static_cast<int64_t>(args.num_devices);
  op.numbers[kNumArguments] = static_cast<int64_t>(args.num_args);
  op.numbers[kNumOutputs] = static_cast<int64_t>(executable.num_outputs);
  op.numbers[kNumEvents] = args.device_complete_events != nullptr ? op.numbers[kNumDevices] : 0;
  {
    MutexLock lock(mutex_);
    for (size_t d = 0; d < args.num_devices && args.num_args > 0; ++d) {
      for (size_t i = 0; i < args.num_args; ++i) {
        const auto found = buffers_.find(args.argument_lists[d][i]);
        op.uses.push_back(found == buffers_.end() ? 0 : found->second);
      }
    }
  }
  AddPlace(args.execute_device, nullptr, op);
  // The program may donate them, and which ones is known too late.
  for (size_t d = 0; d < args.num_devices; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) ForgetExposed(args.argument_lists[d][i]);
  }
  if (const PJRT_ExecuteOptions* o = args.options; o != nullptr) {
    op.numbers[kLaunchId] = o->launch_id;
    const int64_t* kept = Field(o, &PJRT_ExecuteOptions::non_donatable_input_indices);
    if (kept != nullptr) {
      const size_t count = Field(o, &PJRT_ExecuteOptions::num_non_donatable_input_indices);
      op.non_donatable.assign(kept, kept + count);
    }
    if (const char* location = Field(o, &PJRT_ExecuteOptions::call_location); location != nullptr) op.text = location;
    const size_t outputs = Field(o, &PJRT_ExecuteOptions::num_hlo_output_callbacks);
    if (o->num_send_ops + o->num_recv_ops + outputs > 0) {
      op.obstacle = absl::StrCat("the program exchanges data with the host while it runs: ", o->num_send_ops,
                                 " sends, ", o->num_recv_ops, " receives, ", outputs, " outputs");
    }
  }
  return true;
}
void Recorder::End(PJRT_LoadedExecutable_Execute_Args& args, Pending& call) {
  Operation& op = call.op;
  const auto outputs = static_cast<size_t>(op.numbers[kNumOutputs]);
  op.makes.reserve(args.num_devices * outputs + static_cast<size_t>(op.numbers[kNumEvents]));
  {
    MutexLock lock(mutex_);
    for (size_t d = 0; d < args.num_devices; ++d) {
      for (size_t i = 0; i < outputs; ++i) {
        const uint64_t id = NewId();
        buffers_[args.output_lists[d][i]] = id;
        op.makes.push_back(id);
      }
    }
  }
  for (size_t d = 0; args.device_complete_events != nullptr && d < args.num_devices; ++d)
    op.makes.push_back(MakeEvent(args.device_complete_events[d]));
  if (plugin_ == nullptr) return;
  for (size_t d = 0; d < args.num_devices && args.num_args > 0; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) {
      BP_PJRT_ARGS(*plugin_, asked, PJRT_Buffer_IsDeleted);
      asked.buffer = args.argument_lists[d][i];
      if (BP_PJRT_CALL(*plugin_, PJRT_Buffer_IsDeleted, asked).ok() && asked.is_deleted)
        op.donated.push_back(static_cast<int64_t>(d * args.num_args + i));
    }
  }
}

// ---- Buffers

bool Recorder::Begin(PJRT_Client_BufferFromHostBuffer_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kFromHost;
  op.uses = {Find(clients_, args.client)};
  op.type = args.type;
  SetDims(args.dims, args.num_dims, op.dims);
  op.numbers = {args.host_buffer_semantics};
  op.layout = CopyLayout(args.device_layout);
  AddPlace(args.device, args.memory, op);
  if (args.byte_strides != nullptr && args.num_byte_strides == op.dims.size())
    op.byte_strides.assign(args.byte_strides, args.byte_strides + args.num_byte_strides);
  return true;
}
// The host's memory is read after the plugin has accepted the call: if it refuses the sizes, there may be no memory.
void Recorder::End(PJRT_Client_BufferFromHostBuffer_Args& args, Pending& call) {
  Operation& op = call.op;
  op.makes = {MakeBuffer(args.buffer), MakeEvent(args.done_with_host_buffer)};
  auto extent = op.byte_strides.empty() ? ComputeExtent(op.type, op.dims, nullptr)
                                        : ComputeExtentOfStrides(op.type, op.dims, op.byte_strides);
  if (!extent.ok() || (args.data == nullptr && extent->size > 0)) {
    op.obstacle = extent.ok() ? "no data" : std::string(extent.status().message());
    return;
  }
  AddInput(args.data, op.type, op.dims, *extent, op);
}

// The fields of a shape, which have the same names in several functions.
#define BP_SHAPE(a, op)                                   \
  (op).type = (a).shape_element_type;                     \
  SetDims((a).shape_dims, (a).shape_num_dims, (op).dims); \
  (op).layout = CopyLayout((a).shape_layout)

bool Recorder::Begin(PJRT_Client_CreateUninitializedBuffer_Args& args, Pending& call) {
  call.op.kind = Kind::kUninitialized;
  call.op.uses = {Find(clients_, args.client)};
  BP_SHAPE(args, call.op);
  AddPlace(args.device, args.memory, call.op);
  return true;
}
void Recorder::End(PJRT_Client_CreateUninitializedBuffer_Args& args, Pending& call) {
  call.op.makes = {MakeBuffer(args.buffer)};
}

bool Recorder::Begin(PJRT_Client_CreateErrorBuffer_Args& args, Pending& call) {
  call.op.kind = Kind::kErrorBuffer;
  call.op.uses = {Find(clients_, args.client)};
  BP_SHAPE(args, call.op);
  if (PJRT_Buffer_MemoryLayout* layout = Field(&args, &PJRT_Client_CreateErrorBuffer_Args::device_layout)) {
    call.op.layout = CopyLayout(layout);
  }
  AddPlace(nullptr, args.memory, call.op);
  call.op.numbers = {args.error_code};
  call.op.text = Text(args.error_message, args.error_message_size);
  return true;
}
void Recorder::End(PJRT_Client_CreateErrorBuffer_Args& args, Pending& call) {
  call.op.makes = {MakeBuffer(args.buffer)};
}

bool Recorder::Begin(PJRT_Client_CreateAliasBuffer_Args& args, Pending& call) {
  call.op.kind = Kind::kAlias;
  call.op.uses = {Find(clients_, args.client)};
  BP_SHAPE(args, call.op);
  AddPlace(nullptr, args.memory, call.op);
  return true;
}
void Recorder::End(PJRT_Client_CreateAliasBuffer_Args& args, Pending& call) {
  const uint64_t promise = NewId();
  Put(aliases_, args.fulfill_alias_buffer_cb, promise);
  call.op.makes = {MakeBuffer(args.alias_buffer), promise};
}

bool Recorder::Begin(PJRT_Client_FulfillAliasBuffer_Args& args, Pending& call) {
  call.op.kind = Kind::kFulfillAlias;
  const bool good = args.status_code == PJRT_Error_Code_OK;
  call.op.uses = {Find(aliases_, args.fulfill_alias_buffer_cb), good ? Find(buffers_, args.buffer) : 0};
  call.op.numbers = {args.status_code};
  if (!good) call.op.text = Text(args.error_message, args.error_message_size);
  return true;
}
void Recorder::End(PJRT_Client_FulfillAliasBuffer_Args& args, Pending& call) {
  // Only now, because a refused call leaves the promise. Another alias may have got its address meanwhile.
  DropIfSame(aliases_, args.fulfill_alias_buffer_cb, call.op.uses[0]);
}

// After a refused fulfilment the host still has the promise and may fulfil it later.
void Recorder::PutBackAlias(const layers::Call& call, const Pending& pending) {
  const auto* args = call.As<PJRT_Client_FulfillAliasBuffer_Args>();
  if (!pending.op.uses.empty() && pending.op.uses[0] != 0)
    Put(aliases_, args->fulfill_alias_buffer_cb, pending.op.uses[0]);
}

bool Recorder::Begin(PJRT_Client_CreateViewOfDeviceBuffer_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kView;
  op.uses = {Find(clients_, args.client)};
  op.type = args.element_type;
  SetDims(args.dims, args.num_dims, op.dims);
  op.layout = CopyLayout(args.layout);
  AddPlace(args.device, Field(&args, &PJRT_Client_CreateViewOfDeviceBuffer_Args::memory), op);
  return true;
}
void Recorder::End(PJRT_Client_CreateViewOfDeviceBuffer_Args& args, Pending& call) {
  Operation& op = call.op;
  op.makes = {MakeBuffer(args.buffer)};
  op.obstacle = "the host shares the memory of the buffer: a replay has the contents of this moment";
  auto extent = ComputeExtent(op.type, op.dims, op.layout.has_value() ? &*op.layout : nullptr);
  if (extent.ok() && args.stream == 0 && OnCpu(args.buffer)) {
    AddInput(args.device_buffer_ptr, op.type, op.dims, *extent, op);
  } else {
    op.obstacle = "the host shares the memory of the buffer, and its contents could not be read";
  }
}

// ---- Transfers

bool Recorder::Begin(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kTransferStart;
  op.uses = {Find(clients_, args.client)};
  const bool plausible =
      args.num_shape_specs <= kMostTransferredArrays && args.num_device_layouts <= kMostTransferredArrays;
  for (size_t i = 0; plausible && args.shape_specs != nullptr && i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args.shape_specs[i];
    op.shapes.push_back({spec.element_type, {}});
    SetDims(spec.dims, spec.num_dims, op.shapes.back().dims);
  }
  for (size_t i = 0; plausible && args.device_layouts != nullptr && i < args.num_device_layouts; ++i)
    op.layouts.push_back(CopyLayout(args.device_layouts[i]));
  AddPlace(nullptr, args.memory, op);
  return true;
}
void Recorder::End(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args, Pending& call) {
  const uint64_t id = NewId();
  Put(transfers_, args.transfer_manager, id);
  call.op.makes = {id};
}

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kTransferData;
  op.uses = {Find(transfers_, args.transfer_manager)};
  op.numbers = {args.buffer_index, args.offset, args.is_last_transfer ? 1 : 0};
  return true;
}
void Recorder::End(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args, Pending& call) {
  call.op.makes = {MakeEvent(args.done_with_h2d_transfer)};
  const std::vector<int64_t> dims = {args.transfer_size};
  auto extent = ComputeExtent(PJRT_Buffer_Type_U8, dims, nullptr);
  if (extent.ok()) AddInput(args.data, PJRT_Buffer_Type_U8, dims, *extent, call.op);
}

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args, Pending& call) {
  Operation& op = call.op;
  op.kind = Kind::kTransferLiteral;
  op.uses = {Find(transfers_, args.transfer_manager)};
  op.numbers = {args.buffer_index};
  BP_SHAPE(args, op);
  return true;
}
void Recorder::End(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args, Pending& call) {
  Operation& op = call.op;
  op.makes = {MakeEvent(args.done_with_h2d_transfer)};
  auto extent = ComputeExtent(op.type, op.dims, op.layout.has_value() ? &*op.layout : nullptr);
  if (extent.ok()) {
    AddInput(args.data, op.type, op.dims, *extent, op);
  } else {
    op.obstacle = std::string(extent.status().message());
  }
}

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args, Pending& call) {
  call.op.kind = Kind::kTransferRetrieve;
  call.op.uses = {Find(transfers_, args.transfer_manager)};
  call.op.numbers = {args.buffer_index};
  return true;
}
void Recorder::End(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args, Pending& call) {
  call.op.makes = {MakeBuffer(args.buffer_out)};
}

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args, Pending& call) {
  call.op.kind = Kind::kTransferError;
  call.op.uses = {Find(transfers_, args.transfer_manager)};
  call.op.numbers = {args.buffer_index, args.error_code};
  call.op.text = Text(args.error_message, args.error_message_size);
  return true;
}
BP_NOTHING_AT_END(PJRT_AsyncHostToDeviceTransferManager_SetBufferError)

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args& args, Pending& call) {
  call.op.kind = Kind::kTransferMetadata;
  call.op.uses = {Find(transfers_, args.transfer_manager)};
  if (auto facts = host::CopyNamedValues(args.transfer_metadata, args.num_metadata); facts.ok())
    call.op.options = *std::move(facts);
  return true;
}
BP_NOTHING_AT_END(PJRT_AsyncHostToDeviceTransferManager_AddMetadata)

bool Recorder::Begin(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args, Pending& call) {
  call.op.kind = Kind::kTransferDestroy;
  call.op.uses = {Take(transfers_, args.transfer_manager)};
  return args.transfer_manager != nullptr;
}
BP_NOTHING_AT_END(PJRT_AsyncHostToDeviceTransferManager_Destroy)

// ---- Copies and the lifetime of buffers

bool Recorder::Begin(PJRT_Buffer_CopyToDevice_Args& args, Pending& call) {
  call.op.kind = Kind::kCopyToDevice;
  call.op.uses = {Find(buffers_, args.buffer)};
  AddPlace(args.dst_device, nullptr, call.op);
  return true;
}
void Recorder::End(PJRT_Buffer_CopyToDevice_Args& args, Pending& call) {
  call.op.makes = {MakeBuffer(args.dst_buffer)};
}

bool Recorder::Begin(PJRT_Buffer_CopyToMemory_Args& args, Pending& call) {
  call.op.kind = Kind::kCopyToMemory;
  call.op.uses = {Find(buffers_, args.buffer)};
  AddPlace(nullptr, args.dst_memory, call.op);
  return true;
}
void Recorder::End(PJRT_Buffer_CopyToMemory_Args& args, Pending& call) {
  call.op.makes = {MakeBuffer(args.dst_buffer)};
}

bool Recorder::Begin(PJRT_Buffer_Bitcast_Args& args, Pending& call) {
  call.op.kind = Kind::kBitcast;
  call.op.uses = {Find(buffers_, args.buffer)};
  call.op.type = args.element_type;
  SetDims(args.dims, args.num_dims, call.op.dims);
  call.op.layout = CopyLayout(args.device_layout);
  return true;
}
void Recorder::End(PJRT_Buffer_Bitcast_Args& args, Pending& call) { call.op.makes = {MakeBuffer(args.out_buffer)}; }

bool Recorder::Begin(PJRT_Buffer_Delete_Args& args, Pending& call) {
  call.op.kind = Kind::kDelete;
  call.op.uses = {Find(buffers_, args.buffer)};
  ForgetExposed(args.buffer);
  return true;
}
BP_NOTHING_AT_END(PJRT_Buffer_Delete)

bool Recorder::Begin(PJRT_Buffer_Destroy_Args& args, Pending& call) {
  call.op.kind = Kind::kDestroy;
  call.op.uses = {Take(buffers_, args.buffer)};
  ForgetExposed(args.buffer);
  return args.buffer != nullptr;
}
BP_NOTHING_AT_END(PJRT_Buffer_Destroy)

bool Recorder::Begin(PJRT_Buffer_ReadyEvent_Args& args, Pending& call) {
  call.op.kind = Kind::kReadyEvent;
  call.op.uses = {Find(buffers_, args.buffer)};
  return true;
}
void Recorder::End(PJRT_Buffer_ReadyEvent_Args& args, Pending& call) {
  // A host that has the address may read the contents once it knows that they are available.
  call.op.makes = {MakeEvent(args.event, std::nullopt, Find(exposed_, args.buffer))};
}

// The host decides, by calling the function that it gets, when the new buffer may be used.
bool Recorder::Begin(PJRT_Buffer_DonateWithControlDependency_Args& args, Pending& call) {
  call.op.kind = Kind::kDonate;
  call.op.uses = {Find(buffers_, args.buffer)};
  ForgetExposed(args.buffer);
  return true;
}
void Recorder::End(PJRT_Buffer_DonateWithControlDependency_Args& args, Pending& call) {
  using Callback = PJRT_Buffer_DonateWithControlDependency_Callback_Args;
  struct Between {
    Recorder* recorder;
    uint64_t promise;
    void (*function)(Callback*);
    void* data;
  };
  auto* between = new Between{this, NewId(), args.dependency_ready_callback, args.callback_data};
  call.op.makes = {MakeBuffer(args.out_buffer), between->promise};
  args.callback_data = between;
  args.dependency_ready_callback = [](Callback* host) {
    const std::unique_ptr<Between> owned(static_cast<Between*>(host->callback_data));
    Operation op;
    op.kind = Kind::kDonationReady;
    op.uses = {owned->promise};
    op.numbers = {host->error_code};
    if (host->error_code != PJRT_Error_Code_OK) op.text = Text(host->error_message, host->error_message_size);
    Callback inner = *host;
    inner.callback_data = owned->data;
    const layers::Ticks start = layers::ReadTicks();
    owned->function(&inner);
    owned->recorder->Write(op, start, layers::ReadTicks());
  };
}

// ---- Reads

bool Recorder::Begin(PJRT_Buffer_ToHostBuffer_Args& args, Pending& call) {
  if (args.dst == nullptr) return false;  // queries the size
  Operation& op = call.op;
  op.kind = Kind::kRead;
  op.uses = {Find(buffers_, args.src)};
  op.layout = CopyLayout(args.host_layout);
  op.numbers = {static_cast<int64_t>(args.dst_size)};
  // The layout of the bytes: the one that the host requests, or that of the buffer.
  Read read;
  read.memory = args.dst;
  const std::optional<host::BufferLayout> layout = op.layout.has_value() ? op.layout : GetLayout(args.src);
  if (auto shape = GetShape(args.src); shape.has_value()) {
    auto extent = ComputeExtent(shape->first, shape->second, layout.has_value() ? &*layout : nullptr);
    if (extent.ok() && extent->below == 0 && extent->size <= args.dst_size) {
      read.type = shape->first;
      read.dims = std::move(shape->second);
      read.extent = *std::move(extent);
      call.read = std::move(read);
      return true;
    }
  }
  // For tiles, or a size that does not match the dimensions, the bytes are recorded without a type.
  read.dims = {static_cast<int64_t>(args.dst_size)};
  if (auto extent = ComputeExtent(read.type, read.dims, nullptr); extent.ok()) {
    read.extent = *std::move(extent);
    call.read = std::move(read);
  }
  return true;
}
void Recorder::End(PJRT_Buffer_ToHostBuffer_Args& args, Pending& call) {
  call.op.makes = {MakeEvent(args.event, std::move(call.read))};
}

bool Recorder::Begin(PJRT_Buffer_CopyRawToHost_Args& args, Pending& call) {
  call.op.kind = Kind::kReadRaw;
  call.op.uses = {Find(buffers_, args.buffer)};
  call.op.numbers = {args.offset, args.transfer_size};
  Read read;
  read.memory = args.dst;
  read.dims = {args.transfer_size};
  if (auto extent = ComputeExtent(read.type, read.dims, nullptr); extent.ok()) {
    read.extent = *std::move(extent);
    call.read = std::move(read);
  }
  return true;
}
void Recorder::End(PJRT_Buffer_CopyRawToHost_Args& args, Pending& call) {
  call.op.makes = {MakeEvent(args.event, std::move(call.read))};
}

bool Recorder::Begin(PJRT_Buffer_CopyRawToHostFuture_Args& args, Pending& call) {
  call.op.kind = Kind::kReadRaw;
  call.op.uses = {Find(buffers_, args.buffer)};
  call.op.numbers = {args.offset, args.transfer_size};
  Read read;
  read.dims = {args.transfer_size};
  if (auto extent = ComputeExtent(read.type, read.dims, nullptr); extent.ok()) {
    read.extent = *std::move(extent);
    call.read = std::move(read);
  }
  return true;
}
void Recorder::End(PJRT_Buffer_CopyRawToHostFuture_Args& args, Pending& call) {
  call.op.makes = {MakeEvent(args.event, std::move(call.read))};
  using Callback = PJRT_Buffer_CopyRawToHostFuture_Callback_Args;
  struct Between {
    EventPtr event;
    void (*function)(Callback*);
    void* data;
  };
  auto* between = new Between{Find(events_, args.event), args.future_ready_callback, args.callback_data};
  args.callback_data = between;
  args.future_ready_callback = [](Callback* host) {
    const std::unique_ptr<Between> owned(static_cast<Between*>(host->callback_data));
    if (owned->event != nullptr && host->error_code == PJRT_Error_Code_OK) {
      MutexLock lock(owned->event->mutex);
      if (owned->event->read.has_value()) owned->event->read->memory = host->dst;
    }
    Callback inner = *host;
    inner.callback_data = owned->data;
    owned->function(&inner);
  };
}

bool Recorder::Begin(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args, Pending& call) {
  call.op.kind = Kind::kPointer;
  call.op.uses = {Find(buffers_, args.buffer)};
  call.op.name = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer";
  call.op.obstacle = "the host has the address of the buffer's memory and can read and write there without a call";
  return true;
}
void Recorder::End(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args, Pending& call) {
  // What the host can read there counts as read: now, or when it learns that the contents are available.
  if (args.device_memory_ptr == nullptr || !OnCpu(args.buffer)) return;
  const std::optional<host::BufferLayout> layout = GetLayout(args.buffer);
  const auto shape = GetShape(args.buffer);
  if (!shape.has_value() || !layout.has_value()) return;
  auto extent = ComputeExtent(shape->first, shape->second, &*layout);
  if (!extent.ok() || extent->below != 0 || host::BitsPerElement(shape->first) < 8) return;
  Read read;
  read.memory = args.device_memory_ptr;
  read.type = shape->first;
  read.dims = shape->second;
  read.extent = *std::move(extent);
  if (Ready(args.buffer)) {
    call.op.type = read.type;
    call.op.dims = read.dims;
    call.op.blobs.push_back(AddRead(read));
    call.op.data_left_out = data_ != Data::kAll;
  } else {
    // Events may have the object of an earlier call.
    MutexLock lock(mutex_);
    ExposedPtr& exposed = exposed_[args.buffer];
    if (exposed == nullptr) exposed = std::make_shared<Exposed>();
    MutexLock reading(exposed->mutex);
    exposed->read = std::move(read);
  }
}

}  // namespace backplane::record
