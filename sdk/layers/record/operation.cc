#include "sdk/layers/record/operation.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/wire.h"

namespace backplane::record {
namespace {

constexpr absl::string_view kKindNames[] = {"",
                                            "client",
                                            "client_destroy",
                                            "compile",
                                            "compile_ahead",
                                            "load",
                                            "serialize",
                                            "deserialize",
                                            "executable_delete",
                                            "executable_destroy",
                                            "from_host",
                                            "uninitialized",
                                            "error_buffer",
                                            "alias",
                                            "fulfill_alias",
                                            "view",
                                            "transfer_start",
                                            "transfer_data",
                                            "transfer_literal",
                                            "transfer_retrieve",
                                            "transfer_error",
                                            "transfer_metadata",
                                            "transfer_destroy",
                                            "execute",
                                            "copy_to_device",
                                            "copy_to_memory",
                                            "bitcast",
                                            "donate",
                                            "donation_ready",
                                            "delete",
                                            "destroy",
                                            "ready_event",
                                            "read",
                                            "read_raw",
                                            "wait",
                                            "event_destroy",
                                            "pointer",
                                            "call",
                                            "obstacle"};
static_assert(sizeof(kKindNames) / sizeof(kKindNames[0]) == kLastKind + 1);

std::string EncodeLayout(const host::BufferLayout& layout) {
  WireWriter w;
  w.Varint(1, layout.type == PJRT_Buffer_MemoryLayout_Type_Strides ? 1 : 0);
  w.PackedSigned(2, layout.minor_to_major);
  for (const std::vector<int64_t>& tile : layout.tiles) {
    WireWriter t;
    t.PackedSigned(1, tile);
    w.Bytes(3, t.Take());
  }
  w.PackedSigned(4, layout.byte_strides);
  return w.Take();
}

bool DecodeLayout(absl::string_view bytes, host::BufferLayout* layout) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1)
      layout->type = r.value == 1 ? PJRT_Buffer_MemoryLayout_Type_Strides : PJRT_Buffer_MemoryLayout_Type_Tiled;
    if (r.field == 2) r.PackedSigned(&layout->minor_to_major);
    if (r.field == 3) {
      layout->tiles.emplace_back();
      WireReader t(r.bytes);
      while (t.Next())
        if (t.field == 1) t.PackedSigned(&layout->tiles.back());
      if (!t.ok()) r.Fail();
    }
    if (r.field == 4) r.PackedSigned(&layout->byte_strides);
  }
  return r.ok();
}

std::string EncodeValue(const host::NamedValue& value) {
  WireWriter w;
  w.Bytes(1, value.name);
  if (const auto* text = std::get_if<std::string>(&value.value)) w.Bytes(2, *text);
  if (const auto* integer = std::get_if<int64_t>(&value.value)) w.Signed(3, *integer);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value.value)) {
    WireWriter inner;
    inner.PackedSigned(1, *list);
    w.Bytes(4, inner.Take());
  }
  if (const auto* real = std::get_if<float>(&value.value)) {
    uint32_t bits;
    std::memcpy(&bits, real, 4);
    w.Varint(5, bits);
  }
  if (const auto* truth = std::get_if<bool>(&value.value)) w.Varint(6, *truth ? 1 : 0);
  return w.Take();
}

bool DecodeValue(absl::string_view bytes, host::NamedValue* value) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1) value->name = std::string(r.bytes);
    if (r.field == 2) value->value = std::string(r.bytes);
    if (r.field == 3) value->value = r.signed_value();
    if (r.field == 4) {
      std::vector<int64_t> list;
      WireReader inner(r.bytes);
      while (inner.Next())
        if (inner.field == 1) inner.PackedSigned(&list);
      if (!inner.ok()) r.Fail();
      value->value = std::move(list);
    }
    if (r.field == 5) {
      const auto bits = static_cast<uint32_t>(r.value);
      float real;
      std::memcpy(&real, &bits, 4);
      value->value = real;
    }
    if (r.field == 6) value->value = r.value != 0;
  }
  return r.ok();
}

std::string EncodeShape(const host::ArrayShape& shape) {
  WireWriter w;
  w.Varint(1, static_cast<uint64_t>(shape.type));
  w.PackedSigned(2, shape.dims);
  return w.Take();
}

bool DecodeShape(absl::string_view bytes, host::ArrayShape* shape) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1) shape->type = static_cast<PJRT_Buffer_Type>(r.value & 0xffff);
    if (r.field == 2) r.PackedSigned(&shape->dims);
  }
  return r.ok();
}

std::string EncodeBlob(const BlobRef& blob) {
  WireWriter w;
  w.Bytes(1, absl::string_view(reinterpret_cast<const char*>(blob.digest.data()), blob.digest.size()));
  w.Varint(2, blob.size);
  return w.Take();
}

bool DecodeBlob(absl::string_view bytes, BlobRef* blob) {
  WireReader r(bytes);
  bool named = false;
  while (r.Next()) {
    if (r.field == 1) {
      if (r.bytes.size() != blob->digest.size()) return false;
      std::memcpy(blob->digest.data(), r.bytes.data(), blob->digest.size());
      named = true;
    }
    if (r.field == 2) blob->size = r.value;
  }
  return r.ok() && named;
}

std::string EncodeDevice(const DeviceFact& device) {
  WireWriter w;
  w.Signed(1, device.id);
  w.Signed(2, device.process);
  w.Signed(3, device.local_hardware_id);
  w.Varint(4, device.addressable ? 1 : 0);
  w.Bytes(5, device.kind);
  w.PackedSigned(6, device.memories);
  w.Signed(7, device.default_memory);
  return w.Take();
}

bool DecodeDevice(absl::string_view bytes, DeviceFact* device) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1) device->id = r.signed_value();
    if (r.field == 2) device->process = r.signed_value();
    if (r.field == 3) device->local_hardware_id = r.signed_value();
    if (r.field == 4) device->addressable = r.value != 0;
    if (r.field == 5) device->kind = std::string(r.bytes);
    if (r.field == 6) r.PackedSigned(&device->memories);
    if (r.field == 7) device->default_memory = r.signed_value();
  }
  return r.ok();
}

std::string EncodeMemory(const MemoryFact& memory) {
  WireWriter w;
  w.Signed(1, memory.id);
  w.Bytes(2, memory.kind);
  return w.Take();
}

bool DecodeMemory(absl::string_view bytes, MemoryFact* memory) {
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1) memory->id = r.signed_value();
    if (r.field == 2) memory->kind = std::string(r.bytes);
  }
  return r.ok();
}

}  // namespace

absl::string_view KindName(Kind kind) {
  const auto number = static_cast<uint32_t>(kind);
  return number <= kLastKind ? kKindNames[number] : absl::string_view("unknown");
}

std::string EncodeOperation(const Operation& op) {
  WireWriter w;
  w.Varint(1, static_cast<uint64_t>(op.kind));
  w.Varint(2, op.number);
  w.Varint(3, op.thread);
  w.Signed(4, op.start_ns);
  w.Signed(5, op.duration_ns);
  if (op.code != 0) w.Signed(6, op.code);
  if (!op.message.empty()) w.Bytes(7, op.message);
  w.PackedSigned(8, op.uses);
  w.PackedSigned(9, op.makes);
  w.PackedSigned(10, op.numbers);
  if (!op.name.empty()) w.Bytes(11, op.name);
  if (!op.text.empty()) w.Bytes(12, op.text);
  if (op.type != PJRT_Buffer_Type_INVALID) w.Varint(13, static_cast<uint64_t>(op.type));
  w.PackedSigned(14, op.dims);
  w.PackedSigned(15, op.byte_strides);
  if (op.layout.has_value()) w.Bytes(16, EncodeLayout(*op.layout));
  for (const BlobRef& blob : op.blobs) w.Bytes(17, EncodeBlob(blob));
  if (op.data_left_out) w.Varint(18, 1);
  for (const host::NamedValue& value : op.options) w.Bytes(19, EncodeValue(value));
  if (op.device != -1) w.Signed(20, op.device);
  if (op.memory != -1) w.Signed(21, op.memory);
  for (const host::ArrayShape& shape : op.shapes) w.Bytes(22, EncodeShape(shape));
  for (const auto& layout : op.layouts) w.Bytes(23, layout.has_value() ? EncodeLayout(*layout) : std::string());
  w.PackedSigned(24, op.placement);
  w.PackedSigned(25, op.non_donatable);
  w.PackedSigned(26, op.donated);
  for (const DeviceFact& device : op.devices) w.Bytes(27, EncodeDevice(device));
  for (const MemoryFact& memory : op.memories) w.Bytes(28, EncodeMemory(memory));
  if (!op.obstacle.empty()) w.Bytes(29, op.obstacle);
  for (const host::NamedValue& value : op.attributes) w.Bytes(30, EncodeValue(value));
  return w.Take();
}

absl::StatusOr<Operation> DecodeOperation(absl::string_view bytes) {
  Operation op;
  uint64_t kind = 0;
  bool good = true;
  WireReader r(bytes);
  while (good && r.Next()) {
    switch (r.field) {
      case 1:
        kind = r.value;
        break;
      case 2:
        op.number = r.value;
        break;
      case 3:
        op.thread = static_cast<uint32_t>(r.value);
        break;
      case 4:
        op.start_ns = r.signed_value();
        break;
      case 5:
        op.duration_ns = r.signed_value();
        break;
      case 6:
        op.code = static_cast<int>(r.signed_value());
        break;
      case 7:
        op.message = std::string(r.bytes);
        break;
      case 8:
        r.PackedSigned(&op.uses);
        break;
      case 9:
        r.PackedSigned(&op.makes);
        break;
      case 10:
        r.PackedSigned(&op.numbers);
        break;
      case 11:
        op.name = std::string(r.bytes);
        break;
      case 12:
        op.text = std::string(r.bytes);
        break;
      case 13:
        op.type = static_cast<PJRT_Buffer_Type>(r.value & 0xffff);
        break;
      case 14:
        r.PackedSigned(&op.dims);
        break;
      case 15:
        r.PackedSigned(&op.byte_strides);
        break;
      case 16:
        good = DecodeLayout(r.bytes, &op.layout.emplace());
        break;
      case 17:
        good = DecodeBlob(r.bytes, &op.blobs.emplace_back());
        break;
      case 18:
        op.data_left_out = r.value != 0;
        break;
      case 19:
        good = DecodeValue(r.bytes, &op.options.emplace_back());
        break;
      case 20:
        op.device = r.signed_value();
        break;
      case 21:
        op.memory = r.signed_value();
        break;
      case 22:
        good = DecodeShape(r.bytes, &op.shapes.emplace_back());
        break;
      case 23:
        op.layouts.emplace_back();
        if (!r.bytes.empty()) good = DecodeLayout(r.bytes, &op.layouts.back().emplace());
        break;
      case 24:
        r.PackedSigned(&op.placement);
        break;
      case 25:
        r.PackedSigned(&op.non_donatable);
        break;
      case 26:
        r.PackedSigned(&op.donated);
        break;
      case 27:
        good = DecodeDevice(r.bytes, &op.devices.emplace_back());
        break;
      case 28:
        good = DecodeMemory(r.bytes, &op.memories.emplace_back());
        break;
      case 29:
        op.obstacle = std::string(r.bytes);
        break;
      case 30:
        good = DecodeValue(r.bytes, &op.attributes.emplace_back());
        break;
      default:
        break;
    }
  }
  if (!good || !r.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("session: operation ", op.number, ": field ", r.field, " is broken"));
  }
  if (kind < 1 || kind > kLastKind) {
    return absl::InvalidArgumentError(
        absl::StrCat("session: operation ", op.number, " is of kind ", kind, ", this build knows 1 to ", kLastKind));
  }
  op.kind = static_cast<Kind>(kind);
  return op;
}

std::string EncodeInfo(const SessionInfo& info) {
  WireWriter w;
  w.Bytes(1, info.plugin);
  w.Signed(2, info.api_major);
  w.Signed(3, info.api_minor);
  w.Bytes(4, info.host);
  w.Signed(5, info.process);
  w.Signed(6, info.unix_seconds);
  w.Bytes(7, info.recorder);
  if (!info.made_from.empty()) w.Bytes(9, info.made_from);
  return w.Take();
}

absl::StatusOr<SessionInfo> DecodeInfo(absl::string_view bytes) {
  SessionInfo info;
  WireReader r(bytes);
  while (r.Next()) {
    if (r.field == 1) info.plugin = std::string(r.bytes);
    if (r.field == 2) info.api_major = r.signed_value();
    if (r.field == 3) info.api_minor = r.signed_value();
    if (r.field == 4) info.host = std::string(r.bytes);
    if (r.field == 5) info.process = r.signed_value();
    if (r.field == 6) info.unix_seconds = r.signed_value();
    if (r.field == 7) info.recorder = std::string(r.bytes);
    if (r.field == 9) info.made_from = std::string(r.bytes);
  }
  if (!r.ok()) return absl::InvalidArgumentError("session: the description of the session is broken");
  return info;
}

}  // namespace backplane::record
