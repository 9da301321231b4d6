#include "sdk/codegen/vector_math.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/subnormals.h"
#include "gtest/gtest.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine::jit {
namespace {

using backplane::codegen::MathFn;
using backplane::codegen::SetKernelAttributes;
using backplane::codegen::VectorMath;

using Real = long double;
using Reference = Real (*)(Real, Real);
using Kernel = void (*)(const void* x, const void* y, void* out, int64_t n);

struct Function {
  const char* name;
  MathFn fn;
  bool binary;
  Reference reference;
  double f32_ulps = 0, f64_ulps = 0;  // the greatest error allowed, of a function that promises none itself

  double AllowedUlps(bool f64) const {
    const auto promised = VectorMath::GetErrorBound(fn);
    return f64 ? (promised ? promised->f64 : f64_ulps) : (promised ? promised->f32 : f32_ulps);
  }
};

Real RoundAfz(Real x) { return roundl(x); }
Real Sign(Real x) { return std::isnan(x) || x == 0 ? x : copysignl(1, x); }
Real Maximum(Real x, Real y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }
Real Minimum(Real x, Real y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }

const Function kFunctions[] = {
    {"exp", MathFn::kExp, false, [](Real x, Real) { return expl(x); }},
    {"expm1", MathFn::kExpm1, false, [](Real x, Real) { return expm1l(x); }},
    {"exp2", MathFn::kExp2, false, [](Real x, Real) { return exp2l(x); }},
    {"log", MathFn::kLog, false, [](Real x, Real) { return logl(x); }},
    {"log1p", MathFn::kLog1p, false, [](Real x, Real) { return log1pl(x); }},
    {"log2", MathFn::kLog2, false, [](Real x, Real) { return log2l(x); }},
    {"tanh", MathFn::kTanh, false, [](Real x, Real) { return tanhl(x); }},
    {"sin", MathFn::kSin, false, [](Real x, Real) { return sinl(x); }},
    {"cos", MathFn::kCos, false, [](Real x, Real) { return cosl(x); }},
    {"tan", MathFn::kTan, false, [](Real x, Real) { return tanl(x); }},
    {"sinh", MathFn::kSinh, false, [](Real x, Real) { return sinhl(x); }},
    {"cosh", MathFn::kCosh, false, [](Real x, Real) { return coshl(x); }},
    {"erf", MathFn::kErf, false, [](Real x, Real) { return erfl(x); }},
    {"logistic", MathFn::kLogistic, false, [](Real x, Real) { return 1 / (1 + expl(-x)); }},
    {"sqrt", MathFn::kSqrt, false, [](Real x, Real) { return sqrtl(x); }},
    {"rsqrt", MathFn::kRsqrt, false, [](Real x, Real) { return 1 / sqrtl(x); }},
    {"cbrt", MathFn::kCbrt, false, [](Real x, Real) { return cbrtl(x); }},
    {"floor", MathFn::kFloor, false, [](Real x, Real) { return floorl(x); }, 0, 0},
    {"ceil", MathFn::kCeil, false, [](Real x, Real) { return ceill(x); }, 0, 0},
    {"trunc", MathFn::kTrunc, false, [](Real x, Real) { return truncl(x); }, 0, 0},
    {"round_even", MathFn::kRoundEven, false, [](Real x, Real) { return rintl(x); }, 0, 0},
    {"round_afz", MathFn::kRoundAfz, false, [](Real x, Real) { return RoundAfz(x); }, 0, 0},
    {"abs", MathFn::kAbs, false, [](Real x, Real) { return fabsl(x); }, 0, 0},
    {"negate", MathFn::kNegate, false, [](Real x, Real) { return -x; }, 0, 0},
    {"sign", MathFn::kSign, false, [](Real x, Real) { return Sign(x); }, 0, 0},
    {"pow", MathFn::kPow, true, [](Real x, Real y) { return powl(x, y); }, 1, 1.5},
    {"atan2", MathFn::kAtan2, true, [](Real x, Real y) { return atan2l(x, y); }, 1.5, 1.5},
    {"remainder", MathFn::kRemainder, true, [](Real x, Real y) { return fmodl(x, y); }, 0, 0},
    {"maximum", MathFn::kMaximum, true, [](Real x, Real y) { return Maximum(x, y); }, 0, 0},
    {"minimum", MathFn::kMinimum, true, [](Real x, Real y) { return Minimum(x, y); }, 0, 0},
    {"copysign", MathFn::kCopySign, true, [](Real x, Real y) { return copysignl(x, y); }, 0, 0},
    {"hypot", MathFn::kHypot, true, [](Real x, Real y) { return hypotl(x, y); }, 0.6, 1.5},
};

template <typename T>
struct Bits;
template <>
struct Bits<float> {
  using Type = uint32_t;
};
template <>
struct Bits<double> {
  using Type = uint64_t;
};

template <typename T>
T FromBits(typename Bits<T>::Type bits) {
  T x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// void f(const T* x, const T* y, T* out, i64 n), n a multiple of lanes (1: scalar code).
void EmitKernel(llvm::Module& module, const std::string& name, MathFn fn, bool binary, bool f64, int lanes,
                const HostInfo& host) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type* element = f64 ? b.getDoubleTy() : b.getFloatTy();
  llvm::Type* type = lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false),
      llvm::Function::ExternalLinkage, name, module);
  SetKernelAttributes(*function, host.target);
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* exit = llvm::BasicBlock::Create(context, "exit", function);
  b.SetInsertPoint(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  const llvm::Align align(f64 ? 8 : 4);
  llvm::Value* x = b.CreateAlignedLoad(type, b.CreateGEP(element, function->getArg(0), i), align);
  llvm::Value* y = binary ? b.CreateAlignedLoad(type, b.CreateGEP(element, function->getArg(1), i), align) : nullptr;
  VectorMath math(&module, &host.target);
  llvm::Value* r = math.Emit(b, fn, x, y);
  b.CreateAlignedStore(r, b.CreateGEP(element, function->getArg(2), i), align);
  llvm::Value* next = b.CreateAdd(i, b.getInt64(lanes));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, function->getArg(3)), loop, exit);
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
}

// All functions for one type, width and host.
class Library {
 public:
  Library(bool f64, int lanes, const HostInfo& host) {
    CompileOptions options;
    options.host = &host;
    options.verify = true;
    auto objects = CompileModules(
        1,
        [&](int, llvm::Module& module) {
          for (const Function& f : kFunctions)
            EmitKernel(module, absl::StrCat("k_", f.name), f.fn, f.binary, f64, lanes, host);
          return absl::OkStatus();
        },
        nullptr, options);
    EXPECT_TRUE(objects.ok()) << objects.status();
    auto library = CodeLibrary::Link(*objects);
    EXPECT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
  }
  Kernel operator[](const Function& f) const { return *library_->LookupFunction<Kernel>(absl::StrCat("k_", f.name)); }

 private:
  std::unique_ptr<CodeLibrary> library_;
};

template <typename T>
std::vector<T> Specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {0,
                      L::infinity(),
                      L::quiet_NaN(),
                      L::denorm_min(),
                      L::min(),
                      L::max(),
                      L::min() / 2,
                      T(1),
                      T(0.5),
                      T(2),
                      T(3),
                      T(1.5),
                      T(2.5),
                      T(4),
                      T(0.1),
                      T(10),
                      T(1) + L::epsilon(),
                      T(1) - L::epsilon() / 2,
                      T(0.49999997),
                      T(8388609),
                      T(4503599627370497.0),
                      T(1e30),
                      T(3.14159265358979),
                      T(1.5707963267948966),
                      T(100),
                      T(1e-10),
                      T(1e-30),
                      T(88.7228),
                      T(88.73),
                      T(709.78),
                      T(709.79),
                      T(104),
                      T(745.2),
                      T(5),
                      T(7),
                      T(1.0 / 3),
                      T(0.25),
                      T(0.75),
                      T(17),
                      T(20),
                      T(9.01)};
  const size_t count = v.size();
  for (size_t i = 0; i < count; ++i) v.push_back(-v[i]);
  return v;
}

struct Worst {
  double ulp = 0;
  double x = 0, y = 0, got = 0, want = 0;
};

// Distance from the exact value in units of the result's last place; negative: a special value is wrong.
template <typename T>
double UlpError(T got, Real want) {
  using L = std::numeric_limits<T>;
  if (std::isnan(want)) return std::isnan(got) ? 0 : -1;
  if (std::isnan(got)) return -1;
  const Real limit = static_cast<Real>(L::max()) * (1 + static_cast<Real>(L::epsilon()) / 4);
  if (std::isinf(got) || std::isinf(want) || fabsl(want) >= limit) {
    if (std::isinf(got) && fabsl(want) >= static_cast<Real>(L::max()) * (1 - 4 * static_cast<Real>(L::epsilon())))
      return std::signbit(got) == std::signbit(want) ? 0 : -1;
    if (!std::isinf(want) && std::isfinite(got) && fabsl(want) < limit * (1 + 4 * static_cast<Real>(L::epsilon())))
      return 1;
    return -1;
  }
  if (want == 0) return got == 0 ? 0 : std::fabs(got) / L::denorm_min();
  int exponent = ilogbl(want);
  exponent = std::max(exponent, L::min_exponent - 1);
  const Real ulp = ldexpl(1, exponent - L::digits + 1);
  return static_cast<double>(fabsl(static_cast<Real>(got) - want) / ulp);
}

template <typename T>
Worst Measure(const Function& f, Kernel kernel, const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<T> out(x.size());
  kernel(x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const Real want = f.reference(x[i], y[i]);
    double ulp = UlpError(out[i], want);
    // Exact zeros keep their sign where C says so.
    const bool zero_sign = want == 0 && out[i] == 0 && std::signbit(want) != std::signbit(out[i]) &&
                           f.fn != MathFn::kMaximum && f.fn != MathFn::kMinimum;
    if (ulp < 0 || zero_sign) ulp = 1e30;
    if (ulp > worst.ulp)
      worst = {ulp, static_cast<double>(x[i]), static_cast<double>(y[i]), static_cast<double>(out[i]),
               static_cast<double>(want)};
  }
  return worst;
}

template <typename T>
void CheckAllFunctions(const HostInfo& host, int lanes, int64_t count, const char* label, bool print) {
  Library library(sizeof(T) == 8, lanes, host);
  std::mt19937_64 rng(11);
  const std::vector<T> specials = Specials<T>();
  for (const Function& f : kFunctions) {
    std::vector<T> x, y;
    // Every pair of specials; then random bit patterns; then ordinary numbers.
    for (T a : specials) {
      for (T c : specials) {
        x.push_back(a);
        y.push_back(c);
      }
    }
    std::uniform_real_distribution<double> narrow(-2, 2), wide(-750, 750), middle(-30, 30);
    for (int64_t i = 0; i < count; ++i) {
      const int kind = f.binary ? i % 4 : i % 5;
      switch (kind) {
        case 0:
          x.push_back(FromBits<T>(static_cast<typename Bits<T>::Type>(rng())));
          y.push_back(FromBits<T>(static_cast<typename Bits<T>::Type>(rng())));
          break;
        case 1:
          x.push_back(static_cast<T>(narrow(rng)));
          y.push_back(static_cast<T>(middle(rng)));
          break;
        case 2:
          x.push_back(static_cast<T>(std::exp(middle(rng))));
          y.push_back(static_cast<T>(middle(rng)));
          break;
        case 3:
          x.push_back(static_cast<T>(middle(rng)));
          y.push_back(static_cast<T>(static_cast<int>(middle(rng))));
          break;
        default:
          x.push_back(static_cast<T>(wide(rng)));
          y.push_back(0);
          break;
      }
    }
    while (x.size() % lanes != 0) {
      x.push_back(1);
      y.push_back(1);
    }
    const Worst worst = Measure(f, library[f], x, y);
    const double allowed = f.AllowedUlps(sizeof(T) == 8);
    // Without a fused multiply-add everything loses a little.
    const double slack = host.target.has_fma ? 1.0 : 1.6;
    if (print) std::printf("%-10s %s: %.3f ulp at (%.9g, %.9g)\n", f.name, label, worst.ulp, worst.x, worst.y);
    EXPECT_LE(worst.ulp, allowed * slack)
        << f.name << " " << label << " lanes " << lanes << " at (" << absl::StrFormat("%.17g, %.17g", worst.x, worst.y)
        << "): got " << absl::StrFormat("%.17g, want %.17g", worst.got, worst.want);
  }
}

TEST(VectorMath, F32AgainstExact) {
  CheckAllFunctions<float>(Host(), 2 * Host().target.F32Lanes(), 1000000, "f32", true);
}
TEST(VectorMath, F64AgainstExact) {
  CheckAllFunctions<double>(Host(), 2 * Host().target.F64Lanes(), 600000, "f64", true);
}

// Programs run with subnormal results flushed to zero. No function may need them on its way to a normal result.
template <typename T>
void CheckFlushed(int lanes, int64_t count) {
  Library library(sizeof(T) == 8, lanes, Host());
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> middle(-30, 30), wide(-750, 750);
  for (const Function& f : kFunctions) {
    std::vector<T> x, y;
    for (T a : Specials<T>()) {
      for (T c : Specials<T>()) x.push_back(a), y.push_back(c);
    }
    for (int64_t i = 0; i < count; ++i) {
      x.push_back(i % 2 == 0 ? FromBits<T>(static_cast<typename Bits<T>::Type>(rng())) : static_cast<T>(wide(rng)));
      y.push_back(i % 3 == 0 ? FromBits<T>(static_cast<typename Bits<T>::Type>(rng())) : static_cast<T>(middle(rng)));
    }
    while (x.size() % lanes != 0) x.push_back(1), y.push_back(1);
    std::vector<T> kept(x.size()), flushed(x.size());
    library[f](x.data(), y.data(), kept.data(), static_cast<int64_t>(x.size()));
    {
      const ScopedSubnormals mode(Subnormals::kFlushResults);
      library[f](x.data(), y.data(), flushed.data(), static_cast<int64_t>(x.size()));
    }
    // The last place of a result may depend on the lowest of its parts.
    const double allowed = 2 * std::numeric_limits<T>::epsilon();
    for (size_t i = 0; i < x.size(); ++i) {
      if (kept[i] == flushed[i] || (std::isnan(kept[i]) && std::isnan(flushed[i]))) continue;
      const bool subnormal = std::fabs(kept[i]) < 2 * std::numeric_limits<T>::min();
      ASSERT_TRUE(subnormal ? std::fabs(flushed[i]) <= 2 * std::numeric_limits<T>::min()
                            : std::fabs(flushed[i] - kept[i]) <= allowed * std::fabs(kept[i]))
          << f.name
          << absl::StrFormat("(%.17g, %.17g): %.17g, with subnormal numbers %.17g", x[i], y[i], flushed[i], kept[i]);
    }
  }
}

TEST(VectorMath, FlushingChangesOnlySubnormalResults) {
  CheckFlushed<float>(2 * Host().target.F32Lanes(), 200000);
  CheckFlushed<double>(2 * Host().target.F64Lanes(), 200000);
}

TEST(VectorMath, ScalarsAndOddLengths) {
  for (int lanes : {1, 2, 3, 5, 8, 16, 24, 64}) {
    CheckAllFunctions<float>(Host(), lanes, 4000, "f32", false);
    CheckAllFunctions<double>(Host(), lanes, 4000, "f64", false);
  }
}

// Scalar code reduces no angle below pi/4, vectors reduce all.
template <typename T>
void CheckThatScalarAnglesHaveTheBitsOfVectors() {
  constexpr int kLanes = 8;
  Library scalars(sizeof(T) == 8, 1, Host()), vectors(sizeof(T) == 8, kLanes, Host());
  std::vector<T> x = Specials<T>();
  T above = static_cast<T>(0.78539816339744831), below = above;
  for (int i = 0; i < 100; ++i) {
    x.insert(x.end(), {above, -above, below, -below});
    above = std::nextafter(above, T(1));
    below = std::nextafter(below, T(0));
  }
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> angle(-3, 3);
  for (int i = 0; i < 4000; ++i) x.push_back(static_cast<T>(angle(rng) * std::exp2(static_cast<double>(i % 40 - 30))));
  while (x.size() % kLanes != 0) x.push_back(1);
  const auto count = static_cast<int64_t>(x.size());
  std::vector<T> one(x.size()), many(x.size());
  for (const Function& f : kFunctions) {
    if (f.fn != MathFn::kSin && f.fn != MathFn::kCos && f.fn != MathFn::kTan) continue;
    scalars[f](x.data(), x.data(), one.data(), count);
    vectors[f](x.data(), x.data(), many.data(), count);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), x.size() * sizeof(T)), 0) << f.name;
  }
}
TEST(VectorMath, ScalarAnglesHaveTheBitsOfVectors) {
  CheckThatScalarAnglesHaveTheBitsOfVectors<float>();
  CheckThatScalarAnglesHaveTheBitsOfVectors<double>();
}

TEST(VectorMath, NarrowerHosts) {
  for (int cap : {16, 32}) {
    HostInfo host = DetectHost(cap);
    if (cap == 16) host.target.has_rounding = false;  // as before SSE4.1
    for (int lanes : {1, host.target.F32Lanes(), 2 * host.target.F32Lanes()}) {
      CheckAllFunctions<float>(host, lanes, 100000, cap == 16 ? "f32, 16 bytes" : "f32, 32 bytes",
                               lanes > host.target.F32Lanes());
      CheckAllFunctions<double>(host, lanes, 60000, cap == 16 ? "f64, 16 bytes" : "f64, 32 bytes",
                                lanes > host.target.F32Lanes());
    }
  }
}

// Numbers next to multiples of pi/2, where a careless reduction loses everything.
TEST(VectorMath, TrigonometryNearMultiplesOfHalfPi) {
  Library f64(true, 16, Host()), f32(false, 32, Host());
  std::vector<double> x;
  std::vector<float> xf;
  for (int i = 1; i < 4096; ++i) {
    const long double multiple = i * 1.5707963267948966192313216916397514L;
    for (int scale : {0, 5, 14, 20}) {
      const double at = static_cast<double>(ldexpl(multiple, scale));
      for (double v : {at, std::nextafter(at, 0.0), std::nextafter(at, 1e300)}) x.push_back(v);
      const float atf = static_cast<float>(ldexpl(multiple, scale));
      for (float v : {atf, std::nextafterf(atf, 0.0f), std::nextafterf(atf, 1e30f)}) xf.push_back(v);
    }
  }
  // The double closest to a multiple of pi/2 in relative terms, and friends.
  for (double v : {6381956970095103.0 * 0x1p797, 0x1.6ac5b262ca1ffp+849, 1e22, 1e300, 1.7976931348623157e308})
    x.push_back(v);
  while (x.size() % 16) x.push_back(0.5);
  while (xf.size() % 32) xf.push_back(0.5f);
  for (const Function& f : kFunctions) {
    if (f.fn != MathFn::kSin && f.fn != MathFn::kCos && f.fn != MathFn::kTan) continue;
    const Worst w64 = Measure(f, f64[f], x, x), w32 = Measure(f, f32[f], xf, xf);
    EXPECT_LE(w64.ulp, f.AllowedUlps(true))
        << f.name << " f64 at " << absl::StrFormat("%.17g got %.17g want %.17g", w64.x, w64.got, w64.want);
    EXPECT_LE(w32.ulp, f.AllowedUlps(false))
        << f.name << " f32 at " << absl::StrFormat("%.17g got %.17g want %.17g", w32.x, w32.got, w32.want);
  }
}

// Remainders are exact: bit for bit the C library's, for quotients of every size, and for every element of a vector.
template <typename T>
void CheckRemainders(const HostInfo& host, int lanes, int count) {
  using B = typename Bits<T>::Type;
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  Library library(sizeof(T) == 8, lanes, host);
  const Function* function = nullptr;
  for (const Function& f : kFunctions) {
    if (f.fn == MathFn::kRemainder) function = &f;
  }
  std::mt19937_64 rng(17);
  std::vector<T> x, y;
  for (T a : Specials<T>()) {
    for (T c : Specials<T>()) x.push_back(a), y.push_back(c);
  }
  for (int i = 0; i < count; ++i) {
    const T a = FromBits<T>(static_cast<B>(rng()));
    T c = FromBits<T>(static_cast<B>(rng()));
    switch (i % 5) {
      case 1:  // subnormal divisors
        c = FromBits<T>(static_cast<B>(rng() & ((B{1} << kMantissa) - 1)));
        break;
      case 2:  // divisors of few digits, so that the remainder is often zero
        c = std::ldexp(static_cast<T>(rng() % 64), static_cast<int>(rng() % 120) - 60);
        break;
      case 3:  // quotients about the size at which the short way ends
        c = std::ldexp(a, -kMantissa - 4 + static_cast<int>(rng() % 8)) * (1 + static_cast<T>(rng() % 1024) / 1024);
        break;
      case 4:  // multiples
        c = a / static_cast<T>(rng() % 1000 + 1);
        break;
      default:
        break;
    }
    x.push_back(a), y.push_back(c);
  }
  while (x.size() % lanes != 0) x.push_back(1), y.push_back(1);
  std::vector<T> out(x.size());
  library[*function](x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
  int wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const T want = std::fmod(x[i], y[i]);
    const bool same = std::isnan(want) ? std::isnan(out[i]) : std::memcmp(&want, &out[i], sizeof(T)) == 0;
    if (!same && ++wrong < 4) {
      ADD_FAILURE() << absl::StrFormat("fmod(%.17g, %.17g) is %.17g, expected %.17g", x[i], y[i], out[i], want);
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << x.size() << ", lanes " << lanes;
}

TEST(VectorMath, RemaindersAreExact) {
  const HostInfo narrow = DetectHost(16);
  for (int lanes : {1, 3, 2 * Host().target.F32Lanes()}) {
    CheckRemainders<float>(Host(), lanes, 300000);
    CheckRemainders<float>(narrow, lanes, 100000);
  }
  for (int lanes : {1, 3, 2 * Host().target.F64Lanes()}) {
    CheckRemainders<double>(Host(), lanes, 150000);
    CheckRemainders<double>(narrow, lanes, 50000);
  }
}

// Angles of every size, all of them beyond the ordinary reduction.
template <typename T>
void CheckHugeAngles(const HostInfo& host, int lanes, int count) {
  Library library(sizeof(T) == 8, lanes, host);
  std::mt19937_64 rng(23);
  std::vector<T> x;
  const int most = std::numeric_limits<T>::max_exponent;
  while (static_cast<int>(x.size()) < count) {
    const T fraction = static_cast<T>(1) + static_cast<T>(static_cast<double>(rng() >> 11) * 0x1p-53);
    const T a = std::ldexp(fraction, 16 + static_cast<int>(rng() % (most - 17)));
    x.push_back(rng() % 2 == 0 ? a : -a);
  }
  while (x.size() % lanes != 0) x.push_back(static_cast<T>(0x1p30));
  for (const Function& f : kFunctions) {
    if (f.fn != MathFn::kSin && f.fn != MathFn::kCos && f.fn != MathFn::kTan) continue;
    const Worst worst = Measure(f, library[f], x, x);
    EXPECT_LE(worst.ulp, f.AllowedUlps(sizeof(T) == 8) * (host.target.has_fma ? 1.0 : 1.6))
        << f.name << " lanes " << lanes << " at " << absl::StrFormat("%.17g got %.17g", worst.x, worst.got);
  }
}

TEST(VectorMath, HugeAngles) {
  const HostInfo narrow = DetectHost(16);
  for (int lanes : {1, 5, 16}) {
    CheckHugeAngles<float>(Host(), lanes, 200000);
    CheckHugeAngles<float>(narrow, lanes, 50000);
    CheckHugeAngles<double>(Host(), lanes, 200000);
    CheckHugeAngles<double>(narrow, lanes, 50000);
  }
}

// --- conversions ------------------------------------------------------------------------------------------------

template <typename From, typename To>
std::vector<To> RunConversion(const HostInfo& host, int lanes, const std::vector<From>& in,
                              const std::function<llvm::Value*(llvm::IRBuilder<>&, VectorMath&, llvm::Value*)>& convert,
                              llvm::Type* (*from)(llvm::LLVMContext&)) {
  CompileOptions options;
  options.host = &host;
  options.verify = true;
  auto objects = CompileModules(
      1,
      [&](int, llvm::Module& module) {
        llvm::IRBuilder<> b(module.getContext());
        auto* function =
            llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false),
                                   llvm::Function::ExternalLinkage, "convert", module);
        SetKernelAttributes(*function, host.target);
        b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
        llvm::Type* element = from(module.getContext());
        llvm::Type* type = lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
        VectorMath math(&module, &host.target);
        b.CreateAlignedStore(convert(b, math, b.CreateAlignedLoad(type, function->getArg(0), llvm::Align(1))),
                             function->getArg(1), llvm::Align(1));
        b.CreateRetVoid();
        return absl::OkStatus();
      },
      nullptr, options);
  EXPECT_TRUE(objects.ok()) << objects.status();
  auto library = CodeLibrary::Link(*objects);
  EXPECT_TRUE(library.ok()) << library.status();
  const std::unique_ptr<CodeLibrary> code = *std::move(library);
  auto kernel = *code->LookupFunction<void (*)(const From*, To*)>("convert");
  std::vector<To> out(in.size());
  for (size_t i = 0; i + lanes <= in.size(); i += lanes) kernel(&in[i], &out[i]);
  return out;
}

uint16_t ToBf16(double x) {
  if (std::isnan(x)) return 0x7fc0;
  // Straight from the definition: the nearest of the neighbours, ties to even.
  float f = static_cast<float>(x);
  if (std::fabs(static_cast<double>(f)) > std::fabs(x)) f = std::nextafterf(f, 0.0f);  // towards zero
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint16_t low = bits >> 16;
  auto value = [](uint16_t b) {
    const uint32_t w = uint32_t{b} << 16;
    float v;
    std::memcpy(&v, &w, 4);
    return static_cast<double>(v);
  };
  if (std::isinf(x)) return low;
  const double below = std::fabs(value(low)), above = (low & 0x7fff) == 0x7f7f ? 0x1p128 : std::fabs(value(low + 1));
  const double to_below = std::fabs(x) - below, to_above = above - std::fabs(x);
  if (to_below < to_above || (to_below == to_above && (low & 1) == 0)) return low;
  return low + 1;
}

TEST(VectorMath, FloatConversions) {
  std::mt19937_64 rng(5);
  std::vector<float> f32;
  std::vector<double> f64;
  for (float s : Specials<float>()) f32.push_back(s);
  for (double s : Specials<double>()) f64.push_back(s);
  for (int i = 0; i < 20000; ++i) {
    f32.push_back(FromBits<float>(static_cast<uint32_t>(rng())));
    // Ties and near ties for the narrow formats.
    const double base = static_cast<double>(FromBits<float>(static_cast<uint32_t>(rng()) & 0xffff8000u));
    f64.push_back(base * (1 + (static_cast<int>(rng() % 3) - 1) * 0x1p-40));
    f64.push_back(static_cast<double>(static_cast<_Float16>(static_cast<float>(rng() % 4096) / 7)) * (1 + 0x1p-11) *
                  (1 + (static_cast<int>(rng() % 3) - 1) * 0x1p-45));
  }
  while (f32.size() % 16) f32.push_back(1);
  while (f64.size() % 16) f64.push_back(1);
  for (int cap : {16, 32, 64}) {
    const HostInfo host = DetectHost(cap);
    for (int lanes : {1, 16}) {
      auto to = [](llvm::Type* (*type)(llvm::LLVMContext&)) {
        return [type](llvm::IRBuilder<>& b, VectorMath& m, llvm::Value* x) {
          return m.ConvertFloat(b, x, type(b.getContext()));
        };
      };
      auto bf = RunConversion<float, uint16_t>(host, lanes, f32, to(&llvm::Type::getBFloatTy), &llvm::Type::getFloatTy);
      for (size_t i = 0; i < f32.size(); ++i) {
        if (std::isnan(f32[i])) {
          EXPECT_GT(bf[i] & 0x7fff, 0x7f80);
        } else {
          ASSERT_EQ(bf[i], ToBf16(f32[i])) << f32[i] << " cap " << cap;
        }
      }
      auto bd =
          RunConversion<double, uint16_t>(host, lanes, f64, to(&llvm::Type::getBFloatTy), &llvm::Type::getDoubleTy);
      auto hd = RunConversion<double, _Float16>(host, lanes, f64, to(&llvm::Type::getHalfTy), &llvm::Type::getDoubleTy);
      for (size_t i = 0; i < f64.size(); ++i) {
        if (std::isnan(f64[i])) {
          EXPECT_GT(bd[i] & 0x7fff, 0x7f80);
          EXPECT_NE(hd[i], hd[i]);
          continue;
        }
        ASSERT_EQ(bd[i], ToBf16(f64[i])) << absl::StrFormat("%a", f64[i]) << " cap " << cap;
        ASSERT_EQ(static_cast<double>(hd[i]), static_cast<double>(static_cast<_Float16>(f64[i])))
            << absl::StrFormat("%a", f64[i]) << " cap " << cap;
      }
      auto h = RunConversion<float, _Float16>(host, lanes, f32, to(&llvm::Type::getHalfTy), &llvm::Type::getFloatTy);
      auto back = RunConversion<_Float16, float>(host, lanes, h, to(&llvm::Type::getFloatTy), &llvm::Type::getHalfTy);
      auto bf_back =
          RunConversion<uint16_t, double>(host, lanes, bf, to(&llvm::Type::getDoubleTy), &llvm::Type::getBFloatTy);
      for (size_t i = 0; i < f32.size(); ++i) {
        const _Float16 want = static_cast<_Float16>(f32[i]);
        if (std::isnan(f32[i])) continue;
        ASSERT_EQ(std::memcmp(&h[i], &want, 2), 0) << f32[i];
        ASSERT_EQ(back[i], static_cast<float>(h[i]));
        ASSERT_EQ(bf_back[i], static_cast<double>(FromBits<float>(uint32_t{bf[i]} << 16)));
      }
    }
  }
}

// f16 and bf16 are computed in f32 and rounded: one short function, a called one, a bit operation.
TEST(VectorMath, NarrowFloats) {
  for (int cap : {16, 32, 64}) {
    const HostInfo host = DetectHost(cap);
    for (const Function& f : kFunctions) {
      if (f.fn != MathFn::kTanh && f.fn != MathFn::kSin && f.fn != MathFn::kNegate && f.fn != MathFn::kAbs) continue;
      std::vector<uint16_t> in;
      for (int i = 0; i < 65536; i += 17) in.push_back(static_cast<uint16_t>(i));
      while (in.size() % 16) in.push_back(0);
      auto emit = [&](llvm::IRBuilder<>& b, VectorMath& m, llvm::Value* x) { return m.Emit(b, f.fn, x); };
      auto bf = RunConversion<uint16_t, uint16_t>(host, 16, in, emit, &llvm::Type::getBFloatTy);
      auto half = RunConversion<uint16_t, _Float16>(host, 16, in, emit, &llvm::Type::getHalfTy);
      for (size_t i = 0; i < in.size(); ++i) {
        const double wide = f.reference(FromBits<float>(uint32_t{in[i]} << 16), 0);
        const double got = FromBits<float>(uint32_t{bf[i]} << 16);
        // Half a unit of the narrow type, and a little of f32's own error.
        if (std::isnan(wide))
          EXPECT_TRUE(std::isnan(got));
        else if (std::isinf(wide))
          EXPECT_EQ(got, wide);
        else
          EXPECT_NEAR(got, wide, std::fabs(wide) * 0x1.02p-8 + 0x1.02p-134) << f.name << " bf16 " << in[i];
        _Float16 x;
        std::memcpy(&x, &in[i], 2);
        const double wide_half = f.reference(static_cast<float>(x), 0), got_half = static_cast<double>(half[i]);
        if (std::isnan(wide_half))
          EXPECT_TRUE(std::isnan(got_half));
        else if (std::isinf(wide_half))
          EXPECT_EQ(got_half, wide_half);
        else
          EXPECT_NEAR(got_half, wide_half, std::fabs(wide_half) * 0x1.02p-11 + 0x1p-25) << f.name << " f16 " << in[i];
      }
    }
  }
}

template <typename F, typename N>
void CheckToInt(const HostInfo& host, int lanes, const std::vector<F>& in) {
  auto got = RunConversion<F, N>(
      host, lanes, in,
      [](llvm::IRBuilder<>& b, VectorMath& m, llvm::Value* x) {
        return m.FloatToInt(b, x, b.getIntNTy(sizeof(N) * 8), std::numeric_limits<N>::is_signed);
      },
      sizeof(F) == 8 ? &llvm::Type::getDoubleTy : &llvm::Type::getFloatTy);
  for (size_t i = 0; i < in.size(); ++i) {
    const Real x = truncl(in[i]);
    N want;
    if (std::isnan(in[i]))
      want = 0;
    else if (x >= static_cast<Real>(std::numeric_limits<N>::max()))
      want = std::numeric_limits<N>::max();
    else if (x <= static_cast<Real>(std::numeric_limits<N>::min()))
      want = std::numeric_limits<N>::min();
    else
      want = static_cast<N>(x);
    ASSERT_EQ(got[i], want) << static_cast<double>(in[i]) << " to " << sizeof(N) * 8
                            << (std::numeric_limits<N>::is_signed ? " signed" : " unsigned");
  }
}

TEST(VectorMath, FloatToIntSaturates) {
  std::mt19937_64 rng(9);
  std::vector<float> f32 = Specials<float>();
  std::vector<double> f64 = Specials<double>();
  for (int e = 0; e < 70; ++e) {
    for (double d : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
      for (int sign : {-1, 1}) {
        f32.push_back(static_cast<float>(sign * std::ldexp(1.0, e) + d));
        f64.push_back(sign * std::ldexp(1.0, e) + d);
      }
    }
    f32.push_back(std::nextafterf(std::ldexp(1.0f, e), 0));
    f64.push_back(std::nextafter(std::ldexp(1.0, e), 0));
  }
  while (f32.size() % 16) f32.push_back(1);
  while (f64.size() % 16) f64.push_back(1);
  for (int cap : {16, 32, 64}) {
    const HostInfo host = DetectHost(cap);
    for (int lanes : {1, 16}) {
      CheckToInt<float, int8_t>(host, lanes, f32);
      CheckToInt<float, uint8_t>(host, lanes, f32);
      CheckToInt<float, int16_t>(host, lanes, f32);
      CheckToInt<float, int32_t>(host, lanes, f32);
      CheckToInt<float, uint32_t>(host, lanes, f32);
      CheckToInt<float, int64_t>(host, lanes, f32);
      CheckToInt<float, uint64_t>(host, lanes, f32);
      CheckToInt<double, int16_t>(host, lanes, f64);
      CheckToInt<double, int32_t>(host, lanes, f64);
      CheckToInt<double, uint32_t>(host, lanes, f64);
      CheckToInt<double, int64_t>(host, lanes, f64);
      CheckToInt<double, uint64_t>(host, lanes, f64);
    }
  }
}

TEST(VectorMath, Speed) {
  if (std::getenv("BACKPLANE_MEASURE") == nullptr) GTEST_SKIP() << "set BACKPLANE_MEASURE to measure";
  auto measure = [](auto zero, const char* label) {
    using T = decltype(zero);
    const int lanes = 2 * Host().target.vector_bytes / static_cast<int>(sizeof(T));
    Library library(sizeof(T) == 8, lanes, Host());
    std::mt19937_64 rng(3);
    std::uniform_real_distribution<double> uniform(0.1, 5);
    std::vector<T> x(2048), y(2048), out(2048);
    for (auto* v : {&x, &y})
      for (T& a : *v) a = static_cast<T>(uniform(rng));
    for (const Function& f : kFunctions) {
      double best = 1e30;
      const Kernel kernel = library[f];
      for (int rep = 0; rep < 200; ++rep) {
        const auto start = std::chrono::steady_clock::now();
        kernel(x.data(), y.data(), out.data(), 2048);
        best = std::min(
            best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 2048);
      }
      // And what one use of it costs to compile, in a module of its own.
      const HostInfo& host = Host();
      double compile = 1e30;
      for (int rep = 0; rep < 5; ++rep) {
        auto emit = [&](int, llvm::Module& m) {
          EmitKernel(m, "alone", f.fn, f.binary, sizeof(T) == 8, lanes, host);
          return absl::OkStatus();
        };
        auto objects = CompileModules(1, emit, nullptr);
        ASSERT_TRUE(objects.ok());
        compile = std::min(compile, (*objects)[0].codegen_ms);
      }
      std::printf("%-10s %s %.3f ns an element, %.2f ms to compile\n", f.name, label, best, compile);
    }
  };
  measure(0.0f, "f32");
  measure(0.0, "f64");
}

}  // namespace
}  // namespace backplane::engine::jit
