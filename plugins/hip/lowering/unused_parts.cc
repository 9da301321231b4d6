// What LLVM's linker refers to for link-time optimization and never calls here, because objects are complete code.
//
// It registers the code generators of all machines that LLVM was built with, and a plugin of its optimizer (Polly),
// whose library is a package of its own. These definitions stand in for theirs, so that they need not be linked in.
// They are weak: a program that links such a library for its own purposes gets that one.
#include "llvm/Passes/PassPlugin.h"

__attribute__((weak)) llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", "none", [](llvm::PassBuilder&) {}};
}

// NOLINTBEGIN(bugprone-macro-parentheses)
#define BP_UNUSED(name) \
  extern "C" __attribute__((weak)) void LLVMInitialize##name() {}
#define BP_UNUSED_MACHINE(name) \
  BP_UNUSED(name##TargetInfo)   \
  BP_UNUSED(name##Target) BP_UNUSED(name##TargetMC) BP_UNUSED(name##AsmPrinter) BP_UNUSED(name##AsmParser)
// NOLINTEND(bugprone-macro-parentheses)

BP_UNUSED_MACHINE(AArch64)
BP_UNUSED_MACHINE(ARM)
BP_UNUSED_MACHINE(AVR)
BP_UNUSED_MACHINE(BPF)
BP_UNUSED_MACHINE(Hexagon)
BP_UNUSED_MACHINE(Lanai)
BP_UNUSED_MACHINE(LoongArch)
BP_UNUSED_MACHINE(M68k)
BP_UNUSED_MACHINE(MSP430)
BP_UNUSED_MACHINE(Mips)
BP_UNUSED_MACHINE(PowerPC)
BP_UNUSED_MACHINE(RISCV)
BP_UNUSED_MACHINE(Sparc)
BP_UNUSED_MACHINE(SystemZ)
BP_UNUSED_MACHINE(VE)
BP_UNUSED_MACHINE(WebAssembly)
BP_UNUSED_MACHINE(XCore)
BP_UNUSED_MACHINE(Xtensa)

#undef BP_UNUSED
#undef BP_UNUSED_MACHINE

// LLVM's library for parallel loops has a thread-local variable with a constant initial value. Its users refer weakly
// to a function that initializes it, which does not exist; the loader would take one of a library that the host has
// opened.
extern "C" __attribute__((visibility("hidden"))) void InitializeThreadIndex() __asm__(
    "_ZTHN4llvm8parallel11threadIndexE");
extern "C" void InitializeThreadIndex() {}
