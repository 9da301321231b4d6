#include "plugins/hip/lowering/host/one_address_space.h"

#include "absl/container/flat_hash_map.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ValueMapper.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

class OneAddressSpace : public llvm::ValueMapTypeRemapper {
 public:
  llvm::Type* remapType(llvm::Type* type) override {
    if (type->isPointerTy()) return llvm::PointerType::get(type->getContext(), 0);
    if (auto* vector = llvm::dyn_cast<llvm::VectorType>(type)) {
      return llvm::VectorType::get(remapType(vector->getElementType()), vector->getElementCount());
    }
    if (auto* array = llvm::dyn_cast<llvm::ArrayType>(type)) {
      return llvm::ArrayType::get(remapType(array->getElementType()), array->getNumElements());
    }
    if (auto* function = llvm::dyn_cast<llvm::FunctionType>(type)) {
      llvm::SmallVector<llvm::Type*, 8> parameters;
      for (llvm::Type* parameter : function->params()) parameters.push_back(remapType(parameter));
      return llvm::FunctionType::get(remapType(function->getReturnType()), parameters, function->isVarArg());
    }
    if (auto* record = llvm::dyn_cast<llvm::StructType>(type)) return RemapStruct(record);
    return type;
  }

 private:
  llvm::Type* RemapStruct(llvm::StructType* record) {
    if (record->isOpaque()) return record;
    llvm::SmallVector<llvm::Type*, 8> elements;
    bool same = true;
    for (llvm::Type* element : record->elements()) {
      elements.push_back(remapType(element));
      same &= elements.back() == element;
    }
    return same ? record : llvm::StructType::get(record->getContext(), elements, record->isPacked());
  }
};

// Finds an intrinsic for other types of pointers, whose name differs.
llvm::Function* RemapIntrinsic(llvm::Module& module, llvm::Function& function, OneAddressSpace& types) {
  auto* type = llvm::cast<llvm::FunctionType>(types.remapType(function.getFunctionType()));
  if (type == function.getFunctionType()) return &function;
  llvm::SmallVector<llvm::Type*, 4> overloads;
  if (!llvm::Intrinsic::getIntrinsicSignature(function.getIntrinsicID(), type, overloads)) return &function;
  return llvm::Intrinsic::getDeclaration(&module, function.getIntrinsicID(), overloads);
}

void RemoveCastsBetweenEqualTypes(llvm::Function& function) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(function))) {
    if (!llvm::isa<llvm::AddrSpaceCastInst>(i) || i.getType() != i.getOperand(0)->getType()) continue;
    i.replaceAllUsesWith(i.getOperand(0));
    i.eraseFromParent();
  }
}

class Rewriting {
 public:
  explicit Rewriting(llvm::Module& module) : module_(module) {}

  // Casts in constants cannot be removed from instructions, and shared variables have a place for each kernel.
  void ExpandConstants() {
    llvm::SmallVector<llvm::Constant*, 8> constants;
    for (llvm::GlobalVariable& variable : module_.globals()) {
      if (variable.getAddressSpace() != 0 || HasCast(variable)) constants.push_back(&variable);
    }
    llvm::convertUsersOfConstantsToInstructions(constants);
  }

  void CloneConstants() {
    std::vector<llvm::GlobalVariable*> constants;
    for (llvm::GlobalVariable& variable : module_.globals()) {
      if (variable.isConstant() && variable.getAddressSpace() != 0) constants.push_back(&variable);
    }
    for (llvm::GlobalVariable* variable : constants) {
      auto* clone =
          new llvm::GlobalVariable(module_, variable->getValueType(), /*isConstant=*/true,
                                   llvm::GlobalValue::InternalLinkage, variable->getInitializer(), variable->getName());
      clone->setAlignment(variable->getAlign());
      globals_[variable] = clone;
    }
  }

  void DeclareFunctions(const std::vector<Kernel>& kernels) {
    absl::flat_hash_map<llvm::Function*, bool> is_kernel;
    for (const Kernel& kernel : kernels) is_kernel[kernel.function] = true;
    std::vector<llvm::Function*> functions;
    for (llvm::Function& function : module_) functions.push_back(&function);
    for (llvm::Function* function : functions) {
      if (is_kernel.contains(function)) continue;
      if (function->isIntrinsic()) {
        globals_[function] = RemapIntrinsic(module_, *function, types_);
      } else if (!function->isDeclaration()) {
        auto* type = llvm::cast<llvm::FunctionType>(types_.remapType(function->getFunctionType()));
        auto* clone = llvm::Function::Create(type, llvm::Function::InternalLinkage, function->getName(), module_);
        globals_[function] = clone;
        helpers_.push_back({clone, function});
      }
    }
  }

  void CloneHelpers() {
    for (const auto& [clone, original] : helpers_) CloneInto(*clone, *original, nullptr);
    for (const auto& [clone, original] : helpers_) original->deleteBody();
    for (const auto& [clone, original] : helpers_) {
      if (original->use_empty()) original->eraseFromParent();
    }
  }

  llvm::Function* CloneBody(const Kernel& kernel) {
    llvm::LLVMContext& context = module_.getContext();
    llvm::SmallVector<llvm::Type*, 12> types;
    for (const llvm::Argument& argument : kernel.function->args())
      types.push_back(types_.remapType(argument.getType()));
    llvm::Type* number = llvm::Type::getInt32Ty(context);
    llvm::Type* pointer = llvm::PointerType::get(context, 0);
    types.append({number, number, number, pointer, pointer});
    auto* body = llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
                                        llvm::Function::InternalLinkage, kernel.function->getName() + ".body", module_);
    CloneInto(*body, *kernel.function, &kernel);
    return body;
  }

 private:
  static bool HasCast(const llvm::Value& value) {
    for (const llvm::User* user : value.users()) {
      const auto* expression = llvm::dyn_cast<llvm::ConstantExpr>(user);
      if (expression == nullptr) continue;
      if (expression->getOpcode() == llvm::Instruction::AddrSpaceCast || HasCast(*expression)) return true;
    }
    return false;
  }

  void CloneInto(llvm::Function& clone, llvm::Function& original, const Kernel* kernel) {
    llvm::ValueToValueMapTy values;
    for (const auto& [from, to] : globals_) values[from] = to;
    for (llvm::Argument& argument : original.args()) values[&argument] = clone.getArg(argument.getArgNo());
    std::vector<llvm::Instruction*> places;
    if (kernel != nullptr) places = PlaceShared(clone, *kernel, values);
    llvm::SmallVector<llvm::ReturnInst*, 4> returns;
    llvm::CloneFunctionInto(&clone, &original, values, llvm::CloneFunctionChangeType::GlobalChanges, returns, "",
                            nullptr, &types_);
    for (llvm::Instruction* place : places) {
      place->insertInto(&clone.getEntryBlock(), clone.getEntryBlock().getFirstInsertionPt());
    }
    RemoveCastsBetweenEqualTypes(clone);
  }

  // Where the kernel's shared variables are, by instructions that are not in a block yet.
  std::vector<llvm::Instruction*> PlaceShared(llvm::Function& body, const Kernel& kernel,
                                              llvm::ValueToValueMapTy& values) {
    const llvm::DataLayout& layout = module_.getDataLayout();
    llvm::Value* base = body.getArg(static_cast<unsigned>(kernel.function->arg_size()) + kSharedParameter);
    std::vector<llvm::Instruction*> places;
    uint64_t end = 0;
    for (llvm::GlobalVariable* variable : kernel.shared) {
      end = llvm::alignTo(end, ComputeSharedAlignment(*variable));
      auto* offset = llvm::ConstantInt::get(llvm::Type::getInt64Ty(module_.getContext()), end);
      places.push_back(llvm::GetElementPtrInst::CreateInBounds(llvm::Type::getInt8Ty(module_.getContext()), base,
                                                               {offset}, variable->getName()));
      values[variable] = places.back();
      end += layout.getTypeAllocSize(variable->getValueType());
    }
    return places;
  }

  llvm::Module& module_;
  OneAddressSpace types_;
  absl::flat_hash_map<llvm::GlobalValue*, llvm::GlobalValue*> globals_;
  std::vector<std::pair<llvm::Function*, llvm::Function*>> helpers_;  // the new one, the old one
};

}  // namespace

std::vector<HostBody> UseOneAddressSpace(llvm::Module& module, const std::vector<Kernel>& kernels) {
  Rewriting rewriting(module);
  rewriting.ExpandConstants();
  rewriting.CloneConstants();
  rewriting.DeclareFunctions(kernels);
  std::vector<HostBody> bodies;
  for (const Kernel& kernel : kernels) bodies.push_back({rewriting.CloneBody(kernel), kernel.function});
  for (const Kernel& kernel : kernels) kernel.function->deleteBody();
  rewriting.CloneHelpers();
  return bodies;
}

}  // namespace backplane::hip
