// The kernel of the emulated library for collectives as a host image: a shared library that needs no other.
#include "plugins/hip/libraries/nccl_numbers.h"
#include "plugins/hip/libraries/testing/emulated_collective.h"
#include "plugins/hip/libraries/testing/emulated_numbers.h"
#include "plugins/hip/lowering/host_image.h"

namespace {

namespace nccl = backplane::hip::nccl;
namespace numbers = backplane::hip::emulated_numbers;
using backplane::hip::emulated_collective::CombineArguments;
using backplane::hip::emulated_collective::Mode;

constexpr int kSlowRuns = 60;

// A type: what is stored, and in what it is computed.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value Load(Stored x) { return x; }
  static Stored Store(Value x) { return x; }
};
struct Half {
  using Stored = uint16_t;
  using Value = float;
  static Value Load(Stored x) { return numbers::HalfToFloat(x); }
  static Stored Store(Value x) { return numbers::FloatToHalf(x); }
};
struct Bfloat {
  using Stored = uint16_t;
  using Value = float;
  static Value Load(Stored x) { return numbers::FloatOfBits(static_cast<uint32_t>(x) << 16); }
  static Stored Store(Value x) { return static_cast<Stored>(numbers::BitsOfFloat(numbers::RoundMantissa(x, 7)) >> 16); }
};

template <typename Value>
Value CombineTwo(Value a, Value b, int32_t reducer, Mode mode) {
  const bool skips = mode == Mode::kSkipsNan;
  switch (reducer) {
    case nccl::kSum:
      return static_cast<Value>(a + b);
    case nccl::kProduct:
      return static_cast<Value>(a * b);
    case nccl::kMaximum:
      if (a != a) return skips ? b : a;
      return b != b ? (skips ? a : b) : a > b ? a : b;
    default:
      if (a != a) return skips ? b : a;
      return b != b ? (skips ? a : b) : a < b ? a : b;
  }
}

template <typename Type>
void CombineAll(const CombineArguments& c) {
  using Stored = typename Type::Stored;
  Stored* const to = static_cast<Stored*>(c.to[0]);
  for (int64_t e = 0; e < c.count; ++e) {
    typename Type::Value value{};
    for (int32_t p = 0; p < c.pieces; ++p) {
      const int32_t piece = c.reversed != 0 ? c.pieces - 1 - p : p;
      const auto term = Type::Load(static_cast<const Stored*>(c.from[piece])[e]);
      value = p == 0 ? term : CombineTwo(value, term, c.reducer, c.mode);
      if (c.mode == Mode::kRoundsEachTerm) value = Type::Load(Type::Store(value));
    }
    to[e] = Type::Store(value);
  }
  if (c.mode == Mode::kWrong) to[c.count - 1] = static_cast<Stored>(to[c.count - 1] == 3 ? 4 : 3);
  if (c.mode == Mode::kBeyond) to[c.count] = 0;
}

void CopyPieces(const CombineArguments& c, int64_t width) {
  for (int32_t p = 0; p < c.pieces; ++p) {
    const auto* from = static_cast<const uint8_t*>(c.from[p]);
    auto* to = static_cast<uint8_t*>(c.to[p]);
    for (int64_t b = 0; b < c.count * width; ++b) to[b] = from[b];
    const bool is_last = p == c.pieces - 1;
    if (c.mode == Mode::kWrong && is_last) to[c.count * width - 1] ^= 1;
    if (c.mode == Mode::kBeyond && is_last) to[c.count * width] = 0;
  }
}

void RunOnce(const CombineArguments& c) {
  const bool copies = c.reducer < 0;
  switch (c.type) {
    case nccl::kInt8:
      return copies ? CopyPieces(c, 1) : CombineAll<Plain<int8_t>>(c);
    case nccl::kUint8:
      return copies ? CopyPieces(c, 1) : CombineAll<Plain<uint8_t>>(c);
    case nccl::kInt32:  // the bits of sums and products do not depend on the sign
      return copies                       ? CopyPieces(c, 4)
             : c.reducer > nccl::kProduct ? CombineAll<Plain<int32_t>>(c)
                                          : CombineAll<Plain<uint32_t>>(c);
    case nccl::kUint32:
      return copies ? CopyPieces(c, 4) : CombineAll<Plain<uint32_t>>(c);
    case nccl::kInt64:
      return copies                       ? CopyPieces(c, 8)
             : c.reducer > nccl::kProduct ? CombineAll<Plain<int64_t>>(c)
                                          : CombineAll<Plain<uint64_t>>(c);
    case nccl::kUint64:
      return copies ? CopyPieces(c, 8) : CombineAll<Plain<uint64_t>>(c);
    case nccl::kFloat16:
      return copies ? CopyPieces(c, 2) : CombineAll<Half>(c);
    case nccl::kBfloat16:
      return copies ? CopyPieces(c, 2) : CombineAll<Bfloat>(c);
    case nccl::kFloat32:
      return copies ? CopyPieces(c, 4) : CombineAll<Plain<float>>(c);
    default:
      return copies ? CopyPieces(c, 8) : CombineAll<Plain<double>>(c);
  }
}

int32_t Combine(const void* kernarg, uint32_t, uint32_t, void*, void*) {
  const CombineArguments& c = *static_cast<const CombineArguments*>(kernarg);
  const int runs = c.mode == Mode::kSlow ? kSlowRuns : 1;
  for (int run = 0; run < runs; ++run) RunOnce(c);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const backplane::hip::HostKernel backplane_host_kernels[];
const backplane::hip::HostKernel backplane_host_kernels[] = {
    {"combine", &Combine, 1, sizeof(CombineArguments), 0, 0},
    {nullptr, nullptr, 0, 0, 0, 0},
};
