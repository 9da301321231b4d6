// HLO text of attributes, one rule per kind of value. The keys are those of core/ops/attributes.def. Dimension numbers
// of dot, gather, scatter and ragged-dot have several keys (lhs_contracting_dims=, offset_dims=, ...).
#ifndef BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_
#define BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_

#include <string>

#include "core/ops/op_info.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

// Appends `key=value`, or several separated by ", " for a value with several keys. Omits empty ones.
void AppendAttribute(AttrId id, const AttrValue& value, std::string* out);

// Parses the value of `key` into `attrs` if it is an attribute of the operation, else returns false. The lexer is
// behind the '='.
absl::StatusOr<bool> ParseAttribute(HloLexer& lexer, absl::string_view key, const OpInfo& info, Attributes* attrs);

// Formats shared with the module header and other text formats.
std::string FormatQuoted(absl::string_view s);  // "..." with C escapes
// Prints a value verbatim if it is one balanced {...}, else quoted: for backend_config and frontend attributes.
std::string FormatRawOrQuoted(const std::string& s);
absl::StatusOr<std::string> ParseRawOrQuoted(HloLexer& lexer);
std::string FormatFrontendAttributes(const StringMap& map);  // {a="1",b={...}}
absl::StatusOr<StringMap> ParseFrontendAttributes(HloLexer& lexer);
std::string FormatWindow(const Window& window);  // {size=3x3 pad=1_1x1_1}
absl::StatusOr<Window> ParseWindow(HloLexer& lexer);
std::string FormatConvolutionDimensions(const ConvolutionDimensions& dims);  // b01f_01io->b01f
absl::StatusOr<ConvolutionDimensions> ParseConvolutionDimensions(HloLexer& lexer);
std::string FormatReplicaGroups(const ReplicaGroups& groups);  // {{0,1},{2,3}} or [2,2]<=[4]
absl::StatusOr<ReplicaGroups> ParseReplicaGroups(HloLexer& lexer);
std::string FormatResultAccuracy(const ResultAccuracy& accuracy);
absl::StatusOr<ResultAccuracy> ParseResultAccuracy(HloLexer& lexer);
absl::StatusOr<DotAlgorithm> ParseDotAlgorithm(absl::string_view name);
std::string FormatDotAlgorithm(const DotAlgorithm& algorithm);
// The names of algorithms do not tell which f8 types are meant: takes those of the operands.
void ResolveF8Types(PrimitiveType lhs, PrimitiveType rhs, DotAlgorithm* algorithm);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_
