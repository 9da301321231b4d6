// Parses StableHLO, prints HLO and evaluates the program, with Backplane::core only.
#include <cstdio>
#include <utility>
#include <vector>

#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "core/passes/passes.h"
#include "core/types/status_macros.h"

namespace {

constexpr char kProgram[] = R"(
module @area {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})";

absl::Status Run() {
  ASSIGN_OR_RETURN(std::unique_ptr<backplane::Module> module, backplane::ImportProgram("mlir", kProgram));
  RETURN_IF_ERROR(backplane::MakeCommonPipeline()->Run(module.get()).status());
  const float values[] = {1, 2, 3};
  const int64_t dims[] = {3};
  const std::vector<backplane::Literal> arguments = {backplane::Literal::FromValues<float>(dims, values)};
  ASSIGN_OR_RETURN(backplane::Literal result, backplane::Evaluate(*module, arguments));
  printf("%s%s\n", module->ToString().c_str(), result.ToString().c_str());
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
