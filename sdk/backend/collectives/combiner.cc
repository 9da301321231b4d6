#include "sdk/backend/collectives/combiner.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/eval/scalar_compiler.h"
#include "core/types/numeric.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kLanes = 1024;

template <bool kAdd, typename T>
T Combine(T a, T b) {
  return kAdd ? a + b : a * b;
}

// Reads every array once and keeps what it adds up in registers: the compiler's vector types, because loops over
// pointers that might overlap stay scalar.
template <typename T, bool kAdd>
void FoldArrays(void* out, absl::Span<const void* const> arrays, int64_t n) {
  using Vector [[gnu::vector_size(16)]] = T;
  constexpr int64_t kLanesOf = 16 / sizeof(T), kStep = 4 * kLanesOf;
  auto load = [](const void* array, int64_t i) {
    Vector v;
    std::memcpy(&v, static_cast<const T*>(array) + i, sizeof v);
    return v;
  };
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    Vector a = load(arrays[0], i), b = load(arrays[0], i + kLanesOf), c = load(arrays[0], i + 2 * kLanesOf),
           d = load(arrays[0], i + 3 * kLanesOf);
    for (const void* x : arrays.subspan(1)) {
      a = Combine<kAdd>(a, load(x, i));
      b = Combine<kAdd>(b, load(x, i + kLanesOf));
      c = Combine<kAdd>(c, load(x, i + 2 * kLanesOf));
      d = Combine<kAdd>(d, load(x, i + 3 * kLanesOf));
    }
    std::memcpy(to + i, &a, sizeof a);
    std::memcpy(to + i + kLanesOf, &b, sizeof b);
    std::memcpy(to + i + 2 * kLanesOf, &c, sizeof c);
    std::memcpy(to + i + 3 * kLanesOf, &d, sizeof d);
  }
  for (; i < n; ++i) {
    T sum = static_cast<const T*>(arrays[0])[i];
    for (const void* x : arrays.subspan(1)) sum = Combine<kAdd>(sum, static_cast<const T*>(x)[i]);
    to[i] = sum;
  }
}

// Types of 16 bits: what all arrays add up to is rounded once, not after each array.
template <typename T, bool kAdd>
void FoldHalves(void* out, absl::Span<const void* const> arrays, int64_t n) {
  float sum[kLanes];
  for (int64_t first = 0; first < n; first += kLanes) {
    const int64_t count = std::min(kLanes, n - first);
    for (size_t k = 0; k < arrays.size(); ++k) {
      const T* from = static_cast<const T*>(arrays[k]) + first;
      for (int64_t i = 0; i < count; ++i) {
        const float x = static_cast<float>(from[i]);
        sum[i] = k == 0 ? x : Combine<kAdd>(sum[i], x);
      }
    }
    T* to = static_cast<T*>(out) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = T(sum[i]);
  }
}

// Integers wrap, so signed ones are added as unsigned. None narrower than 32 bits: C++ would widen them.
void (*SimpleLoop(Opcode op, PrimitiveType type))(void*, absl::Span<const void* const>, int64_t) {
  if (op != Opcode::kAdd && op != Opcode::kMultiply) return nullptr;
  const bool add = op == Opcode::kAdd;
  switch (type) {
    case PrimitiveType::kF32:
      return add ? &FoldArrays<float, true> : &FoldArrays<float, false>;
    case PrimitiveType::kBF16:
      return add ? &FoldHalves<bf16, true> : &FoldHalves<bf16, false>;
    case PrimitiveType::kF16:
      return add ? &FoldHalves<f16, true> : &FoldHalves<f16, false>;
    case PrimitiveType::kF64:
      return add ? &FoldArrays<double, true> : &FoldArrays<double, false>;
    case PrimitiveType::kS32:
    case PrimitiveType::kU32:
      return add ? &FoldArrays<uint32_t, true> : &FoldArrays<uint32_t, false>;
    case PrimitiveType::kS64:
    case PrimitiveType::kU64:
      return add ? &FoldArrays<uint64_t, true> : &FoldArrays<uint64_t, false>;
    default:
      return nullptr;
  }
}

}  // namespace

Combiner::~Combiner() = default;
Combiner::Combiner(Combiner&&) = default;
Combiner& Combiner::operator=(Combiner&&) = default;

absl::StatusOr<Combiner> Combiner::Make(const Computation& computation, PrimitiveType type) {
  Combiner c;
  c.computation_ = &computation;
  c.type_ = type;
  const std::optional<Opcode> op = AsBinaryOp(computation);
  if (op) {
    c.loop_ = SimpleLoop(*op, type);
    if (c.loop_ != nullptr) return c;
    const PrimitiveType types[] = {type, type};
    if (auto kernel = ElementwiseKernel::Make(*op, computation.root()->attrs(), types, type)) {
      c.program_ = std::make_unique<ScalarProgram>(std::vector<PrimitiveType>{type, type});
      const int in[] = {0, 1};
      c.program_->SetResults({c.program_->AddStep(*kernel, in, type)});
      return c;
    }
  }
  const bool fits = computation.parameters().size() == 2 && computation.root() != nullptr &&
                    computation.parameter(0)->shape().element_type() == type &&
                    computation.root()->shape().element_type() == type;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat(computation.name(), ": does not reduce values of type ", Name(type)));
  }
  c.program_ = CompileScalarProgram(computation);
  return c;
}

absl::Status Combiner::Run(void* acc, const void* x, int64_t n) const {
  const int64_t width = ByteWidth(type_);
  std::byte* a = static_cast<std::byte*>(acc);
  const std::byte* b = static_cast<const std::byte*>(x);
  if (program_ != nullptr) {
    ScalarMachine machine(*program_, std::min(n, kLanes));
    for (int64_t i = 0; i < n; i += machine.lanes()) {
      const int64_t count = std::min(machine.lanes(), n - i);
      machine.Bind(0, a + i * width);
      machine.Bind(1, b + i * width);
      machine.Run(count);
      std::memcpy(a + i * width, machine.result(0), static_cast<size_t>(count * width));
    }
    return absl::OkStatus();
  }
  const Shape scalar = Shape::Scalar(type_);
  for (int64_t i = 0; i < n; ++i) {
    const Literal left = Literal::Borrow(scalar, a + i * width), right = Literal::Borrow(scalar, b + i * width);
    const Literal* values[] = {&left, &right};
    ASSIGN_OR_RETURN(Literal z, EvaluateComputation(*computation_, values));
    std::memcpy(a + i * width, z.bytes(), static_cast<size_t>(width));
  }
  return absl::OkStatus();
}

absl::Status Combiner::Fold(void* out, absl::Span<const void* const> arrays, int64_t n) const {
  if (loop_ != nullptr) {
    loop_(out, arrays, n);
    return absl::OkStatus();
  }
  const int64_t width = ByteWidth(type_);
  if (n > 0 && out != arrays[0]) std::memcpy(out, arrays[0], static_cast<size_t>(n * width));
  for (const void* x : arrays.subspan(1)) RETURN_IF_ERROR(Run(out, x, n));
  return absl::OkStatus();
}

}  // namespace backplane
