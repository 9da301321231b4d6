// Layers: objects that stand between a host and a PJRT plugin and see every call.
//
// A stack of layers looks like a plugin: it has a PJRT_Api whose slots go through the layers to the target's own slot.
// The functions of all extensions in api/extensions are interposed in the same way. The host needs no change.
//
//   class Counter : public Layer {
//    public:
//     const char* name() const override { return "counter"; }
//     void After(Call& call) override { ++counts_[Index(call.fn)]; }
//   };
//
// Order: BACKPLANE_LAYERS=a,b means host -> a -> b -> target. Before(a), Before(b), the target, After(b), After(a).
//
// What a layer may rely on
//   - Before and After of one call run in the calling thread, on one stack frame. Calls come from any number of
//     threads at once, and from within callbacks: a layer locks what it shares and holds no lock while it calls the
//     target.
//   - Args and result are the host's and the target's own objects. Handles are never replaced: a PJRT_Buffer* that a
//     layer sees is the target's.
//   - `Call::args` may be smaller than the struct in our headers (an older host): read fields through Has or Field.
//   - A layer calls the target beside the layers by Stack::target().
//
// What it must keep: no throwing, no exit, no output but where it was told to write; the same results for the host,
// unless changing them is what the layer is for.
#ifndef BACKPLANE_SDK_LAYERS_LAYER_H_
#define BACKPLANE_SDK_LAYERS_LAYER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/pjrt_c_api.h"
#include "sdk/layers/clock.h"
#include "sdk/layers/functions.h"

namespace backplane::layers {

class Stack;

// One call on its way to the target and back.
struct Call {
  // Member by member: a call is made for each of the host's, and setting all of it at once is slower.
  Call(Fn f, void* a, size_t size, Stack* s, void* own) : fn(f), args(a), args_size(size), stack(s), frame(own) {}
  Fn fn;
  // The argument struct of that function. A layer changes it through CopyArgs only; layers inside and the target get
  // the copy, and After of each layer sees again what its Before got.
  void* args;
  // The first word of `args`: bytes that the caller says there are.
  size_t args_size;
  // After: what the host will get; null is success. May be replaced (the layer then owns the old one). Functions that
  // return nothing leave it null; those that return an error of another kind (the profiler's) have it in `other`.
  PJRT_Error* result = nullptr;
  void* other = nullptr;
  // Just before and just after the target (TickScale makes nanoseconds of them). Valid in After, for layers that want
  // times.
  Ticks start = 0;
  Ticks end = 0;
  // False when a layer answered in place of the target.
  bool reached_target = false;
  Stack* stack;
  // Two words that the layer may set in Before and finds in After; each layer has its own.
  uint64_t memo[2] = {0, 0};

  const FunctionInfo& info() const { return InfoOf(fn); }
  const char* name() const { return InfoOf(fn).name; }

  // The args as their type. Check `fn` first.
  template <typename Args>
  Args* As() const {
    return static_cast<Args*>(args);
  }

  // Before only: ends the way to the target here. Layers inside do not see the call; After runs for the layers that
  // saw it, this one included. `error` may be null for success; then the layer has set the out fields itself.
  void Answer(PJRT_Error* error) {
    result = error;
    answered = true;
  }
  bool answered = false;
  // The dispatcher's.
  void* frame;
};

// Whether the caller's struct reaches to the end of this member: `Has(args, &PJRT_Foo_Args::bar)`.
template <typename Args, typename Member>
bool Has(const Args* args, Member Args::*member) {
  const char* end = reinterpret_cast<const char*>(&(args->*member)) + sizeof(Member);
  return static_cast<size_t>(end - reinterpret_cast<const char*>(args)) <= args->struct_size;
}
// The member, or a zero value when the caller's struct ends before it.
template <typename Args, typename Member>
Member Field(const Args* args, Member Args::*member) {
  return Has(args, member) ? args->*member : Member{};
}

class Layer {
 public:
  virtual ~Layer() = default;
  // As in BACKPLANE_LAYERS.
  virtual const char* name() const = 0;
  // Once, before any call. `stack` lives longer than the layer.
  virtual void Attach(Stack& stack) {}
  // Functions that no layer wants are not interposed at all and cost nothing. Asked once for each function.
  virtual bool Wants(Fn fn) const { return true; }
  // Whether After reads Call::start and Call::end, which cost more than a small function itself. Asked once.
  virtual bool WantsTimes() const { return true; }
  virtual void Before(Call& call) {}
  virtual void After(Call& call) {}
  // Writes out what is to be kept: on SIGUSR2 when BACKPLANE_LAYERS_FLUSH_SIGNAL=1, and by Stack::Flush. May come more
  // than once, while calls are under way.
  virtual void Flush() {}
  // The last flush: at the end of the process (before static destructors of the library, while other threads may still
  // call), or of the stack. Calls that come later are seen as ever.
  virtual void End() { Flush(); }
};

// Errors that a layer makes. They are valid PJRT_Errors in every way: the host reads and destroys them by the functions
// of the table, or by the error's own table of functions. `code` is not OK.
PJRT_Error* MakeError(Stack& stack, PJRT_Error_Code code, absl::string_view message);
// Frees an error of the target or of a layer; null is fine. Not seen by layers.
void DestroyError(Stack& stack, PJRT_Error* error);
// Its code and text. Not seen by layers.
PJRT_Error_Code ErrorCode(Stack& stack, const PJRT_Error* error);
std::string ErrorMessage(Stack& stack, const PJRT_Error* error);

// In Before: gives the call a copy of its args, which lives until the host's call returns, and returns it to be
// changed. What the target writes there is copied back to the host's struct after the call; what the layer changed is
// not. Null, and nothing is done, when the size that the caller gave is implausible.
void* CopyArgs(Call& call);

// In Before of PJRT_Event_OnReady: the callback that the target gets calls `hook` first and the host's callback with
// what it returns: the error it was given, or another in its place, when the hook has to destroy the first. `hook` runs
// once, in the plugin's thread; it is destroyed unused when the call fails. False when there is nothing to hook.
bool HookOnReady(Call& call, std::function<PJRT_Error*(PJRT_Error*)> hook);

// The same without a function: what the callback needs is in the object itself, so that it costs one allocation. Made
// anew for each call.
class ReadyHook {
 public:
  virtual ~ReadyHook() = default;
  // In the plugin's thread, once; what it returns goes to the host's callback.
  virtual PJRT_Error* Ready(PJRT_Error* error) = 0;
  // In place of Ready: the call has failed.
  virtual void Dropped() = 0;

 private:
  friend struct HookCalls;
  PJRT_Event_OnReadyCallback callback_ = nullptr;
  void* user_arg_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<int> owners_{2};
};
bool HookOnReady(Call& call, std::unique_ptr<ReadyHook> hook);

// What is done once when something is ready. Made anew for each.
class ReadyWait {
 public:
  virtual ~ReadyWait() = default;
  // In the plugin's thread. The error is null or lent for the call.
  virtual void Done(const PJRT_Error* error) = 0;

 private:
  friend struct WaitCalls;
  Stack* stack_ = nullptr;
};
// Asks the target, beside the layers, to call `wait` when the event is ready. The event stays the host's. False, and
// `wait` is destroyed, when the target refuses.
bool WhenReady(Stack& stack, PJRT_Event* event, std::unique_ptr<ReadyWait> wait);
// The same for the contents of a buffer, by an event of our own.
bool WhenBufferReady(Stack& stack, PJRT_Buffer* buffer, std::unique_ptr<ReadyWait> wait);

// The layers over one target.
class Stack {
 public:
  // `target` lives as long as the process. `name` is the path of the plugin or what to call it. At most kMaxStacks live
  // at once in one library: RESOURCE_EXHAUSTED. A target of another major is FAILED_PRECONDITION.
  static constexpr int kMaxStacks = 8;
  static absl::StatusOr<std::unique_ptr<Stack>> Create(const PJRT_Api* target, absl::string_view name,
                                                       std::vector<std::unique_ptr<Layer>> layers);
  // Flushes. No call may be under way or come later; a host that was given api() must be gone.
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // What the host gets. Version and size are the target's; a slot that the target has not is not there.
  const PJRT_Api* api() const;
  // The target's own table: calls through it are not seen by layers. Slots may be missing: use TargetHas.
  const PJRT_Api& target() const { return *target_; }
  template <typename F>
  bool TargetHas(F PJRT_Api::*slot) const {
    const char* place = reinterpret_cast<const char*>(&(target_->*slot));
    return static_cast<size_t>(place - reinterpret_cast<const char*>(target_)) + sizeof(F) <= target_->struct_size &&
           target_->*slot != nullptr;
  }
  int minor_version() const { return target_->pjrt_api_version.minor_version; }
  const std::string& name() const { return name_; }

  void Flush();
  void End();

  // Used by the generated trampolines.
  struct Impl;
  Impl* impl() const { return impl_.get(); }

 private:
  Stack();
  const PJRT_Api* target_ = nullptr;
  std::string name_;
  std::unique_ptr<Impl> impl_;
};

// ---- How layers are made

// Settings of one layer: those of the manifest, over which the variable BACKPLANE_<LAYER>_<NAME> goes when it is set
// (for `file` of the layer `trace`: BACKPLANE_TRACE_FILE).
class Options {
 public:
  Options() = default;
  Options(absl::string_view layer, std::vector<std::pair<std::string, std::string>> values)
      : layer_(layer), values_(std::move(values)) {}
  // Empty when it is not set.
  std::string Get(absl::string_view name) const;
  // INVALID_ARGUMENT, which names the setting, for what is not a number or not a truth value.
  absl::StatusOr<int64_t> GetInt(absl::string_view name, int64_t fallback) const;
  absl::StatusOr<bool> GetBool(absl::string_view name, bool fallback) const;
  // `name` as a path in which %p is this process's id and %% a percent sign.
  std::string GetPath(absl::string_view name, absl::string_view fallback) const;
  const std::string& layer() const { return layer_; }
  // Names in the manifest that are not among `known`: INVALID_ARGUMENT.
  absl::Status CheckNames(std::initializer_list<absl::string_view> known) const;

 private:
  std::string layer_;
  std::vector<std::pair<std::string, std::string>> values_;
};

using MakeLayer = absl::StatusOr<std::unique_ptr<Layer>> (*)(const Options& options);

// By the name in BACKPLANE_LAYERS; registry.cc lists them. NOT_FOUND, with the names there are.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayerByName(absl::string_view name, const Options& options);
std::vector<std::string> LayerNames();

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_LAYER_H_
