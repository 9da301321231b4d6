// What the shared emitters write, for all targets: elementary functions, with the functions and tables that they bring
// along. On the host their results are checked.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "gtest/gtest.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/host_testing.h"
#include "plugins/hip/lowering/lowering.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

using codegen::ElementEmitter;

struct Function {
  const char* name;
  Opcode opcode;
  double (*expected)(double);
};

const Function kFunctions[] = {
    {"exponential", Opcode::kExp, [](double x) { return std::exp(x); }},
    {"log", Opcode::kLog, [](double x) { return std::log(x); }},
    {"sine", Opcode::kSin, [](double x) { return std::sin(x); }},
    {"tanh", Opcode::kTanh, [](double x) { return std::tanh(x); }},
    {"rsqrt", Opcode::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {"floor", Opcode::kFloor, [](double x) { return std::floor(x); }},
};
constexpr PrimitiveType kTypes[] = {PrimitiveType::kF32, PrimitiveType::kF64, PrimitiveType::kF16,
                                    PrimitiveType::kBF16};

// A kernel NAME_TYPE for each function and type: y[i] = f(x[i]), one block of 128 threads.
absl::Status EmitFunctions(llvm::Module& module, const GpuTarget& target) {
  ElementEmitter elements(&module, &target.ir);
  llvm::IRBuilder<>& b = elements.b();
  llvm::Type* pointer = llvm::PointerType::get(module.getContext(), kGlobalAddressSpace);
  const llvm::FunctionCallee thread = module.getOrInsertFunction(kThread, b.getInt32Ty());
  for (const Function& function : kFunctions) {
    for (PrimitiveType type : kTypes) {
      Module hlo("m");
      Builder builder(&hlo, "e");
      auto x = builder.Parameter(0, Shape(type, {}), "x");
      if (!x.ok()) return x.status();
      auto op = builder.Op(function.opcode, {*x}, {}, {}, Shape());
      if (!op.ok()) return op.status();
      auto* kernel =
          llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer}, false),
                                 llvm::Function::ExternalLinkage, absl::StrCat(function.name, "_", Name(type)), module);
      kernel->addFnAttr(kKernelAttribute, "128");
      b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", kernel));
      llvm::Value* index = b.CreateCall(thread);
      llvm::Type* storage = elements.StorageType(type);
      llvm::Value* value = b.CreateLoad(storage, b.CreateInBoundsGEP(storage, kernel->getArg(0), index));
      const auto result = elements.Emit(**op, {elements.FromStorage(type, value)});
      b.CreateStore(elements.ToStorage(type, result), b.CreateInBoundsGEP(storage, kernel->getArg(1), index));
      b.CreateRetVoid();
    }
  }
  return elements.status();
}

absl::StatusOr<Image> LowerFunctions(const GpuTarget& target) {
  llvm::LLVMContext context;
  llvm::Module module("functions", context);
  if (absl::Status s = PrepareModule(module, target); !s.ok()) return s;
  if (absl::Status s = EmitFunctions(module, target); !s.ok()) return s;
  return Lower(module, target);
}

TEST(Emitters, LowerForAllTargets) {
  for (const std::string& name : ListGpuTargets()) {
    auto image = LowerFunctions(*FindGpuTarget(name));
    ASSERT_TRUE(image.ok()) << name << ": " << image.status();
    EXPECT_EQ(image->kernels.size(), std::size(kFunctions) * std::size(kTypes)) << name;
    for (const KernelResources& kernel : image->kernels) {
      EXPECT_LE(kernel.spilled_registers, 0) << name << ", " << kernel.name;
    }
  }
}

template <typename T>
void CheckOnHost(const LoadedImage& image, const char* type, double tolerance) {
  std::vector<T> x(128), y(128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(0.05 + 0.11 * static_cast<double>(i));
  struct {
    T *x, *y;
  } arguments{x.data(), y.data()};
  for (const Function& function : kFunctions) {
    const HostKernel* kernel = image.Find(absl::StrCat(function.name, "_", type));
    ASSERT_NE(kernel, nullptr) << function.name;
    EXPECT_EQ(RunBlocks(*kernel, arguments, 1), 0);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = function.expected(static_cast<double>(x[i]));
      ASSERT_NEAR(static_cast<double>(y[i]), expected, tolerance * (1e-3 + std::abs(expected)))
          << function.name << " of " << x[i];
    }
  }
}

TEST(Emitters, ComputeOnTheHost) {
  auto image = LowerFunctions(*FindGpuTarget("host"));
  ASSERT_TRUE(image.ok()) << image.status();
  auto loaded = LoadedImage::Load(image->bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  CheckOnHost<float>(*loaded, "f32", 1e-6);
  CheckOnHost<double>(*loaded, "f64", 1e-13);
}

}  // namespace
}  // namespace backplane::hip
