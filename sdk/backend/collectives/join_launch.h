// One device's part of a launch, by what the host asked for.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_

#include <chrono>
#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane {

// Joins the launch that `request` belongs to, as the member that the request names. Call it in Execute, before anything
// can fail: the other devices wait for a member that never joins until `time_limit`.
std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
