#include "sdk/host/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <map>
#include <memory>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "sdk/host/elf_file.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

constexpr size_t kMaxExtensions = 256;
// Before this minor version the elements of the chain did not begin with their size, so they cannot be read.
constexpr int kFirstMinorWithSizedChain = 45;
// Only this version has a table in another order; the next version restored the order. A call would reach another
// function.
constexpr int kDisorderedMinor = 56;

constexpr Slot kSlots[] = {
#define BP_SLOT(name, since) {#name, since, offsetof(PJRT_Api, name)},
#include "sdk/host/slots.def"
#undef BP_SLOT
};

constexpr const char* kExtensionNames[] = {"Gpu_Custom_Call",
                                           "Profiler",
                                           "Custom_Partitioner",
                                           "Stream",
                                           "Layouts",
                                           "FFI",
                                           "MemoryDescriptions",
                                           "Triton",
                                           "RawBuffer",
                                           "PhaseCompile",
                                           "Example",
                                           "Unknown",
                                           "CrossHostTransfers",
                                           "ExecutableMetadata",
                                           "Callback",
                                           "HostAllocator",
                                           "TpuTopology",
                                           "TpuExecutable",
                                           "Megascale",
                                           "Shardings",
                                           "AbiVersion",
                                           "Collectives",
                                           "MultiSlice",
                                           "HostMemoryAllocator",
                                           "XlaTransform"};

struct Registry {
  Mutex mutex;
  std::map<const PJRT_Api*, Plugin*> plugins ABSL_GUARDED_BY(mutex);
};
Registry& TheRegistry() {
  static Registry* registry = new Registry;  // plugins live until the process ends
  return *registry;
}

// Returns the dynamic linker's reason without the path at its beginning, which the message contains already.
std::string OpenError(const std::string& path) {
  const char* reason = dlerror();
  if (reason == nullptr) return "no reason given";
  absl::string_view text = reason;
  if (absl::StartsWith(text, absl::StrCat(path, ": "))) text.remove_prefix(path.size() + 2);
  return std::string(text);
}

}  // namespace

namespace internal {
std::atomic<const CallObserver*> call_observer{nullptr};
}  // namespace internal

void SetCallObserver(const CallObserver* observer) {
  internal::call_observer.store(observer, std::memory_order_release);
}

absl::Span<const Slot> AllSlots() { return kSlots; }

std::string ExtensionName(int type) {
  if (type >= 0 && static_cast<size_t>(type) < std::size(kExtensionNames)) return kExtensionNames[type];
  if (type == 0x42504C01) return "Backplane";
  return absl::StrCat("extension ", type);
}

absl::StatusOr<const Plugin*> Plugin::Load(const std::string& path) {
  if (absl::StrContains(path, '/')) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = OpenError(path);
    // The linker names only the first missing library. Lists all of them.
    if (absl::StatusOr<ElfFile> file = ReadElf(path); file.ok()) {
      if (std::vector<std::string> missing = FindMissingLibraries(*file); !missing.empty()) {
        return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be opened: it needs ",
                                                          absl::StrJoin(missing, ", "), ", which ",
                                                          missing.size() == 1 ? "is" : "are", " not installed"));
      }
    }
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be opened: ", reason));
  }
  using GetApi = const PJRT_Api* (*)();
  auto get_api = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    // The library is not unloaded, because its initializers have run and their effects are unknown.
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a PJRT plugin: it does not export GetPjrtApi"));
  }
  return FromApi(get_api(), path);
}

absl::StatusOr<const Plugin*> Plugin::FromApi(const PJRT_Api* api, absl::string_view name) {
  auto refuse = [&](const auto&... why) { return absl::FailedPreconditionError(absl::StrCat(name, ": ", why...)); };
  if (api == nullptr) return refuse("GetPjrtApi returned no table");
  constexpr size_t kHead = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (api->struct_size < kHead) {
    return refuse("the table says a size of ", api->struct_size, " bytes, expected at least ", kHead);
  }
  const int major = api->pjrt_api_version.major_version, minor = api->pjrt_api_version.minor_version;
  if (major != PJRT_API_MAJOR) {
    return refuse("speaks PJRT C API ", major, ".", minor, ", expected major version ", PJRT_API_MAJOR);
  }
  if (minor < kOldestMinor) {
    return refuse("speaks PJRT C API ", major, ".", minor, ", older than 0.", kOldestMinor,
                  ", the oldest that this host can use");
  }
  if (minor == kDisorderedMinor) {
    return refuse("speaks PJRT C API 0.", minor, ", whose table has an order that no other has; expected 0.", minor + 1,
                  " or newer, or an older one");
  }
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mutex);
  Plugin*& plugin = registry.plugins[api];
  if (plugin == nullptr) {
    std::unique_ptr<Plugin> opened(new Plugin(api, std::string(name)));
    if (!opened->Has(&PJRT_Api::PJRT_Error_Destroy) || !opened->Has(&PJRT_Api::PJRT_Error_Message) ||
        !opened->Has(&PJRT_Api::PJRT_Error_GetCode)) {
      registry.plugins.erase(api);
      return refuse(
          "lacks the functions that read errors (PJRT_Error_Destroy, PJRT_Error_Message, PJRT_Error_GetCode)");
    }
    plugin = opened.release();
  }
  return plugin;
}

Plugin::Plugin(const PJRT_Api* api, std::string name)
    : api_(api),
      name_(std::move(name)),
      major_(api->pjrt_api_version.major_version),
      minor_(api->pjrt_api_version.minor_version) {
  if (minor_ < kFirstMinorWithSizedChain) return;
  for (const PJRT_Extension_Base* e = api->extension_start; e != nullptr && extensions_.size() < kMaxExtensions;
       e = e->next) {
    for (const ExtensionInfo& seen : extensions_) {
      if (seen.base == e) return;
    }
    extensions_.push_back({static_cast<int>(e->type), e->struct_size, e});
  }
}

bool Plugin::HasSlot(const Slot& slot) const {
  if (slot.offset + sizeof(void*) > api_->struct_size) return false;
  return *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(api_) + slot.offset) != nullptr;
}

const PJRT_Extension_Base* Plugin::FindExtension(int type, size_t min_size) const {
  for (const ExtensionInfo& e : extensions_) {
    if (e.type == type) return e.struct_size >= min_size ? e.base : nullptr;
  }
  return nullptr;
}

absl::Status Plugin::Initialize() const {
  std::call_once(initialize_once_, [this] {
    BP_PJRT_ARGS(*this, a, PJRT_Plugin_Initialize);
    initialized_ = AddContext(BP_PJRT_CALL(*this, PJRT_Plugin_Initialize, a), absl::StrCat(name_, ": initialize"));
  });
  return initialized_;
}

absl::StatusOr<std::vector<NamedValue>> Plugin::Attributes() const {
  BP_RETURN_IF_ERROR(Initialize());
  BP_PJRT_ARGS(*this, a, PJRT_Plugin_Attributes);
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*this, PJRT_Plugin_Attributes, a));
  return CopyNamedValues(a.attributes, a.num_attributes);
}

absl::Status Plugin::MakeMissingError(absl::string_view function) const {
  return absl::UnimplementedError(
      absl::StrCat(function, ": ", name_, " (PJRT C API 0.", minor_, ") does not have this function"));
}

absl::Status Plugin::TakeError(PJRT_Error* error) const {
  if (error == nullptr) return absl::OkStatus();
  BP_PJRT_ARGS(*this, m, PJRT_Error_Message);
  m.error = error;
  const internal::ObservedCall observed(*this, "the functions that read an error");
  api_->PJRT_Error_Message(&m);
  BP_PJRT_ARGS(*this, c, PJRT_Error_GetCode);
  c.error = error;
  c.code = PJRT_Error_Code_UNKNOWN;
  // An error of this call is of no interest, but must be freed.
  auto destroy = [this](PJRT_Error* e) {
    BP_PJRT_ARGS(*this, d, PJRT_Error_Destroy);
    d.error = e;
    api_->PJRT_Error_Destroy(&d);
  };
  if (PJRT_Error* nested = api_->PJRT_Error_GetCode(&c); nested != nullptr) destroy(nested);
  auto code = static_cast<absl::StatusCode>(c.code);
  std::string message = m.message == nullptr ? std::string() : std::string(m.message, m.message_size);
  if (c.code <= PJRT_Error_Code_OK || c.code > PJRT_Error_Code_UNAUTHENTICATED) {
    message = absl::StrCat(message, " (the plugin gave this error the code ", static_cast<int>(c.code), ")");
    code = absl::StatusCode::kUnknown;
  }
  absl::Status status(code, message);
  if (Has(&PJRT_Api::PJRT_Error_ForEachPayload)) {
    BP_PJRT_ARGS(*this, p, PJRT_Error_ForEachPayload);
    p.error = error;
    p.user_arg = &status;
    p.visitor = [](const char* key, size_t key_size, const char* value, size_t value_size, void* user_arg) {
      static_cast<absl::Status*>(user_arg)->SetPayload(absl::string_view(key, key_size),
                                                       absl::Cord(absl::string_view(value, value_size)));
    };
    if (PJRT_Error* nested = api_->PJRT_Error_ForEachPayload(&p); nested != nullptr) destroy(nested);
  }
  destroy(error);
  return status;
}

}  // namespace backplane::host
