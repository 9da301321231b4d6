#include "sdk/backend/mixed/claims.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"

namespace backplane::mixed {
namespace {

// Operations that are never offered to a claim: constants and parameters, and operations that only pass values on.
bool IsBookkeeping(Opcode opcode) {
  return opcode == Opcode::kAfterAll || Info(opcode).Has(kNoOp) || Info(opcode).Has(kForwardsOperand);
}

// Calls fn for every leaf that the instruction reads or writes.
template <typename Fn>
void ForEachArray(const Instruction& i, Fn&& fn) {
  auto leaf = [&](const Shape& shape, const std::vector<int64_t>&) { fn(shape); };
  for (const Instruction* operand : i.operands()) ForEachLeaf(operand->shape(), leaf);
  ForEachLeaf(i.shape(), leaf);
}

// Whether the instruction is offered to claims, under the conditions in claims.h.
bool IsClaimable(const Instruction& i) {
  bool offered = true;
  ForEachArray(i, [&](const Shape& leaf) {
    offered &= leaf.IsArray() && leaf.num_elements() > 0 && !leaf.HasDynamicDimensions();
  });
  bool has_result = false;
  ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) { has_result |= leaf.IsArray(); });
  return offered && has_result;
}

const Shape& FirstArray(const Shape& shape) {
  const Shape* at = &shape;
  while (at->IsTuple()) at = &at->tuple_shapes(0);
  return *at;
}

// Returns OK if the claim's conditions hold, else the first one that does not.
absl::Status Fits(const Claim& claim, const Instruction& i) {
  absl::Status fits;
  ForEachArray(i, [&](const Shape& leaf) {
    const bool known = claim.types.empty() ||
                       std::find(claim.types.begin(), claim.types.end(), leaf.element_type()) != claim.types.end();
    if (fits.ok() && !known) fits = absl::UnimplementedError(absl::StrCat("no ", leaf.ToString()));
  });
  RETURN_IF_ERROR(fits);
  if (!claim.supports) return absl::OkStatus();
  const Shape& first = FirstArray(i.shape());
  return claim.supports(i, first.element_type(), first);
}

// Adds the cost of an instruction and of the computations that it calls. Loop bodies count once.
void AddCost(const Instruction& i, bool bytes, Cost* cost) {
  for (const Computation* called : i.called()) {
    if (!RunsComputations(i.opcode())) break;
    for (const auto& inner : called->instructions()) AddCost(*inner, bytes && !i.Is(Opcode::kFusion), cost);
  }
  if (RunsComputations(i.opcode()) && !i.Is(Opcode::kFusion)) return;
  Instruction::ContextStorage storage;
  const Cost own = EstimateCost(i.Context(storage), i.shape());
  cost->flops += own.flops;
  cost->transcendentals += own.transcendentals;
  if (bytes) cost->bytes_accessed += own.bytes_accessed;
}

std::string Percent(double part, double total) {
  return absl::StrFormat("%.1f %%", total > 0 ? 100 * part / total : 0);
}

class Assigner {
 public:
  explicit Assigner(const Claims& claims) {
    for (const Claim& claim : claims.claims()) claims_[claim.opcode].push_back(&claim);
  }

  absl::Status Walk(const Computation& computation) {
    for (const auto& i : computation.instructions()) RETURN_IF_ERROR(Visit(*i));
    return absl::OkStatus();
  }

  Assignment Finish() && {
    const double flops = by_kernels_.flops + by_kernels_.transcendentals;
    const double all_flops = flops + by_evaluator_.flops + by_evaluator_.transcendentals;
    const double all_bytes = by_kernels_.bytes_accessed + by_evaluator_.bytes_accessed;
    std::vector<std::string> rest;
    for (const auto& [name, count] : evaluated_counts_) rest.push_back(absl::StrCat(name, " ", count));
    absl::StrAppend(&out_.log, "kernels run ", out_.kernels.size(), " of ", out_.kernels.size() + evaluated_operations_,
                    " operations: ", Percent(flops, all_flops), " of the arithmetic and ",
                    Percent(by_kernels_.bytes_accessed, all_bytes), " of the bytes, bodies of loops counted once\n");
    if (!rest.empty()) absl::StrAppend(&out_.log, "evaluated by definition: ", absl::StrJoin(rest, ", "), "\n");
    return std::move(out_);
  }

 private:
  absl::Status Visit(const Instruction& i) {
    if (!IsBookkeeping(i.opcode())) {
      ASSIGN_OR_RETURN(bool taken, TryClaim(i));
      if (taken) {
        AddCost(i, true, &by_kernels_);
        return absl::OkStatus();
      }
    }
    if (RunsComputations(i.opcode())) {
      const size_t kernels = out_.kernels.size(), evaluated = out_.evaluated.size();
      for (const Computation* called : i.called()) RETURN_IF_ERROR(Walk(*called));
      if (out_.kernels.size() == kernels) {
        // No kernel runs inside, so the evaluator runs the instruction as one unit. This is faster than step by step.
        out_.evaluated.resize(evaluated);
        out_.evaluated.push_back(&i);
      }
      return absl::OkStatus();
    }
    const bool is_value = i.Is(Opcode::kConstant) || i.Is(Opcode::kAfterAll);
    if (is_value || !IsBookkeeping(i.opcode())) out_.evaluated.push_back(&i);
    if (IsBookkeeping(i.opcode())) return absl::OkStatus();
    ++evaluated_operations_;
    ++evaluated_counts_[i.info().text];
    AddCost(i, true, &by_evaluator_);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> TryClaim(const Instruction& i) {
    auto asked = claims_.find(i.opcode());
    if (asked == claims_.end() || !IsClaimable(i)) return false;
    std::string refusals;
    for (const Claim* claim : asked->second) {
      absl::Status fits = Fits(*claim, i);
      if (fits.ok()) {
        absl::StatusOr<Kernel> kernel = claim->make(i);
        if (kernel.ok()) {
          out_.kernels.emplace(&i, *std::move(kernel));
          absl::StrAppend(&out_.log, i.name(), " ", i.shape().ToString(), ": ", claim->kernel, refusals, "\n");
          return true;
        }
        if (kernel.status().code() != absl::StatusCode::kUnimplemented) {
          return absl::Status(kernel.status().code(),
                              absl::StrCat(i.name(), ": ", claim->kernel, ": ", kernel.status().message()));
        }
        fits = kernel.status();
      }
      absl::StrAppend(&refusals, "; not ", claim->kernel, ": ", absl::string_view(fits.message()));
    }
    absl::StrAppend(&out_.log, i.name(), " ", i.shape().ToString(),
                    RunsComputations(i.opcode()) ? ": instruction by instruction" : ": evaluated", refusals, "\n");
    return false;
  }

  absl::flat_hash_map<Opcode, std::vector<const Claim*>> claims_;
  Assignment out_;
  Cost by_kernels_, by_evaluator_;
  int64_t evaluated_operations_ = 0;
  std::map<std::string, int64_t> evaluated_counts_;
};

}  // namespace

bool RunsComputations(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kConditional || opcode == Opcode::kCall ||
         opcode == Opcode::kFusion;
}

absl::StatusOr<Assignment> Assign(const Module& module, const Claims& claims) {
  Assigner assigner(claims);
  RETURN_IF_ERROR(assigner.Walk(*module.entry()));
  return std::move(assigner).Finish();
}

}  // namespace backplane::mixed
