#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "sdk/host/dlpack.h"
#include "sdk/host/status.h"

namespace backplane::host::dlpack {
namespace {

constexpr int kMaxRank = 64;

// A tensor whose sizes and pointers have been checked.
struct CheckedTensor {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // in elements
  int64_t count = 0;
  char* data = nullptr;  // address of element zero
  DlDevice device;
  bool read_only = false, padded = false;
  // The dimensions from the fastest to the slowest, if the elements are dense in some order.
  std::optional<std::vector<int64_t>> minor_to_major;
};

absl::StatusOr<CheckedTensor> Check(const Tensor& tensor, uint64_t flags) {
  CheckedTensor c;
  BP_ASSIGN_OR_RETURN(c.type, FromDlpack(tensor.dtype));
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("dlpack: ", tensor.ndim, " dims, expected 0 to ", kMaxRank));
  }
  const size_t rank = static_cast<size_t>(tensor.ndim);
  if (rank > 0 && tensor.shape == nullptr)
    return absl::InvalidArgumentError("dlpack: the tensor has dims and no shape");
  c.dims.assign(tensor.shape, tensor.shape + rank);
  if (absl::StatusOr<size_t> size = HostByteSize(c.type, c.dims); !size.ok())
    return AddContext(size.status(), "dlpack");
  BP_ASSIGN_OR_RETURN(c.count, NumElements(c.dims));
  if (c.count > 0 && tensor.data == nullptr)
    return absl::InvalidArgumentError("dlpack: the tensor has elements and no data");
  c.data = static_cast<char*>(tensor.data) + (tensor.data != nullptr ? tensor.byte_offset : 0);
  c.device = tensor.device;
  c.read_only = (flags & kReadOnly) != 0;
  c.padded = (flags & kSubbytePadded) != 0;
  if (tensor.strides != nullptr) {
    c.strides.assign(tensor.strides, tensor.strides + rank);
  } else {
    c.strides.assign(rank, 1);
    for (size_t i = rank; i-- > 1;) c.strides[i - 1] = c.strides[i] * std::max<int64_t>(c.dims[i], 1);
  }
  std::vector<int64_t> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  // Dimensions of size 1 may have any stride. The stable sort keeps them, and equal strides, in row-major order.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return (c.dims[a] == 1 ? 0 : c.strides[a]) < (c.dims[b] == 1 ? 0 : c.strides[b]);
  });
  int64_t expected = 1;
  bool dense = true;
  for (int64_t dim : order) {
    if (c.dims[dim] == 1) continue;
    dense = dense && c.strides[dim] == expected;
    expected *= std::max<int64_t>(c.dims[dim], 1);
  }
  if (dense || c.count == 0) {
    if (c.count == 0) std::iota(order.rbegin(), order.rend(), 0);
    // Dimensions of size 1 came first. Puts all in an order that is row-major if possible.
    std::vector<int64_t> row_major(rank);
    std::iota(row_major.rbegin(), row_major.rend(), 0);
    auto real = [&](const std::vector<int64_t>& o) {
      std::vector<int64_t> dims;
      std::copy_if(o.begin(), o.end(), std::back_inserter(dims), [&](int64_t d) { return c.dims[d] != 1; });
      return dims;
    };
    c.minor_to_major = real(order) == real(row_major) ? row_major : order;
  }
  return c;
}

bool IsHost(const DlDevice& device) {
  return device.device_type == kCpu || device.device_type == kCudaHost || device.device_type == kRocmHost;
}

// Whether host memory can serve as memory of the given location.
absl::StatusOr<bool> IsHostLocation(const Client& client, const Location& location) {
  BP_ASSIGN_OR_RETURN(Buffer small, client.ToDevice(HostArray::Of<int32_t>({}, {0}), location));
  return small.IsOnCpu();
}

// Whether memory of that device belongs to the client's platform. `location` decides which of its devices is used.
bool SameDevice(const Client& client, const DlDevice& device) {
  absl::StatusOr<std::string> platform = client.PlatformName();
  if (!platform.ok()) return false;
  switch (device.device_type) {
    case kCuda:
    case kCudaManaged:
      return *platform == "cuda";
    case kRocm:
      return *platform == "rocm";
    case kOneApi:
      return *platform == "oneapi";
    default:
      return false;
  }
}

// Creates a view of the tensor's memory, or returns the reason why that is impossible. If there is a view, `release` is
// called once when the memory is no longer used.
absl::StatusOr<std::optional<std::string>> View(const Client& client, const CheckedTensor& c,
                                                const ImportOptions& options, std::function<void()> release,
                                                Imported* out) {
  if (BitsPerElement(c.type) < 8) return "elements of less than a byte may lie differently there";
  if (!c.minor_to_major.has_value()) return "its elements do not lie densely";
  if (c.count == 0) return "it has no elements";
  if (reinterpret_cast<uintptr_t>(c.data) % options.alignment != 0) {
    return absl::StrCat("its memory is not aligned to ", options.alignment, " bytes");
  }
  if (IsHost(c.device)) {
    BP_ASSIGN_OR_RETURN(const bool host, IsHostLocation(client, options.location));
    if (!host) return "the location's memory is not the host's";
  } else if (!SameDevice(client, c.device)) {
    return absl::StrCat("its device type ", c.device.device_type, " is not the client's");
  }
  if (c.read_only) {
    // A view could be written to, so immutable memory gets none.
    const bool row_major = std::is_sorted(c.minor_to_major->rbegin(), c.minor_to_major->rend());
    if (!row_major) return "it is read-only and not row-major";
    BP_ASSIGN_OR_RETURN(auto made, client.FromHost({c.data, c.type, c.dims, {}},
                                                   PJRT_HostBufferSemantics_kImmutableZeroCopy, options.location));
    // The plugin decides whether it uses the memory or a copy.
    absl::StatusOr<uintptr_t> address = made.first.UnsafePointer();
    if (!address.ok() || *address != reinterpret_cast<uintptr_t>(c.data)) {
      BP_RETURN_IF_ERROR(made.second.Await());  // after the copy the caller owns the tensor again
      return "the plugin copies memory that it may not write to";
    }
    BP_RETURN_IF_ERROR(made.second.OnReady([release = std::move(release)](absl::Status) { release(); }));
    out->buffer = std::move(made.first);
    return std::nullopt;
  }
  absl::StatusOr<Buffer> view =
      client.View({c.data, c.type, c.dims, *c.minor_to_major, IsHost(c.device) ? 0 : options.stream},
                  std::move(release), options.location);
  if (!view.ok()) return std::string(view.status().message());
  out->buffer = *std::move(view);
  return std::nullopt;
}

// Converts densely packed elements, the first in the low bits, to one byte each.
std::vector<std::byte> Unpack(const char* data, int64_t count, int bits) {
  std::vector<std::byte> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits;
    const unsigned low = static_cast<unsigned char>(data[bit / 8]) >> (bit % 8);
    // Elements of six bits may be split across two bytes.
    const unsigned high =
        bit % 8 + bits > 8 ? static_cast<unsigned>(static_cast<unsigned char>(data[bit / 8 + 1])) << (8 - bit % 8) : 0;
    out[i] = static_cast<std::byte>((low | high) & ((1u << bits) - 1));
  }
  return out;
}

absl::StatusOr<Buffer> CopyIn(const Client& client, const CheckedTensor& c, const Location& location) {
  if (!IsHost(c.device)) {
    return absl::UnimplementedError(absl::StrCat("dlpack: memory of device type ", c.device.device_type,
                                                 " cannot be read from here; hand over a tensor in host memory"));
  }
  const int bits = BitsPerElement(c.type);
  if (bits < 8 && !c.padded) {
    const bool row_major =
        c.minor_to_major.has_value() && std::is_sorted(c.minor_to_major->rbegin(), c.minor_to_major->rend());
    if (!row_major) return absl::UnimplementedError("dlpack: packed elements of less than a byte with strides");
    const std::vector<std::byte> bytes = Unpack(c.data, c.count, bits);
    return client.ToDevice(HostView{bytes.data(), c.type, c.dims, {}}, location);
  }
  std::vector<int64_t> byte_strides = c.strides;
  for (int64_t& stride : byte_strides) {
    if (__builtin_mul_overflow(stride, static_cast<int64_t>(HostBytesPerElement(c.type)), &stride)) {
      return absl::InvalidArgumentError("dlpack: a stride is too large");
    }
  }
  const bool row_major =
      c.minor_to_major.has_value() && std::is_sorted(c.minor_to_major->rbegin(), c.minor_to_major->rend());
  // For zero elements any address would do, but some plugins refuse a null pointer.
  static char nothing;
  const void* data = c.count == 0 ? &nothing : c.data;
  return client.ToDevice(HostView{data, c.type, c.dims, row_major ? absl::Span<const int64_t>() : byte_strides},
                         location);
}

absl::StatusOr<Imported> ImportTensor(const Client& client, const Tensor& tensor, uint64_t flags,
                                      const ImportOptions& options, const std::function<void()>& release) {
  BP_ASSIGN_OR_RETURN(const CheckedTensor c, Check(tensor, flags));
  Imported out;
  std::optional<std::string> reason = "a copy was asked for";
  if (options.copy != Copy::kAlways) {
    BP_ASSIGN_OR_RETURN(reason, View(client, c, options, release, &out));
    if (!reason.has_value()) return out;
  }
  if (options.copy == Copy::kNever) {
    return absl::FailedPreconditionError(
        absl::StrCat("dlpack: ", FormatShape(c.type, c.dims), " needs a copy: ", *reason));
  }
  BP_ASSIGN_OR_RETURN(out.buffer, CopyIn(client, c, options.location));
  out.copied = true;
  out.reason = *std::move(reason);
  release();
  return out;
}

}  // namespace

absl::StatusOr<Imported> Import(const Client& client, ManagedTensorVersioned* tensor, const ImportOptions& options) {
  if (tensor == nullptr) return absl::InvalidArgumentError("dlpack: no tensor");
  // Of a tensor with another major version only the fields before the flags are known. They suffice to free it, but not
  // to read it.
  if (tensor->version.major != kMajorVersion) {
    return absl::UnimplementedError(absl::StrCat("dlpack: tensor of version ", tensor->version.major, ".",
                                                 tensor->version.minor, ", expected major version ", kMajorVersion));
  }
  return ImportTensor(client, tensor->tensor, tensor->flags, options, [tensor] {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
}

absl::StatusOr<Imported> Import(const Client& client, ManagedTensor* tensor, const ImportOptions& options) {
  if (tensor == nullptr) return absl::InvalidArgumentError("dlpack: no tensor");
  return ImportTensor(client, tensor->tensor, 0, options, [tensor] {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
}

}  // namespace backplane::host::dlpack
