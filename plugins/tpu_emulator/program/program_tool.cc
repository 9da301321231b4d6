// tpu_program FILE...: what the emulated machine makes of a program (StableHLO as bytecode or text, or HLO text).
//   --chip=NAME   of the machines known by name; v5e when not given
//   --round=op    narrow floats rounded after every operation
//   --text        the module cut into kernels, with its layouts
//   --executable  the module that computes the same values
//   --kernels     a line for each kernel: name, category, executions, microseconds, the unit it waits for, bytes
//   --buffers     a line for each buffer with padding: bytes, bytes without, remedy
// A line of totals for each file: kernels by category, cycles of kernels with a product, seconds, bytes, the room at
// the peak, milliseconds of the processor to prepare it. Both modules are verified. The exit status is the number of
// files that could not be prepared.
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

struct Wishes {
  std::string chip = "v5e";
  bool text = false, executable = false, kernels = false, buffers = false;
  PrepareOptions options;
};

bool Simplify(Module* module) {
  return ExpandScans().Run(module).ok() && ExpandDots().Run(module).ok() && CommonPipeline()->Run(module).ok();
}

void Print(const Schedule& s, const Wishes& wishes) {
  if (wishes.kernels) {
    for (const ScheduledKernel& k : s.kernels) {
      std::printf("  %-40s %-12s x%lld %9.2f us %-5s %12.0f B  %s\n", k.name.c_str(), k.category.c_str(),
                  static_cast<long long>(k.executions), k.time.seconds * 1e6,
                  std::string(UnitName(k.time.bound)).c_str(), k.hbm_bytes, k.contents.c_str());
    }
  }
  if (wishes.buffers) {
    for (const ScheduledBuffer& b : s.buffers) {
      if (b.padded_bytes <= b.unpadded_bytes) continue;
      std::printf("  %-40s %s %lld B, %lld B of data. %s\n", b.name.c_str(), b.shape.c_str(),
                  static_cast<long long>(b.padded_bytes), static_cast<long long>(b.unpadded_bytes), b.remedy.c_str());
    }
  }
}

bool Examine(const char* path, const Wishes& wishes) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const bool hlo = bytes.compare(0, 9, "HloModule") == 0;
  absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram(hlo ? "hlo_text" : "mlir", bytes);
  if (!module.ok() || !Simplify(module->get())) {
    std::printf("%s: %s\n", path, module.ok() ? "cannot be simplified" : module.status().ToString().c_str());
    return false;
  }
  SetDefaultEntryLayouts(module->get());
  const std::clock_t start = std::clock();
  absl::StatusOr<PreparedProgram> p = PrepareProgram(*std::move(module), *FindMachine(wishes.chip), wishes.options);
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
  if (wishes.text) std::printf("%s\n", p->kernels->ToString().c_str());
  if (wishes.executable) std::printf("%s\n", p->executable->ToString().c_str());
  Print(p->schedule, wishes);
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
  Wishes wishes;
  int failed = 0;
  for (int a = 1; a < argc; ++a) {
    const std::string word = argv[a];
    if (word.compare(0, 7, "--chip=") == 0) {
      wishes.chip = word.substr(7);
      if (FindMachine(wishes.chip) == nullptr) {
        std::fprintf(stderr, "tpu_program: no machine named %s\n", wishes.chip.c_str());
        return 2;
      }
    } else if (word == "--round=op") {
      wishes.options.round = Round::kOp;
    } else if (word == "--text") {
      wishes.text = true;
    } else if (word == "--executable") {
      wishes.executable = true;
    } else if (word == "--kernels") {
      wishes.kernels = true;
    } else if (word == "--buffers") {
      wishes.buffers = true;
    } else {
      failed += Examine(argv[a], wishes) ? 0 : 1;
    }
  }
  return failed;
}

}  // namespace
}  // namespace backplane::tpu

int main(int argc, char** argv) { return backplane::tpu::Main(argc, argv); }
