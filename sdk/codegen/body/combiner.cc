#include "sdk/codegen/body/combiner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {
namespace {

// A value of the small interpreter below: pairs of comparable numbers. NaN is a real NaN.
using Env = absl::flat_hash_map<const Instruction*, double>;

// Evaluates the instruction if it is built from comparisons, selections and logic on the parameters alone. The result
// then depends only on how the parameters compare with one another and with the constants.
std::optional<double> Interpret(const Instruction* op, Env& env, int depth = 0) {
  if (auto it = env.find(op); it != env.end()) return it->second;
  if (depth > 64) return std::nullopt;
  auto arg = [&](int i) { return Interpret(op->operand(i), env, depth + 1); };
  auto done = [&](double v) -> std::optional<double> {
    env[op] = v;
    return v;
  };
  bool pred = op->shape().IsArray() && op->shape().element_type() == PrimitiveType::kPred;
  switch (op->opcode()) {
    case Opcode::kConstant:
      if (!pred) return std::nullopt;
      return done(op->literal().GetAsInt(0) != 0);
    case Opcode::kCompare: {
      auto a = arg(0), c = arg(1);
      if (!a || !c || op->attrs().GetEnum<ComparisonType>(AttrId::kComparisonType) == ComparisonType::kTotalOrder) {
        return std::nullopt;
      }
      switch (op->direction()) {
        case ComparisonDirection::kEq:
          return done(*a == *c);
        case ComparisonDirection::kNe:
          return done(*a != *c);
        case ComparisonDirection::kGe:
          return done(*a >= *c);
        case ComparisonDirection::kGt:
          return done(*a > *c);
        case ComparisonDirection::kLe:
          return done(*a <= *c);
        case ComparisonDirection::kLt:
          return done(*a < *c);
      }
      return std::nullopt;
    }
    case Opcode::kSelect: {
      auto c = arg(0);
      if (!c) return std::nullopt;
      auto r = arg(*c != 0 ? 1 : 2);
      auto other = arg(*c != 0 ? 2 : 1);  // must be interpretable as well
      if (!r || !other) return std::nullopt;
      return done(*r);
    }
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor: {
      auto a = arg(0), c = arg(1);
      if (!pred || !a || !c) return std::nullopt;
      bool x = *a != 0, y = *c != 0;
      return done(op->Is(Opcode::kAnd) ? x && y : op->Is(Opcode::kOr) ? x || y : x != y);
    }
    case Opcode::kNot: {
      auto a = arg(0);
      if (!pred || !a) return std::nullopt;
      return done(*a == 0);
    }
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      auto a = arg(0), c = arg(1);
      if (!a || !c) return std::nullopt;
      if (std::isnan(*a) || std::isnan(*c)) return done(std::numeric_limits<double>::quiet_NaN());
      return done(op->Is(Opcode::kMaximum) ? std::max(*a, *c) : std::min(*a, *c));
    }
    default:
      return std::nullopt;
  }
}

struct Pair {
  double value, index;
};
bool Same(double a, double c) { return a == c || (std::isnan(a) && std::isnan(c)); }

// Runs f over every triple of pairs from three values and NaN at increasing indices: for computations made only of
// comparisons that is every case there is. The result must be one of the arguments, and grouping must not matter.
bool SelectsByIndex(const Computation& c, bool float_values) {
  const Instruction* root = c.root();
  if (c.parameters().size() != 4 || !root->Is(Opcode::kTuple) || root->operand_count() != 2) return false;
  PrimitiveType index_type = c.parameter(1)->shape().element_type();
  if (!IsIntegral(index_type)) return false;
  auto run = [&](Pair a, Pair b) -> std::optional<Pair> {
    Env env;
    env[c.parameter(0)] = a.value;
    env[c.parameter(1)] = a.index;
    env[c.parameter(2)] = b.value;
    env[c.parameter(3)] = b.index;
    auto v = Interpret(root->operand(0), env), i = Interpret(root->operand(1), env);
    if (!v || !i) return std::nullopt;
    return Pair{*v, *i};
  };
  std::vector<double> values = {-1, 0, 1};
  if (float_values) values.push_back(std::numeric_limits<double>::quiet_NaN());
  auto is = [](const Pair& a, const Pair& b) { return Same(a.value, b.value) && a.index == b.index; };
  for (double x : values) {
    for (double y : values) {
      for (double z : values) {
        Pair a{x, 3}, b{y, 5}, d{z, 8};
        auto ab = run(a, b), bd = run(b, d), ad = run(a, d);
        if (!ab || !bd || !ad) return false;
        for (const auto& [r, p, q] : {std::tuple{*ab, a, b}, std::tuple{*bd, b, d}}) {
          if (!is(r, p) && !is(r, q)) return false;
        }
        auto left = run(*ab, d), right = run(a, *bd);
        if (!left || !right || !is(*left, *right)) return false;
        // Combining the middle one last, on its side by index, must give the same.
        auto late = ad->index < b.index ? run(*ad, b) : run(b, *ad);
        if (!late || !is(*late, *left)) return false;
        // The same pair twice changes nothing: needed where a block of elements is read again at the end of a row.
        auto twice = run(a, a);
        if (!twice || !is(*twice, a)) return false;
      }
    }
  }
  return true;
}

// Whether the second operand counts up along the single reduced dimension.
bool IndexOperandIncreases(const Instruction& reduce) {
  if (reduce.dimensions().size() != 1) return false;
  const Instruction* x = reduce.operand(1);
  int64_t d = reduce.dimensions()[0];
  // A type that does not hold the largest index wraps, or saturates.
  auto holds_all = [&](PrimitiveType type) {
    const int bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
    return bits >= 63 || x->shape().dimensions(d) - 1 <= (int64_t{1} << bits) - 1;
  };
  for (int hops = 0; hops < 8; ++hops) {
    switch (x->opcode()) {
      case Opcode::kIota:
        return x->attrs().GetInt(AttrId::kIotaDimension) == d && holds_all(x->shape().element_type());
      case Opcode::kBroadcast: {
        const Ints& dims = x->dimensions();
        auto it = std::find(dims.begin(), dims.end(), d);
        if (it == dims.end() || x->operand(0)->shape().dimensions(it - dims.begin()) != x->shape().dimensions(d))
          return false;
        d = it - dims.begin();
        x = x->operand(0);
        break;
      }
      case Opcode::kCopy:
        x = x->operand(0);
        break;
      case Opcode::kConvert:
        if (!IsIntegral(x->operand(0)->shape().element_type()) || !holds_all(x->shape().element_type())) return false;
        x = x->operand(0);
        break;
      case Opcode::kReshape: {
        // Only sizes of one come or go.
        const Shape &in = x->operand(0)->shape(), &out = x->shape();
        int64_t before = 0;
        for (int64_t i = 0; i < d; ++i) before += out.dimensions(i) != 1;
        int64_t found = -1, seen = 0;
        std::vector<int64_t> a, b;
        for (int64_t n : in.dimensions())
          if (n != 1) a.push_back(n);
        for (int64_t n : out.dimensions())
          if (n != 1) b.push_back(n);
        if (a != b) return false;
        for (int64_t i = 0; i < in.rank(); ++i) {
          if (in.dimensions(i) == 1) continue;
          if (seen++ == before) found = i;
        }
        if (found < 0) return false;
        d = found;
        x = x->operand(0);
        break;
      }
      default:
        return false;
    }
  }
  return false;
}

}  // namespace

Combiner AnalyzeCombiner(const Computation& c) {
  Combiner result;
  const Instruction* root = c.root();
  if (c.parameters().size() == 2) {
    const Instruction *p0 = c.parameter(0), *p1 = c.parameter(1);
    const Instruction* body = root;
    // Narrow floats are sometimes combined in f32 between two conversions; the kernel accumulates in f32 anyway. Of
    // other types the conversions have a meaning: integers saturate, and large ones are rounded.
    const PrimitiveType type = root->shape().element_type();
    if (body->Is(Opcode::kConvert) && IsNarrowFloat(type) && p0->shape().element_type() == type &&
        p1->shape().element_type() == type && body->operand(0)->shape().element_type() == PrimitiveType::kF32)
      body = body->operand(0);
    auto strip = [&](const Instruction* x) { return x->Is(Opcode::kConvert) && body != root ? x->operand(0) : x; };
    if (body->operand_count() == 2 && body->info().Has(kCommutative)) {
      const Instruction *a = strip(body->operand(0)), *b = strip(body->operand(1));
      if ((a == p0 && b == p1) || (a == p1 && b == p0)) {
        result.op = body->opcode();
        result.ops = {body->opcode()};
        result.reorderable = true;
      }
    }
    return result;
  }
  if (c.parameters().size() == 4) {
    bool float_values = IsFloat(c.parameter(0)->shape().element_type());
    result.selects_by_index = SelectsByIndex(c, float_values);
    if (result.selects_by_index) return result;
  }
  // Several independent reductions in one: each result a commutative operation of its own two parameters.
  size_t n = c.parameters().size() / 2;
  if (root->Is(Opcode::kTuple) && root->operand_count() == static_cast<int64_t>(n)) {
    bool all = n > 0;
    for (size_t i = 0; i < n && all; ++i) {
      const Instruction* x = root->operand(i);
      all = x->operand_count() == 2 && x->info().Has(kCommutative) &&
            ((x->operand(0) == c.parameter(i) && x->operand(1) == c.parameter(n + i)) ||
             (x->operand(1) == c.parameter(i) && x->operand(0) == c.parameter(n + i)));
    }
    result.reorderable = all;
    for (size_t i = 0; i < n && all; ++i) result.ops.push_back(root->operand(i)->opcode());
  }
  return result;
}

bool MayReorder(const Instruction& reduce, const Combiner& c) {
  if (!c.reorderable) return c.selects_by_index && IndexOperandIncreases(reduce);
  // All parts begin with the same kind of value: with identities, or else with the initial values, which are then
  // combined more than once.
  bool all_idempotent = true, all_have_identities = true;
  for (size_t i = 0; i < c.ops.size(); ++i) {
    const Opcode op = c.ops[i];
    all_idempotent &= op == Opcode::kMaximum || op == Opcode::kMinimum || op == Opcode::kAnd || op == Opcode::kOr;
    all_have_identities &=
        ElementEmitter::HasIdentity(op, reduce.operand(static_cast<int64_t>(i))->shape().element_type());
  }
  return all_idempotent || all_have_identities;
}

}  // namespace backplane::codegen
