#include "sdk/backend/faults.h"

#include <mutex>

#include "absl/strings/str_cat.h"

namespace backplane {
namespace faults {
namespace {

constexpr int kSites = static_cast<int>(FaultSite::kCount);

struct Plan {
  std::mutex mu;
  FaultSite site = FaultSite::kCount;  // under mu
  int64_t nth = 0;                     // under mu
  int64_t passed[kSites] = {};         // under mu
  bool failed = false;                 // under mu
};

Plan& ThePlan() {
  static auto* plan = new Plan;
  return *plan;
}

}  // namespace

absl::Status Pass(FaultSite site) {
  Plan& plan = ThePlan();
  int64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(plan.mu);
    if (!on.load(std::memory_order_relaxed)) return absl::OkStatus();
    number = ++plan.passed[static_cast<int>(site)];
    if (site != plan.site || number != plan.nth) return absl::OkStatus();
    plan.failed = true;
  }
  const bool scarce = site == FaultSite::kStorage || site == FaultSite::kTemporary || site == FaultSite::kThread;
  return absl::Status(scarce ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat("fault on purpose: ", FaultSiteName(site), " ", number));
}

void Fail(FaultSite site, int64_t nth) {
  Plan& plan = ThePlan();
  std::lock_guard<std::mutex> lock(plan.mu);
  plan.site = site;
  plan.nth = nth;
  plan.failed = false;
  for (int64_t& n : plan.passed) n = 0;
  on = true;
}

int64_t Passed(FaultSite site) {
  Plan& plan = ThePlan();
  std::lock_guard<std::mutex> lock(plan.mu);
  return plan.passed[static_cast<int>(site)];
}

void Stop() {
  Plan& plan = ThePlan();
  std::lock_guard<std::mutex> lock(plan.mu);
  on = false;
}

bool Failed() {
  Plan& plan = ThePlan();
  std::lock_guard<std::mutex> lock(plan.mu);
  return plan.failed;
}

}  // namespace faults

const char* FaultSiteName(FaultSite site) {
  static constexpr const char* kNames[] = {"storage", "temporary", "thread", "copy", "kernel", "launch", "code"};
  return site < FaultSite::kCount ? kNames[static_cast<int>(site)] : "none";
}

}  // namespace backplane
