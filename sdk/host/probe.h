// Asks a plugin in a child process, so that one that crashes, hangs or ends the process does so there.
//
// The child is a small program, backplane-probe. Each stage it gets through is reported at once, so that what was
// learned before a crash is not lost.
#ifndef BACKPLANE_SDK_HOST_PROBE_H_
#define BACKPLANE_SDK_HOST_PROBE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sdk/host/json.h"
#include "sdk/host/named_value.h"

namespace backplane::host {

struct ProbeOptions {
  absl::Duration timeout = absl::Seconds(30);
  bool create_client = true;  // else stops after the attributes
  std::vector<NamedValue> create_options;
  // The command that runs the child; the path of the library is added. Empty: backplane-probe from the variable
  // BACKPLANE_PROBE, beside this program, or in ../libexec/backplane beside its folder.
  std::vector<std::string> helper;
};

struct ProbeResult {
  // OK when every stage succeeded. Otherwise one sentence: what the plugin answered, the signal it died of, the stage
  // it hung in. DEADLINE_EXCEEDED for a hang, ABORTED for a crash or an exit, else the plugin's own code.
  absl::Status status;
  std::string stage;   // the last one begun: "open", "initialize", "attributes", "client", "devices", "done"
  Json facts;          // an object: what was learned; see probe_report.h for its members
  std::string output;  // the end of what the plugin printed, at most 4096 bytes
  absl::Duration duration = absl::ZeroDuration();
};

// What is known about a vendor's ways, to be added to a sentence about a plugin that hung; empty for most.
std::string HangHint(const std::string& library);

// An error only when the child could not be started.
absl::StatusOr<ProbeResult> Probe(const std::string& library, const ProbeOptions& options = {});

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PROBE_H_
