#include "sdk/testing/fake_backend.h"

#include <cstring>
#include <deque>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/analysis/leaves.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_storage.h"
#include "sdk/backend/operation_trace.h"

namespace backplane {
namespace testing {

FakeControl& FakeControl::Get() {
  static auto* control = new FakeControl;
  return *control;
}

void FakeControl::ReleaseAll() {
  hold_ = false;
  std::vector<std::function<void()>> work;
  {
    MutexLock lock(mu_);
    work = std::move(held_);
    held_.clear();
  }
  for (auto& w : work) {
    w();
    w = nullptr;
  }
}

void FakeControl::DropAll() {
  hold_ = false;
  std::vector<std::function<void()>> work;  // destroyed after the lock
  MutexLock lock(mu_);
  work = std::move(held_);
  held_.clear();
}

void FakeControl::FailNext(absl::Status status, bool at_launch, int later) {
  MutexLock lock(mu_);
  failure_ = std::move(status);
  failure_at_launch_ = at_launch;
  failure_later_ = later;
}

void FakeControl::Run(std::function<void()> work) {
  if (!hold_) return work();
  MutexLock lock(mu_);
  held_.push_back(std::move(work));
}

absl::Status FakeControl::TakeFailure(bool at_launch) {
  MutexLock lock(mu_);
  if (failure_.ok() || failure_at_launch_ != at_launch || failure_later_-- > 0) return absl::OkStatus();
  return std::exchange(failure_, absl::OkStatus());
}

size_t FakeControl::Queue(QueuedCopy copy) {
  MutexLock lock(mu_);
  copies_.push_back(std::move(copy));
  return copies_.size() - 1;
}

FakeControl::QueuedCopy FakeControl::TakeCopy(size_t number) {
  MutexLock lock(mu_);
  return std::exchange(copies_.at(number), QueuedCopy());
}

size_t FakeControl::queued_copies() {
  MutexLock lock(mu_);
  return copies_.size();
}

namespace {
std::atomic<int> finished_copies{0};  // the progress that the device records
}  // namespace

void FakeControl::FinishCopy(size_t number) {
  ++finished_copies;
  QueuedCopy copy = TakeCopy(number);
  absl::Status status = copy.after.Await();
  if (status.ok()) status = copy.run();
  copy.run = nullptr;
  copy.host_released.Set();
  copy.done.Set(status);
}

void FakeControl::ReleaseHost(size_t number) {
  Promise released;
  {
    MutexLock lock(mu_);
    released = copies_.at(number).host_released;
  }
  released.Set();
}

void FakeControl::FailCopy(size_t number, absl::Status status) {
  QueuedCopy copy = TakeCopy(number);
  copy.run = nullptr;
  copy.host_released.Set();
  copy.done.Set(std::move(status));
}

void FakeControl::DropCopy(size_t number) { TakeCopy(number); }

void FakeControl::ForgetCopies() {
  queues_copies = false;
  MutexLock lock(mu_);
  copies_.clear();
}

namespace {

constexpr int64_t kRemoteBytes = 4096;
constexpr size_t kStagingBytes = 1000;

class FakeSignal : public Signal {
 public:
  static constexpr char kKind = 0;
  FakeSignal() : Signal(&kKind) {}
};

class CountedStorage : public Storage {
 public:
  explicit CountedStorage(std::shared_ptr<Storage> inner) : inner_(std::move(inner)) { ++FakeControl::Get().storages; }
  ~CountedStorage() override { --FakeControl::Get().storages; }
  void* data() const override { return inner_->data(); }
  size_t size() const override { return inner_->size(); }
  bool writable() const override {
    FakeControl& control = FakeControl::Get();
    if (control.interrupts_donation.exchange(false)) control.when_donating();
    return true;
  }

 private:
  std::shared_ptr<Storage> inner_;
};

class FakeExecutable : public Executable {
 public:
  static absl::StatusOr<std::shared_ptr<Executable>> Create(std::unique_ptr<Module> module, CompileOptions options) {
    ASSIGN_OR_RETURN(ExecutableSignature signature, DescribeEntry(*module, LayoutSource::kEntry));
    const EntryLeaves leaves(*module->entry());
    for (const BufferDonor& d : module->config().buffer_donors) {
      const std::optional<int64_t> argument = leaves.FindArgument(d.parameter, d.parameter_index);
      if (argument) signature.parameters[static_cast<size_t>(*argument)].donated = true;
    }
    signature.num_replicas = options.num_replicas;
    signature.num_partitions = options.num_partitions;
    return std::shared_ptr<Executable>(new FakeExecutable(std::move(module), std::move(options), std::move(signature)));
  }
  const std::string& name() const override { return module_->name(); }
  const CompileOptions& options() const override { return options_; }
  const ExecutableSignature& signature() const override { return signature_; }
  const Module* optimized_module() const override { return module_.get(); }
  std::string fingerprint() const override { return module_->Fingerprint(); }
  NamedValues cost() const override { return {{"flops", 7.0f}}; }
  CompiledMemoryStats memory_stats() const override {
    CompiledMemoryStats stats;
    stats.temp = 11;
    stats.peak = 13;
    stats.total = 17;
    return stats;
  }
  std::string compile_log() const override { return "fake: nothing was compiled"; }
  absl::StatusOr<std::string> Serialize() const override { return module_->ToString(); }

 private:
  FakeExecutable(std::unique_ptr<Module> module, CompileOptions options, ExecutableSignature signature)
      : module_(std::move(module)), options_(std::move(options)), signature_(std::move(signature)) {}

  const std::unique_ptr<Module> module_;
  const CompileOptions options_;
  const ExecutableSignature signature_;
};

// The result of a vendor's own compiler: no module, but the facts that the host needs.
class BytesExecutable : public Executable {
 public:
  BytesExecutable(std::string bytes, CompileOptions options) : bytes_(std::move(bytes)), options_(std::move(options)) {
    Shape shape(PrimitiveType::kF32, {4});
    shape.set_row_major();
    signature_.parameters.push_back({shape, "device", false, "weights", "one sharding"});
    signature_.outputs.push_back({shape, "device", std::nullopt, -1});
    signature_.num_replicas = options_.num_replicas;
    signature_.num_partitions = options_.num_partitions;
  }
  const std::string& name() const override { return bytes_; }
  const CompileOptions& options() const override { return options_; }
  const ExecutableSignature& signature() const override { return signature_; }
  std::string fingerprint() const override { return bytes_; }
  NamedValues cost() const override { return {}; }
  CompiledMemoryStats memory_stats() const override { return {}; }
  absl::StatusOr<std::string> Serialize() const override { return bytes_; }

 private:
  const std::string bytes_;
  const CompileOptions options_;
  ExecutableSignature signature_;
};

class FakeLoaded : public LoadedExecutable {
 public:
  explicit FakeLoaded(std::shared_ptr<const Executable> executable) : executable_(std::move(executable)) {
    ++FakeControl::Get().executables;
  }
  ~FakeLoaded() override { --FakeControl::Get().executables; }

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request) override {
    FakeControl& control = FakeControl::Get();
    static Mutex mu;  // programs are launched from any thread
    {
      MutexLock lock(mu);
      control.run_ids.push_back(request.run_id);
    }
    RETURN_IF_ERROR(control.TakeFailure(/*at_launch=*/true));
    std::vector<const void*> addresses;
    std::vector<bool> signals;
    for (const DeviceArray& a : request.arguments) {
      signals.push_back(FindSignal<FakeSignal>(a.ready) != nullptr);
      addresses.push_back(a.storage == nullptr ? nullptr : a.storage->data());
    }
    {
      MutexLock lock(mu);
      control.last_donated = request.donated;
      control.last_options = request.options == nullptr ? NamedValues() : *request.options;
      control.last_arguments = std::move(addresses);
      control.last_signals = std::move(signals);
    }
    ExecuteResult result;
    Promise promise("fake program");
    result.done = promise.event();
    const Instruction* root = executable_->optimized_module()->entry()->root();
    for (const OutputInfo& o : executable_->signature().outputs) {
      const Instruction* value =
          root->Is(Opcode::kTuple) ? root->operand(static_cast<int64_t>(result.outputs.size())) : root;
      if (control.forward && value->Is(Opcode::kParameter)) {
        result.outputs.push_back(request.arguments[value->parameter_number()]);
        continue;
      }
      const int64_t bytes = o.shape.IsArray() ? o.shape.byte_size() : 0;
      ASSIGN_OR_RETURN(std::shared_ptr<Storage> memory, AllocateHostStorage(static_cast<size_t>(bytes), nullptr));
      result.outputs.push_back(
          {o.shape, request.device * 2, std::make_shared<CountedStorage>(std::move(memory)), result.done});
    }
    auto work = [executable = executable_, request = std::move(request), outputs = result.outputs,
                 promise = std::move(promise)]() mutable {
      absl::Status status = Evaluate(*executable, request, outputs);
      executable.reset();
      request = {};
      outputs.clear();
      promise.Set(std::move(status));
    };
    control.Run(std::move(work));
    return result;
  }
  void Abandon(int64_t run_id, const absl::Status&) override { FakeControl::Get().abandoned.push_back(run_id); }

 private:
  static absl::Status Evaluate(const Executable& executable, const ExecuteRequest& request,
                               const std::vector<DeviceArray>& outputs) {
    RETURN_IF_ERROR(FakeControl::Get().TakeFailure(/*at_launch=*/false));
    std::vector<Literal> arguments;
    for (const DeviceArray& a : request.arguments) {
      RETURN_IF_ERROR(a.ready.Await());
      arguments.push_back(a.shape.IsToken() ? Literal::Token() : Literal::Borrow(a.shape, a.storage->data()));
    }
    ASSIGN_OR_RETURN(Literal result, backplane::Evaluate(*executable.optimized_module(), arguments));
    std::vector<Literal> leaves = result.shape().IsTuple() ? result.elements() : std::vector<Literal>{result};
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].shape().IsArray() && outputs[i].storage->data() != static_cast<const void*>(leaves[i].bytes())) {
        std::memcpy(outputs[i].storage->data(), leaves[i].bytes(), static_cast<size_t>(leaves[i].byte_size()));
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const Executable> executable_;
};

Topology Describe(int64_t devices) {
  Topology t;
  t.platform_name = "fake";
  t.platform_version = "fake 1";
  t.attributes["rack"] = std::string("north");
  for (int32_t d = 0; d < devices; ++d) {
    t.devices.push_back({d,
                         0,
                         d + 10,
                         "chip",
                         absl::StrCat("chip:", d),
                         absl::StrCat("Fake(id=", d, ")"),
                         {{"coords", std::vector<int64_t>{d, 0}}, {"speed", 1.5f}},
                         {2 * d, 2 * d + 1}});
    t.memories.push_back({2 * d, "device", 0, {d}});
    t.memories.push_back({2 * d + 1, "remote", 1, {d}});
  }
  return t;
}

absl::StatusOr<int64_t> DeviceCount(const NamedValues& options) {
  int64_t devices = 2;
  for (const auto& [name, value] : options) {
    const int64_t* n = std::get_if<int64_t>(&value);
    if (name != "devices" || n == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": unknown; known: devices"));
    }
    devices = *n;
  }
  return devices;
}

// A thread that runs tasks in order. The destructor waits for them.
class Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    {
      MutexLock lock(mu_);
      ending_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  void Schedule(std::function<void()> task) {
    {
      MutexLock lock(mu_);
      tasks_.push_back(std::move(task));
    }
    changed_.NotifyAll();
  }

 private:
  void Loop() {
    MutexLock lock(mu_);
    while (true) {
      while (!ending_ && tasks_.empty()) changed_.Wait(mu_);
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.Unlock();
      task();
      task = nullptr;
      lock.Lock();
    }
  }
  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

class FakeClient : public Client {
 public:
  explicit FakeClient(Topology topology) : topology_(std::move(topology)) {
    if (FakeControl::Get().own_worker) worker_ = std::make_unique<Worker>();
    first_elsewhere_ = FakeControl::Get().first_device_elsewhere;
    ++FakeControl::Get().clients;
  }
  ~FakeClient() override {
    worker_.reset();
    --FakeControl::Get().clients;
  }
  void Schedule(std::function<void()> task) override {
    if (worker_ == nullptr) return Client::Schedule(std::move(task));
    worker_->Schedule(std::move(task));
  }
  const Topology& topology() const override { return topology_; }
  void Close() override { ++FakeControl::Get().closed_clients; }
  bool addressable(int32_t device) const override { return device < first_elsewhere_; }
  TransferService* transfers() override { return FakeControl::Get().transfers; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override {
    if (memory % 2 == 1 && bytes > kRemoteBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("remote memory: ", bytes, " bytes of ", kRemoteBytes));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateHostStorage(bytes, nullptr));
    return std::make_shared<CountedStorage>(std::move(storage));
  }
  bool IsHostMemory(int32_t memory) const override { return memory % 2 == 0; }
  size_t ZeroCopyAlignment(int32_t memory) const override { return memory % 2 == 0 ? 16 : 0; }
  size_t ViewAlignment(int32_t memory, PrimitiveType) const override { return memory % 2 == 0 ? 4 : 0; }
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) override {
    if (FakeControl::Get().copies_throw) throw std::bad_alloc();
    return CopyToHost(src, dst.shape, dst.storage->data());
  }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions& options) override {
    FakeControl::Get().last_load = options;
    return std::make_unique<FakeLoaded>(std::move(executable));
  }
  CopyFromHostEvents StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use) override {
    if (!FakeControl::Get().queues_copies || use == HostUse::kDuringCall)
      return Client::StartCopyFromHost(src, dst, use);
    std::vector<int64_t> dims(src.dims.begin(), src.dims.end());
    std::vector<int64_t> strides(src.byte_strides.begin(), src.byte_strides.end());
    return Enqueue(dst.ready, [this, src, dst, dims, strides] {
      return CopyFromHost({src.data, src.type, dims, strides}, dst);
    });
  }
  Event StartCopyToHost(const DeviceArray& src, const Shape& host, void* dst) override {
    if (!FakeControl::Get().queues_copies) return Client::StartCopyToHost(src, host, dst);
    return Enqueue(src.ready, [this, src, host, dst] { return CopyToHost(src, host, dst); }).done;
  }
  Event StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) override {
    if (!FakeControl::Get().queues_copies) return Client::StartCopyDevice(src, dst);
    return Enqueue(Event::All({src.ready, dst.ready}), [this, src, dst] { return CopyDevice(src, dst); }).done;
  }
  absl::StatusOr<std::shared_ptr<Storage>> AllocateStaging(int32_t device, size_t bytes) override {
    if (!FakeControl::Get().offers_staging) return Client::AllocateStaging(device, bytes);
    if (bytes > kStagingBytes) return absl::ResourceExhaustedError(absl::StrCat("staging: ", bytes, " bytes"));
    ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, AllocateHostStorage(bytes, nullptr));
    return std::make_shared<CountedStorage>(std::move(storage));
  }
  absl::Status RegisterHostMemory(void* data, size_t size) override {
    FakeControl::Get().registered[data] = size;
    return absl::OkStatus();
  }
  absl::Status UnregisterHostMemory(void* data) override {
    if (FakeControl::Get().registered.erase(data) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError("unregister: this memory was never registered");
  }
  absl::StatusOr<Event> GetStreamEvent(int32_t, void* stream) override {
    FakeControl::Get().last_stream = stream;
    return FakeControl::Get().stream_event;
  }
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override {
    MemoryStats stats;
    stats.bytes_in_use = 100 + device;
    stats.peak_bytes_in_use = 200;
    return stats;
  }

 private:
  static CopyFromHostEvents Enqueue(Event after, std::function<absl::Status()> run) {
    FakeControl::QueuedCopy copy{std::move(run), Promise("fake copy", std::make_shared<FakeSignal>()),
                                 Promise("fake copy"), std::move(after)};
    CopyFromHostEvents events{copy.done.event(), copy.host_released.event()};
    FakeControl::Get().Queue(std::move(copy));
    return events;
  }

  const Topology topology_;
  int32_t first_elsewhere_;
  std::unique_ptr<Worker> worker_;
};

class FakeBackend : public Backend {
 public:
  std::string platform_name() const override { return "fake"; }
  NamedValues plugin_attributes() const override { return {{"fake_attribute", true}}; }
  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options,
                                                       const HostServices& services) override {
    ASSIGN_OR_RETURN(int64_t devices, DeviceCount(options));
    FakeControl::Get().key_values = services.key_values;
    return std::make_unique<FakeClient>(Describe(devices));
  }
  absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) override {
    if (!name.empty() && name != "fake") return absl::NotFoundError(absl::StrCat("topology '", name, "': not known"));
    ASSIGN_OR_RETURN(int64_t devices, DeviceCount(options));
    return Describe(devices);
  }
  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology&) override {
    ++FakeControl::Get().compilations;
    return FakeExecutable::Create(std::move(module), options);
  }
  bool AcceptsProgramBytes(absl::string_view format) const override { return format == "fake"; }
  absl::StatusOr<std::shared_ptr<Executable>> CompileBytes(const ProgramBytes& program, const CompileOptions& options,
                                                           const Topology&) override {
    return std::make_shared<BytesExecutable>(std::string(program.bytes), options);
  }
  void BeginTrace() override {
    finished_copies = 0;
    ++FakeControl::Get().traces;
  }
  void EndTrace() override {
    --FakeControl::Get().traces;
    OperationTrace& trace = OperationTrace::Get();
    for (int n = finished_copies.exchange(0); n > 0; --n)
      trace.RecordOnLine(trace.GetLine("copy engine"), 0, false, "copy", "fake", 10, 20);
  }
  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology&) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ImportProgram("mlir", bytes));  // HLO text
    return FakeExecutable::Create(std::move(module), CompileOptions());
  }
};

}  // namespace
}  // namespace testing

std::unique_ptr<Backend> CreateBackend(BackendServices) { return std::make_unique<testing::FakeBackend>(); }

}  // namespace backplane
