// tpu_program FILE...: shows how the emulated machine runs a program (StableHLO bytecode or text, or HLO text).
//   --chip=NAME   a built-in machine; v5e by default
//   --round=op    round narrow floats after every operation
//   --text        print the module after fusion, with its layouts
//   --executable  print the module that computes the same values
//   --kernels     print a line per kernel: name, category, executions, microseconds, bounding unit, bytes
//   --buffers     print a line per padded buffer: bytes, bytes without padding, remedy
// Prints a line of totals per file: kernels by category, cycles of kernels with a product, seconds, bytes, peak memory,
// and the CPU milliseconds of preparing it. Both modules are verified. The exit status is the number of files that
// could not be prepared.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/import/import.h"
#include "core/passes/passes.h"
#include "plugins/tpu_emulator/machine/clock.h"
#include "plugins/tpu_emulator/program/prepare.h"
#include "plugins/tpu_emulator/program/program_testing.h"

namespace backplane::tpu {
namespace {

struct ToolOptions {
  std::string chip = "v5e";
  bool text = false, executable = false, kernels = false, buffers = false;
  PrepareOptions options;
};

bool Simplify(Module* module) {
  return ExpandScans().Run(module).ok() && ExpandDots().Run(module).ok() && MakeCommonPipeline()->Run(module).ok();
}

void Print(const Schedule& s, const ToolOptions& options) {
  if (options.kernels) {
    for (const ScheduledKernel& k : s.kernels) {
      std::printf("  %-40s %-12s x%lld %9.2f us %-5s %12.0f B  %s\n", k.name.c_str(), k.category.c_str(),
                  static_cast<long long>(k.executions), k.time.seconds * 1e6,
                  std::string(UnitName(k.time.bound)).c_str(), k.hbm_bytes, k.contents.c_str());
    }
  }
  if (options.buffers) {
    for (const ScheduledBuffer& b : s.buffers) {
      if (b.padded_bytes <= b.unpadded_bytes) continue;
      std::printf("  %-40s %s %lld B, %lld B of data. %s\n", b.name.c_str(), b.shape.c_str(),
                  static_cast<long long>(b.padded_bytes), static_cast<long long>(b.unpadded_bytes), b.remedy.c_str());
    }
  }
}

bool Examine(const char* path, const ToolOptions& options) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const bool hlo = bytes.compare(0, 9, "HloModule") == 0;
  absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(hlo ? "hlo" : "mlir", bytes);
  if (!module.ok() || !Simplify(module->get())) {
    std::printf("%s: %s\n", path, module.ok() ? "cannot be simplified" : module.status().ToString().c_str());
    return false;
  }
  SetDefaultEntryLayouts(module->get());
  const std::clock_t start = std::clock();
  absl::StatusOr<PreparedProgram> p = PrepareProgram(*std::move(module), *FindMachine(options.chip), options.options);
  const double took = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!p.ok()) {
    std::printf("%s: %s\n", path, p.status().ToString().c_str());
    return false;
  }
  for (const Module* m : {p->kernels.get(), p->executable.get()}) {
    if (const absl::Status verified = VerifyModule(*m); !verified.ok()) {
      std::printf("%s: does not verify: %s\n", path, verified.ToString().c_str());
      return false;
    }
  }
  if (options.text) std::printf("%s\n", p->kernels->ToString().c_str());
  if (options.executable) std::printf("%s\n", p->executable->ToString().c_str());
  Print(p->schedule, options);
  std::map<std::string, int64_t> counts;
  double products = 0;
  for (const ScheduledKernel& k : p->schedule.kernels) {
    ++counts[k.category];
    if (k.time.mxu_cycles > 0) products += k.time.cycles * static_cast<double>(k.executions);
  }
  std::string categories;
  for (const auto& [category, count] : counts) absl::StrAppend(&categories, " ", category, "=", count);
  std::printf("%s: kernels=%zu%s product_cycles=%.0f cycles=%.0f seconds=%.3e hbm_bytes=%.4g peak=%lld ms=%.2f\n", path,
              p->schedule.kernels.size(), categories.c_str(), products, p->schedule.cycles, p->schedule.seconds,
              p->schedule.hbm_bytes, static_cast<long long>(p->plan.peak_bytes), took);
  for (const std::string& note : p->schedule.notes) std::printf("  note: %s\n", note.c_str());
  return true;
}

int Main(int argc, char** argv) {
  ToolOptions options;
  int failed = 0;
  for (int a = 1; a < argc; ++a) {
    const std::string word = argv[a];
    if (word.compare(0, 7, "--chip=") == 0) {
      options.chip = word.substr(7);
      if (FindMachine(options.chip) == nullptr) {
        std::fprintf(stderr, "tpu_program: no machine named %s\n", options.chip.c_str());
        return 2;
      }
    } else if (word == "--round=op") {
      options.options.round = Round::kOp;
    } else if (word == "--text") {
      options.text = true;
    } else if (word == "--executable") {
      options.executable = true;
    } else if (word == "--kernels") {
      options.kernels = true;
    } else if (word == "--buffers") {
      options.buffers = true;
    } else {
      failed += Examine(argv[a], options) ? 0 : 1;
    }
  }
  return failed;
}

}  // namespace
}  // namespace backplane::tpu

int main(int argc, char** argv) { return backplane::tpu::Main(argc, argv); }
