// The passes that most plugins use, one class each. The .cc files describe them; golden cases are in testdata/.
#ifndef BACKPLANE_CORE_PASSES_PASSES_H_
#define BACKPLANE_CORE_PASSES_PASSES_H_

#include "core/passes/pass.h"
#include "core/passes/rewriter.h"

namespace backplane {

#define BACKPLANE_DECLARE_PASS(Class, text, required)        \
  class Class : public Pass {                                \
   public:                                                   \
    absl::string_view name() const override { return text; } \
    absl::StatusOr<bool> Run(Module* module) override;       \
    bool IsRequired() const override { return required; }    \
  }

// Inlines calls, including composites.
BACKPLANE_DECLARE_PASS(InlineCalls, "inline-calls", true);
// Clones computations so that no loop body, condition or branch has two callers.
BACKPLANE_DECLARE_PASS(UnshareComputations, "unshare-computations", true);
// Removes get-tuple-element of tuple, tuples of all elements of one tuple, and optimization barriers that are not
// needed any more.
BACKPLANE_DECLARE_PASS(SimplifyTuples, "simplify-tuples", true);
// Removes loop-invariant and unused loop state, and loops and conditionals with a constant condition.
BACKPLANE_DECLARE_PASS(SimplifyControlFlow, "simplify-control-flow", false);
// Removes instructions that neither a root nor a side effect needs, and unreachable computations.
BACKPLANE_DECLARE_PASS(RemoveDeadCode, "remove-dead-code", false);
// Merges equal pure instructions of a computation.
BACKPLANE_DECLARE_PASS(EliminateCommonSubexpressions, "eliminate-common-subexpressions", false);
// Expands operations without a kernel of their own to simpler ones: batch normalization, map, clamp of tuples, and
// matrix factorizations that are custom calls (expand_factorizations.h).
BACKPLANE_DECLARE_PASS(ExpandOperations, "expand-operations", true);
// Replaces the start and done halves of asynchronous operations by synchronous ones. Not part of MakeCommonPipeline.
BACKPLANE_DECLARE_PASS(ExpandAsync, "expand-async", true);
// Simplifies collectives of a single replica or partition, and moves each send before the receives that depend on it.
// Returns InvalidArgument [channel_cycle] if that is impossible (core/analysis/transfer_order.h). Not part of
// MakeCommonPipeline.
BACKPLANE_DECLARE_PASS(SimplifyCollectives, "simplify-collectives", true);
// Expands scans to loops. Run it before InlineCalls, because the loops call the bodies of the scans.
BACKPLANE_DECLARE_PASS(ExpandScans, "expand-scans", true);
// Expands ragged dots to loops over blocks of one group each, and scaled dots to products and a plain dot.
BACKPLANE_DECLARE_PASS(ExpandDots, "expand-dots", true);
// Unrolls short loops over elementwise arithmetic. Run it after constants are folded; it exposes more constants.
BACKPLANE_DECLARE_PASS(UnrollLoops, "unroll-loops", false);
// Replaces dimensions of dynamic size by full ones and a size in a separate value. Returns Unimplemented if an
// operation has no such form; the module may then be partly rewritten and must be discarded. Run it after InlineCalls.
BACKPLANE_DECLARE_PASS(ResolveDynamicSizes, "resolve-dynamic-sizes", true);

// Drops the layouts of instructions, which do not affect the meaning of a program, except those that custom calls
// request. Bitcasts between layouts become transposes. For programs as the host passes them in: not part of
// MakeCommonPipeline.
BACKPLANE_DECLARE_PASS(DropLayouts, "drop-layouts", true);

#undef BACKPLANE_DECLARE_PASS

// Applies algebraic identities that hold for every value of the type, signed zeros and NaN included (the rules in
// core/passes/algebra), until none applies any more.
class SimplifyAlgebra : public Pass {
 public:
  // `transposes_into_dots` enables the rules that absorb a transposed operand of a dot into its dimension numbers, and
  // that replace a dot with one product per element by a multiplication. Disable it after dots have their final form.
  explicit SimplifyAlgebra(bool transposes_into_dots = true);
  absl::string_view name() const override { return "simplify-algebra"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

  static RuleSet MakeRules(bool transposes_into_dots = true);
  const RuleSet& rules() const { return rules_; }
  // Number of applications of each rule, over all runs.
  const std::vector<int64_t>& applied() const { return applied_; }

 private:
  RuleSet rules_;
  std::vector<int64_t> applied_;
};

// Moves loop-invariant work in front of loops if that saves more than the extra state costs. Ignores operations on
// arrays of fewer than `min_elements` elements.
class HoistLoopInvariants : public Pass {
 public:
  explicit HoistLoopInvariants(int64_t min_elements = 64) : min_elements_(min_elements) {}
  absl::string_view name() const override { return "hoist-loop-invariants"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;
  int64_t hoisted() const { return hoisted_; }  // elements added to loop states, over all runs

 private:
  int64_t min_elements_;
  int64_t hoisted_ = 0;
};

// Evaluates instructions with constant operands if the result has at most `max_elements` elements.
class FoldConstants : public Pass {
 public:
  explicit FoldConstants(int64_t max_elements = 4096) : max_elements_(max_elements) {}
  absl::string_view name() const override { return "fold-constants"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  int64_t max_elements_;
};

// Whether any array in the module has a dimension of dynamic size.
bool HasDynamicSizes(const Module& module);

// The passes above in the usual order, for a plugin without requirements of its own.
std::unique_ptr<PassPipeline> MakeCommonPipeline();

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PASSES_H_
