#include "sdk/backend/faults.h"

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace backplane {
namespace faults {
namespace {

constexpr int kSites = static_cast<int>(FaultSite::kCount);

struct Plan {
  Mutex mu;
  FaultSite site ABSL_GUARDED_BY(mu) = FaultSite::kCount;
  int64_t nth ABSL_GUARDED_BY(mu) = 0;
  int64_t passed[kSites] ABSL_GUARDED_BY(mu) = {};
  bool failed ABSL_GUARDED_BY(mu) = false;
};

Plan& GetPlan() {
  static auto* plan = new Plan;
  return *plan;
}

}  // namespace

absl::Status Pass(FaultSite site) {
  Plan& plan = GetPlan();
  int64_t number = 0;
  {
    MutexLock lock(plan.mu);
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
  Plan& plan = GetPlan();
  MutexLock lock(plan.mu);
  plan.site = site;
  plan.nth = nth;
  plan.failed = false;
  for (int64_t& n : plan.passed) n = 0;
  on = true;
}

int64_t CountPassed(FaultSite site) {
  Plan& plan = GetPlan();
  MutexLock lock(plan.mu);
  return plan.passed[static_cast<int>(site)];
}

void Stop() {
  Plan& plan = GetPlan();
  MutexLock lock(plan.mu);
  on = false;
}

bool Failed() {
  Plan& plan = GetPlan();
  MutexLock lock(plan.mu);
  return plan.failed;
}

}  // namespace faults

const char* FaultSiteName(FaultSite site) {
  static constexpr const char* kNames[] = {"storage", "temporary", "thread", "copy", "kernel", "launch", "code"};
  return site < FaultSite::kCount ? kNames[static_cast<int>(site)] : "none";
}

}  // namespace backplane
