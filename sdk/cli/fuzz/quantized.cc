#include "sdk/cli/fuzz/quantized.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/import/export/export.h"
#include "core/types/status_macros.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;

std::string TensorOf(absl::Span<const int64_t> dims, const std::string& element) {
  std::string text = "tensor<";
  for (const int64_t d : dims) absl::StrAppend(&text, d, "x");
  return absl::StrCat(text, element, ">");
}

absl::StatusOr<Value> Filled(Builder& b, float v, absl::Span<const int64_t> dims) {
  ASSIGN_OR_RETURN(const Value scalar, b.Constant(Literal::Scalar(P::kF32, v)));
  return b.BroadcastInDim(scalar, dims, {});
}

// (stored - zero point) * scale
absl::StatusOr<Value> Dequantize(Builder& b, Value stored, const Quantization& q) {
  const absl::Span<const int64_t> dims = stored->shape().dimensions();
  ASSIGN_OR_RETURN(const Value zero, Filled(b, static_cast<float>(q.zero_point), dims));
  ASSIGN_OR_RETURN(const Value scale, Filled(b, q.scale, dims));
  ASSIGN_OR_RETURN(const Value difference, b.Binary(Opcode::kSubtract, stored, zero));
  return b.Binary(Opcode::kMultiply, difference, scale);
}

// round(clamp(min, x / scale + zero point, max)), half to even. NaN becomes 0, as the evaluator converts it to
// an integer. After the clamp only NaN is not finite, and `is-finite` has a result also for inexact operands.
absl::StatusOr<Value> Quantize(Builder& b, Value x, const Quantization& q) {
  const absl::Span<const int64_t> dims = x->shape().dimensions();
  ASSIGN_OR_RETURN(const Value scale, Filled(b, q.scale, dims));
  ASSIGN_OR_RETURN(const Value zero, Filled(b, static_cast<float>(q.zero_point), dims));
  ASSIGN_OR_RETURN(const Value least, Filled(b, static_cast<float>(q.least), dims));
  ASSIGN_OR_RETURN(const Value greatest, Filled(b, static_cast<float>(q.greatest), dims));
  ASSIGN_OR_RETURN(const Value scaled, b.Binary(Opcode::kDivide, x, scale));
  ASSIGN_OR_RETURN(const Value moved, b.Binary(Opcode::kAdd, scaled, zero));
  ASSIGN_OR_RETURN(const Value inside, b.Op(Opcode::kClamp, {least, moved, greatest}));
  ASSIGN_OR_RETURN(const Value rounded, b.Unary(Opcode::kRoundNearestEven, inside));
  // A stored integer has no -0.
  ASSIGN_OR_RETURN(const Value nothing, Filled(b, 0, dims));
  ASSIGN_OR_RETURN(const Value integer, b.Binary(Opcode::kAdd, rounded, nothing));
  ASSIGN_OR_RETURN(const Value number, b.Unary(Opcode::kIsFinite, inside));
  return b.Op(Opcode::kSelect, {number, integer, nothing});
}

}  // namespace

std::string Quantization::Type() const {
  const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  std::string text = absl::StrCat("!quant.uniform<", is_signed ? "i" : "u", bits);
  if (least != low || greatest != high) absl::StrAppend(&text, "<", least, ":", greatest, ">");
  // Every f32 is a finite decimal number, written with enough digits.
  return absl::StrCat(text, ":f32, ", absl::StrFormat("%.17e", static_cast<double>(scale)), ":", zero_point, ">");
}

Quantization DrawQuantization(Random& random) {
  Quantization q;
  q.bits = random.Pick(std::vector<int>{8, 8, 8, 4, 16});
  q.is_signed = random.Chance(70);
  q.least = q.is_signed ? -(int64_t{1} << (q.bits - 1)) : 0;
  q.greatest = q.is_signed ? (int64_t{1} << (q.bits - 1)) - 1 : (int64_t{1} << q.bits) - 1;
  if (random.Chance(25)) ++q.least;
  q.scale = random.Pick(std::vector<float>{1.0f, 0.5f, 0.25f, 0.125f, 0.0625f, 2.0f, 0.1f, 0.03f});
  if (random.Chance(70)) {
    q.zero_point = random.Between(std::max<int64_t>(q.least, -9), std::min<int64_t>(q.greatest, 9));
  }
  if (q.zero_point < q.least) q.zero_point = q.least;
  return q;
}

QuantizedFunction DrawQuantizedFunction(Random& random) {
  static const auto* const unary =
      new std::vector<Opcode>{Opcode::kNegate, Opcode::kAbs,  Opcode::kTanh, Opcode::kLogistic, Opcode::kCeil,
                              Opcode::kFloor,  Opcode::kCopy, Opcode::kCopy, Opcode::kSign};
  static const auto* const binary = new std::vector<Opcode>{Opcode::kAdd,      Opcode::kAdd,     Opcode::kMultiply,
                                                            Opcode::kSubtract, Opcode::kMaximum, Opcode::kMinimum};
  QuantizedFunction f;
  const int64_t arguments = random.Between(1, 2), steps = random.Between(0, 3);
  for (int64_t k = 0; k < arguments; ++k) f.arguments.push_back(DrawQuantization(random));
  for (int64_t k = 0; k < steps; ++k) {
    QuantizedStep s;
    const int64_t there = arguments + k;
    const bool two = random.Chance(55);
    s.op = random.Pick(two ? *binary : *unary);
    for (int o = 0; o < (two ? 2 : 1); ++o) s.operands.push_back(static_cast<size_t>(random.Below(there)));
    s.result = DrawQuantization(random);
    f.steps.push_back(std::move(s));
  }
  return f;
}

absl::StatusOr<Computation*> WriteFormulas(Module* module, const std::string& name, const QuantizedFunction& function,
                                           absl::Span<const int64_t> dims) {
  Builder b(module, name);
  std::vector<Value> stored;
  std::vector<Quantization> types;
  for (const Quantization& q : function.arguments) {
    ASSIGN_OR_RETURN(const Value x, b.Parameter(static_cast<int64_t>(stored.size()), Shape(P::kF32, dims)));
    ASSIGN_OR_RETURN(const Value v, Quantize(b, x, q));
    stored.push_back(v);
    types.push_back(q);
  }
  for (const QuantizedStep& s : function.steps) {
    std::vector<Value> floats;
    for (const size_t o : s.operands) {
      ASSIGN_OR_RETURN(const Value v, Dequantize(b, stored[o], types[o]));
      floats.push_back(v);
    }
    Value result = floats[0];
    if (s.op != Opcode::kCopy) {
      ASSIGN_OR_RETURN(result, b.Op(s.op, floats));
    }
    ASSIGN_OR_RETURN(result, Quantize(b, result, s.result));
    stored.push_back(result);
    types.push_back(s.result);
  }
  ASSIGN_OR_RETURN(const Value result, Dequantize(b, stored.back(), types.back()));
  return b.Build(result);
}

std::string WriteQuantized(const std::string& name, const QuantizedFunction& function, absl::Span<const int64_t> dims) {
  const std::string plain = TensorOf(dims, "f32");
  std::vector<std::string> parameters, types;
  std::string body;
  for (size_t k = 0; k < function.arguments.size(); ++k) {
    parameters.push_back(absl::StrCat("%arg", k, ": ", plain));
    types.push_back(TensorOf(dims, function.arguments[k].Type()));
    absl::StrAppend(&body, "    %", k, " = \"stablehlo.uniform_quantize\"(%arg", k, ") : (", plain, ") -> ",
                    types.back(), "\n");
  }
  for (const QuantizedStep& s : function.steps) {
    const size_t number = types.size();
    types.push_back(TensorOf(dims, s.result.Type()));
    const std::string op = s.op == Opcode::kCopy ? "uniform_quantize" : std::string(Info(s.op).stablehlo);
    std::vector<std::string> operands, operand_types;
    for (const size_t o : s.operands) {
      operands.push_back(absl::StrCat("%", o));
      operand_types.push_back(types[o]);
    }
    absl::StrAppend(&body, "    %", number, " = \"stablehlo.", op, "\"(", absl::StrJoin(operands, ", "), ") : (",
                    absl::StrJoin(operand_types, ", "), ") -> ", types.back(), "\n");
  }
  const size_t last = types.size() - 1;
  absl::StrAppend(&body, "    %", last + 1, " = \"stablehlo.uniform_dequantize\"(%", last, ") : (", types.back(),
                  ") -> ", plain, "\n    return %", last + 1, " : ", plain, "\n");
  return absl::StrCat("  func.func private @", name, "(", absl::StrJoin(parameters, ", "), ") -> ", plain, " {\n", body,
                      "  }\n");
}

absl::StatusOr<std::string> ExportQuantized(const Module& module, const QuantizedFunctions& functions) {
  ASSIGN_OR_RETURN(std::string text, ExportStablehloText(module));
  for (const Computation* c : module.PostOrder()) {
    const auto it = functions.find(std::string(c->name()));
    if (it == functions.end()) continue;
    const std::string head = absl::StrCat("  func.func private @", c->name(), "(");
    const size_t from = text.find(head);
    if (from == std::string::npos) continue;  // inlined
    const size_t to = text.find("\n  }\n", from);
    if (to == std::string::npos) return absl::InternalError(absl::StrCat("no end of function ", c->name()));
    text.replace(from, to + 5 - from, WriteQuantized(it->first, it->second, c->parameter(0)->shape().dimensions()));
  }
  return text;
}

}  // namespace backplane::cli::fuzz
