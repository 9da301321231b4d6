// A computation of elementwise scalar operations, compiled to steps on registers. A step runs on many lanes at once.
//
// Reductions, sorts, scatters and maps call such a computation for every element. A scalar program costs a few
// nanoseconds per element, much less than interpreting the call. core/eval builds it from a computation
// (scalar_compiler.h).
#ifndef BACKPLANE_CORE_OPS_SCALAR_PROGRAM_H_
#define BACKPLANE_CORE_OPS_SCALAR_PROGRAM_H_

#include <memory>
#include <vector>

#include "core/ops/elementwise.h"

namespace backplane {

class ScalarProgram {
 public:
  struct Step {
    ElementwiseKernel kernel;
    int in[3] = {0, 0, 0};
    int out = 0;
    int arity = 1;
  };

  // Registers 0 to parameters-1 hold the parameters. Each Add returns the number of the new register.
  explicit ScalarProgram(std::vector<PrimitiveType> parameters) : types_(parameters), parameters_(parameters.size()) {}
  int AddConstant(const Literal& scalar);
  int AddStep(const ElementwiseKernel& kernel, absl::Span<const int> in, PrimitiveType result);
  void SetResults(std::vector<int> registers) { results_ = std::move(registers); }

  int parameter_count() const { return static_cast<int>(parameters_); }
  int result_count() const { return static_cast<int>(results_.size()); }
  PrimitiveType result_type(int i) const { return types_[results_[i]]; }
  PrimitiveType type(int reg) const { return types_[reg]; }

 private:
  friend class ScalarMachine;
  std::vector<PrimitiveType> types_;  // of each register
  size_t parameters_;
  std::vector<std::pair<int, Literal>> constants_;
  std::vector<Step> steps_;
  std::vector<int> results_;
};

// Runs a program and holds its registers. Bind sets the array of a parameter, which belongs to the caller and is only
// read; result() is valid until the next Run. The program must outlive the machine. Not thread-safe.
class ScalarMachine {
 public:
  ScalarMachine(const ScalarProgram& program, int64_t lanes);
  int64_t lanes() const { return lanes_; }
  void Bind(int parameter, const void* data) { pointers_[parameter] = const_cast<void*>(data); }
  void Run(int64_t n);  // n <= lanes
  const void* result(int i) const { return pointers_[program_.results_[i]]; }

 private:
  const ScalarProgram& program_;
  int64_t lanes_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<void*> pointers_;  // one for each register
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_SCALAR_PROGRAM_H_
