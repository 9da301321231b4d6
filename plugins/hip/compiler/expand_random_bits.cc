#include "plugins/hip/compiler/expand_random_bits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "core/ir/builder.h"
#include "core/passes/replace_each.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"

namespace backplane::hip {
namespace {

constexpr PrimitiveType kU32 = PrimitiveType::kU32, kU64 = PrimitiveType::kU64;

// Arithmetic on unsigned scalars. After an error all values are null, and status() tells it.
class Arithmetic {
 public:
  explicit Arithmetic(Builder& b) : b_(b) {}

  const absl::Status& status() const { return status_; }

  Value Number(PrimitiveType type, uint64_t n) {
    return Take(b_.Constant(Literal::ScalarInt(type, static_cast<int64_t>(n))));
  }
  Value Parameter(int64_t number, PrimitiveType type) { return Take(b_.Parameter(number, Shape::Scalar(type))); }
  Value Binary(Opcode op, Value x, Value y) { return status_.ok() ? Take(b_.Binary(op, x, y)) : nullptr; }
  Value Binary(Opcode op, Value x, uint64_t y) {
    return status_.ok() ? Binary(op, x, Number(x->shape().element_type(), y)) : nullptr;
  }
  Value Convert(Value x, PrimitiveType type) { return status_.ok() ? Take(b_.Convert(x, type)) : nullptr; }
  Value IsLess(Value x, Value y) { return status_.ok() ? Take(b_.Compare(x, y, ComparisonDirection::kLt)) : nullptr; }
  Value IsEqual(Value x, uint64_t y) {
    if (!status_.ok()) return nullptr;
    return Take(b_.Compare(x, Number(x->shape().element_type(), y), ComparisonDirection::kEq));
  }
  Value Select(Value condition, Value x, Value y) { return status_.ok() ? Take(b_.Select(condition, x, y)) : nullptr; }

  Value Add(Value x, Value y) { return Binary(Opcode::kAdd, x, y); }
  Value Xor(Value x, Value y) { return Binary(Opcode::kXor, x, y); }
  // The halves of a u64, and back.
  Value Low(Value x) { return Convert(x, kU32); }
  Value High(Value x) { return Convert(Binary(Opcode::kShiftRightLogical, x, 32), kU32); }
  Value Join(Value low, Value high) {
    return Binary(Opcode::kOr, Convert(low, kU64), Binary(Opcode::kShiftLeft, Convert(high, kU64), 32));
  }

 private:
  Value Take(absl::StatusOr<Value> v) {
    if (v.ok()) return *v;
    if (status_.ok()) status_ = v.status();
    return nullptr;
  }

  Builder& b_;
  absl::Status status_;
};

std::array<Value, 2> ThreeFry(Arithmetic& a, std::array<Value, 2> x, std::array<Value, 2> key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Value ks[3] = {key[0], key[1], a.Binary(Opcode::kXor, a.Xor(key[0], key[1]), 0x1bd11bda)};
  x = {a.Add(x[0], ks[0]), a.Add(x[1], ks[1])};
  for (size_t group = 1; group <= 5; ++group) {
    for (const int r : kRotations[(group - 1) % 2]) {
      x[0] = a.Add(x[0], x[1]);
      const Value left = a.Binary(Opcode::kShiftLeft, x[1], static_cast<uint64_t>(r)),
                  right = a.Binary(Opcode::kShiftRightLogical, x[1], static_cast<uint64_t>(32 - r));
      x[1] = a.Xor(x[0], a.Binary(Opcode::kOr, left, right));
    }
    x[0] = a.Add(x[0], ks[group % 3]);
    x[1] = a.Binary(Opcode::kAdd, a.Add(x[1], ks[(group + 1) % 3]), group);
  }
  return x;
}

std::array<Value, 4> Philox(Arithmetic& a, std::array<Value, 4> x, std::array<Value, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const Value p = a.Binary(Opcode::kMultiply, a.Convert(x[0], kU64), 0xd2511f53),
                q = a.Binary(Opcode::kMultiply, a.Convert(x[2], kU64), 0xcd9e8d57);
    x = {a.Xor(a.Xor(a.High(q), x[1]), key[0]), a.Low(q), a.Xor(a.Xor(a.High(p), x[3]), key[1]), a.Low(p)};
    key = {a.Binary(Opcode::kAdd, key[0], 0x9e3779b9), a.Binary(Opcode::kAdd, key[1], 0xbb67ae85)};
  }
  return x;
}

// How Threefry pairs the elements of an array of 32-bit words: the two words of a counter are neighbours along one
// dimension, the first of even size, else the longest.
struct Pairing {
  explicit Pairing(absl::Span<const int64_t> dims) {
    int64_t split = -1;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool even = dims[d] % 2 == 0;
      const bool has_even = split >= 0 && dims[static_cast<size_t>(split)] % 2 == 0;
      if (split < 0 || (!has_even && (even || dims[d] > dims[static_cast<size_t>(split)])))
        split = static_cast<int64_t>(d);
    }
    if (split < 0) return;
    size = dims[static_cast<size_t>(split)];
    for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < split ? outer : inner) *= dims[d];
    inner /= std::max<int64_t>(size, 1);
  }
  int64_t half() const { return CeilDiv(size, 2); }
  int64_t counters() const { return outer * half() * inner; }

  int64_t outer = 1, size = 1, inner = 1;  // the product of the dimensions before, the dimension, those after
};

// What an instruction makes, and how.
struct Generator {
  explicit Generator(const Instruction& i)
      : data(i.shape().tuple_shapes(1)),
        count(data.num_elements()),
        threefry(i.attrs().GetEnum<RandomAlgorithm>(AttrId::kRandomAlgorithm) == RandomAlgorithm::kThreeFry),
        is_wide(BitWidth(data.element_type()) == 64),
        number_type(count <= std::numeric_limits<int32_t>::max() ? kU32 : kU64) {}

  const Shape data;
  const int64_t count;
  const bool threefry, is_wide;                            // elements of 64 bits
  const PrimitiveType number_type;                         // of the elements' numbers
  int64_t per_counter() const { return is_wide ? 2 : 4; }  // Philox
  int64_t counters() const {
    if (count == 0) return 0;
    if (!threefry) return CeilDiv(count, per_counter());
    return is_wide ? count : Pairing(data.dimensions()).counters();
  }
};

// The word of element `number`; the state is the same for all elements.
absl::StatusOr<Computation*> WordOfElement(Module* module, const Generator& g) {
  Builder b(module, "random_word");
  Arithmetic a(b);
  const Value number = a.Parameter(0, g.number_type), key = a.Parameter(1, kU64), low = a.Parameter(2, kU64),
              high = a.Parameter(3, kU64);
  const std::array<Value, 2> keys = {a.Low(key), a.High(key)};
  Value word = nullptr;
  if (!g.threefry) {
    const uint64_t per = static_cast<uint64_t>(g.per_counter());
    const Value block = a.Convert(a.Binary(Opcode::kDivide, number, per), kU64);
    const Value at = a.Add(low, block), carry = a.Convert(a.IsLess(at, low), kU64), above = a.Add(high, carry);
    const auto x = Philox(a, {a.Low(at), a.High(at), a.Low(above), a.High(above)}, keys);
    const Value part = a.Binary(Opcode::kAnd, number, per - 1);
    if (g.is_wide) {
      const Value first = a.IsEqual(part, 0);
      word = a.Join(a.Select(first, x[0], x[2]), a.Select(first, x[1], x[3]));
    } else {
      word = x[3];
      for (size_t k = 3; k-- > 0;) word = a.Select(a.IsEqual(part, k), x[k], word);
    }
  } else if (g.is_wide) {
    const Value at = a.Add(low, a.Convert(number, kU64));
    const auto x = ThreeFry(a, {a.Low(at), a.High(at)}, keys);
    word = a.Join(x[0], x[1]);
  } else {
    const Pairing pairing(g.data.dimensions());
    const uint64_t inner = static_cast<uint64_t>(pairing.inner), size = static_cast<uint64_t>(pairing.size);
    const Value outside = a.Binary(Opcode::kDivide, number, inner * size);
    const Value along = a.Binary(Opcode::kRemainder, a.Binary(Opcode::kDivide, number, inner), size);
    const Value inside = a.Binary(Opcode::kRemainder, number, inner);
    Value counter = a.Binary(Opcode::kMultiply, outside, static_cast<uint64_t>(pairing.half()));
    counter = a.Add(counter, a.Binary(Opcode::kDivide, along, 2));
    counter = a.Add(a.Binary(Opcode::kMultiply, counter, inner), inside);
    const Value at = a.Add(low, a.Convert(counter, kU64));
    const auto x = ThreeFry(a, {a.Low(at), a.High(at)}, keys);
    word = a.Select(a.IsEqual(a.Binary(Opcode::kAnd, along, 1), 0), x[0], x[1]);
  }
  RETURN_IF_ERROR(a.status());
  return b.Build(word);
}

absl::StatusOr<Value> BitcastTo(Builder& b, Value x, const Shape& shape) {
  if (x->shape().element_type() == shape.element_type()) return x;
  return b.Op(Opcode::kBitcastConvert, {x}, {}, {}, shape);
}

// The words of the state as u64[], from an array of 64-bit or 32-bit numbers.
absl::StatusOr<std::vector<Value>> WordsOf(Builder& b, Value state) {
  const int64_t size = state->shape().dimensions(0);
  const bool is_wide = BitWidth(state->shape().element_type()) == 64;
  const int64_t words = is_wide ? size : size / 2;
  if (!is_wide) {
    ASSIGN_OR_RETURN(state, b.Reshape(state, {words, 2}));
  }
  ASSIGN_OR_RETURN(state, BitcastTo(b, state, Shape(kU64, {words})));
  std::vector<Value> result;
  for (int64_t k = 0; k < words; ++k) {
    ASSIGN_OR_RETURN(Value word, b.Slice(state, {{k, k + 1, 1}}));
    ASSIGN_OR_RETURN(word, b.Reshape(word, {}));
    result.push_back(word);
  }
  return result;
}

absl::StatusOr<Value> StateOf(Builder& b, std::vector<Value> words, const Shape& shape) {
  for (Value& w : words) {
    ASSIGN_OR_RETURN(w, b.Reshape(w, {1}));
  }
  const int64_t count = static_cast<int64_t>(words.size());
  ASSIGN_OR_RETURN(Value state, b.Concatenate(std::move(words), 0));
  const bool is_wide = BitWidth(shape.element_type()) == 64;
  ASSIGN_OR_RETURN(state, BitcastTo(b, state, is_wide ? shape : Shape(shape.element_type(), {count, 2})));
  return b.Reshape(state, shape.dimensions());
}

absl::StatusOr<Value> Expand(Builder& b, const Instruction& i, Value state) {
  const Generator g(i);
  ASSIGN_OR_RETURN(std::vector<Value> words, WordsOf(b, state));
  const Value key = words[0], low = words[1], high = words.size() > 2 ? words[2] : key;
  ASSIGN_OR_RETURN(Computation * word, WordOfElement(b.module(), g));
  std::vector<Value> operands;
  ASSIGN_OR_RETURN(Value numbers, b.Iota(Shape(g.number_type, {g.count}), 0));
  operands.push_back(numbers);
  for (const Value w : {key, low, high}) {
    ASSIGN_OR_RETURN(Value broadcast, b.BroadcastInDim(w, {g.count}, {}));
    operands.push_back(broadcast);
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{0});
  ASSIGN_OR_RETURN(Value data, b.Op(Opcode::kMap, operands, std::move(attrs), {word}));
  // The low bits of each word.
  const PrimitiveType t = g.data.element_type();
  if (!g.is_wide) {
    ASSIGN_OR_RETURN(data, b.Convert(data, UnsignedOfWidth(BitWidth(t))));
  }
  ASSIGN_OR_RETURN(data, BitcastTo(b, data, Shape(t, {g.count})));
  ASSIGN_OR_RETURN(data, b.Reshape(data, g.data.dimensions()));

  Arithmetic a(b);
  words[1] = a.Binary(Opcode::kAdd, low, static_cast<uint64_t>(g.counters()));
  if (words.size() > 2) words[2] = a.Add(high, a.Convert(a.IsLess(words[1], low), kU64));
  RETURN_IF_ERROR(a.status());
  ASSIGN_OR_RETURN(Value next, StateOf(b, std::move(words), i.shape().tuple_shapes(0)));
  return b.Tuple({next, data});
}

}  // namespace

absl::StatusOr<bool> ExpandRandomBits::Run(Module* module) {
  auto matches = [](const Instruction& i) { return i.Is(Opcode::kRngBitGenerator); };
  return ReplaceEach(module, "random_bits", matches,
                     [](Builder& b, const Instruction& i, std::vector<Value> x) { return Expand(b, i, x[0]); });
}

}  // namespace backplane::hip
