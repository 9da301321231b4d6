#include "sdk/layers/fault/fault.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"
#include "sdk/layers/fault/timer.h"

namespace backplane::layers {
namespace {

// Returns a number in [0, 1), uniformly distributed and the same for the same arguments.
double Draw(uint64_t seed, uint64_t rule, uint64_t n) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + rule * 0xbf58476d1ce4e5b9 + n;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

void Sleep(int64_t ns) {
  timespec left = {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  while (nanosleep(&left, &left) != 0) {
  }
}

// A callback of the host that is delayed. It lives until both the call and the callback have ended.
struct Late {
  Timer* timer;
  int64_t delay_ns;
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
};

class FaultLayer : public Layer {
 public:
  FaultLayer(std::vector<FaultRule> rules, uint64_t seed, FILE* log)
      : rules_(std::move(rules)), seed_(seed), log_(log), counts_(rules_.size()) {}
  ~FaultLayer() override {
    timer_.Drain();
    if (log_ != nullptr && log_ != stderr) fclose(log_);
  }

  const char* name() const override { return "fault"; }
  bool Wants(Fn fn) const override {
    for (const FaultRule& rule : rules_) {
      if (rule.functions[Index(fn)]) return true;
    }
    return false;
  }
  void Before(Call& call) override;
  void After(Call& call) override;
  void Flush() override {
    if (log_ != nullptr) fflush(log_);
  }

 private:
  static bool IsOutcome(Fn fn) { return fn == Fn::PJRT_Event_Await || fn == Fn::PJRT_Event_Error; }
  PJRT_Error* Error(const Call& call, const FaultRule& rule);
  void Log(const Call& call, const FaultRule& rule, uint64_t n);
  void DelayCallback(Call& call, int64_t delay_ns);

  const std::vector<FaultRule> rules_;
  const uint64_t seed_;
  FILE* const log_;
  std::vector<std::atomic<uint64_t>> counts_;
  Timer timer_;
};

PJRT_Error* FaultLayer::Error(const Call& call, const FaultRule& rule) {
  return MakeError(*call.stack, rule.code,
                   rule.message.empty()
                       ? absl::StrCat(call.name(), ": failed by the fault layer, rule '", rule.text, "'")
                       : rule.message);
}

void FaultLayer::Log(const Call& call, const FaultRule& rule, uint64_t n) {
  if (log_ != nullptr)
    fprintf(log_, "fault: %s, call %llu of rule '%s'\n", call.name(), static_cast<unsigned long long>(n),
            rule.text.c_str());
}

void FaultLayer::DelayCallback(Call& call, int64_t delay_ns) {
  const auto* host = call.As<PJRT_Event_OnReady_Args>();
  if (!Has(host, &PJRT_Event_OnReady_Args::user_arg) || host->callback == nullptr) return;
  auto* args = static_cast<PJRT_Event_OnReady_Args*>(CopyArgs(call));
  if (args == nullptr) return;
  auto* late = new Late{&timer_, delay_ns, args->callback, args->user_arg};
  args->user_arg = late;
  args->callback = [](PJRT_Error* error, void* user_arg) {
    std::unique_ptr<Late> l(static_cast<Late*>(user_arg));
    l->timer->At(ReadMonotonicNanos() + l->delay_ns,
                 [error, callback = l->callback, arg = l->user_arg] { callback(error, arg); });
  };
  call.memo[0] = reinterpret_cast<uint64_t>(late);
}

void FaultLayer::Before(Call& call) {
  const FaultRule* failing = nullptr;
  int64_t delay_ns = 0, late_ns = 0;
  for (size_t r = 0; r < rules_.size(); ++r) {
    const FaultRule& rule = rules_[r];
    if (!rule.functions[Index(call.fn)]) continue;
    if (rule.action == FaultRule::Action::kLate && call.fn != Fn::PJRT_Event_OnReady) continue;
    const uint64_t n = counts_[r].fetch_add(1, std::memory_order_relaxed) + 1;
    if (!rule.Hits(n, rule.probability < 1 ? Draw(seed_, r, n) : 0)) continue;
    Log(call, rule, n);
    if (rule.action == FaultRule::Action::kDelay) {
      delay_ns += rule.delay_ns;
    } else if (rule.action == FaultRule::Action::kLate) {
      late_ns += rule.delay_ns;
    } else if (failing == nullptr) {
      failing = &rule;
    }
  }
  if (delay_ns > 0) Sleep(delay_ns);
  if (call.fn == Fn::PJRT_Event_OnReady) {
    // The layer must not block the plugin's thread, so the timer's thread runs the callback later.
    if (late_ns > 0) DelayCallback(call, late_ns);
    if (failing != nullptr) {
      HookOnReady(call, [this, rule = failing, stack = call.stack](PJRT_Error* error) {
        DestroyError(*stack, error);
        Call about(Fn::PJRT_Event_OnReady, nullptr, 0, stack, nullptr);
        return Error(about, *rule);
      });
    }
  } else if (failing != nullptr && IsOutcome(call.fn)) {
    call.memo[0] = reinterpret_cast<uint64_t>(failing);
  } else if (failing != nullptr) {
    call.Answer(Error(call, *failing));
  }
}

void FaultLayer::After(Call& call) {
  if (call.memo[0] == 0) return;
  if (IsOutcome(call.fn)) {
    DestroyError(*call.stack, call.result);
    call.result = Error(call, *reinterpret_cast<const FaultRule*>(call.memo[0]));
  } else if (call.fn == Fn::PJRT_Event_OnReady && call.result != nullptr) {
    delete reinterpret_cast<Late*>(call.memo[0]);  // refused: the callback will not run
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeFaultLayer(const Options& options) {
  BP_RETURN_IF_ERROR(options.CheckNames({"spec", "seed", "log"}));
  std::string spec = options.Get("spec");
  if (const char* set = getenv("BACKPLANE_FAULT"); set != nullptr && *set != '\0') spec = set;
  if (spec.empty()) return absl::InvalidArgumentError("fault: no spec: set BACKPLANE_FAULT");
  BP_ASSIGN_OR_RETURN(std::vector<FaultRule> rules, ParseFaultSpec(spec));
  BP_ASSIGN_OR_RETURN(int64_t seed, options.GetInt("seed", 1));
  const std::string path = options.GetPath("log", "");
  FILE* log = nullptr;
  if (path == "stderr") {
    log = stderr;
  } else if (!path.empty()) {
    log = fopen(path.c_str(), "we");
    if (log == nullptr) return absl::InvalidArgumentError(absl::StrCat("fault: log ", path, ": cannot be written"));
    setvbuf(log, nullptr, _IOLBF, 4096);
  }
  return std::unique_ptr<Layer>(new FaultLayer(std::move(rules), static_cast<uint64_t>(seed), log));
}

}  // namespace backplane::layers
