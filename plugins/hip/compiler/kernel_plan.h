// How a GPU computes a fusion or another operation: which elements a thread computes, and how many blocks there are.
//
// KernelPlan has what all kinds of kernels have in common, and in `kind` what one kind needs. Each kind has a planner,
// here or in a header of its own, and an overload of EmitBody (kernel_frame.h). Arrays are dense and row-major.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/computation.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/fft_stages.h"
#include "plugins/hip/compiler/matrix_step.h"
#include "plugins/hip/compiler/matrix_tile.h"
#include "plugins/hip/compiler/scan_kernel.h"

namespace backplane::hip {

// Each thread computes elements of the results, and the reductions that they need, by itself.
struct ElementsPlan {
  // The elements that a thread computes as one vector, so that it loads and stores 16 bytes; 0: one at a time.
  int lanes = 0;
};

// Each block computes one row, or a group of neighbouring ones: its threads share the reductions along them (softmax,
// layer norm, sums).
struct RowsPlan {
  std::vector<const Instruction*> reduces;  // each after those that it reads
  int64_t rows = 1, columns = 1;            // the number of rows, and of elements in each
  // The rows that a block computes at a time, whose elements are neighbours in memory: reductions of columns.
  uint32_t group = 1;
};

// Each block computes a tile of the results from tiles of arrays that it reads across (transpose_kernel.h).
struct TransposePlan {};

// A dynamic-update-slice: each thread stores elements of the update into the array that is there.
struct UpdatePlan {};

// Each thread combines updates into the array that is there.
struct ScatterPlan {
  // Threads combine updates at the same time, by atomic operations if two may update one element. Otherwise one thread
  // combines all, because their order counts.
  bool parallel = false;
};

// A matrix product in tiles: each block loads tiles of both operands into shared memory.
struct DotPlan {
  DotSite site;
  const MatrixStep* matrix = nullptr;  // the matrix instruction; null: multiplications and additions
  MatrixTile tile;                     // without a matrix instruction only its rows and columns
};

// Each thread computes elements of the result by the definition; most convolutions have a DotPlan.
struct ConvolutionPlan {
  int lanes = 0;  // as in ElementsPlan
};

// Each block sorts a part of a row in shared memory; further launches merge the parts of long rows (sort_kernel.h).
struct SortPlan {};

// Each block keeps a row in shared memory, or several short ones (top_k_kernel.h).
struct TopKPlan {};

// Each block computes the prefix sums of a row, or each thread (scan_kernel.h).
struct ScanPlan {
  Scan scan;
};

// Each thread computes one element of the result (select_and_scatter_kernel.h).
struct SelectAndScatterPlan {};

// Two products and the softmax between them: each block has a tile of queries (attention_plan.h).
struct AttentionPlan {
  const MatrixStep* matrix = nullptr;  // as in DotPlan
  MatrixTile tile;                     // of queries x keys
};

// Each block transforms lines in shared memory. Kernel k computes stage k.
struct FftPlan {
  std::vector<FftStage> stages;
};

// Each block has a small matrix in shared memory (linear_algebra_kernels.h).
struct CholeskyPlan {};
struct TriangularSolvePlan {};

struct KernelPlan {
  std::variant<ElementsPlan, RowsPlan, TransposePlan, UpdatePlan, ScatterPlan, DotPlan, ConvolutionPlan, SortPlan,
               TopKPlan, ScanPlan, SelectAndScatterPlan, AttentionPlan, FftPlan, CholeskyPlan, TriangularSolvePlan>
      kind;
  uint32_t threads = 256;  // of a block
  uint32_t blocks = 1;
  // For each result the operand that the result must be a copy of when the kernel starts, or must share memory with.
  // Only updates and scatters have them.
  std::vector<int64_t> updated_operands;
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

  template <typename Kind>
  bool Is() const {
    return std::holds_alternative<Kind>(kind);
  }
  // Returns the matrix instruction that computes the products of the kernel; null if there is none.
  const MatrixStep* matrix() const;
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

// Returns how many rows of such a reduction a block computes at a time (RowsPlan::group).
int64_t ChooseRowsOfGroup(const Instruction& reduce);

// Whether every result reads the parameter of a fusion's body only at the element that is then stored.
bool ReadsOnlyOwnElement(const Computation& body, const Instruction* parameter);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_PLAN_H_
