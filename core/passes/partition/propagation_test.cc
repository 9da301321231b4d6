#include "core/passes/partition/propagation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/passes/partition/partition_module.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::HasSubstr;

// Propagates the tilings of a module. The call operator returns the tiling of an instruction by name, as text.
class PropagatedProgram {
 public:
  explicit PropagatedProgram(const std::string& text, std::vector<bool> propagate_to_parameters = {},
                             const char* manual = nullptr) {
    auto parsed = ParseHloModule(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    module_ = *std::move(parsed);
    absl::flat_hash_set<int64_t> inside;
    for (const auto& i : module_->entry()->instructions()) {
      if (manual != nullptr && i->name().rfind(manual, 0) == 0) inside.insert(i->id());
    }
    auto tilings =
        PropagateTilings(*module_, {module_->config().num_partitions, &inside, std::move(propagate_to_parameters)});
    EXPECT_TRUE(tilings.ok()) << tilings.status();
    if (tilings.ok()) tilings_ = *std::move(tilings);
  }

  std::string operator()(const std::string& name, int64_t element = 0) const {
    for (const Computation* c : module_->PostOrder()) {
      for (const auto& i : c->instructions()) {
        if (i->name() != name) continue;
        auto at = tilings_.find({i->id(), element});
        return at == tilings_.end() ? "replicated" : at->second.ToString();
      }
    }
    return "no such instruction";
  }

 private:
  std::unique_ptr<Module> module_;
  PropagatedTilings tilings_;
};

TEST(Propagation, GoesForwardsAndBackwards) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  t = f32[4,8] transpose(x), dimensions={1,0}
  i = f32[8,4] iota(), iota_dimension=0
  n = f32[8,4] negate(i)
  s = f32[8,4] custom-call(n), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
  ROOT r = (f32[4,8], f32[8,4]) tuple(t, s)
})");
  EXPECT_EQ(p("t"), "{devices=[1,4]<=[4]}");
  EXPECT_EQ(p("n"), "{devices=[1,4]<=[4]}");
  EXPECT_EQ(p("i"), "{devices=[1,4]<=[4]}");
}

TEST(Propagation, SplitsOnlyParametersThatMayBeSplit) {
  const std::string text = R"(
HloModule m, num_partitions=2

ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] add(x, y)
  ROOT s = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
})";
  PropagatedProgram p(text, {false, true});
  EXPECT_EQ(p("x"), "replicated");
  EXPECT_EQ(p("y"), "{devices=[2]<=[2]}");

  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok());
  PartitionOptions options;
  options.propagate_to_parameters = {false, true};
  ASSERT_TRUE(PartitionModule(options).Run(module->get()).ok());
  EXPECT_EQ((*module)->config().frontend_attributes.at(kParameterShardingsAttribute),
            "{{replicated}, {devices=[2]<=[2]}}");
  EXPECT_EQ((*module)->entry()->parameter(0)->shape().ToString(), "f32[8]");
  EXPECT_EQ((*module)->entry()->parameter(1)->shape().ToString(), "f32[4]");
}

// `y` takes its tiling from the annotation and not from the operands of the dot.
TEST(Propagation, AppliesPassThroughRulesFirst) {
  const std::string text = R"(
HloModule m, num_partitions=8

ENTRY e {
  x = f32[8,2] parameter(0), sharding={devices=[4,2]<=[8]}
  xt = f32[2,8] transpose(x), dimensions={1,0}
  y = f32[8,8] dot(x, xt), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[8,8] custom-call(y), custom_call_target="ShardingGroup", backend_config="0"
  placed = f32[8,8] custom-call(g), custom_call_target="Sharding", sharding={devices=[4,2]<=[8]}
  free = f32[8,8] parameter(1), sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  ft = f32[8,8] transpose(free), dimensions={1,0}
  z = f32[8,8] dot(ft, free), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[8,8] custom-call(z), custom_call_target="ShardingGroup", backend_config="0"
  ROOT r = (f32[8,8], f32[8,8], f32[8,8]) tuple(g, h, placed)
})";
  PropagatedProgram p(text);
  EXPECT_EQ(p("y"), "{devices=[4,2]<=[8]}");
  EXPECT_EQ(p("z"), "{devices=[4,2]<=[8]}");  // the operands alone would give [2,1]
  EXPECT_EQ(p("h"), "{devices=[4,2]<=[8]}");
}

TEST(Propagation, PrefersFirstOperandOfEqualSize) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,2] parameter(0), sharding={devices=[2,2]<=[4]}
  xt = f32[2,8] transpose(x), dimensions={1,0}
  ROOT y = f32[8,8] dot(x, xt), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  EXPECT_EQ(p("y"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
}

TEST(Propagation, TilesLoopStateAlikeInAllIterations) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=2

body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8] tanh(v)
  ROOT t = (s32[], f32[8]) tuple(j, w)
}

cond {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  x = f32[8] iota(), iota_dimension=0
  s = (s32[], f32[8]) tuple(zero, x)
  loop = (s32[], f32[8]) while(s), condition=cond, body=body
  r = f32[8] get-tuple-element(loop), index=1
  ROOT a = f32[8] custom-call(r), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
})");
  for (const char* name : {"x", "w", "v", "r"}) EXPECT_EQ(p(name), "{devices=[2]<=[2]}") << name;
  EXPECT_EQ(p("loop", 0), "replicated");
  EXPECT_EQ(p("loop", 1), "{devices=[2]<=[2]}");
}

// The region is manual along the second axis of a 2x2 mesh. The first axis propagates through it.
TEST(Propagation, GoesThroughPartiallyManualRegions) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  all = f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={replicated}, backend_config="unspecified_dims=[0,1]"
  in-1 = f32[4,8] custom-call(all), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}
  in-2 = f32[4,8] negate(in-1)
  ROOT out = f32[4,8] custom-call(in-2), custom_call_target="SPMDShardToFullShape", sharding={replicated}, backend_config="unspecified_dims=[0,1]"
})",
                      {}, "in-");
  EXPECT_EQ(p("in-2"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(p("out"), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
}

// The result takes the tiling of the region along the axes that are not manual.
TEST(Propagation, PropagatesOutOfPartiallyManualRegions) {
  auto module = ParseHloModule(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[4,8] parameter(0)
  all = f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={replicated}, backend_config="unspecified_dims=[0,1]"
  in = f32[4,8] custom-call(all), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}
  n = f32[4,8] negate(in)
  s = f32[4,8] custom-call(n), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  ROOT out = f32[4,8] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={replicated}, backend_config="unspecified_dims=[0,1]"
})");
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_TRUE(PartitionModule().Run(module->get()).ok());
  EXPECT_EQ((*module)->config().frontend_attributes.at(kResultShardingsAttribute),
            "{{devices=[2,1,2]<=[4] last_tile_dim_replicate}}");
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(), "f32[2,8]");
}

TEST(Propagation, SplitsOnlyEvenly) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  r = f32[2,4,6] reshape(x)
  s = f32[6,6] slice(x), slice={[0:6], [0:6]}
  ROOT t = (f32[2,4,6], f32[6,6]) tuple(r, s)
})");
  EXPECT_EQ(p("r"), "replicated");  // two rows do not hold four tiles
  EXPECT_EQ(p("s"), "replicated");
}

TEST(Propagation, SkipsCallsWithEmptyResults) {
  PropagatedProgram p(R"(
HloModule m, num_partitions=2

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  t = token[] after-all()
  said = () custom-call(x), custom_call_target="print", custom_call_has_side_effect=true
  more = () custom-call(said), custom_call_target="print", custom_call_has_side_effect=true
  then = token[] custom-call(t), custom_call_target="print", custom_call_has_side_effect=true
  none = () tuple()
  ROOT n = f32[8] negate(x)
})");
  EXPECT_EQ(p("n"), "{devices=[2]<=[2]}");
}

TEST(Propagation, NamesValueWithBadSharding) {
  auto module = ParseHloModule(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8] parameter(0)
  ROOT bad = f32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
})");
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::Status s = PropagateTilings(**module, {4, nullptr, {}}).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("bad: sharding {devices=[8]<=[8]} of f32[8] on 4 partitions"));
}

TEST(ComputeManualSubgroups, ShareOneManualCoordinate) {
  auto part = ParseSharding("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(ComputeManualSubgroups(*part, 1, 4), (Ints{0, 1, 0, 1}));
  auto all = ParseSharding("{manual}");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(ComputeManualSubgroups(*all, 1, 4), Ints());
}

}  // namespace
}  // namespace backplane
