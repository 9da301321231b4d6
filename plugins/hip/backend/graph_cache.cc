#include "plugins/hip/backend/graph_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"

namespace backplane::hip {
namespace {

double ReadSteadyClock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether no launch uses the graph: only the cache has it, and the cache alone gives it out.
bool IsIdle(const std::shared_ptr<StartGraph>& graph) { return graph.use_count() == 1; }

}  // namespace

GraphCache::GraphCache(const HipApi& api, int device, const LoadedKernels& kernels, Options options)
    : api_(api), device_(device), kernels_(kernels), options_([&] {
        if (options.now == nullptr) options.now = ReadSteadyClock;
        return std::move(options);
      }()) {}

absl::Status GraphCache::StartSingly(StreamQueue& queue, const StartSequence& sequence) {
  for (const StartSequence::Start& s : sequence.starts()) {
    const absl::Span<void* const> arguments = sequence.ArgumentsOf(s);
    if (s.function == StartSequence::kCopy) {
      RETURN_IF_ERROR(queue.CopyWithin(arguments[1], arguments[0], s.bytes));
    } else {
      RETURN_IF_ERROR(queue.Launch(s.function, s.blocks, s.threads, arguments));
    }
  }
  return absl::OkStatus();
}

GraphCache::Shape* GraphCache::FindShape(const StartSequence& sequence) {
  std::vector<std::unique_ptr<Shape>>& same = shapes_[sequence.HashShape()];
  for (const std::unique_ptr<Shape>& shape : same) {
    if (shape->first.HasShapeOf(sequence)) return shape.get();
  }
  if (shape_count_ >= kMaxShapes) return nullptr;
  same.push_back(std::make_unique<Shape>());
  ++shape_count_;
  same.back()->first = sequence;
  return same.back().get();
}

void GraphCache::Touch(Shape& shape, const std::shared_ptr<StartGraph>& graph) {
  const auto at = std::find(shape.graphs.begin(), shape.graphs.end(), graph);
  std::rotate(at, at + 1, shape.graphs.end());
}

bool GraphCache::MayMake(Shape& shape, const StartSequence& sequence) {
  // A graph that has been changed too often makes room for a new one.
  const auto used_up = std::find_if(shape.graphs.begin(), shape.graphs.end(), [&](const auto& graph) {
    return IsIdle(graph) && graph->changed_nodes() >= options_.max_changed_nodes;
  });
  if (used_up != shape.graphs.end()) shape.graphs.erase(used_up);
  if (options_.nodes->load() + static_cast<int64_t>(sequence.size()) > options_.max_nodes) return false;
  if (shape.graphs.size() >= kMaxGraphs) return false;
  if (options_.mode == GraphMode::kOn || shape.graphs.empty()) return true;
  // Arguments that come again are worth a graph of their own.
  const uint64_t hash = sequence.HashArguments();
  const bool again = std::find(shape.recent.begin(), shape.recent.end(), hash) != shape.recent.end();
  if (!again) {
    if (shape.recent.size() >= kMaxRecent) shape.recent.pop_front();
    shape.recent.push_back(hash);
  }
  return again;
}

GraphCache::Found GraphCache::ChangeGraph(Shape& shape, const StartSequence& sequence) {
  std::shared_ptr<StartGraph> best;
  size_t fewest = 0;
  for (const std::shared_ptr<StartGraph>& graph : shape.graphs) {
    if (!IsIdle(graph) || graph->changed_nodes() >= options_.max_changed_nodes) continue;
    const std::optional<size_t> changes = graph->CountChanges(sequence);
    if (!changes.has_value() || (best != nullptr && *changes >= fewest)) continue;
    best = graph, fewest = *changes;
  }
  if (best == nullptr) return {};
  const StartTimes::Way way = 2 * fewest <= sequence.size() ? StartTimes::kFewChanges : StartTimes::kManyChanges;
  if (options_.mode == GraphMode::kAuto && !shape.times.IsWorthwhile(way)) return {};
  // A graph of which only some nodes were changed is never launched.
  shape.graphs.erase(std::find(shape.graphs.begin(), shape.graphs.end(), best));
  if (const absl::Status changed = best->Update(sequence); !changed.ok()) {
    Fail(changed);
    return {};
  }
  shape.graphs.push_back(best);
  return {std::move(best), way};
}

GraphCache::Found GraphCache::FindGraph(Shape& shape, const StartSequence& sequence, hipStream_t stream) {
  for (const std::shared_ptr<StartGraph>& graph : shape.graphs) {
    if (graph->sequence().HasArgumentsOf(sequence) && (IsIdle(graph) || graph->stream() == stream))
      return {graph, StartTimes::kUnchanged};
  }
  if (MayMake(shape, sequence)) {
    absl::StatusOr<std::shared_ptr<StartGraph>> made =
        StartGraph::Make(api_, device_, kernels_, sequence, options_.nodes);
    if (made.ok()) {
      shape.graphs.push_back(*made);
      if (!std::exchange(shape.noted, true))
        Log(absl::StrCat("device ", device_, ": ", sequence.size(), " kernels and copies are started as a graph"));
      return {*std::move(made), std::nullopt};
    }
    Fail(made.status());
    return {};
  }
  return ChangeGraph(shape, sequence);
}

void GraphCache::Fail(const absl::Status& why) {
  if (++failures_ < kMaxFailures) return;
  Log(absl::StrCat("device ", device_, ": no more graphs are made: ", why.message()));
}

void GraphCache::NoteTimes(Shape& shape) {
  if (options_.mode != GraphMode::kAuto || shape.given_up || shape.times.IsWorthwhile(StartTimes::kUnchanged)) return;
  shape.given_up = true;
  Log(
      absl::StrFormat("device %d: %d kernels and copies are started singly again: a graph takes %.1f us of the host "
                      "and not less than %.1f us",
                      device_, shape.first.size(), shape.times.seconds(StartTimes::kUnchanged) * 1e6,
                      shape.times.seconds(StartTimes::kSingly) * 1e6));
}

absl::Status GraphCache::Start(StreamQueue& queue, const StartSequence& sequence, GraphUses* uses) {
  // A graph of one saves nothing, and one of two hardly anything.
  const size_t least = options_.mode == GraphMode::kAuto ? 3 : 2;
  if (sequence.size() < least) return StartSingly(queue, sequence);
  Shape* shape = nullptr;
  const double begin = options_.now();
  {
    MutexLock lock(mu_);
    shape = FindShape(sequence);
    const bool wanted = shape != nullptr && failures_ < kMaxFailures && !shape->given_up &&
                        (options_.mode == GraphMode::kOn || shape->times.IsKnown(StartTimes::kSingly));
    if (wanted) {
      const ScopedDevice current(api_, device_);
      RETURN_IF_ERROR(current.status());
      Found found = FindGraph(*shape, sequence, queue.stream());
      if (found.graph != nullptr) {
        RETURN_IF_ERROR(Fault(FaultSite::kKernel));
        Touch(*shape, found.graph);
        if (std::find(uses->begin(), uses->end(), found.graph) == uses->end()) uses->push_back(found.graph);
        queue.MarkBusy();
        absl::Status started = found.graph->Launch(queue.stream());
        // After an error it is unknown what the device runs, so nothing is started a second time.
        if (!started.ok()) {
          shape->graphs.erase(std::find(shape->graphs.begin(), shape->graphs.end(), found.graph));
          Fail(started);
          return started;
        }
        if (found.way.has_value()) shape->times.Add(*found.way, options_.now() - begin);
        NoteTimes(*shape);
        return absl::OkStatus();
      }
    }
  }
  const double single = options_.now();
  RETURN_IF_ERROR(StartSingly(queue, sequence));
  if (shape == nullptr || options_.mode != GraphMode::kAuto) return absl::OkStatus();
  MutexLock lock(mu_);
  shape->times.Add(StartTimes::kSingly, options_.now() - single);
  return absl::OkStatus();
}

}  // namespace backplane::hip
