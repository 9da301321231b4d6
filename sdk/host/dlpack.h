// DLPack 1.3: arrays handed between frameworks of one process without a copy where memory allows.
//
// The structs have the layout of the published C header (github.com/dmlc/dlpack, version 1.3; the unversioned form is
// that of 0.x) under names of our own, so that both headers can be included. A managed tensor owns itself: whoever
// holds it calls its deleter once, from any thread.
//
//   BP_ASSIGN_OR_RETURN(dlpack::Exported e, dlpack::Export(std::make_shared<const Buffer>(std::move(buffer))));
//   BP_ASSIGN_OR_RETURN(dlpack::Imported i, dlpack::Import(client, tensor));   // takes `tensor` over
//
// No copy is made when the memory can be read by the consumer as it lies; else a copy with its reason, or
// FAILED_PRECONDITION with that reason when no copy is wanted.
//
// Export waits for the contents, so that the consumer needs no stream of ours to wait on.
#ifndef BACKPLANE_SDK_HOST_DLPACK_H_
#define BACKPLANE_SDK_HOST_DLPACK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "sdk/host/client.h"

namespace backplane::host::dlpack {

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 3;

enum DeviceType : int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,  // pinned, readable by the host
  kRocm = 10,
  kRocmHost = 11,  // pinned, readable by the host
  kExtDev = 12,
  kCudaManaged = 13,
  kOneApi = 14,
};

struct DlDevice {
  int32_t device_type;  // a DeviceType, or a number this build does not know
  int32_t device_id;
};

enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaqueHandle = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E3m4 = 7,
  kFloat8E4m3 = 8,
  kFloat8E4m3b11fnuz = 9,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13,
  kFloat8E8m0fnu = 14,
  kFloat6E2m3fn = 15,
  kFloat6E3m2fn = 16,
  kFloat4E2m1fn = 17,
};

struct DataType {
  uint8_t code;  // a TypeCode
  uint8_t bits;  // of one lane; of both parts of a complex number
  uint16_t lanes;
};

struct Tensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: dense, last dimension fastest
  uint64_t byte_offset;
};

// The form of 0.x: capsules named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);  // may be null
};

inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2, kSubbytePadded = 4;

struct Version {
  uint32_t major, minor;
};

// The form since 1.0: capsules named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  Tensor tensor;
};

enum class Copy { kNever, kIfNeeded, kAlways };

// The type as DLPack says it, and back. UNIMPLEMENTED for types the other side does not have, and for lanes.
absl::StatusOr<DataType> ToDlpack(PJRT_Buffer_Type type);
absl::StatusOr<PJRT_Buffer_Type> FromDlpack(DataType type);

// The device as DLPack names it, by the client's platform: cuda, rocm or oneapi. UNIMPLEMENTED for others: a consumer
// would not know how to read their memory.
absl::StatusOr<DlDevice> DeviceOf(const Client& client, const Device& device);

struct ExportOptions {
  Copy copy = Copy::kIfNeeded;
  // What DLPack calls the device of memory that is not the host's, from DeviceOf; without it such memory is copied to
  // the host.
  std::optional<DlDevice> device;
  bool writable = false;  // without it the tensor is flagged read-only: other holders of the buffer see what is written
};

struct Exported {
  struct Delete {
    void operator()(ManagedTensorVersioned* tensor) const;
  };
  std::unique_ptr<ManagedTensorVersioned, Delete> tensor;
  bool copied = false;
  std::string reason;  // why it was copied
};
// The tensor keeps the buffer, its memory and its client until it is deleted. The buffer must not be deleted or donated
// by its other holders meanwhile; a plugin refuses to donate it.
absl::StatusOr<Exported> Export(std::shared_ptr<const Buffer> buffer, const ExportOptions& options = {});

struct ExportedUnversioned {
  struct Delete {
    void operator()(ManagedTensor* tensor) const;
  };
  std::unique_ptr<ManagedTensor, Delete> tensor;
  bool copied = false;
  std::string reason;
};
// For consumers of 0.x, who cannot see flags: UNIMPLEMENTED for padded types of less than a byte.
absl::StatusOr<ExportedUnversioned> ExportUnversioned(std::shared_ptr<const Buffer> buffer,
                                                      const ExportOptions& options = {});

struct ImportOptions {
  Copy copy = Copy::kIfNeeded;
  Place place;            // without one: the first addressable device
  size_t alignment = 64;  // bytes; memory aligned less is copied
  intptr_t stream = 0;    // of the client's platform, on which the contents become ready
};

struct Imported {
  Buffer buffer;
  bool copied = false;
  std::string reason;  // why it was copied
};
// On success the tensor is the buffer's: its deleter is called when the memory is not needed any more, after a copy at
// once. On an error it stays the caller's, untouched.
absl::StatusOr<Imported> Import(const Client& client, ManagedTensorVersioned* tensor,
                                const ImportOptions& options = {});
absl::StatusOr<Imported> Import(const Client& client, ManagedTensor* tensor, const ImportOptions& options = {});

}  // namespace backplane::host::dlpack

#endif  // BACKPLANE_SDK_HOST_DLPACK_H_
