#include "core/text/stack_frames.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/text/attribute_text.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// {a=1 b=2}
absl::StatusOr<std::map<std::string, int64_t>> ParseIntFields(HloLexer& lexer) {
  std::map<std::string, int64_t> fields;
  RETURN_IF_ERROR(lexer.Expect("{", "of a table's line"));
  while (!lexer.Take("}")) {
    const std::string key(lexer.Name());
    RETURN_IF_ERROR(lexer.Expect("=", "in a table's line"));
    ASSIGN_OR_RETURN(fields[key], lexer.Int());
  }
  return fields;
}

bool AtLine(HloLexer& lexer) { return absl::ascii_isdigit(static_cast<unsigned char>(lexer.Peek())); }

int32_t ToLine(int64_t line) { return line > 0 && line <= INT32_MAX ? static_cast<int32_t>(line) : 0; }

}  // namespace

absl::StatusOr<StackFrames> StackFrames::Parse(HloLexer& lexer) {
  StackFrames tables;
  const size_t begin = lexer.position();
  while (true) {
    if (lexer.TakeWord("FileNames")) {
      while (AtLine(lexer)) {
        ASSIGN_OR_RETURN(int64_t id, lexer.Int());
        ASSIGN_OR_RETURN(tables.files_[id], lexer.String());
      }
    } else if (lexer.TakeWord("FunctionNames")) {
      while (AtLine(lexer)) {
        RETURN_IF_ERROR(lexer.Int().status());
        RETURN_IF_ERROR(lexer.String().status());
      }
    } else if (lexer.TakeWord("FileLocations")) {
      while (AtLine(lexer)) {
        ASSIGN_OR_RETURN(int64_t id, lexer.Int());
        ASSIGN_OR_RETURN(auto fields, ParseIntFields(lexer));
        tables.locations_[id] = {fields["file_name_id"], fields["line"]};
      }
    } else if (lexer.TakeWord("StackFrames")) {
      while (AtLine(lexer)) {
        ASSIGN_OR_RETURN(int64_t id, lexer.Int());
        ASSIGN_OR_RETURN(auto fields, ParseIntFields(lexer));
        tables.frames_[id] = fields["file_location_id"];
      }
    } else {
      const absl::string_view text = lexer.text().substr(begin, lexer.position() - begin);
      tables.text_ = std::string(absl::StripTrailingAsciiWhitespace(text));
      return tables;
    }
  }
}

absl::StatusOr<OpMetadata> StackFrames::ParseMetadata(HloLexer& lexer) const {
  OpMetadata m;
  int64_t frame = 0;
  auto keep = [&](const std::string& field) { absl::StrAppend(&m.more, m.more.empty() ? "" : " ", field); };
  RETURN_IF_ERROR(lexer.Expect("{", "of metadata"));
  while (!lexer.Take("}")) {
    const size_t at = lexer.position();
    const absl::string_view key = lexer.Name();
    if (key.empty()) return lexer.Error("expected a field of metadata");
    RETURN_IF_ERROR(lexer.Expect("=", "in metadata"));
    if (lexer.Peek() == '"') {
      ASSIGN_OR_RETURN(std::string value, lexer.String());
      if (key == "op_type")
        m.op_type = std::move(value);
      else if (key == "op_name")
        m.op_name = std::move(value);
      else if (key == "source_file")
        m.source_file = std::move(value);
      else
        keep(absl::StrCat(key, "=", FormatQuoted(value)));
    } else if (lexer.Peek() == '{') {
      ASSIGN_OR_RETURN(absl::string_view raw, lexer.BalancedBraces());
      keep(absl::StrCat(key, "=", raw));
    } else if (key == "source_line" || key == "stack_frame_id") {
      ASSIGN_OR_RETURN(int64_t value, lexer.Int());
      if (key == "source_line")
        m.source_line = ToLine(value);
      else
        frame = value;
    } else {
      const absl::string_view word = lexer.Run("_-.");
      if (word.empty()) return lexer.ErrorAt(at, absl::StrCat("no value for ", key));
      keep(absl::StrCat(key, "=", word));
    }
    lexer.Take(",");
  }
  if (m.source_file.empty()) {
    m.stack_frame_id = ToLine(frame);
    Resolve(&m);
  }
  return m;
}

void StackFrames::Resolve(OpMetadata* m) const {
  auto location = frames_.find(m->stack_frame_id);
  if (m->stack_frame_id == 0 || location == frames_.end()) return;
  auto found = locations_.find(location->second);
  if (found == locations_.end()) return;
  auto file = files_.find(found->second.file);
  if (file == files_.end()) return;
  m->source_file = CutMetadataText(file->second);
  m->source_line = ToLine(found->second.line);
}

}  // namespace backplane
