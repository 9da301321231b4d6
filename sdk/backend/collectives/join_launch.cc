#include "sdk/backend/collectives/join_launch.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/fnv.h"

namespace backplane {

constexpr size_t kMaxParametersText = 200;

NodeLaunch DescribeLaunch(std::shared_ptr<LaunchExchangeService> service, const Executable& executable) {
  NodeLaunch out;
  if (service == nullptr) return out;
  out.service = std::move(service);
  LaunchProgram& program = out.program;
  program.name = executable.name();
  const ExecutableSignature& signature = executable.signature();
  program.arrays = Fnv1a64(absl::StrCat(signature.num_replicas, " ", signature.num_partitions));
  for (const ParameterInfo& p : signature.parameters) {
    const std::string shape = p.shape.ToString();
    program.arrays = Fnv1a64(p.shape.ToString(true), program.arrays);
    if (program.parameters.size() < kMaxParametersText)
      absl::StrAppend(&program.parameters, program.parameters.empty() ? "" : ", ", shape);
  }
  for (const OutputInfo& o : signature.outputs) program.arrays = Fnv1a64(o.shape.ToString(true), program.arrays);
  program.digest = Fnv1a64(absl::StrCat(program.name, " ", program.arrays));
  const Module* module = executable.optimized_module();
  if (module == nullptr) {
    program.digest = Fnv1a64(executable.fingerprint(), program.digest);
    return out;
  }
  absl::flat_hash_map<const Computation*, size_t> computations;
  // Two nodes may have compiled the program and read it from a cache: the order of Module::computations() differs then.
  for (const Computation* computation : module->PostOrder()) {
    computations.emplace(computation, computations.size());
    absl::flat_hash_map<const Instruction*, size_t> positions;
    for (const auto& instruction : computation->instructions()) positions.emplace(instruction.get(), positions.size());
    for (const auto& instruction : computation->instructions()) {
      const Instruction& i = *instruction;
      ++program.num_instructions;
      program.operations = Fnv1a64(absl::StrCat(i.info().text, " ", i.shape().ToString()), program.operations);
      std::string rest = absl::StrCat(i.Is(Opcode::kCustomCall) ? 0 : i.HashWithoutOperands());
      for (const Instruction* operand : i.operands()) absl::StrAppend(&rest, " ", positions[operand]);
      for (const Computation* called : i.called()) absl::StrAppend(&rest, " @", computations[called]);
      program.digest = Fnv1a64(rest, program.digest);
    }
    program.digest = Fnv1a64(absl::StrCat(positions[computation->root()]), program.digest);
  }
  program.digest = Fnv1a64(absl::StrCat(program.operations), program.digest);
  return out;
}

namespace {

// The other devices count on this member from now on, so they must learn of it if there is no memory for it.
std::unique_ptr<LaunchMember> MakeMember(const std::shared_ptr<Launch>& launch, const ExecuteRequest& request) {
  try {
    return std::make_unique<LaunchMember>(launch, request.replica, request.partition);
  } catch (...) {
    launch->Fail(absl::Status(absl::StatusCode::kAborted, ""));
    throw;
  }
}

}  // namespace

std::unique_ptr<LaunchMember> JoinLaunch(LaunchRegistry& launches, const ExecuteRequest& request,
                                         const ExecutableSignature& signature, std::chrono::milliseconds time_limit,
                                         const NodeLaunch* nodes) {
  LaunchOptions options{signature.num_replicas, signature.num_partitions, time_limit, {}, {}, 0};
  options.devices.assign(request.device_assignment.begin(), request.device_assignment.end());
  if (nodes == nullptr || nodes->service == nullptr) return MakeMember(launches.Join(request.run_id, options), request);
  options.node = nodes->service->process();
  for (int32_t device : options.devices) options.node_of.push_back(nodes->service->GetProcess(device));
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
  return MakeMember(launches.Join(request.run_id, options, &connect), request);
}

}  // namespace backplane
