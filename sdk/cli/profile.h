// Profiles a compiled program: how long each operation of the optimized program takes, how much work that is, and how
// close it comes to what the plugin reaches elsewhere. Used by `backplane run --profile`. profile_page.h
// makes a page of it.
#ifndef BACKPLANE_SDK_CLI_PROFILE_H_
#define BACKPLANE_SDK_CLI_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/cli/session.h"
#include "sdk/cli/terminal.h"
#include "sdk/host/profiler.h"

namespace backplane::cli {

// One operation of the optimized program, with its times summed over all runs and devices.
struct ProfiledOperation {
  std::string name, opcode;              // the opcode is empty if the optimized program has no such instruction
  std::string source;                    // the operation of the user's program and its line, as far as known
  int64_t count = 0;                     // events
  double seconds = 0;                    // of all events
  double flops = 0, bytes_accessed = 0;  // of one event, by the definitions of the operations; 0 if unknown
  std::string kernel;                    // what computes it, from the compile log; empty if the plugin keeps none
  std::vector<std::string> refusals;     // faster kernels, each with the reason why it was not used
};

// What the plugin reaches with one large operation of each kind.
struct PluginRates {
  double flops_per_second = 0, bytes_per_second = 0;
  std::string flops_program, bytes_program;  // such as "dot f32[1024,1024]"
};

struct Profile {
  std::string plugin, program;  // names
  int64_t runs = 0;
  double seconds = 0;  // of all runs, by the host's clock
  PluginRates rates;
  std::vector<ProfiledOperation> operations;  // the longest first
  host::DeviceTrace trace;
};

// Runs a dot and an addition of growing sizes until one run takes at least 10 ms, or the arrays become large.
absl::StatusOr<PluginRates> MeasureRates(const Session& session);

// Runs the program twice without recording, then `runs` times with the plugin's profiler. Returns UNIMPLEMENTED if the
// plugin has none.
absl::StatusOr<Profile> ProfileProgram(const Session& session, const host::LoadedExecutable& executable,
                                       const std::vector<host::Buffer>& arguments, int64_t runs);

// Returns the time that the operation would take at the plugin's rates, as a fraction of its time. More than 1 is
// possible: caches are faster than memory. 0 if the work or the rates are unknown.
double FractionOfRates(const ProfiledOperation& operation, const PluginRates& rates);

// Sets `kernel` and `refusals` of each operation that a compile log names: "NAME: KERNEL", and below it the refusals,
// indented.
void AddKernels(absl::string_view compile_log, std::vector<ProfiledOperation>* operations);

std::string FormatProfile(const Profile& profile, const Terminal& terminal);
host::Json ProfileJson(const Profile& profile);
// Returns the trace in the JSON format of Chrome, which Perfetto reads as well.
std::string PrintChromeTrace(const host::DeviceTrace& trace);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_PROFILE_H_
