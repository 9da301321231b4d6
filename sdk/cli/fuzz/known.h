// The file of known differences, which docs/known_differences.md explains.
//
// A line is `id | plugin | operation | types | when | why`; lines that begin with # are comments:
//
//   id         short name, unique; the heading in docs/known_differences.md
//   plugin     a part of the plugin's path
//   operation  HLO name; (x,x) after it means that two of its operands are the same value (for a scatter, two of the
//              arrays that it changes); `*` any
//   types      element types of its result or operands, separated by spaces; `*` any
//   when       properties of the first differing element or of the failure, separated by spaces; one of them must
//              apply; `*` any. They are:
//                nan, inf, zero-sign, subnormal, crash, timeout, refused, values
//                subnormal-input  the program reads subnormal numbers
//                empty-result     the program requests an array without elements in another order of dimensions
//                narrow-chain     see ChainsNarrowFloats in explain.h
//                flushed          the result is that of a processor that reads and writes subnormal numbers as zero
//                NAME             the result is that of the program after this rewrite (explain_rewrites.cc)
//              A text in double quotes must also occur in the description of the failure
//   why        one line
//
// A difference is known if the shrunk program contains the operation on the type. Explanations that are computed
// (flushed, rewrites), and those with quoted text, apply without shrinking.
#ifndef BACKPLANE_SDK_CLI_FUZZ_KNOWN_H_
#define BACKPLANE_SDK_CLI_FUZZ_KNOWN_H_

#include <string>
#include <vector>

#include "core/ir/module.h"

namespace backplane::cli::fuzz {

struct KnownDifference {
  std::string id, plugin, operation, message, why;
  bool same_operands = false;
  std::vector<std::string> types, when;
};

// Returns InvalidArgument with the invalid line.
absl::StatusOr<std::vector<KnownDifference>> ParseKnownDifferences(absl::string_view text);

// Returns the first entry that applies, or null. `signs`: the properties of the difference in the terms of `when`;
// `what`: its description.
const KnownDifference* FindKnown(const std::vector<KnownDifference>& known, absl::string_view plugin,
                                 const Module& smallest, const std::vector<std::string>& signs, absl::string_view what);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_KNOWN_H_
