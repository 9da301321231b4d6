// Adds a device to the launch of an execute request.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_

#include <chrono>
#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"

namespace backplane {

// What a program with devices in several nodes needs to launch. See rendezvous.h for nodes.
struct NodeLaunch {
  std::shared_ptr<LaunchExchangeService> service;  // null: all devices are in this node
  LaunchProgram program;
};

// Describes a program for its launches. `service` may be null. The digest covers the whole program, except what hosts
// write into custom calls, such as addresses of callbacks, because that may differ between the nodes.
NodeLaunch DescribeLaunch(std::shared_ptr<LaunchExchangeService> service, const Executable& executable);

// Joins the launch of `request` as the member for its replica and partition. Must be called in Execute before anything
// can fail, because the other devices wait up to `time_limit` for a member that never joins. `nodes` null: all devices
// are in this node.
std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit,
                                         const NodeLaunch* nodes = nullptr);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_JOIN_LAUNCH_H_
