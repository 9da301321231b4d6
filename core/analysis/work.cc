#include "core/analysis/work.h"

#include "core/analysis/trip_count.h"
#include "core/ir/computation.h"

namespace backplane {
namespace {

void Add(const Cost& cost, double times, Cost* total) {
  total->flops += times * cost.flops;
  total->transcendentals += times * cost.transcendentals;
  total->bytes_accessed += times * cost.bytes_accessed;
}

Cost CountBody(const Computation& computation) {
  Cost total;
  for (const auto& i : computation.instructions()) Add(CountWork(*i), 1, &total);
  return total;
}

double CountAccessedBytes(const Instruction& instruction) {
  double bytes = 0;
  const auto add = [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) bytes += static_cast<double>(leaf.byte_size());
  };
  for (const Instruction* operand : instruction.operands()) ForEachLeaf(operand->shape(), add);
  ForEachLeaf(instruction.shape(), add);
  return bytes;
}

}  // namespace

Cost CountWork(const Instruction& instruction) {
  Cost total;
  if (instruction.info().Has(kNoOp)) return total;
  switch (instruction.opcode()) {
    case Opcode::kBitcast:
      return total;
    case Opcode::kFusion:
      total = CountBody(*instruction.called(0));
      total.bytes_accessed = CountAccessedBytes(instruction);
      return total;
    case Opcode::kCall:
      return CountBody(*instruction.called(0));
    case Opcode::kWhile: {
      const double times = static_cast<double>(ComputeTripCount(instruction).value_or(1));
      for (const Computation* c : instruction.called()) Add(CountBody(*c), times, &total);
      return total;
    }
    case Opcode::kConditional:
      for (const Computation* branch : instruction.called()) {
        const Cost cost = CountBody(*branch);
        if (cost.flops + cost.bytes_accessed > total.flops + total.bytes_accessed) total = cost;
      }
      return total;
    default: {
      Instruction::ContextStorage storage;
      return EstimateCost(instruction.Context(storage), instruction.shape());
    }
  }
}

}  // namespace backplane
