#include "sdk/codegen/body/can_evaluate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/compiler/index_map.h"

namespace backplane::codegen {
namespace {

constexpr int kMaxCallDepth = 16;

bool IsDense(const Shape& s) { return s.IsArray() && !s.HasDynamicDimensions() && s.IsRowMajor(); }

absl::Status CheckShape(const Instruction& op, const Shape& s) {
  if (s.IsTuple()) {
    for (const Shape& e : s.tuple_shapes()) {
      if (!IsDense(e))
        return absl::UnimplementedError(
            absl::StrCat(op.name(), ": ", e.ToString(true), " is no dense array of static size"));
    }
    return absl::OkStatus();
  }
  if (!IsDense(s)) {
    return absl::UnimplementedError(
        absl::StrCat(op.name(), ": ", s.ToString(true), " is no dense array of static size"));
  }
  return absl::OkStatus();
}

bool IsSingle(const Shape& s) { return s.IsArray() && s.num_elements() == 1; }

// One element, or a tuple of such.
bool AreSingles(const Shape& s) {
  if (!s.IsTuple()) return IsSingle(s);
  for (const Shape& e : s.tuple_shapes()) {
    if (!IsSingle(e)) return false;
  }
  return true;
}

absl::Status CanCallNested(const Computation& computation, int depth) {
  if (depth > kMaxCallDepth)
    return absl::UnimplementedError(absl::StrCat(computation.name(), ": more than ", kMaxCallDepth, " calls deep"));
  for (const auto& owned : computation.instructions()) {
    const Instruction& op = *owned;
    if (!AreSingles(op.shape())) {
      return absl::UnimplementedError(
          absl::StrCat(op.name(), ": ", op.shape().ToString(), " inside a scalar computation"));
    }
    switch (op.opcode()) {
      case Opcode::kParameter:
      case Opcode::kTuple:
        continue;
      case Opcode::kConstant:
      case Opcode::kGetTupleElement:
      case Opcode::kIota:
      case Opcode::kReshape:
      case Opcode::kBroadcast:
        break;
      case Opcode::kMap:
      case Opcode::kCall:
      case Opcode::kWhile:
      case Opcode::kConditional:
        for (const Computation* c : op.called()) {
          if (absl::Status s = CanCallNested(*c, depth + 1); !s.ok()) return s;
        }
        continue;
      default:
        if (!op.info().Has(kElementwise) && !op.Is(Opcode::kBitcastConvert)) {
          return absl::UnimplementedError(
              absl::StrCat(op.name(), ": ", OpName(op.opcode()), " inside a scalar computation"));
        }
        if (absl::Status s = ElementEmitter::CanEmit(op); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CanCall(const Computation& computation) { return CanCallNested(computation, 0); }

absl::Status CheckArrays(const Instruction& op) {
  if (absl::Status s = CheckShape(op, op.shape()); !s.ok()) return s;
  for (const Instruction* x : op.operands()) {
    if (absl::Status s = CheckShape(op, x->shape()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CanEvaluate(const Instruction& op) {
  if (absl::Status s = CheckArrays(op); !s.ok()) return s;
  switch (op.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kIota:
      return absl::OkStatus();
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kMap:
      return CanCall(*op.called(0));
    case Opcode::kWhile:
    case Opcode::kConditional:
      for (const Instruction* x : op.operands()) {
        if (!AreSingles(x->shape()))
          return absl::UnimplementedError(absl::StrCat(op.name(), ": over more than single elements"));
      }
      for (const Computation* c : op.called()) {
        if (absl::Status s = CanCall(*c); !s.ok()) return s;
      }
      return absl::OkStatus();
    case Opcode::kBitcast:
      if (op.shape().element_type() != op.operand(0)->shape().element_type()) {
        return absl::UnimplementedError(absl::StrCat(op.name(), ": bitcast between element types"));
      }
      return absl::OkStatus();
    default:
      break;
  }
  if (compiler::MovesElements(op)) return absl::OkStatus();
  if (op.info().Has(kElementwise) || op.Is(Opcode::kBitcastConvert)) return ElementEmitter::CanEmit(op);
  return absl::UnimplementedError(absl::StrCat(op.name(), ": ", OpName(op.opcode()), " has no kernel"));
}

}  // namespace backplane::codegen
