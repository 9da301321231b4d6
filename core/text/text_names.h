// Spellings shared by printer, parser and proto: keys of called computations, and of information stored in frontend
// attributes.
#ifndef BACKPLANE_CORE_TEXT_TEXT_NAMES_H_
#define BACKPLANE_CORE_TEXT_TEXT_NAMES_H_

#include "absl/strings/string_view.h"
#include "core/ir/instruction.h"

namespace backplane {

inline constexpr char kCompositeNameKey[] = "composite.name";
inline constexpr char kCompositeAttributesKey[] = "composite.attributes";
inline constexpr char kCompositeVersionKey[] = "composite.version";
inline constexpr char kSpmdKey[] = "backplane.use_spmd_partitioning";
inline constexpr char kShardyKey[] = "backplane.use_shardy_partitioner";
inline constexpr char kParameterMemoryKey[] = "backplane.parameter_memory_kinds";
inline constexpr char kResultMemoryKey[] = "backplane.result_memory_kinds";

// The keys of an operation's called computations: one key for a list of them, or one for each of at most two.
struct CalledStyle {
  absl::string_view keys[2];
  bool list = false;
};

inline CalledStyle GetCalledStyle(Opcode opcode, bool predicated) {
  switch (opcode) {
    case Opcode::kFusion:
    case Opcode::kAsyncStart:
      return {{"calls", ""}};
    case Opcode::kWhile:
      return {{"condition", "body"}};
    case Opcode::kSelectAndScatter:
      return {{"select", "scatter"}};
    case Opcode::kConditional:
      if (predicated) return {{"true_computation", "false_computation"}};
      return {{"branch_computations", ""}, true};
    case Opcode::kCustomCall:
      return {{"called_computations", ""}, true};
    default:
      return {{"to_apply", ""}};
  }
}

// A composite call stores name, attributes and version as frontend attributes, as XLA does. These functions convert to
// and from them. Returns InvalidArgument for a version that is not a number.
StringMap CollectFrontendAttributes(const Instruction& instruction);
absl::Status ExtractComposite(StringMap* frontend, Attributes* attrs);

// Prints the dictionary of a typed custom call: its original text if that is kept and still equivalent, else our
// spelling. NoteFfiText keeps a text that differs from our spelling.
std::string FormatFfiAttributes(const Instruction& instruction, bool as_read = true);
void NoteFfiText(const Instruction& instruction, const std::string& text, StringMap* annotations);

// Whether the instruction is a conditional on a pred with two branches.
inline bool IsPredicated(const Instruction& i) {
  return i.Is(Opcode::kConditional) && i.operand_count() > 0 &&
         i.operand(0)->shape().element_type() == PrimitiveType::kPred && i.called().size() == 2;
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_TEXT_NAMES_H_
