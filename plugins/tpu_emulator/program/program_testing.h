// For tests of this room: programs from text, prepared and run.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_TESTING_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/ir/module.h"
#include "core/types/literal.h"
#include "plugins/tpu_emulator/program/prepare.h"

namespace backplane::tpu {

// A verified module whose entry has the machine's layouts, as a plugin hands it to PrepareProgram. Where the text gives
// layouts in entry_computation_layout, those stay.
std::unique_ptr<Module> ProgramFromText(absl::string_view hlo);

// Gives the entry the machine's layouts, where it has none.
void SetDefaultEntryLayouts(Module* module);

// Both results verified; a failed expectation and an empty program otherwise.
PreparedProgram Prepared(absl::string_view hlo, absl::string_view chip = "v5e", const PrepareOptions& options = {});

std::vector<Literal> RandomArguments(const Module& module, uint32_t seed, double low = -3, double high = 3);

// "kLoop: 2 add, multiply" of every fusion and the opcode of every other instruction that is a kernel, in the entry's
// order and then that of the bodies it runs; "; " between.
std::string KernelsText(const Module& kernels);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_TESTING_H_
