// The fixture for tests of the messages between processes: here each process is an object, and the transport is memory.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESH_FIXTURE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESH_FIXTURE_H_

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "base/fnv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/processes/frame.h"
#include "sdk/backend/processes/message_mesh.h"
#include "sdk/backend/processes/shared_memory.h"

// One block of memory that is sent or received.
struct BackplaneTransfer {
  BackplaneMesh* mesh;
  bool sends;
  const void* from;
  void* to;
  size_t size;
  bool done = false, failed = false, waited = false;
};

// Where all meshes of a test are connected.
struct Wires {
  std::mutex mu;
  std::condition_variable changed;
  using Key = std::tuple<int, int, uint64_t>;  // sender, receiver, slot
  std::map<Key, std::deque<BackplaneTransfer*>> sends, receives;
  std::map<int, bool> closed;            // by process
  std::map<int, BackplaneMesh*> meshes;  // by process
  // Called on the thread that has waited for a receive.
  std::function<void(const BackplaneTransfer&)> on_received;
  // Called on the thread that starts a send, with the sender. Set while nothing is sent.
  std::function<void(int)> on_send;
  // What the transfer of a megabyte or more takes. Messages pass it.
  std::atomic<int> transfer_ms{0};
};
inline Wires* wires = nullptr;

struct BackplaneMesh {
  int process;
  std::vector<BackplaneTransfer*> transfers;
};

namespace backplane {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int64_t kPosted = LaunchExchange::kMaxPostedBytes;

inline int Connect(const BackplaneConnectArgs* args, BackplaneMesh** mesh, BackplaneTransportError) {
  *mesh = new BackplaneMesh{args->process, {}};
  std::lock_guard<std::mutex> lock(wires->mu);
  wires->meshes[args->process] = *mesh;
  return BACKPLANE_TRANSPORT_OK;
}

// The memory of a hostile process 1, if a test has one. Process 0 opens it instead of that of the real process.
inline std::unique_ptr<SharedMemory> hostile;

inline void ReplaceMemory(const BackplaneTransfer& sender, const BackplaneTransfer& receiver) {
  FrameHeader header;
  if (hostile == nullptr || sender.size <= sizeof header + 1) return;
  std::memcpy(&header, sender.from, sizeof header);
  if (header.kind != FrameKind::kMemory) return;
  char* const payload = static_cast<char*>(receiver.to) + sizeof header;
  if (header.process == 0) {
    EXPECT_TRUE(hostile->Open(0, absl::string_view(payload, header.payload_bytes)).ok());
    return;
  }
  const std::string description = hostile->Describe();
  header.payload_bytes = description.size();
  std::memcpy(receiver.to, &header, sizeof header);
  std::memcpy(payload, description.data(), description.size());
}

// How many allocations of this thread succeed before one fails; negative: all. See mesh_test.cc. The transport itself
// has memory.
inline thread_local int allocations_left = -1;

class WithMemory {
 public:
  ~WithMemory() { allocations_left = left_; }

 private:
  const int left_ = std::exchange(allocations_left, -1);
};

inline int Start(BackplaneMesh* mesh, bool sends, int peer, uint64_t slot, const void* from, void* to, size_t size,
                 BackplaneTransfer** transfer) {
  const WithMemory with_memory;
  if (sends && wires->on_send) wires->on_send(mesh->process);
  std::lock_guard<std::mutex> lock(wires->mu);
  auto* t = *transfer = new BackplaneTransfer{mesh, sends, from, to, size};
  const Wires::Key key = sends ? Wires::Key{mesh->process, peer, slot} : Wires::Key{peer, mesh->process, slot};
  t->failed = wires->closed[mesh->process] || wires->closed[peer];
  mesh->transfers.push_back(t);
  auto& others = (sends ? wires->receives : wires->sends)[key];
  if (t->failed) return BACKPLANE_TRANSPORT_OK;
  if (others.empty()) {
    (sends ? wires->sends : wires->receives)[key].push_back(t);
    return BACKPLANE_TRANSPORT_OK;
  }
  BackplaneTransfer* other = others.front();
  others.pop_front();
  const BackplaneTransfer &sender = sends ? *t : *other, &receiver = sends ? *other : *t;
  EXPECT_LE(sender.size, receiver.size);
  std::memcpy(receiver.to, sender.from, sender.size);
  ReplaceMemory(sender, receiver);
  t->done = other->done = true;
  wires->changed.notify_all();
  return BACKPLANE_TRANSPORT_OK;
}

inline int StartSend(BackplaneMesh* mesh, int32_t peer, uint64_t slot, const void* data, size_t size,
                     BackplaneTransfer** transfer, BackplaneTransportError) {
  return Start(mesh, true, peer, slot, data, nullptr, size, transfer);
}
inline int StartReceive(BackplaneMesh* mesh, int32_t peer, uint64_t slot, void* data, size_t size,
                        BackplaneTransfer** transfer, BackplaneTransportError) {
  return Start(mesh, false, peer, slot, nullptr, data, size, transfer);
}

// The transfers are freed with their mesh, so that a test need not care who still points to them.
inline int Wait(BackplaneTransfer* t, int64_t, BackplaneTransportError error) {
  std::unique_lock<std::mutex> lock(wires->mu);
  t->waited = true;
  wires->changed.wait(lock, [t] { return t->done || t->failed; });
  std::snprintf(error.text, error.size, "cut");
  if (t->done && t->size >= 1 << 20) {
    lock.unlock();
    std::this_thread::sleep_for(milliseconds(wires->transfer_ms));
    lock.lock();
  }
  if (t->done && wires->on_received && !t->sends) wires->on_received(*t);
  return t->done ? BACKPLANE_TRANSPORT_OK : BACKPLANE_TRANSPORT_FAILED;
}

inline void ShutDown(BackplaneMesh* mesh) {
  std::lock_guard<std::mutex> lock(wires->mu);
  wires->closed[mesh->process] = true;
  for (auto* queues : {&wires->sends, &wires->receives}) {
    for (auto& [key, queue] : *queues) {
      if (std::get<0>(key) != mesh->process && std::get<1>(key) != mesh->process) continue;
      for (BackplaneTransfer* t : queue) t->failed = true;
      queue.clear();
    }
  }
  wires->changed.notify_all();
}

inline void Destroy(BackplaneMesh* mesh) {
  ShutDown(mesh);
  for (BackplaneTransfer* t : mesh->transfers) delete t;
  delete mesh;
}

inline constexpr BackplaneTransport kMemory = {
    BACKPLANE_TRANSPORT_VERSION, "memory", Connect, StartSend, StartReceive, Wait, ShutDown, Destroy};

// Cuts all connections of a process, as if it had been killed.
inline void ShutDownProcess(int process) {
  BackplaneMesh mesh{process, {}};
  ShutDown(&mesh);
}

class MessageMeshTest : public ::testing::Test {
 protected:
  MessageMeshTest() { wires = &wires_; }
  ~MessageMeshTest() override {
    meshes_.clear();
    hostile.reset();
  }

  void ConnectAll(int count, const std::string& odd_token = "token") {
    meshes_.resize(static_cast<size_t>(count));
    status_.resize(static_cast<size_t>(count));
    RunAll([&](int i) {
      MessageMesh::Options options;
      options.transport = &kMemory;
      options.process = i;
      options.num_processes = count;
      options.token = i == 1 ? odd_token : "token";
      options.max_ahead_bytes = max_ahead_bytes_;
      options.max_unawaited_frames = max_unawaited_frames_;
      options.shared_blocks = shared_blocks_.empty() ? 0 : shared_blocks_[static_cast<size_t>(i)];
      auto mesh = MessageMesh::Connect(options);
      status_[static_cast<size_t>(i)] = mesh.status();
      if (mesh.ok()) meshes_[static_cast<size_t>(i)] = *std::move(mesh);
    });
  }
  void RunAll(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < meshes_.size(); ++i) threads.emplace_back(body, static_cast<int>(i));
    for (std::thread& t : threads) t.join();
  }
  void ExchangeAll(absl::Span<const int64_t> sizes);
  // Sends a message as if `from` had made it. It belongs to the first launch of all.
  void SendFrame(int from, int to, FrameHeader header, size_t bytes = sizeof(FrameHeader)) {
    std::vector<int32_t> all;
    for (size_t p = 0; p < meshes_.size(); ++p) all.push_back(static_cast<int32_t>(p));
    header.set = Fnv1a64(absl::string_view(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(all[0])));
    header.process = static_cast<uint16_t>(from);
    header.key.operation = 1;
    header.SetProgram({"jit_f", 1});
    BackplaneMesh* const mesh = wires_.meshes[from];
    BackplaneTransfer* transfer = nullptr;
    ASSERT_EQ(Start(mesh, true, to, kFrameSlot, &header, nullptr, bytes, &transfer), BACKPLANE_TRANSPORT_OK);
    char text[64];
    EXPECT_EQ(Wait(transfer, -1, {text, sizeof text}), BACKPLANE_TRANSPORT_OK);
  }
  std::shared_ptr<LaunchExchange> Join(int i, uint64_t digest = 1, milliseconds limit = milliseconds(60000),
                                       const std::string& name = "jit_f") {
    std::vector<int32_t> all;
    for (size_t p = 0; p < meshes_.size(); ++p) all.push_back(static_cast<int32_t>(p));
    return meshes_[static_cast<size_t>(i)]->JoinLaunch(all, {name, digest}, limit, nullptr);
  }

  Wires wires_;
  int64_t max_ahead_bytes_ = MessageMesh::Options().max_ahead_bytes;
  size_t max_unawaited_frames_ = MessageMesh::Options().max_unawaited_frames;
  std::vector<int64_t> shared_blocks_;  // by process; empty: no shared memory
  std::vector<std::unique_ptr<MessageMesh>> meshes_;
  std::vector<absl::Status> status_;
};

// Each process sends others of one size to each other one, in turn small and large ones, the same array to all, and
// one array twice; one process comes late. So parts arrive before and after they are expected.
inline void MessageMeshTest::ExchangeAll(absl::Span<const int64_t> sizes) {
  const int count = static_cast<int>(meshes_.size());
  RunAll([&](int i) {
    const auto exchange = Join(i);
    for (size_t round = 0; round < sizes.size(); ++round) {
      const int64_t bytes = sizes[round];
      const auto make = [&](int from, int to) {
        std::string data(static_cast<size_t>(bytes), static_cast<char>('a' + count * from + to));
        for (size_t k = 0; k < data.size(); k += 4093)
          data[k] = static_cast<char>(k / 4093 + static_cast<size_t>(from));
        return data;
      };
      std::vector<std::string> out, in(static_cast<size_t>(3 * count), std::string(static_cast<size_t>(bytes), '.'));
      for (int p = 0; p < count; ++p) out.push_back(make(i, p));
      std::vector<OutgoingPart> sends;
      std::vector<IncomingPart> receives;
      for (int p = 0; p < count; ++p) {
        if (p == i) continue;
        for (int part : {0, 1, 2}) {
          sends.push_back({p, part, out[static_cast<size_t>(part == 1 ? i : p)].data(), bytes});
          receives.push_back({p, part, in[static_cast<size_t>(3 * p + part)].data(), bytes});
        }
      }
      if (i == static_cast<int>(round) % count) std::this_thread::sleep_for(milliseconds(20));
      const ExchangeKey key{4, static_cast<int64_t>(round), 0, 0};
      const absl::Status status = exchange->Exchange(key, "all-reduce", sends, receives);
      ASSERT_TRUE(status.ok()) << status;
      for (int p = 0; p < count; ++p) {
        if (p == i) continue;
        for (int part : {0, 1, 2})
          EXPECT_TRUE(in[static_cast<size_t>(3 * p + part)] == make(p, part == 1 ? p : i)) << bytes << " " << part;
      }
    }
  });
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESH_FIXTURE_H_
