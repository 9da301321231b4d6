#include "core/ops/scalar_program.h"

#include <cstring>

namespace backplane {

int ScalarProgram::AddConstant(const Literal& scalar) {
  types_.push_back(scalar.shape().element_type());
  const int reg = static_cast<int>(types_.size()) - 1;
  constants_.emplace_back(reg, scalar);
  return reg;
}

int ScalarProgram::AddStep(const ElementwiseKernel& kernel, absl::Span<const int> in, PrimitiveType result) {
  types_.push_back(result);
  Step step{kernel};
  step.arity = static_cast<int>(in.size());
  for (size_t i = 0; i < in.size(); ++i) step.in[i] = in[i];
  step.out = static_cast<int>(types_.size()) - 1;
  steps_.push_back(step);
  return step.out;
}

ScalarMachine::ScalarMachine(const ScalarProgram& program, int64_t lanes) : program_(program), lanes_(lanes) {
  const size_t registers = program.types_.size(), size = static_cast<size_t>(lanes) * 16;
  memory_.reset(new std::byte[registers * size]);
  for (size_t i = 0; i < registers; ++i) pointers_.push_back(memory_.get() + i * size);
  for (const auto& [reg, literal] : program.constants_) {
    const size_t width = static_cast<size_t>(ByteWidth(literal.shape().element_type()));
    std::byte* to = static_cast<std::byte*>(pointers_[reg]);
    for (int64_t i = 0; i < lanes; ++i) std::memcpy(to + static_cast<size_t>(i) * width, literal.bytes(), width);
  }
}

void ScalarMachine::Run(int64_t n) {
  for (const ScalarProgram::Step& s : program_.steps_) {
    const void* in[3] = {pointers_[s.in[0]], pointers_[s.in[1]], pointers_[s.in[2]]};
    s.kernel.Run(in, pointers_[s.out], n);
  }
}

}  // namespace backplane
