// Bounds the size of a program after inlining. Thirty functions of which each calls the next one twice expand to a
// billion bodies.
#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/calls.h"

namespace backplane {
namespace {

constexpr int64_t kMaxExpanded = int64_t{1} << 19;  // instructions
constexpr int64_t kMaxGrowth = 8;                   // relative to the size of the program, if that allows more

}  // namespace

absl::Status CheckCallBudget(const Module& module) {
  int64_t written = 0;
  for (const auto& c : module.computations()) written += c->instruction_count();
  const int64_t budget = std::max(kMaxExpanded, kMaxGrowth * written);
  absl::flat_hash_map<const Computation*, int64_t> expanded;
  for (const Computation* c : module.PostOrder()) {
    int64_t size = c->instruction_count();
    for (const auto& i : c->instructions()) {
      for (const Computation* called : i->called())
        size += expanded.at(called);  // neither summand exceeds the budget, so the sum does not overflow
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
