// Compares random programs with the same programs partitioned by PartitionModule: the results must be equal.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/eval/evaluator.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/partition/tiling.h"
#include "core/text/hlo_parser.h"
#include "sdk/backend/collectives/host_collective.h"
#include "sdk/backend/collectives/random_partial_loops.h"
#include "sdk/backend/collectives/random_sharded_program.h"

namespace backplane {
namespace {

constexpr int64_t kPartitions = kRandomProgramPartitions;

Literal MakeArgument(const Shape& shape, int64_t number) {
  Literal l(shape);
  for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, (i * 37 + number * 11) % 19 - 9);
  return l;
}

// Whether a result has other values than expected. Sums of floats may differ in the sign of zero.
bool Differs(const Literal& got, const Literal& want) {
  if (!IsFloat(want.shape().element_type())) return !(got == want);
  if (got.shape() != want.shape()) return true;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    if (got.GetAsDouble(i) != want.GetAsDouble(i)) return true;
  }
  return false;
}

// Whether the result of a program with whole numbers may have been rounded.
bool MayBeRounded(const Literal& value) {
  for (int64_t i = 0; IsFloat(value.shape().element_type()) && i < value.num_elements(); ++i) {
    if (!(std::abs(value.GetAsDouble(i)) < 0x1p50)) return true;
  }
  return false;
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
    if (IsFloat(full.shape().element_type()))
      out.SetFromDouble(i, is_padding ? static_cast<double>(padding_value) : full.GetAsDouble(from));
    else
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

struct Counts {
  int with_collectives = 0, without_collectives = 0, uneven_in = 0, uneven_out = 0;
};

// Runs the program on full arrays and, after PartitionModule, on all partitions, and compares the results.
void ComparePartitioned(const Module& program, const PartitionOptions& options, Counts& counts) {
  // The reference: one partition, no annotations.
  std::unique_ptr<Module> unpartitioned = program.Clone();
  unpartitioned->config().num_partitions = 1;
  ASSERT_TRUE(PartitionModule().Run(unpartitioned.get()).ok());
  std::vector<Literal> arguments;
  std::vector<Shape> in, out;
  for (const Instruction* p : program.entry()->parameters()) {
    in.push_back(p->shape());
    arguments.push_back(MakeArgument(p->shape(), p->parameter_number()));
  }
  auto want = Evaluate(*unpartitioned, arguments);
  ASSERT_TRUE(want.ok()) << want.status() << unpartitioned->ToString();
  for (const Literal& l : want->elements()) {
    if (MayBeRounded(l)) return;  // not counted
    out.push_back(l.shape());
  }

  std::unique_ptr<Module> split = program.Clone();
  auto changed = PartitionModule(options).Run(split.get());
  ASSERT_TRUE(changed.ok()) << changed.status() << program.ToString();
  ASSERT_TRUE(VerifyModule(*split).ok()) << VerifyModule(*split) << split->ToString();
  const std::vector<Tiling> parameters = ParseTilings(*split, kParameterShardingsAttribute, in);
  const std::vector<Tiling> results = ParseTilings(*split, kResultShardingsAttribute, out);
  for (size_t i = 0; i < in.size(); ++i) counts.uneven_in += !parameters[i].Divides(in[i]);
  for (size_t i = 0; i < out.size(); ++i) counts.uneven_out += !results[i].Divides(out[i]);
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
  (plans.empty() ? counts.without_collectives : counts.with_collectives)++;
  LaunchOptions launch_options;
  launch_options.partitions = kPartitions;
  auto launch = std::make_shared<Launch>(launch_options);
  std::vector<absl::StatusOr<Literal>> got(kPartitions, absl::UnknownError("did not run"));
  std::vector<std::thread> threads;
  for (int64_t p = 0; p < kPartitions; ++p) {
    threads.emplace_back([&, p] {
      LaunchMember member(launch, 0, p);
      std::vector<Literal> mine;
      for (size_t i = 0; i < arguments.size(); ++i) mine.push_back(MakeShard(arguments[i], parameters[i], p, 1000003));
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
      ASSERT_FALSE(Differs(g->elements()[r], MakeShard(want->elements()[r], results[r], p, 0)))
          << "partition " << p << ", result " << r << "\n"
          << program.ToString() << "\n"
          << split->ToString();
    }
  }
}

TEST(PartitionedPrograms, GiveResultsOfFullProgram) {
  Counts counts;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    PartitionOptions options;
    if (seed % 2 == 0) options.propagate_to_parameters = {true};
    ComparePartitioned(*MakeRandomShardedProgram(seed), options, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.with_collectives, 100);
  EXPECT_GT(counts.without_collectives, 20);
  EXPECT_GT(counts.uneven_in, 50);
  EXPECT_GT(counts.uneven_out, 50);
}

// A sum stays partial as long as only linear operations use it, also over the iterations of nested loops.
TEST(PartitionedPrograms, KeepSumsPartialInLoops) {
  Counts counts;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = MakeRandomPartialLoops(seed);
    absl::StatusOr<std::unique_ptr<Module>> program = ParseHloModule(text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    ComparePartitioned(**program, {}, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.with_collectives, 200);
}

}  // namespace
}  // namespace backplane
