#include "core/passes/partition/custom_partitioning.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "core/passes/calls.h"
#include "core/passes/order_effects.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

struct Registry {
  Mutex mu;
  std::map<std::string, std::shared_ptr<const CustomPartitioning>, std::less<>> functions ABSL_GUARDED_BY(mu);
};
Registry& GetRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace

void RegisterCustomPartitioning(absl::string_view target, std::shared_ptr<const CustomPartitioning> functions) {
  {
    MutexLock lock(GetRegistry().mu);
    std::swap(GetRegistry().functions[std::string(target)], functions);
  }
  // Destroys the replaced functions here, without the lock: their destructors may run code of the host.
}

std::shared_ptr<const CustomPartitioning> FindCustomPartitioning(absl::string_view target) {
  MutexLock lock(GetRegistry().mu);
  auto at = GetRegistry().functions.find(std::string(target));
  return at == GetRegistry().functions.end() ? nullptr : at->second;
}

namespace {

// Parses a factor name: i to z, then z_1, z_2, and so on. Returns its number.
std::optional<int64_t> ParseFactor(absl::string_view* text) {
  if (text->empty() || (*text)[0] < 'i' || (*text)[0] > 'z') return std::nullopt;
  const int64_t first = (*text)[0] - 'i';
  text->remove_prefix(1);
  if (!absl::ConsumePrefix(text, "_")) return first;
  int64_t number = 0;
  size_t digits = 0;
  while (digits < text->size() && digits < 9 && absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) {
    number = number * 10 + ((*text)[digits++] - '0');
  }
  text->remove_prefix(digits);
  if (digits == 0) return std::nullopt;
  return first + number;
}

// Parses a list of arrays such as "([i, jk], [])", including the parentheses.
bool ParseArrays(absl::string_view* text, std::vector<Ints>* arrays) {
  if (!absl::ConsumePrefix(text, "(")) return false;
  while (absl::ConsumePrefix(text, "[")) {
    Ints dims;
    while (!absl::ConsumePrefix(text, "]")) {
      std::optional<int64_t> outermost = ParseFactor(text);
      if (!outermost) return false;
      dims.push_back(*outermost);
      while (!text->empty() && (*text)[0] >= 'i' && (*text)[0] <= 'z') {
        if (!ParseFactor(text)) return false;
      }
      absl::ConsumePrefix(text, ", ");
    }
    arrays->push_back(std::move(dims));
    absl::ConsumePrefix(text, ", ");
  }
  return absl::ConsumePrefix(text, ")");
}

}  // namespace

std::optional<ShardingRule> ParseShardingRule(absl::string_view text) {
  ShardingRule rule;
  if (!absl::ConsumePrefix(&text, "#sdy.op_sharding_rule<") || !ParseArrays(&text, &rule.operands) ||
      !absl::ConsumePrefix(&text, "->") || !ParseArrays(&text, &rule.results)) {
    return std::nullopt;
  }
  constexpr absl::string_view kNeedReplication = "need_replication={";
  if (const size_t at = text.find(kNeedReplication); at != absl::string_view::npos) {
    text.remove_prefix(at + kNeedReplication.size());
    while (!absl::ConsumePrefix(&text, "}")) {
      std::optional<int64_t> factor = ParseFactor(&text);
      if (!factor) return std::nullopt;
      absl::ConsumePrefix(&text, ", ");
      for (std::vector<Ints>* arrays : {&rule.operands, &rule.results}) {
        for (Ints& dims : *arrays) std::replace(dims.begin(), dims.end(), *factor, int64_t{-1});
      }
    }
  }
  return rule;
}

namespace {

absl::Status AddCallContext(const Instruction* i, const absl::Status& s) {
  return absl::Status(s.code(),
                      absl::StrCat(i->name(), ": custom call '", i->custom_call_target(), "': ", s.message()));
}

// Gives the channels of the host's program numbers that the module does not use. `next` is the first free channel.
void RenumberChannels(const Module& program, int64_t* next) {
  const int64_t base = *next;
  for (const auto& c : program.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->attrs().Has(AttrId::kChannelId)) continue;
      const int64_t channel = base + std::max<int64_t>(i->attrs().GetInt(AttrId::kChannelId), 0);
      i->mutable_attrs().Set(AttrId::kChannelId, channel);
      *next = std::max(*next, channel + 1);
    }
  }
}

bool HasSameDims(const Shape& a, const Shape& b) {
  return a.IsArray() && b.IsArray() && a.element_type() == b.element_type() && a.dimensions() == b.dimensions();
}

}  // namespace

Tiling Partitioner::GetTiling(const Instruction* full) const {
  if (const Shards* known = FindShards(full)) return known->tiling;
  const Tiling* propagated = depth_ == 0 ? context_.FindPropagated(full) : nullptr;
  return propagated != nullptr ? *propagated : Tiling::Replicated(full->shape().rank(), partitions_);
}

// Reports the sharding of the operand to the host and removes the call.
absl::Status Partitioner::ReportSharding(Instruction* i, const CustomPartitioning& host) {
  if (i->operand_count() != 1 || !i->operand(0)->shape().IsArray() || i->operand(0)->shape() != i->shape()) {
    return AddCallContext(i, absl::InvalidArgumentError("expected one array and a result of the same shape"));
  }
  Sharding sharding;
  if (context_.IsManual(i)) {
    sharding.type = Sharding::Type::kManual;
  } else if (partitions_ > 1) {
    sharding = GetTiling(i->operand(0)).ToSharding();
  }
  if (!context_.is_trial) {
    absl::Status status = host.inspect(sharding, i->attrs().GetString(AttrId::kOpaque));
    if (!status.ok()) return AddCallContext(i, status);
  }
  i->ReplaceAllUsesWith(i->operand(0));
  replaced_.push_back(i);
  return absl::OkStatus();
}

absl::Status Partitioner::PartitionByHost(Instruction* i, const CustomPartitioning& host) {
  const bool tuple = i->shape().IsTuple();
  std::vector<CustomPartitioning::Value> operands;
  for (const Instruction* o : i->operands()) {
    if (!o->shape().IsArray()) return AddCallContext(i, absl::UnimplementedError("has an operand that is no array"));
    operands.push_back({o->shape().WithoutLayout(), GetTiling(o).ToSharding()});
  }
  std::vector<Shape> full_shapes;
  CustomPartitioning::Value result{i->shape().WithoutLayout(), {}};
  if (tuple) result.sharding.type = Sharding::Type::kTuple;
  for (int64_t k = 0; k < (tuple ? i->shape().tuple_size() : 1); ++k) {
    const Shape& full = tuple ? i->shape().tuple_shapes(k) : i->shape();
    if (!full.IsArray()) return AddCallContext(i, absl::UnimplementedError("has a result that is no array"));
    const Tiling* propagated = depth_ == 0 ? context_.FindPropagated(i, k) : nullptr;
    Sharding sharding = propagated != nullptr ? propagated->ToSharding() : Sharding();
    if (tuple) {
      result.sharding.tuple.push_back(std::move(sharding));
    } else {
      result.sharding = std::move(sharding);
    }
    full_shapes.push_back(full.WithoutLayout());
  }

  absl::StatusOr<CustomPartitioning::PartitionedCall> partitioned =
      host.partition(operands, result, i->attrs().GetString(AttrId::kOpaque));
  if (!partitioned.ok()) return AddCallContext(i, partitioned.status());
  if (partitioned->program == nullptr || partitioned->program->entry() == nullptr ||
      partitioned->operands.size() != operands.size() ||
      partitioned->program->entry()->parameters().size() != operands.size()) {
    return AddCallContext(i, absl::InvalidArgumentError(
                                 absl::StrCat("the host's program is not one of ", operands.size(), " arguments")));
  }
  RETURN_IF_ERROR(InlineAllCalls(partitioned->program.get()).status());
  auto tiling_of = [&](const Sharding& sharding, const Shape& full) -> absl::StatusOr<Tiling> {
    absl::StatusOr<Tiling> tiling = Tiling::FromSharding(sharding, full, partitions_);
    if (!tiling.ok()) return AddCallContext(i, tiling.status());
    if (tiling->Divides(full)) return tiling;
    return AddCallContext(i, absl::UnimplementedError(absl::StrCat("the host splits ", full.ToString(), " unevenly by ",
                                                                   tiling->ToString())));
  };
  auto mismatch = [&](absl::string_view what, size_t k, const Shape& has, const Shape& wants) {
    return AddCallContext(
        i, absl::InvalidArgumentError(absl::StrCat(what, " ", k, " of the host's program is ", has.ToString(),
                                                   ", its sharding makes that ", wants.ToString())));
  };
  std::vector<Instruction*> shards;
  for (size_t k = 0; k < operands.size(); ++k) {
    ASSIGN_OR_RETURN(Tiling tiling, tiling_of(partitioned->operands[k], operands[k].shape));
    ASSIGN_OR_RETURN(Instruction * x, ReshardTo(i->operand(static_cast<int64_t>(k)), tiling));
    const Shape& expected = partitioned->program->entry()->parameters()[k]->shape();
    if (!HasSameDims(expected, x->shape())) return mismatch("argument", k, expected, x->shape());
    shards.push_back(x);
  }
  RenumberChannels(*partitioned->program, &context_.next_channel);
  Computation* body = context_.module->CloneComputation(partitioned->program->entry());
  const int64_t had = c_->instruction_count();
  Instruction* inlined = Inline(c_, body, shards);
  MoveControlDependenciesToEffects(i, had);

  std::vector<Instruction*> results;
  const size_t result_count = inlined->shape().IsTuple() ? static_cast<size_t>(inlined->shape().tuple_size()) : 1;
  if (result_count != full_shapes.size()) {
    return AddCallContext(i, absl::InvalidArgumentError(absl::StrCat("the host's program gives ", result_count,
                                                                     " results, not ", full_shapes.size())));
  }
  for (size_t k = 0; k < full_shapes.size(); ++k) {
    const Sharding* sharding = &partitioned->result;
    if (sharding->type == Sharding::Type::kTuple) {
      if (k >= sharding->tuple.size()) {
        return AddCallContext(i, absl::InvalidArgumentError(absl::StrCat("the host gives no sharding for result ", k)));
      }
      sharding = &sharding->tuple[k];
    }
    ASSIGN_OR_RETURN(Tiling tiling, tiling_of(*sharding, full_shapes[k]));
    Instruction* x = inlined;
    if (inlined->shape().IsTuple()) {
      x = inlined->Is(Opcode::kTuple) ? inlined->operand(static_cast<int64_t>(k))
                                      : MakeElement(c_, inlined, static_cast<int64_t>(k));
    }
    if (!HasSameDims(x->shape(), tiling.ShardShape(full_shapes[k])))
      return mismatch("result", k, x->shape(), tiling.ShardShape(full_shapes[k]));
    if (!tuple) {
      ReplaceWithShards(i, {x, std::move(tiling)});
    } else if (tiling.IsReplicated()) {
      results.push_back(x);
    } else {
      Shards result_shards{x, std::move(tiling)};
      results.push_back(AllGather(result_shards, i));
      shards_[results.back()] = std::move(result_shards);
    }
  }
  if (tuple) i->ReplaceAllUsesWith(AddOp(i, Opcode::kTuple, i->shape().WithoutLayout(), results));
  if (i->HasSideEffect()) replaced_.push_back(i);
  return absl::OkStatus();
}

}  // namespace backplane
