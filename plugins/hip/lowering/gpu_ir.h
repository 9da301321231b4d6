// The IR that kernels are written in, for every GPU: LLVM IR with a few functions that lowering.h replaces.
//
// A kernel is a function with external linkage that returns void and carries the attribute kKernelAttribute, whose
// value is the number of threads of a block, in decimal. Its name has letters, digits, _ and $ alone. Its parameters
// are pointers to global memory and integers of 8 to 64 bits, each at its natural alignment. Blocks and threads are
// numbered in one dimension. A module has one kernel or many. What they share is internal: constants, and functions
// that kernels call. A function that calls the functions below or uses shared memory is inlined, so it must not call
// itself.
//
//   i32  @gpu.thread()              the number of the thread in its block
//   i32  @gpu.block()               the number of the block in the grid
//   i32  @gpu.blocks()              the number of blocks
//   void @gpu.barrier()             all threads of the block arrive before any goes on; what they wrote to shared and
//                                   global memory before is visible to the block afterwards
//   i32  @gpu.shuffle.xor(i32 v, i32 mask)     `v` of the thread whose number differs by `mask` (1, 2, 4, 8 or 16, and
//                                   uniform). All 32 threads of the group of 32 execute it together; other groups need
//                                   not. The threads of a block are then a multiple of 32.
//   i32  @gpu.shuffle.index(i32 v, i32 lane)   `v` of the thread `lane` (0 to 31) of the group of 32
//
// Shared memory of a block: internal global variables in address space kSharedAddressSpace, without initial value.
// Global memory: address space kGlobalAddressSpace. Atomics: atomicrmw and cmpxchg, loads, stores and fences with sync
// scope kDeviceScope. Declare barriers and shuffles `convergent` if a pass is run over the module before it is lowered.
// Elementary functions are those of sdk/codegen/vector_math.h; LLVM's intrinsics for them are refused. frem has no
// definition on the host.
// All threads of a block reach the same barriers, in the same order; a barrier may stand in a loop or branch whose
// condition is equal for all threads of the block.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_

namespace backplane::hip {

inline constexpr char kKernelAttribute[] = "backplane-kernel";
inline constexpr char kThread[] = "gpu.thread", kBlock[] = "gpu.block", kBlocks[] = "gpu.blocks";
inline constexpr char kBarrier[] = "gpu.barrier";
inline constexpr char kShuffleXor[] = "gpu.shuffle.xor", kShuffleIndex[] = "gpu.shuffle.index";
inline constexpr unsigned kGlobalAddressSpace = 1, kSharedAddressSpace = 3;
// Lowered to "agent" on AMD, to the device scope on NVIDIA.
inline constexpr char kDeviceScope[] = "agent";

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_
