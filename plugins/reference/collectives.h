// Collectives by their definition: every member of a group brings its operands, waits for the others, and works out its
// own result from all of them.
#ifndef BACKPLANE_PLUGINS_REFERENCE_COLLECTIVES_H_
#define BACKPLANE_PLUGINS_REFERENCE_COLLECTIVES_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/ir/module.h"

namespace backplane::reference {

// One launch of a program on all its devices. Thread-safe.
class Launch {
 public:
  Launch(int64_t replicas, int64_t partitions) : replicas_(replicas), partitions_(partitions) {}

  // One device's side: counts how often it came by each collective, so that the turns of loops find one another.
  class Member {
   public:
    Member(std::shared_ptr<Launch> launch, int64_t replica, int64_t partition)
        : launch_(std::move(launch)), replica_(replica), partition_(partition) {}
    // Blocks until all members of the group are here, or one of them has failed (Aborted).
    absl::StatusOr<Literal> Run(const Instruction& op, absl::Span<const Literal* const> operands);
    // The device has come to its end; an error frees those who wait for it.
    void Finish(const absl::Status& status) { launch_->Fail(status); }

   private:
    std::shared_ptr<Launch> launch_;
    const int64_t replica_, partition_;
    std::map<int64_t, int64_t> turns_;  // by instruction id
  };

  void Fail(const absl::Status& status);  // OK is no failure

 private:
  struct Meeting {
    std::vector<std::vector<Literal>> operands;  // by position in the group
    size_t arrived = 0, left = 0;
  };
  using Operands = std::vector<std::vector<Literal>>;
  absl::StatusOr<Operands> Meet(int64_t instruction, int64_t turn, const std::vector<int64_t>& group, size_t position,
                                std::vector<Literal> operands);

  const int64_t replicas_, partitions_;
  std::mutex mu_;
  std::condition_variable cv_;
  absl::Status failure_;                                               // under mu_
  std::map<std::tuple<int64_t, int64_t, int64_t>, Meeting> meetings_;  // under mu_; instruction, turn, first member
};

// The launches under way, by run id: devices of one launch come one after another and find the same object.
class Launches {
 public:
  std::shared_ptr<Launch> Join(int64_t run_id, int64_t replicas, int64_t partitions);

 private:
  struct Entry {
    std::shared_ptr<Launch> launch;
    int64_t missing;
  };
  std::mutex mu_;
  std::map<int64_t, Entry> entries_;  // under mu_; gone when all devices have joined
};

}  // namespace backplane::reference

#endif  // BACKPLANE_PLUGINS_REFERENCE_COLLECTIVES_H_
