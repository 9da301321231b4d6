// Opens PJRT plugins: shared libraries that export GetPjrtApi. Any vendor's, of API minors 0.29 to the newest.
//
//   BP_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load("/path/to/pjrt_plugin.so"));
//   BP_ASSIGN_OR_RETURN(Client client, Client::Create(*plugin));        // client.h; initializes the plugin once
//
// Several plugins live side by side: each is opened with RTLD_NOW | RTLD_LOCAL, so their symbols do not meet. A plugin
// is never unloaded; a Plugin object lives until the process ends, and opening the same library again gives the same
// one.
//
// Opening runs the library's own initializers in this process. What is not trusted is asked in a child process first
// (probe.h).
//
// Thread-safety: everything from any thread.
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

// The oldest minor that can be served.
inline constexpr int kOldestMinor = 29;

// One function of the table.
struct Slot {
  const char* name;  // "PJRT_Client_Create"
  int since;         // the minor that added it; 0: there from the beginning
  size_t offset;     // in PJRT_Api, bytes
};
// All functions this build knows, in the order of the table.
absl::Span<const Slot> AllSlots();

// One element of a plugin's chain of extensions.
struct ExtensionInfo {
  int type = 0;            // a PJRT_Extension_Type, or a number this build does not know
  size_t struct_size = 0;  // bytes, as the plugin says
  const PJRT_Extension_Base* base = nullptr;
};
// "Layouts" for PJRT_Extension_Type_Layouts; "extension 99" for a number that is not known.
std::string ExtensionName(int type);

class Plugin {
 public:
  // Opens the library. A path without '/' is looked for the way the dynamic linker does. Errors: NOT_FOUND when there
  // is no such file; FAILED_PRECONDITION when it cannot be opened, which says the libraries it needs and that are
  // missing, has no GetPjrtApi, or speaks another major or a minor below kOldestMinor.
  static absl::StatusOr<const Plugin*> Load(const std::string& path);
  // Over a table that is already in the process: a plugin linked in, or a layer over another plugin's table. `name`
  // stands in messages. The same checks and the same object for the same table.
  static absl::StatusOr<const Plugin*> FromApi(const PJRT_Api* api, absl::string_view name);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // The path it was opened from, or the name given.
  const std::string& name() const { return name_; }
  int major_version() const { return major_; }
  int minor_version() const { return minor_; }
  // Bytes of the table; slots beyond are functions the plugin does not have.
  size_t table_size() const { return api_->struct_size; }

  // The table itself, for callers that make calls of their own. Read a slot only when Has says so.
  const PJRT_Api& api() const { return *api_; }
  bool HasSlot(const Slot& slot) const;
  template <typename Fn>
  bool Has(Fn PJRT_Api::*slot) const {
    const char* place = reinterpret_cast<const char*>(&(api_->*slot));
    return static_cast<size_t>(place - reinterpret_cast<const char*>(api_)) + sizeof(Fn) <= api_->struct_size &&
           api_->*slot != nullptr;
  }

  // The chain as it was when the plugin was opened, at most 256 elements; a chain that comes back to itself is cut.
  const std::vector<ExtensionInfo>& extensions() const { return extensions_; }
  // The first element of this type as the struct T, or null when there is none or it is smaller than `min_size` bytes.
  // Give the size up to the last field you read.
  template <typename T>
  const T* Extension(PJRT_Extension_Type type, size_t min_size) const {
    return reinterpret_cast<const T*>(FindExtension(type, min_size));
  }

  // PJRT_Plugin_Initialize, once in the life of the process; later calls return the first outcome. Client::Create calls
  // it.
  absl::Status Initialize() const;
  // PJRT_Plugin_Attributes. Initializes first: some plugins fill them in there.
  absl::StatusOr<std::vector<NamedValue>> Attributes() const;

  // The error as a Status with its payloads; frees it. Null is OK. Messages keep the plugin's words.
  absl::Status TakeError(PJRT_Error* error) const;

  // One call through the table: UNIMPLEMENTED when the plugin does not have the function. See BP_PJRT_CALL.
  template <typename Args>
  absl::Status Call(PJRT_Error* (*PJRT_Api::*slot)(Args*), const char* name, Args* args) const {
    if (!Has(slot)) return Missing(name);
    PJRT_Error* error;
    {
      internal::ObservedCall observed(*this, name);
      error = (api_->*slot)(args);
    }
    return TakeError(error);
  }
  // UNIMPLEMENTED: the plugin has no function of this name.
  absl::Status Missing(absl::string_view function) const;

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

// BP_PJRT_ARGS(plugin, a, PJRT_Client_Destroy): zeroed arguments `a` of that call, with the size this plugin knows.
#define BP_PJRT_ARGS(plugin, a, fn) \
  fn##_Args a{};                    \
  a.struct_size = ::backplane::host::StructSizeAt((plugin).minor_version(), &a, fn##_Args_STRUCT_SIZE)
// BP_PJRT_CALL(plugin, PJRT_Client_Destroy, a): the call, as absl::Status.
#define BP_PJRT_CALL(plugin, fn, a) (plugin).Call(&PJRT_Api::fn, #fn, &(a))

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_LOADER_H_
