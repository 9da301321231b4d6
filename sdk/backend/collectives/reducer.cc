#include "sdk/backend/collectives/reducer.h"

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

constexpr int64_t kBlockElements = 1024;  // per call of a scalar program, and per f32 accumulator on the stack

template <bool kAdd, typename T>
T Apply(T a, T b) {
  return kAdd ? a + b : a * b;
}

// Reads every array once and keeps the accumulators in registers. Uses explicit vector types, because compilers do not
// vectorize a loop over pointers that may alias.
template <typename T, bool kAdd>
void ReduceArrays(void* out, absl::Span<const void* const> arrays, int64_t n) {
  using Vector [[gnu::vector_size(16)]] = T;
  constexpr int64_t kLanes = 16 / sizeof(T), kStep = 4 * kLanes;
  auto load = [](const void* array, int64_t i) {
    Vector v;
    std::memcpy(&v, static_cast<const T*>(array) + i, sizeof v);
    return v;
  };
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    Vector a = load(arrays[0], i), b = load(arrays[0], i + kLanes), c = load(arrays[0], i + 2 * kLanes),
           d = load(arrays[0], i + 3 * kLanes);
    for (const void* x : arrays.subspan(1)) {
      a = Apply<kAdd>(a, load(x, i));
      b = Apply<kAdd>(b, load(x, i + kLanes));
      c = Apply<kAdd>(c, load(x, i + 2 * kLanes));
      d = Apply<kAdd>(d, load(x, i + 3 * kLanes));
    }
    std::memcpy(to + i, &a, sizeof a);
    std::memcpy(to + i + kLanes, &b, sizeof b);
    std::memcpy(to + i + 2 * kLanes, &c, sizeof c);
    std::memcpy(to + i + 3 * kLanes, &d, sizeof d);
  }
  for (; i < n; ++i) {
    T sum = static_cast<const T*>(arrays[0])[i];
    for (const void* x : arrays.subspan(1)) sum = Apply<kAdd>(sum, static_cast<const T*>(x)[i]);
    to[i] = sum;
  }
}

// Reduces arrays of narrow floats. Accumulates in float, so that the result is rounded once and not once per array.
template <typename T, bool kAdd>
void ReduceInFloat(void* out, absl::Span<const void* const> arrays, int64_t n) {
  float sum[kBlockElements];
  for (int64_t first = 0; first < n; first += kBlockElements) {
    const int64_t count = std::min(kBlockElements, n - first);
    for (size_t k = 0; k < arrays.size(); ++k) {
      const T* from = static_cast<const T*>(arrays[k]) + first;
      for (int64_t i = 0; i < count; ++i) {
        const float x = static_cast<float>(from[i]);
        sum[i] = k == 0 ? x : Apply<kAdd>(sum[i], x);
      }
    }
    T* to = static_cast<T*>(out) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = T(sum[i]);
  }
}

// Returns the native loop for an operation and element type, or null. Signed integers use the unsigned loops, because
// their overflow must wrap. Integers narrower than 32 bits have no loop, because C++ promotes them to int.
void (*FindNativeLoop(Opcode op, PrimitiveType type))(void*, absl::Span<const void* const>, int64_t) {
  if (op != Opcode::kAdd && op != Opcode::kMultiply) return nullptr;
  const bool add = op == Opcode::kAdd;
  switch (type) {
    case PrimitiveType::kF32:
      return add ? &ReduceArrays<float, true> : &ReduceArrays<float, false>;
    case PrimitiveType::kBF16:
      return add ? &ReduceInFloat<bf16, true> : &ReduceInFloat<bf16, false>;
    case PrimitiveType::kF16:
      return add ? &ReduceInFloat<f16, true> : &ReduceInFloat<f16, false>;
    case PrimitiveType::kF64:
      return add ? &ReduceArrays<double, true> : &ReduceArrays<double, false>;
    case PrimitiveType::kS32:
    case PrimitiveType::kU32:
      return add ? &ReduceArrays<uint32_t, true> : &ReduceArrays<uint32_t, false>;
    case PrimitiveType::kS64:
    case PrimitiveType::kU64:
      return add ? &ReduceArrays<uint64_t, true> : &ReduceArrays<uint64_t, false>;
#define BACKPLANE_X(kType)                                              \
  case PrimitiveType::kType:                                            \
    return add ? &ReduceInFloat<NativeType<PrimitiveType::kType>, true> \
               : &ReduceInFloat<NativeType<PrimitiveType::kType>, false>;
      BACKPLANE_SMALL_FLOATS(BACKPLANE_X)
#undef BACKPLANE_X
    default:
      return nullptr;
  }
}

}  // namespace

Reducer::~Reducer() = default;
Reducer::Reducer(Reducer&&) = default;
Reducer& Reducer::operator=(Reducer&&) = default;

absl::StatusOr<Reducer> Reducer::Make(const Computation& computation, PrimitiveType type) {
  Reducer c;
  c.computation_ = &computation;
  c.type_ = type;
  const std::optional<Opcode> op = AsBinaryOp(computation);
  if (op) {
    c.loop_ = FindNativeLoop(*op, type);
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

absl::Status Reducer::Accumulate(void* acc, const void* x, int64_t n) const {
  const int64_t width = ByteWidth(type_);
  std::byte* a = static_cast<std::byte*>(acc);
  const std::byte* b = static_cast<const std::byte*>(x);
  if (program_ != nullptr) {
    ScalarMachine machine(*program_, std::min(n, kBlockElements));
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

absl::Status Reducer::Reduce(void* out, absl::Span<const void* const> arrays, int64_t n) const {
  if (loop_ != nullptr) {
    loop_(out, arrays, n);
    return absl::OkStatus();
  }
  const int64_t width = ByteWidth(type_);
  if (n > 0 && out != arrays[0]) std::memcpy(out, arrays[0], static_cast<size_t>(n * width));
  for (const void* x : arrays.subspan(1)) RETURN_IF_ERROR(Accumulate(out, x, n));
  return absl::OkStatus();
}

}  // namespace backplane
