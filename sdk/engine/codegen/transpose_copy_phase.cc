// TransposeCopyPhase, at the speed of memory: each work item is a call of core/relayout/transpose.h for one tile. Code
// made for the shape would be no faster, and take longer to compile.
#include <cstring>

#include "absl/strings/match.h"
#include "sdk/engine/codegen/phase_frame.h"

namespace backplane::engine::codegen {

using llvm::Value;

namespace {

// The plan as constant data of the module.
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

void EmitPhaseBody(PhaseFrame& f, const TransposeCopyPhase& kind) {
  const PhaseLoops loops = MakeLoops(f.vars, kind.nest);
  const int last = static_cast<int>(loops.groups.size()) - 1;
  const TransposePlan& tiles = kind.tiles;
  AccessWalk walk = f.WalkOutputs(loops);
  walk.Finish();
  const PhaseOutput& output = f.phase.outputs[0];
  const Affine source_address = walk.accesses()[0].address;
  const Affine output_address = StoreAddress(f.vars, output, OutputIndex(f.vars, loops, output));
  llvm::IRBuilder<>& b = f.b;
  llvm::Type* element = b.getIntNTy(static_cast<unsigned>(tiles.width * 8));
  Value* tile = f.AllocateScratch(f.phase.scratch_bytes);
  llvm::Type *number = b.getInt64Ty(), *pointer = tile->getType();
  const llvm::FunctionCallee transpose = f.e.module()->getOrInsertFunction(
      "backplane_transpose_tile",
      llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, number, number, pointer}, false));
  Value* plan = PlanData(tiles, *f.e.module());
  f.ForEachItem([&](Value* item) {
    // Neighbours along the source's lines come one after another: their lines are read on.
    Value* row = b.CreateMul(f.Take(item, tiles.row_tiles()), f.Number(tiles.tile_rows));
    Value* column = b.CreateMul(f.Take(item, tiles.column_tiles()), f.Number(tiles.tile_columns));
    for (int g = last - 1; g >= 0; --g) {
      const std::vector<VarId>& group = loops.groups[static_cast<size_t>(g)];
      if (g != kind.source_group) f.scopes.Bind(group, f.Take(item, f.ComputeExtent(group)));
    }
    f.scopes.Bind(loops.groups[static_cast<size_t>(kind.source_group)], f.Number(0));
    f.scopes.Bind(loops.groups.back(), f.Number(0));
    Value* from = b.CreateGEP(element, f.body.GetArray(kind.array).base, f.indices.Evaluate(source_address));
    Value* to = b.CreateGEP(element, f.GetBuffer(output).base, f.indices.Evaluate(output_address));
    b.CreateCall(transpose, {plan, from, to, row, column, tile});
  });
  // Stores past the caches are ordered with nothing that follows but by a fence.
  if (tiles.non_temporal != 0 && absl::StartsWith(f.host.target.triple, "x86_64"))
    b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

}  // namespace backplane::engine::codegen
