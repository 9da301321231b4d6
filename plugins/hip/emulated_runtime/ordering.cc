#include "plugins/hip/emulated_runtime/ordering.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {

void VectorClock::Join(const VectorClock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size(), 0);
  for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

void VectorClock::Set(int stream, uint64_t time) {
  const size_t index = static_cast<size_t>(stream);
  if (times_.size() <= index) times_.resize(index + 1, 0);
  times_[index] = time;
}

uint64_t VectorClock::Get(int stream) const {
  const size_t index = static_cast<size_t>(stream);
  return index < times_.size() ? times_[index] : 0;
}

int OrderTracker::AddStream() {
  MutexLock lock(mu_);
  if (!unused_.empty()) {
    const int stream = unused_.back();
    unused_.pop_back();
    return stream;
  }
  streams_.emplace_back();
  return static_cast<int>(streams_.size()) - 1;
}

void OrderTracker::RemoveStream(int stream) {
  MutexLock lock(mu_);
  unused_.push_back(stream);
}

OperationPtr OrderTracker::Begin(int stream, std::string text) {
  auto operation = std::make_shared<Operation>();
  operation->stream = stream;
  operation->text = std::move(text);
  MutexLock lock(mu_);
  VectorClock& clock = streams_[static_cast<size_t>(stream)];
  clock.Join(host_);
  operation->time = clock.Get(stream) + 1;
  clock.Set(stream, operation->time);
  operation->clock = clock;
  return operation;
}

void OrderTracker::Order(int stream, const VectorClock& clock) {
  MutexLock lock(mu_);
  streams_[static_cast<size_t>(stream)].Join(clock);
}

void OrderTracker::RecordHostWait(const VectorClock& clock) {
  MutexLock lock(mu_);
  host_.Join(clock);
}

VectorClock OrderTracker::GetClock(int stream) const {
  MutexLock lock(mu_);
  return streams_[static_cast<size_t>(stream)];
}

void AccessLog::SplitAt(uint64_t at) {
  auto after = cells_.upper_bound(at);
  if (after == cells_.begin()) return;
  auto cell = std::prev(after);
  if (cell->first == at || cell->second.end <= at) return;
  Cell second = cell->second;
  cell->second.end = at;
  cells_.emplace_hint(after, at, std::move(second));
}

std::optional<std::string> AccessLog::Record(const OperationPtr& operation, uint64_t begin, uint64_t end, bool write) {
  if (begin >= end) return std::nullopt;
  const auto is_of_same_launch = [&](const OperationPtr& earlier) {
    return earlier->stream == operation->stream && earlier->time == operation->time && earlier->node >= 0;
  };
  const auto is_before = [&](const OperationPtr& earlier) {
    if (is_of_same_launch(earlier)) {
      return earlier->node == operation->node || (*operation->nodes_before)[static_cast<size_t>(earlier->node)];
    }
    return operation->clock.Get(earlier->stream) >= earlier->time;
  };
  MutexLock lock(mu_);
  SplitAt(begin);
  SplitAt(end);
  const OperationPtr* conflict = nullptr;
  bool conflict_writes = false;
  uint64_t conflict_begin = 0;
  auto cell = cells_.lower_bound(begin);
  for (auto it = cell; it != cells_.end() && it->first < end && conflict == nullptr; ++it) {
    if (it->second.writer != nullptr && !is_before(it->second.writer)) {
      conflict = &it->second.writer;
      conflict_writes = true;
    }
    for (size_t i = 0; write && conflict == nullptr && i < it->second.readers.size(); ++i) {
      if (!is_before(it->second.readers[i])) conflict = &it->second.readers[i];
    }
    conflict_begin = it->first;
  }
  if (conflict != nullptr) {
    return absl::StrCat(is_of_same_launch(*conflict) ? "no order between nodes: " : "no order between streams: ",
                        operation->text, write ? " writes" : " reads", " device memory at 0x",
                        absl::Hex(conflict_begin), " that ", (*conflict)->text, conflict_writes ? " writes" : " reads",
                        is_of_same_launch(*conflict) ? ", and no dependency within the graph orders the two"
                                                     : ", and neither an event nor a synchronize orders the two");
  }
  if (write) {
    cells_.erase(cell, cells_.lower_bound(end));
    cells_.emplace(begin, Cell{end, operation, {}});
    return std::nullopt;
  }
  uint64_t at = begin;
  while (at < end) {
    if (cell == cells_.end() || cell->first > at) {  // a gap that nothing has accessed
      const uint64_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{gap_end, nullptr, {}});
    }
    std::vector<OperationPtr>& readers = cell->second.readers;
    // Earlier readers of the stream are before this one; other nodes of the launch need not be.
    readers.erase(std::remove_if(readers.begin(), readers.end(),
                                 [&](const OperationPtr& reader) {
                                   return reader->stream == operation->stream && reader->time <= operation->time &&
                                          (!is_of_same_launch(reader) || reader->node == operation->node);
                                 }),
                  readers.end());
    const bool is_known = std::any_of(readers.begin(), readers.end(), [&](const OperationPtr& reader) {
      return reader->stream == operation->stream && reader->time > operation->time;
    });
    if (!is_known) readers.push_back(operation);
    at = cell->second.end;
    ++cell;
  }
  return std::nullopt;
}

void AccessLog::Forget(uint64_t begin, uint64_t end) {
  MutexLock lock(mu_);
  SplitAt(begin);
  SplitAt(end);
  cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
}

}  // namespace backplane::hip::emulated
