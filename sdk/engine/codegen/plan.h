// The plan of a fusion: its phases, and the loops of each phase. Planning only analyzes the program; the emitters
// follow the plan.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/relayout/transpose.h"
#include "sdk/compiler/index_map.h"
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
using compiler::MovesElements;
using compiler::ReduceUse;
using compiler::SortedDims;
using compiler::Term;
using compiler::VarId;
using compiler::VarKind;
using compiler::VarTable;

// One array that a phase writes.
struct PhaseOutput {
  const Instruction* instruction = nullptr;  // the value
  int element = 0;                           // element of a tuple-shaped instruction
  int buffer = 0;                            // number in the kernel's buffers
  bool per_row = false;                      // RowPhase: one element for each work item
  // The larger array of which the output is a part, if any: a dynamic-update-slice (the value is its update), a
  // concatenate (the value is operand number `part`), or a select-and-scatter (the value is the scalar that fills the
  // array).
  const Instruction* container = nullptr;
  int part = 0;
};

// A value that an earlier phase stored in a temporary buffer.
struct Materialized {
  const Instruction* instruction = nullptr;
  int element = 0;
  int buffer = 0;
};

// Partial results of an earlier phase, which are combined where the reduction is evaluated.
struct PartialReduction {
  const Instruction* reduce = nullptr;
  std::vector<int> buffers;  // for each result
  int64_t count = 0, elements = 0;
};

// Loop extents whose product is the number of elements of the first output, in storage order. `groups` lists the
// positions in `extents` that one counter counts together. The last loop may run over a segment of its dimension only.
struct LoopNest {
  std::vector<int64_t> extents;
  int64_t segment_begin = 0;
  int64_t whole_extent = 0;  // of the dimension of which the last loop is a segment; 0: the loop is all of it
  std::vector<std::vector<int>> groups;

  int64_t ComputeExtent(size_t group) const;
};

// Reductions that are computed by the same loops.
using MultiOutput = std::vector<const Instruction*>;

// ---- The kinds of phases ------------------------------------------------------------------------------------------
// `lanes` is the number of vector lanes; 0: scalars.

// Computes the outputs element by element, in vectors along the last loop. Short loops, as over the three coordinates
// of a point, can be unrolled: then the code for a vector of points computes all coordinates, each with constant
// indices.
struct LoopPhase {
  LoopNest nest;              // the groups have all extents but the unrolled ones
  std::vector<int> unrolled;  // positions in `nest.extents`, ascending
  int item_groups = 0;  // leading groups that one work item fixes; 0: one loop, of which a work item is one vector
  int64_t lanes = 0;
  bool masked_tail = false;  // the last vector must not compute elements twice
  int64_t inner_block = 0;   // > 0: work items also cut the last loop, into blocks of so many elements
  std::vector<MultiOutput> multi_output;
  std::vector<PartialReduction> partials;
};

// Each work item computes one row of the outputs. It makes one pass over the row for each reduction inside and one for
// the outputs. Values that several passes need can be staged in scratch memory.
struct RowPhase {
  LoopNest nest;
  int item_groups = 0;  // leading groups that one work item fixes; may be 0: one row is all there is
  int64_t lanes = 0;
  bool masked_tail = false;
  int64_t row_length = 0;
  std::vector<const Instruction*> staged;  // values with a row buffer
  std::vector<MultiOutput> multi_output;
};

// Each work item computes one element of the outputs and vectorizes the reductions inside.
struct ReducePhase {
  LoopNest nest;
  std::vector<MultiOutput> multi_output;
};

// Computes reductions over outer dimensions with the accumulators of a block of columns in scratch memory.
struct ColumnReducePhase {
  LoopNest nest;
  std::vector<const Instruction*> reduces;
  int64_t lanes = 0;
  int64_t column_block = 0;
  int unroll = 1;  // rows at a time
};

// The division of the outermost reduced loop into blocks. Each work item reduces one block and writes its results to
// temporary buffers.
struct ReductionSplit {
  int64_t blocks = 1, block_size = 0, block_extent = 0;
  std::vector<std::vector<int>> buffers;  // for each reduction, for each of its results
};

struct PartialReducePhase {
  LoopNest nest;
  std::vector<const Instruction*> reduces;
  ReductionSplit split;
};

struct PartialColumnReducePhase : ColumnReducePhase {
  ReductionSplit split;
};

// Whether an access reads an array element by element along `rows` and with a larger step along `columns`, at no other
// positions than the loops determine. A transposing phase reads such an array at the first index for which this is
// true.
bool IsReadAcross(const VarTable& vars, const Access& a, const std::vector<VarId>& rows,
                  const std::vector<VarId>& columns);

// Computes outputs from arrays that are contiguous along another loop than the last one. They are read in tiles, which
// are transposed in registers.
struct TransposePhase {
  LoopNest nest;
  int source_group = 0;  // the group that the arrays are contiguous along
  std::vector<const Instruction*> arrays;
  int64_t lanes = 0;
  int64_t tile_rows = 0, tile_columns = 0, tile_square = 0;
};

// A pure transpose of one matrix for each index of the other groups. A work item is one tile of `tiles`.
struct TransposeCopyPhase {
  LoopNest nest;
  int source_group = 0;
  const Instruction* array = nullptr;
  TransposePlan tiles;
};

// Applies updates one after another. Work items divide the last dimension of the updates.
struct ScatterPhase {
  const Instruction* operation = nullptr;
  int64_t lanes = 0;
  int64_t inner_block = 0;  // with lanes: elements for each work item
};

struct SelectAndScatterPhase {
  const Instruction* operation = nullptr;
  int64_t lanes = 0;
  int item_dimensions = 0;  // leading dimensions that one work item fixes
};

// Computes a reduce-window that is a cumulative reduction.
struct ScanPhase {
  const Instruction* operation = nullptr;
  int64_t lanes = 0;
};

struct Phase {
  std::vector<PhaseOutput> outputs;
  std::vector<Materialized> reads;  // temporaries of earlier phases
  int64_t work_items = 0;
  int64_t scratch_bytes = 0;
  double cycles = 0;
  std::string note;
  std::variant<LoopPhase, RowPhase, ReducePhase, PartialReducePhase, ColumnReducePhase, PartialColumnReducePhase,
               TransposePhase, TransposeCopyPhase, ScatterPhase, SelectAndScatterPhase, ScanPhase>
      kind;

  // Returns the loops over the outputs, or null if the loops of the kind follow from its operation.
  const LoopNest* nest() const;
  // Returns the operation of such a kind of phase, else null.
  const Instruction* operation() const;
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

// Returns the outputs of a computation with their buffer numbers.
std::vector<PhaseOutput> CollectOutputs(const Computation& computation);
const Shape& GetShape(const PhaseOutput& output);

// ---- Loops as variables of the index algebra ----------------------------------------------------------------------

// The loops of a nest as variables.
struct PhaseLoops {
  std::vector<VarId> vars;                 // of LoopNest::extents
  std::vector<std::vector<VarId>> groups;  // of LoopNest::groups
  Affine position;                         // row-major position of the element
};
PhaseLoops MakeLoops(VarTable& vars, const LoopNest& nest);
// Returns the positions of the elements that one iteration of the other loops computes, in row-major order, when the
// loops `unrolled` (positions in the nest's extents) are unrolled.
std::vector<Affine> UnrolledPositions(const VarTable& vars, const PhaseLoops& loops, absl::Span<const int> unrolled);
// Return the index of an output element at the loops, and the address at which it is stored.
Index OutputIndex(VarTable& vars, const PhaseLoops& loops, const PhaseOutput& output);
Affine StoreAddress(VarTable& vars, const PhaseOutput& output, const Index& index);
// Returns the index at which the value is evaluated for this index of the output. A scalar that fills an array has an
// empty index.
Index ValueIndex(const PhaseOutput& output, const Index& index);

int64_t LanesFor(const jit::HostInfo& host, int width);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PLAN_H_
