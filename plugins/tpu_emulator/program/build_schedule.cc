#include "plugins/tpu_emulator/program/build_schedule.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/program/layouts.h"
#include "plugins/tpu_emulator/program/program_walk.h"
#include "plugins/tpu_emulator/program/refusal.h"
#include "plugins/tpu_emulator/program/remedy.h"
#include "plugins/tpu_emulator/program/write_prefetches.h"

namespace backplane::tpu {
namespace {

using Kind = ScheduledBuffer::Kind;

constexpr int64_t kMaxLifetime = 64;  // the most kernels for which a value or a prefetched operand may stay in VMEM

// The memory besides HBM that values may stay in (VMEM or CMEM), and the bytes of it in use during each kernel.
class FastMemory {
 public:
  FastMemory(const Machine& machine, int64_t kernels) : machine_(machine), used_(static_cast<size_t>(kernels) + 1, 0) {
    const int64_t kept = std::min(machine.scoped_vmem_bytes, machine.vmem_bytes / 2);
    capacity_ = machine.cmem_bytes > 0 ? machine.cmem_bytes : machine.vmem_bytes - kept;
  }

  // Assigns spaces to values in the order of their first kernel. All values that are already live are known then, so it
  // is enough to check the free bytes at the first kernel.
  void AssignSpaces(WalkedProgram& program) {
    std::vector<std::vector<int>> by_first(used_.size());
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const WalkedBuffer& buffer = program.buffers[b];
      if (buffer.used && Fits(buffer)) {
        by_first[static_cast<size_t>(buffer.info.first_kernel)].push_back(static_cast<int>(b));
      }
    }
    std::vector<int64_t> ends(used_.size() + 1, 0);
    int64_t now = 0;
    for (size_t k = 0; k < used_.size(); ++k) {
      now -= ends[k];
      for (int b : by_first[k]) {
        ScheduledBuffer& info = program.buffers[static_cast<size_t>(b)].info;
        if (now + info.padded_bytes > capacity_) continue;
        info.space = PrefetchSpace(machine_, info.padded_bytes);
        now += info.padded_bytes;
        ends[static_cast<size_t>(info.last_kernel) + 1] += info.padded_bytes;
      }
      used_[k] = now;
    }
  }

  // The bytes that are free for a prefetched operand while kernel k runs.
  int64_t FreeBytes(size_t k) const { return capacity_ - used_[k]; }
  void Reserve(size_t from, size_t until, int64_t bytes) {
    for (size_t k = from; k <= until; ++k) used_[k] += bytes;
  }

 private:
  bool Fits(const WalkedBuffer& b) const {
    return b.info.kind == Kind::kTemporary && !b.pinned_to_hbm && b.info.padded_bytes > 0 &&
           b.info.last_kernel - b.info.first_kernel <= kMaxLifetime &&
           PrefetchSpace(machine_, b.info.padded_bytes) != Space::kHbm;
  }

  const Machine& machine_;
  std::vector<int64_t> used_;
  int64_t capacity_ = 0;
};

// The prefetch of an operand of a product.
struct OperandCopy {
  size_t kernel = 0, first = 0;  // the kernel that reads the copy, and the first one during which the copy runs
  int side = 0;
  Space space = Space::kVmem;
  int64_t bytes = 0;
  double seconds = 0, wait = 0;
};

// Times the kernels in order. HBM bandwidth that a kernel leaves idle is used to prefetch operands of later kernels.
class Timer {
 public:
  Timer(const Machine& machine, const WalkedProgram& program)
      : machine_(machine),
        program_(program),
        idle_seconds_(program.kernels.size(), 0),
        prefetch_seconds_(program.kernels.size(), 0) {
    for (size_t k = 0; k < program.kernels.size(); ++k) number_[program.kernels[k].instruction] = k;
  }

  // Returns the time of kernel k, including the time that it waits for a prefetched operand.
  KernelTime TimeWithPrefetch(size_t k, FastMemory& fast_memory) {
    const WalkedKernel& kernel = program_.kernels[k];
    KernelWork work = kernel.work.work;
    int64_t product[2] = {0, 0};  // HBM bytes of the values that each operand is made of
    bool in_fast_memory[2] = {false, false};
    for (size_t o = 0; o < kernel.operands.size(); ++o) {
      const KernelPort& port = kernel.work.operands[o];
      const bool in_hbm = InHbm(kernel.operands[o]);
      if (port.product == 0 || port.product == 1) {
        if (in_hbm) product[port.product] += port.bytes;
        in_fast_memory[port.product] |= !in_hbm;
      } else if (in_hbm) {
        work.hbm_read_bytes += port.bytes;
      }
    }
    Space result = Space::kVmem;  // a product of which only a reduction is kept is not written to memory
    for (size_t r = 0; r < kernel.results.size(); ++r) {
      const Space space = SpaceOf(kernel.results[r]);
      if (kernel.work.results[r].product == 2) {
        result = space;
      } else if (space == Space::kHbm) {
        work.hbm_written_bytes += kernel.work.results[r].bytes;
      }
    }
    if (!work.matmul) return Finish(k, TimeKernel(machine_, work));

    MatmulWork& m = *work.matmul;
    m.result_space = result;
    for (int side : {0, 1}) {
      Space& space = side == 0 ? m.lhs_space : m.rhs_space;
      std::optional<int64_t>& bytes = side == 0 ? m.lhs_bytes : m.rhs_bytes;
      if (product[side] == 0 && in_fast_memory[side]) {
        space = machine_.cmem_bytes > 0 ? Space::kCmem : Space::kVmem;
      } else if (in_fast_memory[side]) {
        bytes = product[side];
      }
    }
    const KernelTime in_place = TimeKernel(machine_, work);
    // Prefetch the larger operand that fits.
    const int larger = product[0] >= product[1] ? 0 : 1;
    for (int side : {larger, 1 - larger}) {
      if (product[side] == 0 || product[side] > fast_memory.FreeBytes(k)) continue;
      const Space space = PrefetchSpace(machine_, product[side]);
      if (space == Space::kHbm) continue;
      KernelWork with_copy = work;
      (side == 0 ? with_copy.matmul->lhs_space : with_copy.matmul->rhs_space) = space;
      KernelTime time = TimeKernel(machine_, with_copy);
      OperandCopy copy{k, k, side, space, product[side]};
      copy.seconds = static_cast<double>(product[side]) / machine_.HbmBytesPerSecond();
      PlanCopy(fast_memory, copy);
      if (time.seconds + copy.wait >= in_place.seconds) break;
      CommitCopy(fast_memory, copy);
      AddCopyTime(time, copy);
      return Finish(k, time);
    }
    return Finish(k, in_place);
  }

  // The kernels from k on belong to another loop. Idle bandwidth of earlier ones is not available to them.
  void StartSequence(size_t k) { sequence_start_ = k; }

  const std::vector<OperandCopy>& copies() const { return copies_; }
  double PrefetchCycles(size_t k) const { return prefetch_seconds_[k] * machine_.CyclesPerSecond(); }

 private:
  Space SpaceOf(int buffer) const {
    return buffer < 0 ? Space::kVmem : program_.buffers[static_cast<size_t>(buffer)].info.space;
  }
  bool InHbm(const std::vector<int>& leaves) const {
    return std::any_of(leaves.begin(), leaves.end(), [&](int b) { return SpaceOf(b) == Space::kHbm; });
  }

  // Moves the start of the copy back until enough idle bandwidth is found. Stops where memory has no free space, at the
  // start of the computation, and at the kernel that makes the operand.
  void PlanCopy(const FastMemory& fast_memory, OperandCopy& copy) const {
    size_t least = std::max(sequence_start_, copy.kernel - std::min<size_t>(copy.kernel, kMaxLifetime));
    const WalkedKernel& kernel = program_.kernels[copy.kernel];
    for (size_t o = 0; o < kernel.operands.size(); ++o) {
      if (kernel.work.operands[o].product != copy.side) continue;
      least = std::max(least, FirstKernelAfter(*kernel.instruction->operand(static_cast<int64_t>(o))));
    }
    copy.wait = copy.seconds;
    while (copy.wait > 0 && copy.first > least && fast_memory.FreeBytes(copy.first - 1) >= copy.bytes &&
           program_.kernels[copy.first - 1].instruction->parent() == kernel.instruction->parent()) {
      --copy.first;
      copy.wait = std::max(0.0, copy.wait - idle_seconds_[copy.first]);
    }
  }

  // Returns the first kernel after all kernels that `value` depends on.
  size_t FirstKernelAfter(const Instruction& value) const {
    size_t before = 0;
    std::vector<const Instruction*> pending = {&value};
    absl::flat_hash_set<const Instruction*> seen;
    while (!pending.empty()) {
      const Instruction* i = pending.back();
      pending.pop_back();
      if (!seen.insert(i).second) continue;
      if (const auto at = number_.find(i); at != number_.end()) {
        before = std::max(before, at->second + 1);
      } else {
        pending.insert(pending.end(), i->operands().begin(), i->operands().end());
      }
    }
    return before;
  }

  void CommitCopy(FastMemory& fast_memory, const OperandCopy& copy) {
    double rest = copy.seconds - copy.wait;
    for (size_t j = copy.kernel; j-- > copy.first;) {
      const double here = std::min(rest, idle_seconds_[j]);
      idle_seconds_[j] -= here;
      prefetch_seconds_[j] += here;
      rest -= here;
    }
    fast_memory.Reserve(copy.first, copy.kernel, copy.bytes);
    copies_.push_back(copy);
  }

  void AddCopyTime(KernelTime& time, const OperandCopy& copy) const {
    time.hbm_bytes += static_cast<double>(copy.bytes);
    time.hbm_cycles += copy.wait * machine_.CyclesPerSecond();
    time.seconds += copy.wait;
    time.cycles += copy.wait * machine_.CyclesPerSecond();
    if (copy.wait > 0.5 * time.seconds) time.bound = Unit::kHbm;
    time.roofline_seconds = std::max(time.roofline_seconds, time.hbm_bytes / (machine_.hbm_gb_per_s * 1e9));
    // Bytes that were copied during earlier kernels do not bound this one.
    time.roofline_seconds = std::min(time.roofline_seconds, time.seconds);
    time.utilisation = time.roofline_seconds / time.seconds;
  }

  KernelTime Finish(size_t k, KernelTime time) {
    idle_seconds_[k] = std::max(0.0, time.seconds - time.hbm_cycles / machine_.CyclesPerSecond());
    return time;
  }

  const Machine& machine_;
  const WalkedProgram& program_;
  absl::flat_hash_map<const Instruction*, size_t> number_;
  std::vector<double> idle_seconds_, prefetch_seconds_;  // HBM seconds by kernel: left idle, and used for later kernels
  std::vector<OperandCopy> copies_;
  size_t sequence_start_ = 0;  // the first kernel of the current sequence
};

// Returns the scoped VMEM of a kernel without a product. It has two windows for each array in HBM that it reads or
// writes. They use up to half of the limit, and at least one tile each.
int64_t ScopedBytes(const Machine& machine, const WalkedProgram& program, const WalkedKernel& kernel) {
  const int64_t tile = machine.tile_rows * machine.tile_lanes * 4;
  int64_t least = 0, most = 0;
  const auto add = [&](int buffer, int64_t bytes) {
    if (buffer < 0 || bytes <= 0 || program.buffers[static_cast<size_t>(buffer)].info.space != Space::kHbm) return;
    least += 2 * std::min(tile, bytes);
    most += 2 * bytes;
  };
  for (size_t o = 0; o < kernel.operands.size(); ++o) {
    for (int b : kernel.operands[o]) add(b, kernel.work.operands[o].bytes);
  }
  for (size_t r = 0; r < kernel.results.size(); ++r) add(kernel.results[r], kernel.work.results[r].bytes);
  return std::max(least, std::min(most, machine.scoped_vmem_bytes / 2));
}

// Sets the start of each kernel. A loop lasts for all of its iterations.
void SetStarts(Schedule& s) {
  struct Open {
    int64_t loop;
    double start;
  };
  std::vector<Open> open;
  double now = 0;
  const auto close_until = [&](int64_t loop) {
    while (!open.empty() && open.back().loop != loop) {
      const ScheduledLoop& done = s.loops[static_cast<size_t>(open.back().loop)];
      now = open.back().start + (now - open.back().start) * static_cast<double>(done.trip_count);
      open.pop_back();
    }
  };
  for (ScheduledKernel& k : s.kernels) {
    // The loops that enclose this kernel, outermost first.
    std::vector<int64_t> enclosing;
    for (int64_t l = k.loop; l >= 0; l = s.loops[static_cast<size_t>(l)].parent) enclosing.push_back(l);
    std::reverse(enclosing.begin(), enclosing.end());
    size_t common = 0;
    while (common < open.size() && common < enclosing.size() && open[common].loop == enclosing[common]) ++common;
    close_until(common == 0 ? -1 : open[common - 1].loop);
    for (; common < enclosing.size(); ++common) open.push_back({enclosing[common], now});
    k.start_seconds = now;
    now += k.time.seconds;
    k.executions = 1;
    for (int64_t l : enclosing) {
      const int64_t trips = s.loops[static_cast<size_t>(l)].trip_count;
      if (__builtin_mul_overflow(k.executions, trips, &k.executions)) k.executions = INT64_MAX;
    }
  }
  close_until(-1);
  s.seconds = now;
}

void SetSpaces(Shape& shape, absl::Span<const int> buffers, const WalkedProgram& program, size_t& n) {
  if (shape.IsTuple()) {
    for (Shape& element : shape.mutable_tuple_shapes()) SetSpaces(element, buffers, program, n);
    return;
  }
  const int b = n < buffers.size() ? buffers[n] : -1;
  ++n;
  if (b < 0 || !shape.IsArray() || !shape.has_layout()) return;
  const Space space = program.buffers[static_cast<size_t>(b)].info.space;
  if (space != Space::kHbm) shape.mutable_layout().memory_space = MemorySpace(space);
}

// Writes the memory spaces into the layouts of the program, including those inside of fusions.
void WriteSpaces(Module* kernels, const WalkedProgram& program) {
  for (Computation* c : CollectControlFlowComputations(kernels)) {
    for (const auto& i : c->instructions()) {
      const auto at = program.values.find(i.get());
      if (at == program.values.end()) continue;
      size_t n = 0;
      SetSpaces(i->mutable_shape(), at->second, program, n);
    }
    for (const auto& i : c->instructions()) {
      if (!i->Is(Opcode::kFusion)) continue;
      Computation* body = i->called(0);
      for (Instruction* p : body->parameters()) p->mutable_shape() = i->operand(p->parameter_number())->shape();
      body->root()->mutable_shape() = i->shape();
    }
  }
}

}  // namespace

absl::StatusOr<TimedProgram> BuildSchedule(Module* kernels, const Machine& machine, absl::Span<const int64_t> torus) {
  WalkedProgram program = WalkProgram(*kernels, machine, torus);
  const TileShape tile{machine.tile_rows, machine.tile_lanes};
  FastMemory fast_memory(machine, static_cast<int64_t>(program.kernels.size()));
  fast_memory.AssignSpaces(program);
  WriteSpaces(kernels, program);

  TimedProgram out;
  Schedule& s = out.schedule;
  s.module_name = kernels->name();
  s.machine_name = machine.name;
  s.hbm_capacity = machine.hbm_bytes;
  s.loops = program.loops;
  s.notes = program.notes;
  out.plan = PlanMemory(program, s);
  s.hbm_peak = out.plan.peak_bytes;

  // Leave out buffers that were merged into others, and renumber the rest.
  std::vector<int64_t> number(program.buffers.size(), -1);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (!program.buffers[b].used) continue;
    number[b] = static_cast<int64_t>(s.buffers.size());
    ScheduledBuffer info = program.buffers[b].info;
    if (info.padded_bytes > info.unpadded_bytes) {
      absl::StatusOr<Shape> shape = ParseShape(info.shape);
      if (shape.ok()) info.remedy = SuggestPaddingRemedy(*shape, tile);
    }
    s.buffers.push_back(std::move(info));
  }

  Timer timer(machine, program);
  int64_t loop = -1;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const WalkedKernel& from = program.kernels[k];
    if (from.loop != loop) timer.StartSequence(k);
    loop = from.loop;
    ScheduledKernel kernel;
    kernel.name = from.instruction->name();
    kernel.category = from.work.category;
    kernel.contents = from.work.contents;
    kernel.origin = GetOrigin(*from.instruction);
    kernel.time = timer.TimeWithPrefetch(k, fast_memory);
    kernel.loop = from.loop;
    kernel.flops = from.work.flops;
    kernel.transcendentals = from.work.transcendentals;
    kernel.hbm_bytes = kernel.time.hbm_bytes;
    kernel.scoped_vmem_bytes =
        kernel.time.windows ? kernel.time.windows->vmem_bytes : ScopedBytes(machine, program, from);
    const auto add = [&](std::vector<int64_t>& list, int b) {
      if (b < 0 || number[static_cast<size_t>(b)] < 0) return;
      const int64_t n = number[static_cast<size_t>(b)];
      if (std::find(list.begin(), list.end(), n) == list.end()) list.push_back(n);
    };
    for (const std::vector<int>& leaves : from.operands) {
      for (int b : leaves) add(kernel.reads, b);
    }
    for (int b : from.results) add(kernel.writes, b);
    s.kernels.push_back(std::move(kernel));
  }
  std::vector<PrefetchedOperand> prefetched;
  for (const OperandCopy& copy : timer.copies()) {
    const WalkedKernel& kernel = program.kernels[copy.kernel];
    double rest = copy.wait;
    for (size_t o = 0; o < kernel.operands.size(); ++o) {
      if (kernel.work.operands[o].product != copy.side || kernel.operands[o].size() != 1) continue;
      const int b = kernel.operands[o][0];
      if (b < 0 || program.buffers[static_cast<size_t>(b)].info.space != Space::kHbm) continue;
      ScheduledPrefetch p;
      p.buffer = number[static_cast<size_t>(b)];
      p.kernel = static_cast<int64_t>(copy.kernel);
      p.first_kernel = static_cast<int64_t>(copy.first);
      p.space = copy.space;
      p.bytes = kernel.work.operands[o].bytes;
      p.seconds = copy.seconds * static_cast<double>(p.bytes) / static_cast<double>(copy.bytes);
      p.wait_seconds = std::min(rest, p.seconds);
      rest -= p.wait_seconds;
      s.prefetches.push_back(p);
      prefetched.push_back(
          {kernel.instruction, static_cast<int64_t>(o), program.kernels[copy.first].instruction, copy.space});
    }
  }
  for (size_t k = 0; k < s.kernels.size(); ++k) s.kernels[k].prefetch_cycles = timer.PrefetchCycles(k);
  WritePrefetches(kernels, prefetched);
  SetStarts(s);
  for (const ScheduledKernel& k : s.kernels) {
    const double times = static_cast<double>(k.executions);
    s.flops += times * k.flops;
    s.transcendentals += times * k.transcendentals;
    s.hbm_bytes += times * k.hbm_bytes;
  }
  s.cycles = s.seconds * machine.CyclesPerSecond();
  out.refused = CheckFit(machine, program, out.plan, s);
  return out;
}

}  // namespace backplane::tpu
