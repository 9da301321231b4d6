// Findings: each kind of misuse once for each place it comes from, with the stacks that tell how it came about.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sdk/layers/validate/arguments.h"
#include "sdk/layers/validate/stacks.h"

namespace backplane::layers {

struct Finding {
  std::string kind;                                      // "use-after-destroy"; docs/layers.md has the list
  Fn fn = Fn::kCount;                                    // the call that did it; kCount for what is found at the end
  std::string message;                                   // one sentence
  uint32_t stack = 0;                                    // of that call
  std::vector<std::pair<std::string, uint32_t>> others;  // "created by PJRT_Client_Compile", its stack
  std::string key;  // what of the message tells findings apart: the type, the field
  uint64_t count = 1;
};

class Report {
 public:
  // `out` gets each new finding as text at once; not owned, null for none. `json` is written whole by Finish; empty for
  // none.
  Report(FILE* out, std::string json) : out_(out), json_(std::move(json)) {}

  // Thread-safe.
  void Add(Finding finding, const Stacks& stacks);
  // How many different findings there are.
  size_t size() const;
  // How often this kind was found.
  uint64_t CountOf(absl::string_view kind) const;
  // A line with the number of findings, to `out` if there are any or `always`; and the JSON.
  void Finish(const Stacks& stacks, bool always);

 private:
  using Key = std::tuple<std::string, size_t, std::string, uint32_t>;
  static std::string Text(const Finding& f, const Stacks& stacks);
  FILE* const out_;
  const std::string json_;
  mutable std::mutex mutex_;
  std::map<Key, size_t> seen_;
  std::vector<Finding> findings_;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_REPORT_H_
