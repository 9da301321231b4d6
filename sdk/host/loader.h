// Opens PJRT plugins: shared libraries that export GetPjrtApi, of any vendor, with an API minor version from 0.29 to
// the newest.
//
//   BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load("/path/to/pjrt_plugin.so"));
//   BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin));        // client.h; initializes the plugin once
//
// Several plugins can be open at the same time: each is opened with RTLD_NOW | RTLD_LOCAL, so their symbols do not
// interfere. A plugin is never unloaded. A Plugin object lives until the process ends, and opening the same library
// again returns the same object.
//
// Opening a library runs its initializers in this process. A library that is not trusted can be opened in a child
// process first (probe.h).
//
// Thread-safe.
#ifndef BACKPLANE_SDK_HOST_LOADER_H_
#define BACKPLANE_SDK_HOST_LOADER_H_

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"
#include "sdk/host/call_observer.h"
#include "sdk/host/named_value.h"
#include "sdk/host/struct_sizes.h"

namespace backplane::host {

// The oldest supported minor version.
inline constexpr int kOldestMinor = 29;

// One function of the table.
struct Slot {
  const char* name;  // "PJRT_Client_Create"
  int since;         // the minor version that added it; 0: part of the first version
  size_t offset;     // in PJRT_Api, bytes
};
// Returns all functions that this build knows, in the order of the table.
absl::Span<const Slot> AllSlots();

// One element of a plugin's chain of extensions.
struct ExtensionInfo {
  int type = 0;            // a PJRT_Extension_Type, or an unknown number
  size_t struct_size = 0;  // in bytes, as the plugin states it
  const PJRT_Extension_Base* base = nullptr;
};
// Returns "Layouts" for PJRT_Extension_Type_Layouts and so on; "extension 99" for an unknown number.
std::string ExtensionName(int type);

class Plugin {
 public:
  // Opens the library. A path without '/' is searched for as the dynamic linker does. Returns NOT_FOUND if there is no
  // such file. Returns FAILED_PRECONDITION if the library cannot be opened (the message lists missing libraries), has
  // no GetPjrtApi, has another major version, or a minor version below kOldestMinor.
  static absl::StatusOr<const Plugin*> Load(const std::string& path);
  // Returns the plugin of a table that is already in the process: that of a plugin which is linked in, or that of a
  // layer. `name` is used in messages. Makes the same checks, and returns the same object for the same table.
  static absl::StatusOr<const Plugin*> FromApi(const PJRT_Api* api, absl::string_view name);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // The path of the library, or the given name.
  const std::string& name() const { return name_; }
  int major_version() const { return major_; }
  int minor_version() const { return minor_; }
  // The size of the table in bytes. The plugin does not have functions beyond it.
  size_t table_size() const { return api_->struct_size; }

  // The table, for direct calls. Only read slots for which Has returns true.
  const PJRT_Api& api() const { return *api_; }
  bool HasSlot(const Slot& slot) const;
  template <typename Fn>
  bool Has(Fn PJRT_Api::*slot) const {
    const char* field = reinterpret_cast<const char*>(&(api_->*slot));
    return static_cast<size_t>(field - reinterpret_cast<const char*>(api_)) + sizeof(Fn) <= api_->struct_size &&
           api_->*slot != nullptr;
  }

  // The chain of extensions when the plugin was opened, at most 256 elements. A cyclic chain ends where it would
  // repeat.
  const std::vector<ExtensionInfo>& extensions() const { return extensions_; }
  // Returns the first extension of this type as the struct T. Null if there is none or if it is smaller than `min_size`
  // bytes, which must cover the last field that you read.
  template <typename T>
  const T* Extension(PJRT_Extension_Type type, size_t min_size) const {
    return reinterpret_cast<const T*>(FindExtension(type, min_size));
  }

  // Calls PJRT_Plugin_Initialize, once per process; later calls return the first result. Client::Create calls it.
  absl::Status Initialize() const;
  // Calls PJRT_Plugin_Attributes, after Initialize, because some plugins need that.
  absl::StatusOr<std::vector<NamedValue>> Attributes() const;

  // Converts the error to a Status with its payloads and destroys it. Null is OK. The message is the plugin's.
  absl::Status TakeError(PJRT_Error* error) const;

  // Makes one call through the table. Returns UNIMPLEMENTED if the plugin does not have the function. See BP_PJRT_CALL.
  template <typename Args>
  absl::Status Call(PJRT_Error* (*PJRT_Api::*slot)(Args*), const char* name, Args* args) const {
    if (!Has(slot)) return MakeMissingError(name);
    PJRT_Error* error;
    {
      internal::ObservedCall observed(*this, name);
      error = (api_->*slot)(args);
    }
    return TakeError(error);
  }
  // Returns UNIMPLEMENTED: the plugin has no function of this name.
  absl::Status MakeMissingError(absl::string_view function) const;

 private:
  Plugin(const PJRT_Api* api, std::string name);
  const PJRT_Extension_Base* FindExtension(int type, size_t min_size) const;

  const PJRT_Api* const api_;
  const std::string name_;
  const int major_, minor_;
  std::vector<ExtensionInfo> extensions_;
  mutable std::once_flag initialize_once_;
  mutable absl::Status initialized_;
};

// BP_PJRT_ARGS(plugin, a, PJRT_Client_Destroy) declares zeroed arguments `a` of that call, with the struct size that
// the plugin knows.
#define BP_PJRT_ARGS(plugin, a, fn) \
  fn##_Args a{};                    \
  a.struct_size = ::backplane::host::StructSizeAt((plugin).minor_version(), &a, fn##_Args_STRUCT_SIZE)
// BP_PJRT_CALL(plugin, PJRT_Client_Destroy, a) makes the call and returns an absl::Status.
#define BP_PJRT_CALL(plugin, fn, a) (plugin).Call(&PJRT_Api::fn, #fn, &(a))

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_LOADER_H_
