// Orders sends and receives between devices so that no device waits for ever.
//
// A send does not block. A recv-done blocks until its source device has sent. All devices run the same instructions in
// the same order. If a recv-done precedes the send of its channel and the source-target pairs form a ring, every device
// waits for another one: a deadlock.
#ifndef BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_
#define BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_

#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane {

// Returns the (source, target) pairs of a send or recv: its source_target_pairs, else the frontend attribute
// _xla_send_recv_source_target_pairs that XLA writes. Returns InvalidArgument if that attribute is no list of pairs.
absl::StatusOr<Pairs> GetTransferPairs(const Instruction& start);

// Moves each recv-done behind the send of its channel where operands and control predecessors allow it, in every
// computation. Adds control predecessors so that later passes keep the order. Returns whether anything moved.
//
// Returns InvalidArgument [channel_cycle], naming devices and instructions, if the devices would deadlock in the final
// order. A recv-done that must precede its send is not always an error: if the pairs form a chain, the first device
// does not wait. The check therefore simulates the transfers of the whole module on all devices. It assumes that a
// device executes all branches of a conditional and executes a loop body once. It ignores channels with several sends
// or several receives, because it cannot tell statically which of them match.
absl::StatusOr<bool> OrderTransfers(Module* module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_
