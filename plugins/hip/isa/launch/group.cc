#include "plugins/hip/isa/launch/group.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace backplane::hip::isa {
namespace {

// What registers hold before anything is written: a number that no program expects.
constexpr uint32_t kUndefined = 0xbadf00d5;
// Private memory for calls whose needs the compiler does not know.
constexpr uint32_t kDynamicStack = 16 * 1024;
// Instructions of a wave before the next one runs, so that a wave may wait for another one's memory.
constexpr uint64_t kSlice = 20000;

// enable_sgpr_... of the kernel descriptor, in the order of the registers.
enum Property : uint16_t {
  kPrivateBuffer = 1,
  kDispatchPtr = 2,
  kQueuePtr = 4,
  kKernargPtr = 8,
  kDispatchId = 16,
  kFlatScratch = 32,
  kPrivateSize = 64,
  kWave32 = 1 << 10,
};

}  // namespace

void Wave::Enter(const Function* f, uint32_t at) {
  function = f;
  index = at;
  std::vector<int64_t>& n = launch->counts[f];
  if (n.empty()) n.resize(f->code.size());
  counts = n.data();
}

absl::StatusOr<std::unique_ptr<GroupRunner>> GroupRunner::Create(LaunchState* state, size_t kernel,
                                                                 const Launch& launch) {
  const KernelDescriptor& d = state->code->descriptor(kernel);
  auto unknown = [&](absl::string_view what) {
    return absl::UnimplementedError(absl::StrCat("isa: ", state->kernel->name, ": ", what));
  };
  if ((d.properties & (kPrivateBuffer | kQueuePtr | kFlatScratch)) != 0) {
    return unknown("the kernel asks for a private segment buffer, a queue or flat_scratch in registers");
  }
  if ((d.preload & 0x7f) != 0) return unknown("kernel arguments that are preloaded into registers");
  const bool wave32 = (d.properties & kWave32) != 0;
  if (wave32 != (state->machine == Machine::kGfx1100)) {
    return unknown(wave32 ? "waves of 32 lanes on gfx942" : "waves of 64 lanes on gfx1100");
  }
  std::unique_ptr<GroupRunner> g(new GroupRunner(state, d, launch));
  g->entry_ = state->code->FunctionAt(d.entry);
  if (g->entry_ == nullptr || g->entry_->FindIndex(d.entry) == Function::kNoInstruction) {
    return absl::InvalidArgumentError(absl::StrCat("isa: ", state->kernel->name, ": the entry is no instruction"));
  }
  constexpr uint32_t kMaxScratch = 1 << 20;
  if (d.scratch_bytes > kMaxScratch)
    return unknown(absl::StrCat(d.scratch_bytes, " bytes of private memory for each lane"));
  g->lanes_ = wave32 ? 32 : 64;
  g->threads_ = launch.threads.x * launch.threads.y * launch.threads.z;
  g->scratch_bytes_ = d.scratch_bytes + (state->code->UsesDynamicStack(kernel) ? kDynamicStack : 0);
  g->lds_bytes_ = state->kernel->lds_bytes + launch.dynamic_lds;
  const uint32_t waves = (g->threads_ + g->lanes_ - 1) / g->lanes_;
  g->waves_.resize(waves);
  g->registers_.resize(size_t{waves} * kVectorRegisters * kMaxLanes);
  g->scratch_.resize(size_t{waves} * g->lanes_ * ((g->scratch_bytes_ + 7) / 8));
  g->scratch_bytes_ = (g->scratch_bytes_ + 7) / 8 * 8;
  return g;
}

void GroupRunner::Begin(Wave& wave, uint32_t number) {
  const KernelDescriptor& d = descriptor_;
  wave = Wave();
  wave.machine = state_->machine;
  wave.lanes = static_cast<int>(lanes_);
  wave.number = number;
  wave.launch = state_;
  wave.group = &group_;
  wave.scratch_bytes = scratch_bytes_;
  wave.scratch = reinterpret_cast<uint8_t*>(scratch_.data()) + size_t{number} * lanes_ * scratch_bytes_;
  wave.vectors =
      reinterpret_cast<uint32_t(*)[kMaxLanes]>(registers_.data() + size_t{number} * kVectorRegisters * kMaxLanes);
  // The registers that the kernel has, in the granules in which they are given.
  const uint32_t given = ((d.resource1 & 63) + 1) * 8;
  std::fill_n(&wave.vectors[0][0], size_t{std::min(given, kVectorRegisters * 1u)} * kMaxLanes, kUndefined);
  std::fill_n(wave.scalars, kScalarRegisters, kUndefined);
  wave.scalars[kNull] = 0;

  wave.mode.SetBits(d.resource1 >> 12 & 0xff);
  wave.mode.clamp_nan_to_zero = (d.resource1 >> 21 & 1) != 0;

  // Scalars of the user, then of the system.
  uint32_t at = 0;
  auto put64 = [&](const void* p) {
    const uint64_t v = reinterpret_cast<uint64_t>(p);
    wave.scalars[at++] = static_cast<uint32_t>(v);
    wave.scalars[at++] = static_cast<uint32_t>(v >> 32);
  };
  if ((d.properties & kDispatchPtr) != 0) put64(state_->dispatch_packet);
  if ((d.properties & kKernargPtr) != 0) put64(state_->kernarg);
  if ((d.properties & kDispatchId) != 0) put64(nullptr);
  if ((d.properties & kPrivateSize) != 0) wave.scalars[at++] = scratch_bytes_;
  at = d.resource2 >> 1 & 31;
  for (int dim = 0; dim < 3; ++dim) {
    if ((d.resource2 >> (7 + dim) & 1) != 0) wave.scalars[at++] = group_.block[dim];
  }

  // The work item's number in its group, 10 bits for each dimension.
  const uint32_t first = number * lanes_, active = std::min(lanes_, threads_ - first);
  const uint32_t dimensions = d.resource2 >> 11 & 3;
  for (uint32_t l = 0; l < lanes_; ++l) {
    const uint32_t n = first + l;
    uint32_t id = n % launch_.threads.x;
    if (dimensions >= 1) id |= n / launch_.threads.x % launch_.threads.y << 10;
    if (dimensions >= 2) id |= n / launch_.threads.x / launch_.threads.y << 20;
    wave.vectors[0][l] = id;
  }
  wave.SetMask(kExecLow, active == 64 ? ~0ull : (1ull << active) - 1);
  if (lanes_ == 32) wave.scalars[kExecLow + 1] = 0;
  wave.Enter(entry_, entry_->FindIndex(d.entry));
}

void GroupRunner::RunWave(Wave& wave) {
  uint64_t slice = std::min<uint64_t>(kSlice, state_->instructions_left);
  const uint64_t begin = wave.executed;
  while (wave.state == Wave::State::kRunning && slice-- > 0) {
    const Instruction& i = wave.function->code[wave.index];
    wave.last = &i;
    if (!wave.outstanding.empty()) {
      const Order order = i.operation == nullptr ? Order::kNone : i.operation->load_order;
      for (const RegisterRange& r : i.touched) {
        const Instruction* by = wave.outstanding.FindConflict(r, order);
        if (by == nullptr) continue;
        wave.Fail(absl::FailedPreconditionError(absl::StrCat(
            "a register is ", r.is_result ? "written" : "read", " while '", by->text, "' at +0x",
            absl::Hex(by->address - wave.function->address), " has not completed (s_waitcnt is missing or too weak)")));
        break;
      }
      if (wave.state != Wave::State::kRunning) break;
    }
    ++wave.counts[wave.index];
    ++wave.executed;
    wave.index = i.next;
    i.execute(wave, i);
  }
  state_->instructions_left -= wave.executed - begin;
}

absl::Status GroupRunner::Describe(const Wave& wave) const {
  const Instruction& i = *wave.last;
  std::string where = absl::StrCat("isa: ", state_->kernel->name, ": '", i.text, "' at ", wave.function->name, "+0x",
                                   absl::Hex(i.address - wave.function->address), ", work group (", group_.block[0],
                                   ", ", group_.block[1], ", ", group_.block[2], "), wave ", wave.number);
  if (wave.failed_lane >= 0) absl::StrAppend(&where, ", lane ", wave.failed_lane);
  return absl::Status(wave.status.code(), absl::StrCat(where, ": ", wave.status.message()));
}

absl::Status GroupRunner::PassBarrier() {
  group_.lds.PassBarrier();
  for (Wave& w : waves_) {
    w.state = Wave::State::kRunning;
    repeated_.clear();
    w.outstanding.AppendLdsAccesses(repeated_);
    for (uint32_t access : repeated_) {
      if (absl::Status s = group_.lds.Repeat(w.number, access); !s.ok()) {
        w.Fail(std::move(s));
        return Describe(w);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status GroupRunner::Run(uint32_t x, uint32_t y, uint32_t z) {
  group_.block[0] = x, group_.block[1] = y, group_.block[2] = z;
  group_.lds.Reset(lds_bytes_);
  for (uint32_t n = 0; n < waves_.size(); ++n) Begin(waves_[n], n);
  for (;;) {
    size_t ended = 0, waiting = 0;
    const Wave* at_barrier = nullptr;
    for (Wave& w : waves_) {
      if (w.state == Wave::State::kRunning) RunWave(w);
      if (w.state == Wave::State::kFailed) return Describe(w);
      if (w.state == Wave::State::kEnded) ++ended;
      if (w.state == Wave::State::kAtBarrier) ++waiting, at_barrier = &w;
    }
    if (ended == waves_.size()) return absl::OkStatus();
    if (waiting == waves_.size()) {
      if (absl::Status s = PassBarrier(); !s.ok()) return s;
    } else if (waiting + ended == waves_.size()) {
      Wave failed = *at_barrier;
      failed.Fail(absl::FailedPreconditionError(
          absl::StrCat("the barrier is never reached by ", ended, " of ", waves_.size(), " waves, which have ended")));
      return Describe(failed);
    } else if (state_->instructions_left == 0) {
      return absl::DeadlineExceededError(absl::StrCat("isa: ", state_->kernel->name, ": more than ",
                                                      launch_.max_instructions, " instructions of waves"));
    }
  }
}

}  // namespace backplane::hip::isa
