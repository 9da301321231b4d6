#include "plugins/tpu_emulator/program/refusal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plugins/tpu_emulator/machine/capacity.h"

namespace backplane::tpu {
namespace {

using Kind = ScheduledBuffer::Kind;

constexpr double kMinShare = 0.1;  // fraction of the required bytes from which on a remedy is mentioned

// Lists the built-in machines that would fit, except for the current one.
template <typename Fits>
std::string ListOtherChips(const Machine& machine, Fits fits) {
  std::vector<std::string> names;
  for (const Machine& m : KnownMachines()) {
    if (m.name != machine.name && fits(m)) names.push_back(m.name);
  }
  return absl::StrJoin(names, ", ");
}

void SortBySize(const Schedule& s, std::vector<int64_t>& buffers) {
  std::stable_sort(buffers.begin(), buffers.end(), [&](int64_t a, int64_t b) {
    return s.buffers[static_cast<size_t>(a)].padded_bytes > s.buffers[static_cast<size_t>(b)].padded_bytes;
  });
}

// Returns the bytes of results that could reuse an argument of the same shape if the caller donated it.
int64_t CountDonatableBytes(const WalkedProgram& program) {
  std::vector<const WalkedBuffer*> arguments, results;
  int64_t taken = 0;
  for (const WalkedBuffer& b : program.buffers) {
    if (!b.used || b.info.space != Space::kHbm) continue;
    if (b.info.kind == Kind::kArgument) arguments.push_back(&b);
    if (b.info.kind == Kind::kResult && !b.aliases_argument) results.push_back(&b);
    if (b.info.kind == Kind::kResult && b.aliases_argument) taken += b.info.padded_bytes;
  }
  int64_t bytes = 0;
  std::vector<bool> matched(arguments.size(), false);
  for (const WalkedBuffer* r : results) {
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (matched[a] || arguments[a]->info.shape != r->info.shape) continue;
      matched[a] = true;
      bytes += r->info.padded_bytes;
      break;
    }
  }
  return std::max<int64_t>(0, bytes - taken);  // an argument that is already donated is used by its own result
}

std::vector<std::string> HbmRemedies(const Machine& machine, const WalkedProgram& program, const MemoryPlan& plan,
                                     const Schedule& s, const ScheduledRefusal& refusal) {
  const double required = static_cast<double>(refusal.required_bytes);
  const auto is_significant = [&](int64_t bytes) { return static_cast<double>(bytes) >= kMinShare * required; };
  std::vector<std::string> remedies;
  int64_t padding = 0;
  for (int64_t b : refusal.buffers) {
    const ScheduledBuffer& buffer = s.buffers[static_cast<size_t>(b)];
    padding += buffer.padded_bytes - buffer.unpadded_bytes;
  }
  if (is_significant(padding)) {
    remedies.push_back(absl::StrCat("Padding takes ", FormatBytes(padding), " of ", FormatBytes(refusal.required_bytes),
                                    refusal.required_bytes - padding <= refusal.limit_bytes
                                        ? "; without it the program fits. See the remedies of the single arrays."
                                        : ". See the remedies of the single arrays."));
  }
  if (const int64_t bytes = CountDonatableBytes(program); is_significant(bytes)) {
    remedies.push_back(absl::StrCat("Results of ", FormatBytes(bytes),
                                    " have the shapes of arguments that are not donated. Donate arguments that the "
                                    "caller no longer needs (jax.jit's donate_argnums), and the results reuse their "
                                    "memory."));
  }
  if (is_significant(plan.temporary_bytes)) {
    remedies.push_back(absl::StrCat(
        "Values between kernels take ", FormatBytes(plan.temporary_bytes),
        ": a smaller batch makes them smaller, and what a gradient keeps can be computed again (jax.checkpoint)."));
  }
  const int64_t devices =
      (refusal.required_bytes + refusal.limit_bytes - 1) / std::max<int64_t>(1, refusal.limit_bytes);
  remedies.push_back(
      absl::StrCat("The program needs at least ", devices, " devices, with arrays sharded evenly among them."));
  const std::string chips =
      ListOtherChips(machine, [&](const Machine& m) { return m.hbm_bytes >= refusal.required_bytes; });
  if (!chips.empty()) remedies.push_back(absl::StrCat("Known chips with enough memory: ", chips, "."));
  return remedies;
}

std::vector<std::string> VmemRemedies(const Machine& machine, const ScheduledKernel& kernel) {
  std::vector<std::string> remedies;
  remedies.push_back(absl::StrCat(
      "The kernel reads and writes ", kernel.reads.size() + kernel.writes.size(),
      " arrays and needs two windows of each, of one tile at least: fewer arrays in one kernel need less. An "
      "optimization barrier (jax.lax.optimization_barrier) between operations keeps them in kernels of their own."));
  const std::string chips =
      ListOtherChips(machine, [&](const Machine& m) { return m.scoped_vmem_bytes >= kernel.scoped_vmem_bytes; });
  if (!chips.empty()) remedies.push_back(absl::StrCat("Known chips with enough memory: ", chips, "."));
  return remedies;
}

}  // namespace

absl::Status CheckFit(const Machine& machine, const WalkedProgram& program, const MemoryPlan& plan, Schedule& s) {
  for (size_t k = 0; k < s.kernels.size(); ++k) {
    const ScheduledKernel& kernel = s.kernels[k];
    if (kernel.scoped_vmem_bytes <= machine.scoped_vmem_bytes) continue;
    ScheduledRefusal refusal;
    refusal.space = Space::kVmem;
    refusal.kernel = static_cast<int64_t>(k);
    refusal.required_bytes = kernel.scoped_vmem_bytes;
    refusal.limit_bytes = machine.scoped_vmem_bytes;
    std::vector<Allocation> windows;
    for (const std::vector<int64_t>* list : {&kernel.reads, &kernel.writes}) {
      for (int64_t b : *list) {
        windows.push_back(MakeAllocation(s.buffers[static_cast<size_t>(b)], "scoped"));
        refusal.buffers.push_back(b);
      }
    }
    SortBySize(s, refusal.buffers);
    refusal.remedies = VmemRemedies(machine, kernel);
    const absl::Status status =
        CheckScopedVmem(machine, program.kernels[k].instruction->ToString(), kernel.scoped_vmem_bytes, windows);
    refusal.message = std::string(status.message());
    s.refusal = std::move(refusal);
    return status;
  }
  const absl::Status status = CheckHbm(machine, s.module_name, plan.peak_bytes, plan.allocations);
  if (status.ok()) return status;
  ScheduledRefusal refusal;
  refusal.kernel = plan.fullest_kernel;
  refusal.required_bytes = plan.peak_bytes;
  refusal.limit_bytes = machine.hbm_bytes;
  int64_t number = 0;  // the schedule's buffers are the used ones of the program
  for (const WalkedBuffer& b : program.buffers) {
    if (!b.used) continue;
    const bool then = b.info.kind != Kind::kTemporary ||
                      (b.info.first_kernel <= refusal.kernel && b.info.last_kernel >= refusal.kernel);
    if (b.info.space == Space::kHbm && !b.aliases_argument && then) refusal.buffers.push_back(number);
    ++number;
  }
  SortBySize(s, refusal.buffers);
  refusal.remedies = HbmRemedies(machine, program, plan, s, refusal);
  refusal.message = std::string(status.message());
  s.refusal = std::move(refusal);
  return status;
}

}  // namespace backplane::tpu
