#include "sdk/backend/collectives/combiner.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/eval/scalar_compiler.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kLanes = 1024;

template <typename T>
void Add(void* acc, const void* x, int64_t n) {
  T* a = static_cast<T*>(acc);
  const T* b = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; ++i) a[i] = a[i] + b[i];
}

template <typename T>
void Multiply(void* acc, const void* x, int64_t n) {
  T* a = static_cast<T*>(acc);
  const T* b = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; ++i) a[i] = a[i] * b[i];
}

// Integers wrap, so signed ones are added as unsigned. Nothing narrower than 32 bits: C++ would widen it.
void (*SimpleLoop(Opcode op, PrimitiveType type))(void*, const void*, int64_t) {
  if (op != Opcode::kAdd && op != Opcode::kMultiply) return nullptr;
  const bool add = op == Opcode::kAdd;
  switch (type) {
    case PrimitiveType::kF32:
      return add ? &Add<float> : &Multiply<float>;
    case PrimitiveType::kF64:
      return add ? &Add<double> : &Multiply<double>;
    case PrimitiveType::kS32:
    case PrimitiveType::kU32:
      return add ? &Add<uint32_t> : &Multiply<uint32_t>;
    case PrimitiveType::kS64:
    case PrimitiveType::kU64:
      return add ? &Add<uint64_t> : &Multiply<uint64_t>;
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
  if (loop_ != nullptr) {
    loop_(acc, x, n);
    return absl::OkStatus();
  }
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

}  // namespace backplane
