// Emits sums of the index algebra as IR values: positions, addresses, and the masks of guards.
//
// A sum that is equal for all lanes is one integer. A sum that differs between lanes is a vector of integers or, for
// memory access, a LaneSum of three parts. Each part is emitted once, in the outermost loop that binds its variables.
//
// Integers have 64 bits, or 32 if the target prefers that (IrTarget::index_bits) and the range of the sum fits.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_INDEX_EVALUATOR_H_
#define BACKPLANE_SDK_CODEGEN_BODY_INDEX_EVALUATOR_H_

#include <functional>
#include <vector>

#include "sdk/codegen/body/loop_scopes.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

class IndexEvaluator {
 public:
  // The value of a sum in each lane: uniform + stride * lane + varying[lane].
  struct LaneSum {
    Affine uniform;                  // its value in lane 0, a scalar; see Uniform
    int64_t stride = 0;              // between neighbouring lanes
    llvm::Value* varying = nullptr;  // a vector; null: zero
    bool IsStrided() const { return varying == nullptr; }
  };
  // Reads an element of an integer array, for variables whose value is known at run time only.
  using ElementReader = std::function<Val(const Instruction* array, const Index& index, const Guards& guards)>;

  // Both must outlive the evaluator.
  IndexEvaluator(ElementEmitter& elements, LoopScopes& scopes);
  void SetElementReader(ElementReader reader) { reader_ = std::move(reader); }

  // Returns the integer type of the counter of a loop with `extent` iterations.
  llvm::IntegerType* CounterType(int64_t extent);

  // Returns an integer, or a vector of 32-bit or 64-bit integers if the sum differs between lanes.
  llvm::Value* Evaluate(const Affine& e);
  // Returns the conjunction of the guards: an i1, a vector of i1, or null if there are no guards.
  llvm::Value* Mask(const Guards& guards);

  // Returns the value of the sum in lane 0, an integer.
  llvm::Value* Uniform(const Affine& e);
  LaneSum SplitLanes(const Affine& e);
  // Returns stride * lane + varying[lane] as a vector, or null if both are zero. `e` is the complete sum.
  llvm::Value* LaneOffsets(const LaneSum& sum, const Affine& e);

 private:
  llvm::IntegerType* ScalarType(const Affine& e);
  llvm::Type* VectorType(const Affine& e);
  llvm::Value* LaneNumbers(llvm::Type* type);
  llvm::Value* GetVariable(VarId v);  // an integer, or a vector when it has lanes
  llvm::Value* EmitVariable(VarId v);
  llvm::Value* Digit(const LoopScopes::Binding& binding, VarId v);
  llvm::Value* RuntimeVariable(const VarDef& d);

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  VarTable& vars_;
  ElementReader reader_;
  ScopedCache<VarId, llvm::Value*> variables_;
  ScopedCache<Affine, llvm::Value*> uniforms_;
  ScopedCache<std::vector<Guard>, llvm::Value*> masks_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_INDEX_EVALUATOR_H_
