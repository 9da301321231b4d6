// Sums of the index algebra as IR values: positions, addresses, and the masks of guards.
//
// A sum without lanes is one integer. One with lanes is a vector of them, or, for memory access, its three parts
// (LaneSum). Each part is emitted in the outermost loop that binds its variables, and once in its loop.
//
// Integers are 64 bits wide; where the target prefers 32 (IrTarget::index_bits) and the sum's range fits, they are 32.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_INDEX_EVALUATOR_H_
#define BACKPLANE_SDK_CODEGEN_BODY_INDEX_EVALUATOR_H_

#include <functional>
#include <vector>

#include "sdk/codegen/body/loop_scopes.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

class IndexEvaluator {
 public:
  // A sum at the lanes: uniform + stride * lane + varying[lane].
  struct LaneSum {
    Affine uniform;                  // for lane 0 of bindings with lanes: a scalar, see Uniform
    int64_t stride = 0;              // of the lanes
    llvm::Value* varying = nullptr;  // a vector, null when there is no such part
    bool IsStrided() const { return varying == nullptr; }
  };
  // Reads an element of an integer array, for variables whose value is known at run time only.
  using ElementReader = std::function<Val(const Instruction* array, const Index& index, const Guards& guards)>;

  // Both must outlive the evaluator.
  IndexEvaluator(ElementEmitter& elements, LoopScopes& scopes);
  void SetElementReader(ElementReader reader) { reader_ = std::move(reader); }

  // Of a loop's counter up to `extent`.
  llvm::IntegerType* CounterType(int64_t extent);

  // An integer, or with lanes a vector of 32-bit or 64-bit integers.
  llvm::Value* Evaluate(const Affine& e);
  // An i1, a vector of i1, or null when there are no guards.
  llvm::Value* Mask(const Guards& guards);

  // An integer; of bindings with lanes it takes lane 0.
  llvm::Value* Uniform(const Affine& e);
  LaneSum SplitLanes(const Affine& e);
  // stride * lane + varying[lane], as a vector; `e` is the whole sum. Null when both parts are zero.
  llvm::Value* LaneOffsets(const LaneSum& sum, const Affine& e);

 private:
  llvm::IntegerType* ScalarType(const Affine& e);
  llvm::Type* VectorType(const Affine& e);
  llvm::Value* LaneNumbers(llvm::Type* type);
  llvm::Value* Variable(VarId v);  // an integer, or a vector when it has lanes
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
