// Callbacks of the host that partition custom calls during compilation.
//
// A host registers functions for a custom-call target. PartitionModule calls them for each call of that target outside
// of manual regions, if the program has more than one partition. A registration applies to all compilations of this
// copy of the library, that is, of one plugin. All functions are thread-safe.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_CUSTOM_PARTITIONING_H_
#define BACKPLANE_CORE_PASSES_PARTITION_CUSTOM_PARTITIONING_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ir/module.h"

namespace backplane {

struct CustomPartitioning {
  struct Value {
    Shape shape;        // full shape; a tuple of arrays for a call with several results
    Sharding sharding;  // current sharding of an operand, proposed sharding of a result; a tuple for a tuple
  };
  struct PartitionedCall {
    std::unique_ptr<Module> program;  // computes the result shards from the operand shards; may contain collectives
    std::vector<Sharding> operands;   // required shardings of the operands
    Sharding result;                  // sharding of the result
  };
  // Partitions a call. `config` is the backend config of the call and may be any bytes. The pass reshards the operands
  // to the shardings that are returned and replaces the call by the program.
  std::function<absl::StatusOr<PartitionedCall>(absl::Span<const Value> operands, const Value& result,
                                                absl::string_view config)>
      partition;
  // If set, replaces `partition` for a call that only observes the sharding of its operand. The pass removes the call.
  std::function<absl::Status(const Sharding& operand, absl::string_view config)> inspect;
};

// Registers the functions of a target, or removes them if null. Replaces an earlier registration; compilations in
// progress keep the functions they have looked up.
void RegisterCustomPartitioning(absl::string_view target, std::shared_ptr<const CustomPartitioning> functions);
// Returns null if the target has no registration.
std::shared_ptr<const CustomPartitioning> FindCustomPartitioning(absl::string_view target);

// The sharding rule of a custom call in Shardy's syntax, for example
// "#sdy.op_sharding_rule<([i, jk])->([ij, k]) {...} need_replication={k}, custom>". Lists for each dimension of each
// array the number of its outermost factor, or -1 if that factor needs replication.
struct ShardingRule {
  std::vector<Ints> operands, results;
};
// Returns nullopt if the text is no sharding rule.
std::optional<ShardingRule> ParseShardingRule(absl::string_view text);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_CUSTOM_PARTITIONING_H_
