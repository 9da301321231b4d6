// The collectives and transfers of one program. They are created when the program is compiled, so that invalid groups
// are reported by the compilation.
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
  // Uses the module's numbers of replicas and partitions. The module must outlive the result.
  static absl::StatusOr<Collectives> Create(const Module& module);

  // Runs a collective, or a transfer between devices. Blocks until the whole group has arrived or, for a recv-done,
  // until the data has arrived.
  absl::StatusOr<Literal> Run(const Instruction& op, absl::Span<const Literal* const> operands,
                              LaunchMember& member) const;

  // Runs a transfer to or from the host, including infeed and outfeed.
  absl::StatusOr<Literal> RunHostTransfer(const Instruction& op, absl::Span<const Literal* const> operands,
                                          const ExecuteContext* context) const;

 private:
  absl::flat_hash_map<const Instruction*, std::unique_ptr<HostCollective>> plans_;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Transfer>> transfers_;  // sends and recv-dones
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_COLLECTIVES_H_
