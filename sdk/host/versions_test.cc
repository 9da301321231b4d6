// Tests every minor version from the oldest that is supported to ours, with this host on one side and the shim of our
// plugins on the other.
//
// A table in between behaves like that of a plugin of that version: it has the length and each struct has the size of
// that version, errors can be read only through the table, and there is no chain of extensions in a readable form. So
// the host is tested with a plugin of each version, and the shim with a host of each version. The versions come from
// api/CHANGELOG.md and the newest snapshot, not from the code under test.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/client.h"
#include "sdk/host/test_macros.h"
#include "sdk/testing/api_calls.h"

namespace backplane::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Versions of functions and fields

struct Field {
  std::string name;
  size_t end;  // offset of its end in the struct
};
struct Struct {
  size_t size = 0;  // published
  std::vector<Field> fields;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(std::string(BACKPLANE_SOURCE_DIR) + "/api/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::map<std::string, Struct>& Newest() {
  static const auto* all = [] {
    auto* structs = new std::map<std::string, Struct>;
    std::istringstream lines(ReadAll("abi/pjrt_0_" + std::to_string(PJRT_API_MINOR) + ".txt"));
    Struct* current = nullptr;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind, name, first, second;
      words >> kind >> name >> first >> second;
      if (kind == "struct") {
        current = &(*structs)[name];
        if (!second.empty() && isdigit(static_cast<unsigned char>(second[0]))) current->size = std::stoul(second);
      } else if (kind == "field" && current != nullptr) {
        current->fields.push_back({name, std::stoul(first) + std::stoul(second)});
      }
    }
    return structs;
  }();
  return *all;
}

// Returns the text of each minor version's entry, in one line.
const std::map<int, std::string>& Changes() {
  static const auto* all = [] {
    auto* changes = new std::map<int, std::string>;
    std::istringstream lines(ReadAll("CHANGELOG.md"));
    std::string* entry = nullptr;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("## 0.", 0) == 0) {
        entry = &(*changes)[std::stoi(line.substr(5))];
      } else if (entry != nullptr) {
        *entry += line.substr(line.find_first_not_of(' ') == std::string::npos ? 0 : line.find_first_not_of(' ')) + " ";
      }
    }
    return changes;
  }();
  return *all;
}

// Some structs had a published size for a while that excluded their last field.
struct Outdated {
  const char* type;
  int until;          // the first minor with the right size
  const char* last;   // the field at which the published size ended
  bool host_says_it;  // whether hosts pass this size to plugins of that version; other plugins accept the complete size
                      // as well
};
constexpr Outdated kOutdated[] = {{"PJRT_Plugin_Attributes_Args", 69, "attributes", true},
                                  {"PJRT_Device_AddressableMemories_Args", 46, "memories", false},
                                  {"PJRT_Client_TopologyDescription_Args", 57, "client", false}};
size_t SaidThen(const Outdated& o) {
  for (const Field& f : Newest().at(o.type).fields) {
    if (f.name == o.last) return f.end;
  }
  return 0;
}

// Returns the size of a struct at this minor version: up to the first field that was added later.
size_t SizeThen(const std::string& type, int minor) {
  const Struct& newest = Newest().at(type);
  size_t size = newest.size;
  const std::string grows = "`" + type + "` grows by `";
  for (auto entry = Changes().upper_bound(minor); entry != Changes().end(); ++entry) {
    const size_t at = entry->second.find(grows);
    if (at == std::string::npos) continue;
    const size_t begin = at + grows.size();
    const std::string field = entry->second.substr(begin, entry->second.find('`', begin) - begin);
    for (size_t i = 1; i < newest.fields.size(); ++i) {
      if (newest.fields[i].name == field) size = std::min(size, newest.fields[i - 1].end);
    }
  }
  return size;
}

// Returns the size that a host should pass to a plugin of that minor version.
size_t SizeToSay(const std::string& type, int minor) {
  for (const Outdated& o : kOutdated) {
    if (o.host_says_it && type == o.type && minor < o.until) return SaidThen(o);
  }
  return SizeThen(type, minor);
}

TEST(Versions, EverySlotIsNamedWhereItCame) {
  int first = 0;
  for (const Slot& slot : AllSlots()) {
    if (slot.since == 0) {
      ++first;
      continue;
    }
    ASSERT_TRUE(Changes().count(slot.since)) << slot.name;
    EXPECT_THAT(Changes().at(slot.since), HasSubstr("`" + std::string(slot.name) + "`"));
  }
  EXPECT_EQ(first, 90);
  EXPECT_EQ(Changes().begin()->first, kOldestMinor);
  EXPECT_EQ(Changes().rbegin()->first, PJRT_API_MINOR);
}

TEST(Versions, SizesAtEveryMinor) {
  for (int minor = kOldestMinor; minor <= PJRT_API_MINOR; ++minor) {
#define BP_COMPARE(type)                                                                                         \
  EXPECT_EQ(StructSizeAt(minor, static_cast<const type*>(nullptr), type##_STRUCT_SIZE), SizeToSay(#type, minor)) \
      << #type << " at 0." << minor;
    BP_COMPARE(PJRT_ExecuteOptions)
#define BP_SLOT(name, since) BP_COMPARE(name##_Args)
#include "sdk/host/slots.def"
#undef BP_SLOT
#undef BP_COMPARE
  }
}

// ---- The table in between

// The minor version that both sides see. One at a time.
struct Wire {
  int minor = 0;
  struct Size {
    size_t host_says = 0, has = 0, plugin_hears = 0;
  };
  Size sizes[256];  // of the args, by slot
  size_t options_size = 0;
  std::atomic<int> calls{0};
};
Wire g_wire;

constexpr char kCanary = 0x5a;
constexpr size_t kCanaries = 96;

// A struct as the other side sees it: its bytes, followed by bytes that it must not touch.
class SizedCopy {
 public:
  SizedCopy(const void* from, size_t size) : size_(size), bytes_(std::max(size, sizeof(size_t)) + kCanaries, kCanary) {
    memcpy(bytes_.data(), from, size);
  }
  ~SizedCopy() {
    for (size_t i = size_; i < bytes_.size(); ++i) {
      if (bytes_[i] == kCanary) continue;
      ADD_FAILURE() << "byte " << i << " was written to in a struct of " << size_ << " bytes at 0." << g_wire.minor;
      return;
    }
  }
  void CopyTo(void* to) const { memcpy(to, bytes_.data(), size_); }
  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(bytes_.data());
  }

 private:
  const size_t size_;
  std::vector<char> bytes_;  // aligned as whatever new gives
};

// Until 0.107 only its own plugin can read an error.
struct Opaque {
  uint64_t no_table = 0x5a5a5a5a5a5a5a5a;
  PJRT_Error* real;
};
bool ErrorsAreOpaque() { return g_wire.minor < 107; }
PJRT_Error* Shown(PJRT_Error* error) {
  if (error == nullptr || !ErrorsAreOpaque()) return error;
  return reinterpret_cast<PJRT_Error*>(new Opaque{.real = error});
}

struct Waiting {
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
};

template <typename R, typename Args>
R Pass(R (*PJRT_Api::*slot)(Args*), const char* name, int index, Args* args) {
  ++g_wire.calls;
  const Wire::Size& sizes = g_wire.sizes[index];
  const size_t size = sizes.has;
  EXPECT_EQ(args->struct_size, sizes.host_says) << name << ": what the host says to a plugin of 0." << g_wire.minor;
  SizedCopy copy(args, size);
  Args* inner = copy.template As<Args>();
  inner->struct_size = sizes.plugin_hears;
  [[maybe_unused]] Opaque* opaque = nullptr;
  if constexpr (requires { inner->error; }) {
    if constexpr (std::is_convertible_v<decltype(inner->error), const PJRT_Error*>) {
      if (ErrorsAreOpaque() && inner->error != nullptr && std::string(name).find("PJRT_Error_") == 0) {
        opaque = reinterpret_cast<Opaque*>(const_cast<PJRT_Error*>(inner->error));
        inner->error = opaque->real;
      }
    }
  }
  if constexpr (std::is_void_v<R>) {
    (GetPjrtApi()->*slot)(inner);
    copy.CopyTo(args);
    args->struct_size = sizes.host_says;
    if constexpr (requires { args->error; }) {
      if (opaque != nullptr) args->error = reinterpret_cast<PJRT_Error*>(opaque);
    }
    if constexpr (std::is_same_v<Args, PJRT_Error_Destroy_Args>) delete opaque;
  } else {
    std::optional<SizedCopy> options;
    if constexpr (std::is_same_v<Args, PJRT_LoadedExecutable_Execute_Args>) {
      EXPECT_EQ(inner->options->struct_size, g_wire.options_size) << "at 0." << g_wire.minor;
      options.emplace(inner->options, g_wire.options_size);
      inner->options = options->As<PJRT_ExecuteOptions>();
    }
    Waiting* waiting = nullptr;
    if constexpr (std::is_same_v<Args, PJRT_Event_OnReady_Args>) {
      waiting = new Waiting{inner->callback, inner->user_arg};
      inner->user_arg = waiting;
      inner->callback = [](PJRT_Error* error, void* user_arg) {
        const std::unique_ptr<Waiting> own(static_cast<Waiting*>(user_arg));
        own->callback(Shown(error), own->user_arg);
      };
    }
    const Args before = [&] {
      Args whole{};
      memcpy(static_cast<void*>(&whole), args, size);
      return whole;
    }();
    R result = (GetPjrtApi()->*slot)(inner);
    if (result != nullptr) delete waiting;
    copy.CopyTo(args);
    // The host must not see what was changed for the call.
    args->struct_size = before.struct_size;
    if constexpr (std::is_same_v<Args, PJRT_LoadedExecutable_Execute_Args>) args->options = before.options;
    if constexpr (std::is_same_v<Args, PJRT_Event_OnReady_Args>) {
      args->callback = before.callback;
      args->user_arg = before.user_arg;
    }
    if constexpr (requires { args->error; }) {
      if (opaque != nullptr) args->error = before.error;
    }
    return Shown(result);
  }
}

enum SlotIndex {
#define BP_SLOT(name, since) kIndex_##name,
#include "sdk/host/slots.def"
#undef BP_SLOT
};

Wire::Size SizesAt(const std::string& type, int minor) {
  Wire::Size s;
  s.host_says = SizeToSay(type, minor);
  s.has = s.plugin_hears = SizeThen(type, minor);
  for (const Outdated& o : kOutdated) {
    if (type == o.type && minor < o.until) s.plugin_hears = SaidThen(o);
  }
  return s;
}

// Never freed, like plugins.
const PJRT_Api* TableAt(int minor) {
  g_wire.minor = minor;
  g_wire.calls = 0;
  g_wire.options_size = SizeThen("PJRT_ExecuteOptions", minor);
  static auto* const tables = new std::vector<std::unique_ptr<char[]>>;
  char* const bytes = tables->emplace_back(new char[sizeof(PJRT_Api)]).get();
  memset(bytes, kCanary, sizeof(PJRT_Api));  // slots beyond the end are invalid addresses
  auto* table = reinterpret_cast<PJRT_Api*>(bytes);
  table->struct_size = offsetof(PJRT_Api, PJRT_Error_Destroy);
  table->pjrt_api_version = GetPjrtApi()->pjrt_api_version;
  table->pjrt_api_version.minor_version = minor;
  table->extension_start = nullptr;
  if (minor < 45) {
    // The elements of the chain had another form, so reading one accesses a page that does not exist.
    table->extension_start =
        static_cast<PJRT_Extension_Base*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
#define BP_SLOT(name, since)                                                                           \
  g_wire.sizes[kIndex_##name] = SizesAt(#name "_Args", minor);                                         \
  if (since <= minor) {                                                                                \
    table->name = [](name##_Args* args) { return Pass(&PJRT_Api::name, #name, kIndex_##name, args); }; \
    table->struct_size = offsetof(PJRT_Api, name) + sizeof(void*);                                     \
  }
#include "sdk/host/slots.def"
#undef BP_SLOT
  return table;
}

// From this minor version on the function works; before it returns UNIMPLEMENTED.
template <typename T>
void CameWith(int since, const char* function, const absl::StatusOr<T>& answer) {
  if (g_wire.minor >= since) {
    EXPECT_TRUE(answer.ok()) << function << ": " << answer.status();
    return;
  }
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnimplemented) << function << ": " << answer.status();
  EXPECT_THAT(answer.status().message(), HasSubstr("0." + std::to_string(g_wire.minor))) << function;
}

void LiveAt(const Plugin& plugin) {
  EXPECT_TRUE(plugin.extensions().empty());
  ASSERT_OK_AND_ASSIGN(std::vector<NamedValue> attributes, plugin.Attributes());
  EXPECT_FALSE(attributes.empty());
  ASSERT_OK_AND_ASSIGN(Client client, Client::Create(plugin, {NamedValue("devices", 2)}));
  ASSERT_OK_AND_ASSIGN(std::string platform, client.PlatformName());
  EXPECT_FALSE(platform.empty());
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, client.AddressableDevices());
  ASSERT_EQ(devices.size(), 2u);
  ASSERT_OK_AND_ASSIGN(Memory memory, devices[0].DefaultMemory());
  ASSERT_OK_AND_ASSIGN(std::vector<Memory> memories, devices[0].AddressableMemories());
  EXPECT_FALSE(memories.empty());
  CameWith(36, "topology", client.GetTopology());

  // Errors have their code and message in every version.
  const absl::Status nowhere = client.LookupDevice(4711).status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kInvalidArgument) << nowhere;
  EXPECT_THAT(nowhere.message(), HasSubstr("4711"));

  ASSERT_OK_AND_ASSIGN(LoadedExecutable donate, client.Compile({"mlir", testing::kDonate}));
  ASSERT_OK_AND_ASSIGN(Executable executable, donate.GetExecutable());
  ASSERT_OK_AND_ASSIGN(std::vector<ArrayShape> shapes, executable.OutputShapes());
  EXPECT_EQ(shapes.size(), 1u);
  CameWith(40, "memory stats", executable.MemoryStats());
  CameWith(35, "fingerprint", executable.Fingerprint());
  CameWith(87, "compile options", executable.SerializedCompileOptions());
  CameWith(102, "parameter memories", executable.ParameterMemoryKinds());

  ASSERT_OK_AND_ASSIGN(Buffer x, client.ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(Buffer y, client.ToDevice(HostArray::Of<float>({4}, {1, 1, 1, 1}), devices[0]));
  ExecuteOptions keep;
  keep.non_donatable = {0};
  keep.launch_id = 3;
  CameWith(39, "non-donatable arguments", donate.Execute({&x, &y}, keep));
  ASSERT_OK_AND_ASSIGN(bool deleted, x.IsDeleted());
  EXPECT_FALSE(deleted);
  ExecuteOptions events;
  events.want_events = true;
  ASSERT_OK_AND_ASSIGN(ExecuteResult result, donate.Execute(std::vector<std::vector<const Buffer*>>{{&x, &y}}, events));
  ASSERT_OK(result.done.at(0).Await());
  ASSERT_OK_AND_ASSIGN(deleted, x.IsDeleted());
  EXPECT_TRUE(deleted);
  ASSERT_OK_AND_ASSIGN(HostArray sum, result.outputs[0][0].ToHost());
  EXPECT_THAT(sum.Values<float>(), ElementsAre(2, 3, 4, 5));
  // An error that a callback reports.
  EXPECT_FALSE(x.ToHost().ok());
  EXPECT_FALSE(x.Await().ok());

  CameWith(32, "copy to a memory", y.CopyToMemory(memory));
  const int64_t dims[] = {4};
  alignas(64) float values[4] = {1, 2, 3, 4};
  CameWith(33, "view", client.View({values, PJRT_Buffer_Type_F32, dims}, [] {}));
  const ArrayShape shape{PJRT_Buffer_Type_F32, {4}};
  CameWith(60, "transfer", client.StartTransfer({shape}, memory));
  CameWith(69, "uninitialized", client.Uninitialized(shape));
  CameWith(77, "alias", client.AliasBuffer(shape, memory));
  CameWith(82, "error buffer", client.ErrorBuffer(absl::DataLossError("torn"), shape, memory));
  CameWith(88, "dependency", y.DonateWithControlDependency());
  CameWith(89, "event", client.CreateEvent());
  EXPECT_GT(g_wire.calls, 40);
}

TEST(Versions, EveryMinorIsServedOnBothSides) {
  for (int minor = kOldestMinor; minor <= PJRT_API_MINOR; ++minor) {
    SCOPED_TRACE("0." + std::to_string(minor));
    const std::string name = "a plugin of 0." + std::to_string(minor);
    absl::StatusOr<const Plugin*> plugin = Plugin::FromApi(TableAt(minor), name);
    if (minor == 56) {
      EXPECT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(plugin.status().message(), HasSubstr("whose table has an order that no other has"));
      continue;
    }
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    LiveAt(**plugin);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace backplane::host
