// The collectives and transfers of one program: planned when it is compiled, so that groups that do not fit are an
// error there.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_COLLECTIVES_H_
#define BACKPLANE_SDK_BACKEND_MIXED_COLLECTIVES_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "sdk/backend/collectives/host_collective.h"
#include "sdk/backend/collectives/transfer.h"

namespace backplane::mixed {

class Collectives {
 public:
  // For the module's numbers of replicas and partitions. The module must outlive it.
  static absl::StatusOr<Collectives> Create(const Module& module);

  // Blocks until the whole group has come, or what was sent here.
  absl::StatusOr<Literal> Run(const Instruction& op, absl::Span<const Literal* const> operands,
                              LaunchMember& member) const;

  // Sends to the host and receives from it, infeed and outfeed among them.
  absl::StatusOr<Literal> RunHostTransfer(const Instruction& op, absl::Span<const Literal* const> operands,
                                          const ExecuteContext* context) const;

 private:
  absl::flat_hash_map<const Instruction*, std::unique_ptr<HostCollective>> plans_;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Transfer>> transfers_;  // sends and recv-dones
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_COLLECTIVES_H_
