// Findings. Each kind of misuse is reported once per call site, with the stack traces that explain it.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_

#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "sdk/layers/validate/arguments.h"
#include "sdk/layers/validate/stacks.h"

namespace backplane::layers {

struct Finding {
  std::string kind;                                      // "use-after-destroy"; docs/layers.md lists the kinds
  Fn fn = Fn::kCount;                                    // the call; kCount for findings at the end of the process
  std::string message;                                   // one sentence
  uint32_t stack = 0;                                    // of that call
  std::vector<std::pair<std::string, uint32_t>> others;  // for example "created by PJRT_Client_Compile", with its stack
  std::string key;  // the part of the message that distinguishes findings: the type, the field
  uint64_t count = 1;
};

class Report {
 public:
  // Each new finding is written to `out` at once; not owned, null for none. Finish writes `json`; empty for none.
  Report(FILE* out, std::string json) : out_(out), json_(std::move(json)) {}

  // Thread-safe.
  void Add(Finding finding, const Stacks& stacks);
  // Returns the number of different findings.
  size_t size() const;
  // Returns how often this kind was found.
  uint64_t GetCount(absl::string_view kind) const;
  // Writes a line with the number of findings to `out`, if there are any or if `always`; and the JSON file.
  void Finish(const Stacks& stacks, bool always);

 private:
  using Key = std::tuple<std::string, size_t, std::string, uint32_t>;
  static std::string Text(const Finding& f, const Stacks& stacks);
  FILE* const out_;
  const std::string json_;
  mutable Mutex mutex_;
  std::map<Key, size_t> seen_ ABSL_GUARDED_BY(mutex_);
  std::vector<Finding> findings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_
