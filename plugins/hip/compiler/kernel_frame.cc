#include "plugins/hip/compiler/kernel_frame.h"

#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

llvm::Function* MakeFunction(codegen::ElementEmitter& elements, const KernelPlan& plan, absl::string_view name,
                             size_t arrays) {
  llvm::IRBuilder<>& b = elements.b();
  std::vector<llvm::Type*> types(arrays, llvm::PointerType::get(elements.context(), kGlobalAddressSpace));
  types.insert(types.end(), static_cast<size_t>(plan.numbers), b.getInt64Ty());
  auto* function =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false), llvm::Function::ExternalLinkage,
                             llvm::StringRef(name.data(), name.size()), elements.module());
  function->addFnAttr(kKernelAttribute, absl::StrCat(plan.threads));
  // What is known of the arrays' addresses, so that vectors can be loaded as a whole where a GPU demands alignment.
  const llvm::Align aligned(static_cast<uint64_t>(elements.target().buffer_alignment));
  for (unsigned a = 0; a < arrays; ++a)
    function->addParamAttr(a, llvm::Attribute::getWithAlignment(elements.context(), aligned));
  b.SetInsertPoint(llvm::BasicBlock::Create(elements.context(), "", function));
  return function;
}

constexpr int64_t kUnrolledIterations = 4;  // of a loop over a row

}  // namespace

KernelFrame::KernelFrame(codegen::ElementEmitter& e, const KernelPlan& p, absl::string_view name, size_t arrays)
    : elements(e),
      b(e.b()),
      plan(p),
      scopes((MakeFunction(e, p, name, arrays), e.b()), vars),
      indices(e, scopes),
      memory(e, scopes, indices),
      body(e, scopes, indices, memory),
      name_(name),
      arrays_(arrays),
      function_(b.GetInsertBlock()->getParent()) {
  thread_ = CallNumber(kThread);
  block_ = CallNumber(kBlock);
}

Value* KernelFrame::CallNumber(const char* function) {
  return b.CreateCall(elements.module()->getOrInsertFunction(function, llvm::FunctionType::get(b.getInt32Ty(), false)));
}

void KernelFrame::EmitBarrier() {
  b.CreateCall(elements.module()->getOrInsertFunction(kBarrier, llvm::FunctionType::get(b.getVoidTy(), false)));
}

Value* KernelFrame::AddShared(PrimitiveType type, int64_t count) {
  const int64_t bytes = count * std::max(4, ByteWidth(type));  // narrow floats are kept as f32
  auto* array = llvm::ArrayType::get(b.getInt8Ty(), static_cast<uint64_t>(bytes));
  auto* global =
      new llvm::GlobalVariable(*elements.module(), array, false, llvm::GlobalValue::InternalLinkage,
                               llvm::UndefValue::get(array), absl::StrCat(name_, ".shared", shared_arrays_++), nullptr,
                               llvm::GlobalValue::NotThreadLocal, kSharedAddressSpace);
  global->setAlignment(llvm::Align(16));
  return global;
}

compiler::Affine KernelFrame::AsIndex(Value* number, int64_t extent) {
  const codegen::VarId v = vars.Loop(extent);
  scopes.Bind({&v, 1}, number);
  return compiler::Affine::Var(v);
}

void KernelFrame::Repeat(Value* begin, int64_t count, int64_t step, LoopScopes::Values& carried,
                         const std::function<void(Value*, LoopScopes::Values&)>& body) {
  Value* end = llvm::ConstantInt::get(begin->getType(), static_cast<uint64_t>(count));
  carried.push_back(begin);
  scopes.Repeat(
      carried, [&](LoopScopes::Values& now) { return b.CreateICmpSLT(now.back(), end); },
      [&](LoopScopes::Values& now) -> Value* {
        Value* i = now.back();
        now.pop_back();
        body(i, now);
        now.push_back(b.CreateAdd(i, llvm::ConstantInt::get(i->getType(), static_cast<uint64_t>(step))));
        return nullptr;
      });
  carried.pop_back();
}

void KernelFrame::ForEachInGrid(int64_t count, int lanes, const std::function<void(Value*)>& body) {
  const int64_t each = std::max(1, lanes), step = int64_t{plan.blocks} * plan.threads * each;
  llvm::IntegerType* type = indices.CounterType(count + step);
  Value* first =
      b.CreateAdd(b.CreateMul(b.CreateZExt(block_, type), llvm::ConstantInt::get(type, uint64_t{plan.threads})),
                  b.CreateZExt(thread_, type));
  first = b.CreateMul(first, llvm::ConstantInt::get(type, static_cast<uint64_t>(each)));
  if (count <= step) {
    scopes.If(b.CreateICmpSLT(first, llvm::ConstantInt::get(type, static_cast<uint64_t>(count))), [&] { body(first); });
    return;
  }
  LoopScopes::Values none;
  Repeat(first, count, step, none, [&](Value* i, LoopScopes::Values&) { body(i); });
}

void KernelFrame::ForEachBlock(int64_t count, const std::function<void(Value*)>& body) {
  llvm::IntegerType* type = indices.CounterType(count + plan.blocks);
  Value* first = b.CreateZExt(block_, type);
  if (count <= plan.blocks) return body(first);
  LoopScopes::Values none;
  Repeat(first, count, plan.blocks, none, [&](Value* i, LoopScopes::Values&) { body(i); });
}

void KernelFrame::ForEachInBlock(int64_t count, LoopScopes::Values& carried,
                                 const std::function<void(Value*, LoopScopes::Values&)>& body, uint32_t group) {
  llvm::IntegerType* type = indices.CounterType(count + plan.threads);
  Value* first = b.CreateZExt(group == 1 ? thread_ : b.CreateUDiv(thread_, b.getInt32(group)), type);
  const int64_t step = plan.threads / group;
  if (count % step != 0) return Repeat(first, count, step, carried, body);
  // All threads make the same number of iterations, so the loop can be unrolled. Then several loads are under way at a
  // time.
  llvm::BasicBlock* latch = nullptr;
  Repeat(llvm::ConstantInt::get(type, 0), count, step, carried, [&](Value* i, LoopScopes::Values& now) {
    body(b.CreateAdd(i, first), now);
    latch = b.GetInsertBlock();
  });
  const int64_t iterations = count / step, copies = std::gcd(iterations, kUnrolledIterations);
  if (copies > 1) UnrollLoop(*latch->getTerminator(), copies);
}

void KernelFrame::Finish() { b.CreateRetVoid(); }

}  // namespace backplane::hip
