#include "core/text/stack_frames.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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
      return tables;
    }
  }
}

absl::StatusOr<OpMetadata> StackFrames::ParseMetadata(HloLexer& lexer) const {
  OpMetadata m;
  int64_t frame = 0;
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
    } else if (lexer.Peek() == '{') {
      RETURN_IF_ERROR(lexer.BalancedBraces().status());
    } else if (key == "source_line" || key == "stack_frame_id") {
      ASSIGN_OR_RETURN(int64_t value, lexer.Int());
      if (key == "source_line")
        m.source_line = ToLine(value);
      else
        frame = value;
    } else if (lexer.Run("_-.").empty()) {
      return lexer.ErrorAt(at, absl::StrCat("no value for ", key));
    }
    lexer.Take(",");
  }
  if (frame == 0 || !m.source_file.empty()) return m;
  auto location = frames_.find(frame);
  if (location == frames_.end()) return m;
  auto found = locations_.find(location->second);
  if (found == locations_.end()) return m;
  auto file = files_.find(found->second.file);
  if (file == files_.end()) return m;
  m.source_file = file->second;
  m.source_line = ToLine(found->second.line);
  return m;
}

}  // namespace backplane
