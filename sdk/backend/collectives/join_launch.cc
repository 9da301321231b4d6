#include "sdk/backend/collectives/join_launch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fnv.h"

namespace backplane {

NodeLaunch DescribeLaunch(std::shared_ptr<LaunchExchangeService> service, const Executable& executable) {
  NodeLaunch out;
  if (service == nullptr) return out;
  out.service = std::move(service);
  out.program.name = executable.name();
  const ExecutableSignature& signature = executable.signature();
  uint64_t digest =
      Fnv1a64(absl::StrCat(executable.name(), " ", signature.num_replicas, " ", signature.num_partitions));
  for (const ParameterInfo& p : signature.parameters) digest = Fnv1a64(p.shape.ToString(true), digest);
  for (const OutputInfo& o : signature.outputs) digest = Fnv1a64(o.shape.ToString(true), digest);
  const Module* module = executable.optimized_module();
  if (module == nullptr) {
    out.program.digest = Fnv1a64(executable.fingerprint(), digest);
    return out;
  }
  for (const auto& computation : module->computations()) {
    for (const auto& instruction : computation->instructions()) {
      const Instruction& i = *instruction;
      const uint64_t own = i.Is(Opcode::kCustomCall) ? 0 : i.HashWithoutOperands();
      digest = Fnv1a64(absl::StrCat(i.info().text, " ", i.shape().ToString(), " ", own), digest);
    }
  }
  out.program.digest = digest;
  return out;
}

std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit,
                                         const NodeLaunch* nodes) {
  LaunchOptions options{signature.num_replicas, signature.num_partitions, time_limit, {}, {}, 0};
  options.devices.assign(request.device_assignment.begin(), request.device_assignment.end());
  if (nodes == nullptr || nodes->service == nullptr)
    return std::make_unique<LaunchMember>(launches.Join(request.run_id, options), request.replica, request.partition);
  options.node = nodes->service->process();
  for (int32_t device : options.devices) options.node_of.push_back(nodes->service->ProcessOf(device));
  auto join = [&](const std::shared_ptr<Launch>& launch) {
    std::vector<int32_t> all = options.node_of;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return nodes->service->JoinLaunch(std::move(all), nodes->program, time_limit,
                                      [weak = std::weak_ptr<Launch>(launch)](const absl::Status& why) {
                                        if (auto shared = weak.lock()) shared->Fail(why);
                                      });
  };
  const LaunchRegistry::ConnectNodes connect(join);
  return std::make_unique<LaunchMember>(launches.Join(request.run_id, options, &connect), request.replica,
                                        request.partition);
}

}  // namespace backplane
