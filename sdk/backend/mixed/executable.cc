#include "sdk/backend/mixed/executable.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/proto/hlo_proto.h"
#include "core/passes/calls.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/passes.h"
#include "core/types/status_macros.h"

namespace backplane::mixed {
namespace {

// The first line of a serialized executable. The second line is the backend's version.
constexpr absl::string_view kMagic = "backplane.mixed.1\n";

std::string KindOf(const std::vector<std::string>& kinds, size_t i) {
  return i < kinds.size() && !kinds[i].empty() ? kinds[i] : "device";
}

// Appends the leaves of a shape, with the layouts of `asked`, or row-major if that is null.
void AddLeaves(const Shape& shape, const Shape* asked, std::vector<Shape>* out) {
  if (shape.IsTuple()) {
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      const bool has = asked != nullptr && asked->IsTuple() && asked->tuple_size() == shape.tuple_size();
      AddLeaves(shape.tuple_shapes(i), has ? &asked->tuple_shapes(i) : nullptr, out);
    }
    return;
  }
  Shape leaf = shape.WithoutLayout();
  if (leaf.IsArray()) {
    if (asked != nullptr && asked->IsArray() && asked->has_layout()) {
      leaf.set_layout(asked->layout());
    } else {
      leaf.set_row_major();
    }
  }
  out->push_back(std::move(leaf));
}

// Returns the number of the leaf at `index`, or -1 if there is no such leaf.
int64_t LeafNumber(const Shape& shape, const Ints& index) {
  int64_t number = -1, at = 0;
  ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>& i) {
    if (i == index) number = at;
    ++at;
  });
  return number;
}

}  // namespace

absl::Status MixedExecutable::Describe() {
  const ModuleConfig& config = module_->config();
  const Computation* entry = module_->entry();
  std::vector<int64_t> first_leaf;
  for (size_t i = 0; i < entry->parameters().size(); ++i) {
    first_leaf.push_back(static_cast<int64_t>(parameters_.size()));
    std::vector<Shape> leaves;
    AddLeaves(entry->parameter(static_cast<int64_t>(i))->shape(),
              i < config.parameter_layouts.size() ? &config.parameter_layouts[i] : nullptr, &leaves);
    for (Shape& leaf : leaves)
      parameters_.push_back({std::move(leaf), KindOf(config.parameter_memory_kinds, i), false});
  }
  std::vector<Shape> leaves;
  AddLeaves(entry->root()->shape(), &config.result_layout, &leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    outputs_.push_back({std::move(leaves[i]), KindOf(config.result_memory_kinds, i)});
  alias_of_output_.assign(outputs_.size(), -1);
  auto parameter_leaf = [&](int64_t parameter, const Ints& index) -> absl::StatusOr<int64_t> {
    if (parameter < 0 || parameter >= static_cast<int64_t>(first_leaf.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(module_->name(), ": donates parameter ", parameter, " of ", first_leaf.size()));
    }
    const int64_t leaf = LeafNumber(entry->parameter(parameter)->shape(), index);
    if (leaf < 0)
      return absl::InvalidArgumentError(absl::StrCat(module_->name(), ": donates no leaf of parameter ", parameter));
    return first_leaf[parameter] + leaf;
  };
  for (const InputOutputAlias& alias : config.input_output_aliases) {
    ASSIGN_OR_RETURN(int64_t leaf, parameter_leaf(alias.parameter, alias.parameter_index));
    parameters_[leaf].donated = true;
    const int64_t output = LeafNumber(entry->root()->shape(), alias.output_index);
    if (output >= 0) alias_of_output_[output] = leaf;
  }
  for (const BufferDonor& donor : config.buffer_donors) {
    ASSIGN_OR_RETURN(int64_t leaf, parameter_leaf(donor.parameter, donor.parameter_index));
    ParameterInfo& parameter = parameters_[leaf];
    // A donated parameter is paired with the first output of the same shape that has no alias yet. If there is none,
    // the parameter is not donated.
    for (size_t i = 0; i < outputs_.size() && !parameter.donated; ++i) {
      if (alias_of_output_[i] >= 0 || !outputs_[i].shape.Identical(parameter.shape) ||
          outputs_[i].memory_kind != parameter.memory_kind) {
        continue;
      }
      alias_of_output_[i] = leaf;
      parameter.donated = true;
    }
  }
  return absl::OkStatus();
}

// Finds the outputs that a kernel can write in place: those that are exactly the result of a claimed instruction.
void MixedExecutable::FindWriters() {
  const Instruction* root = module_->entry()->root();
  writer_of_output_.assign(outputs_.size(), nullptr);
  std::vector<const Instruction*> roots;
  if (root->Is(Opcode::kTuple) && !program_->KernelOf(root)) {
    roots.assign(root->operands().begin(), root->operands().end());
  } else {
    roots.push_back(root);
  }
  if (roots.size() != outputs_.size()) return;  // tuples in tuples
  for (size_t i = 0; i < roots.size(); ++i) {
    const bool once = std::count(roots.begin(), roots.end(), roots[i]) == 1;
    const bool plain = roots[i]->shape().IsArray() && outputs_[i].shape.layout().IsRowMajor();
    if (once && plain && program_->KernelOf(roots[i]) != nullptr) writer_of_output_[i] = roots[i];
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
  RETURN_IF_ERROR(out->Describe());
  out->FindWriters();
  return out;
}

NamedValues MixedExecutable::cost() const {
  Cost total;
  for (const Computation* computation : module_->PostOrder()) {
    for (const auto& instruction : computation->instructions()) {
      Instruction::ContextStorage storage;
      const Cost cost = CostOf(instruction->Context(storage), instruction->shape());
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
  auto bytes = [](const Shape& shape) { return static_cast<int64_t>(StorageBytes(shape)); };
  CompiledMemoryStats stats;
  for (const ParameterInfo& p : parameters_) stats.argument += bytes(p.shape);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    stats.output += bytes(outputs_[i].shape);
    if (alias_of_output_[i] >= 0) stats.alias += bytes(outputs_[i].shape);
  }
  // An upper bound, because values are freed after their last use.
  for (const auto& instruction : module_->entry()->instructions()) {
    if (instruction->Is(Opcode::kParameter)) continue;
    ForEachLeaf(instruction->shape(),
                [&](const Shape& leaf, const std::vector<int64_t>&) { stats.temp += bytes(leaf); });
  }
  stats.total = stats.peak = stats.argument + stats.output - stats.alias + stats.temp;
  return stats;
}

absl::StatusOr<std::string> MixedExecutable::Serialize() const {
  ASSIGN_OR_RETURN(std::string module, SerializeHloModule(*module_));
  const std::string options = SerializeCompileOptions(options_);
  std::string out = absl::StrCat(kMagic, version_, "\n");
  const uint64_t size = options.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return out + options + module;
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
  RETURN_IF_ERROR(CommonPipeline()->Run(module.get()).status());
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
  uint64_t size = 0;
  const std::string head = absl::StrCat(kMagic, version, "\n");
  if (bytes.substr(0, head.size()) != head || bytes.size() < head.size() + sizeof(size)) {
    return absl::FailedPreconditionError(absl::StrCat("serialized executable: was not made by ", version));
  }
  bytes.remove_prefix(head.size());
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size()) return absl::InvalidArgumentError("serialized executable: cut short");
  ASSIGN_OR_RETURN(CompileOptions options, ParseCompileOptions(bytes.substr(0, size)));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ParseHloModuleProto(bytes.substr(size)));
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  ASSIGN_OR_RETURN(std::shared_ptr<MixedExecutable> executable,
                   MixedExecutable::Create(std::move(module), std::move(options), version, claims, registry,
                                           "loaded from serialized form\n"));
  return std::shared_ptr<Executable>(std::move(executable));
}

}  // namespace backplane::mixed
