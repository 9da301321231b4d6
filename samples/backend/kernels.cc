#include "samples/backend/kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/types/status_macros.h"

namespace my {
namespace {

using backplane::AttrId;
using backplane::DotDimensions;
using backplane::Instruction;
using backplane::Ints;
using backplane::Opcode;
using backplane::PrimitiveType;
using backplane::Shape;
using backplane::mixed::Kernel;
using backplane::mixed::KernelArrays;

// ---- A matrix product: c[m,n] = sum over k of a[m,k] * b[k,n] ----

absl::Status IsMatrixProduct(const Instruction& dot, PrimitiveType, const Shape& shape) {
  const DotDimensions& dims = dot.dot_dims();
  if (shape.rank() != 2 || dot.operand(0)->shape().rank() != 2 || dot.operand(1)->shape().rank() != 2)
    return absl::UnimplementedError("not a product of two matrices");
  if (dims.lhs_contracting != Ints{1} || dims.rhs_contracting != Ints{0})
    return absl::UnimplementedError("a transposed matrix");
  if (dot.attrs().Has(AttrId::kDotAlgorithm)) return absl::UnimplementedError("the program requests an algorithm");
  return absl::OkStatus();
}

absl::StatusOr<Kernel> MakeMatmul(const Instruction& dot) {
  const int64_t m = dot.shape().dimensions(0), n = dot.shape().dimensions(1);
  const int64_t k = dot.operand(0)->shape().dimensions(1);
  return Kernel([m, n, k](const KernelArrays& arrays) {
    const float* a = static_cast<const float*>(arrays.operands[0]);
    const float* b = static_cast<const float*>(arrays.operands[1]);
    float* c = static_cast<float*>(arrays.results[0]);
    std::fill(c, c + m * n, 0.0f);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t p = 0; p < k; ++p) {
        const float x = a[i * k + p];
        for (int64_t j = 0; j < n; ++j) c[i * n + j] += x * b[p * n + j];
      }
    }
    return absl::OkStatus();
  });
}

// ---- Elementwise formulas, a thousand elements at a time ----

constexpr int64_t kBlock = 1024;

using Loop = void (*)(const float* x, const float* y, float* out, int64_t n);

template <typename F>
void Each(const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F()(x[i], y[i]);
}
#define MY_LOOP(expression) &Each<decltype([](float x, [[maybe_unused]] float y) -> float { return expression; })>

Loop GetLoop(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return MY_LOOP(x + y);
    case Opcode::kSubtract:
      return MY_LOOP(x - y);
    case Opcode::kMultiply:
      return MY_LOOP(x * y);
    case Opcode::kDivide:
      return MY_LOOP(x / y);
    case Opcode::kMaximum:  // NaN if an operand is NaN; +0 if the zeros differ
      return MY_LOOP(x != x || x > y || (x == y && !std::signbit(x)) ? x : y);
    case Opcode::kNegate:
      return MY_LOOP(-x);
    case Opcode::kTanh:
      return MY_LOOP(std::tanh(x));
    case Opcode::kExp:
      return MY_LOOP(std::exp(x));
    default:
      return nullptr;
  }
}

bool IsFormula(const Instruction& op) {
  return op.shape().element_type() == PrimitiveType::kF32 && GetLoop(op.opcode()) != nullptr;
}

// One operation of a formula. Its operands are arguments of the formula (0, 1, ...) or earlier steps (-1, -2, ...).
struct Step {
  Loop loop;
  int64_t x, y;
};

// Returns the steps of a formula, which is either a fusion or a single operation.
std::vector<Step> GetSteps(const Instruction& op) {
  if (!op.Is(Opcode::kFusion)) return {{GetLoop(op.opcode()), 0, op.operand_count() - 1}};
  std::vector<Step> steps;
  std::vector<std::pair<const Instruction*, int64_t>> operands;
  const auto index = [&](const Instruction* i) {
    if (i->Is(Opcode::kParameter)) return i->parameter_number();
    return std::find_if(operands.begin(), operands.end(), [i](const auto& p) { return p.first == i; })->second;
  };
  for (const auto& i : op.called(0)->instructions()) {
    if (i->Is(Opcode::kParameter)) continue;
    steps.push_back({GetLoop(i->opcode()), index(i->operand(0)), index(i->operand(i->operand_count() - 1))});
    operands.emplace_back(i.get(), -static_cast<int64_t>(steps.size()));
  }
  return steps;
}

absl::StatusOr<Kernel> MakeFormula(const Instruction& op) {
  const int64_t elements = op.shape().num_elements();
  return Kernel([elements, steps = GetSteps(op)](const KernelArrays& arrays) {
    std::vector<float> values(steps.size() * kBlock);
    for (int64_t at = 0; at < elements; at += kBlock) {
      const int64_t n = std::min(kBlock, elements - at);
      const auto operand = [&](int64_t index) {
        return index < 0 ? values.data() + (-index - 1) * kBlock
                         : static_cast<const float*>(arrays.operands[static_cast<size_t>(index)]) + at;
      };
      for (size_t s = 0; s < steps.size(); ++s) {
        float* result = static_cast<float*>(arrays.results[0]) + at;
        if (s + 1 < steps.size()) result = values.data() + static_cast<int64_t>(s) * kBlock;
        steps[s].loop(operand(steps[s].x), operand(steps[s].y), result, n);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

// ---- The claims ----

backplane::mixed::Claims MyClaims() {
  backplane::mixed::Claims claims;
  claims.Add({"matmul", Opcode::kDot, {PrimitiveType::kF32}, &IsMatrixProduct, &MakeMatmul});
  claims.AddRegion({&IsFormula});
  claims.Add({"formula", Opcode::kFusion, {PrimitiveType::kF32}, nullptr, &MakeFormula});
  for (Opcode opcode : {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide, Opcode::kMaximum,
                        Opcode::kNegate, Opcode::kTanh, Opcode::kExp}) {
    claims.Add({"formula", opcode, {PrimitiveType::kF32}, nullptr, &MakeFormula});
  }
  return claims;
}

}  // namespace my
