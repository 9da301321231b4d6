// Transfers to the device in pieces.
#include <algorithm>

#include "conformance/kit/device_image.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

using Manager = PJRT_AsyncHostToDeviceTransferManager;

// Two buffers: f32[4] and s32[2,3].
Manager* TwoBuffers(Kit& k) {
  static const Dims first = {4}, second = {2, 3};
  PJRT_ShapeSpec specs[2] = {};
  specs[0] = {PJRT_ShapeSpec_STRUCT_SIZE, nullptr, first.data(), 1, PJRT_Buffer_Type_F32};
  specs[1] = {PJRT_ShapeSpec_STRUCT_SIZE, nullptr, second.data(), 2, PJRT_Buffer_Type_S32};
  KIT_ARGS(k, a, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  a.client = k.client();
  a.shape_specs = specs;
  a.num_shape_specs = 2;
  a.memory = DefaultMemory(k, k.device());
  KIT_OK(k, PJRT_Client_CreateBuffersForAsyncHostToDevice, a);
  k.Require(a.transfer_manager != nullptr, "succeeded without a manager");
  return a.transfer_manager;
}

PJRT_Buffer* Retrieve(Kit& k, Manager* manager, int index) {
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  a.transfer_manager = manager;
  a.buffer_index = index;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, a);
  k.Require(a.buffer_out != nullptr, "no buffer");
  return a.buffer_out;
}

Err Transfer(Kit& k, Manager* manager, int index, const void* data, int64_t offset, int64_t size, bool last) {
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_TransferData);
  a.transfer_manager = manager;
  a.buffer_index = index;
  a.data = data;
  a.offset = offset;
  a.transfer_size = size;
  a.is_last_transfer = last;
  const Err e = KIT_TRY(k, PJRT_AsyncHostToDeviceTransferManager_TransferData, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported(FormatError(e));
  return e.ok() ? Outcome(k, a.done_with_h2d_transfer) : e;
}

void DestroyManager(Kit& k, Manager* manager) {
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_Destroy);
  a.transfer_manager = manager;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_Destroy, a);
}

const std::vector<float> kFloats = {1, 2, 3, 4};
const std::vector<int32_t> kInts = {1, 2, 3, 4, 5, 6};

// The bytes to transfer have the layout of the buffer, including its padding.
std::string FloatBytes(Kit& k, PJRT_Buffer* floats) { return ReadDeviceImage(k, floats).Bytes(kFloats.data(), 4); }
std::string IntBytes(Kit& k, PJRT_Buffer* ints) { return ReadDeviceImage(k, ints).Bytes(kInts.data(), 4); }
int64_t Size(const std::string& bytes) { return static_cast<int64_t>(bytes.size()); }
// Returns where to split a transfer in two: after two thirds, between two elements.
int64_t GetSplitOffset(const std::string& bytes) { return Size(bytes) * 2 / 3 / 8 * 8; }

// Returns the size that the manager reports for a buffer, which must be at least that of its layout.
int64_t GetBufferSize(Kit& k, Manager* manager, int index, int64_t at_least) {
  if (!k.Has(&PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_BufferSize)) return at_least;
  KIT_ARGS(k, s, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  s.transfer_manager = manager;
  s.buffer_index = index;
  const Err error = KIT_TRY(k, PJRT_AsyncHostToDeviceTransferManager_BufferSize, s);
  return error.ok() ? std::max(at_least, static_cast<int64_t>(s.buffer_size)) : at_least;
}

void Whole(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer *floats = Retrieve(k, m, 0), *ints = Retrieve(k, m, 1);
  k.Require(FormatShape(k, floats) == "f32[4]" && FormatShape(k, ints) == "s32[2,3]",
            "the shapes f32[4], s32[2,3] are ", FormatShape(k, floats), ", ", FormatShape(k, ints));
  const std::string int_bytes = IntBytes(k, ints), float_bytes = FloatBytes(k, floats);
  Err e = Transfer(k, m, 1, int_bytes.data(), 0, Size(int_bytes), true);
  k.Require(e.ok(), FormatError(e));
  e = Transfer(k, m, 0, float_bytes.data(), 0, Size(float_bytes), true);
  k.Require(e.ok(), FormatError(e));
  k.Require(GetAs<float>(k, floats) == kFloats && GetAs<int32_t>(k, ints) == kInts,
            "the contents are not those transferred");
  DestroyManager(k, m);
}

void Pieces(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* ints = Retrieve(k, m, 1);
  const std::string bytes = IntBytes(k, ints);
  const int64_t cut = GetSplitOffset(bytes);
  Err e = Transfer(k, m, 1, bytes.data() + cut, cut, Size(bytes) - cut, false);  // the last part first
  k.Require(e.ok(), FormatError(e));
  e = Transfer(k, m, 1, bytes.data(), 0, cut, true);
  k.Require(e.ok(), FormatError(e));
  k.Require(GetAs<int32_t>(k, ints) == kInts, "pieces were not put where their offsets say");
  DestroyManager(k, m);
}

void NotReadyBeforeLast(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* ints = Retrieve(k, m, 1);
  PJRT_Event* ready = ReadyEvent(k, ints);
  const std::string bytes = IntBytes(k, ints);
  const int64_t cut = GetSplitOffset(bytes);
  k.Require(!IsReady(k, ready), "a buffer is ready before anything was transferred");
  Err e = Transfer(k, m, 1, bytes.data(), 0, cut, false);
  k.Require(e.ok(), FormatError(e));
  k.Require(!IsReady(k, ready), "a buffer is ready before its last piece");
  e = Transfer(k, m, 1, bytes.data() + cut, cut, Size(bytes) - cut, true);
  k.Require(e.ok(), FormatError(e));
  Await(k, ready, "the buffer");
  k.Require(GetAs<int32_t>(k, ints) == kInts, "wrong contents");
}

void Facts(Kit& k) {
  Manager* m = TwoBuffers(k);
  KIT_ARGS(k, c, PJRT_AsyncHostToDeviceTransferManager_BufferCount);
  c.transfer_manager = m;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_BufferCount, c);
  k.Require(c.buffer_count == 2, "two buffers are ", c.buffer_count);
  KIT_ARGS(k, s, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  s.transfer_manager = m;
  s.buffer_index = 1;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_BufferSize, s);
  k.Require(s.buffer_size >= 24, "s32[2,3] takes ", s.buffer_size, " bytes");
  KIT_ARGS(k, d, PJRT_AsyncHostToDeviceTransferManager_Device);
  d.transfer_manager = m;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_Device, d);
  k.Require(d.device_out == k.device(), "the buffers are on another device");
}

void BufferError(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* floats = Retrieve(k, m, 0);
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  a.transfer_manager = m;
  a.buffer_index = 0;
  a.error_code = PJRT_Error_Code_DATA_LOSS;
  a.error_message = "the kit's own words";
  a.error_message_size = std::strlen(a.error_message);
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_SetBufferError, a);
  const Err e = Outcome(k, ReadyEvent(k, floats));
  k.Require(e.code == PJRT_Error_Code_DATA_LOSS, "a buffer that was set to DATA_LOSS gives ", FormatError(e));
  k.Require(e.message.find("the kit's own words") != std::string::npos, "the message was lost: ", e.message);
}

void Dropped(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* floats = Retrieve(k, m, 0);
  PJRT_Event* ready = ReadyEvent(k, floats);
  DestroyManager(k, m);
  k.Require(WaitFor(5, [&] { return IsReady(k, ready); }),
            "a buffer whose manager was destroyed before it was filled stays unready for ever");
  k.Require(!Outcome(k, ready).ok(), "a buffer that was never filled is ready without an error");
}

void OutOfRange(Kit& k) {
  Manager* m = TwoBuffers(k);
  const int64_t room = GetBufferSize(k, m, 0, ReadDeviceImage(k, Retrieve(k, m, 0)).bytes);
  const std::vector<char> bytes(64, 1);
  k.Require(!Transfer(k, m, 0, bytes.data(), room - 8, 16, false).ok(), "16 bytes at offset ", room - 8,
            " of a buffer of ", room, " are taken");
  k.Require(!Transfer(k, m, 0, bytes.data(), -4, 4, false).ok(), "a negative offset is taken");
  k.Require(!Transfer(k, m, 7, bytes.data(), 0, 4, false).ok(), "buffer 7 of 2 is taken");
}

void Literal(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* ints = Retrieve(k, m, 1);
  const Dims dims = {2, 3}, order = {1, 0};
  PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  a.transfer_manager = m;
  a.buffer_index = 1;
  a.data = kInts.data();
  a.shape_dims = dims.data();
  a.shape_num_dims = 2;
  a.shape_element_type = PJRT_Buffer_Type_S32;
  a.shape_layout = &layout;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, a);
  Await(k, a.done_with_h2d_transfer, "the transfer");
  k.Require(GetAs<int32_t>(k, ints) == kInts, "wrong contents");
}

void Metadata(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = "from";
  value.name_size = 4;
  value.type = PJRT_NamedValue_kString;
  value.string_value = "kit";
  value.value_size = 3;
  KIT_ARGS(k, a, PJRT_AsyncHostToDeviceTransferManager_AddMetadata);
  a.transfer_manager = m;
  a.transfer_metadata = &value;
  a.num_metadata = 1;
  KIT_OK(k, PJRT_AsyncHostToDeviceTransferManager_AddMetadata, a);
}

void UsedBeforeFilled(Kit& k) {
  Manager* m = TwoBuffers(k);
  PJRT_Buffer* floats = Retrieve(k, m, 0);
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer* out = Execute(k, add, {floats, floats})[0];
  const std::string bytes = FloatBytes(k, floats);
  const Err e = Transfer(k, m, 0, bytes.data(), 0, Size(bytes), true);
  k.Require(e.ok(), FormatError(e));
  k.Require(GetAs<float>(k, out) == std::vector<float>({2, 4, 6, 8}),
            "an execution on a buffer that was filled later gives wrong results");
}

constexpr Check kChecks[] = {
    {"transfers.whole", "PJRT_Client_CreateBuffersForAsyncHostToDevice", "buffers filled at once", Whole},
    {"transfers.pieces", "PJRT_Client_CreateBuffersForAsyncHostToDevice", "a buffer filled in pieces, the end first",
     Pieces},
    {"transfers.ready_at_last", "PJRT_Client_CreateBuffersForAsyncHostToDevice",
     "a buffer is ready after its last piece, not before", NotReadyBeforeLast},
    {"transfers.facts",
     "PJRT_AsyncHostToDeviceTransferManager_BufferCount PJRT_AsyncHostToDeviceTransferManager_BufferSize "
     "PJRT_AsyncHostToDeviceTransferManager_Device",
     "the manager knows its buffers", Facts},
    {"transfers.error", "PJRT_AsyncHostToDeviceTransferManager_SetBufferError", "a buffer can be made to fail",
     BufferError},
    {"transfers.dropped", "PJRT_AsyncHostToDeviceTransferManager_Destroy",
     "a buffer that will not be filled gives an error", Dropped},
    {"transfers.range", "PJRT_AsyncHostToDeviceTransferManager_TransferData", "pieces outside the buffer give an error",
     OutOfRange, 0, true},
    {"transfers.literal", "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral", "a buffer filled by a literal",
     Literal},
    {"transfers.metadata", "PJRT_AsyncHostToDeviceTransferManager_AddMetadata", "facts can be added", Metadata},
    {"transfers.used_before", "PJRT_Client_CreateBuffersForAsyncHostToDevice",
     "a buffer may be an argument before it is filled", UsedBeforeFilled},
};

}  // namespace

absl::Span<const Check> TransfersSuite() { return kChecks; }

}  // namespace backplane::conformance
