// All suites, in the order of the reports.
#ifndef BACKPLANE_CONFORMANCE_SUITES_SUITES_H_
#define BACKPLANE_CONFORMANCE_SUITES_SUITES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "conformance/kit/check.h"

namespace backplane::conformance {

absl::Span<const Check> AbiSuite();
absl::Span<const Check> LifecycleSuite();
absl::Span<const Check> DevicesSuite();
absl::Span<const Check> MemoriesSuite();
absl::Span<const Check> BuffersSuite();
absl::Span<const Check> BufferCopiesSuite();
absl::Span<const Check> EventsSuite();
absl::Span<const Check> CompileSuite();
absl::Span<const Check> ExecutableSuite();
absl::Span<const Check> ExecuteSuite();
absl::Span<const Check> ConcurrencySuite();
absl::Span<const Check> TransfersSuite();
absl::Span<const Check> SerializationSuite();
absl::Span<const Check> TopologySuite();
absl::Span<const Check> ExtensionsSuite();
absl::Span<const Check> ErrorsSuite();
absl::Span<const Check> LimitsSuite();
absl::Span<const Check> ExhaustionSuite();
absl::Span<const Check> RobustSuite();
absl::Span<const Check> LeaksSuite();

// Checks that run in several processes at once (kit/processes.h).
absl::Span<const Check> ProcessesSuite();

// The part of serialization.across_processes that runs in the other process.
const Check& SerializationReceiver();

// Returns all tables above in order, except that of several processes.
std::vector<const Check*> CollectChecks();

// ---- Operations: one check for each case of the case files, with the id "operations.<file>/<case>"
struct OperationCase {
  std::string id, meaning;
};
// Returns the cases under `data`/cases/ops; empty if there is no such folder. Errors name the file and line.
absl::StatusOr<std::vector<OperationCase>> CollectOperationCases(const std::string& data);
// Runs the case with that id.
void RunOperation(Kit& k, const std::string& id);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_SUITES_SUITES_H_
