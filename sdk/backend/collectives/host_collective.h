// Collectives between devices of one process whose memory the processor can read: all-gather, all-reduce,
// reduce-scatter, all-to-all (array and tuple), ragged-all-to-all, collective-broadcast and collective-permute, in
// every group mode (core/analysis/process_groups.h), with several operands where the operation takes them.
//
// A plan is made once when a program is compiled and run by every device in every launch. Arrays are dense and
// row-major. The device that comes last does the work for its group, block by block so that a block of a reduction
// stays in the nearest cache, and may spread the blocks over threads. Reductions add up in the order of the group's
// members on all devices alike, so results agree to the bit.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/analysis/process_groups.h"
#include "sdk/backend/collectives/combiner.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane {

class HostCollective {
 public:
  // Runs body(0) ... body(chunks - 1) in any order, on one thread or several, and returns when all are done.
  using ParallelFor = absl::FunctionRef<void(int64_t chunks, absl::FunctionRef<void(int64_t chunk)> body)>;

  // InvalidArgument where groups or shapes do not fit so many replicas and partitions; Unimplemented, naming it, for
  // an operation that is no collective of the list above. The instruction's computation must outlive the plan.
  static absl::StatusOr<std::unique_ptr<HostCollective>> Make(const Instruction& op, int64_t replicas,
                                                              int64_t partitions);

  // One member's part: `operands` and `results` are the addresses of the leaves, in order. Blocks until the group is
  // through; errors are those of Launch::Meet, and InvalidArgument for ragged rows out of bounds.
  absl::Status Run(LaunchMember& member, absl::Span<const void* const> operands, absl::Span<void* const> results,
                   ParallelFor parallel) const;

  // Bytes that all members of a group read and write together, for estimates of time.
  int64_t group_bytes() const;

 private:
  struct Leaf {
    Shape shape;
    int64_t width = 0, elements = 0;
  };
  struct Brought {
    absl::Span<const void* const> operands;
    absl::Span<void* const> results;
  };
  // Work on so many independent chunks.
  struct Split {
    int64_t outer = 1, block = 0;  // rows before the dimension, bytes of one member's block of it
  };

  HostCollective() = default;
  absl::Status Prepare(const Instruction& op, int64_t replicas, int64_t partitions);
  absl::Status Work(absl::Span<void* const> brought, absl::Span<const int64_t> group, ParallelFor parallel) const;
  absl::Status Reduce(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const;
  absl::Status Scatter(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const;
  absl::Status Ragged(absl::Span<const Brought> members, ParallelFor parallel) const;
  void Gather(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const;
  void Exchange(absl::Span<const Brought> members, ParallelFor parallel) const;
  void Permute(absl::Span<const Brought> members, absl::Span<const int64_t> group, ParallelFor parallel) const;
  Split SplitAlong(const Leaf& small) const;
  void Zero(absl::Span<void* const> results) const;

  Opcode opcode_{};
  std::string name_;
  int64_t id_ = 0;
  int64_t dimension_ = 0;
  bool tuple_form_ = false;  // all-to-all
  std::vector<Leaf> operands_, results_;
  std::vector<Combiner> combiners_;  // one for each operand leaf
  ProcessGroups groups_;
  std::vector<int64_t> source_of_;                     // collective-permute: by target process; -1: none
  std::vector<std::pair<int32_t, int32_t>> place_of_;  // by process: group and position; (-1, -1): in none
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_HOST_COLLECTIVE_H_
