// The tables FileNames, FunctionNames, FileLocations and StackFrames that recent HLO text has before its computations,
// and metadata={...}, whose stack_frame_id refers to them.
#ifndef BACKPLANE_CORE_TEXT_STACK_FRAMES_H_
#define BACKPLANE_CORE_TEXT_STACK_FRAMES_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/ir/instruction.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

class StackFrames {
 public:
  // Parses the tables at the position of the lexer, if there are any.
  static absl::StatusOr<StackFrames> Parse(HloLexer& lexer);

  // Parses {op_type="..." op_name="..." source_file="..." source_line=3 stack_frame_id=2 ...}. Fields that OpMetadata
  // does not have are kept as text.
  absl::StatusOr<OpMetadata> ParseMetadata(HloLexer& lexer) const;

  // Returns the text of the tables without leading and trailing blanks, or an empty string.
  const std::string& text() const { return text_; }
  // Fills in file and line of metadata that has a frame id only.
  void Resolve(OpMetadata* metadata) const;

 private:
  std::string text_;
  struct Location {
    int64_t file = 0, line = 0;
  };
  absl::flat_hash_map<int64_t, std::string> files_;
  absl::flat_hash_map<int64_t, Location> locations_;
  absl::flat_hash_map<int64_t, int64_t> frames_;  // frame id to location
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_STACK_FRAMES_H_
