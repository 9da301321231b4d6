// Recipes for structured programs: loops with state of every kind that programs have.
//
// A loop is a condition and a body on a list of state elements. Each element is of one kind: a counter; a counter of a
// narrow type that wraps; a limit that only the condition reads; a flag that the body computes and only the condition
// reads; an array that the condition reduces; an array that is updated, exchanged with another one, passed on, replaced
// by a constant, set to another element's next value, or written in place and read before or after. The two
// computations are kept, and later loops run them with other initial values: in HLO form they are shared.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;

constexpr int64_t kMaxTripCount = 24;  // of a loop whose counter is narrow

enum class StateRole {
  kCounter,
  kNarrow,   // counter of a narrow type
  kLimit,    // only the condition reads it
  kFlag,     // the body computes it for the condition
  kWatched,  // an array that the condition reduces
  kUpdated,
  kExchanged,
  kForwarded,
  kReplaced,
  kCopied,
  kWritten,  // a slice of it
  kOld       // a written array before the write
};

// How the condition decides.
enum class Control { kCounted, kCountedToState, kNarrow, kCountedAndNarrow, kCountedUntilFlag, kUntilFlag, kWatched };

struct Element {
  StateRole carried;
  Value start = nullptr;
  std::optional<Literal> only;  // the only permitted initial value
  int64_t low = 0, high = -1;
  int group = -1;  // elements with the same group are exchanged; for a written array, the element with its old value
};

struct NarrowCounter {
  P type = P::kS8;
  int64_t start = 0, step = 1, limit = 0;
  ComparisonDirection direction = ComparisonDirection::kLt;
  int64_t trips = -1;  // -1: too many
};

bool Holds(int64_t a, ComparisonDirection direction, int64_t b) {
  switch (direction) {
    case ComparisonDirection::kLt:
      return a < b;
    case ComparisonDirection::kLe:
      return a <= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kGe:
      return a >= b;
    case ComparisonDirection::kNe:
      return a != b;
    default:
      return a == b;
  }
}

int64_t Wrapped(int64_t v, P type) {
  const int bits = BitWidth(type);
  if (bits >= 64) return v;
  const uint64_t low = static_cast<uint64_t>(v) & ((uint64_t{1} << bits) - 1);
  return IsSigned(type) ? static_cast<int64_t>(low << (64 - bits)) >> (64 - bits) : static_cast<int64_t>(low);
}

// Half of them wrap before they stop.
NarrowCounter AnyNarrowCounter(Random& random, const std::set<P>& without) {
  static const auto* const types = new std::vector<P>{P::kS8, P::kS8, P::kU8, P::kS16, P::kU16, P::kS32, P::kU32};
  static const auto* const directions = new std::vector<ComparisonDirection>{
      ComparisonDirection::kLt, ComparisonDirection::kLt, ComparisonDirection::kLt, ComparisonDirection::kLe,
      ComparisonDirection::kGt, ComparisonDirection::kGe, ComparisonDirection::kNe};
  const bool wraps = random.Chance(50);
  NarrowCounter c;
  for (int attempt = 0; attempt < 60; ++attempt) {
    c.type = random.Pick(*types);
    if (without.count(c.type) > 0) continue;
    const int bits = BitWidth(c.type);
    const int64_t span = int64_t{1} << bits, least = IsSigned(c.type) ? -span / 2 : 0;
    c.direction = random.Pick(*directions);
    c.step = wraps ? random.Between(span / 8, span / 2) : random.Between(1, 9);
    if (c.direction == ComparisonDirection::kGt || c.direction == ComparisonDirection::kGe) c.step = -c.step;
    c.start = random.Chance(50) ? std::max<int64_t>(least, random.Between(-3, 3)) : least + random.Below(span);
    c.limit = wraps ? least + random.Below(span) : Wrapped(c.start + c.step * random.Between(0, 6), c.type);
    if (wraps && random.Chance(50))
      c.limit = c.step > 0 ? least + span - 1 - random.Below(20) : least + random.Below(20);
    bool over = false;
    int64_t at = c.start, trips = 0;
    for (; trips <= kMaxTripCount && Holds(at, c.direction, c.limit); ++trips) {
      const int64_t next = Wrapped(at + c.step, c.type);
      over = over || next != at + c.step;
      at = next;
    }
    if (trips <= kMaxTripCount && over == wraps) {
      c.trips = trips;
      return c;
    }
  }
  return c;
}

}  // namespace

struct Generator::StateScope {
  std::unique_ptr<Scope> scope;
  std::vector<Value> elements;
};

std::vector<Generator::Recipe> Generator::LoopRecipes() {
  return {
      {90, {Opcode::kWhile}, &Generator::StateLoop, false, true, true, false, true},
      {25, {Opcode::kWhile}, &Generator::BatchedLoop, false, true, true, false, true},
  };
}

// Returns a scalar that is an argument in the given percentage of cases, if that is possible.
Value Generator::Scalar(Scope& s, Literal value, int argument_percent) {
  if (s.depth == 0 && random_.Chance(argument_percent)) {
    hlo::Result p = hlo::Parameter(s.b, static_cast<int64_t>(program_.arguments.size()), value.shape());
    if (!p.ok()) return nullptr;
    Bind(s, *p, std::move(value));
    return *p;
  }
  return Add(s, s.b.Constant(std::move(value)));
}

Value Generator::ReduceToScalar(Scope& s, Value v, Opcode op) {
  if (v == nullptr) return nullptr;
  if (v->shape().rank() == 0) return v;
  const P type = v->shape().element_type();
  const Value init = Identity(s, op, type);
  Computation* body = Combiner(s, op, type);
  if (init == nullptr || body == nullptr) return nullptr;
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < v->shape().rank(); ++d) dims.push_back(d);
  return Add(s, s.b.Reduce({v}, {init}, body, dims));
}

// Returns a boolean computed from the scope's values.
Value Generator::MakeDecision(Scope& s) {
  const Value v = Any(s, random_.Chance(60) ? Kind::kInteger : Kind::kReal, 0, 3);
  if (v == nullptr || v->shape().num_elements() == 0) return nullptr;
  const bool whole = IsIntegral(v->shape().element_type());
  const Value one =
      ReduceToScalar(s, v, whole && random_.Chance(50) ? Opcode::kAdd : PickOne({Opcode::kMaximum, Opcode::kMinimum}));
  if (one == nullptr) return nullptr;
  const P type = one->shape().element_type();
  const Value limit =
      Add(s, s.b.Constant(whole ? Literal::ScalarInt(
                                      type, random_.Between(IsUnsigned(type) ? 0 : -3, BitWidth(type) > 4 ? 12 : 1))
                                : Literal::Scalar(type, 0.37 * static_cast<double>(random_.Between(-3, 5)))));
  if (limit == nullptr) return nullptr;
  return Add(s, s.b.Compare(one, limit, random_.Chance(50) ? ComparisonDirection::kGt : ComparisonDirection::kLe));
}

Generator::StateScope Generator::OpenState(Scope& s, const std::string& name, const BoundedValue& state, int64_t packed,
                                           bool plain) {
  StateScope o;
  o.scope = std::make_unique<Scope>(s.b.module(), name, s.depth + 1);
  o.scope->plain = plain;
  Scope& in = *o.scope;
  const Shape shape = state.ToLiteral().shape();
  hlo::Result p = in.b.Parameter(0, shape);
  if (!p.ok()) return {};
  in.bounded[*p] = state;
  for (int64_t k = 0; k < shape.tuple_size(); ++k) {
    const Value e = Add(in, in.b.GetTupleElement(*p, k));
    if (e == nullptr) return {};
    if (!e->shape().IsTuple()) {
      o.elements.push_back(e);
      continue;
    }
    for (int64_t m = 0; m < packed; ++m) {
      o.elements.push_back(Add(in, in.b.GetTupleElement(e, m)));
      if (o.elements.back() == nullptr) return {};
    }
  }
  return o;
}

namespace {

// Returns the state, with the last `packed` elements in a nested tuple.
hlo::Result Packed(Builder& b, std::vector<Value> elements, int64_t packed) {
  if (packed > 0) {
    const std::vector<Value> last(elements.end() - packed, elements.end());
    elements.resize(elements.size() - static_cast<size_t>(packed));
    hlo::Result inner = b.Tuple(last);
    if (!inner.ok()) return inner;
    elements.push_back(*inner);
  }
  return b.Tuple(elements);
}

}  // namespace

Value Generator::RunLoop(Scope& s, const LoopForm& form, const std::vector<Value>& start) {
  const Value init = Add(s, Packed(s.b, start, form.packed));
  return init == nullptr ? nullptr : Add(s, s.b.While(form.condition, form.body, init));
}

std::optional<std::vector<Value>> Generator::MakeStart(Scope& s, const LoopForm& form) {
  std::vector<Value> start;
  for (const StateElement& e : form.state) {
    Value v;
    if (e.start.has_value()) {
      v = Scalar(s, *e.start, 25);
    } else if (e.high >= e.low) {
      v = Scalar(s, Literal::ScalarInt(e.shape.element_type(), random_.Between(e.low, e.high)), 50);
    } else {
      v = random_.Chance(30) ? Constant(s, e.shape) : Like(s, e.shape.element_type(), e.shape.dimensions());
    }
    if (v == nullptr) return std::nullopt;
    start.push_back(v);
  }
  return start;
}

std::optional<Generator::LoopForm> Generator::MakeLoop(Scope& s, std::vector<Value>* start) {
  static const auto* const controls = new std::vector<Control>{
      Control::kCounted,          Control::kCounted,   Control::kCountedToState,   Control::kCountedToState,
      Control::kNarrow,           Control::kNarrow,    Control::kCountedAndNarrow, Control::kCountedUntilFlag,
      Control::kCountedUntilFlag, Control::kUntilFlag, Control::kUntilFlag,        Control::kWatched};
  static const auto* const ways = new std::vector<StateRole>{
      StateRole::kUpdated,   StateRole::kUpdated,   StateRole::kUpdated,   StateRole::kUpdated,
      StateRole::kExchanged, StateRole::kExchanged, StateRole::kForwarded, StateRole::kForwarded,
      StateRole::kReplaced,  StateRole::kCopied,    StateRole::kWritten,   StateRole::kWritten};
  const Control control = random_.Pick(*controls);
  const NarrowCounter narrow = AnyNarrowCounter(random_, options_.without_types);
  const bool has_narrow = control == Control::kNarrow || control == Control::kCountedAndNarrow;
  if (has_narrow && narrow.trips < 0) return std::nullopt;
  const int64_t trips = random_.Between(0, 5);
  const P counts = options_.without_types.count(P::kS64) == 0 && random_.Chance(25) ? P::kS64 : P::kS32;

  std::vector<Element> state;
  auto add = [&](Element e) {
    if (e.start == nullptr && e.only.has_value()) e.start = Scalar(s, *e.only, 25);
    state.push_back(std::move(e));
    return state.back().start != nullptr;
  };
  bool ok = true;
  if (control != Control::kNarrow) ok = ok && add({StateRole::kCounter, nullptr, Literal::ScalarInt(counts, 0)});
  if (control == Control::kCountedToState || control == Control::kUntilFlag) {
    Element limit{StateRole::kLimit, nullptr, std::nullopt, 0, 5};
    limit.start = Scalar(s, Literal::ScalarInt(counts, trips), 60);
    ok = ok && add(std::move(limit));
  }
  if (has_narrow) ok = ok && add({StateRole::kNarrow, nullptr, Literal::ScalarInt(narrow.type, narrow.start)});
  if (control == Control::kUntilFlag || control == Control::kCountedUntilFlag) {
    ok = ok && add({StateRole::kFlag, nullptr, Literal::ScalarInt(P::kPred, random_.Chance(85) ? 0 : 1)});
  }
  if (control == Control::kWatched) ok = ok && add({StateRole::kWatched, Any(s, Kind::kReal, 0, 3)});
  const int64_t more = random_.Between(1, 4);
  for (int64_t k = 0; k < more && ok; ++k) {
    Element e{random_.Pick(*ways)};
    e.start = Any(s, Kind::kAny, e.carried == StateRole::kWritten ? 1 : 0, 3);
    if (e.start == nullptr || (e.carried == StateRole::kWritten && e.start->shape().num_elements() == 0)) continue;
    const Shape shape = e.start->shape().WithoutLayout();
    e.group = static_cast<int>(k);
    if (random_.Chance(20)) e.start = Constant(s, shape);
    const StateRole carried = e.carried;
    ok = ok && add(std::move(e));
    if (carried == StateRole::kExchanged || (carried == StateRole::kWritten && random_.Chance(40))) {
      Element other{carried == StateRole::kExchanged ? StateRole::kExchanged : StateRole::kOld};
      other.group = static_cast<int>(k);
      other.start = random_.Chance(20) ? state.back().start : Like(s, shape.element_type(), shape.dimensions());
      ok = ok && add(std::move(other));
    }
  }
  if (!ok || state.empty()) return std::nullopt;
  std::vector<Element> shuffled;
  for (const int64_t k : random_.Permutation(static_cast<int64_t>(state.size()))) {
    shuffled.push_back(state[static_cast<size_t>(k)]);
  }
  state = std::move(shuffled);

  LoopForm form;
  if (!options_.portable && state.size() > 2 && random_.Chance(15)) {
    form.packed = random_.Between(1, static_cast<int64_t>(state.size()) - 1);
  }
  start->clear();
  for (const Element& e : state) {
    start->push_back(e.start);
    form.state.push_back({e.start->shape().WithoutLayout(), e.only, e.low, e.high});
  }
  const Value init = Add(s, Packed(s.b, *start, form.packed));
  if (init == nullptr) return std::nullopt;
  const BoundedValue bounded = GetBoundedValue(s, init);

  StateScope body = OpenState(s, "loop_body", bounded, form.packed, random_.Chance(40));
  if (body.scope == nullptr) return std::nullopt;
  Scope& b = *body.scope;
  Value counter = nullptr, limit = nullptr;
  for (size_t k = 0; k < state.size(); ++k) {
    const StateRole carried = state[k].carried;
    if (carried == StateRole::kCounter) counter = body.elements[k];
    if (carried == StateRole::kLimit) limit = body.elements[k];
    const bool only_condition =
        carried == StateRole::kLimit || carried == StateRole::kFlag || carried == StateRole::kWatched;
    if (!only_condition || random_.Chance(25)) b.values.push_back(body.elements[k]);
  }
  const int64_t steps = random_.Between(0, s.depth > 0 ? 3 : 5);
  for (int64_t k = 0; k < steps; ++k) Step(b);
  std::vector<Value> next(state.size(), nullptr);
  for (size_t k = 0; k < state.size(); ++k) {
    const Value now = body.elements[k];
    const Shape shape = now->shape().WithoutLayout();
    const P type = shape.element_type();
    switch (state[k].carried) {
      case StateRole::kCounter:
      case StateRole::kNarrow: {
        const int64_t by = state[k].carried == StateRole::kCounter ? 1 : narrow.step;
        const bool minus = by < 0 || (IsUnsigned(type) && by < 0);
        const Value step = Add(b, b.b.Constant(Literal::ScalarInt(type, minus ? -by : by)));
        if (step == nullptr) return std::nullopt;
        next[k] = minus                ? Add(b, b.b.Binary(Opcode::kSubtract, now, step))
                  : random_.Chance(80) ? Add(b, b.b.Binary(Opcode::kAdd, now, step))
                                       : Add(b, b.b.Binary(Opcode::kAdd, step, now));
        break;
      }
      case StateRole::kFlag: {
        if (control == Control::kUntilFlag) {
          const Value one = Add(b, b.b.Constant(Literal::ScalarInt(counts, 1)));
          const Value after = one == nullptr ? nullptr : Add(b, b.b.Binary(Opcode::kAdd, counter, one));
          next[k] = after == nullptr ? nullptr : Add(b, b.b.Compare(after, limit, ComparisonDirection::kGe));
          break;
        }
        next[k] = MakeDecision(b);
        if (next[k] != nullptr && random_.Chance(25)) next[k] = Add(b, b.b.Binary(Opcode::kOr, next[k], now));
        break;
      }
      case StateRole::kWatched:
        next[k] = random_.Chance(40) ? now : FindOrMake(b, shape);
        break;
      case StateRole::kReplaced:
        next[k] = Constant(b, shape);
        break;
      case StateRole::kExchanged:
        for (size_t o = 0; o < state.size(); ++o) {
          if (o != k && state[o].group == state[k].group && state[k].group >= 0) next[k] = body.elements[o];
        }
        break;
      case StateRole::kOld:  // the array before it is written
        for (size_t o = 0; o < state.size(); ++o) {
          if (o != k && state[o].group == state[k].group) next[k] = body.elements[o];
        }
        break;
      case StateRole::kWritten: {
        std::vector<int64_t> sizes = GetDims(now);
        const int64_t rows = sizes[0];
        sizes[0] = std::min<int64_t>(rows, random_.Between(1, 2));
        auto place = [&](bool counted) {
          Value at = counted && counter != nullptr
                         ? counter
                         : Add(b, b.b.Constant(Literal::ScalarInt(P::kS32, random_.Between(-1, rows))));
          if (at == nullptr) return std::vector<Value>();
          const Value zero = Add(b, b.b.Constant(Literal::ScalarInt(at->shape().element_type(), 0)));
          std::vector<Value> places(sizes.size(), zero);
          places[0] = at;
          return places;
        };
        const std::vector<Value> to = place(random_.Chance(75));
        if (to.empty() || to[to.size() - 1] == nullptr) return std::nullopt;
        Value update = nullptr;
        if (random_.Chance(60)) {  // computed from another part of the array
          const std::vector<Value> from = place(random_.Chance(40));
          if (from.empty()) return std::nullopt;
          const Value part = Add(b, hlo::DynamicSlice(b.b, now, from, sizes));
          if (part == nullptr) return std::nullopt;
          b.values.push_back(part);
          Step(b);
          update = FindOrMake(b, Shape(type, sizes));
        } else {
          update = FindOrMake(b, Shape(type, sizes));
        }
        if (update == nullptr) return std::nullopt;
        next[k] = Add(b, hlo::DynamicUpdateSlice(b.b, now, update, to));
        if (next[k] != nullptr && random_.Chance(30)) b.values.push_back(next[k]);
        break;
      }
      default:
        break;
    }
  }
  for (size_t k = 0; k < state.size(); ++k) {
    if (next[k] != nullptr) continue;
    const Shape shape = body.elements[k]->shape().WithoutLayout();
    switch (state[k].carried) {
      case StateRole::kUpdated:
        next[k] = FindOrMake(b, shape);
        break;
      case StateRole::kCopied:
        for (size_t o = 0; o < state.size(); ++o) {
          if (o != k && next[o] != nullptr && next[o]->shape().WithoutLayout() == shape) next[k] = next[o];
        }
        if (next[k] == nullptr) next[k] = FindOrMake(b, shape);
        break;
      case StateRole::kLimit:
      case StateRole::kForwarded:
      case StateRole::kExchanged:
      case StateRole::kOld:
        next[k] = body.elements[k];
        break;
      default:
        break;
    }
    if (next[k] == nullptr) return std::nullopt;
  }
  const Value root = Add(b, Packed(b.b, next, form.packed));
  if (root == nullptr) return std::nullopt;

  StateScope condition = OpenState(s, "loop_condition", bounded, form.packed, false);
  if (condition.scope == nullptr) return std::nullopt;
  Scope& c = *condition.scope;
  auto element = [&](StateRole carried) -> Value {
    for (size_t k = 0; k < state.size(); ++k) {
      if (state[k].carried == carried) return condition.elements[k];
    }
    return nullptr;
  };
  Value go = nullptr;
  auto also = [&](Value test) {
    if (test == nullptr || go == nullptr) {
      go = test;
    } else {
      go = random_.Chance(50) ? Add(c, c.b.Binary(Opcode::kAnd, go, test)) : Add(c, c.b.Binary(Opcode::kAnd, test, go));
    }
    return go != nullptr;
  };
  if (control != Control::kNarrow && control != Control::kUntilFlag) {
    Value most = element(StateRole::kLimit);
    if (most == nullptr) most = Add(c, c.b.Constant(Literal::ScalarInt(counts, trips)));
    if (most == nullptr || !also(Add(c, c.b.Compare(element(StateRole::kCounter), most, ComparisonDirection::kLt)))) {
      return std::nullopt;
    }
  }
  if (has_narrow) {
    const Value most = Add(c, c.b.Constant(Literal::ScalarInt(narrow.type, narrow.limit)));
    if (most == nullptr || !also(Add(c, c.b.Compare(element(StateRole::kNarrow), most, narrow.direction))))
      return std::nullopt;
  }
  if (const Value flag = element(StateRole::kFlag); flag != nullptr) {
    if (!also(Add(c, c.b.Unary(Opcode::kNot, flag)))) return std::nullopt;
  }
  if (Value watched = element(StateRole::kWatched); watched != nullptr) {
    const P type = watched->shape().element_type();
    if (random_.Chance(60)) {
      watched = Add(c, c.b.Unary(PickOne({Opcode::kAbs, Opcode::kNegate, Opcode::kSign}), watched));
      if (watched == nullptr) return std::nullopt;
    }
    const Value one = ReduceToScalar(c, watched, PickOne({Opcode::kMaximum, Opcode::kMinimum, Opcode::kAdd}));
    if (one == nullptr) return std::nullopt;
    const Value most =
        Add(c, c.b.Constant(IsFloat(type) ? Literal::Scalar(type, 0.4 * static_cast<double>(random_.Between(-4, 4)))
                                          : Literal::ScalarInt(type, random_.Between(0, 1))));
    if (most == nullptr ||
        !also(
            Add(c, c.b.Compare(one, most, random_.Chance(50) ? ComparisonDirection::kGt : ComparisonDirection::kLe)))) {
      return std::nullopt;
    }
  }
  if (go == nullptr) return std::nullopt;
  absl::StatusOr<Computation*> built_condition = c.b.Build(go), built_body = b.b.Build(root);
  if (!built_condition.ok() || !built_body.ok()) return std::nullopt;
  (*built_condition)->RemoveDead();
  (*built_body)->RemoveDead();
  form.condition = *built_condition;
  form.body = *built_body;
  return form;
}

Value Generator::StateLoop(Scope& s) {
  if (s.depth > 0 && random_.Chance(50)) return nullptr;
  const double most_cost = s.depth == 0 ? 4000 : s.depth == 1 ? 400 : 60;
  std::vector<Value> start;
  std::optional<LoopForm> form;
  if (!loops_.empty() && (s.depth >= 2 || random_.Chance(40))) {
    form = random_.Pick(loops_);
    if (EstimateCost(form->body) * 6 > most_cost) return nullptr;
    std::optional<std::vector<Value>> other = MakeStart(s, *form);
    if (!other.has_value()) return nullptr;
    start = *std::move(other);
  } else {
    if (s.depth >= 2) return nullptr;
    form = MakeLoop(s, &start);
    if (!form.has_value() || EstimateCost(form->body) * 6 > most_cost) return nullptr;
  }
  const Value first = RunLoop(s, *form, start);
  if (first == nullptr || !IsUseful(GetBoundedValue(s, first))) return nullptr;
  if (std::none_of(loops_.begin(), loops_.end(), [&](const LoopForm& f) { return f.body == form->body; })) {
    loops_.push_back(*form);
  }
  if (!random_.Chance(35)) return first;
  // Runs the loop again, with other values and some results of the first run.
  std::optional<std::vector<Value>> again = MakeStart(s, *form);
  if (!again.has_value()) return first;
  const int64_t plain = static_cast<int64_t>(form->state.size()) - form->packed;
  for (int64_t k = 0; k < plain; ++k) {
    const StateElement& e = form->state[static_cast<size_t>(k)];
    if (e.start.has_value() || e.high >= e.low || !random_.Chance(50)) continue;
    const Value left = Add(s, s.b.GetTupleElement(first, k));
    if (left != nullptr && IsUseful(GetBoundedValue(s, left))) (*again)[static_cast<size_t>(k)] = left;
  }
  const Value second = RunLoop(s, *form, *again);
  if (second == nullptr || !IsUseful(GetBoundedValue(s, second))) return first;
  Keep(s, first);
  return second;
}

// A loop after vmap: it runs while the condition of any batch element is true; finished elements keep their values.
Value Generator::BatchedLoop(Scope& s) {
  if (s.depth > 0 && random_.Chance(50)) return nullptr;
  const Value x = Any(s, Kind::kNumber, 1, 3);
  if (x == nullptr || x->shape().num_elements() == 0) return nullptr;
  const int64_t lanes = x->shape().dimensions(0);
  const Shape counts(P::kS32, {lanes});
  const Value counter = random_.Chance(70) ? Add(s, s.b.Constant(Literal(counts))) : nullptr;
  Literal trips(counts), begin(counts);
  for (int64_t k = 0; k < lanes; ++k) {
    trips.SetFromInt(k, random_.Between(0, 5));
    begin.SetFromInt(k, random_.Between(0, 3));
  }
  const Value from = counter != nullptr ? counter : Add(s, s.b.Constant(begin));
  Value limit = nullptr;
  if (s.depth == 0 && random_.Chance(60)) {
    hlo::Result p = hlo::Parameter(s.b, static_cast<int64_t>(program_.arguments.size()), counts);
    if (!p.ok()) return nullptr;
    Bind(s, *p, std::move(trips));
    limit = *p;
  } else {
    limit = Add(s, s.b.Constant(std::move(trips)));
  }
  const Value other = random_.Chance(40) ? Like(s, x->shape().element_type(), x->shape().dimensions()) : nullptr;
  if (from == nullptr || limit == nullptr) return nullptr;
  std::vector<Value> start = {from, limit, x};
  if (other != nullptr) start.push_back(other);
  const Value init = Add(s, s.b.Tuple(start));
  if (init == nullptr) return nullptr;
  StateScope condition = OpenState(s, "any_lane", GetBoundedValue(s, init), 0, false);
  StateScope body = OpenState(s, "lanes", GetBoundedValue(s, init), 0, random_.Chance(60));
  if (condition.scope == nullptr || body.scope == nullptr) return nullptr;
  Scope &c = *condition.scope, &b = *body.scope;
  const Value left = Add(c, c.b.Compare(condition.elements[0], condition.elements[1], ComparisonDirection::kLt));
  const Value go = ReduceToScalar(c, left, Opcode::kOr);
  const Value runs = Add(b, b.b.Compare(body.elements[0], body.elements[1], ComparisonDirection::kLt));
  const Value ones = Add(b, b.b.Constant(Literal::ScalarInt(P::kS32, 1)));
  if (go == nullptr || runs == nullptr || ones == nullptr) return nullptr;
  const Value wide = Add(b, b.b.BroadcastInDim(ones, {lanes}, {}));
  const Value more = wide == nullptr ? nullptr : Add(b, b.b.Binary(Opcode::kAdd, body.elements[0], wide));
  if (more == nullptr) return nullptr;
  b.values.assign(body.elements.begin() + 2, body.elements.end());
  if (random_.Chance(40)) b.values.push_back(body.elements[0]);
  const int64_t steps = random_.Between(1, 4);
  for (int64_t k = 0; k < steps; ++k) Step(b);
  std::vector<Value> next = {Add(b, b.b.Select(runs, more, body.elements[0])), body.elements[1]};
  for (size_t k = 2; k < body.elements.size(); ++k) {
    const Value old = body.elements[k];
    const Value v = FindOrMake(b, old->shape().WithoutLayout());
    const Value mask = Add(b, b.b.BroadcastInDim(runs, GetDims(old), {0}));
    if (v == nullptr || mask == nullptr) return nullptr;
    next.push_back(Add(b, b.b.Select(mask, v, old)));
  }
  for (const Value v : next) {
    if (v == nullptr) return nullptr;
  }
  const Value root = Add(b, b.b.Tuple(next));
  if (root == nullptr) return nullptr;
  absl::StatusOr<Computation*> cc = c.b.Build(go), bb = b.b.Build(root);
  if (!cc.ok() || !bb.ok()) return nullptr;
  (*bb)->RemoveDead();
  if (EstimateCost(*bb) * 6 > (s.depth == 0 ? 4000 : 400)) return nullptr;
  return Add(s, s.b.While(*cc, *bb, init));
}

}  // namespace backplane::cli::fuzz
