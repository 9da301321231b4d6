#include "sdk/engine/codegen/host_evaluation.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

std::optional<Val> HostEvaluation::Find(const Instruction& instruction, const Index& index) {
  auto it = rows_.find(&instruction);
  if (it == rows_.end() || !it->second.complete) return std::nullopt;
  const Row& row = it->second;
  const Affine address = Linearize(index, instruction.shape().dimensions());
  Affine fixed, moving;
  fixed.constant = address.constant;
  for (const Term& t : address.terms) {
    (scopes_.GetLevel(t.var) <= kItemLevel ? fixed : moving).Add(Affine::Var(t.var), t.coef);
  }
  const Affine offset = fixed.Plus(row.origin, -1);
  if (!offset.IsConst()) return std::nullopt;
  moving.constant = offset.constant;
  const auto [lo, hi] = scopes_.vars().Range(moving);
  if (lo < 0 || hi >= row.length) return std::nullopt;
  return memory_.LoadComputed(row.base, moving, instruction.shape().element_type());
}

void HostEvaluation::OnComputed(const Instruction& instruction, const Index& index, const Val& value) {
  auto it = rows_.find(&instruction);
  const Pass& pass = passes_.back();
  if (it == rows_.end() || it->second.complete || it->second.stored_by != 0 || pass.vars.empty()) return;
  Row& row = it->second;
  const VarTable& vars = scopes_.vars();
  const Affine address = Linearize(index, instruction.shape().dimensions());
  Affine fixed, moving;
  fixed.constant = address.constant;
  for (const Term& t : address.terms) {
    (pass.vars.contains(t.var) ? moving : fixed).Add(Affine::Var(t.var), t.coef);
  }
  for (const Term& t : fixed.terms) {
    if (scopes_.GetLevel(t.var) > kItemLevel) return;
  }
  // Every position of the row exactly once: the strides are those of a mixed-radix number over all of the pass's loops.
  std::vector<Term> terms(moving.terms.begin(), moving.terms.end());
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.coef < b.coef; });
  int64_t expected = 1;
  for (const Term& t : terms) {
    if (t.coef != expected || vars.def(t.var).kind != VarKind::kLoop) return;
    expected *= vars.extent(t.var);
  }
  if (expected != row.length || terms.size() != pass.vars.size()) return;
  memory_.StoreComputed(row.base, moving, instruction.shape().element_type(), value);
  row.stored_by = pass.number;
  row.origin = fixed;
}

int HostEvaluation::ReductionLanes(ReduceNest& nest, bool outermost_is_cut, bool by_index) {
  std::vector<std::vector<VarId>>& groups = nest.groups;
  size_t best = groups.size() - 1;
  if (!by_index && !outermost_is_cut) {
    // Lanes go along the loop that walks memory element by element in most arrays.
    int64_t best_count = -1;
    for (size_t g = 0; g < groups.size(); ++g) {
      const int64_t count = std::count_if(nest.accesses.begin(), nest.accesses.end(), [&](const Access& a) {
        return std::abs(a.address.GetCoef(groups[g].back())) == 1;
      });
      if (count >= best_count) best_count = count, best = g;
    }
  }
  std::rotate(groups.begin() + static_cast<int64_t>(best), groups.begin() + static_cast<int64_t>(best) + 1,
              groups.end());
  const int64_t n = ComputeExtent(scopes_.vars(), groups.back());
  if (unrolls_short_loops_ && IsBetterInScalars(n)) return 0;
  int64_t lanes = LanesFor(host_, nest.width);
  if (nest.body_size <= 8 && n >= 4 * lanes && lanes <= 32) lanes *= 2;
  if (n < lanes) lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  return lanes < 4 ? 0 : static_cast<int>(lanes);
}

void HostEvaluation::BeginPass(absl::Span<const VarId> vars, bool every_element) {
  Pass pass;
  pass.number = ++number_of_passes_;
  if (every_element && scopes_.level() == kItemLevel) {
    pass.vars.insert(vars.begin(), vars.end());
  } else {
    pass.vars = passes_.back().vars;
  }
  passes_.push_back(std::move(pass));
}

void HostEvaluation::EndPass() {
  const int number = passes_.back().number;
  passes_.pop_back();
  for (auto& [instruction, row] : rows_) {
    if (row.stored_by != number) continue;
    row.stored_by = 0;
    row.complete = true;
  }
}

}  // namespace backplane::engine::codegen
