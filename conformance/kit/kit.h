// The context of a check: the plugin's table, a client created on first use, and functions that report the result.
//
// A check ends with the first call of Fail, Unsupported or Skip, which end the process, or passes by returning.
// Therefore checks need no error handling, and nothing is torn down in an undefined state.
//
// Every call goes through Raw. It records the call for the runner, so that a crash or hang is attributed to the right
// function; places the arguments before guard bytes that must not change; and reports a missing function as
// "unsupported".
//
// Thread-safety: calls and results from any thread; everything else from the thread of the check.
#ifndef BACKPLANE_CONFORMANCE_KIT_KIT_H_
#define BACKPLANE_CONFORMANCE_KIT_KIT_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"
#include "conformance/kit/check.h"
#include "conformance/kit/last_call.h"
#include "sdk/host/key_value_store.h"
#include "sdk/host/named_value.h"
#include "sdk/host/struct_sizes.h"

namespace backplane::conformance {

// An error that a plugin returned; the object has been freed.
struct Err {
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;
  bool ok() const { return code == PJRT_Error_Code_OK; }
};
std::string CodeName(int code);             // "INVALID_ARGUMENT"; "code 99"
std::string FormatError(const Err& error);  // "INVALID_ARGUMENT: words"

class Kit {
 public:
  struct Setup {
    std::string plugin;                             // path
    std::vector<host::NamedValue> options;          // of PJRT_Client_Create
    std::vector<host::NamedValue> compile_options;  // platform-specific, for every program
    std::string data;                               // the folder with cases, levels and profiles
    bool strict = false;                            // also requires labels in messages
    int processes = 0;                              // of the suite `processes`; 0: it does not run
    int result_fd = -1;
    LastCall* last_call = nullptr;  // may be null
  };
  explicit Kit(Setup setup) : setup_(std::move(setup)) {}
  // Creates a context for another plugin within the same check.
  Kit(const Kit& same, std::string plugin) : setup_(same.setup_), id_(same.id_), started_(same.started_) {
    setup_.plugin = std::move(plugin);
  }
  Kit(const Kit&) = delete;
  const Setup& setup() const { return setup_; }
  const std::string& id() const { return id_; }  // of the check

  // ---- Results. Only the first one counts; each ends the process.
  template <typename... Args>
  [[noreturn]] void Fail(const Args&... why) {
    Finish(Result::kFail, absl::StrCat(why...));
  }
  template <typename... Args>
  [[noreturn]] void Unsupported(const Args&... why) {
    Finish(Result::kUnsupported, absl::StrCat(why...));
  }
  template <typename... Args>
  [[noreturn]] void Skip(const Args&... why) {
    Finish(Result::kSkip, absl::StrCat(why...));
  }
  template <typename... Args>
  void Require(bool holds, const Args&... why) {
    if (!holds) Fail(why...);
  }
  // Attaches a note to a pass.
  void Note(std::string words) { note_ = std::move(words); }
  // The check passes if the process now ends by exit() with status 0, in time and without a signal.
  [[noreturn]] void PassIfExitIsClean();

  // Runs one check and reports its result. Returns only after a pass.
  void Run(const Check& check);
  void Run(const std::string& id, const std::string& needs, void (*function)(Kit&, const void*), const void* argument);

  // ---- The plugin
  const PJRT_Api& api();  // opens the library
  int minor() { return api().pjrt_api_version.minor_version; }
  template <typename Fn>
  bool Has(Fn PJRT_Api::*slot) {
    const PJRT_Api& table = api();
    const size_t at =
        static_cast<size_t>(reinterpret_cast<const char*>(&(table.*slot)) - reinterpret_cast<const char*>(&table));
    return at + sizeof(Fn) <= table.struct_size && table.*slot != nullptr;
  }
  // Returns the chain element of this type as a T of at least `min_size` bytes. Ends as unsupported if there is none.
  template <typename T>
  const T* Extension(PJRT_Extension_Type type, size_t min_size) {
    return reinterpret_cast<const T*>(FindExtension(type, min_size));
  }
  const PJRT_Extension_Base* FindExtension(PJRT_Extension_Type type, size_t min_size);

  void Initialize();      // calls PJRT_Plugin_Initialize once
  PJRT_Client* client();  // created with the options of the run
  PJRT_Client* NewClient();
  // Creates a client with more options and a store, which may be null and must outlive the client.
  Err TryNewClient(const std::vector<host::NamedValue>& more, host::KeyValueStore* store, PJRT_Client** out);
  void UseClient(PJRT_Client* client);         // as client(), from now on; null: the next one is created on first use
  const std::vector<PJRT_Device*>& devices();  // addressable devices of client()
  PJRT_Device* device(size_t index = 0);

  // ---- Calls
  template <typename Args>
  PJRT_Error* Raw(PJRT_Error* (*PJRT_Api::*slot)(Args*), const char* name, Args* args) {
    if (!Has(slot)) Unsupported("the table has no ", name);
    return RawFunction(api().*slot, name, args);
  }
  // Calls a function of an extension in the same way.
  template <typename Args>
  PJRT_Error* RawFunction(PJRT_Error* (*function)(Args*), const char* name, Args* args) {
    if (function == nullptr) Unsupported(name, " is null");
    // Places guard bytes behind the struct.
    struct Block {
      alignas(16) char args[sizeof(Args)];
      unsigned char guard[64];
    } block;
    std::memcpy(block.args, args, sizeof(Args));
    std::memset(block.guard, 0xC5, sizeof(block.guard));
    if (setup_.last_call != nullptr) setup_.last_call->Enter(name);
    PJRT_Error* error = function(reinterpret_cast<Args*>(block.args));
    if (setup_.last_call != nullptr) setup_.last_call->Leave();
    for (unsigned char c : block.guard) {
      if (c != 0xC5) Fail(name, ": wrote past the end of its arguments");
    }
    std::memcpy(args, block.args, sizeof(Args));
    return error;
  }
  // Converts the error to code and text, and frees it. OK for null.
  Err Take(PJRT_Error* error);
  // Requires null. UNIMPLEMENTED ends as unsupported, any other error as a failure.
  void MustBeOk(PJRT_Error* error, const char* name);
  // Requires an error with a message. `expected`: the accepted codes; empty: any but INTERNAL and UNKNOWN.
  Err MustFail(PJRT_Error* error, const char* name, absl::string_view when,
               std::initializer_list<PJRT_Error_Code> expected);

 private:
  [[noreturn]] void Finish(Result result, std::string detail);
  void SendRecord(const char* kind, Result result, absl::string_view detail);
  void CheckNeeds(absl::string_view needs);

  Setup setup_;
  std::string id_, note_;
  double started_ = 0;
  const PJRT_Api* api_ = nullptr;
  bool initialized_ = false;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

// KIT_ARGS(k, a, PJRT_Client_Destroy) defines zeroed arguments `a` with the size that the plugin's minor version knows.
#define KIT_ARGS(k, a, fn) \
  fn##_Args a{};           \
  a.struct_size = ::backplane::host::StructSizeAt((k).minor(), &a, fn##_Args_STRUCT_SIZE)
// Each macro calls the function. KIT_OK requires success, KIT_FAILS requires an error, and KIT_TRY returns the outcome
// as an Err.
#define KIT_OK(k, fn, a) (k).MustBeOk((k).Raw(&PJRT_Api::fn, #fn, &(a)), #fn)
#define KIT_FAILS(k, fn, a, when, ...) (k).MustFail((k).Raw(&PJRT_Api::fn, #fn, &(a)), #fn, when, {__VA_ARGS__})
#define KIT_TRY(k, fn, a) (k).Take((k).Raw(&PJRT_Api::fn, #fn, &(a)))

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_KIT_H_
