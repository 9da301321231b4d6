// Products by libraries that are emulated (plugins/hip/libraries/testing): they are used where they are right and fast,
// and dropped where they fail. In each test Close expects an empty report of the emulated runtime.
#include <dlfcn.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/numeric.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/product_comparison.h"
#include "plugins/hip/backend/test_operands.h"
#include "plugins/hip/backend/testing/client_testing.h"
#include "plugins/hip/libraries/testing/emulated_blas.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip {
namespace {

using emulated_blas::Mode;
using ::testing::HasSubstr;
using ::testing::Not;

// f32[3,600], f32[600,5]: a product that is faster without tiles of 64 x 64 elements.
constexpr char kThin[] = R"(HloModule thin
ENTRY main {
  x = f32[3,600] parameter(0)
  y = f32[600,5] parameter(1)
  ROOT r = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
// The same product, and an operation behind it that becomes a part of the kernel.
constexpr char kThinAndMore[] = R"(HloModule thin_and_more
ENTRY main {
  x = f32[3,600] parameter(0)
  y = f32[600,5] parameter(1)
  d = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[3,5] negate(d)
})";

std::string WithTypes(absl::string_view type, absl::string_view out) {
  return absl::StrCat("HloModule typed\nENTRY main {\n  x = f32[3,600] parameter(0)\n  y = f32[600,5] parameter(1)\n",
                      "  a = ", type, "[3,600] convert(x)\n  b = ", type, "[600,5] convert(y)\n  ROOT d = ", out,
                      "[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}");
}

class ProductTunerTest : public ClientTest {
 protected:
  void OpenWith(const std::string& library, const Variables& variables = {}) {
    executables_.clear();
    product_library_ = library;
    blas_ = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    SetMode(Mode::kRight);
    Open(variables, 0);
  }
  void TearDown() override {
    SetMode(Mode::kRight);
    ClientTest::TearDown();
  }
  template <typename Function>
  Function Blas(const char* name) {
    return blas_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(blas_, name));
  }
  void SetMode(Mode mode) {
    if (const auto set = Blas<emulated_blas::SetMode>("emulatedBlasSetMode"); set != nullptr) set(mode);
  }
  void SetLibraryFault(int64_t n) { Blas<emulated_blas::SetFault>("emulatedBlasSetFault")(n); }
  int64_t LibraryCalls(const char* function) {
    return Blas<emulated_blas::CallCount>("emulatedBlasCallCount")(function);
  }

  // Returns the program as if it had been compiled for this client: each client has one with a log of its own.
  std::shared_ptr<Executable> Compiled(const std::string& text) {
    std::shared_ptr<Executable>& executable = executables_[text];
    if (executable != nullptr) return executable;
    std::string& stored = stored_[text];
    if (stored.empty()) {
      absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram("hlo", text);
      EXPECT_TRUE(module.ok()) << module.status();
      stored = *(*CompileForGpu(*std::move(module), "host", {}, calls_))->Serialize();
    }
    return executable = *DeserializeForGpu(stored, "host", calls_);
  }
  std::unique_ptr<LoadedExecutable> LoadFresh(const std::string& text, std::vector<int32_t> devices = {}) {
    LoadOptions options;
    options.device_assignment = std::move(devices);
    return *client_->Load(Compiled(text), options);
  }
  std::string Log(const std::string& text) { return Compiled(text)->compile_log(); }

  // Elements that a right kernel and a right library sum to the same bits, and their product.
  static std::vector<float> Left() { return Numbers(3 * 600, 1, 7); }
  static std::vector<float> Right() { return Numbers(600 * 5, 2, 5); }
  static std::vector<float> Product() {
    std::vector<float> out(15, 0.0f);
    const std::vector<float> x = Left(), y = Right();
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 5; ++j) {
        for (size_t p = 0; p < 600; ++p) out[i * 5 + j] += x[i * 600 + p] * y[p * 5 + j];
      }
    }
    return out;
  }
  // Loads and runs the program and expects the product. Returns the log.
  std::string RunThin(int32_t device = 0) {
    const auto program = LoadFresh(kThin);
    const DeviceArray x = Put(Left(), {3, 600}, 2 * device), y = Put(Right(), {600, 5}, 2 * device);
    EXPECT_EQ(Get(Run(*program, {x, y}, device)), Product());
    return Log(kThin);
  }
  absl::Status TryThin(LoadedExecutable& program) {
    const DeviceArray x = Put(Left(), {3, 600}), y = Put(Right(), {600, 5});
    absl::StatusOr<ExecuteResult> result = TryRun(program, {x, y});
    if (!result.ok()) return result.status();
    std::vector<float> values;
    const absl::Status fetched = Fetch(result->outputs[0], &values).Await();
    const absl::Status done = result->done.Await();
    RETURN_IF_ERROR(fetched);
    EXPECT_EQ(values, Product());
    return done;
  }

  void* blas_ = nullptr;
  std::map<std::string, std::string> stored_;
  std::map<std::string, std::shared_ptr<Executable>> executables_;
};

TEST_F(ProductTunerTest, ALibraryThatIsRightAndFasterIsUsed) {
  for (const auto& [library, gemm] : {std::pair(EMULATED_ROCBLAS, "rocblas_gemm_strided_batched_ex"),
                                      std::pair(EMULATED_CUBLAS, "cublasGemmStridedBatchedEx")}) {
    OpenWith(library);
    const std::string log = RunThin();
    EXPECT_THAT(log, HasSubstr("are compared with those by kernels"));
    EXPECT_THAT(log, HasSubstr("computes it\n"));
    EXPECT_THAT(log, Not(HasSubstr("the kernel computes it")));
    // Later runs make no comparison and no handle.
    auto program = LoadFresh(kThin);
    ASSERT_TRUE(TryThin(*program).ok());
    const int64_t kernels = Calls("hipModuleLaunchKernel"), products = LibraryCalls(gemm), all = LibraryCalls(nullptr);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(TryThin(*program).ok());
    EXPECT_EQ(LibraryCalls(gemm), products + 3);
    EXPECT_EQ(LibraryCalls(nullptr), all + 3);
    EXPECT_EQ(Calls("hipModuleLaunchKernel"), kernels + 3);  // those of the library
    program.reset();
    Close();
  }
}

// Of the three algorithms of these libraries the first is slow and the third wrong.
TEST_F(ProductTunerTest, TheBestAlgorithmIsUsed) {
  for (const auto& [library, matmul] :
       {std::pair(EMULATED_HIPBLASLT, "hipblasLtMatmul"), std::pair(EMULATED_CUBLASLT, "cublasLtMatmul")}) {
    OpenWith(library);
    const std::string log = RunThin();
    EXPECT_THAT(log, HasSubstr(" by algorithm 2 computes it"));
    EXPECT_THAT(log, HasSubstr(" by algorithm 3 is dropped: its result differs in element 14"));
    EXPECT_THAT(log, Not(HasSubstr("algorithm 4")));
    const int64_t products = LibraryCalls(matmul), all = LibraryCalls(nullptr);
    (void)RunThin();
    EXPECT_EQ(LibraryCalls(matmul), products + 1);
    EXPECT_EQ(LibraryCalls(nullptr), all + 1);
    Close();
    EXPECT_EQ(Blas<emulated_blas::LiveObjects>("emulatedBlasLiveObjects")(), 0);
  }
}

TEST_F(ProductTunerTest, WhatIsWrongOrSlowIsDropped) {
  const std::pair<Mode, const char*> modes[] = {
      {Mode::kWrong, "its result differs in element 14"},      {Mode::kRounded, "its result differs in element 0"},
      {Mode::kReadsResult, "its result differs in element 0"}, {Mode::kUnordered, "two runs differ"},
      {Mode::kBeyond, "it writes beyond the result"},          {Mode::kSlow, "the kernel computes it"}};
  for (const auto& [mode, why] : modes) {
    OpenWith(EMULATED_ROCBLAS);
    SetMode(mode);
    const std::string log = RunThin();
    EXPECT_THAT(log, HasSubstr(why));
    EXPECT_THAT(log, HasSubstr("the kernel computes it"));
    SetMode(Mode::kRight);
    const int64_t calls = LibraryCalls(nullptr);
    (void)RunThin();  // the choice is kept
    EXPECT_EQ(LibraryCalls(nullptr), calls);
    Close();
  }
}

// Each type: a library that keeps operands or sums in fewer bits is dropped, one that does not is used.
TEST_F(ProductTunerTest, EveryTypeIsComparedExactly) {
  const std::pair<const char*, const char*> types[] = {
      {"f32", "f32"}, {"f64", "f64"}, {"f16", "f16"}, {"f16", "f32"}, {"bf16", "bf16"}, {"bf16", "f32"}, {"s8", "s32"}};
  for (const char* library : {EMULATED_ROCBLAS, EMULATED_CUBLAS, EMULATED_HIPBLASLT, EMULATED_CUBLASLT}) {
    for (const auto& [type, out] : types) {
      SCOPED_TRACE(absl::StrCat(library, " ", type, " -> ", out));
      const std::string text = WithTypes(type, out);
      for (const Mode mode : {Mode::kRight, Mode::kRounded}) {
        OpenWith(library);
        SetMode(mode);
        auto program = LoadFresh(text);
        (void)Run(*program, {Put(Left(), {3, 600}), Put(Right(), {600, 5})}).ready.Await();
        program.reset();
        const std::string log = Log(text);
        const bool rounds = mode == Mode::kRounded && std::string(type) != "s8";
        const bool is_lt = absl::StrContains(library, "lt.so");
        EXPECT_THAT(log, HasSubstr(absl::StrCat(is_lt ? " by algorithm 2" : ")",
                                                rounds ? " is dropped: its result differs" : " takes ")));
        Close();
      }
    }
  }
}

TEST_F(ProductTunerTest, OrdersOfOperandsAndBatches) {
  // {x, y, result, dot}: every order of the operands, and batches.
  struct Case {
    DimVector x, y;
    const char* dot;
  };
  const Case cases[] = {
      {{600, 3}, {600, 5}, "f32[3,5] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
      {{3, 600}, {5, 600}, "f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
      {{600, 3}, {5, 600}, "f32[3,5] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}"},
      {{2, 3, 300},
       {2, 300, 5},
       "f32[2,3,5] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
       "rhs_contracting_dims={1}"},
      {{2, 2, 3, 150},
       {2, 2, 150, 5},
       "f32[2,2,3,5] dot(x, y), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, "
       "rhs_contracting_dims={2}"},
      // Heads beside features, as in attention: the rows of a matrix are not neighbours.
      {{150, 4, 3},
       {150, 4, 5},
       "f32[4,3,5] dot(x, y), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={1}, "
       "rhs_contracting_dims={0}"},
  };
  for (const Case& c : cases) {
    const Shape x = MakeShape(c.x), y = MakeShape(c.y);
    const std::string text =
        absl::StrCat("HloModule m\nENTRY main {\n  x = ", x.WithoutLayout().ToString(),
                     " parameter(0)\n  y = ", y.WithoutLayout().ToString(), " parameter(1)\n  ROOT r = ", c.dot, "\n}");
    SCOPED_TRACE(text);
    const std::vector<float> left = Numbers(static_cast<size_t>(x.num_elements()), 1, 7),
                             right = Numbers(static_cast<size_t>(y.num_elements()), 2, 5);
    std::vector<std::vector<float>> results;
    for (const char* library : {"", EMULATED_ROCBLAS, EMULATED_CUBLASLT}) {
      OpenWith(library);
      auto program = LoadFresh(text);
      results.push_back(Get(Run(*program, {Put(left, c.x), Put(right, c.y)})));
      program.reset();
      const bool is_lt = std::string(library) == EMULATED_CUBLASLT;
      if (*library != 0) {
        EXPECT_THAT(Log(text), HasSubstr(is_lt ? "algorithm 2 takes " : ") takes "));
      }
      Close();
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST_F(ProductTunerTest, AKernelThatDoesMoreStays) {
  OpenWith(EMULATED_ROCBLAS);
  const auto program = LoadFresh(kThinAndMore);
  const int64_t before = LibraryCalls(nullptr);
  std::vector<float> want = Product();
  for (float& v : want) v = -v;
  EXPECT_EQ(Get(Run(*program, {Put(Left(), {3, 600}), Put(Right(), {600, 5})})), want);
  EXPECT_EQ(LibraryCalls(nullptr), before);
}

TEST_F(ProductTunerTest, DevicesOfAKindAndLaterProgramsShareAChoice) {
  OpenWith(EMULATED_ROCBLAS);
  EXPECT_THAT(RunThin(), HasSubstr("(5.0.emulated) computes it"));
  const int64_t handles = LibraryCalls("rocblas_create_handle"),
                products = LibraryCalls("rocblas_gemm_strided_batched_ex");
  (void)RunThin(1);
  EXPECT_EQ(LibraryCalls("rocblas_create_handle"), handles + 1);  // of the other device
  EXPECT_EQ(LibraryCalls("rocblas_gemm_strided_batched_ex"), products + 1);
}

// A program that is loaded for known devices is compared before its first launch.
TEST_F(ProductTunerTest, LoadingCompares) {
  OpenWith(EMULATED_ROCBLAS);
  const int64_t before = LibraryCalls("rocblas_gemm_strided_batched_ex");
  const auto program = LoadFresh(kThin, {1});
  EXPECT_THAT(Log(kThin), HasSubstr("(5.0.emulated) computes it"));
  const int64_t compared = LibraryCalls("rocblas_gemm_strided_batched_ex");
  EXPECT_GT(compared, before);
  const DeviceArray x = Put(Left(), {3, 600}, 2), y = Put(Right(), {600, 5}, 2);
  EXPECT_EQ(Get(Run(*program, {x, y}, 1)), Product());
  EXPECT_EQ(LibraryCalls("rocblas_gemm_strided_batched_ex"), compared + 1);
}

TEST_F(ProductTunerTest, LibrariesThatCannotBeUsed) {
  const std::pair<std::string, const char*> libraries[] = {
      {"/nowhere/librocblas.so.5", "not found"},
      {PARTIAL_ROCBLAS, "is not used: it lacks rocblas_destroy_handle, rocblas_set_stream, "},
      {HIPEMU_LIBRARY, "is not used: it has no function of a library for products"},
      {HIPEMU_HOST_KERNELS ".none", "not found"},
  };
  for (const auto& [library, why] : libraries) {
    OpenWith(library);
    const std::string log = RunThin();
    EXPECT_THAT(log, HasSubstr(why));
    Close();
  }
  OpenWith(EMULATED_CUBLAS, {{"EMULATED_CUBLAS_MAJOR", "10"}});
  EXPECT_THAT(RunThin(), HasSubstr("is not used: its version is 10.0 and must be at least 11.4"));
  Close();
  OpenWith("");
  EXPECT_THAT(RunThin(), Not(HasSubstr("librar")));
}

// A library that uses another runtime than the client is not used.
TEST_F(ProductTunerTest, ALibraryOfAnotherRuntime) {
  Open({}, 0);
  HipApi other = api_;
  other.hipModuleLaunchKernel = nullptr;
  const ProductLibraries found = OpenProductLibraries(other, EMULATED_ROCBLAS, "gfx942");
  EXPECT_TRUE(found.libraries.empty());
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_THAT(found.notes[0], HasSubstr("it uses another runtime than"));
}

TEST_F(ProductTunerTest, LittleMemoryLeavesTheKernel) {
  // The operands take more than a quarter of the memory.
  constexpr char kLarge[] = R"(HloModule large
ENTRY main {
  x = f32[512,512] parameter(0)
  y = f32[512,512] parameter(1)
  ROOT r = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
  OpenWith(EMULATED_ROCBLAS, {{"HIPEMU_MEMORY", "16000000"}});
  const auto program = LoadFresh(kLarge, {0});
  EXPECT_THAT(Log(kLarge), HasSubstr("test operands and results take 4194816 bytes, and may take 4000000"));
  EXPECT_THAT(Log(kLarge), HasSubstr("the kernel computes it"));
}

// Every call of the library fails once: the result is right or the launch reports an error, and nothing is left.
TEST_F(ProductTunerTest, EachLibraryCallMayFail) {
  for (const char* library : {EMULATED_ROCBLAS, EMULATED_CUBLAS, EMULATED_HIPBLASLT}) {
    OpenWith(library);
    int64_t before = LibraryCalls(nullptr);
    {
      const auto program = LoadFresh(kThin);
      ASSERT_TRUE(TryThin(*program).ok());
    }
    const int64_t calls = LibraryCalls(nullptr) - before;
    Close();
    EXPECT_GT(calls, 12);
    int errors = 0, kernels = 0;
    for (int64_t n = 1; n <= calls; ++n) {
      SCOPED_TRACE(absl::StrCat(library, " call ", n, " of ", calls));
      OpenWith(library);
      SetLibraryFault(n);
      {
        const auto program = LoadFresh(kThin);
        errors += TryThin(*program).ok() ? 0 : 1;
        SetLibraryFault(0);
        const absl::Status status = TryThin(*program);
        EXPECT_TRUE(status.ok()) << status;
      }
      const std::string log = Log(kThin);
      kernels += absl::StrContains(log, "the kernel computes it") || absl::StrContains(log, "kernels compute") ? 1 : 0;
      Close();
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_LE(errors, 3);           // of the first launch
    EXPECT_GT(kernels, calls / 2);  // while the product is compared
  }
}

// Every call of the runtime fails once while a program is loaded and compared.
TEST_F(ProductTunerTest, EachRuntimeCallMayFail) {
  constexpr const char* kCalls[] = {"hipMalloc",          "hipMemcpyHtoDAsync",  "hipMemcpyDtoHAsync",
                                    "hipMemcpyDtoDAsync", "hipMemsetD8Async",    "hipEventCreateWithFlags",
                                    "hipEventRecord",     "hipEventElapsedTime", "hipModuleLaunchKernel",
                                    "hipSetDevice",       "hipModuleLoadData",   "hipStreamSynchronize"};
  int errors = 0, tried = 0;
  for (const char* function : kCalls) {
    for (int64_t n = 1; n <= 24; n = n < 6 ? n + 1 : n * 2) {
      SCOPED_TRACE(absl::StrCat(function, " call ", n));
      OpenWith(EMULATED_ROCBLAS);
      (void)Compiled(kThin);
      SetFault(function, n);
      {
        const auto program = LoadFresh(kThin, {0});
        SetFault(function, 0);
        const absl::Status status = TryThin(*program);
        errors += status.ok() ? 0 : 1;
        ++tried;
      }
      if (absl::StrContains(function, "LoadData") && n == 2) {
        EXPECT_THAT(Log(kThin), HasSubstr("dropped: rocblas_create_handle returned status 5"));
      }
      Close();
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_EQ(errors, 0) << "of " << tried;
}

// ---- Parts.

TEST(TestOperands, SumsAreExactAndWide) {
  for (const PrimitiveType type :
       {PrimitiveType::kF16, PrimitiveType::kBF16, PrimitiveType::kF32, PrimitiveType::kF64}) {
    for (const int64_t k : {int64_t{1}, int64_t{17}, int64_t{4096}, int64_t{100'000}, int64_t{1'000'000}}) {
      SCOPED_TRACE(absl::StrCat(Name(type), " ", k));
      MatrixProduct p;
      p.type = type, p.k = k;
      p.sum_type = type == PrimitiveType::kF64 ? type : PrimitiveType::kF32;
      p.out_type = type;
      const int bits = CountWideBits(p);
      EXPECT_GE(bits, type == PrimitiveType::kF64   ? 40
                      : type == PrimitiveType::kF32 ? 12  // tf32 has 11
                      : type == PrimitiveType::kF16 ? 11
                                                    : 8);
      const std::string wide = MakeTestOperand(p, k, TestRole::kWide, 1),
                        narrow = MakeTestOperand(p, k, TestRole::kNarrow, 2);
      const auto read = [&](const std::string& bytes, int64_t i) -> double {
        const size_t at = static_cast<size_t>(i % kTestPeriod) * static_cast<size_t>(ByteWidth(type));
        if (type == PrimitiveType::kF64) {
          double v = 0;
          std::memcpy(&v, bytes.data() + at, sizeof v);
          return v;
        }
        if (type == PrimitiveType::kF32) {
          float v = 0;
          std::memcpy(&v, bytes.data() + at, sizeof v);
          return v;
        }
        uint16_t v = 0;
        std::memcpy(&v, bytes.data() + at, sizeof v);
        if (type == PrimitiveType::kF16) return HalfBitsToFloat(v);
        const uint32_t wider = uint32_t{v} << 16;
        float f = 0;
        std::memcpy(&f, &wider, sizeof f);
        return f;
      };
      // The sum of all terms, and so of any part of them, stays below the limit of the type of the sums.
      const double least = std::abs(read(wide, 0));
      const double unit = std::ldexp(1.0, std::ilogb(least) - bits + 1);
      double sum = 0, largest = 0;
      bool odd = true;
      for (int64_t i = 0; i < k; ++i) {
        const double w = read(wide, i) / unit;
        odd = odd && std::fmod(std::abs(w), 2) == 1;
        sum += w * read(narrow, i);
        largest = std::max(largest, std::abs(sum));
      }
      EXPECT_TRUE(odd);
      EXPECT_LT(largest, std::ldexp(1.0, type == PrimitiveType::kF64 ? 53 : type == PrimitiveType::kF32 ? 24 : 22));
      EXPECT_GT(largest, 0);
    }
  }
}

TEST(TestOperands, Differences) {
  const float a[] = {1, 0.0f, 3}, b[] = {1, -0.0f, 3}, c[] = {1, 0, 4}, d[] = {1, std::nanf(""), 3};
  const auto bytes = [](const float* x) { return absl::MakeConstSpan(reinterpret_cast<const char*>(x), 12); };
  EXPECT_EQ(FindDifference(PrimitiveType::kF32, bytes(a), bytes(b)), -1);
  EXPECT_EQ(FindDifference(PrimitiveType::kF32, bytes(a), bytes(c)), 2);
  EXPECT_EQ(FindDifference(PrimitiveType::kF32, bytes(d), bytes(d)), 1);
  EXPECT_EQ(FindDifference(PrimitiveType::kS32, bytes(a), bytes(b)), 1);
}

TEST(MatrixProducts, StridesThatLibrariesDoNotTake) {
  DotProblem p;
  p.lhs_type = p.rhs_type = p.out_type = PrimitiveType::kF32;
  p.m = 4, p.n = 5, p.k = 6;
  p.lhs_m_stride = 6, p.lhs_k_stride = 1, p.rhs_k_stride = 5, p.rhs_n_stride = 1, p.out_m_stride = 5,
  p.out_n_stride = 1;
  ASSERT_TRUE(AsMatrixProduct(p, false).has_value());
  EXPECT_EQ(AsMatrixProduct(p, false)->ToString(), "f32 -> f32, 1 x 5 x 4 x 6, right (5, 0) by left (6, 0) to (5, 0)");
  DotProblem other = p;
  other.lhs_m_stride = 12, other.lhs_k_stride = 2;  // neither is contiguous
  EXPECT_FALSE(AsMatrixProduct(other, false).has_value());
  other = p;
  other.lhs_type = other.rhs_type = PrimitiveType::kS8;  // sums of s8 in f32
  EXPECT_FALSE(AsMatrixProduct(other, false).has_value());
  other = p;
  other.batch = {{2, 100, 100, 20}, {3, 1000, 1000, 500}};  // two dimensions that are not one
  EXPECT_FALSE(AsMatrixProduct(other, false).has_value());
  other.batch = {{3, 48, 60, 40}, {2, 24, 30, 20}};
  ASSERT_TRUE(AsMatrixProduct(other, false).has_value());
  EXPECT_EQ(AsMatrixProduct(other, false)->batch, 6);
  EXPECT_EQ(AsMatrixProduct(other, false)->stride, 20);
  other = p;
  other.n = int64_t{1} << 32;
  other.rhs_k_stride = other.out_m_stride = other.n;
  EXPECT_FALSE(AsMatrixProduct(other, false).has_value());
}

TEST(VendorLibraries, KernelFilesOfAGpu) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / absl::StrCat("rocblas_files_", getpid());
  fs::create_directories(folder / "rocblas/4.3/library");
  std::ofstream(folder / "rocblas/4.3/library/TensileLibrary_lazy_gfx90a.dat") << "x";
  const auto has = [&](const char* architecture) {
    return HasKernelFiles(folder.string(), "rocblas", "ROCBLAS_TENSILE_LIBPATH", architecture);
  };
  EXPECT_TRUE(has("gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(has("gfx90"));
  EXPECT_FALSE(has("gfx1103"));
  setenv("ROCBLAS_TENSILE_LIBPATH", "/nowhere", 1);
  EXPECT_FALSE(has("gfx90a"));
  unsetenv("ROCBLAS_TENSILE_LIBPATH");
  fs::remove_all(folder);
}

TEST(Options, VendorLibraries) {
  EXPECT_TRUE(ParseOptions({})->vendor_libraries);
  EXPECT_FALSE(ParseOptions({{"vendor_libraries", std::string("off")}})->vendor_libraries);
  EXPECT_FALSE(ParseOptions({{"vendor_libraries", std::string("on")}}).ok());
  setenv("BACKPLANE_HIP_VENDOR_LIBRARIES", "off", 1);
  setenv("BACKPLANE_HIP_PRODUCT_LIBRARY", "/a/library.so", 1);
  EXPECT_FALSE(ParseOptions({})->vendor_libraries);
  EXPECT_EQ(ParseOptions({})->product_library, "/a/library.so");
  EXPECT_TRUE(ParseOptions({{"vendor_libraries", std::string("auto")}})->vendor_libraries);
  unsetenv("BACKPLANE_HIP_VENDOR_LIBRARIES");
  unsetenv("BACKPLANE_HIP_PRODUCT_LIBRARY");
}

}  // namespace
}  // namespace backplane::hip
