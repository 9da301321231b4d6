#include "plugins/tpu_emulator/program/vector_work.h"

#include <algorithm>
#include <cmath>

#include "core/ir/module.h"
#include "plugins/tpu_emulator/program/layouts.h"
#include "plugins/tpu_emulator/program/operation_traits.h"

namespace backplane::tpu {
namespace {

// Returns the number of f32 operations that one f64 operation takes on a machine that holds f64 as a pair of f32. The
// counts are those of the code that the machine's compiler emits. Returns 0 for other element types.
double CountPairOps(const Instruction& i) {
  const Shape& shape = i.Is(Opcode::kCompare) ? i.operand(0)->shape() : i.shape();
  if (!shape.IsArray() || ComplexPart(shape.element_type()) != PrimitiveType::kF64) return 0;
  const bool complex = IsComplex(shape.element_type());
  switch (i.opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
      return complex ? 50 : 25;
    case Opcode::kMultiply:
      return complex ? 132 : 35;
    case Opcode::kDivide:
      return complex ? 300 : 44;
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return 54;
    case Opcode::kCompare:
      return 5;
    default:
      return ComputeVectorCost(i.opcode()) >= 8 ? 340 : 0;  // as the exponential
  }
}

// The vector-unit operations with which `c` combines two elements; at least 1.
double CountCombinerOps(const Computation& c) {
  double count = 0;
  for (const auto& i : c.instructions()) {
    const double pair = CountPairOps(*i);  // a register holds half as many f64 elements
    if (i->info().Has(OpTrait::kElementwise)) count += pair > 0 ? pair / 2 : ComputeVectorCost(i->opcode());
  }
  return std::max(1.0, count);
}

// Whether the operation moves elements from one lane to another.
bool MovesAcrossLanes(const Instruction& i) {
  const Shape& s = i.shape();
  if (!s.has_layout() || s.rank() == 0) return false;
  const int64_t minor = s.layout().minor_to_major[0];
  switch (i.opcode()) {
    case Opcode::kConcatenate:
      return i.dimensions()[0] == minor;
    case Opcode::kSlice:
      return i.slices()[static_cast<size_t>(minor)].start != 0 || i.slices()[static_cast<size_t>(minor)].stride != 1;
    case Opcode::kPad:
      return i.padding()[static_cast<size_t>(minor)].low != 0 || i.padding()[static_cast<size_t>(minor)].interior != 0;
    case Opcode::kDynamicSlice:
      return s.dimensions(minor) != i.operand(0)->shape().dimensions(minor);
    default:
      return false;
  }
}

}  // namespace

int64_t VectorWorkCounter::CountRegisters(const Shape& shape) const {
  if (!shape.IsArray()) return 0;
  const int64_t words = BitWidth(shape.element_type()) > 32 ? 2 : 1;
  return std::max<int64_t>(1, (CountPaddedElements(shape) * words + words_per_register_ - 1) / words_per_register_);
}

void VectorWorkCounter::AddInstruction(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kBroadcast:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kBitcast:
    case Opcode::kBitcastConvert:
    case Opcode::kDot:
    case Opcode::kConvolution:
      return;
    case Opcode::kReduce:
      return AddReduce(i);
    case Opcode::kReduceWindow:
      return Add(VectorOp::kSimple, static_cast<double>(CountRegisters(i.shape())) *
                                        static_cast<double>(i.window().CountElements()) *
                                        CountCombinerOps(*i.called(0)));
    case Opcode::kSelectAndScatter:
      return Add(VectorOp::kSimple, 2 * static_cast<double>(CountRegisters(i.operand(1)->shape())) *
                                        static_cast<double>(i.window().CountElements()));
    case Opcode::kReshape:
      if (KeepsTiles(i.operand(0)->shape(), i.shape())) return;
      return Add(VectorOp::kRelayout, static_cast<double>(CountRegisters(i.shape())));
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kGather:
      return Add(VectorOp::kRelayout, static_cast<double>(CountRegisters(i.shape())));
    case Opcode::kCopy: {
      const Shape& from = i.operand(0)->shape();
      const bool same = !from.has_layout() || !i.shape().has_layout() ||
                        from.layout().minor_to_major == i.shape().layout().minor_to_major;
      return Add(same ? VectorOp::kMove : VectorOp::kRelayout, static_cast<double>(CountRegisters(i.shape())));
    }
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
      return Add(MovesAcrossLanes(i) ? VectorOp::kRelayout : VectorOp::kMove,
                 static_cast<double>(CountRegisters(i.shape())));
    case Opcode::kDynamicUpdateSlice:
      return Add(VectorOp::kMove, static_cast<double>(CountRegisters(i.operand(1)->shape())));
    case Opcode::kScatter:
      return Add(VectorOp::kRelayout,
                 2 * static_cast<double>(CountRegisters(i.operand(i.operand_count() - 1)->shape())));
    case Opcode::kSort:
      return AddSort(i);
    case Opcode::kRng:
    case Opcode::kRngBitGenerator: {
      // Twenty rounds, each of an addition, a rotation and an exclusive or.
      double registers = 0;
      ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
        registers += static_cast<double>(CountRegisters(leaf));
      });
      return Add(VectorOp::kSimple, 60 * registers);
    }
    case Opcode::kCustomCall:
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return;
    default:
      break;
  }
  if (const double pair = CountPairOps(i); pair > 0) {
    const Shape& shape = i.Is(Opcode::kCompare) ? i.operand(0)->shape() : i.shape();
    return Add(VectorOp::kSimple,
               pair * static_cast<double>(CountRegisters(shape)) / 2);  // CountRegisters counts two words for each f64
  }
  if (i.info().Has(OpTrait::kElementwise)) {
    const double cost = ComputeVectorCost(i.opcode());
    VectorOp op = cost >= 8   ? VectorOp::kTranscendental
                  : cost >= 4 ? VectorOp::kDivide
                  : cost >= 2 ? VectorOp::kConvert
                              : VectorOp::kSimple;
    int64_t registers = CountRegisters(i.shape());
    if (i.Is(Opcode::kConvert) && i.operand(0)->shape().IsArray()) {
      const int from = BitWidth(i.operand(0)->shape().element_type()), to = BitWidth(i.shape().element_type());
      if (std::min(from, 32) == std::min(to, 32)) op = VectorOp::kSimple;
    }
    return Add(op, static_cast<double>(registers));
  }
  // Cholesky decompositions, Fourier transforms and the like: the cost that core/ops states for them.
  Instruction::ContextStorage storage;
  const Cost cost = EstimateCost(i.Context(storage), i.shape());
  Add(VectorOp::kSimple, cost.flops / static_cast<double>(words_per_register_));
  Add(VectorOp::kTranscendental, cost.transcendentals / static_cast<double>(words_per_register_));
}

std::vector<VectorWork> VectorWorkCounter::ToWork() const {
  std::vector<VectorWork> work;
  for (size_t op = 0; op < counts_.size(); ++op) {
    if (counts_[op] <= 0) continue;
    const double most = 9e18;
    work.push_back({static_cast<VectorOp>(op), static_cast<int64_t>(std::min(most, std::ceil(counts_[op])))});
  }
  return work;
}

void VectorWorkCounter::AddReduce(const Instruction& i) {
  for (int64_t k = 0; k < i.operand_count() / 2; ++k) {
    const Shape& operand = i.operand(k)->shape();
    const double registers = static_cast<double>(CountRegisters(operand));
    if (k == 0) Add(VectorOp::kSimple, registers * CountCombinerOps(*i.called(0)));
    if (!operand.has_layout() || operand.rank() == 0) continue;
    const int64_t minor = operand.layout().minor_to_major[0];
    if (std::find(i.dimensions().begin(), i.dimensions().end(), minor) == i.dimensions().end()) continue;
    // The registers along the lanes are combined first; then the lanes of the last register are.
    const int64_t along = std::max<int64_t>(1, (operand.dimensions(minor) + lanes_ - 1) / lanes_);
    Add(VectorOp::kCrossLane, registers / static_cast<double>(along));
  }
}

// A sorting network has log n (log n + 1) / 2 steps. Each step is a comparison and two selections for each operand.
void VectorWorkCounter::AddSort(const Instruction& i) {
  const int64_t n = i.operand(0)->shape().dimensions(i.dimensions().empty() ? 0 : i.dimensions()[0]);
  const double log = std::ceil(std::log2(static_cast<double>(std::max<int64_t>(2, n))));
  double registers = 0;
  for (const Instruction* o : i.operands()) registers += static_cast<double>(CountRegisters(o->shape()));
  Add(VectorOp::kSimple, 3 * registers * log * (log + 1) / 2);
}

}  // namespace backplane::tpu
