// Owners of objects of the C ABI, used by the classes of this folder. Not part of the public interface.
#ifndef BACKPLANE_SDK_HOST_HANDLE_H_
#define BACKPLANE_SDK_HOST_HANDLE_H_

#include <memory>
#include <string>
#include <utility>

#include "api/pjrt_c_api.h"
#include "sdk/host/loader.h"

namespace backplane::host::internal {

// Returns a string of a plugin, which may be null if it is empty.
inline std::string CopyString(const char* data, size_t size) {
  return data == nullptr ? std::string() : std::string(data, size);
}

// Destroy one object each. An error is dropped, because there is no caller to report it to.
void Destroy(const Plugin& plugin, PJRT_Client* object);
void Destroy(const Plugin& plugin, PJRT_Event* object);
void Destroy(const Plugin& plugin, PJRT_Buffer* object);
void Destroy(const Plugin& plugin, PJRT_Executable* object);
void Destroy(const Plugin& plugin, PJRT_LoadedExecutable* object);
void Destroy(const Plugin& plugin, PJRT_TopologyDescription* object);
void Destroy(const Plugin& plugin, PJRT_ExecuteContext* object);
void Destroy(const Plugin& plugin, PJRT_AsyncHostToDeviceTransferManager* object);
void Destroy(const Plugin& plugin, PJRT_CopyToDeviceStream* object);
void Destroy(const Plugin& plugin, PJRT_AsyncTrackingEvent* object);

// Owns one object. `keep` must outlive the object: the client, or nothing.
template <typename T>
class Handle {
 public:
  Handle() = default;
  Handle(const Plugin& plugin, std::shared_ptr<const void> keep, T* object)
      : plugin_(&plugin), keep_(std::move(keep)), object_(object) {}
  Handle(Handle&& other) noexcept
      : plugin_(other.plugin_), keep_(std::move(other.keep_)), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      plugin_ = other.plugin_;
      keep_ = std::move(other.keep_);
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Handle() { reset(); }

  void reset() {
    if (object_ != nullptr) Destroy(*plugin_, std::exchange(object_, nullptr));
    keep_.reset();
  }
  // Passes ownership to the caller, who must destroy the object before the client.
  T* release() {
    T* object = std::exchange(object_, nullptr);
    keep_.reset();
    return object;
  }
  T* get() const { return object_; }
  const Plugin& plugin() const { return *plugin_; }
  const std::shared_ptr<const void>& keep() const { return keep_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Plugin* plugin_ = nullptr;
  std::shared_ptr<const void> keep_;
  T* object_ = nullptr;
};

}  // namespace backplane::host::internal

#endif  // BACKPLANE_SDK_HOST_HANDLE_H_
