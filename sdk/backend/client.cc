// The defaults of Client and Backend. They serve backends whose device memory is host memory.
#include <atomic>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_copy.h"

namespace backplane {
namespace {

using Copy = absl::AnyInvocable<absl::Status()>;

template <typename Body>
absl::Status RunNow(Body&& copy) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  return CatchExceptions(copy);
}

// A blocking copy that waits for its arrays and then, perhaps, for a thread. If it is destroyed before it has run, its
// promise becomes an error.
struct WaitingCopy {
  Client* const client;
  const int64_t bytes;
  Copy copy;
  Promise done{"copy"};
  std::atomic<bool> taken{false};  // set by the thread that runs it or ends it

  WaitingCopy(Client* c, int64_t size, Copy work) : client(c), bytes(size), copy(std::move(work)) {}
  bool Take() { return !taken.exchange(true); }
  void Run() {
    if (Take()) Finish(RunNow(copy));
  }
  // Releases everything that the copy holds before the event is set. This may destroy the client.
  void Finish(absl::Status status) {
    copy = nullptr;
    const Promise last = std::move(done);
    last.Set(std::move(status));
  }
};

// Runs `copy` once `after` is ready: in the thread that sets the event if `bytes` is small, otherwise as a task. Does
// not throw: if memory or threads have run out, the event gets the error.
Event RunLater(Client* client, const Event& after, int64_t bytes, absl::FunctionRef<Copy()> make_copy) {
  absl::StatusOr<Event> done = CatchExceptions([&]() -> absl::StatusOr<Event> {
    auto task = std::make_shared<WaitingCopy>(client, bytes, make_copy());
    Event event = task->done.event();
    after.OnReady([task = std::move(task)](const absl::Status& status) mutable {
      std::shared_ptr<WaitingCopy> own = std::move(task);
      if (!status.ok()) {
        if (own->Take()) own->Finish(status);
        return;
      }
      if (own->bytes <= Client::kInlineCopyBytes) return own->Run();
      const absl::Status scheduled =
          CatchExceptions([&] { own->client->Schedule([own]() mutable { std::exchange(own, nullptr)->Run(); }); });
      if (!scheduled.ok() && own->Take()) own->Finish(scheduled);
    });
    return event;
  });
  return done.ok() ? *std::move(done) : Event::Ready(done.status());
}

}  // namespace

CopyFromHostEvents Client::StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use) {
  const int64_t bytes = dst.shape.byte_size();
  const bool ready = dst.ready.IsReady();
  if (use == HostUse::kDuringCall || (ready && bytes <= kInlineCopyBytes)) {
    absl::Status status = ready ? dst.ready.status() : dst.ready.Await();
    if (status.ok()) status = RunNow([&] { return CopyFromHost(src, dst); });
    return {Event::Ready(std::move(status)), Event()};
  }
  Event done = RunLater(this, dst.ready, bytes, [&]() -> Copy {
    return [this, dst, data = src.data, type = src.type, dims = DimVector(src.dims.begin(), src.dims.end()),
            strides = DimVector(src.byte_strides.begin(), src.byte_strides.end())] {
      return CopyFromHost({data, type, dims, strides}, dst);
    };
  });
  return {done, done};
}

Event Client::StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  const int64_t bytes = host_shape_with_layout.byte_size();
  if (src.ready.IsReady() && bytes <= kInlineCopyBytes) {
    absl::Status status = src.ready.status();
    if (status.ok()) status = RunNow([&] { return CopyToHost(src, host_shape_with_layout, dst); });
    return Event::Ready(std::move(status));
  }
  return RunLater(this, src.ready, bytes, [&]() -> Copy {
    return [this, src, host = host_shape_with_layout, dst] { return CopyToHost(src, host, dst); };
  });
}

Event Client::StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) {
  const int64_t bytes = dst.shape.byte_size();
  const Event after = dst.ready.IsReady() && dst.ready.status().ok() ? src.ready : Event::All({src.ready, dst.ready});
  if (after.IsReady() && bytes <= kInlineCopyBytes) {
    absl::Status status = after.status();
    if (status.ok()) status = RunNow([&] { return CopyDevice(src, dst); });
    return Event::Ready(std::move(status));
  }
  return RunLater(this, after, bytes, [&]() -> Copy { return [this, src, dst] { return CopyDevice(src, dst); }; });
}

absl::StatusOr<std::shared_ptr<Storage>> Client::AllocateStaging(int32_t device, size_t bytes) {
  return absl::UnimplementedError(
      absl::StrCat("allocate staging: device ", device, " has none, for ", bytes, " bytes"));
}

absl::Status Client::RegisterHostMemory(void* data, size_t size) { return absl::OkStatus(); }
absl::Status Client::UnregisterHostMemory(void* data) { return absl::OkStatus(); }

absl::StatusOr<Event> Client::GetStreamEvent(int32_t device, void* stream) {
  return absl::UnimplementedError(absl::StrCat("event of a stream: device ", device, " shows no streams"));
}

absl::StatusOr<size_t> Client::StorageSize(const Shape& shape, int32_t memory) const {
  if (shape.IsToken()) return size_t{0};
  return ComputeStorageBytes(shape);
}

absl::StatusOr<Layout> Client::DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const {
  return Layout::RowMajor(static_cast<int64_t>(dims.size()));
}

absl::Status Client::CopyFromHost(const HostArray& src, const DeviceArray& dst) { return CopyHostArray(src, dst); }

absl::Status Client::CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) {
  return CopyArrayToHost(src, host_shape_with_layout, dst);
}

absl::Status Client::CopyDevice(const DeviceArray& src, const DeviceArray& dst) {
  if (!IsHostMemory(src.memory) || !IsHostMemory(dst.memory)) {
    return absl::UnimplementedError(
        absl::StrCat("copy device: no copy between memories ", src.memory, " and ", dst.memory));
  }
  RETURN_IF_ERROR(CheckStorageFits(dst, "copy device"));
  return CopyToHost(src, dst.shape, dst.storage->data());
}

absl::StatusOr<MemoryStats> Client::GetMemoryStats(int32_t device) const {
  return absl::UnimplementedError(absl::StrCat("memory stats: device ", device, " keeps none"));
}

absl::Status Client::ClearMemoryStats(int32_t device) {
  return absl::UnimplementedError(absl::StrCat("clear memory stats: device ", device, " keeps none"));
}

void Client::Schedule(std::function<void()> task) { std::thread(std::move(task)).detach(); }

absl::StatusOr<std::string> Executable::PrintCode(absl::string_view form) const {
  return absl::UnimplementedError(absl::StrCat("code text: no form \"", form, "\"; this plugin has none"));
}

absl::StatusOr<std::shared_ptr<Executable>> Backend::Compile(std::unique_ptr<Module> module,
                                                             const CompileOptions& options, const Topology& topology) {
  return absl::UnimplementedError(absl::StrCat("compile: ", platform_name(), " takes no programs as modules"));
}

absl::StatusOr<std::shared_ptr<Executable>> Backend::CompileBytes(const ProgramBytes& program,
                                                                  const CompileOptions& options,
                                                                  const Topology& topology) {
  return absl::UnimplementedError(
      absl::StrCat("compile: ", platform_name(), " takes no programs as bytes of format ", program.format));
}

}  // namespace backplane
