// The transport over MPI's messages. See sdk/backend/processes/transport.h.
//
// All processes of the job must be the processes of one MPI_COMM_WORLD, in any order. Each mesh has a communicator of
// its own. A slot becomes a tag. A lifeline to each process (lifelines.h) tells when that process ends, which MPI does
// not tell.
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sdk/backend/processes/adapter_support.h"
#include "sdk/backend/processes/mpi/engine.h"

namespace backplane::adapter {
namespace {

using Clock = MpiEngine::Clock;
using std::chrono::milliseconds;

// Up to this size what is sent is copied, so that the caller's memory is free even if the receiver never takes it.
constexpr size_t kMaxCopiedBytes = 512 * 1024;
// Slots are numbers that follow one another, so that those in use at a time have different tags.
constexpr int kMinTags = 32767;

int TagOf(const MpiEngine& engine, uint64_t slot) {
  return slot == 0 ? 0 : static_cast<int>(1 + (slot - 1) % static_cast<uint64_t>(engine.max_tag() - 1));
}

// `size` bytes as `count` elements of `type`. MPI counts with int, so that large blocks need a type of their own.
class Block {
 public:
  explicit Block(size_t size) {
    constexpr size_t kUnit = size_t{1} << 30;
    if (size <= size_t{INT_MAX}) {
      count_ = static_cast<int>(size);
      return;
    }
    MPI_Datatype unit;
    MPI_Type_contiguous(static_cast<int>(kUnit), MPI_BYTE, &unit);
    int lengths[2] = {static_cast<int>(size / kUnit), static_cast<int>(size % kUnit)};
    MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(size - size % kUnit)};
    MPI_Datatype types[2] = {unit, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, offsets, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&unit);
    count_ = 1;
  }
  // MPI keeps the type as long as a transfer uses it.
  ~Block() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

// Waits for the transfer and takes its result. The caller frees it.
int Finish(std::unique_lock<std::mutex>& lock, BackplaneTransfer* transfer, const Clock::time_point* deadline,
           BackplaneTransportError error) {
  MpiEngine::Get().Wait(lock, transfer, deadline);
  transfer->mesh->transfers.erase(transfer);
  if (transfer->code != BACKPLANE_TRANSPORT_OK) SetError(error, transfer->error.c_str());
  return transfer->code;
}

// Finds the rank of each process, and checks that the ranks are those of one MPI job.
void FindRanks(const BackplaneConnectArgs& args, const CallerStore& store, BackplaneMesh* mesh) {
  MpiEngine& engine = MpiEngine::Get();
  if (engine.world_size() != args.num_processes) {
    throw std::runtime_error("MPI has started " + std::to_string(engine.world_size()) + " processes, the job has " +
                             std::to_string(args.num_processes));
  }
  if (engine.max_tag() < kMinTags) throw std::runtime_error("this MPI has too few tags");
  const char* name = std::getenv("PMIX_NAMESPACE");
  const std::string job = name == nullptr ? "" : name;
  const std::string rank = std::to_string(engine.rank()) + " " + job;
  store.Put("rank/" + std::to_string(args.process), rank.data(), rank.size());
  mesh->peers.resize(static_cast<size_t>(args.num_processes));
  std::vector<bool> is_taken(mesh->peers.size());
  for (size_t p = 0; p < mesh->peers.size(); ++p) {
    const std::string record = store.Get("rank/" + std::to_string(p));
    const size_t space = record.find(' ');
    const long value = std::strtol(record.c_str(), nullptr, 10);
    if (space == std::string::npos || value < 0 || value >= args.num_processes ||
        is_taken[static_cast<size_t>(value)] || record.substr(space + 1) != job)
      throw std::runtime_error("process " + std::to_string(p) + " was started by another mpirun");
    is_taken[static_cast<size_t>(value)] = true;
    mesh->peers[p].rank = static_cast<int>(value);
  }
}

int Connect(const BackplaneConnectArgs* args, BackplaneMesh** out, BackplaneTransportError error) {
  const BlockSigpipe block_signal;  // the engine starts its thread here
  return Guard(error, [&]() -> int {
    const auto deadline = Clock::now() + milliseconds(args->time_limit_ms);
    MpiEngine& engine = MpiEngine::Get();
    engine.Start(deadline);
    const CallerStore store(*args);
    auto mesh = std::make_unique<BackplaneMesh>();
    mesh->process = args->process;
    FindRanks(*args, store, mesh.get());
    Lifelines::Options lifelines;
    lifelines.process = args->process;
    lifelines.num_processes = args->num_processes;
    lifelines.address = args->address;
    lifelines.limit = std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), milliseconds(1));
    lifelines.put = [&](const std::string& key, const std::string& value) {
      store.Put(key, value.data(), value.size());
    };
    lifelines.get = [&](const std::string& key) { return store.Get(key); };
    lifelines.on_end = [mesh = mesh.get()](int32_t process, bool said_goodbye) {
      MpiEngine::Get().PeerHasLeft(mesh, process, said_goodbye);
    };
    mesh->lifelines = Lifelines::Connect(std::move(lifelines));
    std::unique_lock<std::mutex> lock(engine.mu());
    engine.ThrowIfBrokenLocked();
    BackplaneTransfer duplication;
    duplication.mesh = mesh.get();
    duplication.peer = args->process;
    if (const int code = MPI_Comm_idup(MPI_COMM_WORLD, &mesh->comm, &duplication.request); code != MPI_SUCCESS)
      throw std::runtime_error("MPI_Comm_idup: " + FormatMpiError(code));
    mesh->transfers.insert(&duplication);
    engine.AddMeshLocked(mesh.get());
    engine.AddLocked(&duplication);
    if (const int code = Finish(lock, &duplication, &deadline, error); code != BACKPLANE_TRANSPORT_OK) {
      engine.RemoveMeshLocked(mesh.get());
      lock.unlock();
      mesh->lifelines.reset();
      (void)mesh.release();  // MPI may still write the communicator
      return code;
    }
    MPI_Comm_set_errhandler(mesh->comm, MPI_ERRORS_RETURN);
    *out = mesh.release();
    return BACKPLANE_TRANSPORT_OK;
  });
}

// `start` gets the tag and the request.
template <typename Start>
int StartTransfer(BackplaneMesh* mesh, int32_t peer, uint64_t slot, std::unique_ptr<char[]> copy, bool sends,
                  BackplaneTransfer** transfer, BackplaneTransportError error, Start&& start) {
  const BlockSigpipe block_signal;
  return Guard(error, [&]() -> int {
    auto made = std::make_unique<BackplaneTransfer>();
    made->mesh = mesh;
    made->peer = peer;
    made->sends = sends;
    made->copy = std::move(copy);
    MpiEngine& engine = MpiEngine::Get();
    const std::lock_guard<std::mutex> lock(engine.mu());
    if (mesh->is_closed) {
      SetError(error, "closed");
      return BACKPLANE_TRANSPORT_CLOSED;
    }
    engine.ThrowIfBrokenLocked();
    const BackplaneMesh::Peer& to = mesh->peers[static_cast<size_t>(peer)];
    if (to.is_gone && sends) throw std::runtime_error("its connection has ended");
    mesh->transfers.insert(made.get());
    if (const int code = start(to.rank, TagOf(engine, slot), &made->request); code != MPI_SUCCESS) {
      mesh->transfers.erase(made.get());
      throw std::runtime_error(FormatMpiError(code));
    }
    engine.AddLocked(made.get());
    if (to.is_gone) engine.EndIfNotDoneLocked(made.get());
    *transfer = made.release();
    return BACKPLANE_TRANSPORT_OK;
  });
}

int StartSend(BackplaneMesh* mesh, int32_t peer, uint64_t slot, const void* data, size_t size,
              BackplaneTransfer** transfer, BackplaneTransportError error) {
  std::unique_ptr<char[]> copy;
  const bool copies = size <= kMaxCopiedBytes;
  if (copies) {
    copy.reset(new (std::nothrow) char[size + 1]);
    if (copy == nullptr) {
      SetError(error, "no memory");
      return BACKPLANE_TRANSPORT_FAILED;
    }
    std::memcpy(copy.get(), data, size);
  }
  const void* const from = copies ? copy.get() : data;
  return StartTransfer(mesh, peer, slot, std::move(copy), true, transfer, error,
                       [&](int rank, int tag, MPI_Request* request) {
                         const Block block(size);
                         return MPI_Isend(from, block.count(), block.type(), rank, tag, mesh->comm, request);
                       });
}

int StartReceive(BackplaneMesh* mesh, int32_t peer, uint64_t slot, void* data, size_t size,
                 BackplaneTransfer** transfer, BackplaneTransportError error) {
  return StartTransfer(mesh, peer, slot, nullptr, false, transfer, error, [&](int rank, int tag, MPI_Request* request) {
    const Block block(size);
    return MPI_Irecv(data, block.count(), block.type(), rank, tag, mesh->comm, request);
  });
}

int Wait(BackplaneTransfer* transfer, int64_t time_limit_ms, BackplaneTransportError error) {
  const std::unique_ptr<BackplaneTransfer> own(transfer);
  return Guard(error, [&] {
    const auto deadline = Clock::now() + milliseconds(time_limit_ms);
    std::unique_lock<std::mutex> lock(MpiEngine::Get().mu());
    return Finish(lock, transfer, time_limit_ms < 0 ? nullptr : &deadline, error);
  });
}

void ShutDown(BackplaneMesh* mesh) {
  MpiEngine& engine = MpiEngine::Get();
  std::unique_ptr<Lifelines> lifelines;
  {
    const std::lock_guard<std::mutex> lock(engine.mu());
    if (mesh->is_closed) return;
    mesh->is_closed = true;
    for (BackplaneTransfer* transfer : mesh->transfers)
      engine.EndLocked(transfer, BACKPLANE_TRANSPORT_CLOSED, "closed");
    lifelines = std::move(mesh->lifelines);
  }
}

void Destroy(BackplaneMesh* mesh) {
  ShutDown(mesh);
  MpiEngine& engine = MpiEngine::Get();
  const std::lock_guard<std::mutex> lock(engine.mu());
  for (BackplaneTransfer* transfer : mesh->transfers) delete transfer;
  engine.RemoveMeshLocked(mesh);
  delete mesh;
}

constexpr BackplaneTransport kTransport = {
    BACKPLANE_TRANSPORT_VERSION, "mpi", Connect, StartSend, StartReceive, Wait, ShutDown, Destroy};

}  // namespace
}  // namespace backplane::adapter

extern "C" __attribute__((visibility("default"))) const BackplaneTransport* backplane_get_transport() {
  return &backplane::adapter::kTransport;
}
