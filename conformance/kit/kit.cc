#include "conformance/kit/kit.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "sdk/host/loader.h"

namespace backplane::conformance {
namespace {

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr const char* kCodes[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::atomic<bool> reported{false};  // one result per check, from whichever thread is first

}  // namespace

const char* ResultName(Result result) {
  switch (result) {
    case Result::kPass:
      return "pass";
    case Result::kFail:
      return "fail";
    case Result::kUnsupported:
      return "unsupported";
    case Result::kSkip:
      return "skip";
  }
  return "fail";
}

bool ResultFromName(absl::string_view name, Result* result) {
  for (Result r : {Result::kPass, Result::kFail, Result::kUnsupported, Result::kSkip}) {
    if (name == ResultName(r)) return *result = r, true;
  }
  return false;
}

std::string CodeName(int code) {
  return code >= 0 && code < static_cast<int>(std::size(kCodes)) ? kCodes[code] : absl::StrCat("code ", code);
}
std::string FormatError(const Err& error) { return absl::StrCat(CodeName(error.code), ": ", error.message); }

// ---- Results

void Kit::SendRecord(const char* kind, Result result, absl::string_view detail) {
  const std::string clean = absl::StrReplaceAll(detail.substr(0, 16000), {{"\\", "\\\\"}, {"\n", "\\n"}, {"\t", " "}});
  std::string line = absl::StrCat(kind, "\t", id_, "\t", ResultName(result), "\t", Now() - started_, "\t", clean, "\n");
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = write(setup_.result_fd, line.data() + at, line.size() - at);
    if (n <= 0) break;  // the runner is gone
    at += static_cast<size_t>(n);
  }
}

void Kit::Finish(Result result, std::string detail) {
  if (reported.exchange(true)) pause();  // output of the plugin so far belongs to this check
  std::fflush(stdout);                   // what the plugin printed belongs to this check
  SendRecord("end", result, detail);
  _exit(0);
}

void Kit::PassIfExitIsClean() {
  reported = true;
  SendRecord("leaving", Result::kPass, note_);
  exit(0);
}

void Kit::Run(const Check& check) {
  Run(
      check.id, check.needs, [](Kit& k, const void* c) { static_cast<const Check*>(c)->run(k); }, &check);
}

void Kit::Run(const std::string& id, const std::string& needs, void (*function)(Kit&, const void*),
              const void* argument) {
  id_ = id;
  note_.clear();
  reported = false;
  if (setup_.last_call != nullptr) setup_.last_call->Clear();
  started_ = Now();
  SendRecord("start", Result::kPass, "");
  // Reports an exception that crosses the boundary as such, instead of as a crash.
  try {
    CheckNeeds(needs);
    function(*this, argument);
  } catch (const std::exception& e) {
    Fail("an exception crossed the boundary ", setup_.last_call != nullptr ? setup_.last_call->Describe() : "", ": ",
         typeid(e).name(), ": ", e.what());
  } catch (...) {
    Fail("an exception crossed the boundary ", setup_.last_call != nullptr ? setup_.last_call->Describe() : "");
  }
  reported = true;
  std::fflush(stdout);
  SendRecord("end", Result::kPass, note_);
}

void Kit::CheckNeeds(absl::string_view needs) {
  for (absl::string_view need : absl::StrSplit(needs, ' ', absl::SkipEmpty())) {
    if (absl::StartsWith(need, "devices:")) {
      int count = 0;
      if (!absl::SimpleAtoi(need.substr(8), &count)) Fail("the kit's table is wrong: '", need, "'");
      if (devices().size() < static_cast<size_t>(count)) {
        Skip("needs ", count, " addressable devices, there ", devices().size() == 1 ? "is " : "are ", devices().size());
      }
    } else if (absl::StartsWith(need, "ext:")) {
      bool found = false;
      int seen = 0;
      for (const PJRT_Extension_Base* e = api().extension_start; e != nullptr && ++seen < 256; e = e->next) {
        found = found || host::ExtensionName(e->type) == need.substr(4);
      }
      if (!found) Unsupported("the chain has no extension ", need.substr(4));
    } else {
      const auto slots = host::AllSlots();
      const auto slot = std::find_if(slots.begin(), slots.end(), [&](const host::Slot& s) { return need == s.name; });
      if (slot == slots.end()) Fail("the kit's table is wrong: no function '", need, "'");
      const bool inside = slot->offset + sizeof(void*) <= api().struct_size;
      if (!inside || *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(&api()) + slot->offset) == nullptr) {
        Unsupported("the table has no ", need);
      }
    }
  }
}

// ---- The plugin

const PJRT_Api& Kit::api() {
  if (api_ != nullptr) return *api_;
  if (setup_.last_call != nullptr) setup_.last_call->Enter("dlopen");
  void* library = dlopen(setup_.plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    Fail("cannot be opened: ", why != nullptr ? why : "no reason given");
  }
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) Fail("does not export GetPjrtApi");
  if (setup_.last_call != nullptr) setup_.last_call->Enter("GetPjrtApi");
  const PJRT_Api* table = get();
  if (setup_.last_call != nullptr) setup_.last_call->Leave();
  if (table == nullptr) Fail("GetPjrtApi returned no table");
  if (table->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    Fail("the table says a size of ", table->struct_size, " bytes, which does not reach to its version");
  }
  if (table->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    Fail("speaks PJRT C API ", table->pjrt_api_version.major_version, ".", table->pjrt_api_version.minor_version,
         ", expected major version ", PJRT_API_MAJOR);
  }
  api_ = table;
  for (auto has :
       {Has(&PJRT_Api::PJRT_Error_Message), Has(&PJRT_Api::PJRT_Error_Destroy), Has(&PJRT_Api::PJRT_Error_GetCode)}) {
    if (!has) Fail("the table lacks the functions that read errors");
  }
  return *api_;
}

const PJRT_Extension_Base* Kit::FindExtension(PJRT_Extension_Type type, size_t min_size) {
  int seen = 0;
  for (const PJRT_Extension_Base* e = api().extension_start; e != nullptr && ++seen < 256; e = e->next) {
    if (e->type != type) continue;
    if (e->struct_size < min_size)
      Unsupported("extension ", host::ExtensionName(type), " has ", e->struct_size, " bytes, needed are ", min_size);
    return e;
  }
  Unsupported("the chain has no extension ", host::ExtensionName(type));
}

void Kit::Initialize() {
  if (initialized_) return;
  initialized_ = true;
  KIT_ARGS(*this, a, PJRT_Plugin_Initialize);
  if (Has(&PJRT_Api::PJRT_Plugin_Initialize)) KIT_OK(*this, PJRT_Plugin_Initialize, a);
}

PJRT_Client* Kit::NewClient() {
  PJRT_Client* client = nullptr;
  const Err error = TryNewClient({}, nullptr, &client);
  if (error.code == PJRT_Error_Code_UNIMPLEMENTED) Unsupported("PJRT_Client_Create: ", FormatError(error));
  Require(error.ok(), "PJRT_Client_Create: ", FormatError(error));
  return client;
}

Err Kit::TryNewClient(const std::vector<host::NamedValue>& more, host::KeyValueStore* store, PJRT_Client** out) {
  Initialize();
  std::vector<host::NamedValue> all = setup_.options;
  all.insert(all.end(), more.begin(), more.end());
  const std::vector<PJRT_NamedValue> options = host::BorrowNamedValues(all);
  KIT_ARGS(*this, a, PJRT_Client_Create);
  a.create_options = options.data();
  a.num_options = options.size();
  if (store != nullptr) host::SetCallbacks(store, &a);
  Err error = KIT_TRY(*this, PJRT_Client_Create, a);
  Require(!error.ok() || a.client != nullptr, "PJRT_Client_Create: succeeded without a client");
  *out = a.client;
  return error;
}

void Kit::UseClient(PJRT_Client* client) {
  client_ = client;
  devices_.clear();
}

PJRT_Client* Kit::client() {
  if (client_ == nullptr) client_ = NewClient();
  return client_;
}

const std::vector<PJRT_Device*>& Kit::devices() {
  if (devices_.empty()) {
    KIT_ARGS(*this, a, PJRT_Client_AddressableDevices);
    a.client = client();
    KIT_OK(*this, PJRT_Client_AddressableDevices, a);
    Require(a.num_addressable_devices > 0 && a.addressable_devices != nullptr, "the client has no addressable device");
    devices_.assign(a.addressable_devices, a.addressable_devices + a.num_addressable_devices);
  }
  return devices_;
}

PJRT_Device* Kit::device(size_t index) { return devices().at(index); }

// ---- Errors

Err Kit::Take(PJRT_Error* error) {
  if (error == nullptr) return {};
  Err taken;
  PJRT_Error_Message_Args m{};
  m.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  m.error = error;
  api_->PJRT_Error_Message(&m);
  if (m.message != nullptr) taken.message.assign(m.message, m.message_size);
  PJRT_Error_GetCode_Args c{};
  c.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  c.error = error;
  c.code = PJRT_Error_Code_UNKNOWN;
  api_->PJRT_Error_GetCode(&c);
  taken.code = c.code;
  PJRT_Error_Destroy_Args d{};
  d.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  d.error = error;
  api_->PJRT_Error_Destroy(&d);
  if (taken.ok()) Fail("an error object says OK: '", taken.message, "'");
  return taken;
}

void Kit::MustBeOk(PJRT_Error* error, const char* name) {
  const Err taken = Take(error);
  if (taken.ok()) return;
  if (taken.code == PJRT_Error_Code_UNIMPLEMENTED) Unsupported(name, ": ", FormatError(taken));
  Fail(name, ": ", FormatError(taken));
}

Err Kit::MustFail(PJRT_Error* error, const char* name, absl::string_view when,
                  std::initializer_list<PJRT_Error_Code> expected) {
  const Err taken = Take(error);
  if (taken.ok()) Fail(name, ": no error with ", when);
  if (taken.code == PJRT_Error_Code_UNIMPLEMENTED &&
      std::find(expected.begin(), expected.end(), taken.code) == expected.end()) {
    Unsupported(name, " with ", when, ": ", FormatError(taken));
  }
  bool right = expected.size() == 0 && taken.code != PJRT_Error_Code_INTERNAL && taken.code != PJRT_Error_Code_UNKNOWN;
  std::string names;
  for (PJRT_Error_Code code : expected) {
    right = right || taken.code == code;
    absl::StrAppend(&names, names.empty() ? "" : " or ", CodeName(code));
  }
  if (!right)
    Fail(name, " with ", when, ": ", FormatError(taken), "; expected ",
         names.empty() ? "a code that tells whose fault it is" : names);
  if (taken.message.empty()) Fail(name, " with ", when, ": ", CodeName(taken.code), " without a message");
  return taken;
}

}  // namespace backplane::conformance
