// The fusion policy of the engine: which instructions one generated kernel computes together.
//
// Rules, from consumers to producers:
//   - A producer whose readers are all in one kernel joins it, if each of its elements is computed about once there, or
//     is cheap. Nothing is computed many times to save one store.
//   - A row reduction joins the kernel that uses it on the same rows (softmax, layer norm).
//   - A producer with other readers becomes a further result of a kernel over the same elements or rows.
//   - Kernels over the same elements that read the same large array become one with several results, and so do kernels
//     of single elements.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_FUSION_POLICY_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_FUSION_POLICY_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "sdk/compiler/fusion/fusion_graph.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/custom_lowering.h"

namespace backplane::engine {

class EngineFusionPolicy : public compiler::FusionPolicy {
 public:
  // `lowering` may be null. Instructions that it claims are not fused.
  explicit EngineFusionPolicy(const CustomLowering* lowering) : lowering_(lowering) {}

  compiler::FusionOptions options() const override;
  codegen::FusionRole GetRole(const Instruction& instruction) const override;
  void Start(const compiler::FusionGraph& graph) override;
  compiler::MergeDecision DecideMerge(const compiler::FusionGraph& graph, int producer, int target,
                                      bool further_result) const override;
  bool CanPlan(const Computation& kernel) const override;
  bool IsClosed(const compiler::FusionGraph& graph, int group) const override { return facts_[group].alone; }
  void BeforeMerge(const compiler::FusionGraph& graph, int from, int into) override;
  void Finish(compiler::FusionGraph& graph) override;
  bool NeedsFusion(const compiler::FusionGraph& graph, int group) const override;
  compiler::FusionLabel Describe(const compiler::FusionGraph& graph, int group,
                                 absl::Span<const int> results) const override;

 private:
  // Properties of a group.
  struct Facts {
    int weight = 0;   // members that become code
    int update = -1;  // the member that updates an array
    bool alone = false;
    bool has_reduction = false, has_row_consumer = false;
    std::vector<int64_t> space;  // dims of the results (or of the rows, when reductions are broadcast back)
  };

  compiler::MergeDecision DecideJoin(const compiler::FusionGraph& graph, int n, int target) const;
  double CountRepeats(const compiler::FusionGraph& graph, int n, int target, int depth) const;
  bool PreventsWorkInPlace(const compiler::FusionGraph& graph, int n, int target) const;
  bool PreventsUpdateInPlace(const compiler::FusionGraph& graph, int n, int target) const;
  compiler::MergeDecision JudgeReduction(const compiler::FusionGraph& graph, int n, int target) const;
  struct Downstream {
    bool has_reduction = false;  // a reduction depends on it
    bool by_rows = true;         // dimensions are added at the end only
  };
  Downstream FindDownstream(const compiler::FusionGraph& graph, int n, int target) const;
  bool FeedsRows(const compiler::FusionGraph& graph, int n, int target) const;
  bool LeadsToRowReduction(const compiler::FusionGraph& graph, int n, absl::Span<const int64_t> space, int depth) const;
  bool IsOnlyReadElementwise(const compiler::FusionGraph& graph, int n, int target) const;
  bool AreAllUsersElementwise(const compiler::FusionGraph& graph, int n, int group) const;
  bool IsCostlyInScatter(const compiler::FusionGraph& graph, int n, const Instruction& update) const;
  bool IsCodeSmall(const compiler::FusionGraph& graph, int n, int target) const;
  bool HasCopyPerOperand(const compiler::FusionGraph& graph, absl::Span<const int> groups) const;
  double CountIndices(const compiler::FusionGraph& graph, int n, int group, bool has_copies,
                      const absl::flat_hash_map<int, double>& known) const;
  // Returns the reduction in the group of n: n itself, or the one on which n depends.
  const Instruction* FindReduction(const compiler::FusionGraph& graph, int n) const;
  // Returns the dimensions of the operand of a row reduction of the group, or an empty list if it has none.
  std::vector<int64_t> RowSpace(const compiler::FusionGraph& graph, int group) const;

  void MergeSiblings(compiler::FusionGraph& graph) const;
  bool MayBeSibling(const compiler::FusionGraph& graph, int group, const Shape& shared) const;
  bool DoSiblingsFit(const compiler::FusionGraph& graph, int a, int b) const;
  void MergeScalars(compiler::FusionGraph& graph) const;
  bool IsScalarKernel(const compiler::FusionGraph& graph, int group) const;

  const CustomLowering* const lowering_;
  std::vector<double> costs_;  // by node: cycles per element
  std::vector<Facts> facts_;
};

// Whether an instruction is copied to each of its readers before grouping, because a copy causes almost no memory
// traffic.
bool IsFreeSource(const Instruction& instruction);

// Gives each reader its own copy of values that are cheaper to compute again than to store: sources, broadcasts, and
// arithmetic on one array. A backward pass then recomputes a residual from its inputs instead of loading it.
void DuplicateCheapProducers(Computation* computation, const CustomLowering* lowering);

// Rows shorter than this have vectors that run across their ends.
inline constexpr int64_t kShortRow = 32;
// Returns how often a broadcast of an array repeats each element in a run, 1: not at all, or its dimensions are
// permuted.
int64_t CountRepeatsInRow(const Instruction& broadcast);

// Splits a broadcast that repeats each element a few times, and all of that many times more, as the statistics of group
// normalization: f32[32] to f32[64,64,32,10]. The first part, f32[32,10], becomes a kernel of its own. All others read
// it in vectors; otherwise they divide indices and gather, because their vectors run across the ends of the short rows.
void SplitShortBroadcasts(Computation* computation);
// Whether this is such a first part.
bool IsShortBroadcast(const Instruction& i);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_FUSION_POLICY_H_
