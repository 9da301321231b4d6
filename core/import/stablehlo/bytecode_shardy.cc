// Shardy attributes of a portable artifact, written back as the text MLIR prints for them: the one form in which the
// core keeps a sharding.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/stablehlo/bytecode_entries.h"
#include "core/import/stablehlo/source_build.h"

namespace backplane::stablehlo {
namespace {

enum ShardyCode {
  kManualAxes,
  kMeshAxis,
  kMesh,
  kSubAxis,
  kAxisRef,
  kDimension,
  kSharding,
  kPerValue,
  kDimMapping,
  kTensorMapping,
  kRule,
  kAxisList,
  kAxisLists,
  kAllToAll,
  kAllToAllList,
  kShardingUnreduced,
  kPerValueUnreduced,
  kShardingReduction,
};
constexpr int kCodes = kShardingReduction + 1;

// The printed form before the body.
constexpr const char* kPrefix[kCodes] = {"#sdy<manual_axes",
                                         "#sdy<mesh_axis ",
                                         "#sdy.mesh",
                                         "#sdy<sub_axis_info",
                                         "#sdy<axis_ref ",
                                         "#sdy<dimension_sharding",
                                         "#sdy.sharding",
                                         "#sdy.sharding_per_value",
                                         "#sdy<dim_mapping ",
                                         "#sdy<tensor_mapping",
                                         "#sdy.op_sharding_rule",
                                         "#sdy<axis_ref_list",
                                         "#sdy<list_of_axis_ref_lists",
                                         "#sdy<all_to_all_param",
                                         "#sdy<all_to_all_param_list",
                                         "#sdy.sharding",
                                         "#sdy.sharding_per_value",
                                         "#sdy.sharding"};

bool HasTail(int code) { return absl::StartsWith(kPrefix[code], "#sdy<"); }

// Two codes may mean the same kind of attribute.
int GetKind(int code) {
  if (code == kShardingUnreduced || code == kShardingReduction) return kSharding;
  if (code == kPerValueUnreduced) return kPerValue;
  return code;
}

std::string FactorName(int64_t index) {
  if (index < 18) return std::string(1, static_cast<char>('i' + index));
  return absl::StrCat("z_", index - 17);
}

}  // namespace

std::string BytecodeEntries::ReadShardyText(ByteReader& in, int code) {
  uint64_t index = in.Varint();
  if (!in.ok()) return "";
  absl::StatusOr<const SourceAttr*> a = Attribute(index);
  if (!a.ok()) {
    in.Adopt(a.status());
    return "";
  }
  if ((*a)->kind != AttrKind::kShardy || attributes_[index].code < 0 || attributes_[index].code >= kCodes ||
      GetKind(attributes_[index].code) != GetKind(code)) {
    in.Fail(absl::StrCat("sdy attribute ", index, " is of another kind than expected (", code, ")"));
    return "";
  }
  absl::string_view body = (*a)->text;
  body.remove_prefix(absl::string_view(kPrefix[code]).size());
  if (HasTail(code)) body.remove_suffix(1);
  return std::string(body);
}

std::string BytecodeEntries::ReadShardyList(ByteReader& in, int code) {
  uint64_t n = in.Count("sdy attributes");
  std::string out;
  for (uint64_t i = 0; i < n && in.ok(); ++i) {
    absl::StrAppend(&out, i ? ", " : "", ReadShardyText(in, code));
    if (out.size() > kMaxAttributeWeight) in.Fail("sdy attribute is too large when written out");
  }
  return out;
}

const SourceAttr* BytecodeEntries::DecodeShardingRule(ByteReader& in) {
  std::vector<int64_t> sizes = ReadI64Vector(in);
  std::string operands = ReadShardyList(in, kTensorMapping);
  std::string results = ReadShardyList(in, kTensorMapping);
  std::string out = absl::StrCat(kPrefix[kRule], "<(", operands, ")->(", results, ")");
  if (!sizes.empty()) {
    absl::StrAppend(&out, " {");
    for (size_t i = 0; i < sizes.size(); ++i) {
      absl::StrAppend(&out, i ? ", " : "", FactorName(static_cast<int64_t>(i)), "=", sizes[i]);
    }
    absl::StrAppend(&out, "}");
  }
  for (const char* kind : {"reduction", "need_replication", "permutation", "blocked_propagation"}) {
    std::vector<int64_t> factors = ReadI64Vector(in);
    for (int64_t f : factors) {
      if (f < 0 || f >= static_cast<int64_t>(sizes.size())) in.Fail(absl::StrCat("sharding rule factor ", f));
    }
    if (factors.empty() || !in.ok()) continue;
    absl::StrAppend(&out, " ", kind, "={",
                    absl::StrJoin(factors, ", ", [](std::string* s, int64_t f) { absl::StrAppend(s, FactorName(f)); }),
                    "}");
  }
  if (in.Byte()) absl::StrAppend(&out, ", custom");
  absl::StrAppend(&out, ">");
  return KeepShardyText(in, out);
}

// Attributes share their parts, but each text is written out.
const SourceAttr* BytecodeEntries::KeepShardyText(ByteReader& in, absl::string_view text) {
  constexpr int64_t kMaxShardyBytes = int64_t{1} << 28;
  shardy_bytes_ += static_cast<int64_t>(text.size());
  if (in.ok() && shardy_bytes_ > kMaxShardyBytes) {
    in.Adopt(absl::ResourceExhaustedError(
        absl::StrCat("sdy attributes take more than ", kMaxShardyBytes, " bytes when written out [expansion_budget]")));
  }
  return in.ok() ? MakeShardy(arena_, arena_.CopyString(text)) : nullptr;
}

const SourceAttr* BytecodeEntries::DecodeShardyAttribute(ByteReader& in, uint64_t code) {
  if (code >= kCodes) {
    in.Fail(absl::StrCat("unknown sdy attribute code ", code));
    return nullptr;
  }
  std::string body;
  switch (code) {
    case kManualAxes: {
      uint64_t n = in.Count("axes");
      for (uint64_t i = 0; i < n && in.ok(); ++i) {
        const SourceAttr* name = ReadStringAttribute(in);
        if (name) absl::StrAppend(&body, i ? ", " : "", "\"", name->text, "\"");
      }
      body = absl::StrCat("{", body, "}");
      break;
    }
    case kMeshAxis: {
      absl::string_view name = ReadString(in);
      body = absl::StrCat("\"", name, "\"=", in.SignedVarint());
      break;
    }
    case kMesh: {
      std::string axes = ReadShardyList(in, kMeshAxis);
      std::vector<int64_t> ids = ReadI64Vector(in);
      body = absl::StrCat("<[", axes, "]");
      if (!ids.empty()) absl::StrAppend(&body, ", device_ids=[", absl::StrJoin(ids, ", "), "]");
      absl::StrAppend(&body, ">");
      break;
    }
    case kSubAxis: {
      int64_t pre = in.SignedVarint();
      body = absl::StrCat("(", pre, ")", in.SignedVarint());
      break;
    }
    case kAxisRef: {
      body = absl::StrCat("\"", ReadString(in), "\"");
      bool has_sub = false;
      uint64_t sub = in.VarintFlag(&has_sub);
      if (in.ok() && has_sub) {
        absl::StatusOr<const SourceAttr*> a = Attribute(sub);
        if (!a.ok()) {
          in.Adopt(a.status());
        } else if ((*a)->kind != AttrKind::kShardy || attributes_[sub].code != kSubAxis) {
          in.Fail("axis reference holds no sub-axis");
        } else {
          absl::string_view text = (*a)->text;
          text.remove_prefix(absl::string_view(kPrefix[kSubAxis]).size());
          text.remove_suffix(1);
          absl::StrAppend(&body, ":", text);
        }
      }
      break;
    }
    case kDimension: {
      std::string axes = ReadShardyList(in, kAxisRef);
      bool closed = in.Byte() != 0;
      bool has_priority = false;
      uint64_t priority = in.VarintFlag(&has_priority);
      body = absl::StrCat("{", axes, closed ? "" : axes.empty() ? "?" : ", ?", "}");
      if (has_priority) absl::StrAppend(&body, "p", priority);
      break;
    }
    case kSharding:
    case kShardingUnreduced:
    case kShardingReduction: {
      uint64_t index = in.Varint();
      absl::StatusOr<const SourceAttr*> mesh = in.ok() ? Attribute(index) : in.status();
      if (!mesh.ok()) {
        in.Adopt(mesh.status());
        return nullptr;
      }
      if ((*mesh)->kind == AttrKind::kString) {
        body = absl::StrCat("<@", (*mesh)->text);
      } else if ((*mesh)->kind == AttrKind::kShardy && attributes_[index].code == kMesh) {
        body = absl::StrCat("<", (*mesh)->text.substr(5));
      } else {
        in.Fail("sharding refers to no mesh");
        return nullptr;
      }
      absl::StrAppend(&body, ", [", ReadShardyList(in, kDimension), "]");
      std::string replicated = ReadShardyList(in, kAxisRef);
      if (!replicated.empty()) absl::StrAppend(&body, ", replicated={", replicated, "}");
      if (code != kSharding) {
        std::string unreduced = ReadShardyList(in, kAxisRef);
        int64_t reduction = code == kShardingReduction ? in.SignedVarint() : 0;
        if (reduction < 0 || reduction > 2) in.Fail(absl::StrCat("unknown sdy reduction ", reduction));
        const char* word = reduction == 1 ? "max" : reduction == 2 ? "min" : "";
        if (!unreduced.empty()) absl::StrAppend(&body, ", unreduced=", word, "{", unreduced, "}");
      }
      absl::StrAppend(&body, ">");
      break;
    }
    case kPerValue:
    case kPerValueUnreduced:
      body = absl::StrCat("<[", ReadShardyList(in, kSharding), "]>");
      break;
    case kDimMapping:
      for (int64_t f : ReadI64Vector(in)) {
        if (f < 0) in.Fail(absl::StrCat("sharding rule factor ", f));
        if (in.ok()) absl::StrAppend(&body, FactorName(f));
      }
      break;
    case kTensorMapping:
      body = absl::StrCat("[", ReadShardyList(in, kDimMapping), "]");
      break;
    case kRule:
      return DecodeShardingRule(in);
    case kAxisList:
      body = absl::StrCat("{", ReadShardyList(in, kAxisRef), "}");
      break;
    case kAxisLists:
      body = absl::StrCat("[", ReadShardyList(in, kAxisList), "]");
      break;
    case kAllToAll: {
      std::string axes = ReadShardyList(in, kAxisRef);
      int64_t source = in.SignedVarint();
      body = absl::StrCat("{", axes, "}: ", source, "->", in.SignedVarint());
      break;
    }
    case kAllToAllList:
      body = absl::StrCat("[", ReadShardyList(in, kAllToAll), "]");
      break;
  }
  return KeepShardyText(in, absl::StrCat(kPrefix[code], body, HasTail(code) ? ">" : ""));
}

}  // namespace backplane::stablehlo
