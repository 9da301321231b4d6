// Compiles a computation written as HLO text to a kernel, runs it, and compares it with the evaluator.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_TESTING_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_TESTING_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/module.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine::codegen {

struct RunOptions {
  bool keep_code = false;  // for ir() and assembly(); also with the environment variable KERNEL_TEST_DUMP
  int chunks = 3;          // how many ranges each phase is cut into
  bool share = false;      // use all in-place pairs
  int max_vector_bytes = 64;
  double tolerance = 2e-6;  // relative, for f32; other float types from their precision
  uint32_t seed = 1;
  double low = -3, high = 3;  // of random floats
  int64_t int_low = -9, int_high = 9;
  bool specials = false;  // sprinkle infinities, NaN, zeros of both signs
};

// A compiled kernel that can be run on any data.
class TestKernel {
 public:
  static absl::StatusOr<std::unique_ptr<TestKernel>> Make(const std::string& hlo, const RunOptions& options = {});
  absl::StatusOr<std::vector<Literal>> Run(const std::vector<Literal>& inputs);
  // Runs the phases one after another over all work items, on the given buffers, on one thread.
  void RunRaw(void* const* buffers);
  const Module& module() const { return *module_; }
  const KernelPlan& plan() const { return plan_; }
  const std::string& assembly() const { return assembly_; }
  const std::string& ir() const { return ir_; }
  double compile_ms() const { return compile_ms_; }
  double emit_ms() const { return emit_ms_; }  // planning and emission, a part of compile_ms
  double plan_ms() const { return plan_ms_; }
  std::vector<Shape> OutputShapes() const;
  std::vector<KernelFn> functions() const { return functions_; }
  std::vector<Literal> RandomInputs() const;

 private:
  RunOptions options_;
  std::unique_ptr<Module> module_;
  KernelPlan plan_;
  std::vector<InPlacePair> shared_;
  std::unique_ptr<jit::CodeLibrary> library_;
  std::vector<KernelFn> functions_;
  std::string assembly_, ir_;
  double compile_ms_ = 0, emit_ms_ = 0, plan_ms_ = 0;
  jit::HostInfo host_;
  std::vector<std::byte> scratch_;  // of RunRaw
};

// Runs the kernel and the evaluator on random inputs. Returns a description of the difference, or "".
std::string Difference(const std::string& hlo, const RunOptions& options = {});

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_KERNEL_TESTING_H_
