// Collectives between the devices of one process, by copies between their memories and kernels that combine what was
// copied: all-reduce, reduce-scatter, all-gather, all-to-all, collective-permute and collective-broadcast.
//
// Each member of a group enqueues its own part: it copies what it needs from the others to its memory. The host waits
// at the beginning, until all members have enqueued what comes before, and at the end, until all have enqueued their
// part; it never waits for a device. Reductions combine the operands in the order of the group on all devices, so all
// results have the same bits.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_COLLECTIVE_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_COLLECTIVE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/analysis/process_groups.h"
#include "plugins/hip/libraries/collective_library.h"
#include "plugins/hip/program/step.h"

namespace backplane::hip {

// A member of a collective's group, as the others see it.
struct Peer {
  int device = 0;
  std::vector<void*> operands;  // addresses of the leaves, on its device
};

// What a member needs of a vendor's library, so that this can do a collective in the place of copies.
struct CollectiveOffer {
  const std::vector<ArrayCollective>* arrays = nullptr;  // the same for all members
  std::vector<void*> results;                            // by array
  // Does this member's part by copies, with other operands and results of the same shapes, on the queue of the program.
  std::function<absl::Status(absl::Span<const Peer> peers, absl::Span<void* const> results)> run_copies;
  bool is_done = false;  // set if the library does it
};

// How the program on one device works with those on the other devices of its launch. Used by one thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int64_t process() const = 0;  // of this device

  // Waits until all members of the group have called it for the instruction as often as this one. What this queue runs
  // afterwards is after all that the members had enqueued by then. Returns the members in the order of the group. Their
  // memory stays valid until the work of this queue has ended. If all members give an `offer`, a library may enqueue
  // the whole collective; otherwise it is null.
  virtual absl::StatusOr<std::vector<Peer>> Synchronize(const Instruction& collective, absl::Span<const int64_t> group,
                                                        size_t position, std::vector<void*> operands,
                                                        CollectiveOffer* offer) = 0;
};

class CollectiveStep : public Step {
 public:
  // The kernel that combines one array of each member. It has an operand for each member, and a result.
  struct Combiner {
    int kernel = 0;
    uint32_t blocks = 1, threads = 1;
  };
  // Makes a combiner for `members` arrays of `elements` elements each. The error says why there is none.
  using MakeCombiner = absl::FunctionRef<absl::StatusOr<Combiner>(const Computation& reducer, PrimitiveType type,
                                                                  int64_t members, int64_t elements)>;

  // `operands` and `results` are the slots of the leaves. Returns Unimplemented, with the reason, if the host must run
  // the collective.
  static absl::StatusOr<std::unique_ptr<CollectiveStep>> Make(const Instruction& collective, int64_t replicas,
                                                              int64_t partitions, std::vector<SlotId> operands,
                                                              std::vector<SlotId> results, MakeCombiner make_combiner);

  absl::Status Run(const RunState& state) const override;
  StartCount CountStarts() const override { return std::nullopt; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  // One array of each member. It has `rows` rows; a row has one block of `bytes` for each member, or is one block.
  struct Leaf {
    PrimitiveType type = PrimitiveType::kInvalid;
    int64_t rows = 1, bytes = 0;
    int64_t size = 0;  // bytes of the result
    Combiner combiner;
  };

  explicit CollectiveStep(const Instruction& collective) : collective_(collective) {}
  absl::Status FindGroups(int64_t replicas, int64_t partitions);
  absl::Status DescribeLeaves(MakeCombiner make_combiner);
  // Describes the collective of a group for libraries. Returns no array if they do not do it.
  std::vector<ArrayCollective> DescribeArrays(absl::Span<const int64_t> group) const;
  absl::Status Move(const RunState& state, absl::Span<const Peer> peers, absl::Span<void* const> results,
                    absl::Span<const int64_t> group, size_t position) const;
  absl::Status Combine(const RunState& state, absl::Span<const Peer> peers, void* result, size_t position,
                       size_t leaf) const;

  const Instruction& collective_;
  std::vector<SlotId> operands_, results_;
  ProcessGroups groups_;
  std::vector<std::pair<int, int>> membership_;       // by process: group and position; (-1, -1): none
  std::vector<int64_t> source_of_;                    // collective-permute: by target process; -1: none
  std::vector<Leaf> leaves_;                          // by result
  std::vector<std::vector<ArrayCollective>> arrays_;  // by group and result; none: libraries do not do it
  int64_t scratch_bytes_ = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_COLLECTIVE_H_
