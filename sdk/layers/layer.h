// Layers: objects between a host and a PJRT plugin that see every call.
//
// A stack of layers behaves like a plugin: it has a PJRT_Api whose slots call the layers and then the target's own
// slot. The functions of all extensions in api/extensions are interposed in the same way. The host needs no change.
//
//   class Counter : public Layer {
//    public:
//     const char* name() const override { return "counter"; }
//     void After(Call& call) override { ++counts_[Index(call.fn)]; }
//   };
//
// Order: BACKPLANE_LAYERS=a,b means host -> a -> b -> target. Before(a), Before(b), the target, After(b), After(a).
//
// Guarantees for a layer
//   - Before and After of one call run in the calling thread, on one stack frame. Calls come from any number of
//     threads at once, and from within callbacks. So a layer must lock its shared state, and must hold no lock while it
//     calls the target.
//   - Args and results are the host's and the target's own objects. Handles are never replaced: a PJRT_Buffer* that a
//     layer sees is the target's.
//   - `Call::args` may be smaller than the struct in our headers (an older host): read fields by Has or Field.
//   - Stack::target() calls the target without the layers.
//
// Obligations of a layer: it does not throw or exit, writes output only where it is configured to, and does not change
// results unless that is its purpose.
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

// One call, on its way to the target and back.
struct Call {
  // Initializes member by member, which is faster than all at once; there is one object for each call of the host.
  Call(Fn f, void* a, size_t size, Stack* s, void* own) : fn(f), args(a), args_size(size), stack(s), frame(own) {}
  Fn fn;
  // The argument struct of the function. A layer changes it only through CopyArgs. Inner layers and the target then get
  // the copy; After of each layer sees the struct that its Before got.
  void* args;
  // The first word of `args`: its size as the caller states it.
  size_t args_size;
  // The result for the host, valid in After; null means success. A layer may replace it and then owns the old one. Null
  // for functions that return nothing. Functions with another error type (the profiler's) have it in `other`.
  PJRT_Error* result = nullptr;
  void* other = nullptr;
  // The times just before and just after the target ran; TickScale converts them to nanoseconds. Valid in After of
  // layers that return true from WantsTimes.
  Ticks start = 0;
  Ticks end = 0;
  // False if a layer answered the call instead of the target.
  bool reached_target = false;
  Stack* stack;
  // Two words that a layer may set in Before and read in After. Each layer has its own two words.
  uint64_t memo[2] = {0, 0};

  const FunctionInfo& info() const { return GetInfo(fn); }
  const char* name() const { return GetInfo(fn).name; }

  // The args as their type. Check `fn` first.
  template <typename Args>
  Args* As() const {
    return static_cast<Args*>(args);
  }

  // May be called in Before: answers the call here. Inner layers and the target do not see it. After runs for the
  // layers that have seen it, including this one. `error` may be null for success; then the layer has set the out
  // fields.
  void Answer(PJRT_Error* error) {
    result = error;
    answered = true;
  }
  bool answered = false;
  // Data of the dispatcher.
  void* frame;
};

// Whether the caller's struct contains this member: `Has(args, &PJRT_Foo_Args::bar)`.
template <typename Args, typename Member>
bool Has(const Args* args, Member Args::*member) {
  const char* end = reinterpret_cast<const char*>(&(args->*member)) + sizeof(Member);
  return static_cast<size_t>(end - reinterpret_cast<const char*>(args)) <= args->struct_size;
}
// Returns the member, or a zero value if the caller's struct ends before it.
template <typename Args, typename Member>
Member Field(const Args* args, Member Args::*member) {
  return Has(args, member) ? args->*member : Member{};
}

class Layer {
 public:
  virtual ~Layer() = default;
  // The name in BACKPLANE_LAYERS.
  virtual const char* name() const = 0;
  // Called once, before any call. `stack` outlives the layer.
  virtual void Attach(Stack& stack) {}
  // Whether the layer wants to see the function. Called once for each function. A function that no layer wants to see
  // is not interposed and costs nothing.
  virtual bool Wants(Fn fn) const { return true; }
  // Whether After reads Call::start and Call::end. Reading the clock costs more than a small function. Called once.
  virtual bool WantsTimes() const { return true; }
  virtual void Before(Call& call) {}
  virtual void After(Call& call) {}
  // Writes the results so far. Called on SIGUSR2 if BACKPLANE_LAYERS_FLUSH_SIGNAL=1, and by Stack::Flush. May be called
  // several times, and while calls are in progress.
  virtual void Flush() {}
  // The last flush: at the end of the process (before static destructors of the library, while other threads may still
  // make calls) or of the stack. Later calls still reach the layer.
  virtual void End() { Flush(); }
};

// Creates an error. It is a valid PJRT_Error: the host can read and destroy it through the functions of the table, or
// through the error's own table of functions. `code` must not be OK.
PJRT_Error* MakeError(Stack& stack, PJRT_Error_Code code, absl::string_view message);
// Frees an error of the target or of a layer; null is allowed. Layers do not see this.
void DestroyError(Stack& stack, PJRT_Error* error);
// Return the code and the message of an error. Layers do not see this.
PJRT_Error_Code ErrorCode(Stack& stack, const PJRT_Error* error);
std::string ErrorMessage(Stack& stack, const PJRT_Error* error);

// May be called in Before: gives the call a copy of its args, which lives until the host's call returns. The layer may
// change the copy. Fields that the target writes are copied back to the host's struct after the call; changes by the
// layer are not. Returns null, and does nothing, if the size that the caller states is implausible.
void* CopyArgs(Call& call);

// May be called in Before of PJRT_Event_OnReady: makes the target call `hook` first, and then the host's callback with
// the error that `hook` returns: the one that it got, or another one, in which case it must destroy the first. `hook`
// runs once, on the plugin's thread; it is destroyed without running if the call fails. Returns false if there is no
// callback.
bool HookOnReady(Call& call, std::function<PJRT_Error*(PJRT_Error*)> hook);

// The same with an object that contains the data of the callback, so that a call needs only one allocation. Create a
// new object for each call.
class ReadyHook {
 public:
  virtual ~ReadyHook() = default;
  // Called on the plugin's thread, once. The result is passed to the host's callback.
  virtual PJRT_Error* Ready(PJRT_Error* error) = 0;
  // Called instead of Ready if the call has failed.
  virtual void Dropped() = 0;

 private:
  friend struct HookCalls;
  PJRT_Event_OnReadyCallback callback_ = nullptr;
  void* user_arg_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<int> owners_{2};
};
bool HookOnReady(Call& call, std::unique_ptr<ReadyHook> hook);

// A function that runs once when an event or a buffer is ready. Allocate a new one for each use.
class ReadyWait {
 public:
  virtual ~ReadyWait() = default;
  // Called on the plugin's thread. The error may be null and is borrowed for the call.
  virtual void Done(const PJRT_Error* error) = 0;

 private:
  friend struct WaitCalls;
  Stack* stack_ = nullptr;
};
// Asks the target, without the layers, to call `wait` when the event is ready. The event still belongs to the host. If
// the target refuses, returns false and destroys `wait`.
bool WhenReady(Stack& stack, PJRT_Event* event, std::unique_ptr<ReadyWait> wait);
// Does the same for the contents of a buffer. The event that this needs is created and destroyed here.
bool WhenBufferReady(Stack& stack, PJRT_Buffer* buffer, std::unique_ptr<ReadyWait> wait);

// The layers for one target.
class Stack {
 public:
  // `target` must live as long as the process. `name` is the path of the plugin, or another name for it. Returns
  // RESOURCE_EXHAUSTED if there are already kMaxStacks in this library, FAILED_PRECONDITION for a target of another
  // major version.
  static constexpr int kMaxStacks = 8;
  static absl::StatusOr<std::unique_ptr<Stack>> Create(const PJRT_Api* target, absl::string_view name,
                                                       std::vector<std::unique_ptr<Layer>> layers);
  // Flushes. No call may be in progress or follow; a host that got api() must not use it any more.
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // The table for the host. Version and size are the target's, and slots that the target lacks are missing.
  const PJRT_Api* api() const;
  // The target's own table. Layers do not see calls through it. Slots may be missing: use TargetHas.
  const PJRT_Api& target() const { return *target_; }
  template <typename F>
  bool TargetHas(F PJRT_Api::*slot) const {
    const char* member = reinterpret_cast<const char*>(&(target_->*slot));
    return static_cast<size_t>(member - reinterpret_cast<const char*>(target_)) + sizeof(F) <= target_->struct_size &&
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

// ---- Creating layers

// Options of one layer: those of the manifest, overridden by the variables BACKPLANE_<LAYER>_<NAME> (such as
// BACKPLANE_TRACE_FILE for `file` of the layer `trace`).
class Options {
 public:
  Options() = default;
  Options(absl::string_view layer, std::vector<std::pair<std::string, std::string>> values)
      : layer_(layer), values_(std::move(values)) {}
  // Empty if the option is not set.
  std::string Get(absl::string_view name) const;
  // Return INVALID_ARGUMENT with the option if it is not a number or a boolean.
  absl::StatusOr<int64_t> GetInt(absl::string_view name, int64_t fallback) const;
  absl::StatusOr<bool> GetBool(absl::string_view name, bool fallback) const;
  // Returns `name` as a path in which %p is replaced by this process's id and %% by a percent sign.
  std::string GetPath(absl::string_view name, absl::string_view fallback) const;
  const std::string& layer() const { return layer_; }
  // Returns INVALID_ARGUMENT if the manifest contains options that are not in `known`.
  absl::Status CheckNames(std::initializer_list<absl::string_view> known) const;

 private:
  std::string layer_;
  std::vector<std::pair<std::string, std::string>> values_;
};

using MakeLayer = absl::StatusOr<std::unique_ptr<Layer>> (*)(const Options& options);

// Creates a layer by its name in BACKPLANE_LAYERS; registry.cc lists the layers. Returns NOT_FOUND with the known
// names.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayerByName(absl::string_view name, const Options& options);
std::vector<std::string> LayerNames();

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_LAYER_H_
