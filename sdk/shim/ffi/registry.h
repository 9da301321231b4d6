// The handlers and types that hosts register, and the call sites that use them.
//
// A handler is identified by target and platform; platforms are compared without case, and "Host" is "cpu".
// Thread-safe. Handlers are never removed, because the host keeps their pointers as long as the process lives.
#ifndef BACKPLANE_SDK_SHIM_FFI_REGISTRY_H_
#define BACKPLANE_SDK_SHIM_FFI_REGISTRY_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/backplane_c_api.h"
#include "api/ffi_c_api.h"
#include "base/mutex.h"
#include "sdk/backend/custom_call.h"

namespace backplane::shim::ffi {

struct Handler {
  XLA_FFI_Handler_Bundle bundle{};  // typed
  void* untyped = nullptr;          // or the old form: void(void* out, const void** in)
  bool operator==(const Handler& o) const {
    return bundle.instantiate == o.bundle.instantiate && bundle.prepare == o.bundle.prepare &&
           bundle.initialize == o.bundle.initialize && bundle.execute == o.bundle.execute && untyped == o.untyped;
  }
};

using Deleter = void (*)(void*);

class Registry : public CustomCallRegistry {
 public:
  // The platform of this plugin, whose handlers Has and Instantiate find.
  void SetPlatform(absl::string_view platform);

  // Returns AlreadyExists if another handler has the name. The same handler may be registered again, also with more or
  // fewer of its stages; the union of the stages is used.
  absl::Status Register(absl::string_view target, absl::string_view platform, const Handler& handler);
  absl::Status RegisterForThisPlatform(absl::string_view target, const Handler& handler);

  // Assigns an id if `id` is 0. Otherwise uses the caller's id; returns AlreadyExists if the name or the id belongs to
  // another pair.
  absl::Status RegisterType(absl::string_view name, int64_t* id, Deleter deleter);
  // Returns NotFound if no type has the id.
  absl::StatusOr<Deleter> FindType(int64_t id) const;

  // Sets the function that runs Python callables, and the type of the table of callables (0: the only entry of user
  // data).
  void SetTrampoline(Backplane_Callback_Trampoline trampoline, int64_t type_id);
  Backplane_Callback_Trampoline trampoline() const { return trampoline_.load(std::memory_order_acquire); }
  int64_t callback_type_id() const { return callback_type_id_.load(std::memory_order_acquire); }

  bool Has(const std::string& target) const override;
  absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec& spec) override;

 private:
  mutable Mutex mu_;
  std::string platform_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, std::string>, Handler> handlers_ ABSL_GUARDED_BY(mu_);  // by platform, target
  std::map<std::string, int64_t> type_ids_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Deleter> deleters_ ABSL_GUARDED_BY(mu_);
  int64_t next_type_ ABSL_GUARDED_BY(mu_) = 1;
  std::atomic<Backplane_Callback_Trampoline> trampoline_{nullptr};
  std::atomic<int64_t> callback_type_id_{0};
};

// The registry of this plugin: the one in Plugin().services.
Registry& TheRegistry();

// call_site.cc: creates a site of a typed or an untyped handler.
absl::StatusOr<std::unique_ptr<CustomCallSite>> MakeTypedSite(Registry& registry, const Handler& handler,
                                                              const CustomCallSpec& spec);
std::unique_ptr<CustomCallSite> MakeUntypedSite(void* function, const std::string& target);
// python_callback.cc: creates a site for a target that runs a Python callable. Returns null for other targets.
absl::StatusOr<std::unique_ptr<CustomCallSite>> MakePythonSite(Registry& registry, const CustomCallSpec& spec);
bool IsPythonTarget(absl::string_view target);

}  // namespace backplane::shim::ffi

#endif  // BACKPLANE_SDK_SHIM_FFI_REGISTRY_H_
