#include "plugins/tpu_emulator/plugin/client.h"

#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/tiled_copy.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/strided_copy.h"
#include "sdk/engine/backend/client.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kExitMilliseconds = 3000;

bool IsTiled(const Shape& shape) { return shape.IsArray() && shape.has_layout() && !shape.layout().tiles.empty(); }

bool HasStorage(const DeviceArray& array) {
  return array.storage != nullptr && array.storage->size() >= StorageBytes(array.shape);
}

}  // namespace

// Programs may still be running. They own what they need, but per-process state ends with the process.
EmulatorClient::~EmulatorClient() {
  EmulatorClient::Close();
  engine::Runtime::Get().WaitUntilIdle(kExitMilliseconds);
}

void EmulatorClient::Close() {
  if (group_ != nullptr) group_->Leave();
}

// Handles the common case of a dense host array and a tiled device array. MemorySpaces handles all others and errors.
absl::Status EmulatorClient::CopyFromHost(const HostArray& src, const DeviceArray& dst) {
  const bool is_common_case =
      IsTiled(dst.shape) && HasStorage(dst) &&
      backplane::IsDenseRowMajor(src.dims, static_cast<size_t>(ByteWidth(src.type)), src.byte_strides) &&
      src.type == dst.shape.element_type() && src.dims == dst.shape.dimensions();
  if (!is_common_case) return memories_->CopyFromHost(src, dst);
  if (dst.shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(TiledCopy copy, TiledCopy::Plan(dst.shape, TiledCopy::Direction::kToTiled));
  copy.Run(src.data, dst.storage->data(), &engine::Runtime::Get().pool);
  return absl::OkStatus();
}

absl::Status EmulatorClient::CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  const Shape& host = host_shape_with_layout;
  const bool is_common_case = IsTiled(src.shape) && HasStorage(src) && host == src.shape && host.IsRowMajor();
  if (!is_common_case) return memories_->CopyToHost(src, host_shape_with_layout, dst);
  if (src.shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(TiledCopy copy, TiledCopy::Plan(src.shape, TiledCopy::Direction::kToRowMajor));
  copy.Run(src.storage->data(), dst, &engine::Runtime::Get().pool);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> EmulatorClient::Load(std::shared_ptr<const Executable> executable,
                                                                       const LoadOptions&) {
  return LoadEmulatorExecutable(this, std::move(executable));
}

absl::Status EmulatorClient::ClearMemoryStats(int32_t device) {
  memories_->ClearStats(device);
  return absl::OkStatus();
}

void EmulatorClient::Schedule(std::function<void()> task) { engine::Runtime::Get().Schedule(std::move(task)); }

}  // namespace backplane::tpu
