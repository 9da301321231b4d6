#include "sdk/backend/mixed/executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/calls.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/passes.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/backend/serialized_executable.h"

namespace backplane::mixed {

// Finds the outputs that a kernel can write in place: those that are exactly the result of a claimed instruction.
void MixedExecutable::FindWriters() {
  const Instruction* root = module_->entry()->root();
  const std::vector<OutputInfo>& outputs = signature_.outputs;
  writer_of_output_.assign(outputs.size(), nullptr);
  std::vector<const Instruction*> roots;
  if (root->Is(Opcode::kTuple) && !program_->FindKernel(root)) {
    roots.assign(root->operands().begin(), root->operands().end());
  } else {
    roots.push_back(root);
  }
  if (roots.size() != outputs.size()) return;  // tuples in tuples
  for (size_t i = 0; i < roots.size(); ++i) {
    const bool once = std::count(roots.begin(), roots.end(), roots[i]) == 1;
    const bool plain = roots[i]->shape().IsArray() && outputs[i].shape.layout().IsRowMajor();
    if (once && plain && program_->FindKernel(roots[i]) != nullptr) writer_of_output_[i] = roots[i];
  }
}

absl::StatusOr<std::shared_ptr<MixedExecutable>> MixedExecutable::Create(
    std::unique_ptr<Module> module, CompileOptions options, const std::string& version, const Claims& claims,
    CustomCallRegistry& registry, std::string log) {
  std::shared_ptr<MixedExecutable> out(new MixedExecutable);
  out->module_ = std::move(module);
  out->options_ = std::move(options);
  out->version_ = version;
  out->fingerprint_ = out->module_->Fingerprint();
  ASSIGN_OR_RETURN(Assignment assignment, Assign(*out->module_, claims));
  out->log_ = absl::StrCat(log, assignment.log);
  out->program_ = std::make_unique<Program>(*out->module_, std::move(assignment));
  ASSIGN_OR_RETURN(out->collectives_, Collectives::Create(*out->module_));
  ASSIGN_OR_RETURN(out->custom_calls_, CustomCalls::Create(*out->module_, registry));
  ASSIGN_OR_RETURN(out->signature_, DescribeEntry(*out->module_, LayoutSource::kConfig));
  RETURN_IF_ERROR(AliasDonors(*out->module_, &out->signature_));
  out->FindWriters();
  return out;
}

NamedValues MixedExecutable::cost() const {
  Cost total;
  for (const Computation* computation : module_->PostOrder()) {
    for (const auto& instruction : computation->instructions()) {
      Instruction::ContextStorage storage;
      const Cost cost = EstimateCost(instruction->Context(storage), instruction->shape());
      total.flops += cost.flops;
      total.transcendentals += cost.transcendentals;
      total.bytes_accessed += cost.bytes_accessed;
    }
  }
  return {{"flops", static_cast<float>(total.flops)},
          {"transcendentals", static_cast<float>(total.transcendentals)},
          {"bytes accessed", static_cast<float>(total.bytes_accessed)}};
}

CompiledMemoryStats MixedExecutable::memory_stats() const {
  CompiledMemoryStats stats = ComputeEntryMemoryStats(signature_);
  // An upper bound, because values are freed after their last use.
  for (const auto& instruction : module_->entry()->instructions()) {
    if (instruction->Is(Opcode::kParameter)) continue;
    ForEachLeaf(instruction->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
      stats.temp += static_cast<int64_t>(StorageBytes(leaf));
    });
  }
  stats.total = stats.peak = stats.argument + stats.output - stats.alias + stats.temp;
  return stats;
}

absl::StatusOr<std::string> MixedExecutable::Serialize() const {
  ExecutableWriter writer(version_, "");
  writer.AddOptions(options_);
  RETURN_IF_ERROR(writer.AddModule(*module_));
  return std::move(writer).Take();
}

absl::StatusOr<std::shared_ptr<Executable>> CompileMixed(std::unique_ptr<Module> module, const CompileOptions& options,
                                                         const std::string& version, const Claims& claims,
                                                         CustomCallRegistry& registry,
                                                         const std::function<absl::Status(Module*)>& finish) {
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  std::vector<std::string> log;
  PartitionOptions partition{options.allow_spmd_sharding_propagation_to_output, &log,
                             options.allow_spmd_sharding_propagation_to_parameters};
  RETURN_IF_ERROR(CheckCallBudget(*module));
  PassPipeline devices("devices");
  devices.Add<PartitionModule>(std::move(partition));
  devices.Add<ExpandAsync>();
  devices.Add<SimplifyCollectives>();
  RETURN_IF_ERROR(devices.Run(module.get()).status());
  RETURN_IF_ERROR(MakeCommonPipeline()->Run(module.get()).status());
  RETURN_IF_ERROR(FormRegions(module.get(), claims.regions()).status());
  if (finish) RETURN_IF_ERROR(finish(module.get()));
  std::string text = absl::StrJoin(log, "\n");
  if (!text.empty()) text += "\n";
  ASSIGN_OR_RETURN(std::shared_ptr<MixedExecutable> executable,
                   MixedExecutable::Create(std::move(module), options, version, claims, registry, std::move(text)));
  return std::shared_ptr<Executable>(std::move(executable));
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeMixed(absl::string_view bytes, const std::string& version,
                                                             const Claims& claims, CustomCallRegistry& registry) {
  ASSIGN_OR_RETURN(ExecutableReader reader, ExecutableReader::Open(bytes, version, ""));
  ASSIGN_OR_RETURN(CompileOptions options, reader.ReadOptions());
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, reader.ReadModule("program", options));
  RETURN_IF_ERROR(reader.CheckAtEnd());
  ASSIGN_OR_RETURN(std::shared_ptr<MixedExecutable> executable,
                   MixedExecutable::Create(std::move(module), std::move(options), version, claims, registry,
                                           "loaded from serialized form\n"));
  return std::shared_ptr<Executable>(std::move(executable));
}

}  // namespace backplane::mixed
