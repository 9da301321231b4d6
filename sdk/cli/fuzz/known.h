// Differences of a plugin that are explained in writing (docs/known_differences.md), as a list the tool can read.
//
// A line is `id | plugin | operation | types | when | why`, lines that begin with # are comments:
//
//   id         short name, unique; the heading in docs/known_differences.md
//   plugin     part of the plugin's path
//   operation  HLO name, with (x,x) behind it: only where two of its operands (of a scatter, two of
//              the arrays that it changes) are one value; `*` any
//   types      element types of its result or operands, with spaces between; `*` any
//   when       what the first differing element or the failure looks like: nan, inf, zero-sign, subnormal, crash,
//              timeout, refused, values; what the program reads: subnormal-input; what it asks for: empty-result, an
//              array without elements in another order of dimensions, or narrow-chain (explain.h); or flushed: what was
//              found is what comes out when subnormal operands are read and subnormal results are written as zero;
//              whole-window: or when windows of a scatter that lie partly outside are left out (both: explain.h); or
//              the name of a rewrite (explain_rewrites.cc): when that is done to the program. Several with spaces
//              between mean any of them;
//              `*` any. A part in double quotes must stand in the description of the failure as well
//   why        one line
//
// A difference is known when, after shrinking, the smallest program that shows it contains the operation on the type.
// What is computed (flushed, whole-window, rewrites) is known without shrinking, for then every number is accounted
// for, and so is what a quoted part describes.
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

// InvalidArgument names the line.
absl::StatusOr<std::vector<KnownDifference>> ParseKnownDifferences(absl::string_view text);

// The first that fits, or null. `signs`: what the difference looks like, in the words of `when`; `what`: in words.
const KnownDifference* FindKnown(const std::vector<KnownDifference>& known, absl::string_view plugin,
                                 const Module& smallest, const std::vector<std::string>& signs, absl::string_view what);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_KNOWN_H_
