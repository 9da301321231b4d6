#include "sdk/engine/codegen/loop_kernel.h"

#include <algorithm>

#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "sdk/codegen/target_machine.h"
#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

constexpr int64_t kMaxLocalTemporary = 512;  // bytes of a temporary of a kernel that is a local variable
constexpr int64_t kTail = 64;                // bytes past the end of an array that vector code may read and write

bool IsLocalTemporary(int64_t bytes) { return bytes <= kMaxLocalTemporary; }
int64_t PaddedBytes(int64_t bytes) { return RoundUp(bytes + kTail, int64_t{64}); }

// Whether sums may be fused with products: in kernels of single elements, whose latency the loop waits for. Not in f64:
// a program of the StableHLO repository then differs by more than the three units in the last place that it allows.
bool FusesSums(const FusionPlan& plan) {
  return std::all_of(plan.phases.begin(), plan.phases.end(), [](const Phase& phase) {
    return std::all_of(phase.outputs.begin(), phase.outputs.end(), [](const PhaseOutput& output) {
      const Shape& shape = GetShape(output);
      return shape.num_elements() == 1 && shape.element_type() != PrimitiveType::kF64 &&
             shape.element_type() != PrimitiveType::kC128;
    });
  });
}

class LoopEmitter {
 public:
  LoopEmitter(ElementEmitter& elements, const LoopRequest& request, const jit::HostInfo& host)
      : e_(elements), b_(elements.b()), request_(request), host_(host) {}

  void Emit() {
    llvm::LLVMContext& context = e_.context();
    llvm::Type* pointer = llvm::PointerType::get(context, 0);
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, b_.getInt64Ty(), b_.getInt64Ty(), pointer}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, request_.symbol, e_.module());
    backplane::codegen::SetKernelAttributes(*function_, host_.target);
    backplane::codegen::RequestLocalsInRegisters(*function_);
    scratch_ = function_->getArg(3);
    locals_ = llvm::BasicBlock::Create(context, "", function_);
    llvm::BasicBlock* start = llvm::BasicBlock::Create(context, "", function_);
    b_.SetInsertPoint(start);
    std::vector<Value*> memory;
    uint64_t slot = 0;
    for (const LoopArray& array : request_.arrays) {
      memory.push_back(nullptr);
      if (array.HasMemory()) {
        Value* at = b_.CreateConstGEP1_64(pointer, function_->getArg(0), slot++);
        memory.back() = b_.CreateAlignedLoad(pointer, at, llvm::Align(8));
      }
      arrays_.push_back(array.is_local ? MakeLocal(array.bytes) : memory.back());
      if (array.is_local && array.enters) EmitCopy(arrays_.back(), memory.back(), array.bytes, array.type);
    }
    EmitStep(request_.loop);
    for (size_t k = 0; k < request_.arrays.size(); ++k) {
      const LoopArray& array = request_.arrays[k];
      if (array.is_local && array.leaves) EmitCopy(memory[k], arrays_[k], array.bytes, array.type);
    }
    b_.CreateRetVoid();
    llvm::IRBuilder<>(locals_).CreateBr(start);
  }

 private:
  // All local variables are made when the function starts: those of a loop would grow the stack in each iteration.
  Value* MakeLocal(int64_t bytes) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), static_cast<uint64_t>(PaddedBytes(bytes)));
    llvm::AllocaInst* memory = llvm::IRBuilder<>(locals_).CreateAlloca(type);
    memory->setAlignment(llvm::Align(64));
    return memory;
  }

  Value* ArrayAt(int number) { return arrays_[static_cast<size_t>(number)]; }
  llvm::BasicBlock* MakeBlock() { return llvm::BasicBlock::Create(e_.context(), "", function_); }

  void EmitSteps(absl::Span<const LoopStep> steps) {
    for (const LoopStep& step : steps) EmitStep(step);
  }

  void EmitStep(const LoopStep& step) {
    switch (step.kind) {
      case LoopStep::Kind::kKernel:
        return EmitKernel(step);
      case LoopStep::Kind::kCopy:
        return EmitCopy(ArrayAt(step.arrays[1]), ArrayAt(step.arrays[0]), step.bytes,
                        request_.arrays[static_cast<size_t>(step.arrays[1])].type);
      case LoopStep::Kind::kLoop:
        return step.trip_count ? EmitCountedLoop(step) : EmitLoop(step);
      case LoopStep::Kind::kBranch:
        return EmitBranch(step);
    }
  }

  void EmitKernel(const LoopStep& step) {
    std::vector<Value*> buffers;
    for (int a : step.arrays) buffers.push_back(ArrayAt(a));
    int64_t used = 0;
    for (int64_t bytes : step.fusion->temp_bytes) {
      if (IsLocalTemporary(bytes)) {
        buffers.push_back(MakeLocal(bytes));
        continue;
      }
      buffers.push_back(b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch_, static_cast<uint64_t>(used)));
      used += PaddedBytes(bytes);
    }
    Value* scratch = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch_, static_cast<uint64_t>(used));
    std::optional<ElementEmitter::FusedSums> fused;
    if (FusesSums(*step.fusion)) fused.emplace(e_);
    for (const Phase& phase : step.fusion->phases) {
      if (phase.work_items > 0) EmitPhaseInline(e_, *step.fusion, phase, host_, buffers, scratch);
    }
  }

  void EmitCopy(Value* to, Value* from, int64_t bytes, PrimitiveType element) {
    if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) {
      // A scalar is loaded as what it is: a number that is copied as another type would change its kind of register.
      const bool is_scalar = IsArrayType(element) && !IsComplex(element) && ByteWidth(element) == bytes;
      llvm::Type* type = is_scalar ? e_.StorageType(element) : b_.getIntNTy(static_cast<unsigned>(bytes) * 8);
      b_.CreateAlignedStore(b_.CreateAlignedLoad(type, from, llvm::Align(1)), to, llvm::Align(1));
      return;
    }
    b_.CreateMemCpy(to, llvm::Align(1), from, llvm::Align(1), static_cast<uint64_t>(bytes));
  }

  void EmitCountedLoop(const LoopStep& step) {
    if (*step.trip_count <= 0) return;
    llvm::BasicBlock *before = b_.GetInsertBlock(), *body = MakeBlock(), *after = MakeBlock();
    b_.CreateBr(body);
    b_.SetInsertPoint(body);
    llvm::PHINode* count = b_.CreatePHI(b_.getInt64Ty(), 2);
    EmitSteps(step.sequences[1]);
    Value* next = b_.CreateAdd(count, b_.getInt64(1), "", true, true);
    count->addIncoming(b_.getInt64(0), before);
    count->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(static_cast<uint64_t>(*step.trip_count))), body, after);
    b_.SetInsertPoint(after);
  }

  void EmitLoop(const LoopStep& step) {
    llvm::BasicBlock *condition = MakeBlock(), *body = MakeBlock(), *after = MakeBlock();
    b_.CreateBr(condition);
    b_.SetInsertPoint(condition);
    EmitSteps(step.sequences[0]);
    b_.CreateCondBr(LoadPredicate(step.selector), body, after);
    b_.SetInsertPoint(body);
    EmitSteps(step.sequences[1]);
    b_.CreateBr(condition);
    b_.SetInsertPoint(after);
  }

  void EmitBranch(const LoopStep& step) {
    const size_t count = step.sequences.size();
    llvm::BasicBlock* after = MakeBlock();
    std::vector<llvm::BasicBlock*> blocks;
    for (size_t k = 0; k < count; ++k) blocks.push_back(MakeBlock());
    if (step.selects_by_predicate) {
      b_.CreateCondBr(LoadPredicate(step.selector), blocks[0], blocks[1]);
    } else {
      Value* number = b_.CreateAlignedLoad(b_.getInt32Ty(), ArrayAt(step.selector), llvm::Align(1));
      llvm::SwitchInst* choice = b_.CreateSwitch(number, blocks.back(), static_cast<unsigned>(count));
      for (size_t k = 0; k + 1 < count; ++k) choice->addCase(b_.getInt32(static_cast<uint32_t>(k)), blocks[k]);
    }
    for (size_t k = 0; k < count; ++k) {
      b_.SetInsertPoint(blocks[k]);
      EmitSteps(step.sequences[k]);
      b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
  }

  Value* LoadPredicate(int array) {
    Value* byte = b_.CreateAlignedLoad(b_.getInt8Ty(), ArrayAt(array), llvm::Align(1));
    return b_.CreateICmpNE(byte, b_.getInt8(0));
  }

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  const LoopRequest& request_;
  const jit::HostInfo& host_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* locals_ = nullptr;  // the first block
  Value* scratch_ = nullptr;
  std::vector<Value*> arrays_;
};

const FusionPlan* FirstFusion(const LoopStep& step) {
  if (step.fusion != nullptr) return step.fusion.get();
  for (const std::vector<LoopStep>& sequence : step.sequences) {
    for (const LoopStep& inner : sequence) {
      if (const FusionPlan* found = FirstFusion(inner)) return found;
    }
  }
  return nullptr;
}

}  // namespace

int64_t ScratchBytes(const LoopStep& step) {
  int64_t most = 0;
  if (step.kind == LoopStep::Kind::kKernel) {
    int64_t temporaries = 0;
    for (int64_t bytes : step.fusion->temp_bytes) {
      if (!IsLocalTemporary(bytes)) temporaries += PaddedBytes(bytes);
    }
    for (const Phase& phase : step.fusion->phases) most = std::max(most, phase.scratch_bytes);
    return temporaries + most;
  }
  for (const std::vector<LoopStep>& sequence : step.sequences) {
    for (const LoopStep& inner : sequence) most = std::max(most, ScratchBytes(inner));
  }
  return most;
}

int64_t CountInstructions(const LoopStep& step) {
  int64_t count = step.fusion != nullptr ? step.fusion->computation->instruction_count() : 0;
  for (const std::vector<LoopStep>& sequence : step.sequences) {
    for (const LoopStep& inner : sequence) count += CountInstructions(inner);
  }
  return count;
}

absl::Status EmitLoopKernels(absl::Span<const LoopRequest> requests, llvm::Module& module) {
  for (const LoopRequest& request : requests) {
    const FusionPlan* plan = FirstFusion(request.loop);
    const jit::HostInfo& host = plan != nullptr ? *plan->host : jit::Host();
    ElementEmitter elements(&module, &host.target);
    LoopEmitter(elements, request, host).Emit();
    RETURN_IF_ERROR(elements.status());
  }
  return absl::OkStatus();
}

}  // namespace backplane::engine::codegen
