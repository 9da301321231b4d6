#include "plugins/hip/lowering/host/run_function.h"

namespace backplane::hip {

llvm::Argument* GetParameter(const HostBody& body, BodyParameter parameter) {
  const size_t first = body.function->arg_size() - kBodyParameters;
  return body.function->getArg(static_cast<unsigned>(first + parameter));
}

RunFunction::RunFunction(llvm::Module& module, const HostBody& body) : b(module.getContext()) {
  llvm::Type* number = b.getInt32Ty();
  llvm::Type* pointer = b.getPtrTy();
  auto* type = llvm::FunctionType::get(number, {pointer, number, number, pointer, pointer}, false);
  // Passes over the call graph begin at functions that others can call.
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, body.kernel->getName() + ".run", module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  block = function->getArg(1), blocks = function->getArg(2), shared = function->getArg(3), frames = function->getArg(4);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  const llvm::DataLayout& layout = module.getDataLayout();
  for (size_t i = 0; i + kBodyParameters < body.function->arg_size(); ++i) {
    llvm::Type* argument = body.function->getArg(static_cast<unsigned>(i))->getType();
    const llvm::Align alignment = layout.getABITypeAlign(argument);
    kernarg_bytes = llvm::alignTo(kernarg_bytes, alignment);
    llvm::Value* address = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), function->getArg(0), kernarg_bytes);
    arguments.push_back(b.CreateAlignedLoad(argument, address, alignment));
    kernarg_bytes += layout.getTypeAllocSize(argument);
  }
}

void RunFunction::CallBody(const HostBody& body, llvm::Value* thread) {
  std::vector<llvm::Value*> all = arguments;
  all.insert(all.end(), {thread, block, blocks, shared, frames});
  b.CreateCall(body.function, all);
}

}  // namespace backplane::hip
