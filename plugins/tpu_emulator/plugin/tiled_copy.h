// Converts arrays between tiled and dense row-major memory, in pieces that threads can run in parallel.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/relayout/relayout.h"
#include "core/types/shape.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::tpu {

// Immutable and thread-safe: different pieces may run at once. Padding is neither read nor written.
class TiledCopy {
 public:
  enum class Direction : uint8_t { kToRowMajor, kToTiled };

  // `tiled` is an array shape with layout.
  static absl::StatusOr<TiledCopy> Plan(const Shape& tiled, Direction direction);

  // Plans a copy of `bytes` bytes without conversion.
  static TiledCopy PlanBytes(int64_t bytes);

  int64_t bytes() const { return bytes_; }  // of the row-major array, or as given to PlanBytes
  size_t pieces() const { return pieces_.size(); }
  void RunPiece(size_t piece, const void* from, void* to) const;
  void Run(const void* from, void* to, engine::ThreadPool* pool) const;  // `pool` may be null

 private:
  struct Piece {
    std::shared_ptr<const Relayout> relayout;  // null: a plain copy of `bytes`
    int64_t from, to;                          // start, in bytes
    int64_t bytes = 0;
  };
  int64_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

// Whether this layout is row-major without padding, so that no conversion is needed.
bool IsDenseRowMajor(const Shape& shape);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_TILED_COPY_H_
