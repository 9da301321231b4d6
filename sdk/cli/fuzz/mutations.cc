// Known wrong rewrites of single operations: what the tool must find.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/fuzz/runner.h"

namespace backplane::cli::fuzz {
namespace {

// The operation replaced by another one of the same operands, everywhere.
void Replace(Module& module, Opcode from, Opcode to) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(from)) continue;
      InstructionSpec spec;
      spec.opcode = to;
      spec.shape = i->shape();
      spec.operands.assign(i->operands().begin(), i->operands().end());
      Instruction* other = c->Add(std::move(spec));
      i->ReplaceAllUsesWith(other);
      c->SortTopologically();
    }
  }
}

void SwapMinMax(Module& module) { Replace(module, Opcode::kMaximum, Opcode::kMinimum); }
void RoundAway(Module& module) { Replace(module, Opcode::kRoundNearestEven, Opcode::kRoundNearestAfz); }

// One element more in front and one less behind.
void PadOffByOne(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kPad)) continue;
      PaddingConfig padding = i->padding();
      if (padding.empty()) continue;
      ++padding[0].low;
      --padding[0].high;
      i->mutable_attrs().Set(AttrId::kPadding, padding);
    }
  }
}

void DropNegate(Module& module) { Replace(module, Opcode::kNegate, Opcode::kCopy); }

// Slices that start one late where that fits.
void LateSlice(Module& module) {
  for (const auto& c : module.computations()) {
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kSlice)) continue;
      SliceConfig slices = i->slices();
      for (size_t d = 0; d < slices.size(); ++d) {
        if (slices[d].limit >= i->operand(0)->shape().dimensions(static_cast<int64_t>(d))) continue;
        ++slices[d].start;
        ++slices[d].limit;
      }
      i->mutable_attrs().Set(AttrId::kSlices, slices);
    }
  }
}

const std::vector<std::pair<std::string, Mutation>>& All() {
  static const auto* const all = new std::vector<std::pair<std::string, Mutation>>{
      {"swap-min-max", SwapMinMax}, {"pad-off-by-one", PadOffByOne}, {"round-away", RoundAway},
      {"drop-negate", DropNegate},  {"late-slice", LateSlice},
  };
  return *all;
}

}  // namespace

std::vector<std::string> MutationNames() {
  std::vector<std::string> names;
  for (const auto& [name, mutation] : All()) names.push_back(name);
  return names;
}

absl::StatusOr<Mutation> FindMutation(const std::string& name) {
  for (const auto& [known, mutation] : All()) {
    if (known == name) return mutation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("defect '", name, "': expected one of ", absl::StrJoin(MutationNames(), ", ")));
}

}  // namespace backplane::cli::fuzz
