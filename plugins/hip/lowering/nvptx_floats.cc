#include "plugins/hip/lowering/nvptx_floats.h"

#include <vector>

#include "llvm/IR/InstIterator.h"

namespace backplane::hip {
namespace {

// Returns an integer type with as many lanes as `type`.
llvm::Type* IntegerLike(llvm::Type* type, unsigned bits) {
  llvm::Type* integer = llvm::IntegerType::get(type->getContext(), bits);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector == nullptr ? integer : llvm::FixedVectorType::get(integer, vector->getNumElements());
}

void KeepSign(llvm::CastInst& conversion) {
  llvm::IRBuilder<> b(conversion.getNextNode());
  llvm::Value* from = conversion.getOperand(0);
  const unsigned from_bits = from->getType()->getScalarSizeInBits(),
                 to_bits = conversion.getType()->getScalarSizeInBits();
  llvm::Type *narrow = IntegerLike(from->getType(), from_bits), *wide = IntegerLike(from->getType(), to_bits);
  llvm::Value* sign = b.CreateBitCast(from, narrow);
  if (to_bits > from_bits) {
    sign = b.CreateShl(b.CreateZExt(sign, wide), to_bits - from_bits);
  } else {
    sign = b.CreateTrunc(b.CreateLShr(sign, from_bits - to_bits), wide);
  }
  const llvm::APInt mask = llvm::APInt::getSignMask(to_bits);
  llvm::Value* bits = b.CreateBitCast(&conversion, wide);
  llvm::Value* magnitude = b.CreateAnd(bits, llvm::ConstantInt::get(wide, ~mask));
  llvm::Value* result = b.CreateBitCast(b.CreateOr(magnitude, b.CreateAnd(sign, llvm::ConstantInt::get(wide, mask))),
                                        conversion.getType());
  conversion.replaceUsesWithIf(result, [&](llvm::Use& use) { return use.getUser() != bits; });
}

}  // namespace

void KeepSignsOfNans(llvm::Module& module) {
  std::vector<llvm::CastInst*> conversions;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& i : llvm::instructions(function)) {
      if (!llvm::isa<llvm::FPExtInst>(i) && !llvm::isa<llvm::FPTruncInst>(i)) continue;
      auto& conversion = llvm::cast<llvm::CastInst>(i);
      if (conversion.getSrcTy()->getScalarType()->isHalfTy() || conversion.getDestTy()->getScalarType()->isHalfTy())
        conversions.push_back(&conversion);
    }
  }
  for (llvm::CastInst* conversion : conversions) KeepSign(*conversion);
}

}  // namespace backplane::hip
