// From opening the plugin to the end of the process, and side effects of the plugin on its process.
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cfenv>
#include <fstream>
#include <iterator>
#include <thread>

#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

extern char** environ;

namespace backplane::conformance {
namespace {

void RunOnce(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  k.Require(RunF32(k, add, {{1, 2, 3, 4}, {10, 20, 30, 40}}) == std::vector<float>({11, 22, 33, 44}),
            "an addition gives wrong results");
  Destroy(k, add);
}

void InitializeOnce(Kit& k) { k.Initialize(); }

void InitializeTwice(Kit& k) {
  k.Initialize();
  KIT_ARGS(k, a, PJRT_Plugin_Initialize);
  KIT_OK(k, PJRT_Plugin_Initialize, a);
  RunOnce(k);
}

std::vector<host::NamedValue> Attributes(Kit& k) {
  k.Initialize();
  KIT_ARGS(k, a, PJRT_Plugin_Attributes);
  KIT_OK(k, PJRT_Plugin_Attributes, a);
  auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
  k.Require(values.ok(), "PJRT_Plugin_Attributes: ", values.status().message());
  return *values;
}

void PluginAttributes(Kit& k) {
  const auto first = Attributes(k), second = Attributes(k);
  k.Require(first.size() == second.size(), "two calls give ", first.size(), " and ", second.size(), " attributes");
  std::string names;
  for (size_t i = 0; i < first.size(); ++i) {
    k.Require(!first[i].name.empty(), "attribute ", i, " has no name");
    k.Require(first[i].name == second[i].name, "two calls give different attributes");
    absl::StrAppend(&names, i == 0 ? "" : ", ", first[i].name, "=", first[i].FormatValue());
  }
  k.Note(names);
}

void StablehloVersions(Kit& k) {
  const auto values = Attributes(k);
  std::vector<int64_t> versions[2];
  const char* names[2] = {"stablehlo_minimum_version", "stablehlo_current_version"};
  for (int i = 0; i < 2; ++i) {
    const host::NamedValue* value = host::Find(values, names[i]);
    if (value == nullptr) k.Unsupported("no attribute ", names[i], ": hosts then send a version of their own choice");
    const auto* list = std::get_if<std::vector<int64_t>>(&value->value);
    k.Require(list != nullptr && list->size() == 3, names[i], " is no list of three int64");
    versions[i] = *list;
  }
  k.Require(versions[0] <= versions[1], "the minimum version is newer than the current one");
}

void CreateClient(Kit& k) { k.client(); }

void UnknownOption(Kit& k) {
  k.Initialize();
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "no_such_option_of_any_platform";
  option.name_size = std::strlen(option.name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = 1;
  option.value_size = 1;
  KIT_ARGS(k, a, PJRT_Client_Create);
  a.create_options = &option;
  a.num_options = 1;
  const Err e = KIT_FAILS(k, PJRT_Client_Create, a, "an unknown create option");
  k.Require(e.message.find("no_such_option_of_any_platform") != std::string::npos,
            "the message does not name the option: ", e.message);
  RunOnce(k);
}

void TwoClients(Kit& k) {
  PJRT_Client* other = k.NewClient();
  RunOnce(k);
  KIT_ARGS(k, a, PJRT_Client_PlatformName);
  a.client = other;
  KIT_OK(k, PJRT_Client_PlatformName, a);
  Destroy(k, other);
  RunOnce(k);
}

void ClientsInARow(Kit& k) {
  for (int i = 0; i < 4; ++i) {
    PJRT_Client* client = k.NewClient();
    k.Require(client != nullptr, "no client");
    Destroy(k, client);
  }
  RunOnce(k);
}

void PlatformName(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_PlatformName);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_PlatformName, a);
  k.Require(a.platform_name != nullptr && a.platform_name_size > 0 && a.platform_name_size < 256,
            "the platform has no name");
  const std::string name(a.platform_name, a.platform_name_size);
  for (char c : name)
    k.Require(c > ' ' && c < 127, "the platform's name '", name, "' has a character that no name has");
  k.Note(name);
}

void PlatformVersion(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_PlatformVersion);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_PlatformVersion, a);
  k.Require(a.platform_version != nullptr && a.platform_version_size > 0,
            "the platform has no version: cache keys are made of it");
  k.Note(std::string(a.platform_version, a.platform_version_size));
}

void ProcessIndex(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_ProcessIndex);
  a.client = k.client();
  a.process_index = -77;
  KIT_OK(k, PJRT_Client_ProcessIndex, a);
  k.Require(a.process_index == 0, "the process index of a lone process is ", a.process_index, ", expected 0");
}

// Strings returned by a plugin must live as long as their owner. Overwrites freed memory here, so that a dangling
// string does not look intact.
void StringsLive(Kit& k) {
  mallopt(M_PERTURB, 0x5B);
  struct Text {
    const char* name;
    const char* data;
    std::string copy;
  };
  std::vector<Text> texts;
  const auto keep = [&](const char* name, const char* data, size_t size) {
    k.Require(size == 0 || data != nullptr, name, ": a size of ", size, " without bytes");
    texts.push_back({name, data, std::string(data, size)});
  };
#define TEXT(fn, owner, value, field, field_size)                 \
  if (k.Has(&PJRT_Api::fn)) {                                     \
    KIT_ARGS(k, a, fn);                                           \
    a.owner = value;                                              \
    if (KIT_TRY(k, fn, a).ok()) keep(#fn, a.field, a.field_size); \
  }
  TEXT(PJRT_Client_PlatformName, client, k.client(), platform_name, platform_name_size);
  TEXT(PJRT_Client_PlatformVersion, client, k.client(), platform_version, platform_version_size);
  PJRT_DeviceDescription* description = GetDescription(k, k.device());
  TEXT(PJRT_DeviceDescription_Kind, device_description, description, device_kind, device_kind_size);
  TEXT(PJRT_DeviceDescription_DebugString, device_description, description, debug_string, debug_string_size);
  TEXT(PJRT_DeviceDescription_ToString, device_description, description, to_string, to_string_size);
  PJRT_Memory* memory = DefaultMemory(k, k.device());
  TEXT(PJRT_Memory_Kind, memory, memory, kind, kind_size);
  TEXT(PJRT_Memory_DebugString, memory, memory, debug_string, debug_string_size);
  TEXT(PJRT_Memory_ToString, memory, memory, to_string, to_string_size);
  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  PJRT_Executable* executable = GetExecutable(k, loaded);
  TEXT(PJRT_Executable_Name, executable, executable, executable_name, executable_name_size);
  TEXT(PJRT_Executable_Fingerprint, executable, executable, executable_fingerprint, executable_fingerprint_size);
#undef TEXT
  PJRT_Buffer* buffer = Put<float>(k, {2, 2}, {1, 2, 3, 4});
  KIT_ARGS(k, dims, PJRT_Buffer_Dimensions);
  dims.buffer = buffer;
  KIT_OK(k, PJRT_Buffer_Dimensions, dims);
  keep("PJRT_Buffer_Dimensions", reinterpret_cast<const char*>(dims.dims), dims.num_dims * sizeof(int64_t));
  for (int i = 0; i < 3; ++i) RunOnce(k);
  for (const Text& t : texts) {
    k.Require(std::string(t.data, t.copy.size()) == t.copy, t.name,
              ": the text changed while its owner lives; it was '", t.copy, "'");
  }
}

void PrintsNothing(Kit& k) {  // the runner inspects the output of this and all other checks
  RunOnce(k);
  PJRT_LoadedExecutable* none = nullptr;
  TryCompile(k, "nonsense", "mlir", PlainOptions(k).Serialize(), &none);
}

struct ProcessState {
  std::vector<struct sigaction> handlers;
  std::string locale, folder;
  std::vector<std::string> environment;
  int rounding = 0;
  float tiny = 0;
  mode_t mask = 0;
  bool descriptors[3] = {};
};

ProcessState Observe() {
  ProcessState s;
  for (int n = 1; n < 32; ++n) {
    struct sigaction a;
    std::memset(&a, 0, sizeof(a));
    sigaction(n, nullptr, &a);
    s.handlers.push_back(a);
  }
  s.locale = setlocale(LC_ALL, nullptr);
  char folder[4096] = "";
  s.folder = getcwd(folder, sizeof(folder)) != nullptr ? folder : "";
  for (char** e = environ; *e != nullptr; ++e) s.environment.emplace_back(*e);
  s.rounding = std::fegetround();
  volatile float smallest = 1.17549435e-38f, half = 0.5f;
  s.tiny = smallest * half;  // 0 if subnormals are flushed
  s.mask = umask(0);
  umask(s.mask);
  for (int fd = 0; fd < 3; ++fd) s.descriptors[fd] = fcntl(fd, F_GETFD) >= 0;
  return s;
}

void LeavesProcessAlone(Kit& k) {
  const ProcessState before = Observe();
  RunOnce(k);
  const ProcessState after = Observe();
  for (size_t i = 0; i < before.handlers.size(); ++i) {
    k.Require(before.handlers[i].sa_handler == after.handlers[i].sa_handler, "the handler of SIG",
              sigabbrev_np(static_cast<int>(i) + 1), " has changed");
  }
  k.Require(before.rounding == after.rounding, "the rounding mode of the calling thread has changed");
  k.Require(before.tiny == after.tiny, "subnormal numbers are flushed to zero in the calling thread now");
  k.Require(before.locale == after.locale, "the locale has changed from ", before.locale, " to ", after.locale);
  k.Require(before.folder == after.folder, "the working folder has changed to ", after.folder);
  k.Require(before.mask == after.mask, "the file mask has changed");
  for (int fd = 0; fd < 3; ++fd)
    k.Require(before.descriptors[fd] == after.descriptors[fd], "descriptor ", fd, " was closed");
  for (const std::string& e : after.environment) {
    k.Require(std::find(before.environment.begin(), before.environment.end(), e) != before.environment.end(),
              "the environment has changed: ", e);
  }
  k.Require(before.environment.size() == after.environment.size(), "the environment has lost a variable");
}

// Rounds up and flushes subnormal numbers in the calling thread, as far as the processor can, until the end of the
// scope.
class OtherFloatModes {
 public:
  OtherFloatModes() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // results and operands
#endif
  }
  ~OtherFloatModes() { std::fesetenv(&before_); }
  OtherFloatModes(const OtherFloatModes&) = delete;
  OtherFloatModes& operator=(const OtherFloatModes&) = delete;

 private:
  std::fenv_t before_;
};

// Jaxlib, for example, calls plugins with subnormal numbers flushed. The constants of programs must not change by that,
// nor the rounding of results.
void HostFloatModes(Kit& k) {
  constexpr char kProgram[] = R"(module @m { func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>)
      -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a = stablehlo.constant dense<0x0001> : tensor<bf16>
    %b = stablehlo.constant dense<0x00000001> : tensor<f32>
    %c = stablehlo.constant dense<0.7> : tensor<f64>
    %d = stablehlo.convert %c : (tensor<f64>) -> tensor<f32>
    %e = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
    %f = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %h = stablehlo.add %x, %y : tensor<4xf32>
    return %e, %f, %g, %h : tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> } })";
  const float tiny = 0x1p-30f;
  std::vector<PJRT_Buffer*> outputs;
  {
    const OtherFloatModes modes;
    PJRT_Buffer *x = Put<float>(k, {4}, {1, 1, 1, 1}), *y = Put<float>(k, {4}, {tiny, tiny, tiny, tiny});
    outputs = Execute(k, Compile(k, kProgram), {x, y});
    k.Require(std::fegetround() == FE_UPWARD, "the rounding mode of the calling thread has changed");
  }
  k.Require(outputs.size() == 4, "four outputs are ", outputs.size());
  auto require = [&](const auto& bits, auto want, const char* what) {
    for (const auto b : bits)
      k.Require(b == want, "a host that rounds up and flushes subnormals: ", what, " has the bits ", b, ", not ", want);
  };
  require(GetAs<uint16_t>(k, outputs[0]), uint16_t{1}, "the smallest bf16");
  require(GetAs<uint32_t>(k, outputs[1]), uint32_t{1}, "the smallest f32");
  require(GetAs<uint32_t>(k, outputs[2]), uint32_t{0x3f333333}, "0.7, converted to f32,");
  require(GetAs<uint32_t>(k, outputs[3]), uint32_t{0x3f800000}, "1 + 2^-30 in f32");
}

void ExitAfterDestroy(Kit& k) {
  RunOnce(k);
  PJRT_Buffer* buffer = Put<float>(k, {4}, {1, 2, 3, 4});
  Destroy(k, buffer);
  Destroy(k, k.client());
  k.PassIfExitIsClean();
}

void ExitWithLiveObjects(Kit& k) {
  PJRT_Buffer* n = Put<int32_t>(k, {}, {2000000});
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  const std::vector<PJRT_Buffer*> outputs = Execute(k, count, {n});
  k.Require(outputs.size() == 1, "no output");
  [[maybe_unused]] static const auto* const alive =
      new std::vector<const void*>{n, count, outputs[0]};  // keeps it reachable for the leak checker
  k.PassIfExitIsClean();                                   // while the execution is running
}

void UsedFromOtherThreads(Kit& k) {
  std::thread([&] {
    k.client();
    k.devices();
  }).join();
  std::thread([&] { RunOnce(k); }).join();
  RunOnce(k);
}

void OpenedGlobally(Kit& k) {
  void* library = dlopen(k.setup().plugin.c_str(), RTLD_LAZY | RTLD_GLOBAL | RTLD_NODELETE);
  k.Require(library != nullptr,
            "cannot be opened with RTLD_GLOBAL: ", std::string(library == nullptr ? dlerror() : ""));
  RunOnce(k);
}

// Loads another copy of the same library, as happens if two packages contain it.
void TwoCopies(Kit& k) {
  RunOnce(k);
  std::ifstream file(k.setup().plugin, std::ios::binary);
  const int fd = memfd_create("a second copy", 0);
  char block[1 << 16];
  while (file.read(block, sizeof(block)), file.gcount() > 0) {
    if (write(fd, block, static_cast<size_t>(file.gcount())) != file.gcount())
      k.Skip("no memory for a copy of the library");
  }
  const std::string copy = absl::StrCat("/proc/self/fd/", fd);
  // The library may need files beside it.
  void* library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) k.Skip("a copy cannot be opened from another place: ", std::string(dlerror()));
  k.Require(dlsym(library, "GetPjrtApi") != nullptr, "the copy exports nothing");
  Kit second(k, copy);
  if (&second.api() == &k.api()) k.Fail("the copy gives the table of the first one: their symbols meet");
  RunOnce(second);
  RunOnce(k);
}

constexpr Check kChecks[] = {
    {"lifecycle.initialize", "PJRT_Plugin_Initialize", "the plugin can be set up", InitializeOnce},
    {"lifecycle.initialize_twice", "PJRT_Plugin_Initialize", "setting it up again does no harm", InitializeTwice},
    {"lifecycle.attributes", "PJRT_Plugin_Attributes",
     "attributes can be read before a client is made, the same each time", PluginAttributes},
    {"lifecycle.stablehlo_versions", "PJRT_Plugin_Attributes",
     "attributes say which StableHLO versions it reads, in the form hosts expect", StablehloVersions},
    {"lifecycle.client", "PJRT_Client_Create", "a client can be made", CreateClient},
    {"lifecycle.unknown_option", "PJRT_Client_Create", "an unknown create option is refused by name", UnknownOption},
    {"lifecycle.two_clients", "", "two clients at once", TwoClients},
    {"lifecycle.clients_in_a_row", "", "clients can be made and destroyed again and again", ClientsInARow, 60},
    {"lifecycle.platform_name", "PJRT_Client_PlatformName", "the platform has a name", PlatformName},
    {"lifecycle.platform_version", "PJRT_Client_PlatformVersion", "the platform has a version", PlatformVersion},
    {"lifecycle.process_index", "PJRT_Client_ProcessIndex", "the index of a lone process is 0", ProcessIndex},
    {"lifecycle.strings_live", "", "texts live as long as what they belong to", StringsLive},
    {"lifecycle.prints_nothing", "", "nothing is written to standard output, in any check", PrintsNothing},
    {"lifecycle.leaves_process_alone", "", "signal handlers, environment, locale, rounding, folder stay as they are",
     LeavesProcessAlone},
    {"lifecycle.host_float_modes", "", "results do not depend on the floating-point modes of the calling thread",
     HostFloatModes},
    {"lifecycle.exit_after_destroy", "", "the process ends well after everything was destroyed", ExitAfterDestroy},
    {"lifecycle.exit_with_live_objects", "", "the process ends well with objects alive and work under way",
     ExitWithLiveObjects},
    {"lifecycle.other_threads", "", "a client may be made in one thread and used in others", UsedFromOtherThreads},
    {"lifecycle.opened_globally", "", "works when its symbols are made global", OpenedGlobally},
    {"lifecycle.two_copies", "", "two copies of the library work in one process", TwoCopies, 60},
};

}  // namespace

absl::Span<const Check> LifecycleSuite() { return kChecks; }

}  // namespace backplane::conformance
