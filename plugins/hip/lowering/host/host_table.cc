#include "plugins/hip/lowering/host/host_table.h"

#include <cstddef>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "plugins/hip/lowering/host_image.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// EmitHostTable writes this layout.
static_assert(sizeof(HostKernel) == 32 && offsetof(HostKernel, run) == 8 && offsetof(HostKernel, threads) == 16);

void EmitHostTable(llvm::Module& module, const std::vector<HostTableEntry>& entries) {
  llvm::IRBuilder<> b(module.getContext());
  llvm::Type* number = b.getInt32Ty();
  auto* record =
      llvm::StructType::get(module.getContext(), {b.getPtrTy(), b.getPtrTy(), number, number, number, number});
  std::vector<llvm::Constant*> rows;
  for (const HostTableEntry& entry : entries) {
    llvm::Constant* text = llvm::ConstantDataArray::getString(module.getContext(), entry.name);
    auto* name = new llvm::GlobalVariable(module, text->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::InternalLinkage, text, "name");
    rows.push_back(
        llvm::ConstantStruct::get(record, {name, entry.run, b.getInt32(entry.threads), b.getInt32(entry.kernarg_bytes),
                                           b.getInt32(entry.shared_bytes), b.getInt32(entry.frame_bytes)}));
  }
  rows.push_back(llvm::ConstantAggregateZero::get(record));
  auto* type = llvm::ArrayType::get(record, rows.size());
  new llvm::GlobalVariable(module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantArray::get(type, rows), kHostKernelTable);
}

void DefineMemoryFunctions(llvm::Module& module) {
  bool used = false;
  for (llvm::Function& function : module) {
    for (const llvm::Instruction& i : llvm::instructions(function)) used |= llvm::isa<llvm::MemIntrinsic>(i);
  }
  if (!used) return;
  // The string instructions of x86-64 take the destination in rdi, the source or byte in rsi or al, the count in rcx.
  // For short copies of known length LLVM makes instructions of its own.
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type* pointer = b.getPtrTy();
  llvm::Type* size = b.getInt64Ty();
  auto define = [&](const char* name, llvm::Type* source, const char* code, const char* operands) {
    auto* type = llvm::FunctionType::get(pointer, {pointer, source, size}, false);
    auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
    f->setVisibility(llvm::GlobalValue::HiddenVisibility);
    f->addFnAttr(llvm::Attribute::NoUnwind);
    f->addFnAttr("no-builtins");
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "", f));
    llvm::Value* filler = f->getArg(1);
    if (!source->isPointerTy()) filler = b.CreateTrunc(filler, b.getInt8Ty());
    auto* result = llvm::StructType::get(context, {pointer, filler->getType(), size});
    auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(result, {pointer, filler->getType(), size}, false),
                                          code, operands, /*hasSideEffects=*/true);
    b.CreateCall(assembly, {f->getArg(0), filler, f->getArg(2)});
    b.CreateRet(f->getArg(0));
  };
  constexpr char kCopy[] = "={di},={si},={cx},0,1,2,~{memory},~{dirflag},~{fpsr},~{flags}";
  constexpr char kFill[] = "={di},={al},={cx},0,1,2,~{memory},~{dirflag},~{fpsr},~{flags}";
  define("memcpy", pointer, "rep movsb", kCopy);
  define("memset", b.getInt32Ty(), "rep stosb", kFill);
  // Backwards if the destination begins within the source.
  define("memmove", pointer,
         "movq $0, %rax\n\tsubq $1, %rax\n\tcmpq $2, %rax\n\tjae 1f\n\tleaq -1($0,$2), $0\n\tleaq -1($1,$2), $1\n\t"
         "std\n\trep movsb\n\tcld\n\tjmp 2f\n1:\n\trep movsb\n2:",
         "={di},={si},={cx},0,1,2,~{rax},~{memory},~{dirflag},~{fpsr},~{flags}");
}

}  // namespace backplane::hip
