// The passes that every plugin wants, one class each; what each does stands in its .cc, its golden cases in testdata/.
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

// Puts the bodies of called computations in the place of their calls, composites included.
BACKPLANE_DECLARE_PASS(InlineCalls, "inline-calls", true);
// Gives every loop and branch computations of its own: afterwards no body, condition or branch has two callers.
BACKPLANE_DECLARE_PASS(UnshareComputations, "unshare-computations", true);
// get-tuple-element of tuple, tuple of all elements of a tuple, optimization barriers that nothing needs any more.
BACKPLANE_DECLARE_PASS(SimplifyTuples, "simplify-tuples", true);
// Loop state that no turn changes or nobody reads; loops and branches whose condition is known.
BACKPLANE_DECLARE_PASS(SimplifyControlFlow, "simplify-control-flow", false);
// Whatever no root and no side effect needs; computations that nobody calls.
BACKPLANE_DECLARE_PASS(RemoveDeadCode, "remove-dead-code", false);
// Equal pure instructions of one computation become one.
BACKPLANE_DECLARE_PASS(EliminateCommonSubexpressions, "eliminate-common-subexpressions", false);
// Operations without a kernel of their own in terms of simpler ones: batch normalization, map, clamp of tuples,
// factorizations that hosts write as custom calls (expand_factorizations.h).
BACKPLANE_DECLARE_PASS(ExpandOperations, "expand-operations", true);
// Start and done halves of asynchronous operations as one operation. Not part of CommonPipeline.
BACKPLANE_DECLARE_PASS(ExpandAsync, "expand-async", true);
// Collectives without a partner, by the module's numbers of replicas and partitions; sends in front of what waits for
// them, or InvalidArgument [channel_cycle] (core/analysis/transfer_order.h). Not part of CommonPipeline.
BACKPLANE_DECLARE_PASS(SimplifyCollectives, "simplify-collectives", true);
// Scans as loops. Before InlineCalls: the loops call the scans' bodies.
BACKPLANE_DECLARE_PASS(ExpandScans, "expand-scans", true);
// Ragged dots as loops over blocks of one group each, scaled dots as products and a plain dot.
BACKPLANE_DECLARE_PASS(ExpandDots, "expand-dots", true);
// Short loops over elementwise arithmetic as copies of their body. Wants constants folded, leaves more to fold.
BACKPLANE_DECLARE_PASS(UnrollLoops, "unroll-loops", false);
// Dimensions of dynamic size as full ones and a number beside them; Unimplemented, on a module that may be half
// changed, where an operation has no such form. After InlineCalls.
BACKPLANE_DECLARE_PASS(ResolveDynamicSizes, "resolve-dynamic-sizes", true);

// Layouts of instructions, which say nothing about what a program means, but for those that custom calls ask for;
// bitcasts between layouts become transposes. For a program as a host hands it over: not part of CommonPipeline.
BACKPLANE_DECLARE_PASS(DropLayouts, "drop-layouts", true);

#undef BACKPLANE_DECLARE_PASS

// Identities that hold for every value of the type, signed zeros and NaN included: rules of core/passes/algebra,
// applied until none applies any more.
class SimplifyAlgebra : public Pass {
 public:
  // `transposes_into_dots`: a transposed operand of a dot becomes other dimension numbers, and a dot of one product
  // that product. Off for a plugin that has given its dots the form it wants.
  explicit SimplifyAlgebra(bool transposes_into_dots = true);
  absl::string_view name() const override { return "simplify-algebra"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

  static RuleSet MakeRules(bool transposes_into_dots = true);
  const RuleSet& rules() const { return rules_; }
  // How often each of the rules was applied, in all runs so far.
  const std::vector<int64_t>& applied() const { return applied_; }

 private:
  RuleSet rules_;
  std::vector<int64_t> applied_;
};

// Work that is the same in every turn of a loop moves in front of it, where that saves more than it costs memory.
// Operations over arrays of fewer than `min_elements` elements are no work.
class HoistLoopInvariants : public Pass {
 public:
  explicit HoistLoopInvariants(int64_t min_elements = 64) : min_elements_(min_elements) {}
  absl::string_view name() const override { return "hoist-loop-invariants"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;
  int64_t hoisted() const { return hoisted_; }  // elements that loops carry more, in all runs so far

 private:
  int64_t min_elements_;
  int64_t hoisted_ = 0;
};

// Evaluates instructions whose operands are constants, where the result is not larger than `max_elements`.
class FoldConstants : public Pass {
 public:
  explicit FoldConstants(int64_t max_elements = 4096) : max_elements_(max_elements) {}
  absl::string_view name() const override { return "fold-constants"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  int64_t max_elements_;
};

// Whether anything in the module has a dimension of dynamic size.
bool HasDynamicSizes(const Module& module);

// All of the above in the usual order, for a plugin that has no wishes of its own.
std::unique_ptr<PassPipeline> CommonPipeline();

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PASSES_H_
