#include "plugins/tpu_emulator/array/array_lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/analysis/leaves.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/contraction.h"

namespace backplane::tpu {
namespace {

class ArrayThunk : public engine::Thunk {
 public:
  ArrayThunk(std::unique_ptr<const Contraction> contraction, engine::SlotId lhs, engine::SlotId rhs, engine::SlotId out)
      : contraction_(std::move(contraction)), lhs_(lhs), rhs_(rhs), out_(out) {}

  absl::Status Run(const engine::RunState& state) const override {
    contraction_->Run(state.slots[lhs_], state.slots[rhs_], state.slots[out_], state.workspace, state.pool);
    return absl::OkStatus();
  }
  int64_t workspace_bytes(int num_threads) const override { return contraction_->workspace_bytes(num_threads) + 64; }
  double estimated_us() const override { return 1 + contraction_->multiply_adds() / 3e4; }

 private:
  const std::unique_ptr<const Contraction> contraction_;
  const engine::SlotId lhs_, rhs_, out_;
};

}  // namespace

bool ArrayLowering::Claims(const Instruction& instruction) const {
  return (instruction.Is(Opcode::kDot) || instruction.Is(Opcode::kConvolution)) && CheckArraySupports(instruction).ok();
}

void ArrayLowering::AssignEntryLayouts(const Module& module, const std::vector<Shape>& parameters,
                                       const std::vector<Shape>& results) {
  reads_.assign(parameters.size(), false);
  writes_.assign(results.size(), false);
  const Computation* entry = module.entry();
  const EntryLeaves leaves(*entry);
  // Arguments and results that may share memory stay row-major. A donated argument may become the memory of any result:
  // buffer assignment decides that later.
  std::vector<bool> shared_arguments(parameters.size(), false), shared_results(results.size(), false);
  auto mark = [](std::optional<int64_t> leaf, std::vector<bool>& shared) {
    if (leaf) shared[static_cast<size_t>(*leaf)] = true;
  };
  for (const BufferDonor& d : module.config().buffer_donors)
    mark(leaves.FindArgument(d.parameter, d.parameter_index), shared_arguments);
  for (const InputOutputAlias& a : module.config().input_output_aliases) {
    mark(leaves.FindArgument(a.parameter, a.parameter_index), shared_arguments);
    mark(leaves.FindOutput(a.output_index), shared_results);
  }
  for (const Instruction* p : entry->parameters()) {
    const int64_t at = leaves.first_argument(p->parameter_number());
    if (!p->shape().IsArray() || p->users().empty() || p->IsRoot() || shared_arguments[static_cast<size_t>(at)])
      continue;
    const Shape& shape = parameters[static_cast<size_t>(at)];
    if (!shape.has_layout() || shape.dimensions() != p->shape().dimensions())
      continue;  // the program already works on its memory
    const bool only_contractions = std::all_of(p->users().begin(), p->users().end(), [&](const Instruction* user) {
      if (!Claims(*user)) return false;
      for (int k = 0; k < 2; ++k) {
        if (user->operand(k) == p && !SupportsLayout(*user, k, shape.layout())) return false;
      }
      return true;
    });
    if (!only_contractions) continue;
    reads_[static_cast<size_t>(at)] = true;
    layout_of_[p] = shape.layout();
  }
  const Instruction* root = entry->root();
  std::vector<const Instruction*> roots{root};
  if (root->Is(Opcode::kTuple)) roots.assign(root->operands().begin(), root->operands().end());
  int64_t leaf = 0;
  for (const Instruction* r : roots) {
    const int64_t at = leaf;
    leaf += CountLeaves(r->shape());
    const bool has_no_other_user =
        r == root || (r->users().size() == 1 && std::count(roots.begin(), roots.end(), r) == 1);
    if (!r->shape().IsArray() || !has_no_other_user || !Claims(*r) || shared_results[static_cast<size_t>(at)]) continue;
    const Shape& shape = results[static_cast<size_t>(at)];
    if (shape.dimensions() != r->shape().dimensions()) continue;
    if (shape.has_layout() && SupportsLayout(*r, 2, shape.layout())) result_of_[r] = {at, shape.layout()};
  }
}

absl::StatusOr<std::unique_ptr<engine::Thunk>> ArrayLowering::MakeThunk(const Instruction& instruction,
                                                                        const engine::BufferAssignment& assignment,
                                                                        std::vector<std::string>* log) const {
  const Layout* layouts[3] = {};
  for (int k = 0; k < 2; ++k) {
    auto at = layout_of_.find(instruction.operand(k));
    if (at != layout_of_.end()) layouts[k] = &at->second;
  }
  const engine::SlotId out = assignment.slot(&instruction);
  if (auto at = result_of_.find(&instruction); at != result_of_.end()) {
    const size_t leaf = static_cast<size_t>(at->second.leaf);
    if (assignment.output_slots[leaf] == out && assignment.output_alias[leaf] < 0) {
      layouts[2] = &at->second.layout;
      writes_[leaf] = true;
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<const Contraction> contraction,
                   Contraction::Plan(instruction, layouts[0], layouts[1], layouts[2], side_));
  if (log != nullptr) {
    std::string line = absl::StrCat(instruction.name(), ": ", contraction->ToString());
    static constexpr const char* kNames[] = {"left operand", "right operand", "result"};
    for (int k = 0; k < 3; ++k) {
      if (layouts[k] != nullptr) absl::StrAppend(&line, ", ", kNames[k], " in ", layouts[k]->ToString());
    }
    log->push_back(std::move(line));
  }
  return std::make_unique<ArrayThunk>(std::move(contraction), assignment.slot(instruction.operand(0)),
                                      assignment.slot(instruction.operand(1)), out);
}

}  // namespace backplane::tpu
