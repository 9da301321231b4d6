// Decides which sequences of kernels and copies a program starts as graphs, and keeps the graphs.
//
// A sequence that was started before gets a graph. While the device has not finished the launches of a graph, only
// launches on the same stream with the same arguments may use it again. For other arguments the cache has further
// graphs of the same shape, or changes those of one that is not in use. Everything else is started singly, with the
// same results: so is a sequence whose graph cannot be made.
//
// GraphMode::kAuto compares times of the host. A sequence gets a graph after it has been started singly a few times. It
// loses the graph if starting that takes no less time. The same is measured for launches whose arguments had to be
// changed first.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_CACHE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_CACHE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "plugins/hip/backend/options.h"
#include "plugins/hip/backend/start_graph.h"

namespace backplane::hip {

// The graphs that a launch of a program uses. They may be released when the device has finished.
using GraphUses = absl::InlinedVector<std::shared_ptr<StartGraph>, 1>;

// The shortest times that the host needed to start a sequence, in seconds.
class StartTimes {
 public:
  // How a sequence was started: singly, as a graph with the arguments that it had, as a graph of which at most half of
  // the nodes were changed, or as one of which more were.
  enum Way { kSingly, kUnchanged, kFewChanges, kManyChanges };

  void Add(Way way, double seconds) {
    Best& best = best_[way];
    best.seconds = std::min(best.seconds, seconds);
    ++best.count;
  }
  // Whether enough is known to compare a way with others.
  bool IsKnown(Way way) const { return best_[way].count >= kEnough; }
  // Whether the way may be used: it is faster than single starts, or has not been measured often enough.
  bool IsWorthwhile(Way way) const { return !IsKnown(way) || best_[way].seconds < best_[kSingly].seconds; }
  double seconds(Way way) const { return best_[way].seconds; }

 private:
  static constexpr int kEnough = 3;
  struct Best {
    double seconds = std::numeric_limits<double>::infinity();
    int64_t count = 0;
  };
  std::array<Best, 4> best_;
};

// The graphs of a loaded program on one device. Thread-safe. Nothing may use them when it is destroyed.
class GraphCache {
 public:
  struct Options {
    GraphMode mode = GraphMode::kOff;
    std::atomic<int64_t>* nodes = nullptr;  // of all graphs on the device
    int64_t max_nodes = 1 << 16;            // no graph is made beyond it
    // How many nodes of one graph are changed before another takes its place: AMD's runtime takes memory for each.
    int64_t max_changed_nodes = 1 << 16;
    double (*now)() = nullptr;                  // seconds; null: the steady clock
    std::function<void(std::string note)> log;  // called while a launch uses the cache; may be null
  };
  GraphCache(const HipApi& api, int device, const LoadedKernels& kernels, Options options);

  // Whether a sequence may contain the kernel. A vendor's library starts its work itself.
  bool CanHold(int function) const { return kernels_.function(function).replacement == nullptr; }
  // Starts the sequence on the stream of the queue, and adds what it uses to *uses.
  absl::Status Start(StreamQueue& queue, const StartSequence& sequence, GraphUses* uses);

 private:
  static constexpr size_t kMaxShapes = 256, kMaxGraphs = 4, kMaxRecent = 8;
  static constexpr int kMaxFailures = 3;

  // Sequences of one shape.
  struct Shape {
    StartSequence first;
    std::vector<std::shared_ptr<StartGraph>> graphs;  // the one that was used last is last
    std::deque<uint64_t> recent;                      // hashes of arguments that were used lately
    StartTimes times;
    bool noted = false, given_up = false;
  };
  struct Found {
    std::shared_ptr<StartGraph> graph;   // null: the sequence is started singly
    std::optional<StartTimes::Way> way;  // nullopt: the graph is new
  };

  // Returns the sequences of the shape; null if the cache has no more room.
  Shape* FindShape(const StartSequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Found FindGraph(Shape& shape, const StartSequence& sequence, hipStream_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayMake(Shape& shape, const StartSequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Found ChangeGraph(Shape& shape, const StartSequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteTimes(Shape& shape) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Log(std::string note) const {
    if (options_.log != nullptr) options_.log(std::move(note));
  }
  // Makes the graph the one that was used last.
  static void Touch(Shape& shape, const std::shared_ptr<StartGraph>& graph);
  static absl::Status StartSingly(StreamQueue& queue, const StartSequence& sequence);

  const HipApi& api_;
  const int device_;
  const LoadedKernels& kernels_;
  const Options options_;
  Mutex mu_;  // held while a graph is made, changed or launched
  absl::flat_hash_map<uint64_t, std::vector<std::unique_ptr<Shape>>> shapes_ ABSL_GUARDED_BY(mu_);
  size_t shape_count_ ABSL_GUARDED_BY(mu_) = 0;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_GRAPH_CACHE_H_
