// Findings at the end of lifetimes, of a client and of the process, and about callbacks that did not run.
#include <map>

#include "absl/strings/str_cat.h"
#include "sdk/layers/error.h"
#include "sdk/layers/validate/layer_impl.h"

namespace backplane::layers {

void ValidateLayer::FollowCallback(Call& call, const void* client) {
  const auto* a = call.As<PJRT_Event_OnReady_Args>();
  if (!Has(a, &PJRT_Event_OnReady_Args::user_arg)) return;
  struct Hook : ReadyHook {
    Hook(std::shared_ptr<ValidateState> s, Stack* l) : state(std::move(s)), layers(l) {}
    PJRT_Error* Ready(PJRT_Error* error) override {
      state->RemovePending(&pending);
      if (error == nullptr) return error;
      // The callback owns the error, like a caller.
      if (layers->minor_version() >= 107) error = WrapError(*layers, error);
      state->handles.AddOwned(Object::Error, error, Fn::PJRT_Event_OnReady, pending.stack, nullptr);
      return error;
    }
    void Dropped() override { state->RemovePending(&pending); }
    const std::shared_ptr<ValidateState> state;
    Stack* const layers;
    ValidateState::Pending pending;
  };
  auto hook = std::make_unique<Hook>(state_, call.stack);
  ValidateState::Pending& p = hook->pending;
  p.event = a->event;
  p.client = client;
  p.stack = Remember(call);
  p.fn = call.fn;
  p.since = ReadTicks();
  // Added once it is certain that the callback will run or be destroyed.
  if (Hook* h = hook.get(); HookOnReady(call, std::move(hook))) state_->AddPending(&h->pending);
}

void ValidateLayer::CheckClientDestroy(Call& call, const void* client) {
  struct Group {
    uint64_t count = 0;
    std::pair<std::string, uint32_t> created;
    std::vector<const void*> handles;
  };
  std::map<Object, Group> groups;
  if (const std::optional<Handle> h = state_->handles.Find(Object::Client, client); !h.has_value() || !h->alive) return;
  state_->handles.ForEachOwned([&](Object type, const void* handle, const Handle& h) {
    if (h.client != client || type == Object::Client || h.reported) return;
    Group& g = groups[type];
    if (g.count++ == 0) g.created = {absl::StrCat("the first was created by ", GetInfo(h.created_by).name), h.created};
    g.handles.push_back(handle);
  });
  for (const auto& [type, g] : groups) {
    for (const void* handle : g.handles) state_->handles.MarkReported(type, handle);
    Add(call, "client-destroyed-early", ObjectName(type),
        absl::StrCat(FormatHandle(Object::Client, client), " is destroyed while ", g.count, " of its objects of type ",
                     ObjectName(type), " live"),
        {g.created});
  }
}

void ValidateLayer::OnClientDestroyed(Call& call, const void* client) {
  state_->handles.EndClient(client, call.fn, Remember(call));
  const auto of_client = [&](const ValidateState::Pending& p) { return client != nullptr && p.client == client; };
  for (const ValidateState::Pending& p : state_->TakeOverdue(of_client)) {
    Add(call, "callback-never-called", absl::StrCat(p.stack),
        absl::StrCat("the client is destroyed, which waits for its work, but a callback registered on ",
                     FormatHandle(Object::Event, p.event), " has not come"),
        {{absl::StrCat("registered by ", GetInfo(p.fn).name), p.stack}});
  }
}

void ValidateLayer::End() {
  struct Group {
    uint64_t count = 0;
    const void* first = nullptr;
    Fn fn = Fn::kCount;
  };
  std::map<std::pair<Object, uint32_t>, Group> groups;
  if (options_.leaks) {
    state_->handles.ForEachOwned([&](Object type, const void* handle, const Handle& h) {
      if (h.reported) return;
      Group& g = groups[{type, h.created}];
      if (g.count++ == 0) {
        g.first = handle;
        g.fn = h.created_by;
      }
    });
  }
  for (const auto& [key, g] : groups) {
    Finding f;
    f.kind = "leak";
    f.key = ObjectName(key.first);
    f.message = absl::StrCat(g.count, g.count == 1 ? " object" : " objects", " of type ", ObjectName(key.first),
                             " from ", GetInfo(g.fn).name, " never destroyed");
    f.others.push_back({absl::StrCat("created by ", GetInfo(g.fn).name), key.second});
    state_->report.Add(std::move(f), state_->stacks);
  }
  const int64_t now = ReadMonotonicNanos();
  const TickScale scale;
  const auto missed = [&](const ValidateState::Pending& p) {
    return now - scale.ToNanos(p.since) >= options_.patience_ns;
  };
  for (const ValidateState::Pending& p : state_->TakeOverdue(missed)) {
    Finding f;
    f.kind = "callback-never-called";
    f.key = absl::StrCat(p.stack);
    f.message = absl::StrCat("a callback registered on ", FormatHandle(Object::Event, p.event), " ",
                             (now - scale.ToNanos(p.since)) / 1000000, " ms before the end has not come");
    f.others.push_back({absl::StrCat("registered by ", GetInfo(p.fn).name), p.stack});
    state_->report.Add(std::move(f), state_->stacks);
  }
  Flush();
}

}  // namespace backplane::layers
