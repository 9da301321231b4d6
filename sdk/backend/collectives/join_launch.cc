#include "sdk/backend/collectives/join_launch.h"

namespace backplane {

std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit) {
  LaunchOptions options{signature.num_replicas, signature.num_partitions, time_limit, {}};
  options.devices.assign(request.device_assignment.begin(), request.device_assignment.end());
  return std::make_unique<LaunchMember>(launches.Join(request.run_id, options), request.replica, request.partition);
}

}  // namespace backplane
