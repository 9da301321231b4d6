// How a fusion is cut into phases, and each phase into loops. Pure reasoning; emission follows the plan.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/relayout/transpose.h"
#include "sdk/compiler/index_map.h"
#include "sdk/engine/codegen/combiner.h"
#include "sdk/engine/codegen/kernel.h"

namespace backplane::engine::codegen {

// Plans and emitters reason about indices with sdk/compiler's algebra.
using compiler::Access;
using compiler::AccessWalk;
using compiler::Affine;
using compiler::FirstShape;
using compiler::Guard;
using compiler::Guards;
using compiler::Index;
using compiler::IndexOrder;
using compiler::IsReducedDim;
using compiler::MovesElements;
using compiler::ReduceUse;
using compiler::SortedDims;
using compiler::Source;
using compiler::Term;
using compiler::VarDef;
using compiler::VarId;
using compiler::VarKind;
using compiler::VarTable;

enum class PhaseKind {
  kLoop,            // lanes along the last loop of the output
  kScalars,         // one output element a unit; lanes inside its reductions
  kColumns,         // reductions over outer dimensions: accumulators for a block of columns in scratch
  kPartials,        // a block of a reduction, one unit each, to a temporary
  kPartialColumns,  // the same with kColumns' loops
  kTranspose,       // square tiles turned in registers
  kScatter,         // updates one after another
  kSelectAndScatter,
  kScan,  // a reduce-window that is a cumulative reduction
};

// One array that a phase writes.
struct Target {
  const Instruction* instruction = nullptr;  // the value
  int element = 0;                           // of a tuple-shaped instruction
  int buffer = 0;                            // number in the kernel's buffers
  bool row = false;                          // one element for each unit of a phase of rows
  // Where in a larger array it is stored: a dynamic-update-slice (it is the update), a concatenate (it is part number
  // `part`), a select-and-scatter (it is the scalar that fills the whole).
  const Instruction* window = nullptr;
  int part = 0;
};

// An instruction's value in a temporary.
struct Materialized {
  const Instruction* instruction = nullptr;
  int element = 0;
  int buffer = 0;
};

struct Phase {
  PhaseKind kind = PhaseKind::kLoop;
  std::vector<Target> targets;
  // Loop extents whose product is the number of elements of targets[0], in storage order, and how neighbours are
  // joined: positions in `extents`.
  std::vector<int64_t> extents;
  std::vector<std::vector<int>> groups;
  int unit_groups = 0;                   // leading groups that one unit fixes
  bool rows = false;                     // kLoop: sweeps over a row in each unit; a unit may be all there is
  int64_t lanes = 0;                     // 0: scalars
  bool masked_tail = false;              // the last block must not run over elements twice
  int64_t inner_block = 0;               // > 0: units also cut the last loop into blocks of so many elements
  std::vector<const Instruction*> kept;  // rows for scratch memory
  int64_t kept_length = 0;
  std::vector<std::vector<const Instruction*>> joint;    // reductions for one sweep
  std::vector<const Instruction*> reduces;               // kColumns, kPartials, kPartialColumns
  std::vector<std::vector<int>> partial_buffers;         // for each of `reduces`, for each result
  int64_t blocks = 1, block_size = 0, block_extent = 0;  // kPartials*: cut of the outermost reduced loop
  int64_t column_block = 0;                              // kColumns
  int unroll = 1;                                        // kColumns: rows at a time
  int transposed_group = -1;                             // kTranspose: the group that the source walks
  int64_t tile_rows = 0, tile_columns = 0, tile_square = 0;
  // kTranspose: nothing but the transpose, of one matrix for each place of the other groups; a unit is a tile of
  // `turn`.
  bool staged = false;
  TransposePlan turn;
  std::vector<const Instruction*> transposed;  // kTranspose: arrays read the other way
  const Instruction* special = nullptr;        // kScatter, kSelectAndScatter, kScan
  std::vector<Materialized> reads;             // temporaries of earlier phases
  int64_t work_units = 0;
  int64_t scratch_bytes = 0;
  double cycles = 0;
  std::string note;
  // Partial results of earlier phases, to be combined when the reduction is met.
  struct PartialUse {
    const Instruction* reduce = nullptr;
    std::vector<int> buffers;
    int64_t count = 0, elements = 0;
  };
  std::vector<PartialUse> partials;
};

struct KernelOptions {
  std::vector<InPlacePair> shared;      // the pairs in use; each must be allowed
  const jit::HostInfo* host = nullptr;  // nullptr: jit::Host()
};

struct FusionPlan {
  const Computation* computation = nullptr;
  const jit::HostInfo* host = nullptr;
  int inputs = 0, outputs = 0;
  std::vector<Phase> phases;
  std::vector<int64_t> temp_bytes;
};

absl::StatusOr<FusionPlan> BuildFusionPlan(const Computation& computation, const KernelOptions& options);

// The outputs of a computation, buffers numbered.
std::vector<Target> OutputsOf(const Computation& computation);

// The loops over a phase's elements in a fresh table of variables.
struct PhaseLoops {
  std::vector<VarId> vars;                 // of Phase::extents
  std::vector<std::vector<VarId>> groups;  // of Phase::groups
  Affine position;                         // row-major position of the element
};
PhaseLoops MakeLoops(VarTable& vars, const Phase& phase);
// Index of a target's element at the loops, and the address it is stored at.
Index TargetIndex(VarTable& vars, const Phase& phase, const PhaseLoops& loops, const Target& target);
Affine StoreAddress(VarTable& vars, const Target& target, const Index& index);

// The loops of a reduction, for the element of the result at `index`.
struct ReduceNest {
  std::vector<VarId> vars;
  std::vector<std::vector<VarId>> groups;  // outer to inner
  Index reduced;                           // index in the reduced dimensions
  std::vector<Access> accesses;
  int width = 1;      // bytes of the widest element met
  int body_size = 0;  // number of instructions met
  int64_t total = 1;  // number of reduced elements
};
ReduceNest AnalyzeReduce(VarTable& vars, const AccessWalk::ArraySet& materialized,
                         absl::Span<const Instruction* const> reduces, const Index& index);

// Bytes of an element in registers and in rows of scratch memory.
int RowBytes(PrimitiveType t);

int64_t LanesFor(const jit::HostInfo& host, int width);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_
