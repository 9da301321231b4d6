#include "sdk/engine/codegen/classify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/analysis/trip_count.h"
#include "sdk/codegen/body/combiner.h"
#include "sdk/compiler/index_map.h"
#include "sdk/engine/codegen/kernel.h"

namespace backplane::engine::codegen {

using backplane::codegen::AnalyzeCombiner;
using backplane::codegen::CanEvaluate;
using backplane::codegen::CheckArrays;
using backplane::codegen::Combiner;
using backplane::codegen::MayReorder;
using compiler::FirstShape;
using compiler::MovesElements;
using compiler::SortedDims;

namespace {

// Of an elementwise operation. Functions that are not named here cost as much as the slowest ones.
double UnaryCost(Opcode op) {
  switch (op) {
    case Opcode::kExp:
    case Opcode::kExpm1:
      return 1.2;
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kTanh:
    case Opcode::kLogistic:
    case Opcode::kErf:
      return 2;
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kTan:
      return 2.5;
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return 1;
    default:
      return Info(op).Has(kTranscendental) ? 4 : 0.1;
  }
}

}  // namespace

absl::Status CanEmit(const Instruction& op) {
  switch (op.opcode()) {
    case Opcode::kScatter:
    case Opcode::kSelectAndScatter:
      if (absl::Status s = CheckArrays(op); !s.ok()) return s;
      for (const Computation* c : op.called()) {
        if (absl::Status s = CanCall(*c); !s.ok()) return s;
      }
      return absl::OkStatus();
    default:
      return CanEvaluate(op);
  }
}

Verdict Classify(const Instruction& op) {
  if (absl::Status s = CanEmit(op); !s.ok()) return {FusionRole::kNotFusible, std::string(s.message())};
  switch (op.opcode()) {
    case Opcode::kReduce: {
      Combiner c = AnalyzeCombiner(*op.called(0));
      return {FusionRole::kReduction,
              MayReorder(op, c) ? "" : "the order of combination matters: no vectors along the reduced dimensions"};
    }
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kScatter:
      return {FusionRole::kUpdate, ""};
    case Opcode::kConcatenate:
      if (op.operand_count() > 8) return {FusionRole::kAlone, "many parts: each is copied by itself"};
      return {FusionRole::kIndexing, ""};
    case Opcode::kIota:
      return {FusionRole::kIndexing, ""};
    case Opcode::kWhile:
    case Opcode::kConditional:
      return {FusionRole::kNotFusible, ""};  // a kernel of its own, made by compiler::OutlineScalarControl
    default:
      if (op.info().Has(kReducesWindows)) return {FusionRole::kWindow, ""};
      return {MovesElements(op) ? FusionRole::kIndexing : FusionRole::kElementwise, ""};
  }
}

bool IsRowReduction(const Instruction& op) {
  if (!op.Is(Opcode::kReduce)) return false;
  int64_t rank = op.operand(0)->shape().rank();
  std::vector<int64_t> dims = SortedDims(op);
  if (dims.empty() || static_cast<int64_t>(dims.size()) == rank) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != rank - static_cast<int64_t>(dims.size() - i)) return false;
  }
  return true;
}

double CostPerElement(const Instruction& op) {
  PrimitiveType t = FirstShape(op).element_type();
  if (!IsArrayType(t)) return 0;
  double width = std::max(ByteWidth(t), 2) / 4.0;
  switch (op.opcode()) {
    case Opcode::kParameter:
      return 0.2 * width;
    case Opcode::kConstant:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kBroadcast:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kCopy:
      return 0;
    case Opcode::kIota:
      return 0.1 * width;
    case Opcode::kDivide:
    case Opcode::kRemainder:
      return (IsFloat(t) ? 0.7 : 2.5) * width;
    case Opcode::kPower:
      return 5 * width;
    case Opcode::kAtan2:
      return 4 * width;
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDynamicUpdateSlice:
      return 0.5 * width;
    case Opcode::kTranspose:
      return 0.5 * width;
    case Opcode::kGather:
      return 1.5 * width;
    case Opcode::kReduce:
    case Opcode::kMap:
      return 0.15 * width * std::max<int64_t>(1, op.called(0)->instruction_count() - 2);
    case Opcode::kReduceWindow:
      return static_cast<double>(op.window().CountElements()) * 0.5 * width;
    case Opcode::kSelectAndScatter:
      return static_cast<double>(op.window().CountElements()) * 3 * width;
    case Opcode::kScatter:
      return 4;
    case Opcode::kWhile: {  // on scalars: each iteration waits for the one before
      double iteration = 0;
      for (const auto& i : op.called(1)->instructions()) iteration += 1 + 20 * CostPerElement(*i);
      return iteration * static_cast<double>(ComputeTripCount(op).value_or(1));
    }
    case Opcode::kMultiply:
      return (t == PrimitiveType::kS64 || t == PrimitiveType::kU64 ? 0.3 : 0.1) * width;
    default:
      return (IsComplex(t) ? 2.5 : 1.0) * UnaryCost(op.opcode()) * width;
  }
}

bool IsCumulative(const Instruction& op, int64_t* dimension, bool* reverse) {
  if (!op.Is(Opcode::kReduceWindow)) return false;
  const Shape& in = op.operand(0)->shape();
  int64_t found = -1;
  for (int64_t d = 0; d < in.rank(); ++d) {
    const WindowDimension& w = op.window().dimensions[d];
    if (w.stride != 1 || w.window_dilation != 1 || w.base_dilation != 1) return false;
    if (w.size == 1) {
      if (w.padding_low != 0 || w.padding_high != 0) return false;
      continue;
    }
    if (found >= 0 || w.window_reversal || w.size != in.dimensions(d)) return false;
    if (w.padding_low == w.size - 1 && w.padding_high == 0) {
      *reverse = false;
    } else if (w.padding_high == w.size - 1 && w.padding_low == 0) {
      *reverse = true;
    } else {
      return false;
    }
    found = d;
  }
  *dimension = found;
  return found >= 0;
}

bool ScattersRows(const Instruction& scatter) {
  const ScatterDimensions& s = scatter.scatter_dims();
  const int64_t last = scatter.operand(scatter.operand_count() - 1)->shape().rank() - 1;
  const int64_t rank = scatter.operand(0)->shape().rank();
  auto in = [](const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); };
  return last >= 0 && !s.update_window_dims.empty() && s.update_window_dims.back() == last &&
         !in(s.inserted_window_dims, rank - 1) && !in(s.input_batching_dims, rank - 1);
}

}  // namespace backplane::engine::codegen
