// Buffers from host memory and back: types, shapes, strides, layouts, host buffer semantics.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "absl/strings/str_join.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

// Returns bytes that are valid elements of the type; neighbours differ.
std::string Pattern(PJRT_Buffer_Type type, int64_t count) {
  const int width = host::HostBytesPerElement(type), bits = host::BitsPerElement(type);
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    for (int b = 0; b < width; ++b) {
      unsigned char c = static_cast<unsigned char>(i * 37 + b * 11 + 1);
      if (type == PJRT_Buffer_Type_PRED) c = i % 3 == 0;
      if (bits < 8)
        c = static_cast<unsigned char>(i % (1 << (bits - 1)));  // not negative, so that sign extension does not matter
      bytes.push_back(static_cast<char>(c));
    }
  }
  return bytes;
}

void RoundTrips(Kit& k, const std::vector<PJRT_Buffer_Type>& types) {
  std::vector<std::string> refused;
  for (PJRT_Buffer_Type type : types) {
    const std::string name = host::ElementTypeName(type);
    const Dims dims = {3, 5};
    const std::string data = Pattern(type, 15);
    PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, type, dims, data.data());
    const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
    if (e.code == PJRT_Error_Code_UNIMPLEMENTED) {
      refused.push_back(name);
      continue;
    }
    k.Require(e.ok(), "a buffer of ", name, ": ", FormatError(e));
    Await(k, a.done_with_host_buffer, "done_with_host_buffer");
    k.Require(GetType(k, a.buffer) == type, "a buffer made of ", name, " says it is of ",
              host::ElementTypeName(GetType(k, a.buffer)));
    const std::string back = Get(k, a.buffer);
    k.Require(back.size() == data.size(), name, "[3,5]: ", back.size(), " bytes come back, expected ", data.size());
    for (size_t i = 0; i < data.size(); ++i) {
      k.Require(back[i] == data[i], name, "[3,5]: byte ", i, " comes back as ",
                static_cast<int>(static_cast<unsigned char>(back[i])), ", it was ",
                static_cast<int>(static_cast<unsigned char>(data[i])));
    }
    Destroy(k, a.buffer);
  }
  if (!refused.empty()) k.Unsupported("no buffers of ", absl::StrJoin(refused, ", "));
}

void TypesCommon(Kit& k) {
  RoundTrips(k, {PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_S8, PJRT_Buffer_Type_S16, PJRT_Buffer_Type_S32,
                 PJRT_Buffer_Type_S64, PJRT_Buffer_Type_U8, PJRT_Buffer_Type_U16, PJRT_Buffer_Type_U32,
                 PJRT_Buffer_Type_U64, PJRT_Buffer_Type_F16, PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_F32});
}
void TypesWide(Kit& k) { RoundTrips(k, {PJRT_Buffer_Type_F64, PJRT_Buffer_Type_C64, PJRT_Buffer_Type_C128}); }
void TypesF8(Kit& k) {
  RoundTrips(k, {PJRT_Buffer_Type_F8E5M2, PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_F8E4M3B11FNUZ,
                 PJRT_Buffer_Type_F8E5M2FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ, PJRT_Buffer_Type_F8E4M3,
                 PJRT_Buffer_Type_F8E3M4, PJRT_Buffer_Type_F8E8M0FNU});
}
void TypesNarrow(Kit& k) {
  RoundTrips(k, {PJRT_Buffer_Type_S4, PJRT_Buffer_Type_U4, PJRT_Buffer_Type_S2, PJRT_Buffer_Type_U2,
                 PJRT_Buffer_Type_F4E2M1FN});
}

void TypeRefused(Kit& k) {
  const Dims dims = {4};
  const float data[4] = {};
  for (int type : {static_cast<int>(PJRT_Buffer_Type_INVALID), static_cast<int>(PJRT_Buffer_Type_TOKEN), 999}) {
    PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, static_cast<PJRT_Buffer_Type>(type), dims, data);
    KIT_FAILS(k, PJRT_Client_BufferFromHostBuffer, a, absl::StrCat("element type ", type),
              PJRT_Error_Code_INVALID_ARGUMENT, PJRT_Error_Code_UNIMPLEMENTED);
  }
}

void Ranks(Kit& k) {
  for (int rank = 0; rank <= 8; ++rank) {
    const Dims dims(static_cast<size_t>(rank), 2);
    std::vector<float> data(size_t{1} << rank);
    std::iota(data.begin(), data.end(), 1.0f);
    PJRT_Buffer* b = Put<float>(k, dims, data);
    k.Require(GetDims(k, b) == dims, "a buffer of rank ", rank, " has the shape ", FormatShape(k, b));
    k.Require(GetAs<float>(k, b) == data, "a buffer of rank ", rank, " gives other contents back");
    Destroy(k, b);
  }
}

void ZeroSize(Kit& k) {
  for (const Dims& dims : std::vector<Dims>{{0}, {0, 3}, {2, 0, 3}}) {
    float nothing = 0;
    PJRT_Buffer* b = Put(k, PJRT_Buffer_Type_F32, dims, &nothing);
    k.Require(GetDims(k, b) == dims, "a buffer of no elements has the shape ", FormatShape(k, b));
    Await(k, ReadyEvent(k, b), "a buffer of no elements");
    k.Require(Get(k, b).empty(), "a buffer of no elements has contents");
    Destroy(k, b);
  }
}

void Metadata(Kit& k) {
  PJRT_Buffer* b = Put<int16_t>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  k.Require(FormatShape(k, b) == "s16[2,3]", "the shape is ", FormatShape(k, b), ", expected s16[2,3]");
  KIT_ARGS(k, unpadded, PJRT_Buffer_UnpaddedDimensions);
  unpadded.buffer = b;
  KIT_OK(k, PJRT_Buffer_UnpaddedDimensions, unpadded);
  k.Require(Dims(unpadded.unpadded_dims, unpadded.unpadded_dims + unpadded.num_dims) == Dims({2, 3}),
            "the unpadded dims differ from the dims of a static shape");
  KIT_ARGS(k, dynamic, PJRT_Buffer_DynamicDimensionIndices);
  dynamic.buffer = b;
  dynamic.num_dynamic_dims = 99;
  KIT_OK(k, PJRT_Buffer_DynamicDimensionIndices, dynamic);
  k.Require(dynamic.num_dynamic_dims == 0, "a static shape has ", dynamic.num_dynamic_dims, " dynamic dims");
  KIT_ARGS(k, size, PJRT_Buffer_OnDeviceSizeInBytes);
  size.buffer = b;
  KIT_OK(k, PJRT_Buffer_OnDeviceSizeInBytes, size);
  k.Require(size.on_device_size_in_bytes >= 12, "12 bytes take ", size.on_device_size_in_bytes, " on the device");
  k.Require(GetDevice(k, b) == k.device(), "the buffer is on another device");
  k.Require(GetMemory(k, b) == DefaultMemory(k, k.device()), "the buffer is not in the default memory of its device");
}

// ---- Host buffer semantics

void OnlyDuringCall(Kit& k) {
  constexpr int64_t kCount = 1 << 18;
  const Dims dims = {kCount};
  // Aligned for any plugin, so that one that keeps using the memory is detected.
  auto* data = static_cast<int32_t*>(std::aligned_alloc(4096, kCount * sizeof(int32_t)));
  std::fill(data, data + kCount, 7);
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_S32, dims, data);
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  std::fill(data, data + kCount, 8);  // the memory may be reused now
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  for (int32_t v : GetAs<int32_t>(k, a.buffer)) {
    k.Require(v == 7, "the buffer shows what the host wrote after the call: the memory was to be copied");
  }
  std::free(data);
}

void UntilTransferCompletes(Kit& k) {
  const Dims dims = {1 << 18};
  std::vector<int32_t> data(1 << 18, 7);
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_S32, dims, data.data());
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  k.Require(a.done_with_host_buffer != nullptr, "no event tells when the transfer is complete");
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  std::fill(data.begin(), data.end(), 8);
  for (int32_t v : GetAs<int32_t>(k, a.buffer))
    k.Require(v == 7, "the buffer shows what the host wrote after done_with_host_buffer");
}

void ZeroCopyOf(Kit& k, PJRT_HostBufferSemantics semantics) {
  const Dims dims = {1 << 12};
  // Aligned for any plugin, so that it can use the memory in place.
  void* memory = std::aligned_alloc(4096, sizeof(int32_t) << 12);
  auto* data = static_cast<int32_t*>(memory);
  std::fill(data, data + (1 << 12), 7);
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_S32, dims, data);
  a.host_buffer_semantics = semantics;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  for (int32_t v : GetAs<int32_t>(k, a.buffer)) k.Require(v == 7, "the buffer gives other contents back");
  for (int i = 0; i < 1 << 12; ++i) k.Require(data[i] == 7, "the host's memory was written to");
  Destroy(k, a.buffer);
  if (a.done_with_host_buffer != nullptr) {
    PJRT_Event* event = a.done_with_host_buffer;
    k.Require(
        WaitFor(5, [&] { return IsReady(k, event); }),
        "done_with_host_buffer is not ready 5 s after the buffer was destroyed: the host can never free its memory");
    Await(k, event, "done_with_host_buffer");
  }
  std::free(memory);
}
void ZeroCopy(Kit& k) { ZeroCopyOf(k, PJRT_HostBufferSemantics_kImmutableZeroCopy); }
void MutableZeroCopy(Kit& k) { ZeroCopyOf(k, PJRT_HostBufferSemantics_kMutableZeroCopy); }

// ---- Strides and layouts

void StridesTransposed(Kit& k) {
  const std::vector<float> data = {1, 4, 2, 5, 3, 6};  // column-major
  const Dims dims = {2, 3}, strides = {4, 8};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
  a.byte_strides = strides.data();
  a.num_byte_strides = 2;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  k.Require(GetAs<float>(k, a.buffer) == std::vector<float>({1, 2, 3, 4, 5, 6}),
            "the strides of a transposed array were not followed");
}

void StridesPadded(Kit& k) {
  const std::vector<float> data = {1, 2, 3, -1, 4, 5, 6, -1};  // rows of four elements, of which three are used
  const Dims dims = {2, 3}, strides = {16, 4};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
  a.byte_strides = strides.data();
  a.num_byte_strides = 2;
  KIT_OK(k, PJRT_Client_BufferFromHostBuffer, a);
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  k.Require(GetAs<float>(k, a.buffer) == std::vector<float>({1, 2, 3, 4, 5, 6}),
            "the strides of a padded array were not followed");
}

void StridesNegative(Kit& k) {
  const std::vector<float> data = {3, 2, 1};
  const Dims dims = {3}, strides = {-4};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data() + 2);
  a.byte_strides = strides.data();
  a.num_byte_strides = 1;
  const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED || e.code == PJRT_Error_Code_INVALID_ARGUMENT)
    k.Unsupported(FormatError(e));
  k.Require(e.ok(), FormatError(e));
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  k.Require(GetAs<float>(k, a.buffer) == std::vector<float>({1, 2, 3}), "a negative stride was not followed");
}

void StridesCountWrong(Kit& k) {
  const std::vector<float> data(6);
  const Dims dims = {2, 3}, strides = {4};
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
  a.byte_strides = strides.data();
  a.num_byte_strides = 1;
  KIT_FAILS(k, PJRT_Client_BufferFromHostBuffer, a, "one stride for two dims", PJRT_Error_Code_INVALID_ARGUMENT);
}

void DeviceLayout(Kit& k) {
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  const Dims dims = {2, 3}, order = {0, 1};
  PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
  PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data.data());
  a.device_layout = &layout;
  const Err e = KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED || e.code == PJRT_Error_Code_INVALID_ARGUMENT)
    k.Unsupported(FormatError(e));
  k.Require(e.ok(), FormatError(e));
  Await(k, a.done_with_host_buffer, "done_with_host_buffer");
  KIT_ARGS(k, m, PJRT_Buffer_GetMemoryLayout);
  m.buffer = a.buffer;
  KIT_OK(k, PJRT_Buffer_GetMemoryLayout, m);
  const Dims host_order = {1, 0};
  PJRT_Buffer_MemoryLayout host_layout = MakeLayout(host_order);
  std::vector<float> back(6);
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = a.buffer;
  h.host_layout = &host_layout;
  h.dst = back.data();
  h.dst_size = 24;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, h);
  Await(k, h.event, "the copy");
  k.Require(back == data, "a buffer with a layout of its own gives other contents back");
}

void DefaultLayout(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  KIT_ARGS(k, m, PJRT_Buffer_GetMemoryLayout);
  m.buffer = b;
  KIT_OK(k, PJRT_Buffer_GetMemoryLayout, m);
  if (m.layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    k.Require(m.layout.strides.num_byte_strides == 2, "a matrix has a layout of ", m.layout.strides.num_byte_strides,
              " strides");
    return;
  }
  k.Require(m.layout.type == PJRT_Buffer_MemoryLayout_Type_Tiled, "a layout of type ", static_cast<int>(m.layout.type));
  k.Require(m.layout.tiled.minor_to_major_size == 2, "a matrix has a layout of ", m.layout.tiled.minor_to_major_size,
            " dims");
  const int64_t* order = m.layout.tiled.minor_to_major;
  k.Require((order[0] == 0 && order[1] == 1) || (order[0] == 1 && order[1] == 0), "the order of the dims, ", order[0],
            ", ", order[1], ", is no permutation");
  for (size_t i = 0, at = 0; i < m.layout.tiled.num_tiles; ++i) {
    for (size_t d = 0; d < m.layout.tiled.tile_dim_sizes[i]; ++d)
      k.Require(m.layout.tiled.tile_dims[at++] > 0, "a tile has a dim that is not positive");
  }
}

// ---- Copies to the host

void HostLayout(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Dims order = {0, 1};  // the first dim varies fastest: column-major
  PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
  std::vector<float> back(6);
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.host_layout = &layout;
  h.dst = back.data();
  h.dst_size = 24;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, h);
  Await(k, h.event, "the copy");
  k.Require(back == std::vector<float>({1, 4, 2, 5, 3, 6}),
            "the layout asked for was not followed: ", absl::StrJoin(back, ","), ", expected 1,4,2,5,3,6");
}

void HostStrides(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Dims strides = {4, 8};
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  layout.strides.struct_size = PJRT_Buffer_MemoryLayout_Strides_STRUCT_SIZE;
  layout.strides.byte_strides = strides.data();
  layout.strides.num_byte_strides = 2;
  std::vector<float> back(6);
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.host_layout = &layout;
  h.dst = back.data();
  h.dst_size = 24;
  const Err e = KIT_TRY(k, PJRT_Buffer_ToHostBuffer, h);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED || e.code == PJRT_Error_Code_INVALID_ARGUMENT)
    k.Unsupported(FormatError(e));
  k.Require(e.ok(), FormatError(e));
  Await(k, h.event, "the copy");
  k.Require(back == std::vector<float>({1, 4, 2, 5, 3, 6}), "the strides asked for were not followed");
}

void SizeQuery(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, h);
  k.Require(h.dst_size == 24, "f32[2,3] is said to need ", h.dst_size, " bytes of the host, expected 24");
}

void TooSmallDestination(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {2, 3}, {1, 2, 3, 4, 5, 6});
  char room[64];
  std::memset(room, 0x3C, sizeof(room));
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.dst = room;
  h.dst_size = 20;
  Err e = KIT_TRY(k, PJRT_Buffer_ToHostBuffer, h);
  if (e.ok()) e = Outcome(k, h.event);  // or the copy fails
  k.Require(!e.ok(), "24 bytes were copied to a destination of 20");
  k.Require(e.code == PJRT_Error_Code_INVALID_ARGUMENT || e.code == PJRT_Error_Code_OUT_OF_RANGE ||
                e.code == PJRT_Error_Code_FAILED_PRECONDITION,
            FormatError(e));
  for (size_t i = 20; i < sizeof(room); ++i) k.Require(room[i] == 0x3C, "bytes past a destination of 20 were written");
}

void ReadAgain(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  for (int i = 0; i < 3; ++i)
    k.Require(GetAs<float>(k, b) == std::vector<float>({1, 2, 3, 4}), "reading for the ", i + 1,
              ". time gives other contents");
}

void UnalignedDestination(Kit& k) {
  PJRT_Buffer* b = Put<double>(k, {3}, {1, 2, 3});
  alignas(16) char room[48];
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.dst = room + 1;
  h.dst_size = 24;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, h);
  Await(k, h.event, "the copy");
  double back[3];
  std::memcpy(back, room + 1, 24);
  k.Require(back[0] == 1 && back[1] == 2 && back[2] == 3, "a copy to an odd address gives other contents");
}

void UnalignedSource(Kit& k) {
  alignas(16) char room[48];
  const double data[3] = {1, 2, 3};
  std::memcpy(room + 1, data, 24);
  PJRT_Buffer* b = Put(k, PJRT_Buffer_Type_F64, {3}, room + 1);
  k.Require(GetAs<double>(k, b) == std::vector<double>({1, 2, 3}), "a copy from an odd address gives other contents");
}

// ---- Deletion

void DeleteOnce(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  k.Require(!IsDeleted(k, b), "a new buffer says it has been deleted");
  Delete(k, b);
  k.Require(IsDeleted(k, b), "a deleted buffer says it has not been deleted");
  Delete(k, b);  // deleting twice is allowed
  k.Require(FormatShape(k, b) == "f32[4]", "a deleted buffer does not know its shape any more");
  k.Require(GetDevice(k, b) == k.device(), "a deleted buffer does not know its device any more");
  Destroy(k, b);
}

void ReadDeleted(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  Delete(k, b);
  float room[4];
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.dst = room;
  h.dst_size = sizeof(room);
  Err e = KIT_TRY(k, PJRT_Buffer_ToHostBuffer, h);
  if (e.ok()) e = Outcome(k, h.event);
  k.Require(!e.ok(), "a deleted buffer can be read");
  k.Require(!e.message.empty(), "reading a deleted buffer: ", CodeName(e.code), " without a message");
}

void ReadyOfDeleted(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  Delete(k, b);
  KIT_ARGS(k, a, PJRT_Buffer_ReadyEvent);
  a.buffer = b;
  Err e = KIT_TRY(k, PJRT_Buffer_ReadyEvent, a);
  if (e.ok()) e = Outcome(k, a.event);
  k.Require(!e.ok(), "a deleted buffer is said to be ready");
}

void DestroyUnread(Kit& k) {
  for (int i = 0; i < 200; ++i) Destroy(k, Put<float>(k, {1024}, std::vector<float>(1024, 1.0f)));
  // A buffer may be destroyed while it is being read.
  PJRT_Buffer* b = Put<int32_t>(k, {1 << 20}, std::vector<int32_t>(1 << 20, 3));
  std::vector<int32_t> back(1 << 20);
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = b;
  h.dst = back.data();
  h.dst_size = back.size() * 4;
  KIT_OK(k, PJRT_Buffer_ToHostBuffer, h);
  Destroy(k, b);
  Await(k, h.event, "the copy of a buffer that was destroyed meanwhile");
  for (int32_t v : back) k.Require(v == 3, "a copy that was under way when its buffer was destroyed is wrong");
}

constexpr Check kChecks[] = {
    {"buffers.types_common", "PJRT_Client_BufferFromHostBuffer PJRT_Buffer_ToHostBuffer",
     "pred, integers of 8 to 64 bits, f16, bf16 and f32 come back as they went", TypesCommon},
    {"buffers.types_wide", "PJRT_Client_BufferFromHostBuffer", "f64, c64 and c128 come back as they went", TypesWide},
    {"buffers.types_f8", "PJRT_Client_BufferFromHostBuffer", "the 8-bit floats come back as they went", TypesF8},
    {"buffers.types_narrow", "PJRT_Client_BufferFromHostBuffer",
     "types below a byte come back as they went, one element to a byte", TypesNarrow},
    {"buffers.type_refused", "PJRT_Client_BufferFromHostBuffer", "a type without elements gives an error", TypeRefused,
     0, true},
    {"buffers.ranks", "PJRT_Client_BufferFromHostBuffer", "ranks 0 to 8", Ranks},
    {"buffers.zero_size", "PJRT_Client_BufferFromHostBuffer", "arrays without elements", ZeroSize},
    {"buffers.metadata", "PJRT_Buffer_Dimensions", "a buffer knows its shape, size and place", Metadata},
    {"buffers.only_during_call", "PJRT_Client_BufferFromHostBuffer",
     "kImmutableOnlyDuringCall: the memory is the host's after the call", OnlyDuringCall},
    {"buffers.until_transfer", "PJRT_Client_BufferFromHostBuffer",
     "kImmutableUntilTransferCompletes: the memory is the host's after the event", UntilTransferCompletes},
    {"buffers.zero_copy", "PJRT_Client_BufferFromHostBuffer",
     "kImmutableZeroCopy: the memory is never written and comes free in the end", ZeroCopy},
    {"buffers.mutable_zero_copy", "PJRT_Client_BufferFromHostBuffer",
     "kMutableZeroCopy: the memory comes free in the end", MutableZeroCopy},
    {"buffers.strides_transposed", "PJRT_Client_BufferFromHostBuffer", "strides of a transposed array",
     StridesTransposed},
    {"buffers.strides_padded", "PJRT_Client_BufferFromHostBuffer", "strides of an array with gaps", StridesPadded},
    {"buffers.strides_negative", "PJRT_Client_BufferFromHostBuffer", "strides that go backwards", StridesNegative},
    {"buffers.strides_count", "PJRT_Client_BufferFromHostBuffer", "strides for another rank give an error",
     StridesCountWrong, 0, true},
    {"buffers.device_layout", "PJRT_Client_BufferFromHostBuffer", "a layout on the device of the host's choice",
     DeviceLayout},
    {"buffers.default_layout", "PJRT_Buffer_GetMemoryLayout", "the layout of a buffer can be read", DefaultLayout},
    {"buffers.host_layout", "PJRT_Buffer_ToHostBuffer", "the copy to the host has the layout asked for", HostLayout},
    {"buffers.host_strides", "PJRT_Buffer_ToHostBuffer", "the copy to the host has the strides asked for", HostStrides},
    {"buffers.size_query", "PJRT_Buffer_ToHostBuffer", "without a destination the size is told", SizeQuery},
    {"buffers.small_destination", "PJRT_Buffer_ToHostBuffer",
     "a destination too small gives an error and is not overrun", TooSmallDestination},
    {"buffers.read_again", "PJRT_Buffer_ToHostBuffer", "a buffer can be read again and again", ReadAgain},
    {"buffers.unaligned_destination", "PJRT_Buffer_ToHostBuffer", "a destination at an odd address",
     UnalignedDestination},
    {"buffers.unaligned_source", "PJRT_Client_BufferFromHostBuffer", "a source at an odd address", UnalignedSource},
    {"buffers.delete", "PJRT_Buffer_Delete PJRT_Buffer_IsDeleted",
     "a deleted buffer says so and still knows what it was", DeleteOnce},
    {"buffers.read_deleted", "PJRT_Buffer_Delete", "reading a deleted buffer gives an error", ReadDeleted},
    {"buffers.ready_deleted", "PJRT_Buffer_Delete PJRT_Buffer_ReadyEvent", "a deleted buffer is never ready",
     ReadyOfDeleted},
    {"buffers.destroy_unread", "PJRT_Buffer_Destroy", "a buffer may go at any time, also while it is read",
     DestroyUnread},
};

}  // namespace

absl::Span<const Check> BuffersSuite() { return kChecks; }

}  // namespace backplane::conformance
