// Bounds the size of a program after inlining. Thirty functions of which each calls the next one twice expand to a
// billion bodies, and so does one body with a text of a megabyte that has a thousand callers.
#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/ir/expansion_budget.h"
#include "core/passes/calls.h"

namespace backplane {
namespace {

constexpr int64_t kMaxExpanded = int64_t{1} << 19;       // instructions
constexpr int64_t kMaxExpandedBytes = int64_t{1} << 30;  // of their types, attributes and names
constexpr int64_t kMaxGrowth = 8;                        // relative to the size of the program, if that allows more

struct ExpandedSize {
  int64_t instructions = 0, bytes = 0;
};

}  // namespace

absl::Status CheckCallBudget(const Module& module) {
  ExpandedSize written;
  absl::flat_hash_map<const Computation*, ExpandedSize> expanded;
  for (const auto& c : module.computations()) {
    ExpandedSize& own = expanded[c.get()];
    own.instructions = c->instruction_count();
    for (const auto& i : c->instructions()) own.bytes += MeasureBytes(*i);
    written.instructions += own.instructions;
    written.bytes += own.bytes;
  }
  const ExpandedSize budget{std::max(kMaxExpanded, kMaxGrowth * written.instructions),
                            std::max(kMaxExpandedBytes, kMaxGrowth * written.bytes)};
  for (const Computation* c : module.PostOrder()) {
    ExpandedSize size = expanded.at(c);
    for (const auto& i : c->instructions()) {
      for (const Computation* called : i->called()) {
        // No summand exceeds the budget, so the sums do not overflow.
        size.instructions += expanded.at(called).instructions;
        size.bytes += expanded.at(called).bytes;
        const bool many = size.instructions > budget.instructions;
        if (!many && size.bytes <= budget.bytes) continue;
        return absl::ResourceExhaustedError(absl::StrCat(
            "computation ", c->name(), ": with a body for each call it would have more than ",
            many ? budget.instructions : budget.bytes, many ? " instructions" : " bytes of types, attributes and names",
            ", where the program has ", many ? written.instructions : written.bytes, " [call_budget]"));
      }
    }
    expanded[c] = size;
  }
  return absl::OkStatus();
}

}  // namespace backplane
