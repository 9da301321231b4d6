// Adds a device to the launch of an execute request.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_

#include <chrono>
#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane {

// Joins the launch of `request` as the member for its replica and partition. Must be called in Execute before anything
// can fail, because the other devices wait up to `time_limit` for a member that never joins.
std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
