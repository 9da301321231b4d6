#include "core/passes/partition/custom_partitioning.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/passes/calls.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

struct Registry {
  std::mutex mu;
  std::map<std::string, std::shared_ptr<const CustomPartitioning>, std::less<>> functions;
};
Registry& All() {
  static auto* all = new Registry;
  return *all;
}

}  // namespace

void RegisterCustomPartitioning(absl::string_view target, std::shared_ptr<const CustomPartitioning> functions) {
  {
    std::lock_guard<std::mutex> lock(All().mu);
    std::swap(All().functions[std::string(target)], functions);
  }
  // What it replaced goes here, without the lock: the host's own code may run then.
}

std::shared_ptr<const CustomPartitioning> FindCustomPartitioning(absl::string_view target) {
  std::lock_guard<std::mutex> lock(All().mu);
  auto at = All().functions.find(std::string(target));
  return at == All().functions.end() ? nullptr : at->second;
}

namespace {

// Factors are i to z, then z_1, z_2, ...
std::optional<int64_t> TakeFactor(absl::string_view* text) {
  if (text->empty() || (*text)[0] < 'i' || (*text)[0] > 'z') return std::nullopt;
  const int64_t letter = (*text)[0] - 'i';
  text->remove_prefix(1);
  if (!absl::ConsumePrefix(text, "_")) return letter;
  int64_t number = 0;
  size_t digits = 0;
  while (digits < text->size() && digits < 9 && absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) {
    number = number * 10 + ((*text)[digits++] - '0');
  }
  text->remove_prefix(digits);
  if (digits == 0) return std::nullopt;
  return letter + number;
}

// "([i, jk], [])", up to and with the closing parenthesis.
bool TakeArrays(absl::string_view* text, std::vector<Ints>* arrays) {
  if (!absl::ConsumePrefix(text, "(")) return false;
  while (absl::ConsumePrefix(text, "[")) {
    Ints dims;
    while (!absl::ConsumePrefix(text, "]")) {
      std::optional<int64_t> outermost = TakeFactor(text);
      if (!outermost) return false;
      dims.push_back(*outermost);
      while (!text->empty() && (*text)[0] >= 'i' && (*text)[0] <= 'z') {
        if (!TakeFactor(text)) return false;
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
  if (!absl::ConsumePrefix(&text, "#sdy.op_sharding_rule<") || !TakeArrays(&text, &rule.operands) ||
      !absl::ConsumePrefix(&text, "->") || !TakeArrays(&text, &rule.results)) {
    return std::nullopt;
  }
  constexpr absl::string_view kWhole = "need_replication={";
  if (const size_t at = text.find(kWhole); at != absl::string_view::npos) {
    text.remove_prefix(at + kWhole.size());
    while (!absl::ConsumePrefix(&text, "}")) {
      std::optional<int64_t> factor = TakeFactor(&text);
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

absl::Status OfCall(const Instruction* i, const absl::Status& s) {
  return absl::Status(s.code(),
                      absl::StrCat(i->name(), ": custom call '", i->custom_call_target(), "': ", s.message()));
}

// Channels of the host's program are its own: no other instruction's.
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

bool SameArray(const Shape& a, const Shape& b) {
  return a.IsArray() && b.IsArray() && a.element_type() == b.element_type() && a.dimensions() == b.dimensions();
}

}  // namespace

Tiling Partitioner::TilingOf(const Instruction* whole) const {
  if (const Shards* known = FindShards(whole)) return known->tiling;
  const Tiling* proposed = depth_ == 0 ? context_.Proposed(whole) : nullptr;
  return proposed != nullptr ? *proposed : Tiling::Whole(whole->shape().rank(), partitions_);
}

// The call takes out of the program what it asks of the host.
absl::Status Partitioner::Inspect(Instruction* i, const CustomPartitioning& host) {
  if (i->operand_count() != 1 || !i->operand(0)->shape().IsArray() || i->operand(0)->shape() != i->shape()) {
    return OfCall(i, absl::InvalidArgumentError("takes one array and gives it back"));
  }
  Sharding sharding;
  if (context_.IsManual(i)) {
    sharding.type = Sharding::Type::kManual;
  } else if (partitions_ > 1) {
    sharding = TilingOf(i->operand(0)).ToSharding();
  }
  if (!context_.learning) {
    absl::Status told = host.inspect(sharding, i->attrs().GetString(AttrId::kOpaque));
    if (!told.ok()) return OfCall(i, told);
  }
  i->ReplaceAllUsesWith(i->operand(0));
  replaced_.push_back(i);
  return absl::OkStatus();
}

absl::Status Partitioner::SplitAsHostSays(Instruction* i, const CustomPartitioning& host) {
  const bool tuple = i->shape().IsTuple();
  std::vector<CustomPartitioning::Value> operands;
  for (const Instruction* o : i->operands()) {
    if (!o->shape().IsArray()) return OfCall(i, absl::UnimplementedError("has an operand that is no array"));
    operands.push_back({o->shape().WithoutLayout(), TilingOf(o).ToSharding()});
  }
  std::vector<Shape> wholes;
  CustomPartitioning::Value result{i->shape().WithoutLayout(), {}};
  if (tuple) result.sharding.type = Sharding::Type::kTuple;
  for (int64_t k = 0; k < (tuple ? i->shape().tuple_size() : 1); ++k) {
    const Shape& whole = tuple ? i->shape().tuple_shapes(k) : i->shape();
    if (!whole.IsArray()) return OfCall(i, absl::UnimplementedError("gives something that is no array"));
    const Tiling* proposed = depth_ == 0 ? context_.Proposed(i, k) : nullptr;
    Sharding sharding = proposed != nullptr ? proposed->ToSharding() : Sharding();
    if (tuple) {
      result.sharding.tuple.push_back(std::move(sharding));
    } else {
      result.sharding = std::move(sharding);
    }
    wholes.push_back(whole.WithoutLayout());
  }

  absl::StatusOr<CustomPartitioning::Split> said =
      host.partition(operands, result, i->attrs().GetString(AttrId::kOpaque));
  if (!said.ok()) return OfCall(i, said.status());
  if (said->program == nullptr || said->program->entry() == nullptr || said->operands.size() != operands.size() ||
      said->program->entry()->parameters().size() != operands.size()) {
    return OfCall(i, absl::InvalidArgumentError(
                        absl::StrCat("the host's program is not one of ", operands.size(), " arguments")));
  }
  RETURN_IF_ERROR(InlineAllCalls(said->program.get()).status());
  auto tiling_of = [&](const Sharding& sharding, const Shape& whole) -> absl::StatusOr<Tiling> {
    absl::StatusOr<Tiling> tiling = Tiling::Of(sharding, whole, partitions_);
    if (!tiling.ok()) return OfCall(i, tiling.status());
    if (tiling->Divides(whole)) return tiling;
    return OfCall(i, absl::UnimplementedError(
                        absl::StrCat("the host splits ", whole.ToString(), " unevenly by ", tiling->ToString())));
  };
  auto mismatch = [&](absl::string_view what, size_t k, const Shape& has, const Shape& wants) {
    return OfCall(i, absl::InvalidArgumentError(absl::StrCat(what, " ", k, " of the host's program is ", has.ToString(),
                                                            ", its sharding makes that ", wants.ToString())));
  };
  std::vector<Instruction*> shards;
  for (size_t k = 0; k < operands.size(); ++k) {
    ASSIGN_OR_RETURN(Tiling tiling, tiling_of(said->operands[k], operands[k].shape));
    ASSIGN_OR_RETURN(Instruction * x, SliceTo(i->operand(static_cast<int64_t>(k)), tiling));
    const Shape& takes = said->program->entry()->parameters()[k]->shape();
    if (!SameArray(takes, x->shape())) return mismatch("argument", k, takes, x->shape());
    shards.push_back(x);
  }
  RenumberChannels(*said->program, &context_.next_channel);
  Computation* body = context_.module->CloneComputation(said->program->entry());
  Instruction* made = Inline(c_, body, shards);

  std::vector<Instruction*> given;
  const size_t gives = made->shape().IsTuple() ? static_cast<size_t>(made->shape().tuple_size()) : 1;
  if (gives != wholes.size()) {
    return OfCall(i, absl::InvalidArgumentError(
                        absl::StrCat("the host's program gives ", gives, " results, not ", wholes.size())));
  }
  for (size_t k = 0; k < wholes.size(); ++k) {
    const Sharding* sharding = &said->result;
    if (sharding->type == Sharding::Type::kTuple) {
      if (k >= sharding->tuple.size()) {
        return OfCall(i, absl::InvalidArgumentError(absl::StrCat("the host gives no sharding for result ", k)));
      }
      sharding = &sharding->tuple[k];
    }
    ASSIGN_OR_RETURN(Tiling tiling, tiling_of(*sharding, wholes[k]));
    Instruction* x = made;
    if (made->shape().IsTuple()) {
      x = made->Is(Opcode::kTuple) ? made->operand(static_cast<int64_t>(k))
                                   : MakeElement(c_, made, static_cast<int64_t>(k));
    }
    if (!SameArray(x->shape(), tiling.ShardOf(wholes[k])))
      return mismatch("result", k, x->shape(), tiling.ShardOf(wholes[k]));
    if (!tuple) {
      Adopt(i, {x, std::move(tiling)});
    } else if (tiling.IsWhole()) {
      given.push_back(x);
    } else {
      Shards result_shards{x, std::move(tiling)};
      given.push_back(Gather(result_shards, i));
      shards_[given.back()] = std::move(result_shards);
    }
  }
  if (tuple) i->ReplaceAllUsesWith(Op(i, Opcode::kTuple, i->shape().WithoutLayout(), given));
  if (i->HasSideEffect()) replaced_.push_back(i);
  return absl::OkStatus();
}

}  // namespace backplane
