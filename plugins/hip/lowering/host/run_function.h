// Parts of the function that an image has for a kernel (HostKernelFunction).
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_

#include <cstdint>
#include <vector>

#include "plugins/hip/lowering/host/one_address_space.h"
#include "plugins/hip/lowering/kernels.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// Returns a parameter of a body.
llvm::Argument* GetParameter(const HostBody& body, BodyParameter parameter);

// A function whose entry has loaded the kernel's arguments; `b` is at its end.
struct RunFunction {
  RunFunction(llvm::Module& module, const HostBody& body);

  // Calls the body for a thread.
  void CallBody(const HostBody& body, llvm::Value* thread);

  llvm::IRBuilder<> b;
  llvm::Function* function = nullptr;
  llvm::Argument *block = nullptr, *blocks = nullptr, *shared = nullptr, *frames = nullptr;
  std::vector<llvm::Value*> arguments;  // of the kernel
  uint64_t kernarg_bytes = 0;
};

// Emits a kernel whose threads do not wait for each other: a loop over threads, whose body will be inlined. LLVM may
// make vectors of threads.
void RunInLoop(RunFunction& run, const Kernel& kernel, const HostBody& body);

// RunInRounds emits a kernel whose threads wait for each other. Each thread is a coroutine that is suspended while it
// waits.
struct WaitingThreads {
  llvm::Function* coroutine = nullptr;
  llvm::GlobalVariable* frame_bytes = nullptr;   // stands for the size of a thread's frame until it is known
  llvm::GlobalVariable* frame_stride = nullptr;  // stands for the distance of frames until it is known
  uint64_t factors = 0;      // the position of gpu.multiply's factors in a block's memory for frames
  uint64_t first_frame = 0;  // the position of the first frame in it
  int threads = 0;
};
WaitingThreads RunInRounds(RunFunction& run, const Kernel& kernel, const HostBody& body);

// Sets the sizes of frames where they are used. Called after coroutines have been split. Returns the bytes of memory
// for the frames of a block.
uint64_t SetFrameSizes(const WaitingThreads& threads);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_
