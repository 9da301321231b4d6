// How a GPU computes a fusion or a contraction: which elements a thread computes, and how many blocks there are.
//
//   kElements  each thread computes elements of the results, and the reductions that they need, by itself
//   kRows      each block computes one row, or a group of neighbouring ones: its threads share the reductions along
//              them (softmax, layer norm, sums)
//   kTranspose  each block computes a tile of the results from tiles of arrays that it reads across
//   kUpdate    a dynamic-update-slice: each thread stores elements of the update into the array that is there
//   kScatter   each thread combines updates into the array that is there; one thread does all where their order counts
//   kDot       a matrix product in tiles: each block loads tiles of both operands into shared memory
//   kConvolution  each thread computes elements of the result by the definition; most convolutions are kDot
//   kSort      each block sorts a part of a row in shared memory; further launches merge the parts of long rows
//   kTopK      each block keeps a row in shared memory, or several short ones
//   kScan      each block computes the prefix sums of a row, or each thread
//   kSelectAndScatter  each thread computes one element of the result
//   kAttention  two products and the softmax between them: each block has a tile of queries (attention_plan.h)
//   kFft       each block transforms lines in shared memory; a launch for each dimension, or for a part of long lines
//   kCholesky, kTriangularSolve  each block has a small matrix in shared memory
//
// Arrays are dense and row-major. kernel_emitter.h makes the code from a plan.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/computation.h"
#include "plugins/hip/compiler/matrix_step.h"
#include "plugins/hip/compiler/matrix_tile.h"

namespace backplane::hip {

struct KernelPlan {
  enum class Kind : uint8_t {
    kElements,
    kRows,
    kTranspose,
    kUpdate,
    kScatter,
    kDot,
    kConvolution,
    kSort,
    kTopK,
    kScan,
    kSelectAndScatter,
    kAttention,
    kFft,
    kCholesky,
    kTriangularSolve
  };
  Kind kind = Kind::kElements;
  uint32_t threads = 256;  // of a block
  uint32_t blocks = 1;
  // kElements: the elements that a thread computes as one vector, so that it loads and stores 16 bytes; 0: it computes
  // one at a time.
  int lanes = 0;
  // kRows: the reductions, each after those that it reads; the number of rows and of elements in each.
  std::vector<const Instruction*> reduces;
  int64_t rows = 0, columns = 0;
  // kRows: the rows that a block computes at a time, whose elements are neighbours in memory: reductions of columns.
  uint32_t group = 1;
  // kUpdate, kScatter: for each result the operand that the result must be a copy of when the kernel starts, or must
  // share memory with. Empty for other kinds.
  std::vector<int64_t> updated_operands;
  // kDot, kAttention: the matrix instruction that computes it; null: multiplications and additions.
  const MatrixStep* matrix = nullptr;
  MatrixTile tile;  // of queries x keys; without a matrix instruction only its rows and columns
  // kScatter: threads combine updates at the same time, by atomic operations if two may update one element.
  bool parallel = false;
  // The launches of an operation that takes several. Kernels are numbered from 0; `further` has the numbers of blocks
  // of the kernels after the first. If `launches` is empty, kernel 0 is launched once.
  struct Launch {
    int kernel = 0;
    std::vector<int64_t> numbers;  // the parameters after the arrays
    bool on_results = false;       // the kernel reads the results instead of the operands
  };
  std::vector<Launch> launches;
  std::vector<uint32_t> further;
  int64_t scratch_bytes = 0;  // memory that the launches share: if there is some, a pointer to it follows the arrays
  int kernel = 0;             // the number of the kernel that this plan describes
  int numbers = 0;            // how many numbers each of the kernels takes
  std::string note;           // for the compile log: "rows: 4096 of 1024"
};

// One array that a kernel stores: element `element` of the instruction's result where that is a tuple.
struct KernelResult {
  const Instruction* instruction = nullptr;
  int element = 0;
  Shape shape;
};
// Returns the results of a fusion's body in the order of the kernel's parameters.
std::vector<KernelResult> ListKernelResults(const Computation& body);

// Returns the plan for the body of a fusion, or an Unimplemented error that names the instruction that no kernel can
// compute.
absl::StatusOr<KernelPlan> PlanFusion(const Computation& body);

// Returns the plan for an instruction with a dot (FindDot), an attention (compiler::AsAttention), a convolution (after
// compiler::LegalizeContractions), a scatter, a sort, a scan (scan_kernel.h), a select-and-scatter, or a factorization
// of small matrices (linear_algebra_kernels.h).
absl::StatusOr<KernelPlan> PlanOperation(const Instruction& operation, const GpuTarget& target);

// Returns how many blocks share `work` items if a block does `per_block` at a time: at most kMaxBlocks, each of which
// then does several parts.
uint32_t CountBlocks(int64_t work, int64_t per_block);
constexpr int64_t kMaxSharedBytes = 32768;  // of a block, on every GPU
constexpr int64_t kMaxArrays = 256;         // of a kernel: the space for its arguments is limited

// Whether the threads of a block can share the reduction: its elements may be combined in any order, and there are
// enough of them.
bool IsSharedByBlock(const Instruction& reduce);

// Returns how many rows of such a reduction a block computes at a time (KernelPlan::group).
int64_t ChooseRowsOfGroup(const Instruction& reduce);

// Whether every result reads the parameter of a fusion's body only at the element that is then stored.
bool ReadsOnlyOwnElement(const Computation& body, const Instruction* parameter);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_
