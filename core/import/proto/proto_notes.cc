// What the IR keeps as text and protos have fields for: origins, statistics, more of metadata, stack frame tables.
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/proto/proto_values.h"
#include "core/text/attribute_text.h"
#include "core/text/hlo_lexer.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr char kSynthetic[] = "{[synthetic_call]}";
constexpr int kMaxDepth = 64;

// {"name" {1,0}}, or a tuple of such in parentheses.
absl::Status OriginToProto(HloLexer& lexer, Ints* index, proto::OriginalValueProto* out) {
  if (static_cast<int>(index->size()) > kMaxDepth) return lexer.Error("an origin nested too deep");
  if (lexer.Take("(")) {
    if (lexer.Take(")")) return absl::OkStatus();
    index->push_back(0);
    do {
      RETURN_IF_ERROR(OriginToProto(lexer, index, out));
      ++index->back();
    } while (lexer.Take(","));
    index->pop_back();
    return lexer.Expect(")", "of an origin");
  }
  RETURN_IF_ERROR(lexer.Expect("{", "of an origin"));
  auto* leaf = out->add_leaves();
  SetRepeated(*index, leaf->mutable_shape_index());
  if (lexer.Peek() == '"') {
    ASSIGN_OR_RETURN(std::string name, lexer.String());
    leaf->mutable_array()->set_instruction_name(name);
    if (lexer.Peek() == '{') {
      ASSIGN_OR_RETURN(Ints inside, lexer.IntList());
      SetRepeated(inside, leaf->mutable_array()->mutable_shape_index());
    }
  }
  return lexer.Expect("}", "of an origin");
}

using Leaves = std::map<Ints, const proto::OriginalValueProto::Leaf*>;

void AppendOrigin(const Shape& shape, const Leaves& leaves, Ints* index, std::string* out) {
  if (shape.IsTuple()) {
    *out += '(';
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      if (i > 0) *out += ", ";
      index->push_back(i);
      AppendOrigin(shape.tuple_shapes(i), leaves, index, out);
      index->pop_back();
    }
    *out += ')';
    return;
  }
  *out += '{';
  auto it = leaves.find(*index);
  if (it != leaves.end() && it->second->has_array()) {
    const auto& array = it->second->array();
    *out += FormatQuoted(array.instruction_name());
    if (array.shape_index_size() > 0) absl::StrAppend(out, " {", absl::StrJoin(array.shape_index(), ","), "}");
  }
  *out += '}';
}

std::string NumberText(double v) { return ElementToString(Literal::Scalar(PrimitiveType::kF64, v), 0); }

absl::Status StatisticsToProto(HloLexer& lexer, proto::StatisticsProto* out) {
  RETURN_IF_ERROR(lexer.Expect("{", "of statistics"));
  if (lexer.Take("}")) return absl::OkStatus();
  do {
    const std::string name(lexer.Name());
    RETURN_IF_ERROR(lexer.Expect("=", "of a statistic"));
    Literal value(Shape::Scalar(PrimitiveType::kF64));
    RETURN_IF_ERROR(ParseElement(lexer.Number(), &value, 0));
    if (name == "visualizing_index") {
      out->set_visualized(static_cast<int64_t>(value.data<double>()[0]));
      continue;
    }
    auto* s = out->add_statistics();
    s->set_name(name);
    s->set_value(value.data<double>()[0]);
  } while (lexer.Take(","));
  return lexer.Expect("}", "of statistics");
}

absl::Status ReplicationToProto(HloLexer& lexer, proto::ParameterReplicationProto* out) {
  RETURN_IF_ERROR(lexer.Expect("{", "of a replication"));
  if (lexer.Take("}")) return absl::OkStatus();
  do {
    ASSIGN_OR_RETURN(bool v, lexer.Bool());
    out->add_replicated_at_leaf(v);
  } while (lexer.Take(","));
  return lexer.Expect("}", "of a replication");
}

// The fields of metadata that the IR keeps as text: key=value with blanks between.
void MetadataTextToProto(const std::string& text, proto::OpMetadataProto* out) {
  HloLexer lexer(text);
  std::string rest;
  while (!lexer.AtEnd()) {
    const size_t begin = lexer.position();
    const absl::string_view key = lexer.Name();
    bool good = !key.empty() && lexer.Take("=");
    bool known = false;
    if (good && lexer.Peek() == '"') {
      absl::StatusOr<std::string> value = lexer.String();
      good = value.ok();
      known = good && (key == "deduplicated_name" || key == "scheduling_name");
      if (known) (key == "deduplicated_name" ? out->set_deduplicated_name(*value) : out->set_scheduling_name(*value));
    } else if (good && lexer.Peek() == '{') {
      const size_t at = lexer.position();
      absl::StatusOr<Ints> values = key == "profile_type" ? lexer.IntList() : absl::InvalidArgumentError("");
      known = values.ok() &&
              std::all_of(values->begin(), values->end(), [](int64_t v) { return v >= INT32_MIN && v <= INT32_MAX; });
      for (int64_t v : known ? *values : Ints()) out->add_profile_type(static_cast<int32_t>(v));
      if (!known) {
        lexer.set_position(at);
        good = lexer.BalancedBraces().ok();
      }
    } else if (good) {
      const size_t at = lexer.position();
      const bool wanted = key == "source_end_line" || key == "source_column" || key == "source_end_column";
      absl::StatusOr<int64_t> value = wanted ? lexer.Int() : absl::InvalidArgumentError("");
      known = value.ok() && *value >= 0 && *value <= INT32_MAX;
      if (known) {
        const int32_t v = static_cast<int32_t>(*value);
        key == "source_end_line" ? out->set_source_end_line(v)
        : key == "source_column" ? out->set_source_column(v)
                                 : out->set_source_end_column(v);
      } else {
        lexer.set_position(at);
        good = !lexer.Run("_-.").empty();
      }
    }
    if (!good) return out->set_more(text);  // as it was
    if (!known) {
      const absl::string_view field = lexer.text().substr(begin, lexer.text().size() - lexer.remaining() - begin);
      absl::StrAppend(&rest, rest.empty() ? "" : " ", field);
    }
  }
  if (!rest.empty()) out->set_more(rest);
}

}  // namespace

void MetadataToProto(const OpMetadata& m, bool tables, proto::OpMetadataProto* out) {
  out->set_op_type(m.op_type);
  out->set_op_name(m.op_name);
  if (tables && m.stack_frame_id != 0) {
    out->set_stack_frame_id(m.stack_frame_id);
  } else {
    out->set_source_file(m.source_file);
    out->set_source_line(m.source_line);
  }
  if (!m.more.empty()) MetadataTextToProto(m.more, out);
}

OpMetadata MetadataFromProto(const proto::OpMetadataProto& in) {
  OpMetadata m;
  m.op_type = in.op_type();
  m.op_name = in.op_name();
  m.source_file = in.source_file();
  m.source_line = in.source_line();
  if (m.source_file.empty()) m.stack_frame_id = std::max(in.stack_frame_id(), 0);
  auto add = [&](const std::string& field) { absl::StrAppend(&m.more, m.more.empty() ? "" : " ", field); };
  if (in.source_end_line() != 0) add(absl::StrCat("source_end_line=", in.source_end_line()));
  if (in.source_column() != 0) add(absl::StrCat("source_column=", in.source_column()));
  if (in.source_end_column() != 0) add(absl::StrCat("source_end_column=", in.source_end_column()));
  if (in.profile_type_size() > 0) add(absl::StrCat("profile_type={", absl::StrJoin(in.profile_type(), ","), "}"));
  if (!in.deduplicated_name().empty()) add(absl::StrCat("deduplicated_name=", FormatQuoted(in.deduplicated_name())));
  if (!in.scheduling_name().empty()) add(absl::StrCat("scheduling_name=", FormatQuoted(in.scheduling_name())));
  if (!in.more().empty()) add(in.more());
  return m;
}

void AnnotationsToProto(const StringMap& annotations, proto::HloInstructionProto* out) {
  for (const auto& [key, text] : annotations) {
    HloLexer lexer(text);
    if (key == "origin") {
      if (text == kSynthetic) {
        out->mutable_original_value()->set_is_synthetic_call(true);
        continue;
      }
      proto::OriginalValueProto made;
      Ints index;
      if (lexer.Take("{") && OriginToProto(lexer, &index, &made).ok()) *out->mutable_original_value() = made;
    } else if (key == "statistics") {
      proto::StatisticsProto made;
      if (StatisticsToProto(lexer, &made).ok()) *out->mutable_statistics() = made;
    } else if (key == "parameter_replication") {
      proto::ParameterReplicationProto made;
      if (ReplicationToProto(lexer, &made).ok()) *out->mutable_parameter_replication() = made;
    }
  }
}

absl::StatusOr<StringMap> AnnotationsFromProto(const proto::HloInstructionProto& in, const Shape& shape) {
  StringMap out;
  if (in.has_original_value()) {
    if (in.original_value().is_synthetic_call()) {
      out["origin"] = kSynthetic;
    } else {
      Leaves leaves;
      for (const auto& leaf : in.original_value().leaves()) leaves[ToInts(leaf.shape_index())] = &leaf;
      Ints index;
      std::string text = "{";
      AppendOrigin(shape, leaves, &index, &text);
      out["origin"] = text + "}";
    }
  }
  if (in.statistics().statistics_size() > 0) {
    std::string text = absl::StrCat("{visualizing_index=", in.statistics().visualized());
    for (const auto& s : in.statistics().statistics()) {
      HloLexer name(s.name());
      if (name.Name().size() != s.name().size()) {
        return absl::InvalidArgumentError(absl::StrCat("a statistic of name '", s.name(), "'"));
      }
      absl::StrAppend(&text, ",", s.name(), "=", NumberText(s.value()));
    }
    out["statistics"] = text + "}";
  }
  if (in.parameter_replication().replicated_at_leaf_size() > 0) {
    out["parameter_replication"] =
        absl::StrCat("{",
                     absl::StrJoin(in.parameter_replication().replicated_at_leaf(), ",",
                                   [](std::string* s, bool v) { *s += v ? "true" : "false"; }),
                     "}");
  }
  return out;
}

void StackFramesToProto(const std::string& text, proto::StackFrameIndexProto* out) {
  HloLexer lexer(text);
  auto at_line = [&] { return absl::ascii_isdigit(static_cast<unsigned char>(lexer.Peek())); };
  auto names = [&](proto::RepeatedPtrField<std::string>* list) {
    while (at_line()) {
      if (!lexer.Int().ok()) return;
      absl::StatusOr<std::string> name = lexer.String();
      if (!name.ok()) return;
      *list->Add() = *name;
    }
  };
  auto fields = [&](auto&& each) {
    while (at_line()) {
      if (!lexer.Int().ok() || !lexer.Take("{")) return;
      std::map<std::string, int32_t> values;
      while (!lexer.Take("}")) {
        const std::string key(lexer.Name());
        if (!lexer.Take("=")) return;
        absl::StatusOr<int64_t> v = lexer.Int();
        if (!v.ok() || *v < INT32_MIN || *v > INT32_MAX) return;
        values[key] = static_cast<int32_t>(*v);
      }
      each(values);
    }
  };
  while (!lexer.AtEnd()) {
    if (lexer.TakeWord("FileNames")) {
      names(out->mutable_file_names());
    } else if (lexer.TakeWord("FunctionNames")) {
      names(out->mutable_function_names());
    } else if (lexer.TakeWord("FileLocations")) {
      fields([&](std::map<std::string, int32_t>& v) {
        auto* p = out->add_file_locations();
        p->set_file_name_id(v["file_name_id"]);
        p->set_function_name_id(v["function_name_id"]);
        p->set_line(v["line"]);
        p->set_end_line(v["end_line"]);
        p->set_column(v["column"]);
        p->set_end_column(v["end_column"]);
      });
    } else if (lexer.TakeWord("StackFrames")) {
      fields([&](std::map<std::string, int32_t>& v) {
        auto* p = out->add_stack_frames();
        p->set_file_location_id(v["file_location_id"]);
        p->set_parent_frame_id(v["parent_frame_id"] - 1);  // the text counts parents from 1, 1 being none
      });
    } else {
      return;
    }
  }
}

std::string StackFramesFromProto(const proto::StackFrameIndexProto& in) {
  if (in.stack_frames_size() == 0) return "";
  std::string out = "FileNames\n";
  for (int i = 0; i < in.file_names_size(); ++i)
    absl::StrAppend(&out, i + 1, " ", FormatQuoted(in.file_names(i)), "\n");
  out += "\nFunctionNames\n";
  for (int i = 0; i < in.function_names_size(); ++i) {
    absl::StrAppend(&out, i + 1, " ", FormatQuoted(in.function_names(i)), "\n");
  }
  out += "\nFileLocations\n";
  for (int i = 0; i < in.file_locations_size(); ++i) {
    const auto& l = in.file_locations(i);
    absl::StrAppend(&out, i + 1, " {file_name_id=", l.file_name_id(), " function_name_id=", l.function_name_id(),
                    " line=", l.line(), " end_line=", l.end_line(), " column=", l.column(),
                    " end_column=", l.end_column(), "}\n");
  }
  out += "\nStackFrames\n";
  for (int i = 0; i < in.stack_frames_size(); ++i) {
    const auto& f = in.stack_frames(i);
    absl::StrAppend(&out, i + 1, " {file_location_id=", f.file_location_id(),
                    " parent_frame_id=", f.parent_frame_id() + 1, "}", i + 1 < in.stack_frames_size() ? "\n" : "");
  }
  return out;
}

}  // namespace backplane
