// The layer itself; validate.cc has the checks before and after each call, lifetime.cc those at the end of lives.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/inlined_vector.h"
#include "sdk/layers/frame.h"
#include "sdk/layers/validate/handles.h"
#include "sdk/layers/validate/report.h"
#include "sdk/layers/validate/stacks.h"
#include "sdk/layers/validate/validate.h"

namespace backplane::layers {

// The state, which callbacks of the plugin may need after the layer is gone.
struct ValidateState {
  ValidateState(FILE* out, std::string json, int64_t percent) : stacks(percent), report(out, std::move(json)) {}
  Stacks stacks;
  Handles handles;
  Report report;

  // Callbacks that the host waits for.
  struct Pending {
    const void* event;
    const void* client;
    uint32_t stack;
    Fn fn;
    int64_t since_ns;
    bool told = false;
  };
  std::mutex pending_mutex;
  std::map<uint64_t, Pending> pending;
  uint64_t next_pending = 1;

  uint64_t AddPending(const Pending& p) {
    std::lock_guard<std::mutex> lock(pending_mutex);
    pending.emplace(next_pending, p);
    return next_pending++;
  }
  void RemovePending(uint64_t id) {
    std::lock_guard<std::mutex> lock(pending_mutex);
    pending.erase(id);
  }
};

struct ValidateOptions {
  FILE* out = nullptr;
  bool close = false, always = false;
  std::string json;
  bool refuse = false, leaks = true;
  int64_t patience_ns = 0;
  int depth = Stacks::kDepth;
  int64_t budget = 1;  // percent
};

class ValidateLayer : public Layer {
 public:
  explicit ValidateLayer(const ValidateOptions& options);
  ~ValidateLayer() override {
    if (options_.close) fclose(options_.out);
  }

  const char* name() const override { return "validate"; }
  bool Wants(Fn fn) const override;
  bool WantsTimes() const override { return false; }
  void Before(Call& call) override;
  void After(Call& call) override;
  void Flush() override { state_->report.Finish(state_->stacks, options_.always); }
  void End() override;
  const Report& report() const { return state_->report; }

 private:
  // A handle that is passed in. False when the call should be refused.
  bool CheckUse(Call& call, const Argument& a, const void* handle, const void** client);
  bool CheckState(Call& call, const Argument& a, const void* handle, const Handles::State& state, const void** client);
  bool CheckFound(Call& call, const Argument& a, const void* handle, const std::optional<Handle>& h,
                  const void** client);
  bool CheckDestroy(Call& call, const Argument& a, const void* handle, const void** client);
  bool CheckExecute(Call& call, const void** client);
  void TellNoContents(Call& call, const Argument& a, const void* handle, const Handle& h);
  bool TellDead(Call& call, Object type, const void* handle, const char* member, const Handle& h);
  void CheckSizes(const Call& call);
  void Poison(Call& call);
  void CheckWritten(const Call& call, size_t copy);
  void TakeResults(Call& call, const void* client);
  void TakeExecuteResults(Call& call, const void* client);
  void TakeLists(Call& call, const void* client);
  void TakeError(Call& call);
  void FollowCallback(Call& call, const void* client);
  void ClientGoes(Call& call, const void* client);
  void ClientGone(Call& call, const void* client);

  void Add(const Call& call, const char* kind, std::string key, std::string message,
           std::vector<std::pair<std::string, uint32_t>> others = {});
  // Of a call that is wrong.
  uint32_t StackOf(const Call& call) {
    return options_.depth == 0 ? 0
                               : state_->stacks.Capture(static_cast<const Frame*>(call.frame)->caller, options_.depth);
  }
  // Of one that a later finding may tell of: unwinding for these is most of what this layer costs.
  uint32_t Remember(const Call& call) {
    return options_.depth == 0 ? 0
                               : state_->stacks.Remember(static_cast<const Frame*>(call.frame)->caller,
                                                         static_cast<const Frame*>(call.frame)->cfa, options_.depth);
  }

  // What is done at each call of a function, as one line of the cache: the handles among its arguments, those that go
  // in before those that come out.
  struct Field {
    uint16_t offset;
    Object object;
    Direction direction;
    uint8_t index;  // in ArgumentsOf
  };
  struct alignas(64) Plan {
    absl::InlinedVector<Field, 7> fields;
    std::atomic<uint32_t> calls{0};
    std::atomic<uint16_t> fine_size{0};  // that the args had and that was found right
    uint8_t ins = 0;                     // of `fields`
  };
  static_assert(sizeof(Plan) == 64);
  Plan& PlanOf(Fn fn) { return plans_[Index(fn)]; }

  // A plugin that does not write a field seldom writes it sometimes: the first calls of each function are looked at,
  // and later one in so many.
  static constexpr uint32_t kFirstCalls = 256, kOneIn = 16;

  const std::unique_ptr<Plan[]> plans_{new Plan[kNumFunctions]};
  const ValidateOptions options_;
  const std::shared_ptr<ValidateState> state_;
};

std::string HandleText(Object type, const void* handle);
// The word at this offset.
const void* ReadHandle(const void* args, size_t offset);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_
