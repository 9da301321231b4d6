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
//   gpu.multiply.TYPE(left, right, sums)   a group of 32 threads multiplies a 16 x k by a k x 8 matrix and adds the
//                                   product to sums. All 32 execute it together. AMD's GPUs do not have it; they have
//                                   intrinsics of their own
//
// Matrices of gpu.multiply: a row of the left one, or a column of the right one, is 8 words of 4 bytes: two elements of
// f16 or bf16, one of f32 (tf32), four of s8; of f64 8 words of 8 bytes. Thread l of the group has these words and
// sums:
//   left   {word l % 4 of row l / 4, the same of row l / 4 + 8, word l % 4 + 4 of row l / 4, the same of row l / 4 + 8}
//   right  {word l % 4 of column l / 4, word l % 4 + 4}
//   sums   {row l / 4, column 2 * (l % 4); the next column; both of row l / 4 + 8}
//   <4 x float>  @gpu.multiply.f16(<4 x i32>, <2 x i32>, <4 x float>), and .bf16; .tf32, which reads of each element
//                the upper 19 bits alone
//   <4 x i32>    @gpu.multiply.s8(<4 x i32>, <2 x i32>, <4 x i32>)
//   <4 x double> @gpu.multiply.f64(<4 x double>, <2 x double>, <4 x double>)
//
// Where there is gpu.multiply, there is also
//   void @gpu.copy.async(ptr addrspace(3) to, ptr addrspace(1) from, i32 bytes)   begins to copy 16 bytes to shared
//                                   memory; if `bytes` is 0 and not 16, zeros. Both addresses are multiples of 16, and
//                                   `from` may be read in both cases
//   void @gpu.copy.commit()         the copies that the thread has begun since the last one are a group
//   void @gpu.copy.wait(i32 n)      of the thread's groups at most the last `n`, a constant, have not ended. Other
//                                   threads see the copied bytes after a barrier
//   <4 x i32> @gpu.load.transposed(ptr addrspace(3) row)   a group of 32 threads loads four matrices of 8 x 8 elements
//                                   of 16 bits; all execute it together. Thread l gives the address of row l % 8 of
//                                   matrix l / 8, a multiple of 16. It gets of each matrix the elements of rows
//                                   2 * (l % 4) and 2 * (l % 4) + 1, column l / 4, in the lower and the upper half
//
// On sm_90a, and on the host if a test sets it, a group of 128 threads (128 g to 128 g + 127) multiplies matrices that
// are in shared memory. All 128 execute these functions together, in blocks of a multiple of 128 threads:
//   SUMS @gpu.group.multiply.TYPE.COLUMNS(ptr addrspace(3) left, ptr addrspace(3) right, i32 along, SUMS sums)
//                                   begins to add the product of a slice of 64 rows of the left matrix and one of
//                                   COLUMNS columns of the right one to the sums. TYPE is f16, bf16, tf32 (the upper 19
//                                   bits of f32) or s8, COLUMNS 64, 128 or 256
//   SUMS @gpu.group.wait.TYPE.COLUMNS(SUMS sums, i32 n)   of the products that the group has begun, at most the last
//                                   `n`, a constant, have not ended. Sums may be used, and the matrices of a product
//                                   overwritten, when it has ended and each thread has waited for it; between a product
//                                   and the next, or the wait, they are passed on as they are
//   void @gpu.group.publish()       what the thread has stored or copied to shared memory, and has waited for, is seen
//                                   by products that begin after a barrier
// A slice has 128 bytes of each row (of the right matrix: column), as chunks of 16 bytes. Chunk c of row r is at byte
// 128 * r + 16 * (c ^ r % 8). With bit 0 (left) or 1 (right) of the constant `along`, for 16 bits only, a slice has
// 64 elements of k, and the chunks are along the rows: that of element k and rows 64 * s + 8 * c to 64 * s + 8 * c + 7
// is at byte 8192 * s + 128 * k + 16 * (c ^ k % 8). Both addresses are multiples of 1024. SUMS are COLUMNS / 2 floats
// (s8: i32): element 4 * j + e of thread l is that of row l / 32 * 16 + l % 32 / 4 + e / 2 * 8 and column 8 * j +
// 2 * (l % 4) + e % 2.
//
// Shared memory of a block: internal global variables in address space kSharedAddressSpace, without initial value.
// Global memory: address space kGlobalAddressSpace. Atomics: atomicrmw and cmpxchg, loads, stores and fences with sync
// scope kDeviceScope. Declare barriers, shuffles and products `convergent` if a pass is run over the module before it
// is lowered. Elementary functions are those of sdk/codegen/vector_math.h; LLVM's intrinsics for them are refused. frem
// has no definition on the host. All threads of a block reach the same barriers, in the same order; a barrier may stand
// in a loop or branch whose condition is equal for all threads of the block.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_

namespace backplane::hip {

inline constexpr char kKernelAttribute[] = "backplane-kernel";
inline constexpr char kThread[] = "gpu.thread", kBlock[] = "gpu.block", kBlocks[] = "gpu.blocks";
inline constexpr char kBarrier[] = "gpu.barrier";
inline constexpr char kShuffleXor[] = "gpu.shuffle.xor", kShuffleIndex[] = "gpu.shuffle.index";
inline constexpr char kMultiplyF16[] = "gpu.multiply.f16", kMultiplyBf16[] = "gpu.multiply.bf16",
                      kMultiplyTf32[] = "gpu.multiply.tf32", kMultiplyS8[] = "gpu.multiply.s8",
                      kMultiplyF64[] = "gpu.multiply.f64";
inline constexpr char kCopyAsync[] = "gpu.copy.async", kCopyCommit[] = "gpu.copy.commit", kCopyWait[] = "gpu.copy.wait",
                      kLoadTransposed[] = "gpu.load.transposed";
inline constexpr char kGroupMultiply[] = "gpu.group.multiply.", kGroupWait[] = "gpu.group.wait.",
                      kGroupPublish[] = "gpu.group.publish";
inline constexpr unsigned kGlobalAddressSpace = 1, kSharedAddressSpace = 3;
// Lowered to "agent" on AMD, to the device scope on NVIDIA.
inline constexpr char kDeviceScope[] = "agent";

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_GPU_IR_H_
