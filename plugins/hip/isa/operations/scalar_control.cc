// Branches, calls, waits, barriers, the mode register, and instructions without meaning for an interpreter.
#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/code/loaded_code.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/machine/wave.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

void Ignore(Wave&, const Instruction&) {}

void EndProgram(Wave& wave, const Instruction&) { wave.state = Wave::State::kEnded; }

void ReachBarrier(Wave& wave, const Instruction&) { wave.state = Wave::State::kAtBarrier; }

void Trap(Wave& wave, const Instruction&) {
  wave.Fail(absl::AbortedError("the program gave up (s_trap: an assertion, or code that must not be reached)"));
}

bool HasTarget(Wave& wave, const Instruction& i) {
  if (i.target != Function::kNoInstruction) return true;
  wave.Fail(absl::FailedPreconditionError("the branch leaves the kernel's code"));
  return false;
}

template <bool (*Condition)(const Wave&)>
void Branch(Wave& wave, const Instruction& i) {
  if (Condition(wave) && HasTarget(wave, i)) wave.index = i.target;
}
bool Always(const Wave&) { return true; }
bool SccIsZero(const Wave& w) { return !w.scc; }
bool SccIsOne(const Wave& w) { return w.scc; }
bool VccIsZero(const Wave& w) { return w.vcc() == 0; }
bool VccIsNotZero(const Wave& w) { return w.vcc() != 0; }
bool ExecIsZero(const Wave& w) { return w.exec() == 0; }
bool ExecIsNotZero(const Wave& w) { return w.exec() != 0; }

void JumpTo(Wave& wave, uint64_t address) {
  const Function* f = wave.function;
  uint32_t index = f->FindIndex(address);
  if (index == Function::kNoInstruction) {
    f = wave.launch->code->FunctionAt(address);
    if (f != nullptr) index = f->FindIndex(address);
  }
  if (f == nullptr || index == Function::kNoInstruction) {
    wave.Fail(absl::FailedPreconditionError(absl::StrCat("the program counter becomes 0x", absl::Hex(address),
                                                         ", which is no instruction of the code object")));
    return;
  }
  wave.Enter(f, index);
}

void GetPc(Wave& wave, const Instruction& i) { wave.SetScalar64(i.Result(), i.address + i.bytes); }
void SetPc(Wave& wave, const Instruction& i) { JumpTo(wave, wave.Scalar64(i.Source(0))); }
void SwapPc(Wave& wave, const Instruction& i) {
  const uint64_t target = wave.Scalar64(i.Source(0));
  wave.SetScalar64(i.Result(), i.address + i.bytes);
  JumpTo(wave, target);
}
void Call(Wave& wave, const Instruction& i) {
  wave.SetScalar64(i.Result(), i.address + i.bytes);
  if (HasTarget(wave, i)) wave.index = i.target;
}

void WaitCounts(Wave& wave, const Instruction& i) {
  const uint16_t v = i.simm16;
  if (wave.machine == Machine::kGfx1100) {
    wave.outstanding.Wait(Counter::kVector, v >> 10 & 63);
    wave.outstanding.Wait(Counter::kLgkm, v >> 4 & 63);
  } else {
    wave.outstanding.Wait(Counter::kVector, (v & 15) | (v >> 14 & 3) << 4);
    wave.outstanding.Wait(Counter::kLgkm, v >> 8 & 15);
  }
}
template <Counter kCounter>
void WaitCount(Wave& wave, const Instruction& i) {
  // The register operand adds to the count; the compiler always writes null.
  wave.outstanding.Wait(kCounter, i.simm16);
}

void SendMessage(Wave& wave, const Instruction& i) {
  constexpr uint16_t kDeallocateVgprs = 3;
  if (i.simm16 == kDeallocateVgprs && wave.machine == Machine::kGfx1100) return;
  wave.Fail(absl::UnimplementedError("the message"));
}

// hwreg(id, offset, size)
struct HardwareField {
  uint32_t id, offset, size;
  explicit HardwareField(uint16_t v) : id(v & 63), offset(v >> 6 & 31), size((v >> 11 & 31) + 1) {}
  uint32_t Mask() const { return size == 32 ? ~0u : ((1u << size) - 1) << offset; }
};
constexpr uint32_t kModeRegister = 1;

void GetRegister(Wave& wave, const Instruction& i) {
  const HardwareField f(i.simm16);
  if (f.id != kModeRegister) return wave.Fail(absl::UnimplementedError("the hardware register"));
  wave.SetScalar32(i.Result(), (wave.mode.Bits() & f.Mask()) >> f.offset);
}
void SetMode(Wave& wave, uint32_t bits) {
  wave.mode.SetBits(bits);
  if (wave.mode.round != 0) wave.Fail(absl::UnimplementedError("a rounding mode other than to nearest even"));
}
void SetRegister(Wave& wave, const Instruction& i) {
  const HardwareField f(i.simm16);
  if (f.id != kModeRegister) return wave.Fail(absl::UnimplementedError("the hardware register"));
  const Operand& source = i.operands[i.operand_count - 1];
  SetMode(wave, (wave.mode.Bits() & ~f.Mask()) | (wave.Scalar32(source) << f.offset & f.Mask()));
}
void SetRoundMode(Wave& wave, const Instruction& i) { SetMode(wave, (wave.mode.Bits() & ~15u) | (i.simm16 & 15)); }
void SetDenormMode(Wave& wave, const Instruction& i) {
  SetMode(wave, (wave.mode.Bits() & ~0xf0u) | (i.simm16 & 15u) << 4);
}

// Time is counted in instructions.
void ReadTime(Wave& wave, const Instruction& i) { wave.SetScalar64(i.Result(), wave.executed); }

constexpr Operation Control(absl::string_view mnemonic, Handler execute, Category category = Category::kOther) {
  Operation o = Custom(mnemonic, category, execute, 0);
  o.uses_simm16 = true;
  return o;
}
constexpr Operation WithOperandText(Operation o) {
  o.uses_simm16 = true;
  return o;
}

constexpr Operation kScalarControl[] = {
    Control("s_nop", Ignore),
    Control("s_delay_alu", Ignore),
    Control("s_clause", Ignore),
    Control("s_sleep", Ignore),
    Control("s_setprio", Ignore),
    Control("s_inst_prefetch", Ignore),
    Control("s_set_inst_prefetch_distance", Ignore),
    Control("s_waitcnt_depctr", Ignore),
    Control("s_wait_idle", Ignore),
    Control("s_wait_event", Ignore),
    Control("s_icache_inv", Ignore),
    Control("s_dcache_inv", Ignore),
    Control("s_dcache_wb", Ignore),
    Control("s_gl1_inv", Ignore),
    // Memory is coherent: an access reaches it when it is issued.
    Control("buffer_gl0_inv", Ignore),
    Control("buffer_gl1_inv", Ignore),
    Control("buffer_inv", Ignore),
    Control("buffer_wbl2", Ignore),
    Control("s_endpgm", EndProgram),
    Control("s_endpgm_saved", EndProgram),
    Control("s_barrier", ReachBarrier, Category::kBarrier),
    Control("s_trap", Trap),
    Control("s_waitcnt", WaitCounts),
    Control("s_waitcnt_vscnt", WaitCount<Counter::kStore>),
    Control("s_waitcnt_vmcnt", WaitCount<Counter::kVector>),
    Control("s_waitcnt_lgkmcnt", WaitCount<Counter::kLgkm>),
    Control("s_waitcnt_expcnt", Ignore),
    Control("s_sendmsg", SendMessage),
    Control("s_branch", Branch<Always>, Category::kScalar),
    Control("s_cbranch_scc0", Branch<SccIsZero>, Category::kScalar),
    Control("s_cbranch_scc1", Branch<SccIsOne>, Category::kScalar),
    Control("s_cbranch_vccz", Branch<VccIsZero>, Category::kScalar),
    Control("s_cbranch_vccnz", Branch<VccIsNotZero>, Category::kScalar),
    Control("s_cbranch_execz", Branch<ExecIsZero>, Category::kScalar),
    Control("s_cbranch_execnz", Branch<ExecIsNotZero>, Category::kScalar),
    Custom("s_getpc_b64", Category::kScalar, GetPc, 1, Type::k64),
    Custom("s_setpc_b64", Category::kScalar, SetPc, 0, Type::k64),
    Custom("s_swappc_b64", Category::kScalar, SwapPc, 1, Type::k64, Type::k64),
    Custom("s_call_b64", Category::kScalar, Call, 1, Type::k64, Type::k32),
    WithOperandText(Custom("s_getreg_b32", Category::kScalar, GetRegister, 1, Type::k32)),
    WithOperandText(Custom("s_setreg_b32", Category::kScalar, SetRegister, 0, Type::k32)),
    WithOperandText(Custom("s_setreg_imm32_b32", Category::kScalar, SetRegister, 0, Type::k32)),
    Control("s_round_mode", SetRoundMode, Category::kScalar),
    Control("s_denorm_mode", SetDenormMode, Category::kScalar),
    Custom("s_memtime", Category::kScalar, ReadTime, 1, Type::k64),
    Custom("s_memrealtime", Category::kScalar, ReadTime, 1, Type::k64),
};

}  // namespace

absl::Span<const Operation> ScalarControl() { return kScalarControl; }

}  // namespace backplane::hip::isa
