#include "plugins/tpu_emulator/program/write_prefetches.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kSemaphores = 2;  // the memory space of semaphores in the text of layouts, S(2)

}  // namespace

void WritePrefetches(Module* kernels, absl::Span<const PrefetchedOperand> prefetches) {
  if (prefetches.empty()) return;
  const std::vector<Computation*> computations = CollectControlFlowComputations(kernels);
  absl::flat_hash_map<const Instruction*, Instruction*> instructions;
  for (Computation* c : computations) {
    for (const auto& i : c->instructions()) instructions[i.get()] = i.get();
  }
  for (const PrefetchedOperand& p : prefetches) {
    Instruction *kernel = instructions.at(p.kernel), *begin = instructions.at(p.start);
    Instruction* operand = kernel->operand(p.operand);
    Shape copied = operand->shape();
    copied.mutable_layout().memory_space = MemorySpace(p.space);
    Shape semaphore(PrimitiveType::kU32, {});
    Layout layout;
    layout.memory_space = kSemaphores;
    semaphore.set_layout(layout);

    InstructionSpec start;
    start.opcode = Opcode::kCopyStart;
    start.shape = Shape::Tuple({copied, operand->shape(), semaphore});
    start.operands = {operand};
    start.metadata = kernel->metadata();
    Instruction* started = kernel->parent()->AddBefore(begin, std::move(start));
    InstructionSpec done;
    done.opcode = Opcode::kCopyDone;
    done.shape = copied;
    done.operands = {started};
    done.metadata = kernel->metadata();
    kernel->ReplaceOperand(p.operand, kernel->parent()->AddBefore(kernel, std::move(done)));
    if (kernel->Is(Opcode::kFusion)) kernel->called(0)->parameter(p.operand)->mutable_shape() = copied;
  }
  // The instruction that names the operand (a parameter or an element of a loop's state) may follow the copy-start now.
  for (Computation* c : computations) c->SortTopologically();
}

}  // namespace backplane::tpu
