// The functions of RCCL and NCCL that the plugin calls, on the emulated runtime.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "plugins/hip/libraries/nccl.h"
#include "plugins/hip/libraries/testing/emulated_collective.h"

#define EMULATED_RCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace backplane::hip {

// Of libhipemu, with which this library is linked as its model is with libamdhip64.
extern "C" hipError_t hipGetDevice(int* device) noexcept;
extern "C" hipError_t hipSetDevice(int device) noexcept;
extern "C" hipError_t hipGetDeviceCount(int* count) noexcept;
extern "C" hipError_t hipDeviceSynchronize() noexcept;
extern "C" hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) noexcept;
extern "C" hipError_t hipModuleLoadData(hipModule_t* module, const void* image) noexcept;
extern "C" hipError_t hipModuleUnload(hipModule_t module) noexcept;
extern "C" hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) noexcept;
extern "C" hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned blocks_x, unsigned blocks_y,
                                            unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                                            unsigned threads_z, unsigned dynamic_shared_bytes, hipStream_t stream,
                                            void** parameters, void** extra) noexcept;
extern "C" hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) noexcept;
extern "C" hipError_t hipEventDestroy(hipEvent_t event) noexcept;
extern "C" hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) noexcept;
extern "C" hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) noexcept;
extern "C" hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) noexcept;

namespace nccl {

// What the members of one set of communicators share.
struct Clique {
  std::vector<Comm> comms;
  Mutex mu;
  CondVar changed;
  bool is_aborted ABSL_GUARDED_BY(mu) = false;
  bool is_waited_for ABSL_GUARDED_BY(mu) = false;
};

struct NcclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  hipModule_t module = nullptr;
  hipFunction_t combine = nullptr;
};

namespace {

using emulated_collective::CombineArguments;
using emulated_collective::Mode;

constexpr Enum kUnhandled = 1, kInternal = 3, kInvalidArgument = 4, kInvalidUsage = 5, kRemote = 6;

struct State {
  Mutex mu;
  Mode mode ABSL_GUARDED_BY(mu) = Mode::kRight;
  std::map<std::string, int64_t> calls ABSL_GUARDED_BY(mu), faults ABSL_GUARDED_BY(mu);
  int64_t live ABSL_GUARDED_BY(mu) = 0, groups ABSL_GUARDED_BY(mu) = 0;
};
State& GetState() {
  static State* const state = new State;
  return *state;
}

// Counts a call. Returns whether it is to fail.
bool CountCall(const char* function) {
  State& state = GetState();
  MutexLock lock(state.mu);
  ++state.calls[function];
  int64_t& left = state.faults[function];
  return left > 0 && --left == 0;
}

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kSend, kReceive };
struct GroupCall {
  Kind kind;
  const void* operand;
  void* result;
  size_t count;
  Enum type, reducer;
  int peer;
  Comm comm;
  hipStream_t stream;
};
struct Group {
  int depth = 0;
  bool is_wrong = false;
  std::vector<GroupCall> calls;
};
thread_local Group group;

// Makes a device the current one, and restores the one before.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    (void)hipGetDevice(&before_);
    (void)hipSetDevice(device);
  }
  ~OnDevice() { (void)hipSetDevice(before_); }

 private:
  int before_ = 0;
};

size_t WidthOf(Enum type) {
  constexpr size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type < 0 || type > kBfloat16 ? 0 : kWidths[type];
}

const void* AddBytes(const void* address, size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }
void* AddBytes(void* address, size_t bytes) { return static_cast<std::byte*>(address) + bytes; }

hipError_t LaunchCombine(const GroupCall& on, CombineArguments arguments) {
  size_t bytes = sizeof arguments;
  void* extra[] = {kLaunchParamBufferPointer, &arguments, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
  return hipModuleLaunchKernel(on.comm->combine, 1, 1, 1, 1, 1, 1, 0, on.stream, nullptr, extra);
}

void WaitForAbort(void* clique_pointer) {
  Clique& clique = *static_cast<Clique*>(clique_pointer);
  MutexLock lock(clique.mu);
  while (!clique.is_aborted) clique.changed.Wait(clique.mu);
}

// The calls of one clique in a group, by member.
using Members = std::vector<std::vector<GroupCall>>;

// Makes each stream of the members wait for all others.
hipError_t Meet(const Members& members) {
  std::vector<hipEvent_t> events;
  hipError_t error = hipSuccess;
  const auto keep = [&](hipError_t e) { error = error == hipSuccess ? e : error; };
  for (const std::vector<GroupCall>& calls : members) {
    events.push_back(nullptr);
    if (calls.empty()) continue;
    const OnDevice current(calls[0].comm->device);
    keep(hipEventCreateWithFlags(&events.back(), kEventDisableTiming));
    keep(hipEventRecord(events.back(), calls[0].stream));
  }
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].empty()) continue;
    const OnDevice current(members[m][0].comm->device);
    for (size_t other = 0; other < members.size(); ++other) {
      if (other != m && events[other] != nullptr) keep(hipStreamWaitEvent(members[m][0].stream, events[other], 0));
    }
  }
  for (hipEvent_t event : events) {
    if (event != nullptr) keep(hipEventDestroy(event));
  }
  return error;
}

// Enqueues the member's part of the k-th collective.
hipError_t Combine(const Members& members, size_t m, size_t k, Mode mode, bool reversed) {
  const GroupCall& own = members[m][k];
  const size_t width = WidthOf(own.type), block = own.count * width;
  CombineArguments c{};
  c.type = own.type;
  c.reducer = own.kind == Kind::kAllGather ? -1 : own.reducer;
  c.mode = mode == Mode::kWrong && m + 1 < members.size() ? Mode::kRight : mode;
  c.pieces = static_cast<int32_t>(members.size());
  c.reversed = reversed ? 1 : 0;
  c.count = static_cast<int64_t>(own.count);
  c.to[0] = own.result;
  for (size_t p = 0; p < members.size(); ++p) {
    const size_t offset = own.kind == Kind::kReduceScatter ? m * block : 0;
    c.from[p] = AddBytes(members[p][k].operand, offset);
    if (own.kind == Kind::kAllGather) c.to[p] = AddBytes(own.result, p * block);
  }
  return LaunchCombine(own, c);
}

// Enqueues all that a member receives. The n-th receive from a peer gets its n-th send to the member.
Enum ReceiveAll(const Members& members, size_t m, Mode mode) {
  CombineArguments c{};
  c.reducer = -1;
  c.type = kUint8;
  c.mode = mode == Mode::kWrong && m + 1 < members.size() ? Mode::kRight : mode;
  std::map<int, size_t> taken;
  const GroupCall* last = nullptr;
  for (const GroupCall& call : members[m]) {
    if (call.kind != Kind::kReceive) continue;
    size_t skip = taken[call.peer]++;
    const GroupCall* sent = nullptr;
    for (const GroupCall& other : members[static_cast<size_t>(call.peer)]) {
      const bool is_for_us = other.kind == Kind::kSend && other.peer == static_cast<int>(m);
      if (is_for_us && skip-- == 0) {
        sent = &other;
        break;
      }
    }
    const int64_t bytes = static_cast<int64_t>(call.count * WidthOf(call.type));
    if (sent == nullptr || sent->count != call.count || (c.pieces > 0 && c.count != bytes) ||
        c.pieces == emulated_collective::kMaxPieces)
      return kInvalidUsage;
    c.count = bytes;
    c.from[c.pieces] = sent->operand;
    c.to[c.pieces++] = call.result;
    last = &call;
  }
  if (last == nullptr) return 0;
  return LaunchCombine(*last, c) == hipSuccess ? 0 : kUnhandled;
}

Enum RunClique(Clique& clique, const Members& members, Mode mode, bool reversed) {
  {
    MutexLock lock(clique.mu);
    if (clique.is_aborted) return kInvalidUsage;
    if (mode == Mode::kHangs || mode == Mode::kHangsWithError || mode == Mode::kFailsHalfway)
      clique.is_waited_for = mode == Mode::kHangsWithError;
  }
  const auto is_collective = [](const GroupCall& call) {
    return call.kind != Kind::kSend && call.kind != Kind::kReceive;
  };
  const bool collectives = std::any_of(members.begin(), members.end(), [&](const std::vector<GroupCall>& calls) {
    return !calls.empty() && is_collective(calls[0]);
  });
  for (const std::vector<GroupCall>& calls : members) {
    if (collectives && calls.size() != members[0].size()) return kInvalidUsage;
    for (const GroupCall& call : calls) {
      if (call.stream != calls[0].stream || is_collective(call) != collectives) return kInvalidUsage;
    }
  }
  if (mode == Mode::kFailsHalfway) {
    for (size_t m = 0; m + 1 < members.size(); ++m) {
      if (members[m].empty()) continue;
      const OnDevice current(members[m][0].comm->device);
      (void)hipLaunchHostFunc(members[m][0].stream, WaitForAbort, &clique);
    }
    return kInternal;
  }
  if (Meet(members) != hipSuccess) return kUnhandled;
  if ((mode == Mode::kHangs || mode == Mode::kHangsWithError) && !members[0].empty()) {
    const OnDevice current(members[0][0].comm->device);
    if (hipLaunchHostFunc(members[0][0].stream, WaitForAbort, &clique) != hipSuccess) return kUnhandled;
  }
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].empty()) continue;
    const OnDevice current(members[m][0].comm->device);
    if (!collectives) {
      if (const Enum result = ReceiveAll(members, m, mode); result != 0) return result;
      continue;
    }
    for (size_t k = 0; k < members[m].size(); ++k) {
      if (Combine(members, m, k, mode, reversed) != hipSuccess) return kUnhandled;
    }
  }
  return Meet(members) == hipSuccess ? 0 : kUnhandled;
}

Enum RunGroup(const std::vector<GroupCall>& calls) {
  State& state = GetState();
  Mode mode;
  bool reversed = false;
  {
    MutexLock lock(state.mu);
    mode = state.mode;
    reversed = mode == Mode::kUnordered && state.groups++ % 2 == 1;
  }
  std::map<Clique*, Members> cliques;
  for (const GroupCall& call : calls) {
    Members& members = cliques[call.comm->clique.get()];
    members.resize(call.comm->clique->comms.size());
    members[static_cast<size_t>(call.comm->rank)].push_back(call);
  }
  for (const auto& [clique, members] : cliques) {
    if (const Enum result = RunClique(*clique, members, mode, reversed); result != 0) return result;
  }
  return 0;
}

Enum AddCall(const char* function, const GroupCall& call) {
  const bool fails = CountCall(function);
  const bool is_wrong = call.comm == nullptr || call.stream == nullptr || call.count == 0 || WidthOf(call.type) == 0 ||
                        (call.kind != Kind::kReceive && call.operand == nullptr) ||
                        (call.kind != Kind::kSend && call.result == nullptr) || call.reducer < kSum ||
                        call.reducer > kMinimum || call.peer < 0 ||
                        call.peer >= static_cast<int>(call.comm->clique->comms.size());
  if (fails || is_wrong) {
    group.is_wrong = true;
    return fails ? kInternal : kInvalidArgument;
  }
  if (group.depth == 0) return kInvalidUsage;  // a single thread has all members, so they need a group
  group.calls.push_back(call);
  return 0;
}

void FreeComm(Comm comm) {
  const OnDevice current(comm->device);
  (void)hipModuleUnload(comm->module);
  {
    State& state = GetState();
    MutexLock lock(state.mu);
    --state.live;
  }
  delete comm;
}

}  // namespace
}  // namespace nccl

using nccl::Comm;
using nccl::Enum;
using nccl::GetState;
using nccl::Kind;
using nccl::State;

EMULATED_RCCL_EXPORT Enum ncclGetVersion(int* version) {
  if (nccl::CountCall("ncclGetVersion")) return nccl::kInternal;
  *version = 22203;
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclCommInitAll(Comm* comms, int count, const int* devices) {
  if (nccl::CountCall("ncclCommInitAll")) return nccl::kUnhandled;
  int known = 0;
  (void)hipGetDeviceCount(&known);
  if (count < 1 || count > emulated_collective::kMaxPieces) return nccl::kInvalidArgument;
  std::ifstream file(EMULATED_COLLECTIVE_KERNEL, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(file), {});
  auto clique = std::make_shared<nccl::Clique>();
  Enum result = 0;
  for (int r = 0; r < count && result == 0; ++r) {
    if (devices[r] < 0 || devices[r] >= known || std::count(devices, devices + count, devices[r]) != 1) {
      result = nccl::kInvalidArgument;
      break;
    }
    auto comm = std::make_unique<nccl::NcclComm>();
    comm->clique = clique, comm->rank = r, comm->device = devices[r];
    const nccl::OnDevice current(devices[r]);
    for (int peer = 0; peer < known; ++peer) {
      if (peer != devices[r]) (void)hipDeviceEnablePeerAccess(peer, 0);  // it may be enabled already
    }
    if (hipModuleLoadData(&comm->module, image.data()) != hipSuccess) {
      result = nccl::kUnhandled;
      break;
    }
    {
      State& state = GetState();
      MutexLock lock(state.mu);
      ++state.live;
    }
    if (hipModuleGetFunction(&comm->combine, comm->module, "combine") != hipSuccess) result = nccl::kUnhandled;
    clique->comms.push_back(comm.release());
  }
  if (result != 0) {
    for (Comm comm : clique->comms) nccl::FreeComm(comm);
    return result;
  }
  std::copy(clique->comms.begin(), clique->comms.end(), comms);
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclCommDestroy(Comm comm) {
  (void)nccl::CountCall("ncclCommDestroy");
  nccl::FreeComm(comm);
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclCommAbort(Comm comm) {
  (void)nccl::CountCall("ncclCommAbort");
  const std::shared_ptr<nccl::Clique> clique = comm->clique;
  {
    MutexLock lock(clique->mu);
    clique->is_aborted = true;
    clique->changed.NotifyAll();
  }
  // Host functions of the streams may still look at the clique, so it stays.
  static auto* const kept = new std::vector<std::shared_ptr<nccl::Clique>>;
  {
    State& state = GetState();
    MutexLock lock(state.mu);
    kept->push_back(clique);
  }
  {
    // What is left of the work ends now, and uses the kernel.
    const nccl::OnDevice current(comm->device);
    (void)hipDeviceSynchronize();
  }
  nccl::FreeComm(comm);
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclCommGetAsyncError(Comm comm, Enum* error) {
  if (nccl::CountCall("ncclCommGetAsyncError")) return nccl::kInternal;
  MutexLock lock(comm->clique->mu);
  *error = comm->clique->is_waited_for ? nccl::kRemote : 0;
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclGroupStart() {
  if (nccl::CountCall("ncclGroupStart")) return nccl::kInternal;
  if (nccl::group.depth++ == 0) nccl::group.is_wrong = false;
  return 0;
}

EMULATED_RCCL_EXPORT Enum ncclGroupEnd() {
  const bool fails = nccl::CountCall("ncclGroupEnd");
  if (nccl::group.depth == 0) return nccl::kInvalidUsage;
  if (--nccl::group.depth > 0) return 0;
  std::vector<nccl::GroupCall> calls;
  calls.swap(nccl::group.calls);
  if (fails || nccl::group.is_wrong) return nccl::kInternal;
  return nccl::RunGroup(calls);
}

EMULATED_RCCL_EXPORT Enum ncclAllReduce(const void* operand, void* result, size_t count, Enum type, Enum reducer,
                                        Comm comm, hipStream_t stream) {
  return nccl::AddCall("ncclAllReduce", {Kind::kAllReduce, operand, result, count, type, reducer, 0, comm, stream});
}

EMULATED_RCCL_EXPORT Enum ncclReduceScatter(const void* operand, void* result, size_t count, Enum type, Enum reducer,
                                            Comm comm, hipStream_t stream) {
  return nccl::AddCall("ncclReduceScatter",
                       {Kind::kReduceScatter, operand, result, count, type, reducer, 0, comm, stream});
}

EMULATED_RCCL_EXPORT Enum ncclAllGather(const void* operand, void* result, size_t count, Enum type, Comm comm,
                                        hipStream_t stream) {
  return nccl::AddCall("ncclAllGather", {Kind::kAllGather, operand, result, count, type, 0, 0, comm, stream});
}

EMULATED_RCCL_EXPORT Enum ncclSend(const void* operand, size_t count, Enum type, int peer, Comm comm,
                                   hipStream_t stream) {
  return nccl::AddCall("ncclSend", {Kind::kSend, operand, nullptr, count, type, 0, peer, comm, stream});
}

EMULATED_RCCL_EXPORT Enum ncclRecv(void* result, size_t count, Enum type, int peer, Comm comm, hipStream_t stream) {
  return nccl::AddCall("ncclRecv", {Kind::kReceive, nullptr, result, count, type, 0, peer, comm, stream});
}

EMULATED_RCCL_EXPORT void emulatedCollectiveSetMode(emulated_collective::Mode mode) {
  State& state = GetState();
  MutexLock lock(state.mu);
  state.mode = mode;
  state.groups = 0;
}

EMULATED_RCCL_EXPORT void emulatedCollectiveSetFault(const char* function, int64_t n) {
  State& state = GetState();
  MutexLock lock(state.mu);
  state.faults[function] = n;
}

EMULATED_RCCL_EXPORT int64_t emulatedCollectiveCallCount(const char* function) {
  State& state = GetState();
  MutexLock lock(state.mu);
  return state.calls[function];
}

EMULATED_RCCL_EXPORT int64_t emulatedCollectiveLiveComms() {
  State& state = GetState();
  MutexLock lock(state.mu);
  return state.live;
}

}  // namespace backplane::hip
