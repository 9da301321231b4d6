// Observes every call of a plugin. A process that supervises another one uses it to report in which call a plugin
// crashed or hung.
//
// Thread-safety: the functions are called from any thread, concurrently.
#ifndef BACKPLANE_SDK_HOST_CALL_OBSERVER_H_
#define BACKPLANE_SDK_HOST_CALL_OBSERVER_H_

#include <atomic>

namespace backplane::host {

class Plugin;

struct CallObserver {
  // Called before and after a call through a plugin's table. `call` is a string constant such as "PJRT_Client_Compile".
  // Both functions must be short and must not call a plugin.
  void (*enter)(const Plugin& plugin, const char* call);
  void (*leave)(const Plugin& plugin);
};

// Sets the observer of the process, which must live until the process ends; null, the initial value, for none. Call it
// before other threads make calls.
void SetCallObserver(const CallObserver* observer);

namespace internal {

extern std::atomic<const CallObserver*> call_observer;

// Reports one call to the observer.
class ObservedCall {
 public:
  ObservedCall(const Plugin& plugin, const char* call)
      : observer_(call_observer.load(std::memory_order_acquire)), plugin_(plugin) {
    if (observer_ != nullptr) observer_->enter(plugin, call);
  }
  ~ObservedCall() {
    if (observer_ != nullptr) observer_->leave(plugin_);
  }
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

 private:
  const CallObserver* const observer_;
  const Plugin& plugin_;
};

}  // namespace internal
}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_CALL_OBSERVER_H_
