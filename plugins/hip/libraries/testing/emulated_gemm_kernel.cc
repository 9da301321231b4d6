// The kernel of the emulated libraries as a host image: a shared library that needs no other.
#include "plugins/hip/libraries/testing/emulated_gemm.h"
#include "plugins/hip/lowering/host_image.h"

namespace {

using backplane::hip::emulated_blas::GemmArguments;
using backplane::hip::emulated_blas::Mode;
using backplane::hip::emulated_blas::Type;

constexpr int kSlowRuns = 60;

float FloatOfBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t BitsOfFloat(float f) { return __builtin_bit_cast(uint32_t, f); }

// Rounds to nearest, to even, keeping so many bits of the 23.
float RoundMantissa(float f, int kept) {
  const uint32_t bits = BitsOfFloat(f);
  if ((bits & 0x7F800000u) == 0x7F800000u) return f;
  const int dropped = 23 - kept;
  const uint32_t half = (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  return FloatOfBits(((bits + half) >> dropped) << dropped);
}

float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3FFu;
  if (exponent == 31) return FloatOfBits(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return FloatOfBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

uint16_t FloatToHalf(float f) {
  const uint32_t sign = (BitsOfFloat(f) >> 16) & 0x8000u;
  const float magnitude = FloatOfBits(BitsOfFloat(f) & 0x7FFFFFFFu);
  if (!(magnitude == magnitude)) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00u);
  // Adding this constant rounds numbers below the smallest normal one to multiples of 2^-24.
  if (magnitude < 0x1p-14f) return static_cast<uint16_t>(sign | (BitsOfFloat(magnitude + 0.5f) - BitsOfFloat(0.5f)));
  return static_cast<uint16_t>(sign | ((BitsOfFloat(RoundMantissa(magnitude, 10)) >> 13) - (112u << 10)));
}

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
