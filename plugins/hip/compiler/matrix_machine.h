// Instructions and hints of the kernel's target that kernels of matrix products use. Each maker's code generator has
// other intrinsics for them.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_

#include "plugins/hip/compiler/kernel_frame.h"

namespace backplane::hip {

class MatrixMachine {
 public:
  // The frame must outlive the object.
  explicit MatrixMachine(KernelFrame& frame) : f_(frame), b_(frame.b), family_(frame.elements.target().family) {}

  // Adds the attributes that a kernel of a matrix product needs.
  void SetAttributes(llvm::Function& function);
  // Returns an i32 as a value that the compiler knows to be equal in all lanes of a wave.
  llvm::Value* MakeUniform(llvm::Value* value);
  // Returns an i32, an i64 or a vector of sums as a value of which the compiler knows nothing. With `stays`, it is
  // computed here and not later.
  llvm::Value* Hide(llvm::Value* value, bool stays);
  // Keeps the compiler from moving instructions from one side to the other.
  void KeepOrder();
  // Which four bytes of two words PickBytes returns as a word.
  enum class Bytes : uint8_t {
    kLowHalves,   // the lower 16 bits of `low`, then of `high`
    kHighHalves,  // the upper ones
    kLowPairs,    // bytes 0 of `low` and `high`, then bytes 1
    kHighPairs    // bytes 2, then bytes 3
  };
  llvm::Value* PickBytes(llvm::Value* high, llvm::Value* low, Bytes bytes);
  // Rounds two f32 to f16 or bf16: a word with `low` in its lower half.
  llvm::Value* PackHalves(PrimitiveType type, llvm::Value* low, llvm::Value* high);
  // Returns 2 to the power of an f32, to about two units in the last place; zero for what is below the normal numbers.
  llvm::Value* Exp2(llvm::Value* x);
  // Rounds an f32, given as an i32, to the nearest tf32, with ties away from zero.
  llvm::Value* RoundToTf32(llvm::Value* word);

 private:
  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const codegen::TargetFamily family_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_
