// Copies of arrays between the processes of a program, outside of programs.
#ifndef BACKPLANE_SDK_BACKEND_TRANSFER_SERVICE_H_
#define BACKPLANE_SDK_BACKEND_TRANSFER_SERVICE_H_

#include <cstdint>

#include "sdk/backend/backend.h"
#include "sdk/backend/event.h"

namespace backplane {

// Which transfer it is. Both processes name it alike.
struct ArrayTransfer {
  int32_t source = 0, target = 0;  // device ids; exactly one of the devices belongs to this process
  int64_t key = 0;                 // chosen by the host
};

// Thread-safe. Two processes must name the transfers between them, in both directions, and the programs that they run
// together, in the same order.
//
// The functions return without waiting. All errors are reported through the returned events, never otherwise. A
// transfer holds references to its storage until it ends, and drops them before it sets the event. The client must live
// until all events are set. ExchangeTransfers (processes/exchange_transfers.h) implements this over messages; a vendor
// may implement it over hardware of its own.
class TransferService {
 public:
  virtual ~TransferService() = default;
  // Sends an array of this process when its `ready` is set. If it has an error or no storage, the receiver gets an
  // error with the same message.
  virtual Event StartSend(DeviceArray src, const ArrayTransfer& transfer) = 0;
  // Fills an array of this process with what the other one sends: the same type and dimensions, whatever the layouts.
  // If `dst` has no storage, both sides get the error of its `ready`.
  virtual Event StartReceive(DeviceArray dst, const ArrayTransfer& transfer) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_TRANSFER_SERVICE_H_
