// How large a program gets where each of its calls has a body of its own: thirty functions that call one another twice
// are a billion bodies.
#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/calls.h"

namespace backplane {
namespace {

constexpr int64_t kMaxExpanded = int64_t{1} << 19;  // instructions
constexpr int64_t kMaxGrowth = 8;                   // times what the program itself has, where that is more

}  // namespace

absl::Status CheckCallBudget(const Module& module) {
  int64_t written = 0;
  for (const auto& c : module.computations()) written += c->instruction_count();
  const int64_t budget = std::max(kMaxExpanded, kMaxGrowth * written);
  absl::flat_hash_map<const Computation*, int64_t> expanded;
  for (const Computation* c : module.PostOrder()) {
    int64_t size = c->instruction_count();
    for (const auto& i : c->instructions()) {
      for (const Computation* called : i->called()) size += expanded.at(called);  // neither is above the budget
      if (size > budget) {
        return absl::ResourceExhaustedError(
            absl::StrCat("computation ", c->name(), ": with a body for each call it would have more than ", budget,
                         " instructions, where the program has ", written, " [call_budget]"));
      }
    }
    expanded[c] = size;
  }
  return absl::OkStatus();
}

}  // namespace backplane
