// Programs with arguments and expected results, and the steps that run them, for the tests that make something fail.
#ifndef BACKPLANE_PLUGINS_CPU_FAULTS_TESTING_H_
#define BACKPLANE_PLUGINS_CPU_FAULTS_TESTING_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "api/pjrt_c_api.h"
#include "sdk/testing/api_calls.h"

namespace backplane::testing {

inline constexpr int kTimeLimitSeconds = 60;  // for one round: a second or two of work on a busy machine

// Ends the process if a round takes too long, because something waits for ever.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : what_(std::move(what)), thread_([this] { Watch(); }) {}
  ~Watchdog();

 private:
  void Watch();

  const std::string what_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool done_ = false;  // under mu_
  std::thread thread_;
};

struct BufferDeleter {
  void operator()(PJRT_Buffer* b) const { Destroy(b); }
};
using Buffer = std::unique_ptr<PJRT_Buffer, BufferDeleter>;
struct ExecutableDeleter {
  void operator()(PJRT_LoadedExecutable* e) const { Destroy(e); }
};
using Loaded = std::unique_ptr<PJRT_LoadedExecutable, ExecutableDeleter>;
struct ClientDeleter {
  void operator()(PJRT_Client* c) const { Destroy(c); }
};
using OwnedClient = std::unique_ptr<PJRT_Client, ClientDeleter>;

// Makes a client of two devices, which wait for one another for `collective_seconds` at most.
absl::Status OpenClient(OwnedClient* client, int64_t collective_seconds = 120);

// A dense array in host memory.
struct Value {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::string bytes;
};

absl::Status Upload(PJRT_Client* client, PJRT_Device* device, const Value& value, Buffer* buffer);
absl::Status Download(PJRT_Buffer* buffer, std::string* bytes);

// A program with its arguments and its expected results.
struct Job {
  std::string text;
  int replicas = 1;
  std::vector<std::vector<Value>> arguments;             // by device
  std::vector<std::vector<std::vector<float>>> results;  // by device, output
};

Job TransformerStep();  // a training step
Job TwoDeviceStep();    // a step with a sum over the devices
Job ConstantStep();     // a product with a constant, which the compiler packs
Job ManyOperations();   // operations of libraries, loops and branches

absl::Status Build(PJRT_Client* client, const Job& job, Loaded* out);

// One step: copies the arguments to the device, runs the program, copies the results back. Waits for everything that it
// has started, also after an error. DataLoss: a result is wrong.
absl::Status RunStep(PJRT_Client* client, PJRT_LoadedExecutable* program, const Job& job);

// The memory of arrays and programs in this process.
struct Live {
  int64_t blocks, bytes;
  bool operator==(const Live&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Live& live);

Live CountLive();
// Waits up to two seconds for `expected`, because memory may be released a little after the host has heard of the end.
Live SettledLive(const Live& expected);

}  // namespace backplane::testing

#endif  // BACKPLANE_PLUGINS_CPU_FAULTS_TESTING_H_
