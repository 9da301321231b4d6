// Test support: parses programs from text, prepares them, and makes arguments.
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

// Returns a verified module whose entry has the machine's default layouts, as PrepareProgram expects. Layouts that the
// text gives in entry_computation_layout are kept.
std::unique_ptr<Module> ParseProgram(absl::string_view hlo);

// Gives the entry the machine's default layouts where it has none.
void SetDefaultEntryLayouts(Module* module);

// Parses and prepares a program, and verifies both forms. On error it fails the test and returns an empty program.
PreparedProgram PrepareFromText(absl::string_view hlo, absl::string_view chip = "v5e",
                                const PrepareOptions& options = {});

std::vector<Literal> RandomArguments(const Module& module, uint32_t seed, double low = -3, double high = 3);

// Describes each kernel, separated by "; ": "kLoop: 2 add, multiply" for a fusion, the opcode for another instruction.
// The kernels of the entry come first, then those of the bodies that it runs.
std::string DescribeKernels(const Module& kernels);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_TESTING_H_
