// The function that an image has for a kernel (HostKernelFunction), in pieces.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_

#include <cstdint>
#include <vector>

#include "plugins/hip/lowering/host/one_address_space.h"
#include "plugins/hip/lowering/kernels.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// A parameter of a body.
llvm::Argument* ParameterOf(const HostBody& body, BodyParameter parameter);

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

// A kernel whose threads do not wait for each other: a loop over threads, whose body will be inlined. LLVM may make
// vectors of threads.
void RunInLoop(RunFunction& run, const Kernel& kernel, const HostBody& body);

// A kernel whose threads wait for each other: each is a coroutine that is suspended while it waits.
struct WaitingThreads {
  llvm::Function* coroutine = nullptr;
  llvm::GlobalVariable* frame_bytes = nullptr;   // stands for the size of a thread's frame until it is known
  llvm::GlobalVariable* frame_stride = nullptr;  // and for the distance of frames
  uint64_t factors = 0;                          // of gpu.multiply, in a block's memory for frames
  uint64_t first_frame = 0;                      // in a block's memory for frames
  int threads = 0;
};
WaitingThreads RunInRounds(RunFunction& run, const Kernel& kernel, const HostBody& body);

// After coroutines have been split: sets the sizes where they are used. Returns the memory for the frames of a block.
uint64_t SetFrameSizes(const WaitingThreads& threads);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_RUN_FUNCTION_H_
