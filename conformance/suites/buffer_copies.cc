// Buffers created from other buffers, from existing memory or uninitialized; addresses and external references.
#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "conformance/kit/device_image.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

const std::vector<float> kData = {1, 2, 3, 4};

void CopyToDevice(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  KIT_ARGS(k, a, PJRT_Buffer_CopyToDevice);
  a.buffer = b;
  a.dst_device = k.device(1);
  KIT_OK(k, PJRT_Buffer_CopyToDevice, a);
  k.Require(GetDevice(k, a.dst_buffer) == k.device(1), "the copy is on another device than asked for");
  Destroy(k, b);
  k.Require(GetAs<float>(k, a.dst_buffer) == kData, "the copy has other contents");
}

void CopyToMemory(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  PJRT_Memory* here = GetMemory(k, b);
  std::vector<PJRT_Memory*> others;
  for (PJRT_Device* d : k.devices()) {
    for (PJRT_Memory* m : GetMemories(k, d)) {
      if (m != here && std::count(others.begin(), others.end(), m) == 0) others.push_back(m);
    }
  }
  if (others.empty()) k.Skip("there is one memory only");
  for (PJRT_Memory* m : others) {
    KIT_ARGS(k, a, PJRT_Buffer_CopyToMemory);
    a.buffer = b;
    a.dst_memory = m;
    KIT_OK(k, PJRT_Buffer_CopyToMemory, a);
    k.Require(GetMemory(k, a.dst_buffer) == m, "the copy is in another memory than asked for");
    k.Require(GetAs<float>(k, a.dst_buffer) == kData, "the copy in ", GetKind(k, m), " has other contents");
    Destroy(k, a.dst_buffer);
  }
}

void CopyIsItsOwn(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  KIT_ARGS(k, a, PJRT_Buffer_CopyToMemory);
  a.buffer = b;
  a.dst_memory = DefaultMemory(k, k.device(1));
  KIT_OK(k, PJRT_Buffer_CopyToMemory, a);
  Delete(k, b);
  k.Require(GetAs<float>(k, a.dst_buffer) == kData, "the copy is gone with what it was copied from");
}

void ExternalReference(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  Await(k, ReadyEvent(k, b), "the buffer");
  KIT_ARGS(k, up, PJRT_Buffer_IncreaseExternalReferenceCount);
  up.buffer = b;
  KIT_OK(k, PJRT_Buffer_IncreaseExternalReferenceCount, up);
  KIT_ARGS(k, p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  p.buffer = b;
  KIT_OK(k, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p);
  k.Require(p.device_memory_ptr != nullptr, "the address of the memory is null");
  if (IsOnCpu(k, b))
    k.Require(std::memcmp(p.device_memory_ptr, kData.data(), 16) == 0, "the memory at the address has other contents");
  KIT_ARGS(k, down, PJRT_Buffer_DecreaseExternalReferenceCount);
  down.buffer = b;
  KIT_OK(k, PJRT_Buffer_DecreaseExternalReferenceCount, down);
  KIT_FAILS(k, PJRT_Buffer_DecreaseExternalReferenceCount, down, "a count of zero");
}

void ReferenceHolds(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {1024}, std::vector<float>(1024, 5.0f));
  if (!IsOnCpu(k, b)) k.Skip("the host cannot see this memory");
  Await(k, ReadyEvent(k, b), "the buffer");
  KIT_ARGS(k, up, PJRT_Buffer_IncreaseExternalReferenceCount);
  up.buffer = b;
  KIT_OK(k, PJRT_Buffer_IncreaseExternalReferenceCount, up);
  KIT_ARGS(k, p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  p.buffer = b;
  KIT_OK(k, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p);
  Delete(k, b);
  std::vector<PJRT_Buffer*> others;
  for (int i = 0; i < 64; ++i) others.push_back(Put<float>(k, {1024}, std::vector<float>(1024, -1.0f)));
  const auto* data = static_cast<const float*>(p.device_memory_ptr);
  for (int i = 0; i < 1024; ++i)
    k.Require(data[i] == 5.0f,
              "memory that is referenced from outside was given to others after its buffer was deleted");
  KIT_ARGS(k, down, PJRT_Buffer_DecreaseExternalReferenceCount);
  down.buffer = b;
  KIT_OK(k, PJRT_Buffer_DecreaseExternalReferenceCount, down);
}

void UnsafePointer(Kit& k) {
  PJRT_Buffer *one = Put<float>(k, {4}, kData), *two = Put<float>(k, {4}, kData);
  const auto pointer = [&](PJRT_Buffer* b) {
    KIT_ARGS(k, a, PJRT_Buffer_UnsafePointer);
    a.buffer = b;
    KIT_OK(k, PJRT_Buffer_UnsafePointer, a);
    return a.buffer_pointer;
  };
  k.Require(pointer(one) == pointer(one), "two calls give different addresses");
  k.Require(pointer(one) != pointer(two), "two buffers have one address");
}

std::atomic<int> gone{0};

PJRT_Buffer* View(Kit& k, void* memory, int64_t count) {
  const Dims dims = {count};
  KIT_ARGS(k, a, PJRT_Client_CreateViewOfDeviceBuffer);
  a.client = k.client();
  a.device_buffer_ptr = memory;
  a.dims = dims.data();
  a.num_dims = 1;
  a.element_type = PJRT_Buffer_Type_F32;
  a.device = k.device();
  a.on_delete_callback = [](void*, void* arg) { static_cast<std::atomic<int>*>(arg)->fetch_add(1); };
  a.on_delete_callback_arg = &gone;
  KIT_OK(k, PJRT_Client_CreateViewOfDeviceBuffer, a);
  k.Require(a.buffer != nullptr, "succeeded without a buffer");
  return a.buffer;
}

void ViewOfMemory(Kit& k) {
  PJRT_Buffer* probe = Put<float>(k, {4}, kData);
  if (!IsOnCpu(k, probe)) k.Skip("memory of the host is not memory of this device");
  auto* memory = static_cast<float*>(std::aligned_alloc(4096, 4096));
  std::fill(memory, memory + 1024, 3.0f);
  PJRT_Buffer* b = View(k, memory, 1024);
  k.Require(GetAs<float>(k, b) == std::vector<float>(1024, 3.0f), "the view has other contents than the memory");
  k.Require(gone == 0, "the memory was given back while the view lives");
  Destroy(k, b);
  k.Require(WaitFor(5, [] { return gone > 0; }),
            "the memory was not given back within 5 s after the view was destroyed");
  WaitFor(0.05, [] { return gone > 1; });
  k.Require(gone == 1, "the memory was given back ", gone.load(), " times");
  std::free(memory);
}

void ViewAsArgument(Kit& k) {
  PJRT_Buffer* probe = Put<float>(k, {4}, kData);
  if (!IsOnCpu(k, probe)) k.Skip("memory of the host is not memory of this device");
  auto* memory = static_cast<float*>(std::aligned_alloc(4096, 4096));
  std::copy(kData.begin(), kData.end(), memory);
  PJRT_Buffer* view = View(k, memory, 4);
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  const auto outputs = Execute(k, add, {view, probe});
  k.Require(GetAs<float>(k, outputs[0]) == std::vector<float>({2, 4, 6, 8}),
            "an execution on a view gives wrong results");
  k.Require(std::equal(kData.begin(), kData.end(), memory), "an execution wrote to memory it was only to read");
  Destroy(k, view);
  k.Require(WaitFor(5, [] { return gone == 1; }), "the memory was not given back");
}

// A host may ask for a view of the elements after the first, as `t[1:]` of a tensor is. A plugin whose kernels need
// more than the natural alignment refuses it.
void ViewWithinArray(Kit& k) {
  std::vector<float> numbers(130, 0.0f);
  numbers[1] = 1;
  PJRT_Buffer* whole = Put<float>(k, {130}, numbers);
  KIT_ARGS(k, p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  p.buffer = whole;
  KIT_OK(k, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p);
  PJRT_LoadedExecutable* transform = nullptr;
  const Err compiled = TryCompile(k, R"(func.func @main(%x: tensor<64xcomplex<f32>>) -> tensor<64xf32> {
  %y = stablehlo.fft %x, type = FFT, length = [64] : (tensor<64xcomplex<f32>>) -> tensor<64xcomplex<f32>>
  %r = stablehlo.real %y : (tensor<64xcomplex<f32>>) -> tensor<64xf32>
  return %r : tensor<64xf32>
})",
                                  "mlir", PlainOptions(k).Serialize(), &transform);
  if (!compiled.ok()) k.Skip("no transform of c64: ", FormatError(compiled));
  const Dims dims = {64};
  KIT_ARGS(k, a, PJRT_Client_CreateViewOfDeviceBuffer);
  a.client = k.client();
  a.device_buffer_ptr = static_cast<float*>(p.device_memory_ptr) + 1;
  a.dims = dims.data();
  a.num_dims = 1;
  a.element_type = PJRT_Buffer_Type_C64;
  a.device = k.device();
  const Err made = KIT_TRY(k, PJRT_Client_CreateViewOfDeviceBuffer, a);
  if (!made.ok()) {
    k.Require(a.buffer == nullptr, "an error and a buffer");
    return k.Note(FormatError(made));
  }
  const auto outputs = Execute(k, transform, {a.buffer});
  k.Require(GetAs<float>(k, outputs[0]) == std::vector<float>(64, 1.0f),
            "an execution on a view that begins within an array gives wrong results");
}

void Uninitialized(Kit& k) {
  const Dims dims = {2, 3};
  KIT_ARGS(k, a, PJRT_Client_CreateUninitializedBuffer);
  a.client = k.client();
  a.shape_dims = dims.data();
  a.shape_num_dims = 2;
  a.shape_element_type = PJRT_Buffer_Type_S32;
  a.device = k.device();
  KIT_OK(k, PJRT_Client_CreateUninitializedBuffer, a);
  k.Require(FormatShape(k, a.buffer) == "s32[2,3]", "the shape is ", FormatShape(k, a.buffer));
  k.Require(Get(k, a.buffer).size() == 24, "the buffer cannot be read");
}

// A buffer of f32 with an error created by the kit. The call reads `dims`.
PJRT_Client_CreateErrorBuffer_Args ErrorArgs(Kit& k, const Dims& dims) {
  KIT_ARGS(k, a, PJRT_Client_CreateErrorBuffer);
  a.client = k.client();
  a.error_code = PJRT_Error_Code_DATA_LOSS;
  a.error_message = "the kit's own words";
  a.error_message_size = std::strlen(a.error_message);
  a.shape_dims = dims.data();
  a.shape_num_dims = dims.size();
  a.shape_element_type = PJRT_Buffer_Type_F32;
  a.memory = DefaultMemory(k, k.device());
  return a;
}

void ErrorBuffer(Kit& k) {
  const Dims dims = {4};
  PJRT_Client_CreateErrorBuffer_Args a = ErrorArgs(k, dims);
  KIT_OK(k, PJRT_Client_CreateErrorBuffer, a);
  k.Require(FormatShape(k, a.buffer) == "f32[4]", "the shape is ", FormatShape(k, a.buffer));
  const Err e = Outcome(k, ReadyEvent(k, a.buffer));
  k.Require(!e.ok(), "a buffer made with an error is ready without one");
  k.Require(e.code == PJRT_Error_Code_DATA_LOSS, "the code DATA_LOSS became ", CodeName(e.code));
  k.Require(e.message.find("the kit's own words") != std::string::npos, "the message was lost: '", e.message, "'");
  float room[4];
  KIT_ARGS(k, h, PJRT_Buffer_ToHostBuffer);
  h.src = a.buffer;
  h.dst = room;
  h.dst_size = 16;
  Err read = KIT_TRY(k, PJRT_Buffer_ToHostBuffer, h);
  if (read.ok()) read = Outcome(k, h.event);
  k.Require(!read.ok(), "a buffer made with an error can be read");
}

void ErrorBufferLayout(Kit& k) {
  if (k.minor() < 117) k.Unsupported("error buffers have a device layout since minor 0.117, this is 0.", k.minor());
  const Dims dims = {2, 3}, given = {0, 1}, outdated = {1, 0};
  PJRT_Buffer_MemoryLayout device_layout = MakeLayout(given), shape_layout = MakeLayout(outdated);
  PJRT_Client_CreateErrorBuffer_Args a = ErrorArgs(k, dims);
  a.shape_layout = &shape_layout;
  a.device_layout = &device_layout;
  KIT_OK(k, PJRT_Client_CreateErrorBuffer, a);
  KIT_ARGS(k, l, PJRT_Buffer_GetMemoryLayout);
  l.buffer = a.buffer;
  KIT_OK(k, PJRT_Buffer_GetMemoryLayout, l);
  k.Require(l.layout.type == PJRT_Buffer_MemoryLayout_Type_Tiled && l.layout.tiled.minor_to_major_size == 2 &&
                l.layout.tiled.minor_to_major[0] == 0,
            "the buffer has another layout than its device layout");
}

void ErrorTravels(Kit& k) {
  const Dims dims = {4};
  PJRT_Client_CreateErrorBuffer_Args a = ErrorArgs(k, dims);
  KIT_OK(k, PJRT_Client_CreateErrorBuffer, a);
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  Launch launch;
  launch.executable = add;
  launch.arguments = {{a.buffer, Put<float>(k, {4}, kData)}};
  Err e = TryExecute(k, &launch);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, launch.outputs[0][0]));
  k.Require(!e.ok(), "an execution on a buffer that has an error gives a result without one");
  k.Require(e.message.find("the kit's own words") != std::string::npos,
            "the reason was lost on its way: ", FormatError(e));
}

PJRT_Client_CreateAliasBuffer_Args Alias(Kit& k) {
  static const Dims dims = {4}, order = {0};
  static PJRT_Buffer_MemoryLayout layout = MakeLayout(order);
  KIT_ARGS(k, a, PJRT_Client_CreateAliasBuffer);
  a.shape_layout = &layout;
  a.client = k.client();
  a.memory = DefaultMemory(k, k.device());
  a.shape_dims = dims.data();
  a.shape_num_dims = 1;
  a.shape_element_type = PJRT_Buffer_Type_F32;
  KIT_OK(k, PJRT_Client_CreateAliasBuffer, a);
  return a;
}

void AliasFulfilled(Kit& k) {
  const auto alias = Alias(k);
  PJRT_Event* ready = ReadyEvent(k, alias.alias_buffer);
  k.Require(!IsReady(k, ready), "an alias is ready before it stands for anything");
  PJRT_Buffer* real = Put<float>(k, {4}, kData);
  KIT_ARGS(k, f, PJRT_Client_FulfillAliasBuffer);
  f.client = k.client();
  f.buffer = real;
  f.status_code = PJRT_Error_Code_OK;
  f.fulfill_alias_buffer_cb = alias.fulfill_alias_buffer_cb;
  KIT_OK(k, PJRT_Client_FulfillAliasBuffer, f);
  Await(k, ready, "the alias");
  k.Require(GetAs<float>(k, alias.alias_buffer) == kData, "the alias has other contents than what it stands for");
}

void AliasFails(Kit& k) {
  const auto alias = Alias(k);
  KIT_ARGS(k, f, PJRT_Client_FulfillAliasBuffer);
  f.client = k.client();
  f.status_code = PJRT_Error_Code_ABORTED;
  f.error_message = "never came";
  f.error_message_size = 10;
  f.fulfill_alias_buffer_cb = alias.fulfill_alias_buffer_cb;
  KIT_OK(k, PJRT_Client_FulfillAliasBuffer, f);
  const Err e = Outcome(k, ReadyEvent(k, alias.alias_buffer));
  k.Require(e.code == PJRT_Error_Code_ABORTED, "an alias that will never be anything gives ", FormatError(e),
            ", expected ABORTED");
}

void Bitcast(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  const Dims dims = {2, 2};
  KIT_ARGS(k, a, PJRT_Buffer_Bitcast);
  a.buffer = b;
  a.element_type = PJRT_Buffer_Type_S32;
  a.dims = dims.data();
  a.num_dims = 2;
  KIT_OK(k, PJRT_Buffer_Bitcast, a);
  k.Require(FormatShape(k, a.out_buffer) == "s32[2,2]", "the shape is ", FormatShape(k, a.out_buffer),
            ", expected s32[2,2]");
  const std::string bytes = Get(k, a.out_buffer);
  k.Require(bytes.size() == 16 && std::memcmp(bytes.data(), kData.data(), 16) == 0, "the bytes have changed");
}

void BitcastWrongSize(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, kData);
  const Dims dims = {5};
  KIT_ARGS(k, a, PJRT_Buffer_Bitcast);
  a.buffer = b;
  a.element_type = PJRT_Buffer_Type_S32;
  a.dims = dims.data();
  a.num_dims = 1;
  KIT_FAILS(k, PJRT_Buffer_Bitcast, a, "16 bytes as s32[5]", PJRT_Error_Code_INVALID_ARGUMENT);
}

void DonateWithDependency(Kit& k) {
  for (bool fails : {false, true}) {
    PJRT_Buffer* b = Put<float>(k, {4}, kData);
    Await(k, ReadyEvent(k, b), "the buffer");
    KIT_ARGS(k, a, PJRT_Buffer_DonateWithControlDependency);
    a.buffer = b;
    KIT_OK(k, PJRT_Buffer_DonateWithControlDependency, a);
    k.Require(a.dependency_ready_callback != nullptr, "no callback to say that the dependency is over");
    k.Require(IsDeleted(k, b), "the donated buffer is still alive");
    PJRT_Event* ready = ReadyEvent(k, a.out_buffer);
    k.Require(!IsReady(k, ready), "the new buffer is ready before its dependency");
    PJRT_Buffer_DonateWithControlDependency_Callback_Args c{};
    c.struct_size = PJRT_Buffer_DonateWithControlDependency_Callback_Args_STRUCT_SIZE;
    c.callback_data = a.callback_data;
    c.error_code = fails ? PJRT_Error_Code_ABORTED : PJRT_Error_Code_OK;
    c.error_message = fails ? "no" : nullptr;
    c.error_message_size = fails ? 2 : 0;
    a.dependency_ready_callback(&c);
    const Err e = Outcome(k, ready);
    k.Require(e.ok() == !fails, fails ? "the error of the dependency was lost" : FormatError(e));
    if (!fails) k.Require(GetAs<float>(k, a.out_buffer) == kData, "the new buffer has other contents");
    Destroy(k, a.out_buffer);
  }
}

// Elements [begin, end) of s32[6] {1, 2, 3, 4, 5, 6} and their byte range according to the buffer's layout.
struct RawPart {
  size_t begin, end;
  DeviceImage image;
  int64_t first, size;
  std::string bytes;  // destination of the copy

  RawPart(Kit& k, PJRT_Buffer* b, size_t from, size_t to) : begin(from), end(to), image(ReadDeviceImage(k, b)) {
    first = image.GetBegin(begin, end);
    size = image.GetEnd(begin, end, 4) - first;
    bytes.assign(static_cast<size_t>(size), '\x7f');
  }
  void Judge(Kit& k) const {
    for (size_t i = begin; i < end; ++i) {
      int32_t value;
      std::memcpy(&value, bytes.data() + image.offsets[i] - first, sizeof(value));
      k.Require(value == static_cast<int32_t>(i + 1), "bytes ", image.offsets[i], " to ", image.offsets[i] + 4,
                " of s32[6] are ", value, ", expected ", i + 1);
    }
  }
};

void RawToHost(Kit& k) {
  PJRT_Buffer* b = Put<int32_t>(k, {6}, {1, 2, 3, 4, 5, 6});
  RawPart part(k, b, 2, 4);
  KIT_ARGS(k, a, PJRT_Buffer_CopyRawToHost);
  a.buffer = b;
  a.dst = part.bytes.data();
  a.offset = part.first;
  a.transfer_size = part.size;
  KIT_OK(k, PJRT_Buffer_CopyRawToHost, a);
  Await(k, a.event, "the copy");
  part.Judge(k);
}

void RawOutOfRange(Kit& k) {
  PJRT_Buffer* b = Put<int32_t>(k, {6}, {1, 2, 3, 4, 5, 6});
  char room[64];
  int64_t bytes = ReadDeviceImage(k, b).bytes;
  if (k.Has(&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes)) {
    KIT_ARGS(k, s, PJRT_Buffer_OnDeviceSizeInBytes);
    s.buffer = b;
    if (KIT_TRY(k, PJRT_Buffer_OnDeviceSizeInBytes, s).ok())
      bytes = std::max(bytes, static_cast<int64_t>(s.on_device_size_in_bytes));
  }
  for (const auto& [offset, size] :
       std::vector<std::pair<int64_t, int64_t>>{{bytes - 4, 8}, {-4, 8}, {0, int64_t{1} << 40}, {INT64_MAX - 2, 8}}) {
    KIT_ARGS(k, a, PJRT_Buffer_CopyRawToHost);
    a.buffer = b;
    a.dst = room;
    a.offset = offset;
    a.transfer_size = size;
    Err e = KIT_TRY(k, PJRT_Buffer_CopyRawToHost, a);
    if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported(FormatError(e));
    if (e.ok()) e = Outcome(k, a.event);
    k.Require(!e.ok(), size, " bytes at offset ", offset, " of a buffer of ", bytes, " were copied");
  }
}

void RawFuture(Kit& k) {
  PJRT_Buffer* b = Put<int32_t>(k, {6}, {1, 2, 3, 4, 5, 6});
  RawPart part(k, b, 1, 3);
  KIT_ARGS(k, a, PJRT_Buffer_CopyRawToHostFuture);
  a.buffer = b;
  a.offset = part.first;
  a.transfer_size = part.size;
  KIT_OK(k, PJRT_Buffer_CopyRawToHostFuture, a);
  k.Require(a.future_ready_callback != nullptr && a.event != nullptr, "no callback or no event");
  k.Require(!IsReady(k, a.event), "the copy is complete before its destination is known");
  PJRT_Buffer_CopyRawToHostFuture_Callback_Args c{};
  c.struct_size = PJRT_Buffer_CopyRawToHostFuture_Callback_Args_STRUCT_SIZE;
  c.callback_data = a.callback_data;
  c.dst = part.bytes.data();
  a.future_ready_callback(&c);
  Await(k, a.event, "the copy");
  part.Judge(k);
}

void DmaMap(Kit& k) {
  void* memory = std::aligned_alloc(4096, 8192);
  KIT_ARGS(k, a, PJRT_Client_DmaMap);
  a.client = k.client();
  a.data = memory;
  a.size = 8192;
  KIT_OK(k, PJRT_Client_DmaMap, a);
  KIT_ARGS(k, u, PJRT_Client_DmaUnmap);
  u.client = k.client();
  u.data = memory;
  KIT_OK(k, PJRT_Client_DmaUnmap, u);
  std::free(memory);
}

constexpr Check kChecks[] = {
    {"copies.to_device", "devices:2 PJRT_Buffer_CopyToDevice", "a copy on another device", CopyToDevice},
    {"copies.to_memory", "PJRT_Buffer_CopyToMemory", "copies in all other memories", CopyToMemory},
    {"copies.own", "devices:2 PJRT_Buffer_CopyToMemory PJRT_Buffer_Delete", "a copy outlives what it was copied from",
     CopyIsItsOwn},
    {"copies.external_reference",
     "PJRT_Buffer_IncreaseExternalReferenceCount PJRT_Buffer_OpaqueDeviceMemoryDataPointer "
     "PJRT_Buffer_DecreaseExternalReferenceCount",
     "with a reference from outside the memory has an address", ExternalReference},
    {"copies.reference_holds", "PJRT_Buffer_IncreaseExternalReferenceCount PJRT_Buffer_Delete",
     "memory with a reference from outside is not given to others", ReferenceHolds},
    {"copies.unsafe_pointer", "PJRT_Buffer_UnsafePointer", "an address tells buffers apart", UnsafePointer},
    {"copies.view", "PJRT_Client_CreateViewOfDeviceBuffer", "a view shows the memory and gives it back once",
     ViewOfMemory},
    {"copies.view_argument", "PJRT_Client_CreateViewOfDeviceBuffer", "a view is an argument like any other",
     ViewAsArgument},
    {"copies.view_within_array", "PJRT_Client_CreateViewOfDeviceBuffer PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
     "a view may begin within an array, or is refused", ViewWithinArray},
    {"copies.uninitialized", "PJRT_Client_CreateUninitializedBuffer", "a buffer with any contents", Uninitialized},
    {"copies.error_buffer", "PJRT_Client_CreateErrorBuffer", "a buffer made with an error gives that error",
     ErrorBuffer},
    {"copies.error_buffer_layout", "PJRT_Client_CreateErrorBuffer PJRT_Buffer_GetMemoryLayout",
     "a buffer made with an error has the device layout that was asked for", ErrorBufferLayout},
    {"copies.error_travels", "PJRT_Client_CreateErrorBuffer",
     "the error of an argument becomes the error of the results", ErrorTravels},
    {"copies.alias", "PJRT_Client_CreateAliasBuffer PJRT_Client_FulfillAliasBuffer",
     "an alias becomes what it stands for", AliasFulfilled},
    {"copies.alias_fails", "PJRT_Client_CreateAliasBuffer PJRT_Client_FulfillAliasBuffer",
     "an alias that fails gives the error", AliasFails},
    {"copies.bitcast", "PJRT_Buffer_Bitcast", "the same bytes with another shape", Bitcast},
    {"copies.bitcast_size", "PJRT_Buffer_Bitcast", "a bitcast to another size gives an error", BitcastWrongSize},
    {"copies.donate_with_dependency", "PJRT_Buffer_DonateWithControlDependency",
     "a donated buffer waits for its dependency and takes its error", DonateWithDependency},
    {"copies.raw_to_host", "PJRT_Buffer_CopyRawToHost", "a part of the bytes", RawToHost},
    {"copies.raw_range", "PJRT_Buffer_CopyRawToHost", "bytes outside the buffer give an error", RawOutOfRange},
    {"copies.raw_future", "PJRT_Buffer_CopyRawToHostFuture", "a copy whose destination comes later", RawFuture},
    {"copies.dma_map", "PJRT_Client_DmaMap PJRT_Client_DmaUnmap", "memory of the host can be mapped and unmapped",
     DmaMap},
};

}  // namespace

absl::Span<const Check> BufferCopiesSuite() { return kChecks; }

}  // namespace backplane::conformance
