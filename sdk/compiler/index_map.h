// Maps the index of an element to the indices of the elements from which it is computed: those of the operands of the
// instruction, and through them those of the arrays in memory. It only computes indices; it emits no code and reads no
// array.
#ifndef BACKPLANE_SDK_COMPILER_INDEX_MAP_H_
#define BACKPLANE_SDK_COMPILER_INDEX_MAP_H_

#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "core/ir/computation.h"
#include "sdk/compiler/affine.h"

namespace backplane::compiler {

// A condition for the existence of an element: lo <= e < hi.
struct Guard {
  Affine e;
  int64_t lo = 0, hi = 0;
  bool operator==(const Guard&) const = default;
  bool operator<(const Guard& o) const { return e == o.e ? std::pair(lo, hi) < std::pair(o.lo, o.hi) : e < o.e; }
};
using Guards = absl::InlinedVector<Guard, 2>;

struct Source {
  const Instruction* instruction = nullptr;
  Index index;
  Guards guards;
};

// Whether FindSources knows the operation: broadcast, reshape, bitcast, transpose, slice, reverse, pad,
// concatenate, dynamic-slice, dynamic-update-slice, gather.
bool MovesElements(const Instruction& instruction);

// Returns the candidates for one element: the value is that of the first candidate whose guards hold. Omits guards that
// always hold and candidates that can never be chosen. The last candidate has no guards unless it is possible that no
// candidate applies.
std::vector<Source> FindSources(const Instruction& instruction, const Index& index, VarTable& vars);

// Adds a guard unless the range of `e` implies it. Returns false if it can never hold.
bool AddGuard(const VarTable& vars, Guards& guards, const Affine& e, int64_t lo, int64_t hi);

// Computes the index in the operand of the window element at `window_index` of the output element `index`, and its
// guards. Both indices have one sum per dimension. Returns false if the element is padding for all values of the
// variables.
bool WindowElement(const Window& window, absl::Span<const int64_t> operand_dims, const Index& index,
                   const Index& window_index, VarTable& vars, Index& operand_index, Guards& guards);

// Returns the index into the operand of a reduce from the index into its result and the reduced positions, in the order
// of the dimensions.
Index ReduceOperandIndex(const Instruction& reduce, const Index& result_index, absl::Span<const Affine> reduced);
std::vector<int64_t> SortedDims(const Instruction& reduce);  // the reduced dimensions, ascending
bool IsReducedDim(const Instruction& reduce, int64_t dim);
// Returns the result shape of the instruction if it is an array, or of its first element if it is a tuple.
const Shape& FirstShape(const Instruction& instruction);

// Index of the operand's element that a scatter's update at `update_index` goes to, and the guards of its window's
// being inside the operand as a whole.
Index ScatterTarget(const Instruction& scatter, const Index& update_index, VarTable& vars, Guards& guards);
// The dimensions of a scatter's updates that are not window dimensions, ascending.
std::vector<int64_t> ScatterUpdateDims(const Instruction& scatter);

struct Access {
  const Instruction* array = nullptr;  // parameter, constant or materialized instruction
  Affine address;                      // in elements
  Index index;
  int reduce_depth = 0;  // number of reductions around the access
  bool guarded = false;
};

struct ReduceUse {
  const Instruction* reduce = nullptr;
  Index index;
  int reduce_depth = 0;
};

// Follows (instruction, index) pairs to the arrays in memory and records all accesses and reductions.
class AccessWalk {
 public:
  using ArraySet = absl::flat_hash_set<const Instruction*>;
  // Instructions in `materialized` are read from memory instead of being computed.
  AccessWalk(VarTable& vars, const ArraySet& materialized) : vars_(vars), materialized_(materialized) {}

  void Visit(const Instruction* instruction, const Index& index) { Visit(instruction, index, 0, false); }
  // Visits the indices that run-time variables depend on. Call it after the last Visit.
  void Finish();

  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<ReduceUse>& reduces() const { return reduces_; }
  // All sums whose values matter: addresses, guards, arguments of quotients, iotas.
  const std::vector<Affine>& observed() const { return observed_; }
  // Those of them that decide which of several operands has the element: of concatenates, pads, updates.
  const std::vector<Guard>& conditions() const { return conditions_; }
  const ArraySet& visited() const { return instructions_; }
  bool too_complex() const { return visits_ > kMaxVisits; }

 private:
  static constexpr int kMaxVisits = 30000;
  static constexpr int kMaxNesting = 1000;  // of visits: each takes some 2 KB of the stack
  void Visit(const Instruction* instruction, const Index& index, int depth, bool guarded);
  void Follow(const Instruction* instruction, const Index& index, int depth, bool guarded);
  VarTable& vars_;
  const ArraySet& materialized_;
  std::set<std::pair<const Instruction*, std::vector<Affine>>> seen_;
  ArraySet instructions_;
  std::vector<Access> accesses_;
  std::vector<ReduceUse> reduces_;
  std::vector<Affine> observed_;
  std::vector<Guard> conditions_;
  int visits_ = 0, nesting_ = 0;
  int finished_vars_ = 0;
};

// Groups neighbouring variables (outer to inner) that every sum uses as if they were one counter.
std::vector<std::vector<VarId>> MergeVars(const VarTable& vars, absl::Span<const VarId> order,
                                          absl::Span<const Affine> observed);

// Splits loop extents at the given points. `vars` are the variables of `extents`, in order. Returns false if there was
// nothing to split.
bool ApplySplits(absl::Span<const VarTable::Split> splits, absl::Span<const VarId> vars, std::vector<int64_t>& extents);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_INDEX_MAP_H_
