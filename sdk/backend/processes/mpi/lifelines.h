// Connections that only tell whether the other processes are still there. MPI itself does not say that a process has
// ended.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MPI_LIFELINES_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MPI_LIFELINES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sdk/backend/processes/child_sockets.h"

namespace backplane::adapter {

// One TCP connection with each other process. The destructor says goodbye on each and closes them. Thread-safe.
class Lifelines {
 public:
  struct Options {
    int32_t process = 0, num_processes = 0;
    std::string address;  // to listen on, and where this process is reached
    std::chrono::milliseconds limit{0};
    // The store that the processes share. Both throw if they fail; `get` waits for the value.
    std::function<void(const std::string& key, const std::string& value)> put;
    std::function<std::string(const std::string& key)> get;
    // Called on a thread of its own when a connection has ended; at most once for each process. `said_goodbye` is false
    // if the process was killed, or what is at the other end does not belong to the job.
    std::function<void(int32_t process, bool said_goodbye)> on_end;
  };

  // Every process calls it, at about the same time. A connection must show a random number that the listening process
  // has put into the store; others are closed. Throws std::runtime_error.
  static std::unique_ptr<Lifelines> Connect(Options options);
  // `on_end` is not called any more after it. Must not be called by `on_end`.
  ~Lifelines();

 private:
  explicit Lifelines(Options options) : options_(std::move(options)) {}
  void Watch();

  const Options options_;
  std::vector<int> sockets_;  // by process; -1: none
  std::unique_ptr<ChildSockets> child_sockets_;
  int wake_[2] = {-1, -1};  // a pipe that ends the thread
  std::thread thread_;
};

}  // namespace backplane::adapter

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MPI_LIFELINES_H_
