// What the adapters of communication libraries share. They use the standard library only. See transport.h.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_ADAPTER_SUPPORT_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_ADAPTER_SUPPORT_H_

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "sdk/backend/processes/transport.h"

namespace backplane::adapter {

inline void SetError(BackplaneTransportError error, const char* text) {
  const size_t n = std::min(std::strlen(text), error.size - 1);
  std::memcpy(error.text, text, n);
  error.text[n] = '\0';
}

// Runs `body`, which returns a code. Exceptions become FAILED with their text.
template <typename Body>
int Guard(BackplaneTransportError error, Body&& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    // Gloo's texts begin with a line of its sources: "[./gloo/transport/tcp/pair.cc:598] Connection closed by peer".
    const char* const end = e.what()[0] == '[' ? std::strstr(e.what(), "] ") : nullptr;
    SetError(error, end != nullptr ? end + 2 : e.what());
  } catch (...) {
    SetError(error, "unknown exception");
  }
  return BACKPLANE_TRANSPORT_FAILED;
}

// While it exists, writing to a connection whose other end is gone is an error, and not a signal that ends the process.
// Threads that are started meanwhile stay like that.
class BlockSigpipe {
 public:
  BlockSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BlockSigpipe() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockSigpipe(const BlockSigpipe&) = delete;
  BlockSigpipe& operator=(const BlockSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

// The store of the caller of `connect`. Throws std::runtime_error if it fails.
class CallerStore {
 public:
  explicit CallerStore(const BackplaneConnectArgs& args) : args_(args) {}
  void Put(const std::string& key, const void* data, size_t size) const {
    if (args_.put(args_.store, key.c_str(), data, size) != 0)
      throw std::runtime_error("the key-value store does not accept " + key);
  }
  std::string Get(const std::string& key, size_t capacity = 1 << 20) const {
    std::string data(capacity, '\0');
    size_t size = 0;
    if (args_.get(args_.store, key.c_str(), data.data(), data.size(), &size) != 0 || size > data.size())
      throw std::runtime_error("the key-value store does not have \"" + key + "\", which another process puts there");
    data.resize(size);
    return data;
  }

 private:
  const BackplaneConnectArgs& args_;
};

}  // namespace backplane::adapter

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_ADAPTER_SUPPORT_H_
