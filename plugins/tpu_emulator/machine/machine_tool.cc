// Answers queries of tests in other languages, one line of output per line of stdin:
//   layout TYPE DIMS                   the default layout of an argument; DIMS as 3x5x7, - for a scalar
//   bytes TYPE DIMS                    what an argument takes in memory in that layout
//   matmul MACHINE BATCH M N K LHS RHS RESULT PASSES LHS_SPACE RHS_SPACE RESULT_SPACE    cycles of the kernel
// Spaces are hbm, vmem or cmem. The tool exits with status 1 at the first line that it does not understand.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/types/physical_layout.h"
#include "core/types/shape.h"
#include "plugins/tpu_emulator/machine/clock.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/machine/machine.h"

namespace backplane::tpu {
namespace {

std::optional<Space> ReadSpace(const std::string& name) {
  if (name == "hbm") return Space::kHbm;
  if (name == "vmem") return Space::kVmem;
  if (name == "cmem") return Space::kCmem;
  return std::nullopt;
}

// Returns the text of the default layout, or the bytes of an array in it.
std::optional<std::string> AnswerLayout(const std::vector<std::string>& words, bool bytes) {
  if (words.size() != 3) return std::nullopt;
  const std::optional<PrimitiveType> type = PrimitiveTypeFromName(words[1]);
  if (!type || !IsArrayType(*type)) return std::nullopt;
  std::vector<int64_t> dims;
  if (words[2] != "-") {
    for (const std::string& size : std::vector<std::string>(absl::StrSplit(words[2], 'x'))) {
      if (!absl::SimpleAtoi(size, &dims.emplace_back()) || dims.back() < 0) return std::nullopt;
    }
  }
  Shape shape(*type, dims);
  shape.set_layout(DefaultLayout(*type, dims));
  if (!bytes) return shape.layout().ToString();
  const absl::StatusOr<PhysicalLayout> physical = PhysicalLayout::Of(shape);
  if (!physical.ok()) return std::nullopt;
  return std::to_string(physical->byte_size());
}

std::optional<std::string> AnswerMatmul(const std::vector<std::string>& words) {
  if (words.size() != 13) return std::nullopt;
  const Machine* machine = FindMachine(words[1]);
  int64_t sizes[4];
  for (int i = 0; i < 4; ++i) {
    if (!absl::SimpleAtoi(words[2 + i], &sizes[i]) || sizes[i] < 1) return std::nullopt;
  }
  const std::optional<PrimitiveType> lhs = PrimitiveTypeFromName(words[6]), rhs = PrimitiveTypeFromName(words[7]),
                                     result = PrimitiveTypeFromName(words[8]);
  const std::optional<Space> lhs_space = ReadSpace(words[10]), rhs_space = ReadSpace(words[11]),
                             result_space = ReadSpace(words[12]);
  int passes = 0;
  if (!machine || !lhs || !rhs || !result || !lhs_space || !rhs_space || !result_space) return std::nullopt;
  if (!absl::SimpleAtoi(words[9], &passes) || passes < 1) return std::nullopt;
  KernelWork work;
  work.matmul = MatmulWork{.batch = sizes[0],
                           .m = sizes[1],
                           .n = sizes[2],
                           .k = sizes[3],
                           .lhs = *lhs,
                           .rhs = *rhs,
                           .result = *result,
                           .passes = passes,
                           .lhs_space = *lhs_space,
                           .rhs_space = *rhs_space,
                           .result_space = *result_space};
  return std::to_string(static_cast<int64_t>(TimeKernel(*machine, work).cycles));
}

}  // namespace
}  // namespace backplane::tpu

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) continue;
    std::optional<std::string> answer;
    if (words[0] == "layout" || words[0] == "bytes") answer = backplane::tpu::AnswerLayout(words, words[0] == "bytes");
    if (words[0] == "matmul") answer = backplane::tpu::AnswerMatmul(words);
    if (!answer) {
      std::cerr << "not understood: " << line << "\n";
      return 1;
    }
    std::cout << *answer << "\n";
  }
  return 0;
}
