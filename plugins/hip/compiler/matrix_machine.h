// What kernels of matrix products say in the words of one maker's code generator: each function is an instruction or a
// hint of the kernel's target.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_

#include "plugins/hip/compiler/kernel_frame.h"

namespace backplane::hip {

class MatrixMachine {
 public:
  // The frame must outlive the object.
  explicit MatrixMachine(KernelFrame& frame) : f_(frame), b_(frame.b), family_(frame.elements.target().family) {}

  // The attributes of the kernel's function.
  void SetAttributes(llvm::Function& function);
  // The value (an i32), known to be equal in all lanes of a wave.
  llvm::Value* MakeUniform(llvm::Value* value);
  // The same value (an i32 or a vector of sums) that the compiler knows nothing of. With `stays`, it is computed here
  // and not later.
  llvm::Value* Hide(llvm::Value* value, bool stays);
  // Keeps the compiler from moving instructions from one side to the other.
  void KeepOrder();
  // The word of four bytes (PickedBytes) of two words.
  enum class Bytes : uint8_t {
    kLowHalves,   // the lower 16 bits of `low`, then of `high`
    kHighHalves,  // the upper ones
    kLowPairs,    // bytes 0 of `low` and `high`, then bytes 1
    kHighPairs    // bytes 2, then bytes 3
  };
  llvm::Value* PickBytes(llvm::Value* high, llvm::Value* low, Bytes bytes);
  // An f32, as an i32, rounded to the nearest tf32; ties away from zero.
  llvm::Value* RoundToTf32(llvm::Value* word);

 private:
  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const codegen::TargetFamily family_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_MACHINE_H_
