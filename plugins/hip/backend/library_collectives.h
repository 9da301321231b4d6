// Runs the collectives of programs by a vendor's library, where its results are right and it is faster than copies
// between devices.
//
// One thread enqueues a collective for all members, under one lock, and each device does the collectives in the order
// in which they were enqueued, whatever streams and programs they belong to. So all devices have the same order, and
// none waits for a device that waits for it. The connections of a list of devices are made once.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_COLLECTIVES_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_COLLECTIVES_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "plugins/hip/backend/device.h"
#include "plugins/hip/libraries/collective_library.h"
#include "plugins/hip/program/collective.h"

namespace backplane::hip {

// What one member brings to a collective. The queue belongs to the stream; nobody else uses it meanwhile.
struct CollectiveMember {
  int device = 0;
  hipStream_t stream = nullptr;
  Queue* queue = nullptr;
  std::vector<void*> operands;
  CollectiveOffer* offer = nullptr;
};

// The connections between the devices of a list. Thread-safe.
class Connections {
 public:
  explicit Connections(std::unique_ptr<Communicators> communicators) : communicators_(std::move(communicators)) {}
  Communicators& communicators() { return *communicators_; }
  // Ends the work of all devices.
  void Abort();
  // Returns an error if they were ended, or if the library has noticed one.
  absl::Status FindError();
  bool is_aborted() const { return aborted_; }

 private:
  const std::unique_ptr<Communicators> communicators_;
  std::atomic<bool> aborted_{false};
};

// One of each client. Thread-safe.
class LibraryCollectives {
 public:
  struct Options {
    OpenedCollectiveLibrary opened;
    std::chrono::milliseconds time_limit{30000};  // of the library's work in a comparison
    // The library is used if it takes less than this part of the time of copies: what is less is noise.
    double clearly_faster = 0.97;
  };
  LibraryCollectives(std::shared_ptr<Devices> devices, Options options);
  // Opens the library (OpenCollectiveLibrary). Returns null if there is none.
  static std::unique_ptr<LibraryCollectives> Open(std::shared_ptr<Devices> devices, const std::string& name);
  ~LibraryCollectives();

  // Enqueues a collective on the streams of all members, or returns null: then they must do it by copies. The first
  // call for a collective compares the two ways, and waits for the streams. Returns the connections that are in use
  // until the streams have ended. Appends to *notes. After an error nothing of the collective is under way.
  absl::StatusOr<std::shared_ptr<Connections>> Enqueue(absl::Span<const CollectiveMember> members,
                                                       std::vector<std::string>* notes);
  // A collective that was enqueued: the event behind it on the stream of one device, and those in front of it on the
  // streams of all. Whatever holds the events must live as long.
  struct Enqueued {
    hipEvent_t behind = nullptr;
    std::vector<hipEvent_t> in_front;
  };
  // Waits for a collective that was enqueued. If the stream fails, if the library has an error, or if the collective
  // takes longer than the limit after all devices have come to it, ends the work of all devices.
  absl::Status Await(Connections& connections, int device, const Enqueued& collective,
                     std::chrono::milliseconds limit) const;
  // The same for all work of a stream, for which the limit holds as a whole.
  absl::Status Await(Connections& connections, int device, hipStream_t stream, std::chrono::milliseconds limit) const;

 private:
  // Polls `query` until it returns something else than hipErrorNotReady, and fails at the limit, which counts from the
  // time at which `begins` is true.
  absl::Status Poll(Connections& connections, int device, std::chrono::milliseconds limit,
                    absl::FunctionRef<hipError_t()> query, absl::FunctionRef<bool()> begins) const;
  static constexpr int kMaxFailures = 3;
  static constexpr size_t kMaxChoices = 4096;
  struct DeviceList {
    std::shared_ptr<Connections> connections;
    int failures = 0;
    absl::Status last_failure;
  };
  struct Compared {
    bool by_library = false;
    std::string note;
  };
  class Comparison;

  absl::StatusOr<std::shared_ptr<Connections>> Connect(const std::vector<int>& devices, DeviceList& list)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Enqueues behind the collectives that the devices were given before.
  absl::Status EnqueueInOrder(Connections& connections, absl::Span<const ArrayCollective> arrays,
                              absl::Span<const CollectiveMember> members, absl::Span<const CollectivePart> parts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Compared Compare(Connections& connections, absl::Span<const CollectiveMember> members)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<Devices> devices_;
  const OpenedCollectiveLibrary opened_;
  const std::chrono::milliseconds time_limit_;
  const double clearly_faster_;
  Mutex mu_;  // held while collectives are enqueued or compared
  std::map<std::vector<int>, DeviceList> lists_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Compared> choices_ ABSL_GUARDED_BY(mu_);
  bool noted_ ABSL_GUARDED_BY(mu_) = false;            // whether a log has the library's note
  std::vector<hipEvent_t> last_ ABSL_GUARDED_BY(mu_);  // by device: behind its last collective; null: none
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_COLLECTIVES_H_
