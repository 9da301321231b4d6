// Helpers for tests that compile for machines of every family.
#ifndef BACKPLANE_SDK_CODEGEN_TARGETS_TESTING_H_
#define BACKPLANE_SDK_CODEGEN_TARGETS_TESTING_H_

#include <string>
#include <vector>

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"

namespace backplane::codegen {

// Registers the code generators of all families with LLVM.
inline void InitializeTargets() {
  LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC(), LLVMInitializeX86AsmPrinter();
  LLVMInitializeAMDGPUTargetInfo(), LLVMInitializeAMDGPUTarget(), LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

// Returns the undefined symbols of an object file. Skips the first symbol of an ELF table, which has no name.
inline std::vector<std::string> UndefinedSymbols(const std::string& object) {
  std::vector<std::string> names;
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "object"));
  if (!file) return {"(no object: " + llvm::toString(file.takeError()) + ")"};
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name) return {"(a broken symbol)"};
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) != 0 && !name->empty()) names.push_back(name->str());
  }
  return names;
}

inline int CountOccurrences(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_TARGETS_TESTING_H_
