// Maps the index of an element to the indices of the elements it is computed from: those of the instruction's operands,
// and through them those of the arrays in memory. Only computes indices; emits no code and reads no array.
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

// lo <= e < hi must hold for the element to exist.
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

// Whether SourcesOf knows the operation: broadcast, reshape, bitcast, transpose, slice, reverse, pad,
// concatenate, dynamic-slice, dynamic-update-slice, gather.
bool MovesElements(const Instruction& instruction);

// The candidates for one element: the first whose guards hold. Guards that always hold are left out; a candidate that
// can never be chosen is left out; the last one has no guards unless no candidate may hold.
std::vector<Source> SourcesOf(const Instruction& instruction, const Index& index, VarTable& vars);

// Adds the guard unless the range of `e` makes it superfluous. False when it can never hold.
bool AddGuard(const VarTable& vars, Guards& guards, const Affine& e, int64_t lo, int64_t hi);

// Index of the window element at `window` (one sum for each dimension) of the output element `index`, and its guards.
// False when it is padding whatever the variables are.
bool WindowElement(const Window& window, absl::Span<const int64_t> operand_dims, const Index& index,
                   const Index& window_index, VarTable& vars, Index& operand_index, Guards& guards);

// The index into a reduce's operand, from that into its result and the reduced positions (in order of dimension).
Index ReduceOperandIndex(const Instruction& reduce, const Index& result_index, absl::Span<const Affine> reduced);
std::vector<int64_t> SortedDims(const Instruction& reduce);  // the reduced dimensions, ascending
bool IsReducedDim(const Instruction& reduce, int64_t dim);
// Shape of the arrays that a reduce, or another operation with array or tuple result, gives: that of the first.
const Shape& FirstShape(const Instruction& instruction);

// Index of the operand's element that a scatter's update at `update_index` goes to, and the guards of its being there.
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

// Follows (instruction, index) pairs to the arrays in memory and records the accesses and reductions on the way.
class AccessWalk {
 public:
  using ArraySet = absl::flat_hash_set<const Instruction*>;
  // Instructions in `materialized` are read from memory instead of being computed.
  AccessWalk(VarTable& vars, const ArraySet& materialized) : vars_(vars), materialized_(materialized) {}

  void Visit(const Instruction* instruction, const Index& index) { Visit(instruction, index, 0, false); }
  // Visits what run-time variables need; call it after the last Visit.
  void Finish();

  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<ReduceUse>& reduces() const { return reduces_; }
  // Every sum whose value matters: addresses, guards, arguments of quotients, iota.
  const std::vector<Affine>& observed() const { return observed_; }
  const ArraySet& visited() const { return instructions_; }
  bool too_complex() const { return visits_ > kMaxVisits; }

 private:
  static constexpr int kMaxVisits = 30000;
  void Visit(const Instruction* instruction, const Index& index, int depth, bool guarded);
  VarTable& vars_;
  const ArraySet& materialized_;
  std::set<std::pair<const Instruction*, std::vector<Affine>>> seen_;
  ArraySet instructions_;
  std::vector<Access> accesses_;
  std::vector<ReduceUse> reduces_;
  std::vector<Affine> observed_;
  int visits_ = 0;
  int finished_vars_ = 0;
};

// Neighbouring variables (outer to inner) that every sum uses as if they were one counter are put together.
std::vector<std::vector<VarId>> MergeVars(const VarTable& vars, absl::Span<const VarId> order,
                                          absl::Span<const Affine> observed);

// Cuts loop extents as the splits ask for; `vars` are the variables of `extents`, in order. False: nothing to cut.
bool ApplySplits(absl::Span<const VarTable::Split> splits, absl::Span<const VarId> vars, std::vector<int64_t>& extents);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_INDEX_MAP_H_
