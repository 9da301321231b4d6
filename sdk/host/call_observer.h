// Hears of every call into a plugin: for a process that watches over another and has to say in which call a plugin
// crashed or hung.
//
// Thread-safety: the functions are called from any thread, several at a time.
#ifndef BACKPLANE_SDK_HOST_CALL_OBSERVER_H_
#define BACKPLANE_SDK_HOST_CALL_OBSERVER_H_

#include <atomic>

namespace backplane::host {

class Plugin;

struct CallObserver {
  // Before a call through a plugin's table, and after it. `call` is a text constant of this program such as
  // "PJRT_Client_Compile". Both are short, and call no plugin.
  void (*enter)(const Plugin& plugin, const char* call);
  void (*leave)(const Plugin& plugin);
};

// One for the whole process, which must live on; null for none, which is how a process begins. To be set before other
// threads make calls.
void SetCallObserver(const CallObserver* observer);

namespace internal {

extern std::atomic<const CallObserver*> call_observer;

// Tells the observer of one call.
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
