// An array between its place in tiles and rows one after another, cut into pieces for many threads.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types/relayout.h"
#include "core/types/shape.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::tpu {

// Immutable; any number of threads may run pieces at once. Padding is neither read nor written.
class TiledCopy {
 public:
  enum class Direction : uint8_t { kToRows, kToTiles };

  // `tiled`: an array shape with its layout.
  static absl::StatusOr<TiledCopy> Plan(const Shape& tiled, Direction direction);

  // Copies memory as it lies.
  static TiledCopy Plain(int64_t bytes);

  int64_t bytes() const { return bytes_; }  // of the array in rows; of Plain, those given
  size_t pieces() const { return pieces_.size(); }
  void RunPiece(size_t piece, const void* from, void* to) const;
  void Run(const void* from, void* to, engine::ThreadPool* pool) const;  // `pool` may be null

 private:
  struct Piece {
    std::shared_ptr<const Relayout> relayout;  // null: `bytes` as they lie
    int64_t from, to;                          // where it begins, in bytes
    int64_t bytes = 0;
  };
  int64_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

// Whether the bytes of the array in this layout are those of its rows, one after another and nothing between them.
bool LiesInRows(const Shape& shape);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_
