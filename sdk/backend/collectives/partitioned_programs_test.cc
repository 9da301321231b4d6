// Compares random programs with the same programs partitioned by PartitionModule: the results must be equal.
#include <gtest/gtest.h>

#include <thread>

#include "core/eval/evaluator.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/partition/tiling.h"
#include "sdk/backend/collectives/host_collective.h"
#include "sdk/backend/collectives/random_sharded_program.h"

namespace backplane {
namespace {

constexpr int64_t kPartitions = kRandomProgramPartitions;

Literal MakeArgument(const Shape& shape, int64_t number) {
  Literal l(shape);
  for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, (i * 37 + number * 11) % 19 - 9);
  return l;
}

// Returns the shard of a partition, padded with `padding_value`.
Literal MakeShard(const Literal& full, const Tiling& tiling, int64_t partition, int64_t padding_value) {
  const Shape shard = tiling.ShardShape(full.shape());
  Literal out(shard);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    bool is_padding = false;
    for (int64_t d = shard.rank(); d-- > 0;) {
      const int64_t at = rest % shard.dimensions(d) + tiling.tile_index(partition, d) * shard.dimensions(d);
      is_padding |= at >= full.shape().dimensions(d);
      from += at * stride;
      rest /= shard.dimensions(d);
      stride *= full.shape().dimensions(d);
    }
    out.SetFromInt(i, is_padding ? padding_value : full.GetAsInt(from));
  }
  return out;
}

std::vector<Tiling> ParseTilings(const Module& module, const char* name, const std::vector<Shape>& full_shapes) {
  auto tuple = ParseSharding(module.config().frontend_attributes.at(name));
  EXPECT_TRUE(tuple.ok()) << tuple.status();
  std::vector<Tiling> out;
  for (size_t i = 0; i < full_shapes.size(); ++i)
    out.push_back(*Tiling::FromSharding(tuple->tuple.at(i), full_shapes[i], kPartitions));
  return out;
}

TEST(PartitionedPrograms, GiveResultsOfFullProgram) {
  int with_collectives = 0, without_collectives = 0, uneven_in = 0, uneven_out = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    std::unique_ptr<Module> program = MakeRandomShardedProgram(seed);
    SCOPED_TRACE(seed);
    // The reference: one partition, no annotations.
    std::unique_ptr<Module> unpartitioned = program->Clone();
    unpartitioned->config().num_partitions = 1;
    ASSERT_TRUE(PartitionModule().Run(unpartitioned.get()).ok());
    std::vector<Literal> arguments;
    std::vector<Shape> in, out;
    for (const Instruction* p : program->entry()->parameters()) {
      in.push_back(p->shape());
      arguments.push_back(MakeArgument(p->shape(), p->parameter_number()));
    }
    auto want = Evaluate(*unpartitioned, arguments);
    ASSERT_TRUE(want.ok()) << want.status() << unpartitioned->ToString();
    for (const Literal& l : want->elements()) out.push_back(l.shape());

    std::unique_ptr<Module> split = program->Clone();
    PartitionOptions options;
    if (seed % 2 == 0) options.propagate_to_parameters = {true};
    auto changed = PartitionModule(options).Run(split.get());
    ASSERT_TRUE(changed.ok()) << changed.status() << program->ToString();
    ASSERT_TRUE(VerifyModule(*split).ok()) << VerifyModule(*split) << split->ToString();
    const std::vector<Tiling> parameters = ParseTilings(*split, kParameterShardingsAttribute, in);
    const std::vector<Tiling> results = ParseTilings(*split, kResultShardingsAttribute, out);
    for (size_t i = 0; i < in.size(); ++i) uneven_in += !parameters[i].Divides(in[i]);
    for (size_t i = 0; i < out.size(); ++i) uneven_out += !results[i].Divides(out[i]);
    absl::flat_hash_map<const Instruction*, std::unique_ptr<HostCollective>> plans;
    const auto numbers = NumberCollectives(*split);
    for (const Computation* c : split->PostOrder()) {
      for (const auto& i : c->instructions()) {
        if (!i->info().Has(kCollective)) continue;
        auto plan = HostCollective::Make(*i, numbers.at(i.get()), 1, kPartitions);
        ASSERT_TRUE(plan.ok()) << plan.status();
        plans[i.get()] = *std::move(plan);
      }
    }
    (plans.empty() ? without_collectives : with_collectives)++;
    LaunchOptions launch_options;
    launch_options.partitions = kPartitions;
    auto launch = std::make_shared<Launch>(launch_options);
    std::vector<absl::StatusOr<Literal>> got(kPartitions, absl::UnknownError("did not run"));
    std::vector<std::thread> threads;
    for (int64_t p = 0; p < kPartitions; ++p) {
      threads.emplace_back([&, p] {
        LaunchMember member(launch, 0, p);
        std::vector<Literal> mine;
        for (size_t i = 0; i < arguments.size(); ++i)
          mine.push_back(MakeShard(arguments[i], parameters[i], p, 1000003));
        EvaluatorHooks hooks;
        hooks.partition_id = p;
        hooks.collective = [&](const Instruction& op,
                               absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
          Literal result(op.shape());
          const void* from[] = {operands[0]->bytes()};
          void* to[] = {result.mutable_bytes()};
          absl::Status s = plans.at(&op)->Run(member, from, to, [](int64_t n, absl::FunctionRef<void(int64_t)> body) {
            for (int64_t i = 0; i < n; ++i) body(i);
          });
          if (!s.ok()) return s;
          return result;
        };
        got[static_cast<size_t>(p)] = Evaluate(*split, mine, hooks);
        member.End(got[static_cast<size_t>(p)].status());
      });
    }
    for (std::thread& t : threads) t.join();
    for (int64_t p = 0; p < kPartitions; ++p) {
      const auto& g = got[static_cast<size_t>(p)];
      ASSERT_TRUE(g.ok()) << g.status() << split->ToString();
      for (size_t r = 0; r < out.size(); ++r) {
        ASSERT_EQ(g->elements()[r], MakeShard(want->elements()[r], results[r], p, 0))
            << "partition " << p << ", result " << r << "\n"
            << program->ToString() << "\n"
            << split->ToString();
      }
    }
  }
  EXPECT_GT(with_collectives, 100);
  EXPECT_GT(without_collectives, 20);
  EXPECT_GT(uneven_in, 50);
  EXPECT_GT(uneven_out, 50);
}

}  // namespace
}  // namespace backplane
