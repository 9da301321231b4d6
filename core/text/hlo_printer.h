// Prints modules, computations and instructions as HLO text, spelled as XLA spells it. ToString() of the IR's classes
// is the printer with default options.
//
// What XLA's text has no place for (partitioner choices, memory kinds of parameters and results) stands in the module's
// frontend attributes under names that begin with "backplane."; the parser takes it from there again.
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
  bool operand_indices = true;         // /*index=5*/ in front of every fifth operand
  bool annotations = true;             // what is kept without effect: the header's flags, stack frames, origins
  bool short_async = true;             // foo-start(..), and not async-start(..), calls=%wrapped, where that says it all
  int64_t constant_limit = INT64_MAX;  // constants with more elements print as {...}
};

// As XLA prints what it has not compiled: names without %, no signatures, no metadata.
HloPrintOptions ShortHloText();

std::string PrintInstruction(const Instruction& instruction,
                             const HloPrintOptions& options = {});  // one line, without ROOT
std::string PrintComputation(const Computation& computation, const HloPrintOptions& options = {});
std::string PrintModule(const Module& module, const HloPrintOptions& options = {});

// All computations, callees before callers, else in the module's order: the order of the text.
std::vector<const Computation*> CalleesFirst(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_HLO_PRINTER_H_
