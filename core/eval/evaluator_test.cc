#include "core/eval/evaluator.h"

#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Module> Parse(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

Literal Vector(std::vector<float> v) { return Literal::FromValues<float>({static_cast<int64_t>(v.size())}, v); }

TEST(Evaluator, ChecksArguments) {
  auto m = Parse("HloModule m\nENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] negate(x) }");
  EXPECT_THAT(Evaluate(*m, {}).status().message(), HasSubstr("called with 0 arguments, expected 1"));
  EXPECT_THAT(Evaluate(*m, {Vector({1, 2, 3})}).status().message(), HasSubstr("argument 0 is f32[3], expected f32[2]"));
}

TEST(Evaluator, LeavesArgumentsAlone) {
  auto m = Parse(R"(HloModule m
ENTRY e { x = f32[3] parameter(0)  u = f32[1] constant({9})  i = s32[] constant(1)
  y = f32[3] dynamic-update-slice(x, u, i)  ROOT z = f32[3] negate(y) })");
  const Literal x = Vector({1, 2, 3});
  const float raw[3] = {1, 2, 3};
  const Literal borrowed = Literal::Borrow(Shape(PrimitiveType::kF32, {3}), raw);
  EXPECT_EQ(Evaluate(*m, {x})->ToString(), "{-1, -9, -3}");
  EXPECT_EQ(x.ToString(), "{1, 2, 3}");
  EXPECT_EQ(Evaluate(*m, {borrowed})->ToString(), "{-1, -9, -3}");
  EXPECT_EQ(raw[1], 2);
}

// A slice may end within the used size. What would read past it is refused.
TEST(Evaluator, ReadsNothingPastADynamicSize) {
  auto evaluate = [](const std::string& last) {
    auto m =
        Parse(absl::StrCat("HloModule m\n"
                           "ENTRY e { x = f32[4] constant({1,2,3,4}) n = s32[] constant(2) one = s32[] constant(1)\n"
                           "  d = f32[<=4] set-dimension-size(x, n), dimensions={0}\n",
                           last, " }"));
    absl::StatusOr<Literal> r = Evaluate(*m, {});
    return r.ok() ? r->ToString() : std::string(absl::StatusCodeToString(r.status().code()));
  };
  EXPECT_EQ(evaluate("ROOT r = f32[2] slice(d), slice={[0:2]}"), "{1, 2}");
  EXPECT_EQ(evaluate("ROOT r = f32[3] slice(d), slice={[0:3]}"), "UNIMPLEMENTED");
  EXPECT_EQ(evaluate("ROOT r = f32[1] dynamic-slice(d, one), dynamic_slice_sizes={1}"), "{2}");
  EXPECT_EQ(evaluate("ROOT r = f32[2] dynamic-slice(d, one), dynamic_slice_sizes={2}"), "UNIMPLEMENTED");
  EXPECT_EQ(evaluate("ROOT r = s32[4] bitcast-convert(d)"), "UNIMPLEMENTED");
}

TEST(Evaluator, UpdatesLoopStateInPlace) {
  auto m = Parse(R"(HloModule m
again { t = (s32[], f32[1000000]) parameter(0)  i = s32[] get-tuple-element(t), index=0  n = s32[] constant(20000)
  ROOT r = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[1000000]) parameter(0)  i = s32[] get-tuple-element(t), index=0  a = f32[1000000] get-tuple-element(t), index=1
  o = s32[] constant(1)  j = s32[] add(i, o)  f = f32[] convert(j)  v = f32[1] reshape(f)
  b = f32[1000000] dynamic-update-slice(a, v, i)  ROOT r = (s32[], f32[1000000]) tuple(j, b) }
ENTRY e { i = s32[] constant(0)  z = f32[] constant(0)  a = f32[1000000] broadcast(z), dimensions={}
  t = (s32[], f32[1000000]) tuple(i, a)  ROOT r = (s32[], f32[1000000]) while(t), condition=again, body=body })");
  // 20,000 copies of 4 MB would take many seconds; in-place updates take milliseconds.
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Literal> r = Evaluate(*m, {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->elements()[1].data<float>()[19999], 20000);
  EXPECT_EQ(r->elements()[1].data<float>()[20000], 0);
  EXPECT_LT(seconds, 3);
}

TEST(Evaluator, CustomCallsGoThroughTheHook) {
  auto m = Parse(R"(HloModule m
ENTRY e { x = f32[2] parameter(0)  ROOT call = f32[2] custom-call(x), custom_call_target="triple" })");
  absl::StatusOr<Literal> r = Evaluate(*m, {Vector({1, 2})});
  EXPECT_EQ(r.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(r.status().message(), HasSubstr("call: custom call target triple is not registered"));
  EvaluatorHooks hooks;
  hooks.custom_call = [](const Instruction& call,
                         absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
    EXPECT_EQ(call.custom_call_target(), "triple");
    return Vector({3 * operands[0]->data<float>()[0], 3 * operands[0]->data<float>()[1]});
  };
  EXPECT_EQ(Evaluate(*m, {Vector({1, 2})}, hooks)->ToString(), "{3, 6}");
  hooks.custom_call = [](const Instruction&, absl::Span<const Literal* const>) -> absl::StatusOr<Literal> {
    return Vector({1});
  };
  EXPECT_EQ(Evaluate(*m, {Vector({1, 2})}, hooks).status().code(), absl::StatusCode::kInternal);
}

TEST(Evaluator, CollectivesAndIdsComeFromTheRuntime) {
  auto m = Parse(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0)  s = f32[2] all-reduce(x), replica_groups={}, to_apply=add
  g = (f32[2], f32[4]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}  d = f32[4] all-gather-done(g)
  i = u32[] replica-id()  p = u32[] partition-id()
  ROOT r = (f32[2], f32[4], u32[], u32[]) tuple(s, d, i, p) })");
  EXPECT_EQ(Evaluate(*m, {Vector({1, 2})}).status().code(), absl::StatusCode::kUnimplemented);
  EvaluatorHooks hooks;
  hooks.replica_id = 3;
  hooks.partition_id = 1;
  hooks.collective = [](const Instruction& op, absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
    const auto x = operands[0]->data<float>();
    if (op.Is(Opcode::kAllReduce)) return Vector({2 * x[0], 2 * x[1]});
    return Vector({x[0], x[1], x[0], x[1]});
  };
  absl::StatusOr<Literal> r = Evaluate(*m, {Vector({1, 2})}, hooks);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->elements()[0].ToString(), "{2, 4}");
  EXPECT_EQ(r->elements()[1].ToString(), "{1, 2, 1, 2}");
  EXPECT_EQ(r->elements()[2].GetAsInt(0), 3);
  EXPECT_EQ(r->elements()[3].GetAsInt(0), 1);
}

TEST(Evaluator, TransfersGoThroughTheHook) {
  auto m = Parse(R"(HloModule m
ENTRY e { t = token[] after-all()  i = (f32[2], token[]) infeed(t)  x = f32[2] get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1  o = token[] outfeed(x, u), outfeed_shape=f32[2]
  v = (f32[2], u32[], token[]) recv(o), channel_id=1, is_host_transfer=true
  w = (f32[2], token[]) recv-done(v), channel_id=1, is_host_transfer=true
  y = f32[2] get-tuple-element(w), index=0  ROOT z = f32[2] add(x, y) })");
  std::vector<std::string> seen;
  EvaluatorHooks hooks;
  hooks.transfer = [&](const Instruction& op, absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
    seen.push_back(std::string(OpName(op.opcode())));
    if (op.Is(Opcode::kOutfeed)) return Literal::Token();
    return Vector({static_cast<float>(seen.size()), 10});
  };
  absl::StatusOr<Literal> r = Evaluate(*m, {}, hooks);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->ToString(), "{4, 20}");
  EXPECT_THAT(seen, ::testing::ElementsAre("infeed", "outfeed", "recv"));
}

TEST(Evaluator, EndlessLoopsCanBeCancelled) {
  auto m = Parse(R"(HloModule m
always { x = s32[] parameter(0)  ROOT r = pred[] constant(true) }
body { x = s32[] parameter(0)  ROOT r = s32[] add(x, x) }
ENTRY e { x = s32[] constant(1)  ROOT loop = s32[] while(x), condition=always, body=body })");
  int iterations = 0;
  EvaluatorHooks hooks;
  hooks.cancelled = [&] { return ++iterations > 100; };
  absl::StatusOr<Literal> r = Evaluate(*m, {}, hooks);
  EXPECT_EQ(r.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(r.status().message(), HasSubstr("loop"));
}

TEST(Evaluator, TooMuchMemoryIsAnError) {
  auto m = Parse(
      "HloModule m\nENTRY e { z = f32[] constant(0)  ROOT big = f32[1099511627776,1024] broadcast(z), dimensions={} }");
  EXPECT_EQ(Evaluate(*m, {}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Evaluator, RunsFromManyThreads) {
  auto m = Parse(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[100] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add })");
  const Evaluator evaluator(*m);
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 50; ++k) {
        sums[static_cast<size_t>(t)] =
            evaluator.Run({Vector(std::vector<float>(100, static_cast<float>(t)))})->GetAsDouble(0);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sums, (std::vector<double>{0, 100, 200, 300}));
}

TEST(Evaluator, OneInstructionAlone) {
  auto m = Parse(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add })");
  const Literal x = Vector({1, 2, 4}), z = Literal::Scalar(PrimitiveType::kF32, 10);
  EXPECT_EQ(EvaluateInstruction(*m->entry()->root(), {&x, &z})->GetAsDouble(0), 17);
  EXPECT_FALSE(EvaluateInstruction(*m->entry()->root(), {&x}).ok());
}

TEST(Evaluator, StatefulRandomNumbers) {
  auto m = Parse(R"(HloModule m
ENTRY e { a = f32[] constant(2)  b = f32[] constant(5)
  u = f32[20000] rng(a, b), distribution=rng_uniform  n = f32[20000] rng(a, b), distribution=rng_normal
  l = s32[] constant(-3)  h = s32[] constant(4)  i = s32[20000] rng(l, h), distribution=rng_uniform
  ROOT r = (f32[20000], f32[20000], s32[20000]) tuple(u, n, i) })");
  absl::StatusOr<Literal> r = Evaluate(*m, {});
  ASSERT_TRUE(r.ok()) << r.status();
  auto moments = [](const Literal& x) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) sum += x.GetAsDouble(i);
    const double mean = sum / static_cast<double>(x.num_elements());
    for (int64_t i = 0; i < x.num_elements(); ++i) squares += (x.GetAsDouble(i) - mean) * (x.GetAsDouble(i) - mean);
    return std::pair(mean, squares / static_cast<double>(x.num_elements()));
  };
  const auto [u_mean, u_variance] = moments(r->elements()[0]);
  EXPECT_NEAR(u_mean, 3.5, 0.05);
  EXPECT_NEAR(u_variance, 0.75, 0.05);
  const auto [n_mean, n_variance] = moments(r->elements()[1]);
  EXPECT_NEAR(n_mean, 2, 0.3);
  EXPECT_NEAR(n_variance, 25, 2);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 20000; ++i) seen.insert(r->elements()[2].GetAsInt(i));
  EXPECT_EQ(seen, (std::set<int64_t>{-3, -2, -1, 0, 1, 2, 3}));
  EXPECT_FALSE(*Evaluate(*m, {}) == *r);
}

// Values of the broadcasting rules that the builder writes out as instructions.
TEST(Evaluator, BuilderBroadcasts) {
  Module m("m");
  Builder b(&m, "main");
  auto ints = [&](std::vector<int64_t> dims, std::vector<int32_t> v) {
    return *b.Constant(Literal::FromValues<int32_t>(dims, v));
  };
  auto value = [&](Opcode o, Value x, Value y, std::vector<int64_t> dims) {
    absl::StatusOr<Value> v = b.BinaryBroadcast(o, x, y, dims);
    EXPECT_TRUE(v.ok()) << v.status();
    b.computation()->set_root(*v);
    return EvaluateComputation(*b.computation(), {})->ToString();
  };
  const Value matrix = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(value(Opcode::kAdd, matrix, ints({}, {7}), {}),
            Literal::FromValues<int32_t>({2, 3}, {8, 9, 10, 11, 12, 13}).ToString());
  EXPECT_EQ(value(Opcode::kAdd, matrix, ints({3}, {7, 8, 9}), {1}),
            Literal::FromValues<int32_t>({2, 3}, {8, 10, 12, 11, 13, 15}).ToString());
  EXPECT_EQ(value(Opcode::kSubtract, ints({3}, {7, 8, 9}), matrix, {1}),
            Literal::FromValues<int32_t>({2, 3}, {6, 6, 6, 3, 3, 3}).ToString());
  EXPECT_EQ(value(Opcode::kAdd, ints({2, 1}, {1, 2}), ints({1, 3}, {10, 20, 30}), {}),
            Literal::FromValues<int32_t>({2, 3}, {11, 21, 31, 12, 22, 32}).ToString());
  EXPECT_EQ(value(Opcode::kAdd, ints({4}, {1, 2, 3, 4}), ints({1, 2}, {5, 6}), {0}),
            Literal::FromValues<int32_t>({4, 2}, {6, 7, 7, 8, 8, 9, 9, 10}).ToString());
  // A vector and a matrix: the vector is repeated for each row, or for each column.
  const Value zeros = ints({3, 3}, std::vector<int32_t>(9, 0));
  EXPECT_EQ(value(Opcode::kAdd, ints({3}, {7, 8, 9}), zeros, {1}),
            Literal::FromValues<int32_t>({3, 3}, {7, 8, 9, 7, 8, 9, 7, 8, 9}).ToString());
  EXPECT_EQ(value(Opcode::kAdd, ints({3}, {7, 8, 9}), zeros, {0}),
            Literal::FromValues<int32_t>({3, 3}, {7, 7, 7, 8, 8, 8, 9, 9, 9}).ToString());
  // A matrix against two dimensions of a cuboid: r[i,j,k] = a[i,j,k] - m[j,k].
  std::vector<int32_t> cuboid(24), table(12), difference(24);
  std::iota(cuboid.begin(), cuboid.end(), 0);
  std::iota(table.begin(), table.end(), 100);
  for (size_t i = 0; i < 24; ++i) difference[i] = cuboid[i] - table[i % 12];
  EXPECT_EQ(value(Opcode::kSubtract, ints({2, 3, 4}, cuboid), ints({3, 4}, table), {1, 2}),
            Literal::FromValues<int32_t>({2, 3, 4}, difference).ToString());
  // Both kinds at once: r[i,j,k] = m[0,k] - a[i,j,0].
  std::vector<int32_t> both;
  for (int32_t n = 0; n < 12; ++n) {
    for (int32_t m : {50, 60}) both.push_back(m - n);
  }
  EXPECT_EQ(
      value(Opcode::kSubtract, ints({1, 2}, {50, 60}), ints({4, 3, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), {1, 2}),
      Literal::FromValues<int32_t>({4, 3, 2}, both).ToString());
}

// Sizes that the degenerate dimension rules give. A size of 0 takes precedence over 1.
TEST(Evaluator, BuilderBroadcastShapes) {
  Module m("m");
  Builder b(&m, "main");
  auto sum = [&](std::vector<int64_t> x, std::vector<int64_t> y) {
    Value v = *b.Constant(Literal(Shape(PrimitiveType::kF32, x))),
          w = *b.Constant(Literal(Shape(PrimitiveType::kF32, y)));
    absl::StatusOr<Value> r = b.BinaryBroadcast(Opcode::kAdd, v, w, {});
    return r.ok() ? (*r)->shape().ToString() : std::string(r.status().message());
  };
  EXPECT_EQ(sum({2, 1}, {2, 3}), "f32[2,3]");
  EXPECT_EQ(sum({1, 2, 5}, {7, 2, 5}), "f32[7,2,5]");
  EXPECT_EQ(sum({7, 2, 5}, {7, 1, 5}), "f32[7,2,5]");
  EXPECT_EQ(sum({2, 1}, {1, 3}), "f32[2,3]");
  EXPECT_EQ(sum({0, 3}, {1, 3}), "f32[0,3]");
  EXPECT_THAT(sum({7, 2, 5}, {7, 2, 6}), HasSubstr("[broadcast_e8]"));
  EXPECT_THAT(sum({0}, {2}), HasSubstr("[broadcast_e8]"));
  EXPECT_THAT(sum({2, 3}, {3}), HasSubstr("[broadcast_e5]"));
}

}  // namespace
}  // namespace backplane
