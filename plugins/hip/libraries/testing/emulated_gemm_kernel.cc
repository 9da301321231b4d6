// The kernel of the emulated libraries as a host image: a shared library that needs no other.
#include "plugins/hip/libraries/testing/emulated_gemm.h"
#include "plugins/hip/libraries/testing/emulated_numbers.h"
#include "plugins/hip/lowering/host_image.h"

namespace {

using backplane::hip::emulated_blas::GemmArguments;
using backplane::hip::emulated_blas::Mode;
using backplane::hip::emulated_blas::Type;
using backplane::hip::emulated_numbers::BitsOfFloat;
using backplane::hip::emulated_numbers::FloatOfBits;
using backplane::hip::emulated_numbers::FloatToHalf;
using backplane::hip::emulated_numbers::HalfToFloat;
using backplane::hip::emulated_numbers::RoundMantissa;

constexpr int kSlowRuns = 60;

double ReadElement(const void* array, int64_t at, Type type) {
  switch (type) {
    case Type::kF16:
      return HalfToFloat(static_cast<const uint16_t*>(array)[at]);
    case Type::kBF16:
      return FloatOfBits(static_cast<uint32_t>(static_cast<const uint16_t*>(array)[at]) << 16);
    case Type::kF32:
      return static_cast<const float*>(array)[at];
    case Type::kF64:
      return static_cast<const double*>(array)[at];
    case Type::kS8:
      return static_cast<const int8_t*>(array)[at];
    default:
      return static_cast<const int32_t*>(array)[at];
  }
}

void WriteElement(void* array, int64_t at, Type type, double value) {
  switch (type) {
    case Type::kF16:
      static_cast<uint16_t*>(array)[at] = FloatToHalf(static_cast<float>(value));
      return;
    case Type::kBF16:
      static_cast<uint16_t*>(array)[at] =
          static_cast<uint16_t>(BitsOfFloat(RoundMantissa(static_cast<float>(value), 7)) >> 16);
      return;
    case Type::kF32:
      static_cast<float*>(array)[at] = static_cast<float>(value);
      return;
    case Type::kF64:
      static_cast<double*>(array)[at] = value;
      return;
    default:
      static_cast<int32_t*>(array)[at] = static_cast<int32_t>(value);
  }
}

double RoundOperand(double value, Type type, Mode mode) {
  if (mode != Mode::kRounded) return value;
  if (type == Type::kF32) return RoundMantissa(static_cast<float>(value), 10);
  return type == Type::kF64 ? static_cast<float>(value) : value;
}

// Adds a product to a sum in the type of the sums.
double AddTerm(double sum, double x, double y, Type type, Mode mode) {
  if (type == Type::kF64 || type == Type::kS8) return sum + x * y;
  const float next = static_cast<float>(sum) + static_cast<float>(x) * static_cast<float>(y);
  return mode == Mode::kRounded && type != Type::kF32 ? RoundMantissa(next, 7) : next;
}

int32_t Gemm(const void* kernarg, uint32_t, uint32_t, void*, void*) {
  const GemmArguments& g = *static_cast<const GemmArguments*>(kernarg);
  const int runs = g.mode == Mode::kSlow ? kSlowRuns : 1;
  for (int run = 0; run < runs; ++run) {
    for (int64_t batch = 0; batch < g.batch; ++batch) {
      for (int64_t j = 0; j < g.n; ++j) {
        for (int64_t i = 0; i < g.m; ++i) {
          const int64_t to = batch * g.stride_d + i + j * g.leading_d;
          double sum = g.mode == Mode::kReadsResult ? ReadElement(g.d, to, g.out_type) : 0;
          for (int64_t term = 0; term < g.k; ++term) {
            const int64_t p = g.reversed != 0 ? g.k - 1 - term : term;
            const double x = ReadElement(
                g.a, batch * g.stride_a + (g.transposed_a != 0 ? p + i * g.leading_a : i + p * g.leading_a), g.type);
            const double y = ReadElement(
                g.b, batch * g.stride_b + (g.transposed_b != 0 ? j + p * g.leading_b : p + j * g.leading_b), g.type);
            sum = AddTerm(sum, RoundOperand(x, g.type, g.mode), RoundOperand(y, g.type, g.mode), g.type, g.mode);
          }
          WriteElement(g.d, to, g.out_type, sum);
        }
      }
    }
  }
  const int64_t last = (g.batch - 1) * g.stride_d + g.m - 1 + (g.n - 1) * g.leading_d;
  if (g.mode == Mode::kWrong) WriteElement(g.d, last, g.out_type, 2 * ReadElement(g.d, last, g.out_type) + 4);
  if (g.mode == Mode::kBeyond) WriteElement(g.d, last + 1, g.out_type, 0);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const backplane::hip::HostKernel backplane_host_kernels[];
const backplane::hip::HostKernel backplane_host_kernels[] = {
    {"gemm", &Gemm, 1, sizeof(GemmArguments), 0, 0},
    {nullptr, nullptr, 0, 0, 0, 0},
};
