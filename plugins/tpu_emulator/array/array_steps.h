// The matrix unit as steps of the engine's programs: every dot and convolution that the unit takes.
//
// Arguments that only contractions read stay in their tiles: the unit reads them there. Results that a contraction
// makes are written into tiles where nothing else of the program sees them.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_STEPS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_STEPS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "sdk/engine/compiler/own_steps.h"

namespace backplane::tpu {

// For one program: made before its passes, asked by them, done with when the program is built. Not thread-safe.
class ArraySteps : public engine::OwnSteps {
 public:
  // `side` of the unit, 128 or 256.
  explicit ArraySteps(int64_t side) : side_(side) {}

  // Says how the leaves of the entry's parameters and result lie in memory, tokens included; one whose sizes in the
  // program are others is left alone, as the program has its memory then. `module` has been through all passes;
  // Program::Build must be given this very object. Without this call everything is row-major.
  void LayOut(const Module& module, const std::vector<Shape>& parameters, const std::vector<Shape>& results);

  // By leaf: the program wants the argument in its layout; the result is written in its layout. The latter is known
  // when the program has been built.
  const std::vector<bool>& reads_as_laid_out() const { return reads_; }
  const std::vector<bool>& writes_as_laid_out() const { return writes_; }

  bool Takes(const Instruction& instruction) const override;
  absl::StatusOr<std::unique_ptr<engine::Thunk>> MakeStep(const Instruction& instruction,
                                                          const engine::BufferAssignment& assignment,
                                                          std::vector<std::string>* log) const override;

 private:
  const int64_t side_;
  std::vector<bool> reads_;
  mutable std::vector<bool> writes_;
  absl::flat_hash_map<const Instruction*, Layout> layout_of_;  // of parameters that are read in it
  struct Result {
    int64_t leaf;
    Layout layout;
  };
  absl::flat_hash_map<const Instruction*, Result> result_of_;  // contractions that may write a result in its layout
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_ARRAY_STEPS_H_
