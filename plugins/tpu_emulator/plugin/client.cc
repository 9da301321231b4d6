#include "plugins/tpu_emulator/plugin/client.h"

#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/tiled_copy.h"
#include "sdk/engine/backend/client.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kExitMilliseconds = 3000;

bool IsTiled(const Shape& shape) { return shape.IsArray() && shape.has_layout() && !shape.layout().tiles.empty(); }

bool IsDense(const HostArray& array) {
  int64_t stride = ByteWidth(array.type);
  for (size_t d = array.dims.size(); d-- > 0; stride *= array.dims[d]) {
    if (array.dims[d] != 1 && array.byte_strides[d] != stride) return false;
  }
  return true;
}

bool HasRoom(const DeviceArray& array) {
  return array.storage != nullptr && array.storage->size() >= mixed::StorageBytes(array.shape);
}

}  // namespace

// Programs may run still; they hold what they need, but what the process keeps for them ends with the process.
EmulatorClient::~EmulatorClient() { engine::Runtime::Get().WaitUntilIdle(kExitMilliseconds); }

// The usual case: rows of the host, tiles of the machine. Everything else, errors too, is the base's.
absl::Status EmulatorClient::CopyFromHost(const HostArray& src, const DeviceArray& dst) {
  const bool usual = IsTiled(dst.shape) && IsDense(src) && HasRoom(dst) && src.type == dst.shape.element_type() &&
                     src.dims == dst.shape.dimensions();
  if (!usual) return MixedClient::CopyFromHost(src, dst);
  if (dst.shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(TiledCopy copy, TiledCopy::Plan(dst.shape, TiledCopy::Direction::kToTiles));
  copy.Run(src.data, dst.storage->data(), &engine::Runtime::Get().pool);
  return absl::OkStatus();
}

absl::Status EmulatorClient::CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  const Shape& host = host_shape_with_layout;
  const bool usual =
      IsTiled(src.shape) && HasRoom(src) && host == src.shape && (!host.has_layout() || host.layout().IsRowMajor());
  if (!usual) return MixedClient::CopyToHost(src, host_shape_with_layout, dst);
  if (src.shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(TiledCopy copy, TiledCopy::Plan(src.shape, TiledCopy::Direction::kToRows));
  copy.Run(src.storage->data(), dst, &engine::Runtime::Get().pool);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> EmulatorClient::Load(std::shared_ptr<const Executable> executable) {
  return LoadEmulatorExecutable(this, std::move(executable));
}

void EmulatorClient::Schedule(std::function<void()> task) { engine::Runtime::Get().Schedule(std::move(task)); }

}  // namespace backplane::tpu
