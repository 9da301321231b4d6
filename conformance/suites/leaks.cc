// Resource leaks. Each check repeats one operation and measures the resources of this process, including those of the
// plugin: malloc's memory, memory mapped by the plugin, memory in use on the devices, open files, threads.
//
// A leak grows by about the same amount in each of three rounds; pools that fill once do not.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/str_format.h"
#include "conformance/kit/footprint.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

// The amount that `times` calls must leave behind in each round to count as a leak. `least` applies to the heap and one
// call.
int64_t GetLeakThreshold(Resource kind, int64_t least, int times) {
  switch (kind) {
    case Resource::kHeap:
      return least * times;
    case Resource::kMapped:
#ifdef BACKPLANE_SANITIZED  // AddressSanitizer keeps freed memory for a while
      return std::numeric_limits<int64_t>::max();
#endif
      // Mapped memory comes in pages of at least 4096 bytes; half of that, because two calls may share one
      return std::max<int64_t>(least, 2048) * times;
    case Resource::kDevice:
      return int64_t{16} * times;
    case Resource::kDescriptors:
    case Resource::kThreads:
      return (times + 1) / 2;
  }
  return 0;
}

void ExpectNoLeak(Kit& k, const char* what, int times, const std::function<void()>& once, int64_t least = 16) {
  k.client();
  for (int i = 0; i < times; ++i) once();  // lets caches and pools fill
  Footprint at = MeasureFootprint(k);
  std::array<Footprint, 3> growth;
  Footprint smallest;
  auto leaks = [&](int kind) { return smallest[kind] >= GetLeakThreshold(static_cast<Resource>(kind), least, times); };
  // A leak repeats in every measurement; a late thread or a growing pool does not.
  for (int look = 0; look < 3; ++look) {
    smallest.fill(std::numeric_limits<int64_t>::max());
    for (Footprint& grown : growth) {
      for (int i = 0; i < times; ++i) once();
      Footprint now;
      // Waits for memory that other threads free. Does not wait for mapped memory, because malloc keeps it.
      WaitFor(0.3, [&] {
        now = MeasureFootprint(k);
        for (int kind = 0; kind < kResourceKinds; ++kind) {
          if (static_cast<Resource>(kind) != Resource::kMapped && now[kind] > at[kind]) return false;
        }
        return true;
      });
      for (int kind = 0; kind < kResourceKinds; ++kind) {
        grown[kind] = now[kind] - at[kind];
        smallest[kind] = std::min(smallest[kind], grown[kind]);
      }
      at = now;
    }
    bool any = false;
    for (int kind = 0; kind < kResourceKinds; ++kind) any |= leaks(kind);
    if (!any) break;
  }
  std::string found;  // reports all symptoms of a leak, because a leaked thread is also leaked mapped memory
  for (int kind = 0; kind < kResourceKinds; ++kind) {
    if (!leaks(kind)) continue;
    absl::StrAppend(&found, found.empty() ? "" : "; ", GetName(static_cast<Resource>(kind)), ", about ",
                    absl::StrFormat("%.4g", static_cast<double>(smallest[kind]) / times), " each time: ", times,
                    " of them leave ", growth[0][kind], ", then ", growth[1][kind], ", then ", growth[2][kind],
                    " behind");
  }
  k.Require(found.empty(), what, " loses ", found);
  k.Note(absl::StrCat(smallest[0] / times, " bytes of malloc each"));
}

void Buffers(Kit& k) {
  const std::vector<float> data(4096, 1.0f);
  ExpectNoLeak(k, "a buffer made and destroyed", 300, [&] { Destroy(k, Put<float>(k, {4096}, data)); });
}
void DeletedBuffers(Kit& k) {
  const std::vector<float> data(4096, 1.0f);
  ExpectNoLeak(k, "a buffer made, deleted and destroyed", 300, [&] {
    PJRT_Buffer* b = Put<float>(k, {4096}, data);
    Delete(k, b);
    Destroy(k, b);
  });
}
void DeletedFreeNow(Kit& k) {  // deleting a buffer frees its memory although the object is alive
  const std::vector<float> data(1 << 20, 1.0f);
  PJRT_Buffer* b = Put<float>(k, {1 << 20}, data);
  Await(k, ReadyEvent(k, b), "the buffer");
  if (!IsOnCpu(k, b)) k.Skip("memory of the device is not counted here");
  const int64_t before = CountHeapBytes();
  Delete(k, b);
  const bool smaller = WaitFor(2, [&] { return CountHeapBytes() <= before - (3 << 20); });
  std::vector<PJRT_Buffer*> more;
  if (!smaller) {  // keeping the memory for the next allocation is correct too
    const int64_t pooled = CountHeapBytes();
    more.push_back(Put<float>(k, {1 << 20}, data));
    k.Require(CountHeapBytes() < pooled + (3 << 20),
              "deleting a buffer of 4 MiB frees nothing, and the next one takes new memory");
  }
}
void Reads(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {1024}, std::vector<float>(1024, 1.0f));
  ExpectNoLeak(k, "a copy to the host", 300, [&] { Get(k, b); });
}
void Events(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  ExpectNoLeak(k, "an event made and destroyed", 1000, [&] { Destroy(k, ReadyEvent(k, b)); });
}
void Callbacks(Kit& k) {
  PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, 4});
  ExpectNoLeak(k, "a callback of an event", 500, [&] {
    PJRT_Event* event = ReadyEvent(k, b);
    KIT_ARGS(k, a, PJRT_Event_OnReady);
    a.event = event;
    a.callback = [](PJRT_Error*, void*) {};
    KIT_OK(k, PJRT_Event_OnReady, a);
    Await(k, event, "the event");
  });
}
void Errors(Kit& k) {
  ExpectNoLeak(k, "an error made and destroyed", 1000, [&] {
    KIT_ARGS(k, a, PJRT_Client_LookupDevice);
    a.client = k.client();
    a.id = 987654;
    k.Require(!KIT_TRY(k, PJRT_Client_LookupDevice, a).ok(), "no error");
  });
}
void FailedCompiles(Kit& k) {
  PJRT_LoadedExecutable* none = nullptr;
  const std::string options = PlainOptions(k).Serialize();
  ExpectNoLeak(
      k, "a program that is refused", 100,
      [&] { k.Require(!TryCompile(k, "module { func.func @main( }", "mlir", options, &none).ok(), "no error"); }, 32);
}
void FailedExecutions(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4});
  ExpectNoLeak(k, "an execution that is refused", 200, [&] {
    Launch launch;
    launch.executable = add;
    launch.arguments = {{x}};
    k.Require(!TryExecute(k, &launch).ok(), "no error");
  });
}
void FailedBuffers(Kit& k) {
  const Dims dims = {2, 2}, strides = {4};  // one stride for two dims
  const float data[4] = {};
  ExpectNoLeak(k, "a buffer that is refused", 300, [&] {
    PJRT_Client_BufferFromHostBuffer_Args a = PutArgs(k, PJRT_Buffer_Type_F32, dims, data);
    a.byte_strides = strides.data();
    a.num_byte_strides = 1;
    k.Require(!KIT_TRY(k, PJRT_Client_BufferFromHostBuffer, a).ok(), "no error");
  });
}
void Executions(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4});
  ExpectNoLeak(k, "an execution", 400, [&] {
    Launch launch;
    launch.executable = add;
    launch.arguments = {{x, x}};
    launch.want_events = true;
    const Err e = TryExecute(k, &launch);
    k.Require(e.ok(), FormatError(e));
    Await(k, launch.events[0], "the event");
    Await(k, ReadyEvent(k, launch.outputs[0][0]), "the output");
    Destroy(k, launch.outputs[0][0]);
  });
}
// Sizes that an allocator treats differently from small ones.
void LargeExecutions(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, MakeAddProgram("f32", "262144x"));
  PJRT_Buffer* x = Put<float>(k, {262144}, std::vector<float>(262144, 1.0f));
  ExpectNoLeak(
      k, "an execution with results of 1 MiB", 24,
      [&] {
        PJRT_Buffer* out = Execute(k, add, {x, x})[0];
        Await(k, ReadyEvent(k, out), "the output");
        Destroy(k, out);
      },
      4096);
}
void Donations(Kit& k) {
  PJRT_LoadedExecutable* donate = Compile(k, kDonate);
  PJRT_Buffer* y = Put<float>(k, {4}, {1, 2, 3, 4});
  ExpectNoLeak(k, "an execution that takes an argument over", 300, [&] {
    PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4});
    PJRT_Buffer* out = Execute(k, donate, {x, y})[0];
    Await(k, ReadyEvent(k, out), "the output");
    Destroy(k, x);
    Destroy(k, out);
  });
}
void Executables(Kit& k) {
  ExpectNoLeak(
      k, "a program compiled and destroyed", 25, [&] { Destroy(k, Compile(k, kAdd)); }, 2048);
}
void ExecutableObjects(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  ExpectNoLeak(k, "an executable asked for and destroyed", 500, [&] { Destroy(k, GetExecutable(k, add)); });
}
void Serializations(Kit& k) {
  PJRT_Executable* add = GetExecutable(k, Compile(k, kAdd));
  ExpectNoLeak(
      k, "a serialization", 100, [&] { Serialize(k, add); }, 64);
}
void Clients(Kit& k) {
  ExpectNoLeak(
      k, "a client made and destroyed", 6, [&] { Destroy(k, k.NewClient()); }, 4096);
}

constexpr Check kChecks[] = {
    {"leaks.buffers", "PJRT_Buffer_Destroy", "buffers", Buffers, 60},
    {"leaks.deleted_buffers", "PJRT_Buffer_Delete", "deleted buffers", DeletedBuffers, 60},
    {"leaks.deleted_memory", "PJRT_Buffer_Delete", "the memory of a deleted buffer comes free at once", DeletedFreeNow},
    {"leaks.reads", "PJRT_Buffer_ToHostBuffer", "copies to the host", Reads, 60},
    {"leaks.events", "PJRT_Event_Destroy", "events", Events, 60},
    {"leaks.callbacks", "PJRT_Event_OnReady", "callbacks", Callbacks, 60},
    {"leaks.errors", "PJRT_Error_Destroy", "errors", Errors, 60},
    {"leaks.failed_compiles", "", "programs that are refused", FailedCompiles, 60},
    {"leaks.failed_executions", "", "executions that are refused", FailedExecutions, 60},
    {"leaks.failed_buffers", "", "buffers that are refused", FailedBuffers, 60},
    {"leaks.executions", "", "executions", Executions, 60},
    {"leaks.large_executions", "", "executions with large results", LargeExecutions, 60},
    {"leaks.donations", "", "donations", Donations, 60},
    {"leaks.executables", "", "programs", Executables, 90},
    {"leaks.executable_objects", "", "executables", ExecutableObjects, 60},
    {"leaks.serializations", "PJRT_Executable_Serialize", "serialized executables", Serializations, 60},
    {"leaks.clients", "", "clients", Clients, 90},
};

}  // namespace

absl::Span<const Check> LeaksSuite() { return kChecks; }

}  // namespace backplane::conformance
