// engine_compile FILE...: what the CPU plugin makes of a program (StableHLO as bytecode or text, or HLO text).
//   --before      the module as it was read
//   --after       the module after the pipeline
//   --log         the compile log
//   --seed=N      of the random arguments; --int=LOW,HIGH and --float=LOW,HIGH bound them
//   --tolerance=X relative, for f32
//   --no-run      compiles only
//   --profile     the shortest time of each step, in microseconds; arguments are zeros
// Each program runs on random arguments and is compared with the evaluator. The exit status is the number that differ.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "core/import/import.h"
#include "core/types/status_macros.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/compiler/program.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

struct Flags {
  bool before = false, after = false, log = false, run = true, profile = false;
  ProgramRunOptions options;
};

// Prints the shortest of some times of each step, on the threads of the runtime.
absl::Status PrintProfile(const Program& program) {
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<void*> arguments, outputs;
  auto allocate = [&memory](const Shape& shape, std::vector<void*>& to) {
    ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
      memory.push_back(std::make_unique<char[]>(static_cast<size_t>(leaf.IsArray() ? leaf.byte_size() : 0) + 128));
      to.push_back(memory.back().get() + (64 - reinterpret_cast<uintptr_t>(memory.back().get()) % 64));
    });
  };
  for (const Instruction* p : program.module().entry()->parameters()) allocate(p->shape(), arguments);
  allocate(program.module().entry()->root()->shape(), outputs);
  Runtime& runtime = Runtime::Get();
  const ThreadPool::ActiveScope active(&runtime.pool);
  ExecutionContext context;
  context.subnormals = Subnormals::kFlushResults;  // as clients run programs
  std::vector<Program::StepTime> shortest;
  constexpr int kRuns = 30;
  for (int r = 0; r < kRuns; ++r) {
    ASSIGN_OR_RETURN(std::vector<Program::StepTime> times,
                     program.Profile(arguments, outputs, &runtime.pool, &runtime.memory, context));
    if (r == 0) shortest = times;
    for (size_t k = 0; k < times.size(); ++k)
      shortest[k].microseconds = std::min(shortest[k].microseconds, times[k].microseconds);
  }
  double total = 0;
  for (const Program::StepTime& t : shortest) {
    std::printf("%10.1f  %s\n", t.microseconds, t.name.c_str());
    total += t.microseconds;
  }
  std::printf("%10.1f  all\n", total);
  return absl::OkStatus();
}

bool Examine(const char* path, const Flags& flags) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::printf("%s: cannot be read\n", path);
    return false;
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram("mlir", bytes);
  if (!module.ok()) {
    std::printf("%s: %s\n", path, module.status().ToString().c_str());
    return false;
  }
  if (flags.before) std::printf("%s\n", (*module)->ToString().c_str());
  std::vector<std::string> log;
  std::unique_ptr<Module> lowered = (*module)->Clone();
  absl::Status s = RunEnginePipeline(lowered.get(), &log);
  if (s.ok() && flags.after) std::printf("%s\n", lowered->ToString().c_str());
  const ProgramOptions options = flags.profile ? OptionsForRuntime(nullptr) : ProgramOptions();
  absl::StatusOr<std::unique_ptr<Program>> program = nullptr;
  if (s.ok()) program = Program::Build(std::move(lowered), options, &log);
  if (flags.log) {
    for (const std::string& line : log) std::printf("%s\n", line.c_str());
  }
  if (s.ok()) s = program.status();
  if (s.ok() && flags.profile) s = PrintProfile(**program);
  if (!s.ok()) {
    std::printf("%s: %s\n", path, s.ToString().c_str());
    return false;
  }
  if (!flags.run) return true;
  std::string difference = ProgramDifference(**module, flags.options);
  if (!flags.log) difference = difference.substr(0, difference.find('\n'));
  std::printf("%s: %s\n", path, difference.empty() ? "like the evaluator" : difference.c_str());
  return difference.empty();
}

}  // namespace
}  // namespace backplane::engine

int main(int argc, char** argv) {
  backplane::engine::Flags flags;
  int differ = 0;
  for (int k = 1; k < argc; ++k) {
    const char* a = argv[k];
    long low = 0, high = 0;
    if (std::strcmp(a, "--before") == 0)
      flags.before = true;
    else if (std::strcmp(a, "--after") == 0)
      flags.after = true;
    else if (std::strcmp(a, "--log") == 0)
      flags.log = true;
    else if (std::strcmp(a, "--profile") == 0)
      flags.profile = true;
    else if (std::strcmp(a, "--no-run") == 0)
      flags.run = false;
    else if (std::sscanf(a, "--seed=%ld", &low) == 1)
      flags.options.seed = static_cast<uint32_t>(low);
    else if (std::sscanf(a, "--int=%ld,%ld", &low, &high) == 2)
      flags.options.int_low = low, flags.options.int_high = high;
    else if (std::sscanf(a, "--float=%lf,%lf", &flags.options.low, &flags.options.high) == 2)
      continue;
    else if (std::sscanf(a, "--tolerance=%lf", &flags.options.tolerance) == 1)
      continue;
    else
      differ += !backplane::engine::Examine(a, flags);
  }
  return differ > 100 ? 100 : differ;
}
