// The implementation of the layer. validate.cc has the checks before and after each call, lifetime.cc those at the end
// of lifetimes.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "sdk/layers/frame.h"
#include "sdk/layers/spin_lock.h"
#include "sdk/layers/validate/handles.h"
#include "sdk/layers/validate/programs.h"
#include "sdk/layers/validate/report.h"
#include "sdk/layers/validate/stacks.h"
#include "sdk/layers/validate/validate.h"

namespace backplane::layers {

// The state, which callbacks of the plugin may need after the layer is destroyed.
struct ValidateState {
  ValidateState(FILE* out, std::string json, int64_t percent) : stacks(percent), report(out, std::move(json)) {}
  Stacks stacks;
  Handles handles;
  Programs programs;
  Report report;

  // Callbacks that have not run yet, in a circular list. Each adds and removes itself.
  struct Pending {
    const void* event = nullptr;
    const void* client = nullptr;
    uint32_t stack = 0;
    Fn fn = Fn::kCount;
    bool reported = false;
    Ticks since = 0;
    Pending* before = this;
    Pending* after = this;
  };
  SpinLock pending_lock;
  Pending pending;  // the head of the list, not an entry

  void AddPending(Pending* p) {
    std::lock_guard<SpinLock> lock(pending_lock);
    p->before = pending.before;
    p->after = &pending;
    p->before->after = p->after->before = p;
  }
  void RemovePending(Pending* p) {
    std::lock_guard<SpinLock> lock(pending_lock);
    p->before->after = p->after;
    p->after->before = p->before;
    p->before = p->after = p;
  }
  // Returns the entries for which `late` is true and that have not been reported, in the order in which they were
  // added, and marks them as reported.
  template <typename Late>
  std::vector<Pending> TakeOverdue(Late late) {
    std::vector<Pending> found;
    std::lock_guard<SpinLock> lock(pending_lock);
    for (Pending* p = pending.after; p != &pending; p = p->after) {
      if (p->reported || !late(*p)) continue;
      p->reported = true;
      found.push_back(*p);
    }
    return found;
  }
};

struct ValidateOptions {
  FILE* out = nullptr;
  bool close = false, always = false;
  std::string json;
  bool refuse = false, leaks = true;
  int64_t patience_ns = 0;
  int depth = Stacks::kDepth;
  int64_t budget = 1;  // in percent
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
  // A handle in the arguments of a call.
  struct Field {
    uint16_t offset;
    Object object;
    Direction direction;
    uint8_t index;  // index in the result of GetArguments
  };
  // Checks a handle that is passed in. Returns false if the call should be refused.
  bool CheckUse(Call& call, const Field& f, const void* handle, const void** client);
  bool CheckState(Call& call, const Argument& a, const void* handle, const Handles::State& state, const void** client);
  bool CheckFound(Call& call, const Argument& a, const void* handle, const std::optional<Handle>& h,
                  const void** client);
  bool CheckDestroy(Call& call, const Argument& a, const void* handle, const void** client);
  // Reports a buffer that has no contents according to the target; returns false then.
  bool CheckContents(Call& call, const Argument& a, const void* handle, const Handles::State& state);
  bool CheckExecute(Call& call, const void** client);
  void RecordConsumedArguments(Call& call);
  void MarkArgumentsUncertain(Call& call);
  void MarkBuffersUncertain(Call& call);
  void ReportNoContents(Call& call, const Argument& a, const void* handle, const Handle& h);
  bool ReportDestroyed(Call& call, Object type, const void* handle, const char* member, const Handle& h);
  void CheckSizes(const Call& call);
  void FillWithPattern(Call& call);
  void CheckWritten(const Call& call, size_t copy);
  void TakeResults(Call& call, const void* client);
  void TakeExecuteResults(Call& call, const void* client);
  void TakeLists(Call& call, const void* client);
  void TakeError(Call& call);
  void FollowCallback(Call& call, const void* client);
  void CheckClientDestroy(Call& call, const void* client);
  void OnClientDestroyed(Call& call, const void* client);

  void Add(const Call& call, const char* kind, std::string key, std::string message,
           std::vector<std::pair<std::string, uint32_t>> others = {});
  // Returns the stack trace of an incorrect call.
  uint32_t CaptureStack(const Call& call) {
    return options_.depth == 0 ? 0
                               : state_->stacks.Capture(static_cast<const Frame*>(call.frame)->caller, options_.depth);
  }
  // Returns the stack trace of a call that a later finding may show. Unwinding for these takes most of the time of this
  // layer.
  uint32_t Remember(const Call& call) {
    return options_.depth == 0 ? 0
                               : state_->stacks.Remember(static_cast<const Frame*>(call.frame)->caller,
                                                         static_cast<const Frame*>(call.frame)->cfa, options_.depth);
  }

  // The checks for a function, in one cache line: the handles in its arguments, first those that are passed in, then
  // those that are returned.
  struct alignas(64) Plan {
    absl::InlinedVector<Field, 7> fields;
    std::atomic<uint32_t> calls{0};
    std::atomic<uint16_t> fine_size{0};  // a size of args that has been found valid
    uint8_t ins : 4 = 0;                 // number of `fields` that are passed in
    bool needs_contents : 1 = false;     // of the buffers that are passed in
    bool may_consume : 1 = false;        // whether the call may consume these contents
    bool sets_fields : 1 = false;        // whether the plugin must write fields
    bool only_fields : 1 = false;        // whether `fields` are all that is returned
  };
  static_assert(sizeof(Plan) == 64);
  Plan& GetPlan(Fn fn) { return plans_[Index(fn)]; }

  // A plugin that fails to write a field usually never writes it. So the first calls of each function are checked, and
  // later one in kOneIn.
  static constexpr uint32_t kFirstCalls = 256, kOneIn = 16;

  const std::unique_ptr<Plan[]> plans_{new Plan[kNumFunctions]};
  const ValidateOptions options_;
  const std::shared_ptr<ValidateState> state_;
};

std::string FormatHandle(Object type, const void* handle);
// Returns the word at this offset.
const void* ReadHandle(const void* args, size_t offset);
// Asks the target.
bool IsDeletedOnTarget(Stack& stack, PJRT_Buffer* buffer);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_LAYER_IMPL_H_
