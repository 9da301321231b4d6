// Functions on quantized tensors. The core has no quantized types. In the program that is evaluated, such a function is
// written by the formulas of the StableHLO specification, on floats that contain the stored integers. It is sent with
// `!quant.uniform` types. So the importer's treatment of these types is compared with the formulas independently.
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
  int64_t least = -128, greatest = 127;  // of the storage type
  float scale = 1;
  int64_t zero_point = 0;
  std::string Type() const;  // "!quant.uniform<i8<-127:127>:f32, 0.5:3>"
};
Quantization DrawQuantization(Random& random);

// One operation on quantized values. Arguments and earlier steps are numbered consecutively.
struct QuantizedStep {
  Opcode op = Opcode::kAdd;  // kCopy: requantize
  std::vector<size_t> operands;
  Quantization result;
};

// Quantizes f32 arrays of one shape, applies the steps, and dequantizes the results.
struct QuantizedFunction {
  std::vector<Quantization> arguments;
  std::vector<QuantizedStep> steps;
};
QuantizedFunction DrawQuantizedFunction(Random& random);

// Returns the function by its formulas: a computation on f32 arrays of these sizes.
absl::StatusOr<Computation*> WriteFormulas(Module* module, const std::string& name, const QuantizedFunction& function,
                                           absl::Span<const int64_t> dims);
// Returns the function as a private StableHLO function.
std::string WriteQuantized(const std::string& name, const QuantizedFunction& function, absl::Span<const int64_t> dims);

// Quantized functions by the names of their computations.
using QuantizedFunctions = std::map<std::string, QuantizedFunction>;
// Returns the module as StableHLO text, with these functions in quantized types.
absl::StatusOr<std::string> ExportQuantized(const Module& module, const QuantizedFunctions& functions);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_QUANTIZED_H_
