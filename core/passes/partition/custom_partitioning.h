// Custom calls about whose splitting the host is asked while a program is compiled.
//
// A host registers functions for the name of a custom-call target. PartitionModule calls them for each such call
// outside manual regions, on more than one partition. Registration is for the process's copy of this library: one
// plugin. Thread-safe.
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
    Shape shape;        // whole; a tuple of arrays for a call of several results
    Sharding sharding;  // as it lies or is wanted; of a tuple one for each element
  };
  struct Split {
    std::unique_ptr<Module> program;  // what each partition computes of its shards; may hold collectives
    std::vector<Sharding> operands;   // as the program takes them
    Sharding result;                  // as it gives them
  };
  // `config` is the call's own, any bytes. Each operand is brought to the sharding that is asked for.
  std::function<absl::StatusOr<Split>(absl::Span<const Value> operands, const Value& result, absl::string_view config)>
      partition;
  // In its place for a call that only wants to know how its operand lies. The call is then taken out.
  std::function<absl::Status(const Sharding& operand, absl::string_view config)> inspect;
};

// A second registration of a name takes the place of the first, which running compilations keep alive.
void RegisterCustomPartitioning(absl::string_view target, std::shared_ptr<const CustomPartitioning> functions);
std::shared_ptr<const CustomPartitioning> FindCustomPartitioning(absl::string_view target);  // null when absent

// Shardy's rule of a custom call, "#sdy.op_sharding_rule<([i, jk])->([ij, k]) {...} need_replication={k}, custom>": for
// each dimension of each array the number of its outermost factor, -1 where it has none that may be split. Nullopt for
// what is no such text.
struct ShardingRule {
  std::vector<Ints> operands, results;
};
std::optional<ShardingRule> ParseShardingRule(absl::string_view text);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_CUSTOM_PARTITIONING_H_
