// Evaluates any element of any instruction of a fusion inside the loops of a kernel.
//
// The caller opens loops and says which variables of the index arithmetic they count; Eval then emits what the wanted
// element needs. Values land in the outermost loop whose counters they depend on (there is no later pass that would
// move them), and each value is made once in its loop. One counter may run over the lanes of a vector: what depends on
// it is a vector, all else a scalar.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_BODY_EMITTER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_BODY_EMITTER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sdk/compiler/index_map.h"
#include "sdk/engine/codegen/combiner.h"
#include "sdk/engine/codegen/elements.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// An array in memory that instructions are read from.
struct ArrayRef {
  llvm::Value* base = nullptr;
  PrimitiveType type = PrimitiveType::kInvalid;
};

// Partial results of a split reduction: `count` of them, each an array of the result's elements.
struct PartialsRef {
  std::vector<llvm::Value*> bases;  // one for each result, in compute form
  int64_t count = 0;
  int64_t elements = 0;
};

// A row of values that one sweep leaves for the next ones, in scratch memory.
struct KeptRow {
  llvm::Value* base = nullptr;
  int64_t length = 0;
  int pending = 0;  // number of the sweep that is storing it
  bool filled = false;
  Affine origin;  // the part of the address that is fixed for the row
};

class BodyEmitter {
 public:
  using LoopBody = std::function<void(llvm::Value* iv, std::vector<llvm::Value*>& carried)>;

  BodyEmitter(ElementEmitter& elements, VarTable& vars, const jit::HostInfo& host);

  ElementEmitter& elements() { return e_; }
  llvm::IRBuilder<>& b() { return b_; }
  VarTable& vars() { return vars_; }

  // What is read from memory. A tuple-shaped instruction has one array for each element.
  void SetArray(const Instruction* instruction, int element, ArrayRef array) {
    arrays_[{instruction, element}] = array;
    materialized_.insert(instruction);
  }
  void SetPartials(const Instruction* reduce, PartialsRef partials) { partials_[reduce] = std::move(partials); }
  void SetKept(const Instruction* instruction, KeptRow row) { kept_[instruction] = row; }
  void SetJoint(std::vector<const Instruction*> reduces);  // to be reduced in one sweep
  // Values already known for an instruction, whatever the index (a loop's accumulators).
  void SetValue(const Instruction* instruction, int element, Val v) { values_[{instruction, element}] = v; }

  // Counts `vars` (outer to inner, as one mixed-radix number) with `value`, an i64. With `lanes` > 0 lane k has
  // value + k. The counter belongs to the innermost open loop.
  void Count(absl::Span<const VarId> vars, llvm::Value* value, int lanes = 0);
  // Guard that holds for the lanes whose number is below the counter's extent.
  Guard TailGuard(absl::Span<const VarId> vars) const;
  // Those of all counters that the index goes by and whose last vector may reach beyond them. What reads at the index
  // before any other guard is known needs them: the array may end where readable memory does.
  Guards TailGuardsOf(const Index& index) const;
  int lanes() const { return lanes_; }

  // for (iv = begin; iv < end; iv += step) with at least one turn. `carried` holds the values before the loop and
  // receives those after it.
  void Loop(llvm::Value* begin, llvm::Value* end, int64_t step, std::vector<llvm::Value*>& carried,
            const LoopBody& body);

  // while (true) { if (!before_turn(carried)) break; if (!turn(carried)) break; } with values that `turn` replaces.
  // Exactly one of the two tests: `before_turn` is null, or `turn` returns null for true.
  void Repeat(std::vector<llvm::Value*>& carried,
              const std::function<llvm::Value*(std::vector<llvm::Value*>&)>& before_turn,
              const std::function<llvm::Value*(std::vector<llvm::Value*>&)>& turn);

  // Code that runs once, in a scope of its own: counters bound inside end with it.
  void Block(const std::function<void()>& body) { If(nullptr, body); }
  // The same, run only if the condition (an i1) holds.
  void If(llvm::Value* condition, const std::function<void()>& body);
  // The value of an array's element, for the rest of the innermost loop.
  void Preset(const Instruction* array, const Index& index, Val v) {
    scopes_.back()->memo[MemoKey{array, 0, index, {}}] = v;
  }
  llvm::Value* ArrayBase(const Instruction* array) const { return arrays_.at({array, 0}).base; }

  // Element `index` of the instruction, of its tuple element `element`. Where the guards do not hold the value is
  // arbitrary, and nothing is read.
  Val Eval(const Instruction* instruction, const Index& index, const Guards& guards, int element = 0);

  // Value of an index: an i64, or a vector of i32 or i64.
  llvm::Value* IndexValue(const Affine& e);
  llvm::Value* Mask(const Guards& guards);  // i1, vector of i1, or null when there are no guards
  // Stores to base[address]. Under a mask only the lanes where it holds; a scalar mask is not allowed.
  void Store(const ArrayRef& array, const Affine& address, Val value, const Guards& guards);
  Val Load(const ArrayRef& array, const Affine& address, const Guards& guards);

  // All results of a called computation of scalars; loops and branches inside run for each lane by itself.
  // `active`: the lanes that count, null for all; see ActiveIn.
  Vals Call(const Computation& computation, absl::Span<const Val> arguments, bool rounded = true,
            llvm::Value* active = nullptr);
  // The lanes whose guards hold, for a computation in which that matters: a loop may have no end for the arbitrary
  // values of the others. Null elsewhere.
  llvm::Value* ActiveIn(const Computation& computation, const Guards& guards);
  static bool HoldsLoop(const Computation& computation);
  llvm::Value* Both(llvm::Value* a, llvm::Value* b);  // logical and of i1s and vectors of i1; null is true
  // Accumulators and inputs through a reduction's computation.
  // `rounded` false: results of one operation of narrow floats stay in f32 precision. Other bodies are computed as
  // written.
  Vals Combine(const Instruction& reduce, absl::Span<const Val> accumulators, absl::Span<const Val> inputs,
               bool rounded = false, llvm::Value* active = nullptr);
  // All lanes of the accumulators in one. `ordered`: by index, see Combiner.
  Vals CombineLanes(const Instruction& reduce, Vals accumulators);
  Vals InitialValues(const Instruction& reduce, bool identity);  // or the identities, where HasIdentities
  bool HasIdentities(const Instruction& reduce);                 // of every result
  const Combiner& CombinerOf(const Instruction& reduce);
  // The whole or a part of a reduction's loops over the elements of the result at `index`; see reduce_emitter.cc.
  struct Range {
    llvm::Value* begin = nullptr;  // of the outermost loop's counter
    llvm::Value* end = nullptr;
  };
  std::vector<Vals> ReduceLoops(absl::Span<const Instruction* const> reduces, const Index& index, const Guards& guards,
                                const Range* range, bool finish);

  // The address space a store of compute-form values uses (partials, kept rows).
  llvm::Type* RowType(PrimitiveType t);
  void StoreRow(llvm::Value* base, const Affine& position, PrimitiveType t, Val v);
  Val LoadRow(llvm::Value* base, const Affine& position, PrimitiveType t);

  int LevelOf(const Affine& e) const;
  int LevelOf(const Index& index) const;
  bool HasLanes(const Affine& e) const;
  bool HasLanes(const Index& index) const;
  int level() const { return static_cast<int>(scopes_.size()) - 1; }
  // Runs fn with the builder at the end of the code of an outer loop.
  void AtLevel(int level, const std::function<void()>& fn);

 private:
  struct Counter {
    std::vector<VarId> vars;
    std::vector<int64_t> strides;
    llvm::Value* value = nullptr;
    int level = 0;
    int lanes = 0;
    int64_t extent = 1;
  };
  struct MemoKey {
    const Instruction* instruction;
    int element;
    Index index;
    Guards guards;
    bool operator<(const MemoKey& o) const;
  };
  struct Scope {
    llvm::Instruction* hoist = nullptr;  // the branch into the next loop
    std::map<MemoKey, Val> memo;
    std::map<VarId, llvm::Value*> values;  // variables
    std::map<Affine, llvm::Value*> sums;   // uniform parts of addresses
    std::map<std::vector<Guard>, llvm::Value*> masks;
  };
  struct Lin {
    Affine uniform;              // evaluated as scalars
    int64_t stride = 0;          // of the lanes
    llvm::Value* vec = nullptr;  // further part, different for each lane
  };

  int VarLevel(VarId v) const;
  bool VarHasLanes(VarId v) const;
  llvm::Value* VarValue(VarId v);  // i64, or vector when it has lanes
  llvm::Value* UniformValue(const Affine& e);
  Lin Linearized(const Affine& e);
  llvm::Type* IndexVectorType(const Affine& e);
  llvm::Value* LaneNumbers(llvm::Type* type);
  Guards Prune(const Guards& guards, const Index& index) const;
  Val Compute(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalMoved(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalBitcast(const Instruction* op, const Index& index, const Guards& guards);
  Val EvalWindow(const Instruction* op, const Index& index, const Guards& guards, int element);
  Val EvalReduce(const Instruction* op, const Index& index, const Guards& guards, int element);
  // `parameters`: the leaves of each. `active`: the lanes that count, null for all; of others the results are
  // arbitrary.
  Vals CallBody(const Computation& computation, absl::Span<const Vals> parameters, bool rounded, llvm::Value* active);
  Vals CallWhile(const Instruction& loop, const Vals& initial, bool rounded, llvm::Value* active);
  Vals CallBranch(const Instruction& branch, absl::Span<const Vals> operands, bool rounded, llvm::Value* active);
  Val EvalControl(const Instruction* op, const Guards& guards, int element);
  Val EvalPartials(const Instruction* op, const Index& index, const PartialsRef& partials, int element);
  std::optional<Val> FromKept(const Instruction* op, const Index& index);
  void ToKept(const Instruction* op, const Index& index, const Val& v);
  llvm::Value* LoadVector(llvm::Type* element, llvm::Value* base, const Affine& address, int scale, int offset,
                          llvm::Value* mask);
  llvm::Value* StridedLoad(llvm::Type* element, llvm::Value* pointer, int stride);

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  VarTable& vars_;
  const jit::HostInfo& host_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Counter> counters_;
  std::map<VarId, int> counter_of_;
  int lanes_ = 0;
  std::map<std::pair<const Instruction*, int>, ArrayRef> arrays_;
  std::map<std::pair<const Instruction*, int>, Val> values_;
  std::map<const Instruction*, PartialsRef> partials_;
  std::map<const Instruction*, KeptRow> kept_;
  std::set<VarId> sweep_vars_;  // loop variables of the sweep that is being emitted, for kept rows
  int sweep_ = 0, sweeps_ = 0;
  std::map<const Instruction*, std::vector<const Instruction*>> joint_;
  AccessWalk::ArraySet materialized_;
  std::map<const Instruction*, ArrayRef> constants_;
  std::map<const Computation*, Combiner> combiners_;
  llvm::Value* safe_ = nullptr;  // a place to read from when a scalar's guards do not hold
};

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_BODY_EMITTER_H_
