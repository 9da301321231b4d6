#include "sdk/engine/thunks/kernel_thunk.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "sdk/engine/thunks/bound_sequence.h"

namespace backplane::engine {
namespace {

bool MaySplit(const codegen::KernelPhase& phase) { return phase.work_items >= 2 * phase.min_items_per_chunk; }

int64_t Align(int64_t bytes) { return (bytes + 127) / 64 * 64; }  // with at least 64 bytes of tail

}  // namespace

KernelThunk::KernelThunk(codegen::KernelPlan plan, std::vector<codegen::KernelFn> functions, std::vector<SlotId> slots)
    : plan_(std::move(plan)), functions_(std::move(functions)), slots_(std::move(slots)) {
  for (int64_t bytes : plan_.temp_bytes) temp_total_ += Align(bytes);
  scratch_stride_ = plan_.scratch_bytes == 0 ? 0 : Align(plan_.scratch_bytes);
}

absl::Status KernelThunk::Run(const RunState& state) const {
  absl::InlinedVector<void*, 24> buffers;
  for (SlotId s : slots_) buffers.push_back(state.slots[s]);
  std::byte* next = state.workspace;
  for (int64_t bytes : plan_.temp_bytes) {
    buffers.push_back(next);
    next += Align(bytes);
  }
  void* const* all = buffers.data();
  std::byte* scratch = next;
  for (size_t p = 0; p < functions_.size(); ++p) {
    const codegen::KernelPhase& phase = plan_.phases[p];
    if (phase.work_items <= 0) continue;
    const codegen::KernelFn fn = functions_[p];
    if (!MaySplit(phase) || state.pool == nullptr) {
      fn(all, 0, phase.work_items, scratch);
      continue;
    }
    state.pool->ParallelRange(phase.work_items, phase.min_items_per_chunk, [&](int64_t begin, int64_t end, int slot) {
      fn(all, begin, end, scratch + slot * scratch_stride_);
    });
  }
  return absl::OkStatus();
}

void KernelThunk::Bind(const RunState& state, BoundSequence* bound) const {
  for (const codegen::KernelPhase& phase : plan_.phases) {
    if (MaySplit(phase) && state.pool != nullptr) return bound->AddThunk(this);
  }
  absl::InlinedVector<void*, 24> buffers;
  for (SlotId s : slots_) buffers.push_back(state.slots[s]);
  std::byte* next = state.workspace;
  for (int64_t bytes : plan_.temp_bytes) {
    buffers.push_back(next);
    next += Align(bytes);
  }
  for (size_t p = 0; p < functions_.size(); ++p) {
    if (plan_.phases[p].work_items > 0) bound->AddCall(functions_[p], buffers, plan_.phases[p].work_items, next);
  }
}

int64_t KernelThunk::workspace_bytes(int num_threads) const { return temp_total_ + scratch_stride_ * num_threads; }

int64_t KernelThunk::elements_per_item() const {
  const bool simple = plan_.phases.size() == 1 && temp_total_ == 0 && scratch_stride_ == 0;
  return simple ? plan_.phases[0].elements_per_item : 0;
}

void KernelThunk::RunPart(const RunState& state, int64_t begin, int64_t end) const {
  absl::InlinedVector<void*, 24> buffers;
  for (SlotId s : slots_) buffers.push_back(state.slots[s]);
  const int64_t n = elements_per_item();
  if (begin < end) functions_[0](buffers.data(), begin / n, end / n, nullptr);
}

bool KernelThunk::may_use_pool() const { return std::any_of(plan_.phases.begin(), plan_.phases.end(), MaySplit); }

double KernelThunk::estimated_us() const {
  double us = 0.03;
  for (const codegen::KernelPhase& p : plan_.phases) us += p.estimated_us;
  return us;
}

}  // namespace backplane::engine
