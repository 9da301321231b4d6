// Buffers, transfers and reads of a replay; and device ids in compile options.
#include <algorithm>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/wire.h"
#include "sdk/host/status.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/replayer_internal.h"

namespace backplane::record {
namespace {

using internal::SessionError;
using internal::Skip;
using internal::Stopwatch;

// A host's strides may span much memory outside of the array. Above this size the array is passed dense.
constexpr size_t kLargestGap = size_t{256} << 20;

absl::Status TooLittleMemory(size_t size) {
  return absl::ResourceExhaustedError(absl::StrCat("replay: no memory for ", size, " bytes"));
}

}  // namespace

absl::Status Replayer::DoFromHost(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
  if (op.blobs.empty()) return Skip(op.obstacle.empty() ? "its data is not known" : op.obstacle);
  BP_ASSIGN_OR_RETURN(const size_t dense_size, host::HostByteSize(op.type, op.dims));
  if (op.blobs[0].size != dense_size) {
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": ", op.blobs[0].size, " bytes for ",
                                                   host::FormatShape(op.type, op.dims)));
  }
  BP_ASSIGN_OR_RETURN(const std::string dense, Blob(op, 0, uint64_t{1} << 36));
  BP_ASSIGN_OR_RETURN(const host::Location location, GetLocation(op, *client));

  // With the strides that the host used.
  BP_ASSIGN_OR_RETURN(HostExtent extent, ComputeExtent(op.type, op.dims, nullptr));
  bool strided = false;
  if (!op.byte_strides.empty()) {
    BP_ASSIGN_OR_RETURN(HostExtent theirs, ComputeExtentOfStrides(op.type, op.dims, op.byte_strides));
    if (theirs.size <= kLargestGap || theirs.size / 4 <= dense_size) {
      extent = std::move(theirs);
      strided = true;
    }
  }
  auto memory = std::make_shared<HostMemory>(extent.size);
  if (memory->data == nullptr) return TooLittleMemory(extent.size);
  const auto element = static_cast<size_t>(host::HostBytesPerElement(op.type));
  if (strided) {
    Scatter(dense, element, op.dims, extent, memory->data);
  } else {
    std::memcpy(memory->data, dense.data(), dense.size());
  }

  const bool view = op.kind == Kind::kView;  // memory that host and plugin shared; here a separate buffer
  const std::optional<host::BufferLayout> given = view ? std::nullopt : op.layout;
  CLayout layout(given);
  BP_PJRT_ARGS(plugin_, a, PJRT_Client_BufferFromHostBuffer);
  a.client = client->client->raw();
  a.data = memory->data + extent.below;
  a.type = op.type;
  a.dims = op.dims.data();
  a.num_dims = op.dims.size();
  a.byte_strides = strided ? op.byte_strides.data() : nullptr;
  a.num_byte_strides = strided ? op.byte_strides.size() : 0;
  const int64_t semantics = view || op.numbers.empty() ? 0 : op.numbers[0];
  if (semantics < 0 || semantics > PJRT_HostBufferSemantics_kMutableZeroCopy)
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": host buffer semantics ", semantics));
  a.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics);
  a.device = location.device;
  a.memory = location.memory;
  a.device_layout = layout.get();
  {
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Client_BufferFromHostBuffer, a));
  }
  Buffer buffer = Wrap(client->client, a.buffer);
  Event done = WrapEvent(client->client, a.done_with_host_buffer);
  if (semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    // The plugin must not read the memory any more; if it does, it sees other data.
    std::memset(memory->data, 0xa5, memory->size);
  } else {
    KeepAliveUntil(done, std::move(memory));
    done.in_place = semantics != PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  }
  if (options_.wait_for_results) {
    Stopwatch watch(out);
    Await(*buffer).IgnoreError();
  }
  Make(op, 0, std::move(buffer));
  Make(op, 1, std::move(done));
  return absl::OkStatus();
}

absl::Status Replayer::DoMake(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
  BP_ASSIGN_OR_RETURN(const host::Location location, GetLocation(op, *client));
  CLayout layout(op.layout);
  if (op.kind == Kind::kUninitialized) {
    BP_PJRT_ARGS(plugin_, a, PJRT_Client_CreateUninitializedBuffer);
    a.client = client->client->raw();
    a.shape_dims = op.dims.data();
    a.shape_num_dims = op.dims.size();
    a.shape_element_type = op.type;
    a.shape_layout = layout.get();
    a.device = location.device;
    a.memory = location.memory;
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Client_CreateUninitializedBuffer, a));
    Make(op, 0, Wrap(client->client, a.buffer));
    return absl::OkStatus();
  }
  BP_ASSIGN_OR_RETURN(const host::Memory memory, GetMemory(op.memory, *client));
  if (op.kind == Kind::kErrorBuffer) {
    const absl::Status error = SessionError(op.numbers.empty() ? 0 : op.numbers[0], op.text);
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(host::Buffer buffer, client->client->ErrorBuffer(error, {op.type, op.dims}, memory));
    Make(op, 0, std::make_shared<host::Buffer>(std::move(buffer)));
    return absl::OkStatus();
  }
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(host::Client::Alias alias, client->client->AliasBuffer({op.type, op.dims}, memory));
  Make(op, 0, std::make_shared<host::Buffer>(std::move(alias.buffer)));
  Make(op, 1, Promise(std::move(alias.fulfill)));
  return absl::OkStatus();
}

absl::Status Replayer::DoTransfer(const Operation& op, Outcome& out) {
  if (op.kind == Kind::kTransferStart) {
    BP_ASSIGN_OR_RETURN(Client* const client, GetClient(op));
    BP_ASSIGN_OR_RETURN(const host::Memory memory, GetMemory(op.memory, *client));
    std::vector<PJRT_ShapeSpec> specs;
    for (const host::ArrayShape& shape : op.shapes) {
      specs.push_back({PJRT_ShapeSpec_STRUCT_SIZE, nullptr, shape.dims.data(), shape.dims.size(), shape.type});
    }
    std::vector<std::unique_ptr<CLayout>> layouts;
    std::vector<PJRT_Buffer_MemoryLayout*> rows;
    for (const auto& layout : op.layouts) {
      layouts.push_back(std::make_unique<CLayout>(layout));
      rows.push_back(layouts.back()->get());
    }
    BP_PJRT_ARGS(plugin_, a, PJRT_Client_CreateBuffersForAsyncHostToDevice);
    a.client = client->client->raw();
    a.shape_specs = specs.data();
    a.num_shape_specs = specs.size();
    a.device_layouts = rows.empty() ? nullptr : rows.data();
    a.num_device_layouts = rows.size();
    a.memory = memory.raw();
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Client_CreateBuffersForAsyncHostToDevice, a));
    Make(op, 0, std::make_shared<host::AsyncTransfer>(plugin_, client->client->keep(), a.transfer_manager));
    return absl::OkStatus();
  }
  BP_ASSIGN_OR_RETURN(Transfer* const transfer, Use<Transfer>(op, 0));
  const auto number = [&](size_t i) { return i < op.numbers.size() ? op.numbers[i] : -1; };
  const int index = static_cast<int>(number(0));
  switch (op.kind) {
    case Kind::kTransferData:
    case Kind::kTransferLiteral: {
      const bool literal = op.kind == Kind::kTransferLiteral;
      if (op.blobs.empty()) return Skip(op.obstacle.empty() ? "its data is not known" : op.obstacle);
      auto array = std::make_shared<host::HostArray>();
      if (literal) {
        BP_ASSIGN_OR_RETURN(const size_t size, host::HostByteSize(op.type, op.dims));
        if (size != op.blobs[0].size) {
          return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": ", op.blobs[0].size, " bytes for ",
                                                         host::FormatShape(op.type, op.dims)));
        }
        array->type = op.type;
        array->dims = op.dims;
      }
      BP_ASSIGN_OR_RETURN(const std::string bytes, Blob(op, 0, uint64_t{1} << 36));
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      array->data.assign(data, data + bytes.size());
      Stopwatch watch(out);
      BP_ASSIGN_OR_RETURN(host::Event event, literal
                                                 ? (*transfer)->SendArray(index, *array)
                                                 : (*transfer)->Send(index, array->data, number(1), number(2) == 1));
      auto shared = std::make_shared<host::Event>(std::move(event));
      if (!shared->OnReady([array](absl::Status) {}).ok()) shared->Await().IgnoreError();
      Make(op, 0, Event{std::move(shared), nullptr, nullptr});
      return absl::OkStatus();
    }
    case Kind::kTransferRetrieve: {
      Stopwatch watch(out);
      BP_ASSIGN_OR_RETURN(host::Buffer buffer, (*transfer)->Retrieve(index));
      Make(op, 0, std::make_shared<host::Buffer>(std::move(buffer)));
      return absl::OkStatus();
    }
    case Kind::kTransferError: {
      Stopwatch watch(out);
      return (*transfer)->Fail(index, SessionError(number(1), op.text));
    }
    default: {
      Stopwatch watch(out);
      return (*transfer)->AddMetadata(op.options);
    }
  }
}

absl::Status Replayer::DoCopy(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Buffer* const used, Use<Buffer>(op, 0));
  const Buffer from = *used;
  Client* const client = AnyClient();
  if (client == nullptr) return Skip("its client is not there");
  if (op.kind == Kind::kDonate) {
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(host::Buffer::Dependent dependent, from->DonateWithControlDependency());
    auto done = std::make_shared<absl::AnyInvocable<void(absl::Status)>>(std::move(dependent.done));
    Make(op, 0, std::make_shared<host::Buffer>(std::move(dependent.buffer)));
    Make(op, 1, Promise([done](absl::StatusOr<const host::Buffer*> value) {
           (*done)(value.status());
           return absl::OkStatus();
         }));
    return absl::OkStatus();
  }
  Buffer made;
  if (op.kind == Kind::kBitcast) {
    CLayout layout(op.layout);
    BP_PJRT_ARGS(plugin_, a, PJRT_Buffer_Bitcast);
    a.buffer = from->raw();
    a.element_type = op.type;
    a.dims = op.dims.data();
    a.num_dims = op.dims.size();
    a.device_layout = layout.get();
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Buffer_Bitcast, a));
    made = Wrap(client->client, a.out_buffer);
  } else if (op.kind == Kind::kCopyToDevice) {
    BP_ASSIGN_OR_RETURN(const host::Device device, GetDevice(op.device, *client));
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(host::Buffer buffer, from->CopyToDevice(device));
    made = std::make_shared<host::Buffer>(std::move(buffer));
  } else {
    BP_ASSIGN_OR_RETURN(const host::Memory memory, GetMemory(op.memory, *client));
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(host::Buffer buffer, from->CopyToMemory(memory));
    made = std::make_shared<host::Buffer>(std::move(buffer));
  }
  if (options_.wait_for_results) {
    Stopwatch watch(out);
    Await(*made).IgnoreError();
  }
  Make(op, 0, std::move(made));
  return absl::OkStatus();
}

// ---- Data that the host read

absl::Status Replayer::DoRead(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Buffer* const used, Use<Buffer>(op, 0));
  const Buffer from = *used;
  Client* const client = AnyClient();
  if (client == nullptr) return Skip("its client is not there");
  auto read = std::make_shared<PendingRead>();
  Event event;
  if (op.kind == Kind::kReadRaw) {
    if (op.numbers.size() < 2 || op.numbers[0] < 0 || op.numbers[1] < 0)
      return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": offset and size of a read"));
    const auto size = static_cast<size_t>(op.numbers[1]);
    BP_ASSIGN_OR_RETURN(const size_t there, from->OnDeviceSize());
    if (size > there && op.code == 0)
      return absl::FailedPreconditionError(absl::StrCat("read: ", size, " bytes of a buffer that has ", there));
    // A read that failed in the session may claim any size, so its memory is limited.
    read->memory = std::make_shared<HostMemory>(std::min(size, there));
    if (read->memory->data == nullptr) return TooLittleMemory(size);
    if (size > there) return Skip("it asked for more bytes than there are");
    read->dims = {op.numbers[1]};
    BP_ASSIGN_OR_RETURN(read->extent, ComputeExtent(read->type, read->dims, nullptr));
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(host::Event raw, from->CopyRawToHost({read->memory->data, size}, op.numbers[0]));
    event.event = std::make_shared<host::Event>(std::move(raw));
  } else {
    CLayout layout(op.layout);
    BP_PJRT_ARGS(plugin_, a, PJRT_Buffer_ToHostBuffer);
    a.src = from->raw();
    a.host_layout = layout.get();
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Buffer_ToHostBuffer, a));  // queries the size
    const size_t size = a.dst_size;
    // The type and layout of the bytes.
    std::optional<host::BufferLayout> lies = op.layout;
    if (!lies.has_value()) {
      if (auto own = from->Layout(); own.ok()) lies = *std::move(own);
    }
    BP_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, from->ElementType());
    BP_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, from->Dims());
    auto extent = ComputeExtent(type, dims, lies.has_value() ? &*lies : nullptr);
    if (extent.ok() && extent->below == 0 && extent->size <= size) {
      read->type = type;
      read->dims = dims;
      read->extent = *std::move(extent);
    } else {
      read->dims = {static_cast<int64_t>(size)};
      BP_ASSIGN_OR_RETURN(read->extent, ComputeExtent(read->type, read->dims, nullptr));
    }
    read->memory = std::make_shared<HostMemory>(size);
    if (read->memory->data == nullptr) return TooLittleMemory(size);
    a.dst = read->memory->data;
    a.dst_size = size;
    // The destination was too small in the session: repeats the mistake, with enough memory behind it.
    if (op.code != 0 && !op.numbers.empty() && op.numbers[0] >= 0)
      a.dst_size = std::min(size, static_cast<size_t>(op.numbers[0]));
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(BP_PJRT_CALL(plugin_, PJRT_Buffer_ToHostBuffer, a));
    event = WrapEvent(client->client, a.event);
  }
  // The plugin writes to the memory whatever happens to the event: in a damaged session another object may get its
  // number.
  KeepAliveUntil(event, read->memory);
  event.read = std::move(read);
  if (op.code != 0) {
    // The read failed in the session but not now, so no operation refers to its event.
    Await(*event.event).IgnoreError();
    return absl::OkStatus();
  }
  Make(op, 0, std::move(event));
  return absl::OkStatus();
}

absl::Status Replayer::DoWait(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Event* const event, Use<Event>(op, 0));
  if (event->in_place) {
    // One plugin copies what another uses in location until the buffer is freed, so waiting here might never end.
    BP_ASSIGN_OR_RETURN(const bool ready, event->event->IsReady());
    return ready ? event->event->Outcome() : absl::OkStatus();
  }
  {
    Stopwatch watch(out);
    BP_RETURN_IF_ERROR(Await(*event->event));
  }
  if (event->read == nullptr && event->buffer != nullptr && !op.blobs.empty()) {
    // From now on the host had the address and could read the memory.
    Stopwatch watch(out);
    BP_ASSIGN_OR_RETURN(out.read, Read(*event->buffer));
    return absl::OkStatus();
  }
  if (event->read == nullptr) return absl::OkStatus();
  const std::shared_ptr<PendingRead> read = std::move(event->read);
  event->read = nullptr;
  host::HostArray array{read->type, read->dims, {}};
  StridedSource source(read->memory->data + read->extent.below,
                       static_cast<size_t>(host::HostBytesPerElement(read->type)), read->dims,
                       read->extent.byte_strides);
  for (auto piece = source.Next(); !piece.empty(); piece = source.Next())
    array.data.insert(array.data.end(), piece.begin(), piece.end());
  out.read = std::move(array);
  return absl::OkStatus();
}

absl::Status Replayer::DoPointer(const Operation& op, Outcome& out) {
  BP_ASSIGN_OR_RETURN(Buffer* const buffer, Use<Buffer>(op, 0));
  if (op.blobs.empty()) return Skip(op.obstacle);
  Stopwatch watch(out);
  BP_ASSIGN_OR_RETURN(out.read, Read(**buffer));
  return absl::OkStatus();
}

absl::StatusOr<Operation> Replayer::AsFromHost(uint64_t id, SessionWriter* writer) {
  const host::Buffer* buffer = FindBuffer(id);
  Client* const client = AnyClient();
  if (buffer == nullptr || client == nullptr)
    return absl::FailedPreconditionError(absl::StrCat("replay: no live buffer ", id));
  Operation op;
  op.kind = Kind::kFromHost;
  op.uses = {last_client_};
  op.makes = {id, 0};
  op.numbers = {PJRT_HostBufferSemantics_kImmutableOnlyDuringCall};
  BP_ASSIGN_OR_RETURN(const host::HostArray array, Read(*buffer));
  op.type = array.type;
  op.dims = array.dims;
  MemorySource source(absl::MakeConstSpan(array.data));
  op.blobs = {writer->AddBlob(source)};
  BP_ASSIGN_OR_RETURN(const host::Device device, buffer->GetDevice());
  BP_ASSIGN_OR_RETURN(const host::Memory memory, buffer->GetMemory());
  BP_ASSIGN_OR_RETURN(const std::string kind, memory.Kind());
  for (size_t i = 0; i < client->devices.size() && i < client->facts.size(); ++i) {
    if (!(client->devices[i] == device)) continue;
    op.device = client->facts[i].id;
    BP_ASSIGN_OR_RETURN(const host::Memory own, device.DefaultMemory());
    if (own == memory) return op;
    for (int64_t m : client->facts[i].memories) {
      const auto named = client->memory_kinds.find(m);
      if (named != client->memory_kinds.end() && named->second == kind) op.memory = m;
    }
    return op;
  }
  return absl::FailedPreconditionError(absl::StrCat("replay: buffer ", id, " is at a device the session has not"));
}

// ---- Compile options. CompileOptionsProto: 3 executable_build_options, with 1 device_ordinal (plain, -1 for none) and
// 9 device_assignment, with 3 computation_devices, with 1 replica_device_ids.

namespace {

// Returns the message with the field `field` replaced by the result of `change`, which gets its value or bytes.
absl::StatusOr<std::string> Rewrite(absl::string_view message,
                                    absl::FunctionRef<absl::Status(WireReader&, WireWriter&)> change) {
  WireWriter out;
  WireReader r(message);
  while (true) {
    const absl::string_view before = r.rest();
    if (!r.Next()) break;
    WireWriter changed;
    BP_RETURN_IF_ERROR(change(r, changed));
    std::string bytes = changed.Take();
    if (bytes.empty()) bytes = std::string(before.substr(0, before.size() - r.rest().size()));
    out.Append(bytes);
  }
  if (!r.ok()) return absl::InvalidArgumentError("replay: the compile options are broken");
  return out.Take();
}

}  // namespace

absl::StatusOr<std::string> ReplaceDevices(absl::string_view options,
                                           const absl::flat_hash_map<int64_t, int64_t>& ids) {
  auto ours = [&](uint64_t theirs) -> absl::StatusOr<uint64_t> {
    const auto found = ids.find(static_cast<int64_t>(theirs));
    if (found == ids.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("replay: the program runs on device ", static_cast<int64_t>(theirs),
                       " of the session, for which the plugin has none; an option of the client may give it more"));
    }
    return static_cast<uint64_t>(found->second);
  };
  auto in_row = [&](WireReader& r, WireWriter& w) -> absl::Status {
    if (r.field != 1) return absl::OkStatus();
    WireWriter row;
    if (r.type == 0) {
      BP_ASSIGN_OR_RETURN(const uint64_t id, ours(r.value));
      w.Varint(1, id);
      return absl::OkStatus();
    }
    WireReader inner(r.bytes);
    while (inner.ok() && !inner.rest().empty()) {
      const uint64_t theirs = inner.Raw();
      if (!inner.ok()) return absl::InvalidArgumentError("replay: the compile options are broken");
      BP_ASSIGN_OR_RETURN(const uint64_t id, ours(theirs));
      row.Raw(id);
    }
    w.Bytes(1, row.Take());
    return absl::OkStatus();
  };
  auto in_assignment = [&](WireReader& r, WireWriter& w) -> absl::Status {
    if (r.field != 3 || r.type != 2) return absl::OkStatus();
    BP_ASSIGN_OR_RETURN(const std::string row, Rewrite(r.bytes, in_row));
    w.Bytes(3, row);
    return absl::OkStatus();
  };
  auto in_build = [&](WireReader& r, WireWriter& w) -> absl::Status {
    if (r.field == 1 && r.type == 0 && static_cast<int64_t>(r.value) >= 0) {
      BP_ASSIGN_OR_RETURN(const uint64_t id, ours(r.value));
      w.Varint(1, id);
    } else if (r.field == 9 && r.type == 2) {
      BP_ASSIGN_OR_RETURN(const std::string assignment, Rewrite(r.bytes, in_assignment));
      w.Bytes(9, assignment);
    }
    return absl::OkStatus();
  };
  return Rewrite(options, [&](WireReader& r, WireWriter& w) -> absl::Status {
    if (r.field != 3 || r.type != 2) return absl::OkStatus();
    BP_ASSIGN_OR_RETURN(const std::string build, Rewrite(r.bytes, in_build));
    w.Bytes(3, build);
    return absl::OkStatus();
  });
}

}  // namespace backplane::record
