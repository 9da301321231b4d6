#include "sdk/engine/jit/jit.h"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/vector_math.h"
#include "sdk/engine/jit/tool_support.h"
#include "sdk/engine/runtime/thread_pool.h"

extern "C" jit_descriptor __jit_debug_descriptor;  // of LLVM, by GDB's interface

namespace backplane::engine::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kernel = void (*)(const float*, float*);

// out[0..lanes) = in[0..lanes) * scale + offset, on one wide vector.
void EmitAxpb(llvm::Module& module, const std::string& name, double scale, double offset, const HostInfo& host) {
  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  backplane::codegen::SetKernelAttributes(*f, host.target);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", f));
  auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), 32);
  llvm::Value* x = b.CreateAlignedLoad(vector, f->getArg(0), llvm::Align(4));
  x = b.CreateFAdd(b.CreateFMul(x, llvm::ConstantFP::get(vector, scale)), llvm::ConstantFP::get(vector, offset));
  b.CreateAlignedStore(x, f->getArg(1), llvm::Align(4));
  b.CreateRetVoid();
}

void CheckAxpb(Kernel kernel, float scale, float offset) {
  float in[32], out[32];
  for (int i = 0; i < 32; ++i) in[i] = i - 7.5f;
  kernel(in, out);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[i] * scale + offset);
}

TEST(Host, IsPlausible) {
  const HostInfo& host = Host();
  EXPECT_FALSE(host.target.cpu.empty());
  EXPECT_THAT(host.target.triple, HasSubstr("linux"));
  EXPECT_TRUE(host.target.vector_bytes == 16 || host.target.vector_bytes == 32 || host.target.vector_bytes == 64);
  EXPECT_THAT(ComputeHostFingerprint(), HasSubstr(host.target.cpu));
  std::printf("host: %s, %d byte vectors, fp16 %d, vnni %d\n", host.target.cpu.c_str(), host.target.vector_bytes,
              host.has_avx512_fp16, host.has_avx512_vnni);
}

TEST(Host, CapHidesWideVectors) {
  const HostInfo narrow = DetectHost(32);
  EXPECT_LE(narrow.target.vector_bytes, 32);
  EXPECT_FALSE(narrow.target.has_avx512);
  const HostInfo sse = DetectHost(16);
  EXPECT_EQ(sse.target.vector_bytes, 16);
  EXPECT_FALSE(sse.target.has_fma || sse.has_f16c || sse.has_avx2);
}

TEST(Jit, CompilesManyModulesOnManyThreads) {
  ThreadPool::Options pool_options;
  pool_options.num_threads = 3;
  ThreadPool pool(pool_options);
  constexpr int kModules = 6, kPerModule = 5;
  CompileOptions options;
  options.verify = true;
  auto objects = CompileModules(
      kModules,
      [](int index, llvm::Module& module) {
        for (int k = 0; k < kPerModule; ++k) EmitAxpb(module, absl::StrCat("k", index, "_", k), index, k, Host());
        return absl::OkStatus();
      },
      &pool, options);
  ASSERT_TRUE(objects.ok()) << objects.status();
  auto library = CodeLibrary::Link(*objects);
  ASSERT_TRUE(library.ok()) << library.status();
  for (int m = 0; m < kModules; ++m) {
    for (int k = 0; k < kPerModule; ++k) {
      auto kernel = (*library)->LookupFunction<Kernel>(absl::StrCat("k", m, "_", k));
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      CheckAxpb(*kernel, m, k);
    }
  }
  EXPECT_GT((*library)->code_bytes(), kModules * kPerModule * 20);
}

TEST(Jit, ObjectsCanBeStoredAndLinkedAgain) {
  std::string stored;
  {
    auto objects = CompileModules(
        1,
        [](int, llvm::Module& m) {
          EmitAxpb(m, "stored", 3, 1, Host());
          return absl::OkStatus();
        },
        nullptr);
    ASSERT_TRUE(objects.ok());
    stored = (*objects)[0].bytes;
  }
  std::vector<ObjectCode> objects(1);
  objects[0].bytes = stored;
  auto library = CodeLibrary::Link(objects);
  ASSERT_TRUE(library.ok()) << library.status();
  CheckAxpb(*(*library)->LookupFunction<Kernel>("stored"), 3, 1);
}

// out[0..8) = sin(in), then the remainder of in by 3, of doubles.
void EmitMath(llvm::Module& module, const HostInfo& host) {
  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "math", module);
  backplane::codegen::SetKernelAttributes(*f, host.target);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", f));
  auto* vector = llvm::FixedVectorType::get(b.getDoubleTy(), 8);
  backplane::codegen::VectorMath math(&module, &host.target);
  llvm::Value* x = b.CreateAlignedLoad(vector, f->getArg(0), llvm::Align(8));
  b.CreateAlignedStore(math.Emit(b, codegen::MathFn::kSin, x), f->getArg(1), llvm::Align(8));
  llvm::Value* rest = math.Emit(b, codegen::MathFn::kRemainder, x, llvm::ConstantFP::get(vector, 3.0));
  b.CreateAlignedStore(rest, b.CreateGEP(vector, f->getArg(1), b.getInt64(1)), llvm::Align(8));
  b.CreateRetVoid();
}

TEST(Jit, SlowCasesOfMathAreLinkedOrBroughtAlongWithTheSameResults) {
  const double in[8] = {0.5, -3.0, 1e6, -1e22, 1e300, 0x1p1023, -0.0, std::numeric_limits<double>::infinity()};
  std::vector<std::array<double, 16>> results;
  std::vector<size_t> sizes;
  for (const bool links : {true, false}) {
    HostInfo host = Host();
    host.target.links_exact_math = links;
    CompileOptions options;
    options.host = &host;
    options.verify = true;
    auto objects = CompileModules(
        1,
        [&](int, llvm::Module& m) {
          EmitMath(m, host);
          return absl::OkStatus();
        },
        nullptr, options);
    ASSERT_TRUE(objects.ok()) << objects.status();
    sizes.push_back((*objects)[0].bytes.size());
    auto library = CodeLibrary::Link(*objects);
    ASSERT_TRUE(library.ok()) << library.status();
    auto run = (*library)->LookupFunction<void (*)(const double*, double*)>("math");
    ASSERT_TRUE(run.ok()) << run.status();
    (*run)(in, results.emplace_back().data());
  }
  EXPECT_LT(sizes[0], sizes[1]);
  EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), sizeof(results[0])), 0);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(results[0][i], std::sin(in[i]), 1e-15);
    EXPECT_EQ(results[0][8 + i], std::fmod(in[i], 3.0));
  }
  EXPECT_TRUE(std::isnan(results[0][7]) && std::isnan(results[0][15]));
}

TEST(Jit, ExactMathIsCompiledOnce) {
  auto first = CompileExactMath(), second = CompileExactMath();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  for (const absl::string_view name : codegen::kExactMathNames) EXPECT_TRUE((*first)->Lookup(name).ok()) << name;
  EXPECT_FALSE((*first)->Lookup("backplane.exact.nothing").ok());
}

TEST(Jit, NarrowHostsRunTheSameKernel) {
  for (int cap : {16, 32}) {
    const HostInfo host = DetectHost(cap);
    CompileOptions options;
    options.host = &host;
    std::string assembly;
    options.asm_dump = &assembly;
    auto objects = CompileModules(
        1,
        [&](int, llvm::Module& m) {
          EmitAxpb(m, "narrow", 2, 5, host);
          return absl::OkStatus();
        },
        nullptr, options);
    ASSERT_TRUE(objects.ok()) << objects.status();
    EXPECT_THAT(assembly, ::testing::Not(HasSubstr("zmm")));
    if (cap == 16) {
      EXPECT_THAT(assembly, ::testing::Not(HasSubstr("ymm")));
    }
  }
}

double Twice(double x) { return 2 * x; }

llvm::Function* EmitCaller(llvm::Module& module, const char* name, const char* callee) {
  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  backplane::codegen::SetKernelAttributes(*f, Host().target);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", f));
  b.CreateRet(b.CreateCall(module.getOrInsertFunction(callee, type), {f->getArg(0)}));
  return f;
}

TEST(Jit, ExternalAndDefaultSymbols) {
  auto objects = CompileModules(
      2,
      [](int index, llvm::Module& m) {
        if (index == 0) EmitCaller(m, "call_ours", "twice");
        if (index == 1) EmitCaller(m, "call_across", "call_ours");
        if (index == 1) {  // may become a call of memset
          llvm::IRBuilder<> b(m.getContext());
          auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
          auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "clear", m);
          b.SetInsertPoint(llvm::BasicBlock::Create(m.getContext(), "entry", f));
          b.CreateMemSet(f->getArg(0), b.getInt8(0), f->getArg(1), llvm::MaybeAlign());
          b.CreateRetVoid();
        }
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(objects.ok());
  auto library = CodeLibrary::Link(*objects, {{"twice", reinterpret_cast<const void*>(&Twice)}});
  ASSERT_TRUE(library.ok()) << library.status();
  using Fn = double (*)(double);
  EXPECT_EQ((*(*library)->LookupFunction<Fn>("call_ours"))(21.5), 43);
  EXPECT_EQ((*(*library)->LookupFunction<Fn>("call_across"))(4), 8);
  double cleared[] = {1, 2, 3};
  (*(*library)->LookupFunction<void (*)(void*, int64_t)>("clear"))(cleared, 16);
  EXPECT_THAT(cleared, ::testing::ElementsAre(0, 0, 3));
  EXPECT_FALSE((*library)->Lookup("no_such_function").ok());
}

TEST(Jit, ErrorsAreValues) {
  auto missing = CompileModules(
      1,
      [](int, llvm::Module& m) {
        EmitCaller(m, "f", "nowhere_defined");
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(missing.ok());
  auto library = CodeLibrary::Link(*missing);
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(std::string(library.status().message()), HasSubstr("nowhere_defined"));

  auto refused = CompileModules(
      3, [](int index, llvm::Module&) { return index == 1 ? absl::UnimplementedError("emit: no") : absl::OkStatus(); },
      nullptr);
  EXPECT_EQ(refused.status().message(), "emit: no");

  CompileOptions options;
  options.verify = true;
  auto invalid = CompileModules(
      1,
      [](int, llvm::Module& m) {
        auto* f = EmitCaller(m, "f", "floor");
        f->getEntryBlock().getTerminator()->eraseFromParent();
        return absl::OkStatus();
      },
      nullptr, options);
  EXPECT_EQ(invalid.status().code(), absl::StatusCode::kInternal);

  std::vector<ObjectCode> garbage(1);
  garbage[0].bytes = "not an object";
  EXPECT_FALSE(CodeLibrary::Link(garbage).ok());
}

TEST(Jit, WarmUpAndCompileTime) {
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(WarmUp().ok());
  const auto warm = std::chrono::steady_clock::now();
  auto objects = CompileModules(
      1,
      [](int, llvm::Module& m) {
        for (int k = 0; k < 50; ++k) EmitAxpb(m, absl::StrCat("t", k), k, 1, Host());
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(objects.ok());
  const auto& o = (*objects)[0];
  std::printf("warm-up %.2f ms; 50 kernels: emit %.2f, optimize %.2f, codegen %.2f ms, %zu object bytes\n",
              std::chrono::duration<double, std::milli>(warm - start).count(), o.emit_ms, o.optimize_ms, o.codegen_ms,
              o.bytes.size());
}

// A library with the function f, which is linked while the variable is set.
std::unique_ptr<CodeLibrary> LinkUnder(const char* variable) {
  auto objects = CompileModules(
      1,
      [](int, llvm::Module& m) {
        EmitAxpb(m, "f", 2, 1, Host());
        return absl::OkStatus();
      },
      nullptr);
  EXPECT_TRUE(objects.ok());
  setenv(variable, "1", 1);
  auto library = CodeLibrary::Link(*objects, {}, "jit_step");
  unsetenv(variable);
  EXPECT_TRUE(library.ok()) << library.status();
  return *std::move(library);
}

TEST(Tools, PerfFindsFunctions) {
  std::remove(PerfMapPath().c_str());
  const auto unseen = LinkUnder("BACKPLANE_OTHER");
  EXPECT_FALSE(std::ifstream(PerfMapPath()).good());
  const auto first = LinkUnder("BACKPLANE_PERF_MAP"), second = LinkUnder("BACKPLANE_PERF_MAP");
  std::ifstream file(PerfMapPath());
  std::vector<uint64_t> addresses;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uint64_t address = 0, size = 0;
    std::string name;
    words >> std::hex >> address >> size >> name;
    EXPECT_EQ(name, "jit_step.f") << line;
    EXPECT_GT(size, 0u) << line;
    addresses.push_back(address);
  }
  const auto address_of = [](const CodeLibrary& library) { return reinterpret_cast<uint64_t>(*library.Lookup("f")); };
  EXPECT_THAT(addresses, ElementsAre(address_of(*first), address_of(*second)));
  std::remove(PerfMapPath().c_str());
}

TEST(Tools, PerfMapFollowsNoLink) {
  const std::string target = absl::StrCat(PerfMapPath(), ".target");
  std::remove(PerfMapPath().c_str());
  ASSERT_EQ(symlink(target.c_str(), PerfMapPath().c_str()), 0);
  const auto library = LinkUnder("BACKPLANE_PERF_MAP");
  CheckAxpb(*library->LookupFunction<Kernel>("f"), 2, 1);
  EXPECT_FALSE(std::ifstream(target).good());
  std::remove(PerfMapPath().c_str());
}

// GDB reads this list of objects.
int CountObjectsForGdb() {
  int count = 0;
  for (const jit_code_entry* e = __jit_debug_descriptor.first_entry; e != nullptr; e = e->next_entry) {
    EXPECT_EQ(std::string(e->symfile_addr + 1, 3), "ELF");
    ++count;
  }
  return count;
}

TEST(Tools, GdbFindsObjects) {
  const int before = CountObjectsForGdb();
  const auto unseen = LinkUnder("BACKPLANE_OTHER");
  EXPECT_EQ(CountObjectsForGdb(), before);
  auto library = LinkUnder("BACKPLANE_GDB");
  EXPECT_EQ(CountObjectsForGdb(), before + 1);
  CheckAxpb(*library->LookupFunction<Kernel>("f"), 2, 1);
  library.reset();
  EXPECT_EQ(CountObjectsForGdb(), before);
}

TEST(Jit, ModuleCountFollowsThreads) {
  EXPECT_EQ(SuggestModuleCount(0, 2), 0);
  EXPECT_EQ(SuggestModuleCount(1, 2), 1);
  EXPECT_EQ(SuggestModuleCount(7, 2), 1);
  EXPECT_EQ(SuggestModuleCount(8, 2), 2);
  EXPECT_EQ(SuggestModuleCount(200, 2), 2);
}

}  // namespace
}  // namespace backplane::engine::jit
