// One phase of a plan as one LLVM function.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_

#include <functional>
#include <string>
#include <vector>

#include "sdk/engine/codegen/body_emitter.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

class PhaseEmitter {
 public:
  PhaseEmitter(ElementEmitter& elements, const FusionPlan& plan, const Phase& phase, const jit::HostInfo& host);
  absl::Status Emit(const std::string& symbol);

 private:
  void Loop();      // kLoop
  void Scalars();   // kScalars
  void Partials();  // kPartials
  void Columns();   // kColumns, kPartialColumns
  void Transpose();
  void TransposeStaged();
  void Scatter();
  void SelectAndScatter();
  void Scan();

  // Runs `body` for each unit of the call.
  void Units(const std::function<void(llvm::Value* unit)>& body);
  // Takes the unit number apart: the last count first. Returns the rest.
  llvm::Value* Take(llvm::Value*& unit, int64_t extent);
  // Binds the groups [0, count) to the unit number.
  void CountUnits(llvm::Value*& unit, int count);
  // Loops over lanes of group `g` from `begin` to `end`; fn gets the guards of the tail.
  void Lanes(int g, llvm::Value* begin, llvm::Value* end, const std::function<void(const Guards&)>& fn);
  void EvalAndStore(const Guards& guards, bool rows);
  llvm::Value* ScratchAt(int64_t bytes);
  ArrayRef BufferOf(const Target& target);
  int64_t ExtentOf(int group) const;
  // The element of the result that the phase's reductions are wanted at.
  Index ReduceIndex();
  // A square matrix of registers, turned.
  std::vector<llvm::Value*> TransposeSquare(std::vector<llvm::Value*> rows);

  ElementEmitter& e_;
  const FusionPlan& plan_;
  const Phase& phase_;
  const jit::HostInfo& host_;
  VarTable vars_;
  BodyEmitter body_;
  llvm::IRBuilder<>& b_;
  PhaseLoops loops_;
  std::vector<llvm::Value*> buffers_;
  llvm::Value *begin_ = nullptr, *end_ = nullptr, *scratch_ = nullptr;
  int64_t scratch_used_ = 0;
};

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
