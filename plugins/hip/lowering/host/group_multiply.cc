#include "plugins/hip/lowering/host/group_multiply.h"

#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/kernels.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

using llvm::Value;

constexpr unsigned kChunks = 8;  // of a row of a slice

// Emits the function for a gpu.group.multiply of this name: (ptr left, ptr right, i32 thread, ptr sums).
class GroupMultiplyEmitter {
 public:
  GroupMultiplyEmitter(llvm::Module& module, const GroupProduct& product, uint64_t along, const llvm::Twine& name)
      : b_(module.getContext()), product_(product), along_(along) {
    is_s8_ = product.type == "s8";
    element_ = is_s8_                   ? b_.getInt8Ty()
               : product.type == "tf32" ? b_.getInt32Ty()
               : product.type == "f16"  ? b_.getHalfTy()
                                        : b_.getBFloatTy();
    sum_ = is_s8_ ? static_cast<llvm::Type*>(b_.getInt32Ty()) : b_.getFloatTy();
    bytes_ = is_s8_ ? 1 : product.type == "tf32" ? 4 : 2;
    auto* type =
        llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy(), b_.getInt32Ty(), b_.getPtrTy()}, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
    function_->addFnAttr(llvm::Attribute::NoInline);
  }

  llvm::Function* Emit() {
    llvm::BasicBlock *entry = Block(), *body = Block(), *end = Block();
    b_.SetInsertPoint(entry);
    Value* thread = b_.CreateAnd(function_->getArg(2), 127);
    Value* first_row = b_.CreateAdd(b_.CreateMul(b_.CreateLShr(thread, 5), b_.getInt32(16)),
                                    b_.CreateLShr(b_.CreateAnd(thread, 31), 2));
    Value* first_column = b_.CreateShl(b_.CreateAnd(thread, 3), 1);
    b_.CreateBr(body);
    b_.SetInsertPoint(body);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt32Ty(), 2);
    i->addIncoming(b_.getInt32(0), entry);
    Value* row = b_.CreateAdd(first_row, b_.CreateShl(b_.CreateAnd(b_.CreateLShr(i, 1), 1), 3));
    Value* column = b_.CreateAdd(b_.CreateShl(b_.CreateLShr(i, 2), 3), first_column);
    EmitSum(i, row, b_.CreateAdd(column, b_.CreateAnd(i, 1)));
    Value* next = b_.CreateAdd(i, b_.getInt32(1));
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(product_.columns / 2)), body, end);
    b_.SetInsertPoint(end);
    b_.CreateRetVoid();
    return function_;
  }

 private:
  llvm::BasicBlock* Block() { return llvm::BasicBlock::Create(b_.getContext(), "", function_); }
  unsigned in_chunk() const { return 16 / bytes_; }

  void EmitSum(Value* i, Value* row, Value* column) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *loop = Block(), *after = Block();
    auto* vector = llvm::FixedVectorType::get(sum_, in_chunk());
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* chunk = b_.CreatePHI(b_.getInt32Ty(), 2);
    llvm::PHINode* sums = b_.CreatePHI(vector, 2);
    chunk->addIncoming(b_.getInt32(0), before);
    sums->addIncoming(llvm::Constant::getNullValue(vector), before);
    Value *left = LoadChunk(0, row, chunk), *right = LoadChunk(1, column, chunk);
    Value* more =
        is_s8_ ? b_.CreateAdd(sums, b_.CreateMul(left, right)) : b_.CreateFAdd(sums, b_.CreateFMul(left, right));
    Value* next = b_.CreateAdd(chunk, b_.getInt32(1));
    chunk->addIncoming(next, loop);
    sums->addIncoming(more, loop);
    b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(kChunks)), loop, after);
    b_.SetInsertPoint(after);
    Value* place = b_.CreateGEP(sum_, function_->getArg(3), b_.CreateZExt(i, b_.getInt64Ty()));
    Value* sum = b_.CreateLoad(sum_, place);
    for (unsigned e = 0; e < in_chunk(); ++e) {
      Value* part = b_.CreateExtractElement(more, e);
      sum = is_s8_ ? b_.CreateAdd(sum, part) : b_.CreateFAdd(sum, part);
    }
    b_.CreateStore(sum, place);
  }

  // Returns the elements of a chunk of k of one row, in the type of the sums.
  Value* LoadChunk(unsigned operand, Value* row, Value* chunk) {
    auto* type = llvm::FixedVectorType::get(element_, in_chunk());
    Value* elements = nullptr;
    auto at = [&](Value* bytes) {
      return b_.CreateGEP(b_.getInt8Ty(), function_->getArg(operand), b_.CreateZExt(bytes, b_.getInt64Ty()));
    };
    auto swizzle = [&](Value* c, Value* r) { return b_.CreateShl(b_.CreateXor(c, b_.CreateAnd(r, 7)), 4); };
    if ((along_ >> operand & 1) == 0) {
      elements =
          b_.CreateAlignedLoad(type, at(b_.CreateAdd(b_.CreateShl(row, 7), swizzle(chunk, row))), llvm::Align(16));
    } else {
      elements = llvm::PoisonValue::get(type);
      Value* group = b_.CreateAdd(b_.CreateShl(b_.CreateLShr(row, 6), 13), b_.CreateShl(b_.CreateAnd(row, 7), 1));
      Value* of_rows = b_.CreateAnd(b_.CreateLShr(row, 3), 7);
      for (unsigned e = 0; e < in_chunk(); ++e) {
        Value* k = b_.CreateAdd(b_.CreateShl(chunk, 3), b_.getInt32(e));
        Value* place = b_.CreateAdd(b_.CreateAdd(group, b_.CreateShl(k, 7)), swizzle(of_rows, k));
        elements = b_.CreateInsertElement(elements, b_.CreateAlignedLoad(element_, at(place), llvm::Align(2)), e);
      }
    }
    auto* result = llvm::FixedVectorType::get(sum_, in_chunk());
    if (is_s8_) return b_.CreateSExt(elements, result);
    if (bytes_ == 4) return b_.CreateBitCast(b_.CreateAnd(elements, ~uint64_t{0} << 13 & 0xffffffff), result);
    return b_.CreateFPExt(elements, result);
  }

  llvm::IRBuilder<> b_;
  const GroupProduct product_;
  const uint64_t along_;
  bool is_s8_ = false;
  unsigned bytes_ = 0;  // of an element
  llvm::Type *element_ = nullptr, *sum_ = nullptr;
  llvm::Function* function_ = nullptr;
};

}  // namespace

void LowerGroupProduct(llvm::CallInst& call, Value* thread) {
  // The name, as a pointer of another address space has made the function another one.
  const llvm::StringRef name = llvm::cast<llvm::Function>(call.getCalledOperand())->getName();
  if (name.starts_with(kGroupWait)) {
    call.replaceAllUsesWith(call.getArgOperand(0));
    call.eraseFromParent();
    return;
  }
  llvm::Module& module = *call.getModule();
  const uint64_t along = llvm::cast<llvm::ConstantInt>(call.getArgOperand(2))->getZExtValue();
  const std::string known = ("host." + name + "." + llvm::Twine(along)).str();
  llvm::Function* function = module.getFunction(known);
  if (function == nullptr) function = GroupMultiplyEmitter(module, *ParseGroupProduct(name), along, known).Emit();
  llvm::IRBuilder<> b(&*call.getFunction()->getEntryBlock().getFirstInsertionPt());
  Value* sums = b.CreateAlloca(call.getType());
  b.SetInsertPoint(&call);
  b.CreateStore(call.getArgOperand(3), sums);
  b.CreateCall(function, {call.getArgOperand(0), call.getArgOperand(1), thread, sums});
  call.replaceAllUsesWith(b.CreateLoad(call.getType(), sums));
  call.eraseFromParent();
}

}  // namespace backplane::hip
