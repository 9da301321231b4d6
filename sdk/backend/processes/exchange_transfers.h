// Copies of arrays between processes by the messages of a LaunchExchangeService.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_EXCHANGE_TRANSFERS_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_EXCHANGE_TRANSFERS_H_

#include <chrono>
#include <memory>

#include "sdk/backend/processes/launch_exchange.h"
#include "sdk/backend/transfer_service.h"

namespace backplane {

// A transfer is sent as a dense row-major array. A storage of host memory that has this form is sent from and received
// into without a copy. Transfers from one process to another run one after another, by one task of the client (its
// Schedule), which waits for the other process up to the time limit. An error ends one transfer, with two exceptions:
// nothing more arrives from a process that is lost, and when a transfer reaches its time limit, those that wait behind
// it end as well.
class ExchangeTransfers : public TransferService {
 public:
  // `client` makes the copies and runs the tasks. `service` null: every transfer is an error.
  ExchangeTransfers(Client* client, std::shared_ptr<LaunchExchangeService> service,
                    std::chrono::milliseconds time_limit);
  ~ExchangeTransfers() override;
  Event StartSend(DeviceArray src, const ArrayTransfer& transfer) override;
  Event StartReceive(DeviceArray dst, const ArrayTransfer& transfer) override;

 private:
  struct Pending;
  struct State;
  Event Start(bool sends, DeviceArray array, const ArrayTransfer& transfer);

  const std::shared_ptr<State> state_;  // tasks hold it, too
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_EXCHANGE_TRANSFERS_H_
