// Events and their callbacks.
#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

// The state of a callback. Static, because a callback that comes too late must still find it.
struct Called {
  Kit* kit = nullptr;
  std::atomic<int> times{0};
  std::atomic<int> code{-1};
  std::atomic<bool> nested_done{false};
};

void Note(PJRT_Error* error, void* arg) {
  auto* called = static_cast<Called*>(arg);
  called->code = error == nullptr ? 0 : called->kit->Take(error).code;
  called->times.fetch_add(1);
}

Called* NewCalled(Kit& k) {
  auto* called = new Called;
  called->kit = &k;
  return called;
}

void OnReady(Kit& k, PJRT_Event* event, PJRT_Event_OnReadyCallback callback, Called* called) {
  KIT_ARGS(k, a, PJRT_Event_OnReady);
  a.event = event;
  a.callback = callback;
  a.user_arg = called;
  KIT_OK(k, PJRT_Event_OnReady, a);
}

PJRT_Buffer* Small(Kit& k) { return Put<float>(k, {4}, {1, 2, 3, 4}); }

// Returns an event of work that takes a while.
PJRT_Event* Later(Kit& k, int32_t steps = 3000) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  return ReadyEvent(k, Execute(k, count, {Put<int32_t>(k, {}, {steps})})[0]);
}

PJRT_Event* Created(Kit& k) {
  KIT_ARGS(k, a, PJRT_Event_Create);
  KIT_OK(k, PJRT_Event_Create, a);
  k.Require(a.event != nullptr, "PJRT_Event_Create: succeeded without an event");
  return a.event;
}

Err Set(Kit& k, PJRT_Event* event, PJRT_Error_Code code, const char* message) {
  KIT_ARGS(k, a, PJRT_Event_Set);
  a.event = event;
  a.error_code = code;
  a.error_message = message;
  a.error_message_size = std::strlen(message);
  return KIT_TRY(k, PJRT_Event_Set, a);
}

void AwaitEnds(Kit& k) { Await(k, Later(k), "the event of an execution"); }

void ReadyAfterAwait(Kit& k) {
  for (PJRT_Event* event : {Later(k), ReadyEvent(k, Small(k))}) {
    KIT_ARGS(k, a, PJRT_Event_Await);
    a.event = event;
    KIT_OK(k, PJRT_Event_Await, a);
    k.Require(IsReady(k, event), "an event that was awaited says it is not ready");
    KIT_ARGS(k, e, PJRT_Event_Error);
    e.event = event;
    KIT_OK(k, PJRT_Event_Error, e);
    k.Require(IsReady(k, event), "an event does not stay ready");
    Destroy(k, event);
  }
}

// The contents have been copied to the host, so the buffer's event must be ready.
void ReadyWhenContentsAre(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  PJRT_Buffer* out = Execute(k, count, {Put<int32_t>(k, {}, {100})})[0];
  PJRT_Event* event = ReadyEvent(k, out);
  Get(k, out);
  k.Require(WaitFor(0.5, [&] { return IsReady(k, event); }),
            "a buffer that was read half a second ago is not said to be ready");
}

// Finds a number of steps that takes at least this long on this plugin. `whole` is the shortest time of three runs: a
// single one may have waited for other processes.
int32_t FindStepCount(Kit& k, double seconds, PJRT_LoadedExecutable* count, double* whole) {
  for (int32_t n = 1000;; n *= 4) {
    *whole = 1e30;
    for (int run = 0; run < 3 && (run == 0 || *whole > seconds); ++run) {
      const double begin = GetSeconds();
      Get(k, Execute(k, count, {Put<int32_t>(k, {}, {n})})[0]);
      *whole = std::min(*whole, GetSeconds() - begin);
    }
    if (*whole > seconds || n > 100000000) return n;
  }
}

// The event must not be early either: once it is ready, the contents are in memory for every reader.
void NotReadyTooEarly(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  const auto run = [&](int32_t n) { return Execute(k, count, {Put<int32_t>(k, {}, {n})})[0]; };
  // Work that takes long enough on this plugin to distinguish waiting for it from a copy of four bytes.
  double whole = 0;
  const int32_t n = FindStepCount(k, 0.15, count, &whole);
  for (int i = 0; i < 3; ++i) {
    PJRT_Buffer* out = run(n);
    Await(k, ReadyEvent(k, out), "the result");
    const double begin = GetSeconds();
    const int32_t value = GetAs<int32_t>(k, out)[0];
    const double waited = GetSeconds() - begin;
    k.Require(value == CountResult(n), "a loop of ", n, " steps gives ", value, ", expected ", CountResult(n));
    k.Require(waited < std::max(0.1, whole / 2),
              "a buffer is said to be ready before its contents are there: reading four bytes took ", waited,
              " s, the whole work ", whole, " s");
    if (!IsOnCpu(k, out) || !k.Has(&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount)) continue;
    PJRT_Buffer* small = run(5000);
    Await(k, ReadyEvent(k, small), "the result");
    KIT_ARGS(k, up, PJRT_Buffer_IncreaseExternalReferenceCount);
    up.buffer = small;
    KIT_OK(k, PJRT_Buffer_IncreaseExternalReferenceCount, up);
    KIT_ARGS(k, p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
    p.buffer = small;
    KIT_OK(k, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p);
    int32_t seen;
    std::memcpy(&seen, p.device_memory_ptr, 4);
    k.Require(seen == CountResult(5000),
              "a buffer is said to be ready before its contents are there: its memory holds ", seen);
  }
}

void CallbackFires(Kit& k) {
  Called* called = NewCalled(k);
  PJRT_Event* event = Later(k);
  OnReady(k, event, Note, called);
  KIT_ARGS(k, a, PJRT_Event_Await);
  a.event = event;
  KIT_OK(k, PJRT_Event_Await, a);
  k.Require(WaitFor(5, [&] { return called->times > 0; }),
            "the callback was not called within 5 s after the event was ready");
  k.Require(called->code == 0, "the callback got ", CodeName(called->code), " from work that went well");
}

void CallbackOnce(Kit& k) {
  Called* before = NewCalled(k);
  Called* after = NewCalled(k);
  PJRT_Event* event = Later(k, 100);
  OnReady(k, event, Note, before);
  WaitFor(5, [&] { return IsReady(k, event) && before->times > 0; });
  OnReady(k, event, Note, after);
  WaitFor(5, [&] { return after->times > 0; });
  WaitFor(0.2, [&] { return before->times > 1 || after->times > 1; });
  k.Require(before->times == 1 && after->times == 1, "a callback was called ", before->times.load(),
            " times, one registered on a ready event ", after->times.load(), " times; expected once each");
}

void CallbackOnReadyEvent(Kit& k) {
  PJRT_Event* event = ReadyEvent(k, Small(k));
  KIT_ARGS(k, a, PJRT_Event_Await);
  a.event = event;
  KIT_OK(k, PJRT_Event_Await, a);
  Called* called = NewCalled(k);
  OnReady(k, event, Note, called);
  k.Require(WaitFor(5, [&] { return called->times > 0; }),
            "a callback registered on an event that is ready was not called within 5 s");
}

void ManyCallbacks(Kit& k) {
  PJRT_Event* event = Later(k, 20000);
  std::vector<Called*> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(NewCalled(k));
    OnReady(k, event, Note, all.back());
  }
  KIT_ARGS(k, a, PJRT_Event_Await);
  a.event = event;
  KIT_OK(k, PJRT_Event_Await, a);
  for (Called* called : all)
    k.Require(WaitFor(5, [&] { return called->times == 1; }), "one of 100 callbacks of one event was called ",
              called->times.load(), " times");
}

void CallbackAfterDestroy(Kit& k) {
  PJRT_LoadedExecutable* count = Compile(k, kCount);
  double whole = 0;
  const int32_t n = FindStepCount(k, 0.05, count, &whole);
  PJRT_Buffer* out = Execute(k, count, {Put<int32_t>(k, {}, {n})})[0];
  PJRT_Event* event = ReadyEvent(k, out);
  Called* called = NewCalled(k);
  OnReady(k, event, Note, called);
  Destroy(k, event);
  Await(k, ReadyEvent(k, out), "the result");  // however long it takes
  k.Require(WaitFor(5, [&] { return called->times > 0; }),
            "the callback of an event that was destroyed before it was ready was not called");
}

// A callback may call the plugin, so the plugin must hold no lock during the callback.
void CallbackUsesPlugin(Kit& k) {
  k.client();
  Called* called = NewCalled(k);
  PJRT_Event* event = Later(k, 20000);
  OnReady(
      k, event,
      [](PJRT_Error* error, void* arg) {
        auto* c = static_cast<Called*>(arg);
        Kit& kit = *c->kit;
        kit.Take(error);
        PJRT_Client_BufferFromHostBuffer_Args a;
        static const Dims dims = {2};
        static const float data[2] = {1, 2};
        a = PutArgs(kit, PJRT_Buffer_Type_F32, dims, data);
        KIT_OK(kit, PJRT_Client_BufferFromHostBuffer, a);
        PJRT_Event* ready = ReadyEvent(kit, a.buffer);
        IsReady(kit, ready);
        Destroy(kit, ready);
        if (a.done_with_host_buffer != nullptr) Destroy(kit, a.done_with_host_buffer);
        Destroy(kit, a.buffer);
        c->nested_done = true;
      },
      called);
  k.Require(WaitFor(5, [&] { return called->nested_done.load(); }),
            "a callback that makes and destroys a buffer does not come back: a lock is held while it runs");
}

void ErrorOfFailedWork(Kit& k) {
  PJRT_Event* event = Created(k);
  Called* called = NewCalled(k);
  OnReady(k, event, Note, called);
  k.Require(!IsReady(k, event), "a created event is ready before it was set");
  const Err set = Set(k, event, PJRT_Error_Code_OUT_OF_RANGE, "the kit's reason");
  k.Require(set.ok(), "PJRT_Event_Set: ", FormatError(set));
  k.Require(IsReady(k, event), "an event that was set is not ready");
  k.Require(WaitFor(5, [&] { return called->times > 0; }), "the callback of an event that failed was not called");
  k.Require(called->code == PJRT_Error_Code_OUT_OF_RANGE, "the callback of an event that failed got ",
            CodeName(called->code), ", expected OUT_OF_RANGE");
  for (int i = 0; i < 2; ++i) {
    KIT_ARGS(k, a, PJRT_Event_Error);
    a.event = event;
    const Err e = KIT_TRY(k, PJRT_Event_Error, a);
    k.Require(e.code == PJRT_Error_Code_OUT_OF_RANGE, "PJRT_Event_Error gives ", FormatError(e),
              ", expected OUT_OF_RANGE");
    k.Require(e.message.find("the kit's reason") != std::string::npos, "the message was lost: '", e.message, "'");
  }
  const Err e = Outcome(k, event);
  k.Require(e.code == PJRT_Error_Code_OUT_OF_RANGE, "PJRT_Event_Await gives ", FormatError(e),
            ", expected OUT_OF_RANGE");
}

void SetOk(Kit& k) {
  PJRT_Event* event = Created(k);
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Set(k, event, PJRT_Error_Code_OK, "");
  });
  KIT_ARGS(k, a, PJRT_Event_Await);
  a.event = event;
  KIT_OK(k, PJRT_Event_Await, a);
  setter.join();
  Destroy(k, event);
}

void SetTwice(Kit& k) {
  PJRT_Event* event = Created(k);
  k.Require(Set(k, event, PJRT_Error_Code_OK, "").ok(), "an event cannot be set");
  const Err again = Set(k, event, PJRT_Error_Code_ABORTED, "again");
  k.Require(!again.ok(), "an event can be set twice");
  k.Require(Outcome(k, event).ok(), "setting an event again changed its outcome");
}

void AwaitedByMany(Kit& k) {
  PJRT_Event* event = Later(k, 100000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      KIT_ARGS(k, a, PJRT_Event_Await);
      a.event = event;
      KIT_OK(k, PJRT_Event_Await, a);
    });
  }
  for (auto& t : threads) t.join();
  Destroy(k, event);
}

void DestroyUnawaited(Kit& k) {
  for (int i = 0; i < 100; ++i) Destroy(k, ReadyEvent(k, Small(k)));
  Destroy(k, Later(k, 300000));
  Await(k, Later(k, 10), "work after an event was dropped");
}

constexpr Check kChecks[] = {
    {"events.await", "PJRT_Event_Await PJRT_Buffer_ReadyEvent", "waiting for work ends", AwaitEnds},
    {"events.ready_after_await", "PJRT_Event_Await PJRT_Event_IsReady PJRT_Event_Error",
     "what was awaited is ready and stays so", ReadyAfterAwait},
    {"events.ready_in_time", "PJRT_Event_IsReady PJRT_Buffer_ReadyEvent", "a buffer whose contents are there is ready",
     ReadyWhenContentsAre},
    {"events.not_too_early", "PJRT_Buffer_ReadyEvent PJRT_Event_Await", "a buffer that is ready has its contents",
     NotReadyTooEarly, 60},
    {"events.callback_fires", "PJRT_Event_OnReady", "a callback is called when the event is ready", CallbackFires},
    {"events.callback_once", "PJRT_Event_OnReady", "a callback is called once", CallbackOnce},
    {"events.callback_when_ready", "PJRT_Event_OnReady", "a callback on a ready event is called too",
     CallbackOnReadyEvent},
    {"events.many_callbacks", "PJRT_Event_OnReady", "each of many callbacks is called", ManyCallbacks},
    {"events.callback_after_destroy", "PJRT_Event_OnReady", "a callback outlives its event", CallbackAfterDestroy},
    {"events.callback_uses_plugin", "PJRT_Event_OnReady", "a callback may call the plugin", CallbackUsesPlugin},
    {"events.error", "PJRT_Event_Create PJRT_Event_Set PJRT_Event_OnReady",
     "an event's error reaches everyone who asks, with code and words", ErrorOfFailedWork},
    {"events.set", "PJRT_Event_Create PJRT_Event_Set", "an event set in another thread ends the waiting", SetOk},
    {"events.set_twice", "PJRT_Event_Create PJRT_Event_Set", "an event is set once", SetTwice, 0, true},
    {"events.awaited_by_many", "PJRT_Event_Await", "many threads wait for one event", AwaitedByMany},
    {"events.destroy_unawaited", "PJRT_Event_Destroy", "an event may go before it is ready", DestroyUnawaited},
};

}  // namespace

absl::Span<const Check> EventsSuite() { return kChecks; }

}  // namespace backplane::conformance
