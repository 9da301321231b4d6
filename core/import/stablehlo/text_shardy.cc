// The short forms of Shardy ops. Their attributes are stored as text.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/text_internal.h"

namespace backplane::stablehlo {
namespace {

// Attribute text in front of the operand, for collectives; null when there is none.
struct Collective {
  const char* op;
  const char* attribute;
  const char* prefix;
};
constexpr Collective kCollectives[] = {
    {"sdy.all_gather", "gathering_axes", "#sdy<list_of_axis_ref_lists"},
    {"sdy.all_slice", "slicing_axes", "#sdy<list_of_axis_ref_lists"},
    {"sdy.all_to_all", "params", "#sdy<all_to_all_param_list"},
    {"sdy.collective_permute", nullptr, nullptr},
    {"sdy.all_reduce", "reduction_axes", "#sdy<axis_ref_list"},
    {"sdy.reduce_scatter", "reduce_scatter_axes", "#sdy<list_of_axis_ref_lists"},
    {"sdy.sharded_to_unreduced", "axes", "#sdy<list_of_axis_ref_lists"},
    {"sdy.replicated_to_unreduced", "axes", "#sdy<axis_ref_list"},
};

constexpr absl::string_view kDirections[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};

}  // namespace

bool TextParser::ParseShardyOp(OpState* op) {
  auto shardy = [&](absl::string_view prefix, absl::string_view tail) {
    absl::string_view raw = TakeBalanced();
    if (!ok()) return MakeUnit(arena_);
    return MakeShardy(arena_, arena_.CopyString(absl::StrCat(prefix, ShardyBody(raw), tail)));
  };
  const std::string& name = op->name;
  if (name == "sdy.mesh") {
    Add(op, "sym_name", MakeString(arena_, ParseSymbol()));
    Expect('=');
    Add(op, "mesh", shardy("#sdy.mesh", ""));
    return ok() && ParseOptionalDictionary(&op->attributes);
  }
  if (name == "sdy.manual_computation") return ParseManualComputation(op);
  if (name == "sdy.named_computation") {
    Expect('<');
    Add(op, "name", MakeString(arena_, ParseStringToken()));
    Expect('>');
    return ok() && ParseManualComputation(op);
  }
  std::vector<OperandUse> uses(1);
  for (const Collective& c : kCollectives) {
    if (name != c.op) continue;
    if (c.attribute) Add(op, c.attribute, shardy(c.prefix, ">"));
    ParseOperand(&uses[0]);
    ExpectAssign("out_sharding");
    if (ok()) Add(op, "out_sharding", shardy("#sdy.sharding", ""));
    if (!ok() || !ParseOptionalDictionary(&op->attributes)) return false;
    return Expect(':') && ParseOpTypes("T", uses, op);
  }
  ParseOperand(&uses[0]);
  if (!ok()) return false;
  bool has_result = true;
  if (name == "sdy.sharding_constraint" || name == "sdy.reshard") {
    Add(op, "sharding", shardy("#sdy.sharding", ""));
  } else if (name == "sdy.sharding_group") {
    ExpectAssign("group_id");
    int64_t id = 0;
    if (!ParseInteger(&id)) return false;
    Add(op, "group_id", MakeInteger(arena_, id));
    has_result = false;
  } else if (name == "sdy.propagation_barrier") {
    ExpectAssign("allowed_direction");
    absl::string_view word = ParseKeyword();
    int64_t value = -1;
    for (size_t i = 0; i < 4; ++i) {
      if (word == kDirections[i]) value = static_cast<int64_t>(i);
    }
    if (ok() && value < 0) Fail(absl::StrCat("unknown direction ", word));
    Add(op, "allowed_direction", MakeInteger(arena_, value, ElementKind::kI32));
  } else if (name == "sdy.data_flow_edge") {
    if (TakeWord("sharding") && Expect('=')) Add(op, "sharding", shardy("#sdy.sharding", ""));
  } else {
    FailAt(op->position, absl::StrCat("unknown op ", name), absl::StatusCode::kUnimplemented);
    return false;
  }
  if (!ok() || !ParseOptionalDictionary(&op->attributes) || !Expect(':')) return false;
  if (has_result) return ParseOpTypes("T", uses, op);
  const SourceType* type = ParseType();
  return ok() && ResolveAll(uses, {type}, op);
}

// (%a, %b) in_shardings=[..] out_shardings=[..] manual_axes={..} (%c: T, %d: T) { .. } : (T, T) -> (T, T)
bool TextParser::ParseManualComputation(OpState* op) {
  std::vector<OperandUse> uses;
  Expect('(');
  ParseOperands(&uses);
  Expect(')');
  for (absl::string_view key : {"in_shardings", "out_shardings"}) {
    if (!AtWord(key)) continue;
    ExpectAssign(key);
    absl::string_view raw = TakeBalanced();
    if (!ok()) return false;
    Add(op, key, MakeShardy(arena_, arena_.CopyString(absl::StrCat("#sdy.sharding_per_value<", ShardyBody(raw), ">"))));
  }
  if (AtWord("manual_axes")) {
    ExpectAssign("manual_axes");
    absl::string_view raw = TakeBalanced();
    if (!ok()) return false;
    Add(op, "manual_axes",
        MakeShardy(arena_, arena_.CopyString(absl::StrCat("#sdy<manual_axes", ShardyBody(raw), ">"))));
  }
  std::vector<Argument> arguments;
  std::vector<const SourceAttr*> dictionaries;
  bool named = false;
  if (!ok() || !ParseArguments(&arguments, &dictionaries, &named)) return false;
  SourceRegion region;
  if (!ParseRegion(Parent::kOther, arguments, &region) || !ParseOptionalDictionary(&op->attributes)) return false;
  op->regions.push_back(region);
  return Expect(':') && ParseOpTypes("T", uses, op);
}

}  // namespace backplane::stablehlo
