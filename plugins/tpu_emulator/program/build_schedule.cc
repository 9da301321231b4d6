#include "plugins/tpu_emulator/program/build_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/program/layouts.h"
#include "plugins/tpu_emulator/program/program_walk.h"
#include "plugins/tpu_emulator/program/remedy.h"

namespace backplane::tpu {
namespace {

using Kind = ScheduledBuffer::Kind;

constexpr int64_t kLongestStay = 64;  // kernels that a value may keep its place in VMEM for

// What the texts of layouts call a memory: S(1), S(3).
int64_t MemorySpace(Space space) { return space == Space::kVmem ? 1 : space == Space::kCmem ? 3 : 0; }

// Bytes besides HBM that values may stay in, and the room that is taken, kernel by kernel.
class Residency {
 public:
  Residency(const Machine& machine, int64_t kernels) : machine_(machine), taken_(static_cast<size_t>(kernels) + 1, 0) {
    const int64_t kept = std::min(machine.scoped_vmem_bytes, machine.vmem_bytes / 2);
    room_ = machine.cmem_bytes > 0 ? machine.cmem_bytes : machine.vmem_bytes - kept;
  }

  // Values in the order of their kernels: those that have begun are known, so the room at the first kernel decides.
  void Place(WalkedProgram& program) {
    std::vector<std::vector<int>> by_first(taken_.size());
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const WalkedBuffer& buffer = program.buffers[b];
      if (buffer.used && Fits(buffer)) {
        by_first[static_cast<size_t>(buffer.info.first_kernel)].push_back(static_cast<int>(b));
      }
    }
    std::vector<int64_t> ends(taken_.size() + 1, 0);
    int64_t now = 0;
    for (size_t k = 0; k < taken_.size(); ++k) {
      now -= ends[k];
      for (int b : by_first[k]) {
        ScheduledBuffer& info = program.buffers[static_cast<size_t>(b)].info;
        if (now + info.padded_bytes > room_) continue;
        info.space = PrefetchSpace(machine_, info.padded_bytes);
        now += info.padded_bytes;
        ends[static_cast<size_t>(info.last_kernel) + 1] += info.padded_bytes;
      }
      taken_[k] = now;
    }
  }

  // Room for an operand that is copied ahead of kernel k.
  int64_t Left(size_t k) const { return room_ - taken_[k]; }

 private:
  bool Fits(const WalkedBuffer& b) const {
    return b.info.kind == Kind::kTemporary && !b.stays_in_hbm && b.info.padded_bytes > 0 &&
           b.info.last_kernel - b.info.first_kernel <= kLongestStay &&
           PrefetchSpace(machine_, b.info.padded_bytes) != Space::kHbm;
  }

  const Machine& machine_;
  std::vector<int64_t> taken_;
  int64_t room_ = 0;
};

class Timer {
 public:
  Timer(const Machine& machine, const WalkedProgram& program) : machine_(machine), program_(program) {}

  // Time of kernel k, which may wait for operands copied ahead.
  KernelTime Of(size_t k, const Residency& residency) {
    const WalkedKernel& kernel = program_.kernels[k];
    KernelWork work = kernel.work.work;
    int64_t product[2] = {0, 0};  // bytes in HBM of what the product's operands are made of
    bool elsewhere[2] = {false, false};
    for (size_t o = 0; o < kernel.operands.size(); ++o) {
      const KernelPort& port = kernel.work.operands[o];
      const bool in_hbm = InHbm(kernel.operands[o]);
      if (port.product == 0 || port.product == 1) {
        if (in_hbm) product[port.product] += port.bytes;
        elsewhere[port.product] |= !in_hbm;
      } else if (in_hbm) {
        work.hbm_read_bytes += port.bytes;
      }
    }
    Space result = Space::kVmem;  // a product of which only a reduction is kept is written nowhere
    for (size_t r = 0; r < kernel.results.size(); ++r) {
      const Space space = SpaceOf(kernel.results[r]);
      if (kernel.work.results[r].product == 2) {
        result = space;
      } else if (space == Space::kHbm) {
        work.hbm_written_bytes += kernel.work.results[r].bytes;
      }
    }
    if (!work.matmul) return Finish(TimeKernel(machine_, work));

    MatmulWork& m = *work.matmul;
    m.result_space = result;
    for (int side : {0, 1}) {
      Space& space = side == 0 ? m.lhs_space : m.rhs_space;
      std::optional<int64_t>& bytes = side == 0 ? m.lhs_bytes : m.rhs_bytes;
      if (product[side] == 0 && elsewhere[side]) {
        space = machine_.cmem_bytes > 0 ? Space::kCmem : Space::kVmem;
      } else if (elsewhere[side]) {
        bytes = product[side];
      }
    }
    KernelTime best = TimeKernel(machine_, work);
    // The larger operand that fits, copied ahead.
    const int larger = product[0] >= product[1] ? 0 : 1;
    for (int side : {larger, 1 - larger}) {
      if (product[side] == 0 || product[side] > residency.Left(k)) continue;
      if (PrefetchSpace(machine_, product[side]) == Space::kHbm) continue;
      KernelWork ahead = work;
      (side == 0 ? ahead.matmul->lhs_space : ahead.matmul->rhs_space) = PrefetchSpace(machine_, product[side]);
      KernelTime time = TimeKernel(machine_, ahead);
      const double copy = static_cast<double>(product[side]) / machine_.HbmBytesPerSecond();
      const double wait = std::max(0.0, copy - idle_);
      if (time.seconds + wait >= best.seconds) break;
      idle_ -= std::min(idle_, copy);
      AddCopy(time, static_cast<double>(product[side]), copy, wait);
      best = time;
      break;
    }
    return Finish(best);
  }

  // Between kernels that do not follow each other: nothing is known of the bandwidth left.
  void Restart() { idle_ = 0; }

 private:
  Space SpaceOf(int buffer) const {
    return buffer < 0 ? Space::kVmem : program_.buffers[static_cast<size_t>(buffer)].info.space;
  }
  bool InHbm(const std::vector<int>& leaves) const {
    return std::any_of(leaves.begin(), leaves.end(), [&](int b) { return SpaceOf(b) == Space::kHbm; });
  }

  void AddCopy(KernelTime& time, double bytes, double copy, double wait) const {
    time.hbm_bytes += bytes;
    time.hbm_cycles += copy * machine_.CyclesPerSecond();
    time.seconds += wait;
    time.cycles += wait * machine_.CyclesPerSecond();
    if (wait > 0.5 * time.seconds) time.bound = Unit::kHbm;
    time.roofline_seconds = std::max(time.roofline_seconds, time.hbm_bytes / (machine_.hbm_gb_per_s * 1e9));
    // Bytes that came while earlier kernels ran are no reason for this one to take long.
    time.roofline_seconds = std::min(time.roofline_seconds, time.seconds);
    time.utilisation = time.roofline_seconds / time.seconds;
  }

  KernelTime Finish(KernelTime time) {
    idle_ += std::max(0.0, time.seconds - time.hbm_cycles / machine_.CyclesPerSecond());
    return time;
  }

  const Machine& machine_;
  const WalkedProgram& program_;
  double idle_ = 0;  // seconds of HBM that kernels so far have left over
};

// What a kernel without a product takes of VMEM: two windows of everything that it reads or writes in HBM, as large as
// half the limit allows, and one tile at least.
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

Allocation AllocationOf(const ScheduledBuffer& b, absl::string_view kind) {
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

// Fills hbm_in_use, and finds the fullest moment.
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
        plan.allocations.push_back(AllocationOf(b.info, "Arguments"));
        break;
      case Kind::kResult:
        plan.result_bytes += bytes;
        if (b.takes_argument) {
          plan.alias_bytes += bytes;
        } else {
          always += bytes;
          plan.allocations.push_back(AllocationOf(b.info, "Output"));
        }
        break;
      case Kind::kConstant:
        always += bytes;
        plan.allocations.push_back(AllocationOf(b.info, "Constant"));
        break;
      case Kind::kTemporary:
        change[static_cast<size_t>(b.info.first_kernel)] += bytes;
        change[static_cast<size_t>(b.info.last_kernel) + 1] -= bytes;
        break;
    }
  }
  int64_t now = 0, most = 0;
  size_t fullest = 0;
  for (size_t k = 0; k < kernels; ++k) {
    now += change[k];
    // A result over an operand that dies here needs no room of its own yet.
    const WalkedKernel& kernel = program.kernels[k];
    int64_t shared = 0;
    std::vector<int> given;
    for (int r : kernel.results) {
      if (r < 0 || !in_hbm(program.buffers[r]) || program.buffers[r].info.kind != Kind::kTemporary) continue;
      const ScheduledBuffer& result = program.buffers[r].info;
      if (result.first_kernel != static_cast<int64_t>(k)) continue;
      for (size_t o = 0; o < kernel.operands.size(); ++o) {
        if (!kernel.work.operands[o].may_share || kernel.operands[o].size() != 1) continue;
        const int b = kernel.operands[o][0];
        if (b < 0 || b == r || !in_hbm(program.buffers[b]) || program.buffers[b].info.kind != Kind::kTemporary)
          continue;
        const ScheduledBuffer& operand = program.buffers[b].info;
        if (operand.last_kernel != static_cast<int64_t>(k) || operand.padded_bytes != result.padded_bytes) continue;
        if (std::find(given.begin(), given.end(), b) != given.end()) continue;
        given.push_back(b);
        shared += result.padded_bytes;
        break;
      }
    }
    schedule.hbm_in_use.push_back(always + now - shared);
    if (now - shared > most) {
      most = now - shared;
      fullest = k;
    }
  }
  plan.peak_bytes = always + most;
  plan.temporary_bytes = plan.peak_bytes - plan.argument_bytes - (plan.result_bytes - plan.alias_bytes);
  for (const WalkedBuffer& b : program.buffers) {
    if (!in_hbm(b) || b.info.kind != Kind::kTemporary || most == 0) continue;
    if (b.info.first_kernel <= static_cast<int64_t>(fullest) && b.info.last_kernel >= static_cast<int64_t>(fullest)) {
      plan.allocations.push_back(AllocationOf(b.info, "HLO temp"));
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

// Starts of kernels, one after another; a loop takes as long as all of its turns.
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
    // The loops around this kernel, outermost first.
    std::vector<int64_t> around;
    for (int64_t l = k.loop; l >= 0; l = s.loops[static_cast<size_t>(l)].parent) around.push_back(l);
    std::reverse(around.begin(), around.end());
    size_t common = 0;
    while (common < open.size() && common < around.size() && open[common].loop == around[common]) ++common;
    close_until(common == 0 ? -1 : open[common - 1].loop);
    for (; common < around.size(); ++common) open.push_back({around[common], now});
    k.start_seconds = now;
    now += k.time.seconds;
    k.executions = 1;
    for (int64_t l : around) k.executions *= s.loops[static_cast<size_t>(l)].trip_count;
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

// The layouts in the program say where values lie, inside fusions too.
void WriteSpaces(Module* kernels, const WalkedProgram& program) {
  for (Computation* c : RunningComputations(kernels)) {
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
  Residency residency(machine, static_cast<int64_t>(program.kernels.size()));
  residency.Place(program);
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

  // Buffers that were merged into others are left out; the rest are numbered anew.
  std::vector<int64_t> number(program.buffers.size(), -1);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (!program.buffers[b].used) continue;
    number[b] = static_cast<int64_t>(s.buffers.size());
    ScheduledBuffer info = program.buffers[b].info;
    if (info.padded_bytes > info.unpadded_bytes) {
      absl::StatusOr<Shape> shape = ParseShape(info.shape);
      if (shape.ok()) info.remedy = PaddingRemedy(*shape, tile);
    }
    s.buffers.push_back(std::move(info));
  }

  Timer timer(machine, program);
  int64_t loop = -1;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const WalkedKernel& from = program.kernels[k];
    if (from.loop != loop) timer.Restart();
    loop = from.loop;
    ScheduledKernel kernel;
    kernel.name = from.instruction->name();
    kernel.category = from.work.category;
    kernel.contents = from.work.contents;
    kernel.origin = OriginOf(*from.instruction);
    kernel.time = timer.Of(k, residency);
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
    if (kernel.scoped_vmem_bytes > machine.scoped_vmem_bytes) {
      std::vector<Allocation> windows;
      for (const std::vector<int64_t>* list : {&kernel.reads, &kernel.writes}) {
        for (int64_t b : *list) windows.push_back(AllocationOf(s.buffers[static_cast<size_t>(b)], "scoped"));
      }
      RETURN_IF_ERROR(
          CheckScopedVmem(machine, absl::StrCat("%", from.instruction->ToString()), kernel.scoped_vmem_bytes, windows));
    }
    s.kernels.push_back(std::move(kernel));
  }
  SetStarts(s);
  for (const ScheduledKernel& k : s.kernels) {
    const double times = static_cast<double>(k.executions);
    s.flops += times * k.flops;
    s.transcendentals += times * k.transcendentals;
    s.hbm_bytes += times * k.hbm_bytes;
  }
  s.cycles = s.seconds * machine.CyclesPerSecond();
  return out;
}

}  // namespace backplane::tpu
