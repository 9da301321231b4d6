// DLPack 1.3: exchange of arrays between frameworks in one process, without a copy if possible.
//
// The structs have the layout of the published C header (github.com/dmlc/dlpack, version 1.3; the unversioned form is
// that of 0.x) under our own names, so that both headers can be included. A managed tensor owns its memory: its holder
// calls the deleter once, from any thread.
//
//   BP_ASSIGN_OR_RETURN(dlpack::Exported e, dlpack::Export(std::make_shared<const Buffer>(std::move(buffer))));
//   BP_ASSIGN_OR_RETURN(dlpack::Imported i, dlpack::Import(client, tensor));   // takes ownership of `tensor`
//
// There is no copy if the consumer can read the memory as it is. Otherwise the result is a copy, with the reason, or
// FAILED_PRECONDITION with the reason if the caller permits no copy.
//
// Export waits until the contents of the buffer are available, so the consumer need not synchronize with a stream.
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
  int32_t device_type;  // a DeviceType, or an unknown number
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

// The unversioned form (0.x): capsules named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);  // may be null
};

inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2, kSubbytePadded = 4;

struct Version {
  uint32_t major, minor;
};

// The versioned form (since 1.0): capsules named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  Tensor tensor;
};

enum class Copy { kNever, kIfNeeded, kAlways };

// Convert the element type. Return UNIMPLEMENTED for types that the other side lacks, and for more than one lane.
absl::StatusOr<DataType> ToDlpack(PJRT_Buffer_Type type);
absl::StatusOr<PJRT_Buffer_Type> FromDlpack(DataType type);

// Returns the DLPack device for the client's platform: cuda, rocm or oneapi. Returns UNIMPLEMENTED for other platforms,
// because no consumer could read their memory.
absl::StatusOr<DlDevice> GetDlDevice(const Client& client, const Device& device);

struct ExportOptions {
  Copy copy = Copy::kIfNeeded;
  // The DLPack device of memory that is not host memory, from GetDlDevice. Without it such memory is copied to the
  // host.
  std::optional<DlDevice> device;
  // False: the tensor is marked read-only. True: other holders of the buffer see what the consumer writes.
  bool writable = false;
};

struct Exported {
  struct Delete {
    void operator()(ManagedTensorVersioned* tensor) const;
  };
  std::unique_ptr<ManagedTensorVersioned, Delete> tensor;
  bool copied = false;
  std::string reason;  // why it was copied
};
// The tensor keeps the buffer, its memory and its client alive until it is deleted. Other holders must not delete or
// donate the buffer meanwhile; a plugin refuses to donate it.
absl::StatusOr<Exported> Export(std::shared_ptr<const Buffer> buffer, const ExportOptions& options = {});

struct ExportedUnversioned {
  struct Delete {
    void operator()(ManagedTensor* tensor) const;
  };
  std::unique_ptr<ManagedTensor, Delete> tensor;
  bool copied = false;
  std::string reason;
};
// Exports the unversioned form, for consumers of DLPack 0.x. This form has no flags, so the function returns
// UNIMPLEMENTED for types smaller than a byte, which are padded.
absl::StatusOr<ExportedUnversioned> ExportUnversioned(std::shared_ptr<const Buffer> buffer,
                                                      const ExportOptions& options = {});

struct ImportOptions {
  Copy copy = Copy::kIfNeeded;
  Location location;      // default: the first addressable device
  size_t alignment = 64;  // in bytes; memory with less alignment is copied
  intptr_t stream = 0;    // a stream of the client's platform after which the contents are ready
};

struct Imported {
  Buffer buffer;
  bool copied = false;
  std::string reason;  // why it was copied
};
// On success the buffer owns the tensor: the deleter is called when its memory is not needed any more, or at once after
// a copy. On an error the caller still owns the tensor, unchanged.
absl::StatusOr<Imported> Import(const Client& client, ManagedTensorVersioned* tensor,
                                const ImportOptions& options = {});
absl::StatusOr<Imported> Import(const Client& client, ManagedTensor* tensor, const ImportOptions& options = {});

}  // namespace backplane::host::dlpack

#endif  // BACKPLANE_SDK_HOST_DLPACK_H_
