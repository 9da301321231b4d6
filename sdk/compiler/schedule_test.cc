// Schedules, run by steps that evaluate one instruction each: in their order, and in any other order that the
// dependencies allow.
#include "sdk/compiler/schedule.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/compiler/step_factory.h"

namespace backplane::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using TestStep = std::function<absl::Status(void* const* slots)>;
using TestSteps = std::vector<TestStep>;

absl::Status RunAll(const TestSteps& steps, void* const* slots) {
  for (const TestStep& step : steps) RETURN_IF_ERROR(step(slots));
  return absl::OkStatus();
}

// Brings steps into a random order that keeps each behind the steps it depends on.
TestSteps Shuffle(TestSteps steps, const std::vector<std::vector<int32_t>>& dependencies, std::mt19937& random) {
  EXPECT_EQ(steps.size(), dependencies.size());
  TestSteps ordered;
  std::vector<bool> done(steps.size(), false);
  while (ordered.size() < steps.size()) {
    std::vector<size_t> ready;
    for (size_t k = 0; k < steps.size(); ++k) {
      const bool free = std::all_of(dependencies[k].begin(), dependencies[k].end(), [&](int32_t d) { return done[d]; });
      if (!done[k] && free) ready.push_back(k);
    }
    if (ready.empty()) {
      ADD_FAILURE() << "the dependencies have a cycle";
      break;
    }
    const size_t chosen = ready[random() % ready.size()];
    done[chosen] = true;
    ordered.push_back(std::move(steps[chosen]));
  }
  return ordered;
}

class EvaluatorSteps : public StepFactory<TestStep> {
 public:
  // `random` null: bodies and branches run in the order of the schedule.
  EvaluatorSteps(const BufferAssignment& assignment, std::mt19937* random) : assignment_(assignment), random_(random) {}

  absl::Status AddWork(const Instruction& i, Steps* steps) override {
    steps->push_back([this, &i](void* const* slots) -> absl::Status {
      std::vector<Literal> operands;
      for (const Instruction* o : i.operands()) operands.push_back(Borrow(*o, slots));
      std::vector<const Literal*> pointers;
      for (const Literal& l : operands) pointers.push_back(&l);
      ASSIGN_OR_RETURN(Literal value, EvaluateInstruction(i, pointers));
      const std::vector<Literal> leaves = value.shape().IsTuple() ? value.elements() : std::vector<Literal>{value};
      for (size_t k = 0; k < leaves.size(); ++k) {
        const SlotId slot = assignment_.slot(&i, static_cast<int64_t>(k));
        if (slot == kNoSlot) continue;
        std::memcpy(slots[slot], leaves[k].bytes(), static_cast<size_t>(leaves[k].byte_size()));
      }
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }
  TestStep MakeCopy(const SlotCopy& copy) override {
    return [copy](void* const* slots) {
      std::memcpy(slots[copy.to], slots[copy.from], static_cast<size_t>(copy.bytes));
      return absl::OkStatus();
    };
  }
  TestStep MakeWhile(const ScheduledStep& step, Steps condition, Steps body) override {
    Order(step, 0, &condition);
    Order(step, 1, &body);
    return [condition, body, selector = step.selector](void* const* slots) -> absl::Status {
      while (true) {
        RETURN_IF_ERROR(RunAll(condition, slots));
        if (*static_cast<const uint8_t*>(slots[selector]) == 0) return absl::OkStatus();
        RETURN_IF_ERROR(RunAll(body, slots));
      }
    };
  }
  TestStep MakeConditional(const ScheduledStep& step, std::vector<Steps> branches) override {
    for (size_t b = 0; b < branches.size(); ++b) Order(step, b, &branches[b]);
    return [branches, selector = step.selector](void* const* slots) {
      return RunAll(branches[*static_cast<const uint8_t*>(slots[selector]) != 0 ? 0 : 1], slots);
    };
  }

 private:
  Literal Borrow(const Instruction& i, void* const* slots) const {
    if (i.shape().IsArray()) return Literal::Borrow(i.shape().WithoutLayout(), slots[assignment_.slot(&i)]);
    std::vector<Literal> elements;
    for (int64_t k = 0; k < i.shape().tuple_size(); ++k)
      elements.push_back(Literal::Borrow(i.shape().tuple_shapes(k).WithoutLayout(), slots[assignment_.slot(&i, k)]));
    return Literal::Tuple(std::move(elements));
  }
  void Order(const ScheduledStep& step, size_t sequence, Steps* steps) {
    if (random_ != nullptr)
      *steps = Shuffle(std::move(*steps), FindDependencies(step.sequences[sequence], assignment_), *random_);
  }

  const BufferAssignment& assignment_;
  std::mt19937* const random_;
};

// Everything that is elementwise works in place where it may.
bool IsElementwise(const Instruction* i, int64_t operand, int64_t) {
  return (i->Is(Opcode::kAdd) || i->Is(Opcode::kMultiply) || i->Is(Opcode::kNegate) || i->Is(Opcode::kSin)) &&
         i->operand(operand)->shape() == i->shape();
}

std::unique_ptr<Module> Parse(const char* text) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

// Runs a schedule on f32 arguments; the outputs' bytes. Memory that nothing has written holds NaN.
absl::StatusOr<std::vector<std::string>> RunSchedule(const Module& module, const std::vector<Literal>& arguments,
                                                     std::mt19937* random) {
  ASSIGN_OR_RETURN(Schedule schedule, BuildSchedule(module, &IsElementwise));
  const BufferAssignment& assignment = schedule.assignment;
  std::vector<Literal> inputs = arguments;
  std::string temporary(static_cast<size_t>(assignment.temporary_bytes), '\xff');
  std::vector<std::string> outputs;
  ForEachLeaf(module.entry()->root()->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
    outputs.emplace_back(static_cast<size_t>(leaf.byte_size()), '\xff');
  });
  std::vector<void*> slots;
  for (const Slot& s : assignment.slots) {
    const size_t index = static_cast<size_t>(s.index);
    switch (s.kind) {
      case Slot::Kind::kArgument:
        slots.push_back(inputs[index].mutable_bytes());
        break;
      case Slot::Kind::kOutput:
        slots.push_back(outputs[index].data());
        break;
      case Slot::Kind::kConstant:
        slots.push_back(const_cast<void*>(static_cast<const void*>(assignment.constants[index]->literal().bytes())));
        break;
      case Slot::Kind::kTemporary:
        slots.push_back(temporary.data() + s.offset);
        break;
    }
  }
  EvaluatorSteps factory(assignment, random);
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(TestSteps steps, MakeSteps<TestStep>(schedule.entry, factory, &names));
  EXPECT_EQ(names.size(), steps.size());
  if (random != nullptr) steps = Shuffle(std::move(steps), FindDependencies(schedule.entry, assignment), *random);
  RETURN_IF_ERROR(RunAll(steps, slots.data()));
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (const int32_t alias = assignment.output_alias[k]; alias >= 0) {
      outputs[k].assign(reinterpret_cast<const char*>(inputs[static_cast<size_t>(alias)].bytes()), outputs[k].size());
    }
  }
  return outputs;
}

constexpr const char* kPrograms[] = {
    // Temporary memory that is used again and again.
    R"(HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] sine(x)
  b = f32[4] sine(y)
  c = f32[4] multiply(a, b)
  d = f32[4] sine(c)
  f = f32[4] add(a, y)
  g = f32[4] negate(f)
  h = f32[4] multiply(g, b)
  i = f32[4] sine(h)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(d, i, f)
}
)",
    // Arguments that become outputs, crosswise.
    R"(HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] sine(x)
  b = f32[4] negate(y)
  c = f32[4] add(x, y)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}
)",
    // A loop that swaps its state.
    R"(HloModule m

condition {
  s = (s32[], f32[4], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(n, limit), direction=LT
}

body {
  s = (s32[], f32[4], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  p = f32[4] get-tuple-element(s), index=1
  q = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  t = f32[4] sine(p)
  u = f32[4] add(t, q)
  ROOT r = (s32[], f32[4], f32[4]) tuple(next, q, u)
}

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  a = f32[4] multiply(x, y)
  init = (s32[], f32[4], f32[4]) tuple(zero, a, y)
  w = (s32[], f32[4], f32[4]) while(init), condition=condition, body=body
  p = f32[4] get-tuple-element(w), index=1
  q = f32[4] get-tuple-element(w), index=2
  b = f32[4] add(p, a)
  ROOT r = (f32[4], f32[4]) tuple(b, q)
}
)",
    // A branch, and a call that stays one.
    R"(HloModule m

yes {
  p = f32[4] parameter(0)
  s = f32[4] sine(p)
  ROOT a = f32[4] add(s, p)
}

no {
  p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p)
}

callee {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  m = f32[4] multiply(p, q)
  ROOT s = f32[4] sine(m)
}

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  index = s32[2] constant({1, 0})
  i = s32[1] slice(index), slice={[0:1]}
  one = s32[1] constant({1})
  equal = pred[1] compare(i, one), direction=EQ
  which = pred[] reshape(equal)
  c = f32[4] call(x, y), to_apply=callee, frontend_attributes={inlineable="false"}
  b = f32[4] conditional(which, c, y), true_computation=yes, false_computation=no
  d = f32[4] add(b, c)
  ROOT r = (f32[4], f32[4]) tuple(d, b)
}
)"};

TEST(ScheduleTest, EveryOrderThatTheDependenciesAllowGivesTheSame) {
  std::mt19937 random(1);
  for (const char* text : kPrograms) {
    auto module = Parse(text);
    ASSERT_NE(module, nullptr);
    std::vector<Literal> arguments;
    for (float start : {0.25f, 2.5f}) {
      Literal argument(Shape(PrimitiveType::kF32, {4}));
      for (int k = 0; k < 4; ++k)
        reinterpret_cast<float*>(argument.mutable_bytes())[k] = start + 0.5f * static_cast<float>(k);
      arguments.push_back(std::move(argument));
    }
    auto expected = Evaluate(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int round = 0; round < 40; ++round) {
      auto found = RunSchedule(*module, arguments, round == 0 ? nullptr : &random);
      ASSERT_TRUE(found.ok()) << found.status();
      for (size_t k = 0; k < found->size(); ++k) {
        EXPECT_EQ(std::memcmp((*found)[k].data(), expected->elements()[k].bytes(), (*found)[k].size()), 0)
            << module->ToString() << "output " << k << ", round " << round;
      }
    }
  }
}

TEST(ScheduleTest, StepsOfALoop) {
  auto module = Parse(kPrograms[2]);
  ASSERT_NE(module, nullptr);
  auto schedule = BuildSchedule(*module, &IsElementwise);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<std::string> work;
  ForEachWork(schedule->entry, [&](const Instruction& i) { work.push_back(i.name()); });
  EXPECT_THAT(work, ElementsAre("a", "less", "next", "t", "u", "b"));
  const auto loop = std::find_if(schedule->entry.begin(), schedule->entry.end(),
                                 [](const ScheduledStep& s) { return s.kind == ScheduledStep::Kind::kWhile; });
  ASSERT_NE(loop, schedule->entry.end());
  EXPECT_EQ(loop->sequences.size(), 2u);
  EXPECT_EQ(loop->trip_count, 5);
  EXPECT_EQ(loop->selector, schedule->assignment.slot(loop->instruction->called(0)->root()));
}

TEST(ScheduleTest, DependenciesAreOfMemoryEffectsAndControl) {
  auto module = Parse(R"(HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] cosine(x)
  c = f32[4] add(a, b)
  d = f32[4] tanh(x), control-predecessors={b}
  ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(a, b, c, d)
}
)");
  ASSERT_NE(module, nullptr);
  auto schedule = BuildSchedule(*module, [](const Instruction*, int64_t, int64_t) { return false; });
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  ASSERT_EQ(schedule->entry.size(), 4u);
  const auto dependencies = FindDependencies(schedule->entry, schedule->assignment);
  EXPECT_THAT(dependencies[0], IsEmpty());
  EXPECT_THAT(dependencies[1], IsEmpty());
  EXPECT_THAT(dependencies[2], ElementsAre(0, 1));
  EXPECT_THAT(dependencies[3], ElementsAre(1));
}

TEST(ScheduleTest, ControlEdgesOfACallOrderItsSteps) {
  auto module = Parse(R"(HloModule m

f {
  p = f32[4] parameter(0)
  ROOT s = f32[4] sine(p)
}

g {
  p = f32[4] parameter(0)
  ROOT c = f32[4] cosine(p)
}

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] call(x), to_apply=f, frontend_attributes={inlineable="false"}
  b = f32[4] call(x), to_apply=g, frontend_attributes={inlineable="false"}, control-predecessors={a}
  d = f32[4] tanh(x), control-predecessors={b}
  ROOT r = (f32[4], f32[4], f32[4]) tuple(a, b, d)
}
)");
  ASSERT_NE(module, nullptr);
  auto schedule = BuildSchedule(*module, [](const Instruction*, int64_t, int64_t) { return false; });
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  ASSERT_EQ(schedule->entry.size(), 3u);
  const auto dependencies = FindDependencies(schedule->entry, schedule->assignment);
  EXPECT_THAT(dependencies[0], IsEmpty());
  EXPECT_THAT(dependencies[1], ElementsAre(0));
  EXPECT_THAT(dependencies[2], ElementsAre(1));
}

}  // namespace
}  // namespace backplane::compiler
