// A transpose and nothing else, at the speed of memory: each unit is a call of core/relayout/transpose.h for one tile.
// Code made for the shape would be no faster, and take longer to compile.
#include <cstring>

#include "absl/strings/match.h"
#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

// The plan as constant data of the module: as many numbers, one after another.
llvm::GlobalVariable* PlanData(const TransposePlan& plan, llvm::Module& module) {
  uint64_t numbers[sizeof(TransposePlan) / sizeof(uint64_t)];
  static_assert(sizeof(numbers) == sizeof(plan) && alignof(TransposePlan) == alignof(uint64_t));
  std::memcpy(numbers, &plan, sizeof(plan));
  llvm::Constant* data = llvm::ConstantDataArray::get(module.getContext(), numbers);
  auto* global = new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  global->setAlignment(llvm::Align(alignof(TransposePlan)));
  return global;
}

}  // namespace

void PhaseEmitter::TransposeStaged() {
  const int last = static_cast<int>(phase_.groups.size()) - 1, across = phase_.transposed_group;
  const TransposePlan& turn = phase_.turn;
  const Instruction* array = phase_.transposed[0];
  AccessWalk::ArraySet arrays;
  for (const Materialized& m : phase_.reads) arrays.insert(m.instruction);
  AccessWalk walk(vars_, arrays);
  const Target& target = phase_.targets[0];
  const Index index = TargetIndex(vars_, phase_, loops_, target);
  walk.Visit(target.instruction, index);
  walk.Finish();
  const Affine source_address = walk.accesses()[0].address, target_address = StoreAddress(vars_, target, index);
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(turn.width * 8));
  llvm::Type *number = b_.getInt64Ty(), *pointer = scratch_->getType();
  const llvm::FunctionCallee run = e_.module()->getOrInsertFunction(
      "backplane_transpose_tile",
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, number, number, pointer}, false));
  Value* plan = PlanData(turn, *e_.module());
  Value* tile = ScratchAt(phase_.scratch_bytes);
  Units([&](Value* unit) {
    // Neighbours along the source's lines come one after another: their lines are read on.
    Value* row = b_.CreateMul(Take(unit, turn.row_tiles()), b_.getInt64(turn.tile_rows));
    Value* column = b_.CreateMul(Take(unit, turn.column_tiles()), b_.getInt64(turn.tile_columns));
    for (int g = last - 1; g >= 0; --g) {
      if (g != across) body_.Count(loops_.groups[g], Take(unit, ExtentOf(g)));
    }
    body_.Count(loops_.groups[across], b_.getInt64(0));
    body_.Count(loops_.groups[last], b_.getInt64(0));
    Value* from = b_.CreateGEP(element, body_.ArrayBase(array), body_.IndexValue(source_address));
    Value* to = b_.CreateGEP(element, buffers_[target.buffer], body_.IndexValue(target_address));
    b_.CreateCall(run, {plan, from, to, row, column, tile});
  });
  // Stores past the caches are ordered with nothing that follows but by a fence.
  if (turn.non_temporal != 0 && absl::StartsWith(host_.target.triple, "x86_64"))
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

}  // namespace backplane::engine::codegen
