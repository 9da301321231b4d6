// HLO text of attributes, one rule for each kind of value. The keys are those of core/ops/attributes.def; dot, gather,
// scatter and ragged-dot dimensions have several keys each (lhs_contracting_dims=, offset_dims=, ...).
#ifndef BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_
#define BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_

#include <string>

#include "core/ops/op_info.h"
#include "core/text/hlo_lexer.h"

namespace backplane {

// Appends `key=value`, several with ", " between where the value has several keys, nothing where all are empty.
void AppendAttribute(AttrId id, const AttrValue& value, std::string* out);

// Reads the value of `key` (the '=' is behind us) into `attrs` if it is an attribute of the operation; false when it is
// none.
absl::StatusOr<bool> ParseAttribute(HloLexer& lexer, absl::string_view key, const OpInfo& info, Attributes* attrs);

// Pieces that the module's header and other formats share.
std::string QuotedText(absl::string_view s);  // "..." with C escapes
// The value as it is when it is one balanced {...}, else quoted: backend_config and frontend attribute values.
std::string RawOrQuotedText(const std::string& s);
absl::StatusOr<std::string> ParseRawOrQuoted(HloLexer& lexer);
std::string FrontendAttributesText(const StringMap& map);  // {a="1",b={...}}
absl::StatusOr<StringMap> ParseFrontendAttributes(HloLexer& lexer);
std::string WindowText(const Window& window);  // {size=3x3 pad=1_1x1_1}
absl::StatusOr<Window> ParseWindow(HloLexer& lexer);
std::string ConvolutionDimensionsText(const ConvolutionDimensions& dims);  // b01f_01io->b01f
absl::StatusOr<ConvolutionDimensions> ParseConvolutionDimensions(HloLexer& lexer);
std::string ReplicaGroupsText(const ReplicaGroups& groups);  // {{0,1},{2,3}} or [2,2]<=[4]
absl::StatusOr<ReplicaGroups> ParseReplicaGroups(HloLexer& lexer);
std::string ResultAccuracyText(const ResultAccuracy& accuracy);
absl::StatusOr<ResultAccuracy> ParseResultAccuracy(HloLexer& lexer);
absl::StatusOr<DotAlgorithm> DotAlgorithmFromText(absl::string_view name);
std::string DotAlgorithmText(const DotAlgorithm& algorithm);
// Names leave open which f8 types are meant: those of the operands, where they are such.
void TakeF8Types(PrimitiveType lhs, PrimitiveType rhs, DotAlgorithm* algorithm);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_ATTRIBUTE_TEXT_H_
