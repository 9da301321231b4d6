// PTX ISA, "Asynchronous warpgroup level matrix instructions". They are inline assembly, because LLVM 19 lacks
// wgmma.mma_async.
//
// What orders the accesses, which nothing on the host would show:
//   wgmma.fence               The sums are registers that other instructions have written (zeros at first, copies that
//                             the compiler makes later). The fence orders these writes before the product. It stands
//                             before each product; between products of one shape it would not be needed, but the
//                             compiler may have moved the sums.
//   fence.proxy.async         wgmma reads shared memory in the asynchronous proxy. Stores and cp.async write it in the
//                             generic one. The thread that has written executes the fence after its writes have ended
//                             (for copies: after their wait) and before the barrier behind which products begin.
//   wgmma.wait_group          The end of a product makes its sums visible, and its reads of shared memory are over. The
//                             wait takes the sums and returns them, so that the compiler uses none of them before.
//                             Other groups' products may still read the same memory: a barrier behind the wait orders
//                             their reads before later writes.
//   "memory"                  keeps the compiler from moving accesses to memory over the instructions.
#include "plugins/hip/lowering/nvptx_groups.h"

#include "absl/strings/str_cat.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InlineAsm.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {
namespace {

constexpr char kClobbers[] = ",~{memory}";
constexpr unsigned kSteps = 4;  // instructions for a slice: each multiplies 32 bytes of every row

// The matrix descriptor of a slice with the 128-byte swizzle. Bits 0 to 13: the address; 16 to 29: the leading
// dimension byte offset, between groups of 64 rows where chunks are along the rows, otherwise not used and 1; 32 to 45:
// the stride dimension byte offset, between groups of 8 rows or of 8 elements of k; 62 to 63: the swizzle. All in units
// of 16 bytes. The base offset is 0, because patterns of 1024 bytes begin at multiples of 1024.
llvm::Value* DescribeSlice(llvm::IRBuilder<>& b, llvm::Value* address, bool along_rows) {
  const uint64_t leading = along_rows ? 8192 / 16 : 1, stride = 1024 / 16, swizzle = 1;
  llvm::Value* in_window = b.CreateAnd(b.CreatePtrToInt(address, b.getInt32Ty()), 0x3ffff);
  return b.CreateOr(b.CreateZExt(b.CreateLShr(in_window, 4), b.getInt64Ty()),
                    leading << 16 | stride << 32 | swizzle << 62);
}

// Calls assembly that takes a vector of sums, in registers which its results are in, too. `code` makes the text from
// the list of these registers; `others` are further operands, numbered from the count of the sums on.
llvm::Value* CallWithSums(llvm::IRBuilder<>& b, llvm::Value* sums, llvm::ArrayRef<llvm::Value*> others,
                          const std::string& code) {
  const auto* vector = llvm::cast<llvm::FixedVectorType>(sums->getType());
  const unsigned count = vector->getNumElements();
  const char* where = vector->getElementType()->isFloatTy() ? "=f" : "=r";
  std::string constraints;
  llvm::SmallVector<llvm::Type*, 0> results(count, vector->getElementType()), parameters;
  llvm::SmallVector<llvm::Value*, 0> arguments;
  for (unsigned i = 0; i < count; ++i) absl::StrAppend(&constraints, i > 0 ? "," : "", where);
  for (llvm::Value* other : others) {
    arguments.push_back(other);
    absl::StrAppend(&constraints, ",l");
  }
  for (unsigned i = 0; i < count; ++i) {
    arguments.push_back(b.CreateExtractElement(sums, i));
    absl::StrAppend(&constraints, ",", i);
  }
  for (llvm::Value* argument : arguments) parameters.push_back(argument->getType());
  auto* type = llvm::FunctionType::get(llvm::StructType::get(b.getContext(), results), parameters, false);
  llvm::CallInst* call =
      b.CreateCall(llvm::InlineAsm::get(type, code, constraints + kClobbers, /*hasSideEffects=*/true), arguments);
  call->setConvergent();
  llvm::Value* result = llvm::PoisonValue::get(sums->getType());
  for (unsigned i = 0; i < count; ++i) result = b.CreateInsertElement(result, b.CreateExtractValue(call, i), i);
  return result;
}

llvm::Value* LowerGroupMultiply(llvm::IRBuilder<>& b, const llvm::CallInst& call, const GroupProduct& product) {
  const uint64_t along = llvm::cast<llvm::ConstantInt>(call.getArgOperand(2))->getZExtValue();
  llvm::Value* sums = call.getArgOperand(3);
  const unsigned count = product.columns / 2;
  const bool is_s8 = product.type == "s8";
  const int k = product.type == "tf32" ? 8 : is_s8 ? 32 : 16;
  std::string registers = "{";
  for (unsigned i = 0; i < count; ++i) absl::StrAppend(&registers, i > 0 ? ", $" : "$", i);
  registers += "}";
  llvm::SmallVector<llvm::Value*, 8> descriptors;
  llvm::Value* operands[2];
  for (unsigned o = 0; o < 2; ++o) operands[o] = DescribeSlice(b, call.getArgOperand(o), (along >> o & 1) != 0);
  const std::string type = product.type.str();
  const std::string instruction = absl::StrCat("wgmma.mma_async.sync.aligned.m64n", product.columns, "k", k,
                                               is_s8 ? ".s32." : ".f32.", type, ".", type, " ", registers);
  std::string code = "{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.fence.sync.aligned;";
  for (unsigned s = 0; s < kSteps; ++s) {
    absl::StrAppend(&code, " ", instruction);
    for (unsigned o = 0; o < 2; ++o) {
      // 32 bytes of each row, or 16 elements of k of 128 bytes each.
      const uint64_t step = (along >> o & 1) != 0 ? 2048 / 16 : 32 / 16;
      absl::StrAppend(&code, ", $", count + descriptors.size());
      descriptors.push_back(b.CreateAdd(operands[o], b.getInt64(s * step)));
    }
    // The sums are added to; factors are not negated, and transposed or not.
    absl::StrAppend(&code, ", p");
    if (!is_s8) absl::StrAppend(&code, ", 1, 1");
    if (k == 16) absl::StrAppend(&code, ", ", along & 1, ", ", along >> 1 & 1);
    absl::StrAppend(&code, ";");
  }
  absl::StrAppend(&code, " wgmma.commit_group.sync.aligned; }");
  return CallWithSums(b, sums, descriptors, code);
}

}  // namespace

llvm::Value* LowerGroupCall(llvm::IRBuilder<>& b, const llvm::CallInst& call) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  if (name == kGroupPublish) {
    auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
    b.CreateCall(llvm::InlineAsm::get(type, "fence.proxy.async.shared::cta;", "~{memory}", /*hasSideEffects=*/true));
    return nullptr;
  }
  if (name.starts_with(kGroupMultiply)) return LowerGroupMultiply(b, call, *ParseGroupProduct(name));
  const uint64_t n = llvm::cast<llvm::ConstantInt>(call.getArgOperand(1))->getZExtValue();
  return CallWithSums(b, call.getArgOperand(0), {}, absl::StrCat("wgmma.wait_group.sync.aligned ", n, ";"));
}

}  // namespace backplane::hip
