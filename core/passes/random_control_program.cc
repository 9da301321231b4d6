#include "core/passes/random_control_program.h"

#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"

namespace backplane {
namespace {

using P = PrimitiveType;

// The values available in a computation: arrays s32[3], scalars s32[] and conditions pred[].
struct Values {
  std::vector<Value> arrays, numbers, conditions;
};

class ControlPrograms {
 public:
  ControlPrograms(Module* module, uint32_t seed) : module_(module), random_(seed) {}

  void Make() {
    // Each computation calls only earlier ones, and loops nest at most two deep.
    for (int round = 0; round < 2; ++round) {
      for (int k = 0, n = 1 + Below(2); k < n; ++k) functions_.push_back(Function(round));
      for (int k = 0, n = 1 + Below(2); k < n; ++k) branches_.push_back(Branch(round));
      for (int k = 0, n = 1 + Below(2); k < n; ++k) conditions_.push_back(Condition());
      for (int k = 0, n = 1 + Below(2); k < n; ++k) next_bodies_.push_back(Body(round));
      bodies_ = next_bodies_;
    }
    functions_.push_back(Function(2));
    Builder b(module_, "main");
    Values v;
    for (int k = 0; k < 2; ++k) v.arrays.push_back(*b.Parameter(k, Array()));
    const Value q = *b.Parameter(2, Shape::Scalar(P::kS32));
    v.numbers.push_back(*b.Binary(Opcode::kAnd, q, Number(b, 3)));
    v.conditions.push_back(*b.Parameter(3, Shape::Scalar(P::kPred)));
    Steps(b, v, 4 + Below(8), 2);
    std::vector<Value> results = {v.arrays.back(), Pick(v.arrays), Pick(v.arrays), Pick(v.numbers),
                                  v.conditions.back()};
    module_->set_entry(*b.Build(*b.Tuple(results)));
    module_->RemoveUnreachableComputations();
  }

 private:
  // The state of every loop: a counter, its limit, two arrays, a flag, and a counter that wraps around.
  enum Element { kCounter, kLimit, kFirst, kSecond, kFlag, kSmall, kElements };

  static Shape Array() { return Shape(P::kS32, {3}); }
  static Shape Pair() { return Shape::Tuple({Array(), Array()}); }
  static Shape State() {
    return Shape::Tuple({Shape::Scalar(P::kS32), Shape::Scalar(P::kS32), Array(), Array(), Shape::Scalar(P::kPred),
                         Shape::Scalar(P::kS8)});
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }
  Value Number(Builder& b, int64_t n, P type = P::kS32) { return *b.Constant(Literal::ScalarInt(type, n)); }

  // Returns one element of an array.
  Value ElementOf(Builder& b, Value array) {
    const int at = Below(3);
    return *b.Reshape(*b.Slice(array, {{at, at + 1, 1}}), {});
  }

  void Steps(Builder& b, Values& v, int count, int depth) {
    for (int k = 0; k < count; ++k) Step(b, v, depth);
  }

  void Step(Builder& b, Values& v, int depth) {
    static constexpr Opcode kOps[] = {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kXor,
                                      Opcode::kMaximum};
    static constexpr ComparisonDirection kDirections[] = {ComparisonDirection::kLt, ComparisonDirection::kNe,
                                                          ComparisonDirection::kGe};
    switch (Below(12)) {
      case 0:
      case 1:
        v.arrays.push_back(*b.Binary(kOps[Below(5)], Pick(v.arrays), Pick(v.arrays)));
        return;
      case 2:
        v.arrays.push_back(*b.Unary(Opcode::kNegate, Pick(v.arrays)));
        return;
      case 3:
        v.arrays.push_back(*b.BroadcastInDim(Pick(v.numbers), {3}, {}));
        return;
      case 4:
        v.numbers.push_back(Below(2) ? Number(b, Below(5)) : ElementOf(b, Pick(v.arrays)));
        return;
      case 5:
        v.conditions.push_back(Below(4) == 0
                                   ? Number(b, Below(2), P::kPred)
                                   : *b.Compare(Pick(v.numbers), ElementOf(b, Pick(v.arrays)), kDirections[Below(3)]));
        return;
      case 6:
        v.arrays.push_back(*b.Select(*b.BroadcastInDim(Pick(v.conditions), {3}, {}), Pick(v.arrays), Pick(v.arrays)));
        return;
      case 7:
      case 8:
        if (!functions_.empty()) TakePair(b, v, *b.Call(Pick(functions_), {Pick(v.arrays), Pick(v.arrays)}));
        return;
      case 9:
        if (!branches_.empty()) {
          const std::vector<Computation*> chosen = {Pick(branches_), Pick(branches_)};
          const Value given = *b.Tuple({Pick(v.arrays), Pick(v.arrays)});
          const Value other = Below(2) ? given : *b.Tuple({Pick(v.arrays), Pick(v.arrays)});
          TakePair(b, v, *b.Conditional(Pick(v.conditions), chosen, {given, other}));
        }
        return;
      default:
        if (!bodies_.empty() && depth > 0) Loop(b, v);
        return;
    }
  }

  void TakePair(Builder& b, Values& v, Value pair) {
    if (Below(3) != 0) v.arrays.push_back(*b.GetTupleElement(pair, 0));
    v.arrays.push_back(*b.GetTupleElement(pair, 1));
  }

  void Loop(Builder& b, Values& v) {
    const bool wraps = Below(4) == 0;
    // With steps of 100 from 3, 27 and 7, an s8 counter reaches 127 after 55, 1 and 14 steps.
    const int starts[] = {3, 27, 7};
    const Value limit = Below(3) == 0 ? *b.Binary(Opcode::kAnd, Pick(v.numbers), Number(b, 3)) : Number(b, Below(5));
    const Value init = *b.Tuple({Number(b, Below(3)), limit, Pick(v.arrays), Pick(v.arrays), Pick(v.conditions),
                                 Number(b, starts[Below(3)], P::kS8)});
    const Value loop = *b.While(wraps ? WrappingCondition() : Pick(conditions_), Pick(bodies_), init);
    for (const Element e : {kFirst, kSecond}) {
      if (Below(3) != 0) v.arrays.push_back(*b.GetTupleElement(loop, e));
    }
    v.numbers.push_back(*b.GetTupleElement(loop, Below(2) ? kCounter : kLimit));
    v.conditions.push_back(*b.GetTupleElement(loop, kFlag));
    if (Below(2)) v.numbers.push_back(*b.Convert(*b.GetTupleElement(loop, kSmall), P::kS32));
  }

  Computation* Function(int round) {
    Builder b(module_, "function");
    Values v;
    for (int k = 0; k < 2; ++k) v.arrays.push_back(*b.Parameter(k, Array()));
    return Finish(b, v, round);
  }

  Computation* Branch(int round) {
    Builder b(module_, "branch");
    const Value pair = *b.Parameter(0, Pair());
    Values v;
    for (int k = 0; k < 2; ++k) v.arrays.push_back(*b.GetTupleElement(pair, k));
    return Finish(b, v, round);
  }

  Computation* Finish(Builder& b, Values& v, int round) {
    v.numbers.push_back(Number(b, 1 + Below(3)));
    v.conditions.push_back(*b.Compare(v.numbers[0], ElementOf(b, v.arrays[0]), ComparisonDirection::kLt));
    Steps(b, v, 1 + Below(5), round);
    return *b.Build(*b.Tuple({v.arrays.back(), Pick(v.arrays)}));
  }

  Values Elements(Builder& b, Value state) {
    Values v;
    v.numbers = {*b.GetTupleElement(state, kCounter), *b.GetTupleElement(state, kLimit)};
    v.arrays = {*b.GetTupleElement(state, kFirst), *b.GetTupleElement(state, kSecond)};
    v.conditions = {*b.GetTupleElement(state, kFlag)};
    return v;
  }

  // True at most while the counter is below its limit; the flag or an array may end the loop earlier.
  Computation* Condition() {
    Builder b(module_, "condition");
    const Value state = *b.Parameter(0, State());
    Values v = Elements(b, state);
    const Value limit = Below(2) ? v.numbers[1] : Number(b, Below(5));
    Value go = *b.Compare(v.numbers[0], limit, ComparisonDirection::kLt);
    if (Below(2)) {
      Value more = Below(2) ? v.conditions[0] : *b.Unary(Opcode::kNot, v.conditions[0]);
      if (Below(2)) {
        const Value negated = *b.Unary(Opcode::kNegate, Pick(v.arrays));
        more = *b.Compare(ElementOf(b, negated), Number(b, Below(9) - 4), ComparisonDirection::kNe);
      }
      go = *b.Binary(Opcode::kAnd, go, more);
    }
    return *b.Build(go);
  }

  Computation* WrappingCondition() {
    if (wrapping_ == nullptr) {
      Builder b(module_, "wrapping");
      const Value state = *b.Parameter(0, State());
      wrapping_ =
          *b.Build(*b.Compare(*b.GetTupleElement(state, kSmall), Number(b, 127, P::kS8), ComparisonDirection::kLt));
    }
    return wrapping_;
  }

  Computation* Body(int round) {
    Builder b(module_, "body");
    const Value state = *b.Parameter(0, State());
    Values v = Elements(b, state);
    std::vector<Value> next(kElements);
    next[kCounter] = *b.Binary(Opcode::kAdd, v.numbers[0], Number(b, 1 + Below(2)));
    next[kLimit] = Below(4) == 0 ? Number(b, 3) : v.numbers[1];
    next[kSmall] = *b.Binary(Opcode::kAdd, *b.GetTupleElement(state, kSmall), Number(b, 100, P::kS8));
    Steps(b, v, 1 + Below(5), round);
    next[kFirst] = Below(4) == 0 ? v.arrays[static_cast<size_t>(Below(2))] : v.arrays.back();
    next[kSecond] = Below(3) == 0 ? v.arrays[1] : Pick(v.arrays);
    next[kFlag] = Below(3) == 0 ? v.conditions[0] : Pick(v.conditions);
    return *b.Build(*b.Tuple(next));
  }

  Module* const module_;
  std::mt19937 random_;
  std::vector<Computation*> functions_, branches_, conditions_, bodies_, next_bodies_;
  Computation* wrapping_ = nullptr;
};

}  // namespace

std::unique_ptr<Module> MakeRandomControlProgram(uint32_t seed) {
  auto module = std::make_unique<Module>(absl::StrCat("random_", seed));
  ControlPrograms(module.get(), seed).Make();
  return module;
}

}  // namespace backplane
