// Makes calls and tracks in a model which objects are alive and which answers are correct. The model shares nothing
// with the layer under test except the table that describes the fields of each function.
#ifndef BACKPLANE_TESTS_SEQUENCES_ACTOR_H_
#define BACKPLANE_TESTS_SEQUENCES_ACTOR_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/validate/arguments.h"
#include "tests/sequences/programs.h"
#include "tests/supervisor/supervisor.h"

namespace backplane::sequences {

using layers::Fn;
using Type = layers::Object;

// Thrown if an answer is wrong.
struct Wrong {
  std::string what;
};
// Thrown if the plugin does not implement a function; ends the step.
struct NotOffered {};

// Random numbers from a seed, the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(Next() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Pick(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

 private:
  uint64_t state_;
};

// The kinds of findings that the layer reports.
enum Misuse {
  kUseAfterDestroy,
  kDoubleDestroy,
  kUnknownHandle,
  kDestroyOfBorrowed,
  kUseAfterDelete,
  kUseAfterDonate,
  kClientDestroyedEarly,
  kLeak,
  kUnsetOutField,
  kWrongStructSize,
  kCallbackNeverCalled,
  kMisuses
};
extern const char* const kMisuseNames[kMisuses];
using Counts = std::array<uint64_t, kMisuses>;

struct Thing;
using Item = std::shared_ptr<Thing>;

// An object that the plugin created or returned.
struct Thing {
  Type type = Type::None;
  void* handle = nullptr;
  std::string name;  // "buffer3"
  bool alive = true;
  bool owned = true;  // owned by the actor, or by another object
  Item client;        // null: none

  // Clients.
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Memory*> memories;                   // the default memory of each device
  std::vector<std::vector<PJRT_Memory*>> all_memories;  // all memories of each device
  // Buffers.
  enum Contents { kThere, kDeleted, kDonated, kError };
  Contents contents = kThere;
  bool any_value = false;  // contents are uninitialized
  Array array;
  size_t device = 0;
  int references = 0;  // external references
  // Executables, loaded or not.
  const Program* program = nullptr;
  bool deleted = false, portable = false;
  // Events.
  enum Readiness { kWillBeReady, kFailed, kUnset };
  Readiness readiness = kWillBeReady;
  bool host_made = false;
};

class Actor {
 public:
  // `api` includes the layers. `shared`: objects of others that live as long as this actor, which it may use but not
  // change. A parallel actor has some, and does not use dangling handles, because others may get the same addresses.
  Actor(const PJRT_Api& api, supervisor::Shared& log, std::string name, uint64_t seed, bool parallel = false)
      : api_(api), log_(log), name_(std::move(name)), random(seed), parallel(parallel) {}

  const PJRT_Api& api() const { return api_; }

  // ---- Calls. Each is logged with the names of its handles before it is made, and its answer afterwards.
  absl::Status Call(Fn fn, void* args);
  absl::Status CallAt(Fn fn, void* function, void* args);  // a function of an extension
  // Throws Wrong unless the call succeeds, and NotOffered for UNIMPLEMENTED.
  void ExpectSuccess(Fn fn, void* args);
  // Throws Wrong unless the call fails.
  void ExpectFailure(Fn fn, void* args);
  bool Has(Fn fn) const;
  void* GetFunction(Fn fn) const;
  template <typename Extension>
  const Extension* FindExtension(PJRT_Extension_Type type) const {
    for (const PJRT_Extension_Base* e = api_.extension_start; e != nullptr; e = e->next) {
      if (e->type == type && e->struct_size >= sizeof(Extension)) return reinterpret_cast<const Extension*>(e);
    }
    return nullptr;
  }
  void Note(absl::string_view text) { log_.Note(text); }

  // ---- Objects
  Item Add(Type type, const void* handle, const Item& client, bool owned = true);
  using Filter = std::function<bool(const Thing&)>;
  // Returns a live object: one of the actor's, or with `others` also a shared one. Null if there is none.
  Item Pick(Type type, const Filter& filter = nullptr, bool others = true);
  Item PickDead(Type type);
  Item PickClient();  // never null while there is a client
  // Destroys it with the function of its type, which must succeed.
  void Destroy(const Item& item);
  void Expect(Misuse kind, uint64_t count = 1) { expected[kind] += count; }

  // ---- Building blocks of steps
  Item NewClient();
  Array RandomArray();
  Array Fill(Array shape);
  Item NewBuffer(const Item& client, size_t device, const Array& array);
  // Returns a buffer with contents of that shape on the device; creates one if there is none.
  Item BufferLike(const Item& client, size_t device, const Array& shape, const std::vector<Item>& except);
  // Reads the buffer in one of several ways and compares; for a buffer with an error expects that error.
  void Read(const Item& buffer);
  // Waits in one of several ways and destroys the event. Returns its error.
  absl::Status Await(PJRT_Event* event);
  void AwaitOk(PJRT_Event* event, absl::string_view what);
  Item NewLoaded(const Item& client, const Program& program, size_t device, bool portable);
  Item Compile(const Item& client);

 private:
  std::string Describe(Fn fn, const void* args) const;
  std::string GetName(Type type, const void* handle) const;

  const PJRT_Api& api_;
  supervisor::Shared& log_;
  const std::string name_;
  std::array<int, static_cast<size_t>(Type::kCount)> made_{};

 public:
  Random random;
  const bool parallel;
  std::vector<Item> items, shared;
  Counts expected{};
  // Of the unknown handles expected, those that are objects of another type. An object of the wanted type may have died
  // at such an address, which the model cannot know; then the layer tells that one's end instead.
  uint64_t of_another_type = 0;
  const PJRT_Api* target = nullptr;                                 // the plugin's own table, without the layers
  std::vector<std::pair<std::string, std::string>> create_options;  // name and value, a number or a string
};

// Returns the function that destroys such an object; Fn::kCount if the table has none.
Fn GetDestroyer(Type type);

// PREPARE(a, PJRT_Client_Destroy) defines zeroed arguments with their size.
#define PREPARE(name, fn) \
  fn##_Args name{};       \
  name.struct_size = fn##_Args_STRUCT_SIZE

// A step of a sequence: a few random calls.
struct Step {
  const char* name;
  int weight;
  void (*run)(Actor&);
  bool parallel;  // may run in parallel with others
};
std::vector<Step> HandleSteps();
std::vector<Step> BufferSteps();
std::vector<Step> CopySteps();
std::vector<Step> ProgramSteps();
std::vector<Step> TransferSteps();
std::vector<Step> OtherSteps();

}  // namespace backplane::sequences

#endif  // BACKPLANE_TESTS_SEQUENCES_ACTOR_H_
