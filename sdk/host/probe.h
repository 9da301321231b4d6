// Queries a plugin in a child process, so that a crash, a hang or an exit of the plugin does not affect this process.
//
// The child is a small program, backplane-probe. It reports each stage at once, so that results before a crash are not
// lost.
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
  bool create_client = true;  // false: stops after the attributes
  std::vector<NamedValue> create_options;
  // The command that runs the child; the path of the library is appended. Empty: backplane-probe, from the variable
  // BACKPLANE_PROBE, from the folder of this program, or from ../libexec/backplane relative to that folder.
  std::vector<std::string> helper;
};

struct ProbeResult {
  // OK if every stage succeeded. Otherwise one sentence with the error of the plugin, the signal that ended it, or the
  // stage in which it hung. The code is DEADLINE_EXCEEDED for a hang, ABORTED for a crash or an exit, else that of the
  // plugin.
  absl::Status status;
  std::string stage;   // the last stage that began: "open", "initialize", "attributes", "client", "devices", "done"
  Json facts;          // the results, an object; probe_report.h lists its members
  std::string output;  // the end of what the plugin printed, at most 4096 bytes
  absl::Duration duration = absl::ZeroDuration();
};

// Returns advice for a plugin that hung, if there is any for this vendor; otherwise empty.
std::string ExplainHang(const std::string& library);

// Returns an error only if the child could not be started.
absl::StatusOr<ProbeResult> Probe(const std::string& library, const ProbeOptions& options = {});

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_PROBE_H_
