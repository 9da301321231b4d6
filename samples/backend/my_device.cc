// The same kernels on a device with its own memory. The device is simulated: its addresses are invalid on the host, so
// dereferencing one outside of a kernel ends the process.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "samples/backend/kernels.h"
#include "sdk/backend/mixed/mixed_backend.h"

namespace {

constexpr uintptr_t kWindow = uintptr_t{1} << 62;  // not an address of any x86-64 or ARM process

void* Outside(const void* inside) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(inside) + kWindow); }
void* Inside(const void* outside) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(outside) - kWindow); }

class MyMemory : public backplane::DeviceMemory {
 public:
  absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) override {
    void* inside = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (inside == nullptr) return absl::ResourceExhaustedError("my_device: the memory is full");
    return Outside(inside);
  }
  void Free(int32_t device, void* address, size_t bytes) override { std::free(Inside(address)); }
  absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) override {
    std::memcpy(Inside(address), host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) override {
    std::memcpy(host, Inside(address), bytes);
    return absl::OkStatus();
  }
};

// Translates the addresses of the arrays for a kernel, as the device would.
backplane::mixed::Kernel OnDevice(backplane::mixed::Kernel kernel) {
  return [kernel = std::move(kernel)](const backplane::mixed::KernelArrays& arrays) {
    backplane::mixed::KernelArrays inside = arrays;
    for (const void*& operand : inside.operands) operand = Inside(operand);
    for (void*& result : inside.results) result = Inside(result);
    return kernel(inside);
  };
}

}  // namespace

namespace backplane {

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  mixed::Options options;
  options.platform_name = "my_device";
  options.version = "my_device 0.1.0";
  options.memory = std::make_shared<MyMemory>();
  const mixed::Claims claims = my::MyClaims();
  for (const mixed::Region& region : claims.regions()) options.claims.AddRegion(region);
  for (mixed::Claim claim : claims.claims()) {
    claim.make = [make = claim.make](const Instruction& op) -> absl::StatusOr<mixed::Kernel> {
      absl::StatusOr<mixed::Kernel> kernel = make(op);
      if (!kernel.ok()) return kernel;
      return OnDevice(*std::move(kernel));
    };
    options.claims.Add(std::move(claim));
  }
  return mixed::MakeBackend(std::move(options), std::move(services));
}

}  // namespace backplane
