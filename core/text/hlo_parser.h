// Parses HLO text: the output of PrintModule and of XLA's tools, optimized or not.
//
// Every instruction is added with inference and all checks of its operation, so a parsed module is a verified one.
// Instructions may omit their shape if it can be inferred. Annotations of XLA that do not affect the meaning of the
// program (scheduling, statistics, origins, propagation flags, stack frame tables) are kept as text in the annotations
// of the module and its instructions. Stack frame ids also become source files and lines. Returns InvalidArgument with
// "hlo text LINE:COLUMN: ", and Unimplemented for what the IR cannot represent.
#ifndef BACKPLANE_CORE_TEXT_HLO_PARSER_H_
#define BACKPLANE_CORE_TEXT_HLO_PARSER_H_

#include <memory>

#include "core/ir/module.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

struct HloParseOptions {
  // XLA prints large constants as {...}, without the values. If false, such a constant is an error. If true, it is
  // filled with zeros, which suffices for inspecting a program.
  bool elided_constants_as_zeros = false;
};

absl::StatusOr<std::unique_ptr<Module>> ParseHloModule(absl::string_view text, const HloParseOptions& options = {});

// Parses a literal of the given shape: 1.5, {1, 2}, { {1,2}, {3,4} }, ( 1, {2} ). Consumes the whole text.
absl::StatusOr<Literal> ParseLiteral(const Shape& shape, absl::string_view text);
absl::StatusOr<Literal> ParseLiteral(HloLexer& lexer, const Shape& shape, const HloParseOptions& options);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_PARSER_H_
