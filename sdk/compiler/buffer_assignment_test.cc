// Random programs of loops, branches and elementwise steps are run twice: by plain recursion, and in the memory that
// the assignment gives, with the copies it asks for. Any value overwritten too early shows as a difference.
#include "sdk/compiler/buffer_assignment.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/ir/builder.h"

namespace backplane::compiler {
namespace {

constexpr int64_t kElements = 3;
using Array = std::vector<int64_t>;

Shape ArrayShape() { return Shape(PrimitiveType::kS64, {kElements}); }
Shape ScalarShape() { return Shape::Scalar(PrimitiveType::kS64); }

bool Elementwise(const Instruction* i) {
  return i->Is(Opcode::kAdd) || i->Is(Opcode::kMultiply) || i->Is(Opcode::kSubtract) || i->Is(Opcode::kNegate) ||
         i->Is(Opcode::kAnd) || i->Is(Opcode::kCopy) || i->Is(Opcode::kSlice);  // slices begin at the first element
}

int64_t Apply(Opcode op, int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case Opcode::kAdd:
      return static_cast<int64_t>(x + y);
    case Opcode::kMultiply:
      return static_cast<int64_t>(x * y);
    case Opcode::kSubtract:
      return static_cast<int64_t>(x - y);
    case Opcode::kAnd:
      return static_cast<int64_t>(x & y);
    case Opcode::kNegate:
      return static_cast<int64_t>(0 - x);
    default:
      return a;
  }
}

// ---- plain recursion

using Leaves = std::vector<Array>;

Leaves RunPlainly(const Computation* c, const std::vector<Leaves>& arguments) {
  absl::flat_hash_map<const Instruction*, Leaves> value;
  for (const auto& owned : c->instructions()) {
    const Instruction* i = owned.get();
    Leaves out;
    switch (i->opcode()) {
      case Opcode::kParameter:
        out = arguments[i->parameter_number()];
        break;
      case Opcode::kConstant: {
        out = {Array(static_cast<size_t>(i->shape().num_elements()))};
        for (size_t e = 0; e < out[0].size(); ++e) out[0][e] = i->literal().GetAsInt(static_cast<int64_t>(e));
        break;
      }
      case Opcode::kTuple:
        for (const Instruction* o : i->operands()) out.insert(out.end(), value[o].begin(), value[o].end());
        break;
      case Opcode::kGetTupleElement:
        out = {value[i->operand(0)][i->tuple_index()]};
        break;
      case Opcode::kReshape:
        out = value[i->operand(0)];
        break;
      case Opcode::kCall: {
        std::vector<Leaves> given;
        for (const Instruction* o : i->operands()) given.push_back(value[o]);
        out = RunPlainly(i->called(0), given);
        break;
      }
      case Opcode::kCompare:
        out = {{value[i->operand(0)][0][0] < value[i->operand(1)][0][0]}};
        break;
      case Opcode::kWhile: {
        Leaves state = value[i->operand(0)];
        while (RunPlainly(i->called(0), {state})[0][0] != 0) state = RunPlainly(i->called(1), {state});
        out = state;
        break;
      }
      case Opcode::kConditional:
        out = value[i->operand(0)][0][0] != 0 ? RunPlainly(i->called(0), {value[i->operand(1)]})
                                              : RunPlainly(i->called(1), {value[i->operand(2)]});
        break;
      default: {
        const Array& a = value[i->operand(0)][0];
        out = {Array(static_cast<size_t>(i->shape().num_elements()))};
        for (size_t e = 0; e < out[0].size(); ++e) {
          out[0][e] = Apply(i->opcode(), a[e], i->operand_count() > 1 ? value[i->operand(1)][0][e] : 0);
        }
      }
    }
    value[i] = std::move(out);
  }
  return value[c->root()];
}

// ---- in assigned memory

class Machine {
 public:
  Machine(const BufferAssignment& a, std::vector<std::vector<char>>& arguments, std::vector<std::vector<char>>& outputs)
      : a_(a), block_(static_cast<size_t>(a.temporary_bytes), char(0xAA)) {
    for (const Instruction* c : a.constants) {
      constants_.emplace_back(reinterpret_cast<const char*>(c->literal().bytes()),
                              reinterpret_cast<const char*>(c->literal().bytes()) + c->literal().byte_size());
    }
    for (const Slot& s : a.slots) {
      switch (s.kind) {
        case Slot::Kind::kArgument:
          at_.push_back(arguments[s.index].data());
          break;
        case Slot::Kind::kOutput:
          at_.push_back(outputs[s.index].data());
          break;
        case Slot::Kind::kConstant:
          at_.push_back(constants_[s.index].data());
          break;
        case Slot::Kind::kTemporary:
          at_.push_back(block_.data() + s.offset);
          break;
      }
    }
  }

  void Run(const Computation* c) {
    for (const auto& owned : c->instructions()) Step(owned.get());
    auto end = a_.end_copies.find(c);
    if (end != a_.end_copies.end()) Copy(end->second);
  }

  char* at(SlotId s) const { return at_[s]; }

 private:
  void Copy(const std::vector<SlotCopy>& copies) {
    for (const SlotCopy& c : copies) std::memcpy(at_[c.to], at_[c.from], static_cast<size_t>(c.bytes));
  }

  void Step(const Instruction* i) {
    if (i->Is(Opcode::kWhile)) {
      auto entry = a_.loop_entry_copies.find(i);
      if (entry != a_.loop_entry_copies.end()) Copy(entry->second);
      while (true) {
        Run(i->called(0));
        if (*at_[a_.slot(i->called(0)->root())] == 0) return;
        Run(i->called(1));
      }
    }
    if (i->Is(Opcode::kCall)) return Run(i->called(0));
    if (i->Is(Opcode::kConditional)) return Run(i->called(*at_[a_.slot(i->operand(0))] != 0 ? 0 : 1));
    if (i->Is(Opcode::kCompare)) {
      int64_t x, y;
      std::memcpy(&x, at_[a_.slot(i->operand(0))], 8);
      std::memcpy(&y, at_[a_.slot(i->operand(1))], 8);
      *at_[a_.slot(i)] = x < y;
      return;
    }
    if (!Elementwise(i)) return;
    // Element by element, so that working in place is fine and anything else is not.
    for (int64_t e = 0; e < i->shape().num_elements(); ++e) {
      int64_t x = 0, y = 0;
      std::memcpy(&x, at_[a_.slot(i->operand(0))] + 8 * e, 8);
      if (i->operand_count() > 1) std::memcpy(&y, at_[a_.slot(i->operand(1))] + 8 * e, 8);
      const int64_t r = Apply(i->opcode(), x, y);
      std::memcpy(at_[a_.slot(i)] + 8 * e, &r, 8);
    }
  }

  const BufferAssignment& a_;
  std::vector<char> block_;
  std::vector<std::vector<char>> constants_;
  std::vector<char*> at_;
};

// ---- random programs

class Generator {
 public:
  Generator(Module* m, uint32_t seed) : m_(m), random_(seed) {}

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  // Adds steps to `b`; `live` holds arrays to choose from.
  void Steps(Builder& b, std::vector<Value>& live, int count, int depth) {
    for (int s = 0; s < count; ++s) {
      const int kind = Below(depth > 0 ? 11 : 8);
      if (kind < 6) {
        static constexpr Opcode kOps[] = {Opcode::kAdd, Opcode::kMultiply, Opcode::kSubtract};
        live.push_back(*b.Op(kOps[Below(3)], {Pick(live), Pick(live)}));
      } else if (kind == 6) {
        live.push_back(*b.Op(Opcode::kNegate, {Pick(live)}));
      } else if (kind == 7) {
        const int64_t v[kElements] = {Below(9), Below(9), Below(9)};
        live.push_back(*b.Constant(Literal::FromValues<int64_t>({kElements}, v)));
      } else if (kind == 8) {
        Loop(b, live, depth - 1);
      } else if (kind == 9) {
        Branch(b, live, depth - 1);
      } else {
        Call(b, live, depth - 1);
      }
    }
  }

  Value Pick(const std::vector<Value>& live) { return live[static_cast<size_t>(Below(static_cast<int>(live.size())))]; }

  void Loop(Builder& b, std::vector<Value>& live, int depth) {
    const int width = 1 + Below(4);
    std::vector<Shape> shapes(static_cast<size_t>(width), ArrayShape());
    shapes.push_back(ScalarShape());
    const Shape state = Shape::Tuple(shapes);
    Builder cond(m_, "condition");
    Value cp = *cond.Parameter(0, state);
    Value limit = *cond.Constant(Literal::ScalarInt(PrimitiveType::kS64, Below(4)));
    Value at = *cond.GetTupleElement(cp, width);
    if (Below(2) == 0) at = *cond.Op(Opcode::kAdd, {at, OneBit(cond, cp, width, depth)});
    Computation* condition = *cond.Build(*cond.Compare(at, limit, ComparisonDirection::kLt));
    Builder body(m_, "body");
    Value bp = *body.Parameter(0, state);
    std::vector<Value> inside;
    for (int k = 0; k < width; ++k) inside.push_back(*body.GetTupleElement(bp, k));
    Value one = *body.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
    Value next = *body.Op(Opcode::kAdd, {*body.GetTupleElement(bp, width), one});
    Steps(body, inside, 1 + Below(5), depth);
    std::vector<Value> result;
    // Swaps, repeats and unchanged elements are among them, and elements that nobody but the condition reads.
    for (int k = 0; k < width; ++k) result.push_back(Pick(inside));
    result.push_back(next);
    Computation* body_computation = *body.Build(*body.Tuple(result));
    std::vector<Value> init;
    for (int k = 0; k < width; ++k) init.push_back(Pick(live));
    init.push_back(*b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 0)));
    Value loop = *b.While(condition, body_computation, *b.Tuple(init));
    for (int k = 0; k < width; ++k) live.push_back(*b.GetTupleElement(loop, k));
  }

  // Nought or one, by what a condition works out from elements of the state: while the counter of the turns grows, the
  // loop ends all the same.
  Value OneBit(Builder& b, Value state, int width, int depth) {
    std::vector<Value> inside;
    for (int k = 0; k < width; ++k) {
      if (Below(2) == 0) inside.push_back(*b.GetTupleElement(state, k));
    }
    if (inside.empty()) inside.push_back(*b.GetTupleElement(state, Below(width)));
    Steps(b, inside, 1 + Below(3), Below(4) == 0 ? depth : 0);
    Value first = *b.Slice(inside.back(), {{0, 1, 1}});
    Value one = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
    return *b.Op(Opcode::kAnd, {*b.Reshape(first, {}), one});
  }

  // A call that stays one, of values as they are.
  void Call(Builder& b, std::vector<Value>& live, int depth) {
    Builder callee(m_, "callee");
    std::vector<Value> inside, arguments, out;
    const int width = 1 + Below(3), results = 1 + Below(3);
    for (int k = 0; k < width; ++k) {
      inside.push_back(*callee.Parameter(k, ArrayShape()));
      arguments.push_back(Pick(live));
    }
    Steps(callee, inside, Below(4), depth);
    for (int k = 0; k < results; ++k) out.push_back(Pick(inside));
    Value call = *b.Call(*callee.Build(*callee.Tuple(out)), arguments);
    call->mutable_frontend_attributes()["inlineable"] = "false";
    for (int k = 0; k < results; ++k) live.push_back(*b.GetTupleElement(call, k));
  }

  void Branch(Builder& b, std::vector<Value>& live, int depth) {
    const int width = 1 + Below(3), results = 1 + Below(3);
    std::vector<Computation*> branches;
    std::vector<Value> operands;
    for (int k = 0; k < 2; ++k) {
      Builder branch(m_, "branch");
      Value p = *branch.Parameter(0, Shape::Tuple(std::vector<Shape>(static_cast<size_t>(width), ArrayShape())));
      std::vector<Value> inside;
      for (int e = 0; e < width; ++e) inside.push_back(*branch.GetTupleElement(p, e));
      Steps(branch, inside, Below(4), depth);
      std::vector<Value> out;
      for (int e = 0; e < results; ++e) out.push_back(Pick(inside));
      branches.push_back(*branch.Build(*branch.Tuple(out)));
      std::vector<Value> arguments;
      for (int e = 0; e < width; ++e) arguments.push_back(Pick(live));
      operands.push_back(*b.Tuple(arguments));
    }
    Value one = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, Below(3)));
    Value two = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
    Value pick = *b.Conditional(*b.Compare(one, two, ComparisonDirection::kLt), branches, operands);
    for (int e = 0; e < results; ++e) live.push_back(*b.GetTupleElement(pick, e));
  }

 private:
  Module* m_;
  std::mt19937 random_;
};

struct Outcome {
  Leaves expected, found;
  BufferAssignment assignment;
};

Outcome RunBoth(const Module& m, uint32_t seed) {
  Outcome o;
  std::mt19937 random(seed);
  std::vector<Leaves> arguments;
  std::vector<std::vector<char>> memory, outputs;
  for (size_t p = 0; p < m.entry()->parameters().size(); ++p) {
    Array a(kElements);
    for (int64_t& v : a) v = static_cast<int64_t>(random() % 1000);
    memory.emplace_back(reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(a.data() + kElements));
    arguments.push_back({std::move(a)});
  }
  o.expected = RunPlainly(m.entry(), arguments);
  absl::StatusOr<BufferAssignment> a =
      AssignBuffers(m, [](const Instruction* i, int64_t, int64_t) { return Elementwise(i); });
  EXPECT_TRUE(a.ok()) << a.status();
  if (!a.ok()) return o;
  o.assignment = *a;
  for (const Array& e : o.expected) outputs.emplace_back(8 * e.size(), char(0));
  Machine machine(o.assignment, memory, outputs);
  machine.Run(m.entry());
  for (size_t k = 0; k < o.expected.size(); ++k) {
    Array r(o.expected[k].size());
    std::memcpy(r.data(), machine.at(o.assignment.output_slots[k]), 8 * r.size());
    o.found.push_back(std::move(r));
  }
  // What the caller keeps must not have been written.
  for (size_t p = 0; p < arguments.size(); ++p) {
    const auto& alias = o.assignment.output_alias;
    if (std::find(alias.begin(), alias.end(), static_cast<int32_t>(p)) != alias.end()) continue;
    EXPECT_EQ(std::memcmp(memory[p].data(), arguments[p][0].data(), 8 * kElements), 0)
        << "argument " << p << " was overwritten";
  }
  return o;
}

std::string Describe(const Module& m, const BufferAssignment& a) {
  std::string text = a.ToString();
  for (const auto& c : m.computations()) {
    text += c->name() + (c.get() == m.entry() ? " (entry)\n" : "\n");
    for (const auto& i : c->instructions()) {
      text += "  " + i->name() + " slots";
      auto at = a.instruction_slots.find(i.get());
      if (at != a.instruction_slots.end()) {
        for (SlotId s : at->second) text += " " + std::to_string(s);
      }
      text += " of";
      for (const Instruction* o : i->operands()) text += " " + o->name();
      for (const Computation* called : i->called()) text += " calls " + called->name();
      auto entry = a.loop_entry_copies.find(i.get());
      if (entry != a.loop_entry_copies.end()) {
        for (const SlotCopy& k : entry->second)
          text += " first " + std::to_string(k.from) + "->" + std::to_string(k.to);
      }
      text += "\n";
    }
    auto end = a.end_copies.find(c.get());
    if (end == a.end_copies.end()) continue;
    for (const SlotCopy& k : end->second)
      text += "  copy " + std::to_string(k.from) + "->" + std::to_string(k.to) + "\n";
  }
  return text;
}

TEST(BufferAssignment, RandomProgramsKeepTheirValues) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    Module m("random");
    Generator g(&m, seed);
    Builder b(&m, "main");
    std::vector<Value> live;
    const int parameters = 1 + g.Below(3);
    for (int p = 0; p < parameters; ++p) live.push_back(*b.Parameter(p, ArrayShape()));
    g.Steps(b, live, 2 + g.Below(8), 2);
    std::vector<Value> root;
    const int outputs = 1 + g.Below(3);
    for (int k = 0; k < outputs; ++k) root.push_back(g.Pick(live));
    m.set_entry(*b.Build(*b.Tuple(root)));
    if (g.Below(2) == 0) {
      for (int k = 0; k < std::min(outputs, parameters); ++k) {
        if (g.Below(2) == 0) m.config().input_output_aliases.push_back({{k}, (k + g.Below(2)) % parameters, {}, false});
      }
      // One parameter for each output only.
      auto& aliases = m.config().input_output_aliases;
      for (size_t x = 1; x < aliases.size();) {
        if (aliases[x].parameter == aliases[0].parameter)
          aliases.erase(aliases.begin() + static_cast<int64_t>(x));
        else
          ++x;
      }
    }
    Outcome o = RunBoth(m, seed);
    ASSERT_EQ(o.found, o.expected) << "seed " << seed << "\n" << Describe(m, o.assignment);
  }
}

// A loop that updates its state elementwise needs no copy at all, and its state is the output.
TEST(BufferAssignment, LoopWorksInPlace) {
  Module m("loop");
  const Shape state = Shape::Tuple({ArrayShape(), ScalarShape()});
  Builder cond(&m, "condition");
  Value cp = *cond.Parameter(0, state);
  Value ten = *cond.Constant(Literal::ScalarInt(PrimitiveType::kS64, 10));
  Computation* condition = *cond.Build(*cond.Compare(*cond.GetTupleElement(cp, 1), ten, ComparisonDirection::kLt));
  Builder body(&m, "body");
  Value bp = *body.Parameter(0, state);
  Value x = *body.GetTupleElement(bp, 0);
  Value one = *body.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
  Value next = *body.Op(Opcode::kAdd, {*body.GetTupleElement(bp, 1), one});
  Computation* c = *body.Build(*body.Tuple({*body.Op(Opcode::kAdd, {x, x}), next}));
  Builder b(&m, "main");
  Value p = *b.Parameter(0, ArrayShape());
  Value start = *b.Op(Opcode::kNegate, {p});
  Value zero = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 0));
  Value loop = *b.While(condition, c, *b.Tuple({start, zero}));
  m.set_entry(*b.Build(*b.GetTupleElement(loop, 0)));
  Outcome o = RunBoth(m, 1);
  EXPECT_EQ(o.found, o.expected);
  EXPECT_TRUE(o.assignment.end_copies.empty());
  ASSERT_EQ(o.assignment.loop_entry_copies.size(), 1u);  // the counter's constant
  EXPECT_EQ(o.assignment.loop_entry_copies.begin()->second.size(), 1u);
  EXPECT_EQ(o.assignment.slots[static_cast<size_t>(o.assignment.slot(start))].kind, Slot::Kind::kOutput);
}

// A loop reads arrays that it does not change where they are, also through an inner loop, and beside another element
// that begins with the same array.
TEST(BufferAssignment, LoopReadsUnchangedArgumentsWhereTheyAre) {
  Module m("scan");
  const Shape state = Shape::Tuple({ArrayShape(), ArrayShape(), ScalarShape()});
  const auto make_condition = [&](const char* name) {
    Builder b(&m, name);
    Value p = *b.Parameter(0, state);
    Value three = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 3));
    return *b.Build(*b.Compare(*b.GetTupleElement(p, 2), three, ComparisonDirection::kLt));
  };
  Value one, zero;
  Builder inner_body(&m, "inner");
  Value ip = *inner_body.Parameter(0, state);
  one = *inner_body.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
  Value read = *inner_body.GetTupleElement(ip, 0);
  Value inner_sum = *inner_body.Op(Opcode::kAdd, {*inner_body.GetTupleElement(ip, 1), read});
  Value inner_next = *inner_body.Op(Opcode::kAdd, {*inner_body.GetTupleElement(ip, 2), one});
  Computation* inner = *inner_body.Build(*inner_body.Tuple({read, inner_sum, inner_next}));
  Computation* inner_condition = make_condition("inner_condition");
  Builder body(&m, "outer");
  Value bp = *body.Parameter(0, state);
  one = *body.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
  zero = *body.Constant(Literal::ScalarInt(PrimitiveType::kS64, 0));
  Value w = *body.While(inner_condition, inner,
                        *body.Tuple({*body.GetTupleElement(bp, 0), *body.GetTupleElement(bp, 1), zero}));
  Value next = *body.Op(Opcode::kAdd, {*body.GetTupleElement(bp, 2), one});
  Computation* outer = *body.Build(*body.Tuple({*body.GetTupleElement(w, 0), *body.GetTupleElement(w, 1), next}));
  Computation* condition = make_condition("condition");
  Builder b(&m, "main");
  Value x = *b.Parameter(0, ArrayShape());
  zero = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 0));
  Value loop = *b.While(condition, outer, *b.Tuple({x, x, zero}));
  m.set_entry(*b.Build(*b.Tuple({*b.GetTupleElement(loop, 1), *b.GetTupleElement(loop, 0)})));
  Outcome o = RunBoth(m, 1);
  EXPECT_EQ(o.found, o.expected);
  for (const Value read_in_place : {read, w}) {
    const SlotId slot = o.assignment.slot(read_in_place, 0);
    EXPECT_EQ(o.assignment.slots[static_cast<size_t>(slot)].kind, Slot::Kind::kArgument);
  }
  // The accumulator is computed in the output; no array is temporary.
  EXPECT_LT(o.assignment.temporary_bytes, 64 * 8);
}

// An element that only the condition reads is the loop's result where the condition says no: what the condition works
// out from it must not lie over it.
TEST(BufferAssignment, ElementThatOnlyTheConditionReadsOutlivesIt) {
  Module m("flag");
  const Shape state = Shape::Tuple({ScalarShape(), ArrayShape()});
  Builder cond(&m, "condition");
  Value cp = *cond.Parameter(0, state);
  Value changed = *cond.Op(Opcode::kNegate, {*cond.GetTupleElement(cp, 0)});
  Value limit = *cond.Constant(Literal::ScalarInt(PrimitiveType::kS64, -4));
  Computation* condition = *cond.Build(*cond.Compare(limit, changed, ComparisonDirection::kLt));
  Builder body(&m, "body");
  Value bp = *body.Parameter(0, state);
  Value x = *body.GetTupleElement(bp, 1);
  Value first = *body.Reshape(*body.Slice(x, {{0, 1, 1}}), {});
  Computation* c = *body.Build(*body.Tuple({first, *body.Op(Opcode::kAdd, {x, x})}));
  Builder b(&m, "main");
  Value p = *b.Parameter(0, ArrayShape());
  Value one = *b.Constant(Literal::ScalarInt(PrimitiveType::kS64, 1));
  Value loop = *b.While(condition, c, *b.Tuple({one, *b.Op(Opcode::kAdd, {p, p})}));
  m.set_entry(*b.Build(loop));
  Outcome o = RunBoth(m, 1);
  EXPECT_EQ(o.found, o.expected);
}

TEST(BufferAssignment, DonatedArgumentBecomesTheOutput) {
  Module m("donate");
  Builder b(&m, "main");
  Value p = *b.Parameter(0, ArrayShape());
  Value q = *b.Parameter(1, ArrayShape());
  m.set_entry(*b.Build(*b.Op(Opcode::kAdd, {p, q})));
  m.config().input_output_aliases.push_back({{}, 1, {}, false});
  Outcome o = RunBoth(m, 7);
  EXPECT_EQ(o.found, o.expected);
  EXPECT_EQ(o.assignment.output_alias, std::vector<int32_t>{1});
  const Slot& out = o.assignment.slots[static_cast<size_t>(o.assignment.output_slots[0])];
  EXPECT_EQ(out.kind, Slot::Kind::kArgument);
  EXPECT_EQ(out.index, 1);
  EXPECT_TRUE(o.assignment.end_copies.empty());
}

TEST(BufferAssignment, AliasThatDoesNotExistIsNamed) {
  Module m("bad");
  Builder b(&m, "main");
  m.set_entry(*b.Build(*b.Parameter(0, ArrayShape())));
  m.config().input_output_aliases.push_back({{}, 5, {}, false});
  EXPECT_EQ(AssignBuffers(m, [](const Instruction*, int64_t, int64_t) { return false; }).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::compiler
