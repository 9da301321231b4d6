// Evaluation of random number generators.
//
// Bits become elements so that the values are those of XLA. Philox: elements take the four words of a counter in order,
// two together for 64 bits. Threefry: a 64-bit element takes both words of one counter; narrower elements are split
// into two halves along the first dimension of even size (or the largest), and the halves interleaved. An element of
// less than 32 bits takes the low bits of a word.
#include <bit>
#include <cmath>

#include "core/ops/families/counter_random.h"
#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"

namespace backplane {

std::array<uint32_t, 2> ThreeFry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bdau};
  uint32_t a = counter[0] + ks[0], b = counter[1] + ks[1];
  for (uint32_t group = 1; group <= 5; ++group) {
    for (int r : kRotations[(group - 1) % 2]) {
      a += b;
      b = a ^ std::rotl(b, r);
    }
    a += ks[group % 3];
    b += ks[(group + 1) % 3] + group;
  }
  return {a, b};
}

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{counter[0]} * 0xd2511f53u, q = uint64_t{counter[2]} * 0xcd9e8d57u;
    counter = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
               static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

namespace {

std::array<uint32_t, 2> Words(uint64_t v) { return {static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32)}; }
uint64_t Join(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

struct State {
  uint64_t key = 0, low = 0, high = 0;  // the counter has 128 bits for Philox, 64 for Threefry
  void Advance(uint64_t n) {
    low += n;
    if (low < n) ++high;
  }
};

// Threefry in 32-bit words for an array of these dims.
std::vector<uint64_t> ThreeFry32(State& state, absl::Span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  if (n == 0) return {};
  int64_t split = -1;
  for (size_t i = 0; i < dims.size() && split < 0; ++i) {
    if (dims[i] % 2 == 0) split = static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < dims.size() && (split < 0 || dims[split] % 2 != 0); ++i) {
    if (split < 0 || dims[i] > dims[split]) split = static_cast<int64_t>(i);
  }
  const int64_t size = dims.empty() ? 1 : dims[split], half = (size + 1) / 2;
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(split + 1); i < dims.size(); ++i) inner *= dims[i];
  const int64_t outer = n / (size * inner);
  std::vector<uint64_t> out(static_cast<size_t>(n));
  const auto key = Words(state.key);
  uint64_t count = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t h = 0; h < half; ++h) {
      for (int64_t i = 0; i < inner; ++i, ++count) {
        const auto v = ThreeFry2x32(Words(state.low + count), key);
        for (int64_t c = 0; c < 2 && 2 * h + c < size; ++c) {
          out[static_cast<size_t>((o * size + 2 * h + c) * inner + i)] = v[static_cast<size_t>(c)];
        }
      }
    }
  }
  state.low += count;
  return out;
}

std::vector<uint64_t> ThreeFry64(State& state, int64_t n) {
  std::vector<uint64_t> out(static_cast<size_t>(n));
  for (uint64_t& x : out) {
    const auto v = ThreeFry2x32(Words(state.low++), Words(state.key));
    x = Join(v[0], v[1]);
  }
  return out;
}

std::vector<uint64_t> Philox(State& state, int64_t n, bool wide) {
  std::vector<uint64_t> out(static_cast<size_t>(n));
  const size_t per = wide ? 2 : 4;
  for (size_t i = 0; i < out.size(); i += per) {
    const auto low = Words(state.low), high = Words(state.high);
    const auto v = Philox4x32({low[0], low[1], high[0], high[1]}, Words(state.key));
    for (size_t k = 0; k < per && i + k < out.size(); ++k) out[i + k] = wide ? Join(v[2 * k], v[2 * k + 1]) : v[k];
    state.Advance(1);
  }
  return out;
}

absl::StatusOr<Literal> BitGenerator(const OpContext& op, const Literal& initial) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Shape& data_shape = shape.tuple_shapes(1);
  const bool threefry = op.attrs->GetEnum<RandomAlgorithm>(AttrId::kRandomAlgorithm) == RandomAlgorithm::kThreeFry;
  const size_t words = static_cast<size_t>(initial.byte_size()) / 8;
  uint64_t raw[3] = {0, 0, 0};
  std::memcpy(raw, initial.bytes(), words * 8);
  State state{raw[0], raw[1], words > 2 ? raw[2] : raw[0]};
  ASSIGN_OR_RETURN(Literal data, AllocateLiteral(op, data_shape));
  const PrimitiveType t = data_shape.element_type();
  const bool wide = BitWidth(t) == 64;
  const int64_t n = data.num_elements();
  std::vector<uint64_t> bits;
  if (!threefry)
    bits = Philox(state, n, wide);
  else
    bits = wide ? ThreeFry64(state, n) : ThreeFry32(state, data_shape.dimensions());
  if (IsFloat(t)) {
    const size_t width = static_cast<size_t>(ByteWidth(t));
    std::byte* to = data.mutable_bytes();
    for (size_t i = 0; i < bits.size(); ++i) {
      const uint64_t v = IsSubByte(t) ? bits[i] & ((1u << BitWidth(t)) - 1) : bits[i];
      std::memcpy(to + i * width, &v, width);
    }
  } else {
    WriteElements(t, data.mutable_bytes(), 0, n, bits.data());
  }
  raw[1] = state.low;
  if (words > 2) raw[2] = state.high;
  Literal next(initial.shape());
  std::memcpy(next.mutable_bytes(), raw, words * 8);
  std::vector<Literal> results;
  results.push_back(std::move(next));
  results.push_back(std::move(data));
  return Literal::Tuple(std::move(results));
}

// Uniform in [0, 1) with 53 random bits.
double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

absl::StatusOr<Literal> Rng(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  ASSIGN_OR_RETURN(Literal seed, env.RunExternal(op, {}));  // u64[2], different on each call
  State state{seed.data<uint64_t>()[0], seed.data<uint64_t>()[1], 0};
  const PrimitiveType t = shape.element_type();
  const int64_t n = out.num_elements();
  if (op.attrs->GetEnum<RandomDistribution>(AttrId::kRandomDistribution) == RandomDistribution::kNormal) {
    const double mean = args[0]->GetAsDouble(0), deviation = args[1]->GetAsDouble(0);
    std::vector<double> values(static_cast<size_t>(n));
    const std::vector<uint64_t> bits = Philox(state, 2 * n, true);
    for (size_t i = 0; i < values.size(); ++i) {
      const double r = std::sqrt(-2 * std::log(1 - Unit(bits[2 * i])));
      values[i] = mean + deviation * r * std::cos(2 * M_PI * Unit(bits[2 * i + 1]));
    }
    WriteElements(t, out.mutable_bytes(), 0, n, values.data());
    return out;
  }
  const std::vector<uint64_t> bits = Philox(state, n, true);
  if (IsFloat(t)) {
    const double low = args[0]->GetAsDouble(0), high = args[1]->GetAsDouble(0);
    std::byte* to = out.mutable_bytes();
    for (int64_t i = 0; i < n; ++i) {
      double v = low + (high - low) * Unit(bits[static_cast<size_t>(i)]);
      WriteElements(t, to, i, 1, &v);
      // Rounding to the element type may reach the open end of the interval.
      if (low < high && out.GetAsDouble(i) >= high) WriteElements(t, to, i, 1, &low);
    }
    return out;
  }
  const int64_t low = args[0]->GetAsInt(0);
  const uint64_t range = static_cast<uint64_t>(args[1]->GetAsInt(0)) - static_cast<uint64_t>(low);
  std::vector<int64_t> values(static_cast<size_t>(n), low);
  if (t == PrimitiveType::kPred) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = range == 1 ? low : static_cast<int64_t>(bits[i] & 1);
  } else if (range != 0) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + bits[i] % range);
  }
  WriteElements(t, out.mutable_bytes(), 0, n, values.data());
  return out;
}

}  // namespace

absl::StatusOr<Literal> EvaluateRandom(const OpContext& op, Args args, EvalEnv& env) {
  if (op.opcode == Opcode::kRng) return Rng(op, args, env);
  if (op.opcode == Opcode::kRngBitGenerator) return BitGenerator(op, *args[0]);
  return env.RunExternal(op, args);
}

}  // namespace backplane
