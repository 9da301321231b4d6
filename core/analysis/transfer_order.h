// The order of sends and receives between devices.
//
// A send leaves its bytes and goes on; a recv-done waits until the device that sends to it has sent. One list of
// instructions runs on all devices, so a recv-done that stands before the send of its channel waits for ever where the
// pairs go in a ring.
#ifndef BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_
#define BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_

#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane {

// Sources and targets of a send or recv: its source_target_pairs, or what XLA writes into the frontend attribute
// _xla_send_recv_source_target_pairs instead. InvalidArgument where that is no list of pairs.
absl::StatusOr<Pairs> TransferPairs(const Instruction& start);

// Puts what waits behind the sends it waits for, in every computation and as far as operands and control predecessors
// allow; new control predecessors keep that order for later passes. True where something was moved.
//
// InvalidArgument [channel_cycle], naming devices and instructions, where no order lets all devices go on. What
// operands forbid may still be right, where the pairs make a chain: the first device waits for nobody. So the transfers
// of the whole module are gone through once for all devices together. Branches count as if each device went through all
// of them and took part where the pairs name it; loops as if they ran once. A channel with several sends or receipts is
// left out: which of them meet is not known before.
absl::StatusOr<bool> OrderTransfers(Module* module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_TRANSFER_ORDER_H_
