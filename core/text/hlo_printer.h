// Prints modules, computations and instructions as HLO text, in XLA's spelling. The ToString() methods of the IR print
// with default options.
//
// Information that XLA's text cannot express (partitioner choices, memory kinds of parameters and results) is printed
// as frontend attributes of the module whose names start with "backplane."; the parser reads it back from there.
#ifndef BACKPLANE_CORE_TEXT_HLO_PRINTER_H_
#define BACKPLANE_CORE_TEXT_HLO_PRINTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/module.h"

namespace backplane {

struct HloPrintOptions {
  bool metadata = true;
  bool backend_config = true;
  bool layouts = true;
  bool frontend_attributes = true;
  bool operand_shapes = false;         // add(f32[2] %a, f32[2] %b)
  bool percent = true;                 // %add, and not add
  bool signatures = true;              // %f (a: f32[]) -> f32[] {, and not %f {
  bool operand_indices = true;         // /*index=5*/ before every fifth operand
  bool annotations = true;             // fields without effect: flags of the header, stack frames, origins
  bool short_async = true;             // foo-start(..) instead of async-start(..), calls=%wrapped, if it is equivalent
  int64_t constant_limit = INT64_MAX;  // constants with more elements print as {...}
};

// The options for unoptimized programs, as XLA prints them: names without %, no signatures, no metadata.
HloPrintOptions MakeShortPrintOptions();

// Prints the instruction in one line, without ROOT.
std::string PrintInstruction(const Instruction& instruction, const HloPrintOptions& options = {});
std::string PrintComputation(const Computation& computation, const HloPrintOptions& options = {});
std::string PrintModule(const Module& module, const HloPrintOptions& options = {});

// Returns all computations in the order of the text: callees before callers, otherwise the order of the module.
std::vector<const Computation*> SortCalleesFirst(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_PRINTER_H_
