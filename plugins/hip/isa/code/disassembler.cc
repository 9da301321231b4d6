#include "plugins/hip/isa/code/disassembler.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

namespace backplane::hip::isa {

struct Disassembler::Parts {
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

Disassembler::Disassembler() : parts_(std::make_unique<Parts>()) {}
Disassembler::~Disassembler() = default;

absl::StatusOr<std::unique_ptr<Disassembler>> Disassembler::Create(absl::string_view machine) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUDisassembler();
  const std::string triple = "amdgcn-amd-amdhsa", cpu(machine);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return absl::InternalError(absl::StrCat("isa: LLVM has no target ", triple, ": ", error));
  std::unique_ptr<Disassembler> d(new Disassembler);
  Parts& p = *d->parts_;
  p.registers.reset(target->createMCRegInfo(triple));
  p.assembly.reset(target->createMCAsmInfo(*p.registers, triple, p.options));
  p.instructions.reset(target->createMCInstrInfo());
  p.subtarget.reset(target->createMCSubtargetInfo(triple, cpu, ""));
  p.context =
      std::make_unique<llvm::MCContext>(llvm::Triple(triple), p.assembly.get(), p.registers.get(), p.subtarget.get());
  p.disassembler.reset(target->createMCDisassembler(*p.subtarget, *p.context));
  p.printer.reset(target->createMCInstPrinter(llvm::Triple(triple), 0, *p.assembly, *p.instructions, *p.registers));
  if (p.disassembler == nullptr || p.printer == nullptr) {
    return absl::InternalError(absl::StrCat("isa: LLVM has no disassembler for ", cpu));
  }
  return d;
}

DisassembledInstruction Disassembler::At(absl::Span<const uint8_t> code, uint64_t address) {
  DisassembledInstruction result;
  llvm::MCInst inst;
  uint64_t size = 0;
  const llvm::ArrayRef<uint8_t> bytes(code.data(), code.size());
  const auto status = parts_->disassembler->getInstruction(inst, size, bytes, address, llvm::nulls());
  if (status != llvm::MCDisassembler::Success || size == 0) {
    result.bytes = 4;
    return result;
  }
  llvm::raw_string_ostream stream(result.text);
  parts_->printer->printInst(&inst, address, "", *parts_->subtarget, stream);
  stream.flush();
  for (char& c : result.text) {
    if (c == '\t') c = ' ';
  }
  absl::StripAsciiWhitespace(&result.text);
  result.bytes = static_cast<uint32_t>(size);
  return result;
}

}  // namespace backplane::hip::isa
