// Interception of the target's callbacks.
#include <atomic>
#include <utility>

#include "base/mutex.h"
#include "sdk/layers/frame.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {

// A hook between the plugin and the host's callback. It is destroyed when both the call that registered it and the
// callback have ended, in any order.
struct HookCalls {
  static void Begin(ReadyHook* hook, PJRT_Event_OnReady_Args* args) {
    hook->callback_ = args->callback;
    hook->user_arg_ = args->user_arg;
    args->callback = Run;
    args->user_arg = hook;
  }
  static void Run(PJRT_Error* error, void* user_arg) {
    auto* hook = static_cast<ReadyHook*>(user_arg);
    if (!hook->used_.exchange(true)) error = hook->Ready(error);
    hook->callback_(error, hook->user_arg_);
    Release(hook);
  }
  static void End(void* arg, bool accepted) {
    auto* hook = static_cast<ReadyHook*>(arg);
    if (accepted) return Release(hook);
    // A plugin should not keep a callback that it refused. If it calls it all the same, the host's callback runs, as
    // without layers.
    static auto* mutex = new Mutex;
    static auto* refused = new std::vector<ReadyHook*>;
    if (!hook->used_.exchange(true)) hook->Dropped();
    MutexLock lock(*mutex);
    refused->push_back(hook);
  }
  static void Release(ReadyHook* hook) {
    if (hook->owners_.fetch_sub(1) == 1) delete hook;
  }
};

namespace {

class FunctionHook : public ReadyHook {
 public:
  explicit FunctionHook(std::function<PJRT_Error*(PJRT_Error*)> hook) : hook_(std::move(hook)) {}
  PJRT_Error* Ready(PJRT_Error* error) override { return hook_(error); }
  void Dropped() override { hook_ = nullptr; }

 private:
  std::function<PJRT_Error*(PJRT_Error*)> hook_;
};

}  // namespace

struct WaitCalls {
  static void Begin(ReadyWait* wait, Stack* stack) { wait->stack_ = stack; }
  static void Run(PJRT_Error* error, void* user_arg) {
    const std::unique_ptr<ReadyWait> wait(static_cast<ReadyWait*>(user_arg));
    wait->Done(error);
    DestroyError(*wait->stack_, error);
  }
};

bool HookOnReady(Call& call, std::function<PJRT_Error*(PJRT_Error*)> hook) {
  return HookOnReady(call, std::make_unique<FunctionHook>(std::move(hook)));
}

bool HookOnReady(Call& call, std::unique_ptr<ReadyHook> hook) {
  const auto* host = call.As<PJRT_Event_OnReady_Args>();
  if (!Has(host, &PJRT_Event_OnReady_Args::user_arg) || host->callback == nullptr) return false;
  auto* args = static_cast<PJRT_Event_OnReady_Args*>(CopyArgs(call));
  if (args == nullptr) return false;
  HookCalls::Begin(hook.get(), args);
  static_cast<Frame*>(call.frame)->at_end.push_back({HookCalls::End, hook.release()});
  return true;
}

bool WhenReady(Stack& stack, PJRT_Event* event, std::unique_ptr<ReadyWait> wait) {
  if (event == nullptr || !stack.TargetHas(&PJRT_Api::PJRT_Event_OnReady)) return false;
  WaitCalls::Begin(wait.get(), &stack);
  PJRT_Event_OnReady_Args args{};
  args.struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE;
  args.event = event;
  args.callback = WaitCalls::Run;
  args.user_arg = wait.get();
  if (PJRT_Error* error = stack.target().PJRT_Event_OnReady(&args); error != nullptr) {
    DestroyError(stack, error);
    return false;
  }
  (void)wait.release();  // already destroyed if the event was ready
  return true;
}

bool WhenBufferReady(Stack& stack, PJRT_Buffer* buffer, std::unique_ptr<ReadyWait> wait) {
  if (buffer == nullptr || !stack.TargetHas(&PJRT_Api::PJRT_Buffer_ReadyEvent) ||
      !stack.TargetHas(&PJRT_Api::PJRT_Event_Destroy)) {
    return false;
  }
  PJRT_Buffer_ReadyEvent_Args ready{};
  ready.struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE;
  ready.buffer = buffer;
  if (PJRT_Error* error = stack.target().PJRT_Buffer_ReadyEvent(&ready); error != nullptr) {
    DestroyError(stack, error);
    return false;
  }
  const bool registered = WhenReady(stack, ready.event, std::move(wait));
  PJRT_Event_Destroy_Args destroy{};
  destroy.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
  destroy.event = ready.event;
  DestroyError(stack, stack.target().PJRT_Event_Destroy(&destroy));
  return registered;
}

}  // namespace backplane::layers
