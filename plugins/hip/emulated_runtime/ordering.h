// The check of the order between streams: two operations that access one byte of device memory, at least one of them
// writing, must be ordered by a stream, an event, the null stream, the host or the dependencies of a graph.
//
// Each stream counts its operations; a vector clock holds, for each stream, how many of its operations have finished
// before. An operation's clock is fixed when it is enqueued. What the host has seen finish (a synchronize, a query that
// says yes, a host function that runs) is before everything that is enqueued later by any thread.
//
// Copies and fills are checked for the bytes that they access. Kernels of code objects are checked for the bytes that
// the interpreter saw them access, after they ran. Of kernels of host images only the pointers among the arguments are
// known: each counts as a read of the 64-byte line that it points to, and as a write if the line has changed after the
// launch.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_ORDERING_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_ORDERING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace backplane::hip::emulated {

class VectorClock {
 public:
  void Join(const VectorClock& other);
  void Set(int stream, uint64_t time);
  uint64_t Get(int stream) const;

 private:
  std::vector<uint64_t> times_;  // by index of the stream; missing ones are 0
};

// An operation that was enqueued. Immutable.
struct Operation {
  int stream = 0;     // index
  uint64_t time = 0;  // its number within the stream, from 1 on
  VectorClock clock;  // of what is before it, itself included
  std::string text;   // "hipMemcpyHtoDAsync of 64 bytes on stream 3 of device 0"
  // Of a node within the launch of a graph: its index, and the indices of the nodes that its dependencies put before
  // it. Nodes of one launch share stream and time.
  int node = -1;
  std::shared_ptr<const std::vector<bool>> nodes_before;
};
using OperationPtr = std::shared_ptr<const Operation>;

// The clocks of all streams and of the host. Thread-safe.
class OrderTracker {
 public:
  // Returns the index of a new stream. Indices of removed streams, all of whose work has finished, are used again, so
  // that clocks stay short; the new stream goes on with the count of the old one and is ordered after it.
  int AddStream();
  void RemoveStream(int stream);
  // Returns a stream's next operation, which is ordered after what the host has seen finish.
  OperationPtr Begin(int stream, std::string text);
  // Orders the later operations of the stream after `clock`.
  void Order(int stream, const VectorClock& clock);
  void RecordHostWait(const VectorClock& clock);
  VectorClock GetClock(int stream) const;

 private:
  mutable Mutex mu_;
  std::vector<VectorClock> streams_ ABSL_GUARDED_BY(mu_);
  std::vector<int> unused_ ABSL_GUARDED_BY(mu_);
  VectorClock host_ ABSL_GUARDED_BY(mu_);
};

// The latest accesses to each byte of a device's memory. Thread-safe.
class AccessLog {
 public:
  // Records an access to [begin, end) and returns the sentence about an earlier one that nothing orders before it.
  std::optional<std::string> Record(const OperationPtr& operation, uint64_t begin, uint64_t end, bool write);
  // Forgets the accesses to memory that was freed.
  void Forget(uint64_t begin, uint64_t end);

 private:
  struct Cell {
    uint64_t end;
    OperationPtr writer;                // null: none
    std::vector<OperationPtr> readers;  // since then, one of each stream or node of a launch
  };
  using Cells = std::map<uint64_t, Cell>;
  // Splits the cell that contains `at` so that one begins there.
  void SplitAt(uint64_t at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  Cells cells_ ABSL_GUARDED_BY(mu_);  // by their beginning; disjoint
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_ORDERING_H_
