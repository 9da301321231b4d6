// The evaluation hooks of kernels for the host: rows of values that are staged in scratch memory between passes over a
// row, and vectors along the elements of a reduction.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_HOST_EVALUATION_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_HOST_EVALUATION_H_

#include <map>
#include <set>
#include <vector>

#include "sdk/engine/codegen/body_names.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// Whether so many elements are computed one by one where their code may be unrolled, instead of in one vector that they
// do not fill. Each then has a register, and elements at other places cost nothing.
inline bool IsBetterInScalars(int64_t elements) { return elements < 4 || (elements <= 9 && elements % 4 != 0); }

class HostEvaluation final : public EvaluationHooks {
 public:
  // All must outlive this object.
  HostEvaluation(LoopScopes& scopes, MemoryAccess& memory, const jit::HostInfo& host)
      : scopes_(scopes), memory_(memory), host_(host), passes_(1) {}

  // Stages rows of `length` elements of the instruction at `base`. The first pass over a row that computes all of its
  // elements stores them, and later passes load them. A row consists of the elements over which the loops inside the
  // work item loop iterate.
  void Stage(const Instruction* instruction, llvm::Value* base, int64_t length) {
    rows_[instruction] = Row{base, length};
  }

  // From now on, reductions of a few elements are computed without vectors.
  void UnrollShortLoops() { unrolls_short_loops_ = true; }

  std::optional<Val> Find(const Instruction& instruction, const Index& index) override;
  void OnComputed(const Instruction& instruction, const Index& index, const Val& value) override;
  int ReductionLanes(backplane::codegen::ReduceNest& nest, bool outermost_is_cut, bool by_index) override;
  void BeginPass(absl::Span<const VarId> vars, bool every_element) override;
  void EndPass() override;

 private:
  static constexpr int kItemLevel = 1;  // of LoopScopes: the loop over work items

  struct Row {
    llvm::Value* base = nullptr;
    int64_t length = 0;
    int stored_by = 0;  // number of the pass that is storing it
    bool complete = false;
    Affine origin = {};  // the part of the address that is fixed for the row
  };
  struct Pass {
    std::set<VarId> vars;  // of the loops over the row; empty: the elements make no row
    int number = 0;
  };

  LoopScopes& scopes_;
  MemoryAccess& memory_;
  const jit::HostInfo& host_;
  std::map<const Instruction*, Row> rows_;
  std::vector<Pass> passes_;  // those being emitted, outer to inner, and first what is outside of all
  int number_of_passes_ = 0;
  bool unrolls_short_loops_ = false;
};

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_HOST_EVALUATION_H_
