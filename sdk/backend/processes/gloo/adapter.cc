// The transport over Gloo's TCP connections. See sdk/backend/processes/transport.h.
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "sdk/backend/processes/adapter_support.h"
#include "sdk/backend/processes/child_sockets.h"
#include "sdk/backend/processes/transport.h"

// Gloo's own waits must never reach their limit, because it closes all connections then.
static constexpr std::chrono::milliseconds kNoLimit = std::chrono::hours(24 * 365);

struct BackplaneTransfer {
  BackplaneMesh* mesh;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  bool sends;
  void Abort() const { sends ? buffer->abortWaitSend() : buffer->abortWaitRecv(); }
};

struct BackplaneMesh {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::unique_ptr<backplane::adapter::ChildSockets> sockets;
  std::mutex mu;
  bool closed = false;
  std::unordered_set<BackplaneTransfer*> transfers;
};

namespace {

using backplane::adapter::BlockSigpipe;
using backplane::adapter::Guard;
using backplane::adapter::SetError;

// Gloo's store on the functions of the caller.
class GlooStore : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(const BackplaneConnectArgs& args) : store_(args) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    store_.Put(key, data.data(), data.size());
  }
  std::vector<char> get(const std::string& key) override {
    const std::string data = store_.Get(key);
    return std::vector<char>(data.begin(), data.end());
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  const backplane::adapter::CallerStore store_;
};

int Connect(const BackplaneConnectArgs* args, BackplaneMesh** mesh, BackplaneTransportError error) {
  const BlockSigpipe block;  // Gloo starts its thread here
  return Guard(error, [&] {
    auto made = std::make_unique<BackplaneMesh>();
    const std::vector<backplane::adapter::SocketId> before = backplane::adapter::ListSockets();
    gloo::transport::tcp::attr attributes;
    attributes.hostname = args->address;
    made->device = gloo::transport::tcp::CreateDevice(attributes);
    made->context = std::make_shared<gloo::rendezvous::Context>(args->process, args->num_processes);
    made->context->setTimeout(std::chrono::milliseconds(args->time_limit_ms));
    GlooStore store(*args);
    made->context->connectFullMesh(store, made->device);
    made->sockets = std::make_unique<backplane::adapter::ChildSockets>(before);
    *mesh = made.release();
    return BACKPLANE_TRANSPORT_OK;
  });
}

template <typename Start>
int StartTransfer(BackplaneMesh* mesh, void* data, size_t size, bool sends, BackplaneTransfer** transfer,
                  BackplaneTransportError error, Start&& start) {
  const BlockSigpipe block;
  return Guard(error, [&] {
    auto made = std::make_unique<BackplaneTransfer>();
    made->mesh = mesh;
    made->sends = sends;
    made->buffer = mesh->context->createUnboundBuffer(data, size);
    {
      std::lock_guard<std::mutex> lock(mesh->mu);
      if (mesh->closed) {
        SetError(error, "closed");
        return BACKPLANE_TRANSPORT_CLOSED;
      }
      mesh->transfers.insert(made.get());
    }
    try {
      start(*made->buffer);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mesh->mu);
      mesh->transfers.erase(made.get());
      throw;
    }
    *transfer = made.release();
    return BACKPLANE_TRANSPORT_OK;
  });
}

int StartSend(BackplaneMesh* mesh, int32_t peer, uint64_t slot, const void* data, size_t size,
              BackplaneTransfer** transfer, BackplaneTransportError error) {
  return StartTransfer(mesh, const_cast<void*>(data), size, true, transfer, error,
                       [&](gloo::transport::UnboundBuffer& buffer) { buffer.send(peer, slot, 0, size); });
}

int StartReceive(BackplaneMesh* mesh, int32_t peer, uint64_t slot, void* data, size_t size,
                 BackplaneTransfer** transfer, BackplaneTransportError error) {
  return StartTransfer(mesh, data, size, false, transfer, error,
                       [&](gloo::transport::UnboundBuffer& buffer) { buffer.recv(peer, slot, 0, size); });
}

int Wait(BackplaneTransfer* transfer, int64_t time_limit_ms, BackplaneTransportError error) {
  const std::unique_ptr<BackplaneTransfer> own(transfer);
  BackplaneMesh* const mesh = own->mesh;
  const auto limit = time_limit_ms < 0 ? kNoLimit : std::chrono::milliseconds(time_limit_ms);
  const auto start = std::chrono::steady_clock::now();
  const int code = Guard(error, [&] {
    if (own->sends ? own->buffer->waitSend(nullptr, limit) : own->buffer->waitRecv(nullptr, limit))
      return BACKPLANE_TRANSPORT_OK;
    SetError(error, "closed");
    return BACKPLANE_TRANSPORT_CLOSED;
  });
  std::lock_guard<std::mutex> lock(mesh->mu);
  mesh->transfers.erase(transfer);
  const bool late = time_limit_ms >= 0 && std::chrono::steady_clock::now() - start >= limit;
  return code == BACKPLANE_TRANSPORT_FAILED && late ? BACKPLANE_TRANSPORT_TIMED_OUT : code;
}

void ShutDown(BackplaneMesh* mesh) {
  char text[256];
  {
    std::lock_guard<std::mutex> lock(mesh->mu);
    if (mesh->closed) return;
    mesh->closed = true;
  }
  const BlockSigpipe block;
  // First the connections, so that nothing writes to the memory of transfers that end.
  (void)Guard({text, sizeof text}, [&] {
    mesh->context->closeConnections();
    return 0;
  });
  std::lock_guard<std::mutex> lock(mesh->mu);
  for (BackplaneTransfer* transfer : mesh->transfers) transfer->Abort();
}

void Destroy(BackplaneMesh* mesh) {
  ShutDown(mesh);
  char text[256];
  (void)Guard({text, sizeof text}, [&] {
    for (BackplaneTransfer* transfer : mesh->transfers) delete transfer;
    delete mesh;
    return 0;
  });
}

const BackplaneTransport kTransport = {
    BACKPLANE_TRANSPORT_VERSION, "gloo", Connect, StartSend, StartReceive, Wait, ShutDown, Destroy};

}  // namespace

extern "C" __attribute__((visibility("default"))) const BackplaneTransport* backplane_get_transport() {
  return &kTransport;
}
