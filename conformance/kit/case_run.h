// Runs cases on any plugin through the C ABI.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_RUN_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_RUN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "conformance/kit/case_file.h"
#include "conformance/kit/case_profile.h"
#include "sdk/host/client.h"

namespace backplane::conformance {

// A plugin with one open client. Thread-safe.
class CaseRunner {
 public:
  // `options` are passed to the client unchanged.
  static absl::StatusOr<std::unique_ptr<CaseRunner>> Create(const std::string& plugin_path,
                                                            const std::vector<host::NamedValue>& options);
  // Runs a case. With `labels`, the message of a required refusal must contain the label of the violated rule.
  Outcome Run(const Case& c, bool labels) const;
  // Only compiles; passes if the program compiles.
  Outcome Compile(const Case& c) const;

 private:
  CaseRunner(host::Client client, size_t devices) : client_(std::move(client)), devices_(devices) {}
  absl::StatusOr<host::LoadedExecutable> Load(const Case& c, Outcome* outcome) const;
  absl::StatusOr<std::vector<std::vector<Array>>> Execute(const host::LoadedExecutable& program, const Case& c) const;

  const host::Client client_;
  const size_t devices_;
  std::optional<int64_t> feed_channel_;  // of infeed and outfeed, from the plugin's attribute; nullopt if not offered
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_RUN_H_
