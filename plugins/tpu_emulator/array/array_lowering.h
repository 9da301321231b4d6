// Lowers dots and convolutions of a program to the emulated matrix unit.
//
// The engine asks an ArrayLowering which instructions the unit runs, and gets a thunk for each of them. The unit can
// read an argument and write a result in the tiled layout of the device, so that no relayout is needed. That is done
// for an argument that only contractions read, and for a result of a contraction that no other instruction reads.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_LOWERING_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_LOWERING_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "sdk/engine/compiler/custom_lowering.h"

namespace backplane::tpu {

// Serves one program. Create it before the engine's passes run and destroy it after Program::Build returns. Not
// thread-safe.
class ArrayLowering : public engine::CustomLowering {
 public:
  // `side` is the side of the matrix unit: 128 or 256.
  explicit ArrayLowering(int64_t side) : side_(side) {}

  // Records the device layouts of the entry's parameters and result, and decides which of them the matrix unit reads
  // and writes directly. `parameters` and `results` hold one shape for each leaf, tokens included. A leaf whose
  // dimensions differ from those in the program is skipped: the program already works on its memory
  // (keep_entry_tiled.h).
  //
  // `module` has been through all passes. Pass this same object to Program::Build. Without this call all values are
  // row-major.
  void AssignEntryLayouts(const Module& module, const std::vector<Shape>& parameters,
                          const std::vector<Shape>& results);

  // For each leaf: whether the program reads the argument, or writes the result, in its device layout. The results'
  // flags are known once the program has been built.
  const std::vector<bool>& reads_device_layout() const { return reads_; }
  const std::vector<bool>& writes_device_layout() const { return writes_; }

  bool Claims(const Instruction& instruction) const override;
  absl::StatusOr<std::unique_ptr<engine::Thunk>> MakeThunk(const Instruction& instruction,
                                                           const engine::BufferAssignment& assignment,
                                                           std::vector<std::string>* log) const override;

 private:
  const int64_t side_;
  std::vector<bool> reads_;
  mutable std::vector<bool> writes_;
  absl::flat_hash_map<const Instruction*, Layout> layout_of_;  // of the parameters that are read in their device layout
  struct Result {
    int64_t leaf;
    Layout layout;
  };
  // Contractions that may write a result in its device layout.
  absl::flat_hash_map<const Instruction*, Result> result_of_;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_LOWERING_H_
