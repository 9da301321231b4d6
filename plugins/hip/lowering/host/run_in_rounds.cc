// Threads that wait for each other, as coroutines (llvm.coro.*, switched resume). A thread runs until it waits or ends
// and leaves its state, the place where it waits, in the block's memory:
//
//   round     u32         counts up each time that a group of 32 threads is run
//   values    u32[2][32]  what the threads of a group exchange by shuffles
//   states    u32[threads]
//   factors               what they exchange for gpu.multiply and gpu.load: kFactorBytes for each of 2 x 32
//   frames                of the coroutines, at distances that are known when they have been split
//
// A group is run until its threads wait at a barrier or have ended. In between they wait at shuffles: each has written
// its value when it suspends and reads another's when it goes on. Two arrays of values alternate, so that a
// thread that is ahead by one shuffle does not overwrite what others still read. Then the next group is run, and when
// all groups wait at the barrier, the first one goes on. A gpu.multiply is a shuffle of the words of both matrices.
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/host/multiply.h"
#include "plugins/hip/lowering/host/run_function.h"
#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {
namespace {

constexpr uint64_t kRoundAt = 0, kValuesAt = 64, kStatesAt = kValuesAt + 2 * 32 * 4;
constexpr uint64_t kFrameAlignment = 64;
constexpr uint32_t kGroup = 32;  // threads
// States. Places where threads wait are numbered from 1 on.
constexpr uint32_t kEnded = 0, kAtShuffle = 1u << 31;

// The memory of a block, from within its function or its threads.
struct BlockMemory {
  llvm::IRBuilder<>& b;
  llvm::Value* base;

  llvm::Value* At(uint64_t bytes) { return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, bytes); }
  llvm::Value* Round() { return At(kRoundAt); }
  llvm::Value* State(llvm::Value* thread) {
    return b.CreateInBoundsGEP(b.getInt32Ty(), At(kStatesAt), b.CreateZExt(thread, b.getInt64Ty()));
  }
  llvm::Value* Value(llvm::Value* round, llvm::Value* lane) {
    llvm::Value* first = b.CreateShl(b.CreateAnd(round, 1), 5);
    llvm::Value* index = b.CreateOr(first, b.CreateAnd(lane, kGroup - 1));
    return b.CreateInBoundsGEP(b.getInt32Ty(), At(kValuesAt), b.CreateZExt(index, b.getInt64Ty()));
  }
  // Of the first thread of the group.
  llvm::Value* Factors(llvm::Value* round, const WaitingThreads& threads) {
    llvm::Value* which = b.CreateMul(b.CreateAnd(round, 1), b.getInt32(kGroup * kFactorBytes));
    return b.CreateInBoundsGEP(b.getInt8Ty(), At(threads.factors), b.CreateZExt(which, b.getInt64Ty()));
  }
  llvm::Value* Frame(llvm::Value* thread, const WaitingThreads& threads) {
    llvm::Value* stride = b.CreateLoad(b.getInt64Ty(), threads.frame_stride);
    return b.CreateInBoundsGEP(b.getInt8Ty(), At(threads.first_frame),
                               b.CreateMul(b.CreateZExt(thread, b.getInt64Ty()), stride));
  }
};

// Turns a body into a coroutine.
class CoroutineMaker {
 public:
  CoroutineMaker(const HostBody& body, const WaitingThreads& threads)
      : body_(*body.function),
        context_(body_.getContext()),
        b_(context_),
        thread_(GetParameter(body, kThreadParameter)),
        memory_{b_, GetParameter(body, kFrameParameter)},
        threads_(threads) {}

  void Run() {
    std::vector<llvm::Instruction*> waits, returns;
    for (llvm::Instruction& i : llvm::instructions(body_)) {
      if (llvm::isa<llvm::ReturnInst>(i)) returns.push_back(&i);
      if (FindCalledGpuFunction(i) != nullptr) waits.push_back(&i);
    }
    // Other threads write between two instructions of this one.
    for (llvm::Argument& argument : body_.args()) argument.removeAttr(llvm::Attribute::NoAlias);
    body_.setPresplitCoroutine();
    EmitBegin();
    EmitEnd();
    for (llvm::Instruction* i : waits) ReplaceWait(*llvm::cast<llvm::CallInst>(i));
    for (llvm::Instruction* i : returns) {
      b_.SetInsertPoint(i);
      b_.CreateStore(b_.getInt32(kEnded), memory_.State(thread_));
      b_.CreateBr(end_);
      i->eraseFromParent();
    }
  }

 private:
  void EmitBegin() {
    b_.SetInsertPoint(&*body_.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    llvm::Value* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
    llvm::Value* id =
        b_.CreateIntrinsic(llvm::Intrinsic::coro_id, {}, {b_.getInt32(kFrameAlignment), null, null, null});
    b_.CreateStore(b_.CreateIntrinsic(llvm::Intrinsic::coro_size, {b_.getInt64Ty()}, {}), threads_.frame_bytes);
    handle_ = b_.CreateIntrinsic(llvm::Intrinsic::coro_begin, {}, {id, memory_.Frame(thread_, threads_)});
  }

  void EmitEnd() {
    end_ = llvm::BasicBlock::Create(context_, "coroutine.end", &body_);
    b_.SetInsertPoint(end_);
    b_.CreateIntrinsic(llvm::Intrinsic::coro_end, {}, {handle_, b_.getFalse(), llvm::ConstantTokenNone::get(context_)});
    b_.CreateRetVoid();
  }

  void ReplaceWait(llvm::CallInst& call) {
    const llvm::StringRef name = FindCalledGpuFunction(call)->getName();
    b_.SetInsertPoint(&call);
    const uint32_t place = ++waits_;
    if (name == kBarrier) {
      Suspend(call, place);
    } else if (IsMultiply(name)) {
      ReplaceMultiply(call, place | kAtShuffle);
    } else if (name == kLoadTransposed) {
      ReplaceLoad(call, place | kAtShuffle);
    } else {
      llvm::Value* round = b_.CreateLoad(b_.getInt32Ty(), memory_.Round());
      b_.CreateStore(call.getArgOperand(0), memory_.Value(round, thread_));
      Suspend(call, place | kAtShuffle);
      llvm::Value* lane = call.getArgOperand(1);
      if (name == kShuffleXor) lane = b_.CreateXor(thread_, lane);
      llvm::Value* before = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), memory_.Round()), b_.getInt32(1));
      call.replaceAllUsesWith(b_.CreateLoad(b_.getInt32Ty(), memory_.Value(before, lane)));
    }
    call.eraseFromParent();
  }

  // The memory with what the thread stores for its group; it stays until the suspension after the next.
  llvm::Value* FactorsOf(llvm::Value* factors, llvm::Value* lane) {
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), factors,
                                b_.CreateMul(b_.CreateZExt(lane, b_.getInt64Ty()), b_.getInt64(kFactorBytes)));
  }
  llvm::Value* OwnFactors() {
    return FactorsOf(memory_.Factors(b_.CreateLoad(b_.getInt32Ty(), memory_.Round()), threads_),
                     b_.CreateAnd(thread_, kGroup - 1));
  }

  // The threads exchange addresses.
  void ReplaceLoad(llvm::CallInst& call, uint32_t state) {
    b_.CreateStore(call.getArgOperand(0), OwnFactors());
    Suspend(call, state);
    llvm::Value* before = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), memory_.Round()), b_.getInt32(1));
    llvm::Value *factors = memory_.Factors(before, threads_), *lane = b_.CreateAnd(thread_, kGroup - 1);
    llvm::Value* row = b_.CreateShl(b_.CreateAnd(lane, 3), 1);
    llvm::Value* column = b_.CreateZExt(b_.CreateLShr(lane, 2), b_.getInt64Ty());
    llvm::Value* halves = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt16Ty(), 8));
    for (unsigned h = 0; h < 8; ++h) {  // of matrix h / 2
      llvm::Value* owner = b_.CreateAdd(row, b_.getInt32(h / 2 * 8 + h % 2));
      llvm::Value* address = b_.CreateLoad(b_.getPtrTy(), FactorsOf(factors, owner));
      llvm::Value* half = b_.CreateLoad(b_.getInt16Ty(), b_.CreateInBoundsGEP(b_.getInt16Ty(), address, column));
      halves = b_.CreateInsertElement(halves, half, h);
    }
    call.replaceAllUsesWith(b_.CreateBitCast(halves, call.getType()));
  }

  void ReplaceMultiply(llvm::CallInst& call, uint32_t state) {
    llvm::Value* mine = OwnFactors();
    llvm::Value *left = call.getArgOperand(0), *right = call.getArgOperand(1), *sums = call.getArgOperand(2);
    const uint64_t left_bytes = body_.getDataLayout().getTypeStoreSize(left->getType());
    b_.CreateAlignedStore(left, mine, llvm::Align(8));
    b_.CreateAlignedStore(right, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), mine, left_bytes), llvm::Align(8));
    llvm::Function* multiply = DefineMultiply(*body_.getParent(), call.getCalledFunction()->getName());
    Suspend(call, state);
    llvm::Value* before = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), memory_.Round()), b_.getInt32(1));
    llvm::Value* lane = b_.CreateAnd(thread_, kGroup - 1);
    call.replaceAllUsesWith(b_.CreateCall(multiply, {memory_.Factors(before, threads_), lane, sums}));
  }

  // Splits the block before `at`. The builder goes on there.
  void Suspend(llvm::Instruction& at, uint32_t state) {
    b_.CreateStore(b_.getInt32(state), memory_.State(thread_));
    llvm::Value* what =
        b_.CreateIntrinsic(llvm::Intrinsic::coro_suspend, {}, {llvm::ConstantTokenNone::get(context_), b_.getFalse()});
    llvm::BasicBlock* before = at.getParent();
    llvm::BasicBlock* after = before->splitBasicBlock(at.getIterator(), "resumed");
    before->getTerminator()->eraseFromParent();
    b_.SetInsertPoint(before);
    llvm::SwitchInst* paths = b_.CreateSwitch(what, end_, 2);  // by default: suspended
    paths->addCase(b_.getInt8(0), after);                      // resumed
    paths->addCase(b_.getInt8(1), end_);                       // destroyed, which nobody does
    b_.SetInsertPoint(&at);
  }

  llvm::Function& body_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  llvm::Value* thread_;
  BlockMemory memory_;
  const WaitingThreads& threads_;
  llvm::Value* handle_ = nullptr;
  llvm::BasicBlock* end_ = nullptr;
  uint32_t waits_ = 0;
};

// The function that runs the coroutines of a block.
class RoundsEmitter {
 public:
  RoundsEmitter(RunFunction& run, const HostBody& body, const WaitingThreads& threads)
      : run_(run), b_(run.b), body_(body), threads_(threads), memory_{run.b, run.frames} {}

  void Emit() {
    const uint32_t threads = static_cast<uint32_t>(threads_.threads);
    llvm::Value* zero = b_.getInt32(0);
    b_.CreateStore(zero, memory_.Round());
    llvm::BasicBlock* entry = b_.GetInsertBlock();
    llvm::BasicBlock *phase = Block("phase"), *group = Block("group"), *round = Block("round"), *each = Block("thread"),
                     *start = Block("start"), *resume = Block("resume"), *check = Block("check"),
                     *next = Block("next.thread"), *waiting = Block("waiting"), *group_end = Block("group.end"),
                     *next_group = Block("next.group"), *phase_end = Block("phase.end"), *done = Block("done"),
                     *disagree = Block("disagree");
    b_.CreateBr(phase);

    b_.SetInsertPoint(phase);
    llvm::PHINode* is_first_phase = Phi(b_.getInt1Ty(), b_.getTrue(), entry);
    is_first_phase->addIncoming(b_.getFalse(), phase_end);
    b_.CreateBr(group);

    b_.SetInsertPoint(group);
    llvm::PHINode* first = Phi(b_.getInt32Ty(), zero, phase);  // thread of the group
    llvm::PHINode* block_state = Phi(b_.getInt32Ty(), zero, phase);
    llvm::Value* last =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateAdd(first, b_.getInt32(kGroup)), b_.getInt32(threads));
    b_.CreateBr(round);

    b_.SetInsertPoint(round);
    llvm::PHINode* is_start = Phi(b_.getInt1Ty(), is_first_phase, group);
    is_start->addIncoming(b_.getFalse(), waiting);
    b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), memory_.Round()), b_.getInt32(1)), memory_.Round());
    b_.CreateBr(each);

    b_.SetInsertPoint(each);
    llvm::PHINode* thread = Phi(b_.getInt32Ty(), first, round);
    llvm::PHINode* group_state = Phi(b_.getInt32Ty(), zero, round);
    b_.CreateCondBr(is_start, start, resume);
    b_.SetInsertPoint(start);
    run_.CallBody(body_, thread);
    b_.CreateBr(check);
    b_.SetInsertPoint(resume);
    b_.CreateIntrinsic(llvm::Intrinsic::coro_resume, {}, {memory_.Frame(thread, threads_)});
    b_.CreateBr(check);

    b_.SetInsertPoint(check);
    llvm::Value* state = b_.CreateLoad(b_.getInt32Ty(), memory_.State(thread));
    llvm::Value* agrees = b_.CreateOr(b_.CreateICmpEQ(thread, first), b_.CreateICmpEQ(state, group_state));
    b_.CreateCondBr(agrees, next, disagree);
    b_.SetInsertPoint(next);
    llvm::Value* next_thread = b_.CreateNUWAdd(thread, b_.getInt32(1));
    thread->addIncoming(next_thread, next);
    group_state->addIncoming(state, next);
    // Unrolling this loop, or the one of groups below, would copy calls.
    KeepLoopRolled(*b_.CreateCondBr(b_.CreateICmpULT(next_thread, last), each, waiting));

    b_.SetInsertPoint(waiting);
    b_.CreateCondBr(b_.CreateICmpUGE(state, b_.getInt32(kAtShuffle)), round, group_end);
    b_.SetInsertPoint(group_end);
    agrees = b_.CreateOr(b_.CreateICmpEQ(first, zero), b_.CreateICmpEQ(state, block_state));
    b_.CreateCondBr(agrees, next_group, disagree);
    b_.SetInsertPoint(next_group);
    first->addIncoming(last, next_group);
    block_state->addIncoming(state, next_group);
    KeepLoopRolled(*b_.CreateCondBr(b_.CreateICmpULT(last, b_.getInt32(threads)), group, phase_end));

    b_.SetInsertPoint(phase_end);
    b_.CreateCondBr(b_.CreateICmpEQ(state, b_.getInt32(kEnded)), done, phase);
    b_.SetInsertPoint(done);
    b_.CreateRet(zero);
    b_.SetInsertPoint(disagree);
    b_.CreateRet(b_.getInt32(1));
  }

 private:
  llvm::BasicBlock* Block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, run_.function); }
  llvm::PHINode* Phi(llvm::Type* type, llvm::Value* value, llvm::BasicBlock* from) {
    llvm::PHINode* phi = b_.CreatePHI(type, 2);
    phi->addIncoming(value, from);
    return phi;
  }

  RunFunction& run_;
  llvm::IRBuilder<>& b_;
  const HostBody& body_;
  const WaitingThreads& threads_;
  BlockMemory memory_;
};

llvm::GlobalVariable* DeclareSize(llvm::Module& module, const llvm::Twine& name) {
  return new llvm::GlobalVariable(module, llvm::Type::getInt64Ty(module.getContext()), /*isConstant=*/false,
                                  llvm::GlobalValue::ExternalLinkage, nullptr, name);
}

}  // namespace

WaitingThreads RunInRounds(RunFunction& run, const Kernel& kernel, const HostBody& body) {
  llvm::Module& module = *run.function->getParent();
  WaitingThreads threads;
  threads.coroutine = body.function;
  threads.frame_bytes = DeclareSize(module, body.function->getName() + ".frame.bytes");
  threads.frame_stride = DeclareSize(module, body.function->getName() + ".frame.stride");
  threads.threads = kernel.threads;
  threads.factors =
      llvm::alignTo(kStatesAt + sizeof(uint32_t) * static_cast<uint64_t>(kernel.threads), kFrameAlignment);
  threads.first_frame = threads.factors + (kernel.has_group ? 2 * kGroup * kFactorBytes : 0);
  CoroutineMaker(body, threads).Run();
  RoundsEmitter(run, body, threads).Emit();
  return threads;
}

uint64_t SetFrameSizes(const WaitingThreads& threads) {
  uint64_t bytes = 0;
  for (llvm::User* user : llvm::make_early_inc_range(threads.frame_bytes->users())) {
    auto* store = llvm::cast<llvm::StoreInst>(user);
    bytes = llvm::cast<llvm::ConstantInt>(store->getValueOperand())->getZExtValue();
    store->eraseFromParent();
  }
  const uint64_t stride = llvm::alignTo(bytes, kFrameAlignment);
  for (llvm::User* user : llvm::make_early_inc_range(threads.frame_stride->users())) {
    auto* load = llvm::cast<llvm::LoadInst>(user);
    load->replaceAllUsesWith(llvm::ConstantInt::get(load->getType(), stride));
    load->eraseFromParent();
  }
  threads.frame_bytes->eraseFromParent();
  threads.frame_stride->eraseFromParent();
  return threads.first_frame + stride * static_cast<uint64_t>(threads.threads);
}

}  // namespace backplane::hip
