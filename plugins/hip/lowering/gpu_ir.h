// The IR that kernels are written in, for every GPU: LLVM IR with a few functions that lowering.h replaces.
//
// A kernel is a function with external linkage that returns void and carries the attribute kKernelAttribute, whose
// value is the number of threads of a block, in decimal. Its parameters are pointers to global memory and integers.
// Blocks and threads are numbered in one dimension. A module has one kernel or many; what they share is internal.
//
//   i32  @gpu.thread()              the number of the thread in its block
//   i32  @gpu.block()               the number of the block in the grid
//   i32  @gpu.blocks()              the number of blocks
//   void @gpu.barrier()             all threads of the block arrive before any goes on; what they wrote to shared and
//                                   global memory before is visible to the block afterwards
//   i32  @gpu.shuffle.xor(i32 v, i32 mask)     `v` of the thread whose number differs by `mask` (1, 2, 4, 8 or 16, and
//                                   uniform). All 32 threads of the group of 32 execute it together.
//   i32  @gpu.shuffle.index(i32 v, i32 lane)   `v` of the thread `lane` (0 to 31) of the group of 32
//
// Shared memory of a block: internal global variables in address space kSharedAddressSpace, without initial value.
// Global memory: address space kGlobalAddressSpace. Atomics: atomicrmw and cmpxchg with sync scope kDeviceScope.
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
