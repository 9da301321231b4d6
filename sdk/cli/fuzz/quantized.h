// Functions over quantized tensors. The core has no such type: in the program that is judged a function is written by
// the formulas of the StableHLO specification, over floats that hold the stored integers, and goes out as a plugin's
// host writes it, `!quant.uniform` types and all. So what an importer makes of the types is held against the formulas,
// which it had no part in.
#ifndef BACKPLANE_SDK_CLI_FUZZ_QUANTIZED_H_
#define BACKPLANE_SDK_CLI_FUZZ_QUANTIZED_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/builder.h"
#include "sdk/cli/fuzz/random.h"

namespace backplane::cli::fuzz {

struct Quantization {
  int bits = 8;
  bool is_signed = true;
  int64_t least = -128, greatest = 127;  // of the storage
  float scale = 1;
  int64_t zero_point = 0;
  std::string Type() const;  // "!quant.uniform<i8<-127:127>:f32, 0.5:3>"
};
Quantization AnyQuantization(Random& random);

// One operation on quantized values: arguments and earlier steps are numbered through.
struct QuantizedStep {
  Opcode op = Opcode::kAdd;  // kCopy: quantized anew
  std::vector<size_t> operands;
  Quantization result;
};

// f32 arrays of one shape are quantized, worked on, and dequantized.
struct QuantizedFunction {
  std::vector<Quantization> arguments;
  std::vector<QuantizedStep> steps;
};
QuantizedFunction AnyQuantizedFunction(Random& random);

// By its formulas: a computation of f32 arrays of these sizes.
absl::StatusOr<Computation*> WriteFormulas(Module* module, const std::string& name, const QuantizedFunction& function,
                                           absl::Span<const int64_t> dims);
// As a private function of StableHLO.
std::string WriteQuantized(const std::string& name, const QuantizedFunction& function, absl::Span<const int64_t> dims);

// By the names of their computations.
using QuantizedFunctions = std::map<std::string, QuantizedFunction>;
// The module as StableHLO text, these functions in quantized types.
absl::StatusOr<std::string> ExportQuantized(const Module& module, const QuantizedFunctions& functions);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_QUANTIZED_H_
