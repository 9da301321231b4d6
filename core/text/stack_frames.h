// The tables FileNames, FunctionNames, FileLocations and StackFrames that newer HLO text carries in front of its
// computations, and metadata={...}, whose stack_frame_id points into them.
#ifndef BACKPLANE_CORE_TEXT_STACK_FRAMES_H_
#define BACKPLANE_CORE_TEXT_STACK_FRAMES_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/ir/instruction.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

class StackFrames {
 public:
  // Reads the tables that stand at the lexer's place, if any.
  static absl::StatusOr<StackFrames> Parse(HloLexer& lexer);

  // Reads {op_type="..." op_name="..." source_file="..." source_line=3 stack_frame_id=2 ...}; fields without a place in
  // OpMetadata are kept as text.
  absl::StatusOr<OpMetadata> ParseMetadata(HloLexer& lexer) const;

  // The tables as they stood, blanks at the ends left out; empty when there were none.
  const std::string& text() const { return text_; }
  // File and line of a frame into metadata that names one and has none of its own.
  void Resolve(OpMetadata* metadata) const;

 private:
  std::string text_;
  struct Location {
    int64_t file = 0, line = 0;
  };
  absl::flat_hash_map<int64_t, std::string> files_;
  absl::flat_hash_map<int64_t, Location> locations_;
  absl::flat_hash_map<int64_t, int64_t> frames_;  // to a location
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_STACK_FRAMES_H_
