// Reads HLO text: what PrintModule prints and what XLA's tools print, optimized or not.
//
// Every instruction is added with inference and all checks of its operation, so that a parsed module is a verified one.
// Instructions may leave out their shape where the operation infers it. Of XLA's annotations, those that carry no
// meaning for the program (scheduling marks, statistics, origins, propagation flags) are read and dropped; stack frame
// tables become source file and line. Errors: InvalidArgument with "hlo text LINE:COLUMN: ", Unimplemented for what the
// IR has no place for.
#ifndef BACKPLANE_CORE_TEXT_HLO_PARSER_H_
#define BACKPLANE_CORE_TEXT_HLO_PARSER_H_

#include <memory>

#include "core/ir/module.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

struct HloParseOptions {
  // XLA prints large constants as {...}: their values are lost. Off: an error. On: zeros, for looking at a program
  // only.
  bool elided_constants_as_zeros = false;
};

absl::StatusOr<std::unique_ptr<Module>> ParseHloModule(absl::string_view text, const HloParseOptions& options = {});

// A literal of the given shape: 1.5, {1, 2}, { {1,2}, {3,4} }, ( 1, {2} ); the whole text.
absl::StatusOr<Literal> ParseLiteral(const Shape& shape, absl::string_view text);
absl::StatusOr<Literal> ParseLiteral(HloLexer& lexer, const Shape& shape, const HloParseOptions& options);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_PARSER_H_
