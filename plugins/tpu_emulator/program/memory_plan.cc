#include "plugins/tpu_emulator/program/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace backplane::tpu {

using Kind = ScheduledBuffer::Kind;

Allocation MakeAllocation(const ScheduledBuffer& b, absl::string_view kind) {
  Allocation a;
  a.name = absl::StrCat("%", b.name);
  a.operator_name = b.origin.op_name;
  a.source_file = b.origin.source_file;
  a.source_line = b.origin.source_line;
  a.shape = b.shape;
  a.kind = std::string(kind);
  a.padded_bytes = b.padded_bytes;
  a.unpadded_bytes = b.unpadded_bytes;
  return a;
}

MemoryPlan PlanMemory(const WalkedProgram& program, Schedule& schedule) {
  MemoryPlan plan;
  int64_t always = 0;
  const size_t kernels = program.kernels.size();
  std::vector<int64_t> change(kernels + 2, 0);
  const auto in_hbm = [](const WalkedBuffer& b) { return b.used && b.info.space == Space::kHbm; };
  for (const WalkedBuffer& b : program.buffers) {
    if (!in_hbm(b)) continue;
    const int64_t bytes = b.info.padded_bytes;
    switch (b.info.kind) {
      case Kind::kArgument:
        plan.argument_bytes += bytes;
        always += bytes;
        plan.allocations.push_back(MakeAllocation(b.info, "Arguments"));
        break;
      case Kind::kResult:
        plan.result_bytes += bytes;
        if (b.aliases_argument) {
          plan.alias_bytes += bytes;
        } else {
          always += bytes;
          plan.allocations.push_back(MakeAllocation(b.info, "Output"));
        }
        break;
      case Kind::kConstant:
        always += bytes;
        plan.allocations.push_back(MakeAllocation(b.info, "Constant"));
        break;
      case Kind::kTemporary:
        change[static_cast<size_t>(b.info.first_kernel)] += bytes;
        change[static_cast<size_t>(b.info.last_kernel) + 1] -= bytes;
        break;
    }
  }
  int64_t now = 0, most = 0;
  size_t fullest = 0;
  if (kernels > 0) plan.fullest_kernel = 0;
  for (size_t k = 0; k < kernels; ++k) {
    now += change[k];
    // A result that is written over an operand whose lifetime ends here does not need memory of its own yet.
    const WalkedKernel& kernel = program.kernels[k];
    int64_t shared = 0;
    std::vector<int> reused;
    for (int r : kernel.results) {
      if (r < 0 || !in_hbm(program.buffers[r]) || program.buffers[r].info.kind != Kind::kTemporary) continue;
      const ScheduledBuffer& result = program.buffers[r].info;
      if (result.first_kernel != static_cast<int64_t>(k)) continue;
      for (size_t o = 0; o < kernel.operands.size(); ++o) {
        if (!kernel.work.operands[o].may_alias_result || kernel.operands[o].size() != 1) continue;
        const int b = kernel.operands[o][0];
        if (b < 0 || b == r || !in_hbm(program.buffers[b]) || program.buffers[b].info.kind != Kind::kTemporary)
          continue;
        const ScheduledBuffer& operand = program.buffers[b].info;
        if (operand.last_kernel != static_cast<int64_t>(k) || operand.padded_bytes != result.padded_bytes) continue;
        if (std::find(reused.begin(), reused.end(), b) != reused.end()) continue;
        reused.push_back(b);
        shared += result.padded_bytes;
        break;
      }
    }
    schedule.hbm_in_use.push_back(always + now - shared);
    if (now - shared > most) {
      most = now - shared;
      fullest = k;
      plan.fullest_kernel = static_cast<int64_t>(k);
    }
  }
  plan.peak_bytes = always + most;
  plan.temporary_bytes = plan.peak_bytes - plan.argument_bytes - (plan.result_bytes - plan.alias_bytes);
  for (const WalkedBuffer& b : program.buffers) {
    if (!in_hbm(b) || b.info.kind != Kind::kTemporary || most == 0) continue;
    if (b.info.first_kernel <= static_cast<int64_t>(fullest) && b.info.last_kernel >= static_cast<int64_t>(fullest)) {
      plan.allocations.push_back(MakeAllocation(b.info, "HLO temp"));
    }
  }
  std::stable_sort(plan.allocations.begin(), plan.allocations.end(), [](const Allocation& a, const Allocation& b) {
    return (a.kind == "Arguments" ? 0
            : a.kind == "Output"  ? 1
                                  : 2) < (b.kind == "Arguments" ? 0
                                         : b.kind == "Output"  ? 1
                                                               : 2);
  });
  return plan;
}

}  // namespace backplane::tpu
