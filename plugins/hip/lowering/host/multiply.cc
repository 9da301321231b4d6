#include "plugins/hip/lowering/host/multiply.h"

#include "plugins/hip/lowering/gpu_ir.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

constexpr unsigned kWords = 8;  // of a row of the left matrix, and of a column of the right one

class MultiplyEmitter {
 public:
  MultiplyEmitter(llvm::Module& module, llvm::StringRef name)
      : b_(module.getContext()), name_(name), is_f64_(name == kMultiplyF64), is_s8_(name == kMultiplyS8) {
    sum_ = is_f64_ ? b_.getDoubleTy() : is_s8_ ? b_.getInt32Ty() : b_.getFloatTy();
    word_ = is_f64_ ? b_.getDoubleTy() : b_.getInt32Ty();
    auto* vector = llvm::FixedVectorType::get(sum_, 4);
    auto* type = llvm::FunctionType::get(vector, {b_.getPtrTy(), b_.getInt32Ty(), vector}, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, "host." + name, module);
    function_->addFnAttr(llvm::Attribute::NoInline);
    b_.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function_));
  }

  llvm::Function* Emit() {
    llvm::Value *thread = function_->getArg(1), *sums = function_->getArg(2);
    llvm::Value* first_row = b_.CreateLShr(thread, 2);
    llvm::Value* first_column = b_.CreateShl(b_.CreateAnd(thread, 3), 1);
    for (unsigned s = 0; s < 4; ++s) {
      llvm::Value* row = b_.CreateAdd(first_row, b_.getInt32(s / 2 * 8));
      llvm::Value* column = b_.CreateAdd(first_column, b_.getInt32(s % 2));
      llvm::Value* sum = b_.CreateExtractElement(sums, s);
      for (unsigned w = 0; w < kWords; ++w) {
        const std::vector<llvm::Value*> left = Elements(LeftWord(row, w)), right = Elements(RightWord(column, w));
        for (size_t e = 0; e < left.size(); ++e) sum = MultiplyAdd(left[e], right[e], sum);
      }
      sums = b_.CreateInsertElement(sums, sum, s);
    }
    b_.CreateRet(sums);
    return function_;
  }

 private:
  llvm::Value* Word(llvm::Value* thread, llvm::Value* index) {
    llvm::Value* of_thread =
        b_.CreateGEP(b_.getInt8Ty(), function_->getArg(0),
                     b_.CreateMul(b_.CreateZExt(thread, b_.getInt64Ty()), b_.getInt64(kFactorBytes)));
    return b_.CreateLoad(word_, b_.CreateGEP(word_, of_thread, b_.CreateZExt(index, b_.getInt64Ty())));
  }
  // Word `w` of a row is with the thread of that row, or of the row 8 less, whose number is w modulo 4.
  llvm::Value* LeftWord(llvm::Value* row, unsigned w) {
    llvm::Value* thread = b_.CreateAdd(b_.CreateShl(b_.CreateAnd(row, 7), 2), b_.getInt32(w % 4));
    return Word(thread, b_.CreateAdd(b_.CreateLShr(row, 3), b_.getInt32(w / 4 * 2)));
  }
  llvm::Value* RightWord(llvm::Value* column, unsigned w) {
    return Word(b_.CreateAdd(b_.CreateShl(column, 2), b_.getInt32(w % 4)), b_.getInt32(4 + w / 4));
  }

  // The elements of a word, in the type of the sums.
  std::vector<llvm::Value*> Elements(llvm::Value* word) {
    if (is_f64_) return {word};
    if (name_ == kMultiplyTf32) return {b_.CreateBitCast(b_.CreateAnd(word, b_.getInt32(~0u << 13)), sum_)};
    llvm::Type* element = is_s8_ ? b_.getInt8Ty() : name_ == kMultiplyF16 ? b_.getHalfTy() : b_.getBFloatTy();
    const unsigned count = is_s8_ ? 4 : 2;
    llvm::Value* all = b_.CreateBitCast(word, llvm::FixedVectorType::get(element, count));
    std::vector<llvm::Value*> elements;
    for (unsigned e = 0; e < count; ++e) {
      llvm::Value* v = b_.CreateExtractElement(all, e);
      elements.push_back(is_s8_ ? b_.CreateSExt(v, sum_) : b_.CreateFPExt(v, sum_));
    }
    return elements;
  }

  llvm::Value* MultiplyAdd(llvm::Value* x, llvm::Value* y, llvm::Value* sum) {
    if (is_s8_) return b_.CreateAdd(b_.CreateMul(x, y), sum);
    return b_.CreateFAdd(b_.CreateFMul(x, y), sum);
  }

  llvm::IRBuilder<> b_;
  const llvm::StringRef name_;
  const bool is_f64_, is_s8_;
  llvm::Type *sum_ = nullptr, *word_ = nullptr;
  llvm::Function* function_ = nullptr;
};

}  // namespace

llvm::Function* DefineMultiply(llvm::Module& module, llvm::StringRef name) {
  if (llvm::Function* known = module.getFunction(("host." + name).str())) return known;
  return MultiplyEmitter(module, name).Emit();
}

}  // namespace backplane::hip
