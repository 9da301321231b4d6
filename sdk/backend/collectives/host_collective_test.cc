#include "sdk/backend/collectives/host_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/ir/builder.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;

constexpr char kComputations[] = R"(HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
sum16 { a = bf16[] parameter(0)
 b = bf16[] parameter(1)
 ROOT s = bf16[] add(a, b) }
// a + b - a * b
both { a = f32[] parameter(0)
 b = f32[] parameter(1)
 s = f32[] add(a, b)
 p = f32[] multiply(a, b)
 ROOT r = f32[] subtract(s, p) }
// the maximum, by a conditional, which scalar programs do not support
t { x = (f32[], f32[]) parameter(0)
 ROOT a = f32[] get-tuple-element(x), index=0 }
f { x = (f32[], f32[]) parameter(0)
 ROOT b = f32[] get-tuple-element(x), index=1 }
larger { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = pred[] compare(a, b), direction=GT
 x = (f32[], f32[]) tuple(a, b)
 ROOT r = f32[] conditional(c, x, x), true_computation=t, false_computation=f }
)";

// Runs a collective that is the root of a program. Its operands are the parameters x0, x1, ...
class HostCollectiveTest : public testing::Test {
 protected:
  const Instruction& ParseOp(const std::vector<std::string>& operands, const std::string& root) {
    std::string text = std::string(kComputations) + "ENTRY e {\n";
    for (size_t i = 0; i < operands.size(); ++i) {
      text += " x" + std::to_string(i) + " = " + operands[i] + " parameter(" + std::to_string(i) + ")\n";
    }
    auto module = ParseHloModule(text + " ROOT r = " + root + "\n}\n");
    EXPECT_TRUE(module.ok()) << module.status();
    modules_.push_back(*std::move(module));
    return *modules_.back()->entry()->root();
  }

  // Returns the result of every process: a literal, or a tuple if there are several results.
  absl::StatusOr<std::vector<Literal>> Run(const Instruction& op, int64_t replicas, int64_t partitions,
                                           const std::vector<std::vector<Literal>>& in, int64_t iterations = 1) {
    auto plan = HostCollective::Make(op, 0, replicas, partitions);
    if (!plan.ok()) return plan.status();
    LaunchOptions options;
    options.replicas = replicas;
    options.partitions = partitions;
    options.time_limit = std::chrono::milliseconds(20000);
    auto launch = std::make_shared<Launch>(options);
    std::vector<Literal> out(in.size());
    std::vector<absl::Status> statuses(in.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < in.size(); ++p) {
      threads.emplace_back([&, p] {
        LaunchMember member(launch, static_cast<int64_t>(p) / partitions, static_cast<int64_t>(p) % partitions);
        std::vector<const void*> operands;
        for (const Literal& l : in[p]) operands.push_back(l.bytes());
        for (int64_t t = 0; t < iterations && statuses[p].ok(); ++t) {
          std::vector<Literal> results;
          std::vector<void*> addresses;
          ForEachLeaf(op.shape(), [&](const Shape& s, const std::vector<int64_t>&) { results.emplace_back(s); });
          for (Literal& r : results) {
            std::memset(r.mutable_bytes(), 0x5a, static_cast<size_t>(r.byte_size()));
            addresses.push_back(r.mutable_bytes());
          }
          statuses[p] = (*plan)->Run(member, operands, addresses, [](int64_t n, absl::FunctionRef<void(int64_t)> body) {
            for (int64_t i = n; i-- > 0;) body(i);
          });
          out[p] = op.shape().IsTuple() ? Literal::Tuple(std::move(results)) : std::move(results[0]);
        }
        member.End(statuses[p]);
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(launch->CountPending(), 0u);
    for (const absl::Status& s : statuses) {
      if (!s.ok()) return s;
    }
    return out;
  }

  std::vector<F> RunFloats(const Instruction& op, int64_t replicas, int64_t partitions, const std::vector<F>& in) {
    std::vector<std::vector<Literal>> literals;
    for (const F& f : in) literals.push_back({Literal::FromValues<float>(op.operand(0)->shape().dimensions(), f)});
    auto out = Run(op, replicas, partitions, literals);
    EXPECT_TRUE(out.ok()) << out.status();
    std::vector<F> values;
    if (!out.ok()) return values;
    for (const Literal& l : *out) values.emplace_back(l.data<float>().begin(), l.data<float>().end());
    return values;
  }

  std::vector<std::unique_ptr<Module>> modules_;
};

// The sizes lie around the step of the vector loops.
TEST(Reducer, ReducesInOrder) {
  for (PrimitiveType type : {PrimitiveType::kF32, PrimitiveType::kF64, PrimitiveType::kS32, PrimitiveType::kU64,
                             PrimitiveType::kBF16, PrimitiveType::kS8}) {
    for (Opcode op : {Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum}) {
      Module module("m");
      auto body = MakeScalarBinaryComputation(&module, op, type);
      ASSERT_TRUE(body.ok()) << body.status();
      auto reducer = Reducer::Make(**body, type);
      ASSERT_TRUE(reducer.ok()) << reducer.status();
      for (int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 100}) {
        const Shape shape(type, {n});
        std::vector<Literal> arrays(3, Literal(shape));
        std::vector<const void*> from;
        for (size_t k = 0; k < arrays.size(); ++k) {
          for (int64_t i = 0; i < n; ++i) arrays[k].SetFromInt(i, (i * 7 + static_cast<int64_t>(k) * 3) % 5 + 1);
          from.push_back(arrays[k].bytes());
        }
        Literal want = arrays[0], got(shape);
        for (int64_t i = 0; i < n; ++i) {
          for (size_t k = 1; k < arrays.size(); ++k) {
            const int64_t a = want.GetAsInt(i), b = arrays[k].GetAsInt(i);
            want.SetFromInt(i, op == Opcode::kAdd ? a + b : op == Opcode::kMultiply ? a * b : std::max(a, b));
          }
        }
        ASSERT_TRUE(reducer->Reduce(got.mutable_bytes(), from, n).ok());
        EXPECT_EQ(got, want) << OpName(op) << " " << shape.ToString();
        // The output may be the first array.
        ASSERT_TRUE(reducer->Reduce(arrays[0].mutable_bytes(), from, n).ok());
        EXPECT_EQ(arrays[0], want) << OpName(op) << " " << shape.ToString();
      }
    }
  }
}

// Adding 1 to 256 in bf16 gives 256, and likewise in the other types. Adding eight at once does not.
TEST(Reducer, RoundsSumsOfNarrowFloatsOnce) {
  for (auto [type, large] : {std::pair(PrimitiveType::kBF16, 256), std::pair(PrimitiveType::kF16, 2048),
                             std::pair(PrimitiveType::kF8E4M3FN, 16), std::pair(PrimitiveType::kF8E5M2, 8)}) {
    Module module("m");
    auto body = MakeScalarBinaryComputation(&module, Opcode::kAdd, type);
    ASSERT_TRUE(body.ok()) << body.status();
    auto reducer = Reducer::Make(**body, type);
    ASSERT_TRUE(reducer.ok()) << reducer.status();
    const int64_t n = 1500;
    std::vector<Literal> arrays(9, Literal(Shape(type, {n})));
    std::vector<const void*> from;
    for (size_t k = 0; k < arrays.size(); ++k) {
      for (int64_t i = 0; i < n; ++i) arrays[k].SetFromInt(i, k == 0 ? large : 1);
      from.push_back(arrays[k].bytes());
    }
    Literal got(arrays[0].shape());
    ASSERT_TRUE(reducer->Reduce(got.mutable_bytes(), from, n).ok());
    for (int64_t i : {0, 1023, 1024, 1499}) EXPECT_EQ(got.GetAsInt(i), large + 8) << Name(type) << " " << i;
  }
}

// Covers the path that packs several rows of a member.
TEST_F(HostCollectiveTest, ReduceScatterOfRowsRoundsOnce) {
  std::vector<std::vector<Literal>> in;
  for (int64_t m = 0; m < 4; ++m) {
    Literal l(Shape(PrimitiveType::kBF16, {3, 8}));
    for (int64_t i = 0; i < 24; ++i) l.SetFromInt(i, m == 0 ? 256 : 1);
    in.push_back({std::move(l)});
  }
  auto out =
      Run(ParseOp({"bf16[3,8]"}, "bf16[3,2] reduce-scatter(x0), replica_groups={}, dimensions={1}, to_apply=sum"), 4, 1,
          in);
  ASSERT_TRUE(out.ok()) << out.status();
  for (const Literal& l : *out) {
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(l.GetAsInt(i), 260);  // 259 is no bf16
  }
}

// ---- test vectors of the StableHLO specification

TEST_F(HostCollectiveTest, AllGather) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[2]"}, "f32[4] all-gather(x0), replica_groups={}, dimensions={0}"), 2, 1,
                        {{1.0, 2.5}, {3.0, 5.25}}),
              Each(F{1.0, 2.5, 3.0, 5.25}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[2,2]"}, "f32[2,4] all-gather(x0), replica_groups={{0,1}}, dimensions={1}"), 2, 1,
                        {{1, 2, 3, 4}, {5, 6, 7, 8}}),
              Each(F{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[1]"}, "f32[2] all-gather(x0), replica_groups={{0,2},{1,3}}, dimensions={0}"), 4,
                        1, {{0}, {1}, {2}, {3}}),
              ElementsAre(F{0, 2}, F{1, 3}, F{0, 2}, F{1, 3}));
}

TEST_F(HostCollectiveTest, AllReduce) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[2]"}, "f32[2] all-reduce(x0), to_apply=sum"), 2, 1, {{1.0, 2.5}, {3.0, 5.25}}),
              Each(F{4.0, 7.75}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[4]"}, "f32[4] all-reduce(x0), replica_groups={{0,1}}, to_apply=sum"), 2, 1,
                        {{1, 2, 3, 4}, {5, 6, 7, 8}}),
              Each(F{6, 8, 10, 12}));
  // An all-reduce may have groups of different sizes.
  EXPECT_THAT(RunFloats(ParseOp({"f32[1]"}, "f32[1] all-reduce(x0), replica_groups={{2},{0,1}}, to_apply=sum"), 3, 1,
                        {{1}, {2}, {3}}),
              ElementsAre(F{3}, F{3}, F{3}));
  // Cross-replica-and-partition mode, then flattened ids.
  EXPECT_THAT(
      RunFloats(ParseOp({"f32[1]"}, "f32[1] all-reduce(x0), channel_id=1, replica_groups={{0},{1}}, to_apply=sum"), 2,
                2, {{1}, {2}, {4}, {8}}),
      ElementsAre(F{3}, F{3}, F{12}, F{12}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[1]"},
                                "f32[1] all-reduce(x0), channel_id=1, replica_groups={{0,3},{1,2}}, "
                                "use_global_device_ids=true, to_apply=sum"),
                        2, 2, {{1}, {2}, {4}, {8}}),
              ElementsAre(F{9}, F{6}, F{6}, F{9}));
}

TEST_F(HostCollectiveTest, AllReduceByAnyComputation) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[2]"}, "f32[2] all-reduce(x0), to_apply=both"), 2, 1, {{0.5, 1}, {0.5, 0.25}}),
              Each(F{0.75, 1}));
  EXPECT_THAT(
      RunFloats(ParseOp({"f32[3]"}, "f32[3] all-reduce(x0), to_apply=larger"), 3, 1, {{1, 5, 2}, {3, 1, 2}, {2, 4, 9}}),
      Each(F{3, 5, 9}));
}

TEST_F(HostCollectiveTest, AllReduceOfSeveralTypes) {
  const Instruction& op =
      ParseOp({"f32[2]", "s64[3]", "bf16[1]"}, "(f32[2], s64[3], bf16[1]) all-reduce(x0, x1, x2), to_apply=sum");
  std::vector<std::vector<Literal>> in;
  for (int i = 1; i <= 2; ++i) {
    in.push_back({Literal::FromValues<float>({2}, {1.5f * i, 2.0f}), Literal::FromValues<int64_t>({3}, {i, 10 * i, -i}),
                  Literal::FromValues<bf16>({1}, {bf16(static_cast<float>(i))})});
  }
  auto out = Run(op, 2, 1, in);
  ASSERT_TRUE(out.ok()) << out.status();
  for (const Literal& l : *out) {
    EXPECT_EQ(l.elements()[0], Literal::FromValues<float>({2}, {4.5f, 4.0f}));
    EXPECT_EQ(l.elements()[1], Literal::FromValues<int64_t>({3}, {3, 30, -3}));
    EXPECT_EQ(l.elements()[2], Literal::FromValues<bf16>({1}, {bf16(3.0f)}));
  }
}

TEST_F(HostCollectiveTest, ReduceScatter) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[2]"}, "f32[1] reduce-scatter(x0), dimensions={0}, to_apply=sum"), 2, 1,
                        {{1.0, 2.25}, {3.0, 5.25}}),
              ElementsAre(F{4.0}, F{7.5}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[2,4]"},
                                "f32[2,2] reduce-scatter(x0), replica_groups={{0,1}}, dimensions={1}, to_apply=sum"),
                        2, 1, {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}}),
              ElementsAre(F{10, 12, 18, 20}, F{14, 16, 22, 24}));
}

TEST_F(HostCollectiveTest, AllToAll) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[4]"}, "f32[4] all-to-all(x0), replica_groups={{1,0}}, dimensions={0}"), 2, 1,
                        {{1, 2, 3, 4}, {5, 6, 7, 8}}),
              ElementsAre(F{7, 8, 3, 4}, F{5, 6, 1, 2}));
  const Instruction& op = ParseOp({"f32[1]", "f32[1]"}, "(f32[1], f32[1]) all-to-all(x0, x1), replica_groups={{0,1}}");
  auto out = Run(op, 2, 1,
                 {{Literal::FromValues<float>({1}, {1}), Literal::FromValues<float>({1}, {2})},
                  {Literal::FromValues<float>({1}, {3}), Literal::FromValues<float>({1}, {4})}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].elements()[1].GetAsInt(0), 3);
  EXPECT_EQ((*out)[1].elements()[0].GetAsInt(0), 2);
}

TEST_F(HostCollectiveTest, BroadcastAndPermute) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[1,2]"}, "f32[1,2] collective-broadcast(x0), replica_groups={{2,1}}"), 4, 1,
                        {{1, 2}, {3, 4}, {5, 6}, {7, 8}}),
              ElementsAre(F{0, 0}, F{5, 6}, F{5, 6}, F{0, 0}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[2]"}, "f32[2] collective-permute(x0), source_target_pairs={{0,1},{1,2}}"), 3, 1,
                        {{1, 2}, {5, 6}, {9, 10}}),
              ElementsAre(F{0, 0}, F{1, 2}, F{5, 6}));
  EXPECT_THAT(
      RunFloats(ParseOp({"f32[1]"}, "f32[1] collective-permute(x0), channel_id=1, source_target_pairs={{0,1},{1,0}}"),
                2, 2, {{1}, {2}, {3}, {4}}),
      ElementsAre(F{2}, F{1}, F{4}, F{3}));
}

TEST_F(HostCollectiveTest, RaggedAllToAll) {
  const Instruction& op = ParseOp({"f32[3]", "f32[4]", "s32[2]", "s32[2]", "s32[2]", "s32[2]"},
                                  "f32[4] ragged-all-to-all(x0, x1, x2, x3, x4, x5), replica_groups={{0,1}}");
  auto ints = [](int32_t a, int32_t b) { return Literal::FromValues<int32_t>({2}, {a, b}); };
  const Literal zeros = Literal::FromValues<float>({4}, {0, 0, 0, 0});
  std::vector<std::vector<Literal>> in = {
      {Literal::FromValues<float>({3}, {1, 2, 2}), zeros, ints(0, 1), ints(1, 2), ints(0, 0), ints(1, 1)},
      {Literal::FromValues<float>({3}, {3, 4, 0}), zeros, ints(0, 1), ints(1, 1), ints(1, 2), ints(2, 1)}};
  auto out = Run(op, 2, 1, in);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0], Literal::FromValues<float>({4}, {1, 3, 0, 0}));
  EXPECT_EQ((*out)[1], Literal::FromValues<float>({4}, {2, 2, 4, 0}));
  in[1][4] = ints(1, 4);
  EXPECT_THAT(std::string(Run(op, 2, 1, in).status().message()),
              HasSubstr("member 1 sends rows 1+1 of 3 to rows 4 of 4"));
  in[1][4] = ints(1, -1);
  EXPECT_FALSE(Run(op, 2, 1, in).ok());
}

// ---- sizes that need several blocks and strips

TEST_F(HostCollectiveTest, LargeArraysOfUnevenSizes) {
  for (int64_t outer : {1, 3, 5000}) {
    for (int64_t inner : {1, 7, 9001}) {
      if (outer * inner > 100000) continue;
      const std::string small = std::to_string(outer) + ",2," + std::to_string(inner);
      const std::string large = std::to_string(outer) + ",6," + std::to_string(inner);
      const int64_t n = outer * 6 * inner;
      std::vector<F> in(3, F(static_cast<size_t>(n)));
      for (size_t m = 0; m < 3; ++m) {
        for (int64_t i = 0; i < n; ++i)
          in[m][static_cast<size_t>(i)] = static_cast<float>((i * (static_cast<int64_t>(m) + 1)) % 97);
      }
      F sum(static_cast<size_t>(n));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = in[0][i] + in[1][i] + in[2][i];
      EXPECT_EQ(RunFloats(ParseOp({"f32[" + large + "]"}, "f32[" + large + "] all-reduce(x0), to_apply=sum"), 3, 1, in),
                std::vector<F>(3, sum));
      const auto parts = RunFloats(
          ParseOp({"f32[" + large + "]"}, "f32[" + small + "] reduce-scatter(x0), dimensions={1}, to_apply=sum"), 3, 1,
          in);
      // Gathering the scattered parts gives the full sum.
      EXPECT_EQ(
          RunFloats(ParseOp({"f32[" + small + "]"}, "f32[" + large + "] all-gather(x0), dimensions={1}"), 3, 1, parts),
          std::vector<F>(3, sum));
    }
  }
}

TEST_F(HostCollectiveTest, EmptyArrays) {
  EXPECT_THAT(RunFloats(ParseOp({"f32[0,4]"}, "f32[0,4] all-reduce(x0), to_apply=sum"), 2, 1, {{}, {}}), Each(F{}));
  EXPECT_THAT(
      RunFloats(ParseOp({"f32[0,4]"}, "f32[0,2] reduce-scatter(x0), dimensions={1}, to_apply=sum"), 2, 1, {{}, {}}),
      Each(F{}));
  EXPECT_THAT(RunFloats(ParseOp({"f32[0]"}, "f32[0] all-gather(x0), dimensions={0}"), 2, 1, {{}, {}}), Each(F{}));
}

TEST_F(HostCollectiveTest, ManyIterations) {
  const Instruction& op = ParseOp({"f32[2]"}, "f32[2] all-reduce(x0), to_apply=sum");
  std::vector<std::vector<Literal>> in(8, {Literal::FromValues<float>({2}, {1, 2})});
  auto out = Run(op, 8, 1, in, 100);
  ASSERT_TRUE(out.ok()) << out.status();
  for (const Literal& l : *out) EXPECT_EQ(l, Literal::FromValues<float>({2}, {8, 16}));
}

// ---- errors

TEST_F(HostCollectiveTest, RejectsMismatches) {
  auto why = [&](const Instruction& op, int64_t replicas) {
    return std::string(HostCollective::Make(op, 0, replicas, 1).status().message());
  };
  EXPECT_THAT(why(ParseOp({"f32[2]"}, "f32[4] all-gather(x0), replica_groups={}, dimensions={0}"), 3),
              HasSubstr("groups of 3"));
  EXPECT_THAT(why(ParseOp({"f32[4]"}, "f32[4] all-to-all(x0), replica_groups={}, dimensions={0}"), 3),
              HasSubstr("groups of 3"));
  EXPECT_THAT(why(ParseOp({"f32[4]"}, "f32[4] all-reduce(x0), replica_groups={{0,1}}, to_apply=sum"), 3),
              HasSubstr("replica 2 is in none"));
  EXPECT_THAT(why(ParseOp({"f32[4]"}, "f32[4] negate(x0)"), 2), HasSubstr("no collective"));
}

}  // namespace
}  // namespace backplane
