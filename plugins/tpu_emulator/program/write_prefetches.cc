#include "plugins/tpu_emulator/program/write_prefetches.h"

#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kSemaphores = 2;  // what texts of layouts call the memory of semaphores: S(2)

int64_t MemorySpace(Space space) { return space == Space::kVmem ? 1 : space == Space::kCmem ? 3 : 0; }

}  // namespace

void WritePrefetches(Module* kernels, absl::Span<const PrefetchedOperand> prefetches) {
  // Every instruction's place, and the one after it.
  struct Place {
    Instruction* self = nullptr;
    Instruction* next = nullptr;
    int64_t number = 0;
  };
  absl::flat_hash_map<const Instruction*, Place> places;
  for (Computation* c : RunningComputations(kernels)) {
    Instruction* last = nullptr;
    for (const auto& i : c->instructions()) {
      if (last != nullptr) places[last].next = i.get();
      last = i.get();
      places[last] = {last, nullptr, static_cast<int64_t>(places.size())};
    }
  }
  for (const PrefetchedOperand& p : prefetches) {
    Instruction *kernel = places.at(p.kernel).self, *begin = places.at(p.start).self;
    Instruction* operand = kernel->operand(p.operand);
    // What names the operand (an element of a loop's state) may stand later than the copy begins.
    const Place& named = places.at(operand);
    if (named.number >= places.at(begin).number) begin = named.next;
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
}

}  // namespace backplane::tpu
